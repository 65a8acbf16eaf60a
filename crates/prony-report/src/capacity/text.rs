//! The text report, and the sentences of all reports of a capacity.

use prony_stats::capacity::{Answer, By, Estimate, Finding, Lack, Limit, Point, Scalability};

use super::super::lines::Lines;
use super::super::units;
use super::{Capacity, per_second, stops};
use crate::shell::typed;

/// The answer in one sentence.
pub(super) fn sentence(report: &Capacity) -> String {
    let named = |k: usize| report.thresholds.get(k).map_or("a threshold", String::as_str);
    let bounds = |held: Option<f64>, missed: Option<f64>| match (held, missed) {
        (Some(held), Some(missed)) => format!(
            "the thresholds held at {}, and one was missed at {}",
            report.level(held),
            report.level(missed)
        ),
        (Some(held), None) => format!("the thresholds held at {}", report.level(held)),
        (None, Some(missed)) => format!("a threshold was missed at {}", report.level(missed)),
        (None, None) => "no trial has decided a threshold".into(),
    };
    match &report.answer.finding {
        Finding::Capacity { rate, interval, threshold, stop, more_seconds } => format!(
            "The capacity is {}{} (95 % CI {} to {}{}){}. Beyond it, {} is missed: {}.",
            if more_seconds.is_some() { "about " } else { "" },
            report.level(*rate),
            bare(report, interval.lo),
            bare(report, interval.hi),
            more_seconds.map_or_else(String::new, |seconds| more(report, seconds)),
            throughput(&report.answer),
            named(*threshold),
            stops(*stop),
        ),
        Finding::AtLeast { rate: Some(rate), limit: Limit::Budget } => format!(
            "The capacity is at least {}: the budget ended before a threshold was missed.",
            report.level(*rate)
        ),
        Finding::AtLeast { rate: Some(rate), limit } => {
            format!(
                "The capacity is at least {}; {} is the limit.",
                report.level(*rate),
                what(*limit)
            )
        }
        Finding::AtLeast { rate: None, limit } => {
            format!("No load could be offered as planned; {} is the limit.", what(*limit))
        }
        Finding::Nowhere { rate, threshold } => format!(
            "The capacity is at most {}: the target misses {} even there, at the lowest level that \
             was tried.",
            report.level(*rate),
            named(*threshold)
        ),
        Finding::Changed { first, second } => format!(
            "The target changed during the search: its capacity went from about {} to about {}. \
             There is no number.",
            report.level(*first),
            report.level(*second)
        ),
        Finding::NotRecovered { held, overload, probe, before_ns, after_ns, waited } => {
            not_recovered(report, *held, (*overload, *probe), (*before_ns, *after_ns), *waited)
        }
        Finding::Undecided { lack: Lack::Budget, held, missed } => {
            format!("The budget ended before a trial was complete: {}.", bounds(*held, *missed))
        }
        Finding::Interrupted { held, missed, estimate } => {
            let so_far = match (estimate.value, estimate.interval) {
                (Some(rate), Some(interval)) => format!(
                    "; the estimate so far is {} ({} to {})",
                    report.level(rate),
                    report.level(interval.lo),
                    report.level(interval.hi)
                ),
                _ => String::new(),
            };
            format!("Interrupted: {}{so_far}.", bounds(*held, *missed))
        }
    }
}

/// What the accuracy that was asked for would need.
fn more(report: &Capacity, seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil();
    let time = match minutes {
        m if m < 120.0 => format!("{m:.0} min"),
        m => format!("{:.0} h", (m / 60.0).ceil()),
    };
    format!("; the asked {} would need about {time} more", units::percent(report.accuracy))
}

fn what(limit: Limit) -> &'static str {
    match limit {
        Limit::Meter => "the load generator",
        Limit::Connections => "the connection limit (-c)",
        Limit::Budget => "the budget",
    }
}

fn not_recovered(
    report: &Capacity,
    held: Option<f64>,
    (overload, probe): (f64, f64),
    (before, after): (f64, Option<f64>),
    waited: f64,
) -> String {
    let held = held.map_or_else(String::new, |rate| {
        format!(" Before, the thresholds held at {}.", report.level(rate))
    });
    let after = after.map_or_else(|| "no replies".into(), |ns| format!("p50 {}", units::nanos(ns)));
    format!(
        "The target did not recover from {} (a metastable failure): {waited:.0} s later it had \
         {after} at {}, and p50 {} before.{held}",
        report.level(overload),
        report.level(probe),
        units::nanos(before),
    )
}

/// An end of an interval: the unit of connections is written once.
fn bare(report: &Capacity, level: f64) -> String {
    match report.answer.by {
        By::Rate => report.level(level),
        By::Connections => units::count(level.round() as u64),
    }
}

