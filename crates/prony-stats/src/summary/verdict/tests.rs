//! Verdicts of synthetic summaries. prony-sim tests those of runs in the virtual world.

mod samples;
mod streams;

use prony_base::meter::{CpuPressure, SchedDelay, Stalls, Transport, WorkerStats};
use prony_base::units::Nanos;
use prony_plan::plan::{Burst, Load, Plan, SessionKind, Sessions, Stop, Think};
use prony_proto::proto::StreamCounts;
use prony_tally::record::SessionTally;

use super::super::confidence::Until;
use super::super::tests::{closed, meter, open, summary, tally};
use super::super::{LogRead, Replayed, RunInfo};
use super::*;

fn reasons(s: &Summary) -> Vec<Reason> {
    s.verdict().reasons
}

#[test]
fn run_of_an_idle_meter_is_valid() {
    for plan in [closed(), open()] {
        assert_eq!(summary(plan, tally(), meter(9_000)).verdict().verdict, Verdict::Valid);
    }
}

#[test]
fn p08_busy_worker_invalidates_but_spinning_does_not() {
    let busy = summary(closed(), tally(), meter(9_100));
    assert_eq!(reasons(&busy), [Reason::CpuSaturated { worker: 0, share: 0.91 }]);
    assert_eq!(meter(11_000).busy(), 1.0, "a share is at most 1");
    let few =
        |started| summary(closed(), Tally { started, ..tally() }, meter(9_100)).verdict().verdict;
    assert_eq!(few(19), Verdict::Valid, "too few requests for a statement");
    assert_eq!(few(20), Verdict::ClientLimited);
    let spin = Span::from_millis(200);
    let spinning = summary(closed(), tally(), WorkerStats { spin, ..meter(9_100) });
    assert_eq!(spinning.verdict().verdict, Verdict::Valid);
}

#[test]
fn p08_requests_sent_late_invalidate_only_open_loops() {
    let mut t = tally();
    t.sent_late = 10;
    assert_eq!(summary(open(), t.clone(), meter(0)).verdict().verdict, Verdict::Valid);
    t.sent_late = 11;
    let limit = Reason::RateMissed { target: 100.0, sent: 98.9 };
    assert_eq!(reasons(&summary(open(), t.clone(), meter(0))), [limit]);
    assert_eq!(summary(closed(), t, meter(0)).verdict().verdict, Verdict::Valid);
}

/// Overdue requests failed, but not because of the target.
#[test]
fn p08_overdue_requests_invalidate_an_open_loop() {
    let with = |sent_late, overdue| {
        let mut t = Tally { sent_late, overdue, ..tally() };
        (t.sent, t.replies, t.failed) = (1_000 - overdue, 1_000 - overdue, overdue);
        t.faults[Fault::RequestTimeout as usize] = overdue;
        reasons(&summary(open(), t, meter(0)))
    };
    assert_eq!(with(0, 10), []);
    assert_eq!(with(1, 10), [Reason::RateMissed { target: 100.0, sent: 98.9 }]);
    assert_eq!(with(0, 600), [Reason::RateMissed { target: 100.0, sent: 40.0 }]);
}

#[test]
fn waits_for_connections_and_refusals_are_no_lateness_of_the_meter() {
    let mut t = tally();
    // 300 were never sent: refused, or timed out while waiting for a connection.
    (t.sent, t.replies, t.failed) = (700, 700, 300);
    t.faults[Fault::ConnectRefused as usize] = 100;
    t.faults[Fault::RequestTimeout as usize] = 200;
    let s = summary(open(), t, meter(0));
    assert_eq!(s.verdict().verdict, Verdict::Valid);
    assert_eq!((s.main.unsent(), s.sent_rate()), (300, Some(100.0)));
}

