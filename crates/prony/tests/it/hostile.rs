//! A server with random resets, truncated replies, stalls and closes: counters add up, nothing
//! leaks.

use std::thread;
use std::time::{Duration, Instant};

use crate::rig::{
    Running, Serve, alone, descriptors, drivers, inherited_descriptors, served, side_by_side, slow,
};

/// The number of open file descriptors below which a client with 200 connections is, again and
/// again.
const DESCRIPTORS: u64 = 2 * 200 + 40;

/// A server with all faults at once.
const BEHAVIOR: [&str; 18] = [
    "--latency",
    "bimodal:200us:40ms:2%",
    "--stall",
    "300ms@1700ms",
    "--status",
    "200:90,404:5,503:5",
    "--size",
    "3000",
    "--close-after",
    "50,silent",
    "--idle-close",
    "25ms",
    "--reset",
    "1%",
    "--truncate",
    "1%",
    "--seed",
    "5",
];

fn loads() -> [Vec<&'static str>; 3] {
    [
        // Think times close to the server's idle timeout.
        vec!["-c", "200", "--think", "exp:25ms"],
        vec!["-c", "200", "-p", "8"],
        vec!["-c", "200", "-r", "3k", "--arrivals", "poisson"],
    ]
}

#[test]
fn counters_add_up_and_nothing_leaks() {
    let _alone = alone();
    // The three loads last 30 s on each driver; with SLOW set, each of them does.
    let length = if slow() { 30 } else { 6 };
    side_by_side(drivers(), |driver| {
        let length = Duration::from_secs(length);
        let connected: u64 = loads().iter().map(|load| hostile(driver, load, length)).sum();
        assert!(connected > 4 * DESCRIPTORS, "{connected} connections would not show a leak");
    });
}

/// Runs a load against such a server. Returns the number of connections.
fn hostile(driver: &str, load: &[&str], length: Duration) -> u64 {
    let server = Serve::start(&[&BEHAVIOR[..], &["--driver", driver]].concat());
    let idle = server.descriptors_when_idle();
    let (url, duration) = (server.url("/"), format!("{}ms", length.as_millis()));
    let rest = [
        "-d",
        &duration,
        "--timeout",
        "250ms",
        "--driver",
        driver,
        "--json",
        "--quiet",
        "--accept-invalid",
        "--threads",
        "2",
        &url,
    ];
    let client = Running::start(&[load, &rest].concat());
    let least = least_descriptors(client.pid(), length);
    let ended = client.wait();
    assert_eq!(ended.code, 0, "{driver} {load:?}: {ended:?}");
    let report = ended.report();
    report.check_sums();

    // Thousands of connections come and go. The client holds the open ones' descriptors and a few
    // others, and with io_uring those of connections that are being closed: for a moment, these
    // can be more than the open ones, on a busy machine. What is lost stays.
    let bound = DESCRIPTORS as usize + inherited_descriptors();
    assert!(least <= bound, "{driver} {load:?}: never fewer than {least} descriptors");
    // The server releases its resources after the client exits.
    let begun = Instant::now();
    while descriptors(server.pid()) != Some(idle) {
        let now = descriptors(server.pid());
        let late = begun.elapsed() > Duration::from_secs(20);
        assert!(!late, "{driver} {load:?}: {idle} descriptors, now {now:?}");
        thread::sleep(Duration::from_millis(20));
    }

    let there = server.stop();
    let context = format!("{driver} {load:?}: {:#} {there:#}", report.0["measurement"]["errors"]);
    let count = |name| served(&there, name);
    assert_eq!(count("open") + count("outstanding") + count("bad_requests"), 0, "{context}");
    let ends = count("replies") + count("truncated") + count("resets") + count("unanswered");
    assert_eq!(count("requests"), ends, "{context}");
    // All but the first connection and its request, by hand, were the client's. Some may have been
    // given up by the client while the kernel was opening them.
    let opened = report.count("connected")..=report.count("connects");
    assert!(opened.contains(&(count("connections") - 1)), "{context}");
    // The server received no request that the client did not send, and vice versa for replies.
    assert!(count("requests") - 1 <= report.count("sent") + report.count("retries"), "{context}");
    for status in [200, 404, 503] {
        let sent = there["statuses"][status.to_string()].as_u64().unwrap_or(0);
        assert!(report.status(status) <= sent, "{status}: {context}");
        assert!(report.status(status) > 0, "{status}: {context}");
    }
    assert_eq!(report.errors("unexpected-status"), report.status(404) + report.status(503));
    let cut = report.errors("truncated") + report.errors("short-body");
    assert!(cut <= count("truncated"), "{context}");
    // Every fault occurred.
    for fault in ["short-body", "reset", "request-timeout"] {
        assert!(report.errors(fault) > 0, "{fault}: {context}");
    }
    assert!(report.count("replies") > 1_000, "{context}");
    report.count("connected")
}

/// The minimum number of open file descriptors of a process in the second half of this time.
fn least_descriptors(pid: u32, length: Duration) -> usize {
    thread::sleep(length / 2);
    let begun = Instant::now();
    let mut least = usize::MAX;
    while begun.elapsed() < length / 2 {
        // One that has ended, or is ending, has none.
        least = least.min(descriptors(pid).filter(|&n| n > 0).unwrap_or(usize::MAX));
        thread::sleep(Duration::from_millis(5));
    }
    least
}
