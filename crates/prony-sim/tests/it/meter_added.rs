//! The upper bound of the time that the meter added to the response times. The meter has known
//! delays here, so the added time is known too.

use std::collections::HashMap;

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Burst, Group, GroupPart, Load, Plan, SessionKind, Sessions, Stop, Think};
use prony_plan::schedule::{Arrivals, Schedule};
use prony_sim::link::Link;
use prony_sim::oracle::ObservedRequest;
use prony_sim::rng::Rng;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::{Pauses, Setup};
use prony_sim::{Outcome, load};
use prony_tally::record::{GroupTally, Tally};

use crate::plans::{Seed, assert_invariants, closed, get, ms, numbered, open};

/// The reported figures.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
/// Enough for a p99.
const REQUESTS: u64 = 1_100;
/// The number of runs. With `SLOW=1` there are as many as in docs/terms.md.
fn seeds() -> u64 {
    if std::env::var_os("SLOW").is_some() { 10_000 } else { 150 }
}

/// A random load, with a server that is not overloaded and a meter with delays.
fn case(seed: u64) -> (Plan, Setup, Station) {
    let rng = &mut Rng::new(seed, 0x5A4E);
    let service_time = match rng.below(5) {
        0 => ServiceTime::Fixed(ms(10)),
        1 => ServiceTime::Exponential(ms(5)),
        2 => ServiceTime::Uniform(ms(1), ms(20)),
        3 => ServiceTime::Pareto(ms(2), 2.2),
        _ => ServiceTime::Bimodal(ms(2), ms(60), 0.05),
    };
    let mut station = Station::new(service_time, seed);
    let mut plan = if rng.chance(0.7) {
        let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let rate = 100.0 + rng.unit() * 1_900.0;
        if rng.chance(0.3) {
            let service = Span((rng.unit() * 0.7 / rate * 1e9) as u64 + 1);
            station = Station::new(ServiceTime::Exponential(service), seed).servers(1);
        }
        let mut plan = numbered(open(rate, arrivals, REQUESTS), REQUESTS);
        if rng.chance(0.2) {
            let Load::Open { connections, .. } = &mut plan.load else { unreachable!("it is open") };
            *connections = rng.between(20, 200) as u32;
        }
        plan
    } else {
        let think = if rng.chance(0.5) { Think::None } else { Think::Exponential(ms(5)) };
        let mut plan = closed(rng.between(1, 20) as u32, think, Span::from_secs(3_600));
        plan.stop = Stop { requests: Some(REQUESTS), ..Stop::default() };
        plan
    };
    plan.seed = seed;
    plan.timeout = Span::from_secs(600);
    if rng.chance(0.2) {
        plan.requests_per_connection = Some(rng.between(1, 9) as u32);
    }
    let link = Link { jitter: Span(rng.below(200_000)), ..Link::with_latency(Span(50_000)) };
    let mut setup = Setup { keep_requests: true, ..Setup::new(link, seed) };
    if rng.chance(0.2) {
        setup.timer_lateness = ms(rng.between(1, 20));
    } else {
        let period = ms(rng.between(5, 200));
        let length = Span((period.0 as f64 * (0.02 + 0.9 * rng.unit())) as u64);
        let random = rng.chance(0.7).then_some(seed);
        setup.pauses = Some(Pauses { period, length, random, is_busy: rng.chance(0.5) });
    }
    (plan, setup, station)
}

/// The response times of all successes, measured and exact, each sorted. The exact one is without
/// the time that the meter added: the waits before the send except the send lag, plus the time from
/// the send until the last byte of the reply arrived at the meter's host.
fn times(plan: &Plan, outcome: &Outcome, main: &Tally) -> (Vec<u64>, Vec<u64>) {
    // In an open loop, the number of a request gives its intended start.
    let mut intended = HashMap::new();
    if matches!(plan.load, Load::Open { .. }) {
        let mut schedule = Schedule::new(plan);
        while let Some(arrival) = schedule.pop() {
            intended.insert(arrival.index, arrival.at);
        }
    }
    let key = |seen: &ObservedRequest| {
        let from = seen.number.and_then(|number| intended.get(&number)).copied();
        (from.unwrap_or(Nanos::ZERO), seen.sent, seen.done.expect("each has a reply"))
    };
    let mut all: HashMap<_, Vec<&ObservedRequest>> = HashMap::new();
    for seen in outcome.world.oracle.requests() {
        all.entry(key(seen)).or_default().push(seen);
    }
    let is_open = !intended.is_empty();
    let each = main.kept.iter().map(|stamps| {
        let from = if is_open { stamps.intended } else { Nanos::ZERO };
        let same = all.get_mut(&(from, stamps.sent, stamps.done));
        let seen = same.and_then(Vec::pop).expect("the oracle has each request");
        let reached_host = seen.reached_host.expect("it has a reply");
        assert!(reached_host <= stamps.done && reached_host >= stamps.sent, "{seen:?}");
        let connect_unread =
            if stamps.connect > Span::ZERO { seen.connect_unread } else { Span::ZERO };
        let waits = stamps.queue + stamps.stream + stamps.connect - connect_unread;
        (stamps.response().0, (waits + reached_host.since(stamps.sent)).0)
    });
    let (mut measured, mut exact): (Vec<_>, Vec<_>) = each.unzip();
    measured.sort_unstable();
    exact.sort_unstable();
    (measured, exact)
}

