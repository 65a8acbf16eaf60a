//! Figures of the replies of language models.

use super::per_second;
use crate::record::Tally;

impl Tally {
    /// Messages with output that arrived inside the window, per second; `None` if no reply is one
    /// of a language model.
    pub fn chunk_rate(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        let inside = tokens.chunks.saturating_sub(tokens.chunks_in_drain);
        Some(per_second(inside as f64, self.window()))
    }

    /// The mean number of tokens in a message with output, of the replies that say how many tokens
    /// they have; `None` if none does.
    pub fn tokens_per_chunk(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted_chunks > 0)
            .then(|| tokens.output_tokens as f64 / tokens.counted_chunks as f64)
    }

    /// Tokens of all replies per second: messages with output inside the window, times the tokens
    /// in each.
    pub fn token_rate(&self) -> Option<f64> {
        Some(self.chunk_rate()? * self.tokens_per_chunk()?)
    }

    /// Tokens per second of one reply while it arrives: the reciprocal of the mean time between
    /// its tokens.
    pub fn token_rate_of_one(&self) -> Option<f64> {
        let mean = self.tokens.as_deref()?.itl.mean_ns()?;
        (mean > 0.0).then(|| 1e9 / mean)
    }

    /// Replies inside the window that keep all limits, per second.
    pub fn goodput(&self) -> Option<f64> {
        let tokens = self.tokens.as_deref()?;
        let inside = tokens.good.saturating_sub(tokens.good_in_drain);
        Some(per_second(inside as f64, self.window()))
    }

    /// The tokens of the replies that say how many they have, or were counted; `None` without any.
    pub fn output_tokens(&self) -> Option<u64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted > 0).then_some(tokens.output_tokens)
    }

    /// The tokens of the requests, as their replies say; `None` if none does.
    pub fn input_tokens(&self) -> Option<u64> {
        let tokens = self.tokens.as_deref()?;
        (tokens.counted > tokens.tokenized).then_some(tokens.input_tokens)
    }
}
