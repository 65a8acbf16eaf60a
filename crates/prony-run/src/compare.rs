//! Comparisons: blocks of load in turn until enough is known, and groups of saved runs.

use prony_core::comparison::{Block, Comparison, Design, Measured, SavedRun, compare_saved};
use prony_core::plan::{Load, Plan, Shard};
use prony_core::summary::{Judgment, Summary, Verdict};
use prony_core::target::Endpoint;
use prony_report::comparison::{self as report, label};
use prony_report::{text, units, words};
use serde_json::Value;

use crate::error::Error;

/// The largest share of a target's blocks that may be invalid for a reason that distorts its
/// figures.
const INVALID_MAX: f64 = 0.1;
/// How many differences of two plans are named.
const DIFFERENCES_SHOWN: usize = 3;

/// What ran in a block.
#[derive(Debug)]
pub struct Ran {
    /// The run.
    pub summary: Summary,
    /// CPU time of the server's processes during the block, in nanoseconds.
    pub cpu_ns: Option<f64>,
}

/// The state of a comparison, for progress.
#[derive(Debug)]
pub struct Done<'a> {
    /// The block that has just ended.
    pub block: Block,
    /// Its number, from 1.
    pub number: u32,
    /// The most blocks that there can be.
    pub most: u32,
    /// What ran.
    pub summary: &'a Summary,
}

