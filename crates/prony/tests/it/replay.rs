//! `prony replay`: requests of a log, at its times, against a server that counts and records them.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tempfile::TempDir;

use crate::rig::{Report, Serve, alone, command, prony, served, slow, waiting};

pub(crate) const FORMAT: &str = "$remote_addr - [$msec] \"$request\" $status $request_time";
const SECOND: u64 = 1_000_000_000;

/// A simple generator of random numbers from 0 to 1.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Bursty times in nanoseconds since the first: bursts of exponential gaps at five times the rate,
/// and pauses between them.
pub(crate) fn bursty(n: usize, rate: f64) -> Vec<u64> {
    let mut random = Random(7);
    let mut at = 0.0;
    let next = |_| {
        let time = (at * 1e6) as u64 * 1000;
        let mean = if random.unit() < 0.02 { 40.0 } else { 0.2 };
        at += -(1.0 - random.unit()).ln() * mean / rate;
        time
    };
    (0..n).map(next).collect()
}

/// A log of nginx with these times. Each request took 5 ms; every tenth is a POST, one in a hundred
/// lines is bad.
pub(crate) fn log(times: &[u64]) -> String {
    let mut text = String::new();
    for (i, at) in times.iter().enumerate() {
        let end = 1_700_000_000 * SECOND + at + 5_000_000;
        let method = if i % 10 == 9 { "POST" } else { "GET" };
        let (s, us) = (end / SECOND, end % SECOND / 1000);
        let path = ["/item/", "/user/"][i % 2];
        writeln!(
            text,
            "10.0.0.{} - [{s}.{us:06}] \"{method} {path}{i}?q={i} HTTP/1.1\" 200 0.005",
            i % 20
        )
        .expect("text");
        if i % 100 == 50 {
            text += "this is no line of a log? secret\n";
        }
    }
    text
}

fn replay(log: &Path, more: &[&str]) -> (Report, serde_json::Value) {
    let server = Serve::start(&[]);
    let log = log.to_str().expect("UTF-8");
    let line = ["replay", log, "--log-format", FORMAT, "--accept-invalid", "--json", "--to"];
    let ended = prony(&[&line[..], &[&server.url("")[..], "--bad-lines", "2%"], more].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    (ended.report(), server.stop())
}

#[test]
fn requests_of_the_log_are_sent_and_counted() {
    let _waiting = waiting();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, log(&bursty(1000, 1000.0))).expect("written");
    let (report, counters) = replay(&path, &["-t", "2"]);
    report.check_sums();
    assert_eq!((report.count("started"), report.status(200)), (900, 900));
    assert_eq!(served(&counters, "requests"), 900);
    let run = &report.0["run"]["replay"];
    let log = &run["logs"][0];
    for (field, n) in
        [("lines", 1010), ("requests", 900), ("other_method", 100), ("bad", 10), ("spread", 0)]
    {
        assert_eq!(log[field], n, "{field}: {log}");
    }
    assert_eq!(log["first_bad"][0]["line"], 52);
    let bad = log["first_bad"][0]["text"].as_str().expect("a text");
    assert_eq!(bad, "this is no line of a log?...", "what may be secret is cut");
    assert_eq!(
        report.0["plan"]["names"],
        serde_json::json!(["GET /item/*", "GET /user/*", "other paths"])
    );
    assert_eq!(run["took"][0]["count"], 500);
    let item = &report.0["measurement"]["names"][0];
    assert_eq!((&item["started"], &item["statuses"]["200"]), (&500.into(), &500.into()));
    let window = report.0["measurement"]["rates"]["window_ns"].as_f64().expect("a time") / 1e9;
    let rate = item["rate"].as_f64().expect("a rate");
    assert!((rate * window / 500.0 - 1.0).abs() < 1e-9, "{rate} in {window} s");
    // Each pattern has intervals of its own, around its own percentiles.
    for name in &report.0["measurement"]["names"].as_array().expect("names")[..2] {
        for quantile in ["p50_ns", "p90_ns"] {
            let value = name["response"][quantile].as_f64().expect("a percentile");
            let between = ["lo", "hi"].map(|end| name["ci95"][quantile][end].as_f64());
            let [Some(lo), Some(hi)] = between else { panic!("{quantile}: {name}") };
            assert!(0.0 < lo && lo <= value && value <= hi, "{quantile}: {lo} {value} {hi}");
        }
    }
    // With its POSTs, three times, faster.
    let more = ["--methods", "all", "--scale", "3", "--scale-shift", "200ms", "--speed", "2x"];
    let (report, counters) = replay(&path, &more);
    assert_eq!((report.count("started"), served(&counters, "requests")), (3000, 3000));
    let more = ["--loop", "-n", "1500", "--speed", "10", "--path", "/item/*", "--http", "2-only"];
    let (report, counters) = replay(&path, &more);
    assert_eq!((report.count("started"), served(&counters, "requests")), (1500, 1500));
    assert_eq!(report.0["plan"]["names"], serde_json::json!(["/item/*", "other paths"]));
}

