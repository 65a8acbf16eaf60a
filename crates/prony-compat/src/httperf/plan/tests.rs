//! Command lines as plans.

use std::fs;

use super::*;
use crate::httperf::options::{self, Wish};
use crate::httperf::pages;

/// The options of a command line.
pub(in super::super) fn opts_of(line: &str) -> Opts {
    let words: Vec<String> = line.split_whitespace().map(Into::into).collect();
    match options::read("httperf", &words, &mut |_| {}) {
        Ok(Wish::Run(opts)) => *opts,
        other => panic!("{line}: {other:?}"),
    }
}

/// Its plan.
pub(in super::super) fn plan_of(line: &str) -> Plan {
    plan(&opts_of(line), pages::page, &mut |w| panic!("{line}: {w}")).unwrap().0
}

/// The bursts of a kind as text: the paths of the calls; `+` marks a leading first call.
fn bursts(plan: &Plan, kind: usize) -> String {
    let all = plan.sessions.as_ref().unwrap().kinds[kind].bursts.iter().map(|b| {
        let paths = b.calls.iter().map(|&c| plan.calls[c as usize].path.as_str());
        let lead = if b.lead { "+" } else { "" };
        format!("{}x{lead}{}", b.repeat, paths.collect::<Vec<_>>().join(","))
    });
    all.collect::<Vec<_>>().join(" ")
}

#[test]
fn one_get() {
    let p = plan_of("--server 127.0.0.1 --port 8080");
    assert_eq!(p.endpoints, [Endpoint::Tcp { host: "127.0.0.1".into(), port: 8080 }]);
    let header = |n: &str, v: &str| (n.to_owned(), v.to_owned());
    assert_eq!(
        p.calls[0].headers,
        vec![header("User-Agent", "httperf/0.9.0"), header("Host", "127.0.0.1")].into()
    );
    assert_eq!((p.calls.len(), &*p.calls[0].method, p.calls[0].bare), (1, "GET", true));
    assert_eq!(p.load, Load::Closed { connections: 1, think: Think::None });
    assert_eq!(p.stop, Stop { sessions: Some(1), ..Stop::default() });
    assert_eq!((p.timeout, p.connect_timeout, p.timeout_from_send), (Span::MAX, Span::MAX, true));
    let s = p.sessions.as_ref().unwrap();
    assert_eq!((s.connections, s.lost, s.on_failure), (1, Lost::Fail, OnFailure::End));
    assert_eq!(bursts(&p, 0), "1x/");
}

#[test]
fn bursts_of_connections_and_sessions() {
    for (line, made, pipeline) in [
        ("--num-calls 5 --burst-length 2", "2x/,/ 1x/", 2),
        ("--num-calls 4 --burst-length 9", "1x/,/,/,/", 9),
        ("--num-calls 100000", "100000x/", 1),
        ("--wsess 3,5,0.2 --burst-length 3", "1x+/,/,/ 1x+/,/", 32),
        ("--wsess 3,4,0 --burst-length 3 --max-piped-calls 1", "1x+/,/,/ 1x/", 1),
        ("--wsess 3,0,0", "1x/", 32),
        ("--wsess 3,2,0 --http-version 1.0", "2x/", 1),
    ] {
        let p = plan_of(line);
        assert_eq!((bursts(&p, 0).as_str(), p.pipeline), (made, pipeline), "{line}");
    }
    let p = plan_of("--wsess 3,5,0.2 --max-connections 9 --session-cookies");
    let s = p.sessions.unwrap();
    assert_eq!((s.connections, s.lost, s.cookies), (9, Lost::Resend, Cookies::Always));
    assert_eq!(s.kinds[0].bursts[0].think, Think::Fixed(Span::from_millis(200)));
    assert_eq!(p.stop.sessions, Some(3));
}

#[test]
fn limits_of_time() {
    let p = plan_of("--timeout 2 --think-timeout 0.5");
    assert_eq!((p.connect_timeout, p.timeout), (Span::from_secs(2), Span::from_millis(2_500)));
    let p = plan_of("--think-timeout 0.5");
    assert_eq!((p.connect_timeout, p.timeout), (Span::MAX, Span::from_millis(500)));
    let p = plan_of("--timeout -1");
    assert_eq!((p.connect_timeout, p.timeout), (Span::MAX, Span::MAX));
}

#[test]
fn rates_and_periods() {
    let p = plan_of("--rate 50 --num-conns 100");
    let Load::Open { rate, arrivals: Arrivals::Fixed, .. } = p.load else { panic!("{:?}", p.load) };
    assert_eq!(rate, RatePlan::constant(50.0));
    let p = plan_of("--period e0.005 --num-conns 3 --rate 0 --period u0.5,0.5");
    let Load::Open { arrivals: Arrivals::Trace(times), .. } = p.load else { panic!() };
    assert_eq!(*times, [Span::ZERO, Span::from_millis(500), Span::from_secs(1)]);
    for line in ["--rate 0", "--rate -3", "--period 0", "--period e0", "--rate inf"] {
        assert_eq!(plan_of(line).load, Load::Closed { connections: 1, think: Think::None });
    }
    let p = plan_of("--rate 5 --num-conns 9 --max-connections 2");
    assert!(matches!(p.load, Load::Open { connections: 2, .. }));
}

