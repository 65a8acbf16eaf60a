//! Raw results: a line for each request.

use std::fs;

use crate::rig::{Serve, prony};

/// On the kernel: the lines are the requests of the report, and of the server.
#[test]
fn every_request_has_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw.jsonl").display().to_string();
    let server = Serve::start(&["--status", "200:80,503:20"]);
    let load = ["-n", "2000", "-c", "5", "-t", "2", "--json", "--raw", &path, &server.url("/a")];
    let ended = prony(&load);
    let report = ended.report().0;
    let tally = &report["measurement"]["tally"];
    let text = fs::read_to_string(&path).expect("the file");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let failed = lines.iter().filter(|line| line["error"] == "unexpected-status").count();
    assert_eq!(lines.len(), 2_000);
    assert_eq!(tally["failed"], failed);
    assert!(failed > 200, "{failed}");
    assert_eq!(tally["statuses"]["503"], failed);
    for line in &lines {
        let ns = |name: &str| line[name].as_u64().expect("a time");
        let times = ["intended_ns", "sent_ns", "first_byte_ns", "done_ns"].map(ns);
        assert!(times.is_sorted(), "{line}");
        assert_eq!(line["request"], "GET /a");
        assert!(ns("connection") < 5 && ns("worker") < 2, "{line}");
    }
}

#[test]
fn raw_results_are_refused_where_they_would_not_be_whole() {
    for (args, why) in [
        (&["--raw", "x.txt", "http://h/"][..], "use .csv or .jsonl"),
        (&["--raw", "x.csv", "-o", "x.csv", "http://h/"], "given twice"),
        (&["--raw", "x.csv", "--hosts", "2", "http://h/"], "--raw and --hosts exclude each other"),
        (
            &["--raw", "x.csv", "--simulate", "1", "--until", "p50+-5%", "http://h/"],
            "is simulated several times",
        ),
    ] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {ended:?}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
    }
}
