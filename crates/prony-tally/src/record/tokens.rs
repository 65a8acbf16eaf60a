//! Replies of language models: their times, and the tokens in them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::lower_bounds::Bound;
use super::{CallStart, Recorder, Stamps, StreamTime};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::events::Finish;
use prony_plan::plan::{TokenLimit, TokenTime};

/// Times and counters of the replies of language models. A chunk is a message with output.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct TokenTally {
    /// From the intended start of a request to the first chunk of its reply.
    pub ttft: Hist,
    /// From the send to the first chunk.
    pub ttft_service: Hist,
    /// From the first chunk of a reply to the last, divided by its tokens but one; successes that
    /// say how many tokens they have, if these are two at least.
    pub itl: Hist,
    /// Between two chunks of a reply, one after the other.
    pub chunk_gap: Hist,
    /// Chunks that arrived in the section, whichever their request is.
    pub chunks: u64,
    /// Those among them that arrived after the end of the load.
    pub chunks_in_drain: u64,
    /// Those among them that arrived in the same read as the one before in their reply.
    pub chunks_together: u64,
    /// Successful replies.
    pub replies: u64,
    /// Those among them without output.
    pub empty: u64,
    /// Those among them that say how many tokens they have, or whose tokens were counted.
    pub counted: u64,
    /// Those among the counted ones whose tokens a tokenizer has counted.
    #[serde(default)]
    pub tokenized: u64,
    /// Successful replies that say that they have less than half as many tokens as chunks, which
    /// cannot be. Their number is not used.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub doubted: u64,
    /// Those among them whose tokens are all tokens without those of the request.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub by_total: u64,
    /// Successful replies of several choices, whose chunks do not follow one another.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub several: u64,
    /// The chunks of the counted ones.
    pub counted_chunks: u64,
    /// The tokens of these.
    pub output_tokens: u64,
    /// The tokens of their requests, as far as the replies say.
    pub input_tokens: u64,
    /// Successful replies that keep all limits of the plan.
    pub good: u64,
    /// Those among them that arrived after the end of the load.
    pub good_in_drain: u64,
    /// Successful replies by the reason for their end.
    pub finished: Finished,
    /// The chunks by the second of the run in which they arrived.
    pub chunks_by_second: BTreeMap<u64, u64>,
    /// The replies that keep all limits, by the second in which they ended.
    pub good_by_second: BTreeMap<u64, u64>,
}

/// Replies by the reason for their end.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The model has ended the reply.
    pub stop: u64,
    /// It has the most tokens that were allowed.
    pub length: u64,
    /// The model calls a tool.
    pub tool: u64,
    /// The content is not allowed.
    pub filter: u64,
    /// Another reason.
    pub other: u64,
    /// None was given.
    pub none: u64,
}

/// What was read of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenReply {
    /// When its first chunk arrived; `None` if it has none, or is not a stream.
    pub first: Option<Nanos>,
    /// When the last did.
    pub last: Nanos,
    /// How many there are.
    pub chunks: u64,
    /// The tokens of the request, if the reply says.
    pub input: Option<u32>,
    /// The tokens of the reply, if it says, or if they were counted.
    pub output: Option<u32>,
    /// Whether what it says itself cannot be, as it has more than twice as many chunks.
    pub is_doubted: bool,
    /// Whether a tokenizer has counted them.
    pub is_tokenized: bool,
    /// Why it ended, if it says.
    pub finish: Option<Finish>,
    /// How many choices it has.
    pub choices: u32,
}

impl TokenReply {
    /// The mean time between its tokens; `None` if it has fewer than two, or their number is not
    /// known, or several choices have them.
    pub fn itl(&self) -> Option<Span> {
        let (first, tokens) = (self.first.filter(|_| self.choices <= 1)?, self.output?);
        (tokens > 1).then(|| self.last.since(first) / u64::from(tokens - 1))
    }