/// Runs blocks of load until the design is satisfied, `is_stopped` says so, or one fails. Returns
/// what is known, and the error. `run` carries out a block; `None`: it was interrupted.
pub fn live(
    design: &Design,
    names: &[String],
    is_stopped: &dyn Fn() -> bool,
    run: &mut dyn FnMut(Block) -> Result<Option<Ran>, Error>,
    progress: &mut dyn FnMut(&Done<'_>),
) -> (report::Comparison, Option<Error>) {
    let mut comparison = Comparison::new(design.clone());
    let mut found = report::Comparison::new(names, design);
    let mut verdicts = vec![Verdicts::default(); names.len()];
    let (mut number, mut error) = (0, None);
    while let Some(block) = comparison.next_block() {
        if is_stopped() {
            break;
        }
        let ran = match run(block) {
            Ok(Some(ran)) => ran,
            Ok(None) => break,
            Err(e) => {
                error = Some(e);
                break;
            }
        };
        // A block that the user has cut short is none.
        if is_stopped() {
            break;
        }
        number += 1;
        let judgment = ran.summary.verdict();
        let measured = Measured::of(&ran.summary.main, ran.cpu_ns);
        let line = report::Block {
            round: block.round + 1,
            seed: block.seed,
            verdict: judgment.verdict.word(),
            ..report::Block::default()
        };
        found.add(block.target, line, &measured);
        comparison.record(block, &measured);
        verdicts[block.target as usize].add(&judgment, &ran.summary);
        found.version.clone_from(&ran.summary.run.version);
        found.host.clone_from(&ran.summary.run.host);
        let most = design.rounds_max() * design.targets;
        progress(&Done { block, number, most, summary: &ran.summary });
    }
    found.interrupted = is_stopped();
    for (target, verdicts) in verdicts.iter().enumerate() {
        verdicts.judge(&label(target as u32), &mut found);
    }
    found.answer(design, &comparison.answer());
    (found, error)
}

/// The verdicts of a target's blocks.
#[derive(Clone, Debug, Default)]
struct Verdicts {
    blocks: u32,
    /// Those whose figures describe something else than the target under this load.
    distorted: u32,
    drifting: u32,
    /// The first reason.
    reason: Option<String>,
}

impl Verdicts {
    fn add(&mut self, judgment: &Judgment, summary: &Summary) {
        self.blocks += 1;
        match judgment.verdict {
            // Few blocks are stationary where the target drifts; the other half of the pair drifts
            // with it. A block needs no sample size of its own.
            Verdict::Valid | Verdict::TooShort | Verdict::Interrupted => return,
            Verdict::NotStationary => {
                self.drifting += 1;
                return;
            }
            Verdict::ClientLimited | Verdict::Partial | Verdict::TargetFailed => {}
        }
        self.distorted += 1;
        let why = judgment.reasons.first().map(|r| words::reason(r, summary));
        let word = judgment.verdict.word();
        self.reason.get_or_insert_with(|| format!("{word}: {}", why.unwrap_or_default()));
    }

    fn judge(&self, label: &str, found: &mut report::Comparison) {
        let of = |n: u32| {
            let blocks = units::counted(u64::from(self.blocks), "block", "blocks");
            format!("{} of {blocks} of {label}", units::count(n.into()))
        };
        let reason = self.reason.as_deref().unwrap_or_default();
        let share = f64::from(self.distorted) / f64::from(self.blocks.max(1));
        if share > INVALID_MAX {
            found
                .doubts
                .push(format!("{} are not valid. The first: {reason}.", of(self.distorted)));
        } else if self.distorted > 0 {
            found.notes.push(format!(
                "{} are not valid, few enough to be compared. The first: {reason}.",
                of(self.distorted)
            ));
        }
        if self.drifting * 10 > self.blocks {
            found.notes.push(format!(
                "{} were not stationary: the target drifts. Blocks of one round are compared with \
                 each other, so this is not a difference.",
                of(self.drifting)
            ));
        }
    }
}

/// Saved runs with their names, by group; the first is A.
pub type Groups = [Vec<(String, Summary)>];

/// Compares groups of saved runs.
pub fn saved(design: &Design, names: &[String], groups: &Groups) -> report::Comparison {
    let mut found = report::Comparison::new(names, design);
    found.saved = true;
    for (target, group) in groups.iter().enumerate() {
        for (_, summary) in group {
            let line = report::Block {
                seed: summary.plan.seed,
                verdict: summary.verdict().verdict.word(),
                ..report::Block::default()
            };
            found.add(target as u32, line, &Measured::of(&summary.main, None));
            found.version.clone_from(&summary.run.version);
        }
    }
    let of = |group: &Vec<(String, Summary)>| {
        group.iter().map(|(_, summary)| SavedRun::of(summary, design)).collect()
    };
    let runs: Vec<Vec<SavedRun>> = groups.iter().map(of).collect();
    found.answer(design, &compare_saved(design, &runs));
    let single = groups.iter().filter(|group| group.len() == 1).count();
    found.notes.push(if single == groups.len() {
        "Each side has one run: only the variance within the runs is known. How much the figures \
         differ from run to run, and from start to start of the server, is not part of the answer."
            .into()
    } else if single > 0 {
        "A side with one run is taken to vary from run to run as much as the other.".into()
    } else {
        "The variance between the runs of each side is part of the answer.".to_owned()
    });
    found
}

/// Why these saved runs should not be compared, each as a sentence.
pub fn doubts(groups: &Groups) -> Vec<String> {
    let mut doubts = Vec::new();
    let runs = || groups.iter().flatten();
    for (name, summary) in runs() {
        let judgment = summary.verdict();
        if !summary.has_what_was_asked(&judgment) {
            let reason = judgment.reasons.first().map(|r| words::reason(r, summary));
            let word = judgment.verdict.word();
            doubts.push(format!("{name} is {word}: {}", reason.unwrap_or_default()));
        }
    }
    let Some((first_name, first)) = runs().next() else { return doubts };
    let plan = comparable(&first.plan);
    for (name, summary) in runs().skip(1) {
        let other = comparable(&summary.plan);
        if other != plan {
            let differences = if other.load == plan.load {
                differences(&plan, &other)
            } else {
                let [load, other] = [&first.plan, &summary.plan].map(text::load);
                format!(": {load}; and {other}")
            };
            doubts.push(format!("{first_name} and {name} have different plans{differences}"));
        }
        if summary.run.host != first.run.host {
            doubts.push(format!(
                "{first_name} and {name} ran on different hosts ('{}' and '{}')",
                first.run.host, summary.run.host
            ));
        }
    }
    doubts
}

/// What differs between two plans: the first few fields of the JSON report, with what they have if
/// that is a number.
fn differences(a: &Plan, b: &Plan) -> String {
    let [Ok(a), Ok(b)] = [a, b].map(serde_json::to_value) else { return String::new() };
    let mut found = Vec::new();
    differ("plan", &a, &b, &mut found);
    let more = found.len().saturating_sub(DIFFERENCES_SHOWN);
    found.truncate(DIFFERENCES_SHOWN);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    if found.is_empty() { String::new() } else { format!(" ({})", found.join("; ")) }
}

fn differ(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        _ if a == b => {}
        (Value::Object(x), Value::Object(y)) => {
            for (key, value) in x {
                differ(&format!("{path}.{key}"), value, y.get(key).unwrap_or(&Value::Null), found);
            }
            for (key, value) in y.iter().filter(|(key, _)| !x.contains_key(*key)) {
                differ(&format!("{path}.{key}"), &Value::Null, value, found);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                differ(&format!("{path}[{i}]"), x, y, found);
            }
        }
        // Texts may be secrets.
        (Value::Number(x), Value::Number(y)) => found.push(format!("{path}: {x} and {y}")),
        _ => found.push(path.to_owned()),
    }
}

