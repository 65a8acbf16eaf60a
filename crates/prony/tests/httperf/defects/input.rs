//! Command lines and files.

use super::{numbers, ours, run};
use crate::program::{Run, Which};
use crate::server::Server;

#[test]
fn d22_supports_ipv6_addresses() {
    let server = Server::start_v6();
    for host in ["::1", "[::1]"] {
        let port = format!("--port={}", server.port);
        let ended = Run::new(&["--server", host, &port, "--num-calls=2"]).run(Which::Ours);
        assert_eq!(numbers(&ended, ["replies", "errors"]), [2.0, 0.0], "{ended:?}");
    }
}

#[test]
fn d24_the_user_agent_can_be_changed() {
    let server = Server::start();
    let first = |args: &[&str]| {
        let before = server.seen().len();
        assert_eq!(ours(&server, args).code, Some(0));
        let bytes = server.seen()[before].bytes.clone();
        String::from_utf8(bytes).expect("text").replace("\r\n", "|")
    };
    let usual = "GET / HTTP/1.1|User-Agent: httperf/0.9.0|Host: 127.0.0.1||";
    assert_eq!(first(&[]), usual);
    assert_eq!(first(&["--user-agent=mine/1"]), usual.replace("httperf/0.9.0", "mine/1"));
}

#[test]
fn d25_no_host_header_keeps_the_other_headers() {
    let server = Server::start();
    let ended = ours(&server, &["--no-host-hdr", "--add-header=A: b\\n", "--num-calls=2"]);
    assert_eq!(numbers(&ended, ["requests", "replies"]), [2.0, 2.0], "{ended:?}");
    let one = "GET / HTTP/1.1\r\nUser-Agent: httperf/0.9.0\r\nA: b\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&server.seen()[0].bytes), one.repeat(2));
}

#[test]
fn d26_a_missing_line_end_is_added_with_a_warning() {
    let server = Server::start();
    let ended = ours(&server, &["--add-header=A: b"]);
    assert_eq!(numbers(&ended, ["replies"]), [1.0], "{ended:?}");
    assert!(ended.stderr.contains("--add-header"), "{ended:?}");
    let text = String::from_utf8_lossy(&server.seen()[0].bytes).into_owned();
    assert!(text.ends_with("\r\nA: b\r\n\r\n"), "{text}");
}

#[test]
fn d27_arguments_are_parsed_completely() {
    let server = Server::start();
    let ended = ours(&server, &["--add-header=A: b\\"]);
    assert_eq!(numbers(&ended, ["replies"]), [1.0], "{ended:?}");
    let text = String::from_utf8_lossy(&server.seen()[0].bytes).into_owned();
    assert!(text.ends_with("\r\nA: b\\\r\n\r\n"), "{text}");
    for log in ["--wlog=n", "--wlog=y", "--wlog="] {
        let ended = ours(&server, &[log]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.stderr.starts_with("httperf: ") && ended.stderr.contains("wlog"),
            "{ended:?}"
        );
    }
}

#[test]
fn d41_the_echo_line_is_a_valid_command_line() {
    let server = Server::start();
    let args = ["--server-name=a.example", "--hog", "--timeout=5", "--wsess=2,3,0.01"];
    let first = ours(&server, &args);
    let echo = first.report().echo;
    let again: Vec<&str> = echo.split(' ').skip(1).collect();
    let again = Run::new(&again).run(Which::Ours);
    assert_eq!(again.report().echo, echo);
    let seen = server.seen();
    assert_eq!((seen.len(), &seen[0].bytes, &seen[1].bytes), (4, &seen[2].bytes, &seen[3].bytes));
}

