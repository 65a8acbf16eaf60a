//! Statistics of connections.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::{ByFault, Recorder};
use prony_base::fault::Fault;
use prony_base::merge::{Merge, greatest};
use prony_base::units::{Nanos, Span};

/// The connections of a section; each belongs to the section in which its connect started.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// From the start of the connect to the close; closed connections that carried at least one
    /// reply.
    pub lifetimes: Hist,
    /// Connections that ended by a fault, each once regardless of its number of requests; by fault.
    pub faults: ByFault,
    /// The maximum number of connections that were open or opening (when merged, the sum of the
    /// workers' maxima).
    pub open_max: u64,
    /// The maximum number of connections requested in one turn of an event loop (of any worker).
    #[merge(greatest)]
    pub opening_max: u64,
    /// How often a connect, or a user's next request, was held back because the connections before
    /// had brought no reply.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub held: u64,
}

impl Connections {
    /// Connections that ended by `fault`.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}

impl Recorder {
    /// The peer violated the protocol while no request was waiting.
    pub fn stray(&mut self, now: Nanos, fault: Fault) {
        self.section(now).tally.stray[fault as usize] += 1;
    }

    /// A connect starts.
    pub fn connecting(&mut self, now: Nanos) {
        self.section(now).tally.connects += 1;
    }

    /// A connection with a connect that started at `started` ended by `fault`.
    pub fn connection_failed(&mut self, started: Nanos, fault: Fault) {
        self.section(started).tally.connections.faults[fault as usize] += 1;
    }

    /// A connection that carried at least one reply was closed.
    pub fn connection_closed(&mut self, started: Nanos, now: Nanos) {
        self.section(started).tally.connections.lifetimes.record(now.since(started));
    }

    /// Set the maximum number of connections.
    pub fn open_max(&mut self, n: u64) {
        self.main.tally.connections.open_max = n;
    }
}

impl Recorder {
    /// A connection is requested.
    pub fn wants_connection(&mut self, now: Nanos) {
        let s = self.section(now);
        let (last, n) = s.connects;
        s.connects = (now, if last == now { n + 1 } else { 1 });
        s.tally.connections.opening_max = s.tally.connections.opening_max.max(s.connects.1);
    }

    /// A connect is held back.
    pub fn connect_held(&mut self, now: Nanos) {
        self.section(now).tally.connections.held += 1;
    }

    /// A connection opened, `took` after its connect started. It belongs to the section in which
    /// the connect started.
    pub fn connected(&mut self, now: Nanos, took: Span) {
        let t = &mut self.section(Nanos(now.0.saturating_sub(took.0))).tally;
        t.connected += 1;
        t.times.connect.record(took);
    }
}
