//! The text report, and the sentences of all reports of a capacity.

use std::fmt::Write as _;

use prony_core::capacity::{Answer, Estimate, Finding, Lack, Limit, Point};

use super::super::units;
use super::{Capacity, per_second, stops};

/// The answer in one sentence.
pub(super) fn sentence(report: &Capacity) -> String {
    let named = |k: usize| report.thresholds.get(k).map_or("a threshold", String::as_str);
    let bounds = |held: Option<f64>, missed: Option<f64>| match (held, missed) {
        (Some(held), Some(missed)) => format!(
            "the thresholds held at {}, and one was missed at {}",
            per_second(held),
            per_second(missed)
        ),
        (Some(held), None) => format!("the thresholds held at {}", per_second(held)),
        (None, Some(missed)) => format!("a threshold was missed at {}", per_second(missed)),
        (None, None) => "no trial has decided a threshold".into(),
    };
    match &report.answer.finding {
        Finding::Capacity { rate, interval, threshold, stop } => format!(
            "The capacity is {} (95 % CI {} to {}). Beyond it, {} is missed: {}.",
            per_second(*rate),
            per_second(interval.lo),
            per_second(interval.hi),
            named(*threshold),
            stops(*stop),
        ),
        Finding::AtLeast { rate: Some(rate), limit } => {
            format!(
                "The capacity is at least {}; {} is the limit.",
                per_second(*rate),
                what(*limit)
            )
        }
        Finding::AtLeast { rate: None, limit } => {
            format!("No rate could be offered as planned; {} is the limit.", what(*limit))
        }
        Finding::Nowhere { rate, threshold } => format!(
            "The target misses {} even at {}, the lowest rate that was tried.",
            named(*threshold),
            per_second(*rate)
        ),
        Finding::Changed { first, second } => format!(
            "The target changed during the search: its capacity went from about {} to about {}. \
             There is no number.",
            per_second(*first),
            per_second(*second)
        ),
        Finding::NotRecovered { held, overload, probe, before_ns, after_ns, waited } => {
            not_recovered(*held, *overload, *probe, (*before_ns, *after_ns), *waited)
        }
        Finding::Undecided { lack: Lack::Budget, held, missed } => {
            format!("The budget ended before there were enough trials: {}.", bounds(*held, *missed))
        }
        Finding::Undecided { lack: Lack::Spread, held, missed } => {
            format!("The trials differ too much for a number: {}.", bounds(*held, *missed))
        }
        Finding::Interrupted { held, missed, estimate } => {
            let so_far = match (estimate.value, estimate.interval) {
                (Some(rate), Some(interval)) => format!(
                    "; the estimate so far is {} ({} to {})",
                    per_second(rate),
                    per_second(interval.lo),
                    per_second(interval.hi)
                ),
                _ => String::new(),
            };
            format!("Interrupted: {}{so_far}.", bounds(*held, *missed))
        }
    }
}

fn what(limit: Limit) -> &'static str {
    match limit {
        Limit::Meter => "the load generator",
        Limit::Connections => "the connection limit (-c)",
    }
}

fn not_recovered(
    held: Option<f64>,
    overload: f64,
    probe: f64,
    (before, after): (f64, Option<f64>),
    waited: f64,
) -> String {
    let held = held.map_or_else(String::new, |rate| {
        format!(" Before, the thresholds held at {}.", per_second(rate))
    });
    let after = after.map_or_else(|| "no replies".into(), |ns| format!("p50 {}", units::nanos(ns)));
    format!(
        "The target did not recover from {} (a metastable failure): {waited:.0} s later it had \
         {after} at {}, and p50 {} before.{held}",
        per_second(overload),
        per_second(probe),
        units::nanos(before),
    )
}

/// How long the target took to recover from overloads.
pub(super) fn recoveries(answer: &Answer) -> Option<String> {
    let times = answer.recoveries.iter().map(|r| r.seconds);
    let longest = times.max_by(f64::total_cmp)?;
    let n = answer.recoveries.len() as u64;
    Some(format!(
        "After {}, the target had its former latency again {}.",
        units::counted(n, "overload", "overloads"),
        if longest > 0.0 { format!("within {longest:.1} s") } else { "at once".into() }
    ))
}

/// What is left beyond the capacity.
pub(super) fn beyond(answer: &Answer) -> Option<String> {
    let Finding::Capacity { rate, .. } = answer.finding else { return None };
    let point = answer.beyond()?;
    let goodput = point.goodput.value?;
    let share = goodput / rate;
    let how = if share < 0.8 { "it collapses" } else { "it degrades" };
    Some(format!(
        "At {:.2} times the capacity ({}), {} of the capacity is left as goodput, with a p99 of \
         {}: {how}.",
        point.trial.rate / rate,
        per_second(point.trial.rate),
        units::percent(share),
        point.p99.value.map_or_else(|| "-".into(), units::nanos),
    ))
}

/// The text report.
pub(super) fn render(report: &Capacity) -> String {
    let mut out = format!("prony {}  capacity of {}\n", report.version, report.target);
    let _ = writeln!(out, "\n  {}", report.sentence);
    for note in &report.notes {
        let _ = writeln!(out, "  {note}");
    }
    if let Some(command) = &report.run_at_80_percent {
        let _ = writeln!(out, "  At 80 % of it: {}", command.join(" "));
    }
    let _ = writeln!(
        out,
        "\n  thresholds: {}\n  {} trials in {:.0} s, {} arrivals, seed {}{}\n",
        report.thresholds.join("; "),
        report.answer.points.len(),
        report.answer.seconds,
        report.arrivals,
        report.seed,
        if report.host.is_empty() { String::new() } else { format!("; {}", report.host) },
    );
    let _ = writeln!(
        out,
        "{:>10} {:>6} {:>9} {:>17} {:>9} {:>17} {:>8} {:>10}  thresholds",
        "rate", "time", "p50", "95 % CI", "p99", "95 % CI", "errors", "goodput"
    );
    for point in report.curve() {
        out.push_str(&line(point));
    }
    out
}

fn line(point: &Point) -> String {
    let time = |e: &Estimate| e.value.map_or_else(|| "-".into(), units::nanos);
    let interval = |e: &Estimate| {
        e.interval.map_or_else(
            || "-".into(),
            |i| format!("{}..{}", units::nanos(i.lo), units::nanos(i.hi)).replace(' ', ""),
        )
    };
    let missed = point.holds.contains(&Some(false));
    let unknown = point.holds.iter().all(Option::is_none);
    let side = match (&point.remark, missed, unknown) {
        (Some(remark), ..) => format!("not valid: {remark}"),
        (None, true, _) if !point.kept_up => "missed, fell behind".into(),
        (None, true, _) => "missed".into(),
        (None, false, true) => "-".into(),
        (None, false, false) => "held".into(),
    };
    format!(
        "{:>10} {:>5.1}s {:>9} {:>17} {:>9} {:>17} {:>8} {:>10}  {side}\n",
        per_second(point.trial.rate),
        point.seconds,
        time(&point.p50),
        interval(&point.p50),
        time(&point.p99),
        interval(&point.p99),
        point.errors.value.map_or_else(|| "-".into(), units::percent),
        point.goodput.value.map_or_else(|| "-".into(), per_second),
    )
}
