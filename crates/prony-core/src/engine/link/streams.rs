//! Connections whose exchanges are independent of each other: what follows from a peer's refusals,
//! from a connection that drains, and from a limit that changes.

use super::Tapped;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::proto::{Cancelled, Carrier};
use crate::units::{Nanos, RequestId};

impl<P: Carrier> Engine<P> {
    /// What leaves a connection that takes nothing new: exchanges that were not submitted.
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

    /// Exchanges that left the connection go out again; those that wait on it may be submitted.
    pub(in crate::engine) fn settle_streams(&mut self, slot: u32, now: Nanos) {
        let id = self.links.id(slot);
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..) {
            self.place(id, now);
        }
        self.outcome.again = again;
        if self.links.live(id) {
            let conn = &self.links[slot];
            if self.carrier.owes(&conn.carrier) || self.has_more_to_submit(slot) {
                self.transmit(slot);
            }
            self.arm_carrier(id);
        }
    }

    /// Whether something waits on the connection that the carrier takes now.
    fn has_more_to_submit(&self, slot: u32) -> bool {
        let conn = &self.links[slot];
        let (submitted, depth) = (conn.carried.submitted(), self.depths.of(conn));
        conn.carried.waiting > 0 && self.carrier.capacity(&conn.carrier, submitted, depth) > 0
    }

    /// The time of these exchanges of an open connection is up. If the carrier can pass over their
    /// replies, they fail and the connection goes on: whether that was so.
    pub(in crate::engine) fn cancel_alone(
        &mut self,
        slot: u32,
        late: &[RequestId],
        now: Nanos,
    ) -> bool {
        let lets_go = P::MULTIPLEXES || self.carrier.is_lossy();
        if !lets_go {
            return false;
        }
        let conn = &mut self.links[slot];
        for &id in late.iter().rev() {
            if self.exchanges[id].is_submitted()
                && self.carrier.cancel(&mut conn.carrier, id) == Cancelled::Connection
            {
                return false;
            }
        }
        for &id in late.iter().rev() {
            let is_submitted = self.exchanges[id].is_submitted();
            self.links[slot].carried.take_out(&mut self.exchanges, id);
            if is_submitted && let Some(Tapped(tap)) = &mut self.tap {
                tap.cancelled(self.links.id(slot), id);
            }
            self.fail(id, Fault::RequestTimeout, now);
        }
        let id = self.links.id(slot);
        self.restart_ended(now);
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
