//! P2: a server that stands still is felt by all who come meanwhile, whatever the load is and
//! wherever the freeze lies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_core::plan::{Burst, Load, Plan, SessionKind, Sessions, Stop, Think};
use prony_core::record::hist::Hist;
use prony_core::schedule::{Arrivals, RatePiece, RatePlan, Schedule};
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::oracle::differs;
use prony_sim::plant::{Law, Server, Station};
use prony_sim::world::Setup;

use crate::plans::{Seed, assert_conserved, at, closed, get, ms, open};

/// A server that always takes `service`, but does nothing within the freeze.
#[derive(Clone, Copy, Debug)]
struct Still {
    service: Span,
    from: Nanos,
    freeze: Span,
}

impl Still {
    /// When it is done with what it is given then.
    fn done(self, t: Nanos) -> Nanos {
        let thaw = self.from + self.freeze;
        let end = t + self.service;
        let is_caught = t < self.from && end >= self.from && self.freeze > Span::ZERO;
        match t >= self.from && t < thaw {
            true => thaw + self.service,
            false if is_caught => end + self.freeze,
            false => end,
        }
    }

    fn response(self, t: Nanos) -> u64 {
        self.done(t).since(t).0
    }

    fn station(self) -> Station {
        Station::new(Law::Fixed(self.service), 1).freezes(vec![(self.from, self.freeze)])
    }
}

fn assert_near(what: &str, told: f64, truth: f64, share: f64) {
    assert!((told - truth).abs() <= truth * share, "{what}: {told}, in truth {truth}");
}

/// The bar that the documents set, apart from the exact comparison: mean, p90 and p99 within 5 %.
fn assert_within_the_bar(what: &str, told: &Hist, mut truth: Vec<u64>) {
    truth.sort_unstable();
    let mean = truth.iter().sum::<u64>() as f64 / truth.len() as f64;
    assert_near(what, told.mean_ns().expect("a mean"), mean, 0.05);
    for q in [0.9, 0.99] {
        let exact = truth[(q * truth.len() as f64).ceil() as usize - 1];
        let told = told.quantile(q).expect("the sample carries it").0;
        assert_near(what, told as f64, exact as f64, 0.05);
    }
}

/// P2: a freeze of any length at any place, the first second included, is told as the users felt
/// it.
#[test]
fn p02_a_freeze_is_felt_by_all_who_arrive_in_it() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 11);
        let (rate, requests, service) = (100, 1_000, ms(2));
        let from = if dice.chance(0.2) { Nanos::ZERO } else { Nanos(dice.below(9_000_000_000)) };
        let freeze = Span(dice.below(5_000_000_000));
        let still = Still { service, from, freeze };
        let evenly = (0..requests).map(|k| Nanos(k * 1_000_000_000 / rate));
        let truth: Vec<u64> = evenly.map(|t| still.response(t)).collect();
        let plan = open(rate as f64, Arrivals::Fixed, requests);
        let mut server =
            Server::new(Station::new(Law::Fixed(service), seed).freezes(vec![(from, freeze)]));
        let mut setup = Setup::new(Link::default(), seed);
        setup.watch = false;
        let outcome = load(&plan, 1 + (seed % 3) as u32, &setup, &mut [&mut server]);
        let tally = outcome.main();
        let what = format!("seed {seed}, {freeze:?} from {from}");
        let wrong = differs(&what, &tally.times.response, &truth);
        assert!(wrong.is_none(), "{wrong:?}");
        assert_within_the_bar(&what, &tally.times.response, truth);
    }
}

