//! Connections with independent exchanges: how to handle refused exchanges, connections that drain,
//! and changed limits.

use super::{Depths, Links, Tapped};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::proto::{Cancelled, Carrier};

impl<C> Links<C> {
    /// Whether the peer allows fewer concurrent exchanges on the connection than the plan.
    pub(in crate::engine) fn is_limited_by_peer<P: Carrier<Conn = C>>(
        &self,
        slot: u32,
        carrier: &P,
        depths: &Depths,
    ) -> bool {
        let conn = &self[slot];
        carrier.is_limited_by_peer(&conn.carrier, depths.of(conn))
    }
}

impl<P: Carrier> Engine<P> {
    /// Count the open streams of a connection, which may have changed at `now`.
    #[inline]
    pub(in crate::engine) fn count_streams(&mut self, id: ConnId, now: Nanos) {
        if let Some(conn) = self.links.get_mut(id) {
            conn.carried.count_streams(&mut self.recorder, now);
        }
    }

    /// Take the exchanges that are not submitted off a connection that accepts no new ones.
    pub(in crate::engine) fn leave_draining(&mut self, slot: u32, now: Nanos) {
        let carried = &mut self.links[slot].carried;
        if !carried.drains {
            return;
        }
        while let Some(id) = carried.next(&self.exchanges) {
            carried.take_out(&mut self.exchanges, id);
            self.exchanges[id].waited_in_queue(now);
            self.outcome.again.push(id);
        }
    }

    /// Place the exchanges that left the connection, and submit those that wait on it.
    pub(in crate::engine) fn settle_streams(&mut self, slot: u32, now: Nanos) {
        let id = self.links.id(slot);
        let mut again = std::mem::take(&mut self.outcome.again);
        if !again.is_empty() {
            // A connection that says goodbye, but has taken some of the requests, is not in vain.
            let is_left = !self.links.carries(slot) && self.links.in_flight(slot) == 0;
            let holds = is_left && self.comes_to_nothing(slot, false, now);
            self.hold_connects(holds);
        }
        for id in again.drain(..) {
            self.place(id, now);
            self.make_room(slot);
        }
        self.hold_connects(false);
        self.outcome.again = again;
        if self.links.live(id) {
            let conn = &self.links[slot];
            if self.carrier.owes(&conn.carrier) || self.has_more_to_submit(slot) {
                self.transmit(slot);
            }
            self.arm_carrier(id);
        }
    }

    /// Whether exchanges wait on the connection that the carrier can accept now.
    fn has_more_to_submit(&self, slot: u32) -> bool {
        let conn = &self.links[slot];
        let (submitted, depth) = (conn.carried.submitted(), self.depths.of(conn));
        conn.carried.waiting > 0 && self.carrier.capacity(&conn.carrier, submitted, depth) > 0
    }

    /// Why each of these exchanges, which have timed out, got no reply. The time for which the
    /// peer's window has held back a part of one is a wait, too, though it has not ended.
    pub(super) fn timeouts(
        &mut self,
        slot: u32,
        late: &[RequestId],
        now: Nanos,
    ) -> Vec<(RequestId, Fault)> {
        let conn = &self.links[slot].carrier;
        let each = late.iter().map(|&id| {
            let exchange = &mut self.exchanges[id];
            if !P::MULTIPLEXES || !exchange.is_submitted() {
                return (id, Fault::RequestTimeout);
            }
            match self.carrier.waits_for_window(conn, id) {
                Some(since) => {
                    exchange.waited_for_window(now.since(since));
                    (id, Fault::FlowTimeout)
                }
                None => (id, Fault::RequestTimeout),
            }
        });
        each.collect()
    }

    /// These exchanges of an open connection have timed out. If the carrier can skip their replies,
    /// they fail and the connection stays open. Returns whether it does.
    pub(in crate::engine) fn cancel_alone(
        &mut self,
        slot: u32,
        late: &[(RequestId, Fault)],
        now: Nanos,
    ) -> bool {
        let can_cancel = P::MULTIPLEXES || self.carrier.is_lossy();
        if !can_cancel {
            return false;
        }
        let conn = &mut self.links[slot];
        for &(id, _) in late.iter().rev().filter(|(id, _)| self.exchanges[*id].is_submitted()) {
            match self.carrier.cancel(&mut conn.carrier, id) {
                Cancelled::Exchange => {}
                Cancelled::Last => conn.carried.drains = true,
                Cancelled::Connection => return false,
            }
        }
        for &(id, fault) in late.iter().rev() {
            let is_submitted = self.exchanges[id].is_submitted();
            self.links[slot].carried.take_out(&mut self.exchanges, id);
            if is_submitted && let Some(Tapped(tap)) = &mut self.tap {
                tap.cancelled(self.links.id(slot), id);
            }
            self.fail(id, fault, now);
        }
        let id = self.links.id(slot);
        self.count_streams(id, now);
        self.restart_ended(now);
        if self.links.live(id) && self.links[slot].carried.drains {
            self.settle_stopped(slot, now);
        }
        if self.links.live(id) {
            if self.carrier.owes(&self.links[slot].carrier) {
                self.transmit(slot);
            }
            self.pump_slot(slot, now);
            self.expire_slot(slot, now);
        }
        true
    }
}
