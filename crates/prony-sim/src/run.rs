//! Loads in the virtual world: a plan's engines, one per share, side by side.

use prony_core::echo::{self, EchoLaw};
use prony_core::engine::Engine;
use prony_core::machine::Machine;
use prony_core::plan::Plan;
use prony_core::proto::Carrier;
use prony_core::proto::echo::Echo;
use prony_core::proto::h1::H1;
use prony_core::record::Tally;
use prony_core::serve::{Serve, ServeLaw};
use prony_core::summary::Meter;
use prony_core::units::{Nanos, Span};

use crate::link::Link;
use crate::world::{Ran, Setup};

/// How long bytes are under way in [`simulate`], each way.
const ONE_WAY: Span = Span::from_micros(50);

/// What has come of a load.
#[derive(Debug)]
pub struct Outcome {
    /// Each share's tallies: warm-up, where the plan has one, and measurement.
    pub tallies: Vec<(Option<Tally>, Tally)>,
    /// What happened in the world.
    pub ran: Ran,
}

/// Run a plan, split into so many shares, against these servers: HTTP, or the messages that it
/// tells.
pub fn load(plan: &Plan, shares: u32, setup: &Setup, servers: &mut [&mut dyn Machine]) -> Outcome {
    match plan.exchange {
        None => load_over(plan, shares, setup, servers, H1::new),
        Some(_) => load_over(plan, shares, setup, servers, Echo::new),
    }
}

/// The same over the caller's own carrier, of which `make` makes one for each share.
pub fn load_over<P: Carrier>(
    plan: &Plan,
    shares: u32,
    setup: &Setup,
    servers: &mut [&mut dyn Machine],
    make: impl Fn(&Plan) -> P,
) -> Outcome {
    let mut engines: Vec<Engine<P>> = (0..shares)
        .map(|i| {
            let share = plan.shard(i, shares);
            let mut engine = Engine::new(&share, make(&share));
            if setup.kernel.is_some() {
                engine.expect_stamps();
            }
            if setup.keep_service {
                engine.keep_service();
            }
            engine
        })
        .collect();
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for engine in &mut engines {
        clients.push(engine);
    }
    let ran = setup.run(&mut clients, servers);
    Outcome { tallies: engines.into_iter().map(Engine::finish).collect(), ran }
}

/// The whole run of `prony --simulate`: the plan on so many threads (no more than it can be split
/// into) against prony's own target server under that law (the responder, where the plan exchanges
/// messages), 50 us away, on a machine that costs nothing and is never late. Per thread: warm-up,
/// where the plan has one, measurement (with service times over time, where they are wanted), and
/// the meter's account of itself. Same arguments, same result to the byte.
pub fn simulate(
    plan: &Plan,
    threads: u32,
    seed: u64,
    server: &ServeLaw,
    keep_service: bool,
) -> Vec<(Option<Tally>, Tally, Meter)> {
    let setup = Setup {
        watch: false,
        steps: u64::MAX,
        keep_service,
        ..Setup::new(Link::with_latency(ONE_WAY), seed)
    };
    let mut serve = Serve::new(server.clone(), seed);
    let mut responder = echo::Echo::new(EchoLaw::default(), Vec::new());
    let target: &mut dyn Machine =
        if plan.exchange.is_some() { &mut responder } else { &mut serve };
    let shares = threads.clamp(1, plan.shards_max());
    let Outcome { tallies, ran } = load(plan, shares, &setup, &mut [target]);
    let accounts = ran.finished.iter().zip(&ran.turns).map(|(&end, &turns)| Meter {
        wall: end.since(Nanos::ZERO),
        turns,
        ..Meter::default()
    });
    tallies.into_iter().zip(accounts).map(|((warm, main), meter)| (warm, main, meter)).collect()
}

impl Outcome {
    /// The measurement of all shares in one.
    pub fn main(&self) -> Tally {
        let mut tallies = self.tallies.iter().map(|(_, main)| main);
        let mut all = tallies.next().expect("there is at least one share").clone();
        tallies.for_each(|t| all.merge(t));
        all
    }

    /// The warm-up of all shares in one, where there was one.
    pub fn warmup(&self) -> Option<Tally> {
        let mut tallies = self.tallies.iter().filter_map(|(warm, _)| warm.as_ref());
        let mut all = tallies.next()?.clone();
        tallies.for_each(|t| all.merge(t));
        Some(all)
    }
}
