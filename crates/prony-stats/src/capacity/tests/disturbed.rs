//! Searches whose trials the host spoils, or whose budget ends early.

use super::*;

/// A host that is busy for a while: its trials are repeated, and the search ends with a number.
#[test]
fn noise_of_the_host_is_waited_out() {
    let threshold: Threshold = "p99 < 46.05ms".parse().expect("a threshold");
    let searched = |is_busy: &dyn Fn(&Trial) -> bool| {
        let mut world = World { target: Target::Servers(1), seed: 1, clock: 0.0, broken: false };
        let mut search = Search::new(settings("p99 < 46.05ms", 1));
        loop {
            match search.step() {
                Step::Done(answer) => return *answer,
                Step::Run(trial) => {
                    let mut seen = observed(&mut world.run(trial), trial, &threshold);
                    seen.is_host_busy = is_busy(&trial);
                    seen.limit = seen.is_host_busy.then_some(Limit::Meter);
                    search.feed(seen, trial.warmup + trial.length);
                }
            }
        }
    };
    // At first, and at one of four trials later.
    let answer = searched(&|trial| trial.number < 20 || trial.number % 4 == 1);
    let Finding::Capacity { interval, .. } = answer.finding else {
        panic!("{:?}", answer.finding);
    };
    assert!(interval.lo < 900.0 && 900.0 < interval.hi, "{interval:?}");
    // All the time: it ends after a share of the budget, without a number.
    let answer = searched(&|_| true);
    assert!(matches!(answer.finding, Finding::AtLeast { rate: None, .. }), "{:?}", answer.finding);
    assert!((80.0..150.0).contains(&answer.seconds), "{}", answer.seconds);
    // Above a rate, whatever the host does: that is the limit, and found soon.
    let answer = searched(&|trial| trial.rate > 500.0);
    let Finding::AtLeast { rate: Some(rate), limit: Limit::Meter } = answer.finding else {
        panic!("{:?}", answer.finding);
    };
    assert!((300.0..=500.0).contains(&rate) && answer.seconds < 80.0, "{rate}");
}

/// A budget that ends before a threshold was missed leaves a lower bound.
#[test]
fn short_budget_leaves_a_bound() {
    let settings = Settings { budget: Span::from_secs(10), ..settings("p99 < 46.05ms", 1) };
    let mut search = Search::new(Settings { from: 50.0, ..settings });
    let threshold: Threshold = "p99 < 46.05ms".parse().expect("a threshold");
    let mut world = World { target: Target::Servers(1), seed: 1, clock: 0.0, broken: false };
    let answer = loop {
        match search.step() {
            Step::Done(answer) => break answer,
            Step::Run(trial) => {
                let seen = observed(&mut world.run(trial), trial, &threshold);
                search.feed(seen, Span::from_secs(3));
            }
        }
    };
    let Finding::AtLeast { rate: Some(rate), limit: Limit::Budget } = answer.finding else {
        panic!("{:?}", answer.finding);
    };
    assert!((100.0..=400.0).contains(&rate), "{rate}");
}

/// One slow request of ten at the first rate is chance: the longer trial there decides.
#[test]
fn slow_request_at_the_first_rate_is_overruled() {
    let target = Target::LogNormal(4, 0.020, 0.3);
    let answer = search(target, settings("p99 < 60ms", 9_300_018));
    let first = &answer.points[..2];
    assert!(first.iter().all(|p| p.trial.rate == 10.0) && first[0].excess[0] > Some(1.0));
    let Finding::Capacity { interval, .. } = answer.finding else {
        panic!("{:?}", answer.finding);
    };
    assert!(interval.lo < LOG_NORMAL[1] && LOG_NORMAL[1] < interval.hi, "{interval:?}");
}
