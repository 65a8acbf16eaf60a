//! A meter that has not the means says so, and claims nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::rig::{Running, Serve, alone, once_of_three, prony};

/// Run a load that gets 5 % of a core: it is stopped for 95 ms of every 100.
fn held_back(args: &[&str]) -> crate::rig::Ended {
    let client = Running::start(args);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (client, over) = (&client, &over);
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(4));
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            client.signal(Signal::STOP);
            thread::sleep(Duration::from_millis(95));
            client.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(5));
        }
    });
    client.wait()
}

#[test]
fn p08_a_client_without_cpu_is_client_limited() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let url = server.url("/");
    let load = ["-r", "2k", "-d", "3s", "-c", "20", "--json", "--quiet", &url];
    let ended = held_back(&load);
    assert_eq!(ended.code, 98, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.verdict(), "CLIENT-LIMITED");
    report.check_sums();
    // Nothing was dropped to look better: all that was due was sent, late.
    assert_eq!(report.count("started"), 6_000);
    let late = report.ms("lag", "p99");
    assert!(late > 20.0, "held back for 95 ms, but late by {late} ms at most");
    // Whoever knows may accept it.
    let accepted = held_back(&[&load[..], &["--accept-invalid"]].concat());
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert_eq!(accepted.report().verdict(), "CLIENT-LIMITED");
}

#[test]
fn the_text_report_says_it() {
    let _alone = alone();
    let server = Serve::start(&[]);
    let ended = held_back(&["-r", "500", "-d", "3s", "-c", "20", "--quiet", &server.url("/")]);
    assert_eq!(ended.code, 98, "{ended:?}");
    assert!(ended.stdout.contains("CLIENT-LIMITED"), "{}", ended.stdout);
}

#[test]
fn a_client_with_cpu_is_valid() {
    let _alone = alone();
    // A tenth of the response time is what a shared machine may make the meter late.
    let server = Serve::start(&["--latency", "100ms"]);
    once_of_three(|| {
        let ended = prony(&["-r", "200", "-d", "3s", "--json", "--quiet", &server.url("/")]);
        let report = ended.report();
        assert_eq!((ended.code, report.verdict()), (0, "VALID"), "{:#}", report.0["verdict"]);
    });
}
