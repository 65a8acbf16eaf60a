//! Steps on WebSockets in plan files.

use expect_test::expect;
use prony_plan::plan::SocketStep;

use super::refused::check as refuse;
use super::{check, explain, plan};

const HEAD: &str = "users = 1\nduration = \"1s\"\n";

#[test]
fn reads_and_writes_steps_on_websockets() {
    check(
        &format!(
            r#"url = "http://h"
            {HEAD}
            expect = "200"
            headers = {{ X-All = "1" }}
            [[session]]
            request = [
              {{ path = "/login", extract = {{ token = {{ json = "/token" }} }} }},
              {{ open = "/chat?t={{{{token}}}}", headers = {{ Origin = "http://o" }}, subprotocols = ["a", "b"], name = "open" }},
              {{ send = '{{"id": "{{{{session}}}}"}}', wait-for = {{ json = "/id", equals = "{{{{session}}}}" }}, within = 2, extract = {{ last = {{ json = "/id" }} }}, think = "exp:2s" }},
              {{ send = "@@", binary = false, repeat = 3 }},
              {{ send = {{ base64 = "/w==" }}, binary = true, when = "{{{{last}}}} == 1", expect = "200,1000" }},
              {{ wait-for = "bye" }},
              {{ wait-for = {{ regex = "^id=(.*)", equals = "7" }}, within = "500ms", expect-body = "id", retry = {{ times = 1 }} }},
              {{ close = 4001, reason = "{{{{last}}}}" }},
              {{ switch = [{{ request = [{{ open = "/b" }}, {{ send = "x" }}, {{ close = 1000 }}] }}, {{ request = ["/c"] }}] }},
              {{ open = "/last" }},
            ]
            "#
        )
        .replace("\"@@\"", "{ text = \"@at\" }"),
        expect![[r##"
            # Run it with: prony run FILE
            url = "http://h"
            headers = ["X-All: 1"]
            users = 1
            duration = "1s"
            seed = 1
            timeout = "30s"
            connect-timeout = "5s"
            expect = "200"

            [[session]]
            request = [
              { path = "/login", extract = { token = { json = "/token" } } },
              { open = "/chat?t={{token}}", subprotocols = ["a", "b"], headers = ["Origin: http://o"], name = "open" },
              { send = '{"id": "{{session}}"}', wait-for = { json = "/id", equals = "{{session}}" }, within = "2s", extract = { last = { json = "/id" } }, think = "exp:2s" },
              { send = { text = "@at" }, repeat = 3 },
              { send = { base64 = "/w==" }, binary = true, expect = "200,1000", when = "{{last}} == 1" },
              { wait-for = { text = "bye" } },
              { wait-for = { regex = "^id=(.*)", equals = "7" }, within = "500ms", expect = "200", expect-body = "id", retry = { times = 1, wait = "100ms", factor = 2, on = ["status", "timeout", "lost", "connect"] } },
              { close = 4001, reason = "{{last}}" },
              { switch = [{ request = [{ open = "/b" }, { send = "x" }, { close = 1000 }] }, { request = ["/c"] }] },
              { open = "/last" },
            ]
        "##]],
    );
}

#[test]
fn sockets_have_endpoints_of_their_own() {
    let steps = "request = [{ open = \"/a\" }, { send = \"x\" }]\n";
    let alone = plan(&format!("url = \"ws://h:81/x\"\n{HEAD}[[session]]\n{steps}"));
    assert_eq!((alone.endpoints.len(), alone.calls[1].endpoint), (1, 0));
    let beside = plan(&format!(
        "url = \"http://h:81\"\n{HEAD}[[session]]\nrequest = [\"/\", {{ open = \"/a\" }}, \
         {{ send = \"x\" }}, \"/b\"]\n"
    ));
    assert_eq!((beside.endpoints.len(), &beside.endpoints[0]), (2, &beside.endpoints[1]));
    let of_calls = |plan: &prony_plan::plan::Plan| {
        plan.calls.iter().map(|call| call.endpoint).collect::<Vec<_>>()
    };
    assert_eq!(of_calls(&beside), [0, 1, 1, 0]);
    // Two servers, one of them for sockets alone.
    let two = plan(&format!(
        "url = \"http://h:81\"\n{HEAD}[[session]]\nrequest = [\"/\", {{ open = \"wss://s/a\" }}, \
         {{ send = \"x\" }}, {{ close = 1000 }}, {{ open = \"/b\" }}, {{ send = \"x\" }}]\n"
    ));
    assert_eq!(two.endpoints.len(), 3);
    assert_eq!(of_calls(&two), [0, 1, 1, 1, 2, 2]);
    for planned in [alone, beside, two] {
        let written = explain(&planned, &[]);
        assert_eq!(plan(&written), planned, "{written}");
    }
}

/// A list of requests at the top refers to endpoints by number.
#[test]
fn long_plans_list_their_steps() {
    let steps = format!(
        "\"/{}\", {{ open = \"ws://s/a\" }}, {{ send = \"x\" }}, {{ close = 1000 }}",
        "x".repeat(5_000)
    );
    let steps = vec![steps; 3].join(", ");
    let text = format!("url = \"http://h\"\n{HEAD}[[session]]\nrequest = [{steps}]\n");
    let planned = plan(&text);
    assert!(matches!(planned.calls[2].socket.as_deref(), Some(SocketStep::Send { .. })));
    let written = explain(&planned, &[]);
    assert!(written.contains("{ send = \"x\", endpoint = 1 }"), "{written}");
    assert_eq!(plan(&written), planned, "{written}");
}

fn session(top: &str, steps: &str) -> String {
    format!("url = \"http://h\"\n{top}{HEAD}[[session]]\nrequest = [{steps}]\n")
}

#[test]
fn refuses_steps_that_cannot_be_made() {
    let open = "{ open = \"/\" }";
    let texts = [
        session("", "{ send = \"x\" }"),
        session("", &format!("{open}, {{ close = 1000 }}, {{ wait-for = \"x\" }}")),
        session("", &format!("{open}, {open}")),
        session("", &format!("{open}, [\"/\", {{ send = \"x\" }}]")),
        session("", "{ open = \"/\", repeat = 2 }"),
        session("", &format!("{open}, {{ close = 1000, when = \"{{{{session}}}} > 1\" }}")),
        session("", &format!("{{ switch = [{{ request = [{open}] }}, {{ request = [] }}] }}")),
        session("", &format!("{open}, {{ close = 1005 }}")),
        session("", &format!("{open}, {{ close = 1000, reason = \"{}\" }}", "x".repeat(124))),
        session("", &format!("{open}, {{ send = \"x\", within = 1 }}")),
        session("", &format!("{open}, {{ wait-for = \"x\", within = 30 }}")),
        session("", &format!("{open}, {{ wait-for = {{ text = \"x\", equals = \"y\" }} }}")),
        session("", &format!("{open}, {{ wait-for = {{ json = \"x\" }} }}")),
        session("", &format!("{open}, {{ wait-for = {{ }} }}")),
        session("", &format!("{open}, {{ wait-for = \"hi {{{{nobody}}}}\" }}")),
        session("", &format!("{open}, {{ wait-for = {{ json = \"/{{{{session}}}}\" }} }}")),
        session("", &format!("{open}, {{ send = {{ base64 = \"/w==\" }} }}")),
        session("", &format!("{open}, {{ send = \"x\", close = 1000 }}")),
        session("", &format!("{open}, {{ send = \"x\", path = \"/\" }}")),
        session("", &format!("{open}, {{ send = \"{{{{nobody}}}}\" }}")),
        session(
            "",
            &format!("{open}, {{ wait-for = {{ json = \"/a\", equals = \"{{{{nobody}}}}\" }} }}"),
        ),
        session(
            "",
            &format!("{open}, {{ wait-for = \"x\", extract = {{ a = {{ header = \"B\" }} }} }}"),
        ),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    refuse(
        &texts,
        expect![[r#"
            p:5:12: `send` needs a WebSocket; `open` it before
            p:1:1: this plan cannot be run: session 1: burst 3: `wait-for` needs a WebSocket; `open` it before
            p:1:1: this plan cannot be run: session 1: burst 2: the session has an open WebSocket; `close` it before the next `open`, or give one of them a name (`socket`)
            p:1:1: this plan cannot be run: session 1: burst 2: `send` is a step by itself, and no part of a burst
            p:1:1: this plan cannot be run: session 1: burst 1: `open` is made once, without a condition; put it into a `switch` with one
            p:1:1: this plan cannot be run: session 1: burst 2: `close` is made once, without a condition; put it into a `switch` with one
            p:1:1: this plan cannot be run: session 1: whatever a `switch` chooses, the WebSocket must be open after it, or closed: use `open` and `close` in the same alternative
            p:1:1: this plan cannot be run: request 2: 1005 is no close code that an endpoint may send: use 1000 to 1003, 1007 to 1014 or 3000 to 4999
            p:1:1: this plan cannot be run: request 2: the reason of a close has at most 123 bytes, not 124
            p:5:51: `within` belongs to `wait-for`; add it, or omit `within`
            p:1:1: this plan cannot be run: request 2: a wait of 30s must be longer than 0 and shorter than the timeout of its step, 30s; use a longer timeout (`timeout`), or leave out `within`
            p:5:41: `wait-for`: `equals` compares the value of `json` or `regex`, not a `text`
            p:5:41: `wait-for`: 'x' is not a JSON pointer: write '/' before each key or index, as in '/items/0/id'
            p:5:41: `wait-for`: write a text, { text = ... }, { json = "/pointer" } or { regex = ... }, the last two with equals = ...
            p:5:47: `wait-for`: 'nobody' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:5:41: `wait-for`: fields such as {{session}} are filled in `text` and `equals`, not in `json` and `regex`; add templates = false if this is no field
            p:1:1: this plan cannot be run: request 2: a text message is UTF-8; add `binary = true`
            p:5:50: `close` is a step of its own; only `send` and `wait-for` go together
            p:5:42: a request has no key `path`; it may have at-limit, binary, burst, checks, close, endpoint, expect, expect-body, expect-grpc, expect-length, extract, host, name, open, repeat, retry, send, socket, templates, think, unless, until, wait-for, when, within
            p:5:40: 'nobody' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:5:68: `wait-for`: 'nobody' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:1:1: this plan cannot be run: request 2: a message has no headers to extract values from; use json, regex or between
        "#]],
    );
}

/// Each name has an endpoint of its own, to which no requests go.
#[test]
fn a_session_holds_several_websockets() {
    let a = "{ open = \"/a\", socket = \"a\" }";
    let steps = format!(
        "{a}, {{ send = \"to a\" }}, {{ open = \"ws://i/b\", socket = \"b\" }}, \
         {{ open = \"/c\", socket = \"c\" }}, {{ send = \"x\", socket = \"b\" }}, \
         {{ wait-for = \"y\", socket = \"a\" }}, {{ close = 1000, socket = \"a\" }}, {a}, \
         {{ close = 1000, socket = \"b\" }}"
    );
    let endpoints = |plan: &prony_plan::plan::Plan| {
        let endpoint = |&call: &u32| plan.calls[call as usize].endpoint;
        let bursts = &plan.sessions.as_ref().expect("sessions").kinds[0].bursts;
        bursts.iter().flat_map(|burst| burst.calls.iter().map(endpoint)).collect::<Vec<_>>()
    };
    let alone = plan(&session("", &steps));
    assert_eq!(endpoints(&alone), [0, 0, 1, 2, 1, 0, 0, 0, 1]);
    assert_eq!(alone.endpoints[0], alone.endpoints[2]);
    let beside = plan(&session("", &format!("\"/\", {steps}, \"/last\"")));
    assert_eq!(endpoints(&beside), [0, 2, 2, 1, 3, 1, 2, 2, 2, 1, 0]);
    assert_eq!(beside.calls[2].socket_name.as_deref(), Some("a"), "it is the only one so far");
    for planned in [alone, beside] {
        let written = explain(&planned, &[]);
        assert!(written.contains("{ send = \"to a\", socket = \"a\" }"), "{written}");
        assert_eq!(plan(&written), planned, "{written}");
    }
}

/// Over HTTP/2, they are streams next to requests.
#[test]
fn sockets_over_http2_share_their_endpoint() {
    let steps = "\"/\", { open = \"/a\", socket = \"a\" }, { open = \"/b\", socket = \"b\" }, \
                 { send = \"x\", socket = \"a\" }, { close = 1000, socket = \"b\" }";
    let planned = plan(&session("http = \"2-only\"\n", steps));
    assert_eq!(planned.endpoints.len(), 1);
    let written = explain(&planned, &[]);
    assert_eq!(plan(&written), planned, "{written}");
    // A handshake is answered with 101 over HTTP/1.1, and with 200 to 299 over HTTP/2.
    let statuses = |http: &str, more: &str| {
        let steps = steps.replace("\"/a\"", &format!("\"/a\"{more}"));
        let planned = plan(&session(http, &steps));
        let written = explain(&planned, &[]);
        assert_eq!(plan(&written), planned, "{written}");
        assert_eq!(written.contains("expect = \"101\" }"), !more.is_empty(), "{written}");
        planned.calls[1].expect.as_deref().expect("its own").statuses.clone()
    };
    assert_eq!(statuses("http = \"2-only\"\n", ""), [(200, 299)]);
    assert_eq!(statuses("", ""), [(101, 101)]);
    assert_eq!(statuses("http = \"2-only\"\n", ", expect = 101"), [(101, 101)]);
    let twice = steps.replace("\"b\"", "\"a\"");
    refuse(
        &[&session("http = \"2-only\"\n", &twice)],
        expect![[r#"
        p:1:1: this plan cannot be run: session 1: burst 3: the WebSocket 'a' of the session is open; `close` it before the next `open`
    "#]],
    );
}

#[test]
fn refuses_websockets_that_are_not_named_or_not_open() {
    let (a, b) = ("{ open = \"/\", socket = \"a\" }", "{ open = \"/\", socket = \"b\" }");
    let close = "{ close = 1000, socket = \"a\" }";
    let texts = [
        format!("{a}, {a}"),
        format!("{a}, {{ send = \"x\", socket = \"b\" }}"),
        format!("{a}, {b}, {{ send = \"x\" }}"),
        format!("{a}, {{ open = \"/\" }}, {{ close = 1000 }}, {{ send = \"x\" }}"),
        format!("{a}, {b}, {close}, {{ send = \"x\", socket = \"a\" }}"),
        format!("{{ switch = [{{ request = [{a}] }}, {{ request = [{b}] }}] }}"),
        "{ open = \"/\", socket = \"\" }".to_owned(),
        "{ open = \"/\", socket = 1 }".to_owned(),
        "{ path = \"/\", socket = \"a\" }".to_owned(),
    ];
    let texts: Vec<String> = texts.iter().map(|steps| session("", steps)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    refuse(
        &texts,
        expect![[r#"
            p:1:1: this plan cannot be run: session 1: burst 2: the WebSocket 'a' of the session is open; `close` it before the next `open`
            p:5:42: `send` needs the WebSocket 'b'; `open` it before
            p:5:72: `send`: the session has several WebSockets; name one (`socket`)
            p:1:1: this plan cannot be run: session 1: burst 4: `send` needs a WebSocket; name an open one (`socket`)
            p:1:1: this plan cannot be run: session 1: burst 4: `send` needs the WebSocket 'a'; `open` it before
            p:1:1: this plan cannot be run: session 1: whatever a `switch` chooses, the WebSocket must be open after it, or closed: use `open` and `close` in the same alternative
            p:5:35: `socket`: the name of a WebSocket is empty
            p:5:35: `socket` is a number, expected the name of a WebSocket
            p:5:26: a request has no key `socket`; it may have at-limit, aws-sigv4, bare, body, burst, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, repeat, retry, templates, think, unless, until, url, when
        "#]],
    );
}

#[test]
fn refuses_plans_that_cannot_have_such_steps() {
    let open = "{ open = \"/\" }";
    let texts = [
        session("", "{ open = \"http://h/\" }"),
        session("", "{ open = \"/\", headers = { Upgrade = \"x\" } }"),
        session("", &format!("{open}, {{ url = \"ws://h/\" }}")),
        session("http = \"2\"\n", open).replace("http://", "https://"),
        session("retries = 1\n", open),
        session("pipeline = 2\n", open),
        format!("{}[websocket]\nbinary = true\n", session("", open)),
        format!("{}[stream]\nformat = \"sse\"\n", session("", open)),
        format!("{}[proxy]\naddress = \"p\"\n", session("", open)),
        "url = \"ws://h\"\nrequest = [{ open = \"/\" }]\n".to_owned(),
        format!("url = \"ws://h\"\n{HEAD}[[session]]\nrequest = [\"/\", {open}]\n"),
    ];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    refuse(
        &texts,
        expect![[r#"
            p:5:21: `open`: write a path, or a URL with ws:// or wss://
            p:1:1: this plan cannot be run: request 1: the header Upgrade is a part of the handshake of WebSocket, which prony writes; leave it out (subprotocols: --subprotocol)
            p:1:1: beside steps on a WebSocket (`open`), requests are those of HTTP; write http:// in their URLs (an `open` can have a URL with ws://)
            p:1:1: this plan cannot be run: steps of a WebSocket (`open`) need to know the version of HTTP, which decides whether a WebSocket has a connection of its own; write `http = "2-only"` (--http 2-only, --h2c) for HTTP/2, or leave out `http` for HTTP/1.1
            p:1:1: this plan cannot be run: `retries` cannot be combined with steps of a WebSocket; use `retry`
            p:1:1: this plan cannot be run: a WebSocket carries one step after the other, and as many as there are; leave out `pipeline` and `requests-per-connection`
            p:6:1: [websocket] is about requests that are whole connections; this plan has steps on a WebSocket (`open`): omit it
            p:1:1: this plan cannot be run: steps of a WebSocket (`open`) cannot be combined with gRPC, streams or round trips
            p:1:1: this plan cannot be run: WebSocket without TLS needs a tunnel through the proxy: add --proxytunnel (`tunnel = true` in [proxy])
            p:1:1: this plan cannot be run: steps of a WebSocket (`open`, `send`) need sessions
            p:1:1: beside steps on a WebSocket (`open`), requests are those of HTTP; write http:// in their URLs (an `open` can have a URL with ws://)
        "#]],
    );
}
