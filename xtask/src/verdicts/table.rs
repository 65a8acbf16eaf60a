//! What became of the cases: one line each for programs, one for each kind for people.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use super::cases::Case;
use crate::shell::target_dir;

/// The share of clean runs that may be called anything but valid.
const ALARMS_MAX: f64 = 0.02;
/// What other programs on the machine may do to the meter.
const OF_THE_MACHINE: [&str; 7] =
    ["busy", "rate", "lag", "waited", "stalled", "stolen", "throttled"];

/// What has become of a case.
pub(super) struct Told {
    pub(super) word: String,
    /// The first reason.
    pub(super) limit: String,
    /// What limited the run.
    pub(super) bound: String,
}

/// One line for each case: `target/verdicts.tsv`.
pub(super) fn save(cases: &[Case], told: &[Told]) -> Result<()> {
    let mut text =
        String::from("kind\tmodel\tdriver\tdeserves\tverdict\treason\tlimited_by\toptions\n");
    for (case, told) in cases.iter().zip(told) {
        let (kind, options) = (case.kind(), case.load().join(" "));
        let Told { word, limit, bound } = told;
        let known = [&kind, case.model, case.driver, case.deserves];
        let found: [&str; 4] = [word, limit, bound, &options];
        text += &[&known[..], &found].concat().join("\t");
        text.push('\n');
    }
    let path = target_dir()?.join("verdicts.tsv");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("each case: {}", path.display());
    Ok(())
}

/// How often each kind was called what.
pub(super) fn print(cases: &[Case], told: &[Told]) {
    let mut kinds: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for (case, told) in cases.iter().zip(told) {
        *kinds.entry(case.kind()).or_default().entry(&told.word).or_default() += 1;
    }
    println!("\n| what is done | runs | called |\n|---|---|---|");
    for (kind, words) in kinds {
        let runs: usize = words.values().sum();
        let words: Vec<String> = words.iter().map(|(word, n)| format!("{n} `{word}`")).collect();
        println!("| {kind} | {runs} | {} |", words.join(", "));
    }
    println!();
}

/// An error where a spoilt run was called valid, or too many clean ones were not.
pub(super) fn weigh(cases: &[Case], told: &[Told]) -> Result<()> {
    let (mut wrong, mut other) = (Vec::new(), 0);
    let (mut clean, mut alarms, mut machine) = (0, 0, 0);
    for (case, told) in cases.iter().zip(told) {
        let is_valid = told.word == "VALID";
        if !case.is_clean() {
            other += usize::from(!is_valid && told.word != case.deserves);
            if is_valid {
                wrong.push(case.name());
            }
            continue;
        }
        clean += 1;
        alarms += usize::from(!is_valid);
        machine += usize::from(OF_THE_MACHINE.contains(&told.limit.as_str()));
    }
    let spoilt = cases.len() - clean;
    println!("{spoilt} spoilt: {} called VALID, {other} by another word than theirs", wrong.len());
    if clean > 0 {
        println!(
            "{clean} clean: {alarms} called something else than VALID, {machine} of them because \
             others kept this machine busy (if none did, that is wrong)"
        );
    }
    if !wrong.is_empty() {
        bail!("spoilt, and called VALID: {}", wrong.join("; "));
    }
    if alarms as f64 > ALARMS_MAX * clean as f64 {
        bail!("{alarms} of {clean} clean runs were called something else than VALID");
    }
    Ok(())
}
