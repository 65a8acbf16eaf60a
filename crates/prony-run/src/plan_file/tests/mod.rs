//! Tests of reading and writing plan files.

mod checks;
mod dynamic;
mod follow;
mod identity;
pub(crate) mod phases;
mod plainness;
mod ramp;
mod refused;
mod scenarios;
mod sockets;

use std::path::Path;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use prony_base::units::Span;
use prony_plan::plan::{BroadcastPlan, Plan};

use super::{Common, explain, parse, session_file, summary};
use crate::environment::Environment;

fn around() -> Environment {
    Environment {
        connections_max: 9,
        connections_why: "a reason".into(),
        seed: 1,
        simulated: false,
    }
}

pub(crate) fn plan(text: &str) -> Plan {
    match parse("p.toml", text, Some(Path::new("/nowhere")), &around()) {
        Ok(planned) => planned.plan,
        Err(sentences) => panic!("{}", sentences.join("\n")),
    }
}

/// Checks the explained form of a plan file, which must read back as the same plan.
fn check(text: &str, explained: Expect) {
    let first = plan(text);
    let written = explain(&first, &[]);
    assert_eq!(plan(&written), first, "{written}");
    explained.assert_eq(&written);
}

#[test]
fn reads_a_plan_of_one_url() {
    check(
        "url = \"http://h:81/a?b\"",
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h:81/a?b"
            connections = 50
            duration = "10s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"
        "##]],
    );
}

#[test]
fn reads_requests_in_all_forms() {
    check(
        r#"
            endpoints = [{ host = "h", port = 80 }, { unix = "/s" }, { host = "::1", port = 1, tls = "n" }]
            connections = 1
            requests = "10k"
            headers = { B = "b", A = 1, Accept = "x" }
            expect = [200, "404", "5xx"]
            expect-body = { base64 = "/w==" }
            pick = "random"
            request = [
              "/a",
              "DELETE /b",
              "http://h/c",
              { path = "/d", endpoint = 1, headers = ["a: own", ["C", " c "]] },
              { endpoint = 2, body = { text = "@@" }, bare = true },
              { url = "http://u:p@i:8080/e", method = "PUT", body = { text = "@" }, expect-length = 0 },
              { path = "*", method = "OPTIONS", host = "x", name = "o", body = '''"'''},
            ]
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            endpoints = [{ host = "h", port = 80 }, { unix = "/s" }, { host = "::1", port = 1, tls = "n" }, { host = "i", port = 8080 }]
            headers = ["B: b"]
            connections = 1
            requests = 10000
            pick = "random"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200,404,5xx"
            expect-body = { base64 = "/w==" }

            request = [
              { path = "/a", headers = ["A: 1", "Accept: x"] },
              { path = "/b", method = "DELETE", headers = ["A: 1", "Accept: x"] },
              { path = "/c", headers = ["A: 1", "Accept: x"] },
              { path = "/d", endpoint = 1, headers = ["Accept: x", "a: own", ["C", " c "]] },
              { path = "/", endpoint = 2, headers = ["A: 1", "Accept: x"], bare = true, body = { text = "@@" } },
              { path = "/e", method = "PUT", endpoint = 3, headers = ["A: 1", "Accept: x", "Authorization: Basic dTpw"], body = { text = "@" }, expect = "200-399", expect-length = 0 },
              { path = "*", method = "OPTIONS", host = "x", headers = ["A: 1", "Accept: x"], body = '"', name = "o" },
            ]
        "##]],
    );
}

const SESSIONS: &str = r#"
            url = "http://h"
            duration = "1m"
            users = 3
            session-think = "1s"
            session-connections = 4
            cookies = "session"
            lost = "resend"
            on-failure = "continue"
            retries = 2

            [[session]]
            name = "look"
            request = [
              "/",
              ["/a", "/b"],
              { burst = ["/c", { path = "/d", name = "d" }], lead = true, think = "exp:2s", repeat = 3 },
              { path = "/e", think = "uniform:1s:2s" },
              { path = "/f", think = 0 },
              { path = "/g", method = "PUT", body = "x", repeat = 2 },
              "/",
            ]

            [[session]]
            weight = 3
            [[session.request]]
            path = "/a"
            think = 0.5
            [[session.request]]
            [[session.request.burst]]
            path = "/a"
            [[session.request.burst]]
            url = "http://h/h"
        "#;

#[test]
fn reads_sessions_in_all_forms() {
    check(
        SESSIONS,
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h"
            users = 3
            duration = "1m"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200-399"
            session-connections = 4
            cookies = "session"
            lost = "resend"
            on-failure = "continue"
            retries = 2

            [[session]]
            name = "look"
            request = [
              { path = "/", think = "1s" },
              { burst = ["/a", "/b"], think = "1s" },
              { burst = ["/c", { path = "/d", name = "d" }], lead = true, think = "exp:2s", repeat = 3 },
              { path = "/e", think = "uniform:1s:2s" },
              "/f",
              { path = "/g", method = "PUT", body = "x", think = "1s", repeat = 2 },
              { path = "/", think = "1s" },
            ]

            [[session]]
            weight = 3
            request = [
              { path = "/a", think = "500ms" },
              { burst = ["/a", "/h"], think = "1s" },
            ]
        "##]],
    );
}

