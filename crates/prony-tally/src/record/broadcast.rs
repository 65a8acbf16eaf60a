//! Broadcasts: how many subscribers each message has reached, and when.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::lower_bounds::Bound;
use super::{Recorder, StreamTime, Tally};
use prony_base::merge::Merge;
use prony_base::units::Nanos;
use prony_plan::messages::{BroadcastLog, Delivery, Stamp};

/// Counters and times of the messages of a broadcast.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct Broadcast {
    /// Subscribers whose connection opened.
    pub subscribers: u64,
    /// Messages that publishers have sent.
    pub published: u64,
    /// Over all of them, the sum of the subscribers that awaited each.
    pub expected: u64,
    /// Those among these deliveries that took place. Each counts once.
    pub delivered: u64,
    /// Messages that have reached all subscribers that awaited them.
    pub complete: u64,
    /// Deliveries after that of a later message of the same publisher to the same subscriber.
    pub reordered: u64,
    /// Second and further deliveries of a message to a subscriber.
    pub duplicates: u64,
    /// Messages without a stamp of this run.
    pub unstamped: u64,
    /// From the intended time of a message to each of its deliveries.
    pub delivery: Hist,
    /// From the first to the last delivery of a message; messages with at least two.
    pub spread: Hist,
    /// What the worker knows of single messages, until the workers are merged. Never saved.
    #[serde(skip)]
    pub log: Option<Box<BroadcastLog>>,
}

impl Broadcast {
    /// The share of the expected deliveries that took place.
    pub fn reach(&self) -> Option<f64> {
        (self.expected > 0).then(|| self.delivered as f64 / self.expected as f64)
    }

    /// Count what the logs of all workers say together.
    fn settle(&mut self) {
        let Some(log) = self.log.take() else { return };
        self.subscribers += log.subscribers();
        for message in log.published() {
            self.published += 1;
            self.expected += message.expected;
            self.delivered += message.delivered;
            self.complete += u64::from(message.delivered >= message.expected);
            if let Some(spread) = message.spread {
                self.spread.record(spread);
            }
        }
    }
}

impl Tally {
    /// After the merge of all workers of a process: compute what none of them knows alone.
    pub fn settle(&mut self) {
        if let Some(broadcast) = &mut self.broadcast {
            broadcast.settle();
        }
    }
}

impl Recorder {
    fn broadcast(&mut self) -> &mut Broadcast {
        self.main.tally.broadcast.get_or_insert_default()
    }

    fn broadcast_log(&mut self) -> &mut BroadcastLog {
        self.broadcast().log.get_or_insert_default()
    }

    /// The next message of a publisher was sent.
    pub fn published(&mut self, publisher: u32, now: Nanos) {
        self.broadcast_log().sent(publisher, now);
    }

    /// A subscriber has received a message with this stamp.
    pub fn delivered(&mut self, stamp: &Stamp, what: Delivery, now: Nanos) {
        let counts = self.broadcast();
        match what {
            Delivery::NotAwaited => return,
            Delivery::Duplicate => return counts.duplicates += 1,
            Delivery::Reordered => counts.reordered += 1,
            Delivery::InOrder => {}
        }
        let time = now.since(stamp.intended);
        counts.delivery.record(time);
        self.broadcast_log().received(stamp, now);
        let bound = Bound::of_answer(stamp.sent.since(stamp.intended), now.since(stamp.sent));
        // Like the delivery itself, always in the measurement.
        self.bound(StreamTime::Delivery, (Nanos::MAX, now), time, bound);
    }

    /// A subscriber has received a message without a stamp of this run.
    pub fn unstamped(&mut self) {
        self.broadcast().unstamped += 1;
    }

    /// A subscriber has ended, which awaited messages from and to these times.
    pub fn subscriber_ended(&mut self, awaited: (Nanos, Nanos)) {
        self.broadcast_log().ended(awaited);
    }

    /// The run is given up: messages that were sent from `at` on may be in flight.
    pub fn broadcast_given_up(&mut self, at: Nanos) {
        self.broadcast_log().cut(at);
    }
}
