//! Several plans side by side in one virtual world, each with a start of its own.

use prony_base::fault::Fault;
use prony_base::machine::{Action, Machine, StopRequest};
use prony_base::meter::WorkerStats;
use prony_base::units::{ConnId, Nanos, Span};
use prony_core::engine::{self, AnyEngine};
use prony_plan::plan::Plan;
use prony_server::serve::{Serve, ServerBehavior};
use prony_tally::record::Tally;

use crate::run::{Extras, engines, for_plan, setup, stats};

/// The result of a plan: of each thread the tally of the warm-up, if the plan has one, that of the
/// measurement, and the statistics of the worker.
type Parts = Vec<(Option<Tally>, Tally, WorkerStats)>;

/// Like [`crate::simulate`], for several plans with the same protocol and the same target. Each
/// starts after its delay, and has `threads` threads. All requests go to one server, so the plans
/// compete for it. The times of a plan count from its own start.
///
/// # Panics
/// A plan has an exchange: it has no target server.
pub fn simulate_beside(
    plans: &[(&Plan, Span)],
    threads: u32,
    seed: u64,
    server: &ServerBehavior,
    extras: &Extras,
) -> Vec<Parts> {
    let Some((first, _)) = plans.first() else { return Vec::new() };
    assert!(plans.iter().all(|(plan, _)| plan.exchange.is_none()), "no plan of exchanges");
    let setup = setup(seed, extras);
    let mut server = Serve::new(for_plan(first, server), seed);
    let mut all: Vec<Vec<Later>> = Vec::new();
    for &(plan, delay) in plans {
        let shares = threads.clamp(1, plan.shards_max());
        let make = |share: &Plan| -> Box<dyn AnyEngine> { engine::of_plan(share, None) };
        let engines = engines(plan, shares, &setup, &make);
        let later = |engine| Later { engine, delay, started: delay == Span::ZERO };
        all.push(engines.into_iter().map(later).collect());
    }
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for engine in all.iter_mut().flatten() {
        clients.push(engine);
    }
    let world = setup.run(&mut clients, &mut [&mut server]);
    let mut ends = world.finished.into_iter().zip(world.turns);
    let mut parts = |engines: Vec<Later>| -> Parts {
        let each = engines.into_iter().zip(ends.by_ref()).map(|(later, (end, turns))| {
            let meter = stats(later.own(end), turns);
            let (warm, main) = later.engine.finish();
            (warm, main, meter)
        });
        each.collect()
    };
    all.into_iter().map(&mut parts).collect()
}

/// An engine that starts later: until then it does nothing, and its clock starts then.
struct Later {
    engine: Box<dyn AnyEngine>,
    delay: Span,
    started: bool,
}

impl Later {
    /// A time of the world on the engine's clock.
    fn own(&self, now: Nanos) -> Nanos {
        Nanos::ZERO + now.since(Nanos::ZERO + self.delay)
    }
}

impl Machine for Later {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.engine.on_connected(id, self.own(now));
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.engine.on_recv(id, data, self.own(now));
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.engine.on_closed(id, why, self.own(now));
    }

    fn on_tick(&mut self, now: Nanos) {
        // The first tick only starts it: then the world asks for its actions.
        if self.started {
            self.engine.on_tick(self.own(now));
        }
        self.started = true;
    }

    fn on_turn(&mut self, now: Nanos) {
        self.engine.on_turn(self.own(now));
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.started = true;
        self.engine.on_stop(how, self.own(now));
    }

    fn poll_action(&mut self) -> Option<Action> {
        if self.started { self.engine.poll_action() } else { None }
    }

    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        self.engine.take_output(id, self.own(now), send)
    }

    fn prepare_output(&mut self, id: ConnId) {
        self.engine.prepare_output(id);
    }

    fn deadline(&self) -> Option<Nanos> {
        let start = Nanos::ZERO + self.delay;
        if !self.started {
            return Some(start);
        }
        self.engine.deadline().map(|at| start + at.since(Nanos::ZERO))
    }
}
