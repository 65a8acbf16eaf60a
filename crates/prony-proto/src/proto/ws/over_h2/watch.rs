//! Looks at one frame of HTTP/2 while it is read: at the reply to a handshake, and at frames of
//! WebSocket. Everything else goes on to the engine's sink.

use super::line::Line;
use crate::proto::ws::script::Script;
use crate::proto::{Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::RequestId;
use prony_base::websocket::{CloseCode, ReplyFields};

pub(super) struct Watch<'a, S> {
    pub(super) sink: &'a mut S,
    /// The socket on the stream of the frame; `None`: the stream is a request.
    pub(super) line: Option<&'a mut Line>,
    pub(super) script: &'a mut Script,
    pub(super) found: Found,
}

/// What follows from a frame for the socket on its stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Whether the reply has accepted the handshake.
    pub(super) opens: bool,
    /// The code with which the peer has closed the socket.
    pub(super) closed: Option<CloseCode>,
    /// What ends the socket.
    pub(super) fault: Option<Fault>,
    /// The reply, if the peer has ended the stream.
    pub(super) reply: Option<Reply>,
}

impl<S: Sink> Watch<'_, S> {
    /// Whether HTTP is read: the reply to a request, or to a handshake.
    fn is_http(&self) -> bool {
        self.line.as_deref().is_none_or(|line| line.socket.is_handshake())
    }

    /// Bytes of frames.
    fn frames(&mut self, piece: &[u8]) {
        let Some(line) = self.line.as_deref_mut() else { return };
        if !line.socket.frames.reads() || self.found.fault.is_some() {
            return;
        }
        let mut stash = std::mem::take(&mut line.stash);
        let result = if stash.is_empty() {
            self.script.read(&mut line.socket, piece, self.sink).map(|(used, code)| {
                stash.extend_from_slice(&piece[used..]);
                code
            })
        } else {
            stash.extend_from_slice(piece);
            self.script.read(&mut line.socket, &stash, self.sink).map(|(used, code)| {
                stash.drain(..used);
                code
            })
        };
        line.stash = stash;
        match result {
            Ok(code) => self.found.closed = code,
            Err(fault) => self.found.fault = Some(fault),
        }
    }
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.sink.oldest()
    }

    /// Steps on sockets have no streams of their own, and sockets between steps no exchange: the
    /// numbers of both say nothing about each other.
    fn outstanding(&self) -> u32 {
        0
    }

    fn was_sent(&self, id: RequestId) -> bool {
        !self.is_http() || self.sink.was_sent(id)
    }

    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.sink.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        if self.is_http() {
            self.sink.began(id);
            self.found.opens |= self.line.as_deref().is_some_and(Line::is_accepted);
        }
    }

    fn wants_headers(&self, id: RequestId) -> bool {
        self.line.is_some() || self.sink.wants_headers(id)
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        if !self.is_http() {
            return;
        }
        if let Some(line) = self.line.as_deref_mut() {
            if name == b":status" {
                // The fields of an interim reply do not count.
                line.fields = ReplyFields::default();
                let status = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                line.status = status.unwrap_or(0);
            } else {
                let protocols = self.script.protocols(&line.socket);
                line.fields.field(name, value, (&[0; 24], protocols));
            }
            if !self.sink.wants_headers(id) {
                return;
            }
        }
        self.sink.header(id, name, value);
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        if self.is_http() {
            self.sink.head(id, status, has_events);
        }
    }

    fn wants_body(&self, id: RequestId) -> bool {
        !self.is_http() || self.sink.wants_body(id)
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        match self.is_http() {
            true => self.sink.body(id, piece),
            false => self.frames(piece),
        }
    }

    fn chunk_ended(&mut self, id: RequestId) {
        if self.is_http() {
            self.sink.chunk_ended(id);
        }
    }

    fn message(&mut self, id: RequestId, token: u64) {
        self.sink.message(id, token);
    }

    /// The peer has ended the stream.
    fn done(&mut self, id: RequestId, reply: &Reply) {
        let Some(line) = self.line.as_deref_mut() else { return self.sink.done(id, reply) };
        self.found.reply = Some(*reply);
        if line.socket.is_handshake() {
            if line.is_accepted() {
                self.sink.began(id);
                self.found.opens = true;
            } else {
                line.socket.refused();
                self.sink.done(id, reply);
            }
        }
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        match self.line {
            None => self.sink.failed(id, fault),
            Some(_) => _ = self.found.fault.get_or_insert(fault),
        }
    }

    fn refused(&mut self, id: RequestId) {
        match self.line.as_deref_mut() {
            Some(line) if !line.socket.is_opening() => {
                self.found.fault.get_or_insert(Fault::StreamReset);
            }
            line => {
                if let Some(line) = line {
                    line.socket.refused();
                }
                self.sink.refused(id);
            }
        }
    }

    fn draining(&mut self) {
        self.sink.draining();
    }
}
