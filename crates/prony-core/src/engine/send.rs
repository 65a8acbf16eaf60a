//! Requests on their way into the socket, and when each counts as sent.

use super::Engine;
use super::conn::{Conn, State, Tail};
use super::flight::Flight;
use crate::layer::Layer;
use crate::machine::CloseHow;
use crate::proto::Protocol;
use crate::record::Recorder;
use crate::units::{ConnId, Nanos};

/// How many bytes of requests are encoded before they are offered to the kernel.
pub(super) const OUT_CHUNK: usize = 64 << 10;
/// No connection has that slot.
pub(super) const NOBODY: u32 = u32::MAX;

impl<P: Protocol> Engine<P> {
    /// Deadlines that count from the send: something is about to be sent.
    #[inline]
    pub(super) fn arm_from_send(&mut self, slot: u32, now: Nanos) {
        if self.plan.timeout_from_send {
            self.arm(slot, now + self.plan.timeout);
        }
    }

    fn mark_sent(recorder: &mut Recorder, flight: &mut Flight, now: Nanos) {
        flight.sent = now;
        if !flight.counted {
            flight.counted = true;
            recorder.sent(&flight.stamps(now));
        }
    }

    /// What goes before new requests: what the kernel did not take before, and what the layer
    /// itself has to send. Returns whether the kernel has taken all. Apart, as a plain connection
    /// mostly has neither.
    #[inline(never)]
    pub(super) fn send_held(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let was_full = self.conns[slot].tail.is_some();
        if !self.send_tail(slot, now, send) || !self.send_own(slot, now, send) {
            return false;
        }
        if was_full {
            // What is not even encoded waited behind it for room in the socket.
            let conn = &mut self.conns[slot];
            for flight in conn.flights.range_mut(conn.sent as usize..) {
                flight.waited_in_queue(now);
            }
        }
        true
    }

    /// What the kernel did not take before. Returns whether it has taken all.
    fn send_tail(&mut self, slot: u32, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Conn { tail: Some(tail), flights, sent, .. } = &mut self.conns[slot] else {
            return true;
        };
        let mut sent_bytes = 0;
        let (all, last) = loop {
            let taken = send(&tail.bytes[tail.taken..]);
            sent_bytes += taken;
            tail.taken += taken;
            if let Some(trails) =
                self.trails.as_deref_mut().filter(|_| tail.taken < tail.bytes.len())
            {
                trails.gave(slot, taken);
            }
            while tail.starts.front().is_some_and(|&s| s < tail.taken) {
                tail.starts.pop_front();
                let flight = &mut flights[*sent as usize];
                flight.waited_in_queue(now);
                flight.write = 0;
                Self::mark_sent(&mut self.recorder, flight, now);
                *sent += 1;
            }
            if tail.taken == tail.bytes.len() {
                break (true, taken);
            }
            if taken == 0 {
                break (false, taken);
            }
        };
        self.recorder.bytes_sent(now, sent_bytes as u64);
        if all {
            if let Some(trails) = &mut self.trails {
                // Only the last of its requests is known to end with this write.
                let in_flight = flights.len();
                let ends = (*sent as usize).checked_sub(1).map(|i| flights.range_mut(i..=i));
                let ends = ends.into_iter().flatten();
                trails.gave_requests((slot, in_flight), last, ends, &mut self.recorder);
            }
            self.conns[slot].tail = None;
        }
        all
    }

    /// What the layer itself has to send: handshakes, alerts. Returns whether the kernel has taken
    /// all.
    fn send_own(&mut self, slot: u32, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Layer::Tls(tls) = &mut self.conns[slot].layer else { return true };
        if !tls.wants_send() {
            return true;
        }
        let (taken, all) = tls.flush(send);
        self.recorder.bytes_sent(now, taken as u64);
        if let Some(trails) = &mut self.trails {
            trails.gave(slot, taken);
        }
        all
    }

    /// The last bytes of a connection that is let go of. What the kernel does not take at once is
    /// lost: nobody waits for a farewell.
    pub(super) fn send_farewell(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if let Some(bytes) = self.secure.take_farewell(id) {
            let taken = send(&bytes);
            self.recorder.bytes_sent(now, taken as u64);
        }
        true
    }

    /// Requests that could not be filled in have failed, and their session knows.
    #[cold]
    pub(super) fn fail_unsent(&mut self, now: Nanos) {
        self.recorder.event(now);
        let mut unsent = std::mem::take(&mut self.unsent);
        for (flight, fault) in unsent.drain(..) {
            self.fail(&flight, fault, false, now);
        }
        self.unsent = unsent;
        self.restart_freed(now);
        self.check_over();
    }

