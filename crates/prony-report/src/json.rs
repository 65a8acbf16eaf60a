//! The complete report for programs: documented field by field in `docs/json.md`, described by
//! `docs/schema/report-1.json`. A saved report can be read back, merged and told in another format.

use std::collections::BTreeMap;

use prony_core::fault::{Fault, FaultClass};
use prony_core::plan::Plan;
use prony_core::record::hist::Hist;
use prony_core::record::{NameTally, Tally};
use prony_core::summary::confidence::{Confidence, Interval, Lack};
use prony_core::summary::{
    Bound, Figures, Limit, Meter, QUANTILES, Row, RunInfo, Summary, Verdict,
};
use prony_core::units::Span;
use serde::{Deserialize, Serialize};

use super::{layout, phases, words};

/// The version of the shape. It grows when a field changes its meaning or goes away, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// The whole document.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    #[serde(flatten)]
    flat: Brief,
    brief: Brief,
    verdict: Judgement,
    run: &'a RunInfo,
    plan: &'a Plan,
    meters: &'a [Meter],
    measurement: Section<'a>,
    warmup: Option<Section<'a>>,
}

/// What one looks at first. Times in microseconds.
#[derive(Clone, Serialize)]
struct Brief {
    rps: f64,
    requests: u64,
    errors: u64,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct Judgement {
    verdict: Verdict,
    reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Failures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_host: Option<String>,
    limited_by: Option<LimitedBy>,
}

/// Failed requests, whatever the verdict.
#[derive(Serialize)]
struct Failures {
    share: f64,
    requests: u64,
    sentence: String,
}

#[derive(Serialize)]
struct LimitedBy {
    #[serde(flatten)]
    bound: Bound,
    sentence: String,
}

#[derive(Serialize)]
struct Reason {
    #[serde(flatten)]
    limit: Limit,
    sentence: String,
}

/// Warm-up or measurement: what is derived, and all that was counted.
#[derive(Serialize)]
struct Section<'a> {
    rates: Rates,
    times: BTreeMap<&'static str, Times>,
    ci95: Intervals,
    errors: Vec<Error>,
    rows: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Phases>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<Sessions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<Named<'a>>,
    tally: &'a Tally,
}

/// What the kernel's time stamps tell apart.
#[derive(Serialize)]
struct Phases {
    stamped: u64,
    unstamped: u64,
    clock_error_ns: u64,
    clock_steps: u64,
    shares: BTreeMap<&'static str, Option<f64>>,
    times: BTreeMap<&'static str, Times>,
}

#[derive(Serialize)]
struct Sessions {
    rate: f64,
    lifetime: Times,
    failtime: Times,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    started: u64,
    replies: u64,
    failed: u64,
    response: Times,
    service: Times,
}

#[derive(Serialize)]
struct Rates {
    window_ns: u64,
    rate: f64,
    asked_rate: Option<f64>,
    sent_rate: Option<f64>,
    bytes_per_second: f64,
    error_share: Option<f64>,
    concurrency: f64,
    under_way: Option<f64>,
}

#[derive(Serialize)]
struct Times {
    count: u64,
    mean_ns: Option<f64>,
    stdev_ns: Option<f64>,
    min_ns: Option<u64>,
    p50_ns: Option<u64>,
    p75_ns: Option<u64>,
    p90_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    p9999_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// 95 % confidence intervals.
#[derive(Serialize)]
struct Intervals {
    rate: Between,
    response: Figured,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Figured>,
}

/// Both ends, or why there are none.
#[derive(Serialize)]
struct Between {
    lo: Option<f64>,
    hi: Option<f64>,
    #[serde(flatten)]
    lack: Option<Lack>,
}

/// That of each figure.
#[derive(Serialize)]
struct Figured {
    mean_ns: Between,
    p50_ns: Between,
    p75_ns: Between,
    p90_ns: Between,
    p95_ns: Between,
    p99_ns: Between,
    p999_ns: Between,
    p9999_ns: Between,
}

#[derive(Serialize)]
struct Error {
    error: Fault,
    class: FaultClass,
    requests: u64,
    stray: u64,
    sentence: &'static str,
}

#[derive(Serialize)]
struct Line {
    start_ns: u64,
    length_ns: u64,
    started: u64,
    replies: u64,
    failed: u64,
    bytes: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

pub(super) fn render(summary: &Summary) -> String {
    let brief = Brief::of(&summary.main);
    let names = &summary.plan.names;
    let report = Report {
        schema: SCHEMA,
        flat: brief.clone(),
        brief,
        verdict: Judgement::of(summary),
        run: &summary.run,
        plan: &summary.plan,
        meters: &summary.meters,
        measurement: Section {
            phases: Phases::of(summary, &summary.main),
            ..Section::of(&summary.main, names, summary.asked_rate(), summary.sent_rate())
        },
        warmup: summary.warmup.as_ref().map(|w| Section {
            phases: Phases::of(summary, w),
            ..Section::of(w, names, None, None)
        }),
    };
    layout::json(&report)
}

/// Why a text is no saved report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON, or has not the fields of a report.
    #[error("this is not a JSON report of prony: {}", place(.0))]
    Shape(#[from] serde_json::Error),
    /// A later version's.
    #[error("this report has schema {0}, but this prony reads schema {SCHEMA}: use a newer one")]
    Schema(u64),
    /// Nobody has counted that.
    #[error("this is no report of prony: its counts contradict each other")]
    Counts,
}

/// Where a text is no report; and which field is not one's, where it is JSON.
fn place(e: &serde_json::Error) -> String {
    let at = format!("line {}, column {}", e.line(), e.column());
    let text = e.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) if e.is_data() => format!("{what} ({at})"),
        _ => at,
    }
}

