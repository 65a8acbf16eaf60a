mod gamma;
mod recorded;

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::plan::Stop;
use crate::rate::Inverse;
use crate::testing::{KS_LIMIT, ks_statistic};

fn piece(from: f64, to: f64, secs: f64) -> RatePiece {
    RatePiece { from, to, length: Some(Span::from_secs_f64(secs)) }
}

fn rate(pieces: &[RatePiece]) -> RatePlan {
    RatePlan { pieces: pieces.to_vec() }
}

fn plan(rate: RatePlan, arrivals: Arrivals) -> Plan {
    let load = Load::Open { rate, arrivals, connections: 10 };
    Plan {
        load,
        stop: Stop { requests: None, sessions: None, duration: None },
        ..crate::plan::tests::plan()
    }
}

fn all(plan: &Plan) -> Vec<Arrival> {
    let mut schedule = Schedule::new(plan);
    let arrivals: Vec<_> = std::iter::from_fn(|| {
        let peeked = schedule.peek();
        assert_eq!(peeked, schedule.pop());
        peeked
    })
    .collect();
    assert_eq!(schedule.pop(), None, "the end is final");
    arrivals
}

fn seconds(plan: &Plan) -> Vec<f64> {
    all(plan).iter().map(|a| a.at.as_secs_f64()).collect()
}

#[test]
fn fixed_arrivals_follow_the_integral_of_the_rate() {
    let cases: [(&[RatePiece], &[f64]); 9] = [
        (&[piece(4.0, 4.0, 1.0)], &[0.0, 0.25, 0.5, 0.75]),
        // 0.1 * 30 is slightly above 3 in binary; this must not add a fourth arrival.
        (&[piece(0.1, 0.1, 30.0)], &[0.0, 10.0, 20.0]),
        // A rate of zero at the start, in the middle or at the end has no arrivals.
        (&[piece(0.0, 0.0, 2.0), piece(2.0, 2.0, 1.0)], &[2.0, 2.5]),
        (
            &[piece(2.0, 2.0, 1.0), piece(0.0, 0.0, 5.0), piece(2.0, 2.0, 1.0)],
            &[0.0, 0.5, 6.0, 6.5],
        ),
        (&[piece(1.0, 1.0, 2.0), piece(0.0, 0.0, 9.0)], &[0.0, 1.0]),
        // A fraction of an arrival is carried from piece to piece: 0.75 + 0.25 at 1.5 s.
        (&[piece(0.75, 0.75, 1.0), piece(0.5, 0.5, 2.0)], &[0.0, 1.5]),
        // From 0 to 6/s in 1 s: the integral 3 t^2 reaches k at sqrt(k / 3).
        (&[piece(0.0, 6.0, 1.0)], &[0.0, 0.577350269, 0.816496581]),
        // Down from 8/s to 0: 8 t - 4 t^2.
        (&[piece(8.0, 0.0, 1.0)], &[0.0, 0.133974596, 0.292893219, 0.5]),
        (&[], &[]),
    ];
    for (pieces, expected) in cases {
        assert_eq!(seconds(&plan(rate(pieces), Arrivals::Fixed)), expected, "{pieces:?}");
    }
}

#[test]
fn number_of_arrivals_is_the_integral_of_the_rate() {
    let ramp = plan(rate(&[piece(1e3, 20e3, 60.0)]), Arrivals::Fixed);
    assert_eq!(all(&ramp).len(), 630_000);
    let steps = rate(&[piece(1e3, 1e3, 10.0), piece(1e3, 20e3, 60.0), piece(20e3, 20e3, 30.0)]);
    assert_eq!(steps.length(), Some(Span::from_secs(100)));
    assert_eq!(steps.arrivals_until(Span::from_secs(100)), 1_240_000.0);
    assert_eq!(all(&plan(steps.clone(), Arrivals::Fixed)).len(), 1_240_000);
    let n = all(&plan(steps, Arrivals::Poisson)).len() as f64;
    assert!((n - 1_240_000.0).abs() < 4.0 * 1_240_000f64.sqrt(), "{n}");
}