    fn keeps(&self, limit: &TokenLimit, stamps: &Stamps) -> bool {
        let below = |time: Span| time < limit.limit;
        match limit.time {
            TokenTime::Response => below(stamps.response()),
            TokenTime::Ttft => self.first.is_some_and(|at| below(at.since(stamps.intended))),
            // A single token has nothing to wait for.
            TokenTime::Itl if self.output.is_some_and(|tokens| tokens <= 1) => true,
            TokenTime::Itl => self.itl().is_some_and(below),
        }
    }
}

fn second(at: Nanos) -> u64 {
    at.0 / 1_000_000_000
}

impl Recorder {
    fn tokens(&mut self, at: Nanos) -> &mut TokenTally {
        self.section(at).tally.tokens.get_or_insert_default()
    }

    /// A message of a model has arrived at `now`, and the one before it in its reply at `before`.
    pub fn token_message(&mut self, before: Option<Nanos>, now: Nanos) {
        self.message_received(now, before == Some(now));
    }

    /// A chunk has arrived at `now`, and the one before it in its reply at `before`.
    pub fn output_arrived(&mut self, before: Option<Nanos>, now: Nanos) {
        let is_in_drain = now > self.load_end;
        let tokens = self.tokens(now);
        tokens.chunks += 1;
        tokens.chunks_in_drain += u64::from(is_in_drain);
        tokens.chunks_together += u64::from(before == Some(now));
        *tokens.chunks_by_second.entry(second(now)).or_default() += 1;
        if let Some(before) = before {
            let gap = now.since(before);
            self.tokens(before).chunk_gap.record(gap);
            self.over_time(before, StreamTime::ChunkGap, now, gap);
            self.bound(StreamTime::ChunkGap, (before, now), gap, Bound::of_gap(gap));
        }
    }

    /// The first chunk of a reply has arrived.
    pub fn first_output(&mut self, start: CallStart, now: Nanos) {
        let (intended, time) = (start.intended, now.since(start.intended));
        let tokens = self.tokens(intended);
        tokens.ttft.record(time);
        tokens.ttft_service.record(now.since(start.sent));
        self.over_time(intended, StreamTime::Ttft, now, time);
        self.bound(StreamTime::Ttft, (intended, now), time, start.bound(now));
    }

    /// A successful reply is complete.
    pub fn tokens_replied(&mut self, stamps: &Stamps, reply: &TokenReply, slo: &[TokenLimit]) {
        let is_in_drain = stamps.done > self.load_end;
        let tokens = self.tokens(stamps.intended);
        tokens.replies += 1;
        tokens.empty += u64::from(reply.chunks == 0);
        tokens.several += u64::from(reply.choices > 1);
        if reply.is_doubted {
            tokens.doubted += 1;
            tokens.by_total += u64::from(reply.output.is_some() && !reply.is_tokenized);
        }
        if let Some(output) = reply.output {
            tokens.counted += 1;
            tokens.tokenized += u64::from(reply.is_tokenized);
            tokens.counted_chunks += reply.chunks;
            tokens.output_tokens += u64::from(output);
            tokens.input_tokens += u64::from(reply.input.unwrap_or(0));
        }
        if let Some(itl) = reply.itl() {
            tokens.itl.record(itl);
            self.over_time(stamps.intended, StreamTime::Itl, stamps.done, itl);
            let gaps = reply.output.map_or(1, |tokens| tokens.max(2) - 1);
            self.mean_gap_bound((stamps.intended, stamps.done), itl, gaps);
        }
        let tokens = self.tokens(stamps.intended);
        if slo.iter().all(|limit| reply.keeps(limit, stamps)) {
            tokens.good += 1;
            tokens.good_in_drain += u64::from(is_in_drain);
            *tokens.good_by_second.entry(second(stamps.done)).or_default() += 1;
        }
        *match reply.finish {
            Some(Finish::Stop) => &mut tokens.finished.stop,
            Some(Finish::Length) => &mut tokens.finished.length,
            Some(Finish::Tool) => &mut tokens.finished.tool,
            Some(Finish::Filter) => &mut tokens.finished.filter,
            Some(Finish::Other) => &mut tokens.finished.other,
            None => &mut tokens.finished.none,
        } += 1;
    }
}
