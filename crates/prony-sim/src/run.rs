//! Loads in the virtual world: a plan's engines, one per share, side by side.

use prony_core::engine::Engine;
use prony_core::machine::Machine;
use prony_core::plan::Plan;
use prony_core::proto::h1::H1;
use prony_core::record::Tally;

use crate::world::{Ran, Setup};

/// What has come of a load.
#[derive(Debug)]
pub struct Outcome {
    /// Each share's tallies: warm-up, where the plan has one, and measurement.
    pub tallies: Vec<(Option<Tally>, Tally)>,
    /// What happened in the world.
    pub ran: Ran,
}

/// Run a plan, split into so many shares, against these servers.
pub fn load(plan: &Plan, shares: u32, setup: &Setup, servers: &mut [&mut dyn Machine]) -> Outcome {
    let mut engines: Vec<Engine<H1>> = (0..shares)
        .map(|i| {
            let share = plan.shard(i, shares);
            Engine::new(&share, H1::new(&share))
        })
        .collect();
    let mut clients: Vec<&mut dyn Machine> = Vec::new();
    for engine in &mut engines {
        clients.push(engine);
    }
    let ran = setup.run(&mut clients, servers);
    Outcome { tallies: engines.into_iter().map(Engine::finish).collect(), ran }
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