#[test]
fn rate_and_integral_at_given_times() {
    let r = rate(&[piece(10.0, 10.0, 2.0), piece(10.0, 30.0, 4.0), piece(0.0, 0.0, 1.0)]);
    // Seconds, rate at that time, arrivals until then.
    let cases = [
        (0.0, 10.0, 0.0),
        (1.0, 10.0, 10.0),
        (2.0, 10.0, 20.0),
        (4.0, 20.0, 50.0),
        (6.0, 0.0, 100.0),
        (7.0, 0.0, 100.0),
        (99.0, 0.0, 100.0),
    ];
    for (t, rate, until) in cases {
        let t = Span::from_secs_f64(t);
        assert_eq!((r.rate_at(t), r.arrivals_until(t)), (rate, until), "{t:?}");
    }
    let forever = RatePlan::constant(5.0);
    assert_eq!(forever.length(), None);
    assert_eq!(forever.initial(), 5.0);
    assert_eq!(forever.rate_at(Span::from_secs(1_000_000)), 5.0);
    assert_eq!(forever.arrivals_until(Span::from_secs(1_000_000)), 5e6);
    assert_eq!(RatePlan::default().length(), Some(Span::ZERO));
    assert_eq!(RatePlan::default().rate_at(Span::ZERO), 0.0);
}

#[test]
fn stop_rules_end_the_schedule() {
    let secs = Span::from_secs;
    // Requests, duration, arrivals expected, end expected.
    let cases = [
        (None, Some(secs(2)), 20, Some(secs(2))),
        (Some(7), None, 7, None),
        (Some(7), Some(secs(2)), 7, Some(secs(2))),
        (Some(70), Some(secs(2)), 20, Some(secs(2))),
        (Some(0), None, 0, None),
    ];
    for (requests, duration, count, end) in cases {
        let mut p = plan(RatePlan::constant(10.0), Arrivals::Fixed);
        p.stop = Stop { requests, sessions: None, duration };
        assert_eq!(all(&p).len(), count);
        assert_eq!(Schedule::new(&p).end(), end.map(|end| Nanos::ZERO + end));
    }
    let mut p = plan(rate(&[piece(10.0, 10.0, 3.0)]), Arrivals::Poisson);
    assert_eq!(Schedule::new(&p).end(), Some(Nanos(3_000_000_000)));
    p.stop.duration = Some(secs(1));
    p.warmup = secs(5);
    assert_eq!(Schedule::new(&p).end(), Some(Nanos(6_000_000_000)));
    p.load = Load::Closed { connections: 1, think: crate::plan::Think::None };
    assert_eq!(all(&p), []);
    assert_eq!(Schedule::new(&p).end(), Some(Nanos(6_000_000_000)));
}

#[test]
fn trace_arrivals_are_the_times_of_the_trace() {
    let times: Arc<[Span]> = [0, 5, 5, 1_000_000_000].map(Span).into();
    let mut p = plan(RatePlan::default(), Arrivals::Trace(times));
    let at = |p: &Plan| all(p).iter().map(|a| (a.at.0, a.warmup)).collect::<Vec<_>>();
    assert_eq!(at(&p), [(0, false), (5, false), (5, false), (1_000_000_000, false)]);
    assert_eq!(Schedule::new(&p).end(), None);
    p.warmup = Span(100);
    p.stop.duration = Some(Span::from_secs(1));
    assert_eq!(at(&p), [(100, false), (105, false), (105, false)]);
    assert_eq!(Schedule::new(&p).end(), Some(Nanos(1_000_000_100)));
    p.stop.duration = Some(Span::from_secs(2));
    assert_eq!(Schedule::new(&p).end(), None, "the last arrival is before the end");
    p.load = Load::Open {
        rate: RatePlan::default(),
        arrivals: Arrivals::Trace([].into()),
        connections: 1,
    };
    assert_eq!(at(&p), []);
}

