use super::*;
use crate::order::HELD_MAX;
use proptest::prelude::*;
use std::fmt::Write as _;

const NGINX: &str = "$remote_addr [$msec] \"$request\" $status $request_time";

fn options(format: &str) -> Options {
    Options { format: Format::parse(format).ok(), ..Options::default() }
}

pub(super) fn read(text: &str, options: Options) -> Result<(Vec<Record>, Facts), Error> {
    let mut log = Log::open(text.as_bytes(), options)?;
    let mut records = Vec::new();
    while let Some(record) = log.next_record()? {
        records.push(record.clone());
    }
    Ok((records, log.facts()))
}

fn combined(second: u64, path: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        "1.2.3.4 - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5\n"
    )
}

proptest! {
    #[test]
    fn times_of_the_log_are_those_of_the_requests(
        gaps in prop::collection::vec(0_u64..3_000_000, 1..300),
    ) {
        let (mut text, mut at, mut times) = (String::new(), 1_700_000_000_000_000_u64, Vec::new());
        for gap in gaps {
            at += gap;
            times.push(at as i64 * 1000);
            let (s, us) = (at / 1_000_000, at % 1_000_000);
            writeln!(text, "c [{s}.{us:06}] \"GET /{at} HTTP/1.1\" 200 -").expect("text");
        }
        let (records, facts) = read(&text, options(NGINX)).expect("a log");
        prop_assert_eq!(records.iter().map(|r| r.at).collect::<Vec<_>>(), times);
        prop_assert_eq!((facts.spread, facts.moved, facts.bad), (0, 0, 0));
    }

    #[test]
    fn lines_out_of_order_are_put_in_order(
        lines in prop::collection::vec((0_u64..2_000, 0_u64..2_000), 1..300),
    ) {
        // The log has the time of the end, rounded to the millisecond, in the order of the ends.
        let mut lines = lines;
        lines.sort_unstable_by_key(|(at, took)| at + took);
        let mut text = String::new();
        for (at, took) in &lines {
            let (end, took) = (1_700_000_000_000 + at + took, *took as f64 / 1e3);
            let (s, ms) = (end / 1000, end % 1000);
            writeln!(text, "c [{s}.{ms:03}] \"GET / HTTP/1.1\" 200 {took:.3}").expect("text");
        }
        let (records, facts) = read(&text, options(NGINX)).expect("a log");
        let mut begins: Vec<i64> =
            lines.iter().map(|(at, _)| (1_700_000_000_000 + *at as i64) * 1_000_000).collect();
        begins.sort_unstable();
        prop_assert_eq!(records.iter().map(|r| r.at).collect::<Vec<_>>(), begins);
        prop_assert_eq!((facts.moved, facts.with_took), (0, lines.len() as u64));
    }
}

#[test]
fn times_of_a_second_are_spread_uniformly_in_the_order_of_the_log() {
    let n = 1000;
    let text: String = (0..20 * n).map(|i| combined(i / n, &format!("/{i}"))).collect();
    let with_seed = |seed| read(&text, Options { seed, ..Options::default() }).expect("a log");
    let (records, facts) = with_seed(1);
    assert_eq!((records.len() as u64, facts.spread), (20 * n, 20 * n));
    let mut offsets = Vec::new();
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.path, format!("/{i}").as_bytes());
        let offset = record.at.rem_euclid(1_000_000_000);
        assert_eq!((record.at - offset) / 1_000_000_000, 971_182_800 + i as i64 / 1000);
        offsets.push(offset as f64 / 1e9);
    }
    // Kolmogorov and Smirnov: the distance from the uniform distribution, at a level of 1e-6.
    offsets.sort_unstable_by(f64::total_cmp);
    let all = offsets.len() as f64;
    let distance = offsets.iter().enumerate().map(|(i, x)| (x - i as f64 / all).abs());
    let distance = distance.fold(0.0, f64::max);
    assert!(distance < (-0.5 * (0.5e-6_f64).ln()).sqrt() / all.sqrt() + 1.0 / all, "{distance}");
    assert_eq!(with_seed(1), (records.clone(), facts));
    assert_ne!(with_seed(2).0, records);
}

