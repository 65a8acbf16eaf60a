//! `prony wrk` compared with the real wrk: the same bytes to the server, and the same lines in the
//! same layout, with other figures.

use crate::beside::{nginx, real, shape};
use crate::rig::{Ended, Serve, alone, have, prony, reserved_port};
use crate::scripted::{Deed, Scripted, reply, send};
use crate::tls::{self, Certificates};

fn ours(words: &[&str]) -> Ended {
    prony(&[&["wrk", "--no-extras"], words].concat())
}

/// The lines with figures masked, including units and leading blanks, which depend on the figures.
/// Unit tests check the columns.
fn lines(report: &str) -> Vec<String> {
    let word = |word: &str| {
        let figure = word.trim_end_matches(char::is_alphabetic);
        let is_figure =
            !figure.is_empty() && figure.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_figure { "#".to_owned() } else { shape(word) }
    };
    let line = |l: &str| {
        let indent = l.len() - l.trim_start().len();
        let words: Vec<String> = l.split_whitespace().map(word).collect();
        let column = words.first().is_some_and(|w| w.starts_with(['#', '<']));
        format!("{}{}", " ".repeat(if column { 2 } else { indent }), words.join(" "))
    };
    report.lines().map(line).collect()
}

#[test]
fn sends_the_same_bytes_as_wrk() {
    if !have("wrk") {
        return;
    }
    let _alone = alone();
    let server = Scripted::start(|_, _| reply(200, "ok"));
    let cases: [(&[&str], &str); 3] =
        [(&[], "/p?q=1"), (&[], ""), (&["-H", "Host: a.example"], "/")];
    for (words, path) in cases {
        let url = format!("http://{}{path}", server.address());
        let mut sent = Vec::new();
        for program in [real as fn(&str, &[&str]) -> Ended, |_, words| ours(words)] {
            let before = server.requests().len();
            let words = [words, &["-c", "1", "-t", "1", "-d", "1", &url]].concat();
            assert_eq!(program("wrk", &words).code, 0, "{words:?}");
            sent.push(server.requests()[before].clone());
        }
        assert_eq!(sent[0], sent[1], "{words:?}");
    }
}

#[test]
fn prints_the_same_report_as_wrk() {
    if !have("wrk") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = nginx();
    let cases: [(&[&str], &str); 3] = [
        (&["-c", "4", "-t", "2", "-d", "1"], "/"),
        (&["-c", "4", "-t", "1", "-d", "1s", "--latency"], "/"),
        (&["-c", "2", "-t", "2", "-d", "1", "-T", "1s"], "/no"),
    ];
    for (words, path) in cases {
        let url = server.url(path);
        let words = [words, &[&url]].concat();
        let (theirs, ours) = (real("wrk", &words), ours(&words));
        assert_eq!((theirs.code, ours.code), (0, 0), "{words:?}: {ours:?}");
        assert_eq!(lines(&theirs.stdout), lines(&ours.stdout), "{words:?}");
    }
}

#[test]
fn prints_the_same_report_as_wrk_over_tls() {
    if !have("wrk") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let certificates = Certificates::new();
    let server = tls::nginx(&certificates, "server", "");
    let url = tls::url(&server, "/");
    let words = ["-c", "2", "-t", "2", "-d", "1", "--latency", &url];
    let (theirs, ours) = (real("wrk", &words), ours(&words));
    assert_eq!((theirs.code, ours.code), (0, 0), "{ours:?}");
    assert_eq!(lines(&theirs.stdout), lines(&ours.stdout));
}

