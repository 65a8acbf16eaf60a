//! Runs a plan in the virtual world, with one engine for each share.

use std::sync::Arc;

use prony_base::feed::Feeds;
use prony_base::machine::Machine;
use prony_base::merge::Merge;
use prony_base::meter::WorkerStats;
use prony_base::units::{Nanos, Span};
use prony_core::engine::{self, AnyEngine, Engine, Taps};
use prony_plan::plan::Plan;
use prony_plan::tokenizer::Tokenizers;
use prony_proto::proto::Carrier;
use prony_server::echo::{self, EchoBehavior};
use prony_server::serve::{BroadcastFaults, Serve, ServerBehavior, SocketBehavior};
use prony_tally::record::Tally;

use crate::link::Link;
use crate::world::{Setup, WorldOutcome};

/// The one-way latency in [`simulate`].
const ONE_WAY: Span = Span::from_micros(50);

/// The result of a load.
#[derive(Debug)]
pub struct Outcome {
    /// For each share, the tally of the warm-up, if the plan has one, and that of the measurement.
    pub tallies: Vec<(Option<Tally>, Tally)>,
    /// What happened in the world.
    pub world: WorldOutcome,
}

/// Run a plan against these servers, split into `shares` shares: HTTP, or round trips if the plan
/// has an exchange.
pub fn load(plan: &Plan, shares: u32, setup: &Setup, servers: &mut [&mut dyn Machine]) -> Outcome {
    let make = |share: &Plan| -> Box<dyn AnyEngine> { engine::of_plan(share, None) };
    run(engines(plan, shares, setup, &make), setup, servers)
}

/// Like [`load`], but with the carrier that `make` returns for each share.
pub fn load_with_carrier<P: Carrier + 'static>(
    plan: &Plan,
    shares: u32,
    setup: &Setup,
    servers: &mut [&mut dyn Machine],
    make: impl Fn(&Plan) -> P,
) -> Outcome {
    let make = |share: &Plan| -> Box<dyn AnyEngine> { Box::new(Engine::new(share, make(share))) };
    run(engines(plan, shares, setup, &make), setup, servers)
}

fn run(
    mut engines: Vec<Box<dyn AnyEngine>>,
    setup: &Setup,
    servers: &mut [&mut dyn Machine],
) -> Outcome {
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for engine in &mut engines {
        clients.push(&mut **engine);
    }
    let world = setup.run(&mut clients, servers);
    Outcome { tallies: engines.into_iter().map(AnyEngine::finish).collect(), world }
}

/// The engines of all shares of a plan.
pub(crate) fn engines(
    plan: &Plan,
    shares: u32,
    setup: &Setup,
    make: &dyn Fn(&Plan) -> Box<dyn AnyEngine>,
) -> Vec<Box<dyn AnyEngine>> {
    let mut feeds = setup.feeds.as_ref().map(|feeds| feeds.make(shares).into_iter());
    let engines = (0..shares).map(|i| {
        let mut engine = make(&plan.shard(i, shares));
        if setup.kernel.is_some() {
            engine.expect_stamps();
        }
        if setup.keep_requests {
            engine.keep_requests();
        }
        if setup.keep_service {
            engine.keep_service();
        }
        if let Some(taps) = &setup.taps {
            engine.tap(taps.make());
        }
        if let Some(contact) = &setup.contact {
            engine.share_contact(Arc::clone(contact));
        }
        if let Some(tokenizer) = setup.tokenizers.and_then(|of| of(plan)) {
            engine.count_tokens(tokenizer);
        }
        if let Some(feed) = feeds.as_mut().and_then(Iterator::next) {
            engine.replay(feed);
        }
        engine
    });
    engines.collect()
}

/// What a simulated run has besides its plan.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Whether to keep the service times over time.
    pub keep_service: bool,
    /// What has the requests of a plan of a log.
    pub feeds: Option<Feeds>,
    /// Creates an observer for each thread.
    pub taps: Option<Taps>,
    /// Finds the tokenizers of plans.
    pub tokenizers: Option<Tokenizers>,
}

/// The run of `prony --simulate`: the plan on `threads` threads (at most as many as it can be split
/// into) against prony's target server with this behavior (or against the responder, if the plan
/// has an exchange), with a one-way latency of 50 us and a meter that is never late. Returns for
/// each thread the tally of the warm-up, if the plan has one, the tally of the measurement (with
/// the service times over time if they are wanted), and the statistics of the worker. The same
/// arguments give the same result to the byte.
pub fn simulate(
    plan: &Plan,
    threads: u32,
    seed: u64,
    server: &ServerBehavior,
    extras: &Extras,
) -> Vec<(Option<Tally>, Tally, WorkerStats)> {
    let setup = setup(seed, extras);
    let mut serve = Serve::new(for_plan(plan, server), seed);
    let mut responder = echo::Echo::new(EchoBehavior::default(), Vec::new());
    let target: &mut dyn Machine =
        if plan.exchange.is_some() { &mut responder } else { &mut serve };
    let shares = threads.clamp(1, plan.shards_max());
    let Outcome { tallies, world } = load(plan, shares, &setup, &mut [target]);
    let stats = world.finished.iter().zip(&world.turns).map(|(&end, &turns)| stats(end, turns));
    tallies.into_iter().zip(stats).map(|((warm, main), meter)| (warm, main, meter)).collect()
}

/// The world of `prony --simulate`.
pub(crate) fn setup(seed: u64, extras: &Extras) -> Setup {
    Setup {
        watch: false,
        // This meter adds no time.
        report_polls: false,
        max_events: u64::MAX,
        keep_service: extras.keep_service,
        feeds: extras.feeds.clone(),
        taps: extras.taps.clone(),
        tokenizers: extras.tokenizers,
        ..Setup::new(Link::with_latency(ONE_WAY), seed)
    }
}

/// The statistics of a worker that has finished at this time, after this number of turns.
pub(crate) fn stats(end: Nanos, turns: u64) -> WorkerStats {
    let wall = end.since(Nanos::ZERO);
    WorkerStats { wall, loop_iterations: turns, ..WorkerStats::default() }
}

/// The behavior of a server for this plan.
pub(crate) fn for_plan(plan: &Plan, server: &ServerBehavior) -> ServerBehavior {
    let grpc = server.grpc || plan.calls.iter().any(|call| call.grpc.is_some());
    let ws = server.ws.or_else(|| match plan.broadcast() {
        Some(_) => Some(SocketBehavior::Broadcast(BroadcastFaults::default())),
        None => (plan.websocket.is_some() || plan.has_sockets()).then_some(SocketBehavior::Echo),
    });
    let ws_compress =
        server.ws_compress || plan.websocket.as_deref().is_some_and(|spec| spec.compress);
    ServerBehavior { grpc, ws, ws_compress, ..server.clone() }
}

impl Outcome {
    /// The merged tally of all shares' measurement.
    pub fn main(&self) -> Tally {
        let mut tallies = self.tallies.iter().map(|(_, main)| main);
        let mut all = tallies.next().expect("there is at least one share").clone();
        tallies.for_each(|t| all.merge(t));
        all.settle();
        all
    }

    /// The merged tally of all shares' warm-up, if there was one.
    pub fn warmup(&self) -> Option<Tally> {
        let mut tallies = self.tallies.iter().filter_map(|(warm, _)| warm.as_ref());
        let mut all = tallies.next()?.clone();
        tallies.for_each(|t| all.merge(t));
        Some(all)
    }
}
