//! A connection is given an exchange, and what it may be given.

use super::State;
use crate::engine::Engine;
use crate::engine::agenda::Timer;
use crate::engine::exchange::Exchange;
use crate::proto::Carrier;
use crate::units::{ConnId, Nanos, RequestId};

impl<P: Carrier> Engine<P> {
    /// Whether the connection may be given one more request, now or later.
    #[inline]
    pub(in crate::engine) fn usable(&self, slot: u32) -> bool {
        let carried = &self.links[slot].carried;
        let most = self.plan.requests_per_connection;
        !carried.is_spent() && most.is_none_or(|n| carried.given < u64::from(n))
    }

    /// How many more requests the connection takes now.
    #[inline]
    pub(in crate::engine) fn capacity(&self, slot: u32) -> u32 {
        self.capacity_of(slot, self.depths.of(&self.links[slot]))
    }

    /// The same, with `depth` in flight at most.
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
            // It waits for the connection or for room in its socket; whatever passed before the
            // meter came to it is the meter's lateness.
            exchange.waits_from(now);
        }
        conn.carried.push(&mut self.exchanges, id);
        self.given(slot, 1, intended);
    }

    /// A connection was given `n` requests, all of that intended start.
    #[inline]
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
        self.arm(slot, deadline);
        self.transmit(slot);
        self.list(slot);
    }

    /// The connection begins to open, now that its turn has come.
    pub(in crate::engine) fn connect_begins(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        conn.in_line = false;
        conn.connect_began = now;
        // Until here they waited for the meter, and not for the connection.
        self.each_unsent(slot, |exchange| exchange.waits_from(now));
        self.arm(slot, now + self.plan.connect_timeout);
    }

    /// All that the connection carries leaves it.
    pub(in crate::engine) fn take_all_of(&mut self, slot: u32) -> Vec<RequestId> {
        let mut all = Vec::new();
        self.links[slot].carried.take_all(&self.exchanges, &mut all);
        all
    }

    /// Do something with every exchange of the connection of which nothing was sent.
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

    /// Have the connection looked at then, if not before.
    #[inline]
    pub(super) fn arm(&mut self, slot: u32, at: Nanos) {
        if at < self.links.armed[slot as usize] {
            self.arm_earlier(slot, at);
        }
    }

    /// Apart, as a connection's deadline is mostly a later one.
    #[inline(never)]
    fn arm_earlier(&mut self, slot: u32, at: Nanos) {
        self.links.armed[slot as usize] = at;
        self.agenda.wake(at, Timer::Slot(slot));
    }

    /// The carrier may want to act at a time of its own.
    #[inline]
    pub(in crate::engine) fn arm_carrier(&mut self, id: ConnId) {
        if let Some(conn) = self.links.get_mut(id)
            && let Some(at) = self.carrier.deadline(&conn.carrier)
        {
            self.arm(id.slot, at);
        }
    }

    /// Have the driver take the connection's output, if there can be some.
    #[inline]
    pub(super) fn transmit(&mut self, slot: u32) {
        let conn = &mut self.links[slot];
        let ready = conn.speaks() || conn.layer.wants_send();
        if ready && !conn.transmit_queued {
            conn.transmit_queued = true;
            let id = self.links.id(slot);
            self.agenda.ask_for_output(id);
        }
    }
}
