//! The wall clock steps by an hour before the start of a run and in it. A start at an instant is
//! translated once, before both, and nothing reads the wall clock after that.

use anyhow::{Context, Result};

use super::{Board, Reports, time_us};

/// Requests per second.
const RATE: u32 = 200;
/// The length of the run in seconds.
const LENGTH: u32 = 3;
/// How many seconds before its start the wall clock is read.
const AHEAD: u32 = 3;
/// The first request finds nothing in a cache, and programs that set the clock share a processor
/// with the meter. A step would show as an hour.
const MOST_US: f64 = 100_000.0;

pub(super) fn lines() -> String {
    format!(
        "$PRONY serve 127.0.0.1:8031 >/dev/null 2>&1 &\nS=$!\nsleep 0.5\n\
         A=$(date +%s); cut -d' ' -f1 /proc/uptime >/out/steps-before\n\
         $PRONY http://127.0.0.1:8031/ -d {LENGTH}s --rate {RATE} --start-at $((A + {AHEAD})) \
         --json --accept-invalid --quiet >/out/steps.json &\nC=$!\n\
         sleep 1; date -s @$((A + 3600)) >/dev/null\n\
         sleep 3; date -s @$((A - 3600)) >/dev/null\n\
         wait $C; cut -d' ' -f1 /proc/uptime >/out/steps-after\n\
         kill $S; wait $S || true\n"
    )
}

pub(super) fn check(reports: &Reports, board: &mut Board) -> Result<()> {
    let uptime = |when: &str| -> Result<f64> {
        let text = reports.text(&format!("steps-{when}"))?;
        text.trim().parse().with_context(|| format!("no time of {when} in {text}"))
    };
    let report = reports.json("steps.json", false)?;
    let replies = report["measurement"]["tally"]["replies"].as_f64().context("no replies")?;
    let expected = f64::from(RATE * LENGTH);
    board.check("steps of the clock: replies", replies, expected, expected);
    for (what, from) in [("late, max", "send_lag"), ("response, max", "response")] {
        let what = format!("steps of the clock: {what}");
        board.check(&what, time_us(&report, from, "max_ns")?, 0.0, MOST_US);
    }
    // The wall clock was read at whole seconds, and the program needs a moment to end.
    let took = uptime("after")? - uptime("before")?;
    let whole = f64::from(AHEAD + LENGTH);
    board.check("steps of the clock: start to end, s", took, whole - 1.0, whole + 1.0);
    Ok(())
}