/// What two plans must have in common: everything but the address of the target, the seed, the
/// thresholds and the limits of the machine.
fn comparable(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for endpoint in &mut plan.endpoints {
        *endpoint = Endpoint::Unix { path: String::new() };
    }
    let mut calls = plan.calls.to_vec();
    for call in &mut calls {
        call.authority = "".into();
    }
    plan.calls = calls.into();
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = 0;
    }
    plan.thresholds.clear();
    plan.tls = None;
    plan.shard = Shard::WHOLE;
    Plan { seed: 0, ..plan }
}

#[cfg(test)]
mod tests {
    use prony_core::comparison::{Figure, MARGIN, Rounds};
    use prony_core::fault::Fault;
    use prony_core::record::Tally;
    use prony_core::serve::{Latency, ServerBehavior};
    use prony_core::summary::{RunInfo, WorkerStats};
    use prony_core::units::{Nanos, Span};

    use super::*;
    use crate::plan_file;
    use crate::run::{Provenance, simulate};

    fn design(rounds: Rounds) -> Design {
        Design {
            targets: 2,
            figures: Figure::USUAL.to_vec(),
            rounds,
            margin: MARGIN,
            limits: Vec::new(),
            seed: 3,
        }
    }

    fn names() -> Vec<String> {
        vec!["old".into(), "new".into()]
    }

    const LOAD: &str = "url = 'http://h/'\nrate = 500\narrivals = 'poisson'\nduration = '2s'";

    fn run(seed: u64, ms: u64, plan: &str) -> Summary {
        let plan = Plan { seed, ..plan_file::tests::plan(plan) };
        let latency = Latency::Exponential(Span::from_millis(ms));
        let server = ServerBehavior { latency, ..ServerBehavior::default() };
        let mut summary = simulate(&plan, 1, seed * 7 + ms, &server, &[], Provenance::default());
        summary.run.host = "here".into();
        summary
    }

    #[test]
    fn blocks_run_until_the_user_stops() {
        let mut blocks = 0;
        let stop = std::cell::Cell::new(false);
        let mut one = |block: Block| {
            blocks += 1;
            stop.set(blocks == 6);
            Ok(Some(Ran { summary: run(block.seed % 1_000, 2, LOAD), cpu_ns: None }))
        };
        let mut seen = Vec::new();
        let mut progress = |done: &Done<'_>| seen.push((done.number, done.most));
        let is_stopped = || stop.get();
        let (found, error) =
            live(&design(Rounds::UntilDecided), &names(), &is_stopped, &mut one, &mut progress);
        assert!(error.is_none() && found.interrupted);
        assert_eq!(found.rounds, 2, "the sixth block was cut short");
        assert_eq!(seen, (1..=5).map(|n| (n, 108)).collect::<Vec<_>>());
        assert_eq!(found.blocks.len(), 5);
    }

    #[test]
    fn an_error_keeps_what_is_known() {
        let mut left = 8;
        let mut one = |block: Block| {
            left -= 1;
            if left == 0 {
                return Err(Error::Server("gone".into()));
            }
            Ok(Some(Ran { summary: run(block.seed % 1_000, 2, LOAD), cpu_ns: Some(5e6) }))
        };
        let (found, error) =
            live(&design(Rounds::Exactly(9)), &names(), &|| false, &mut one, &mut |_| {});
        assert_eq!(error.map(|e| e.to_string()).as_deref(), Some("gone"));
        assert_eq!((found.rounds, found.interrupted), (3, false));
    }

