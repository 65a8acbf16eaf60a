//! HTTP/2 on a real kernel: the counters of `prony serve`, nginx's GOAWAYs and refusals of HTTP/2,
//! and the conformance tests of h2specd for clients.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Code, HEADER, Head, Settings, kind};

use crate::rig::{
    Other, Report, Running, Serve, alone, drivers, fetch, have, measure, prony, served, wait_until,
};
use crate::tls::Certificates;

fn http2<'r>(report: &'r Report, name: &str) -> &'r serde_json::Value {
    &report.0["measurement"]["tally"]["http2"][name]
}

#[test]
fn counters_of_both_sides_are_equal() {
    let _alone = alone();
    let behavior = ["--status", "200:3,404:1", "--latency", "exp:1ms", "--max-streams", "20"];
    for tls in [false, true] {
        for driver in drivers() {
            // Before the first SETTINGS, more than 20 streams would be refused.
            let server =
                Serve::start(&[&behavior[..], if tls { &["--tls"] } else { &[] }].concat());
            let url = server.url("/");
            let load = ["-c", "3", "--streams", "30", "-n", "4000", "--expect", "2xx,404"];
            let load = [&load[..], &["--wait-settings"]].concat();
            let version: &[&str] = if tls { &["--http2", "-k"] } else { &["--h2c"] };
            let report = measure(&[&load[..], version, &["--driver", driver, &url]].concat());
            report.check_sums();
            let there = server.stop();
            assert_eq!(report.count("replies"), 4_000, "{driver}");
            for name in ["requests", "replies", "h2_requests"] {
                assert_eq!(served(&there, name), 4_000, "{driver}: {name}");
            }
            assert_eq!(there["statuses"]["404"].as_u64(), Some(report.status(404)));
            for nothing in ["refused", "violations", "malformed", "cancelled", "open"] {
                assert_eq!(served(&there, nothing), 0, "{nothing}: {there:#}");
            }
            assert_eq!(http2(&report, "connections").as_u64(), Some(3));
            assert_eq!(http2(&report, "limit_least").as_u64(), Some(20));
            if !tls {
                assert_eq!(served(&there, "bytes_out"), report.count("bytes_received"));
                assert_eq!(served(&there, "bytes_in"), report.count("bytes_sent"));
            }
        }
    }
}

/// Bodies in both directions, larger than any window.
#[test]
fn large_bodies_arrive_complete() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, vec![b'x'; 3_000_000]).expect("written");
    let body = format!("@{}", file.display());
    let server = Serve::start(&["--window", "100k"]);
    let url = server.url("/echo");
    let load = ["--h2c", "-c", "2", "--streams", "3", "-n", "12", "--window", "70k", "-b", &body];
    let report = measure(&[&load[..], &["--expect-length", "3000000", &url]].concat());
    assert_eq!((report.count("replies"), report.count("failed")), (12, 0));
    assert_eq!(report.count("bytes_body"), 12 * 3_000_000);
    assert_eq!(served(&server.stop(), "violations"), 0);
}

/// A server that violates the protocol gets the reason, whole, after what was partly sent: also one
/// that does not read for a while.
#[test]
fn the_reason_of_the_end_arrives_whole() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, vec![b'x'; 30_000_000]).expect("written");
    let body = format!("@{}", file.display());
    for driver in drivers() {
        for is_slow in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("an address"));
            let server = thread::spawn(move || {
                let first = listener.accept().expect("a connection").0;
                let received = violate(first, is_slow);
                // The run ends with the second.
                let second = listener.accept().expect("another connection").0;
                (received, violate(second, false))
            });
            let load = ["--h2c", "-c", "1", "-n", "2", "--timeout", "60s", "--driver", driver];
            let more: &[&str] = if is_slow { &["-b", &body] } else { &[] };
            let rest = ["--json", "--quiet", "--accept-invalid", &url];
            let report = prony(&[&load[..], more, &rest].concat()).report();
            report.check_sums();
            let both = (report.errors("bad-http2"), report.count("failed"));
            assert_eq!(both, (2, 2), "{driver}: {:#}", report.0["measurement"]["errors"]);
            let (received, _) = server.join().expect("the server ends");
            let what = format!("{driver}, a server that reads late: {is_slow}");
            assert_eq!(last_goaway(&received), Some(Code::PROTOCOL_ERROR), "{what}");
            if is_slow {
                assert!(received.len() > 100_000, "{what}: {} bytes", received.len());
            }
        }
    }
}

