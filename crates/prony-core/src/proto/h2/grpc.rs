//! Replies of gRPC: the messages in their bodies, and the status in their trailers. Its status
//! replaces that of HTTP in the records.

use super::H2;
use super::conn::Conn;
use super::head::Head;
use super::streams::Stream;
use crate::fault::Fault;
use crate::grpc::{self, Item, Splitter, Status};
use crate::http2::frame::Code;
use crate::proto::Sink;

/// The longest message that is accepted, in bytes.
const MESSAGE_MAX: u32 = 64 << 20;

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
    is_grpc: bool,
    /// Whether its head names an encoding of compressed messages.
    is_encoded: bool,
    splitter: Splitter,
    /// Complete messages.
    messages: u32,
    status: Option<Status>,
}

impl Content {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        kind: Kind::Http,
        is_grpc: false,
        is_encoded: false,
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
            (self.is_grpc, self.is_encoded) = (head.is_grpc, head.is_encoded);
        }
        if ends {
            self.status = head.grpc_status;
        }
    }

    /// A piece of the body; `take` gets the messages without their prefixes, and `None` at the end
    /// of each. An error is the status that a client of gRPC reports for it, and how many bytes of
    /// the piece follow it.
    fn body(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(Option<&[u8]>),
    ) -> Result<(), (Status, usize)> {
        let mut rest = piece;
        loop {
            match self.splitter.next(&mut rest, MESSAGE_MAX) {
                Ok(None) => return Ok(()),
                Ok(Some(Item::Part(bytes))) => take(Some(bytes)),
                Ok(Some(Item::Start(prefix))) => {
                    let is_known = prefix.flag == 0 || (prefix.flag == 1 && self.is_encoded);
                    let is_extra = self.kind == Kind::Unary && self.messages > 0;
                    if !is_known || is_extra {
                        return Err((Status::INTERNAL, rest.len()));
                    }
                }
                Ok(Some(Item::End)) => {
                    self.messages = self.messages.saturating_add(1);
                    take(None);
                }
                Err(_) => return Err((Status::RESOURCE_EXHAUSTED, rest.len())),
            }
        }
    }

    /// The status of the complete reply, and what is wrong with it.
    fn outcome(&self, http: u16) -> (Status, Option<Fault>) {
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

impl H2 {
    /// A piece of the body of a reply to a call of gRPC.
    pub(super) fn message_bytes(
        &mut self,
        conn: &mut Conn,
        place: usize,
        piece: &[u8],
        sink: &mut impl Sink,
    ) {
        let stream = conn.streams.at(place);
        if !stream.content.is_grpc {
            return;
        }
        let request = stream.request;
        let wants = sink.wants_body(request);
        let is_stream = stream.content.kind == Kind::Streams;
        let field = match is_stream {
            true => self.requests.tokens(stream.call).map(|(_, reply)| reply),
            false => None,
        };
        // Only a reply that is matched by a field is read as a whole.
        let mut message = match field {
            Some(_) => stream.reply_buffer().map(std::mem::take),
            None => None,
        };
        let result = stream.content.body(piece, |part| match part {
            Some(bytes) => {
                if wants {
                    sink.body(request, bytes);
                }
                if let Some(message) = &mut message {
                    message.extend_from_slice(bytes);
                }
            }
            None if is_stream => {
                let known = message.as_mut().zip(field);
                let token = known.map_or(0, |(message, field)| {
                    let token = grpc::token(message, field);
                    message.clear();
                    token
                });
                sink.message(request, token);
            }
            None => {}
        });
        if let Some((buffer, message)) = stream.reply_buffer().zip(message) {
            *buffer = message;
        }
        if let Err((status, unread)) = result {
            let mut stream = conn.streams.remove(place);
            // Nothing depends on the pieces in which the bytes arrive.
            stream.body_bytes -= unread as u64;
            conn.reset(stream.id, Code::CANCEL);
            finish(&stream, status, Some(Fault::BadMessage), sink);
        }
    }

    /// The reply to a call of gRPC is complete.
    pub(super) fn call_ends(&mut self, stream: &Stream, sink: &mut impl Sink) {
        let (status, fault) = stream.content.outcome(stream.status);
        if stream.content.status.is_none() && fault.is_none() {
            self.counts.without_status(stream.status);
        }
        finish(stream, status, fault, sink);
    }
}

fn finish(stream: &Stream, status: Status, fault: Option<Fault>, sink: &mut impl Sink) {
    let mut reply = super::receive::reply(stream);
    reply.status = u16::from(status.number());
    reply.fault = fault;
    sink.done(stream.request, &reply);
}
