//! Ctrl-C once: the load ends, what is in flight is waited for. Twice: at once. The report is
//! whole.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::{Running, Serve, alone, descriptors, drivers, wait_until};

fn sleep(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// The requests that a client of 100 a second can have started by now. How long it took to come up
/// is not known, so there may be far fewer; and it hears of the signal a little later.
fn most_at_100(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64 / 10 + 10
}

#[test]
fn once_drains_and_reports() {
    let _alone = alone();
    for driver in drivers() {
        for signal in [Signal::INT, Signal::TERM] {
            let server = Serve::start(&["--latency", "300ms"]);
            let url = server.url("/");
            let load = ["-r", "100", "-d", "60s", "--driver", driver, "--json", "--quiet", &url];
            let started = Instant::now();
            let client = Running::start(&load);
            sleep(1_500);
            client.signal(signal);
            let (begun, most) = (Instant::now(), most_at_100(started));
            let ended = client.wait();
            let took = begun.elapsed();
            assert_eq!(ended.code, 130, "{ended:?}");
            assert!((200..5_000).contains(&took.as_millis()), "{took:?} for a drain of 300 ms");
            let report = ended.report();
            report.check_sums();
            assert_eq!(report.count("unfinished"), 0);
            assert_eq!(report.count("failed"), 0);
            let n = report.count("replies");
            assert!((30..=most).contains(&n), "{n} requests at 100 a second, {most} at most");
            assert_eq!(crate::rig::served(&server.stop(), "replies"), n);
        }
    }
}

#[test]
fn twice_ends_at_once_and_reports() {
    let _alone = alone();
    for driver in drivers() {
        let server = Serve::start(&["--latency", "20s"]);
        let url = server.url("/");
        let load = ["-r", "100", "-d", "60s", "--driver", driver, "--json", "--quiet", &url];
        let started = Instant::now();
        let client = Running::start(&load);
        sleep(800);
        client.signal(Signal::INT);
        let most = most_at_100(started);
        sleep(300);
        let begun = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        assert_eq!(ended.code, 130, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.count("replies"), 0);
        let n = report.count("unfinished");
        assert!((10..=most).contains(&n), "{n} requests at 100 a second, {most} at most");
    }
}

#[test]
fn the_text_report_of_an_interrupted_run_is_whole() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "5ms"]);
    let client = Running::start(&["-c", "5", "-d", "60s", &server.url("/")]);
    sleep(1_000);
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    for word in ["p99", "interrupted", "200"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    // What a busy machine does to the meter is the weightier reason.
    let words = ["INTERRUPTED", "CLIENT-LIMITED"];
    assert!(words.iter().any(|w| ended.stdout.contains(w)), "{}", ended.stdout);
}

#[test]
fn the_server_ends_in_good_order() {
    let server = Serve::start(&["--latency", "1s"]);
    let idle = server.descriptors_when_idle();
    let client = Running::start(&["-c", "2", "-n", "2", "--json", "--quiet", &server.url("/")]);
    wait_until("two connections", || descriptors(server.pid()) == Some(idle + 2));
    // Each brings its request at once.
    sleep(300);
    let there = server.stop();
    let ended = client.wait();
    assert_eq!(ended.report().count("replies"), 2, "{ended:?}");
    assert_eq!(crate::rig::served(&there, "replies"), 3, "one was by hand");
}
