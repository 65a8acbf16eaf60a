//! How fast logs are read, in each format: `cargo bench -p prony-replay`. One core, in order.

use std::fmt::Write as _;
use std::time::Instant;

use prony_replay::{Format, Log, Options};

const LINES: u64 = 400_000;

type Write = fn(&mut String, u64);

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)";

fn combined(text: &mut String, i: u64) {
    let (minute, second) = (i / 20_000 / 60, i / 20_000 % 60);
    writeln!(
        text,
        "10.1.{}.{} - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /item/{i}?page={} \
         HTTP/1.1\" 200 {i} \"https://www.example.com/list\" \"{AGENT}\"",
        i / 256 % 256,
        i % 256,
        i % 7,
    )
    .expect("text");
}

fn nginx(text: &mut String, i: u64) {
    let (s, ms) = (1_700_000_000 + i / 20_000, i / 20 % 1000);
    writeln!(
        text,
        "10.1.{}.{} [{s}.{ms:03}] \"GET /item/{i}?page={} HTTP/1.1\" 200 0.{:03} \"{AGENT}\"",
        i / 256 % 256,
        i % 256,
        i % 7,
        i * 7 % 100,
    )
    .expect("text");
}

fn alb(text: &mut String, i: u64) {
    let (s, us) = (i / 20_000, i % 20_000 * 50);
    writeln!(
        text,
        "https 2018-07-02T22:{:02}:{:02}.{us:06}Z app/lb/50dc6c495c0c9188 10.1.{}.{}:2817 \
         10.0.0.1:80 0.000 0.0{} 0.000 200 200 34 366 \"GET https://www.example.com:443/item/{i} \
         HTTP/1.1\" \"{AGENT}\" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elb:x \"Root=1-58\"",
        s / 60,
        s % 60,
        i / 256 % 256,
        i % 256,
        i % 100,
    )
    .expect("text");
}

fn caddy(text: &mut String, i: u64) {
    let (s, us) = (1_700_000_000 + i / 20_000, i % 20_000 * 50);
    writeln!(
        text,
        "{{\"level\":\"info\",\"ts\":{s}.{us:06},\"logger\":\"http.log.access\",\"msg\":\"handled \
         request\",\"request\":{{\"remote_ip\":\"10.1.{}.{}\",\"remote_port\":\"41342\",\
         \"client_ip\":\"10.1.0.1\",\"proto\":\"HTTP/2.0\",\"method\":\"GET\",\"host\":\
         \"example.com\",\"uri\":\"/item/{i}\",\"headers\":{{\"User-Agent\":[\"{AGENT}\"],\
         \"Accept\":[\"*/*\"]}},\"tls\":{{\"resumed\":false,\"version\":772}}}},\"bytes_read\":0,\
         \"user_id\":\"\",\"duration\":0.00{},\"size\":10900,\"status\":200,\"resp_headers\":\
         {{\"Server\":[\"Caddy\"],\"Content-Type\":[\"text/html\"]}}}}",
        i / 256 % 256,
        i % 256,
        i % 1000,
    )
    .expect("text");
}

fn main() {
    let nginx_format =
        "$remote_addr [$msec] \"$request\" $status $request_time \"$http_user_agent\"";
    let formats: [(&str, &str, Write); 4] = [
        ("combined", "combined", combined),
        ("nginx with $request_time", nginx_format, nginx),
        ("alb", "alb", alb),
        ("caddy", "caddy", caddy),
    ];
    for (name, format, write) in formats {
        let mut text = String::new();
        (0..LINES).for_each(|i| write(&mut text, i));
        let window = Options::default().window;
        let (ordered, alone) = (measure(&text, format, window), measure(&text, format, 0));
        let bytes = text.len() as f64;
        println!(
            "{name}, {:.0} bytes a line: {:.0} MB/s, {:.0} ns a line; without a window {:.0} MB/s, \
             {:.0} ns",
            bytes / LINES as f64,
            bytes / ordered / 1e6,
            ordered / LINES as f64 * 1e9,
            bytes / alone / 1e6,
            alone / LINES as f64 * 1e9,
        );
    }
}

/// The seconds that it takes to read the log, the best of five.
fn measure(text: &str, format: &str, window: u64) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let format = Format::parse(format).ok();
        let began = Instant::now();
        let options = Options { format, window, ..Options::default() };
        let mut log = Log::open(text.as_bytes(), options).expect("a log");
        let mut n = 0;
        while log.next_record().expect("a log").is_some() {
            n += 1;
        }
        best = best.min(began.elapsed().as_secs_f64());
        assert_eq!(n, LINES);
    }
    best
}
