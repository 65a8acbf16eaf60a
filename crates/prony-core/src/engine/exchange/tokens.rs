//! The body of a language model's reply: what its messages said, and when they arrived.

use super::ended::EndedRequest;
use prony_base::units::Nanos;
use prony_plan::events::{Choices, Finish, Message, output_text};
use prony_plan::plan::TokenLimit;
use prony_plan::tokenizer::CountTokens;
use prony_tally::record::{CallStart, Recorder, Stamps, TokenReply};

/// A successful reply that does not say how many tokens it has, until they are counted.
#[derive(Debug)]
pub(super) struct Uncounted {
    pub(super) stamps: Stamps,
    pub(super) reply: TokenReply,
    /// The texts of its output, with the escapes of JSON.
    pub(super) output: Box<[u8]>,
    /// Its request, if an observer waits for its tokens.
    pub(super) ended: Option<Box<EndedRequest>>,
}

impl Uncounted {
    /// Record it, with its tokens if they can be counted.
    pub(super) fn record(
        &mut self,
        tokenizer: &dyn CountTokens,
        slo: &[TokenLimit],
        recorder: &mut Recorder,
    ) {
        self.reply.output = tokenizer.count(&output_text(&self.output));
        self.reply.is_tokenized = self.reply.output.is_some();
        recorder.tokens_replied(&self.stamps, &self.reply, slo);
    }

    /// Pass its request to the observer that waits for its tokens.
    pub(super) fn show(self, observe: &mut dyn FnMut(&EndedRequest)) {
        let Some(mut ended) = self.ended else { return };
        if let Some(stream) = &mut ended.stream {
            stream.reply = Some(self.reply);
        }
        observe(&ended);
    }
}

/// What was read of one reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenBody {
    start: CallStart,
    /// Whether the reply is one message.
    is_whole: bool,
    /// When the first and the last message with output arrived.
    first: Nanos,
    last: Nanos,
    /// How many have output.
    chunks: u64,
    input: Option<u32>,
    output: Option<u32>,
    /// The tokens of the reply by all tokens without those of the request.
    by_total: Option<u32>,
    finish: Option<Finish>,
    /// The choices that have a part in it, and those among them that have ended.
    choices: Choices,
    finished: Choices,
    /// Whether a message was its last one.
    is_end: bool,
}

impl TokenBody {
    /// The reply to the request with these timestamps.
    pub(super) fn new(stamps: &Stamps, is_whole: bool) -> Self {
        Self { start: CallStart::of(stamps), is_whole, ..Self::default() }
    }

    /// A message has arrived.
    pub(super) fn arrived(&mut self, message: &Message, now: Nanos, recorder: &mut Recorder) {
        let said = &message.said;
        self.input = said.input.or(self.input);
        self.output = said.output.or(self.output);
        self.by_total = said.by_total.or(self.by_total);
        self.finish = said.finish.or(self.finish);
        self.choices |= said.choices;
        self.finished |= said.finished;
        self.is_end |= said.is_end;
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
            recorder.first_output(self.start, now);
        }
    }

    /// Whether the model has ended the reply: all of its choices, or the last message says so. One
    /// in one piece is complete if it can be read.
    pub(super) fn is_complete(&self) -> bool {
        let has_finished = self.finish.is_some() && self.choices & !self.finished == 0;
        let is_read = self.is_whole && (self.chunks > 0 || self.output.is_some());
        self.is_end || has_finished || is_read
    }

    /// Whether the reply cannot have as few tokens: a chunk has a token at least, unless the server
    /// splits its text.
    fn is_too_few(&self, tokens: u32) -> bool {
        u64::from(tokens) * 2 < self.chunks
    }

    /// The reply as a whole.
    pub(super) fn reply(&self) -> TokenReply {
        let has_times = self.chunks > 0 && !self.is_whole;
        let is_doubted = self.output.is_some_and(|tokens| self.is_too_few(tokens));
        let by_total = self.by_total.filter(|&tokens| is_doubted && !self.is_too_few(tokens));
        TokenReply {
            first: has_times.then_some(self.first),
            last: self.last,
            chunks: self.chunks,
            input: self.input,
            output: if is_doubted { by_total } else { self.output },
            is_doubted,
            is_tokenized: false,
            finish: self.finish,
            choices: self.choices.count_ones(),
        }
    }
}