#[test]
fn warmup_runs_at_the_initial_rate_and_only_shifts_the_plan() {
    for arrivals in [
        Arrivals::Fixed,
        Arrivals::Poisson,
        Arrivals::Uniform(Span::from_micros(1), Span::from_millis(2)),
    ] {
        let mut p = plan(rate(&[piece(1000.0, 3000.0, 2.0)]), arrivals);
        p.stop.requests = Some(1500);
        let cold = all(&p);
        p.warmup = Span::from_secs_f64(0.9995);
        let warm = all(&p);
        let n = warm.iter().take_while(|a| a.warmup).count();
        assert!((n as f64 - 1000.0).abs() < 130.0, "{n}");
        assert!(warm[..n].iter().all(|a| a.at < Nanos::ZERO + p.warmup));
        assert_eq!(warm.len() - n, cold.len());
        for (k, (w, c)) in warm[n..].iter().zip(&cold).enumerate() {
            assert!(!w.warmup);
            assert_eq!((w.at, w.index), (c.at + p.warmup, (n + k) as u64));
        }
    }
}

#[test]
fn fixed_times_do_not_accumulate_errors() {
    // One arrival per third of a millisecond: arrival 3k is at exactly k milliseconds for any k.
    let mut schedule = Schedule::new(&plan(RatePlan::constant(3000.0), Arrivals::Fixed));
    for k in 0..3_000_000u64 {
        let at = schedule.pop().unwrap().at.0;
        assert!((at as i128 * 3 - i128::from(k) * 1_000_000).abs() <= 1, "{k}: {at}");
    }
    // The same after 11 days at a million per second.
    let mut clock = Inverse::new(&RatePlan::constant(1e6));
    for k in [1e12, 1e12 + 1.0, 1e12 + 2.0] {
        assert_eq!(clock.at(k), Some(Span(k as u64 * 1000)));
    }
}

#[test]
fn p07_poisson_inter_arrival_times_are_exponential() {
    let mut p = plan(RatePlan::constant(20_000.0), Arrivals::Poisson);
    p.stop.requests = Some(100_000);
    let at = seconds(&p);
    let times = std::iter::once(at[0]).chain(at.windows(2).map(|w| w[1] - w[0])).collect();
    let d = ks_statistic(times, |x| 1.0 - (-x * 20_000.0).exp());
    assert!(d < KS_LIMIT, "{d}");
}

#[test]
fn poisson_arrivals_on_a_ramp_follow_its_integral() {
    // Given their number, the arrivals are distributed as the normalized integral of the rate.
    let r = rate(&[piece(0.0, 2000.0, 30.0), piece(500.0, 500.0, 30.0)]);
    let total = r.arrivals_until(Span::from_secs(60));
    let at = seconds(&plan(r.clone(), Arrivals::Poisson));
    let n = at.len() as f64;
    let d = ks_statistic(at, |t| r.arrivals_until(Span::from_secs_f64(t)) / total);
    assert!(d < KS_LIMIT, "{d}");
    assert!((n - total).abs() < 4.0 * total.sqrt(), "{n} of {total}");
}

#[test]
fn p07_uniform_inter_arrival_times_are_uniform() {
    let (low, high) = (Span::from_micros(10), Span::from_micros(90));
    let mut p = plan(RatePlan::default(), Arrivals::Uniform(low, high));
    p.stop.requests = Some(100_000);
    let at = all(&p);
    let first = at[0].at.since(Nanos::ZERO);
    let times: Vec<_> =
        std::iter::once(first).chain(at.windows(2).map(|w| w[1].at.since(w[0].at))).collect();
    assert!(times.iter().all(|&time| low <= time && time <= high));
    let d = ks_statistic(times.iter().map(|t| (t.0 as f64 - 10_000.0) / 80_000.0).collect(), |x| x);
    assert!(d < KS_LIMIT, "{d}");
}

