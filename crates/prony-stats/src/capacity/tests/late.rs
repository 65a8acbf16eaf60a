//! Trials of a load generator that was late.

use prony_base::meter::{SchedDelay, WorkerStats};
use prony_plan::plan::Plan;
use prony_tally::record::Tally;

use super::super::*;
use crate::summary::tests::{closed, meter, open, summary, tally};

/// A trial of 1,000 requests of 2 ms each, of which the load generator waited for a processor for
/// 201 us on average.
fn trial(plan: Plan, tally: Tally, threshold: &str) -> Observed {
    let sched_delay = Some(SchedDelay { total: Span::from_millis(402), count: 2_000 });
    let summary = summary(plan, tally, WorkerStats { sched_delay, ..meter(0) });
    assert_eq!(summary.verdict().verdict, Verdict::ClientLimited);
    let (warmup, length) = (Span::ZERO, Span::from_secs(10));
    let trial = Trial { rate: 100.0, warmup, length, purpose: Purpose::Bracket, number: 0 };
    Observed::of(&summary, &[threshold.parse().expect("a threshold")], trial)
}

fn counts(plan: Plan, tally: Tally, threshold: &str) -> bool {
    let seen = trial(plan, tally, threshold);
    assert_eq!(seen.point.counts, seen.limit.is_none());
    assert!(matches!(seen.limit, None | Some(Limit::Meter)));
    seen.point.counts
}

#[test]
fn late_trial_counts_only_if_its_thresholds_hold_by_far() {
    assert!(counts(open(), tally(), "p99 < 50ms"));
    assert!(counts(open(), tally(), "mean < 10ms"));
    assert!(!counts(open(), tally(), "mean < 4ms"), "it holds, but near its limit");
    assert!(!counts(open(), tally(), "p99 < 1ms"), "it is missed");
    assert!(!counts(closed(), tally(), "p99 < 50ms"), "the throughput of a closed loop is lower");
}

#[test]
fn trial_of_another_load_than_planned_does_not_count() {
    let late = Tally { sent_late: 11, ..tally() };
    assert!(!counts(open(), late, "p99 < 50ms"));
    // At its end, half of the requests were left.
    let behind = Tally { unfinished: 500, ..tally() };
    assert!(!counts(open(), behind, "p99 < 50ms"));
}

#[test]
fn gaps_do_not_count_for_they_shrink() {
    let mut t = tally();
    t.times.message_gap.record_n(Span::from_millis(1), 1_000);
    assert!(!counts(open(), t, "message-gap.p99 < 50ms"));
}
