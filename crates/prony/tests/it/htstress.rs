//! `prony htstress` compared with the original: recorded transcripts (with figures masked), the
//! bytes
//! sent, and servers with which the original hung, crashed or was wrong.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::rig::{Ended, Running, alone, prony, reserved_port, wait_until};
use crate::scripted::{Deed, Scripted, reply, send};

fn run(words: &[&str]) -> Ended {
    prony(&[&["htstress", "--no-extras"], words].concat())
}

/// Standard output with the two numbers that differ from run to run masked.
fn masked(stdout: &str) -> String {
    let mask = |line: &str| {
        let name = ["seconds:       ", "requests/sec:  "].into_iter().find(|n| line.starts_with(n));
        match name {
            Some(name) => {
                let number = &line[name.len()..];
                let (_, decimals) = number.split_once('.').expect("a decimal point");
                assert!(number.parse::<f64>().is_ok() && decimals.len() == 3, "{line}");
                format!("{name}@\n")
            }
            None => format!("{line}\n"),
        }
    };
    stdout.lines().map(mask).collect()
}

fn shown(ended: &Ended) -> String {
    let mut text = String::new();
    if !ended.stdout.is_empty() {
        let mut result = masked(&ended.stdout);
        if ended.stderr.contains("the server does not reply") {
            // It tried for a second; the number of tries depends on the pauses.
            let tries = number(ended, "socket errors:");
            assert!(tries >= 8.0, "{ended:?}");
            result = result.replace(&format!("socket errors: {tries}"), "socket errors: @");
        }
        text += &format!("[stdout]\n{result}");
    }
    if !ended.stderr.is_empty() {
        text += &format!("[stderr]\n{}", ended.stderr);
    }
    text + &format!("[exit {}]\n", ended.code)
}

/// A number in the result.
fn number(ended: &Ended, name: &str) -> f64 {
    let line = ended.stdout.lines().find(|l| l.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name}: {ended:?}"));
    let word = line[name.len()..].split_whitespace().next().expect("a number");
    word.parse().unwrap_or_else(|_| panic!("{line}"))
}

fn counts(ended: &Ended) -> [f64; 4] {
    ["requests:", "good requests:", "bad requests:", "socket errors:"].map(|n| number(ended, n))
}

/// The paths of the server of the transcripts.
fn nginx(_: usize, request: &str) -> Deed {
    match request.split(' ').nth(1).expect("a path") {
        "/404" => reply(404, "no"),
        "/500" => reply(500, "no"),
        "/301" => reply(301, ""),
        "/444" => send(""),
        _ => reply(200, "hello"),
    }
}

