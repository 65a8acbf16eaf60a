//! The report of a capacity: the answer, what stops the target, and the load-latency curve. The
//! levels of its trials are arrival rates, or numbers of connections.

mod text;

use prony_stats::capacity::{Answer, By, Finding, Point, Purpose, Stop};
use serde::Serialize;

use super::units;

/// The schema version of the JSON report.
const SCHEMA: u32 = 1;

/// A finished search for a capacity.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The schema version.
    schema: u32,
    /// prony's version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// The target.
    pub target: String,
    /// Operating system, kernel, cores; empty in simulation.
    pub host: String,
    /// The seed of the order of the rates and of the arrivals.
    pub seed: u64,
    /// The arrival process; `closed loop` for a search by connections.
    pub arrivals: String,
    /// The thresholds, as they were given.
    pub thresholds: Vec<String>,
    /// Half the width of the interval that was asked for, as a share of the capacity.
    pub accuracy: f64,
    /// The answer in one sentence.
    pub sentence: String,
    /// The command that loads the target with 80 % of its capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at_80_percent: Option<Vec<String>>,
    /// Facts that the reader must know, as complete sentences.
    pub notes: Vec<String>,
    /// What was found, and the trials.
    #[serde(flatten)]
    pub answer: Answer,
}

impl Capacity {
    /// The report of an answer. The caller fills in the public fields that it knows.
    pub fn new(answer: Answer, thresholds: Vec<String>, accuracy: f64) -> Self {
        let mut report = Self {
            schema: SCHEMA,
            version: String::new(),
            command: Vec::new(),
            target: String::new(),
            host: String::new(),
            seed: 0,
            arrivals: String::new(),
            thresholds,
            accuracy,
            sentence: String::new(),
            run_at_80_percent: None,
            notes: Vec::new(),
            answer,
        };
        report.sentence = text::sentence(&report);
        report.notes.extend(report.answer.scalability.as_ref().map(text::scalability));
        report.notes.extend(text::recoveries(&report.answer));
        report.notes.extend(text::beyond(&report.answer));
        report
    }

    /// The level of 80 % of the capacity, if there is one: a rate to three digits, or a number of
    /// connections.
    pub fn at_80_percent(&self) -> Option<String> {
        let Finding::Capacity { rate, .. } = self.answer.finding else { return None };
        let rate = rate * 0.8;
        if self.answer.by == By::Connections {
            return Some(format!("{:.0}", rate.floor().max(1.0)));
        }
        let size = 10_f64.powf(rate.log10().floor() - 2.0);
        let rate = (rate / size).floor() * size;
        let text = if size < 1.0 { format!("{rate:.3}") } else { format!("{rate:.0}") };
        Some(if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        })
    }

    /// The kind of the load.
    pub(super) fn arrivals_words(&self) -> String {
        match self.answer.by {
            By::Rate => format!("{} arrivals", self.arrivals),
            By::Connections => "closed loops".into(),
        }
    }

    /// A level of the load, with its unit.
    pub(super) fn level(&self, level: f64) -> String {
        self::level(self.answer.by, level)
    }

    /// The threshold that is missed first, and its index.
    pub(super) fn binding(&self) -> Option<(usize, &str)> {
        let Finding::Capacity { threshold, .. } = self.answer.finding else { return None };
        Some((threshold, self.thresholds.get(threshold)?))
    }

    /// The trials of the curve, by rate.
    pub fn curve(&self) -> Vec<&Point> {
        let is_shown = |p: &&Point| p.requests > 0 && p.trial.purpose != Purpose::Probe;
        let mut points: Vec<&Point> = self.answer.points.iter().filter(is_shown).collect();
        points.sort_by(|a, b| a.trial.rate.total_cmp(&b.trial.rate));
        points
    }

    pub(super) fn text(&self) -> String {
        text::render(self)
    }
}

/// What stops the target, as the end of a sentence.
fn stops(stop: Stop) -> &'static str {
    match stop {
        Stop::Queueing => "requests queue in the target",
        Stop::Errors => "requests fail",
        Stop::Network => "the network loses segments",
        Stop::Threshold => "the figure passes its limit",
    }
}

/// A level of the load, with its unit.
pub fn level(by: By, level: f64) -> String {
    match by {
        By::Rate => per_second(level),
        By::Connections => units::counted(level.round() as u64, "connection", "connections"),
    }
}

fn per_second(rate: f64) -> String {
    units::rate(rate)
}