#[test]
fn files_and_servers_are_used_in_turn() {
    let p = plan_of("--wset 3,1 --num-conns 10 --num-calls 2");
    // The order repeats after six calls (three sessions).
    let all: Vec<_> = (0..3).map(|k| bursts(&p, k)).collect();
    assert_eq!(all, ["1x/1.html 1x/2.html", "1x/0.html 1x/1.html", "1x/2.html 1x/0.html"]);
    assert_eq!(p.sessions.unwrap().kinds.len(), 3);

    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let uris = file("uris", "/a\0/b\0/c\0");
    let p = plan_of(&format!("--wlog n,{uris} --num-conns 6 --num-calls 2"));
    assert_eq!((bursts(&p, 0), bursts(&p, 1)), ("1x/a 1x/b".into(), "1x/c".into()));
    assert_eq!(p.stop.sessions, Some(2), "no more than the list has");
    let p = plan_of(&format!("--wlog y,{uris} --num-conns 6"));
    assert_eq!((p.sessions.unwrap().kinds.len(), p.stop.sessions), (3, Some(6)));

    let servers = file("servers", "127.0.0.1\0localhost\r\n\0");
    let p = plan_of(&format!("--servers {servers} --num-conns 5"));
    let hosts: Vec<_> = p.calls.iter().map(|c| (c.endpoint, c.headers[1].1.as_str())).collect();
    assert_eq!(hosts, [(0, "127.0.0.1"), (1, "localhost")]);
    assert_eq!(p.sessions.unwrap().kinds.len(), 2);
    assert_eq!(p.endpoints[1], Endpoint::Tcp { host: "localhost".into(), port: 80 });
}

#[test]
fn session_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.log");
    let line = format!("--wsesslog 5,0.1,{}", path.display());
    fs::write(&path, "/a think=0.5\n\t/b\n/c method=POST contents='x'\n\n/d\n").unwrap();
    let p = plan_of(&line);
    assert_eq!((bursts(&p, 0), bursts(&p, 1)), ("1x+/a,/b 1x/c".into(), "1x/d".into()));
    let post = &p.calls[2];
    assert_eq!((&*post.method, post.body.as_slice()), ("POST", &b"x"[..]));
    assert_eq!(post.headers[2], ("Content-length".into(), "1".into()));
    let thinks: Vec<_> =
        p.sessions.as_ref().unwrap().kinds[0].bursts.iter().map(|b| b.think).collect();
    let fixed = |ms| Think::Fixed(Span::from_millis(ms));
    assert_eq!(thinks, [fixed(500), fixed(100)]);

    for (text, message) in [
        ("/a\n/b method=get\n", "did not recognize method 'get' in F (line 2, column 4)"),
        ("/a x=1\n", "did not recognize arg 'x=1' in F (line 1, column 4)"),
        (
            "",
            "F: the file has no requests; write one per line, for example /index.html think=2 \
             (line 1, column 1)",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let refused = plan(&opts_of(&line), pages::page, &mut |_| {}).unwrap_err().message;
        assert_eq!(refused.replace(&path.display().to_string(), "F"), message);
    }
}

#[test]
fn malformed_header_lines_are_sent_unchanged() {
    let p = plan_of(r"--add-header A:b\n --http-version 1.0 --no-host-hdr");
    assert_eq!(p.calls[0].raw, b"A:b\r\n");
    let names: Vec<_> = p.calls[0].headers.iter().map(|h| h.0.as_str()).collect();
    assert_eq!(names, ["User-Agent", "Connection"]);
    let p = plan_of("--user-agent= --uri a<b --server-name x --server [::1] --ssl");
    assert_eq!(p.calls[0].headers[..], [("Host".to_owned(), "x".to_owned())]);
    assert_eq!(p.calls[0].path, "a<b");
    let tcp = Endpoint::Tcp { host: "::1".into(), port: 443 };
    assert_eq!(p.endpoints, [tcp.secured("::1")]);
}

#[test]
fn statuses() {
    let accepts = |line: &str, status| plan_of(line).expect.accepts(status);
    let both = |line: &str| (accepts(line, 503), accepts(line, 404));
    assert_eq!(both("--wsess 1,1,0"), (true, true));
    assert_eq!(both("--wsess 1,1,0 --failure-status 503"), (false, true));
    assert_eq!(both("--failure-status 503"), (true, true));
    let p = plan_of("--wsess 1,1,0 --failure-status 503 --retry-on-failure --retry-limit 3");
    assert_eq!(p.sessions.unwrap().retries, 3);
}

#[test]
fn runs_that_do_nothing() {
    for line in ["--num-conns 0", "--num-calls 0", "--wsess 0,1,0"] {
        assert!(!plan(&opts_of(line), pages::page, &mut |_| {}).unwrap().1, "{line}");
    }
}
