//! The responder of the round-trip tests: it answers every message of every client at once.
//!
//! It supports both framings of the echo protocol ([`prony_base::frame`]), distinguished by the
//! first byte of a connection. Messages are discarded as they arrive, so their length uses no
//! memory. The replies that a client does not read are limited.

mod peer;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use prony_base::fault::Fault;
use prony_base::frame::{HEADER, Header, Kind};
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::merge::Merge;
use prony_base::units::{ConnId, Nanos, Span};
use serde::Serialize;

use crate::slots::Slots;
use peer::{Peer, Taken};

/// How many unread replies all clients together may have (they use up to 100 MB). A client that
/// wants more is disconnected, unless it has few itself.
const UNREAD_MAX: usize = 1 << 21;
const UNREAD_ALWAYS: usize = 1_024;

/// The limits of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoBehavior {
    /// The longest message and the longest reply, in bytes.
    pub length_max: u32,
    /// How long a client may take to send the start of its framing.
    pub patience: Span,
}

/// The counters of the responder.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq, Serialize)]
pub struct Echoed {
    /// Clients that connected.
    pub connections: u64,
    /// Messages answered.
    pub messages: u64,
    /// Bytes of messages, framing included.
    pub bytes_in: u64,
    /// Bytes of replies that the kernel has accepted.
    pub bytes_out: u64,
    /// Clients that disconnected within a message, or with unsent replies.
    pub broken: u64,
    /// Clients that were refused because they do not speak the protocol, or exceed a limit.
    pub refused: u64,
    /// Clients that took too long to start.
    pub silent: u64,
}

/// The responder.
#[derive(Debug)]
pub struct Echo {
    limits: EchoBehavior,
    /// By listener: whether its transport keeps the boundaries of messages.
    bounded: Vec<bool>,
    echoed: Echoed,
    peers: Vec<Peer>,
    slots: Slots,
    /// Clients whose first bytes are awaited, with their deadlines, earliest first.
    fresh: BinaryHeap<Reverse<(Nanos, ConnId)>>,
    actions: VecDeque<Action>,
    /// The unread replies of all clients.
    unread: usize,
    /// Scratch: a reply to send.
    out: Vec<u8>,
}

impl Default for EchoBehavior {
    fn default() -> Self {
        Self { length_max: 16 << 20, patience: Span::from_secs(5) }
    }
}

impl Echo {
    /// A responder. `bounded`: for each listener, whether it keeps the boundaries of messages.
    pub fn new(limits: EchoBehavior, bounded: Vec<bool>) -> Self {
        Self {
            limits,
            bounded,
            echoed: Echoed::default(),
            peers: Vec::new(),
            slots: Slots::default(),
            fresh: BinaryHeap::new(),
            actions: VecDeque::new(),
            unread: 0,
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

    /// Remove the deadlines of clients that have started.
    #[cold]
    fn remove_started(&mut self) {
        while let Some(&Reverse((_, id))) = self.fresh.peek()
            && !self.peer(id).is_some_and(|p| p.is_fresh())
        {
            self.fresh.pop();
        }
    }

    fn end(&mut self, id: ConnId, how: CloseHow) {
        let peer = &mut self.peers[id.slot as usize];
        self.unread -= peer.unread();
        peer.end();
        self.actions.push_back(Action::Close { id, how });
        self.slots.give(id.slot, &mut self.actions);
    }
}

impl Machine for Echo {
    fn on_connected(&mut self, id: ConnId, _now: Nanos) {
        debug_assert!(false, "a responder opens no connections: {id:?}");
    }

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let slot = self.slots.take(&mut self.peers)?;
        let bounded = self.bounded.get(listener as usize).copied().unwrap_or(false);
        let id = self.peers[slot as usize].begin(slot, bounded);
        self.fresh.push(Reverse((now + self.limits.patience, id)));
        self.echoed.connections += 1;
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], _now: Nanos) {
        let (limits, slot) = (self.limits, id.slot as usize);
        let Some(peer) = self.peer(id) else { return };
        let before = peer.unread();
        let taken = peer.take(data, &limits);
        let unread = peer.unread();
        let request_output = peer.owes() && !peer.output_requested && !peer.blocked;
        peer.output_requested |= request_output;
        self.echoed.bytes_in += data.len() as u64;
        if !self.fresh.is_empty() {
            self.remove_started();
        }
        self.unread += unread - before;
        let Taken { messages, refused } = taken;
        let refused = refused || (self.unread > UNREAD_MAX && unread > UNREAD_ALWAYS);
        self.echoed.messages += messages;
        if refused {
            self.echoed.refused += 1;
            self.end(id, CloseHow::Reset);
        } else if request_output {
            self.actions.push_back(Action::Transmit { id });
        } else if self.peers[slot].is_done() {
            self.end(id, CloseHow::Orderly);
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _now: Nanos) {
        let Some(peer) = self.peer(id) else { return };
        peer.ended = true;
        let (inside, owes) = (peer.is_inside(), peer.owes());
        // A reset between two messages is a normal end for a client that sends fewer messages than
        // it announced.
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

    /// Closes all connections without waiting for further messages.
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
        peer.output_requested = false;
        let before = peer.unread();
        let (sent, all) = peer.send(&mut self.out, send);
        peer.blocked = !all;
        let over = all && (peer.ended || peer.is_done());
        self.unread -= before - peer.unread();
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

/// Append the reply to a datagram to `out`. Returns whether there is one. Each datagram is handled
/// alone, so no state is kept per client. `longer`: whether a reply may be longer than its request
/// (an attacker could use that for amplification, with a forged source address).
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

/// The longest reply that fits into a datagram, in bytes.
const DATAGRAM_MAX: u32 = 65_507 - HEADER as u32;

impl fmt::Display for Echoed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "clients           {}", self.connections)?;
        writeln!(f, "messages          {}", self.messages)?;
        writeln!(f, "bytes             {} in, {} out", self.bytes_in, self.bytes_out)?;
        let Self { broken, refused, silent, .. } = self;
        writeln!(f, "ended otherwise   {broken} broken off, {refused} refused, {silent} silent")
    }
}
