//! The greeting: what some protocols exchange on a new connection before it carries calls, and
//! messages that never came back.

use super::Engine;
use super::conn::{State, Tail};
use super::flight::Flight;
use super::source::Source;
use crate::fault::Fault;
use crate::layer::Layer;
use crate::machine::CloseHow;
use crate::proto::{Greeting, Protocol};
use crate::units::{Nanos, Span};

/// How long the answer to a step of a greeting may take before the step is tried again, where
/// messages may be lost.
const AGAIN: Span = Span::from_millis(100);

impl<P: Protocol> Engine<P> {
    /// Connections of an open loop are made before the first arrival wants one: a greeting in the
    /// middle of the load would be told as the load's own time.
    pub(super) fn connect_beforehand(&mut self, now: Nanos) {
        let Source::Open(arrivals) = &self.source else { return };
        let (cap, endpoints) = (arrivals.cap, self.plan.endpoints.len());
        for i in 0..cap {
            self.connect((i % endpoints) as u32, super::conn::NONE, now);
        }
    }

    pub(super) fn begin_greeting(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.conns[slot];
        conn.state = State::Greeting;
        conn.greeted = now;
        conn.greet_tries = 0;
        self.transmit(slot);
        self.arm(slot, self.greeting_deadline(slot));
    }

    /// Send what the greeting has to say. Returns whether the kernel has taken all.
    pub(super) fn send_greeting(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let conn = &mut self.conns[slot];
        if conn.state != State::Greeting {
            return true;
        }
        self.out.clear();
        self.pieces.clear();
        let greeting = self.proto.greet(&mut conn.proto, &mut self.out, &mut self.pieces);
        let (mut begin, mut tail) = (0, Vec::new());
        for &end in &self.pieces {
            let piece = &self.out[begin..end];
            begin = end;
            let mut records;
            let bytes = match &mut conn.layer {
                Layer::Plain => piece,
                Layer::Tls(tls) => {
                    records = Vec::new();
                    if tls.encrypt(piece, &mut records).is_err() {
                        self.abandon(slot, None, CloseHow::Orderly, now);
                        return true;
                    }
                    &records
                }
            };
            // Behind what did not fit nothing may be sent.
            let taken = if tail.is_empty() { send(bytes) } else { 0 };
            self.recorder.bytes_sent(now, taken as u64);
            if let Some(trails) = &mut self.trails {
                trails.gave(slot, taken);
            }
            tail.extend_from_slice(&bytes[taken..]);
        }
        let all = tail.is_empty();
        if !all {
            conn.tail = Some(Box::new(Tail { bytes: tail, ..Tail::default() }));
        }
        if greeting == Greeting::Done {
            self.greeting_done(slot, now);
        }
        all
    }

    fn greeting_done(&mut self, slot: u32, now: Nanos) {
        if let Source::Closed(_) = &self.source {
            // One that was sent before, on a connection that is gone, has begun then.
            for flight in self.conns[slot].flights.iter_mut().filter(|f| !f.counted) {
                self.recorder.begins_anew(flight.intended, now);
                *flight = Flight::new(now, flight.call, flight.user);
            }
            self.recorder.ready(now);
        }
        self.ready(slot, now);
    }

    pub(super) fn received_greeting(&mut self, slot: u32, data: &[u8], now: Nanos) {
        let id = self.conns.id(slot);
        let conn = &mut self.conns[slot];
        conn.stash.extend_from_slice(data);
        let stash = std::mem::take(&mut conn.stash);
        match self.proto.greeted(&mut conn.proto, &stash) {
            Ok(0) if self.proto.is_lossy() => {}
            Ok(0) => conn.stash = stash,
            Ok(used) => {
                conn.stash.extend_from_slice(&stash[used..]);
                conn.greeted = now;
                conn.greet_tries = 0;
                self.transmit(slot);
            }
            Err(fault) => {
                self.recorder.stray(now, fault);
                self.abandon(slot, Some(fault), CloseHow::Reset, now);
            }
        }
        debug_assert!(!self.conns.live(id) || self.conns[slot].state == State::Greeting);
    }

    /// When something must happen to a greeting that does not come on.
    pub(super) fn greeting_deadline(&self, slot: u32) -> Nanos {
        let conn = &self.conns[slot];
        let end = conn.greeted + self.plan.connect_timeout;
        if !self.proto.is_lossy() {
            return end;
        }
        end.min(conn.greeted + AGAIN * u64::from(conn.greet_tries + 1))
    }

    /// The time of a connection that greets is up, or that of its requests: whether that was all.
    pub(super) fn greeting_timed_out(&mut self, slot: u32, now: Nanos) -> bool {
        let conn = &mut self.conns[slot];
        if conn.greeted + self.plan.connect_timeout <= now {
            // Where messages may be lost, nobody knows whether anybody is there at all.
            let lossy = self.proto.is_lossy();
            let fault = if lossy { Fault::ConnectTimeout } else { Fault::RequestTimeout };
            self.abandon(slot, Some(fault), CloseHow::Reset, now);
            return true;
        }
        if self.greeting_deadline(slot) > now {
            return false;
        }
        let conn = &mut self.conns[slot];
        conn.greet_tries += 1;
        if self.proto.greets_again(&mut conn.proto) {
            self.transmit(slot);
        }
        self.expire_slot(slot, now);
        true
    }

    /// Messages were lost, or their replies: that at each of the positions. The connection goes on.
    pub(super) fn lost(&mut self, slot: u32, late: &[(Flight, bool, usize)], now: Nanos) {
        for &(flight, was_sent, position) in late.iter().rev() {
            if was_sent {
                self.proto.gave_up(&mut self.conns[slot].proto, position as u32);
            }
            self.fail(&flight, Fault::RequestTimeout, was_sent, now);
        }
        self.restart_freed(now);
        self.pump_slot(slot, now);
        self.expire_slot(slot, now);
    }
}
