//! A server's machine behind TLS: it hears and says everything in the clear, what the driver
//! carries is encrypted. Connections of listeners that are not secured go through as they are.
//!
//! What the machine says counts as taken when the record that carries it is with the kernel, so
//! that the machine feels the client's pace, and ends a connection only when all is sent.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use crate::fault::Fault;
use crate::layer::{Identity, TlsServer};
use crate::machine::{Action, CloseHow, Machine, StopRequest};
use crate::units::{ConnId, Nanos};

/// A machine behind TLS.
#[derive(Debug)]
pub struct Shield<M> {
    inner: M,
    identity: Option<Identity>,
    /// By listener: whether its connections are secured.
    secured: Vec<bool>,
    /// By the slot of the machine's connections.
    peers: Vec<Option<Peer>>,
    actions: VecDeque<Action>,
    /// What was received, in the clear.
    plain: Vec<u8>,
    handshakes: Handshakes,
}

/// What came of the connections that were to be secured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handshakes {
    /// Handshakes that were done.
    pub done: u64,
    /// Clients that do not speak TLS, refuse the certificate, or were gone before the handshake was
    /// done.
    pub failed: u64,
}

/// One secured connection.
#[derive(Debug)]
struct Peer {
    generation: u32,
    tls: Box<TlsServer>,
    /// A record that the kernel has taken in part, and how much of it.
    record: Vec<u8>,
    sent: usize,
    /// How many bytes of the machine's are in it.
    carries: usize,
    /// Whether the machine was told that the client has ended.
    told: bool,
    /// Whether the machine is done with it.
    leaves: bool,
}

impl<M> Shield<M> {
    /// A machine whose connections are in the clear.
    pub fn none(inner: M) -> Self {
        Self {
            inner,
            identity: None,
            secured: Vec::new(),
            peers: Vec::new(),
            actions: VecDeque::new(),
            plain: Vec::new(),
            handshakes: Handshakes::default(),
        }
    }

    /// A machine behind TLS on those of its listeners.
    pub fn new(inner: M, identity: Identity, secured: Vec<bool>) -> Self {
        Self { identity: Some(identity), secured, ..Self::none(inner) }
    }

    /// The machine.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// What came of the handshakes so far; `None` where nothing is secured.
    pub fn handshakes(&self) -> Option<Handshakes> {
        self.identity.as_ref().map(|_| self.handshakes)
    }
}

impl fmt::Display for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "handshakes        {} done, {} failed", self.done, self.failed)
    }
}

/// The secured connection of that name.
fn peer(peers: &mut [Option<Peer>], id: ConnId) -> Option<&mut Peer> {
    peers.get_mut(id.slot as usize)?.as_mut().filter(|p| p.generation == id.generation)
}

impl<M: Machine> Shield<M> {
    /// Let TLS go through what was received; the machine is told what it says.
    fn hear(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let Some(peer) = peer(&mut self.peers, id) else { return };
        self.plain.clear();
        let was_open = peer.tls.is_open();
        let heard = peer.tls.receive(data, &mut self.plain);
        let is_open = peer.tls.is_open();
        if peer.tls.wants_send() {
            self.actions.push_back(Action::Transmit { id });
        }
        let ends = heard.is_err() || peer.tls.has_ended();
        let tell = ends && !peer.told;
        peer.told |= ends;
        self.handshakes.done += u64::from(is_open && !was_open);
        self.handshakes.failed += u64::from(heard.is_err() && !is_open && tell);
        if !self.plain.is_empty() {
            self.inner.on_recv(id, &mut self.plain, now);
        }
        if tell {
            let fault = if is_open { Fault::TlsRecord } else { Fault::TlsHandshake };
            self.inner.on_closed(id, heard.is_err().then_some(fault), now);
        }
    }
}

