//! Timeouts of requests and of connections that open, and the deadlines of carriers.

use super::State;
use crate::engine::{Engine, Stage};
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// When the request times out, as far as it is known now.
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

    /// When a request that is on no connection times out.
    #[inline]
    pub(in crate::engine) fn unsent_deadline(&self, id: RequestId) -> Nanos {
        debug_assert!(!self.exchanges[id].is_sent());
        self.request_deadline(id)
    }

    /// While the run drains: the latest time at which it ends, which is when the last request in
    /// flight times out. `None` while requests may still start, and after the end.
    pub fn drain_end(&self) -> Option<Nanos> {
        let Stage::Draining(until) = self.stage else { return None };
        let mut last = Nanos::ZERO;
        for slot in self.links.used() {
            for id in self.exchanges.of(&self.links[slot].carried.all) {
                last = last.max(self.request_deadline(id));
            }
        }
        let messages = self.exchanges.messages.as_deref();
        let between = messages.into_iter().flat_map(|messages| messages.between());
        for id in self.dispatch.all_waiting().chain(between) {
            last = last.max(self.request_deadline(id));
        }
        Some(last.min(until))
    }

    /// When the connection times out, as far as it is known now.
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
            // Its connect is still queued.
            State::Connecting if conn.connect_queued => request,
            State::Opening => {
                let own = self.opening_deadline(slot);
                // Requests of a closed loop have not started yet.
                let waits = self.load.is_closed();
                Some(request.filter(|_| !waits).map_or(own, |r| r.min(own)))
            }
            State::Connecting | State::Tunneling | State::Securing => {
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

    /// The connection has timed out. While it connects, all its requests fail. Afterwards, the
    /// overdue requests fail. The others, which cannot be answered before them, are sent on another
    /// connection.
    fn time_out(&mut self, slot: u32, now: Nanos) {
        if self.links[slot].state == State::Opening && self.opening_timed_out(slot, now) {
            return;
        }
        if self.links[slot].state == State::Open && !self.carrier_deadline_passed(slot, now) {
            return;
        }
        let conn = &mut self.links[slot];
        let (began, asked, connect_queued) = (conn.connect_began, conn.asked, conn.connect_queued);
        let connects = matches!(conn.state, State::Connecting | State::Tunneling | State::Securing);
        if connects && !connect_queued && began + self.plan.connect_timeout <= now {
            self.not_opened_in_time(slot);
            self.abandon(slot, Some(Fault::ConnectTimeout), CloseHow::Reset, now);
            return;
        }
        let is_open = conn.state == State::Open;
        let all = self.exchanges.of(&self.links[slot].carried.all);
        let late: Vec<_> = all.filter(|&id| self.request_deadline(id) <= now).collect();
        let late = self.timeouts(slot, &late, now);
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
            // The others waited after a request without a reply from the server: they may be sent
            // again once.
            conn.resend_allowed = true;
        }
        let expired = late.len() as u64;
        for (id, fault) in late {
            let exchange = &self.exchanges[id];
            if !asked && !exchange.is_counted() {
                self.recorder.overdue(exchange.intended());
            }
            self.links[slot].carried.take_out(&mut self.exchanges, id);
            self.fail(id, fault, now);
        }
        let pooled = connects && self.dispatch.is_shared();
        if pooled {
            // Nothing was sent on it yet, so it can serve later requests.
            self.links[slot].carried.given -= expired;
        }
        let conn = &self.links[slot];
        let awaited = conn.state != State::Open && !conn.carried.is_empty();
        if pooled || awaited {
            self.expire_slot(slot, now);
            self.restart_ended(now);
        } else {
            self.not_opened_in_time(slot);
            self.link_fault(slot, Fault::RequestTimeout, now);
            self.abandon(slot, None, CloseHow::Reset, now);
        }
    }
}
