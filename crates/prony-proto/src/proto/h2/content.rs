//! What the reply to a call of gRPC contains: its messages, and its status.

use super::head::{Encoding, Head};
use prony_base::fault::Fault;
use prony_base::grpc::{Item, Splitter, Status};

/// The longest message that is accepted, in bytes.
pub(super) const MESSAGE_MAX: u32 = 64 << 20;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request of HTTP.
    Http,
    /// A call of gRPC whose reply has one message.
    Unary,
    /// A call of gRPC whose reply has any number of messages.
    Streams,
}

/// What the reply to a call of gRPC contains so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) kind: Kind,
    /// Whether its head says that the body is one of gRPC.
    pub(super) is_grpc: bool,
    /// How compressed messages are encoded.
    pub(super) encoding: Encoding,
    /// Whether the message that has started is compressed.
    is_packed: bool,
    splitter: Splitter,
    /// Complete messages.
    messages: u32,
    pub(super) status: Option<Status>,
}

impl Content {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        kind: Kind::Http,
        is_grpc: false,
        encoding: Encoding::None,
        is_packed: false,
        splitter: Splitter::NEW,
        messages: 0,
        status: None,
    };

    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, ..Self::NONE }
    }

    /// A header block of the reply: its head, or its trailers.
    pub(super) fn head(&mut self, head: &Head, is_trailer: bool, ends: bool) {
        if !is_trailer {
            (self.is_grpc, self.encoding) = (head.is_grpc, head.encoding);
        }
        if ends {
            self.status = head.grpc_status;
        }
    }

    /// A piece of the body; `take` gets the messages without their prefixes, `None` at the end of
    /// each, and whether they are compressed. An error is the status that a client of gRPC reports
    /// for it, and how many bytes of the piece follow it.
    pub(super) fn body(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(Option<&[u8]>, bool) -> Result<(), Status>,
    ) -> Result<(), (Status, usize)> {
        let mut rest = piece;
        loop {
            match self.splitter.next(&mut rest, MESSAGE_MAX) {
                Ok(None) => return Ok(()),
                Ok(Some(Item::Part(bytes))) => {
                    take(Some(bytes), self.is_packed).map_err(|status| (status, rest.len()))?;
                }
                Ok(Some(Item::Start(prefix))) => {
                    self.is_packed = prefix.flag == 1;
                    let may_be_packed = self.encoding == Encoding::Gzip;
                    let is_known = prefix.flag == 0 || (self.is_packed && may_be_packed);
                    let is_extra = self.kind == Kind::Unary && self.messages > 0;
                    if !is_known || is_extra {
                        return Err((Status::INTERNAL, rest.len()));
                    }
                }
                Ok(Some(Item::End)) => {
                    self.messages = self.messages.saturating_add(1);
                    take(None, self.is_packed).map_err(|status| (status, rest.len()))?;
                }
                Err(_) => return Err((Status::RESOURCE_EXHAUSTED, rest.len())),
            }
        }
    }

    /// The status of the complete reply, and what is wrong with it.
    pub(super) fn outcome(&self, http: u16) -> (Status, Option<Fault>) {
        let Some(status) = self.status else {
            let lacks = http == 200 && self.is_grpc;
            return (Status::from_http(http), lacks.then_some(Fault::NoGrpcStatus));
        };
        let is_whole = self.splitter.is_between_messages();
        let is_right = self.kind != Kind::Unary || self.messages == 1;
        match status == Status::OK && !(is_whole && is_right) {
            true => (Status::INTERNAL, Some(Fault::BadMessage)),
            false => (status, None),
        }
    }
}
