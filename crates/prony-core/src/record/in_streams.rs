//! Messages in streams: how many were sent and received, and their times.

use serde::{Deserialize, Serialize};

use super::Recorder;
use super::merge::{add, merge_fields, optional};
use crate::messages::Matched;
use crate::units::{Nanos, Span};

/// Counters of the messages in streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Replies whose body was read as a stream; `None` in the messages of gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bodies: Option<Box<StreamBodies>>,
}

/// Counters of bodies that were read as streams of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamBodies {
    /// Streams that have begun: their head and the first byte of their body have arrived.
    pub begun: u64,
    /// Streams among them without a message.
    pub empty: u64,
    /// Streams that the server has ended, by the end of the body.
    pub ended_by_server: u64,
    /// Streams that prony has ended, after their number of messages.
    pub ended_by_count: u64,
    /// Streams that prony has ended, after their time.
    pub ended_by_time: u64,
    /// Streams that prony has ended, after a message with their text.
    pub ended_by_text: u64,
    /// Streams whose request has failed: by a timeout, a lost connection or a message that cannot
    /// be read.
    pub failed: u64,
    /// Bodies that ended within an event. Its data is not counted as a message.
    pub incomplete: u64,
}

/// Why a stream has ended, without a failure of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The body is complete.
    Server,
    /// It has its number of messages.
    Count,
    /// It has lasted its time.
    Time,
    /// A message had its text.
    Text,
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
            bodies: optional(StreamBodies::merge),
        });
    }
}

impl StreamBodies {
    fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            begun: add,
            empty: add,
            ended_by_server: add,
            ended_by_count: add,
            ended_by_time: add,
            ended_by_text: add,
            failed: add,
            incomplete: add,
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

    /// A message of a reply has arrived, of which no time is recorded.
    pub(super) fn message_received(&mut self, now: Nanos, is_together: bool) {
        let counts = self.in_streams(now);
        counts.received += 1;
        counts.together += u64::from(is_together);
    }

    /// A further message of a reply has arrived at `now`, and the one before it at `before`.
    pub fn next_message(&mut self, before: Nanos, now: Nanos) {
        let counts = self.in_streams(before);
        counts.received += 1;
        counts.together += u64::from(before == now);
        self.section(before).tally.times.message_gap.record(now.since(before));
    }

    fn bodies(&mut self, intended: Nanos) -> &mut StreamBodies {
        self.in_streams(intended).bodies.get_or_insert_default()
    }

    /// The first byte of a body that is a stream has arrived.
    pub fn stream_began(&mut self, intended: Nanos) {
        self.bodies(intended).begun += 1;
    }

    /// The first message with content has arrived, `time` after the intended start of its request.
    pub fn first_content(&mut self, intended: Nanos, time: Span) {
        self.section(intended).tally.times.first_content.record(time);
    }

    /// A stream has ended, and its request has not failed because of that.
    pub fn stream_ended(&mut self, intended: Nanos, why: StreamEnd, messages: u64) {
        let bodies = self.bodies(intended);
        bodies.empty += u64::from(messages == 0);
        *match why {
            StreamEnd::Server => &mut bodies.ended_by_server,
            StreamEnd::Count => &mut bodies.ended_by_count,
            StreamEnd::Time => &mut bodies.ended_by_time,
            StreamEnd::Text => &mut bodies.ended_by_text,
        } += 1;
    }

    /// The request of a stream has failed.
    pub fn stream_failed(&mut self, intended: Nanos, messages: u64) {
        let bodies = self.bodies(intended);
        bodies.empty += u64::from(messages == 0);
        bodies.failed += 1;
    }

    /// A body has ended within an event.
    pub fn stream_incomplete(&mut self, intended: Nanos) {
        self.bodies(intended).incomplete += 1;
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