/// The case that other tools are measured by: 100 a second over 10 connections for 10 s, frozen
/// from second 4 to 6: mean 202 ms, p50 2 ms, p90 1.0 s, p99 1.9 s, and 200 of 1,000 requests
/// touched.
#[test]
fn p02_the_freeze_case_in_figures() {
    let plan = open(100.0, Arrivals::Fixed, 1_000);
    for connections in [10, 1 << 20] {
        let mut plan = plan.clone();
        if let Load::Open { connections: cap, .. } = &mut plan.load {
            *cap = connections;
        }
        let station = Station::new(Law::Fixed(ms(2)), 1).freezes(vec![(at(4_000), ms(2_000))]);
        let outcome = load(&plan, 1, &Setup::default(), &mut [&mut Server::new(station)]);
        let response = &outcome.main().times.response;
        let quantile = |q| response.quantile(q).unwrap().as_secs_f64();
        assert_near("mean", response.mean_ns().unwrap(), 202e6, 0.05);
        assert_near("p50", quantile(0.5), 0.002, 0.05);
        assert_near("p90", quantile(0.9), 1.0, 0.05);
        assert_near("p99", quantile(0.99), 1.9, 0.05);
        let touched = response.bins().count_between(3_000_000, 3_600_000_000_000);
        // Ten connections need 38 ms to work off the backlog, which touches four more.
        let most = if connections == 10 { 204 } else { 200 };
        assert!((200..=most).contains(&touched), "{touched} touched");
    }
}

/// How long the runs of all load models last; each is frozen at its begin, in the middle and at
/// its end.
const LENGTH: Span = Span::from_secs(10);

/// A load, and the response times of its users by arithmetic.
struct Model {
    name: &'static str,
    plan: Plan,
    truth: fn(&Plan, Still) -> Vec<u64>,
    /// Shares whose sum is the whole: users who queue, queue in their own share.
    shares: u32,
}

/// The moments of the plan's arrivals. (That these are of the law is another test's affair.)
fn due(plan: &Plan) -> Vec<Nanos> {
    let mut schedule = Schedule::new(plan);
    std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at).collect()
}

/// Users who come by themselves, and find a connection each.
fn by_themselves(plan: &Plan, still: Still) -> Vec<u64> {
    due(plan).into_iter().map(|t| still.response(t)).collect()
}

/// Users who come by themselves and share a few connections: first come, first served.
fn in_a_queue(plan: &Plan, still: Still) -> Vec<u64> {
    let Load::Open { connections, .. } = plan.load else { panic!("an open loop") };
    let mut free: BinaryHeap<Reverse<Nanos>> = (0..connections).map(|_| Reverse(at(0))).collect();
    let wait = |t: Nanos| {
        let Reverse(connection) = free.pop().expect("there are some");
        let done = still.done(t.max(connection));
        free.push(Reverse(done));
        done.since(t).0
    };
    due(plan).into_iter().map(wait).collect()
}

/// The pauses between the three requests of a session.
const THINK: Span = Span::from_millis(70);

/// Users who come by themselves and ask three times.
fn in_sessions(plan: &Plan, still: Still) -> Vec<u64> {
    let three = |arrival: Nanos| {
        let mut t = arrival;
        [(); 3].map(|()| {
            let response = still.response(t);
            t = still.done(t) + THINK;
            response
        })
    };
    due(plan).into_iter().flat_map(three).collect()
}

/// Users who are always there, and ask again when they have an answer.
fn in_a_circle(plan: &Plan, still: Still) -> Vec<u64> {
    let Load::Closed { connections, ref think } = plan.load else { panic!("a closed loop") };
    let think = if let Think::Fixed(t) = *think { t } else { Span::ZERO };
    let (mut all, mut t) = (Vec::new(), at(0));
    while t < at(0) + LENGTH {
        all.extend((0..connections).map(|_| still.response(t)));
        t = still.done(t) + think;
    }
    all
}

fn at_most(connections: u32, plan: Plan) -> Plan {
    let Load::Open { rate, arrivals, .. } = plan.load else { panic!("an open loop") };
    Plan { load: Load::Open { rate, arrivals, connections }, ..plan }
}

