//! The report of a plan with phases: the ordinary report of each phase, and a row for each in an
//! overview.

use prony_base::units::Span;
use prony_stats::summary::{Checked, Outcome as Decided, Summary, Weight};
use serde::{Deserialize, Serialize};

use super::{Format, redact, units, words};

/// The columns of the overview after the names.
pub(super) const COLUMNS: [&str; 6] =
    ["verdict", "completed rate", "p50", "p99", "failed", "thresholds"];

/// A plan with phases that has been run.
#[derive(Clone, Debug, Default)]
pub struct Phased {
    /// prony's version.
    pub version: String,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// The seed of the plan, from which those of the phases are derived.
    pub seed: u64,
    /// Whether the user stopped the plan.
    pub interrupted: bool,
    /// The phases, in the order of the plan.
    pub phases: Vec<Phase>,
}

/// A phase of it.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it starts.
    pub start: Start,
    /// How much later than that.
    pub delay: Span,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a phase.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It has run.
    Ran(Box<Summary>),
    /// It has not, for this reason.
    NotStarted(String),
}

/// When a phase starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// When the phases before it have ended.
    #[default]
    After,
    /// With the phase before it.
    With,
}

impl Outcome {
    /// The run, if there was one.
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Ran(summary) => Some(summary),
            Self::NotStarted(_) => None,
        }
    }
}

impl Phased {
    /// The formats that can show phases.
    pub const FORMATS: [Format; 7] = [
        Format::Text,
        Format::Html,
        Format::Svg,
        Format::Png,
        Format::Json,
        Format::Junit,
        Format::Markdown,
    ];

    /// The sentence that refuses the others for files.
    pub const WRITTEN_AS: &str =
        "a plan with phases can be written as .html, .svg, .png, .json, .xml or .md";

    /// The phases that have run, by name.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &Summary)> {
        self.phases.iter().filter_map(|phase| Some((phase.name.as_str(), phase.outcome.summary()?)))
    }

    /// The same as reports show it: without secrets, as the report of one run.
    pub(super) fn shown(&self) -> Self {
        let mut shown = self.clone();
        for phase in &mut shown.phases {
            if let Outcome::Ran(summary) = &mut phase.outcome {
                **summary = redact::shown(summary);
            }
        }
        shown
    }

    /// What the report is about, in a few words.
    pub(super) fn title(&self) -> String {
        units::counted(self.phases.len() as u64, "phase", "phases")
    }

    /// The cells of the overview of each phase after its name.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, [String; 6])> {
        self.phases.iter().map(|phase| (phase.name.as_str(), cells(&phase.outcome)))
    }

    /// A sentence for each phase that is not as it should be: not started, not valid, or with
    /// thresholds that are not met.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        self.phases.iter().filter_map(|phase| {
            let name = &phase.name;
            match &phase.outcome {
                Outcome::NotStarted(why) => Some(format!("Phase '{name}' was not started: {why}.")),
                Outcome::Ran(summary) => problem(name, summary),
            }
        })
    }
}

/// The cells of the overview of a phase after its name.
fn cells(outcome: &Outcome) -> [String; 6] {
    let Outcome::Ran(summary) = outcome else {
        return ["not started", "-", "-", "-", "-", "-"].map(str::to_owned);
    };
    let t = &summary.main;
    let time = |q| t.times.response.quantile(q).map_or_else(|| "-".to_owned(), units::span);
    [
        summary.verdict().verdict.word().to_owned(),
        units::rate(t.rate()),
        time(0.5),
        time(0.99),
        units::count(t.failed),
        thresholds(summary),
    ]
}

/// The outcomes of the thresholds, in a few words.
fn thresholds(summary: &Summary) -> String {
    let outcomes: Vec<Decided> = summary.thresholds().iter().map(|t| t.outcome).collect();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    match (count(Decided::Missed), count(Decided::Undecided)) {
        _ if outcomes.is_empty() => "-".to_owned(),
        (0, 0) => format!("{} met", outcomes.len()),
        (0, undecided) => format!("{undecided} undecided"),
        (missed, _) => format!("{missed} missed"),
    }
}

/// What is wrong with a phase that has run.
fn problem(name: &str, summary: &Summary) -> Option<String> {
    let conclusion = summary.conclusion();
    let is_decided = conclusion.misses() || conclusion.weight == Weight::Said;
    if conclusion.weight != Weight::Fine && !is_decided {
        let verdict = conclusion.judgment.verdict;
        let means = words::verdict(verdict);
        return Some(format!("Phase '{name}' is not valid: {}: {means}.", verdict.word()));
    }
    let decided: Vec<Checked> = conclusion.thresholds.into_iter().map(|(of, _)| of).collect();
    let is_open = |wanted| decided.iter().filter(move |t| t.outcome == wanted);
    let named = |wanted| {
        let texts: Vec<String> = is_open(wanted).map(|t| format!("'{}'", t.threshold)).collect();
        texts.join(", ")
    };
    let (missed, undecided) = (named(Decided::Missed), named(Decided::Undecided));
    match (missed.is_empty(), undecided.is_empty()) {
        (false, _) => Some(format!("Phase '{name}' misses {missed}.")),
        (true, false) => Some(format!("Phase '{name}' leaves {undecided} undecided.")),
        (true, true) => None,
    }
}

#[cfg(test)]
mod tests;
