//! Pings on connections of WebSocket.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::lower_bounds::Bound;
use super::{Recorder, StreamTime};
use prony_base::merge::Merge;
use prony_base::units::Nanos;

/// Counters and times of pings that prony has sent on a schedule.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Pings {
    /// Pings that were sent.
    pub sent: u64,
    /// Those among them with a pong.
    pub answered: u64,
    /// From the time at which a ping was due to its pong.
    pub time: Hist,
}

impl Recorder {
    fn pings(&mut self, due: Nanos) -> &mut Pings {
        self.section(due).tally.pings.get_or_insert_default()
    }

    /// A ping that was due at this time was sent.
    pub fn ping_sent(&mut self, due: Nanos) {
        self.pings(due).sent += 1;
    }

    /// The pong to a ping that was due and sent at these times has arrived.
    pub fn ping_answered(&mut self, due: Nanos, sent: Nanos, now: Nanos) {
        let (time, bound) = (now.since(due), Bound::of_answer(sent.since(due), now.since(sent)));
        let pings = self.pings(due);
        pings.answered += 1;
        pings.time.record(time);
        self.bound(StreamTime::Ping, (due, now), time, bound);
    }
}