impl<M: Machine> Machine for Shield<M> {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.inner.on_connected(id, now);
    }

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        let id = self.inner.on_accepted(listener, now)?;
        let (true, Some(identity)) =
            (self.secured.get(listener as usize).copied().unwrap_or(false), &self.identity)
        else {
            return Some(id);
        };
        match identity.accept() {
            Ok(tls) => {
                let slot = id.slot as usize;
                if self.peers.len() <= slot {
                    self.peers.resize_with(slot + 1, || None);
                }
                self.peers[slot] = Some(Peer {
                    generation: id.generation,
                    tls: Box::new(tls),
                    record: Vec::new(),
                    sent: 0,
                    carries: 0,
                    told: false,
                    leaves: false,
                });
            }
            Err(_) => {
                self.handshakes.failed += 1;
                self.inner.on_closed(id, Some(Fault::TlsHandshake), now);
            }
        }
        Some(id)
    }

    #[inline]
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        if peer(&mut self.peers, id).is_some() {
            self.hear(id, data, now);
        } else {
            self.inner.on_recv(id, data, now);
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        if let Some(peer) = peer(&mut self.peers, id) {
            // The end of the stream behind the end of what TLS says.
            if peer.told && why.is_none() {
                return;
            }
            self.handshakes.failed += u64::from(!peer.told && !peer.tls.is_open());
            peer.told = true;
        }
        self.inner.on_closed(id, why, now);
    }

    fn on_tick(&mut self, now: Nanos) {
        self.inner.on_tick(now);
    }

    fn on_turn(&mut self, now: Nanos) {
        self.inner.on_turn(now);
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.inner.on_stop(how, now);
    }

    /// An end in good order says so to the client first.
    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        if let Some(own) = self.actions.pop_front() {
            if let Action::Close { id, .. } = own {
                self.peers[id.slot as usize] = None;
            }
            return Some(own);
        }
        let action = self.inner.poll_action()?;
        if let Action::Close { id, how } = action
            && let Some(peer) = peer(&mut self.peers, id)
        {
            if how == CloseHow::Orderly {
                peer.leaves = true;
                self.actions.push_back(action);
                return Some(Action::Transmit { id });
            }
            self.peers[id.slot as usize] = None;
        }
        Some(action)
    }

    #[inline]
    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(peer) = peer(&mut self.peers, id) else {
            return self.inner.take_output(id, now, send);
        };
        if peer.leaves {
            // What the client does not take now it will not miss: all answers are sent.
            if peer.flush(send)
                && let Some(peer) = self.peers[id.slot as usize].take()
            {
                send(&peer.tls.farewell());
            }
            return true;
        }
        if !peer.tls.flush(send).1 || !peer.flush(send) {
            return false;
        }
        let (mut stuck, mut broken) = (false, false);
        let all = self.inner.take_output(id, now, &mut |piece| {
            if stuck || broken {
                return 0;
            }
            let taken = peer.say(piece, send);
            (stuck, broken) = (taken.is_some_and(|n| n < piece.len()), taken.is_none());
            taken.unwrap_or(0)
        });
        if broken && !std::mem::replace(&mut peer.told, true) {
            self.inner.on_closed(id, Some(Fault::TlsRecord), now);
        }
        all && !stuck
    }

    #[inline]
    fn deadline(&self) -> Option<Nanos> {
        self.inner.deadline()
    }
}

impl Peer {
    /// Encrypt a piece and send it; how much of it is with the kernel. `None`: it cannot be
    /// encrypted.
    fn say(&mut self, piece: &[u8], send: &mut dyn FnMut(&[u8]) -> usize) -> Option<usize> {
        // The beginning may be what the last record has carried, which the machine gives again
        // since it was told that it was not taken.
        let mut taken = self.carries.min(piece.len());
        self.carries -= taken;
        for part in piece[taken..].chunks(TlsServer::RECORD) {
            self.record.clear();
            self.sent = 0;
            self.tls.encrypt(part, &mut self.record).ok()?;
            if !self.flush(send) {
                self.carries = part.len();
                break;
            }
            taken += part.len();
        }
        Some(taken)
    }

    /// Send what the kernel has not taken of the last record; whether that was all.
    fn flush(&mut self, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        if self.sent < self.record.len() {
            self.sent += send(&self.record[self.sent..]);
        }
        self.sent == self.record.len()
    }
}
