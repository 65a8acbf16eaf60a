//! The output.

use std::io::{BufRead as _, BufReader, Read as _};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{numbers, ours, run};
use crate::program::Which;
use crate::server::Server;

#[test]
fn d19_reports_sizes_as_the_original() {
    let server = Server::start();
    // 66 and 67 bytes: the mean is not a whole number.
    let ended = run(server.port, &["--wsesslog=1,0,f"])
        .file("f", "/size\n/size10\n/size9\n")
        .run(Which::Ours);
    let [size, content] = numbers(&ended, ["req_size", "content"]);
    assert_eq!((size, content), (67.0, 6.0), "{ended:?}");
}

#[test]
fn d31_text_after_a_body_starts_on_a_new_line() {
    let server = Server::start();
    let args = ["--wsesslog=1,0,f", "--print-request", "--print-reply"];
    let file = "/ method=POST contents=\"param1=abc&param2=def\"\n";
    let ended = run(server.port, &args).file("f", file).run(Which::Ours);
    let lines: Vec<String> =
        ended.report().before.iter().map(|l| l.trim_end_matches('\r').to_owned()).collect();
    let expected = [
        "SH0:POST / HTTP/1.1",
        "SH0:User-Agent: httperf/0.9.0",
        "SH0:Host: 127.0.0.1",
        "SH0:Content-length: 21",
        "SH0:",
        "SB0:param1=abc&param2=def",
        "SS0: header 83 content 21",
        "RH0:HTTP/1.1 200 OK",
        "RH0:Server: odd",
        "RH0:Content-Length: 10",
        "RH0:",
        "RB0:0123456789",
        "RS0: header 52 content 10 footer 0",
    ];
    assert_eq!(lines, expected);
}

/// Replies that arrive together are printed separately.
#[test]
fn d31_consecutive_replies_are_separated() {
    let server = Server::start();
    let ended = ours(&server, &["--num-calls=3", "--burst-length=3", "--print-reply"]);
    let report = ended.report();
    let bodies = report.before.iter().filter(|l| l.starts_with("RB")).collect::<Vec<_>>();
    assert_eq!(bodies, ["RB0:0123456789", "RB1:0123456789", "RB2:0123456789"]);
}

/// The first line is printed at the start, and the report after an interruption.
#[test]
fn d35_an_interrupted_run_has_a_report() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start();
        let run = run(server.port, &["--num-conns=1000", "--rate=20"]);
        let mut child = run.spawn(Which::Ours);
        let mut stdout = BufReader::new(child.stdout());
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert!(line.starts_with("httperf --client=0/1"), "{line}");
        while server.requests() < 5 {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process(Pid::from_child(&child.child), signal).expect("it runs");
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("text");
        assert_eq!(child.child.wait().expect("a child").code(), Some(0), "{text}");
        let report = crate::text::Printed::parse(&(line + &text)).expect("a report");
        assert!((5.0..500.0).contains(&report.get("requests")), "{text}");
    }
}

#[test]
fn version_and_help_start_no_load() {
    let server = Server::start();
    for (args, first) in [
        (&["-V"][..], "httperf: httperf-0.9.0 compiled without DEBUG without TIME_SYSCALLS.\n"),
        (&["-vV"], "httperf: httperf-0.9.0 compiled without DEBUG without TIME_SYSCALLS.\n"),
        (&["--help"], "Usage: httperf [-hdvV] "),
    ] {
        let ended = ours(&server, args);
        assert!(ended.code == Some(0) && ended.stdout.starts_with(first), "{ended:?}");
    }
    assert_eq!(server.requests(), 0);
}