#[test]
fn schedules_of_a_seed_never_change() {
    let mut p = plan(rate(&[piece(1000.0, 5000.0, 1.0)]), Arrivals::Poisson);
    p.seed = 42;
    p.stop.requests = Some(3);
    let mut uniform = p.clone();
    uniform.load = Load::Open {
        rate: RatePlan::default(),
        arrivals: Arrivals::Uniform(Span(100), Span(900)),
        connections: 1,
    };
    let at = |p| all(p).iter().map(|a| a.at.0).collect::<Vec<_>>();
    expect_test::expect![[r#"
        (
            [
                648835,
                3540066,
                5175663,
            ],
            [
                482,
                1339,
                2088,
            ],
        )
    "#]]
    .assert_debug_eq(&(at(&p), at(&uniform)));
}

#[test]
fn invalid_rates_do_not_panic() {
    for arrivals in [Arrivals::Fixed, Arrivals::Poisson, Arrivals::Gamma(0.5)] {
        for r in [f64::NAN, -1.0, 0.0, 1e-300] {
            assert_eq!(all(&plan(RatePlan::constant(r), arrivals.clone())).len() as f64, {
                f64::from(u8::from(r > 0.0 && arrivals == Arrivals::Fixed))
            });
        }
    }
    let mut p = plan(RatePlan::constant(f64::INFINITY), Arrivals::Fixed);
    p.stop.requests = Some(10);
    assert!(all(&p).len() <= 10);
    let endless = plan(RatePlan::default(), Arrivals::Uniform(Span::MAX, Span::MAX));
    assert_eq!(all(&endless), []);
}

fn any_rate() -> impl Strategy<Value = RatePlan> {
    let level = prop_oneof![Just(0.0), 0.01..2000.0f64];
    let ends = prop_oneof![
        level.clone().prop_map(|r| (r, r)),
        (level.clone(), level).prop_map(|(a, b)| (a, b))
    ];
    let piece = (ends, 0u64..2_000_000_000).prop_map(|((from, to), ns)| RatePiece {
        from,
        to,
        length: Some(Span(ns)),
    });
    prop::collection::vec(piece, 0..5).prop_map(|pieces| RatePlan { pieces })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let bounds = (0u64..2_000_000, 1_000_000u64..4_000_000);
    let arrivals = prop_oneof![
        2 => Just(Arrivals::Fixed),
        2 => Just(Arrivals::Poisson),
        2 => (0.1..20.0_f64).prop_map(Arrivals::Gamma),
        1 => bounds.prop_map(|(a, b)| Arrivals::Uniform(Span(a), Span(a + b))),
        1 => prop::collection::vec(0u64..3_000_000_000, 0..200).prop_map(|mut times| {
            times.sort_unstable();
            Arrivals::Trace(times.into_iter().map(Span).collect())
        }),
    ];
    let requests = prop::option::of(0u64..3000);
    let warmup = prop_oneof![Just(0), 0u64..1_000_000_000];
    (any_rate(), arrivals, requests, 0u64..3_000_000_000, warmup, any::<u64>()).prop_map(
        |(rate, arrivals, requests, duration, warmup, seed)| {
            let mut p = plan(rate, arrivals);
            p.stop = Stop { requests, sessions: None, duration: Some(Span(duration)) };
            p.warmup = Span(warmup);
            p.seed = seed;
            if let Load::Open { connections, .. } = &mut p.load {
                *connections = 1 + (seed % 40) as u32;
            }
            p
        },
    )
}

proptest! {
    #[test]
    fn arrivals_of_the_shares_add_up_to_the_whole(p in any_plan(), n in 1u32..9, again in 1u32..4) {
        let whole = all(&p);
        let mut union: Vec<_> = (0..n).flat_map(|i| all(&p.shard(i, n))).collect();
        union.sort_by_key(|a| a.index);
        prop_assert_eq!(&union, &whole);
        let mut union: Vec<_> = (0..again)
            .flat_map(|j| (0..n).flat_map(move |i| [(i, j)]))
            .flat_map(|(i, j)| all(&p.shard(i, n).shard(j, again)))
            .collect();
        union.sort_by_key(|a| a.index);
        prop_assert_eq!(&union, &whole);
    }

    #[test]
    fn arrivals_ascend_and_respect_the_stop_rules(p in any_plan()) {
        let whole = all(&p);
        let start = Nanos::ZERO + p.warmup;
        for (k, a) in whole.iter().enumerate() {
            prop_assert_eq!(a.index, k as u64);
            prop_assert_eq!(a.warmup, a.at < start);
        }
        prop_assert!(whole.windows(2).all(|w| w[0].at <= w[1].at));
        let measured = whole.iter().filter(|a| !a.warmup).count() as u64;
        prop_assert!(measured <= p.stop.requests.unwrap_or(u64::MAX));
        if let Some(last) = whole.last() {
            prop_assert!(last.at < start + p.stop.duration.unwrap());
        }
    }

    #[test]
    fn number_of_fixed_arrivals_is_the_integral_rounded_up(r in any_rate()) {
        let expected = r.arrivals_until(Span::MAX);
        let whole = all(&plan(r.clone(), Arrivals::Fixed));
        // Arrival k is at integral k, the first at 0.
        let n = whole.len() as f64;
        prop_assert!((n - expected.ceil()).abs() <= 1.0, "{n} of {expected}");
        for a in &whole {
            let t = a.at.since(Nanos::ZERO);
            // Allow for rounding by half a nanosecond at 2,000/s.
            prop_assert!((r.arrivals_until(t) - a.index as f64).abs() < 2e-6);
        }
    }

    #[test]
    fn plans_round_trip_through_json(p in any_plan()) {
        let text = serde_json::to_string(&p).unwrap();
        prop_assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), p);
    }
}

