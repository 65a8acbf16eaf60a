//! HTTP/2 of `prony serve` with independent clients: h2spec, h2load, curl. Their counts are the
//! server's own.

use std::process::{Command, Output};

use serde_json::Value;

use crate::rig::{Serve, alone, have, served};

fn run(program: &str, args: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).args(args).output().expect("it was there a moment ago");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{program} {args:?}: {status}: {text}");
    text
}

/// The conformance tests of h2spec, in its strict mode.
#[test]
fn h2spec_passes_whole() {
    let Some(h2spec) = std::env::var_os("PRONY_TEST_H2SPEC") else {
        eprintln!("skipped: PRONY_TEST_H2SPEC does not name the program h2spec");
        return;
    };
    let h2spec = h2spec.to_str().expect("a path in UTF-8");
    let _alone = alone();
    for tls in [false, true] {
        let server = Serve::start(if tls { &["--tls"] } else { &[] });
        let port = server.url("").rsplit_once(':').expect("a port").1.to_owned();
        let mut args = vec!["--strict", "-h", "127.0.0.1", "-p", &port, "-o", "20"];
        if tls {
            args.extend(["-t", "-k"]);
        }
        let text = run(h2spec, &args);
        let last = text.lines().rev().find(|line| line.contains("tests,")).expect("a summary");
        let numbers: Vec<u32> =
            last.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        let [tests, passed, skipped, failed] = numbers[..] else { panic!("{last}") };
        assert!(tests > 140 && tests == passed && skipped + failed == 0, "{last}");
        assert!(served(&server.stop(), "violations") > 40, "h2spec breaks the rules");
    }
}

/// The numbers of h2load's line `requests: ...`, and the bytes of its line `traffic: ...`.
fn h2load(args: &[&str]) -> (Vec<u64>, Vec<u64>) {
    let text = run("h2load", args);
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).expect("the line exists");
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    (line("requests:"), line("status codes:"))
}

#[test]
fn counts_equal_those_of_h2load() {
    if !have("h2load") {
        return;
    }
    let _alone = alone();
    let faults = ["--status", "200:3,404:1", "--latency", "exp:1ms", "--max-streams", "20"];
    for tls in [false, true] {
        let server = Serve::start(&[&faults[..], if tls { &["--tls"] } else { &[] }].concat());
        let url = server.url("/");
        let (requests, statuses) = h2load(&["-n", "4000", "-c", "7", "-m", "20", &url]);
        assert_eq!(requests[..3], [4_000; 3], "total, started, done");
        let counters = server.stop();
        let count = |name| served(&counters, name);
        assert_eq!(
            (count("requests"), count("replies"), count("h2_requests")),
            (4_000, 4_000, 4_000)
        );
        assert_eq!((count("h2_connections"), count("refused"), count("violations")), (7, 0, 0));
        let by_status = |status: &str| counters["statuses"][status].as_u64();
        // `status codes: 3000 2xx, 0 3xx, 1000 4xx, 0 5xx`: the words are numbers as well.
        assert_eq!(by_status("200"), Some(statuses[0]));
        assert_eq!(by_status("404"), Some(statuses[4]));
        assert!(count("in_server_max") <= 140 && count("in_server_max") > 40, "{counters}");
    }
}

#[test]
fn h2load_sees_the_resets_that_the_server_makes() {
    if !have("h2load") {
        return;
    }
    let server = Serve::start(&["--rst", "10%", "--refuse", "10%"]);
    let (requests, _) = h2load(&["-n", "2000", "-c", "2", "-m", "10", &server.url("/")]);
    let counters = server.stop();
    let failed = served(&counters, "refused") + served(&counters, "stream_resets");
    // total, started, done, succeeded, failed
    assert_eq!((requests[3], requests[4]), (served(&counters, "replies"), failed));
    assert!((300..500).contains(&failed), "{failed}");
}

/// The version and status of a reply, and the length of its body.
fn curl(args: &[&str]) -> String {
    let all = [
        &["-s", "-k", "-o", "/dev/null", "-w", "%{http_version} %{http_code} %{size_download}"],
        args,
    ]
    .concat();
    run("curl", &all)
}

#[test]
fn curl_is_served_in_every_version() {
    if !have("curl") {
        return;
    }
    let plain = Serve::start(&[]);
    let secure = Serve::start(&["--tls"]);
    let (a, b) = (plain.url("/bytes/300000"), secure.url("/bytes/300000"));
    assert_eq!(curl(&["--http2-prior-knowledge", &a]), "2 200 300000");
    assert_eq!(curl(&["--http1.1", &a]), "1.1 200 300000");
    assert_eq!(curl(&["--http2", &b]), "2 200 300000");
    assert_eq!(curl(&["--http1.1", &b]), "1.1 200 300000");
    let body = "x".repeat(200_000);
    let echo = secure.url("/echo");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    std::fs::write(&file, &body).expect("written");
    let data = format!("@{}", file.display());
    assert_eq!(curl(&["--http2", "--data-binary", &data, &echo]), "2 200 200000");
    let both: Vec<Value> = vec![plain.stop(), secure.stop()];
    let counts = |name| both.iter().map(|counters| served(counters, name)).collect::<Vec<_>>();
    assert_eq!((counts("requests"), counts("h2_requests")), (vec![2, 3], vec![1, 2]));
    assert_eq!((counts("connections"), counts("h2_connections")), (vec![2, 3], vec![1, 2]));
}
