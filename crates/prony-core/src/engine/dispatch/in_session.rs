//! The requests of a session go to connections of the session's own.

use super::Kind;
use super::own::Own;
use crate::engine::Engine;
use crate::engine::agenda::Timer;
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::proto::Carrier;
use crate::units::{Nanos, RequestId};

/// Where a session's request can go.
enum Place {
    /// To that connection.
    On(u32),
    /// To a connection that is opened for it.
    Anew,
    /// Nowhere, until one of the session's connections has room.
    Full,
    /// Nowhere, until there is room under the cap.
    Starved,
}

impl<P: Carrier> Engine<P> {
    /// Give a session's request to a connection, or let it wait for one.
    pub(super) fn place_in_session(&mut self, id: RequestId, now: Nanos) {
        if !self.try_place(id, now) {
            let exchange = &self.exchanges[id];
            if exchange.is_fresh() && self.is_overdue(id, now) {
                self.recorder.overdue(exchange.intended());
            }
            self.let_wait(id, now);
        }
    }

    /// Give a session's request to a connection; whether there is one for it.
    fn try_place(&mut self, id: RequestId, now: Nanos) -> bool {
        if self.is_overdue(id, now) {
            return false;
        }
        let exchange = &self.exchanges[id];
        let (call, session) = (exchange.call(), exchange.user());
        let endpoint = self.calls.get(call).endpoint;
        match self.find_place(session, endpoint) {
            Place::On(conn) => self.give(conn, id, now),
            Place::Anew => self.give_anew(session, endpoint, id, now),
            Place::Full => return false,
            Place::Starved => {
                // Of its own connections one to elsewhere may idle: it makes room.
                let Kind::Own(own) = &mut self.dispatch.kind else { return false };
                let conns = own.conns(session).iter().copied();
                let Some(idle) = conns.into_iter().find(|&at| self.links.in_flight(at) == 0) else {
                    own.wait(session);
                    return false;
                };
                self.part(idle, CloseHow::Orderly, now);
                self.give_anew(session, endpoint, id, now);
            }
        }
        true
    }

    #[inline]
    fn find_place(&self, session: u32, endpoint: u32) -> Place {
        let Kind::Own(own) = &self.dispatch.kind else { return Place::Full };
        let mut to_endpoint = 0;
        for &at in own.conns(session) {
            if self.links.of(at).0 != endpoint {
                continue;
            }
            to_endpoint += 1;
            if self.usable(at) && self.capacity_of(at, self.plan.pipeline) > 0 {
                return Place::On(at);
            }
        }
        if to_endpoint < own.each() && self.links.len() < own.cap() {
            Place::Anew
        } else if to_endpoint == 0 {
            Place::Starved
        } else {
            Place::Full
        }
    }

    fn give_anew(&mut self, session: u32, endpoint: u32, id: RequestId, now: Nanos) {
        let conn = self.connect(endpoint, session, now);
        if let Kind::Own(own) = &mut self.dispatch.kind {
            own.has(session, conn);
        }
        self.give(conn, id, now);
    }

    /// The request waits; what passed before is the meter's lateness.
    fn let_wait(&mut self, id: RequestId, now: Nanos) {
        let exchange = &mut self.exchanges[id];
        exchange.waits_from(now);
        let session = exchange.user();
        let deadline = self.unsent_deadline(id);
        let Kind::Own(own) = &mut self.dispatch.kind else { return };
        own.pend(session, id);
        if own.arm(session, deadline) {
            self.agenda.wake(deadline, Timer::Session(session));
        }
    }

    /// The session may have room, or a place under the cap: what waits takes it.
    pub(in crate::engine) fn feed(&mut self, session: u32, now: Nanos) {
        let pending = |own: &Own| own.pending(session);
        let waiting = match &self.dispatch.kind {
            Kind::Own(own) => pending(own),
            Kind::Lanes(_) | Kind::Pools(_) => 0,
        };
        if waiting == 0 || !self.load.is_live(session) || self.load.gives_up(session) {
            return;
        }
        let one_endpoint = self.plan.endpoints.len() == 1;
        for _ in 0..waiting {
            let Kind::Own(own) = &mut self.dispatch.kind else { return };
            let Some(id) = own.take_first(session) else { return };
            let exchange = &mut self.exchanges[id];
            let before = exchange.queued();
            exchange.waited_in_queue(now);
            if self.try_place(id, now) {
                continue;
            }
            self.exchanges[id].put_back(before);
            let Kind::Own(own) = &mut self.dispatch.kind else { return };
            if one_endpoint {
                own.pend_first(session, id);
                return;
            }
            own.pend(session, id);
        }
    }

    /// There may be a place under the cap: the session that has waited longest takes it.
    pub(in crate::engine) fn feed_waiting(&mut self, now: Nanos) {
        loop {
            let open = self.links.len();
            let Kind::Own(own) = &mut self.dispatch.kind else { return };
            if open >= own.cap() {
                return;
            }
            let Some(session) = own.next_waiting() else { return };
            self.feed(session, now);
        }
    }

    /// Requests of sessions that left a connection wait before all others.
    #[inline]
    pub(in crate::engine) fn requeue(&mut self) {
        if !self.outcome.again.is_empty() {
            self.requeue_in_sessions();
        }
    }

    #[cold]
    fn requeue_in_sessions(&mut self) {
        if !matches!(self.dispatch.kind, Kind::Own(_)) {
            return;
        }
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..).rev() {
            let (session, deadline) = (self.exchanges[id].user(), self.unsent_deadline(id));
            let Kind::Own(own) = &mut self.dispatch.kind else { return };
            own.pend_first(session, id);
            if own.arm(session, deadline) {
                self.agenda.wake(deadline, Timer::Session(session));
            }
        }
        self.outcome.again = again;
    }

    /// Requests of a session that waited for a connection until their time was up have failed,
    /// unsent.
    pub(in crate::engine) fn expire_session(&mut self, session: u32, at: Nanos, now: Nanos) {
        let Kind::Own(own) = &mut self.dispatch.kind else { return };
        if !own.disarm(session, at) {
            return;
        }
        let mut pending = own.take_pending(session);
        let mut next = Nanos::MAX;
        for _ in 0..pending.len() {
            let Some(id) = pending.pop_front() else { break };
            let deadline = self.unsent_deadline(id);
            if deadline <= now {
                self.exchanges[id].waited_in_queue(now);
                self.fail(id, Fault::RequestTimeout, now);
            } else {
                next = next.min(deadline);
                pending.push_back(id);
            }
        }
        let Kind::Own(own) = &mut self.dispatch.kind else { return };
        own.put_pending(session, pending);
        if next < Nanos::MAX && own.arm(session, next) {
            self.agenda.wake(next, Timer::Session(session));
        }
        self.restart_ended(now);
    }
}