/// The arrivals of a share of a plan with changes of the rate. Each change is applied just before
/// it takes effect, as late as a worker may apply it.
fn arrivals_with_changes(plan: &Plan, changes: &[RateChange]) -> Vec<Arrival> {
    let mut schedule = Schedule::new(plan);
    schedule.expect_rate_changes();
    let mut changes = changes.iter().peekable();
    let mut taken = Vec::new();
    loop {
        let next = schedule.peek();
        if let Some(change) = changes.next_if(|c| next.is_none_or(|next| next.at >= c.from)) {
            assert!(!schedule.is_over() || plan.load.clone().adjustable_rate().is_none());
            schedule.change_rate(*change);
            continue;
        }
        let Some(arrival) = schedule.pop() else { return taken };
        taken.push(arrival);
    }
}

fn at_secs(secs: f64, factor: f64) -> RateChange {
    RateChange { from: Nanos::ZERO + Span::from_secs_f64(secs), factor }
}

#[test]
fn rate_change_moves_later_arrivals() {
    let seconds = |plan: &Plan, changes: &[RateChange]| {
        let arrivals = arrivals_with_changes(plan, changes);
        arrivals.iter().map(|a| a.at.as_secs_f64()).collect::<Vec<_>>()
    };
    let mut p = plan(RatePlan::constant(4.0), Arrivals::Fixed);
    p.stop.duration = Some(Span::from_secs(2));
    // Twice the rate: the arrival at 1 s stays, the next ones follow every 1/8 s.
    let doubled = [0.0, 0.25, 0.5, 0.75, 1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875];
    assert_eq!(seconds(&p, &[at_secs(1.0, 2.0)]), doubled);
    // A pause from 0.6 s to 1.6 s: 0.4 of an arrival is carried over, the other 0.6 take 0.15 s.
    let paused = [at_secs(0.6, 0.0), at_secs(1.6, 1.0)];
    assert_eq!(seconds(&p, &paused), [0.0, 0.25, 0.5, 1.75]);
    // An arrival due exactly at the start of a pause moves to its end.
    let tie = [at_secs(0.5, 0.0), at_secs(1.5, 1.0)];
    assert_eq!(seconds(&p, &tie), [0.0, 0.25, 1.5, 1.75]);
    // Half the rate for 0.6 s, then none until the end.
    let fading = [at_secs(0.5, 0.5), at_secs(1.1, 0.0)];
    assert_eq!(seconds(&p, &fading), [0.0, 0.25, 0.5, 1.0]);
    // A request count still ends the schedule, later or earlier.
    p.stop = Stop { requests: Some(5), sessions: None, duration: None };
    assert_eq!(seconds(&p, &paused), [0.0, 0.25, 0.5, 1.75, 2.0]);
    assert_eq!(seconds(&p, &[at_secs(0.25, 8.0)]).len(), 5);
}

