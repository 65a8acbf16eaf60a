//! Counters for round trips: lost, duplicate and reordered messages, jitter, the time at which a
//! connection was ready, and the timestamps of each success.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Recorder, Stamps};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_proto::proto::Anomaly;

/// Messages other than the next expected reply. Lost messages are counted as timeouts.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Replies that arrived after the reply to a later request; they also count as replies.
    pub reordered: u64,
    /// Second and further replies to one request.
    pub duplicates: u64,
    /// Replies that arrived after their request had timed out.
    pub late: u64,
    /// Messages that do not reply to any request.
    pub unexpected: u64,
    /// Sum of the absolute differences between each round trip and the one that the same worker
    /// ended before it.
    pub jitter_sum: Span,
    /// The number of these differences.
    pub jitter_count: u64,
}

/// A callback for every success: the worker that records it passes its timestamps, in the order in
/// which that worker's requests end.
#[derive(Clone)]
pub struct Observer(pub Arc<dyn Fn(&Stamps) + Send + Sync>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// How each success is processed.
#[derive(Debug, Default)]
pub(super) struct PerSuccess {
    /// Keep its timestamps.
    pub(super) kept: bool,
    observer: Option<Observer>,
    /// Compute the jitter.
    differs: bool,
    last: Option<Span>,
}

impl Messages {
    /// Count one.
    pub(super) fn count(&mut self, what: Anomaly) {
        let n = match what {
            Anomaly::Reordered => &mut self.reordered,
            Anomaly::Duplicate => &mut self.duplicates,
            Anomaly::Late => &mut self.late,
            Anomaly::Unexpected => &mut self.unexpected,
        };
        *n += 1;
    }

    /// The mean absolute difference between successive round trips.
    pub fn jitter(&self) -> Option<Span> {
        (self.jitter_count > 0).then(|| self.jitter_sum / self.jitter_count)
    }
}

impl Recorder {
    /// Call `observer` for every success in the measurement, in the order in which they end.
    pub fn observe(&mut self, observer: Observer) {
        self.keeps = true;
        self.each.observer = Some(observer);
    }

    /// Enable the counters for round trips.
    pub fn round_trips(&mut self) {
        self.keeps = true;
        self.each.differs = true;
        for section in [&mut self.main, &mut self.warm] {
            section.tally.messages.get_or_insert_default();
        }
    }

    /// Process one success: record its service time, pass it to the observer or keep it, and update
    /// the jitter.
    #[cold]
    pub(super) fn keep(&mut self, stamps: Stamps) {
        if let Some(served) = &mut self.section(stamps.intended).tally.service_series {
            served.replied(stamps.done, stamps.service(), 0);
        }
        if let Some(Observer(report)) = &self.each.observer {
            if stamps.intended >= self.start {
                report(&stamps);
            }
        } else if self.each.kept {
            self.section(stamps.intended).tally.kept.push(stamps);
        }
        if self.each.differs {
            let time = stamps.service();
            let last = self.each.last.replace(time);
            let messages = self.section(stamps.intended).tally.messages.get_or_insert_default();
            if let Some(last) = last {
                // Subtraction of spans saturates at zero, so one of the two terms is zero.
                messages.jitter_sum += (time - last) + (last - time);
                messages.jitter_count += 1;
            }
        }
    }

    /// A message other than the next expected reply has arrived.
    #[cold]
    pub fn anomaly(&mut self, now: Nanos, what: Anomaly) {
        self.section(now).tally.messages.get_or_insert_default().count(what);
    }

    /// The first connection of a closed loop is ready. If the measurement has started already, it
    /// restarts here.
    pub fn ready(&mut self, now: Nanos) {
        self.ready = self.ready.min(now);
    }
}
