//! Comparisons: blocks of load in turn until enough is known, and groups of saved runs.

mod blocks;

use blocks::Blocks;
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Shard};
use prony_plan::target::Endpoint;
use prony_report::comparison as report;
use prony_report::{text, words};
use prony_stats::comparison::{
    Answer, Block, Comparison, Design, Measured, SavedRun, compare_saved,
};
use prony_stats::summary::{Summary, Verdict};
use serde_json::Value;

use crate::error::Error;

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
    /// How many of the blocks so far the meter disturbed.
    pub disturbed: u32,
    /// What is known so far.
    pub known: &'a Answer,
    /// What to do, once, if many blocks are disturbed.
    pub advice: Option<String>,
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
    let mut blocks = Blocks::new(names.len(), ["block", "blocks"]);
    let (mut known, mut error) = (comparison.so_far(), None);
    let mut length = Span::ZERO;
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
        let judgment = ran.summary.verdict();
        let measured = Measured::of_run(&ran.summary, ran.cpu_ns);
        let line = report::Block {
            round: block.round + 1,
            seed: block.seed,
            verdict: judgment.verdict.word(),
            ..report::Block::default()
        };
        found.add(block.target, line, &measured);
        comparison.record(block, &measured);
        let is_disturbed = measured.certain.is_some();
        blocks.add(block.target, &judgment, is_disturbed, &ran.summary);
        length += ran.summary.workers.iter().map(|w| w.wall).max().unwrap_or_default();
        let rounds = f64::from(blocks.number()) / f64::from(design.targets);
        found.round_length = Some(Span::from_secs_f64(length.as_secs_f64() / rounds));
        found.version.clone_from(&ran.summary.run.version);
        found.host.clone_from(&ran.summary.run.host);
        if comparison.rounds() > known.rounds {
            known = comparison.so_far();
        }
        progress(&Done {
            block,
            number: blocks.number(),
            most: design.rounds_max() * design.targets,
            summary: &ran.summary,
            disturbed: blocks.disturbed(),
            known: &known,
            advice: blocks.advice(),
        });
    }
    found.interrupted = is_stopped();
    found.futile = !found.interrupted && error.is_none() && comparison.is_futile();
    let answer = comparison.answer();
    found.answer(design, &answer);
    blocks.judge(&answer, &mut found);
    (found, error)
}

/// Saved runs with their names, by group; the first is A.
pub type Groups = [Vec<(String, Summary)>];

