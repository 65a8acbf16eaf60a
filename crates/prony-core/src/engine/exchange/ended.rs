//! What an observer gets of a request that has ended, and of its stream of messages.

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::proto::Reply;
use prony_tally::record::{Stamps, TokenReply};

/// A request that has ended. It was counted as a reply or as failed at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedRequest {
    /// Its ID, which another request may have later.
    pub id: RequestId,
    /// Its timestamps; `sent` and `first` are meaningless where the next two fields say so.
    pub stamps: Stamps,
    /// Whether the kernel accepted its first byte.
    pub was_sent: bool,
    /// Whether the first byte of its reply arrived.
    pub has_begun: bool,
    /// Index into the plan's calls.
    pub call: u32,
    /// The connection of a complete reply.
    pub conn: Option<ConnId>,
    /// The complete reply, expected or not.
    pub reply: Option<Reply>,
    /// Why it failed; `None` for a success.
    pub fault: Option<Fault>,
    /// Its messages, if the plan reads bodies as streams of messages and this one has begun.
    pub stream: Option<EndedStream>,
}

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
