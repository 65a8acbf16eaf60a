//! The body of a language model's reply: what its messages said, and when they arrived.

use crate::events::{Finish, Message};
use crate::record::{Recorder, Stamps, TokenReply};
use crate::units::Nanos;

/// What was read of one reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenBody {
    intended: Nanos,
    sent: Nanos,
    /// Whether the reply is one message.
    is_whole: bool,
    /// When the first and the last message with output arrived.
    first: Nanos,
    last: Nanos,
    /// How many have output.
    chunks: u64,
    input: Option<u32>,
    output: Option<u32>,
    finish: Option<Finish>,
}

impl TokenBody {
    /// The reply to the request with these timestamps.
    pub(super) fn new(stamps: &Stamps, is_whole: bool) -> Self {
        Self { intended: stamps.intended, sent: stamps.sent, is_whole, ..Self::default() }
    }

    /// A message has arrived.
    pub(super) fn arrived(&mut self, message: &Message, now: Nanos, recorder: &mut Recorder) {
        let said = &message.said;
        self.input = said.input.or(self.input);
        self.output = said.output.or(self.output);
        self.finish = said.finish.or(self.finish);
        if !message.has_content {
            return;
        }
        let before = (self.chunks > 0).then_some(self.last);
        if self.chunks == 0 {
            self.first = now;
        }
        self.chunks += 1;
        self.last = now;
        recorder.output_arrived(before, now);
        if before.is_none() && !self.is_whole {
            recorder.first_output(self.intended, self.sent, now);
        }
    }

    /// The reply as a whole.
    pub(super) fn reply(&self) -> TokenReply {
        let has_times = self.chunks > 0 && !self.is_whole;
        TokenReply {
            first: has_times.then_some(self.first),
            last: self.last,
            chunks: self.chunks,
            input: self.input,
            output: self.output,
            finish: self.finish,
        }
    }
}
