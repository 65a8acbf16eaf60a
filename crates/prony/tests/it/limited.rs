//! A client without enough CPU time gets the verdict CLIENT-LIMITED. (That one with enough is VALID
//! is checked by `cargo xtask truth`, in a virtual machine that has nothing else to do.)

use std::time::Duration;
use std::{fs, thread};

use rustix::process::Signal;

use crate::rig::{Running, Serve, alone};

/// Runs a load of 3 s with 5 % of a core: the process is stopped for 95 ms of every 100 ms.
fn throttled(args: &[&str]) -> crate::rig::Ended {
    let client = Running::start(args);
    for _ in (0..900).take_while(|_| is_running(client.pid())) {
        client.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(95));
        client.signal(Signal::CONT);
        thread::sleep(Duration::from_millis(5));
    }
    client.wait()
}

/// Whether a child process is still running, without waiting for it.
fn is_running(pid: u32) -> bool {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is still to be waited for");
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z'))
}

#[test]
fn p08_a_client_without_cpu_is_client_limited() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let url = server.url("/");
    let load = ["-r", "2k", "-d", "3s", "-c", "20", "--json", "--quiet", &url];
    let ended = throttled(&load);
    assert_eq!(ended.code, 98, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.verdict(), "CLIENT-LIMITED");
    report.check_sums();
    // All due requests were sent, late, and none was dropped.
    assert_eq!(report.count("started"), 6_000);
    let late = report.ms("send_lag", "p99");
    assert!(late > 20.0, "held back for 95 ms, but late by {late} ms at most");
    // --accept-invalid accepts it.
    let accepted = throttled(&[&load[..], &["--accept-invalid"]].concat());
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert_eq!(accepted.report().verdict(), "CLIENT-LIMITED");
}

/// A closed loop has no schedule, but the client still limits its times and rate.
#[test]
fn a_closed_loop_without_cpu_is_client_limited() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    for load in [&["-c", "4"][..], &["-c", "2", "-p", "4"], &["-c", "4", "--think", "20ms"]] {
        let run = ["-t", "1", "-d", "3s", "--json", "--quiet", &server.url("/")];
        let ended = throttled(&[load, &run].concat());
        assert_eq!(ended.code, 98, "{ended:?}");
        let report = ended.report();
        assert_eq!(report.verdict(), "CLIENT-LIMITED", "{load:?}");
        let reasons = &report.0["verdict"]["reasons"];
        let away =
            reasons.as_array().into_iter().flatten().find(|r| r["kind"] == "event-loop-stall");
        assert!(away.is_some_and(|r| r["share"].as_f64() > Some(0.5)), "{load:?}: {reasons}");
        // Nothing was lost: Little's law holds.
        let rates = &report.0["measurement"]["rates"];
        let [a, b] =
            ["concurrency", "in_flight_mean"].map(|side| rates[side].as_f64().expect("it"));
        assert!((a - b).abs() <= 1e-3 * b, "{load:?}: {a} and {b}");
    }
}

#[test]
fn text_report_shows_the_verdict() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let ended = throttled(&["-r", "500", "-d", "3s", "-c", "20", "--quiet", &server.url("/")]);
    assert_eq!(ended.code, 98, "{ended:?}");
    assert!(ended.stdout.contains("CLIENT-LIMITED"), "{}", ended.stdout);
}