/// The part of a saved report from which all else can be derived again.
#[derive(Deserialize)]
struct Saved {
    run: RunInfo,
    plan: Plan,
    meters: Vec<Meter>,
    measurement: SavedSection,
    warmup: Option<SavedSection>,
}

#[derive(Deserialize)]
struct SavedSection {
    tally: Tally,
}

/// Read a saved report back. What `docs/json.md` says to be left out of a saved plan stays out;
/// every figure is that of the run.
pub fn read(text: &str) -> Result<Summary, ReadError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    let Version { schema } = serde_json::from_str(text)?;
    if schema != u64::from(SCHEMA) {
        return Err(ReadError::Schema(schema));
    }
    let saved: Saved = serde_json::from_str(text)?;
    let sections = saved.warmup.iter().chain([&saved.measurement]);
    if !sections.map(|s| &s.tally).all(agrees) {
        return Err(ReadError::Counts);
    }
    Ok(Summary {
        plan: saved.plan,
        run: saved.run,
        warmup: saved.warmup.map(|s| s.tally),
        main: saved.measurement.tally,
        meters: saved.meters,
    })
}

/// Whether every part is at most its whole, on which the derived figures rely.
fn agrees(t: &Tally) -> bool {
    let whole = t.bytes_head.checked_add(t.bytes_body);
    let received = whole.map(|whole| whole.max(t.bytes_received));
    t.sent <= t.started
        && t.sent_late
            .checked_add(t.overdue)
            .and_then(|n| n.checked_add(t.fault(Fault::Dropped)))
            .is_some_and(|n| n <= t.started)
        && t.replies_in_drain <= t.replies
        && received.is_some_and(|n| t.bytes_in_drain <= n)
        && t.begin <= t.end
}

impl Brief {
    fn of(t: &Tally) -> Self {
        let response = &t.times.response;
        let us = |q| response.quantile(q).map(|t| t.0 as f64 / 1e3);
        Self {
            rps: t.rate(),
            requests: t.replies + t.failed,
            errors: t.failed,
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p999: us(0.999),
            max: us(1.0),
        }
    }
}

impl Judgement {
    fn of(summary: &Summary) -> Self {
        let judgement = summary.verdict();
        let limited_by = summary.bound(&judgement).map(|bound| {
            let sentence = words::bound(&bound);
            LimitedBy { bound, sentence }
        });
        let failed = words::failures(summary).map(|sentence| {
            let (share, requests) = (summary.main.error_share(), summary.main.failed);
            Failures { share: share.unwrap_or_default(), requests, sentence }
        });
        let shared_host = words::shared_host(&judgement, summary);
        let told = |limit: Limit| {
            let sentence = words::limit(&limit, summary);
            Reason { limit, sentence }
        };
        let reasons = judgement.reasons.into_iter().map(told).collect();
        Self { verdict: judgement.verdict, reasons, failed, shared_host, limited_by }
    }
}

