//! Looks at one frame of HTTP/2 while it is read: at the reply to a handshake, and at frames of
//! WebSocket.

use super::line::Line;
use crate::fault::Fault;
use crate::messages::Stamp;
use crate::proto::ws::socket::Step;
use crate::proto::ws::talk::Talk;
use crate::proto::{Anomaly, Reply, Sink};
use crate::units::{Nanos, RequestId};
use crate::websocket::{CloseCode, ReplyFields};

/// Passes on to the engine's sink what concerns exchanges that have not ended.
pub(super) struct Watch<'a, S> {
    pub(super) sink: &'a mut S,
    /// The socket on the stream of the frame, if there is one.
    pub(super) line: Option<&'a mut Line>,
    pub(super) talk: &'a Talk,
    pub(super) now: Nanos,
    /// How many streams are open whose exchanges have ended.
    pub(super) lingering: u32,
    /// How the exchange of the socket ends with this frame.
    pub(super) found: Option<Found>,
    /// The reply, if its stream has ended.
    pub(super) reply: Option<Reply>,
}

/// How an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The peer has closed.
    Closed(CloseCode),
    Fault(Fault),
}

impl<S: Sink> Watch<'_, S> {
    fn of(&mut self, id: RequestId) -> Option<&mut Line> {
        self.line.as_deref_mut().filter(|line| line.socket.id == id)
    }

    /// Whether this exchange has not ended.
    fn is_live(&self, id: RequestId) -> bool {
        self.line.as_deref().is_some_and(|line| line.socket.id == id && line.is_live)
    }

    /// Whether its handshake is not answered.
    fn is_handshake(&self, id: RequestId) -> bool {
        let is_handshake = |line: &Line| line.socket.step == Step::Handshake;
        self.is_live(id) && self.line.as_deref().is_some_and(is_handshake)
    }

    /// The reply opens the connection, unless its fields are wrong.
    fn opens(&mut self) {
        let Some(line) = self.line.as_deref_mut() else { return };
        if line.fields.check_http2(self.talk.deflates()).is_err() {
            line.socket.step = Step::Over;
            self.found = Some(Found::Fault(Fault::BadUpgrade));
            return;
        }
        if let Some(agreed) = line.fields.deflate() {
            line.socket.reader.accept_compressed(agreed.server_alone);
        }
        self.talk.opens(&mut line.socket, line.status, self.now, self.sink);
    }

    /// Bytes of frames.
    fn frames(&mut self, piece: &[u8]) {
        let Some(line) = self.line.as_deref_mut().filter(|line| line.reads()) else { return };
        if self.found.is_some() {
            return;
        }
        let mut stash = std::mem::take(&mut line.stash);
        let result = if stash.is_empty() {
            self.talk.read(&mut line.socket, piece, self.sink).map(|(used, code)| {
                stash.extend_from_slice(&piece[used..]);
                code
            })
        } else {
            stash.extend_from_slice(piece);
            self.talk.read(&mut line.socket, &stash, self.sink).map(|(used, code)| {
                stash.drain(..used);
                code
            })
        };
        line.stash = stash;
        self.found = match result {
            Ok(code) => code.map(Found::Closed),
            Err(fault) => Some(Found::Fault(fault)),
        };
    }
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.sink.oldest()
    }

    fn outstanding(&self) -> u32 {
        self.sink.outstanding() + self.lingering
    }

    fn call(&self, id: RequestId) -> Option<u32> {
        self.sink.call(id)
    }

    fn was_sent(&self, id: RequestId) -> bool {
        !self.is_live(id) || self.sink.was_sent(id)
    }

    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.sink.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        if self.is_live(id) {
            self.sink.began(id);
            if self.is_handshake(id) && self.of(id).is_some_and(|line| line.is_accepted()) {
                self.opens();
            }
        }
    }

    fn wants_headers(&self, _: RequestId) -> bool {
        true
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        let protocols = &self.talk.protocols;
        if let Some(line) = self.line.as_deref_mut().filter(|line| line.socket.id == id) {
            if name == b":status" {
                // The fields of an interim reply do not count.
                line.fields = ReplyFields::default();
                line.status =
                    std::str::from_utf8(value).map_or(0, |text| text.parse().unwrap_or(0));
            } else {
                line.fields.field(name, value, (&[0; 24], protocols));
            }
        }
        if self.is_live(id) && self.sink.wants_headers(id) {
            self.sink.header(id, name, value);
        }
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        if self.is_handshake(id) {
            self.sink.head(id, status, has_events);
        }
    }

    fn wants_body(&self, id: RequestId) -> bool {
        match self.is_handshake(id) {
            true => self.sink.wants_body(id),
            false => self.is_live(id),
        }
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        match self.is_handshake(id) {
            true => self.sink.body(id, piece),
            false => self.frames(piece),
        }
    }

    fn chunk_ended(&mut self, id: RequestId) {
        if self.is_handshake(id) {
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
        self.reply = Some(*reply);
        if !self.is_live(id) {
            return;
        }
        let is_accepted = self.of(id).is_some_and(|line| line.is_accepted());
        if self.is_handshake(id) {
            if !is_accepted {
                self.sink.done(id, reply);
                if let Some(line) = self.of(id) {
                    (line.is_live, line.socket.step) = (false, Step::Over);
                }
                return;
            }
            self.sink.began(id);
            self.opens();
        }
        // A connection that ends without a close frame.
        self.found.get_or_insert(Found::Fault(Fault::Truncated));
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        match self.is_live(id) {
            true => _ = self.found.get_or_insert(Found::Fault(fault)),
            false => self.sink.failed(id, fault),
        }
    }

    fn refused(&mut self, id: RequestId) {
        self.sink.refused(id);
        if let Some(line) = self.of(id) {
            (line.is_live, line.socket.step) = (false, Step::Over);
        }
    }

    fn draining(&mut self) {
        self.sink.draining();
    }

    fn odd(&mut self, what: Anomaly) {
        self.sink.odd(what);
    }
}
