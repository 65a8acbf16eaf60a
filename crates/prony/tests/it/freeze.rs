//! A server that freezes: the response times must include the delays of all users.

use std::thread;

use crate::rig::{Serve, alone, drivers, measure, once_of_three};

/// Requires a measurement within 5 % of the calculated value.
fn near(what: &str, measured: f64, theory: f64) {
    assert!((measured / theory - 1.0).abs() < 0.05, "{what}: {measured} ms is not {theory} ms");
}

/// A server with a latency of 2 ms freezes from second 4 to 6 of a run of 10 s at 100 requests per
/// second: 800 users wait 2 ms, and 200 wait 12, 22, ... 2002 ms.
#[test]
fn p02_freeze_of_two_seconds_has_the_calculated_response_times() {
    once_of_three(two_seconds);
}

fn two_seconds() {
    let _alone = alone();
    let runs = drivers().into_iter().map(|driver| {
        thread::spawn(move || {
            let server = Serve::start(&["--latency", "2ms", "--stall", "2s@+4s"]);
            measure(&["-r", "100", "-d", "10s", "--driver", driver, &server.url("/")])
        })
    });
    let runs: Vec<_> = runs.collect();
    for run in runs {
        let report = run.join().expect("a report");
        report.check_sums();
        assert_eq!(report.count("replies"), 1_000);
        near("mean", report.ms("response", "mean"), 203.0);
        near("p90", report.ms("response", "p90"), 1_002.0);
        near("p99", report.ms("response", "p99"), 1_902.0);
        let max = report.ms("response", "max");
        assert!((1_990.0..2_100.0).contains(&max), "max {max}");
        // Half of the requests were not affected.
        let p50 = report.ms("response", "p50");
        assert!((2.0..10.0).contains(&p50), "p50 {p50}");
    }
}

/// The same for a freeze at the start of the run, and for a client with too few connections: users
/// wait in the client's queue, and this wait counts.
#[test]
fn p02_freeze_at_the_start_counts_the_wait_in_the_queue() {
    let _alone = alone();
    once_of_three(at_the_start);
}

fn at_the_start() {
    let server = Serve::start(&["--latency", "2ms", "--stall", "1s@+0s"]);
    let report = measure(&["-r", "200", "-d", "5s", "-c", "10", &server.url("/")]);
    report.check_sums();
    assert_eq!(report.count("replies"), 1_000);
    // 200 users come during the freeze. Ten of them hold the connections; 190 queue, and are
    // served ten at a time, every 2 ms. Those who come during these 38 ms wait a little.
    near("mean", report.ms("response", "mean"), 102.0 + 4.5);
    near("p90", report.ms("response", "p90"), 500.0 + 20.0);
    near("max", report.ms("response", "max"), 1_002.0);
    let queued = report.ms("queue", "max");
    assert!((900.0..1_050.0).contains(&queued), "the queue's longest wait: {queued} ms");
    assert!(report.ms("service", "p50") < 10.0);
}
