//! Loads that stop when their goals are reached: the report must reach the goals too.

use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Stop};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, ServerBehavior};
use prony_stats::summary::confidence::{Goal, Watch};
use prony_tally::record::Tally;

use crate::plans::{ms, open};

/// A load can go on for this time after the last check of its goals.
const AFTER_LAST_CHECK: Span = Span::from_millis(300);

/// A load of 600 requests a second, with exponential service times of 1 ms.
fn run(connections: u32, seed: u64, length: Span) -> Tally {
    let Plan { load, .. } = open(600.0, Arrivals::Poisson, 1);
    let Load::Open { rate, arrivals, .. } = load else { panic!("an open loop") };
    let load = Load::Open { rate, arrivals, connections };
    let stop = Stop { duration: Some(length), ..Stop::default() };
    let plan = Plan { load, stop, seed, ..open(600.0, Arrivals::Poisson, 1) };
    let behavior =
        ServerBehavior { latency: Latency::Exponential(ms(1)), ..ServerBehavior::default() };
    prony_sim::simulate(&plan, 1, seed, &behavior, &prony_sim::Extras::default()).remove(0).1
}

/// With one check and no margin, the interval in the report would be wider than the goal in one of
/// four of these runs.
#[test]
fn reports_reach_the_goals_that_stopped_the_load() {
    let (mut ended, mut missed) = (0, Vec::new());
    for seed in 0..30 {
        for (connections, goals) in
            [(1_000, &["mean +- 4%", "p90 +- 8%"][..]), (1, &["mean +- 12%", "p90 +- 15%"][..])]
        {
            let long = run(connections, seed, Span::from_secs(30));
            for text in goals {
                let goal: Goal = text.parse().expect("a goal");
                let Some(end) = Watch::ends(&[goal], &long).next() else { continue };
                ended += 1;
                let reported = run(connections, seed, end + AFTER_LAST_CHECK);
                if !goal.is_reached(&reported) {
                    missed.push((seed, *text, goal.reach(&reported)));
                }
            }
        }
    }
    assert!(ended > 100, "{ended}");
    assert!(missed.len() * 25 <= ended, "{} of {ended}: {missed:?}", missed.len());
}
