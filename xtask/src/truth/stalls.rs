//! A server that stands still for a known time, under a load that keeps its schedule: of the
//! requests that were due meanwhile each waited for what was left of the stall, and the percentiles
//! follow from counting them.

use anyhow::Result;

use super::{Board, Reports, time_us};

/// How long the server stands still, in milliseconds.
const STALL_MS: u64 = 1_000;
/// How far apart requests are due.
const APART_MS: u64 = 5;
const REQUESTS: u64 = 2_000;
/// What a percentile may be off: the figures of a stall are as far apart as requests are, and what
/// has gathered meanwhile takes its time to be answered.
const ROOM: f64 = 0.01;

/// Stopped from outside: the responder of round trips.
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
            // So many requests waited for longer, each for as much longer as it was due earlier.
            let truth = (stall - slower * REQUESTS as f64 * apart).max(0.0);
            let told = time_us(&report, "response", figure)?;
            let what =
                format!("{name}, a stall of {STALL_MS} ms, {}", figure.trim_end_matches("_ns"));
            board.hold(&what, told, truth - stall * ROOM, truth + stall * ROOM);
        }
    }
    Ok(())
}