/// A ramp up, a plateau and a ramp down: 10 s with 1,080 requests.
fn ramps() -> Plan {
    let piece = |from, to, s| RatePiece { from, to, length: Some(Span::from_secs(s)) };
    let rate = RatePlan {
        pieces: vec![piece(20.0, 160.0, 4), piece(160.0, 160.0, 2), piece(160.0, 40.0, 4)],
    };
    let load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 1 << 20 };
    let stop = Stop { requests: None, sessions: None, duration: None };
    Plan { load, stop, ..open(1.0, Arrivals::Fixed, 1) }
}

/// So many sessions at that rate, of three requests each.
fn sessions(rate: f64, count: u64) -> Plan {
    let burst = Burst { calls: vec![0], lead: false, think: Think::Fixed(THINK), repeat: 3 };
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    let sessions = Sessions::plain(vec![kind]);
    let stop = Stop { requests: None, sessions: Some(count), duration: None };
    let calls = vec![get("/")].into();
    Plan { calls, stop, sessions: Some(sessions), ..open(rate, Arrivals::Fixed, 1) }
}

fn models() -> Vec<Model> {
    let uniform = Arrivals::Uniform(ms(1), ms(19));
    let mut dice = Dice::new(1, 19);
    let mut times: Vec<Span> = (0..1_000).map(|_| Span(dice.below(LENGTH.0))).collect();
    times.sort_unstable();
    let trace = Arrivals::Trace(times.into());
    let mut without_reuse = open(100.0, Arrivals::Fixed, 1_000);
    without_reuse.requests_per_connection = Some(1);
    let model = |name, plan, truth| Model { name, plan, truth, shares: 2 };
    let queue = |name, plan| Model { name, plan, truth: in_a_queue, shares: 1 };
    let no_rate = |plan: Plan| {
        let Load::Open { arrivals, connections, .. } = plan.load else { panic!("an open loop") };
        Plan { load: Load::Open { rate: RatePlan::default(), arrivals, connections }, ..plan }
    };
    vec![
        model("fixed", open(100.0, Arrivals::Fixed, 1_000), by_themselves),
        model("Poisson", open(100.0, Arrivals::Poisson, 1_000), by_themselves),
        model("uniform", no_rate(open(1.0, uniform, 1_000)), by_themselves),
        model("trace", no_rate(open(1.0, trace, 1_000)), by_themselves),
        model("ramps", ramps(), by_themselves),
        model("a connection each", without_reuse, by_themselves),
        queue("ten connections", at_most(10, open(100.0, Arrivals::Fixed, 1_000))),
        queue("Poisson, two", at_most(2, open(100.0, Arrivals::Poisson, 1_000))),
        model("sessions", sessions(34.0, 340), in_sessions),
        model("closed", closed(10, Think::None, LENGTH), in_a_circle),
        model("closed, thinking", closed(20, Think::Fixed(ms(98)), LENGTH), in_a_circle),
    ]
}

#[test]
fn p02_every_load_model_feels_a_freeze_wherever_it_lies() {
    for Model { name, plan, truth, shares } in models() {
        plan.check().expect("the plan is valid");
        for from in [0, 4_000, 8_000] {
            let still = Still { service: ms(2), from: at(from), freeze: ms(2_000) };
            let truth = truth(&plan, still);
            let what = format!("{name}, frozen from {from} ms");
            assert!(truth.iter().any(|&t| t > 1_900_000_000), "{what}: it tests nothing");
            for shares in 1..=shares {
                let setup = Setup { watch: false, ..Setup::new(Link::default(), 1) };
                let mut server = Server::new(still.station());
                let outcome = load(&plan, shares, &setup, &mut [&mut server]);
                assert_conserved(&outcome, &what);
                let told = outcome.main();
                let wrong = differs(&what, &told.times.response, &truth);
                assert!(wrong.is_none(), "{wrong:?}, {shares} shares");
                assert_within_the_bar(&what, &told.times.response, truth.clone());
            }
        }
    }
}
