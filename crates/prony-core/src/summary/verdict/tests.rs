//! The verdicts of made-up summaries; runs of the virtual world stand in prony-sim.

use super::super::confidence::Until;
use super::super::tests::{closed, meter, open, summary, tally};
use super::super::{Meter, RunInfo, Stalls, Transport, Turned, Withheld};
use super::*;
use crate::plan::{Load, Plan, Stop, Think};
use crate::record::SessionTally;
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
fn p08_a_busy_worker_limits_but_spinning_is_not_work() {
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
fn p08_requests_that_the_meter_sent_too_late_limit_an_open_loop_only() {
    let mut t = tally();
    t.sent_late = 10;
    assert_eq!(summary(open(), t.clone(), meter(0)).verdict().verdict, Verdict::Valid);
    t.sent_late = 11;
    let limit = Limit::Rate { asked: 100.0, achieved: 98.9 };
    assert_eq!(reasons(&summary(open(), t.clone(), meter(0))), [limit]);
    assert_eq!(summary(closed(), t, meter(0)).verdict().verdict, Verdict::Valid);
}

/// What the meter was too late for has failed, but not by the target.
#[test]
fn p08_requests_that_the_meter_never_sent_in_time_limit_an_open_loop() {
    let with = |sent_late, overdue| {
        let mut t = Tally { sent_late, overdue, ..tally() };
        (t.sent, t.replies, t.failed) = (1_000 - overdue, 1_000 - overdue, overdue);
        t.faults[Fault::RequestTimeout as usize] = overdue;
        reasons(&summary(open(), t, meter(0)))
    };
    assert_eq!(with(0, 10), []);
    assert_eq!(with(1, 10), [Limit::Rate { asked: 100.0, achieved: 98.9 }]);
    assert_eq!(with(0, 600), [Limit::Rate { asked: 100.0, achieved: 40.0 }]);
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
fn p08_a_lag_that_the_response_times_cannot_hide_limits() {
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
fn failures_dominate_from_half_on() {
    let failing = |failed: u64, fault: Fault| {
        let mut t = Tally { replies: 1_000 - failed, failed, ..tally() };
        t.faults[fault as usize] = failed;
        summary(closed(), t, meter(0)).verdict()
    };
    assert!(failing(499, Fault::Reset).is_valid());
    let limit = Limit::Failed { share: 0.5, sessions: None, fault: Fault::Reset };
    assert_eq!(failing(500, Fault::Reset).reasons, [limit]);
    assert_eq!(failing(1_000, Fault::UnexpectedStatus).verdict, Verdict::TargetFailed);
    // What the plan could not make, and what the meter ran out of, is not the target's.
    assert!(failing(900, Fault::NoValue).is_valid());
    assert_eq!(failing(900, Fault::NoPorts).verdict, Verdict::ClientLimited);
}

/// Ten users for ten seconds: 78 waits of at most 128 ms are under 10 % of their time, 79 are over.
#[test]
fn a_target_that_was_away_has_failed() {
    let away = |plan: Plan, failed: u64, fault: Fault| {
        let mut t = Tally { failed, ..tally() };
        t.faults[fault as usize] = failed;
        summary(plan, t, meter(0)).verdict()
    };
    assert!(away(closed(), 78, Fault::ConnectRefused).is_valid());
    let judged = away(closed(), 79, Fault::ConnectRefused);
    let [Limit::Gone { share, fault: Fault::ConnectRefused }] = judged.reasons[..] else {
        panic!("{judged:?}");
    };
    assert!((share - 0.10112).abs() < 1e-9, "{share}");
    assert_eq!(judged.verdict, Verdict::TargetFailed);
    // Others are tried again at once, and who pauses or comes by a schedule waits anyway.
    assert!(away(closed(), 400, Fault::Reset).is_valid());
    assert!(away(open(), 400, Fault::ConnectRefused).is_valid());
    let think = Think::Fixed(Span::from_millis(1));
    let pausing = Plan { load: Load::Closed { connections: 10, think }, ..closed() };
    assert!(away(pausing, 400, Fault::ConnectRefused).is_valid());
    // Where all were under way for all the time, nobody waited to try again.
    let mut t = Tally { failed: 400, ..tally() };
    t.faults[Fault::ConnectTimeout as usize] = 400;
    t.times.failed.record_n(Span::from_millis(245), 400);
    assert!(summary(closed(), t, meter(0)).verdict().is_valid());
}

#[test]
fn failed_sessions_dominate_too() {
    // Ten requests each, but for those that failed with their first.
    let judged = |failed: u64, fault: Fault| {
        let mut t = Tally { failed, ..tally() };
        t.faults[fault as usize] = failed;
        let sessions = SessionTally { failed, completed: 100, ..SessionTally::default() };
        t.sessions = Some(Box::new(sessions));
        summary(closed(), t, meter(0))
    };
    let of = |failed, fault| judged(failed, fault).verdict().verdict;
    assert_eq!(of(99, Fault::ConnectRefused), Verdict::Valid);
    assert_eq!(of(100, Fault::NoValue), Verdict::Valid);
    // Both shares are given, each of its own whole.
    let mut half = judged(100, Fault::ConnectRefused);
    let fault = Fault::ConnectRefused;
    let limit = Limit::Failed { share: 100.0 / 1_100.0, sessions: Some(0.5), fault };
    assert_eq!(reasons(&half), [limit]);
    // Where no sessions were asked for, requests alone count.
    half.run.connections_as_sessions = true;
    assert_eq!(reasons(&half), []);
}

/// 20 requests given up because 10 were cut off: the cut is the cause.
#[test]
fn requests_given_up_are_no_cause_of_failures() {
    let mut t = Tally { replies: 0, failed: 30, ..tally() };
    t.faults[Fault::GivenUp as usize] = 20;
    t.faults[Fault::ClosedEarly as usize] = 10;
    let limit = Limit::Failed { share: 1.0, sessions: None, fault: Fault::ClosedEarly };
    assert_eq!(reasons(&summary(closed(), t, meter(0))), [limit]);
}

/// A geometric ramp of medians, as of the lab: the ends of its fitted line lie outside.
#[test]
fn a_drift_is_reported_by_medians_that_were_measured() {
    let ms = Span::from_millis;
    let times: Vec<Span> =
        [10, 10, 10, 10, 10, 10, 14, 20, 30, 45, 60, 75, 90, 100, 100, 100, 100, 100]
            .map(ms)
            .to_vec();
    let judged = summary(open(), course(&times), meter(0)).verdict();
    let [Limit::Changed(change)] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(change.at, None, "{change:?}");
    // The bins of the series are 1.6 % wide; nothing was faster than 10 ms or slower than 100.
    assert!((10e6..10.2e6).contains(&change.from), "{change:?}");
    assert!((98.4e6..=100e6).contains(&change.to), "{change:?}");
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

/// A run of ten seconds, a thousand requests of 2 ms.
fn held(change: impl FnOnce(&mut Meter, &mut Withheld)) -> Vec<Limit> {
    let (mut meter, mut run) = (meter(0), RunInfo::default());
    change(&mut meter, &mut run.withheld);
    reasons(&Summary::from_parts(closed(), run, vec![(None, tally(), meter)]))
}

#[test]
fn quotas_and_stolen_time_limit() {
    let ms = Span::from_millis;
    let throttled = |n| held(|_, w| w.throttled = Some(ms(n)));
    assert_eq!(throttled(100), []);
    assert_eq!(throttled(101), [Limit::Throttled { time: ms(101), share: 0.0101 }]);
    let stolen = |n, wanted| held(|_, w| (w.stolen, w.wanted) = (Some(ms(n)), Some(ms(wanted))));
    assert_eq!(stolen(500, 10_000), [], "5 % exactly");
    assert_eq!(stolen(1_000, 4_000), [Limit::Stolen { time: ms(1_000), share: 0.25 }]);
    assert_eq!(stolen(100, 400), [], "ten ticks in ten seconds");
}

#[test]
fn waits_for_a_processor_limit_a_closed_loop_too() {
    let waited = |busy: u64, ms: u64, times: u64| {
        let turned = Some(Turned { waited: Span::from_millis(ms), times });
        reasons(&summary(closed(), tally(), Meter { turned, ..meter(busy) }))
    };
    let limit = |share: f64, us: u64| [Limit::Waited { worker: 0, share, wait: Span(us * 1_000) }];
    // Replies of 2 ms, which were under way for 2 s of the ten.
    assert_eq!(waited(0, 400, 2_000), [], "200 us each");
    assert_eq!(waited(0, 402, 2_000), limit(0.0402, 201));
    assert_eq!(waited(0, 200, 400), [], "500 us, but less than a tenth of 2 s");
    assert_eq!(waited(0, 201, 100), limit(0.0201, 2_010));
    // No idle time at all.
    assert_eq!(waited(7_900, 1_100, 1 << 20), []);
    assert_eq!(waited(8_000, 1_100, 550_000), limit(0.11, 2));
    assert_eq!(waited(8_995, 1_000, 1 << 20), []);
}

/// A tenth of a wait in a hundred is no more than a tenth of the mean: that holds whatever the
/// waits are like, as no more time can have been added than they took.
#[test]
fn waits_of_a_few_percent_leave_a_closed_loop_that_is_full_alone() {
    for (wait_us, times) in [(1, 300_000), (30, 10_000), (3_000, 100), (300_000, 1)] {
        let of = |under_way_ms: u64| {
            let mut t = tally();
            t.times.service = Hist::new();
            // Of 20 us to 20 ms, one after the other on a connection.
            t.times.service.record_n(Span::from_micros(under_way_ms), 1_000);
            let turned = Some(Turned { waited: Span::from_micros(wait_us * times), times });
            reasons(&summary(closed(), t, Meter { turned, ..meter(0) })).len()
        };
        assert_eq!(of(9_900), 0, "3 % of the time, {times} times");
    }
}

#[test]
fn waking_up_is_no_wait() {
    let of = |wait_us: u64| {
        let mut t = tally();
        t.times.service = Hist::new();
        t.times.service.record_n(Span::from_micros(20), 100_000);
        (t.started, t.sent, t.replies) = (100_000, 100_000, 100_000);
        let waited = Span::from_micros(wait_us * 100_000);
        let turned = Some(Turned { waited, times: 100_000 });
        reasons(&summary(closed(), t, Meter { turned, ..meter(0) })).len()
    };
    assert_eq!((of(5), of(6)), (0, 1));
}

#[test]
fn an_event_loop_that_was_away_limits() {
    let stalled = |late: u64, each: Span| {
        held(|m, _| {
            (0..200 - late).for_each(|_| m.stalls.came(Span::from_micros(60)));
            (0..late).for_each(|_| m.stalls.came(each));
        })
    };
    let ms = Span::from_millis;
    assert_eq!(stalled(10, ms(40)), [], "5 % exactly");
    let limit = Limit::Stalled { worker: 0, share: 0.055, late: ms(40), longest: ms(40) };
    assert_eq!(stalled(11, ms(40)), [limit]);
    assert_eq!(stalled(200, Span::from_micros(999)), [], "under 1 ms");
    // Two are a chance, however short the run.
    let two = Stalls { checks: 10, late: 2, sum: ms(80), longest: ms(40) };
    assert_eq!(held(|m, _| m.stalls = two), []);
    // Against replies of 2 ms the least that counts is half of them; against 100 ms it is nothing.
    let mut slow = tally();
    slow.times.service = Hist::new();
    slow.times.service.record_n(ms(100), 1_000);
    let stalls = Stalls { checks: 200, late: 100, sum: ms(900), longest: ms(20) };
    let slow = summary(closed(), slow, Meter { stalls, ..meter(0) });
    assert_eq!(reasons(&slow), []);
    // Ten of 100 ms late by 9 ms on average, but at work for all the rest: it would have done more.
    let mut full = tally();
    full.times.service = Hist::new();
    full.times.service.record_n(ms(100), 1_000);
    let often = Stalls { checks: 200, late: 42, sum: ms(42 * 9), longest: ms(20) };
    let full =
        |busy| reasons(&summary(closed(), full.clone(), Meter { stalls: often, ..meter(busy) }));
    assert_eq!(full(6_900), []);
    assert!(matches!(full(6_950)[..], [Limit::Stalled { .. }]), "21 % and 69.5 %");
    // Waits in the client's own queue, which stalls lengthen, do not hide them.
    let mut queued = tally();
    queued.times.response = Hist::new();
    queued.times.response.record_n(Span::from_secs(3), 1_000);
    let queued = reasons(&summary(open(), queued, Meter { stalls, ..meter(0) }));
    assert!(matches!(queued[..], [Limit::Stalled { .. }]), "{queued:?}");
}

#[test]
fn time_that_is_lost_is_the_meters_fault() {
    let of = |ms: u64| {
        let t = Tally { time_under_way: Some(Span::from_millis(ms)), ..tally() };
        reasons(&summary(closed(), t, meter(0)))
    };
    // A thousand of 2 ms are 2 s.
    assert_eq!(of(2_000), []);
    assert_eq!(of(2_040), []);
    assert_eq!(of(1_961), []);
    assert_eq!(of(1_950), [Limit::Audit { counted: 0.195, timed: 0.2 }]);
    assert_eq!(of(2_050), [Limit::Audit { counted: 0.205, timed: 0.2 }]);
}

#[test]
fn p12_a_closeness_that_was_asked_for_must_be_reached() {
    let (ms, second) = (Span::from_millis, Nanos(1_000_000_000));
    // Ten seconds, every second of them alike.
    let mut t = course(&[ms(10); 10]);
    t.times.response.record_n(ms(10), 10_000);
    let judged = |goal: &str, ended: bool, t: &Tally| {
        let until = Until::of(vec![goal.parse().expect("a goal")], ended, t);
        let reached = until.reached;
        let run = RunInfo { until: Some(until), ..RunInfo::default() };
        let judged = Summary::from_parts(open(), run, vec![(None, t.clone(), meter(0))]).verdict();
        assert_eq!(judged.is_valid(), reached, "{goal}: {judged:?}");
        judged
    };
    assert!(judged("p99 +- 2%", false, &t).is_valid(), "reached at the very end");
    let [Limit::Loose { goal, reach: None }] = judged("p99.99 +- 2%", false, &t).reasons[..] else {
        panic!("it has no interval")
    };
    assert_eq!(goal.to_string(), "p99.99 +- 2 %");
    // What was seen while the load ran is no figure of the report.
    assert_eq!(judged("p99.99 +- 2%", true, &t).verdict, Verdict::TooShort);
    t.end = second;
    assert_eq!(judged("p99.99 +- 50%", false, &t).verdict, Verdict::TooShort);
}

/// A tally with a thousand replies in each second, of that response time.
fn course(times: &[Span]) -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    for (second, &time) in times.iter().enumerate() {
        for k in 0..1_000 {
            let at = Nanos(second as u64 * 1_000_000_000 + k * 999_000);
            t.series.started(at);
            t.series.replied(at, time, 10);
            t.times.response.record(time);
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
        rate: crate::rate::RatePlan::parse("100@6s,200@6s").expect("a plan"),
        arrivals: crate::rate::Arrivals::Fixed,
        connections: 50,
    };
    assert!(summary(ramp, course(&times), meter(0)).verdict().is_valid());
    // A busy meter is told first, and nothing is said of the target then.
    let busy = summary(open(), course(&times), meter(9_500)).verdict();
    assert_eq!((busy.verdict, busy.reasons.len()), (Verdict::ClientLimited, 1));
}

#[test]
fn p14_times_that_hang_together_over_the_run_make_no_figure() {
    let wave = |i: u32, share: f64| {
        let phase = f64::from(i) / 24.0 * std::f64::consts::TAU;
        Span((1e7 * (1.0 + share * phase.cos())) as u64)
    };
    let times = |share| (0..24).map(|i| wave(i, share)).collect::<Vec<_>>();
    let judged = summary(open(), course(&times(0.5)), meter(0)).verdict();
    let [Limit::Correlated { redness }] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(judged.verdict, Verdict::NotStationary);
    assert!(redness > 20.0, "{redness}");
    // Too little to matter; the same times in an order without memory.
    assert!(summary(open(), course(&times(0.05)), meter(0)).verdict().is_valid());
    let mixed: Vec<Span> = (0..24).map(|i| wave(i * 7 % 24, 0.5)).collect();
    assert!(summary(open(), course(&mixed), meter(0)).verdict().is_valid());
}

#[test]
fn p20_one_thing_limited_it() {
    let of = |plan: Plan, t: Tally, m: Meter| {
        let s = summary(plan, t, m);
        s.bound(&s.verdict())
    };
    assert_eq!(of(open(), tally(), meter(9_500)), Some(Bound::Client));
    let asked = Bound::AskedRate { failed: None, waiting: None };
    assert_eq!(of(open(), tally(), meter(0)), Some(asked));
    let mut unsure = Tally { replies: 600, failed: 400, ..tally() };
    unsure.faults[Fault::UnexpectedStatus as usize] = 400;
    let asked = Bound::AskedRate { failed: Some(0.4), waiting: None };
    assert_eq!(of(open(), unsure, meter(0)), Some(asked));
    // Nobody keeps up in a freeze, however short it is against the run.
    let mut frozen = tally();
    frozen.times.response.record_n(Span::from_secs(2), 1);
    let Some(Bound::AskedRate { failed: None, waiting: Some(waiting) }) =
        of(open(), frozen, meter(0))
    else {
        panic!("one request waited for 2 s")
    };
    assert_eq!(waiting.longest, Span::from_secs(2));
    assert!((waiting.concurrency - 0.4).abs() < 1e-9, "{waiting:?}");
    let lossy = Transport { sampled: 10, retransmits: 11, ..Transport::default() };
    let lossy = Meter { transport: lossy, ..meter(0) };
    assert_eq!(of(open(), tally(), lossy), Some(Bound::Network { share: 0.011 }));
    let mut behind = tally();
    behind.replies_in_drain = 100;
    assert_eq!(of(open(), behind.clone(), meter(0)), Some(Bound::Server { queued: None }));
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
