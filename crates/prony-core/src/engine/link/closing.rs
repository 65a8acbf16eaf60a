//! The last bytes of connections that are closed: the rest of what was partly sent, the carrier's
//! reason, the close_notify alert of TLS. A close waits until the driver has taken them.

use std::collections::BTreeMap;

use super::State;
use crate::engine::Engine;
use crate::engine::agenda::Timer;
use prony_base::machine::{Action, CloseHow};
use prony_base::units::{ConnId, Nanos, Span};
use prony_proto::layer::Layer;
use prony_proto::proto::Carrier;

/// How long a close waits for a peer that does not read.
const PATIENCE: Span = Span::from_secs(1);

/// How many closes may wait: each keeps a descriptor. A further connection is closed without its
/// last bytes.
const WAITING_MAX: usize = 64;

/// How many bytes of records, none of which can be left out, go before the last ones.
const RECORDS_MAX: usize = 64 << 10;

/// The connections that are closed, by slot. The slot is not used again before the close.
#[derive(Debug, Default)]
pub(in crate::engine) struct Closing {
    of: BTreeMap<u32, Last>,
    /// How many closes wait.
    waiting: usize,
}

/// The last bytes of a connection.
#[derive(Debug)]
struct Last {
    generation: u32,
    bytes: Vec<u8>,
    /// How many of them the kernel has accepted.
    taken: usize,
    /// Whether the close was due before all of them were.
    waits: bool,
    /// When it does not wait any more.
    until: Nanos,
}

impl Last {
    fn has_more(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

impl Closing {
    fn get_mut(&mut self, id: ConnId) -> Option<&mut Last> {
        self.of.get_mut(&id.slot).filter(|last| last.generation == id.generation)
    }

    /// Whether a connection that is gone still has bytes to send.
    pub(in crate::engine) fn has_more(&self, id: ConnId) -> bool {
        let last = self.of.get(&id.slot).filter(|last| last.generation == id.generation);
        last.is_some_and(Last::has_more)
    }
}

impl<P: Carrier> Engine<P> {
    /// What goes before the last bytes: the rest of the frame that was partly sent. `None`: nothing
    /// can follow.
    fn rest_of_tail(&self, slot: u32) -> Option<&[u8]> {
        let conn = &self.links[slot];
        let Some(tail) = &conn.tail else { return Some(&[]) };
        match conn.layer {
            _ if !P::MULTIPLEXES => None,
            Layer::Plain | Layer::Tunnel(_) => {
                let taken = tail.taken.saturating_sub(tail.unit);
                let bytes = tail.bytes.get(tail.unit..)?;
                let end = tail.unit + self.carrier.boundary(&conn.carrier, bytes, taken);
                tail.bytes.get(tail.taken..end)
            }
            // Exchanges that have not begun would be sent twice.
            Layer::Tls(_) if tail.begins.is_empty() => {
                Some(&tail.bytes[tail.taken..]).filter(|rest| rest.len() <= RECORDS_MAX)
            }
            Layer::Tls(_) => None,
        }
    }

    /// The last bytes of a connection that is about to be closed; `None`: there are none, or none
    /// can be sent.
    fn last_bytes(&mut self, slot: u32, how: CloseHow) -> Option<Vec<u8>> {
        if how == CloseHow::Reset {
            return None;
        }
        let mut bytes = self.rest_of_tail(slot)?.to_vec();
        let conn = &mut self.links[slot];
        let mut own = Vec::new();
        if P::MULTIPLEXES && matches!(conn.state, State::Open | State::Opening) {
            self.carrier.close(&mut conn.carrier, &mut own);
        }
        if let Layer::Tls(mut tls) = std::mem::take(&mut conn.layer)
            && !tls.has_ended()
        {
            let mut sealed = Vec::new();
            // Without keys to encrypt it, nothing is sent but the alert.
            if own.is_empty() || tls.encrypt(&own, &mut sealed).is_err() {
                sealed.clear();
            }
            sealed.append(&mut tls.close_notify());
            own = sealed;
        }
        bytes.extend_from_slice(&own);
        (!own.is_empty()).then_some(bytes)
    }

    /// Free the slot of a connection, and close it after its last bytes. `asked`: the driver was
    /// asked to open it.
    pub(super) fn end_slot(&mut self, slot: u32, asked: bool, how: CloseHow, now: Nanos) {
        let id = self.links.id(slot);
        if let Some(peak) = &self.peak {
            peak.closes();
        }
        match self.last_bytes(slot, how).filter(|_| asked) {
            None => self.links.remove(slot),
            Some(bytes) => {
                self.links.reserve(slot);
                let (generation, until) = (id.generation, now + PATIENCE);
                let last = Last { generation, bytes, taken: 0, waits: false, until };
                self.closing.of.insert(slot, last);
                self.agenda.ask(Action::Transmit { id });
            }
        }
        if asked {
            self.agenda.ask(Action::Close { id, how });
        }
    }

    /// Send the last bytes of a connection that is closed. Returns whether the kernel has accepted
    /// all of them.
    pub(super) fn send_last_bytes(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(last) = self.closing.get_mut(id) else { return true };
        let taken = send(&last.bytes[last.taken..]);
        last.taken += taken;
        let is_due = last.waits;
        self.recorder.bytes_sent(now, taken as u64);
        if self.closing.has_more(id) {
            return false;
        }
        if is_due {
            self.close_at_last(id);
        }
        true
    }

    /// The close of this connection is due. Returns whether it has to wait.
    #[cold]
    pub(in crate::engine) fn close_waits(&mut self, id: ConnId) -> bool {
        let may_wait = self.closing.waiting < WAITING_MAX;
        let Some(last) = self.closing.get_mut(id) else { return false };
        if last.has_more() && may_wait {
            last.waits = true;
            let until = last.until;
            self.closing.waiting += 1;
            self.agenda.wake(until, Timer::Closing(id.slot));
            return true;
        }
        self.closing.of.remove(&id.slot);
        self.links.give_back(id.slot);
        false
    }

    /// The peer of a connection that is gone does not read any more.
    #[cold]
    pub(in crate::engine) fn last_bytes_are_lost(&mut self, id: ConnId) {
        let Some(last) = self.closing.get_mut(id) else { return };
        last.taken = last.bytes.len();
        if last.waits {
            self.close_at_last(id);
        }
    }

    /// A close has waited long enough.
    #[cold]
    pub(in crate::engine) fn closing_expired(&mut self, slot: u32, now: Nanos) {
        let Some(last) = self.closing.of.get(&slot) else { return };
        if last.waits && last.until <= now {
            self.close_at_last(ConnId { slot, generation: last.generation });
        }
    }

    fn close_at_last(&mut self, id: ConnId) {
        self.closing.of.remove(&id.slot);
        self.closing.waiting -= 1;
        self.links.give_back(id.slot);
        self.agenda.ask(Action::Close { id, how: CloseHow::Orderly });
    }
}
