//! Replies of gRPC: the messages in their bodies, and the status in their trailers. Its status
//! replaces that of HTTP in the records.

use super::H2;
use super::conn::Conn;
use super::content::{Kind, MESSAGE_MAX};
use super::head::Encoding;
use super::streams::Stream;
use crate::proto::Sink;
use prony_base::fault::Fault;
use prony_base::grpc::{self, Gzip, Status, Unpackable};
use prony_base::http2::frame::Code;
use prony_base::units::RequestId;

/// Reads the messages of one reply.
struct Reading<'g, 'a, S> {
    /// The compressed message that is incomplete, if something looks into messages.
    packed: Option<Vec<u8>>,
    gzip: &'g mut Gzip,
    plain: Plain<'a, S>,
}

/// What looks into plain messages.
struct Plain<'a, S> {
    request: RequestId,
    /// Whether the sink wants them.
    wants: bool,
    is_stream: bool,
    /// The field by which they are matched, and the message that is incomplete.
    field: Option<u32>,
    message: Option<Vec<u8>>,
    sink: &'a mut S,
}

impl<S: Sink> Reading<'_, '_, S> {
    /// A part of a message; `None`: its end.
    fn take(&mut self, part: Option<&[u8]>, is_packed: bool) -> Result<(), Status> {
        let Self { packed, gzip, plain } = self;
        match (part, packed) {
            (Some(bytes), Some(packed)) if is_packed => packed.extend_from_slice(bytes),
            (None, Some(packed)) if is_packed => {
                let message = gzip.unpack(packed, MESSAGE_MAX as usize);
                plain.part(message.map_err(|why| match why {
                    Unpackable::Malformed => Status::INTERNAL,
                    Unpackable::TooLong => Status::RESOURCE_EXHAUSTED,
                })?);
                packed.clear();
                plain.end();
            }
            (Some(bytes), _) => plain.part(bytes),
            (None, _) => plain.end(),
        }
        Ok(())
    }
}

impl<S: Sink> Plain<'_, S> {
    fn part(&mut self, bytes: &[u8]) {
        if self.wants {
            self.sink.body(self.request, bytes);
        }
        if let Some(message) = &mut self.message {
            message.extend_from_slice(bytes);
        }
    }

    fn end(&mut self) {
        if self.is_stream {
            let known = self.message.as_mut().zip(self.field);
            let token = known.map_or(0, |(message, field)| {
                let token = grpc::token(message, field);
                message.clear();
                token
            });
            self.sink.message(self.request, token);
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
        // Only a reply that is matched by a field is read as a whole, and a compressed one.
        let message = match field {
            Some(_) => stream.reply_buffer().map(std::mem::take),
            None => None,
        };
        let unpacks = (wants || field.is_some()) && stream.content.encoding == Encoding::Gzip;
        let packed = unpacks.then(|| std::mem::take(stream.packed_buffer(&mut self.spare)));
        let plain = Plain { request, wants, is_stream, field, message, sink };
        let mut reading = Reading { packed, gzip: &mut self.spare.gzip, plain };
        let result = stream.content.body(piece, |part, is_packed| reading.take(part, is_packed));
        let Reading { packed, plain: Plain { message, sink, .. }, .. } = reading;
        if let Some((buffer, message)) = stream.reply_buffer().zip(message) {
            *buffer = message;
        }
        if let Some(packed) = packed {
            *stream.packed_buffer(&mut self.spare) = packed;
        }
        if let Err((status, unread)) = result {
            let mut stream = conn.streams.remove(place);
            // Nothing depends on the pieces in which the bytes arrive.
            stream.body_bytes -= unread as u64;
            conn.reset(stream.id, Code::CANCEL);
            finish(&stream, status, Some(Fault::BadMessage), sink);
            conn.drain_if_cancelled_often(sink);
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
    let mut reply = stream.reply();
    reply.status = u16::from(status.number());
    reply.fault = fault;
    sink.done(stream.request, &reply);
}