    /// Encode and send the requests that were not yet. Returns whether the kernel has taken all.
    pub(super) fn send_new(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if self.conns[slot].state != State::Open {
            return true;
        }
        let is_prepared = std::mem::replace(&mut self.prepared, NOBODY) == slot;
        if !is_prepared && !self.encode_new(slot, now) {
            return true;
        }
        loop {
            if !matches!(self.conns[slot].layer, Layer::Plain) && !self.seal(slot, now) {
                return true;
            }
            let taken = send(&self.out);
            let whole = taken == self.out.len();
            let begun = match whole {
                true => self.starts.len(),
                false => self.starts.iter().take_while(|&&s| s < taken).count(),
            };
            let conn = &mut self.conns[slot];
            let mut on_time = 0;
            for _ in 0..begun {
                let flight = &mut conn.flights[conn.sent as usize];
                conn.sent += 1;
                if flight.is_on_time(now) {
                    (flight.sent, flight.counted) = (now, true);
                    on_time += 1;
                } else {
                    Self::mark_sent(&mut self.recorder, flight, now);
                }
            }
            let is_last = conn.sent as usize == conn.flights.len();
            self.recorder.bytes_sent(now, taken as u64);
            self.recorder.sent_on_time(now, on_time);
            if self.trails.is_some() {
                self.follow(slot, begun, taken);
            }
            if !whole {
                self.hold(slot, taken, now);
                return false;
            }
            // Mostly one went out, and it was the last.
            if is_last || !self.encode_new(slot, now) {
                return true;
            }
        }
    }

    /// Put what was encoded into records. Returns `false` where that cannot be done any more; the
    /// connection is gone then.
    #[inline(never)]
    fn seal(&mut self, slot: u32, now: Nanos) -> bool {
        let conn = &mut self.conns[slot];
        let Layer::Tls(tls) = &mut conn.layer else { return true };
        if self.secure.seal(tls, &mut self.out, &mut self.starts).is_ok() {
            return true;
        }
        self.recorder.event(now);
        // The keys are used up (TLS 1.2, after millions of records): a new connection has new ones.
        conn.given += self.unsent.len() as u64;
        conn.flights.extend(self.unsent.drain(..).map(|(flight, _)| flight));
        self.abandon(slot, None, CloseHow::Orderly, now);
        false
    }

    /// Have the kernel's notes of a write told of the requests that it has begun: the last ones
    /// that were sent.
    #[cold]
    fn follow(&mut self, slot: u32, begun: usize, taken: usize) {
        let Some(trails) = &mut self.trails else { return };
        let Conn { flights, sent, .. } = &mut self.conns[slot];
        let (in_flight, sent) = (flights.len(), *sent as usize);
        let mut begun = flights.range_mut(sent - begun..sent);
        if taken < self.out.len() {
            begun.by_ref().for_each(|f| f.write = 0);
        }
        trails.gave_requests((slot, in_flight), taken, begun, &mut self.recorder);
    }

    /// The kernel has taken so much of what was encoded and has no room for the rest.
    #[cold]
    fn hold(&mut self, slot: u32, taken: usize, now: Nanos) {
        let conn = &mut self.conns[slot];
        for flight in conn.flights.range_mut(conn.sent as usize..) {
            flight.waits_until = now;
        }
        let starts = self.starts.iter().filter(|&&s| s >= taken).map(|s| s - taken);
        let tail = Tail { bytes: self.out[taken..].to_vec(), taken: 0, starts: starts.collect() };
        conn.tail = Some(Box::new(tail));
    }

    /// Encode requests before the time of their sending is known, where nothing else is to be sent
    /// before them and they do not depend on it.
    #[inline(never)]
    pub(super) fn encode_early(&mut self, slot: u32) {
        let conn = &self.conns[slot];
        let alone = conn.state == State::Open && conn.tail.is_none();
        if alone && matches!(conn.layer, Layer::Plain) && self.dynamic.is_none() {
            self.prepared = if self.encode_new(slot, Nanos::ZERO) { slot } else { NOBODY };
        }
    }

    /// Encode requests that were not yet, as many as are offered to the kernel at once. Returns
    /// whether there were any.
    fn encode_new(&mut self, slot: u32, now: Nanos) -> bool {
        let per_connection = self.plan.requests_per_connection.map_or(u64::MAX, u64::from);
        let conn = &mut self.conns[slot];
        self.out.clear();
        self.starts.clear();
        let before = conn.given - conn.flights.len() as u64;
        let mut next = conn.sent as usize;
        let mut until = self.depths.sendable(conn);
        while next < until && self.out.len() < OUT_CHUNK {
            let start = self.out.len();
            if start > 0 && self.proto.one_by_one() {
                break;
            }
            let last = before + next as u64 + 1 == per_connection;
            let (call, state) = (conn.flights[next].call, &mut conn.proto);
            match self.dynamic.as_deref_mut().filter(|dynamic| dynamic.fills(call)) {
                None => self.proto.encode(state, call, last, &mut self.out),
                Some(dynamic) => match dynamic.fill(&conn.flights[next], now) {
                    Ok(filled) => {
                        self.proto.encode_filled(state, call, filled, last, &mut self.out);
                    }
                    Err(fault) => {
                        // It leaves the connection as if it had never been given to it.
                        self.unsent.extend(conn.flights.remove(next).map(|f| (f, fault)));
                        conn.given -= 1;
                        until = until.min(conn.flights.len());
                        continue;
                    }
                },
            }
            self.starts.push(start);
            next += 1;
        }
        !self.starts.is_empty()
    }
}
