//! Invalid plan files, and the errors with their positions.

use std::path::Path;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::super::parse;
use super::around;

pub(super) fn check(texts: &[&str], sentences: Expect) {
    let reported = texts.iter().map(|text| {
        let folder = Some(Path::new("/nowhere"));
        match parse("p", text, folder, &around()) {
            Ok(_) => format!("taken: {text}\n"),
            Err(sentences) => sentences.join("\n") + "\n",
        }
    });
    sentences.assert_eq(&reported.collect::<String>());
}

#[test]
fn rejects_invalid_toml() {
    check(
        &["url = ", "url = \"x", "[session\n", "a = 1\na = 2", "\u{1}", "x = [1,\n\n = 3]"],
        expect![[r#"
            p:1:7: this is not TOML: string values must be quoted, expected literal string
            p:1:9: this is not TOML: invalid basic string, expected `"`
            p:1:9: this is not TOML: unclosed table, expected `]`
            p:2:1: this is not TOML: duplicate key
            p:1:1: this is not TOML: invalid unquoted key, expected letters, numbers, `-`, `_`
            p:1:2: this is not TOML: key with no value, expected `=`
            p:3:2: this is not TOML: unexpected `=` in array, expected value, `]`
        "#]],
    );
}

#[test]
fn targets() {
    check(
        &[
            "",
            "url = 7",
            "url = \"ftp://h\"",
            "url = \"http://h/a b\"",
            "urls = [\"http://h\"]",
            "request = \"/a\"",
            "request = [\"/a\"]",
            "url = \"http://h\"\nrequest = []",
            "url = \"http://h\"\nendpoints = [{ host = \"h\", port = 1 }]",
            "endpoints = []",
            "endpoints = [7, { host = \"h\" }, { unix = \"/s\", port = 1 }, { host = \"h\", port = 0 }]",
            "endpoints = [{ host = \"h\", port = 1, x = 1 }]\nunix-socket = \"/s\"",
            "url = \"http://h\"\nunix-socket = \"/s\"\nconnect-to = \"h\"",
            "url = \"http://h\"\nconnect-to = \"h:x\"",
            "url = \"http://h\"\nhost = \"a b\"",
        ],
        expect![[r#"
            p:1:1: the plan has no requests; write `url = "http://host:port/path"`
            p:1:7: `url` is a number, expected a URL
            p:1:7: `url`: 'ftp://h' is not a URL to load: the scheme 'ftp' is not supported; use http:// or https://
            p:1:7: `url`: 'http://h/a...' is not a URL to load: it contains ' ' at character 11; write it as %20
            p:1:1: the plan has no requests; write `url = "http://host:port/path"`
            p:1:1: a plan has no key `urls`; did you mean `url`?
            p:1:11: `request` is a string, expected a list of requests
            p:1:12: `request`: the request has no server; write `url = "http://host:port"` at the top of the file
            p:1:1: this plan cannot be run: the plan has no endpoint to connect to
            p:1:7: `url` and `endpoints` exclude each other; omit one of them
            p:1:1: the plan has no requests; write `url = "http://host:port/path"`
            p:1:14: `endpoints` is a number, expected { host = "name", port = 80 } or { unix = "/path" }
            p:1:17: an endpoint is either { host = "name", port = 80 } or { unix = "/path" }
            p:1:33: an endpoint is either { host = "name", port = 80 } or { unix = "/path" }
            p:1:60: an endpoint is either { host = "name", port = 80 } or { unix = "/path" }
            p:1:81: `port` '0': ports are numbers from 1 to 65535
            p:1:38: an endpoint has no key `x`; it may have host, port, tls, unix
            p:2:15: `unix-socket` and `endpoints` exclude each other; omit one of them
            p:2:15: `unix-socket` and `connect-to` exclude each other; omit one of them
            p:2:14: `connect-to` 'h:x': the port must be a number from 1 to 65535
            p:2:8: `host`: 'a b' is not a host; write a name without blanks
        "#]],
    );
}

const REQUESTS: [&str; 25] = [
    "1",
    "true",
    "\"GET\"",
    "\"/a b c\"",
    "\"G(T /a\"",
    "\"a/b\"",
    "{ path = \"a\" }",
    "{ path = 1 }",
    "{ path = \"/a\\n\" }",
    "{ pth = \"/a\", methd = \"GET\", hurz = 1 }",
    "{ url = \"http://h/\", path = \"/\" }",
    "{ path = \"/\", endpoint = 0 }",
    "{ method = \"G T\" }",
    "{ headers = 1 }",
    "{ headers = [\"A\", \"B: \\r\", [\"C\", \"\\n\"], [\"D\"], 1] }",
    "{ headers = { \"A B\" = \"x\", C = [] } }",
    "{ body = 1 }",
    "{ body = \"@missing\" }",
    "{ body = { file = \"missing\" } }",
    "{ body = { base64 = \"?\" } }",
    "{ body = { text = \"a\", file = \"b\" } }",
    "{ name = 1, bare = 1, host = 1 }",
    "{ expect = \"99\", expect-length = -1, expect-body = 1 }",
    "{ expect = [200, \"x\", []] }",
    "{ think = 1 }",
];

#[test]
fn requests() {
    let with = |request: &str| format!("url = \"http://h\"\nrequest = [\n  {request}\n]");
    let texts = REQUESTS.map(with);
    check(
        &texts.each_ref().map(String::as_str),
        expect![[r#"
            p:3:3: `request` is a number, expected a request: "/path", "POST /path" or { path = "/path", ... }
            p:3:3: `request` is true or false, expected a request: "/path", "POST /path" or { path = "/path", ... }
            p:3:3: `request`: 'GET' is neither a path (/...) nor a URL (http://...)
            p:3:3: the path contains ' ', which is not allowed
            p:3:3: the method 'G(T' contains '('; write GET, POST or the like
            p:3:3: `request`: 'a/b' is neither a path (/...) nor a URL (http://...)
            p:3:3: the path 'a' does not start with '/'
            p:3:12: `path` is a number, expected a path, as "/x"
            p:3:3: the path contains '\n', which is not allowed
            p:3:5: a request has no key `pth`; did you mean `path`?
            p:3:17: a request has no key `methd`; did you mean `method`?
            p:3:32: a request has no key `hurz`; it may have aws-sigv4, bare, body, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, templates, url
            p:3:31: `url` includes it; omit `path`
            p:3:28: there is no endpoint 0 in the list `endpoints`
            p:3:14: `method`: the method 'G T' contains ' '; write GET, POST or the like
            p:3:15: `headers` is a number, expected { Name = "value", ... } or ["Name: value", ...]
            p:3:16: `headers`: this is not a header: it has no colon; write 'Name: value'
            p:3:21: `headers`: the value of the header 'B' contains '\r', which would break the request
            p:3:30: the value of the header 'C' contains '\n', which would break the request
            p:3:43: `headers` is an array, expected "Name: value"
            p:3:50: `headers`: this is not a header: it has no colon; write 'Name: value'
            p:3:17: the header name contains ' ' after 'A'; names have letters, digits and !#$%&'*+-.^_`|~
            p:3:34: `C` is an array, expected a string
            p:3:12: `body` is a number, expected a string, "@FILE", { text = ... }, { file = ... } or { base64 = ... }
            p:3:12: `body`: the file /nowhere/missing: cannot be read: no such file or directory
            p:3:21: `body`: the file /nowhere/missing: cannot be read: no such file or directory
            p:3:23: `body`: this is not base64: letters, digits, + and /, padded with =
            p:3:12: `body` is a table, expected a string, "@FILE", { text = ... }, { file = ... } or { base64 = ... }
            p:3:12: `name` is a number, expected a name
            p:3:22: `bare` is a number, expected true or false
            p:3:32: `host` is a number, expected a name
            p:3:14: `expect`: '99' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            p:3:36: `expect-length`: '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:3:54: `expect-body` is a number, expected a string
            p:3:20: `expect`: 'x' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            p:3:5: a request has no key `think`; it may have aws-sigv4, bare, body, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, templates, url
        "#]],
    );
}

#[test]
fn sessions() {
    let with = |rest: &str| format!("url = \"http://h\"\nduration = 1\n{rest}");
    let texts = [
        "session = 1",
        "session = []",
        "session = [1]",
        "session = \"missing.wsesslog\"",
        "[[session]]",
        "[[session]]\nrequest = []",
        "[[session]]\nrequest = 1",
        "[[session]]\nrequest = [[]]",
        "[[session]]\nrequest = [0]",
        "request = [\"/a\"]\n[[session]]\nrequest = [0, 1, -1, [0, 2]]",
        "[[session]]\nreqest = [\"/\"]",
        "[[session]]\nweight = 0\nname = 1\nrequest = [\"/\"]",
        "[[session]]\nrequest = [{ burst = [], lead = 1, path = \"/\", think = [], repeat = 0 }]",
        "[[session]]\nrequest = [{ path = \"/\", lead = true }]",
        "cookies = \"yes\"\nlost = 1\non-failure = \"stop\"\nretries = -1\nsession-connections = 0\n[[session]]\nrequest = [\"/\"]",
        "sessions = 1\nsession-think = 1\ncookies = \"off\"\nusers = 1",
    ];
    let texts = texts.map(with);
    check(
        &texts.each_ref().map(String::as_str),
        expect![[r#"
            p:3:11: `session` is a number, expected a session: [[session]], or the name of a session file
            p:3:11: there is no session in the list
            p:3:12: `session` is a number, expected a session: [[session]], or the name of a session file
            p:3:11: `session`: the file /nowhere/missing.wsesslog: cannot be read: no such file or directory
            p:3:1: the session has no request; add [[session.request]] or request = [...]
            p:3:1: the session has no request
            p:4:11: `request` is a number, expected an array of requests
            p:4:12: the burst has no request
            p:4:12: there is no request 0: there is no list `request` at the top of the file
            p:5:15: there is no request 1: the list `request` at the top of the file ends with 0
            p:5:18: `request`: '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:5:26: there is no request 2: the list `request` at the top of the file ends with 0
            p:3:1: the session has no request; add [[session.request]] or request = [...]
            p:4:1: a session has no key `reqest`; did you mean `request`?
            p:4:10: `weight` '0': must be at least 1
            p:5:8: `name` is a number, expected a name
            p:4:22: the burst has no request
            p:4:33: `lead` is a number, expected true or false
            p:4:36: a burst has no key `path`; it may have at-limit, burst, lead, repeat, retry, think, unless, until, when
            p:4:56: `think` is an array, expected a time, as "2s" or "exp:2s"
            p:4:69: `repeat` '0': must be at least 1
            p:4:26: a request has no key `lead`; it may have at-limit, aws-sigv4, bare, body, burst, checks, compress, endpoint, expect, expect-body, expect-grpc, expect-length, extract, form, grpc, headers, host, location, max-redirs, method, name, path, raw, repeat, retry, templates, think, unless, until, url, when
            p:3:11: `cookies`: 'yes' is unknown; write "off" or "session" or "shared" or "always"
            p:4:8: `lost`: '1' is unknown; write "idempotent" or "resend" or "fail"
            p:5:14: `on-failure`: 'stop' is unknown; write "end" or "continue"
            p:6:11: `retries`: '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:7:23: `session-connections` '0': must be at least 1
            p:3:12: `sessions` needs sessions; add [[session]], or omit it
            p:4:17: `session-think` needs sessions; add [[session]], or omit it
            p:5:11: `cookies` needs sessions; add [[session]], or omit it
            p:6:9: `users` needs sessions; write `connections` instead
        "#]],
    );
}

#[test]
fn loads() {
    let with = |rest: &str| format!("url = \"http://h\"\n{rest}");
    let texts = [
        "connections = 0",
        "connections = \"many\"",
        "connections = 1.5",
        "connections = 0x10\npipeline = 5000",
        "rate = -1",
        "rate = \"0\"",
        "rate = \"1k\"\nthink = 1",
        "rate = \"1k\"\narrivals = \"uniform:1:2\"",
        "arrivals = \"poisson\"",
        "arrivals = \"pareto\"",
        "arrivals = \"trace:missing\"",
        "arrivals = []",
        "arrivals = [1, 0]",
        "arrivals = [\"x\", -1, []]",
        "requests = 0\nduration = \"0s\"",
        "duration = 1979-05-27",
        "timeout = \"1 s\"\ntimeout-from = \"now\"\nconnect-timeout = 0\nwarmup = \"x\"",
        "http = 2\nrequests-per-connection = 0",
        "http = \"1.0\"\npipeline = 2",
        "seed = -1",
        "shard = 1",
        "shard = { index = 2, of = 2, from = 1 }",
        "pick = \"first\"",
    ];
    let texts = texts.map(with);
    check(
        &texts.each_ref().map(String::as_str),
        expect![[r#"
            p:2:15: `connections` '0': must be at least 1
            p:2:15: `connections`: 'many' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            p:2:15: `connections`: '1.5' is not a count: it is not a whole number; write 500, 10k, 2m or 1g
            p:3:12: `pipeline` '5000': must be at most 4096
            p:2:8: `rate`: '-1' is not a rate: '-1' is not a number; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            p:2:8: `rate`: '0': the rate is always zero; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            p:3:9: `think` belongs to a closed loop, and `rate` makes the loop an open one; omit one of them
            p:2:8: `arrivals` also sets the rate; omit `rate`
            p:2:12: `arrivals` needs a rate; add `rate`
            p:2:12: `arrivals`: 'pareto' is not an arrival process: unknown distribution 'pareto'; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            p:2:12: `arrivals`: the file /nowhere/missing: cannot be read: no such file or directory
            p:1:1: this plan cannot be run: the trace has no times
            p:2:16: 0s is earlier than the previous time
            p:2:13: `arrivals`: 'x' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:2:18: `arrivals`: '-1' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:2:22: `arrivals` is an array, expected a time, as "1m30s"
            p:2:12: `requests` '0': must be at least 1
            p:3:12: `duration` '0s': must be longer than 0
            p:2:12: `duration` is a date, expected a time, as "1m30s"
            p:2:11: `timeout`: '1 s' is not a time: unknown unit ' s'; write 500ms, 1m30s or 2h
            p:3:16: `timeout-from`: 'now' is unknown; write "intended" or "send"
            p:4:19: `connect-timeout` '0': must be longer than 0
            p:5:10: `warmup`: 'x' is not a time: a number is missing; write 500ms, 1m30s or 2h
            p:3:27: `requests-per-connection` '0': must be at least 1
            p:1:1: this plan cannot be run: HTTP/1.0 has no pipelining; use HTTP/1.1 or a depth of 1
            p:2:8: `seed`: '-1' is not a seed; write a whole number, such as 42
            p:2:9: `shard` is a number, expected { index = 0, of = 4 }
            p:2:30: a share has no key `from`; it may have index, of
            p:2:8: `pick`: 'first' is unknown; write "in-turn" or "random"
        "#]],
    );
}

#[test]
fn http2() {
    check(
        &[
            "url = \"https://h\"\nhttp2 = 1\nhttp = \"2\"",
            "url = \"https://h\"\n[http2]\nstreams = 5",
            "url = \"http://h\"\nhttp = \"2\"",
            "url = \"https://h\"\nhttp = \"2\"\n[http2]\nstreams = 0\nplacement = \"any\"\nwindow = \"5g\"",
            "url = \"https://h\"\nhttp = \"2\"\n[http2]\nmax-frame-size = \"1k\"",
            "url = \"https://h\"\nhttp = \"2\"\n[http2]\nwindow = 0",
            "url = \"https://h\"\n[tls]\nalpn = [\"h2\"]",
            "url = \"https://h\"\nhttp = \"2\"\n[http2]\nhpack = true\nstream = 4",
        ],
        expect![[r#"
            p:2:9: `http2` is a number, expected a table: [http2]
            p:2:1: [http2] has no effect: add `http = "2"` (or "2-only") before the tables
            p:1:1: this plan cannot be run: without TLS nothing negotiates HTTP/2: use --h2c (`http = "2-only"`) for http:// URLs of servers that speak it
            p:4:11: `streams` '0': must be at least 1
            p:5:13: `placement`: 'any' is unknown; write "spread" or "fill"
            p:6:10: `window` '5g': a window has 1 to 2147483647 bytes
            p:4:18: `max-frame-size` '1k': the largest frame has 16384 to 16777215 bytes
            p:4:10: `window` '0': a window has 1 to 2147483647 bytes
            p:1:1: this plan cannot be run: the application protocol h2 is HTTP/2; use --http 2
            p:4:9: `hpack` is true or false, expected "warm" or "static"
            p:5:1: [http2] has no key `stream`; did you mean `streams`?
        "#]],
    );
}

#[test]
fn tls() {
    check(
        &[
            "url = \"http://h\"\ntls = true",
            "url = \"http://h\"\n[tls]\ninsecure = 1",
            "url = \"https://h\"\n[tls]\nversion = 1.1\nresume = true\nsni = 1\nverify = false",
            "url = \"https://h\"\n[tls]\nciphers = \"RC4\"\nalpn = [\"h3\"]\nkey = \"k\"",
            "url = \"https://h\"\n[tls]\ncacert = \"missing\"\ncert = \"-----BEGIN NOTHING\"",
        ],
        expect![[r#"
            p:2:7: `tls` is true or false, expected a table: [tls]
            p:2:1: [tls] has no effect: no URL of the plan starts with https://
            p:3:12: `insecure` is a number, expected true or false
            p:3:11: `version`: '1.1' is unknown; write "1.2" or "1.3"
            p:4:10: `resume` is true or false, expected "on" or "off" or "session"
            p:5:7: `sni` is a number, expected a name
            p:6:1: [tls] has no key `verify`; did you mean `insecure`?
            p:3:11: `ciphers`: 'RC4' is not a supported cipher suite; the supported ones are TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256, ECDHE-ECDSA-AES256-GCM-SHA384, ECDHE-ECDSA-CHACHA20-POLY1305, ECDHE-RSA-AES128-GCM-SHA256, ECDHE-RSA-AES256-GCM-SHA384, ECDHE-RSA-CHACHA20-POLY1305
            p:4:8: `alpn` 'h3': prony does not support HTTP/3 yet; write h2, http/1.1 or http/1.0
            p:5:7: `key` needs `cert`; give both
            p:3:10: `cacert`: the file /nowhere/missing: cannot be read: no such file or directory
            p:4:8: `cert`: the file has no private key; expected PEM with '-----BEGIN PRIVATE KEY-----'
            p:4:8: `cert`: the PEM text is damaged: illegal section start: [45, 45, 45, 45, 45, 66, 69, 71, 73, 78, 32, 78, 79, 84, 72, 73, 78, 71]
        "#]],
    );
}

#[test]
fn limits_the_number_of_reported_errors() {
    let text: String = (0..60).map(|n| format!("x{n} = 1\n")).collect();
    let sentences = parse("p", &text, None, &around()).err().unwrap();
    assert_eq!(sentences.len(), 51);
    assert_eq!(sentences[50], "p: 11 more");
}

proptest! {
    #[test]
    fn nothing_panics(
        text in "((url|session|request|burst|headers|body|arrivals|rate|endpoints) ?= ?|[\\[\\]{}\",'0-9.\n=]|\"http://h/\"|\\[\\[session\\]\\]\n|\"/a\"){0,30}"
    ) {
        if let Err(sentences) = parse("p", &text, Some(Path::new("/nowhere")), &around()) {
            prop_assert!(!sentences.is_empty());
            prop_assert!(sentences.iter().all(|s| !s.contains('\n')), "{:?}", sentences);
        }
    }
}

/// Template fields are checked despite other errors, unless they may refer to an invalid part.
#[test]
fn reports_template_errors_along_with_others() {
    check(
        &[
            "url = \"http://h/\"\nrat = 5\nduration = \"5x\"\n[[session]]\n\
             request = [{ pth = \"/x\" }, \"/{{foo}}\"]",
            "url = \"http://h/\"\nrat = 5\n[[session]]\n\
             request = [{ pth = \"/x\", extract = { foo = { json = \"/a\" } } }, \"/{{foo}}\"]",
        ],
        expect![[r#"
            p:2:1: a plan has no key `rat`; did you mean `rate`?
            p:3:12: `duration`: '5x' is not a time: unknown unit 'x'; write 500ms, 1m30s or 2h
            p:5:14: a request has no key `pth`; did you mean `path`?
            p:5:32: 'foo' is unknown; known names: session, request, counter [FROM [STEP]], cycle.int LOW HIGH, cycle.pick A B ..., random.int LOW HIGH, random.hex DIGITS, random.text LENGTH, random.uuid, random.pick A B ..., now, env NAME
            p:2:1: a plan has no key `rat`; did you mean `rate`?
            p:4:14: a request has no key `pth`; did you mean `path`?
        "#]],
    );
}

#[test]
fn streams() {
    check(
        &[
            "url = \"http://h\"\nstream = \"sse\"",
            "url = \"http://h\"\n[stream]\nformat = \"json\"\nevents = 0",
            "url = \"http://h\"\n[stream]\ncontent-pointer = \"choices\"",
            "url = \"http://h\"\n[stream]\nformat = \"chunks\"\ncontent-pointer = \"/a\"",
            "url = \"http://h\"\n[stream]\ntime = \"30s\"",
            "url = \"http://h\"\n[stream]\nuntil-event = \"\"",
            "url = \"http://h\"\n[stream]\nrequire-end = \"\"",
            "url = \"http://h\"\n[stream]\nevents = 5\nreconnect = true\nrequire-end = \"end\"",
            "url = \"http://h\"\n[stream]\nevents = 5\nreconnect = \"2s\"",
            "url = \"http://h\"\n[stream]\nformat = \"ndjson\"\nevents = 5\nreconnect = true",
            "url = \"http://h\"\n[stream]\ntokens = \"openai\"\nevents = 5\nreconnect = true",
            "url = \"http://h\"\n[stream]\nreconnect = true",
            "url = \"http://h\"\nrequest = [\"/\", { url = \"ws://h\" }]",
            "url = \"ws://h\"\n[websocket]\nmessages-count = 5\nhurz = 1",
            "url = \"http://h\"\nproxy = \"p\"",
            "url = \"http://h\"\n[proxy]\ntunnel = true",
            "url = \"http://h\"\n[proxy]\naddress = \"socks5://p\"",
            "url = \"ws://h\"\n[proxy]\naddress = \"p\"",
            "unix-socket = \"/s\"\nurl = \"http://h\"\n[proxy]\naddress = \"p\"",
        ],
        expect![[r#"
            p:2:10: `stream` is a string, expected a table: [stream]
            p:3:10: `format`: 'json' is unknown; write "sse" or "ndjson" or "chunks" or "messages" or "whole"
            p:4:10: `events` '0': must be at least 1
            p:2:1: 'choices' is not a JSON pointer: write '/' before each key or index, as in '/choices/0/delta/content'
            p:2:1: a chunk is no JSON text: a pointer to the content of messages needs streams of the format sse or ndjson
            p:1:1: this plan cannot be run: a stream is ended after 30s, and the timeout of its request is 30s; use a longer timeout (`timeout`), or end streams earlier
            p:2:1: the text that ends a stream must not be empty
            p:2:1: the text with which a stream must end must not be empty
            p:2:1: a stream that is opened again has no last message: leave out the text with which it must end, or do not open it again
            p:4:13: `reconnect` is a string, expected true or false
            p:2:1: only streams of the format sse can be opened again
            p:2:1: a reply of a language model cannot be continued: it is not opened again
            p:2:1: a stream that is opened again never ends by itself: give a number of events, a time or the text of its last event
            p:1:1: URLs are all of WebSocket, or none; use ws:// for all
            p:2:1: the table has options of a schedule of messages, but no rate: `messages`
            p:4:1: [websocket] has no key `hurz`; it may have binary, compress, messages, messages-arrivals, messages-count, messages-over, messages-reply, messages-time, no-utf8-check, ping-every, publish-after, publishers, subprotocols, subscribers-wait
            p:2:9: `proxy` is a string, expected a table: [proxy]
            p:2:1: [proxy] needs an address: address = "http://HOST:PORT"
            p:3:11: `address` 'socks5://p': prony knows HTTP proxies (http://), not socks5://
            p:1:1: this plan cannot be run: WebSocket without TLS needs a tunnel through the proxy: add --proxytunnel (`tunnel = true` in [proxy])
            p:1:1: this plan cannot be run: a proxy reaches servers over TCP alone; leave out --proxy ([proxy]) or the Unix domain socket
        "#]],
    );
}
