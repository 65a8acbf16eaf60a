//! Runs the trials of a search for a capacity, on the network or in virtual time.

use prony_core::capacity::{Answer, Observed, Search, Settings, Step, Trial, refusal};
use prony_core::plan::{Load, Plan, Stop};
use prony_core::schedule::RatePlan;
use prony_core::summary::{Summary, Verdict};
use prony_core::threshold::Threshold;
use prony_core::units::Span;
use prony_report::words;

use crate::error::Error;

/// What carries out one trial, and returns its summary and how long it took.
pub type Run<'a> = dyn FnMut(&Plan) -> Result<(Summary, Span), Error> + 'a;

/// Searches for the capacity of the plan's target. `show` is called before each trial.
///
/// # Errors
/// A trial cannot be run.
pub fn search(
    plan: &Plan,
    settings: Settings,
    run: &mut Run<'_>,
    show: &mut dyn FnMut(&Search, &Trial),
) -> Result<Answer, Error> {
    let thresholds = settings.thresholds.clone();
    let mut search = Search::new(settings);
    loop {
        let trial = match search.step() {
            Step::Done(answer) => return Ok(*answer),
            Step::Run(trial) => trial,
        };
        show(&search, &trial);
        let (summary, took) = run(&plan_of(plan, &trial))?;
        let mut observed = Observed::of(&summary, &thresholds, trial);
        let judgment = summary.verdict();
        if observed.limit.is_some() || judgment.verdict == Verdict::ClientLimited {
            let reason = judgment.reasons.first();
            observed.point.remark = reason.map(|reason| words::reason(reason, &summary));
        }
        search.feed(observed, took);
    }
}

/// The plan of a trial: an open loop at its rate, or a closed loop with its connections, with a
/// seed of its own.
fn plan_of(plan: &Plan, trial: &Trial) -> Plan {
    let load = match &plan.load {
        Load::Open { arrivals, connections, .. } => Load::Open {
            rate: RatePlan::constant(trial.rate),
            arrivals: arrivals.clone(),
            connections: *connections,
        },
        Load::Closed { think, .. } => {
            Load::Closed { connections: trial.rate as u32, think: *think }
        }
    };
    Plan {
        load,
        stop: Stop { duration: Some(trial.length), ..Stop::default() },
        warmup: trial.warmup,
        seed: plan.seed.wrapping_add(trial.number),
        thresholds: Vec::new(),
        ..plan.clone()
    }
}

/// Checks that the rate can influence each threshold.
///
/// # Errors
/// The first one that it cannot, in one sentence.
pub fn check_thresholds(thresholds: &[Threshold]) -> Result<(), Error> {
    if thresholds.is_empty() {
        let advice = "the capacity is the highest rate that keeps a promise, such as 'p99 < 200ms'";
        return Err(Error::Needs("prony capacity", "--threshold", advice));
    }
    match thresholds.iter().find_map(|t| Some((t, refusal(t)?))) {
        None => Ok(()),
        Some((threshold, why)) => Err(Error::Argument(format!("threshold '{threshold}': {why}"))),
    }
}
