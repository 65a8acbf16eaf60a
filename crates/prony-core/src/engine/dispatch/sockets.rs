//! Steps on the sockets of sessions. A step that does not open a socket needs the connection on
//! which its session has opened one.

use super::Kind;
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// Whether an exchange is a step that needs an open socket.
    pub(super) fn needs_socket(&self, id: RequestId) -> bool {
        self.carrier.ends_alone() && self.calls.get(self.exchanges[id].call()).socket == Some(true)
    }

    /// Whether an exchange needs a socket, and its session has none.
    pub(super) fn lacks_socket(&self, id: RequestId) -> bool {
        if !self.needs_socket(id) {
            return false;
        }
        let Kind::Sessions(sessions) = &self.dispatch.kind else { return true };
        let conns = sessions.conns(self.exchanges[id].user());
        let endpoint = self.endpoint_of(id);
        !conns.iter().any(|&conn| self.links.of(conn).0 == endpoint && self.usable(conn))
    }

    /// The peer has closed the socket on this connection with this code.
    #[cold]
    pub(in crate::engine) fn socket_was_closed(&mut self, slot: u32, code: u16) {
        let (endpoint, session) = self.links.of(slot);
        if let Kind::Sessions(sessions) = &mut self.dispatch.kind {
            sessions.socket_was_closed(session, endpoint, code);
        }
    }

    /// End a step that waits for a socket which its session does not have: with the code with which
    /// the peer has closed it since the last step, or else with a fault.
    #[cold]
    pub(super) fn end_without_socket(&mut self, id: RequestId, now: Nanos) {
        let (session, endpoint) = (self.exchanges[id].user(), self.endpoint_of(id));
        let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
        match sessions.take_closed(session, endpoint) {
            Some(code) => self.close_was_before(id, code, now),
            None => self.fail(id, Fault::NoSocket, now),
        }
    }
}
