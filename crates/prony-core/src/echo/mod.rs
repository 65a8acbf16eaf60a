//! The responder of the round-trip tests: it answers every message of every client, at once.
//!
//! Both framings of the echo protocol ([`crate::frame`]), told apart by a connection's first byte.
//! Messages are thrown away as they come in, so their length costs no memory; what a client may let
//! pile up of replies that it does not read is bounded.

mod peer;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::fault::Fault;
use crate::frame::{HEADER, Header, Kind};
use crate::machine::{Action, CloseHow, Machine, Slots, StopRequest};
use crate::units::{ConnId, Nanos, Span};
use peer::{Peer, Taken};

/// What the responder puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoLaw {
    /// The longest message and the longest reply, in bytes.
    pub length_max: u32,
    /// How long a client may take to say in which framing it speaks.
    pub patience: Span,
}

/// What the responder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Echoed {
    /// Clients that connected.
    pub connections: u64,
    /// Messages answered.
    pub messages: u64,
    /// Bytes of messages, framing included.
    pub bytes_in: u64,
    /// Bytes of replies that the kernel has taken.
    pub bytes_out: u64,
    /// Clients that were gone in the middle of something.
    pub broken: u64,
    /// Clients that were refused because they do not speak the protocol, or ask for too much.
    pub refused: u64,
    /// Clients that took too long to begin.
    pub silent: u64,
}

/// The responder.
#[derive(Debug)]
pub struct Echo {
    law: EchoLaw,
    /// By listener: whether messages keep their boundaries there.
    bounded: Vec<bool>,
    echoed: Echoed,
    peers: Vec<Peer>,
    slots: Slots,
    /// Clients whose first bytes are awaited, oldest first, and until when.
    fresh: BinaryHeap<Reverse<(Nanos, ConnId)>>,
    actions: VecDeque<Action>,
    /// Scratch: a reply to send.
    out: Vec<u8>,
}

impl Default for EchoLaw {
    fn default() -> Self {
        Self { length_max: 16 << 20, patience: Span::from_secs(5) }
    }
}

impl Echo {
    /// A responder; `bounded` says of each listener whether it keeps the boundaries of messages.
    pub fn new(law: EchoLaw, bounded: Vec<bool>) -> Self {
        Self {
            law,
            bounded,
            echoed: Echoed::default(),
            peers: Vec::new(),
            slots: Slots::default(),
            fresh: BinaryHeap::new(),
            actions: VecDeque::new(),
            out: Vec::new(),
        }
    }

    /// The counters so far.
    pub fn echoed(&self) -> &Echoed {
        &self.echoed
    }

    fn peer(&mut self, id: ConnId) -> Option<&mut Peer> {
        self.peers.get_mut(id.slot as usize).filter(|p| p.is(id))
    }

    /// Whoever has begun is waited for no more, and with them the last of the deadlines goes.
    #[cold]
    fn forget_begun(&mut self) {
        while let Some(&Reverse((_, id))) = self.fresh.peek()
            && !self.peer(id).is_some_and(|p| p.is_fresh())
        {
            self.fresh.pop();
        }
    }

    fn end(&mut self, id: ConnId, how: CloseHow) {
        self.peers[id.slot as usize].end();
        self.actions.push_back(Action::Close { id, how });
        self.slots.give(id.slot, &mut self.actions);
    }
}

