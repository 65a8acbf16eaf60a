//! The opening exchange: what some carriers exchange on a new connection before the first request.

use super::State;
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::Nanos;
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    pub(in crate::engine) fn begin_opening(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        conn.state = State::Opening;
        conn.last_progress = now;
        self.transmit(slot);
        self.arm(slot, self.opening_deadline(slot));
    }

    /// Send the output of the opening exchange. Returns whether the kernel has accepted all of it.
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
        // Its layer may have closed the connection.
        if self.links.live(id) && self.carrier.is_ready(&self.links[slot].carrier) {
            // Requests that have waited for it can be overdue.
            self.recorder.event(now);
            self.opening_done(slot, now);
            self.restart_ended(now);
            self.check_over();
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
                // An exchange that was sent before, on a lost connection, had started then.
                if !exchange.is_counted() {
                    self.recorder.intended_moved(exchange.intended(), now);
                    exchange.begins_anew(now);
                }
            }
            self.recorder.ready(now);
        }
        self.ready(slot, now);
    }

    /// Bytes of the opening exchange have arrived.
    pub(in crate::engine) fn opening_progressed(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        if self.carrier.owes(&conn.carrier) {
            conn.last_progress = now;
            self.transmit(slot);
        } else {
            self.open_if_ready(slot, now);
        }
    }

    /// The next deadline of the opening exchange.
    pub(in crate::engine) fn opening_deadline(&self, slot: u32) -> Nanos {
        let conn = &self.links[slot];
        let end = conn.last_progress + self.plan.connect_timeout;
        self.carrier.deadline(&conn.carrier).map_or(end, |at| at.min(end))
    }

    /// An opening connection, or its requests, may have timed out. Returns whether that was handled
    /// completely.
    pub(in crate::engine) fn opening_timed_out(&mut self, slot: u32, now: Nanos) -> bool {
        if self.links[slot].last_progress + self.plan.connect_timeout <= now {
            // If messages may be lost, it is unknown whether the peer exists at all.
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

    /// The carrier's own deadline may have passed. Returns whether the connection still exists.
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
        if self.carrier.ends_alone() {
            let id = self.links.id(slot);
            self.end_alone(id, now);
            return self.links.live(id);
        }
        true
    }
}
