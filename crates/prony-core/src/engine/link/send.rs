//! Writes exchanges to the socket, and defines when each counts as sent.

use super::messages::start_messages;
use super::{Conn, NOBODY, State, Tail, Tapped};
use crate::engine::Engine;
use crate::engine::exchange::{Exchanges, Sent};

use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos, RequestId};
use prony_proto::layer::Layer;
use prony_proto::proto::{Call, Carrier};

impl<P: Carrier> Engine<P> {
    /// Send the connection's output. Returns whether the kernel has accepted all of it.
    #[inline]
    pub(in crate::engine) fn link_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(conn) = self.links.get_mut(id) else {
            return self.send_last_bytes(id, now, send);
        };
        let holds = conn.tail.is_some() || !matches!(conn.layer, Layer::Plain);
        self.arm_from_send(id.slot, now);
        if holds && !self.send_pending(id.slot, now, send) {
            if P::MULTIPLEXES {
                self.count_streams(id, now);
            }
            return !self.links.live(id);
        }
        if self.carrier.opens() && !self.send_opening(id.slot, now, send) {
            return false;
        }
        let all = self.send_new(id.slot, now, send);
        if !self.outcome.failed.is_empty() {
            self.fail_unsent(now);
        }
        if self.carrier.ends_alone() && self.end_alone(id, now) {
            self.check_over();
        }
        if P::MULTIPLEXES {
            self.count_streams(id, now);
        }
        self.arm_carrier(id);
        all
    }

    /// Set the deadlines that count from the send, as a request is about to be sent.
    #[inline]
    pub(super) fn arm_from_send(&mut self, slot: u32, now: Nanos) {
        if self.plan.timeout_from_send {
            self.arm(slot, now + self.plan.timeout);
        }
    }

    /// Send what goes before new requests: bytes that the kernel did not accept before, and output
    /// of the layer itself. Returns whether the kernel has accepted all of it. Not inlined, as a
    /// plain connection usually has neither.
    #[inline(never)]
    pub(super) fn send_pending(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let was_full = self.links[slot].tail.is_some();
        if !self.send_tail(slot, now, send)
            || !self.send_own(slot, now, send)
            || !self.send_piece(slot, now, send)
        {
            return false;
        }
        if was_full {
            // Exchanges that are not submitted waited for it to leave room in the socket.
            self.each_unsent(slot, |exchange| exchange.waited_in_queue(now));
        }
        true
    }

    /// Send the bytes that the kernel did not accept before. Returns whether it has accepted all of
    /// them.
    fn send_tail(&mut self, slot: u32, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Conn { tail: Some(tail), carried, .. } = &mut self.links[slot] else {
            return true;
        };
        if tail.bytes.is_empty() {
            return true;
        }
        let mut sent_bytes = 0;
        let mut last_sent = None;
        let (all, last) = loop {
            let until = tail.cuts.front().copied().unwrap_or(tail.bytes.len());
            let taken = send(&tail.bytes[tail.taken..until]);
            sent_bytes += taken;
            tail.taken += taken;
            if tail.taken == until {
                tail.cuts.pop_front();
            }
            if let Some(trails) =
                self.trails.as_deref_mut().filter(|_| tail.taken < tail.bytes.len())
            {
                trails.wrote(slot, taken);
            }
            while let Some(begin) = tail.begins.pop_front_if(|b| b.at < tail.taken) {
                // It may have ended in the meantime, or be on another connection.
                if carried.has_left(begin.id) {
                    continue;
                }
                let Some(exchange) = self.exchanges.get_mut(begin.id) else { continue };
                exchange.waited_in_queue(now);
                exchange.went_in(0);
                if exchange.goes_out(now) != Sent::Again {
                    self.recorder.sent(&exchange.stamps(now));
                }
                carried.sent += 1;
                last_sent = Some(begin.id);
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
                // Only the last of the requests is known to end in this write.
                let last_sent =
                    last_sent.or_else(|| last_sent_of(&self.exchanges, &self.links[slot]));
                let in_flight = self.links[slot].carried.len() as usize;
                let (exchanges, recorder) = (&mut self.exchanges, &mut self.recorder);
                trails.wrote_requests((slot, in_flight), last, last_sent, exchanges, recorder);
            }
            let tail = &mut self.links[slot].tail;
            let body = tail.take().and_then(|tail| tail.body);
            *tail = body.map(|body| Box::new(Tail { body: Some(body), ..Tail::default() }));
        }
        all
    }

    /// Send the layer's own output: handshakes, alerts. Returns whether the kernel has accepted all
    /// of it.
    fn send_own(&mut self, slot: u32, now: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let (taken, all) = match &mut self.links[slot].layer {
            Layer::Tls(tls) if tls.wants_send() => tls.flush(send),
            Layer::Tunnel(tunnel) if tunnel.wants_send() => tunnel.flush(send),
            _ => return true,
        };
        self.recorder.bytes_sent(now, taken as u64);
        if let Some(trails) = &mut self.trails {
            trails.wrote(slot, taken);
        }
        all
    }

    /// Fail the requests that could not be filled in, and report it to their session.
    #[cold]
    pub(super) fn fail_unsent(&mut self, now: Nanos) {
        self.recorder.event(now);
        self.fail_alone(now);
        self.restart_ended(now);
        self.check_over();
    }

    /// Fail the exchanges that left their connection because they failed without affecting the
    /// others.
    pub(super) fn fail_alone(&mut self, now: Nanos) {
        let mut failed = std::mem::take(&mut self.outcome.failed);
        for (id, fault) in failed.drain(..) {
            if !self.breaks(id, fault, now) {
                self.fail(id, fault, now);
            }
        }
        self.outcome.failed = failed;
    }

    /// Encode and send waiting exchanges. Returns whether the kernel has accepted all bytes.
    pub(super) fn send_new(
        &mut self,
        slot: u32,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        if !self.links[slot].can_send() {
            return true;
        }
        let mut is_prepared = std::mem::replace(&mut self.prepared, NOBODY) == slot;
        loop {
            if !is_prepared && !self.encode_new(slot, now) {
                return true;
            }
            is_prepared = false;
            if !matches!(self.links[slot].layer, Layer::Plain) && !self.seal(slot, now) {
                return true;
            }
            let (taken, whole) = match self.out.cuts().is_empty() {
                true => {
                    let taken = send(self.out.as_bytes());
                    (taken, taken == self.out.len())
                }
                false => self.send_pieces(slot, send),
            };
            let carried = &mut self.links[slot].carried;
            let mut on_time = 0;
            let mut begun = 0;
            for begin in self.out.begins() {
                if begin.at >= taken {
                    break;
                }
                begun += 1;
                let exchange = &mut self.exchanges[begin.id];
                match exchange.goes_out(now) {
                    Sent::OnTime => on_time += 1,
                    Sent::Late => self.recorder.sent(&exchange.stamps(now)),
                    Sent::Again => {}
                }
            }
            carried.sent += begun as u32;
            let is_last = carried.waiting == 0;
            self.recorder.bytes_sent(now, taken as u64);
            self.recorder.sent_on_time(now, on_time);
            if self.trails.is_some() && self.out.cuts().is_empty() {
                self.follow(slot, begun, taken);
            }
            if !whole || self.out.has_body() {
                return self.keep_unsent(slot, taken, now);
            }
            if self.carrier.reads_files() && self.carrier.owes(&self.links[slot].carrier) {
                // The driver asks for the next piece, after what is due on other connections.
                return false;
            }
            // Usually there was one exchange, and it was the last.
            if is_last {
                return true;
            }
        }
    }

    /// Give each piece to the kernel by itself. Returns how many bytes it has accepted, and whether
    /// these are all.
    #[inline(never)]
    fn send_pieces(&mut self, slot: u32, send: &mut dyn FnMut(&[u8]) -> usize) -> (usize, bool) {
        let all = self.out.len();
        let mut at = 0;
        let mut begins = 0;
        for &cut in self.out.cuts().iter().chain(&[all]) {
            if at == cut {
                continue;
            }
            let taken = send(&self.out.as_bytes()[at..cut]);
            let begun = &self.out.begins()[begins..];
            let n = begun.iter().take_while(|b| b.at < at + taken).count();
            if let Some(trails) = &mut self.trails {
                let ended = begun[..n].iter().map(|b| b.id).filter(|_| at + taken == cut);
                let in_flight = self.links[slot].carried.len() as usize;
                let (exchanges, recorder) = (&mut self.exchanges, &mut self.recorder);
                trails.wrote_requests((slot, in_flight), taken, ended, exchanges, recorder);
            }
            begins += n;
            at += taken;
            if at < cut {
                return (at, false);
            }
        }
        (at, true)
    }

    /// Encrypt the encoded bytes into records. Returns `false` if that is not possible any more;
    /// the connection is closed then.
    #[inline(never)]
    pub(super) fn seal(&mut self, slot: u32, now: Nanos) -> bool {
        let conn = &mut self.links[slot];
        let Layer::Tls(tls) = &mut conn.layer else { return true };
        if self.secure.seal(tls, &mut self.out).is_ok() {
            return true;
        }
        self.recorder.event(now);
        // The keys are used up (TLS 1.2, after millions of records). A new connection gets new
        // keys.
        for (id, _) in self.outcome.failed.drain(..) {
            conn.carried.given += 1;
            conn.carried.push(&mut self.exchanges, id);
        }
        self.abandon(slot, None, CloseHow::Orderly, now);
        false
    }

    /// Match the kernel's timestamps of this write with the requests that it has started.
    #[cold]
    pub(super) fn follow(&mut self, slot: u32, begun: usize, taken: usize) {
        let Some(trails) = &mut self.trails else { return };
        let in_flight = self.links[slot].carried.len() as usize;
        let mut begun = self.out.begins()[..begun].iter().map(|b| b.id);
        if taken < self.out.len() {
            for id in begun.by_ref() {
                self.exchanges[id].went_in(0);
            }
        }
        let (exchanges, recorder) = (&mut self.exchanges, &mut self.recorder);
        trails.wrote_requests((slot, in_flight), taken, begun, exchanges, recorder);
    }

    /// The kernel has accepted `taken` of the encoded bytes and has no room for the rest.
    #[cold]
    pub(super) fn keep_rest(&mut self, slot: u32, taken: usize, now: Nanos) {
        self.each_unsent(slot, |exchange| exchange.waits_from(now));
        self.links[slot].carried.forget_left();
        let bytes = self.out.as_bytes();
        let mut tail = Tail { bytes: bytes[taken..].to_vec(), ..Tail::default() };
        if P::MULTIPLEXES && matches!(self.links[slot].layer, Layer::Plain) {
            let conn = &self.links[slot].carrier;
            tail.unit = self.carrier.boundary(conn, bytes, taken) - taken;
        }
        for &begin in self.out.begins().iter().filter(|b| b.at >= taken) {
            tail.begins.push_back(prony_proto::proto::Begin { at: begin.at - taken, ..begin });
        }
        tail.cuts.extend(self.out.cuts().iter().filter(|&&at| at > taken).map(|at| at - taken));
        self.links[slot].tail = Some(Box::new(tail));
    }

    /// Encode requests before the time of their send is known, if nothing goes before them and they
    /// do not depend on that time.
    #[inline(never)]
    pub(in crate::engine) fn encode_early(&mut self, slot: u32) {
        let conn = &self.links[slot];
        let alone = conn.state == State::Open && conn.tail.is_none();
        let timeless = self.dynamic.is_none() && !P::MULTIPLEXES;
        if alone && timeless && matches!(conn.layer, Layer::Plain) {
            self.prepared = if self.encode_new(slot, Nanos::ZERO) { slot } else { NOBODY };
        }
    }

    /// Append what the carrier still has to send for submitted exchanges. Exchanges that are not
    /// submitted wait for the peer's limit of streams. Record the waits for flow control.
    fn finish_turn(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        if self.carrier.owes(&conn.carrier) {
            self.carrier.transmit(&mut conn.carrier, now, &mut self.out);
        }
        self.exchanges.block_rest(&self.links[slot].carried.all, now);
        for (id, wait) in self.out.take_waits() {
            self.exchanges.waited_for_window(id, wait);
        }
        if let Some(messages) = self.exchanges.messages.as_deref_mut() {
            for (id, token) in self.out.take_messages() {
                messages.written(id, token, now, &mut self.recorder);
            }
            self.out.take_pings().for_each(|due| self.recorder.ping_sent(due));
        }
    }

    /// Encode the carrier's own output and waiting exchanges, up to one chunk. Returns whether
    /// there was anything.
    #[inline(always)]
    fn encode_new(&mut self, slot: u32, now: Nanos) -> bool {
        let per_connection = self.plan.requests_per_connection.map_or(u64::MAX, u64::from);
        self.out.clear();
        let conn = &mut self.links[slot];
        if self.carrier.owes(&conn.carrier) {
            self.carrier.transmit(&mut conn.carrier, now, &mut self.out);
        }
        if conn.state != State::Open {
            return !self.out.is_empty();
        }
        let mut room = self.depths.to_submit(conn);
        let Self { exchanges, carrier, depths, dynamic, outcome, out, tap, agenda, .. } = self;
        while room > 0 && !out.is_full() {
            if P::MULTIPLEXES {
                let (submitted, depth) = (conn.carried.submitted(), depths.of(conn));
                if carrier.capacity(&conn.carrier, submitted, depth) == 0 {
                    break;
                }
            }
            let Some((id, exchange)) = conn.carried.submit(exchanges) else { break };
            if P::MULTIPLEXES && exchange.is_blocked() {
                exchange.waited_in_queue(now);
            }
            if P::MULTIPLEXES {
                carrier.set_lateness(now.since(exchange.intended()));
            }
            let before = conn.carried.given - u64::from(conn.carried.waiting);
            let last = before == per_connection;
            let index = exchange.call();
            let filled = match dynamic.as_deref_mut().filter(|dynamic| dynamic.fills(index)) {
                None => None,
                Some(dynamic) => match dynamic.fill(id, exchange, now) {
                    Ok(filled) => Some(filled),
                    Err(fault) => {
                        // It leaves the connection as if it had never been on it.
                        conn.carried.take_out(exchanges, id);
                        conn.carried.given -= 1;
                        outcome.failed.push((id, fault));
                        continue;
                    }
                },
            };
            let call = Call { index, filled };
            let begin = out.len();
            carrier.submit(&mut conn.carrier, id, call, last, out);
            if let Some(Tapped(tap)) = tap {
                let conn = ConnId { slot, generation: conn.generation };
                tap.submitted(conn, id, index, &out.as_bytes()[begin..]);
            }
            if P::MULTIPLEXES && exchanges.messages.is_some() {
                start_messages((exchanges, agenda), (carrier, &mut conn.carrier), (id, slot), now);
            }
            room -= 1;
        }
        if P::MULTIPLEXES {
            self.finish_turn(slot, now);
        }
        !self.out.is_empty()
    }
}

/// The last exchange of the connection whose first byte the kernel has accepted.
#[cold]
fn last_sent_of<C>(exchanges: &Exchanges, conn: &Conn<C>) -> Option<RequestId> {
    exchanges.of(&conn.carried.all).filter(|&id| exchanges[id].is_sent()).last()
}