/// One clear sentence on standard error, only the echo on standard output, exit code 1, and no
/// request. The messages are those of the original if it has a clear one.
#[test]
fn rejects_invalid_arguments() {
    let server = Server::start();
    for (args, what) in [
        (&["--num-conns=x"][..], "illegal number of connections x"),
        (&["--num-conns=-1"], "illegal number of connections -1"),
        (&["--num-calls="], "illegal number of calls "),
        (&["--rate=fast"], "illegal request rate fast"),
        (&["--port=70000"], "illegal port number 70000"),
        (&["--burst-length=0"], "illegal burst-length 0"),
        (&["--timeout=1s"], "illegal connect timeout 1s"),
        (&["--think-timeout=x"], "illegal think timeout value x"),
        (&["--failure-status=0"], "illegal failure status 0"),
        (&["--http-version=one"], "illegal version number one"),
        (&["--http-version=2.0"], "unexpected version code 20000"),
        (&["--period=.5"], "illegal interarrival distribution '.' in .5"),
        (&["--period=ex"], "illegal mean interarrival time x"),
        (&["--period=u1"], "minimum interarrival time not followed by `,MAX_IAT' (rest: `')"),
        (&["--client=3/2"], "bad number of clients (rest: `"),
        (&["--wsess=2,x,0"], "bad number of calls per session (2nd param) in --wsess arg"),
        (&["--wsess=2,3,0,4"], "extraneous parameter in --wsess arg"),
        (&["--wset=5"], "bad target miss rate (2nd parameter) in --wset arg"),
        (&["--nosuch"], "unrecognized option '--nosuch'"),
        (
            &["--num", "5"],
            "option '--num' is ambiguous; possibilities: '--num-calls' '--num-conns'",
        ),
        (&["--num-calls"], "option '--num-calls' requires an argument"),
        (&["-x"], "invalid option -- 'x'"),
        (&["--hog=yes"], "option '--hog' doesn't allow an argument"),
        (&["--wsesslog=1,0,nosuch"], "can't open nosuch"),
        (&["--wsesslog=1,0,f"], "did not recognize arg 'meth=GET' in f"),
        (&["--wlog=y,nosuch"], "can't open nosuch"),
        (&["--add-header-file=nosuch"], "nosuch"),
        (&["--server=no-such-host.invalid"], "no-such-host.invalid"),
    ] {
        let ended = run(server.port, args).file("f", "/a meth=GET\n").run(Which::Ours);
        assert_eq!(ended.code, Some(1), "{args:?}: {ended:?}");
        let sentence = ended.stderr.trim_end_matches('\n');
        assert!(sentence.starts_with("httperf") && sentence.contains(what), "{args:?}: {ended:?}");
        assert_eq!(sentence.lines().count(), 1, "{args:?}: {ended:?}");
        assert!(ended.stdout.lines().count() <= 1, "{args:?}: {ended:?}");
    }
    for args in [&["--session-cookies"][..], &["--servers=f"]] {
        let ended = run(server.port, args).file("f", "127.0.0.1").run(Which::Ours);
        assert_eq!(ended.code, Some(255), "{ended:?}");
    }
    let ended = Run::new(&["--servers=nosuch"]).run(Which::Ours);
    assert_eq!((ended.code, &ended.stderr[..]), (Some(1), "httperf: can't open nosuch\n"));
    assert_eq!(server.requests(), 0);
}

/// The message has the position in the session file, and what was expected there.
#[test]
fn errors_in_session_files_have_line_and_column() {
    let server = Server::start();
    for (text, line, column) in [
        ("/a\n\n/b\n  /c bad\n", "4", "6"),
        ("/a method=get\n", "1", "4"),
        ("/a contents=\n", "1", "4"),
        ("/a think=soon\n", "1", "4"),
        ("/a\n/b color=red\n", "2", "4"),
    ] {
        let ended = run(server.port, &["--wsesslog=1,0,f"]).file("f", text).run(Which::Ours);
        assert_eq!(ended.code, Some(1), "{text:?}: {ended:?}");
        let place = format!("(line {line}, column {column})");
        assert!(ended.stderr.contains(&place), "{text:?}: {}", ended.stderr);
    }
    assert_eq!(server.requests(), 0);
}

/// Versions other than 1.0 and 1.1 are not silently replaced by one of these.
#[test]
fn d23_other_versions_of_http_are_refused() {
    let server = Server::start();
    for version in ["1.0", "1.1"] {
        let ended = ours(&server, &[&format!("--http-version={version}")]);
        assert_eq!(numbers(&ended, ["replies", "errors"]), [1.0, 0.0], "{version}: {ended:?}");
        let seen = server.seen().pop().expect("a connection");
        let line = format!("GET / HTTP/{version}\r\n");
        assert!(seen.bytes.starts_with(line.as_bytes()), "{seen:?}");
    }
    for (version, code) in [("2.0", "20000"), ("0.9", "9"), ("1.2", "10002")] {
        let ended = ours(&server, &[&format!("--http-version={version}")]);
        assert!(ended.code != Some(0), "{version}: {ended:?}");
        let reported = format!("unexpected version code {code}");
        assert!(ended.stderr.contains(&reported), "{version}: {ended:?}");
    }
    assert_eq!(server.requests(), 2);
}
