//! A server that freezes: the response times must include the delays of all users.
//!
//! On a machine with other work, the server and the client can only be later. So each figure is at
//! least what arithmetic says, for whatever part of the schedule the freeze meets. How much longer
//! they are is measured where there is no other work: in virtual time (prony-sim), and in a virtual
//! machine (`cargo xtask truth`).

use crate::rig::{Report, Serve, alone, drivers, measure, side_by_side};

/// Requires a measurement of at least the calculated value, but for the width of a bin.
fn at_least(report: &Report, [times, figure]: [&str; 2], theory: f64) {
    let measured = report.ms(times, figure);
    assert!(
        measured >= theory * 0.999,
        "{times} {figure}: {measured} ms, and {theory} ms at least"
    );
}

/// A server with a latency of 2 ms freezes for 2 s of a run of 10 s at 100 requests per second: 800
/// users wait 2 ms, and 200 wait 2, 12, ... 1,992 ms or more.
#[test]
fn p02_freeze_of_two_seconds_has_the_calculated_response_times() {
    let _alone = alone();
    side_by_side(drivers(), |driver| {
        let server = Serve::start(&["--latency", "2ms", "--stall", "2s@+4s"]);
        let report = measure(&["-r", "100", "-d", "10s", "--driver", driver, &server.url("/")]);
        report.check_sums();
        assert_eq!(report.count("replies"), 1_000);
        at_least(&report, ["response", "mean"], 0.8 * 2.0 + 0.2 * 997.0);
        at_least(&report, ["response", "p50"], 2.0);
        at_least(&report, ["response", "p90"], 982.0);
        at_least(&report, ["response", "p99"], 1_882.0);
        at_least(&report, ["response", "max"], 1_982.0);
    });
}

/// The same for a freeze at the start of the run, and for a client with too few connections: users
/// wait in the client's queue, and this wait counts.
#[test]
fn p02_freeze_at_the_start_counts_the_wait_in_the_queue() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "2ms", "--stall", "1s@+0s"]);
    let report = measure(&["-r", "200", "-d", "5s", "-c", "10", &server.url("/")]);
    report.check_sums();
    assert_eq!(report.count("replies"), 1_000);
    // 200 users come during the freeze. Ten of them hold the connections; 190 queue in the client.
    at_least(&report, ["response", "mean"], 0.8 * 2.0 + 0.2 * 497.0);
    at_least(&report, ["response", "p90"], 490.0);
    at_least(&report, ["response", "max"], 990.0);
}
