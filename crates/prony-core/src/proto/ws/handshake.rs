//! Looks at the reply to a handshake while HTTP/1.1 reads it.

use crate::fault::Fault;
use crate::messages::Stamp;
use crate::proto::{Anomaly, Reply, Sink};
use crate::units::{Nanos, RequestId};
use crate::websocket::ReplyFields;

/// Passes everything on to the engine's sink, but a reply with the status 101.
pub(super) struct Watch<'a, S> {
    pub(super) sink: &'a mut S,
    pub(super) fields: &'a mut ReplyFields,
    pub(super) key: &'a [u8; 24],
    pub(super) protocols: &'a [String],
    /// The reply with the status 101.
    pub(super) switch: Option<Reply>,
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.sink.oldest()
    }

    fn outstanding(&self) -> u32 {
        self.sink.outstanding()
    }

    fn call(&self, id: RequestId) -> Option<u32> {
        self.sink.call(id)
    }

    fn was_sent(&self, id: RequestId) -> bool {
        self.sink.was_sent(id)
    }

    fn unreadable(&mut self, bytes: &[u8], fault: Fault) {
        self.sink.unreadable(bytes, fault);
    }

    fn began(&mut self, id: RequestId) {
        self.sink.began(id);
    }

    fn wants_headers(&self, _: RequestId) -> bool {
        true
    }

    fn header(&mut self, id: RequestId, name: &[u8], value: &[u8]) {
        self.fields.field(name, value, (self.key, self.protocols));
        if self.sink.wants_headers(id) {
            self.sink.header(id, name, value);
        }
    }

    fn head(&mut self, id: RequestId, status: u16, has_events: bool) {
        self.sink.head(id, status, has_events);
    }

    fn wants_body(&self, id: RequestId) -> bool {
        self.sink.wants_body(id)
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        self.sink.body(id, piece);
    }

    fn chunk_ended(&mut self, id: RequestId) {
        self.sink.chunk_ended(id);
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

    fn done(&mut self, id: RequestId, reply: &Reply) {
        match reply.status {
            101 => self.switch = Some(*reply),
            // It has no use for anything else.
            _ => self.sink.done(id, &Reply { keeps_open: false, ..*reply }),
        }
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        self.sink.failed(id, fault);
    }

    fn refused(&mut self, id: RequestId) {
        self.sink.refused(id);
    }

    fn draining(&mut self) {
        self.sink.draining();
    }

    fn odd(&mut self, what: Anomaly) {
        self.sink.odd(what);
    }
}