    #[test]
    fn blocks_without_replies_make_the_comparison_invalid() {
        let mut one = |_: Block| {
            let mut tally = Tally { started: 100, sent: 100, failed: 100, ..Tally::default() };
            tally.end = Nanos::ZERO + Span::from_secs(1);
            tally.faults[Fault::ConnectRefused as usize] = 100;
            let parts = vec![(None, tally, WorkerStats::default())];
            let plan = plan_file::tests::plan(LOAD);
            let summary = Summary::from_parts(plan, RunInfo::default(), parts);
            Ok(Some(Ran { summary, cpu_ns: None }))
        };
        let (found, _) =
            live(&design(Rounds::Exactly(3)), &names(), &|| false, &mut one, &mut |_| {});
        assert_eq!(found.doubts.len(), 2, "{:?}", found.doubts);
        assert!(found.doubts[0].starts_with("3 of 3 blocks of A are not valid. The first: "));
    }

    fn group(name: &str, runs: &[(u64, u64)]) -> Vec<(String, Summary)> {
        let one = |&(seed, ms): &(u64, u64)| (format!("{name}{seed}"), run(seed, ms, LOAD));
        runs.iter().map(one).collect()
    }

    #[test]
    fn groups_of_saved_runs_are_compared_by_their_variance() {
        let all = |ms| (1..=6).map(|seed| (seed + ms * 10, ms)).collect::<Vec<_>>();
        let groups = [group("a", &all(2)), group("b", &all(4))];
        assert_eq!(doubts(&groups), [] as [String; 0]);
        let found = saved(&design(Rounds::Exactly(1)), &names(), &groups);
        let p50 = found.changes.iter().find(|c| c.figure == "p50").expect("a p50");
        assert_eq!(p50.outcome, "higher", "{p50:?}");
        assert!(found.notes.iter().any(|n| n.starts_with("The variance between the runs")));
        assert!(found.distributions[0].quantiles.len() > 10);
        assert_eq!(found.targets[1].blocks, 6);
    }

    #[test]
    fn single_runs_know_only_their_own_variance() {
        let load = "url = 'http://h/'\nrate = 1000\narrivals = 'poisson'\nduration = '30s'";
        let groups = [2, 3].map(|ms| vec![(format!("{ms}"), run(ms, ms, load))]);
        let found = saved(&design(Rounds::Exactly(1)), &names(), &groups);
        let p50 = found.changes.iter().find(|c| c.figure == "p50").expect("a p50");
        assert_eq!(p50.outcome, "higher", "{p50:?}");
        assert!(p50.ratio_lo < Some(1.49) && Some(1.46) < p50.ratio_hi, "{p50:?}");
        assert!(found.notes[0].starts_with("Each side has one run"), "{:?}", found.notes);
    }

    #[test]
    fn runs_that_do_not_belong_together_are_named() {
        let mut other = run(5, 2, &LOAD.replace("500", "400"));
        other.run.host = "there".into();
        let groups = [group("a", &[(1, 2)]), vec![("b".to_owned(), other)]];
        let found = doubts(&groups);
        assert!(found[0].starts_with("a1 and b have different plans: open loop: "), "{found:?}");
        assert!(found[0].contains("500/s") && found[0].contains("400/s"), "{found:?}");
        assert_eq!(found[1..], ["a1 and b ran on different hosts ('here' and 'there')"]);
        let longer = run(5, 2, &LOAD.replace("http://h/", "http://h/longer"));
        let groups = [group("a", &[(1, 2)]), vec![("b".to_owned(), longer)]];
        assert_eq!(doubts(&groups), ["a1 and b have different plans (plan.requests[0].path)"]);
        // The address of the target and the seed may differ.
        let moved = run(9, 2, &LOAD.replace("http://h/", "http://other:81/"));
        let groups = [group("a", &[(1, 2)]), vec![("b".to_owned(), moved)]];
        assert_eq!(doubts(&groups), [] as [String; 0]);
    }
}
