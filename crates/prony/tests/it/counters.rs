//! The client's counters equal those of `prony serve`, nginx and haproxy.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::rig::{Other, Report, Serve, alone, drivers, fetch, have, measure, prony, served};
use crate::scripted::{Deed, Scripted, send};

/// The loads: keep-alive, a new connection per request, several requests per connection, pipelined,
/// open loop.
const LOADS: [&[&str]; 6] = [
    &["-c", "10", "-n", "20k"],
    &["-c", "10", "-n", "2k", "--no-reuse"],
    &["-c", "7", "-n", "3k", "--requests-per-connection", "10"],
    &["-c", "5", "-n", "20k", "-p", "16"],
    &["-c", "10", "-d", "500ms", "--http", "1.0"],
    &["-r", "2k", "--arrivals", "poisson", "-d", "500ms"],
];

/// The counters of a load.
#[derive(Debug, PartialEq)]
struct Counts {
    connections: u64,
    requests: u64,
}

impl Counts {
    fn of(report: &Report) -> Self {
        report.check_sums();
        assert_eq!(report.count("failed") + report.count("unfinished"), 0, "{:#}", report.0);
        Self { connections: report.count("connected"), requests: report.count("replies") }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            requests: self.requests - before.requests,
        }
    }
}

#[test]
fn counters_agree_with_prony_serve() {
    let _alone = alone();
    for driver in drivers() {
        for load in LOADS {
            let server = Serve::start(&["--driver", driver]);
            let report = measure(&[load, &["--driver", driver, &server.url("/")]].concat());
            let there = server.stop();
            let counted = Counts {
                connections: served(&there, "connections"),
                requests: served(&there, "requests"),
            };
            assert_eq!(counted, Counts::of(&report), "{driver} {load:?}");
            assert_eq!(served(&there, "replies"), report.count("replies"));
            assert_eq!(there["statuses"]["200"].as_u64(), Some(report.status(200)));
            assert_eq!(served(&there, "bytes_in"), report.count("bytes_sent"));
            let whole = report.count("bytes_head") + report.count("bytes_body");
            assert_eq!(served(&there, "bytes_out"), whole);
            assert_eq!(report.count("bytes_received"), whole);
            for nothing in ["bad_requests", "cut_requests", "unanswered", "outstanding", "open"] {
                assert_eq!(served(&there, nothing), 0, "{nothing}: {there:#}");
            }
        }
    }
}

const NGINX: &str = "
    access_log off;
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        location / { return 200 'hello'; }
        location /status { stub_status; }
    }
";

/// The counters of nginx, which include the request for them and its connection.
fn nginx_counts(server: &Other) -> Counts {
    let text = fetch(server.port, "/status");
    let line = text.lines().skip_while(|l| !l.starts_with("server accepts")).nth(1);
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    assert_eq!(numbers[0], numbers[1], "all accepted connections were handled");
    Counts { connections: numbers[0], requests: numbers[2] }
}

#[test]
fn counters_agree_with_nginx() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Other::nginx(NGINX);
    for driver in drivers() {
        for load in LOADS {
            let before = nginx_counts(&server);
            let report = measure(&[load, &["--driver", driver, &server.url("/")]].concat());
            let mut after = nginx_counts(&server).since(&before);
            after.connections -= 1;
            after.requests -= 1;
            assert_eq!(after, Counts::of(&report), "{driver} {load:?}");
        }
    }
}

/// Incorrect chunks would be a bad request, or leave bytes that look like one.
#[test]
fn chunked_bodies_arrive_complete() {
    let _alone = alone();
    let load = ["-c", "2", "-n", "200", "-b", "hello world", "-H", "Transfer-Encoding: chunked"];
    for driver in drivers() {
        let server = Serve::start(&["--driver", driver]);
        let report = measure(&[&load[..], &["--driver", driver, &server.url("/")]].concat());
        let there = server.stop();
        assert_eq!(Counts::of(&report), Counts { connections: 2, requests: 200 });
        assert_eq!((served(&there, "requests"), served(&there, "bad_requests")), (200, 0));
        assert_eq!(served(&there, "bytes_in"), report.count("bytes_sent"));
    }
    if have("nginx") {
        let server = Other::nginx(NGINX);
        let before = nginx_counts(&server);
        let report = measure(&[&load[..], &[&server.url("/")]].concat());
        let mut after = nginx_counts(&server).since(&before);
        (after.connections, after.requests) = (after.connections - 1, after.requests - 1);
        assert_eq!(after, Counts { connections: 2, requests: 200 });
        assert_eq!(after, Counts::of(&report));
    }
}