#[test]
fn p08_send_lag_invalidates_if_large_against_response_times() {
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
    let over = |percentile| {
        let (sent, lag, typical) = (LateSend::Requests, us(300), ms(2));
        [Reason::SendLag { sent, percentile, lag, time: None, typical }]
    };
    assert_eq!(lagging(us(300), ms(2), 1_000, 11), over(Some(99.0)));
    assert_eq!(lagging(us(300), ms(2), 1_000, 10), [], "the 990th of 1,000 is punctual");
    assert_eq!(lagging(us(300), ms(3), 1_000, 11), [], "10 % of the median exactly");
    assert_eq!(lagging(us(100), us(50), 1_000, 500), [], "100 us exactly");
    // Too few for a p99: the highest quantile that the sample supports decides.
    assert_eq!(lagging(us(300), ms(2), 50, 10), []);
    assert_eq!(lagging(us(300), ms(2), 50, 11), over(Some(80.0)));
    // Too few for any: the means decide.
    assert_eq!(lagging(us(300), ms(2), 19, 19), over(None));
    assert_eq!(lagging(us(300), ms(2), 2, 2), over(None));
    let few = Reason::TooFewSamples { percentile: 50.0, needs: 20, samples: 19 };
    assert_eq!(lagging(us(300), ms(4), 19, 19), [few], "and nothing about the meter");
}

#[test]
fn p19_exhausted_resources_of_the_meter_invalidate() {
    let (mut t, mut w) = (tally(), tally());
    t.faults[Fault::NoPorts as usize] = 3;
    w.faults[Fault::NoPorts as usize] = 1;
    t.stray[Fault::NoDescriptors as usize] = 2;
    t.faults[Fault::Reset as usize] = 9;
    let s = Summary::from_parts(closed(), RunInfo::default(), vec![(Some(w), t, meter(0))]);
    let expected = [
        Reason::ResourceExhausted { fault: Fault::NoDescriptors, requests: 2 },
        Reason::ResourceExhausted { fault: Fault::NoPorts, requests: 4 },
    ];
    assert_eq!(reasons(&s), expected);
}

#[test]
fn failures_of_half_of_the_requests_invalidate() {
    let failing = |failed: u64, fault: Fault| {
        let mut t = Tally { replies: 1_000 - failed, failed, ..tally() };
        t.faults[fault as usize] = failed;
        summary(closed(), t, meter(0)).verdict()
    };
    assert!(failing(499, Fault::Reset).is_valid());
    let limit = Reason::Failures { share: 0.5, sessions: None, fault: Fault::Reset };
    assert_eq!(failing(500, Fault::Reset).reasons, [limit]);
    assert_eq!(failing(1_000, Fault::UnexpectedStatus).verdict, Verdict::TargetFailed);
    // Requests that the plan could not make, or the meter could not send, are not the target's.
    assert!(failing(900, Fault::NoValue).is_valid());
    assert_eq!(failing(900, Fault::NoPorts).verdict, Verdict::ClientLimited);
}

/// Ten users for ten seconds: 78 waits of at most 128 ms are under 10 % of their time, 79 are over
/// it.
#[test]
fn unavailable_target_has_failed() {
    let away = |plan: Plan, failed: u64, fault: Fault| {
        let mut t = Tally { failed, ..tally() };
        t.faults[fault as usize] = failed;
        summary(plan, t, meter(0)).verdict()
    };
    assert!(away(closed(), 78, Fault::ConnectRefused).is_valid());
    let judged = away(closed(), 79, Fault::ConnectRefused);
    let [Reason::TargetUnavailable { share, fault: Fault::ConnectRefused }] = judged.reasons[..]
    else {
        panic!("{judged:?}");
    };
    assert!((share - 0.10112).abs() < 1e-9, "{share}");
    assert_eq!(judged.verdict, Verdict::TargetFailed);
    // Other faults are retried at once, and users with think times or a schedule wait anyway.
    assert!(away(closed(), 400, Fault::Reset).is_valid());
    assert!(away(open(), 400, Fault::ConnectRefused).is_valid());
    let think = Think::Fixed(Span::from_millis(1));
    let pausing = Plan { load: Load::Closed { connections: 10, think }, ..closed() };
    assert!(away(pausing, 400, Fault::ConnectRefused).is_valid());
    // If all users had requests in flight all the time, none waited to retry.
    let mut t = Tally { failed: 400, ..tally() };
    t.faults[Fault::ConnectTimeout as usize] = 400;
    t.times.failed.record_n(Span::from_millis(245), 400);
    assert!(summary(closed(), t, meter(0)).verdict().is_valid());
}

