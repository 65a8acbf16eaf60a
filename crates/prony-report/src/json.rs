//! The complete report for programs. `docs/json.md` documents each field,
//! `docs/schema/report-1.json` is its JSON schema. A saved report can be loaded and rendered in
//! another format.

mod broadcast;
mod budget;
mod checks;
mod decided;
mod judgment;
mod named;
mod offered;
pub mod phased;
mod place;
mod read_error;
mod sessions;
mod stages;
mod streams;
mod tokens;

use std::collections::BTreeMap;

use prony_base::fault::{Fault, FaultClass};
use prony_base::meter::WorkerStats;
use prony_base::units::Span;
use prony_plan::plan::Plan;
use prony_plan::threshold::{InJson, Timed};
use prony_stats::summary::confidence::{Confidence, Interval, NoInterval};
use prony_stats::summary::{Figures, QUANTILES, RunInfo, Summary};
use prony_tally::record::Row;
use prony_tally::record::Tally;
use prony_tally::record::hist::Hist;
use serde::{Deserialize, Serialize};

use super::logged::Logged;
use super::{layout, phases, words};
use broadcast::Broadcast;
use checks::{CheckRow, GroupRow};
use decided::Decided;
use judgment::Judgment;
use named::Named;
use offered::Offered;
pub use read_error::ReadError;
use sessions::Sessions;
use stages::Stage;
use streams::Streams;
use tokens::Tokens;

/// The schema version. It increases when a field is removed or changes its meaning, not when one is
/// added.
pub const SCHEMA: u32 = 1;

/// The complete document.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    #[serde(flatten)]
    flat: Brief,
    brief: Brief,
    verdict: Judgment,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<Decided>,
    run: &'a RunInfo,
    plan: &'a Plan,
    workers: &'a [WorkerStats],
    measurement: Section<'a>,
    warmup: Option<Section<'a>>,
}

/// The most important figures. Times in microseconds.
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

/// Warm-up or measurement: derived figures, and the complete tally.
#[derive(Serialize)]
struct Section<'a> {
    rates: Rates,
    times: BTreeMap<String, Times>,
    ci95: Intervals,
    errors: Vec<Error>,
    rows: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<Stage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    offered: Vec<Offered>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Phases>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<Sessions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast: Option<Broadcast>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Streams>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<Named<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<CheckRow<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    against_log: Option<Logged>,
    tally: &'a Tally,
}

/// The parts of response times from kernel timestamps.
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
struct Rates {
    window_ns: u64,
    rate: f64,
    target_rate: Option<f64>,
    sent_rate: Option<f64>,
    bytes_per_second: f64,
    error_share: Option<f64>,
    concurrency: f64,
    in_flight_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams_mean: Option<f64>,
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
    #[serde(flatten)]
    streams: BTreeMap<String, Figured>,
}

/// Both ends, or the reason why there is no interval.
#[derive(Serialize)]
struct Between {
    lo: Option<f64>,
    hi: Option<f64>,
    #[serde(flatten)]
    lack: Option<NoInterval>,
}

/// The interval of each figure.
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
    layout::json(&report(summary))
}

/// The document of a run.
fn report(summary: &Summary) -> Report<'_> {
    let brief = Brief::of(&summary.main);
    Report {
        schema: SCHEMA,
        flat: brief.clone(),
        brief,
        verdict: Judgment::of(summary),
        thresholds: summary.thresholds().iter().map(Decided::of).collect(),
        run: &summary.run,
        plan: &summary.plan,
        workers: &summary.workers,
        measurement: measurement(summary),
        warmup: summary.warmup.as_ref().map(|w| Section {
            phases: Phases::of(summary, w),
            ..Section::of(w, &summary.plan, None, None)
        }),
    }
}

fn measurement(summary: &Summary) -> Section<'_> {
    let (t, plan) = (&summary.main, &summary.plan);
    let mut section = Section::of(t, plan, summary.target_rate(), summary.sent_rate());
    section.phases = Phases::of(summary, t);
    section.ci95.rate = summary.rate_interval().into();
    section.stages = stages::stages(summary);
    section.offered = offered::offered(summary);
    section.against_log = Logged::of(summary);
    section
}

/// The part of a saved report from which everything else is derived.
#[derive(Deserialize)]
struct Saved {
    schema: u64,
    run: RunInfo,
    plan: Plan,
    workers: Vec<WorkerStats>,
    measurement: SavedSection,
    warmup: Option<SavedSection>,
}

