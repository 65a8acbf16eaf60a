//! P16: the meter's timers are precise. On an otherwise idle core, requests are sent within
//! microseconds of their scheduled times, with every method of waiting. P8: a meter that has the
//! processor time it needs is VALID.

use anyhow::{Result, bail};

use super::{Board, Reports, time_us};

/// Requests per second, and the number of requests: enough for a p99.
const RATE: u32 = 1_000;
const REQUESTS: u32 = 1_500;
/// The limits of the p50 and the p99 of the send lag, in microseconds.
const LATE_US: [(&str, f64); 2] = [("p50_ns", 20.0), ("p99_ns", 50.0)];
/// The options for how the meter waits.
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
    all += "kill $S; wait $S || true\n";
    all += "$PRONY serve 127.0.0.1:8022 --latency 100ms >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n";
    all += "$PRONY http://127.0.0.1:8022/ --rate 200 -d 3s --json --accept-invalid --quiet \
            >/out/sends-valid.json\n";
    all + "kill $S; wait $S || true\n"
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    for driver in ["epoll", "uring"] {
        for wait in WAITS {
            let report = reports.json(&format!("sends-{driver}-{wait}.json"), false)?;
            for (figure, most) in LATE_US {
                let what = format!("sends, {driver}, {wait}: late, {}", &figure[..3]);
                board.check(&what, time_us(&report, "send_lag", figure)?, 0.0, most);
            }
        }
    }
    let verdict = &reports.json("sends-valid.json", false)?["verdict"];
    if verdict["verdict"] != "VALID" {
        bail!("a meter with enough processor time is not VALID: {verdict}");
    }
    Ok(())
}