#[test]
fn failures_of_half_of_the_sessions_invalidate() {
    // Ten requests each, except sessions that failed with their first.
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
    // Both shares are reported, each of its own total.
    let mut half = judged(100, Fault::ConnectRefused);
    let fault = Fault::ConnectRefused;
    let limit = Reason::Failures { share: 100.0 / 1_100.0, sessions: Some(0.5), fault };
    assert_eq!(reasons(&half), [limit]);
    // If the user requested no sessions, only requests count.
    half.run.connections_as_sessions = true;
    assert_eq!(reasons(&half), []);
}

/// 20 requests are given up because 10 were cut off: the cut is the cause.
#[test]
fn names_the_cause_of_failures_rather_than_requests_given_up() {
    let mut t = Tally { replies: 0, failed: 30, ..tally() };
    t.faults[Fault::GivenUp as usize] = 20;
    t.faults[Fault::ClosedEarly as usize] = 10;
    let limit = Reason::Failures { share: 1.0, sessions: None, fault: Fault::ClosedEarly };
    assert_eq!(reasons(&summary(closed(), t, meter(0))), [limit]);
}

/// A ramp of medians; the ends of the line fitted to it lie outside the measured values.
#[test]
fn reports_a_drift_by_measured_medians() {
    let ms = Span::from_millis;
    let times: Vec<Span> =
        [10, 10, 10, 10, 10, 10, 14, 20, 30, 45, 60, 75, 90, 100, 100, 100, 100, 100]
            .map(ms)
            .to_vec();
    let judged = summary(open(), course(&times), meter(0)).verdict();
    let [Reason::LevelShift(change)] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(change.at, None, "{change:?}");
    // The bins of the series are 1.6 % wide; no time was below 10 ms or above 100 ms.
    assert!((10e6..10.2e6).contains(&change.from), "{change:?}");
    assert!((98.4e6..=100e6).contains(&change.to), "{change:?}");
}

