//! `prony h2load` compared with the real h2load of Debian (1.52) where it is installed: the same
//! bytes to the server, the same counts, and the same lines in the same layout, with other figures.
//! Unit tests compare with recorded output of 1.70.

use std::fs;

use crate::beside::{nginx, real};
use crate::rig::{Ended, Other, Serve, alone, have, prony, reserved_port, served};
use crate::scripted::{Scripted, reply};
use crate::tls::Certificates;

const H2: &str = "
    access_log off;
    keepalive_requests 100000;
    server {
        listen 127.0.0.1:@PORT@ http2;
        location / { return 200 'hello'; }
        location /no { return 404 'no such page'; }
        location /moved { return 302 /; }
    }
";

fn ours(words: &[&str]) -> Ended {
    prony(&[&["h2load", "--no-extras", "--report=1.52"], words].concat())
}

/// The lines without progress, with figures and their units masked.
fn lines(report: &str) -> Vec<String> {
    let mask = |word: &str| {
        let figure = word.trim_start_matches('(').trim_end_matches([',', ')']);
        let number = figure.trim_end_matches(|c: char| c.is_alphabetic() || "%/".contains(c));
        let is_figure =
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_figure && (figure.contains(['.', 'B']) || figure.ends_with("us")) {
            word.replace(figure, "#")
        } else {
            word.to_owned()
        }
    };
    let line = |l: &str| {
        // The bytes depend on the date in the headers. `counts` compares those of bodies.
        let all = l.starts_with("traffic:");
        let digits =
            |w: &str| w.starts_with(['(', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
        let masked = |w| if all && digits(w) { "#".to_owned() } else { mask(w) };
        l.split_whitespace().map(masked).collect::<Vec<_>>().join(" ")
    };
    report.lines().filter(|l| !l.starts_with("progress:")).map(line).collect()
}

/// The numbers of the lines `requests` and `status codes`, and the bytes of bodies.
fn counts(report: &str) -> Vec<u64> {
    let numbers = |start: &str| {
        let line = report.lines().find(|l| l.starts_with(start)).unwrap_or_default();
        // The names of the classes, as 2xx, are no numbers.
        line.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<u64>>()
    };
    let data = report.lines().find(|l| l.starts_with("traffic")).unwrap_or_default();
    let data = data.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let mut all = [numbers("requests"), numbers("status codes")].concat();
    all.extend(data.and_then(|(n, _)| n.parse::<u64>().ok()));
    all
}

#[test]
fn prints_the_same_report_as_h2load() {
    if !have("h2load") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Other::nginx(H2);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let url = server.url("/");
    let script = file("script", format!("0\t{url}\n20.5\t/no\n50\t/moved\n"));
    let urls = file("urls", format!("{url}\n{}\n", server.url("/no")));
    let body = file("body", "x".repeat(3_000));
    let script = format!("--timing-script-file={script}");
    let cases: [&[&str]; 9] = [
        &["-n", "100", "-c", "3", "-m", "4", &url],
        &["-n", "40", "-c", "4", "-t", "2", &url, "/no", "/moved"],
        &["-n", "7", "-c", "2", "-i", &urls],
        &["-n", "10", "-c", "5", "-r", "2", "--rate-period=50ms", &url],
        &["-n", "9", "-c", "3", "--rps", "50", &url],
        &["-c", "2", &script],
        &["-n", "4", "-c", "2", &script],
        &["-n", "20", "-c", "2", "-m", "5", "-d", &body, "-H", "X-A: b", &url],
        &["-n", "20", "-w", "16", "-W", "16", "--header-table-size", "0", &url],
    ];
    for words in cases {
        let (theirs, ours) = (real("h2load", words), ours(words));
        assert_eq!((theirs.code, ours.code), (0, 0), "{words:?}: {ours:?}");
        assert_eq!(counts(&theirs.stdout), counts(&ours.stdout), "{words:?}");
        let theirs = lines(&theirs.stdout);
        assert_eq!(theirs, lines(&ours.stdout), "{words:?}");
    }
}

#[test]
fn measures_for_a_time_as_h2load_does() {
    if !have("h2load") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let server = Other::nginx(H2);
    let url = server.url("/");
    let words = ["-D", "1", "-c", "2", "-m", "3", "--warm-up-time=300ms", &url];
    let (theirs, ours) = (real("h2load", &words), ours(&words));
    let masked = |report: &str| {
        let counted = |l: &String| l.starts_with("requests:") || l.starts_with("status codes:");
        lines(report).into_iter().filter(|l| !counted(l)).collect::<Vec<_>>()
    };
    assert_eq!(masked(&theirs.stdout), masked(&ours.stdout));
    let [total, started, done, succeeded, failed, errored, timeout, ok, ..] =
        counts(&ours.stdout)[..]
    else {
        panic!("{ours:?}")
    };
    assert_eq!((total, total, total), (done, succeeded, ok), "{ours:?}");
    assert_eq!((failed, errored, timeout), (0, 0, 0));
    assert!(total > 100 && (total..=total + 6).contains(&started), "{ours:?}");
    // Connects of the warm-up are in no line.
    assert!(ours.stdout.contains("time for connect:        0us"), "{ours:?}");
}

#[test]
fn prints_the_same_report_over_tls_and_http1() {
    if !have("h2load") || !have("nginx") {
        return;
    }
    let _alone = alone();
    let certificates = Certificates::new();
    let server = crate::tls::nginx(&certificates, "server", "");
    let url = crate::tls::url(&server, "/");
    let plain = nginx();
    let plain = plain.url("/");
    let cases: [&[&str]; 4] = [
        &["-n", "20", "-c", "2", &url],
        &["--h1", "-n", "20", "-c", "2", &url],
        &["--h1", "-n", "20", "-c", "2", "-m", "5", &plain],
        &["-p", "http/1.1", "-n", "20", "-c", "2", &plain],
    ];
    for words in cases {
        let (theirs, ours) = (real("h2load", words), ours(words));
        assert_eq!(counts(&theirs.stdout), counts(&ours.stdout), "{words:?}: {ours:?}");
        // The two TLS libraries prefer other suites and groups.
        let own = |l: &String| l.starts_with("Cipher:") || l.starts_with("Server Temp Key:");
        // Without a choice of the server, h2load explains its fallback.
        let explains =
            |l: &String| l.starts_with("No protocol") || l.starts_with("Server does not");
        let masked = |report: &str| {
            lines(report).into_iter().filter(|l| !own(l) && !explains(l)).collect::<Vec<_>>()
        };
        assert_eq!(masked(&theirs.stdout), masked(&ours.stdout), "{words:?}");
    }
}

#[test]
fn counts_equal_the_servers_own() {
    let _alone = alone();
    for (tls, h1) in [(false, false), (true, false), (false, true), (true, true)] {
        let faults = ["--status", "200:3,404:1"];
        let server = Serve::start(&[&faults[..], if tls { &["--tls"] } else { &[] }].concat());
        let url = server.url("/");
        let version: &[&str] = if h1 { &["--h1"] } else { &[] };
        let words = [version, &["-n", "2000", "-c", "7", "-m", "5", "-t", "2", &url]].concat();
        let report = ours(&words);
        let there = server.stop();
        let [total, started, done, succeeded, failed, errored, timeout, ok, _, missing, ..] =
            counts(&report.stdout)[..]
        else {
            panic!("{report:?}")
        };
        assert_eq!((total, started, done), (2_000, 2_000, 2_000), "{report:?}");
        assert_eq!((errored, timeout), (0, 0));
        assert_eq!((succeeded, failed), (ok, missing));
        assert_eq!(there["statuses"]["404"].as_u64(), Some(missing));
        assert_eq!(served(&there, "requests"), 2_000);
        assert_eq!(served(&there, "h2_requests"), if h1 { 0 } else { 2_000 });
    }
}

#[test]
fn sends_the_same_bytes_as_h2load_over_http1() {
    if !have("h2load") {
        return;
    }
    let _alone = alone();
    let server = Scripted::start(|_, _| reply(200, "ok"));
    let folder = tempfile::tempdir().expect("a folder");
    let body = folder.path().join("body");
    fs::write(&body, "data").expect("written");
    let body = body.to_str().expect("UTF-8");
    let agent = ["-H", "User-Agent: me"];
    let cases: [&[&str]; 3] = [&[], &agent, &["-d", body, "-H", "X-A: b"]];
    for words in cases {
        let url = format!("http://{}/p?q=1#f", server.address());
        let mut sent = Vec::new();
        for program in [real as fn(&str, &[&str]) -> Ended, |_, words| ours(words)] {
            let before = server.requests().len();
            let words = [&["--h1", "-n", "1"], words, &[&url]].concat();
            assert_eq!(program("h2load", &words).code, 0, "{words:?}");
            sent.push(server.requests()[before].clone());
        }
        assert_eq!(sent[0], sent[1], "{words:?}");
    }
}

#[test]
fn reports_refused_connects_and_timeouts_as_h2load_does() {
    let _alone = alone();
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let refused = ["-n", "20", "-c", "5", "-t", "2", &url];
    let frozen = Serve::start(&["--latency", "1m"]);
    let frozen = frozen.url("/");
    let cases: [(&[&str], &str); 3] = [
        (&refused, "20 total, 0 started, 0 done, 0 succeeded, 20 failed, 20 errored, 0 timeout"),
        (
            &["-n", "20", "-c", "2", "-m", "3", "-N", "300ms", &frozen],
            "20 total, 6 started, 0 done, 0 succeeded, 20 failed, 20 errored, 6 timeout",
        ),
        (
            &["--h1", "-n", "20", "-c", "2", "-T", "300ms", &frozen],
            "20 total, 2 started, 0 done, 0 succeeded, 20 failed, 20 errored, 2 timeout",
        ),
    ];
    for (words, line) in cases {
        let report = ours(words);
        assert_eq!(report.code, 0, "{report:?}");
        assert!(report.stdout.contains(&format!("requests: {line}\n")), "{report:?}");
        // Over HTTP/1.1, h2load's clients time out once and then wait as long as it takes.
        if have("h2load") && words[0] != "--h1" {
            let theirs = real("h2load", words);
            assert_eq!(lines(&theirs.stdout), lines(&report.stdout), "{words:?}");
        }
    }
}

#[test]
fn writes_the_files_of_h2load_and_of_prony() {
    let _alone = alone();
    let server = Serve::start(&["--status", "200:1,404:1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (log, json, saved) = (path("log"), path("samples.json"), path("result.json"));
    let words = ["h2load", "-n", "30", "-c", "3", "-m", "2", "-v", "--log-file", &log];
    let files = ["--output-file", &json, "--output", &saved, "--histogram", &server.url("/")];
    let report = prony(&[&words[..], &files].concat());
    assert_eq!(report.code, 0, "{report:?}");
    let log = fs::read_to_string(log).expect("a log");
    let rows: Vec<Vec<u64>> = log
        .lines()
        .map(|row| row.split('\t').map(|n| n.parse().expect("a number")).collect())
        .collect();
    assert_eq!(rows.len(), 30);
    for row in &rows {
        let [at, status, took] = row[..] else { panic!("{row:?}") };
        assert!(at > 1_700_000_000_000_000 && (status == 200 || status == 404), "{row:?}");
        assert!(took < 10_000_000, "{row:?}");
    }
    let missing = rows.iter().filter(|row| row[1] == 404).count() as u64;
    assert!(report.stdout.contains(&format!(" {missing} 4xx, ")), "{report:?}");
    let parse = |path: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
    };
    let samples = &parse(&json)["measurements"]["performance"];
    let count = |row: &str| samples[row]["samples"].as_array().map(Vec::len);
    assert_eq!((count("request"), count("connect"), count("ttfb")), (Some(30), Some(3), Some(3)));
    assert_eq!(count("request_per_second"), Some(3));
    assert_eq!(parse(&saved)["measurement"]["tally"]["replies"].as_u64(), Some(30));
    // -v prints the headers of each stream, with odd numbers.
    let first = report.stdout.lines().filter(|l| l.starts_with("[stream_id=1] :status: ")).count();
    assert_eq!(first, 3, "{report:?}");
    assert!(report.stdout.contains("req/s       :"), "{report:?}");
    // prony's own figures follow.
    let flat: Vec<&str> = report.stdout.split_whitespace().collect();
    assert!(flat.join(" ").contains("status of 400 or above"), "{report:?}");
}

#[test]
fn refuses_with_h2loads_exit_code() {
    for (words, message) in [
        (&["--h3", "https://127.0.0.1/"][..], "--h3: HTTP/3 is not supported yet"),
        (&["foo"], "invalid URI: foo\n"),
        (&["-i", "/nonexistent"], "cannot read input file: /nonexistent\n"),
        (&["-d", "/nonexistent", "http://h/"], "-d: Could not mmap file /nonexistent\n"),
        (&["--log-file=/nonexistent/x", "http://h/"], "--log-file: Could not open file /nonexist"),
        (&["--groups=foo", "https://h/"], "h2load: --groups `foo`"),
        (&["--ciphers=foo", "https://h/"], "h2load: --ciphers `foo`"),
        (&["http://a..b/"], "getaddrinfo() failed: "),
    ] {
        let ended = prony(&[&["h2load"], words].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.starts_with(message), "{words:?}: {ended:?}");
    }
    for (word, start) in [("--help", "Usage: h2load "), ("--version", "h2load [prony ")] {
        let ended = prony(&["h2load", word]);
        assert!(ended.code == 0 && ended.stdout.starts_with(start), "{ended:?}");
    }
}