#[test]
fn reads_loads_in_all_forms() {
    let load = |text: &str| {
        let plan = plan(&format!("url = \"http://h\"\n{text}"));
        assert_eq!(self::plan(&explain(&plan, &[])), plan, "{text}");
        summary(&plan)
    };
    expect![[r#"
        1 request, 1 server, closed loop of 50 connections
        1 request, 1 server, closed loop of 1000 connections, think time 1.5s
        1 request, 1 server, open loop, 1k/s, fixed
        1 request, 1 server, open loop, 1k..2k@10s/s, poisson
        1 request, 1 server, open loop, uniform:1ms:2ms
        1 request, 1 server, open loop, trace of 4"#]]
    .assert_eq(
        &[
            "",
            "connections = \"1k\"\nthink = 1.5",
            "rate = 1_000",
            "rate = \"1k..2k@10s\"\narrivals = \"poisson\"",
            "arrivals = \"uniform:1ms:2ms\"",
            "arrivals = [0, 0.000_000_001, \"1ms\", 12345678.987654321]",
        ]
        .map(load)
        .join("\n"),
    );
}

#[test]
fn file_names_are_relative_to_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("body", b"\xff");
    write("times", b"0.5\n1.5\n");
    write("s.wsesslog", b"/a\n /b think=2\n\n/c contents='x' method=POST name=c\n");
    let text = "url = \"http://h\"\narrivals = \"trace:times\"\nsession-think = \"1s\"\nsession = \"s.wsesslog\"";
    let with_body =
        "url = \"http://h\"\nrequest = [{ body = \"@body\" }, { body = { file = \"body\" } }]";
    let of = |text: &str| parse("p", text, Some(folder.path()), &around()).unwrap().plan;
    expect![[r##"
        # Run it with: prony run FILE
        url = "http://h"
        arrivals = [
          0.5, 1.5,
        ]
        connections = 9
        seed = 1
        timeout = "30s"
        connect-timeout = "5s"
        expect = "200-399"

        [[session]]
        request = [
          { burst = ["/a", "/b"], lead = true, think = "2s" },
        ]

        [[session]]
        request = [
          { path = "/c", body = "x", name = "c", think = "1s" },
        ]
    "##]]
    .assert_eq(&explain(&of(text), &[]));
    let bodies: Vec<_> = of(with_body).calls.iter().map(|call| call.body.clone()).collect();
    assert_eq!(bodies, [b"\xff", b"\xff"]);
}

#[test]
fn writes_repeated_requests_by_number() {
    // Long requests that repeat are written once.
    let long = "x".repeat(10_000);
    let text = format!(
        "url = \"http://h\"\nduration = 1\n[[session]]\nrequest = [{}]",
        format!("{{ path = \"/a\", body = \"{long}\" }}, \"/b\", ").repeat(100)
    );
    let first = plan(&text);
    let written = explain(&first, &["A note\nof two lines.".into()]);
    assert!(written.len() < 12_000, "{} bytes", written.len());
    assert!(written.starts_with("# Run it with: prony run FILE\n# A note of two lines.\n"));
    assert_eq!(plan(&written), first);
}

#[test]
fn reads_a_hundred_thousand_requests_quickly() {
    let mut text = String::new();
    for session in 0..1_000 {
        for request in 0..100 {
            let indent = if request % 10 == 0 { "" } else { " " };
            text +=
                &format!("{indent}/shop/{session}/item{request}.html?user={session} think=1.5\n");
        }
        text.push('\n');
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.wsesslog");
    std::fs::write(&file, text).unwrap();
    let common = Common { url: Some("http://h/".parse().unwrap()), ..Common::default() };
    let start = Instant::now();
    let targets = session_file(&file, common, None).unwrap();
    let took = start.elapsed();
    assert_eq!(targets.calls.len(), 100_000);
    println!("{took:?}");
    // A release build takes less than 100 ms for it on a quiet machine.
    let most = if cfg!(debug_assertions) { 10_000 } else { 500 };
    assert!(took < Duration::from_millis(most), "{took:?}");
}

#[test]
fn reads_a_schedule_of_messages() {
    check(
        r#"
            url = "grpc://h:81"
            [grpc]
            encoded = true
            messages = "0.5k/s"
            messages-arrivals = "poisson"
            messages-count = "1k"
            messages-time = "20s"
            messages-reply = "field"
            [[request]]
            path = "/a.B/C"
            body = "\u0000\u0000\u0000\u0000\u0001a"
            grpc = { streams = true, takes = true, token = "1:2" }
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h:81"
            connections = 50
            duration = "10s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            http = "2-only"
            expect-grpc = "OK"

            request = [
              { path = "/a.B/C", body = "\u0000\u0000\u0000\u0000\u0001a", grpc = { streams = true, takes = true, token = "1:2" } },
            ]

            [http2]
            streams = 1

            [grpc]
            encoded = true
            messages = "500"
            messages-arrivals = "poisson"
            messages-count = 1000
            messages-time = "20s"
            messages-reply = "field"
        "##]],
    );
}

/// Calls with a schedule that has no end last as long as the load: three, each for four seconds.
/// Calls with several messages of their own send these once.
#[test]
fn a_schedule_of_calls_ends_with_the_load() {
    let text = |load: &str, messages: usize| {
        let body = "\\u0000".repeat(5 * messages);
        format!(
            "url = \"grpc://h:81\"\n{load}\n[grpc]\nencoded = true\nmessages = \"5/s\"\n\
             [[request]]\npath = \"/a.B/C\"\nbody = \"{body}\"\n\
             grpc = {{ streams = true, takes = true }}\n"
        )
    };
    let load = "connections = 3\nduration = \"4s\"";
    let plan_of = |text: String| plan(&text);
    let one = plan_of(text(load, 1));
    let time = |plan: &Plan| plan.messages.as_deref().expect("a schedule").time;
    assert_eq!((time(&one), one.stop.requests), (Some(Span::from_secs(4)), Some(3)));
    assert_eq!(plan_of(explain(&one, &[])), one);
    let two = plan_of(text(load, 2));
    assert_eq!((time(&two), two.stop.requests), (None, None));
    for load in ["rate = 10", "connections = 3\nrequests = 9", "duration = \"40s\""] {
        let text = text(load, 1);
        let parsed = parse("plan.toml", &text, None, &around());
        assert!(parsed.is_err(), "{text}");
    }
    let warm = text("connections = 3\nwarmup = \"1s\"\nduration = \"4s\"", 1);
    let parsed = parse("plan.toml", &warm, None, &around());
    let why = parsed.map(|_| ()).expect_err("a warm-up");
    assert!(why[0].contains("as long as the load has no warm-up"), "{why:?}");
}

#[test]
fn explains_connections_of_websocket() {
    let text = r#"
        url = "wss://h/chat"
        timeout = "90s"
        request = [{ path = "/chat", body = "hello" }]
        [websocket]
        binary = true
        subprotocols = ["chat", "v2.chat"]
        messages = "10/s"
        messages-time = "60s"
        messages-reply = "none"
    "#;
    let plan = plan(text);
    let written = explain(&plan, &[]);
    assert_eq!(self::plan(&written), plan, "{written}");
    let table = written.split("[websocket]").nth(1).expect("a table");
    expect![[r#"

        binary = true
        subprotocols = ["chat", "v2.chat"]
        messages = "10"
        messages-time = "1m"
        messages-reply = "none"
    "#]]
    .assert_eq(table);
    let messages = plan.messages.as_deref().expect("a schedule");
    assert_eq!((messages.count, plan.requests_per_connection), (None, Some(1)));
    assert_eq!(plan.expect.statuses, [(1000, 1000)]);
    // A URL is enough, and a message is sent once.
    let short = self::plan("url = \"ws://h\"\nrequest = [{ path = \"/\", body = \"hi\" }]");
    assert_eq!(short.messages.as_deref().and_then(|m| m.count), Some(1));
    assert_eq!(self::plan(&explain(&short, &[])), short);
    let shared = self::plan(
        "url = \"ws://h/\"\nconnections = 9\nrequests = 9\n\
         request = [{ path = \"/\", body = \"hi\" }]\n[websocket]\nmessages = \"10/s\"\nmessages-count = 5\npublishers = 3\n",
    );
    let broadcast = *shared.broadcast().expect("a broadcast");
    let (after, wait) = (Span::from_secs(1), Span::from_secs(2));
    assert_eq!(broadcast, BroadcastPlan { publishers: 3, after, wait, process: 0 });
    assert_eq!(self::plan(&explain(&shared, &[])), shared);
    let none = self::plan("url = \"ws://h/\"");
    assert_eq!((none.messages.is_none(), self::plan(&explain(&none, &[]))), (true, none.clone()));
}

#[test]
fn explains_streams() {
    check(
        r#"
            url = "http://h"
            seed = 1
            timeout = "2m"
            [stream]
            format = "sse"
            content-pointer = "/a~1b/0"
            events = "1k"
            time = "1m"
            until-event = "\"end\""
            reconnect = true
        "#,
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h/"
            connections = 50
            duration = "10s"
            seed = 1
            timeout = "2m"
            connect-timeout = "5s"
            expect = "200-399"

            [stream]
            format = "sse"
            content-pointer = "/a~1b/0"
            events = 1000
            time = "1m"
            until-event = '"end"'
            reconnect = true
        "##]],
    );
}
