//! P16: the meter's timers are fine enough. On a core that has nothing else to do but to serve what
//! is sent, requests leave within microseconds of when they are due, however the meter waits.

use anyhow::Result;

use super::{Board, Reports, time_us};

/// Requests per second, and of how many the lateness is told: p99 wants a thousand.
const RATE: u32 = 1_000;
const REQUESTS: u32 = 1_500;
/// By how much at most half of the sends, and 99 of 100, may be late, in microseconds.
const LATE_US: [(&str, f64); 2] = [("p50_ns", 20.0), ("p99_ns", 50.0)];
/// How the meter may be told to wait for the schedule.
const WAITS: [&str; 3] = ["sleep", "auto", "spin"];

pub(super) fn lines() -> String {
    let mut all = "$PRONY serve 127.0.0.1:8021 >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n".to_owned();
    for driver in ["epoll", "uring"] {
        for wait in WAITS {
            all += &format!(
                "$PRONY http://127.0.0.1:8021/ -n {REQUESTS} --rate {RATE} -t 1 --warmup 200ms \
                 --arrivals poisson --driver {driver} --precision {wait} --json --accept-invalid \
                 >/out/sends-{driver}-{wait}.json\n"
            );
        }
    }
    all + "kill $S; wait $S || true\n"
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    for driver in ["epoll", "uring"] {
        for wait in WAITS {
            let report = reports.json(&format!("sends-{driver}-{wait}.json"), false)?;
            for (figure, most) in LATE_US {
                let what = format!("sends, {driver}, {wait}: late, {}", &figure[..3]);
                board.hold(&what, time_us(&report, "lag", figure)?, 0.0, most);
            }
        }
    }
    Ok(())
}
