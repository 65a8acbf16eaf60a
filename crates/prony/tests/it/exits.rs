//! The exit codes, each by a run that earns it. 98 is in `limited`, 130 in `signals`.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::rig::{Serve, alone, free_port, prony};

#[test]
fn done() {
    let server = Serve::start(&[]);
    let ended = prony(&["-n", "100", "-c", "2", "--accept-invalid", &server.url("/")]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("100"), "{ended:?}");
}

#[test]
fn nobody_listens() {
    let url = format!("http://127.0.0.1:{}/", free_port());
    let ended = prony(&["-c", "2", "-n", "20", "--json", "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!(report.errors("connect-refused"), report.count("started"));
    let text = prony(&["-c", "2", "-n", "20", "--quiet", &url]);
    assert!(text.stdout.contains("refused"), "the report says what was tried: {text:?}");
}

#[test]
fn somebody_listens_but_never_answers() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "1h"]);
    let begun = Instant::now();
    let url = server.url("/");
    let ended = prony(&["-r", "50", "-d", "1s", "--timeout", "400ms", "--json", "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(4));
    let report = ended.report();
    report.check_sums();
    assert_eq!(report.errors("request-timeout"), 50);
    // P15: each timeout is a latency of at least its length.
    assert!(report.ms("response", "min") >= 400.0);
}

#[test]
fn every_reply_is_an_error() {
    let server = Serve::start(&["--status", "503"]);
    let ended = prony(&["-c", "1", "-n", "10", "--json", "--quiet", &server.url("/")]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.report().errors("unexpected-status"), 10);
    let url = server.url("/");
    let ended = prony(&["-c", "1", "-n", "10", "--expect", "503", "--accept-invalid", &url]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn bad_usage() {
    assert_eq!(prony(&["--no-such-option"]).code, 2);
    assert_eq!(prony(&[]).code, 2);
}

#[test]
fn a_report_that_cannot_be_written_after_the_run() {
    let server = Serve::start(&[]);
    let folder = TempDir::new().expect("a folder");
    // Writable when it is checked, full when it is written.
    let file = folder.path().join("out.json");
    std::os::unix::fs::symlink("/dev/full", &file).expect("a link");
    let ended = prony(&[
        "-n",
        "10",
        "-c",
        "1",
        "--accept-invalid",
        "--format",
        "json",
        &server.url("/"),
        "-o",
        file.to_str().expect("UTF-8"),
    ]);
    // Written by way of a new file that replaces the link, it can be written after all.
    assert!(matches!(ended.code, 0 | 3), "{ended:?}");
    if ended.code == 3 {
        assert!(ended.stderr.contains("the run was made, but"), "{ended:?}");
    }
    // A pipe that nobody reads is no panic.
    assert!(!ended.stderr.contains("panicked"));
}
