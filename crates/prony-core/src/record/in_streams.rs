//! Messages in streams: how many were sent and received, and their times.

use serde::{Deserialize, Serialize};

use super::Recorder;
use super::merge::{add, merge_fields};
use crate::messages::Matched;
use crate::units::{Nanos, Span};

/// Counters of the messages in streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamMessages {
    /// Messages that were sent on a schedule of their own.
    pub sent: u64,
    /// Those among them to which a reply is expected.
    pub awaited: u64,
    /// Those among them with a reply.
    pub answered: u64,
    /// Messages of replies.
    pub received: u64,
    /// Those among them that reply to no message, although replies are matched.
    pub unmatched: u64,
    /// Those among them that arrived in the same read as the one before.
    pub together: u64,
}

impl StreamMessages {
    /// Add the counters of another worker.
    pub(super) fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            sent: add,
            awaited: add,
            answered: add,
            received: add,
            unmatched: add,
            together: add,
        });
    }
}

impl Recorder {
    fn in_streams(&mut self, intended: Nanos) -> &mut StreamMessages {
        self.section(intended).tally.stream_messages.get_or_insert_default()
    }

    /// A message that was due at `intended` was sent, `lag` later. `awaits`: a reply is expected.
    pub fn message_sent(&mut self, intended: Nanos, lag: Span, awaits: bool) {
        let counts = self.in_streams(intended);
        counts.sent += 1;
        counts.awaited += u64::from(awaits);
        self.section(intended).tally.times.message_lag.record(lag);
    }

    /// The first message of a reply has arrived, `time` after the intended start of its call.
    pub fn first_message(&mut self, intended: Nanos, time: Span) {
        self.in_streams(intended).received += 1;
        self.section(intended).tally.times.first_message.record(time);
    }

    /// A further message of a reply has arrived at `now`, and the one before it at `before`.
    pub fn next_message(&mut self, before: Nanos, now: Nanos) {
        let counts = self.in_streams(before);
        counts.received += 1;
        counts.together += u64::from(before == now);
        self.section(before).tally.times.message_gap.record(now.since(before));
    }

    /// A message has its reply.
    pub fn message_replied(&mut self, matched: &Matched) {
        self.in_streams(matched.intended).answered += 1;
        let times = &mut self.section(matched.intended).tally.times;
        times.message.record(matched.response);
        times.message_service.record(matched.service);
    }

    /// A message of a reply that arrived now belongs to no message that was sent.
    pub fn unmatched_message(&mut self, now: Nanos) {
        self.in_streams(now).unmatched += 1;
    }
}
