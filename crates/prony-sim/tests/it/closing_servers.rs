//! Servers that close each connection after a number of replies: requests that were sent after the
//! last one are not lost.

use prony_base::units::Span;
use prony_plan::plan::{
    Burst, Cookies, Load, Lost, OnFailure, Pick, Plan, SessionKind, Sessions, Stop, Think,
};
use prony_plan::schedule::Arrivals;
use prony_sim::Outcome;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Scripted, Server, ServerModel, ServiceTime, Station, Step};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_invariants, closed, get, has_all_seeds, ms, open, seeds};

const DEPTHS: [u32; 5] = [1, 2, 4, 8, 64];

/// A closed loop, an open loop, or sessions, with this number of requests.
fn random_load(rng: &mut Rng, requests: u64, announced: bool) -> Plan {
    let connections = rng.between(1, 9) as u32;
    let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
    let mut plan = match rng.below(3) {
        0 => open(200.0 + rng.unit() * 50_000.0, arrivals, requests),
        _ => closed(connections, Think::None, ms(1)),
    };
    if let Load::Open { connections, .. } = &mut plan.load {
        *connections = rng.between(1, 20) as u32;
    }
    plan.stop = Stop { requests: Some(requests), sessions: None, duration: None };
    plan.pipeline = DEPTHS[rng.below(5) as usize];
    plan.timeout = Span::from_secs(600);
    let method = if announced && rng.chance(0.3) { "POST" } else { "GET" };
    plan.calls[0].method = method.into();
    if rng.chance(0.3) {
        plan.calls.push(get("/other"));
    }
    if matches!(plan.load, Load::Closed { .. }) && rng.chance(0.5) {
        let lost = match rng.below(3) {
            0 => Lost::Idempotent,
            1 if announced => Lost::Fail,
            _ => Lost::Resend,
        };
        let calls = vec![0; rng.between(1, 12) as usize];
        let burst = Burst { repeat: 3, ..Burst::of(calls, Think::None) };
        plan.sessions = Some(Sessions {
            kinds: vec![SessionKind { name: String::new(), weight: 1, bursts: vec![burst] }].into(),
            pick: Pick::InTurn,
            connections: 1,
            cookies: Cookies::Off,
            lost,
            on_failure: OnFailure::End,
            retries: 0,
            directed: false,
        });
    }
    plan.check().expect("such a plan is valid");
    plan
}

fn assert_all_served(outcome: &Outcome, served: u64, requests: u64, what: &str) {
    assert_invariants(outcome, what);
    let t = outcome.main();
    let got = (t.started, t.replies, t.failed, served);
    assert_eq!(got, (requests, requests, 0, requests), "{what}: {:?}", t.faults);
}

/// Requests that were sent after the last reply of a connection were not served. They are sent
/// again, so that each request is served once, by both sides' count.
#[test]
fn requests_after_the_last_reply_are_sent_again() {
    let mut again = 0;
    for seed in seeds(600) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 31);
        let (requests, announced) = (rng.between(1, 400), rng.chance(0.5));
        let plan = random_load(&mut rng, requests, announced);
        let service_time = ServiceTime::Exponential(Span(rng.below(300_000)));
        let station = Station::new(service_time, seed).close_after(rng.between(1, 12));
        let mut server = Server::new(if announced { station } else { station.closes_silently() });
        let setup = Setup::new(Link::with_latency(Span(1_000 + rng.below(2_000_000))), seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut server]);
        let what = format!("announced: {announced}, {plan:?}");
        assert_all_served(&outcome, server.model().served, requests, &what);
        again += outcome.main().retries;
    }
    assert!(!has_all_seeds() || again > 1_000, "requests sent again: {again}");
}

/// The first connections show how many requests a connection serves. Later ones send no more ahead.
#[test]
fn few_requests_are_sent_after_the_last_reply() {
    for (after, depth) in [(1, 4), (1, 64), (3, 8), (3, 64), (100, 8)] {
        for announced in [true, false] {
            let mut plan = closed(4, Think::None, ms(1));
            plan.stop = Stop { requests: Some(2_000), sessions: None, duration: None };
            plan.pipeline = depth;
            let station = Station::new(ServiceTime::Fixed(Span(10_000)), 1).close_after(after);
            let mut server =
                Server::new(if announced { station } else { station.closes_silently() });
            let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
            let outcome = load(&plan, 1, &setup, &mut [&mut server]);
            let what = format!("closed after {after}, depth {depth}, announced: {announced}");
            assert_all_served(&outcome, server.model().served, 2_000, &what);
            let t = outcome.main();
            // The pipelines of the first connections. Without `Connection: close`, each later one
            // sends one more request, to try whether the connection stays open.
            let tried = if announced { 0 } else { t.connects };
            let most = u64::from(4 * depth) + tried;
            assert!(t.retries <= most, "{what}: {} of at most {most}", t.retries);
            assert_eq!(t.times.lag.max(), Some(Span::ZERO), "{what}: waits are not send lag");
        }
    }
}

/// With a server that closes connections without any reply, every request fails.
#[test]
fn a_server_that_never_answers_fails_every_request() {
    for depth in DEPTHS {
        let mut plan = closed(3, Think::None, ms(1));
        plan.stop = Stop { requests: Some(300), sessions: None, duration: None };
        plan.pipeline = depth;
        let mut server = script_server(vec![Step::Await(1), Step::Close]);
        let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "a server without replies");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.retries), (0, 300, 0), "depth {depth}");
    }
}

fn script_server(script: Vec<Step>) -> Server<impl ServerModel> {
    Server::new(Scripted::one(script))
}
