//! What round trips want counted beyond requests: what a network does to messages that it may lose,
//! double and overtake; when a connection was ready; and each success by itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::merge::{add, merge_fields};
use super::{Recorder, Stamps};
use crate::proto::Odd;
use crate::units::{Nanos, Span};

/// Messages that were not simply the next reply. What was lost is told by the timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Replies that were overtaken by one to a later request; they count as replies, too.
    pub reordered: u64,
    /// Second and further replies to one request.
    pub duplicates: u64,
    /// Replies that came when their request had timed out.
    pub late: u64,
    /// Messages that are no reply to anything that was asked.
    pub foreign: u64,
    /// How much each round trip differs from the one that the same worker has ended before it,
    /// added up; and how many such differences there are.
    pub jitter_sum: Span,
    /// See `jitter_sum`.
    pub jitter_count: u64,
}

/// Who is told of every success, by the worker that has counted it: with its stamps, in the order
/// in which that worker's end.
#[derive(Clone)]
pub struct Observer(pub Arc<dyn Fn(&Stamps) + Send + Sync>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// What is done with each success by itself.
#[derive(Debug, Default)]
pub(super) struct Each {
    /// Its stamps are kept.
    pub(super) kept: bool,
    observer: Option<Observer>,
    /// It is compared with the last one.
    differs: bool,
    last: Option<Span>,
}

impl Messages {
    /// One more of these.
    pub(super) fn count(&mut self, what: Odd) {
        let n = match what {
            Odd::Reordered => &mut self.reordered,
            Odd::Duplicate => &mut self.duplicates,
            Odd::Late => &mut self.late,
            Odd::Foreign => &mut self.foreign,
        };
        *n += 1;
    }

    /// Add what another worker counted.
    pub(super) fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            reordered: add,
            duplicates: add,
            late: add,
            foreign: add,
            jitter_sum: add,
            jitter_count: add,
        });
    }

    /// The mean difference between a round trip and the one before it.
    pub fn jitter(&self) -> Option<Span> {
        (self.jitter_count > 0).then(|| self.jitter_sum / self.jitter_count)
    }
}

impl Recorder {
    /// Tell `observer` of every success in the measurement, in the order in which they end.
    pub fn observe(&mut self, observer: Observer) {
        self.keeps = true;
        self.each.observer = Some(observer);
    }

    /// Count what round trips want counted.
    pub fn round_trips(&mut self) {
        self.keeps = true;
        self.each.differs = true;
        for section in [&mut self.main, &mut self.warm] {
            section.tally.messages.get_or_insert_default();
        }
    }

    /// Keep a success by itself or its service time, tell of it, or compare it with the last one.
    #[cold]
    pub(super) fn keep(&mut self, stamps: Stamps) {
        if let Some(served) = &mut self.section(stamps.intended).tally.served {
            served.replied(stamps.done, stamps.service(), 0);
        }
        if let Some(Observer(tell)) = &self.each.observer {
            if stamps.intended >= self.begin {
                tell(&stamps);
            }
        } else if self.each.kept {
            self.section(stamps.intended).tally.kept.push(stamps);
        }
        if self.each.differs {
            let time = stamps.service();
            let last = self.each.last.replace(time);
            let messages = self.section(stamps.intended).tally.messages.get_or_insert_default();
            if let Some(last) = last {
                // The shorter from the longer: spans end at zero.
                messages.jitter_sum += (time - last) + (last - time);
                messages.jitter_count += 1;
            }
        }
    }

    /// A message has come that is not simply the next reply.
    #[cold]
    pub fn odd(&mut self, now: Nanos, what: Odd) {
        self.section(now).tally.messages.get_or_insert_default().count(what);
    }

    /// The first connection of a closed loop is ready: where the measurement has begun, it begins
    /// with this.
    pub fn ready(&mut self, now: Nanos) {
        self.ready = self.ready.min(now);
    }
}
