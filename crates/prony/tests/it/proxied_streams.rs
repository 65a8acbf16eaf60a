//! Connections of WebSocket and streams of events through nginx as a reverse proxy: prony, nginx
//! and the target server count the same.

use serde_json::Value;

use crate::rig::{Other, Report, Serve, alone, have, measure, served, wait_until};

/// nginx before this server. It passes WebSocket on, keeps no part of a reply back, and logs each
/// request when it has ended: its status, that of the server, and the body bytes that it has sent.
fn proxy(server: &Serve) -> Other {
    let target = server.url("");
    let target = target.trim_end_matches('/');
    Other::nginx(&format!(
        "log_format ended '$status $upstream_status $body_bytes_sent $request_uri';
        access_log @DIR@/served ended;
        map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
        server {{
            listen 127.0.0.1:@PORT@;
            location / {{
                proxy_pass {target};
                proxy_http_version 1.1;
                proxy_set_header Host $host;
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection $connection_upgrade;
                proxy_buffering off;
            }}
        }}"
    ))
}

/// The lines of nginx's log that start with this, once there are `count`; there are no others.
fn logged(proxy: &Other, count: usize) -> Vec<Vec<String>> {
    let read = || std::fs::read_to_string(proxy.file("served")).unwrap_or_default();
    wait_until("nginx's log", || read().lines().count() >= count);
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = read().lines().map(words).collect();
    assert_eq!(lines.len(), count, "{lines:?}");
    lines
}

fn messages(report: &Report) -> &Value {
    &report.0["measurement"]["tally"]["stream_messages"]
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

/// Echoes, with their stamps, pings and closes: all frames pass the proxy.
#[test]
fn websocket_through_nginx_has_the_counts_of_both() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--ws", "echo", "--latency", "fixed:3ms"]);
    let proxy = proxy(&server);
    let url = proxy.url("/chat").replacen("http", "ws", 1);
    let load = ["-n", "40", "-c", "4", "--messages", "200/s", "--messages-count", "25"];
    let more = ["-b", "{\"id\":\"{{stamp}}\"}", "--messages-reply", "token", &url];
    let report = measure(&[&load[..], &more].concat());
    report.check_sums();
    assert_eq!((report.status(1000), report.count("failed")), (40, 0));
    let names = ["sent", "awaited", "answered", "received", "unmatched"];
    assert_eq!(names.map(|name| count(messages(&report), name)), [1_000, 1_000, 1_000, 1_000, 0]);
    assert!(report.ms("message", "min") >= 3.0, "{:#}", report.0["measurement"]["times"]);
    let lines = logged(&proxy, 40);
    // The bytes that nginx has passed on after the heads are those that prony has received.
    let passed: u64 = lines.iter().map(|words| words[2].parse::<u64>().expect("bytes")).sum();
    assert!(
        lines.iter().all(|words| words[..2] == ["101", "101"] && words[3] == "/chat"),
        "{lines:?}"
    );
    let echoes = report.0["measurement"]["tally"]["bytes_body"].as_u64().expect("bytes");
    // Each echo has a head of two bytes, and each close has four.
    assert_eq!(passed, echoes + 1_000 * 2 + 40 * 4);
    let counters = server.stop();
    let counts = ["sockets", "socket_messages_received", "socket_messages_sent", "violations"];
    assert_eq!(counts.map(|name| served(&counters, name)), [40, 1_000, 1_000, 0]);
}

/// A server behind nginx that is not there, or that has no WebSocket, has the status of HTTP.
#[test]
fn a_proxy_without_its_server_is_reported_as_it_is() {
    if !have("nginx") {
        return;
    }
    let server = Serve::start(&[]);
    let proxy = proxy(&server);
    drop(server.stop());
    let url = proxy.url("/").replacen("http", "ws", 1);
    let report = measure(&["-n", "6", "-c", "2", "--expect", "502", &url]);
    assert_eq!((report.status(502), report.count("failed")), (6, 0));
    let lines = logged(&proxy, 6);
    assert!(lines.iter().all(|words| words[0] == "502"), "{lines:?}");
}

/// Events through a proxy that does not keep them back: the gaps are those of the server.
#[test]
fn events_through_nginx_have_the_counts_and_gaps_of_the_server() {
    if !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Serve::start(&["--sse", "ttft=30ms,gap=5ms,count=20,pings"]);
    let proxy = proxy(&server);
    let load = ["-n", "40", "-c", "4", "--stream", "sse", &proxy.url("/events")];
    let report = measure(&load);
    report.check_sums();
    assert_eq!((report.status(200), report.count("failed")), (40, 0));
    let bodies = &messages(&report)["bodies"];
    let ends = ["begun", "ended_by_server", "empty", "incomplete", "failed"];
    assert_eq!(ends.map(|name| count(bodies, name)), [40, 40, 0, 0, 0]);
    assert_eq!(count(messages(&report), "received"), 40 * 20);
    assert!(report.ms("first_message", "min") >= 30.0);
    // A late first event makes the gaps after it shorter: the last is due at its own time.
    let last = report.ms("first_message", "mean") + 19.0 * report.ms("message_gap", "mean");
    assert!(last >= 30.0 + 19.0 * 5.0 - 0.1, "{last}");
    let lines = logged(&proxy, 40);
    assert!(
        lines.iter().all(|words| words[..2] == ["200", "200"] && words[3] == "/events"),
        "{lines:?}"
    );
    let counters = server.stop();
    assert_eq!((served(&counters, "events"), served(&counters, "requests")), (800, 40));
    // A bound ends a stream that never ends, and nginx ends it towards the server.
    let server = Serve::start(&["--sse", "ttft=1ms,gap=2ms,count=1000000"]);
    let proxy = self::proxy(&server);
    let url = proxy.url("/");
    let load = ["-n", "12", "-c", "3", "--stream", "sse", "--stream-events", "9", &url];
    let report = measure(&load);
    assert_eq!((report.status(200), count(messages(&report), "received")), (12, 12 * 9));
    assert_eq!(count(&messages(&report)["bodies"], "ended_by_count"), 12);
    logged(&proxy, 12);
}
