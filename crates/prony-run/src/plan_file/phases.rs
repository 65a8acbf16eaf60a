//! Phases in a plan file: `[[phases]]`, each a load of its own.

use std::path::Path;

use prony_base::units::Span;
use prony_report::phased::Start;
use toml::de::{DeTable, DeValue};

use super::explain::{explain_shared, thresholds};
use super::load;
use super::reader::{Item, Problems, Section};
use super::requests::{Common, Requests};
use super::words::{Words, word};
use super::written::{line, quoted};
use crate::environment::Environment;
use crate::phases::{self, Phase, Phases};
use crate::values;

/// The key of the phases.
pub(super) const PHASES: &str = "phases";
/// The most phases of a plan.
const PHASES_MAX: usize = 100;
/// The longest name, in characters.
const NAME_MAX: usize = 60;

/// The keys that make a loop an open one.
const OPEN: [&str; 2] = ["rate", "arrivals"];
/// The keys that make it a closed one, unless there is one of the others.
const CLOSED: [&str; 4] = ["users", "think", "ramp-up", "connections"];
/// The keys that end a load, which belong together.
const STOP: [&str; 3] = ["requests", "sessions", "duration"];
/// The keys of a load that a phase may have of its own.
const OF_LOAD: [&str; 11] = [
    "rate",
    "arrivals",
    "users",
    "think",
    "ramp-up",
    "connections",
    "requests",
    "sessions",
    "duration",
    "warmup",
    "thresholds",
];

const START: Words<Start> = &[("after", Start::After), ("with", Start::With)];

/// A phase, and the plan of it as a table: the keys of the file with those of the phase.
struct Part<'a> {
    name: String,
    /// Where it is in the file.
    at: usize,
    start: Start,
    delay: Span,
    plan: DeTable<'a>,
}

/// Reads the phases of a plan file.
pub(super) fn parse(
    name: &str,
    text: &str,
    document: &DeTable<'_>,
    folder: Option<&Path>,
    around: &Environment,
) -> Result<Phases, Vec<String>> {
    let mut problems = Problems::new(name, text);
    let parts = parts(document, &mut problems);
    if !problems.is_empty() {
        return Err(problems.into_sentences());
    }
    let (mut list, mut found, mut seed) = (Vec::new(), Vec::new(), around.seed);
    for group in parts.chunk_by(|_, next| next.start == Start::With) {
        let around = around.of_each(group.len());
        for part in group {
            let mut requests = Requests::new(Problems::new(name, text), folder, Common::default());
            let mut top = Section::new("a plan", 0, &part.plan);
            let planned = requests.plan(&mut top, &around);
            top.finish(&mut requests.problems);
            found.push((part.name.as_str(), part.at, requests.problems));
            let Some(planned) = planned else { continue };
            seed = planned.plan.seed;
            let name = part.name.clone();
            list.push(Phase { name, start: part.start, delay: part.delay, planned });
        }
    }
    problems.add_parts(&found);
    if problems.is_empty() && list.len() == parts.len() {
        return Ok(Phases::new(seed, list));
    }
    debug_assert!(!problems.is_empty(), "no plan and no reason");
    Err(problems.into_sentences())
}

/// The phases of the file.
fn parts<'a>(top: &'a DeTable<'a>, problems: &mut Problems<'a>) -> Vec<Part<'a>> {
    let Some(item) = top.get(PHASES).map(|value| Item::new(PHASES, value)) else {
        return Vec::new();
    };
    if let Some(shard) = top.get("shard") {
        let what = "`shard`: a plan with phases cannot be split; omit it";
        problems.add(shard.span().start, what);
    }
    let items: Vec<Item<'a>> =
        item.list(problems, "a list of phases: [[phases]]").into_iter().flatten().collect();
    let is_list = matches!(item.value, DeValue::Array(_));
    if is_list && !(1..=PHASES_MAX).contains(&items.len()) {
        problems.add(item.at, format!("a plan has 1 to {PHASES_MAX} phases"));
    }
    let mut parts: Vec<Part<'a>> = Vec::new();
    for item in items {
        let DeValue::Table(table) = item.value else {
            item.wrong_type(problems, "a table: [[phases]]");
            continue;
        };
        let mut section = Section::new("a phase", item.at, table);
        let name = name_of(&mut section, &parts, problems);
        let start = section.take("start");
        if let Some(start) = start.filter(|_| parts.is_empty()) {
            problems.add(start.at, "`start`: there is no phase before the first one; omit it");
        }
        let start = start.and_then(|i| i.word(problems, START)).unwrap_or_default();
        let delay = section.take("delay").and_then(|i| i.parse(problems, "a time", values::span));
        for key in OF_LOAD {
            section.take(key);
        }
        section.finish(problems);
        let (at, delay) = (item.at, delay.unwrap_or_default());
        parts.push(Part { name, at, start, delay, plan: merged(top, table) });
    }
    parts
}