/// The quantile of a sorted sample.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The ratios of the bounds to the added times, in the runs in which the meter added 1 % or more.
#[derive(Clone, Copy, Debug, Default)]
struct Ratios {
    runs: u64,
    ratios: f64,
    bounds: f64,
    errors: f64,
}

#[test]
fn p08_the_added_time_has_a_close_upper_bound() {
    let mut ratios = [Ratios::default(); 4];
    for seed in 0..seeds() {
        let _seed = Seed(seed);
        let (plan, setup, station) = case(seed);
        plan.check().expect("a valid plan");
        let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(station)]);
        assert_invariants(&outcome, "meter added");
        let main = outcome.main();
        assert_eq!(main.replies, REQUESTS);
        let (measured, exact) = times(&plan, &outcome, &main);
        for ((name, q), ratios) in QUANTILES.into_iter().zip(&mut ratios) {
            let (reported, truth) = (quantile(&measured, q), quantile(&exact, q));
            let added = reported - truth;
            let bound = main.meter_added(q).expect("the sample carries it").0;
            assert!(added <= bound, "{name}: added {added} ns, bound {bound}: {plan:?} {setup:?}");
            if added * 100 >= truth {
                ratios.runs += 1;
                ratios.ratios += bound as f64 / added as f64;
                ratios.bounds += bound as f64;
                ratios.errors += added as f64;
            }
        }
    }
    for ((name, _), c) in QUANTILES.into_iter().zip(ratios) {
        let mean = c.ratios / c.runs as f64;
        let total = c.bounds / c.errors;
        println!("{name}: {} runs, mean ratio {mean:.2}, ratio of the sums {total:.2}", c.runs);
        assert!(c.runs * 5 > seeds(), "{name}: the meter added 1 % or more in {} runs", c.runs);
        assert!(mean <= 3.0, "{name}: mean ratio {mean}");
    }
}

/// The bound is zero for a meter that is never late.
#[test]
fn p08_a_meter_without_delays_adds_nothing() {
    for seed in 0..20 {
        let _seed = Seed(seed);
        let (plan, setup, station) = case(seed);
        let setup = Setup { timer_lateness: Span::ZERO, pauses: None, ..setup };
        let outcome = load(&plan, 1, &setup, &mut [&mut Server::new(station)]);
        let main = outcome.main();
        for (name, q) in QUANTILES {
            assert_eq!(main.meter_added(q), Some(Span::ZERO), "{name}");
        }
    }
}

/// The bounds of groups of steps, and of chains of redirects, whose true durations are all equal.
/// A bound is at least what the meter added, and not many times as much.
pub(crate) fn bounds_of_durations(
    seeds: u64,
    truth: Span,
    mut durations: impl FnMut(u64, &Setup) -> GroupTally,
) {
    let mut ratios = Vec::new();
    for seed in 0..seeds {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 45);
        let (period, share) = (rng.between(5, 200), 0.02 + 0.9 * rng.unit());
        let length = Span((period as f64 * 1e6 * share) as u64);
        let random = rng.chance(0.7).then_some(seed);
        let pauses = Pauses { period: ms(period), length, random, is_busy: rng.chance(0.5) };
        let link = Link::with_latency(Span::from_micros(50));
        let setup = Setup { watch: false, pauses: Some(pauses), ..Setup::new(link, seed) };
        let group = durations(seed, &setup);
        for q in [0.5, 0.9, 0.99, 1.0] {
            let Some(figure) = group.duration.quantile(q) else { continue };
            let bound = group.meter_added(q).expect("each duration has a bound");
            // A figure is rounded up by a thousandth at most.
            let added = figure - truth - figure / 1_000;
            assert!(bound >= added, "{q}: {figure}, added {added}, bound {bound}: {pauses:?}");
            if added > truth / 100 {
                ratios.push(bound.0 as f64 / added.0 as f64);
            }
        }
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    println!("{} figures, mean ratio {mean:.2}", ratios.len());
    assert!(ratios.len() as u64 > seeds, "{} figures", ratios.len());
    assert!(mean < 1.5, "{mean}");
}

/// A group of three requests of 5 ms, with pauses of 20 ms between them, after a step that opens
/// the connection, and before one that is in no group.
#[test]
fn p08_the_time_added_to_groups_has_a_close_upper_bound() {
    let truth = (ms(5) + Span::from_micros(100)) * 3 + ms(20) * 2;
    bounds_of_durations(60, truth, |seed, setup| {
        let step = |repeat| Burst { repeat, ..Burst::of(vec![0], Think::Fixed(ms(20))) };
        let bursts = vec![step(1), step(2), step(1), step(1)];
        let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
        let mut plan = open(50.0, Arrivals::Poisson, 0);
        (plan.stop.requests, plan.stop.sessions) = (None, Some(300));
        (plan.calls, plan.seed) = (vec![get("/")].into(), seed);
        plan.sessions = Some(Sessions::plain(kinds));
        let parts = vec![GroupPart { kind: 0, first: 1, bursts: 2 }];
        plan.groups = vec![Group { name: "buy".to_owned(), parts }];
        plan.check().expect("a valid plan");
        let station = Station::new(ServiceTime::Fixed(ms(5)), seed);
        let outcome = load(&plan, 1, setup, &mut [&mut Server::new(station)]);
        let mut main = outcome.main();
        assert_eq!((main.groups[0].completed, main.replies), (300, 1_500));
        main.groups.remove(0)
    });
}