#[test]
fn stopping_an_endless_plan_is_no_interruption() {
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
fn p12_requested_percentile_needs_enough_samples() {
    let asked = |percentile: f64| {
        let run = RunInfo { percentile: Some(percentile), ..RunInfo::default() };
        Summary::from_parts(closed(), run, vec![(None, tally(), meter(0))]).verdict()
    };
    assert!(asked(99.0).is_valid(), "1,000 samples");
    let judged = asked(99.9);
    let short = Reason::TooFewSamples { percentile: 99.9, needs: 10_000, samples: 1_000 };
    assert_eq!((judged.verdict, judged.reasons), (Verdict::TooShort, vec![short]));
}

/// A run of ten seconds, a thousand requests of 2 ms.
fn under_pressure(change: impl FnOnce(&mut WorkerStats, &mut CpuPressure)) -> Vec<Reason> {
    let (mut meter, mut run) = (meter(0), RunInfo::default());
    change(&mut meter, &mut run.cpu_pressure);
    reasons(&Summary::from_parts(closed(), run, vec![(None, tally(), meter)]))
}

#[test]
fn throttled_and_stolen_time_invalidate() {
    let ms = Span::from_millis;
    let throttled = |n| under_pressure(|_, w| w.throttled = Some(ms(n)));
    assert_eq!(throttled(100), []);
    assert_eq!(throttled(101), [Reason::CpuThrottled { time: ms(101), share: 0.0101 }]);
    let stolen =
        |n, wanted| under_pressure(|_, w| (w.stolen, w.wanted) = (Some(ms(n)), Some(ms(wanted))));
    assert_eq!(stolen(500, 10_000), [], "5 % exactly");
    assert_eq!(stolen(1_000, 4_000), [Reason::CpuStolen { time: ms(1_000), share: 0.25 }]);
    assert_eq!(stolen(100, 400), [], "ten ticks in ten seconds");
}

#[test]
fn run_queue_delay_invalidates_a_closed_loop_too() {
    let waited = |busy: u64, ms: u64, times: u64| {
        let sched_delay = Some(SchedDelay { total: Span::from_millis(ms), count: times });
        reasons(&summary(closed(), tally(), WorkerStats { sched_delay, ..meter(busy) }))
    };
    let limit =
        |share: f64, us: u64| [Reason::RunQueueDelay { worker: 0, share, wait: Span(us * 1_000) }];
    // 1,000 service times of 2 ms, in flight for 2 s of the ten.
    assert_eq!(waited(0, 400, 2_000), [], "200 us each");
    assert_eq!(waited(0, 402, 2_000), limit(0.0402, 201));
    assert_eq!(waited(0, 200, 400), [], "500 us, but less than a tenth of 2 s");
    assert_eq!(waited(0, 201, 100), limit(0.0201, 2_010));
    // A worker without idle time.
    assert_eq!(waited(7_900, 1_100, 1 << 20), []);
    assert_eq!(waited(8_000, 1_100, 550_000), limit(0.11, 2));
    assert_eq!(waited(8_995, 1_000, 1 << 20), []);
}

/// Waits of 3 % of the time never invalidate, whatever their length: they can add no more time than
/// they took.
#[test]
fn short_total_run_queue_delay_is_valid() {
    for (wait_us, times) in [(1, 300_000), (30, 10_000), (3_000, 100), (300_000, 1)] {
        let of = |service_us: u64| {
            let mut t = tally();
            t.times.service = Hist::new();
            // One request after the other on a connection.
            t.times.service.record_n(Span::from_micros(service_us), 1_000);
            let sched_delay =
                Some(SchedDelay { total: Span::from_micros(wait_us * times), count: times });
            reasons(&summary(closed(), t, WorkerStats { sched_delay, ..meter(0) })).len()
        };
        assert_eq!(of(9_900), 0, "{times} waits, 3 % of the time");
    }
}

#[test]
fn cost_of_waking_up_is_no_run_queue_delay() {
    let of = |wait_us: u64| {
        let mut t = tally();
        t.times.service = Hist::new();
        t.times.service.record_n(Span::from_micros(20), 100_000);
        (t.started, t.sent, t.replies) = (100_000, 100_000, 100_000);
        let waited = Span::from_micros(wait_us * 100_000);
        let sched_delay = Some(SchedDelay { total: waited, count: 100_000 });
        reasons(&summary(closed(), t, WorkerStats { sched_delay, ..meter(0) })).len()
    };
    assert_eq!((of(5), of(6)), (0, 1));
}

#[test]
fn event_loop_stalls_invalidate() {
    let stalled = |late: u64, each: Span| {
        under_pressure(|m, _| {
            (0..200 - late).for_each(|_| m.stalls.record(Span::from_micros(60)));
            (0..late).for_each(|_| m.stalls.record(each));
        })
    };
    let ms = Span::from_millis;
    assert_eq!(stalled(10, ms(40)), [], "5 % exactly");
    let limit = Reason::EventLoopStall { worker: 0, share: 0.055, late: ms(40), longest: ms(40) };
    assert_eq!(stalled(11, ms(40)), [limit]);
    assert_eq!(stalled(200, Span::from_micros(999)), [], "under 1 ms");
    // Two late checks may be chance, however short the run.
    let two = Stalls { checks: 10, late: 2, sum: ms(80), longest: ms(40) };
    assert_eq!(under_pressure(|m, _| m.stalls = two), []);
    // Late by 9 ms on average: small against service times of 100 ms.
    let mut slow = tally();
    slow.times.service = Hist::new();
    slow.times.service.record_n(ms(100), 1_000);
    let stalls = Stalls { checks: 200, late: 100, sum: ms(900), longest: ms(20) };
    let slow = summary(closed(), slow, WorkerStats { stalls, ..meter(0) });
    assert_eq!(reasons(&slow), []);
    // The same stalls, but the worker is busy for the rest of the time: it would have done more
    // work.
    let mut full = tally();
    full.times.service = Hist::new();
    full.times.service.record_n(ms(100), 1_000);
    let often = Stalls { checks: 200, late: 42, sum: ms(42 * 9), longest: ms(20) };
    let full = |busy| {
        reasons(&summary(closed(), full.clone(), WorkerStats { stalls: often, ..meter(busy) }))
    };
    assert_eq!(full(6_900), []);
    assert!(matches!(full(6_950)[..], [Reason::EventLoopStall { .. }]), "21 % and 69.5 %");
    // Waits in the client's own queue, which stalls make longer, do not hide them.
    let mut queued = tally();
    queued.times.response = Hist::new();
    queued.times.response.record_n(Span::from_secs(3), 1_000);
    let queued = reasons(&summary(open(), queued, WorkerStats { stalls, ..meter(0) }));
    assert!(matches!(queued[..], [Reason::EventLoopStall { .. }]), "{queued:?}");
}

#[test]
fn mismatch_of_littles_law_invalidates() {
    let of = |ms: u64| {
        let t = Tally { time_in_flight: Some(Span::from_millis(ms)), ..tally() };
        reasons(&summary(closed(), t, meter(0)))
    };
    // 1,000 requests of 2 ms are 2 s in flight.
    assert_eq!(of(2_000), []);
    assert_eq!(of(2_040), []);
    assert_eq!(of(1_961), []);
    assert_eq!(of(1_950), [Reason::LittlesLawMismatch { counted: 0.195, timed: 0.2 }]);
    assert_eq!(of(2_050), [Reason::LittlesLawMismatch { counted: 0.205, timed: 0.2 }]);
}

#[test]
fn p12_goals_must_be_reached() {
    let (ms, second) = (Span::from_millis, Nanos(1_000_000_000));
    // Ten equal seconds.
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
    assert!(judged("p99 +- 2%", false, &t).is_valid(), "reached at the end");
    let [Reason::IntervalTooWide { goal, reach: None }] =
        judged("p99.99 +- 2%", false, &t).reasons[..]
    else {
        panic!("the sample is too small for an interval")
    };
    assert_eq!(goal.to_string(), "p99.99 +- 2 %");
    // An interval seen during the load does not count, only that of the report.
    assert_eq!(judged("p99.99 +- 2%", true, &t).verdict, Verdict::TooShort);
    t.end = second;
    assert_eq!(judged("p99.99 +- 50%", false, &t).verdict, Verdict::TooShort);
}

/// A tally with 1,000 replies in each second, all with that second's response time.
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
fn p14_level_shift_invalidates() {
    let (ms, second) = (Span::from_millis, Span::from_secs);
    let times: Vec<Span> = (0..12).map(|i| ms(if i < 5 { 10 } else { 20 })).collect();
    let judged = summary(open(), course(&times), meter(0)).verdict();
    let [Reason::LevelShift(change)] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(judged.verdict, Verdict::NotStationary);
    assert_eq!((change.figure, change.at), (Figure::P50, Some(second(5))));
    assert!((change.to / change.from - 2.0).abs() < 0.05, "{change:?}");
    // Too few intervals, a rate that changes as planned, and constant times are valid.
    assert!(summary(open(), course(&times[..7]), meter(0)).verdict().is_valid());
    assert!(summary(open(), course(&[ms(10); 12]), meter(0)).verdict().is_valid());
    let mut ramp = open();
    ramp.load = Load::Open {
        rate: prony_plan::rate::RatePlan::parse("100@6s,200@6s").expect("a plan"),
        arrivals: prony_plan::rate::Arrivals::Fixed,
        connections: 50,
    };
    assert!(summary(ramp, course(&times), meter(0)).verdict().is_valid());
    // With a busy meter, nothing is said about the target.
    let busy = summary(open(), course(&times), meter(9_500)).verdict();
    assert_eq!((busy.verdict, busy.reasons.len()), (Verdict::ClientLimited, 1));
}

#[test]
fn p14_autocorrelated_times_invalidate() {
    let wave = |i: u32, share: f64| {
        let phase = f64::from(i) / 24.0 * std::f64::consts::TAU;
        Span((1e7 * (1.0 + share * phase.cos())) as u64)
    };
    let times = |share| (0..24).map(|i| wave(i, share)).collect::<Vec<_>>();
    let judged = summary(open(), course(&times(0.5)), meter(0)).verdict();
    let [Reason::Autocorrelated { redness }] = judged.reasons[..] else { panic!("{judged:?}") };
    assert_eq!(judged.verdict, Verdict::NotStationary);
    assert!(redness > 20.0, "{redness}");
    // Variation too small to matter, and the same times in random order, are valid.
    assert!(summary(open(), course(&times(0.05)), meter(0)).verdict().is_valid());
    let mixed: Vec<Span> = (0..24).map(|i| wave(i * 7 % 24, 0.5)).collect();
    assert!(summary(open(), course(&mixed), meter(0)).verdict().is_valid());
}

#[test]
fn p20_names_one_bottleneck() {
    let of = |plan: Plan, t: Tally, m: WorkerStats| {
        let s = summary(plan, t, m);
        s.bottleneck(&s.verdict())
    };
    assert_eq!(of(open(), tally(), meter(9_500)), Some(Bottleneck::Client));
    let asked = Bottleneck::TargetRate { failed: None, waiting: None };
    assert_eq!(of(open(), tally(), meter(0)), Some(asked));
    let mut unsure = Tally { replies: 600, failed: 400, ..tally() };
    unsure.faults[Fault::UnexpectedStatus as usize] = 400;
    let asked = Bottleneck::TargetRate { failed: Some(0.4), waiting: None };
    assert_eq!(of(open(), unsure, meter(0)), Some(asked));
    // A target that freezes did not keep up, however short the freeze.
    let mut frozen = tally();
    frozen.times.response.record_n(Span::from_secs(2), 1);
    let Some(Bottleneck::TargetRate { failed: None, waiting: Some(waiting) }) =
        of(open(), frozen, meter(0))
    else {
        panic!("one request took 2 s")
    };
    assert_eq!(waiting.longest, Span::from_secs(2));
    assert!((waiting.concurrency - 0.4).abs() < 1e-9, "{waiting:?}");
    let lossy = Transport { sampled: 10, retransmits: 11, ..Transport::default() };
    let lossy = WorkerStats { transport: lossy, ..meter(0) };
    assert_eq!(of(open(), tally(), lossy), Some(Bottleneck::Network { share: 0.011 }));
    let mut behind = tally();
    behind.replies_in_drain = 100;
    assert_eq!(of(open(), behind.clone(), meter(0)), Some(Bottleneck::Server { queued: None }));
    behind.times.queue.record_n(Span::from_millis(3), 500);
    // They waited for connections that were being opened, and not for the limit.
    assert_eq!(of(open(), behind.clone(), meter(0)), Some(Bottleneck::Server { queued: None }));
    behind.connections.open_max = 50;
    assert_eq!(of(open(), behind, meter(0)), Some(Bottleneck::ConnectionLimit { connections: 50 }));
    // Ten users with requests of 99 ms, 100 per second: all connections are in use.
    let mut full = tally();
    full.times.response = Hist::new();
    full.times.response.record_n(Span::from_millis(99), 1_000);
    let Some(Bottleneck::Connections { connections: 10, concurrency }) =
        of(closed(), full.clone(), meter(0))
    else {
        panic!("all connections were in use")
    };
    assert!((concurrency - 9.9).abs() < 0.01);
    assert_eq!(of(closed(), tally(), meter(0)), None, "2 ms in every 100 ms: no cause stands out");
    let think = Think::Fixed(Span::from_millis(1));
    let thinking = Plan { load: Load::Closed { connections: 10, think }, ..closed() };
    assert!(matches!(
        of(thinking.clone(), tally(), meter(0)),
        Some(Bottleneck::Users { users: 10, .. })
    ));
    // Think times of 1 ms do not limit users whose requests take 99 ms.
    let in_use = of(thinking, full.clone(), meter(0));
    assert!(matches!(in_use, Some(Bottleneck::Connections { connections: 10, .. })), "{in_use:?}");
    p20_sessions_without_pauses_have_no_think_times(&full);
    let piped = Plan { load: Load::Closed { connections: 5, think: Think::None }, ..closed() };
    let piped = Plan { pipeline: 2, ..piped };
    assert!(matches!(of(piped, full, meter(0)), Some(Bottleneck::Pipeline { requests: 10, .. })));
    let failed = Tally { replies: 0, failed: 1_000, ..tally() };
    let mut failed = failed;
    failed.faults[Fault::Reset as usize] = 1_000;
    assert_eq!(of(closed(), failed, meter(0)), Some(Bottleneck::Failures));
}

/// Sessions of two requests: with a pause between them, and without.
fn p20_sessions_without_pauses_have_no_think_times(full: &Tally) {
    let of = |think: Think, t: &Tally| {
        let bursts = vec![Burst::of(vec![0], think), Burst::of(vec![0], Think::None)];
        let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
        let plan = Plan { sessions: Some(Sessions::plain(kinds)), pipeline: 8, ..closed() };
        let s = summary(plan, t.clone(), meter(0));
        s.bottleneck(&s.verdict())
    };
    let pause = Think::Fixed(Span::from_millis(500));
    let busy = of(Think::None, full);
    assert!(matches!(busy, Some(Bottleneck::BusyUsers { users: 10, .. })), "{busy:?}");
    assert_eq!(of(Think::None, &tally()), None, "users who wait for something else");
    let pausing = of(pause, &tally());
    assert!(matches!(pausing, Some(Bottleneck::Users { users: 10, .. })), "{pausing:?}");
}

/// Requests that take longer than the load are no backlog.
#[test]
fn p20_a_target_does_not_fall_behind_before_its_first_reply() {
    let mut t = tally();
    // 100 per second for 10 s, each of which takes 12 s.
    t.times.response = Hist::new();
    t.times.response.record_n(Span::from_secs(12), 1_000);
    t.replies_in_drain = 1_000;
    t.time_in_drain = Span::from_secs(7_000);
    let s = summary(open(), t, meter(0));
    let found = s.bottleneck(&s.verdict());
    assert!(matches!(found, Some(Bottleneck::TargetRate { failed: None, .. })), "{found:?}");
}

/// Requests whose lines could not be read are a part of the load that was not sent.
#[test]
fn unread_lines_of_a_log_are_missing_load() {
    let of = |bad: u64, other_method: u64| {
        let mut s = summary(open(), tally(), meter(0));
        let log = LogRead { requests: 900, other_method, bad, ..LogRead::default() };
        let logs = vec![log.clone(), LogRead { bad: 0, ..log }];
        s.run.replay = Some(Box::new(Replayed { logs, ..Replayed::default() }));
        s.verdict()
    };
    assert_eq!(of(18, 0).verdict, Verdict::Valid);
    assert_eq!(of(0, 5_000).verdict, Verdict::Valid, "they were read");
    assert_eq!(of(20, 90).verdict, Verdict::Valid);
    let limit = Reason::UnreadLines { unread: 19, lines: 1_819 };
    assert_eq!(of(19, 0), Judgment { verdict: Verdict::Partial, reasons: vec![limit] });
}

#[test]
fn p20_names_the_limits_of_servers_of_streams() {
    let of = |limit_least, stream_waits: u64, flow_wait: Span| {
        let mut t = tally();
        t.http2 = Some(Box::new(StreamCounts { limit_least, ..StreamCounts::default() }));
        t.times.stream_wait.record_n(Span::from_millis(1), stream_waits);
        // 500 of 1,000 requests of 2 ms each.
        t.times.flow_wait.record_n(flow_wait, 500);
        let s = summary(open(), t, meter(0));
        s.bottleneck(&s.verdict())
    };
    let (none, long) = (Span::ZERO, Span::from_micros(2_200));
    let asked = Some(Bottleneck::TargetRate { failed: None, waiting: None });
    // A tenth of the requests may wait for a stream.
    let limited = Some(Bottleneck::StreamLimit { limit: 7, waited: 0.101 });
    assert_eq!(of(Some(7), 100, none), asked);
    assert_eq!(of(Some(7), 101, none), limited);
    assert_eq!(of(None, 101, none), asked);
    // Of the 2 s of all requests, 1.1 s were waits for windows.
    let Some(Bottleneck::Window { share }) = of(Some(7), 100, long) else {
        panic!("more than half of the time")
    };
    assert!((share - 0.55).abs() < 1e-9, "{share}");
    assert_eq!(of(Some(7), 100, Span::from_micros(1_800)), asked);
}