impl Machine for Echo {
    fn on_connected(&mut self, id: ConnId, _now: Nanos) {
        debug_assert!(false, "a responder connects to nobody, so not by {id:?}");
    }

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let slot = self.slots.take(&mut self.peers)?;
        let bounded = self.bounded.get(listener as usize).copied().unwrap_or(false);
        let id = self.peers[slot as usize].begin(slot, bounded);
        self.fresh.push(Reverse((now + self.law.patience, id)));
        self.echoed.connections += 1;
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], _now: Nanos) {
        let (law, slot) = (self.law, id.slot as usize);
        let Some(peer) = self.peer(id) else { return };
        let taken = peer.take(data, &law);
        let tell = peer.owes() && !peer.told && !peer.blocked;
        peer.told |= tell;
        self.echoed.bytes_in += data.len() as u64;
        if !self.fresh.is_empty() {
            self.forget_begun();
        }
        let Taken { messages, refused } = taken;
        self.echoed.messages += messages;
        if refused {
            self.echoed.refused += 1;
            self.end(id, CloseHow::Reset);
        } else if tell {
            self.actions.push_back(Action::Transmit { id });
        } else if self.peers[slot].is_done() {
            self.end(id, CloseHow::Orderly);
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _now: Nanos) {
        let Some(peer) = self.peer(id) else { return };
        peer.ended = true;
        let (inside, owes) = (peer.is_inside(), peer.owes());
        // A reset between two messages is how a client ends that has not made as many as it said.
        if inside || (why.is_some() && owes) {
            self.echoed.broken += 1;
        }
        if why.is_some() || inside || !owes {
            self.end(id, CloseHow::Orderly);
        }
    }

    fn on_tick(&mut self, now: Nanos) {
        while let Some(&Reverse((at, id))) = self.fresh.peek()
            && at <= now
        {
            self.fresh.pop();
            if self.peer(id).is_some_and(|p| p.is_fresh()) {
                self.echoed.silent += 1;
                self.end(id, CloseHow::Orderly);
            }
        }
    }

    /// Nobody's next message is waited for.
    fn on_stop(&mut self, _how: StopRequest, _now: Nanos) {
        self.slots.stop();
        for slot in 0..self.peers.len() {
            if let Some(id) = self.peers[slot].id(slot as u32) {
                self.end(id, CloseHow::Orderly);
            }
        }
        self.slots.finish_if_done(&mut self.actions);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(
        &mut self,
        id: ConnId,
        _now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(id.slot as usize).filter(|p| p.is(id)) else {
            return true;
        };
        peer.told = false;
        let (sent, all) = peer.send(&mut self.out, send);
        peer.blocked = !all;
        let over = all && (peer.ended || peer.is_done());
        self.echoed.bytes_out += sent;
        if over {
            self.end(id, CloseHow::Orderly);
        }
        all
    }

    fn deadline(&self) -> Option<Nanos> {
        self.fresh.peek().map(|Reverse((at, _))| *at)
    }
}

/// The answer to a datagram, appended to `out`; whether there is one. Every datagram stands for
/// itself, so nothing is remembered of anybody. `longer`: whether an answer may be longer than what
/// it answers (which anybody who forges a sender's address can turn against that sender).
pub fn answer(data: &[u8], longer: bool, out: &mut Vec<u8>) -> bool {
    let Some(header) = data.get(..HEADER).and_then(Header::read) else { return false };
    let Kind::Request { reply } = header.kind else { return false };
    let too_long = reply as usize > data.len() - HEADER && !longer;
    if header.length as usize != data.len() - HEADER || reply > DATAGRAM_MAX || too_long {
        return false;
    }
    let header = Header { kind: Kind::Reply, length: reply, sequence: header.sequence };
    out.extend_from_slice(&header.bytes());
    out.resize(out.len() + reply as usize, 0);
    true
}

/// What fits into an answer.
const DATAGRAM_MAX: u32 = 65_507 - HEADER as u32;

impl Echoed {
    /// Add what another responder has done.
    pub fn merge(&mut self, other: &Self) {
        let Self { connections, messages, bytes_in, bytes_out, broken, refused, silent } = other;
        self.connections += connections;
        self.messages += messages;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
        self.broken += broken;
        self.refused += refused;
        self.silent += silent;
    }
}

impl fmt::Display for Echoed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "clients           {}", self.connections)?;
        writeln!(f, "messages          {}", self.messages)?;
        writeln!(f, "bytes             {} in, {} out", self.bytes_in, self.bytes_out)?;
        let Self { broken, refused, silent, .. } = self;
        writeln!(f, "ended otherwise   {broken} broken off, {refused} refused, {silent} silent")
    }
}
