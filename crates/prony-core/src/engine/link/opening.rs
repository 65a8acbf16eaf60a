//! The opening exchange: what some carriers exchange on a new connection before it carries what the
//! plan wants.

use super::State;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::proto::Carrier;
use crate::units::Nanos;

impl<P: Carrier> Engine<P> {
    pub(in crate::engine) fn begin_opening(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        conn.state = State::Opening;
        conn.came_on = now;
        self.transmit(slot);
        self.arm(slot, self.opening_deadline(slot));
    }

    /// Send what the opening exchange has to say. Returns whether the kernel has taken all.
    pub(in crate::engine) fn send_opening(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if self.links[slot].state != State::Opening {
            return true;
        }
        let id = self.links.id(slot);
        let all = self.send_new(slot, now, send);
        // Its layer may have given the connection up.
        if self.links.live(id) {
            self.open_if_ready(slot, now);
        }
        all && self.links.live(id)
    }

    fn open_if_ready(&mut self, slot: u32, now: Nanos) {
        if self.carrier.is_ready(&self.links[slot].carrier) {
            self.opening_done(slot, now);
        }
    }

    fn opening_done(&mut self, slot: u32, now: Nanos) {
        if self.load.is_closed() {
            let mut next = self.exchanges.first(&self.links[slot].carried.all);
            while let Some(id) = next {
                next = self.exchanges.next(id);
                let exchange = &mut self.exchanges[id];
                // One that was sent before, on a connection that is gone, has begun then.
                if !exchange.is_counted() {
                    self.recorder.begins_anew(exchange.intended(), now);
                    exchange.begins_anew(now);
                }
            }
            self.recorder.ready(now);
        }
        self.ready(slot, now);
    }

    /// Bytes of the opening exchange have come.
    pub(in crate::engine) fn opening_came_on(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        if self.carrier.owes(&conn.carrier) {
            conn.came_on = now;
            self.transmit(slot);
        } else {
            self.open_if_ready(slot, now);
        }
    }

    /// When something must happen to an opening exchange that does not come on.
    pub(in crate::engine) fn opening_deadline(&self, slot: u32) -> Nanos {
        let conn = &self.links[slot];
        let end = conn.came_on + self.plan.connect_timeout;
        self.carrier.deadline(&conn.carrier).map_or(end, |at| at.min(end))
    }

    /// The time of a connection that opens is up, or that of its requests: whether that was all.
    pub(in crate::engine) fn opening_timed_out(&mut self, slot: u32, now: Nanos) -> bool {
        if self.links[slot].came_on + self.plan.connect_timeout <= now {
            // Where messages may be lost, nobody knows whether anybody is there at all.
            let lossy = self.carrier.is_lossy();
            let fault = if lossy { Fault::ConnectTimeout } else { Fault::RequestTimeout };
            self.abandon(slot, Some(fault), CloseHow::Reset, now);
            return true;
        }
        if self.opening_deadline(slot) > now {
            return false;
        }
        if self.carrier_deadline_passed(slot, now) {
            self.expire_slot(slot, now);
        }
        true
    }

    /// The carrier's own deadline may have passed. Returns whether the connection still is.
    pub(in crate::engine) fn carrier_deadline_passed(&mut self, slot: u32, now: Nanos) -> bool {
        let state = &mut self.links[slot].carrier;
        if self.carrier.deadline(state).is_none_or(|at| at > now) {
            return true;
        }
        if let Err(fault) = self.carrier.on_deadline(state, now) {
            self.abandon(slot, Some(fault), CloseHow::Reset, now);
            return false;
        }
        if self.carrier.owes(&self.links[slot].carrier) {
            self.transmit(slot);
        }
        true
    }
}
