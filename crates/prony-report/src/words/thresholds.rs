//! What a threshold came to.

use prony_base::units::Span;
use prony_plan::threshold::Unit;
use prony_stats::summary::confidence::Interval;
use prony_stats::summary::{Checked, Doubt, Outcome, Weight};

use super::no_interval;
use crate::units;

/// The word for what a threshold came to.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Undecided => "undecided",
    }
}

/// A threshold, what it came to, and by which figure.
pub fn decided(checked: &Checked) -> String {
    let (word, figure) = (outcome(checked.outcome), threshold(checked));
    format!("{word}: {} ({figure})", checked.threshold)
}

/// What is added to a verdict or a threshold that does not count.
pub fn weight(weight: Weight) -> &'static str {
    match weight {
        Weight::Said => " (the thresholds decide)",
        Weight::Accepted => " (accepted)",
        Weight::Fine | Weight::Unknown | Weight::Failed => "",
    }
}

/// The figure of a threshold, and how well it is known.
pub fn threshold(checked: &Checked) -> String {
    let unit = checked.threshold.unit;
    let shown = |value: f64| match unit {
        Unit::Time => units::nanos(value),
        Unit::Rate => units::rate(value),
        Unit::ByteRate => format!("{}/s", units::bytes(value)),
        Unit::Count => units::round((value * 100.0).round() / 100.0),
        Unit::Share => units::percent(value),
    };
    let Some(value) = checked.value else {
        return checked.no_interval.map_or_else(|| "no samples".into(), no_interval);
    };
    let mut parts = vec![shown(value)];
    match (checked.interval, checked.counted) {
        // How often it happened says more than an interval that begins or ends there.
        (_, Some((n, of))) if n == 0 || n == of || checked.interval.is_none() => {
            parts.push(counted(checked, n, of));
        }
        (Some(Interval { lo, hi }), _) => {
            parts.push(format!("95 % CI {} to {}", shown(lo), shown(hi)));
        }
        (None, _) => parts.extend(checked.no_interval.map(no_interval)),
    }
    if let Some(added) = checked.added.filter(|added| *added > 0.0) {
        parts.push(format!("of which the meter added at most {}", shown(added)));
    }
    match (checked.doubt, checked.more) {
        (Some(Doubt::Meter), _) => parts.push("the meter leaves it open".into()),
        (Some(Doubt::Sample), Some(more)) => parts.push(format!("about {} more", longer(more))),
        (Some(Doubt::Sample), None) => parts.push("too near the limit to decide".into()),
        (None, _) => {}
    }
    parts.join(", ")
}

/// How many there are of what the threshold counts.
fn counted(checked: &Checked, n: u64, of: u64) -> String {
    let (n, of) = (units::count(n), units::count(of));
    match checked.threshold.unit {
        Unit::Time => format!("{n} of {of} beyond the limit"),
        _ => format!("{n} of {of}"),
    }
}

/// A time to wait, in few digits.
pub(super) fn longer(more: Span) -> String {
    let seconds = more.as_secs_f64().max(1.0).ceil();
    match seconds {
        ..120.0 => format!("{seconds} s"),
        ..7_200.0 => format!("{} min", (seconds / 60.0).ceil()),
        _ => format!("{} h", (seconds / 3_600.0).ceil()),
    }
}
