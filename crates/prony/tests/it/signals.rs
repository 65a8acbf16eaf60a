//! Ctrl-C once: the load ends, what is in flight is waited for. Twice: at once. The report is
//! whole.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::rig::{Running, Serve, alone, drivers};

fn sleep(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

#[test]
fn once_drains_and_reports() {
    let _alone = alone();
    for driver in drivers() {
        for signal in [Signal::INT, Signal::TERM] {
            let server = Serve::start(&["--latency", "300ms"]);
            let url = server.url("/");
            let load = ["-r", "100", "-d", "60s", "--driver", driver, "--json", "--quiet", &url];
            let client = Running::start(&load);
            sleep(1_500);
            client.signal(signal);
            let begun = Instant::now();
            let ended = client.wait();
            let took = begun.elapsed();
            assert_eq!(ended.code, 130, "{ended:?}");
            assert!((200..1_500).contains(&took.as_millis()), "{took:?} for a drain of 300 ms");
            let report = ended.report();
            report.check_sums();
            assert_eq!(report.count("unfinished"), 0);
            assert_eq!(report.count("failed"), 0);
            let n = report.count("replies");
            assert!((100..=160).contains(&n), "{n} requests in about 1.5 s at 100 a second");
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
        let client = Running::start(&load);
        sleep(800);
        client.signal(Signal::INT);
        sleep(300);
        let begun = Instant::now();
        client.signal(Signal::INT);
        let ended = client.wait();
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(ended.code, 130, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!(report.count("replies"), 0);
        let n = report.count("unfinished");
        assert!((40..=110).contains(&n), "{n} requests in 0.8 s at 100 a second");
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
    for word in ["VALID", "p99", "interrupted", "200"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
}

#[test]
fn the_server_ends_in_good_order() {
    let server = Serve::start(&["--latency", "400ms"]);
    let client = Running::start(&["-c", "2", "-n", "2", "--json", "--quiet", &server.url("/")]);
    sleep(250);
    let there = server.stop();
    let ended = client.wait();
    assert_eq!(ended.report().count("replies"), 2, "{ended:?}");
    assert_eq!(crate::rig::served(&there, "replies"), 2);
}