/// A truncated reply, one that never ends, a good one, and so on.
#[test]
fn counts_the_bytes_of_failed_replies() {
    let _alone = alone();
    let cut = format!("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{}", "x".repeat(7_000));
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "y".repeat(5_000));
    let good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    let each = (cut.len() + endless.len() + good.len()) as u64;
    for driver in drivers() {
        let (cut, endless) = (cut.clone(), endless.clone());
        let server = Scripted::start(move |connection, _| match connection % 3 {
            0 => send(&cut),
            1 => Deed::Keep(endless.clone().into()),
            _ => send(good),
        });
        let url = format!("http://{}/", server.address());
        let load = ["-c", "1", "-n", "6", "--timeout", "300ms", "--driver", driver, &url];
        let report = measure(&load);
        assert_eq!((report.count("replies"), report.count("failed")), (2, 4), "{driver}");
        assert_eq!(report.count("bytes_received"), 2 * each, "{driver}");
    }
}

const HAPROXY: &str = "
global
    stats socket @DIR@/stats
    maxconn 400
    nbthread 1
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
frontend target
    bind 127.0.0.1:@PORT@
    http-request return status 200 content-type text/plain string hello
";

fn haproxy_counts(server: &Other) -> Counts {
    let mut socket = UnixStream::connect(server.file("stats")).expect("the statistics socket");
    socket.write_all(b"show stat\n").expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    let mut lines = text.lines();
    let names: Vec<&str> =
        lines.next().expect("names").trim_start_matches("# ").split(',').collect();
    let row = lines.find(|l| l.starts_with("target,FRONTEND")).expect("the frontend");
    let values: Vec<&str> = row.split(',').collect();
    let number = |name: &str| {
        let at = names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no {name}"));
        values[at].parse().unwrap_or_else(|_| panic!("{name} is {:?}", values[at]))
    };
    Counts { connections: number("conn_tot"), requests: number("req_tot") }
}

#[test]
fn counters_agree_with_haproxy() {
    if !have("haproxy") {
        return;
    }
    let _alone = alone();
    let server = Other::start("haproxy", &["-db", "-f"], HAPROXY);
    assert!(fetch(server.port, "/").ends_with("hello"));
    // haproxy counts the connection that checked its start, which had no request, after it sees the
    // close.
    let begun = Instant::now();
    while haproxy_counts(&server).requests == 0 && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(10));
    }
    for driver in drivers() {
        for load in LOADS {
            let before = haproxy_counts(&server);
            let report = measure(&[load, &["--driver", driver, &server.url("/")]].concat());
            let after = haproxy_counts(&server).since(&before);
            assert_eq!(after, Counts::of(&report), "{driver} {load:?}");
        }
    }
}

/// Connections of httperf are sessions internally, but the verdict must count failed requests (30
/// of 1,040) and not failed sessions (10 of 10).
#[test]
fn httperf_without_sessions_counts_failed_requests() {
    let _alone = alone();
    let server = Serve::start(&["--close-after", "101,silent"]);
    let url = server.url("");
    let port = url.rsplit(':').next().expect("a port");
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("text");
    let load = ["--num-conns", "10", "--num-calls", "300", "--burst-length", "8", "--output", file];
    let target = ["httperf", "--server", "127.0.0.1", "--port", port];
    let ended = prony(&[&target[..], &load].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = fs::read_to_string(file).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let verdict = &report["verdict"];
    assert_eq!(verdict["failed"]["requests"], 30, "{verdict:#}");
    assert_eq!(verdict["failed"]["share"], 30.0 / 1_040.0, "{verdict:#}");
    // On a busy machine, the verdict may have reasons that concern the client.
    let reasons = verdict["reasons"].as_array().expect("reasons");
    assert!(reasons.iter().all(|reason| reason["kind"] != "failures"), "{verdict:#}");
}