#[test]
fn reports_failed_connects_as_wrk_does() {
    let _alone = alone();
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let words = ["-c", "2", "-t", "1", "-d", "60", &url];
    let ours = ours(&words);
    let line = format!("unable to connect to {} Connection refused\n", &url[7..url.len() - 1]);
    assert_eq!((ours.code, ours.stdout.as_str(), &ours.stderr), (1, "", &line));
    if have("wrk") {
        let theirs = real("wrk", &words);
        assert_eq!((theirs.code, theirs.stderr), (1, ours.stderr));
    }
    let ended = prony(&["wrk", "http://a..b/"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.starts_with("unable to resolve a..b"), "{ended:?}");
}

#[test]
fn reports_socket_errors() {
    let _alone = alone();
    let server = Scripted::start(|n, _| match n {
        3 => Deed::Reset,
        5 => send(""),
        7 => send("junk that is no HTTP\r\n\r\n"),
        8 => reply(500, ""),
        _ => reply(200, "ok"),
    });
    let url = format!("http://{}/", server.address());
    let ended = ours(&["-c", "1", "-t", "1", "-d", "1", &url]);
    let expected =
        "  Socket errors: connect 0, read 3, write 0, timeout 0\n  Non-2xx or 3xx responses: 1\n";
    assert!(ended.stdout.contains(expected), "{ended:?}");
}

#[test]
fn counts_and_reports_slow_replies() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "1200ms"]);
    let url = server.url("/");
    let ended =
        prony(&["wrk", "-c", "2", "-t", "1", "-d", "5", "--timeout", "1", "--latency", &url]);
    let flat = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = |text: &str| flat.split(text).next().and_then(|text| text.rsplit(' ').next());
    // At most four rounds of 1.2 s on both connections. On a busy machine there are fewer.
    let n: u32 = before(" requests in ").and_then(|n| n.parse().ok()).expect("a number");
    assert!((2..=8).contains(&n), "{ended:?}");
    assert!(flat.contains(&format!("connect 0, read 0, write 0, timeout {n} ")), "{ended:?}");
    // wrk would print latencies of 0.00us.
    let latency = flat.split(" Latency ").nth(1).and_then(|text| text.split("s ").next());
    let latency: f64 = latency.and_then(|s| s.parse().ok()).expect("seconds");
    assert!((1.2..5.0).contains(&latency), "{ended:?}");
    let slow = format!("{n} replies took longer than --timeout");
    for words in [slow.as_str(), "2 requests were in flight when the run"] {
        assert!(flat.contains(words), "{words}: {ended:?}");
    }
}

#[test]
fn rejects_invalid_input_as_wrk_does() {
    let cases: [(&[&str], &str); 3] = [
        (
            &["-s", "x.lua", "http://127.0.0.1:1/"],
            "-s x.lua: Lua scripts are not supported; `prony load`",
        ),
        (
            &["-c", "1", "-t", "2", "http://127.0.0.1:1/"],
            "number of connections must be >= threads\n",
        ),
        (&["-Z", "http://127.0.0.1:1/"], "wrk: invalid option -- 'Z'\n"),
    ];
    for (words, start) in cases {
        let ended = ours(words);
        assert!(ended.code == 1 && ended.stderr.starts_with(start), "{words:?}: {ended:?}");
    }
    let ended = ours(&[]);
    assert!(ended.code == 1 && ended.stdout.starts_with("Usage: wrk "), "{ended:?}");
}

/// wrk prints its usage to standard output after any error.
#[test]
fn prints_usage_to_standard_output_as_wrk_does() {
    let cases: [(&[&str], &str); 6] = [
        (&["notaurl"], "invalid URL: notaurl\n"),
        (&["127.0.0.1:1/"], "invalid URL: 127.0.0.1:1/\n"),
        (&["http:///x"], "invalid URL: http:///x\n"),
        (&["-h"], ""),
        (&["-Z"], "wrk: invalid option -- 'Z'\n"),
        (
            &["-c", "1", "-t", "2", "http://127.0.0.1:1/"],
            "number of connections must be >= threads\n",
        ),
    ];
    for (words, start) in cases {
        let ended = ours(words);
        assert!(ended.code == 1 && ended.stderr.starts_with(start), "{words:?}: {ended:?}");
        assert!(ended.stdout.starts_with("Usage: wrk <options> <url>"), "{words:?}: {ended:?}");
        if have("wrk") {
            let theirs = real("wrk", words);
            assert!(theirs.code == 1 && theirs.stderr.starts_with(start), "{theirs:?}");
            assert!(theirs.stdout.starts_with("Usage: wrk <options> <url>"), "{theirs:?}");
        }
    }
    let ended = ours(&["-v"]);
    assert!(ended.code == 1 && ended.stdout.starts_with("wrk [prony "), "{ended:?}");
    assert!(ended.stdout.contains("\nUsage: wrk <options> <url>"), "{ended:?}");
}