#[test]
fn paused_schedule_is_not_over() {
    let mut p = plan(RatePlan::constant(4.0), Arrivals::Fixed);
    p.stop.requests = Some(3);
    let mut schedule = Schedule::new(&p);
    schedule.pop();
    schedule.change_rate(at_secs(0.1, 0.0));
    assert_eq!((schedule.peek(), schedule.is_over()), (None, false));
    schedule.change_rate(at_secs(10.0, 1.0));
    assert_eq!(schedule.pop().map(|a| (a.index, a.at.as_secs_f64())), Some((1, 10.15)));
    schedule.pop();
    assert!(schedule.is_over(), "the plan has three requests");
    schedule.change_rate(at_secs(11.0, 5.0));
    assert_eq!((schedule.peek(), schedule.is_over()), (None, true));
}

#[test]
fn arrivals_without_a_rate_cannot_be_changed() {
    let times: Arc<[Span]> = [0, 5, 1_000_000_000].map(Span).into();
    for arrivals in
        [Arrivals::Trace(times), Arrivals::Uniform(Span::from_millis(1), Span::from_millis(9))]
    {
        let mut p = plan(RatePlan::default(), arrivals);
        p.stop.duration = Some(Span::from_secs(2));
        assert!(p.load.adjustable_rate().is_none());
        assert_eq!(arrivals_with_changes(&p, &[at_secs(0.5, 3.0)]), all(&p));
    }
}

proptest! {
    /// The shares' arrivals are those of the changed plan, and the rate of the changed plan is the
    /// planned rate times the factor.
    #[test]
    fn arrivals_after_rate_changes_are_those_of_the_changed_plan(
        arrivals in prop_oneof![
            Just(Arrivals::Fixed), Just(Arrivals::Poisson), Just(Arrivals::Gamma(0.5)),
        ],
        pieces in proptest::collection::vec((0.0..3e3, 0.0..3e3, 0.1..0.8_f64), 1..4),
        open: bool,
        changes in
            proptest::collection::vec((0.0..2.5_f64, prop_oneof![Just(0.0), 0.1..4.0]), 1..5),
        shares in 1..4_u32,
        warm: bool,
    ) {
        let mut r = rate(&pieces.iter().map(|&(a, b, s)| piece(a, b, s)).collect::<Vec<_>>());
        if open {
            r.pieces.push(RatePiece { from: 700.0, to: 700.0, length: None });
        }
        let mut p = plan(r.clone(), arrivals);
        p.stop.duration = Some(Span::from_secs(3));
        p.warmup = if warm { Span::from_millis(500) } else { Span::ZERO };
        let start = Nanos::ZERO + p.warmup;
        let mut rate_changes: Vec<RateChange> =
            changes.iter().map(|&(t, f)| at_secs(t + 0.5, f)).collect();
        rate_changes.sort_by_key(|c| c.from);

        let after = r.with_changes(start, &rate_changes);
        prop_assert_eq!(after.length(), r.length());
        for step in 0..60 {
            let t = Span::from_millis(step * 50 + 7);
            let latest = rate_changes.iter().rev().find(|c| c.from.since(start) <= t);
            let expected = r.rate_at(t) * latest.map_or(1.0, |c| c.factor);
            prop_assert!((after.rate_at(t) - expected).abs() < 1e-6, "at {:?}", t);
        }

        let mut changed = p.clone();
        changed.load = Load::Open { rate: after, arrivals: match p.load {
            Load::Open { ref arrivals, .. } => arrivals.clone(),
            Load::Closed { .. } => unreachable!(),
        }, connections: 10 };
        let expected: Vec<Arrival> = all(&changed).into_iter().filter(|a| !a.warmup).collect();
        let of_share = |i| arrivals_with_changes(&p.shard(i, shares), &rate_changes);
        let mut union: Vec<Arrival> = (0..shares).flat_map(of_share).collect();
        union.retain(|a| !a.warmup);
        union.sort_by_key(|a| a.index);
        prop_assert_eq!(union.len(), expected.len());
        for (u, e) in union.iter().zip(&expected) {
            prop_assert_eq!(u.index, e.index);
            // The slope of a part of a ramp is rounded.
            prop_assert!(u.at.0.abs_diff(e.at.0) <= 2, "{:?} {:?}", u, e);
        }
    }
}

