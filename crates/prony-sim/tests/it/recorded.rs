//! A server that records what it receives.

use std::collections::BTreeMap;

use prony_base::machine::Machine;
use prony_base::units::{ConnId, Nanos};

use crate::delegate::delegate;

/// A server, and the bytes that it has received on each connection.
pub(crate) struct Recorded<S> {
    pub(crate) server: S,
    pub(crate) streams: BTreeMap<(u32, u32), Vec<u8>>,
}

impl<S: Machine> Recorded<S> {
    pub(crate) fn new(server: S) -> Self {
        Self { server, streams: BTreeMap::new() }
    }

    /// The bytes of all connections as text, sorted.
    pub(crate) fn sorted(self) -> Vec<String> {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let mut streams: Vec<_> = self.streams.into_values().map(text).collect();
        streams.sort();
        streams
    }
}

impl<S: Machine> Machine for Recorded<S> {
    delegate!(server: on_connected on_closed on_tick on_stop poll_action take_output deadline);

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        self.server.on_accepted(listener, now)
    }
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let stream = self.streams.entry((id.slot, id.generation)).or_default();
        stream.extend_from_slice(data);
        self.server.on_recv(id, data, now);
    }
}
