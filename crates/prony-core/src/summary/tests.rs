use super::*;
use crate::plan::{Expect, HttpVersion, Pick, Shard, Stop, Think};
use crate::schedule::RatePlan;
use crate::units::Nanos;

fn plan(load: Load) -> Plan {
    Plan {
        endpoints: vec![],
        calls: Default::default(),
        pick: Pick::InTurn,
        sessions: None,
        names: Vec::new(),
        data: Default::default(),
        timeout_from_send: false,
        replace_lost: false,
        exchange: None,
        tls: None,
        load,
        stop: Stop { requests: None, sessions: None, duration: Some(Span::from_secs(10)) },
        warmup: Span::ZERO,
        pipeline: 1,
        requests_per_connection: None,
        timeout: Span::from_secs(30),
        connect_timeout: Span::from_secs(5),
        expect: Expect::default(),
        http: HttpVersion::Http11,
        seed: 1,
        shard: Shard::WHOLE,
    }
}

fn closed() -> Plan {
    plan(Load::Closed { connections: 10, think: Think::None })
}

/// Evenly spread gaps, 100 a second.
fn open() -> Plan {
    let arrivals = Arrivals::Uniform(Span::from_millis(5), Span::from_millis(15));
    plan(Load::Open { rate: RatePlan::default(), arrivals, connections: 50 })
}

/// Ten seconds, 1,000 requests of 2 ms each, sent when due.
fn tally() -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    t.end = Nanos(10_000_000_000);
    (t.started, t.sent, t.replies) = (1_000, 1_000, 1_000);
    t.times.response.record_n(Span::from_millis(2), 1_000);
    t.times.service.record_n(Span::from_millis(2), 1_000);
    t.times.lag.record_n(Span::ZERO, 1_000);
    t
}

fn meter(busy_ms: u64) -> Meter {
    Meter {
        cpu_user: Span::from_millis(busy_ms),
        wall: Span::from_millis(10_000),
        ..Meter::default()
    }
}

fn summary(plan: Plan, t: Tally, m: Meter) -> Summary {
    Summary::from_parts(plan, RunInfo::default(), vec![(None, t, m)])
}

fn reasons(s: &Summary) -> Vec<Limit> {
    match s.verdict() {
        Verdict::Valid => vec![],
        Verdict::ClientLimited { reasons } => reasons,
    }
}

#[test]
fn figures_of_a_known_run() {
    let mut t = tally();
    (t.replies, t.failed, t.replies_in_drain) = (990, 10, 40);
    (t.bytes_head, t.bytes_body, t.bytes_in_drain) = (20_000, 80_000, 5_000);
    t.faults[Fault::RequestTimeout as usize] = 3;
    t.faults[Fault::ConnectTimeout as usize] = 2;
    t.faults[Fault::Reset as usize] = 5;
    assert_eq!(t.window(), Span::from_secs(10));
    assert_eq!((t.rate(), t.bytes_per_second()), (95.0, 9_500.0));
    assert_eq!((t.error_share(), t.timeouts()), (Some(0.01), 5));
    assert!((t.concurrency() - 0.2).abs() < 1e-12, "2 ms a hundred times a second");
    let empty = Tally::default();
    assert_eq!((empty.rate(), empty.error_share(), empty.concurrency()), (0.0, None, 0.0));
}

#[test]
fn parts_are_merged_and_none_is_nothing() {
    let parts = vec![(Some(tally()), tally(), meter(100)), (Some(tally()), tally(), meter(300))];
    let s = Summary::from_parts(closed(), RunInfo::default(), parts);
    assert_eq!((s.main.started, s.warmup.as_ref().map(|w| w.started)), (2_000, Some(2_000)));
    assert_eq!((s.cpu(), s.ended(), s.meters.len()), (Span::from_millis(400), 4_000, 2));
    assert_eq!(s.busiest(), Some((1, 0.03)));
    let none = Summary::from_parts(closed(), RunInfo::default(), vec![]);
    assert_eq!((none.main, none.meters.len()), (Tally::default(), 0));
}

#[test]
fn a_run_with_time_to_spare_is_valid() {
    for plan in [closed(), open()] {
        assert_eq!(summary(plan, tally(), meter(9_000)).verdict(), Verdict::Valid);
    }
}

#[test]
fn a_busy_worker_limits_but_spinning_is_not_work() {
    let busy = summary(closed(), tally(), meter(9_100));
    assert_eq!(reasons(&busy), [Limit::Busy { worker: 0, share: 0.91 }]);
    assert_eq!(meter(11_000).busy(), 1.0, "a share of the time");
    let few = |started| summary(closed(), Tally { started, ..tally() }, meter(9_100)).verdict();
    assert_eq!(few(19), Verdict::Valid, "a handful is all beginning and end");
    assert_ne!(few(20), Verdict::Valid);
    let spin = Span::from_millis(200);
    let spinning = summary(closed(), tally(), Meter { spin, ..meter(9_100) });
    assert_eq!(spinning.verdict(), Verdict::Valid);
}

#[test]
fn requests_that_the_meter_sent_too_late_limit_an_open_loop_only() {
    let mut t = tally();
    t.sent_late = 10;
    assert_eq!(summary(open(), t.clone(), meter(0)).verdict(), Verdict::Valid);
    t.sent_late = 11;
    let limit = Limit::Rate { asked: 100.0, achieved: 98.9 };
    assert_eq!(reasons(&summary(open(), t.clone(), meter(0))), [limit]);
    assert_eq!(summary(closed(), t, meter(0)).verdict(), Verdict::Valid);
}

#[test]
fn waits_for_a_connection_and_refusals_are_not_the_meters_lateness() {
    let mut t = tally();
    // 300 never went out: refused, or waiting for a connection until they timed out.
    (t.sent, t.replies, t.failed) = (700, 700, 300);
    t.faults[Fault::ConnectRefused as usize] = 100;
    t.faults[Fault::RequestTimeout as usize] = 200;
    let s = summary(open(), t, meter(0));
    assert_eq!(s.verdict(), Verdict::Valid);
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
fn whatever_the_meter_runs_out_of_voids_the_run() {
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
fn rows_tell_the_series() {
    let mut t = tally();
    t.series.started(Nanos(1));
    t.series.replied(Nanos(1_500_000_000), Span::from_millis(1), 10);
    t.series.close();
    let rows: Vec<Row> = t.rows().collect();
    assert_eq!((rows.len(), rows[0].started, rows[0].max), (2, 1, None));
    let last = (rows[1].at, rows[1].length, rows[1].replies, rows[1].bytes, rows[1].max);
    let second = Span::from_secs(1);
    assert_eq!(last, (second, second, 1, 10, Some(Span::from_millis(1))));
}

#[test]
fn the_asked_rate_is_the_laws() {
    assert_eq!(summary(open(), tally(), meter(0)).asked_rate(), Some(100.0));
    assert_eq!(summary(closed(), tally(), meter(0)).asked_rate(), None);
    let trace = Arrivals::Trace([Span::ZERO, Span::from_secs(1)].into());
    let load = Load::Open { rate: RatePlan::default(), arrivals: trace, connections: 1 };
    assert_eq!(summary(plan(load), tally(), meter(0)).asked_rate(), Some(100.0));
}
