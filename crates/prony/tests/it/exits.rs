//! The exit codes. For 98 see `limited`, for 130 `signals`.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use tempfile::TempDir;

use crate::rig::{Running, Serve, alone, command, descriptors, prony, reserved_port, wait_until};

#[test]
fn exits_with_0_after_a_valid_run() {
    let server = Serve::start(&[]);
    let ended = prony(&["-n", "100", "-c", "2", "--accept-invalid", &server.url("/")]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("100"), "{ended:?}");
}

#[test]
fn exits_with_1_if_nothing_listens() {
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let ended = prony(&["-c", "2", "-n", "20", "--json", "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!(report.errors("connect-refused"), report.count("started"));
    let text = prony(&["-c", "2", "-n", "20", "--quiet", &url]);
    assert!(text.stdout.contains("refused"), "the report says what was tried: {text:?}");
}

#[test]
fn exits_with_1_if_the_server_never_replies() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "1h"]);
    let url = server.url("/");
    let ended = prony(&["-r", "50", "-d", "1s", "--timeout", "400ms", "--json", "--quiet", &url]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!(report.errors("request-timeout"), 50);
    // P15: each timeout counts as a latency of at least its length.
    assert!(report.ms("response", "min") >= 400.0);
}

#[test]
fn exits_with_1_if_all_replies_are_errors() {
    let server = Serve::start(&["--status", "503"]);
    let ended = prony(&["-c", "1", "-n", "10", "--json", "--quiet", &server.url("/")]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.report().errors("unexpected-status"), 10);
    let url = server.url("/");
    let ended = prony(&["-c", "1", "-n", "10", "--expect", "503", "--accept-invalid", &url]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn exits_with_2_for_invalid_usage() {
    assert_eq!(prony(&["--no-such-option"]).code, 2);
    assert_eq!(prony(&[]).code, 2);
}

/// If a checked output file cannot be written after the run, the report is still printed.
#[test]
fn exits_with_3_if_a_file_cannot_be_written() {
    let server = Serve::start(&[]);
    let folder = TempDir::new().expect("a folder");
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).expect("a folder");
    let (file, url) = (gone.join("out.csv"), server.url("/"));
    let file = file.to_str().expect("UTF-8");
    let load = ["-c", "1", "-d", "1500ms", "--json", "--quiet", "--accept-invalid", "-o"];
    let idle = server.descriptors_when_idle();
    let client = Running::start(&[&load[..], &[file, &url]].concat());
    // The run has started when the server has its connection.
    wait_until("a connection", || descriptors(server.pid()) != Some(idle));
    thread::sleep(Duration::from_millis(200));
    fs::remove_dir_all(&gone).expect("it was there");
    let ended = client.wait();
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.report().count("replies") > 0);
    let sentence = ended.stderr.replace(file, "FILE");
    let expected = "prony: the run finished, but FILE could not be written: ";
    assert!(sentence.starts_with(expected), "{sentence}");
}

#[test]
fn exits_with_3_if_standard_output_fails() {
    let server = Serve::start(&[]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let url = server.url("/");
    let output = command(&["-n", "10", "-c", "1", "--quiet", &url]).stdout(full).output();
    let output = output.expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.starts_with("prony: the run finished, but the report"), "{text}");
}

/// The output files are still written.
#[test]
fn exits_with_3_if_standard_output_is_closed() {
    let server = Serve::start(&[]);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("out.json");
    let run = |redirection: &str| {
        let output = Command::new("sh")
            .args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")])
            .arg(command(&[]).get_program())
            .args(["-n", "10", "-c", "1", "--quiet", "--accept-invalid", "-o"])
            .args([file.as_os_str(), server.url("/").as_ref()])
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(fs::remove_file(&file).is_ok(), "{redirection}: {text}");
        (output.status.code(), text)
    };
    let expected =
        "prony: the run finished, but the report could not be written: standard output is closed\n";
    assert_eq!(run(">&-"), (Some(3), expected.to_owned()));
    // The report cannot be printed, which is an error.
    assert_eq!(run(">/dev/null"), (Some(0), String::new()));
    assert_eq!(run("1<>/dev/null"), (Some(0), String::new()));
}

#[test]
fn exits_with_3_if_help_cannot_be_printed() {
    let cases: [&[&str]; 5] = [
        &["--help"],
        &["--version"],
        &["man"],
        &["completions", "bash"],
        &["http://127.0.0.1:1/", "--explain"],
    ];
    for args in cases {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = command(args).stdout(full).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {text}");
        let expected = "prony: standard output could not be written: no space left on device\n";
        assert_eq!(text, expected, "{args:?}");
    }
}
