//! The response times of a replay against those of its log, with their sentences. `docs/replay.md`
//! and `docs/json.md` document the fields.

use prony_base::units::Span;
use prony_stats::comparison::{LogFigure, LogRow, MARGIN, compare_with_log};
use prony_stats::summary::Summary;
use serde::Serialize;

use super::units;
use super::words::changes::{log_sentence, outcome};

/// What is compared, and how exactly.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Logged {
    /// Changes of at most this share do not matter.
    margin: f64,
    /// The resolution of the times in the log, in nanoseconds; `None`: it is not known.
    resolution_ns: Option<u64>,
    /// What the reader must know, as sentences.
    pub(super) notes: Vec<String>,
    /// All requests, unless there is only one name; then those of each name.
    pub(super) requests: Vec<Requests>,
}

/// All requests, or those of one name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Requests {
    /// `None`: all requests.
    pub(super) name: Option<String>,
    /// The probability that the interval of one of the changes misses its true value.
    error: f64,
    /// The number of times in the log.
    log_requests: u64,
    /// The number of response times of the run.
    pub(super) requests: u64,
    pub(super) changes: Vec<Change>,
}

/// One figure of the run against that of the log.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Change {
    pub(super) figure: String,
    pub(super) log_ns: Option<f64>,
    pub(super) run_ns: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_lo: Option<f64>,
    pub(super) ratio_hi: Option<f64>,
    /// That of the ratio, of the figure of the log.
    pub(super) difference_ns: Option<f64>,
    pub(super) difference_lo_ns: Option<f64>,
    pub(super) difference_hi_ns: Option<f64>,
    outcome: &'static str,
    pub(super) sentence: String,
}

impl Logged {
    /// `None` if there is nothing to compare.
    pub(super) fn of(summary: &Summary) -> Option<Self> {
        let found = compare_with_log(summary)?;
        let names = &summary.plan.names;
        Some(Self {
            margin: MARGIN,
            resolution_ns: (found.step > Span::ZERO).then_some(found.step.0),
            notes: notes(found.step),
            requests: found.rows.iter().map(|row| Requests::of(row, names)).collect(),
        })
    }
}

/// What the reader must know.
fn notes(step: Span) -> Vec<String> {
    let mut notes = vec![
        "Only the variance within the log and within this run is known. How much the times differ \
         from run to run, and from start to start of the server, is not part of the answer. All \
         intervals hold together with a probability of 95 %."
            .to_owned(),
        "The times of the log are those of its server; those of the run have the network and the \
         waits before a request was accepted, too."
            .to_owned(),
    ];
    if step > Span::ZERO {
        notes.push(format!(
            "The log has its times to {}: its percentiles are taken to be off by as much at most, \
             and its means by half of it.",
            units::exact(step)
        ));
    }
    notes
}

impl Requests {
    fn of(row: &LogRow, names: &[String]) -> Self {
        Self {
            name: row.name.map(|name| names.get(name).cloned().unwrap_or_default()),
            error: row.error,
            log_requests: row.logged,
            requests: row.measured,
            changes: row.figures.iter().map(Change::of).collect(),
        }
    }

    /// What these requests are called in a table.
    pub(super) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("all requests")
    }
}

impl Change {
    fn of(figure: &LogFigure) -> Self {
        let LogFigure { compared, log_ns, run_ns } = figure;
        let ends =
            [compared.estimate, compared.interval.map(|i| i.lo), compared.interval.map(|i| i.hi)];
        let [ratio, ratio_lo, ratio_hi] = ends.map(|end| end.map(f64::exp));
        let more = |end: Option<f64>| Some(end?.exp_m1() * (*log_ns)?);
        let [difference_ns, difference_lo_ns, difference_hi_ns] = ends.map(more);
        Self {
            figure: compared.figure.to_string(),
            log_ns: *log_ns,
            run_ns: *run_ns,
            ratio,
            ratio_lo,
            ratio_hi,
            difference_ns,
            difference_lo_ns,
            difference_hi_ns,
            outcome: outcome(compared.outcome),
            sentence: log_sentence(compared, MARGIN),
        }
    }
}
