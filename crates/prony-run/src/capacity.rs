//! Runs the trials of a search for a capacity, on the network or in virtual time.

use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Stop};
use prony_plan::schedule::RatePlan;
use prony_plan::threshold::Threshold;
use prony_report::words;
use prony_stats::capacity::{Answer, Observed, Search, Settings, Step, Trial, refusal};
use prony_stats::summary::{Summary, Verdict};

use crate::error::Error;

/// What carries out one trial, and returns its summary and how long it took.
pub type Run<'a> = dyn FnMut(&Plan) -> Result<(Summary, Span), Error> + 'a;

/// Searches for the capacity of the plan's target. `show` is called before each trial. Returns what
/// is known, and the error that has ended the search, if one has.
///
/// # Errors
/// The first trial cannot be run.
pub fn search(
    plan: &Plan,
    settings: Settings,
    run: &mut Run<'_>,
    show: &mut dyn FnMut(&Search, &Trial),
) -> Result<(Answer, Option<Error>), Error> {
    let thresholds = settings.thresholds.clone();
    let mut search = Search::new(settings);
    let mut error = None;
    loop {
        let trial = match search.step() {
            Step::Done(answer) => return Ok((*answer, error)),
            Step::Run(trial) => trial,
        };
        show(&search, &trial);
        let (summary, took) = match run(&plan_of(plan, &trial)) {
            Ok(ran) => ran,
            Err(why) if trial.number == 0 => return Err(why),
            Err(why) => {
                error = Some(why);
                search.interrupt();
                continue;
            }
        };
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

#[cfg(test)]
mod tests {
    use prony_server::serve::{Latency, ServerBehavior};
    use prony_stats::capacity::{By, Finding};

    use super::*;
    use crate::plan_file;
    use crate::run::{Provenance, simulate};

    /// Searches the capacity of a simulated target, until this trial cannot be run.
    fn searched(fails: u64) -> Result<(Answer, Option<Error>), Error> {
        let plan = plan_file::tests::plan("url = 'http://h/'\nrate = 1\nduration = '1s'\nseed = 3");
        let settings = Settings {
            by: By::Rate,
            most: 1e6,
            thresholds: vec!["p99 < 50ms".parse().expect("a threshold")],
            from: 100.0,
            budget: Span::from_secs(300),
            precision: 0.05,
            beyond: None,
            seed: 3,
        };
        let latency = Latency::Exponential(Span::from_millis(1));
        let workers = std::num::NonZeroU32::new(1);
        let server = ServerBehavior { latency, workers, ..ServerBehavior::default() };
        let mut trials = 0;
        let mut run = |trial: &Plan| {
            trials += 1;
            if trials == fails {
                return Err(Error::Machine("a worker was lost".into()));
            }
            let summary = simulate(trial, 1, trial.seed, &server, &[], Provenance::default());
            Ok((summary, trial.warmup + trial.stop.duration.unwrap_or_default()))
        };
        search(&plan, settings, &mut run, &mut |_, _| {})
    }

    #[test]
    fn a_trial_that_cannot_be_run_keeps_what_is_known() {
        let why = searched(1).expect_err("nothing is known").to_string();
        assert_eq!(why, "a worker was lost");
        for fails in [2, 5, 9] {
            let (answer, error) = searched(fails).expect("something is known");
            assert_eq!(error.map(|e| e.to_string()).as_deref(), Some("a worker was lost"));
            let points = answer.points.len() as u64;
            assert!(0 < points && points < fails, "{points} of {fails}");
            assert!(matches!(answer.finding, Finding::Interrupted { .. }), "{:?}", answer.finding);
        }
    }
}
