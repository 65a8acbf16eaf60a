//! Bursts, sessions, cookies, lists of URIs.

use super::{numbers, ours, run};
use crate::program::Which;
use crate::server::Server;

#[test]
fn d05_a_last_short_burst_ends_its_connection() {
    let server = Server::start();
    for (args, requests) in [
        (&["--num-calls=5", "--burst-length=2", "--timeout=5"][..], 5.0),
        (&["--num-calls=7", "--burst-length=3", "--num-conns=4", "--rate=200"], 28.0),
        (&["--num-calls=11", "--burst-length=10"], 11.0),
    ] {
        let ended = ours(&server, args);
        let [sent, replies, errors] = numbers(&ended, ["requests", "replies", "errors"]);
        assert_eq!((sent, replies, errors), (requests, requests, 0.0), "{ended:?}");
    }
}

#[test]
fn d06_a_last_short_burst_ends_its_session() {
    let server = Server::start();
    for (calls, burst) in [(5, 3), (6, 4), (7, 2), (3, 8)] {
        let sessions = format!("--wsess=2,{calls},0");
        let ended = ours(&server, &[&sessions, &format!("--burst-length={burst}")]);
        let mut expected = vec![0; calls];
        expected.push(2);
        assert_eq!(ended.report().histogram, Some(expected), "{calls} in {burst}: {ended:?}");
    }
}

#[test]
fn d14_a_timeout_ends_its_session_and_the_next_one_runs() {
    let server = Server::start();
    let ended = ours(&server, &["--wsess=3,3,0", "--timeout=0.2", "--uri=/hang"]);
    let [good, all, timeouts] = numbers(&ended, ["sess_good", "sess_all", "client_timo"]);
    assert_eq!((good, all, timeouts), (0.0, 3.0, 3.0), "{ended:?}");
}

#[test]
fn d15_retries_support_bodies_and_are_limited() {
    let server = Server::start();
    let args = ["--failure-status=503", "--retry-on-failure"];
    // Every other reply of a connection is a failure: 4 calls need 3 more.
    let again = ours(&server, &[&args[..], &["--wsess=3,4,0", "--uri=/evenfail"]].concat());
    let [good, replies] = numbers(&again, ["sess_good", "replies"]);
    assert_eq!((good, replies), (3.0, 21.0), "{again:?}");
    // This server sends failures only.
    let never = ours(&server, &[&args[..], &["--wsess=1,2,0", "--uri=/s503"]].concat());
    assert_eq!(numbers(&never, ["sess_good", "sess_all"]), [0.0, 1.0], "{never:?}");
    let dead = ours(&server, &[&args[..], &["--wsess=2,2,0", "--uri=/empty"]].concat());
    assert_eq!(numbers(&dead, ["sess_good", "sess_all"]), [0.0, 2.0], "{dead:?}");
}

