//! What an observer gets of a stream of messages whose request has ended.

use super::messages::Messages;
use crate::record::TokenReply;
use crate::units::{Nanos, RequestId};

/// The messages of a reply, as far as they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedStream {
    /// How many have arrived.
    pub messages: u64,
    /// When the first and the last of them did.
    pub times: Option<[Nanos; 2]>,
    /// When the first with content did; of a language model, with output.
    pub first_content: Option<Nanos>,
    /// When the first token of a language model did; none in a reply in one piece.
    pub first_token: Option<Nanos>,
    /// What a successful reply of a language model says.
    pub reply: Option<TokenReply>,
    /// Whether the tokens of the reply are counted after the load, as it does not say how many it
    /// has: [`Tap::tokens_counted`](crate::engine::Tap::tokens_counted) passes them.
    pub is_uncounted: bool,
}

impl Messages {
    /// The stream of the exchange, which ends now. None if its body has not begun.
    pub(in crate::engine) fn ended_stream(
        &mut self,
        id: RequestId,
        is_success: bool,
    ) -> Option<EndedStream> {
        let (stream, reading) = self.unfinished(id)?;
        let body = stream.body.as_deref()?;
        let model = reading.plan.tokens.as_ref().map(|_| body.reply());
        let reply = model.filter(|_| is_success);
        Some(EndedStream {
            messages: body.size().0,
            times: body.times(),
            first_content: body.first_content(),
            first_token: model.and_then(|reply| reply.first),
            reply,
            is_uncounted: reading.tokenizer.is_some()
                && reply.is_some_and(|reply| reply.output.is_none()),
        })
    }
}
