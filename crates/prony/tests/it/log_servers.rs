//! Logs that real servers have written: a known load goes to a server, its log is replayed against
//! another one that records what arrives, and that is what was sent: the same requests in the same
//! order, byte for byte, at their times.

mod apache;
mod backend;
mod caddy;
mod envoy;
mod haproxy;
mod nginx;
mod tomcat;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use backend::Backend;
use tempfile::TempDir;

use crate::rig::{prony, slow, wait_until};

/// How much faster the log is replayed.
const SPEED: u64 = 4;
/// How long slow requests take.
pub(crate) const SLOW: Duration = Duration::from_millis(400);
/// How late a server may take a time: it reads its clock once for several events.
const SLOP: Duration = Duration::from_millis(60);
/// The time between two requests, so that their order is that of any clock.
const GAP: Duration = Duration::from_millis(8);

/// A request as it is sent to the server: method and target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: Vec<u8>,
}

impl Request {
    fn in_round(&self, round: usize) -> Self {
        let mut request = self.clone();
        if round > 0 {
            request.target.extend(format!("~{round}").bytes());
        }
        request
    }
}

/// A request that was sent. The server got it between these two times, since the first of them.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) request: Request,
    sent: Duration,
    got: Duration,
}

/// Targets with characters that logs escape, or that separate their fields.
const TARGETS: [&str; 30] = [
    "/",
    "/plain",
    "/slow/1",
    "/query?a=b&c=%20d",
    "/blank%20and%09tab?q=%22x%22",
    "/quote\"in'path",
    "/back\\slash\\x41\\u0041",
    "/utf8/\u{e9}\u{1f600}?q=\u{fc}",
    "/encoded/%C3%A9%2F%3F%23",
    "/semi;colon,comma:at@x=y",
    "/brackets[a]{b}(c)",
    "/marks|^`<>~!$*",
    "/slow/2?with=query",
    "/plus+plus?a+b=+",
    "//double//slash//",
    "/dots/../up/./here",
    "/?only=query",
    "/two?marks?here=?",
    "/empty?",
    "/percent/%25%2541",
    "/hash%23%32%32/%7B",
    "/list/0.100,0.200:0.3",
    "/0.5/200/GET",
    "/dash/-?-",
    "/json/%22:%22,%7B%7D",
    "/xaccel/1",
    "/slow/3",
    "/time/10/Oct/2000:13:55:36",
    "/$request_uri/%r/%h",
    "/end",
];

/// Requests of several methods to these targets, each of which is there once; with `SLOW=1` ten
/// times as many.
pub(crate) fn requests(accepts: impl Fn(&str) -> bool) -> Vec<Request> {
    const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "GET", "OPTIONS", "PUT"];
    let targets = TARGETS.iter().filter(|target| accepts(target));
    let request = |(i, target): (usize, &&str)| {
        // What the backend makes slow, or sends elsewhere, is a GET.
        let is_plain = !target.contains("slow") && !target.contains("xaccel");
        let method = if is_plain { METHODS[i % METHODS.len()] } else { "GET" };
        Request { method: method.to_owned(), target: target.as_bytes().to_vec() }
    };
    let long = Request { method: "GET".to_owned(), target: [b"/", &[b'x'; 700][..]].concat() };
    let once: Vec<Request> = targets.enumerate().map(request).chain([long]).collect();
    (0..rounds())
        .flat_map(|round| once.iter().map(move |request| request.in_round(round)))
        .collect()
}

/// How often each request is sent, with a mark at the end of its target.
fn rounds() -> usize {
    if slow() { 10 } else { 1 }
}

/// Values of headers that logs have between, before or after the request.
const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "quoted \"agent\" with \\ and [brackets] {braces|bar} #22",
    "GET /evil HTTP/1.1",
    "",
    "200 0.500, 0.600 : 1.5 - /x",
];

