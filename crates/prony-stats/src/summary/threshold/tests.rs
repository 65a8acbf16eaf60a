use prony_base::fault::Fault;
use prony_base::meter::WorkerStats;
use prony_base::units::Nanos;
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;
use prony_tally::record::{Tally, TimeLowerBound};

use super::shares::{KNOWN, clustering, clustering_of};
use super::*;
use crate::summary::{Accepted, RunInfo};

/// Intervals with 100 ended requests each, of which these have failed.
fn cells(failed: &[u64]) -> Vec<(u64, u64)> {
    failed.iter().map(|&failed| (failed, 100)).collect()
}

#[test]
fn failures_that_come_in_bursts_are_worth_fewer_independent_ones() {
    // Two of ten intervals have failures, 8 % of all requests. By hand: 42^2 + 22^2 + 8 * 8^2 is
    // the sum of squares, and 1,000 * 0.08 * 0.92 what independent failures would have.
    let (effect, freedom) = clustering_of(&cells(&[50, 0, 0, 0, 30, 0, 0, 0, 0, 0]));
    assert!((effect - 2_760.0 * 10.0 / 9.0 / 73.6).abs() < 1e-9, "{effect}");
    assert_eq!(freedom, 1.0);
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 9, 30, 0, 0, 0, 0, 7])).1, 3.0);
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 0, 0, 0, 0, 0, 0, 0])).1, 1.0, "one at least");
    assert_eq!(clustering_of(&cells(&[8; 10])), (1.0, KNOWN), "they vary less than by chance");
    assert_eq!(clustering_of(&cells(&[0; 10])), (1.0, KNOWN), "none has failed");
    assert_eq!(clustering_of(&cells(&[50, 0, 0, 0, 30, 0, 0])), (1.0, KNOWN), "too short");
}

/// Ten seconds with these numbers of failures among 100 requests each.
fn run(failed: &[u64]) -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    for (second, &failed) in (0..).zip(failed) {
        let at = Nanos(second * 1_000_000_000 + 500_000_000);
        (0..failed).for_each(|_| t.series.failed(at));
        (failed..100).for_each(|_| t.series.replied(at, Span(1_000), 1));
    }
    t.series.close();
    t.end = Nanos(10_000_000_000);
    t
}

#[test]
fn clusters_are_those_of_the_failures_over_time() {
    let failed = [50, 0, 0, 0, 30, 0, 0, 0, 0, 0];
    assert_eq!(clustering(&run(&failed)), clustering_of(&cells(&failed)));
}

#[test]
fn the_interval_of_a_rate_has_the_whole_seconds() {
    let t = run(&[0, 10, 0, 10, 0, 10, 0, 10, 0, 10]);
    let found = per_second(&t, 95.0, |cell| cell.replies as f64).unwrap();
    // Student's t with 9 degrees of freedom, and the variance 250 / 9 of ten rates.
    let reach = 2.262_157 * (250.0_f64 / 9.0 / 10.0).sqrt();
    assert!((found.lo - (95.0 - reach)).abs() < 1e-3, "{found:?}");
    assert!((found.hi - (95.0 + reach)).abs() < 1e-3, "{found:?}");
    let shorter = Tally { start: Nanos(1), end: Nanos(9_999_999_999), ..t };
    let eight = per_second(&shorter, 95.0, |cell| cell.replies as f64).unwrap();
    assert!(eight.hi - eight.lo > found.hi - found.lo, "{eight:?}");
    let two = Tally { end: Nanos(3_999_999_999), ..shorter };
    assert_eq!(per_second(&two, 95.0, |_| 1.0), Err(NoInterval::TooFewSamples { needs: 3 }));
}

/// A run of 3 s with 1,000 replies of `measured` to `measured` + 1 ms, of which the meter may have
/// added so much that `least` is left of each. A late meter was busy all the time.
fn answered(measured: Span, least: Span, is_late: bool) -> Summary {
    of_times(|i| measured + Span(i * 7_919 % 1_000 * 1_000), measured - least, is_late)
}

/// The same with any times, from the number of the reply.
fn of_times(time: impl Fn(u64) -> Span, added_max: Span, is_late: bool) -> Summary {
    let mut t = Tally::new(Nanos::ZERO);
    let mut bound = TimeLowerBound { added_max, ..TimeLowerBound::default() };
    for i in 0..1_000 {
        let time = time(i);
        t.times.response.record(time);
        bound.times.record(time - bound.added_max);
        t.series.replied(Nanos(i * 3_000_000), time, 1);
    }
    t.series.close();
    (t.started, t.sent, t.replies) = (1_000, 1_000, 1_000);
    (t.end, t.without_meter) = (Nanos(3_000_000_000), Some(Box::new(bound)));
    let wall = Span::from_secs(3);
    let cpu_user = if is_late { wall } else { Span::ZERO };
    let meter = WorkerStats { wall, cpu_user, ..WorkerStats::default() };
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let call = CallSpec { authority: "h".into(), path: "/".into(), ..CallSpec::default() };
    let load = Load::Closed { connections: 1, think: Think::None };
    let plan = Plan::new(vec![endpoint], vec![call], load, Stop::default());
    Summary::from_parts(plan, RunInfo::default(), vec![(None, t, meter)])
}

