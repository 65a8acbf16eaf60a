//! A server that stalls for a known time, under an open loop: each request that is due during the
//! stall waits for the rest of it, and the percentiles follow from the number of these requests.

use anyhow::Result;

use super::{Board, Reports, time_us};

/// The length of the stall, in milliseconds.
const STALL_MS: u64 = 1_000;
/// The inter-arrival time.
const APART_MS: u64 = 5;
const REQUESTS: u64 = 2_000;
/// The tolerance of a percentile: the waits differ by the inter-arrival time, and the server needs
/// some time to clear the backlog.
const ROOM: f64 = 0.01;

/// The responder of round trips, stopped by a signal.
const ECHOES: [&str; 2] = ["tcp", "udp"];

pub(super) fn lines() -> String {
    let load = format!("-n {REQUESTS} --rate {} --json --accept-invalid", 1_000 / APART_MS);
    let mut all = String::new();
    for transport in ECHOES {
        all += &format!(
            "$PRONY echo 127.0.0.1:8010 --transport {transport} >/dev/null 2>&1 &\nS=$!\n\
             sleep 0.5\n\
             $PRONY rtt 127.0.0.1:8010 --transport {transport} --timeout 5s {load} \
             >/out/stall-{transport}.json &\nC=$!\n\
             sleep 4; kill -STOP $S; sleep {}; kill -CONT $S\n\
             wait $C; kill $S; wait $S || true\n",
            STALL_MS / 1_000,
        );
    }
    all += &format!(
        "$PRONY serve 127.0.0.1:8011 --stall {STALL_MS}ms@+4s >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n\
         $PRONY http://127.0.0.1:8011/ {load} >/out/stall-http.json\n\
         kill $S; wait $S || true\n",
    );
    all
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    let stall = STALL_MS as f64 * 1e3;
    let apart = APART_MS as f64 * 1e3;
    for name in ECHOES.iter().chain(&["http"]) {
        let report = reports.json(&format!("stall-{name}.json"), false)?;
        for (figure, slower) in
            [("max_ns", 0.0), ("p99_ns", 0.01), ("p95_ns", 0.05), ("p50_ns", 0.5)]
        {
            // This number of requests waited longer, each by one inter-arrival time.
            let truth = (stall - slower * REQUESTS as f64 * apart).max(0.0);
            let reported = time_us(&report, "response", figure)?;
            let what =
                format!("{name}, a stall of {STALL_MS} ms, {}", figure.trim_end_matches("_ns"));
            board.check(&what, reported, truth - stall * ROOM, truth + stall * ROOM);
        }
    }
    Ok(())
}