/// The log is read a few seconds ahead of the load, so its bad lines show while the load runs.
#[test]
fn too_many_bad_lines_end_the_load_with_its_report() {
    let _waiting = waiting();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    let mut text = String::new();
    for i in 0..60_000_u64 {
        let (s, ms) = (1_700_000_000 + i / 1000, i % 1000);
        writeln!(text, "10.0.0.1 - [{s}.{ms:03}] \"GET / HTTP/1.1\" 200 0.000").expect("text");
        if i > 50_000 {
            text += "bad\n";
        }
    }
    fs::write(&path, text).expect("written");
    let server = Serve::start(&[]);
    let (log, url) = (path.to_str().expect("UTF-8"), server.url(""));
    let line = ["replay", log, "--log-format", FORMAT, "--json", "--to", &url];
    let ended = prony(&[&line[..], &["--speed", "20x"]].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    let failed = report.0["run"]["replay"]["failed"].as_str().expect("why it ended");
    assert!(failed.contains("bad"), "{failed}");
    let sent = report.count("started");
    assert!((20_000..60_000).contains(&sent), "{sent} requests");
    assert_eq!(served(&server.stop(), "requests"), report.count("sent"));
}

#[test]
fn logs_that_cannot_be_replayed_are_refused_before_the_load() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let good = file("good.log", "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2\n");
    let text = file("text", "hello\nworld\n");
    let posts = file("posts", "a - - [10/Oct/2000:13:55:36 -0700] \"POST / HTTP/1.0\" 200 2\n");
    let to = ["--to", "http://127.0.0.1:1"];
    for (args, says) in [
        (&[&text[..]][..], "text: its first lines have none of the known formats"),
        (
            &[&posts],
            "posts: no line has a request that is sent; 1 with other methods, see --methods",
        ),
        (&["/no/such/log"], "/no/such/log: No such file"),
        (&[&good, "--log-format", "combined", "--sample", "10% by page"], "'10% by client'"),
        (&[&good, "--rate", "5"], "--speed or --scale"),
        (&["-", "--scale", "2"], "a pipe can be read once only"),
    ] {
        let ended = prony(&[&["replay"], args, &to].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
    let ended = prony(&["replay", &good, "--to", "http://127.0.0.1:1/path"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("the paths are those of the log"), "{}", ended.stderr);
}

/// A request as a server gets it: method and path, Content-Type, body.
pub(crate) type Got = (String, Option<String>, Vec<u8>);

/// A server that keeps the requests that it gets.
pub(crate) fn keeping() -> (String, mpsc::Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (to, got) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, to) = (stream.expect("a connection"), to.clone());
            thread::spawn(move || keep(stream, &to));
        }
    });
    (url, got)
}