#[test]
fn lines_without_a_request_that_is_sent_are_counted() {
    let mut text = combined(0, "/a");
    text += &combined(0, "/b").replace("GET", "POST");
    text += &combined(0, "/c").replace("GET", "PROPFIND");
    text += &combined(0, "/d").replace("GET /d HTTP/1.1", "-");
    text += &combined(0, "/e").replace("GET /e HTTP/1.1", "\\x16\\x03");
    text += "\n";
    let (records, facts) = read(&text, Options::default()).expect("a log");
    assert_eq!((records.len(), facts.requests, facts.other_method), (1, 1, 2));
    assert_eq!((facts.no_request, facts.comments, facts.bad, facts.lines), (2, 1, 0, 6));
    assert_eq!(facts.bytes, text.len() as u64);
    let (records, _) = read(&text, Options { methods: 0x7f, ..Options::default() }).expect("a log");
    assert_eq!(records.iter().map(|r| r.method).collect::<Vec<_>>(), [0, 1]);
    let client = records[0].client;
    assert!(client != 0 && records[1].client == client && records[0].cookie == 0);
    let only = combined(0, "/").replace("GET", "POST");
    assert!(matches!(read(&only, Options::default()), Err(Error::Empty(_))));
}

#[test]
fn bad_lines_are_shown_and_too_many_are_fatal() {
    let mut text: String = (0..1000).map(|i| combined(i / 20, "/")).collect();
    for i in 0..10 {
        text += &format!("bad \"{i}\"\t\n");
    }
    let (records, facts) = read(&text, Options::default()).expect("less than 1 %");
    assert_eq!((records.len(), facts.bad, facts.first_bad.len()), (1000, 10, 5));
    let first = BadLine { line: 1001, why: Why::Form, text: "bad \"0\"\\t".into() };
    assert_eq!(facts.first_bad[0], first);
    text += "bad\n";
    let refused = read(&text, Options::default()).expect_err("more than 1 %").to_string();
    assert_eq!(
        refused,
        "11 of 1011 lines cannot be read, which is more than --bad-lines allows; the first is \
         line 1001, as it does not have the parts of the format: bad \"0\"\\t"
    );
    assert!(read(&text, Options { bad_lines: 0.02, ..Options::default() }).is_ok());
    // It is not judged by its first lines.
    let early =
        format!("bad\n{}", text.lines().take(900).map(|l| l.to_owned() + "\n").collect::<String>());
    assert_eq!(read(&early, Options::default()).expect("a log").1.bad, 1);
}

#[test]
fn old_lines_are_bad_and_long_requests_are_moved() {
    let line = |at: u64, took: &str| format!("c [{at}.000] \"GET /{at} HTTP/1.1\" 200 {took}\n");
    let times: Vec<u64> = (0..30).collect();
    let text: String = times.iter().map(|at| line(1_700_000_000 + at, "0")).collect();
    let all = Options { bad_lines: 1.0, ..options(NGINX) };
    let old = text.clone() + &line(1_700_000_010, "0");
    let (records, facts) = read(&old, all.clone()).expect("a log");
    assert_eq!((records.len(), facts.bad, facts.first_bad[0].why), (30, 1, Why::Late));
    // Began at second 9, when what began at second 23 has left.
    let long = text + &line(1_700_000_029, "20");
    let (records, facts) = read(&long, all).expect("a log");
    assert_eq!((records.len(), facts.bad, facts.moved), (31, 0, 1));
    let moved = records.iter().find(|r| r.took == Some(20_000_000_000)).expect("the long request");
    assert_eq!(moved.at - 1_700_000_009_000_000_000, facts.moved_most as i64);
    assert!(records.is_sorted_by_key(|r| r.at));
}

#[test]
fn formats_that_are_not_known_are_refused_with_the_first_line() {
    let refused = read("\nhello\tworld\n", Options::default()).expect_err("no format").to_string();
    assert_eq!(
        refused,
        "its first lines have none of the known formats; give one with --log-format: hello\\tworld"
    );
    let refused = read("", Options::default()).expect_err("no lines").to_string();
    assert_eq!(refused, "the log is empty");
}

/// A log that is made as it is read: `lines` equal lines for each second.
struct Made {
    seconds: u64,
    lines: usize,
    second: u64,
    text: Vec<u8>,
    at: usize,
}

impl Made {
    const MEGABYTES: u64 = 1_000_000;

    fn new(seconds: u64, lines: usize) -> Self {
        Self { seconds, lines, second: 0, text: Vec::new(), at: 0 }
    }
}