/// The arrivals of a schedule that are skipped before `limit`, and those that follow.
fn skipped(plan: &Plan, limit: Nanos) -> (Vec<Skipped>, Vec<Arrival>) {
    let mut schedule = Schedule::new(plan);
    let skipped: Vec<_> = std::iter::from_fn(|| schedule.skip_before(limit)).collect();
    (skipped, std::iter::from_fn(|| schedule.pop()).collect())
}

#[test]
fn skips_a_billion_arrivals_in_a_few_steps() {
    let second = Span::from_secs(1);
    for arrivals in [
        Arrivals::Fixed,
        Arrivals::Poisson,
        Arrivals::Gamma(0.5),
        Arrivals::Uniform(Span::ZERO, Span::from_nanos(2)),
    ] {
        let mut p = plan(RatePlan::constant(1e9), arrivals);
        p.stop.duration = Some(second);
        let mut total = 0;
        for i in 0..3 {
            let (skipped, _) = skipped(&p.shard(i, 3), Nanos::MAX);
            assert!(skipped.len() < 30, "{} steps of {:?}", skipped.len(), p.load);
            total += skipped.iter().map(|s| s.count).sum::<u64>();
        }
        assert!(total.abs_diff(1_000_000_000) < 100_000, "{:?}: {total}", p.load);
    }
}

#[test]
fn cut_schedule_ends_before_the_cut() {
    let mut schedule = Schedule::new(&plan(RatePlan::constant(10.0), Arrivals::Fixed));
    schedule.expect_rate_changes();
    schedule.cut(Nanos::ZERO + Span::from_millis(250));
    let ms = |a: Arrival| a.at.0 / 1_000_000;
    let rest: Vec<_> = std::iter::from_fn(|| schedule.pop()).map(ms).collect();
    assert_eq!(rest, [0, 100, 200]);
    assert!(schedule.is_over());
}

proptest! {
    /// Skipped and remaining arrivals add up to the whole schedule: exactly for deterministic
    /// processes, within six standard deviations for random ones.
    #[test]
    fn skipped_arrivals_are_those_before_the_limit(
        p in any_plan(),
        n in 1u32..5,
        limit in 0u64..4_000_000_000,
    ) {
        let limit = Nanos(limit);
        for i in 0..n {
            let share = p.shard(i, n);
            let whole = all(&share);
            let (skipped, rest) = skipped(&share, limit);
            let count: u64 = skipped.iter().map(|s| s.count).sum();
            let before = whole.partition_point(|a| a.at < limit);
            let own = |a: &Arrival| share.deal().has(a.index);
            prop_assert!(rest.iter().all(|a| a.at >= limit && own(a)));
            let first = skipped.first().map(|s| s.first);
            prop_assert_eq!(first, whole[..before].first().map(|a| a.at));
            let exact = matches!(
                p.load,
                Load::Open { arrivals: Arrivals::Fixed | Arrivals::Trace(_), .. }
            );
            if exact {
                prop_assert_eq!(count, before as u64);
                prop_assert_eq!(&rest[..], &whole[before..]);
            } else {
                // The standard deviation of an inter-arrival time, in their means.
                let deviation = match p.load {
                    Load::Open { arrivals: Arrivals::Gamma(shape), .. } => shape.sqrt().recip(),
                    _ => 1.0,
                };
                let bound = 6.0 * deviation.max(1.0) * (before as f64 + 1.0).sqrt() + 2.0;
                let error = count.abs_diff(before as u64) as f64;
                prop_assert!(error <= bound, "{} of {}", count, before);
            }
        }
    }
}