/// Reads the name of a phase.
fn name_of<'a>(
    section: &mut Section<'a>,
    before: &[Part<'a>],
    problems: &mut Problems<'a>,
) -> String {
    let at = section.at;
    let Some(item) = section.take("name") else {
        problems.add(at, "a phase needs a `name`");
        return String::new();
    };
    let name = item.string(problems, "a name").unwrap_or_default();
    if before.iter().any(|part| part.name == name && !name.is_empty()) {
        problems.add(item.at, format!("`name`: two phases have the name '{name}'"));
    }
    let is_named = matches!(item.value, DeValue::String(_));
    if is_named && !(1..=NAME_MAX).contains(&name.chars().count()) {
        problems.add(item.at, format!("`name`: write a name of 1 to {NAME_MAX} characters"));
    }
    if name.chars().any(char::is_control) {
        problems.add(item.at, "`name`: a name has no control characters");
    }
    name.to_owned()
}

/// The plan of a phase: the keys of the file, unless the phase has its own or another kind of load.
fn merged<'a>(top: &DeTable<'a>, phase: &DeTable<'a>) -> DeTable<'a> {
    let has = |table: &DeTable<'a>, keys: &[&str]| keys.iter().any(|&key| table.contains_key(key));
    let is_open = |table: &DeTable<'a>| has(table, &OPEN);
    let mut plan = top.clone();
    plan.remove(PHASES);
    let is_closed = !is_open(phase) && has(phase, &CLOSED);
    if is_open(phase) {
        ["users", "think", "ramp-up"].iter().for_each(|&key| drop(plan.remove(key)));
    }
    if is_closed {
        OPEN.iter().for_each(|&key| drop(plan.remove(key)));
    }
    // The connections of a closed loop are its load, those of an open loop a limit.
    if (is_open(phase) && !is_open(top)) || (is_closed && is_open(top)) {
        plan.remove("connections");
    }
    // The names of one number exclude each other.
    for (own, other) in [("users", "connections"), ("connections", "users")] {
        if phase.contains_key(own) {
            plan.remove(other);
        }
    }
    if has(phase, &STOP) || has_end(phase) {
        STOP.iter().for_each(|&key| drop(plan.remove(key)));
    }
    for (key, value) in phase.iter().filter(|(key, _)| OF_LOAD.contains(&key.get_ref().as_ref())) {
        plan.insert(key.clone(), value.clone());
    }
    plan
}

/// Whether the rate of a phase ends its load.
fn has_end(phase: &DeTable<'_>) -> bool {
    let rate = phase.get("rate").and_then(|value| Item::new("rate", value).scalar());
    let rate = rate.and_then(|rate| values::rate_plan(&rate).ok());
    rate.is_some_and(|rate| rate.length().is_some())
}

/// Writes a plan with phases as a plan file.
pub fn explain_phases(all: &Phases) -> String {
    let Some(first) = all.list().first().map(|phase| &phase.planned.plan) else {
        return String::new();
    };
    let mut shared = first.clone();
    shared.seed = all.seed();
    let plans = || all.list().iter().map(|phase| &phase.planned.plan);
    let is_same = plans().all(|plan| plan.pipeline == first.pipeline);
    let mut out = explain_shared(&shared, is_same.then_some(first.pipeline), &phases::notes(all));
    for phase in all.list() {
        out.push_str("\n[[phases]]\n");
        line(&mut out, "name", quoted(&phase.name));
        if phase.start != Start::After {
            line(&mut out, "start", quoted(word(START, &phase.start)));
        }
        if phase.delay > Span::ZERO {
            line(&mut out, "delay", quoted(&phase.delay.to_string()));
        }
        load::write(&phase.planned.plan, &mut out);
        thresholds(&phase.planned.plan, &mut out);
    }
    out
}

/// Summarizes a plan with phases in one line.
pub(super) fn summary(all: &Phases) -> String {
    let of = |phase: &Phase| {
        let beside = if phase.start == Start::With { " (with the one before)" } else { "" };
        format!("{}{beside}: {}", phase.name, super::summary(&phase.planned.plan))
    };
    let each: Vec<String> = all.list().iter().map(of).collect();
    format!("{}; {}", super::counted(each.len() as u64, "phase"), each.join("; "))
}
