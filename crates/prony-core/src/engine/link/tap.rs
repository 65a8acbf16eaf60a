//! The hook for observers of the traffic.

use std::fmt;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::exchange::EndedRequest;
use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::proto::{Carrier, Reply};

/// Observes the traffic on the connections of an engine, for front ends that print or count what no
/// tally has. It changes nothing. The default methods do nothing.
pub trait Tap: Send {
    /// An exchange is about to be sent as these bytes (before encryption). `call` is an index into
    /// the plan's calls.
    fn submitted(&mut self, conn: ConnId, id: RequestId, call: u32, bytes: &[u8]) {
        let _ = (conn, id, call, bytes);
    }

    /// The carrier is about to read these bytes (after decryption). They start with the bytes that
    /// it left unread the last time.
    fn arrived(&mut self, conn: ConnId, bytes: &[u8]) {
        let _ = (conn, bytes);
    }

    /// The carrier has read `used` of the bytes, or the connection has failed.
    fn read(&mut self, conn: ConnId, used: Result<usize, Fault>) {
        let _ = (conn, used);
    }

    /// The peer has ended its stream. Its last bytes have been passed to `arrived` and `read`.
    fn ended(&mut self, conn: ConnId) {
        let _ = conn;
    }

    /// Whether to call `header`.
    fn wants_headers(&self) -> bool {
        false
    }

    /// A header of the reply to an exchange: its name as received, and its value with the
    /// whitespace around it.
    fn header(&mut self, conn: ConnId, id: RequestId, name: &[u8], value: &[u8]) {
        let _ = (conn, id, name, value);
    }

    /// Whether to call `body`.
    fn wants_body(&self) -> bool {
        false
    }

    /// A piece of the body of the reply to an exchange, without transfer coding.
    fn body(&mut self, conn: ConnId, id: RequestId, piece: &[u8]) {
        let _ = (conn, id, piece);
    }

    /// The exchange has ended with a complete reply.
    fn done(&mut self, conn: ConnId, id: RequestId, reply: &Reply) {
        let _ = (conn, id, reply);
    }

    /// The reply to an exchange is no longer awaited; its connection stays in use.
    fn cancelled(&mut self, conn: ConnId, id: RequestId) {
        let _ = (conn, id);
    }

    /// Whether to call `request_ended`.
    fn wants_ends(&self) -> bool {
        false
    }

    /// A request has ended, with a reply or without one. Requests that were never started
    /// ([`Fault::Dropped`]) and those that the end of the run finds unfinished are not among them.
    fn request_ended(&mut self, request: &EndedRequest) {
        let _ = request;
    }

    /// After the load, the tokens of a reply were counted that `request_ended` has passed as
    /// uncounted.
    fn tokens_counted(&mut self, request: &EndedRequest) {
        let _ = request;
    }

    /// The connection is closed.
    fn closed(&mut self, conn: ConnId) {
        let _ = conn;
    }
}

/// Creates a [`Tap`] for each worker.
#[derive(Clone)]
pub struct Taps(Arc<dyn Fn() -> Box<dyn Tap> + Send + Sync>);

impl Taps {
    /// From a function that creates one.
    pub fn new<T: Tap + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    /// Create one.
    pub fn make(&self) -> Box<dyn Tap> {
        (self.0)()
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taps")
    }
}

impl<P: Carrier> Engine<P> {
    #[cold]
    pub(in crate::engine) fn show_arrived(&mut self, slot: u32, bytes: &[u8], now: Nanos) {
        if !bytes.is_empty() {
            self.load.client_heard(self.links[slot].owner, now);
        }
        if let Some(Tapped(tap)) = &mut self.tap {
            tap.arrived(self.links.id(slot), bytes);
        }
    }

    #[cold]
    pub(in crate::engine) fn show_read(&mut self, slot: u32, used: Result<usize, Fault>) {
        if let Some(Tapped(tap)) = &mut self.tap {
            tap.read(self.links.id(slot), used);
        }
    }

    #[cold]
    pub(in crate::engine) fn show_ended(&mut self, slot: u32) {
        if let Some(Tapped(tap)) = &mut self.tap {
            tap.ended(self.links.id(slot));
        }
    }

    #[cold]
    pub(in crate::engine) fn show_closed(&mut self, id: ConnId) {
        if let Some(Tapped(tap)) = &mut self.tap {
            tap.closed(id);
        }
    }
}

/// A tap, with an implementation of `Debug`.
pub(in crate::engine) struct Tapped(pub(super) Box<dyn Tap>);

impl Tapped {
    pub(in crate::engine) fn new(tap: Box<dyn Tap>) -> Self {
        Self(tap)
    }

    /// See [`Tap::tokens_counted`].
    pub(in crate::engine) fn tokens_counted(&mut self, request: &EndedRequest) {
        self.0.tokens_counted(request);
    }
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tapped")
    }
}
