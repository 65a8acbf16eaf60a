//! The verdict with its reasons, what the meter added, and the bottleneck.

use std::collections::BTreeMap;

use prony_base::units::Span;
use prony_stats::summary::{Bottleneck, METER_ADDED, Reason, Summary, Verdict};
use prony_tally::record::StreamTime;
use serde::Serialize;

use crate::words;

#[derive(Serialize)]
pub(super) struct Judgment {
    verdict: Verdict,
    reasons: Vec<ReasonLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Failures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meter_added: Option<MeterAdded>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meter_added_in_streams: BTreeMap<String, MeterAdded>,
    bottleneck: Option<Limiting>,
}

/// Upper bounds of what the meter added to quantiles of a time.
#[derive(Serialize)]
pub(super) struct MeterAdded {
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// Failed requests, in any verdict.
#[derive(Serialize)]
struct Failures {
    share: f64,
    requests: u64,
    sentence: String,
}

#[derive(Serialize)]
struct Limiting {
    #[serde(flatten)]
    bottleneck: Bottleneck,
    sentence: String,
}

#[derive(Serialize)]
struct ReasonLine {
    #[serde(flatten)]
    reason: Reason,
    sentence: String,
}

impl Judgment {
    pub(super) fn of(summary: &Summary) -> Self {
        let judgment = summary.verdict();
        let bottleneck = summary.bottleneck(&judgment).map(|bottleneck| {
            let sentence = words::bottleneck(&bottleneck);
            Limiting { bottleneck, sentence }
        });
        let failed = words::failures(summary).map(|sentence| {
            let (share, requests) = (summary.main.error_share(), summary.main.failed);
            Failures { share: share.unwrap_or_default(), requests, sentence }
        });
        let shared_host = words::shared_host(&judgment, summary);
        let main = &summary.main;
        let in_streams = |time| MeterAdded::of(|q| main.meter_added_in_streams(time, q));
        let meter_added_in_streams = StreamTime::ALL
            .into_iter()
            .filter_map(|time| Some((time.timed().json_key(), in_streams(time)?)))
            .collect();
        let meter_added = MeterAdded::of(|q| main.meter_added(q));
        let line = |reason: Reason| {
            let sentence = words::reason(&reason, summary);
            ReasonLine { reason, sentence }
        };
        let reasons = judgment.reasons.into_iter().map(line).collect();
        Self {
            verdict: judgment.verdict,
            reasons,
            failed,
            shared_host,
            meter_added,
            meter_added_in_streams,
            bottleneck,
        }
    }
}

impl MeterAdded {
    /// `None` where unknown.
    pub(super) fn of(added: impl Fn(f64) -> Option<Span>) -> Option<Self> {
        let added = METER_ADDED.map(|(_, q)| added(q).map(|t| t.0));
        let [p50_ns, p90_ns, p99_ns, max_ns] = added;
        max_ns.map(|_| Self { p50_ns, p90_ns, p99_ns, max_ns })
    }
}