impl<'a> Section<'a> {
    fn of(
        tally: &'a Tally,
        names: &'a [String],
        asked_rate: Option<f64>,
        sent_rate: Option<f64>,
    ) -> Self {
        let t = &tally.times;
        // Waits that only some protocols know are there where something waited.
        let is_shown = |name: &str, hist: &Hist| !name.ends_with("_wait") || !hist.is_empty();
        let times = [
            ("response", &t.response),
            ("service", &t.service),
            ("first_byte", &t.first_byte),
            ("transfer", &t.transfer),
            ("lag", &t.lag),
            ("queue", &t.queue),
            ("stream_wait", &t.stream_wait),
            ("flow_wait", &t.flow_wait),
            ("connect", &t.connect),
            ("handshake", &t.handshake),
            ("failed", &t.failed),
        ];
        let rates = Rates {
            window_ns: tally.window().0,
            rate: tally.rate(),
            asked_rate,
            sent_rate,
            bytes_per_second: tally.bytes_per_second(),
            error_share: tally.error_share(),
            concurrency: tally.concurrency(),
            under_way: tally.under_way(),
        };
        Self {
            rates,
            times: times
                .into_iter()
                .filter(|(name, hist)| is_shown(name, hist))
                .map(|(name, hist)| (name, Times::of(hist)))
                .collect(),
            ci95: Intervals::of(tally),
            errors: errors(tally),
            rows: tally.rows().map(Line::from).collect(),
            phases: None,
            sessions: tally.sessions.as_ref().map(|s| Sessions {
                rate: tally.session_rate().unwrap_or(0.0),
                lifetime: Times::of(&s.lifetime),
                failtime: Times::of(&s.failtime),
            }),
            names: names.iter().zip(&tally.names).map(|(name, t)| Named::of(name, t)).collect(),
            tally,
        }
    }
}

impl Intervals {
    fn of(tally: &Tally) -> Self {
        let confidence = Confidence::of(tally);
        Self {
            rate: confidence.rate(tally.rate()).into(),
            response: Figured::of(&confidence),
            service: Confidence::of_service(tally).as_ref().map(Figured::of),
        }
    }
}

impl Figured {
    fn of(confidence: &Confidence<'_>) -> Self {
        let [p50_ns, p75_ns, p90_ns, p95_ns, p99_ns, p999_ns, p9999_ns] =
            QUANTILES.map(|(_, q)| confidence.quantile(q).into());
        let mean_ns = confidence.mean().into();
        Self { mean_ns, p50_ns, p75_ns, p90_ns, p95_ns, p99_ns, p999_ns, p9999_ns }
    }
}

impl From<Result<Interval, Lack>> for Between {
    fn from(told: Result<Interval, Lack>) -> Self {
        match told {
            Ok(Interval { lo, hi }) => Self { lo: Some(lo), hi: Some(hi), lack: None },
            Err(lack) => Self { lo: None, hi: None, lack: Some(lack) },
        }
    }
}

impl Phases {
    fn of(summary: &Summary, tally: &Tally) -> Option<Self> {
        let phases = tally.phases.as_deref()?;
        let (error, clock_steps) = phases::clock(summary);
        let others = phases::others(phases).map(|(field, _, times)| (field, times));
        let times = others.chain(phases::parts(phases).map(|part| (part.field, part.times)));
        Some(Self {
            stamped: phases.whole.count(),
            unstamped: phases.without(),
            clock_error_ns: error.0,
            clock_steps,
            shares: phases::parts(phases).map(|part| (part.field, part.share)).collect(),
            times: times.map(|(name, hist)| (name, Times::of(hist))).collect(),
        })
    }
}

impl<'a> Named<'a> {
    fn of(name: &'a str, t: &NameTally) -> Self {
        Self {
            name,
            started: t.started,
            replies: t.replies,
            failed: t.failed,
            response: Times::of(&t.response),
            service: Times::of(&t.service),
        }
    }
}

impl Times {
    fn of(hist: &Hist) -> Self {
        let f = Figures::of(hist);
        let [p50_ns, p75_ns, p90_ns, p95_ns, p99_ns, p999_ns, p9999_ns] = f.quantiles.map(ns);
        Self {
            count: f.count,
            mean_ns: f.mean_ns,
            stdev_ns: f.stdev_ns,
            min_ns: ns(f.min),
            p50_ns,
            p75_ns,
            p90_ns,
            p95_ns,
            p99_ns,
            p999_ns,
            p9999_ns,
            max_ns: ns(f.max),
        }
    }
}

impl From<Row> for Line {
    fn from(r: Row) -> Self {
        Self {
            start_ns: r.at.0,
            length_ns: r.length.0,
            started: r.started,
            replies: r.replies,
            failed: r.failed,
            bytes: r.bytes,
            p50_ns: ns(r.p50),
            p99_ns: ns(r.p99),
            max_ns: ns(r.max),
        }
    }
}

fn ns(t: Option<Span>) -> Option<u64> {
    t.map(|t| t.0)
}

fn errors(t: &Tally) -> Vec<Error> {
    let told = |error: Fault| Error {
        error,
        class: error.class(),
        requests: t.fault(error),
        stray: t.stray[error as usize],
        sentence: words::sentence(error),
    };
    Fault::ALL.into_iter().map(told).filter(|e| e.requests + e.stray > 0).collect()
}