/// The throughput at the capacity, of a closed loop.
fn throughput(answer: &Answer) -> String {
    let value = answer.throughput.as_ref().and_then(|t| t.value);
    value.map_or_else(String::new, |rate| format!(", with {} completed", per_second(rate)))
}

/// Whether the Universal Scalability Law holds, with its parameters.
pub(super) fn scalability(model: &Scalability) -> String {
    let figure = |e: &Estimate, show: &dyn Fn(f64) -> String| match (e.value, e.interval) {
        (Some(value), Some(i)) => format!("{} ({} to {})", show(value), show(i.lo), show(i.hi)),
        _ => "-".into(),
    };
    match model {
        Scalability::Fits { lambda, sigma, kappa, peak, .. } => format!(
            "The throughput follows the Universal Scalability Law, with 95 % intervals: lambda {}, \
             sigma {}, kappa {}{}.",
            figure(lambda, &per_second),
            figure(sigma, &digits),
            figure(kappa, &digits),
            peak.map_or_else(String::new, |n| format!(
                "; the highest throughput is at about {}",
                units::counted(n.round() as u64, "connection", "connections")
            )),
        ),
        Scalability::Deviates { misfit, at, .. } => format!(
            "The Universal Scalability Law does not describe the throughput: with {} it is {} {} \
             the best fit.",
            units::counted(at.round() as u64, "connection", "connections"),
            units::percent(misfit.abs()),
            if *misfit < 0.0 { "below" } else { "above" },
        ),
        Scalability::Superlinear => "The throughput grows faster than the number of connections, \
                                     which the Universal Scalability Law excludes."
            .into(),
        Scalability::Unknown => "The trials are too few, or differ too much, to show whether the \
                                 throughput follows the Universal Scalability Law."
            .into(),
    }
}

/// Three digits.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if value < 1e-4 { format!("{value:.2e}") } else { units::three(value) }
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
    let full = match answer.by {
        By::Rate => rate,
        By::Connections => answer.throughput.as_ref()?.value?,
    };
    let share = goodput / full;
    let how = if share < 0.8 { "it collapses" } else { "it degrades" };
    Some(format!(
        "At {:.2} times the capacity ({}), {} of {} is left as goodput, with a p99 of {}: {how}.",
        point.trial.rate / rate,
        super::level(answer.by, point.trial.rate),
        units::percent(share),
        match answer.by {
            By::Rate => "the capacity",
            By::Connections => "its throughput",
        },
        point.p99.value.map_or_else(|| "-".into(), units::nanos),
    ))
}

/// The text report.
pub(super) fn render(report: &Capacity) -> String {
    let mut out = Lines::default();
    out.line(format!("prony {}  capacity of {}", report.version, report.target));
    out.blank();
    out.line(format!("  {}", report.sentence));
    for note in &report.notes {
        out.line(format!("  {note}"));
    }
    if let Some(command) = &report.run_at_80_percent {
        out.line(format!("  At 80 % of it: {}", typed(command)));
    }
    out.blank();
    out.line(format!("  thresholds: {}", report.thresholds.join("; ")));
    out.line(format!(
        "  {} trials in {:.0} s, {}, seed {}{}",
        report.answer.points.len(),
        report.answer.seconds,
        report.arrivals_words(),
        report.seed,
        if report.host.is_empty() { String::new() } else { format!("; {}", report.host) },
    ));
    out.blank();
    out.line(format!(
        "{:>11} {:>6} {:>9} {:>17} {:>9} {:>17} {:>8} {:>10}  thresholds",
        match report.answer.by {
            By::Rate => "rate",
            By::Connections => "connections",
        },
        "time",
        "p50",
        "95 % CI",
        "p99",
        "95 % CI",
        "errors",
        "goodput"
    ));
    for point in report.curve() {
        out.line(line(report, point));
    }
    out.finish()
}

fn line(report: &Capacity, point: &Point) -> String {
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
        (Some(remark), ..) if point.counts => format!("held, although {remark}"),
        (Some(remark), ..) => format!("not valid: {remark}"),
        (None, true, _) if !point.kept_up => "missed, fell behind".into(),
        (None, true, _) => "missed".into(),
        (None, false, true) => "-".into(),
        (None, false, false) => "held".into(),
    };
    format!(
        "{:>11} {:>5.1}s {:>9} {:>17} {:>9} {:>17} {:>8} {:>10}  {side}",
        bare(report, point.trial.rate),
        point.seconds,
        time(&point.p50),
        interval(&point.p50),
        time(&point.p99),
        interval(&point.p99),
        point.errors.value.map_or_else(|| "-".into(), units::percent),
        point.goodput.value.map_or_else(|| "-".into(), per_second),
    )
}
