//! Messages in streams: how many were sent and received, and their times.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::lower_bounds::Bound;
use super::{Recorder, Stamps, StreamTime};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::messages::Matched;
use prony_proto::proto::Reply;

/// Counters of the messages in streams.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct StreamMessages {
    /// Messages that were sent on a schedule of their own.
    pub sent: u64,
    /// Messages of such schedules that were not sent, as their stream had ended before.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub unsent: u64,
    /// Those among the sent ones to which a reply is expected.
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
    /// How large these bodies were, if any has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Box<StreamSizes>>,
}

/// The sizes of bodies that were read as streams of messages and have ended, by the server, by
/// prony or by a failure. The histograms are those of numbers.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct StreamSizes {
    /// Messages in a stream.
    pub messages: Hist,
    /// Bytes of its bodies.
    pub bytes: Hist,
}

/// Counters of bodies that were read as streams of messages.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Streams that were opened again, if any was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconnects: Option<Reconnects>,
}

/// Counters of streams that are opened again after their connection has ended.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconnects {
    /// How often a stream was opened again.
    pub made: u64,
    /// How often it then continued: its head and the first byte of its body arrived.
    pub resumed: u64,
    /// How often the server had ended a stream before its bound.
    pub ended: u64,
    /// How often a stream, or an attempt to open it again, was lost to a fault of its connection.
    pub broken: u64,
    /// Messages with an ID that had arrived before, after a reconnect.
    pub repeated: u64,
    /// Messages that never arrived, as a reconnect continued after them: by their IDs, if these are
    /// consecutive numbers.
    pub missed: u64,
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

/// When the request of a stream was due and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStart {
    /// When it was due.
    pub intended: Nanos,
    /// When its first byte was passed to the kernel.
    pub sent: Nanos,
    /// What the meter can have added before that.
    pub before: Span,
}

impl CallStart {
    /// That of a request with these timestamps.
    pub fn of(stamps: &Stamps) -> Self {
        let (intended, sent) = (stamps.intended, stamps.sent);
        Self { intended, sent, before: stamps.lag() + stamps.late }
    }