fn outcomes(summary: &Summary, thresholds: &[&str]) -> Vec<(Outcome, Option<Doubt>)> {
    let mut summary = summary.clone();
    summary.plan.thresholds = thresholds.iter().map(|text| text.parse().expect(text)).collect();
    summary.thresholds().into_iter().map(|checked| (checked.outcome, checked.doubt)).collect()
}

const MET: (Outcome, Option<Doubt>) = (Outcome::Met, None);
const MISSED: (Outcome, Option<Doubt>) = (Outcome::Missed, None);
const OF_METER: (Outcome, Option<Doubt>) = (Outcome::Undecided, Some(Doubt::Meter));

/// Measured at 120 ms, of which 60 may be the meter's.
#[test]
fn a_late_meter_leaves_what_its_part_cannot_change() {
    let late = answered(Span::from_millis(120), Span::from_millis(60), true);
    let limits = ["p99 < 200ms", "p99 < 100ms", "p99 < 50ms", "mean < 200ms", "mean < 50ms"];
    assert_eq!(outcomes(&late, &limits), [MET, OF_METER, MISSED, MET, MISSED]);
    let least = ["p50 > 200ms", "p50 > 100ms", "p50 > 50ms", "max < 1s", "max < 100ms"];
    assert_eq!(outcomes(&late, &least), [MISSED, OF_METER, MET, MET, OF_METER]);
    // It makes fewer requests, not more. What it does itself is known.
    let rates = ["rate > 300", "rate > 400", "requests >= 1k", "requests > 1k", "busy < 50%"];
    assert_eq!(outcomes(&late, &rates), [MET, OF_METER, MET, OF_METER, MISSED]);
    assert_eq!(outcomes(&late, &["errors < 1%", "errors = 0"]), [MET, MET]);
    let mut accepted = late;
    accepted.run.accepted = Accepted { invalid: true, undecided: false };
    assert_eq!(outcomes(&accepted, &["p99 < 100ms", "rate > 400"]), [MISSED, MISSED]);
}

/// Without a fault of the meter, what it may have added still keeps a limit from being missed.
#[test]
fn a_limit_within_what_the_meter_added_is_undecided() {
    let in_time = answered(Span::from_millis(120), Span::from_millis(119), false);
    let limits = ["p99 < 122ms", "p99 < 120500us", "p99 < 118ms"];
    assert_eq!(outcomes(&in_time, &limits), [MET, OF_METER, MISSED]);
}

/// Timeouts of a late meter may be its own, other failures are not.
#[test]
fn failures_of_a_late_meter_count_as_far_as_they_are_the_targets() {
    let mut late = answered(Span::from_millis(120), Span::from_millis(60), true);
    let failed = [Fault::RequestTimeout, Fault::Reset];
    failed.into_iter().for_each(|fault| late.main.faults[fault as usize] = 100);
    late.main.failed = 200;
    let limits = ["errors < 50%", "errors < 12%", "errors < 2%", "timeouts < 1%"];
    assert_eq!(outcomes(&late, &limits), [MET, OF_METER, MISSED, OF_METER]);
    late.workers.iter_mut().for_each(|worker| worker.cpu_user = Span::ZERO);
    assert_eq!(outcomes(&late, &limits), [MET, MISSED, MISSED, MISSED]);
}

/// Less load than asked for can miss a limit, but not keep it.
#[test]
fn a_load_that_was_not_offered_can_only_miss() {
    let mut short = answered(Span::from_millis(120), Span::from_millis(119), false);
    short.main.faults[Fault::NoDescriptors as usize] = 1;
    let limits = ["p99 < 200ms", "p99 < 50ms", "errors < 1%", "rate > 300"];
    assert_eq!(outcomes(&short, &limits), [OF_METER, MISSED, OF_METER, MET]);
}

/// What would decide a threshold has a price in time.
#[test]
fn an_undecided_threshold_says_how_much_longer_to_run() {
    let summary = answered(Span::from_millis(120), Span::from_millis(120), false);
    let more = |text: &str| summary.checked(&text.parse().expect(text)).more;
    // 2,995 requests without a failure, of which there are 1,000 in 3 s.
    let seconds = more("errors < 0.1%").expect("a time").as_secs_f64();
    assert!((5.9..6.6).contains(&seconds), "{seconds}");
    assert_eq!(more("errors < 1%"), None, "it is met");
    assert_eq!(more("errors < 0%"), None, "no run is long enough");
}

/// Whether times of 5 to 7 ms come in clusters says nothing about 200 ms.
#[test]
fn correlated_jitter_does_not_hide_a_limit_that_is_far_away() {
    // 5 ms, and for every other half of a second 2 ms more; up to 400 us by chance.
    let jitter = |i: u64| Span(5_000_000 + i / 167 % 2 * 2_000_000 + i * 7_919 % 1_000 * 400);
    let summary = of_times(jitter, Span::ZERO, false);
    let limits = ["p99 < 200ms", "p99 < 50ms", "p99 < 1ms", "p99 < 10ms"];
    let outcomes = outcomes(&summary, &limits).into_iter().map(|(outcome, _)| outcome);
    use Outcome::{Met, Missed, Undecided};
    assert_eq!(outcomes.collect::<Vec<_>>(), [Met, Met, Missed, Undecided]);
}
