//! The verdicts of made-up summaries; runs of the virtual world stand in prony-sim.

use super::super::tests::{closed, meter, open, summary, tally};
use super::super::{Meter, RunInfo, Transport};
use super::*;
use crate::plan::{Load, Plan, Stop, Think};
use crate::units::Nanos;

fn reasons(s: &Summary) -> Vec<Limit> {
    s.verdict().reasons
}

#[test]
fn a_run_with_time_to_spare_is_valid() {
    for plan in [closed(), open()] {
        assert_eq!(summary(plan, tally(), meter(9_000)).verdict().verdict, Verdict::Valid);
    }
}

#[test]
fn a_busy_worker_limits_but_spinning_is_not_work() {
    let busy = summary(closed(), tally(), meter(9_100));
    assert_eq!(reasons(&busy), [Limit::Busy { worker: 0, share: 0.91 }]);
    assert_eq!(meter(11_000).busy(), 1.0, "a share of the time");
    let few =
        |started| summary(closed(), Tally { started, ..tally() }, meter(9_100)).verdict().verdict;
    assert_eq!(few(19), Verdict::Valid, "a handful is all beginning and end");
    assert_eq!(few(20), Verdict::ClientLimited);
    let spin = Span::from_millis(200);
    let spinning = summary(closed(), tally(), Meter { spin, ..meter(9_100) });
    assert_eq!(spinning.verdict().verdict, Verdict::Valid);
}

#[test]
fn requests_that_the_meter_sent_too_late_limit_an_open_loop_only() {
    let mut t = tally();
    t.sent_late = 10;
    assert_eq!(summary(open(), t.clone(), meter(0)).verdict().verdict, Verdict::Valid);
    t.sent_late = 11;
    let limit = Limit::Rate { asked: 100.0, achieved: 98.9 };
    assert_eq!(reasons(&summary(open(), t.clone(), meter(0))), [limit]);
    assert_eq!(summary(closed(), t, meter(0)).verdict().verdict, Verdict::Valid);
}

#[test]
fn waits_for_a_connection_and_refusals_are_not_the_meters_lateness() {
    let mut t = tally();
    // 300 never went out: refused, or waiting for a connection until they timed out.
    (t.sent, t.replies, t.failed) = (700, 700, 300);
    t.faults[Fault::ConnectRefused as usize] = 100;
    t.faults[Fault::RequestTimeout as usize] = 200;
    let s = summary(open(), t, meter(0));
    assert_eq!(s.verdict().verdict, Verdict::Valid);
    assert_eq!((s.main.unsent(), s.sent_rate()), (300, Some(100.0)));
}

#[test]
fn a_lag_that_the_response_times_cannot_hide_limits() {
    let lagging = |lag: Span, response: Span, n: u64, late: u64| {
        let mut t = Tally::new(Nanos::ZERO);
        t.end = Nanos(10_000_000_000);
        (t.started, t.sent, t.replies) = (n, n, n);
        t.times.response.record_n(response, n);
        t.times.lag.record_n(Span::ZERO, n - late);
        t.times.lag.record_n(lag, late);
        reasons(&summary(open(), t, meter(0)))
    };
    let (us, ms) = (Span::from_micros, Span::from_millis);
    let over = [Limit::Lag { p99: us(300), response_p50: ms(2) }];
    assert_eq!(lagging(us(300), ms(2), 1_000, 11), over);
    assert_eq!(lagging(us(300), ms(2), 1_000, 10), [], "the 990th of 1,000 is in time");
    assert_eq!(lagging(us(300), ms(3), 1_000, 11), [], "10 % of the median exactly");
    assert_eq!(lagging(us(100), us(50), 1_000, 500), [], "100 us exactly");
    // Too few for a p99: the highest quantile that they carry decides.
    assert_eq!(lagging(us(300), ms(2), 50, 10), []);
    assert_eq!(lagging(us(300), ms(2), 50, 11), over);
    assert_eq!(lagging(us(300), ms(2), 19, 19), [], "too few to say anything");
}

#[test]
fn p19_whatever_the_meter_runs_out_of_voids_the_run() {
    let (mut t, mut w) = (tally(), tally());
    t.faults[Fault::NoPorts as usize] = 3;
    w.faults[Fault::NoPorts as usize] = 1;
    t.stray[Fault::NoDescriptors as usize] = 2;
    t.faults[Fault::Reset as usize] = 9;
    let s = Summary::from_parts(closed(), RunInfo::default(), vec![(Some(w), t, meter(0))]);
    let expected = [
        Limit::RanOut { fault: Fault::NoDescriptors, requests: 2 },
        Limit::RanOut { fault: Fault::NoPorts, requests: 4 },
    ];
    assert_eq!(reasons(&s), expected);
}

#[test]
fn failures_dominate_from_more_than_half_on() {
    let failing = |failed: u64, fault: Fault| {
        let mut t = Tally { replies: 1_000 - failed, failed, ..tally() };
        t.faults[fault as usize] = failed;
        summary(closed(), t, meter(0)).verdict()
    };
    assert!(failing(500, Fault::Reset).is_valid());
    let limit = Limit::Failed { share: 0.501, fault: Fault::Reset };
    assert_eq!(failing(501, Fault::Reset).reasons, [limit]);
    assert_eq!(failing(1_000, Fault::UnexpectedStatus).verdict, Verdict::TargetFailed);
    // What the plan could not make, and what the meter ran out of, is not the target's.
    assert!(failing(900, Fault::NoValue).is_valid());
    assert_eq!(failing(900, Fault::NoPorts).verdict, Verdict::ClientLimited);
}