/// Allows everything, reads nothing for a while, and sends a PING on a stream. Returns what came.
fn violate(mut stream: TcpStream, is_slow: bool) -> Vec<u8> {
    let most = (1 << 31) - 1;
    let mut out = Vec::new();
    frame::settings(&mut out, &[(Settings::WINDOW, most)]);
    frame::window_update(&mut out, 0, most - 65_535);
    stream.write_all(&out).expect("it reads");
    thread::sleep(Duration::from_millis(if is_slow { 500 } else { 50 }));
    out.clear();
    frame::head(&mut out, 8, kind::PING, 0, 1);
    out.extend_from_slice(&[0; 8]);
    stream.write_all(&out).expect("it reads");
    thread::sleep(Duration::from_millis(if is_slow { 100 } else { 0 }));
    let mut received = Vec::new();
    // A reset after it has closed does not matter.
    _ = stream.read_to_end(&mut received);
    received
}

/// The code of a GOAWAY that ends these bytes. All of them are whole frames.
fn last_goaway(received: &[u8]) -> Option<Code> {
    let mut rest = received.strip_prefix(PREFACE)?;
    let mut last = None;
    while let Some(head) = Head::read(rest) {
        let payload = rest.get(HEADER..HEADER + head.length as usize)?;
        last = (head.kind == kind::GOAWAY)
            .then(|| Code(u32::from_be_bytes(payload[4..8].try_into().expect("four bytes"))));
        rest = &rest[HEADER + payload.len()..];
    }
    last.filter(|_| rest.is_empty())
}

/// nginx ends each connection after a number of requests with a GOAWAY.
#[test]
fn goaways_of_nginx_lose_no_request() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Other::nginx(
        "
    access_log @DIR@/access.log;
    keepalive_requests 100;
    server {
        listen 127.0.0.1:@PORT@ http2;
        location / { return 200 'hello'; }
    }
",
    );
    let load = ["--h2c", "-c", "2", "--streams", "10", "-n", "3000", &server.url("/")];
    let report = measure(&load);
    assert_eq!((report.count("replies"), report.count("failed")), (3_000, 0));
    let goaways = http2(&report, "goaways")["NO_ERROR"].as_u64().expect("GOAWAYs");
    assert!(goaways >= 28, "{goaways}");
    let log = std::fs::read_to_string(server.file("access.log")).expect("a log");
    assert_eq!(log.lines().filter(|line| line.contains("HTTP/2.0\" 200")).count(), 3_000);
}

