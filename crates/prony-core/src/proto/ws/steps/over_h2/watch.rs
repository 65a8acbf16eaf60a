//! Looks at one frame of HTTP/2 while it is read: at the reply to a handshake, and at frames of
//! WebSocket. Everything else goes on to the engine's sink.

use super::line::Line;
use crate::fault::Fault;
use crate::messages::Stamp;
use crate::proto::ws::steps::calls::{StepCall, What};
use crate::proto::ws::steps::socket::State;
use crate::proto::{Anomaly, Reply, Sink};
use crate::units::{Nanos, RequestId};
use crate::websocket::ReplyFields;

pub(super) struct Watch<'a, S> {
    pub(super) sink: &'a mut S,
    /// The socket on the stream of the frame; `None`: the stream is a request.
    pub(super) line: Option<&'a mut Line>,
    pub(super) calls: &'a mut [Option<StepCall>],
    /// Whether the reply has opened the socket.
    pub(super) opens: bool,
    /// What ends the socket.
    pub(super) fault: Option<Fault>,
    /// The reply, if the peer has ended the stream.
    pub(super) reply: Option<Reply>,
}

impl<S: Sink> Watch<'_, S> {
    /// Whether the exchange is one of the engine: a request, or a handshake without an answer.
    fn is_exchange(&self) -> bool {
        self.line.as_deref().is_none_or(Line::is_handshake)
    }

    /// Bytes of frames.
    fn frames(&mut self, piece: &[u8]) {
        let Some(line) = self.line.as_deref_mut() else { return };
        let reads = matches!(line.socket.state, State::Open | State::Closing(_));
        if !reads || self.fault.is_some() {
            return;
        }
        let mut stash = std::mem::take(&mut line.stash);
        stash.extend_from_slice(piece);
        match line.socket.frames(self.calls, &stash, self.sink) {
            Ok(used) => _ = stash.drain(..used),
            Err(fault) => self.fault = Some(fault),
        }
        line.stash = stash;
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

    fn call(&self, id: RequestId) -> Option<u32> {
        self.sink.call(id)
    }

    fn was_sent(&self, id: RequestId) -> bool {
        !self.is_exchange() || self.sink.was_sent(id)
    }

    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.sink.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        if self.is_exchange() {
            self.sink.began(id);
            self.opens |= self.line.as_deref().is_some_and(Line::is_accepted);
        }
    }

    fn wants_headers(&self, id: RequestId) -> bool {
        self.line.is_some() || self.sink.wants_headers(id)
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        if !self.is_exchange() {
            return;
        }
        if let Some(line) = self.line.as_deref_mut() {
            if name == b":status" {
                // The fields of an interim reply do not count.
                line.socket.fields = ReplyFields::default();
                let status = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                line.status = status.unwrap_or(0);
            } else {
                let call = line.socket.current.as_ref().map_or(0, |current| current.call);
                let protocols = match &self.calls[call as usize] {
                    Some(StepCall { what: What::Open(protocols), .. }) => &protocols[..],
                    _ => &[],
                };
                line.socket.fields.field(name, value, (&[0; 24], protocols));
            }
            if !self.sink.wants_headers(id) {
                return;
            }
        }
        self.sink.header(id, name, value);
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        if self.is_exchange() {
            self.sink.head(id, status, has_events);
        }
    }

    fn wants_body(&self, id: RequestId) -> bool {
        !self.is_exchange() || self.sink.wants_body(id)
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        match self.is_exchange() {
            true => self.sink.body(id, piece),
            false => self.frames(piece),
        }
    }

    fn chunk_ended(&mut self, id: RequestId) {
        if self.is_exchange() {
            self.sink.chunk_ended(id);
        }
    }

    fn message(&mut self, id: RequestId, token: u64) {
        self.sink.message(id, token);
    }

    fn ping_answered(&mut self, times: [Nanos; 2]) {
        self.sink.ping_answered(times);
    }

    fn subscribed(&mut self, id: RequestId) {
        self.sink.subscribed(id);
    }

    fn delivered(&mut self, id: RequestId, stamp: Option<Stamp>) {
        self.sink.delivered(id, stamp);
    }

    /// The peer has ended the stream.
    fn done(&mut self, id: RequestId, reply: &Reply) {
        let Some(line) = self.line.as_deref_mut() else { return self.sink.done(id, reply) };
        self.reply = Some(*reply);
        if !line.is_handshake() {
            return;
        }
        if line.is_accepted() {
            self.sink.began(id);
            self.opens = true;
        } else {
            line.socket.current = None;
            line.socket.state = State::Over;
            self.sink.done(id, reply);
        }
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        match self.line {
            None => self.sink.failed(id, fault),
            Some(_) => _ = self.fault.get_or_insert(fault),
        }
    }

    fn refused(&mut self, id: RequestId) {
        match self.line.as_deref_mut() {
            Some(line) if !line.is_handshake() => {
                self.fault.get_or_insert(Fault::StreamReset);
            }
            line => {
                if let Some(line) = line {
                    line.socket.current = None;
                    line.socket.state = State::Over;
                }
                self.sink.refused(id);
            }
        }
    }

    fn draining(&mut self) {
        self.sink.draining();
    }

    fn odd(&mut self, what: Anomaly) {
        self.sink.odd(what);
    }
}
