//! Same seed, same bytes; and shards, merged, are the whole.

use prony_core::plan::{Load, Pick, Plan};
use prony_core::schedule::Arrivals;
use prony_core::units::Span;
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::plant::{Hostile, Law, Server, Station};
use prony_sim::world::Setup;

use crate::faults::any_plan;
use crate::plans::{Seed, at, get, ms, numbered, open};

fn bytes<T: serde::Serialize>(of: &T) -> String {
    serde_json::to_string(of).expect("a tally can be saved")
}

#[test]
fn same_seed_same_tally_to_the_byte() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let run = || {
            let mut dice = Dice::new(seed, 30);
            let plan = any_plan(&mut dice);
            let mut link = Link::broken(&mut dice);
            link.latency += Span(1_000);
            let mut server = Server::new(Hostile::new(seed, 0.7));
            let outcome = load(&plan, 2, &Setup::new(link, seed), &mut [&mut server]);
            (outcome.ran.trace, bytes(&outcome.tallies))
        };
        assert!(run() == run(), "seed {seed}");
    }
}

/// The whole run's tally against the merged tallies of so many shares.
fn assert_shards_are_the_whole(plan: &Plan, station: impl Fn() -> Station, what: &str) {
    let run = |shares| {
        let setup = Setup { watch: false, ..Setup::default() };
        load(plan, shares, &setup, &mut [&mut Server::new(station())])
    };
    let whole = bytes(&(run(1).warmup(), run(1).main()));
    for shares in [2, 4] {
        let outcome = run(shares);
        let merged = bytes(&(outcome.warmup(), outcome.main()));
        assert!(merged == whole, "{what}, {shares} shares: {merged}\nwhole: {whole}");
    }
}

/// P10. With 8 requests under way at any time, each of 2 or 4 shares has its even part of them, so
/// sharding changes nothing in the world, and the merged tally is the whole one to the byte.
#[test]
fn merged_shards_are_the_whole_to_the_byte() {
    let service = Span::from_micros(7_500);
    for (seed, freeze) in [(1, ms(0)), (2, ms(16)), (3, ms(400))] {
        let mut plan = open(1_000.0, Arrivals::Fixed, 4_000);
        plan.seed = seed;
        plan.warmup = ms(if seed == 2 { 500 } else { 0 });
        plan.calls = vec![get("/a"), get("/bb"), get("/ccc")].into();
        plan.pick = Pick::Random;
        let station = || Station::new(Law::Fixed(service), 1).freezes(vec![(at(1_000), freeze)]);
        assert_shards_are_the_whole(&plan, station, &format!("seed {seed}, freeze {freeze:?}"));
    }
}

/// P10 where every request has a time of its own: all but what depends on how many connections
/// there happen to be is the same to the byte, over laws and arrivals of every kind.
#[test]
fn merged_shards_pool_the_samples() {
    for seed in 0..1_000 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 31);
        let arrivals = if dice.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let mut plan = numbered(open(500.0 + dice.unit() * 5_000.0, arrivals, 80), 80);
        plan.seed = seed;
        plan.requests_per_connection = if dice.chance(0.5) { Some(1) } else { None };
        // Skewed: half of the shares see only slow requests.
        let law = if dice.chance(0.5) {
            Law::Bimodal(Span::from_micros(50), ms(20), 0.3)
        } else {
            Law::Pareto(Span::from_micros(80), 1.1)
        };
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = 4 << 20;
        }
        let freeze = (at(dice.below(20)), ms(dice.below(30)));
        let run = |shares| {
            let station = Station::new(law, seed).by_number().freezes(vec![freeze]);
            let setup = Setup { watch: false, ..Setup::default() };
            let mut tally = load(&plan, shares, &setup, &mut [&mut Server::new(station)]).main();
            if plan.requests_per_connection.is_none() {
                (tally.connects, tally.connected) = (0, 0);
                tally.times.connect = Default::default();
            }
            (tally.in_flight_max, tally.links.live_max, tally.links.burst_max) = (0, 0, 0);
            bytes(&tally)
        };
        let whole = run(1);
        let shares = 2 + (seed % 3) as u32;
        assert!(run(shares) == whole, "seed {seed}, {shares} shares");
    }
}