/// Compares groups of saved runs.
pub fn saved(design: &Design, names: &[String], groups: &Groups) -> report::Comparison {
    let mut found = report::Comparison::new(names, design);
    found.saved = true;
    let mut blocks = Blocks::new(names.len(), ["run", "runs"]);
    for (target, group) in groups.iter().enumerate() {
        for (_, summary) in group {
            let judgment = summary.verdict();
            let line = report::Block {
                seed: summary.plan.seed,
                verdict: judgment.verdict.word(),
                ..report::Block::default()
            };
            let measured = Measured::of_run(summary, None);
            found.add(target as u32, line, &measured);
            blocks.add(target as u32, &judgment, measured.certain.is_some(), summary);
            found.version.clone_from(&summary.run.version);
        }
    }
    let of = |group: &Vec<(String, Summary)>| {
        group.iter().map(|(_, summary)| SavedRun::of(summary, design)).collect()
    };
    let runs: Vec<Vec<SavedRun>> = groups.iter().map(of).collect();
    let answer = compare_saved(design, &runs);
    found.answer(design, &answer);
    blocks.judge(&answer, &mut found);
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

/// Why these saved runs should not be compared, each as a sentence. What the meter may have added
/// to their figures counts in the comparison itself, and so does how few samples they have.
pub fn doubts(groups: &Groups) -> Vec<String> {
    let mut doubts = Vec::new();
    let runs = || groups.iter().flatten();
    for (name, summary) in runs() {
        let judgment = summary.verdict();
        let counts_with_its_errors = matches!(
            judgment.verdict,
            Verdict::ClientLimited | Verdict::Partial | Verdict::TooShort
        );
        if !counts_with_its_errors && !summary.has_what_was_asked(&judgment) {
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
    use prony_base::fault::Fault;
    use prony_base::meter::WorkerStats;
    use prony_base::units::Nanos;
    use prony_server::serve::{Latency, ServerBehavior};
    use prony_stats::comparison::{Figure, Held, MARGIN, Rounds};
    use prony_stats::summary::RunInfo;
    use prony_tally::record::hist::Hist;
    use prony_tally::record::{Tally, TimeLowerBound};

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
            live(&design(Rounds::UntilDecided(54)), &names(), &is_stopped, &mut one, &mut progress);
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

    /// The same with a saturated meter that can have made times longer by a twentieth.
    fn disturbed(seed: u64, ms: u64) -> Summary {
        let mut summary = run(seed, ms, LOAD);
        disturb(&mut summary);
        summary
    }

    fn disturb(summary: &mut Summary) {
        let worker = &mut summary.workers[0];
        (worker.cpu_user, worker.wall) = (Span::from_secs(2), Span::from_secs(2));
        let mut times = Hist::new();
        for (time, n) in summary.main.times.response.recorded() {
            times.record_n(time - time / 20, n);
        }
        let added_max = Span::from_millis(1);
        summary.main.without_meter = Some(Box::new(TimeLowerBound { times, added_max }));
    }

    /// A comparison of which every block is disturbed like this, its progress, and what it advises.
    fn all_disturbed_by(
        b_ms: u64,
        limits: &[&str],
        disturb: fn(&mut Summary),
    ) -> (report::Comparison, Vec<(u32, u32)>, String) {
        let limits = limits.iter().map(|limit| limit.parse().expect("a limit")).collect();
        let figures = vec![Figure::Mean];
        let design = Design { figures, limits, ..design(Rounds::UntilDecided(54)) };
        let mut one = |block: Block| {
            let ms = if block.target == 0 { 4 } else { b_ms };
            let mut summary = disturbed(block.seed % 1_000, ms);
            disturb(&mut summary);
            Ok(Some(Ran { summary, cpu_ns: None }))
        };
        let (mut seen, mut advice) = (Vec::new(), Vec::new());
        let mut progress = |done: &Done<'_>| {
            seen.push((done.disturbed, done.number));
            advice.extend(done.advice.clone());
        };
        let design = design.with_figures_of_limits();
        let (found, _) = live(&design, &names(), &|| false, &mut one, &mut progress);
        assert_eq!(advice.len(), 1, "{advice:?}");
        (found, seen, advice.remove(0))
    }

    fn all_disturbed(b_ms: u64, limits: &[&str]) -> (report::Comparison, Vec<(u32, u32)>, String) {
        all_disturbed_by(b_ms, limits, |_| ())
    }

    /// A request that is sent after the end of the block has its whole time; one that is not sent
    /// leaves less load than was asked for.
    #[test]
    fn a_load_that_was_sent_late_was_offered() {
        let (late, ..) = all_disturbed_by(8, &[], |run| run.main.sent_late = 100);
        assert_eq!(late.changes[0].outcome, "higher", "{late:?}");
        let (missing, _, advice) = all_disturbed_by(8, &[], |run| run.main.overdue = 100);
        assert_eq!(missing.changes[0].outcome, "undecided", "{missing:?}");
        assert_eq!((missing.rounds, missing.futile), (10, true));
        let doubt = "mean is not decided because of the load generator: 20 of 20 blocks are";
        assert!(missing.doubts[0].starts_with(doubt), "{:?}", missing.doubts);
        assert!(missing.changes[0].sentence.contains("nothing is certain"), "{missing:?}");
        assert!(advice.contains("blocks are disturbed"), "{advice}");
    }

    #[test]
    fn disturbed_blocks_still_find_a_large_change() {
        let (found, seen, advice) = all_disturbed(8, &[]);
        assert_eq!(found.changes[0].outcome, "higher", "{found:?}");
        assert_eq!((found.doubts.len(), found.rounds, found.disturbed), (0, 6, 12), "{found:?}");
        assert_eq!(seen, (1..=12).map(|n| (n, n)).collect::<Vec<_>>());
        assert!(advice.starts_with("6 of 6 blocks are disturbed. The last: "), "{advice}");
        assert!(
            advice.contains(". End other programs on this machine, or run prony on"),
            "{advice}"
        );
        let noted = "6 of 6 blocks of A are disturbed. They count with what the load generator may";
        assert!(found.notes[0].starts_with(noted), "{:?}", found.notes);
    }

    /// The sixth block is the first to say so; an answer is missing only where none is certain.
    #[test]
    fn what_disturbed_blocks_leave_undecided_is_named() {
        let (found, ..) = all_disturbed(4, &[]);
        assert!(found.futile || found.rounds == 54, "{found:?}");
        let (limited, ..) = all_disturbed(8, &["mean > +20%", "mean > +92%"]);
        let of: Vec<&str> = limited.limits.iter().map(|l| l.outcome).collect();
        assert_eq!(of[0], "fails", "{limited:?}");
        assert!(limited.doubts.is_empty(), "what is certain is the answer: {limited:?}");
        let (undecided, ..) = all_disturbed(8, &["mean > +95%"]);
        assert_eq!(undecided.worst_limit(), Some(Held::Unknown), "{undecided:?}");
        assert!(undecided.rounds < 54, "{}", undecided.rounds);
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

    /// A meter that was disturbed takes away only what it may have added.
    #[test]
    fn saved_runs_count_with_what_the_meter_may_have_added() {
        let all = |ms, disturb: bool| {
            let one = |seed: u64| {
                let seed = seed + ms * 10;
                let run = if disturb { disturbed(seed, ms) } else { run(seed, ms, LOAD) };
                (format!("{ms}-{seed}"), run)
            };
            (1..=6).map(one).collect::<Vec<_>>()
        };
        let of = |groups: &Groups, figure: &str| {
            assert_eq!(doubts(groups), [] as [String; 0]);
            let found = saved(&design(Rounds::Exactly(1)), &names(), groups);
            let change = found.changes.iter().find(|c| c.figure == figure).expect(figure).clone();
            (change, found)
        };
        // Twice as long is more than the twentieth that may have been added.
        let (mean, found) = of(&[all(4, true), all(8, true)], "mean");
        assert_eq!((mean.outcome, mean.due_to_meter), ("higher", false), "{mean:?}");
        assert_eq!((found.disturbed, found.doubts.len()), (12, 0), "{found:?}");
        assert!(found.notes.iter().any(|n| n.starts_with("6 of 6 runs of A are disturbed")));
        let (exact, _) = of(&[all(4, false), all(8, false)], "mean");
        let half = |change: &report::Change| change.ratio_hi.unwrap() / change.ratio_lo.unwrap();
        assert!(half(&mean) > half(&exact) * 1.05_f64.powi(2) * 0.99, "{mean:?} {exact:?}");
        // A meter that is disturbed only by B is no difference.
        let (same, found) = of(&[all(4, false), all(4, true)], "mean");
        assert_eq!(same.outcome, "undecided", "{same:?}");
        assert!(same.ratio_lo < Some(1.0 - 1.0 / 20.0 + 0.03), "{same:?}");
        assert!(
            found.doubts.is_empty() || found.doubts[0].contains("because of the load generator")
        );
        // Of single runs, too.
        let long = LOAD.replace("'2s'", "'30s'");
        let one = |ms, seed| {
            let mut run = run(seed, ms, &long);
            disturb(&mut run);
            vec![(format!("{ms}"), run)]
        };
        let (p50, _) = of(&[one(4, 1), one(8, 2)], "p50");
        assert_eq!(p50.outcome, "higher", "{p50:?}");
        let (near, found) = of(&[one(100, 1), one(104, 2)], "p50");
        assert_eq!(near.outcome, "undecided", "{near:?} {:?}", found.doubts);
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