    /// What bounds the meter's part of a time from it to what arrived at `now`.
    pub(super) fn bound(&self, now: Nanos) -> Bound {
        Bound::of_answer(self.before, now.since(self.sent))
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

    /// A stream has ended at `now`, before these messages of its schedule were sent.
    pub fn messages_unsent(&mut self, now: Nanos, messages: u64) {
        self.in_streams(now).unsent += messages;
    }

    /// The first message of a reply has arrived at `now`.
    pub fn first_message(&mut self, start: CallStart, now: Nanos) {
        let (intended, time) = (start.intended, now.since(start.intended));
        self.in_streams(intended).received += 1;
        self.section(intended).tally.times.first_message.record(time);
        self.over_time(intended, StreamTime::FirstMessage, now, time);
        self.bound(StreamTime::FirstMessage, (intended, now), time, start.bound(now));
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
        let gap = now.since(before);
        self.section(before).tally.times.message_gap.record(gap);
        self.over_time(before, StreamTime::MessageGap, now, gap);
        self.bound(StreamTime::MessageGap, (before, now), gap, Bound::of_gap(gap));
    }

    fn bodies(&mut self, intended: Nanos) -> &mut StreamBodies {
        self.in_streams(intended).bodies.get_or_insert_default()
    }

    /// The first byte of a body that is a stream has arrived.
    pub fn stream_began(&mut self, intended: Nanos) {
        self.bodies(intended).begun += 1;
    }

    /// The first message with content has arrived at `now`.
    pub fn first_content(&mut self, start: CallStart, now: Nanos) {
        let (intended, time) = (start.intended, now.since(start.intended));
        self.section(intended).tally.times.first_content.record(time);
        self.over_time(intended, StreamTime::FirstContent, now, time);
        self.bound(StreamTime::FirstContent, (intended, now), time, start.bound(now));
    }

    /// A stream has ended with this size: messages and bytes.
    fn stream_size(&mut self, intended: Nanos, (messages, bytes): (u64, u64)) {
        let sizes = self.in_streams(intended).sizes.get_or_insert_default();
        sizes.messages.record(Span(messages));
        sizes.bytes.record(Span(bytes));
        self.bodies(intended).empty += u64::from(messages == 0);
    }

    /// A stream has ended, and its request has not failed because of that. Its size is that in
    /// messages and bytes.
    pub fn stream_ended(&mut self, intended: Nanos, why: StreamEnd, size: (u64, u64)) {
        self.stream_size(intended, size);
        let bodies = self.bodies(intended);
        *match why {
            StreamEnd::Server => &mut bodies.ended_by_server,
            StreamEnd::Count => &mut bodies.ended_by_count,
            StreamEnd::Time => &mut bodies.ended_by_time,
            StreamEnd::Text => &mut bodies.ended_by_text,
        } += 1;
    }

    /// The request of a stream has failed.
    pub fn stream_failed(&mut self, intended: Nanos, size: (u64, u64)) {
        self.stream_size(intended, size);
        self.bodies(intended).failed += 1;
    }

    /// A body has ended within an event.
    pub fn stream_incomplete(&mut self, intended: Nanos) {
        self.bodies(intended).incomplete += 1;
    }

    fn reconnects(&mut self, intended: Nanos) -> &mut Reconnects {
        self.bodies(intended).reconnects.get_or_insert_default()
    }

    /// The server has ended a stream before its bound, with this reply.
    pub fn stream_ended_early(&mut self, intended: Nanos, reply: &Reply) {
        let s = self.section(intended);
        s.status(reply.status);
        let t = &mut s.tally;
        t.interim += u64::from(reply.interim);
        t.bytes_head += reply.head_bytes;
        t.bytes_framing += reply.framing_bytes;
        t.bytes_footer += reply.footer_bytes;
        t.bytes_body += reply.body_bytes;
        self.reconnects(intended).ended += 1;
    }

    /// A stream was lost to a fault of its connection, and will be opened again.
    pub fn stream_broke(&mut self, intended: Nanos) {
        self.reconnects(intended).broken += 1;
    }

    /// A stream is opened again.
    pub fn stream_reconnects(&mut self, intended: Nanos) {
        self.reconnects(intended).made += 1;
    }

    /// A stream that was opened again continues.
    pub fn stream_resumed(&mut self, intended: Nanos) {
        self.reconnects(intended).resumed += 1;
    }

    /// The first message after a reconnect has arrived at `now`. The connection before was lost at
    /// `lost_at`.
    pub fn first_message_again(&mut self, intended: Nanos, lost_at: Nanos, now: Nanos) {
        self.in_streams(intended).received += 1;
        self.section(intended).tally.times.reconnect.record(now.since(lost_at));
    }

    /// After a reconnect, a message had arrived before, or some were missed.
    pub fn stream_disagrees(&mut self, intended: Nanos, is_repeated: bool, missed: u64) {
        let counts = self.reconnects(intended);
        counts.repeated += u64::from(is_repeated);
        counts.missed += missed;
    }

    /// A message has its reply, which arrived at `now`.
    pub fn message_replied(&mut self, matched: &Matched, now: Nanos) {
        let &Matched { intended, response, service } = matched;
        self.in_streams(intended).answered += 1;
        let times = &mut self.section(intended).tally.times;
        times.message.record(response);
        times.message_service.record(service);
        let bound = Bound::of_answer(response - service, service);
        self.bound(StreamTime::Message, (intended, now), response, bound);
    }

    /// A message of a reply that arrived now belongs to no message that was sent.
    pub fn unmatched_message(&mut self, now: Nanos) {
        self.in_streams(now).unmatched += 1;
    }
}
