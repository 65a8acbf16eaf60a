//! What is counted of connections.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::merge::{add, add_each, greatest, merge_fields};
use super::{Recorder, wire};
use crate::fault::Fault;
use crate::units::Nanos;

/// The connections of a section, each counted where its connect began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// From the start of the connect to the close; connections that brought a reply and are closed.
    pub lifetimes: Hist,
    /// Connections that ended by a fault, each once whatever it carried, by fault.
    #[serde(with = "wire::by_fault")]
    pub faults: [u64; Fault::COUNT],
    /// The most connections that were open or being opened at once (sum over workers when merged).
    pub live_max: u64,
    /// The most connects that one turn of the event loop began (the largest of any worker).
    pub burst_max: u64,
}

impl Default for Links {
    fn default() -> Self {
        Self { lifetimes: Hist::new(), faults: [0; Fault::COUNT], live_max: 0, burst_max: 0 }
    }
}

impl Links {
    /// Add what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            lifetimes: Hist::merge,
            faults: add_each,
            live_max: add,
            burst_max: greatest,
        });
    }

    /// Connections that ended by one fault.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}

impl Recorder {
    /// A connection ended by that fault. `began`: when its connect did.
    pub fn link_fault(&mut self, began: Nanos, fault: Fault) {
        self.section(began).tally.links.faults[fault as usize] += 1;
    }

    /// A connection that had brought a reply was closed.
    pub fn link_lived(&mut self, began: Nanos, now: Nanos) {
        self.section(began).tally.links.lifetimes.record(now.since(began));
    }

    /// The most connections that there were at once.
    pub fn live_max(&mut self, n: u64) {
        self.main.tally.links.live_max = n;
    }
}
