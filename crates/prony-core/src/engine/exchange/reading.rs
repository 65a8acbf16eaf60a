//! What was read of each stream of messages, and what it needs to be opened again.

use std::sync::Arc;

use super::sequence::Sequence;
use super::tokens::{TokenBody, Uncounted};
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::events::{Message, Reader, Rules};
use prony_plan::plan::{StreamFormat, StreamPlan};
use prony_plan::tokenizer::CountTokens;
use prony_tally::record::{CallStart, Recorder, Stamps, StreamEnd, TokenReply};

/// How bodies are read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) plan: StreamPlan,
    pub(super) rules: Rules,
    /// Streams whose first piece has arrived with the bytes that are read now.
    pub(super) begun: Vec<RequestId>,
    /// Streams that are to be ended.
    pub(super) stopped: Vec<RequestId>,
    /// What counts the tokens of replies that do not say how many they have, and these replies.
    pub(super) tokenizer: Option<Arc<dyn CountTokens>>,
    pub(super) uncounted: Vec<Uncounted>,
}

impl Reading {
    pub(super) fn new(plan: &StreamPlan) -> Self {
        let rules = Rules::new(plan);
        let (begun, stopped, uncounted) = Default::default();
        Self { plan: plan.clone(), rules, begun, stopped, tokenizer: None, uncounted }
    }
}

/// What was read of one body. Reused for stream after stream.
#[derive(Debug, Default)]
pub(super) struct StreamBody {
    pub(super) stage: Stage,
    pub(super) reader: Reader,
    messages: u64,
    /// When the first and the last message arrived.
    times: Option<[Nanos; 2]>,
    /// The bytes of its bodies.
    pub(super) bytes: u64,
    /// When the first message with content arrived.
    first_content: Option<Nanos>,
    /// Whether the last message had the text with which the stream must end.
    has_end: bool,
    /// Whether the body ended within an event.
    pub(super) is_incomplete: bool,
    /// Why the rest is not read, if it is not.
    pub(super) over: Option<Over>,
    /// What it says as the reply of a language model.
    pub(super) tokens: TokenBody,
    /// When its request was due and sent.
    pub(super) start: CallStart,
    /// What it needs to be opened again, if the plan wants that.
    pub(super) reconnect: Option<Box<Reconnect>>,
}

/// Where a stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not begun, or has ended.
    #[default]
    Closed,
    /// Its body is being read.
    Open,
    /// Its last connection has ended, and the next has no body yet.
    Between,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Ended(StreamEnd),
    Failed,
    /// A message has reported an error.
    Error,
}

/// What a stream needs to be opened again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reconnect {
    /// When its connection was lost, until the next message arrives.
    pub(super) lost_at: Option<Nanos>,
    /// When it is to be opened again.
    pub(super) due: Option<Nanos>,
    /// The waits of its request before the first connection was lost.
    pub(super) waits: Waits,
    sequence: Sequence,
}

/// The waits of an exchange before its send.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Waits {
    pub(super) queue: Span,
    pub(super) connect: Span,
    pub(super) stream: Span,
    pub(super) late: Span,
}

impl StreamBody {
    /// The stream begins with the reply to the request with these timestamps.
    pub(super) fn begins(&mut self, stamps: &Stamps, reading: &Reading) {
        let mut reader = std::mem::take(&mut self.reader);
        reader.clear(&reading.rules);
        let mut reconnect = self.reconnect.take();
        if reading.plan.reconnect {
            **reconnect.get_or_insert_default() = Reconnect::default();
        }
        let tokens = TokenBody::new(stamps, reading.plan.format == StreamFormat::Whole);
        let start = CallStart::of(stamps);
        *self = Self { stage: Stage::Open, reader, tokens, start, reconnect, ..Self::default() };
    }

    /// How many messages and bytes have arrived.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// When the first and the last message arrived.
    pub(super) fn times(&self) -> Option<[Nanos; 2]> {
        self.times
    }

    /// When the first message with content arrived.
    pub(super) fn first_content(&self) -> Option<Nanos> {
        self.first_content
    }

    /// What it says as the reply of a language model.
    pub(super) fn reply(&self) -> TokenReply {
        self.tokens.reply()
    }

    /// A message has arrived. Returns whether it is the first with content.
    pub(super) fn count(&mut self, message: Message, plan: &StreamPlan, now: Nanos) -> bool {
        self.messages += 1;
        self.times = Some([self.times.map_or(now, |[first, _]| first), now]);
        self.has_end = message.has_end;
        if message.said.is_error {
            self.over = Some(Over::Error);
        } else if message.is_last {
            self.over = Some(Over::Ended(StreamEnd::Text));
        } else if plan.count == Some(self.messages) {
            self.over = Some(Over::Ended(StreamEnd::Count));
        }
        let is_first_content = message.has_content && self.first_content.is_none();
        if is_first_content {
            self.first_content = Some(now);
        }
        is_first_content
    }

    /// Whether all has arrived that marks the end of a stream, which the server has ended.
    pub(super) fn has_ended_well(&self, plan: &StreamPlan) -> bool {
        let has_text = plan.until.is_none() && (plan.end.is_none() || self.has_end);
        has_text && (plan.tokens.is_none() || self.tokens.is_complete())
    }

    /// The stream continues on another connection.
    pub(super) fn continues(&mut self, intended: Nanos, recorder: &mut Recorder) {
        self.stage = Stage::Open;
        self.reader.continues();
        if let Some(reconnect) = self.reconnect.as_deref_mut() {
            reconnect.sequence.is_behind = true;
        }
        recorder.stream_resumed(intended);
    }

    /// How long it waits before it is opened again.
    pub(super) fn retry(&self) -> Span {
        self.reader.position().and_then(|position| position.retry()).unwrap_or(StreamPlan::RETRY)
    }

    /// Its connection ended at `now`, before its bound. Returns whether it can be opened again
    /// before its time is over. Its first request was sent at `sent`.
    pub(super) fn may_reopen(&self, plan: &StreamPlan, sent: Nanos, now: Nanos) -> bool {
        let due = now + self.retry();
        self.over.is_none() && plan.time.is_none_or(|time| due < sent + time)
    }

    pub(super) fn leaves(&mut self, now: Nanos) {
        self.stage = Stage::Between;
        if let Some(reconnect) = self.reconnect.as_deref_mut() {
            reconnect.lost_at.get_or_insert(now);
        }
    }
}

impl Reconnect {
    /// A message has arrived.
    pub(super) fn arrived(&mut self, id: Option<u64>, intended: Nanos, recorder: &mut Recorder) {
        let (is_repeated, missed) = self.sequence.arrived(id);
        if is_repeated || missed > 0 {
            recorder.stream_disagrees(intended, is_repeated, missed);
        }
    }

    /// A message has arrived: when the connection before was lost, if it is the first since then.
    pub(super) fn take_lost_at(&mut self) -> Option<Nanos> {
        self.lost_at.take()
    }
}