/// Sends the requests, one after the other: the next one when the server, or the one behind it, has
/// got the last one.
pub(crate) fn send(port: u16, requests: &[Request], backend: Option<&Backend>) -> Vec<Sent> {
    let (sender, arrivals) = mpsc::channel();
    if let Some(backend) = backend {
        backend.report_to(sender.clone());
    }
    let zero = Instant::now();
    let mut all = Vec::new();
    let mut readers = Vec::new();
    for (i, request) in requests.iter().enumerate() {
        thread::sleep(GAP);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let sent = zero.elapsed();
        let mut head = format!("{} ", request.method).into_bytes();
        head.extend(&request.target);
        let agent = AGENTS[i % AGENTS.len()];
        head.extend(
            format!(
                " HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Index: {i}\r\nUser-Agent: {agent}\r\n\
                 Referer: http://a/b?c=\"d e\"\r\nCookie: a=b; c=\"d\"\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            )
            .bytes(),
        );
        stream.write_all(&head).expect("it is read");
        let sender = sender.clone();
        readers.push(thread::spawn(move || read_reply(stream, i, &sender)));
        let got = first_of(&arrivals, i).duration_since(zero);
        all.push(Sent { request: request.clone(), sent, got });
    }
    for reader in readers {
        reader.join().expect("no panic");
    }
    all
}

/// Reads a reply to its end; a download slowly.
fn read_reply(mut stream: TcpStream, i: usize, sender: &Sender<(usize, Instant)>) {
    let mut reply = vec![0; 1 << 16];
    let mut first = true;
    while let Ok(n @ 1..) = stream.read(&mut reply) {
        if std::mem::take(&mut first) {
            let _ = sender.send((i, Instant::now()));
            let text = String::from_utf8_lossy(&reply[..n]).into_owned();
            assert!(text.starts_with("HTTP/1.1 "), "{text}");
            if text.contains("X-Slowly") {
                thread::sleep(SLOW);
            }
        }
    }
    assert!(!first, "request {i} had no reply");
}

/// When the server has got this request.
fn first_of(arrivals: &Receiver<(usize, Instant)>, index: usize) -> Instant {
    loop {
        let (i, at) = arrivals.recv_timeout(Duration::from_secs(30)).expect("the server gets it");
        if i == index {
            return at;
        }
    }
}

/// Waits until a log has this many lines.
pub(crate) fn wait_for_lines(log: &Path, lines: usize) {
    wait_until(&format!("{lines} lines in {}", log.display()), || {
        fs::read(log).is_ok_and(|log| log.iter().filter(|b| **b == b'\n').count() >= lines)
    });
}

/// How a log is replayed, and what of it can be known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// `--log-format`, or none: it is recognized.
    pub(crate) format: Option<&'a str>,
    /// More options.
    pub(crate) more: &'a [&'a str],
    /// The resolution of its times.
    pub(crate) step: Duration,
    /// Lines that have no request, such as those of the check whether the server listens.
    pub(crate) no_request: u64,
    /// Lines that cannot be read.
    pub(crate) bad: u64,
    /// Whether the log has a request at all.
    pub(crate) has: fn(&Request) -> bool,
    /// What of a target the log has; all but for formats that are named in docs/replay.md.
    pub(crate) target: fn(&[u8]) -> Vec<u8>,
}

impl Default for Known<'_> {
    fn default() -> Self {
        let step = Duration::from_millis(1);
        Self {
            format: None,
            more: &[],
            step,
            no_request: 0,
            bad: 0,
            has: |_| true,
            target: <[u8]>::to_vec,
        }
    }
}