#[derive(Deserialize)]
struct SavedSection {
    tally: Tally,
}

/// Load a saved report. Parts of the plan that `docs/json.md` lists as omitted stay omitted; every
/// figure equals that of the run.
pub fn read(text: &str) -> Result<Summary, ReadError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
        kind: Option<String>,
    }
    if !budget::fits(text) {
        return Err(ReadError::Memory);
    }
    let Version { schema, kind } = serde_json::from_str(text)?;
    if schema != u64::from(SCHEMA) {
        return Err(ReadError::Schema(schema));
    }
    if kind.as_deref() == Some(phased::KIND) {
        return Err(ReadError::Phases);
    }
    of_saved(serde_json::from_str(text)?)
}

/// The run of a saved report.
fn of_saved(saved: Saved) -> Result<Summary, ReadError> {
    if saved.schema != u64::from(SCHEMA) {
        return Err(ReadError::Schema(saved.schema));
    }
    let shard = saved.plan.shard;
    if shard.index >= shard.of {
        return Err(ReadError::Counts);
    }
    let sections = saved.warmup.iter().chain([&saved.measurement]);
    if !sections.map(|s| &s.tally).all(agrees) {
        return Err(ReadError::Counts);
    }
    Ok(Summary {
        plan: saved.plan,
        run: saved.run,
        warmup: saved.warmup.map(|s| s.tally),
        main: saved.measurement.tally,
        workers: saved.workers,
    })
}

/// Whether every part is at most its total; the derived figures rely on it.
pub fn agrees(t: &Tally) -> bool {
    let whole = t.bytes_head.checked_add(t.bytes_body);
    let received = whole.map(|whole| whole.max(t.bytes_received));
    t.sent <= t.started
        && t.sent_late
            .checked_add(t.overdue)
            .and_then(|n| n.checked_add(t.fault(Fault::Dropped)))
            .is_some_and(|n| n <= t.started)
        && t.replies_in_drain <= t.replies
        && received.is_some_and(|n| t.bytes_in_drain <= n)
        && t.start <= t.end
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

impl<'a> Section<'a> {
    fn of(
        tally: &'a Tally,
        plan: &'a Plan,
        target_rate: Option<f64>,
        sent_rate: Option<f64>,
    ) -> Self {
        let rates = Rates::of(tally, target_rate, sent_rate);
        Self {
            rates,
            times: kinds(tally).map(|(timed, hist)| (timed.json_key(), Times::of(hist))).collect(),
            ci95: Intervals::of(tally),
            errors: errors(tally),
            rows: tally.rows().map(Line::from).collect(),
            stages: Vec::new(),
            offered: Vec::new(),
            phases: None,
            sessions: Sessions::of(plan, tally),
            tokens: Tokens::of(tally),
            broadcast: Broadcast::of(tally),
            streams: Streams::of(tally),
            names: plan
                .names
                .iter()
                .zip(&tally.names)
                .map(|(name, t)| Named::of(name, t, tally))
                .collect(),
            checks: checks::checks(plan, tally),
            groups: checks::groups(plan, tally),
            against_log: None,
            tally,
        }
    }
}

/// The kinds of times of a section.
fn kinds(tally: &Tally) -> impl Iterator<Item = (Timed, &Hist)> {
    let of = |&timed: &Timed| Some((timed, tally.times_of(timed)?));
    Timed::ALL.iter().filter_map(of).filter(|(timed, hist)| match timed.in_json() {
        InJson::Always => true,
        InJson::IfAny => !hist.is_empty(),
        InJson::Elsewhere => false,
    })
}

impl Rates {
    fn of(tally: &Tally, target_rate: Option<f64>, sent_rate: Option<f64>) -> Self {
        Self {
            window_ns: tally.window().0,
            rate: tally.rate(),
            target_rate,
            sent_rate,
            bytes_per_second: tally.bytes_per_second(),
            error_share: tally.error_share(),
            concurrency: tally.concurrency(),
            in_flight_mean: tally.in_flight_mean(),
            streams_mean: tally.streams_mean(),
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
            streams: streams::intervals(tally),
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

impl From<Result<Interval, NoInterval>> for Between {
    fn from(interval: Result<Interval, NoInterval>) -> Self {
        match interval {
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
    let line = |error: Fault| Error {
        error,
        class: error.class(),
        requests: t.fault(error),
        stray: t.stray[error as usize],
        sentence: words::sentence(error),
    };
    Fault::ALL.into_iter().map(line).filter(|e| e.requests + e.stray > 0).collect()
}
