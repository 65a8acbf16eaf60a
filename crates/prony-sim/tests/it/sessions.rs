//! Sessions against servers with known times: their lifetimes, their choice, and that they include
//! no lateness of the meter.

use prony_base::units::Span;
use prony_plan::plan::{Burst, Load, Lost, Pick, Plan, SessionKind, Sessions, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::plans::{Seed, assert_invariants, at, closed, get, ms, open, seeds};

/// The one-way latency, and the service time of every request.
const WAY: Span = Span::from_micros(150);
const SERVICE: Span = Span::from_micros(700);

fn burst(calls: u32, think: Think) -> Burst {
    Burst::of((0..calls).collect(), think)
}

fn kind(weight: u32, bursts: Vec<Burst>) -> SessionKind {
    SessionKind { name: String::new(), weight, bursts }
}

/// The plan with `count` of these sessions.
fn sessions(plan: Plan, count: u64, kinds: Vec<SessionKind>) -> Plan {
    let plan = Plan {
        calls: (0..200).map(|k| get(&format!("/{k}"))).collect(),
        stop: Stop { requests: None, sessions: Some(count), duration: None },
        pipeline: 1_000,
        sessions: Some(Sessions::plain(kinds)),
        ..plan
    };
    plan.check().expect("the plan is valid");
    plan
}

fn users(n: u32, count: u64, kinds: Vec<SessionKind>) -> Plan {
    sessions(closed(n, Think::None, ms(1)), count, kinds)
}

fn run(plan: &Plan, shares: u32, station: Station) -> Tally {
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(WAY), 1) };
    let outcome = load(plan, shares, &setup, &mut [&mut Server::new(station)]);
    assert_invariants(&outcome, "sessions");
    outcome.main()
}

fn station() -> Station {
    Station::new(ServiceTime::Fixed(SERVICE), 1)
}

/// The time of a burst: the round trip and the service. A lead request takes the same time again.
fn round_trip() -> Span {
    WAY + SERVICE + WAY
}

/// One session after another: bursts of any length take their round trips and no more. (httperf
/// adds up to 2 ms to each.)
#[test]
fn sequential_sessions_take_only_their_round_trips() {
    for (length, lead) in [(1, false), (10, false), (64, false), (100, false), (10, true)] {
        let (count, rounds) = (20, 50);
        let bursts = vec![Burst { lead, repeat: rounds, ..burst(length, Think::None) }];
        let t = run(&users(1, count, vec![kind(1, bursts)]), 1, station());
        let turns = u64::from(rounds) * if lead { 2 } else { 1 };
        let each = WAY + WAY + round_trip() * turns;
        let s = t.sessions.as_ref().expect("sessions");
        assert_eq!(
            (s.completed, s.lifetime.min(), s.lifetime.max()),
            (count, Some(each), Some(each))
        );
        assert_eq!(t.end.0, each.0 * count, "bursts of {length}, lead {lead}");
        assert_eq!(
            (t.connections.open_max, t.connections.lifetimes.sum_ns()),
            (1, u128::from(each.0 * count))
        );
        let requests = count * u64::from(rounds * length);
        assert_eq!((t.replies, t.times.service.max()), (requests, Some(round_trip())));
        assert_eq!(t.times.lag.max(), Some(Span::ZERO));
    }
}

/// The lifetime is the sum of its known parts, think times included, with any number of concurrent
/// sessions and with a late meter.
#[test]
fn a_lifetime_is_the_sum_of_its_parts() {
    for (late, load) in [(0, 1), (300, 1), (0, 7), (300, 7)] {
        let pauses = [3, 10].map(ms);
        let bursts = vec![
            Burst { lead: true, repeat: 2, ..burst(5, Think::Fixed(pauses[0])) },
            burst(2, Think::Fixed(pauses[1])),
            // There is no think time after the last burst.
            burst(3, Think::Fixed(ms(1_000))),
        ];
        let plan = users(load, 40, vec![kind(1, bursts)]);
        let mut setup = Setup { watch: false, ..Setup::new(Link::with_latency(WAY), 1) };
        setup.timer_lateness = Span::from_micros(late);
        let outcome = load_of(&plan, &setup);
        let s = outcome.sessions.as_ref().expect("sessions");
        let parts = WAY + WAY + round_trip() * 6 + pauses[0] * 2 + pauses[1];
        // The meter's lateness is recorded as the send lag of each request.
        let lag = outcome.times.lag.max().expect("requests were sent");
        assert!(s.lifetime.max() <= Some(parts + lag * 8), "{:?} {parts:?}", s.lifetime.max());
        assert!(s.lifetime.min() >= Some(parts));
        assert_eq!(lag == Span::ZERO, late == 0);
    }
}

fn load_of(plan: &Plan, setup: &Setup) -> Tally {
    let outcome = load(plan, 1, setup, &mut [&mut Server::new(station())]);
    assert_invariants(&outcome, "sessions");
    outcome.main()
}

