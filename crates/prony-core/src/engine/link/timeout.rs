//! Whose time is up: requests, connections that open, and carriers that want to act.

use super::State;
use crate::engine::{Engine, Stage};
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::proto::Carrier;
use crate::units::{Nanos, RequestId};

impl<P: Carrier> Engine<P> {
    /// When the request runs out of time as things stand.
    #[inline]
    pub(in crate::engine) fn request_deadline(&self, id: RequestId) -> Nanos {
        let exchange = &self.exchanges[id];
        if !self.plan.timeout_from_send {
            exchange.intended() + self.plan.timeout
        } else if exchange.is_sent() {
            exchange.sent_at() + self.plan.timeout
        } else {
            Nanos::MAX
        }
    }

    /// The same for one that is on no connection.
    #[inline]
    pub(in crate::engine) fn unsent_deadline(&self, id: RequestId) -> Nanos {
        debug_assert!(!self.exchanges[id].is_sent());
        self.request_deadline(id)
    }

    /// While the run drains: when it ends at the latest, which is when the last of the requests in
    /// flight has run out of time. `None` while requests still start, and once all is over.
    pub fn drain_end(&self) -> Option<Nanos> {
        let Stage::Draining(until) = self.stage else { return None };
        let mut last = Nanos::ZERO;
        for slot in self.links.used() {
            for id in self.exchanges.of(&self.links[slot].carried.all) {
                last = last.max(self.request_deadline(id));
            }
        }
        for id in self.dispatch.all_waiting() {
            last = last.max(self.request_deadline(id));
        }
        Some(last.min(until))
    }

    /// When the connection runs out of time as things stand.
    fn slot_deadline(&self, slot: u32) -> Option<Nanos> {
        let conn = &self.links[slot];
        let all = self.exchanges.of(&conn.carried.all);
        let request = all.map(|id| self.request_deadline(id)).min();
        match conn.state {
            State::Free => None,
            State::Open => match self.carrier.deadline(&conn.carrier) {
                Some(own) => Some(request.map_or(own, |r| r.min(own))),
                None => request,
            },
            // The meter has not come to it.
            State::Connecting if conn.in_line => request,
            State::Opening => {
                let own = self.opening_deadline(slot);
                // The closed loop's have not begun.
                let waits = self.load.is_closed();
                Some(request.filter(|_| !waits).map_or(own, |r| r.min(own)))
            }
            State::Connecting | State::Securing => {
                let connect = conn.connect_began + self.plan.connect_timeout;
                Some(request.map_or(connect, |r| r.min(connect)))
            }
        }
    }

    pub(in crate::engine) fn expire_slot(&mut self, slot: u32, now: Nanos) {
        match self.slot_deadline(slot) {
            None => {}
            Some(at) if at > now => self.arm(slot, at),
            Some(_) => self.time_out(slot, now),
        }
    }

    /// The connection ran out of time: while connecting all its requests fail; else those whose
    /// time is up fail, and the others, which can't be answered before them, go elsewhere.
    fn time_out(&mut self, slot: u32, now: Nanos) {
        if self.links[slot].state == State::Opening && self.opening_timed_out(slot, now) {
            return;
        }
        if self.links[slot].state == State::Open && !self.carrier_deadline_passed(slot, now) {
            return;
        }
        let conn = &mut self.links[slot];
        let (began, asked, in_line) = (conn.connect_began, conn.asked, conn.in_line);
        let connects = matches!(conn.state, State::Connecting | State::Securing);
        if connects && !in_line && began + self.plan.connect_timeout <= now {
            self.not_secured_in_time(slot);
            self.abandon(slot, Some(Fault::ConnectTimeout), CloseHow::Reset, now);
            return;
        }
        let is_open = conn.state == State::Open;
        let all = self.exchanges.of(&self.links[slot].carried.all);
        let late: Vec<_> = all.filter(|&id| self.request_deadline(id) <= now).collect();
        if is_open && late.is_empty() {
            self.expire_slot(slot, now);
            return;
        }
        if is_open && self.cancel_alone(slot, &late, now) {
            return;
        }
        let conn = &mut self.links[slot];
        conn.stash.clear();
        if is_open && conn.carried.served == 0 {
            // The others waited behind a request that the server did not answer: they get their one
            // retry.
            conn.excused = true;
        }
        let expired = late.len() as u64;
        for id in late {
            let exchange = &self.exchanges[id];
            if !asked && !exchange.is_counted() {
                self.recorder.overdue(exchange.intended());
            }
            self.links[slot].carried.take_out(&mut self.exchanges, id);
            self.fail(id, Fault::RequestTimeout, now);
        }
        let pooled = connects && self.dispatch.is_shared();
        if pooled {
            // Nothing was sent on it yet: it is as good for those who come later.
            self.links[slot].carried.given -= expired;
        }
        let conn = &self.links[slot];
        let awaited = conn.state != State::Open && !conn.carried.is_empty();
        if pooled || awaited {
            self.expire_slot(slot, now);
            self.restart_ended(now);
        } else {
            self.not_secured_in_time(slot);
            self.link_fault(slot, Fault::RequestTimeout);
            self.abandon(slot, None, CloseHow::Reset, now);
        }
    }
}