#[test]
fn d28_an_empty_run_ends_at_once() {
    let server = Server::start();
    for args in [&["--num-conns=0"][..], &["--num-calls=0"], &["--wsess=0,5,0"]] {
        let ended = ours(&server, args);
        assert_eq!(numbers(&ended, ["connections", "requests"]), [0.0, 0.0], "{ended:?}");
    }
    for text in ["", "\n\n", "# nothing\n"] {
        let ended = run(server.port, &["--wsesslog=1,0,f"]).file("f", text).run(Which::Ours);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.starts_with("httperf: ") && ended.stderr.contains(" f"), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn d29_accepts_any_method_in_capitals() {
    let server = Server::start();
    let file = "/a method=PATCH contents=x\n/b method=PROPFIND\n/c method=BREW\n/d method=POSTXX\n";
    let ended = run(server.port, &["--wsesslog=1,0,f"]).file("f", file).run(Which::Ours);
    assert_eq!(numbers(&ended, ["replies"]), [4.0], "{ended:?}");
    let bytes = String::from_utf8(server.seen()[0].bytes.clone()).expect("text");
    for line in ["PATCH /a HTTP", "PROPFIND /b HTTP", "BREW /c HTTP", "POST /d HTTP"] {
        assert!(bytes.contains(line), "{bytes}");
    }
}

#[test]
fn d30_accepts_lines_of_any_length() {
    let server = Server::start();
    let body = "0123456789".repeat(60_000);
    let file = format!("/a method=POST contents={body}\n/b\n");
    let ended = run(server.port, &["--wsesslog=1,0,f"]).file("f", file).run(Which::Ours);
    assert_eq!(numbers(&ended, ["requests", "replies"]), [2.0, 2.0], "{ended:?}");
    let bytes = String::from_utf8(server.seen()[0].bytes.clone()).expect("text");
    assert!(bytes.contains("\r\nContent-length: 600000\r\n\r\n0123"), "{}", &bytes[..200]);
}

#[test]
fn d32_a_slash_at_the_end_of_a_prefix_is_not_doubled() {
    let server = Server::start();
    let ended = ours(&server, &["--wset=10,1", "--uri=/pre/", "--num-conns=3"]);
    assert_eq!(numbers(&ended, ["replies"]), [3.0], "{ended:?}");
    let all = server.seen();
    let lines: Vec<_> = all
        .iter()
        .map(|s| String::from_utf8_lossy(&s.bytes).lines().next().map(str::to_owned))
        .collect();
    let line = |i: u8| Some(format!("GET /pre/{i}.html HTTP/1.1"));
    assert_eq!(lines, [line(1), line(2), line(3)]);
}

#[test]
fn d33_sends_all_entries_of_a_list() {
    for rate in [&[][..], &["--rate=1000"]] {
        for list in ["/a\0/b\0/c\0", "/a\n/b\r\n/c\n"] {
            let server = Server::start();
            let args = [&["--wlog=n,f", "--num-conns=6", "--num-calls=1"], rate].concat();
            let ended = run(server.port, &args).file("f", list).run(Which::Ours);
            let [connections, requests, replies] =
                numbers(&ended, ["connections", "requests", "replies"]);
            assert_eq!((connections, requests, replies), (3.0, 3.0, 3.0), "{ended:?}");
            assert_eq!(ended.stdout.matches("Maximum connect burst").count(), 1, "{ended:?}");
            let mut paths: Vec<_> = server.seen().iter().map(|s| s.bytes[4..6].to_vec()).collect();
            paths.sort();
            assert_eq!(paths, [b"/a", b"/b", b"/c"]);
        }
    }
}

#[test]
fn d34_stores_cookies_by_name() {
    let server = Server::start();
    let cookies = |path: &str| {
        let before = server.seen().len();
        let uri = format!("--uri={path}");
        let ended = ours(&server, &["--wsess=1,3,0", "--session-cookies", &uri]);
        assert_eq!(numbers(&ended, ["replies"]), [3.0], "{ended:?}");
        let text = String::from_utf8(server.seen()[before].bytes.clone()).expect("text");
        let lines = text.lines().filter_map(|l| l.strip_prefix("Cookie: ").map(str::to_owned));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(cookies("/twocookies"), ["a=1; b=2"; 2]);
    assert_eq!(cookies("/tightcookie"), ["sid=tight"; 2]);
    assert_eq!(cookies("/cookie"), ["sid=1", "sid=2"]);
    // Each session has its own cookies.
    assert_eq!(cookies("/cookie"), ["sid=1", "sid=2"]);
}

#[test]
fn d40_two_kinds_of_sessions_are_refused() {
    let server = Server::start();
    for args in [
        &["--wsess=2,3,0", "--wsesslog=2,0,f"][..],
        &["--wsess=2,3,0", "--wsess=2,3,0"],
        &["--wsesslog=2,0,f", "--wsesslog=2,0,f"],
    ] {
        let ended = run(server.port, args).file("f", "/\n").run(Which::Ours);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("--wsess"), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
}