/// The words of curl, and those of the option `--http`, are the same.
#[test]
fn words_for_http2_without_negotiation_are_the_same() {
    let url = "http://127.0.0.1:1/";
    let explained = |words: &[&str]| {
        let ended = prony(&[words, &["--seed", "1", "--explain", url]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        // A comment has the words themselves.
        let lines = ended.stdout.lines().filter(|line| !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    };
    let plan = explained(&["--h2c"]);
    assert!(plan.contains("http = \"2-only\""), "{plan}");
    assert_eq!(explained(&["--http2-prior-knowledge"]), plan);
    assert_eq!(explained(&["--http", "2-only"]), plan);
    let server = Serve::start(&[]);
    let report = measure(&["--http2-prior-knowledge", "-n", "50", &server.url("/")]);
    assert_eq!(report.count("replies"), 50);
    assert_eq!(served(&server.stop(), "h2_requests"), 50);
}

/// Later connections resume the session of TLS, as over HTTP/1.1.
#[test]
fn connections_resume_sessions_of_tls() {
    for version in ["1.2", "1.3"] {
        let server = Serve::start(&["--tls"]);
        let load = ["-k", "-c", "1", "-n", "40", "--no-reuse", "--tls", version];
        for http in [&["--http2"][..], &[]] {
            let report = measure(&[&load[..], http, &[&server.url("/")]].concat());
            report.check_sums();
            let tls = &report.0["measurement"]["tally"]["tls"];
            let counts = ["full", "resumed"].map(|name| tls[name].as_u64());
            assert_eq!(counts, [Some(1), Some(39)], "{version} {http:?}");
        }
        assert_eq!(served(&server.stop(), "h2_requests"), 40);
    }
}

/// A session over both versions: a template with a row of a table, of which the echo is extracted,
/// and requests whose path has the extracted value.
#[test]
fn sessions_extract_and_fill_in_over_both_versions() {
    let server = Serve::start(&["--tls"]);
    let folder = tempfile::tempdir().expect("a folder");
    for http in ["1.1", "2"] {
        let text = format!(
            r#"url = "{}"
http = "{http}"
users = 3
sessions = 20
expect = "2xx"
[tls]
insecure = true
[data.codes]
columns = ["status"]
rows = [["201"], ["204"]]
[[session]]
[[session.request]]
path = "/echo"
body = '{{"order": {{"code": "{{{{codes.status}}}}"}}}}'
extract = {{ code = {{ json = "/order/code" }} }}
[[session.request]]
path = "/status/{{{{code}}}}"
repeat = 2
"#,
            server.url("")
        );
        let file = folder.path().join("plan.toml");
        std::fs::write(&file, text).expect("a plan");
        let report = measure(&["run", file.to_str().expect("UTF-8")]);
        report.check_sums();
        assert_eq!((report.count("replies"), report.count("failed")), (60, 0), "{http}");
        assert_eq!([200, 201, 204].map(|status| report.status(status)), [20; 3], "{http}");
        let sessions = &report.0["measurement"]["tally"]["sessions"];
        assert_eq!(sessions["completed"], 20, "{http}");
    }
    let counters = server.stop();
    assert_eq!((served(&counters, "requests"), served(&counters, "h2_requests")), (120, 60));
}

/// A server without HTTP/2: over TLS the client falls back, without TLS it says what is wrong.
#[test]
fn servers_without_http2_are_recognized() {
    if !have("nginx") || !have("openssl") {
        return;
    }
    let certificates = Certificates::new();
    let server = crate::tls::nginx(&certificates, "server", "");
    let url = format!("https://127.0.0.1:{}/", server.port);
    let load = ["-k", "-c", "2", "--streams", "5", "-n", "100", &url];
    let report = measure(&[&["--http2"], &load[..]].concat());
    assert_eq!(report.count("replies"), 100);
    assert_eq!(http2(&report, "connections").as_u64(), Some(0));
    assert_eq!(http2(&report, "fallbacks").as_u64(), Some(2));
    let refused = prony(&[&["--http", "2-only", "--json"], &load[..]].concat());
    assert_eq!(refused.report().errors("tls-handshake"), 100);
    let plain = Other::nginx("server { listen 127.0.0.1:@PORT@; location / { return 200 'x'; } }");
    let refused = prony(&["--h2c", "-n", "5", "-c", "1", "--json", &plain.url("/")]);
    assert_eq!(refused.report().errors("not-http2"), 5);
}

/// The first of 300 free ports: h2specd has one for each test. They are below those that the kernel
/// gives to other tests' sockets.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut starts = (12_000..32_000).step_by(300);
    starts.find(|&from| (from..from + 300).all(is_free)).expect("free ports")
}

/// The conformance tests of h2specd: a server that tests its clients, each at a port of its own. It
/// can start them, but then gives each of them 3 s, which a busy machine may not have. So it waits
/// for clients, as for browsers, and its page with the results says when all have been there.
#[test]
fn h2specd_passes_whole() {
    let Some(h2specd) = std::env::var_os("PRONY_TEST_H2SPECD") else {
        eprintln!("skipped: PRONY_TEST_H2SPECD does not name the program h2specd");
        return;
    };
    let _alone = alone();
    let from = free_ports();
    let page = from + 299;
    let mut command = Command::new(h2specd);
    command.args(["--strict", "-o", "60", "-f", &from.to_string(), "-p", &page.to_string()]);
    let _server = Killed(command.stdout(Stdio::null()).spawn().expect("h2specd starts"));
    let is_there = || TcpStream::connect(("127.0.0.1", page)).is_ok();
    wait_until("the page of h2specd", is_there);
    let results = fetch(page, "/report");
    let urls: Vec<&str> = results.split('"').filter(|word| word.starts_with("http://")).collect();
    assert!(urls.len() > 50, "{results}");
    // Each stays connected after its request: what it has to do may come later.
    let load = ["--h2c", "-d", "1h", "-c", "1", "-t", "1", "--think", "1h", "--timeout", "1h"];
    let client = |url: &&str| Running::start(&[&load[..], &["--quiet", url]].concat());
    let clients: Vec<Running> = urls.iter().map(client).collect();
    let mut counts = Vec::new();
    wait_until("the results of h2specd", || {
        let results = fetch(page, "/report");
        let line = results.split("tests,").next().and_then(|text| text.rsplit("<div>").next());
        let rest = results.split("tests,").nth(1).and_then(|text| text.split("</div>").next());
        let numbers = [line, rest].into_iter().flatten().flat_map(|text| text.split(' '));
        counts = numbers.filter_map(|word| word.parse::<usize>().ok()).collect();
        counts.first() == Some(&urls.len())
    });
    drop(clients);
    // Tests, passed, skipped, failed.
    let results = fetch(page, "/report");
    assert_eq!(counts, [urls.len(), urls.len(), 0, 0], "{results}");
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