#[test]
fn an_interruption_is_one_where_there_was_an_end_to_come() {
    let stopped = |stop: Stop| {
        let run = RunInfo { interrupted: true, ..RunInfo::default() };
        let plan = Plan { stop, ..closed() };
        Summary::from_parts(plan, run, vec![(None, tally(), meter(0))]).verdict().verdict
    };
    let count = |n| Stop { requests: Some(n), ..Stop::default() };
    assert_eq!(stopped(count(5_000)), Verdict::Interrupted);
    assert_eq!(stopped(count(u64::MAX)), Verdict::Valid);
    let limited = Stop { duration: Some(Span::from_secs(60)), ..count(u64::MAX) };
    assert_eq!(stopped(limited), Verdict::Interrupted);
}

#[test]
fn p12_a_percentile_that_was_asked_for_must_be_carried() {
    let asked = |percentile: f64| {
        let run = RunInfo { percentile: Some(percentile), ..RunInfo::default() };
        Summary::from_parts(closed(), run, vec![(None, tally(), meter(0))]).verdict()
    };
    assert!(asked(99.0).is_valid(), "1,000 samples");
    let judged = asked(99.9);
    let short = Limit::Short { percentile: 99.9, needs: 10_000, samples: 1_000 };
    assert_eq!((judged.verdict, judged.reasons), (Verdict::TooShort, vec![short]));
}

/// A tally with a thousand replies in each second, of that response time.
fn course(times: &[Span]) -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    for (second, &time) in times.iter().enumerate() {
        for k in 0..1_000 {
            let at = Nanos(second as u64 * 1_000_000_000 + k * 999_000);
            t.series.started(at);
            t.series.replied(at, time, 10);
        }
    }
    let n = times.len() as u64 * 1_000;
    (t.started, t.sent, t.replies) = (n, n, n);
    t.end = Nanos(times.len() as u64 * 1_000_000_000);
    t.series.close();
    t
}

#[test]
fn p14_a_target_that_changes_makes_no_figure() {
    let (ms, second) = (Span::from_millis, Span::from_secs);
    let times: Vec<Span> = (0..12).map(|i| ms(if i < 5 { 10 } else { 20 })).collect();
    let judged = summary(open(), course(&times), meter(0)).verdict();
    let [Limit::Changed(change)] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(judged.verdict, Verdict::NotStationary);
    assert_eq!((change.figure, change.at), (Figure::P50, Some(second(5))));
    assert!((change.to / change.from - 2.0).abs() < 0.05, "{change:?}");
    // Not enough to say so; a rate that was to change; the same throughout.
    assert!(summary(open(), course(&times[..7]), meter(0)).verdict().is_valid());
    assert!(summary(open(), course(&[ms(10); 12]), meter(0)).verdict().is_valid());
    let mut ramp = open();
    ramp.load = Load::Open {
        rate: crate::schedule::RatePlan::parse("100@6s,200@6s").expect("a plan"),
        arrivals: crate::schedule::Arrivals::Fixed,
        connections: 50,
    };
    assert!(summary(ramp, course(&times), meter(0)).verdict().is_valid());
    // A busy meter is told first, and nothing is said of the target then.
    let busy = summary(open(), course(&times), meter(9_500)).verdict();
    assert_eq!((busy.verdict, busy.reasons.len()), (Verdict::ClientLimited, 1));
}

#[test]
fn p20_one_thing_limited_it() {
    let of = |plan: Plan, t: Tally, m: Meter| {
        let s = summary(plan, t, m);
        s.bound(&s.verdict())
    };
    assert_eq!(of(open(), tally(), meter(9_500)), Some(Bound::Client));
    assert_eq!(of(open(), tally(), meter(0)), Some(Bound::AskedRate));
    let lossy = Transport { sampled: 10, retransmits: 11, ..Transport::default() };
    let lossy = Meter { transport: lossy, ..meter(0) };
    assert_eq!(of(open(), tally(), lossy), Some(Bound::Network { share: 0.011 }));
    let mut behind = tally();
    behind.replies_in_drain = 100;
    assert_eq!(of(open(), behind.clone(), meter(0)), Some(Bound::Server));
    behind.times.queue.record_n(Span::from_millis(3), 500);
    assert_eq!(of(open(), behind, meter(0)), Some(Bound::Cap { connections: 50 }));
    // Ten users with 100 ms each, a hundred times a second: all of them, all the time.
    let mut full = tally();
    full.times.response = Hist::new();
    full.times.response.record_n(Span::from_millis(99), 1_000);
    let Some(Bound::Connections { connections: 10, concurrency }) =
        of(closed(), full.clone(), meter(0))
    else {
        panic!("the connections were in use")
    };
    assert!((concurrency - 9.9).abs() < 0.01);
    assert_eq!(of(closed(), tally(), meter(0)), None, "2 ms of 100: nothing stands out");
    let think = Think::Fixed(Span::from_millis(1));
    let thinking = Plan { load: Load::Closed { connections: 10, think }, ..closed() };
    assert!(matches!(of(thinking, full.clone(), meter(0)), Some(Bound::Users { users: 10, .. })));
    let piped = Plan { load: Load::Closed { connections: 5, think: Think::None }, ..closed() };
    let piped = Plan { pipeline: 2, ..piped };
    assert!(matches!(of(piped, full, meter(0)), Some(Bound::Window { requests: 10, .. })));
    let failed = Tally { replies: 0, failed: 1_000, ..tally() };
    let mut failed = failed;
    failed.faults[Fault::Reset as usize] = 1_000;
    assert_eq!(of(closed(), failed, meter(0)), Some(Bound::Failures));
}
