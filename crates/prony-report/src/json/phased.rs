//! The document of a plan with phases, around the ordinary reports of the phases.
//! `docs/schema/phases-1.json` is its JSON schema.

use prony_base::units::Span;
use serde::{Deserialize, Serialize};

use super::{ReadError, Report, Saved, budget, layout, of_saved, report};
use crate::phased::{Outcome, Phase, Phased, Start};

/// The schema version of the document; the reports in it have their own.
const SCHEMA: u32 = 1;
/// What kind of document it is.
pub(super) const KIND: &str = "phases";

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kind: &'static str,
    version: &'a str,
    command: &'a [String],
    seed: u64,
    interrupted: bool,
    phases: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    start: Start,
    delay_ns: u64,
    not_started: Option<&'a str>,
    verdict: Option<&'static str>,
    report: Option<Report<'a>>,
}

#[derive(Deserialize)]
struct SavedDocument {
    version: String,
    command: Vec<String>,
    seed: u64,
    interrupted: bool,
    phases: Vec<SavedPart>,
}

#[derive(Deserialize)]
struct SavedPart {
    name: String,
    start: Start,
    delay_ns: u64,
    not_started: Option<String>,
    report: Option<Saved>,
}

fn part(phase: &Phase) -> Part<'_> {
    let summary = phase.outcome.summary();
    Part {
        name: &phase.name,
        start: phase.start,
        delay_ns: phase.delay.0,
        not_started: match &phase.outcome {
            Outcome::NotStarted(why) => Some(why),
            Outcome::Ran(_) => None,
        },
        verdict: summary.map(|summary| summary.verdict().verdict.word()),
        report: summary.map(report),
    }
}

pub(crate) fn render(all: &Phased) -> String {
    layout::json(&Document {
        schema: SCHEMA,
        kind: KIND,
        version: &all.version,
        command: &all.command,
        seed: all.seed,
        interrupted: all.interrupted,
        phases: all.phases.iter().map(part).collect(),
    })
}

/// Loads the saved report of a plan with phases; every figure of a phase equals that of its run.
///
/// # Errors
/// It is not one, or one of its reports is not valid.
pub fn read(text: &str) -> Result<Phased, ReadError> {
    if !budget::fits(text) {
        return Err(ReadError::Memory);
    }
    let saved: SavedDocument = serde_json::from_str(text)?;
    let part = |part: SavedPart| {
        let outcome = match (part.report, part.not_started) {
            (Some(report), _) => Outcome::Ran(Box::new(of_saved(report)?)),
            (None, why) => Outcome::NotStarted(why.unwrap_or_default()),
        };
        let delay = Span(part.delay_ns);
        Ok(Phase { name: part.name, start: part.start, delay, outcome })
    };
    Ok(Phased {
        version: saved.version,
        command: saved.command,
        seed: saved.seed,
        interrupted: saved.interrupted,
        phases: saved.phases.into_iter().map(part).collect::<Result<_, ReadError>>()?,
    })
}
