//! Received bytes: they pass through the layer to the carrier, and their effects are applied.

use super::sink::Sink;
use super::{Conn, State, Tapped};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos};
use prony_proto::layer::Layer;
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// The requested connection is open.
    pub(in crate::engine) fn link_opened(&mut self, id: ConnId, now: Nanos) {
        let conn = &mut self.links[id.slot];
        debug_assert_eq!(conn.state, State::Connecting);
        conn.opened = now;
        self.recorder.connected(now, now.since(conn.connect_began));
        if self.plan.proxy.is_some() && self.begin_tunnel(id.slot) {
            return;
        }
        self.reached(id.slot, now);
    }

    /// The connection to the server is open, directly or through a tunnel.
    pub(super) fn reached(&mut self, slot: u32, now: Nanos) {
        if self.is_secured(slot) {
            self.secure(slot, now);
        } else {
            self.opened(slot, now);
        }
    }

    /// Bytes have arrived from the network.
    #[inline]
    pub(in crate::engine) fn link_received(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        match self.links[id.slot].layer {
            Layer::Plain => self.take_in(id.slot, data, now),
            Layer::Tls(_) => self.received_records(id, data, now),
            Layer::Tunnel(_) => self.received_from_proxy(id, data, now),
        }
    }

    /// The peer has ended its stream (`None`), or the connection is dead.
    pub(in crate::engine) fn link_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        let slot = id.slot;
        let fault = match (why, self.links[slot].state) {
            _ if matches!(self.links[slot].layer, Layer::Tls(_)) => {
                self.end_without_close_notify(slot, why)
            }
            (why, State::Tunneling) => Some(self.tunnel_ended(slot, why)),
            (Some(Fault::Reset), State::Connecting) => Some(Fault::ConnectReset),
            (Some(fault), _) => Some(fault),
            (None, _) => self.ended(slot, now),
        };
        if P::MULTIPLEXES {
            // It sends nothing to a peer that is gone.
            self.links[slot].carrier = P::Conn::default();
        }
        self.abandon(slot, fault, CloseHow::Orderly, now);
    }

    /// Apply the outcome of received bytes, or of an end of stream, that had no fault.
    #[inline(always)]
    fn settle(&mut self, slot: u32, now: Nanos) {
        let is_rare = self.note_rare(slot, now);
        let conn = &mut self.links[slot];
        if conn.carried.retired {
            conn.stash.clear();
            self.abandon(slot, None, CloseHow::Orderly, now);
            return;
        }
        if P::MULTIPLEXES {
            self.leave_draining(slot, now);
        }
        // Carriers of streams also take exchanges off a connection that drains.
        if is_rare || P::MULTIPLEXES {
            self.again_beside(slot, now);
            if !self.outcome.failed.is_empty() {
                self.fail_alone(now);
            }
        }
        if P::MULTIPLEXES {
            self.settle_streams(slot, now);
        }
        if self.links[slot].carried.is_empty() && !self.usable(slot) {
            self.release(slot, CloseHow::Orderly, now);
        } else {
            self.pump_slot(slot, now);
            self.send_held_back(slot, now);
        }
        self.restart_ended(now);
    }

    /// Apply what the end of a stream has left to do.
    #[cold]
    pub(super) fn settle_stopped(&mut self, slot: u32, now: Nanos) {
        self.settle(slot, now);
    }

    /// The connection is open, with TLS if the plan wants it.
    pub(super) fn opened(&mut self, slot: u32, now: Nanos) {
        if P::MULTIPLEXES {
            let conn = &mut self.links[slot];
            let alpn = conn.layer.tls().map(|tls| tls.alpn());
            if let Err(fault) = self.carrier.connected(&mut conn.carrier, alpn) {
                self.abandon(slot, Some(fault), CloseHow::Orderly, now);
                return;
            }
        }
        if self.carrier.opens() {
            self.begin_opening(slot, now);
        } else {
            self.ready(slot, now);
        }
    }

    /// The connection can carry requests from now on.
    pub(super) fn ready(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        conn.state = State::Open;
        self.contact_opened();
        let unnoticed = self.recorder.unread_time(now);
        self.each_unsent(slot, |exchange| exchange.waited_for_connect(now, unnoticed));
        let (owner, began) = (self.links[slot].owner, self.links[slot].connect_began);
        self.load.connected(owner, true);
        self.load.client_ready(owner, began, now);
        if !self.links[slot].carried.is_empty() {
            self.transmit(slot);
        }
        self.pump_slot(slot, now);
    }

    /// Bytes of the application protocol have arrived.
    #[inline(never)]
    pub(super) fn received(&mut self, slot: u32, data: &[u8], now: Nanos) {
        self.recorder.bytes_received(now, data.len() as u64);
        self.received_more(slot, data, now);
    }

    /// Bytes of the protocol have come. In place, as are the parts of it: once for each reply of a
    /// connection that carries one request at a time.
    #[inline(always)]
    fn take_in(&mut self, slot: u32, data: &[u8], now: Nanos) {
        self.recorder.bytes_received(now, data.len() as u64);
        if !self.links[slot].stash.is_empty() {
            return self.received_more(slot, data, now);
        }
        let result = self.read(slot, data, now);
        if let Ok(used) = result
            && used < data.len()
        {
            self.links[slot].stash.extend_from_slice(&data[used..]);
        }
        self.apply(slot, result, now);
    }

    /// The same after bytes that the carrier may have left.
    #[inline(never)]
    fn received_more(&mut self, slot: u32, data: &[u8], now: Nanos) {
        let mut joined = std::mem::take(&mut self.links[slot].stash);
        let was_empty = joined.is_empty();
        if !was_empty {
            joined.extend_from_slice(data);
        }
        let result = self.read(slot, if was_empty { data } else { &joined }, now);
        if let Ok(used) = result {
            if was_empty {
                joined.extend_from_slice(&data[used..]);
            } else {
                joined.drain(..used);
            }
            self.links[slot].stash = joined;
        }
        self.apply(slot, result, now);
    }

    /// The carrier reads. Returns how many bytes it has used.
    #[inline(always)]
    fn read(&mut self, slot: u32, data: &[u8], now: Nanos) -> Result<usize, Fault> {
        if self.is_watched {
            self.show_arrived(slot, data, now);
        }
        let (carrier, state, mut sink) = self.sink(slot, now);
        let result = carrier.receive(state, data, now, &mut sink);
        if self.is_watched {
            self.show_read(slot, result);
        }
        result
    }

    /// What follows from what the carrier has read.
    #[inline(always)]
    fn apply(&mut self, slot: u32, result: Result<usize, Fault>, now: Nanos) {
        let opening = self.carrier.opens() && self.links[slot].state == State::Opening;
        match result {
            Ok(_) if opening => self.opening_progressed(slot, now),
            Ok(_) => self.settle(slot, now),
            Err(fault) if opening => {
                self.recorder.stray(now, fault);
                self.abandon(slot, Some(fault), CloseHow::Reset, now);
            }
            Err(fault) => {
                // A carrier of streams reports the reason to its peer.
                let how = if P::MULTIPLEXES { CloseHow::Orderly } else { CloseHow::Reset };
                if self.links[slot].carried.sent == 0 {
                    self.recorder.stray(now, fault);
                    self.link_fault(slot, fault, now);
                    self.links[slot].stash.clear();
                    self.abandon(slot, None, how, now);
                } else {
                    self.abandon(slot, Some(fault), how, now);
                }
            }
        }
    }

    /// The carrier, the connection's state and a sink, for reading from one connection.
    #[inline]
    pub(super) fn sink(&mut self, slot: u32, now: Nanos) -> (&mut P, &mut P::Conn, Sink<'_>) {
        let retries = self.load.retries();
        let looks_closer = self.trails.is_some()
            || self.calls.look_closer()
            || P::MULTIPLEXES && self.exchanges.have_more();
        let has_extras = looks_closer || self.dynamic.is_some() || self.tap.is_some();
        let Conn { carried, connect_began, carrier: state, generation, .. } = &mut self.links[slot];
        let id = ConnId { slot, generation: *generation };
        let sink = Sink {
            carried,
            exchanges: &mut self.exchanges,
            tap: self.tap.as_mut().map(|Tapped(tap)| (&mut **tap, id)),
            dynamic: self.dynamic.as_deref_mut(),
            trail: self.trails.as_deref_mut().map(|trails| trails.receiving(slot)),
            connect_began: *connect_began,
            calls: &self.calls,
            recorder: &mut self.recorder,
            outcome: &mut self.outcome,
            retries,
            looks_closer,
            has_extras,
            now,
        };
        (&mut self.carrier, state, sink)
    }

    /// Process the end of the peer's stream. Returns the fault of the oldest request, if any.
    pub(super) fn ended(&mut self, slot: u32, now: Nanos) -> Option<Fault> {
        let left = std::mem::take(&mut self.links[slot].stash);
        if self.tap.is_some() {
            self.show_arrived(slot, &left, now);
        }
        let (carrier, state, mut sink) = self.sink(slot, now);
        let result = carrier.end(state, &left, &mut sink);
        if self.tap.is_some() {
            self.show_read(slot, result.map(|()| left.len()));
            self.show_ended(slot);
        }
        result.err()
    }
}
