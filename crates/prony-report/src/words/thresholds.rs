//! What a threshold came to.

use prony_core::summary::confidence::Interval;
use prony_core::summary::{Checked, Outcome};
use prony_core::threshold::Unit;

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

/// The figure of a threshold with its interval, or why it is not known.
pub fn threshold(checked: &Checked) -> String {
    let unit = checked.threshold.unit;
    let shown = |value: f64| match unit {
        Unit::Time => units::nanos(value),
        Unit::Rate => units::rate(value),
        Unit::ByteRate => format!("{}/s", units::bytes(value)),
        Unit::Count => units::round((value * 100.0).round() / 100.0),
        Unit::Share => units::percent(value),
    };
    match (checked.value, checked.interval, checked.no_interval) {
        (Some(value), Some(Interval { lo, hi }), _) => {
            format!("{}, 95 % CI {} to {}", shown(value), shown(lo), shown(hi))
        }
        // Without an interval, a percentile is missed only in this way.
        (Some(value), None, Some(_)) if checked.outcome == Outcome::Missed => {
            format!("{}, and not one time keeps to the limit", shown(value))
        }
        (None, _, Some(_)) if checked.outcome == Outcome::Missed => {
            "not one time keeps to the limit".into()
        }
        (Some(value), None, Some(why)) => format!("{}, {}", shown(value), no_interval(why)),
        (Some(value), None, None) => shown(value),
        (None, _, why) => why.map_or_else(|| "no samples".into(), no_interval),
    }
}
