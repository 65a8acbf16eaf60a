//! `--trace`: a few exchanges are printed, and no more are sent.

use std::fs;

use tempfile::TempDir;

use crate::grpc_serve::Target;
use crate::rig::{Serve, prony, reserved_port, served};
use crate::scripted::{Scripted, reply};

const PLAN: &str = r#"
url = "@URL@"
rate = 1000
duration = "1m"
warmup = "10s"
thresholds = ["p99 < 1ns"]

[[session]]
[[session.request]]
name = "log in"
method = "POST"
path = "/login?key=s3cret"
body = "user=ann"
checks = ["body contains 'Welcome'"]
extract = { token = { json = "/token" } }

[[session.request]]
path = "/cart/{{token}}"
"#;

/// A session of two requests. The server gets them, and nothing else.
#[test]
fn a_session_is_printed_step_by_step() {
    let answer = |_: usize, request: &str| match request.starts_with("POST /login") {
        true => reply(200, r#"{"token": "t0k", "text": "Hi \u0007"}"#),
        false => reply(404, "no such \x1b[31mcart\n"),
    };
    let server = Scripted::start(answer);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    let url = format!("http://127.0.0.1:{}", server.port);
    fs::write(&file, PLAN.replace("@URL@", &url)).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let ended = prony(&["run", file, "--trace"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = &ended.stdout;
    for line in [
        "#1 log in\n> POST /login?key=(hidden) HTTP/1.1\n< 200 after ",
        "\n  token = (hidden), 3 characters\n  failed check: body contains 'Welcome'\n  (hidden) (",
        "\n\n#2 GET /cart/{{token}}\n> GET /cart/{{token}} HTTP/1.1\n< 404 after ",
        "body of 18 bytes\n  unexpected-status: a status code that does not count as success\n",
        "\n2 exchanges, 1 failed\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("s3cret") && !text.contains('\x1b'), "{text}");
    let ended = prony(&["run", file, "--trace=2", "--show-secrets"]);
    let text = &ended.stdout;
    assert_eq!(text.matches("> POST /login?key=s3cret HTTP/1.1\n").count(), 2, "{text}");
    assert_eq!(text.matches("  token = t0k\n").count(), 2, "{text}");
    assert!(text.contains(r#"  {"token": "t0k", "text": "Hi \u0007"}"#), "{text}");
}

#[test]
fn every_kind_of_load_has_a_trace() {
    let server = Serve::start(&["--size", "20"]);
    let url = server.url("/a");
    for (options, line) in [
        (&["--trace"][..], "> GET /a HTTP/1.1\n< 200 after "),
        (&["--trace", "3", "--h2c"], "> GET /a HTTP/2\n< 200 after "),
    ] {
        let ended = prony(&[&[url.as_str()][..], options].concat());
        assert!(ended.code == 0 && ended.stdout.contains(line), "{ended:?}");
        assert!(ended.stdout.contains("body of 20 bytes\n"), "{ended:?}");
    }
    assert_eq!(served(&server.stop(), "requests"), 4);

    let server = Serve::start(&["--ws", "echo"]);
    let url = server.url("/chat").replace("http://", "ws://");
    let ended = prony(&[&url, "-b", "hello", "--trace", "--show-secrets"]);
    let found = ["> GET /chat HTTP/1.1\n", "  hello\n", "1 exchange, 0 failed\n"];
    assert!(found.iter().all(|line| ended.stdout.contains(line)), "{ended:?}");

    let server = Serve::start(&["--sse", "ttft=1ms,gap=1ms,count=3"]);
    let ended = prony(&["llm", "--model", "m", &server.url(""), "--trace", "--show-secrets"]);
    let found = ["> POST /v1/chat/completions HTTP/1.1\n", "  data: {", "1 exchange, 0 failed\n"];
    assert!(found.iter().all(|line| ended.stdout.contains(line)), "{ended:?}");

    let target = Target::start(false, &[]);
    let url = format!("grpc://127.0.0.1:{}/grpc.testing.TestService/EmptyCall", target.port);
    let ended = prony(&[&url, "-b", "{}", "--trace"]);
    let found = ["> POST /grpc.testing.TestService/EmptyCall HTTP/2\n< OK after "];
    assert!(found.iter().all(|line| ended.stdout.contains(line)), "{ended:?}");
}

#[test]
fn a_trace_of_nobody_says_what_to_do() {
    let nobody = reserved_port();
    let ended = prony(&[&format!("http://127.0.0.1:{nobody}/"), "--trace"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let found = ["> GET /\n< not sent after ", "connect-refused", "1 failed\n", "Start the server"];
    assert!(found.iter().all(|line| ended.stdout.contains(line)), "{ended:?}");
}

#[test]
fn refuses_what_a_trace_does_not_have() {
    for (options, why) in [
        (&["http://h/", "--trace", "--json"][..], "--trace and --json exclude each other"),
        (&["--trace", "http://h/"], "it is no number from 1 to 1000; write --trace after it"),
        (&["http://h/", "--trace", "0"], "it is no number from 1 to 1000"),
    ] {
        let ended = prony(options);
        assert!(ended.code == 2 && ended.stderr.contains(why), "{options:?}: {ended:?}");
    }
}
