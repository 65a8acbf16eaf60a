//! The results of the cases: a file with one line for each, and a table with one for each kind.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use super::cases::Case;
use crate::shell::target_dir;

/// The maximum share of runs without a fault that may be called anything but VALID.
const ALARMS_MAX: f64 = 0.02;
/// The reasons that other load on the machine can cause.
const OF_THE_MACHINE: [&str; 7] = [
    "cpu-saturated",
    "rate-missed",
    "send-lag",
    "run-queue-delay",
    "event-loop-stall",
    "cpu-stolen",
    "cpu-throttled",
];

/// The result of a case.
pub(super) struct Row {
    pub(super) word: String,
    /// The first reason.
    pub(super) limit: String,
    /// The bottleneck.
    pub(super) bound: String,
}

/// One line for each case: `target/verdicts.tsv`.
pub(super) fn save(cases: &[Case], reported: &[Row]) -> Result<()> {
    let mut text =
        String::from("kind\tmodel\tdriver\texpected\tverdict\treason\tbottleneck\toptions\n");
    for (case, reported) in cases.iter().zip(reported) {
        let (kind, options) = (case.kind(), case.load().join(" "));
        let Row { word, limit, bound } = reported;
        let known = [&kind, case.model, case.driver, case.expected];
        let found: [&str; 4] = [word, limit, bound, &options];
        text += &[&known[..], &found].concat().join("\t");
        text.push('\n');
    }
    let path = target_dir()?.join("verdicts.tsv");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("results of all cases: {}", path.display());
    Ok(())
}

/// Print how often each kind got each verdict.
pub(super) fn print(cases: &[Case], reported: &[Row]) {
    let mut kinds: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (case, reported) in cases.iter().zip(reported) {
        *kinds.entry(case.kind()).or_default().entry(&reported.word).or_default() += 1;
    }
    println!("\n| fault | runs | verdicts |\n|---|---|---|");
    for (kind, words) in kinds {
        let runs: usize = words.values().sum();
        let words: Vec<String> = words.iter().map(|(word, n)| format!("{n} `{word}`")).collect();
        println!("| {kind} | {runs} | {} |", words.join(", "));
    }
    println!();
}

/// Fail if a run with a fault was called VALID, or if too many without one were not.
pub(super) fn check(cases: &[Case], reported: &[Row]) -> Result<()> {
    let (mut wrong, mut other) = (Vec::new(), 0);
    let (mut clean, mut alarms, mut machine) = (0, 0, 0);
    for (case, reported) in cases.iter().zip(reported) {
        let is_valid = reported.word == "VALID";
        if !case.is_clean() {
            other += usize::from(!is_valid && reported.word != case.expected);
            if is_valid {
                wrong.push(case.name());
            }
            continue;
        }
        clean += 1;
        alarms += usize::from(!is_valid);
        machine += usize::from(OF_THE_MACHINE.contains(&reported.limit.as_str()));
    }
    let faulty = cases.len() - clean;
    println!("{faulty} faulty: {} called VALID, {other} with another wrong verdict", wrong.len());
    if clean > 0 {
        println!(
            "{clean} without a fault: {alarms} not called VALID, {machine} of them for reasons that \
             other load on this machine can cause (on an idle machine, these are wrong)"
        );
    }
    if !wrong.is_empty() {
        bail!("faulty, but called VALID: {}", wrong.join("; "));
    }
    if alarms as f64 > ALARMS_MAX * clean as f64 {
        bail!("{alarms} of {clean} runs without a fault were not called VALID");
    }
    Ok(())
}
