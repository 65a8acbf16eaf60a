//! The lines between a driver and a program that starts workers and carries their lines: JSON
//! objects, each with its `type`. Such a program is an engine ([`crate::carrier`]) or an aggregator
//! ([`crate::aggregator`]); a carried aggregator speaks them to both of its sides.

use prony_base::units::Span;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lost::Reported;
use crate::protocol::Tick;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Relay {
    /// Start this number of workers, each on a host of its own, with these arguments for `prony`.
    Open {
        /// How many.
        workers: usize,
        /// The arguments.
        args: Vec<String>,
        /// For an engine whose workers are aggregators: the number of hosts, and of hosts for each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hosts: Option<Hosts>,
    },
    /// All workers have started.
    Opened,
    /// None has started.
    Refused {
        /// Why.
        why: String,
    },
    /// Pass a line to a worker.
    Send {
        /// Which one.
        worker: usize,
        /// The line.
        line: String,
    },
    /// The run starts: from now on, an aggregator merges the ticks of its workers.
    Follow {
        /// In how many nanoseconds it starts.
        in_ns: u64,
        /// The warm-up of the plan.
        warmup: Span,
    },
    /// End the workers.
    Close,
    /// A line of a worker.
    Line {
        /// Which one.
        worker: usize,
        /// The line.
        line: String,
    },
    /// A worker is gone.
    Gone {
        /// Which one.
        worker: usize,
        /// Why, as the end of a sentence.
        cause: String,
    },
    /// The sums over the workers of an aggregator.
    Tally(Box<Tally>),
    /// All workers of an aggregator are done or lost.
    Over {
        /// What is left of each.
        shares: Vec<Share>,
    },
}

/// Hosts in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// How many there are.
    pub all: usize,
    /// How many an aggregator has; the last one may have fewer.
    pub group: usize,
}

/// The sums of the ticks of several workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The sums. An interval is reported once, when all workers have reported it.
    pub tick: Tick,
    /// The sums of the last ticks of the warm-up, once all workers are past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Box<Tick>>,
}

/// What is left of a worker's share of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Its report.
    Report(Value),
    /// It was lost: what it had reported.
    Lost(Box<Reported>),
}
