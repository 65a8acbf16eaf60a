//! Sends the requests of a session to the session's sessions connections.

use super::Kind;
use super::session_conns::SessionConns;
use crate::engine::Engine;
use crate::engine::agenda::Timer;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

/// Where a session's request can go.
enum Place {
    /// To this connection.
    On(u32),
    /// To a new connection.
    New,
    /// Nowhere, until a connection of the session has room.
    Full,
    /// Nowhere, until the connection limit allows a new connection.
    AtLimit,
}

impl<P: Carrier> Engine<P> {
    /// Give a session's request to a connection, or queue it.
    pub(super) fn place_in_session(&mut self, id: RequestId, now: Nanos) {
        if !self.try_place(id, now) {
            let exchange = &self.exchanges[id];
            if exchange.is_fresh() && self.is_overdue(id, now) {
                self.recorder.overdue(exchange.intended());
            }
            self.enqueue_in_session(id, now);
        }
    }

    /// Give a session's request to a connection. Returns whether there was one for it.
    fn try_place(&mut self, id: RequestId, now: Nanos) -> bool {
        if self.is_overdue(id, now) {
            return false;
        }
        let exchange = &self.exchanges[id];
        let session = exchange.user();
        let endpoint = self.endpoint_of(id);
        match self.find_place(session, endpoint) {
            // Another connection would be no socket.
            Place::New | Place::AtLimit if self.needs_socket(id) => return false,
            Place::On(conn) => self.give(conn, id, now),
            Place::New => self.give_new(session, endpoint, id, now),
            Place::Full => return false,
            Place::AtLimit => {
                // A connection of the session to another endpoint may be idle: replace it.
                let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return false };
                let conns = sessions.conns(session).iter().copied();
                let Some(idle) = conns.into_iter().find(|&at| self.links.in_flight(at) == 0) else {
                    sessions.wait(session);
                    return false;
                };
                self.close_slot(idle, CloseHow::Orderly, now);
                self.give_new(session, endpoint, id, now);
            }
        }
        true
    }

    #[inline]
    fn find_place(&self, session: u32, endpoint: u32) -> Place {
        let Kind::Sessions(sessions) = &self.dispatch.kind else { return Place::Full };
        let mut to_endpoint = 0;
        for &at in sessions.conns(session) {
            if self.links.of(at).0 != endpoint {
                continue;
            }
            to_endpoint += 1;
            if self.usable(at) && self.capacity_of(at, self.plan.pipeline) > 0 {
                return Place::On(at);
            }
        }
        if to_endpoint < sessions.per_endpoint() && self.links.len() < sessions.limit() {
            Place::New
        } else if to_endpoint == 0 {
            Place::AtLimit
        } else {
            Place::Full
        }
    }

    fn give_new(&mut self, session: u32, endpoint: u32, id: RequestId, now: Nanos) {
        let conn = self.connect(endpoint, session, now);
        if let Kind::Sessions(sessions) = &mut self.dispatch.kind {
            sessions.add(session, conn);
        }
        self.give(conn, id, now);
    }

    /// Queue the request. The time before now is send lag.
    fn enqueue_in_session(&mut self, id: RequestId, now: Nanos) {
        let exchange = &mut self.exchanges[id];
        exchange.waits_from(now);
        let session = exchange.user();
        let deadline = match self.lacks_socket(id) {
            true => now,
            false => self.unsent_deadline(id),
        };
        let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
        sessions.push(session, id);
        if sessions.arm(session, deadline) {
            self.agenda.wake(deadline, Timer::Session(session));
        }
    }

    /// The session may have room on a connection, or for a new one: place its waiting requests.
    pub(in crate::engine) fn feed(&mut self, session: u32, now: Nanos) {
        let pending = |sessions: &SessionConns| sessions.pending(session);
        let waiting = match &self.dispatch.kind {
            Kind::Sessions(sessions) => pending(sessions),
            Kind::Groups(_) | Kind::Pools(_) => 0,
        };
        if waiting == 0 || !self.load.is_live(session) || self.load.gives_up(session) {
            return;
        }
        let one_endpoint = self.plan.endpoints.len() == 1;
        for _ in 0..waiting {
            let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
            let Some(id) = sessions.take_first(session) else { return };
            let exchange = &mut self.exchanges[id];
            let before = exchange.queued();
            exchange.waited_in_queue(now);
            if self.try_place(id, now) {
                continue;
            }
            self.exchanges[id].put_back(before);
            let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
            if one_endpoint {
                sessions.push_first(session, id);
                return;
            }
            sessions.push(session, id);
        }
    }

    /// The connection limit may allow another connection: the session that has waited longest gets
    /// it.
    pub(in crate::engine) fn feed_waiting(&mut self, now: Nanos) {
        loop {
            let open = self.links.len();
            let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
            if open >= sessions.limit() {
                return;
            }
            let Some(session) = sessions.next_waiting() else { return };
            self.feed(session, now);
        }
    }

    /// Requests of sessions that left a connection go before all others.
    #[inline]
    pub(in crate::engine) fn requeue(&mut self) {
        if !self.outcome.again.is_empty() {
            self.requeue_in_sessions();
        }
    }

    #[cold]
    fn requeue_in_sessions(&mut self) {
        if !matches!(self.dispatch.kind, Kind::Sessions(_)) {
            return;
        }
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..).rev() {
            let session = self.exchanges[id].user();
            let deadline = match self.needs_socket(id) {
                // Its connection is closed.
                true => Nanos::ZERO,
                false => self.unsent_deadline(id),
            };
            let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
            sessions.push_first(session, id);
            if sessions.arm(session, deadline) {
                self.agenda.wake(deadline, Timer::Session(session));
            }
        }
        self.outcome.again = again;
    }

    /// Fail the queued requests of a session that have timed out unsent.
    pub(in crate::engine) fn expire_session(&mut self, session: u32, at: Nanos, now: Nanos) {
        let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
        if !sessions.disarm(session, at) {
            return;
        }
        let mut pending = sessions.take_pending(session);
        let mut next = Nanos::MAX;
        for _ in 0..pending.len() {
            let Some(id) = pending.pop_front() else { break };
            let deadline = self.unsent_deadline(id);
            if self.lacks_socket(id) {
                self.end_without_socket(id, now);
            } else if deadline <= now {
                self.exchanges[id].waited_in_queue(now);
                self.fail(id, Fault::RequestTimeout, now);
            } else {
                next = next.min(deadline);
                pending.push_back(id);
            }
        }
        let Kind::Sessions(sessions) = &mut self.dispatch.kind else { return };
        sessions.put_pending(session, pending);
        if next < Nanos::MAX && sessions.arm(session, next) {
            self.agenda.wake(next, Timer::Session(session));
        }
        self.restart_ended(now);
    }
}
