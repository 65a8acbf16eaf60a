//! The same seed gives the same bytes, and the merged tallies of shares are the tally of the whole.

use prony_base::units::Span;
use prony_plan::plan::{Load, Pick, Plan};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Hostile, Server, ServiceTime, Station};
use prony_sim::world::Setup;

use crate::faults::random_plan;
use crate::plans::{Seed, at, get, ms, numbered, open, seeds};

fn bytes<T: serde::Serialize>(of: &T) -> String {
    serde_json::to_string(of).expect("serializable")
}

#[test]
fn same_seed_gives_the_same_tally_to_the_byte() {
    for seed in seeds(100) {
        let _case = Seed(seed);
        let run = || {
            let mut rng = Rng::new(seed, 30);
            let plan = random_plan(&mut rng);
            let mut link = Link::broken(&mut rng);
            link.latency += Span(1_000);
            let mut server = Server::new(Hostile::new(seed, 0.7));
            let outcome = load(&plan, 2, &Setup::new(link, seed), &mut [&mut server]);
            (outcome.world.digest, bytes(&outcome.tallies))
        };
        assert!(run() == run(), "seed {seed}");
    }
}

/// Compare the merged tallies of 2 and 4 shares with the tally of the whole run.
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

/// P10: 8 requests are in flight at any time, the same number in each share, so the number of
/// shares changes nothing in the world: the merged tally is that of the whole to the byte.
#[test]
fn merged_shards_are_the_whole_to_the_byte() {
    let service = Span::from_micros(7_500);
    for (seed, freeze) in [(1, ms(0)), (2, ms(16)), (3, ms(400))] {
        let mut plan = open(1_000.0, Arrivals::Fixed, 4_000);
        plan.seed = seed;
        plan.warmup = ms(if seed == 2 { 500 } else { 0 });
        plan.calls = vec![get("/a"), get("/bb"), get("/ccc")].into();
        plan.pick = Pick::Random;
        let station =
            || Station::new(ServiceTime::Fixed(service), 1).freezes(vec![(at(1_000), freeze)]);
        assert_shards_are_the_whole(&plan, station, &format!("seed {seed}, freeze {freeze:?}"));
    }
}

/// P10 with a different time for each request: the merged tally is the same to the byte, except for
/// the figures that depend on the number of connections.
#[test]
fn merged_shards_pool_the_samples() {
    for seed in seeds(1_000) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 31);
        let arrivals = if rng.chance(0.5) { Arrivals::Fixed } else { Arrivals::Poisson };
        let mut plan = numbered(open(500.0 + rng.unit() * 5_000.0, arrivals, 80), 80);
        plan.seed = seed;
        plan.requests_per_connection = if rng.chance(0.5) { Some(1) } else { None };
        // Skewed: half of the shares see only slow requests.
        let service_time = if rng.chance(0.5) {
            ServiceTime::Bimodal(Span::from_micros(50), ms(20), 0.3)
        } else {
            ServiceTime::Pareto(Span::from_micros(80), 1.1)
        };
        if let Load::Open { connections, .. } = &mut plan.load {
            *connections = 4 << 20;
        }
        let freeze = (at(rng.below(20)), ms(rng.below(30)));
        let run = |shares| {
            let station = Station::new(service_time, seed).by_number().freezes(vec![freeze]);
            let setup = Setup { watch: false, ..Setup::default() };
            let mut tally = load(&plan, shares, &setup, &mut [&mut Server::new(station)]).main();
            if plan.requests_per_connection.is_none() {
                (tally.connects, tally.connected) = (0, 0);
                tally.times.connect = Default::default();
            }
            (tally.in_flight_max, tally.connections.open_max, tally.connections.opening_max) =
                (0, 0, 0);
            bytes(&tally)
        };
        let whole = run(1);
        let shares = 2 + (seed % 3) as u32;
        assert!(run(shares) == whole, "seed {seed}, {shares} shares");
    }
}