/// Replays a log, and compares what arrives with what was sent.
pub(crate) fn check(server: &str, log: &Path, sent: &[Sent], known: Known<'_>) {
    let what = format!("{server}, {}", known.format.unwrap_or("recognized"));
    let target = Backend::start();
    let folder = TempDir::new().expect("a folder");
    let raw = folder.path().join("raw.csv");
    let (url, speed) = (format!("http://127.0.0.1:{}", target.port), format!("{SPEED}x"));
    let (log, raw_file) = (log.to_str().expect("UTF-8"), raw.to_str().expect("UTF-8"));
    let mut args = vec!["replay", log, "--to", &url, "--methods", "all", "--bad-lines", "5%"];
    args.extend(["-c", "1", "-t", "1", "--speed", &speed, "--raw", raw_file]);
    args.extend(["--accept-invalid", "--json", "--quiet"]);
    args.extend(known.format.iter().flat_map(|format| ["--log-format", format]));
    args.extend(known.more);
    let ended = prony(&args);
    assert_eq!(ended.code, 0, "{what}: {ended:?}");
    let report = ended.report();
    let read = &report.0["run"]["replay"]["logs"][0];
    let count = |field: &str| read[field].as_u64().expect("a number");
    let lines = ["bad", "other_method", "no_request"].map(count);
    assert_eq!(lines, [known.bad, 0, known.no_request], "{what}: {read}");
    let sent: Vec<Sent> = sent.iter().filter(|sent| (known.has)(&sent.request)).cloned().collect();
    assert_eq!(count("requests"), sent.len() as u64, "{what}: {read}");
    let got = target.requests();
    let mut expected: Vec<Request> = sent.iter().map(|sent| sent.request.clone()).collect();
    for request in &mut expected {
        request.target = (known.target)(&request.target);
    }
    let in_order = known.step < GAP;
    let (mut left, mut right) = (got.clone(), expected.clone());
    if !in_order {
        left.sort();
        right.sort();
    }
    for (i, (left, right)) in left.iter().zip(&right).enumerate() {
        let text = |request: &Request| String::from_utf8_lossy(&request.target).into_owned();
        assert_eq!(left, right, "{what}: {i}: {} and {}", text(left), text(right));
    }
    assert_eq!(left.len(), right.len(), "{what}");
    let starts = intended(&raw);
    assert_eq!(starts.len(), got.len(), "{what}");
    compare_times(&what, &got, &expected, &starts, &sent, known.step);
    let [bad, _, none] = lines;
    eprintln!(
        "{what}: {} lines, {bad} not understood, {none} without a request, {} equal",
        count("lines"),
        left.len()
    );
}

/// The times at which requests were due, in the time of the log since the first of them.
fn intended(raw: &Path) -> Vec<Duration> {
    let text = fs::read_to_string(raw).expect("a file of raw results");
    let time = |line: &str| -> u64 {
        let first = line.split(',').next().and_then(|n| n.parse().ok());
        first.unwrap_or_else(|| panic!("no time: {line}"))
    };
    let mut all: Vec<u64> = text.lines().skip(1).map(time).collect();
    all.sort_unstable();
    all.iter().map(|at| Duration::from_nanos((at - all[0]) * SPEED)).collect()
}

/// Each request is due at a time at which the server can have got it, since the first one.
fn compare_times(
    what: &str,
    got: &[Request],
    expected: &[Request],
    starts: &[Duration],
    sent: &[Sent],
    step: Duration,
) {
    let of = |request: &Request| {
        let i = expected.iter().position(|other| other == request).expect("it was sent");
        &sent[i]
    };
    // The resolution is that of the end, and that of how long it took.
    let slop = (SLOP + 2 * step).as_secs_f64();
    let first = of(&got[0]);
    for (request, start) in got.iter().zip(starts) {
        let (own, start) = (of(request), start.as_secs_f64());
        let earliest = own.sent.as_secs_f64() - first.got.as_secs_f64() - slop;
        let latest = own.got.as_secs_f64() - first.sent.as_secs_f64() + slop;
        let target = String::from_utf8_lossy(&request.target);
        assert!(
            (earliest..=latest).contains(&start),
            "{what}: {target} at {start} s, not from {earliest} to {latest} s"
        );
    }
}