impl Read for Made {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() && self.second < self.seconds {
            let text = combined(self.second % 3600, "/item/1?page=2").repeat(self.lines);
            (self.text, self.at) = (text.into_bytes(), 0);
            self.second += 1;
        }
        let n = buf.len().min(self.text.len() - self.at);
        buf[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Reads a log, and returns the most records that were held.
fn held(seconds: u64, lines: usize) -> usize {
    let mut log = Log::open(Made::new(seconds, lines), Options::default()).expect("a log");
    let (mut n, mut last) = (0, 0);
    while let Some(record) = log.next_record().expect("a log") {
        assert!(record.at >= last, "line {}", record.line);
        last = record.at;
        n += 1;
    }
    assert_eq!(n, seconds * lines as u64);
    let facts = log.facts();
    println!("{} MB", facts.bytes / Made::MEGABYTES);
    facts.held_most
}

#[test]
fn memory_does_not_depend_on_the_length() {
    // 10,000 lines a second, of which the window has 6 to 7 seconds.
    let (short, long) = (held(10, 10_000), held(40, 10_000));
    assert!(short == long && short <= 70_000, "{short} {long}");
    // With more lines than may be held, the window is shorter.
    assert_eq!(held(8, 60_000), HELD_MAX + 60_000);
    // The window has 5 to 6 seconds of such a log, and one line of the next.
    let seconds = if std::env::var_os("SLOW").is_some() { 3000 } else { 20 };
    // 50,000 lines a second: 3,000 s have more than 10 GB.
    assert_eq!(held(seconds, 50_000), 300_001);
}

/// Servers write lines when requests have ended. A line with its start and how long it took is not
/// late because the request was long.
#[test]
fn long_requests_are_no_late_lines() {
    let line = |at: u64, took: u64| {
        let (minute, second) = (at / 60, at % 60);
        let at = format!("[10/Oct/2000:13:{minute:02}:{second:02} +0000]");
        format!("c {at} \"GET /{took} HTTP/1.1\" 200 {}\n", took * 1_000_000)
    };
    let format = r#"%h %t "%r" %>s %D"#;
    let text: String = (0..30).map(|at| line(at, 0)).collect::<String>() + &line(9, 20);
    let (records, facts) = read(&text, options(format)).expect("a log");
    assert_eq!((records.len(), facts.bad, facts.moved), (31, 0, 1));
    let window = Options { window: 60_000_000_000, ..options(format) };
    let (records, facts) = read(&text, window).expect("a log");
    assert_eq!((facts.bad, facts.moved), (0, 0));
    let start = 971_182_809_000_000_000;
    let long = records.iter().find(|r| r.path == b"/20").expect("the long request");
    assert!((start..start + 1_000_000_000).contains(&long.at), "{}", long.at);
    // Without how long it took, it cannot be known why the line is old.
    let short = text.replace(" 20000000\n", "\n").replace(" 0\n", "\n");
    let refused = read(&short, options("%h %t \"%r\" %>s")).expect_err("a line is too old");
    assert_eq!(
        refused.to_string(),
        "1 of 31 lines cannot be read, which is more than --bad-lines allows; the first is line \
         31, as it is older than earlier lines by more than --order-window: c [10/Oct/2000:13:00:09 \
         +0000] \"GET /20 HTTP/1.1\" 200; a longer --order-window puts it in order"
    );
}

#[test]
fn logs_without_a_request_that_is_sent_say_what_they_have() {
    let posts = combined(0, "/").replace("GET", "POST");
    let text = read(&posts, Options::default()).expect_err("no request").to_string();
    assert_eq!(text, "no line has a request that is sent; 1 with other methods, see --methods");
    let text =
        "#Fields: date time cs-method cs-uri-stem time-taken\n2002-05-02 17:42:15 GET / 15\n";
    let refused = read(text, Options::default()).expect_err("no unit").to_string();
    assert!(refused.contains("seconds or milliseconds (say which: --time-unit s, ms"), "{refused}");
    let unit = Options { time_unit: Some(1_000_000), ..Options::default() };
    let (records, _) = read(text, unit.clone()).expect("a log");
    assert_eq!(records[0].took, Some(15_000_000));
    let refused = read(&combined(0, "/"), unit).expect_err("there is none").to_string();
    assert!(refused.starts_with("--time-unit is for W3C logs"), "{refused}");
}
