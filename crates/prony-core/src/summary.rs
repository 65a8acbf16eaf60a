//! What a run amounts to: the merged tallies, the meter's account of itself, and every derived figure, in one place.

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::record::Tally;
use crate::units::Span;

/// A finished run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What was asked (the whole, not a share).
    pub plan: Plan,
    /// What was done about it, and where.
    pub run: RunInfo,
    /// The warm-up, where there was one.
    pub warmup: Option<Tally>,
    /// The measurement.
    pub main: Tally,
    /// The meter about itself, one entry per worker.
    pub meters: Vec<Meter>,
}

/// The circumstances of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// prony's version.
    pub version: String,
    /// The command line, as typed.
    pub command: Vec<String>,
    /// Start, in seconds since 1970 (UTC); `None` in simulation.
    pub started_unix: Option<f64>,
    /// `epoll`, `io_uring` or `simulation`.
    pub driver: String,
    /// The addresses that the endpoints stand for, in the order of the plan's endpoints.
    pub addresses: Vec<Vec<String>>,
    /// Operating system and kernel, processor count; empty in simulation.
    pub host: String,
    /// The descriptor limit in force; 0 = unknown.
    pub descriptor_limit: u64,
    /// Whether (and how) the user ended the run before its time.
    pub interrupted: bool,
    /// Facts that the reader must know (a cap lowered, a driver fallen back), in whole sentences.
    pub notes: Vec<String>,
}

/// What one worker did to the machine it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// User CPU time of the worker's thread over the run.
    pub cpu_user: Span,
    /// System CPU time.
    pub cpu_system: Span,
    /// Wall time from the first request to the last event.
    pub wall: Span,
    /// Time spent spinning for an arrival (part of the CPU time, but free for work).
    pub spin: Span,
    /// Turns of the event loop.
    pub turns: u64,
    /// What the kernel knows of the connections.
    pub transport: Transport,
}

/// Totals of TCP_INFO over the connections that were asked, each when it was closed or the run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// Connections asked.
    pub sampled: u64,
    /// Segments sent again, over all of them.
    pub retransmits: u64,
    /// Sum of their smoothed round-trip times.
    pub rtt_sum: Span,
    /// The longest smoothed round-trip time.
    pub rtt_max: Span,
}

/// Whether the figures can be defended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Verdict {
    /// The meter had time and means to spare.
    Valid,
    /// The meter itself was (part of) the bottleneck.
    ClientLimited {
        /// Why, each a fact.
        reasons: Vec<Limit>,
    },
}

/// One reason for which the meter was the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum Limit {
    /// A worker was busy for more than 90 % of the time.
    Busy {
        /// Index of the busiest worker.
        worker: usize,
        /// Its share of busy time, 0 to 1.
        share: f64,
    },
    /// Less than 99 % of the asked rate was achieved, because of the client.
    Rate {
        /// Requests per second asked.
        asked: f64,
        /// Requests per second sent.
        achieved: f64,
    },
    /// p99 of the send lag is over 100 us and over 10 % of the response time's median.
    Lag {
        /// p99 of the send lag.
        p99: Span,
        /// Median response time.
        response_p50: Span,
    },
    /// The meter ran out of something: faults of the class `Meter`.
    RanOut {
        /// Which.
        fault: crate::fault::Fault,
        /// How many requests failed of it.
        requests: u64,
    },
}