fn keep(mut stream: TcpStream, to: &mpsc::Sender<Got>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or(0) > 0 {
        let first = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        let (mut kind, mut length) = (None, 0);
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a header");
            match line.trim_end().split_once(": ") {
                Some(("Content-Type", value)) => kind = Some(value.to_owned()),
                Some(("Content-Length", value)) => length = value.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        to.send((first, kind, body)).expect("the test waits");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("a reply");
        line.clear();
    }
}

/// A log of 60 orders, their bodies by key, and what the server gets, in order.
fn orders() -> (String, String, Vec<Got>) {
    let (mut log, mut bodies, mut expected) = (String::new(), String::new(), Vec::new());
    for i in 0..60_u32 {
        let method = ["GET", "POST", "PUT"][i as usize % 3];
        writeln!(
            log,
            r#"{{"at": {}.{:03}, "m": "{method}", "to": "/orders/{i}?t=secret", "id": "o\u00e4{i}"}}"#,
            1_700_000_000,
            i
        )
        .expect("text");
        let line = format!("{method} /orders/{i}?t=secret");
        // Every sixth request has no body in the file, and is a GET or a POST.
        let (kind, body) = match i % 6 {
            0 => (None, Vec::new()),
            1 => (Some("text/plain"), format!("body \u{e4} {i}\n").into_bytes()),
            2 => (Some("application/json"), format!("{{\"n\":  {i}}}").into_bytes()),
            3 => (Some("a/b"), b"of a GET".to_vec()),
            4 => (None, Vec::new()),
            _ => (Some("x/y"), vec![0, 255, i as u8]),
        };
        let key = format!("\"key\": \"o\u{e4}{i}\"");
        match i % 6 {
            1 => writeln!(
                bodies,
                "{{{key}, \"body\": \"body \\u00e4 {i}\\n\", \"type\": \"text/plain\"}}"
            ),
            2 => writeln!(bodies, "{{{key}, \"body\": {{\"n\":  {i}}}}}"),
            3 => writeln!(bodies, "{{{key}, \"body\": \"of a GET\", \"type\": \"a/b\"}}"),
            5 => writeln!(bodies, "{{{key}, \"base64\": \"{}\"}}", BASE64.encode(&body)),
            _ => Ok(()),
        }
        .expect("text");
        expected.push((line, kind.map(str::to_owned), body));
    }
    expected.sort();
    (log, bodies, expected)
}

/// The server gets the bodies of the keys, whether these are in the log or in the path.
#[test]
fn requests_have_the_bodies_of_their_keys() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (log, bodies, expected) = orders();
    let (log, bodies) = (file("log.jsonl", &log), file("bodies.jsonl", &bodies));
    // The same bodies by a part of the path.
    let text = fs::read_to_string(&bodies).expect("it was written").replace("o\u{e4}", "");
    let by_path = file("by-path.jsonl", &text);
    let named = "json time=at method=m path=to";
    let with_key = format!("{named} body=id");
    for (format, more) in [
        (&*with_key, &["--bodies", &*bodies, "-t", "2", "-T", "x/y"][..]),
        (named, &["--bodies", &by_path, "--body-key", "/orders/{key}", "-T", "x/y"]),
    ] {
        let (url, got) = keeping();
        let line = ["replay", &log, "--to", &url, "--methods", "all", "--log-format", format];
        let end = ["--accept-invalid", "--json", "--quiet"];
        let ended = prony(&[&line[..], more, &end].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let mut got: Vec<Got> = got.try_iter().collect();
        got.sort();
        assert_eq!(got, expected, "{format}");
        let facts = &ended.report().0["run"]["replay"]["bodies"];
        assert_eq!((&facts["bodies"], &facts["missing"]), (&40.into(), &10.into()), "{facts}");
        assert_eq!(facts["missing_keys"].as_array().map(Vec::len), Some(5), "{facts}");
    }
    // Keys with a query are as secret as the query.
    let (url, _got) = keeping();
    let line = ["replay", &log, "--to", &url, "--methods", "all", "--log-format", named];
    let ended = prony(&[&line[..], &["--bodies", &bodies, "--accept-invalid"]].concat());
    assert!(ended.stdout.contains("40 requests had none in it"), "{ended:?}");
    assert!(
        ended.stdout.contains("/orders/1?...") && !ended.stdout.contains("secret"),
        "{ended:?}"
    );
}

/// The server gets the requests of each client in the order of the log. Cookies tell clients apart
/// that have the same address.
#[test]
fn requests_of_a_client_are_sent_in_the_order_of_the_log() {
    let _waiting = waiting();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    let with_cookie = format!("{FORMAT} $http_cookie");
    for (by, format) in [("client", FORMAT), ("cookie", with_cookie.as_str())] {
        let mut text = String::new();
        for i in 0..400_u32 {
            let (ms, client) = (i * 2, i % 5);
            let (address, cookie) = match by {
                "client" => (format!("10.0.0.{client}"), String::new()),
                _ => ("10.0.0.1".to_owned(), format!(" sid={client}")),
            };
            let line =
                format!("{address} - [1700000000.{ms:03}] \"GET /{client}/{i:03} HTTP/1.1\"");
            writeln!(text, "{line} 200 0.000{cookie}").expect("text");
        }
        fs::write(&path, text).expect("written");
        let log = path.to_str().expect("UTF-8");
        let (url, got) = keeping();
        // One connection for each thread: the server sees the order on each of them, whatever its
        // threads do.
        let line = ["replay", log, "--log-format", format, "--to", &url, "--by", by, "-t", "2"];
        let more = ["-c", "2", "--accept-invalid", "--json", "--quiet"];
        let ended = prony(&[&line[..], &more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let mut got: Vec<String> = got.try_iter().map(|(line, ..)| line).collect();
        let client = |line: &String| line.as_bytes()[5];
        got.sort_by_key(client);
        assert!(got.len() == 400 && got.is_sorted(), "{by}: {got:?}");
        let replay = &ended.report().0["run"]["replay"];
        assert_eq!((&replay["by"], &replay["only_until_sent"]), (&by.into(), &true.into()));
    }
}

#[test]
fn files_of_bodies_that_cannot_be_used_are_refused_before_the_load() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let log = file("log", "a - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2\n");
    let (bad, good) = (file("bad", "{\"key\": 1}\n"), file("good", "{\"key\":1,\"body\":1}\n"));
    for (args, says) in [
        (&["--bodies", &*bad][..], "bad: line 1: it must have either a body or base64"),
        (&["--bodies", "/no/such"], "/no/such: No such file"),
        (&["--bodies", &good, "--body-key", "/a"], "must have {key} in the place"),
        (&["--body-key", "/{key}"], "--bodies"),
        (&["--bodies", &good, "-H", "Content-Type: a/b"], "use --content-type for those without"),
        (&["-T", "text/plain"], "unless --bodies has one"),
        (&["--log-format", "json time=t path=p body=b"], "needs --bodies"),
    ] {
        let ended = prony(&[&["replay", &log, "--to", "http://127.0.0.1:1"], args].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
}

#[test]
fn a_replay_in_virtual_time_is_repeatable() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.log");
    fs::write(&path, log(&bursty(500, 300.0))).expect("written");
    let log = path.to_str().expect("UTF-8");
    let run = |seed: &str, format: &str| {
        let line = ["replay", log, "--log-format", FORMAT, "--bad-lines", "2%", "--to", "http://h"];
        let more = ["--simulate", seed, "--format", format, "--accept-invalid", "-v"];
        let ended = prony(&[&line[..], &more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stdout
    };
    assert!(run("7", "json") == run("7", "json"));
    let text = run("7", "text");
    for part in [
        "the arrivals of a log",
        "requests    450 in ",
        "GET /item/*",
        "log p50",
        "505 lines, 450 requests, 50 with other",
        "methods, 5 bad",
        "line 52, as ",
        "dispersion  log / replay, in windows of 1 ms ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A log of 4 s with 500 requests a second that took log-normal times with a median of 20 ms; every
/// tenth of them is one that failed, and took a second.
fn timed_log() -> String {
    let mut random = Random(11);
    let mut normal = || {
        let (a, b) = (random.unit(), random.unit());
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let mut lines = Vec::new();
    for i in 0..2_000_u64 {
        let took = (20_000.0 * (0.5 * normal()).exp()) as u64;
        let (status, took) = if i % 10 == 3 { (500, 1_000_000) } else { (200, took) };
        let end = 1_700_000_000_000_000 + i * 2_000 + took;
        let (s, us) = (end / 1_000_000, end % 1_000_000);
        let path = ["item", "user"][i as usize % 2];
        let line =
            format!("10.0.0.1 - [{s}.{us:06}] \"GET /{path}/{i} HTTP/1.1\" {status} 0.{took:06}\n");
        lines.push((end, line.replace("0.1000000", "1.000000")));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// A server whose times are longer by half than those of the log is found, in every format: in
/// virtual time, as other load on a machine makes times longer.
#[test]
fn response_times_are_compared_with_those_of_the_log() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (log, page, saved) = (file("access.log"), file("a.html"), file("a.json"));
    fs::write(&log, timed_log()).expect("written");
    let line = ["replay", &log, "--log-format", FORMAT, "--to", "http://h"];
    let more = ["--accept-invalid", "-c", "200", "-o", &page, "-o", &saved];
    let world = ["--simulate", "3", "--simulate-latency", "lognormal:30ms:0.5"];
    let ended = prony(&[&line[..], &more, &world].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let json = fs::read_to_string(&saved).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let against = &report["measurement"]["against_log"];
    assert_eq!(against["resolution_ns"], 1_000, "{against}");
    let rows = against["requests"].as_array().expect("rows");
    let names: Vec<&serde_json::Value> = rows.iter().map(|row| &row["name"]).collect();
    assert_eq!(names, [&serde_json::Value::Null, &"GET /item/*".into(), &"GET /user/*".into()]);
    assert_eq!(
        (&rows[0]["log_requests"], &rows[0]["requests"]),
        (&1_800.into(), &2_000.into()),
        "failures of the log are left out"
    );
    for change in &rows[0]["changes"].as_array().expect("changes")[..3] {
        let value = |key: &str| change[key].as_f64().expect("a number");
        assert_eq!(change["outcome"], "higher", "{change}");
        // The network adds to the times, but little to 30 ms.
        assert!(value("ratio_lo") < 1.65 && value("ratio_hi") > 1.5, "{change}");
        let longer = value("log_ns") * (value("ratio") - 1.0);
        assert!((value("difference_ns") / longer - 1.0).abs() < 1e-9, "{change}");
    }
    let sentence = rows[0]["changes"][0]["sentence"].as_str().expect("a sentence").to_owned();
    assert!(
        sentence.starts_with("the mean is ") && sentence.contains(" % longer than in the log (")
    );
    // A saved report has the same.
    let again = prony(&["report", &saved]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [&ended.stdout, &again.stdout] {
        assert!(words(text).contains(&format!("against log all requests: {sentence}; p50 is")));
        assert!(words(text).contains("Only the variance within the log and within this run"));
        assert!(words(text).contains("The log has its times to 1 us"), "{text}");
    }
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("<h2>Response times against the log</h2>") && html.contains(&sentence));
}

/// A log of 10 GB (with `SLOW=1`; else 200 MB), which is never stored, in constant memory.
#[test]
fn memory_does_not_depend_on_the_length_of_the_log() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let bytes: u64 = if slow() { 10_000_000_000 } else { 200_000_000 };
    let to = server.url("");
    let line = ["replay", "-", "--log-format", "$remote_addr [$msec] \"$request\" $status"];
    let more = ["--to", &to, "--sample", "0.1%", "--speed", "20x", "--order-window", "1s"];
    let end = ["--accept-invalid", "--json", "-c", "50"];
    let mut child = command(&[&line[..], &more, &end].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let status = format!("/proc/{}/status", child.id());
    let writer = thread::spawn(move || {
        let (mut written, mut i, mut most) = (0, 0_u64, 0_u64);
        let mut text = String::new();
        while written < bytes {
            text.clear();
            for _ in 0..10_000 {
                let (s, us) = (1_700_000_000 + i / 100_000, i % 100_000 * 10);
                let line = "10.0.0.1 [";
                writeln!(
                    text,
                    "{line}{s}.{us:06}] \"GET /item/{i}?with=a&long=query&of=it HTTP/1.1\" 200"
                )
                .expect("text");
                i += 1;
            }
            pipe.write_all(text.as_bytes()).expect("it reads");
            written += text.len() as u64;
            let status = fs::read_to_string(&status).expect("it runs");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kb = peak.and_then(|peak| peak.trim().split(' ').next()?.parse().ok());
            most = most.max(kb.unwrap_or(0));
        }
        (i, most)
    });
    let output = child.wait_with_output().expect("it ends");
    let (lines, peak_kb) = writer.join().expect("written");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = Report(serde_json::from_slice(&output.stdout).expect("JSON"));
    assert_eq!(report.0["run"]["replay"]["logs"][0]["lines"], lines);
    let started = report.count("started") as f64;
    let expected = lines as f64 / 1000.0;
    assert!((started - expected).abs() < 5.0 * expected.sqrt(), "{started} of {expected}");
    assert_eq!(served(&server.stop(), "requests"), report.count("started"));
    assert!(peak_kb < 150_000, "{peak_kb} kB");
}
