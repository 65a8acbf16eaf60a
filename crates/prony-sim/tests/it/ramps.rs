//! Closed loops whose users start one after the other. In this world, connects and ways take no
//! time, so each user has one request in flight from its start on.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Burst, Plan, SessionKind, Sessions, Stop, Think};
use prony_sim::link::Link;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_stats::summary::confidence::NoInterval;
use prony_stats::summary::{RunInfo, Verdict};

use crate::plans::{assert_invariants, closed, ms, summed};

/// A closed loop of this many users, who start within `ramp`.
fn ramp(users: u32, ramp: Span, duration: Span) -> Plan {
    let plan = Plan { ramp_up: Some(ramp), ..closed(users, Think::None, duration) };
    plan.check().expect("the plan is valid");
    plan
}

fn run(plan: &Plan, shares: u32, service: ServiceTime) -> Outcome {
    let mut server = Server::new(Station::new(service, 1));
    let outcome = load(plan, shares, &Setup::new(Link::default(), 1), &mut [&mut server]);
    assert_invariants(&outcome, "a ramp");
    outcome
}

/// When the requests were sent, in order.
fn sent(outcome: &Outcome) -> Vec<Nanos> {
    let mut sent: Vec<Nanos> = outcome.world.oracle.requests().iter().map(|r| r.sent).collect();
    sent.sort_unstable();
    sent
}

/// User k of n starts after k / n of the ramp, by definition.
fn starts(users: u64, ramp: Span) -> Vec<Nanos> {
    (0..users).map(|k| Nanos::ZERO + Span(ramp.0 * k / users)).collect()
}

#[test]
fn users_start_exactly_at_their_times_on_any_number_of_threads() {
    for users in [1, 7, 100] {
        for shares in [1, 2, 3].into_iter().filter(|&n| n <= users) {
            // No reply comes while the users start.
            let plan = ramp(users, ms(6_000), ms(7_000));
            let outcome = run(&plan, shares, ServiceTime::Fixed(ms(20_000)));
            let wanted = starts(users.into(), ms(6_000));
            assert_eq!(sent(&outcome), wanted, "{users} users, {shares} shares");
            let main = outcome.main();
            assert_eq!((main.started, main.times.lag.sum_ns()), (users.into(), 0));
        }
    }
}

#[test]
fn as_many_users_are_active_at_each_instant_as_have_started() {
    let plan = ramp(10, ms(1_000), ms(1_500));
    for shares in [1, 3] {
        let outcome = run(&plan, shares, ServiceTime::Fixed(ms(7)));
        let seen = outcome.world.oracle.requests();
        for at in (0..1_500).map(|k| Nanos::ZERO + ms(k) + Span::from_micros(500)) {
            let active =
                seen.iter().filter(|r| r.sent <= at && r.done.is_none_or(|done| done > at));
            let started = starts(10, ms(1_000)).iter().filter(|&&start| start <= at).count();
            assert_eq!(active.count(), started, "at {at:?}, {shares} shares");
        }
        // A user who starts at s makes a request each 7 ms until the end.
        let of_each = starts(10, ms(1_000)).into_iter().map(|start| {
            let left = (Nanos::ZERO + ms(1_500)).since(start);
            left.0.div_ceil(ms(7).0)
        });
        assert_eq!(outcome.main().started, of_each.sum::<u64>());
    }
}

/// Pipelined requests of a connection are users, too: the first of each connection start first.
#[test]
fn the_depth_of_connections_is_part_of_the_ramp() {
    for shares in [1, 2] {
        let plan = Plan { pipeline: 4, ..ramp(3, ms(1_200), ms(2_000)) };
        let outcome = run(&plan, shares, ServiceTime::Fixed(ms(20_000)));
        assert_eq!(sent(&outcome), starts(12, ms(1_200)), "{shares} shares");
    }
}

#[test]
fn users_of_sessions_start_over_the_ramp() {
    let kind = SessionKind {
        name: String::new(),
        weight: 1,
        bursts: vec![Burst::of(vec![0], Think::None), Burst::of(vec![0], Think::None)],
    };
    let plan =
        Plan { sessions: Some(Sessions::plain(vec![kind])), ..ramp(5, ms(1_000), ms(2_000)) };
    for shares in [1, 2, 5] {
        let outcome = run(&plan, shares, ServiceTime::Fixed(ms(20_000)));
        assert_eq!(sent(&outcome), starts(5, ms(1_000)), "{shares} shares");
    }
    // The number of sessions ends the load, though most users have not started by then.
    let stop = Stop { requests: None, sessions: Some(6), duration: None };
    let outcome = run(&Plan { stop, ..plan }, 1, ServiceTime::Fixed(ms(10)));
    let main = outcome.main();
    let sessions = main.sessions.as_ref().expect("sessions");
    assert_eq!((sessions.completed, main.replies), (6, 12));
    // One user makes a session of 20 ms after the other.
    assert_eq!(main.end, Nanos::ZERO + ms(120));
}

#[test]
fn a_number_of_requests_ends_the_load_before_the_ramp() {
    let stop = Stop { requests: Some(30), sessions: None, duration: None };
    for (shares, end) in [(1, 200), (2, 250)] {
        let plan = Plan { stop, ..ramp(10, ms(1_000), ms(1_001)) };
        let main = run(&plan, shares, ServiceTime::Fixed(ms(10))).main();
        assert_eq!((main.started, main.replies), (30, 30));
        // Alone: 10 requests of one user by 0.1 s, 20 of two by 0.2 s. In halves: 15 of one user
        // from 0 s on, 15 of another from 0.1 s on.
        assert_eq!(main.end, Nanos::ZERO + ms(end), "{shares} shares");
    }
}

/// The rate of a growing number of users says nothing about a change of the target.
#[test]
fn a_ramp_is_no_change_of_the_target() {
    let verdict = |plan: &Plan| {
        let outcome = run(plan, 1, ServiceTime::Exponential(ms(2)));
        summed(plan, RunInfo::default(), outcome)
    };
    let plan = ramp(20, ms(10_000), ms(12_000));
    let growing = verdict(&plan);
    assert_eq!(growing.verdict().verdict, Verdict::Valid, "{:?}", growing.verdict().reasons);
    assert_eq!(growing.rate_interval(), Err(NoInterval::RateChanges));
    // If the warm-up has the ramp, the measurement is of a constant number of users.
    let full = verdict(&Plan { warmup: ms(10_000), ..plan });
    assert!(full.rate_interval().is_ok(), "{:?}", full.rate_interval());
    let rate = full.main.rate() / 20.0;
    assert!((rate - 500.0).abs() < 25.0, "{rate} of each user, who waits 2 ms for a reply");
}
