//! Assigns exchanges to connections, and computes how many a connection may have.

use super::State;
use crate::engine::Engine;
use crate::engine::agenda::Timer;
use crate::engine::exchange::Exchange;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// Whether the connection may be given one more request, now or later.
    #[inline(always)]
    pub(in crate::engine) fn usable(&self, slot: u32) -> bool {
        let carried = &self.links[slot].carried;
        let most = self.plan.requests_per_connection;
        !carried.is_spent() && most.is_none_or(|n| carried.given < u64::from(n))
    }

    /// How many more requests the connection can take now.
    #[inline]
    pub(in crate::engine) fn capacity(&self, slot: u32) -> u32 {
        self.capacity_of(slot, self.depths.of(&self.links[slot]))
    }

    /// How many more requests the connection can take now, with at most `depth` in flight.
    #[inline]
    pub(in crate::engine) fn capacity_of(&self, slot: u32, depth: u32) -> u32 {
        let conn = &self.links[slot];
        self.carrier.capacity(&conn.carrier, conn.carried.len(), depth)
    }

    pub(in crate::engine) fn give(&mut self, slot: u32, id: RequestId, now: Nanos) {
        let conn = &mut self.links[slot];
        let exchange = &mut self.exchanges[id];
        let intended = exchange.intended();
        if conn.state != State::Open || conn.tail.is_some() {
            // From now on it waits for the connection or for room in its socket. The time before is
            // send lag.
            exchange.waits_from(now);
        }
        conn.carried.push(&mut self.exchanges, id);
        self.given(slot, 1, intended);
    }

    /// The connection was given `n` requests with the same intended start.
    #[inline(always)]
    pub(in crate::engine) fn given(&mut self, slot: u32, n: u32, intended: Nanos) {
        let conn = &mut self.links[slot];
        conn.carried.given += u64::from(n);
        let mut deadline = match self.plan.timeout_from_send {
            false => intended + self.plan.timeout,
            true => Nanos::MAX,
        };
        if conn.state != State::Open {
            deadline = deadline.min(conn.connect_began + self.plan.connect_timeout);
        }
        let ready = (conn.can_send() || conn.layer.wants_send()) && !conn.transmit_queued;
        if ready {
            conn.transmit_queued = true;
            let id = ConnId { slot, generation: conn.generation };
            self.agenda.ask_for_output(id);
        }
        self.arm(slot, deadline);
        self.list(slot);
    }

    /// The queued connect of the connection starts.
    pub(in crate::engine) fn connect_starts(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        conn.connect_queued = false;
        conn.connect_began = now;
        // The time before now is send lag, not time to connect.
        self.each_unsent(slot, |exchange| exchange.waits_from(now));
        self.arm(slot, now + self.plan.connect_timeout);
    }

    /// The connect of the connection was held back until now: its exchanges have waited in a queue.
    pub(in crate::engine) fn waited_for_hold(&mut self, slot: u32, now: Nanos) {
        self.each_unsent(slot, |exchange| exchange.waited_in_queue(now));
    }

    /// Take all exchanges off the connection.
    pub(in crate::engine) fn take_all_of(&mut self, slot: u32) -> Vec<RequestId> {
        let mut all = Vec::new();
        self.links[slot].carried.take_all(&self.exchanges, &mut all);
        all
    }

    /// Apply `with` to every exchange of the connection that has not been sent.
    pub(super) fn each_unsent(&mut self, slot: u32, mut with: impl FnMut(&mut Exchange)) {
        let mut next = self.exchanges.first(&self.links[slot].carried.all);
        while let Some(id) = next {
            next = self.exchanges.next(id);
            let exchange = &mut self.exchanges[id];
            if !exchange.is_sent() {
                with(exchange);
            }
        }
    }

    /// Check the connection at `at`, if not before.
    #[inline(always)]
    pub(super) fn arm(&mut self, slot: u32, at: Nanos) {
        if at < self.links.armed[slot as usize] {
            self.arm_earlier(slot, at);
        }
    }

    /// Not inlined, as the deadline of a connection usually only moves back.
    #[inline(never)]
    fn arm_earlier(&mut self, slot: u32, at: Nanos) {
        self.links.armed[slot as usize] = at;
        self.agenda.wake(at, Timer::Slot(slot));
    }

    /// Set the timer for the carrier's own deadline, if it has one.
    #[inline]
    pub(in crate::engine) fn arm_carrier(&mut self, id: ConnId) {
        if let Some(conn) = self.links.get_mut(id)
            && let Some(at) = self.carrier.deadline(&conn.carrier)
        {
            self.arm(id.slot, at);
        }
    }

    /// Ask the driver to take the connection's output, if there may be some.
    #[inline]
    pub(super) fn transmit(&mut self, slot: u32) {
        let conn = &mut self.links[slot];
        let ready = conn.can_send() || conn.layer.wants_send();
        if ready && !conn.transmit_queued {
            conn.transmit_queued = true;
            let id = self.links.id(slot);
            self.agenda.ask_for_output(id);
        }
    }
}
