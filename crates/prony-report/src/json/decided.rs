//! Thresholds, decided.

use prony_plan::threshold::Unit;
use prony_stats::summary::confidence::NoInterval;
use prony_stats::summary::{Checked, Doubt, Outcome};
use serde::Serialize;

use crate::words;

/// A threshold and its outcome.
#[derive(Serialize)]
pub(super) struct Decided {
    threshold: String,
    outcome: Outcome,
    unit: &'static str,
    limit: f64,
    value: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
    #[serde(flatten)]
    missing: Option<NoInterval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_ns: Option<u64>,
    sentence: String,
}

impl Decided {
    pub(super) fn of(checked: &Checked) -> Self {
        Self {
            threshold: checked.threshold.to_string(),
            outcome: checked.outcome,
            unit: match checked.threshold.unit {
                Unit::Time => "ns",
                Unit::Rate => "per-second",
                Unit::ByteRate => "bytes-per-second",
                Unit::Count => "count",
                Unit::Share => "share",
            },
            limit: checked.threshold.limit,
            value: checked.value,
            lo: checked.interval.map(|i| i.lo),
            hi: checked.interval.map(|i| i.hi),
            missing: checked.no_interval,
            doubt: checked.doubt,
            more_ns: checked.more.map(|more| more.0),
            sentence: words::decided(checked),
        }
    }
}