/// Kinds of one, two and three requests, which the lengths identify.
fn three_kinds() -> Vec<SessionKind> {
    [1, 2, 5].iter().zip(1..).map(|(&w, n)| kind(w, vec![burst(n, Think::None)])).collect()
}

#[test]
fn sessions_are_picked_in_turn_or_by_weight() {
    let count = 4_000;
    let mut plan = users(3, count, three_kinds());
    let t = run(&plan, 1, station());
    assert_eq!(t.sessions.expect("sessions").lengths, [(1, 1_334), (2, 1_333), (3, 1_333)].into());
    plan.sessions.as_mut().expect("sessions").pick = Pick::Random;
    for seed in 0..20 {
        plan.seed = seed;
        let lengths = run(&plan, 1, station()).sessions.expect("sessions").lengths;
        for (n, weight) in [(1, 1.0), (2, 2.0), (3, 5.0)] {
            let p = weight / 8.0;
            let (mean, sigma) = (count as f64 * p, (count as f64 * p * (1.0 - p)).sqrt());
            let off = (lengths[&n] as f64 - mean).abs();
            assert!(
                off < 4.5 * sigma,
                "seed {seed}: {} of length {n}, {mean} expected",
                lengths[&n]
            );
        }
    }
}

/// The sessions do not depend on the number of shares: in an open loop the merged tally is that of
/// the whole to the byte; in a closed loop the number of sessions of each kind is the same.
#[test]
fn shares_run_the_sessions_of_the_whole() {
    for seed in seeds(40) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 70);
        let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let mut kinds = three_kinds();
        for kind in &mut kinds {
            kind.bursts.push(burst(4, Think::Exponential(ms(3))));
            kind.bursts.insert(0, burst(1, Think::LogNormal(ms(5), 700)));
        }
        let mut plan = sessions(open(2_000.0, arrivals, 1), 300, kinds.clone());
        plan.seed = seed;
        plan.sessions.as_mut().expect("sessions").pick = Pick::Random;
        let merged = |shares| {
            let mut t = run(&plan, shares, station());
            (t.in_flight_max, t.connections.open_max, t.connections.opening_max) = (0, 0, 0);
            serde_json::to_string(&t).expect("serializable")
        };
        let whole = merged(1);
        for shares in 2..5 {
            assert!(merged(shares) == whole, "seed {seed}, {shares} shares");
        }
        let mut plan = users(8, 300, kinds);
        plan.seed = seed;
        let lengths = |shares| run(&plan, shares, station()).sessions.expect("sessions").lengths;
        let whole = lengths(1);
        for shares in [2, 3, 8] {
            assert_eq!(lengths(shares), whole, "seed {seed}, {shares} shares");
        }
    }
}

/// A freeze of one second shows in every session that arrives in it, although a session is sent
/// only when an earlier one has closed its connection.
#[test]
fn a_freeze_counts_from_the_intended_start() {
    let kinds = vec![kind(1, vec![burst(1, Think::None), burst(2, Think::None)])];
    let mut plan = sessions(open(100.0, Arrivals::Fixed, 1), 500, kinds);
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = 5;
    }
    let t = run(&plan, 1, station().freezes(vec![(at(2_000), ms(1_000))]));
    let s = t.sessions.as_ref().expect("sessions");
    assert_eq!(s.completed, 500);
    // 100 sessions arrive in the freeze and wait 505 ms on average. The backlog is served five at a
    // time, which adds 23 ms to each on average.
    let base = (WAY + WAY + round_trip() * 2).0;
    let extra = s.lifetime.sum_ns() - u128::from(base * 500);
    assert!((50_500_000_000..53_500_000_000).contains(&extra), "{extra}");
    assert!(s.lifetime.max() >= Some(ms(1_000)));
    // Only the five sessions with a connection have it in their service time.
    assert!(t.times.service.quantile(0.99) <= Some(ms(2)));
    assert_eq!(t.connections.open_max, 5);
    assert_eq!(t.times.lag.max(), Some(Span::ZERO), "the wait is not send lag");
}

/// With a server that closes after every reply, sessions continue over new connections.
#[test]
fn sessions_continue_after_each_close() {
    for (length, lost) in [(1, Lost::Fail), (6, Lost::Resend)] {
        let mut plan = users(2, 30, vec![kind(1, vec![burst(length, Think::None); 4])]);
        plan.sessions.as_mut().expect("sessions").lost = lost;
        let t = run(&plan, 1, station().close_after(1));
        let s = t.sessions.as_ref().expect("sessions");
        assert_eq!((s.completed, s.failed), (30, 0));
        let requests = 30 * 4 * u64::from(length);
        assert_eq!((t.replies, t.connected, s.connections), (requests, requests, requests));
        assert_eq!(t.connections.lifetimes.count(), requests);
    }
}
