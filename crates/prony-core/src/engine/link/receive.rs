//! Bytes that have come: through the layer to the carrier, and what follows from them.

use super::sink::Sink;
use super::{Conn, State, Tapped};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::layer::Layer;
use crate::machine::CloseHow;
use crate::proto::Carrier;
use crate::units::{ConnId, Nanos};

impl<P: Carrier> Engine<P> {
    /// The connection that was asked for is open.
    pub(in crate::engine) fn link_opened(&mut self, id: ConnId, now: Nanos) {
        let conn = &mut self.links[id.slot];
        debug_assert_eq!(conn.state, State::Connecting);
        conn.opened = now;
        self.recorder.connected(now, now.since(conn.connect_began));
        if self.is_secured(id.slot) {
            self.secure(id.slot, now);
        } else {
            self.opened(id.slot, now);
        }
    }

    /// Bytes have come from the network.
    #[inline]
    pub(in crate::engine) fn link_received(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        match self.links[id.slot].layer {
            Layer::Plain => self.received(id.slot, data, now),
            Layer::Tls(_) => self.received_records(id, data, now),
        }
    }

    /// The peer has ended its stream (`None`), or the connection is dead.
    pub(in crate::engine) fn link_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        let slot = id.slot;
        let fault = match (why, self.links[slot].state) {
            _ if matches!(self.links[slot].layer, Layer::Tls(_)) => self.cut_off(slot, why),
            (Some(Fault::Reset), State::Connecting) => Some(Fault::ConnectReset),
            (Some(fault), _) => Some(fault),
            (None, _) => self.ended(slot, now),
        };
        self.abandon(slot, fault, CloseHow::Orderly, now);
    }

    /// After bytes or an end of stream were taken in without fault.
    fn settle(&mut self, slot: u32, now: Nanos) {
        self.note_missed(slot);
        let conn = &mut self.links[slot];
        if conn.carried.retired {
            conn.stash.clear();
            self.abandon(slot, None, CloseHow::Orderly, now);
            return;
        }
        if P::MULTIPLEXES {
            self.leave_draining(slot, now);
        }
        self.requeue();
        if !self.outcome.failed.is_empty() {
            self.fail_alone(now);
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

    /// The connection is open and, if it is to be, secured.
    pub(super) fn opened(&mut self, slot: u32, now: Nanos) {
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
        self.each_unsent(slot, |exchange| exchange.waited_for_connect(now));
        self.load.connected(self.links[slot].owner, true);
        if !self.links[slot].carried.is_empty() {
            self.transmit(slot);
        }
        self.pump_slot(slot, now);
    }

    /// Bytes of the protocol have come.
    pub(super) fn received(&mut self, slot: u32, data: &[u8], now: Nanos) {
        self.recorder.bytes_received(now, data.len() as u64);
        let mut joined = Vec::new();
        let stash = &mut self.links[slot].stash;
        let all = if stash.is_empty() {
            data
        } else {
            joined = std::mem::take(stash);
            joined.extend_from_slice(data);
            &joined
        };
        if self.tap.is_some() {
            self.show_arrived(slot, all);
        }
        let (carrier, state, mut sink) = self.hearing(slot, now);
        let result = carrier.receive(state, all, now, &mut sink);
        if self.tap.is_some() {
            self.show_read(slot, result);
        }
        if let Ok(used) = result {
            if !joined.is_empty() {
                joined.drain(..used);
                self.links[slot].stash = joined;
            } else if used < data.len() {
                self.links[slot].stash.extend_from_slice(&data[used..]);
            }
        }
        let opening = self.carrier.opens() && self.links[slot].state == State::Opening;
        match result {
            Ok(_) if opening => self.opening_came_on(slot, now),
            Ok(_) => self.settle(slot, now),
            Err(fault) if opening => {
                self.recorder.stray(now, fault);
                self.abandon(slot, Some(fault), CloseHow::Reset, now);
            }
            Err(fault) => {
                if self.links[slot].carried.sent == 0 {
                    self.recorder.stray(now, fault);
                    self.link_fault(slot, fault);
                    self.links[slot].stash.clear();
                    self.abandon(slot, None, CloseHow::Reset, now);
                } else {
                    self.abandon(slot, Some(fault), CloseHow::Reset, now);
                }
            }
        }
    }

    /// All that is needed to take in what a connection's peer has said.
    #[inline]
    fn hearing(&mut self, slot: u32, now: Nanos) -> (&mut P, &mut P::Conn, Sink<'_>) {
        let retries = self.load.retries();
        let id = self.links.id(slot);
        let Conn { carried, connect_began, carrier: state, .. } = &mut self.links[slot];
        let sink = Sink {
            carried,
            exchanges: &mut self.exchanges,
            tap: self.tap.as_mut().map(|Tapped(tap)| (&mut **tap, id)),
            dynamic: self.dynamic.as_deref_mut(),
            trail: self.trails.as_deref_mut().map(|trails| trails.hearing(slot)),
            connect_began: *connect_began,
            calls: &self.calls,
            recorder: &mut self.recorder,
            outcome: &mut self.outcome,
            retries,
            now,
        };
        (&mut self.carrier, state, sink)
    }

    /// What the end of the peer's stream means for the oldest request, if anything.
    pub(super) fn ended(&mut self, slot: u32, now: Nanos) -> Option<Fault> {
        let left = std::mem::take(&mut self.links[slot].stash);
        if self.tap.is_some() {
            self.show_arrived(slot, &left);
        }
        let (carrier, state, mut sink) = self.hearing(slot, now);
        let result = carrier.end(state, &left, &mut sink);
        if self.tap.is_some() {
            self.show_read(slot, result.map(|()| left.len()));
            self.show_ended(slot);
        }
        result.err()
    }
}