#[test]
fn transcripts() {
    let _alone = alone();
    let server = Scripted::start(nginx);
    let port = reserved_port();
    let (address, nobody) = (server.address(), format!("127.0.0.1:{port}"));
    let fill = |text: &str| {
        let text = text.replace("@SERVER@", &address).replace("@NOBODY@", &nobody);
        text.replace("@PORT@", &server.port.to_string())
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/htstress/transcripts.txt");
    let text = std::fs::read_to_string(path).expect("the transcripts");
    let mut found = String::new();
    let mut wrong = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> =
        (0..lines.len()).filter(|&i| lines[i].starts_with("$ htstress")).collect();
    for (k, &start) in starts.iter().enumerate() {
        let end = starts.get(k + 1).copied().unwrap_or(lines.len());
        let line = lines[start];
        let is_case = |l: &&&str| !l.starts_with("# better: ");
        let expected: Vec<&str> = lines[start + 1..end].iter().filter(is_case).copied().collect();
        let expected = expected.join("\n").trim_end().to_owned() + "\n";
        let words = fill(line.trim_start_matches("$ htstress"));
        let words: Vec<&str> = words.split_whitespace().collect();
        let ended = if words.is_empty() { prony(&["htstress"]) } else { run(&words) };
        let is = shown(&ended).replace(&address, "@SERVER@").replace(&nobody, "@NOBODY@");
        if start > 0 && lines[start - 1].starts_with("# better: ") {
            found += &format!("{}\n", lines[start - 1]);
        }
        found += &format!("{line}\n{is}\n");
        if is != expected {
            wrong.push(format!("{line}\n--- expected\n{expected}--- is\n{is}"));
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, found.trim_end().to_owned() + "\n").expect("written");
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn sends_the_same_bytes_as_the_original() {
    let server = Scripted::start(nginx);
    let at = server.address();
    let cases: [(&[&str], &str, &str); 6] = [
        (&[], "/x", "GET /x HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"),
        (&[], "", "GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"),
        (&[], "?q", "GET /?q HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"),
        (&[], "/a?b=c%20d&e#f", "GET /a?b=c%20d&e#f HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"),
        (&["-h", "a.example:81"], "/", "GET / HTTP/1.0\r\nHost: a.example:81\r\n\r\n"),
        (&["--host=b"], "/", "GET / HTTP/1.0\r\nHost: b\r\n\r\n"),
    ];
    for (words, path, bytes) in cases {
        let before = server.requests().len();
        let url = format!("http://{at}{path}");
        let ended = run(&[words, &["-n", "2", &url]].concat());
        assert_eq!(counts(&ended), [2.0, 2.0, 0.0, 0.0], "{ended:?}");
        // Two requests, and no other connections.
        assert_eq!(server.requests()[before..], [bytes, bytes], "{words:?} {path}");
    }
}

#[test]
fn unix_sockets_need_no_host() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("s");
    let server = Scripted::at(&path, nginx);
    let path = path.to_str().expect("a path in UTF-8");
    for url in ["http://whatever:1/echo", "whatever/echo"] {
        let ended = run(&["-n", "20", "-c", "2", "-u", path, url]);
        assert_eq!((ended.code, counts(&ended)), (0, [20.0, 20.0, 0.0, 0.0]), "{ended:?}");
    }
    let bytes = "GET /echo HTTP/1.0\r\nHost: whatever\r\n\r\n";
    assert!(server.requests().iter().all(|r| r == bytes), "{:?}", server.requests());
    assert_eq!(server.requests().len(), 40);
}

#[test]
fn debug_output_has_requests_and_replies() {
    let pieces = ["HTTP/1.1 200 OK\r\nContent-", "Length: 5\r\n\r\nhel", "lo"];
    let bytes = pieces.map(|p| p.as_bytes().to_vec()).to_vec();
    let server = Scripted::start(move |_, _| Deed::Send(bytes.clone()));
    for option in ["-d", "--debug"] {
        let ended = run(&["-n", "1", option, &server.address()]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let expected = format!("GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n{}", pieces.concat());
        assert_eq!(ended.stderr, expected);
    }
}

#[test]
fn complete_replies_decide() {
    let _alone = alone();
    let bytes = |pieces: &[&str]| {
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|p| p.as_bytes().to_vec()).collect();
        Scripted::start(move |_, _| Deed::Send(pieces.clone()))
    };
    let end = "\r\nContent-Length: 0\r\n\r\n";
    let cases: [(&str, Scripted, [f64; 4]); 8] = [
        // The original counted these three as good ...
        ("a status line in two pieces", bytes(&["HTTP/1.1 4", &format!("04 X{end}")]), BAD),
        ("junk", bytes(&["220 mail.example ESMTP\r\n"]), BAD),
        ("100, then 500", bytes(&[&format!("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 500 E{end}")]), BAD),
        // ... and these as bad.
        ("a body cut off", bytes(&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"]), BAD),
        ("nothing", bytes(&[""]), BAD),
        ("a status line after nine bytes", bytes(&["HTTP/1.1 ", &format!("404 X{end}")]), BAD),
        ("100, then 200", bytes(&[&format!("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 E{end}")]), GOOD),
        ("a body until the end", bytes(&["HTTP/1.0 200 OK\r\n\r\nall", " of it"]), GOOD),
    ];
    for (what, server, expected) in cases {
        let ended = run(&["-n", "3", &server.address()]);
        assert_eq!((ended.code, counts(&ended)), (0, expected), "{what}: {ended:?}");
    }
}

const GOOD: [f64; 4] = [3.0, 3.0, 0.0, 0.0];
const BAD: [f64; 4] = [3.0, 0.0, 3.0, 0.0];

#[test]
fn does_not_wait_for_a_server_that_keeps_the_connection_open() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let server = Scripted::start(move |_, _| Deed::Keep(bytes.clone()));
    let ended = run(&["-n", "3", &server.address()]);
    assert_eq!((ended.code, counts(&ended)), (0, GOOD), "{ended:?}");
}

#[test]
fn a_server_that_only_resets_ends_the_run() {
    let _alone = alone();
    let server = Scripted::start(|_, _| Deed::Reset);
    for number in ["1000000", "0"] {
        let ended = run(&["-n", number, "-c", "2", &server.address()]);
        assert_eq!((ended.code, number == "0"), (1, ended.stdout.starts_with('[')), "{ended:?}");
        let [requests, good, bad, errors] = counts(&ended);
        assert!((requests, good, bad) == (0.0, 0.0, 0.0) && errors > 0.0, "{ended:?}");
        assert!(ended.stderr.contains("the server does not reply"), "{ended:?}");
    }
}

#[test]
fn lost_requests_are_replaced() {
    let _alone = alone();
    // Every third connection is reset. Each is a socket error, and none counts as a request.
    let server = Scripted::start(|k, _| if k % 3 == 2 { Deed::Reset } else { reply(200, "") });
    let ended = run(&["-n", "40", "-c", "2", "-t", "2", &server.address()]);
    let [requests, good, bad, errors] = counts(&ended);
    assert_eq!((ended.code, requests, good, bad), (0, 40.0, 40.0, 0.0), "{ended:?}");
    assert_eq!(server.requests().len() as f64, 40.0 + errors, "{ended:?}");
    assert!((18.0..=20.0).contains(&errors), "{ended:?}");
}

#[test]
fn connections_are_counted_for_each_thread() {
    let _alone = alone();
    // The first replies wait until all connections have a request.
    let begun = AtomicUsize::new(0);
    let server = Scripted::start(move |_, _| {
        begun.fetch_add(1, Ordering::Relaxed);
        wait_until("15 requests", || begun.load(Ordering::Relaxed) >= 15);
        reply(200, "")
    });
    let ended = run(&["-n", "60", "-c", "5", "-t", "3", &server.address()]);
    assert_eq!(counts(&ended), [60.0, 60.0, 0.0, 0.0], "{ended:?}");
    assert_eq!(server.busy_max(), 15);
    // All sent requests count.
    assert_eq!(server.requests().len(), 60);
}

#[test]
fn signals_end_the_run_with_a_result() {
    let _alone = alone();
    // Before the first reply, and in the middle.
    for (signal, requests) in [(Signal::INT, 1), (Signal::INT, 3), (Signal::TERM, 3)] {
        let server = Scripted::start(|_, _| {
            thread::sleep(Duration::from_millis(300));
            reply(200, "")
        });
        let load = Running::start(&["htstress", "--no-extras", &server.address()]);
        wait_until("the requests", || server.begun() >= requests);
        load.signal(signal);
        let ended = load.wait();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.starts_with("[Press Ctrl-C to finish]\n"), "{ended:?}");
        let found = number(&ended, "requests:");
        // More, if the signal was late.
        assert_eq!(found, server.requests().len() as f64, "{ended:?}");
        assert!(found >= requests as f64, "{ended:?}");
        // The numbers are consistent.
        let rate = found / number(&ended, "seconds:");
        assert!((rate / number(&ended, "requests/sec:") - 1.0).abs() < 0.01, "{ended:?}");
    }
}

#[test]
fn extras_follow_the_result() {
    let server = Scripted::start(nginx);
    let ended = prony(&["htstress", "-n", "40", &server.address()]);
    let (block, extras) = ended.stdout.split_once("requests/sec:").expect("a result");
    assert!(block.ends_with("seconds:       ") || block.contains("seconds:"), "{ended:?}");
    for word in ["prony ", "p50", "response", "verdict"] {
        assert!(extras.contains(word) && !block.contains(word), "{word}: {ended:?}");
    }
}

#[test]
fn runs_as_htstress_through_a_link() {
    let folder = TempDir::new().expect("a folder");
    let link = folder.path().join("htstress");
    symlink(env!("CARGO_BIN_EXE_prony"), &link).expect("a link");
    let ended = Command::new(&link).arg("-q").output().expect("it starts");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.stdout, b"Unexpected argument: '?'\n");
    let expected = format!("{}: invalid option -- 'q'\n", link.display());
    assert_eq!(String::from_utf8_lossy(&ended.stderr), expected);
}
