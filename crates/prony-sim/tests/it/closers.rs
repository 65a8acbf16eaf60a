//! Servers that close each connection after a number of replies: nothing is lost by it, whatever
//! was sent behind the last reply.

use prony_core::plan::{
    Burst, Cookies, Load, Lost, OnFailure, Pick, Plan, SessionKind, Sessions, Stop, Think,
};
use prony_core::schedule::Arrivals;
use prony_core::units::Span;
use prony_sim::Outcome;
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::plant::{Law, Plant, Scripted, Server, Station, Step};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_conserved, closed, get, ms, open};

const DEPTHS: [u32; 5] = [1, 2, 4, 8, 64];

/// A closed loop, an open one, or sessions; `requests` in all.
fn any_load(dice: &mut Dice, requests: u64, announced: bool) -> Plan {
    let connections = dice.between(1, 9) as u32;
    let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
    let mut plan = match dice.below(3) {
        0 => open(200.0 + dice.unit() * 50_000.0, arrivals, requests),
        _ => closed(connections, Think::None, ms(1)),
    };
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = dice.between(1, 20) as u32;
    }
    plan.stop = Stop { requests: Some(requests), sessions: None, duration: None };
    plan.pipeline = DEPTHS[dice.below(5) as usize];
    plan.timeout = Span::from_secs(600);
    let method = if announced && dice.chance(0.3) { "POST" } else { "GET" };
    plan.calls[0].method = method.into();
    if dice.chance(0.3) {
        plan.calls.push(get("/other"));
    }
    if matches!(plan.load, Load::Closed { .. }) && dice.chance(0.5) {
        let lost = match dice.below(3) {
            0 => Lost::Idempotent,
            1 if announced => Lost::Fail,
            _ => Lost::Resend,
        };
        let calls = vec![0; dice.between(1, 12) as usize];
        let burst = Burst { calls, lead: false, think: Think::None, repeat: 3 };
        plan.sessions = Some(Sessions {
            kinds: vec![SessionKind { name: String::new(), weight: 1, bursts: vec![burst] }].into(),
            pick: Pick::InTurn,
            connections: 1,
            cookies: Cookies::Off,
            lost,
            on_failure: OnFailure::End,
            retries: 0,
        });
    }
    plan.check().expect("such a plan is valid");
    plan
}

fn assert_all_served(outcome: &Outcome, served: u64, requests: u64, what: &str) {
    assert_conserved(outcome, what);
    let t = outcome.main();
    let got = (t.started, t.replies, t.failed, served);
    assert_eq!(got, (requests, requests, 0, requests), "{what}: {:?}", t.faults);
}

/// What is sent behind the last reply of a connection was not served: each request is answered once
/// in the end, by both sides' count.
#[test]
fn requests_behind_a_close_are_sent_again_until_served() {
    let mut again = 0;
    for seed in 0..600 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 31);
        let (requests, announced) = (dice.between(1, 400), dice.chance(0.5));
        let plan = any_load(&mut dice, requests, announced);
        let law = Law::Exponential(Span(dice.below(300_000)));
        let station = Station::new(law, seed).close_after(dice.between(1, 12));
        let mut server = Server::new(if announced { station } else { station.silently() });
        let setup = Setup::new(Link::with_latency(Span(1_000 + dice.below(2_000_000))), seed);
        let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut server]);
        let what = format!("announced: {announced}, {plan:?}");
        assert_all_served(&outcome, server.plant().served, requests, &what);
        again += outcome.main().retries;
    }
    assert!(again > 1_000, "requests sent again: {again}");
}

/// After the first connections it is known how many requests one takes: no more are sent ahead.
#[test]
fn few_requests_are_sent_in_vain() {
    for (after, depth) in [(1, 4), (1, 64), (3, 8), (3, 64), (100, 8)] {
        for announced in [true, false] {
            let mut plan = closed(4, Think::None, ms(1));
            plan.stop = Stop { requests: Some(2_000), sessions: None, duration: None };
            plan.pipeline = depth;
            let station = Station::new(Law::Fixed(Span(10_000)), 1).close_after(after);
            let mut server = Server::new(if announced { station } else { station.silently() });
            let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
            let outcome = load(&plan, 1, &setup, &mut [&mut server]);
            let what = format!("closed after {after}, depth {depth}, announced: {announced}");
            assert_all_served(&outcome, server.plant().served, 2_000, &what);
            let t = outcome.main();
            // The first connections' pipelines; later, without an announcement, the one request
            // with which it is tried whether the connection lives on.
            let tried = if announced { 0 } else { t.connects };
            let most = u64::from(4 * depth) + tried;
            assert!(t.retries <= most, "{what}: {} of at most {most}", t.retries);
            assert_eq!(t.times.lag.max(), Some(Span::ZERO), "{what}: waits are no lateness");
        }
    }
}

/// Who closes without ever answering fails every request, in the end as in the beginning.
#[test]
fn a_server_that_never_answers_fails_every_request() {
    for depth in DEPTHS {
        let mut plan = closed(3, Think::None, ms(1));
        plan.stop = Stop { requests: Some(300), sessions: None, duration: None };
        plan.pipeline = depth;
        let mut server = closer(vec![Step::Await(1), Step::Close]);
        let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_conserved(&outcome, "a server that only closes");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.retries), (0, 300, 0), "depth {depth}");
    }
}

fn closer(script: Vec<Step>) -> Server<impl Plant> {
    Server::new(Scripted::one(script))
}
