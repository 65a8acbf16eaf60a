//! Wraps the machine of a server in TLS: the machine reads and writes plaintext, and the driver
//! carries encrypted bytes. Connections of listeners without TLS pass through unchanged.
//!
//! Output of the machine counts as accepted when the kernel has accepted the record that contains
//! it. So the machine notices how fast the client reads, and closes a connection only when
//! everything is sent.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos};
use prony_proto::layer::{Identity, ServerTls};
use serde::Serialize;

/// A machine with TLS.
#[derive(Debug)]
pub struct TlsServer<M> {
    inner: M,
    identity: Option<Identity>,
    /// By listener: whether its connections use TLS.
    secured: Vec<bool>,
    /// By the slot of the machine's connections.
    peers: Vec<Option<Peer>>,
    actions: VecDeque<Action>,
    /// Scratch: decrypted bytes.
    plain: Vec<u8>,
    handshakes: Handshakes,
}

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handshakes {
    /// Completed handshakes.
    pub done: u64,
    /// Clients that do not speak TLS, reject the certificate, or disconnected during the handshake.
    pub failed: u64,
}

/// One connection with TLS.
#[derive(Debug)]
struct Peer {
    generation: u32,
    tls: Box<ServerTls>,
    /// A record that the kernel has accepted in part, and how much of it.
    record: Vec<u8>,
    sent: usize,
    /// How many bytes of the machine's output are in it.
    carries: usize,
    /// Whether the machine knows that the client has ended.
    end_reported: bool,
    /// Whether the machine has closed it.
    closing: bool,
}

impl<M> TlsServer<M> {
    /// A machine without TLS.
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

    /// A machine with TLS on the listeners for which `secured` is true.
    pub fn new(inner: M, identity: Identity, secured: Vec<bool>) -> Self {
        Self { identity: Some(identity), secured, ..Self::none(inner) }
    }

    /// The machine.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The handshakes so far; `None` if no listener uses TLS.
    pub fn handshakes(&self) -> Option<Handshakes> {
        self.identity.as_ref().map(|_| self.handshakes)
    }
}

impl fmt::Display for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "handshakes        {} done, {} failed", self.done, self.failed)
    }
}

/// The TLS connection with this id.
fn peer(peers: &mut [Option<Peer>], id: ConnId) -> Option<&mut Peer> {
    peers.get_mut(id.slot as usize)?.as_mut().filter(|p| p.generation == id.generation)
}

impl<M: Machine> TlsServer<M> {
    /// Decrypt received bytes, and pass them to the machine.
    fn receive(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let Some(peer) = peer(&mut self.peers, id) else { return };
        self.plain.clear();
        let was_open = peer.tls.is_open();
        let received = peer.tls.receive(data, &mut self.plain);
        let is_open = peer.tls.is_open();
        if peer.tls.wants_send() {
            self.actions.push_back(Action::Transmit { id });
        }
        let ends = received.is_err() || peer.tls.has_ended();
        let report = ends && !peer.end_reported;
        peer.end_reported |= ends;
        self.handshakes.done += u64::from(is_open && !was_open);
        self.handshakes.failed += u64::from(received.is_err() && !is_open && report);
        if !self.plain.is_empty() {
            self.inner.on_recv(id, &mut self.plain, now);
        }
        if report {
            let fault = if is_open { Fault::TlsRecord } else { Fault::TlsHandshake };
            self.inner.on_closed(id, received.is_err().then_some(fault), now);
        }
    }
}

impl<M: Machine> Machine for TlsServer<M> {
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
                    end_reported: false,
                    closing: false,
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
            self.receive(id, data, now);
        } else {
            self.inner.on_recv(id, data, now);
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        if let Some(peer) = peer(&mut self.peers, id) {
            // The TLS stream has ended before, and the machine knows.
            if peer.end_reported && why.is_none() {
                return;
            }
            self.handshakes.failed += u64::from(!peer.end_reported && !peer.tls.is_open());
            peer.end_reported = true;
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

    /// An orderly close sends close_notify to the client first.
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
                peer.closing = true;
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
        if peer.closing {
            // The client will not miss what it does not accept now: all replies are sent.
            if peer.flush(send)
                && let Some(peer) = self.peers[id.slot as usize].take()
            {
                send(&peer.tls.close_notify());
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
            let taken = peer.send_record(piece, send);
            (stuck, broken) = (taken.is_some_and(|n| n < piece.len()), taken.is_none());
            taken.unwrap_or(0)
        });
        if broken && !std::mem::replace(&mut peer.end_reported, true) {
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
    /// Encrypt a piece and send it. Returns how much of it the kernel has accepted; `None` if it
    /// cannot be encrypted.
    fn send_record(&mut self, piece: &[u8], send: &mut dyn FnMut(&[u8]) -> usize) -> Option<usize> {
        // The start of the piece may be in the last record: the machine passes it again because it
        // was not accepted then.
        let mut taken = self.carries.min(piece.len());
        self.carries -= taken;
        for part in piece[taken..].chunks(ServerTls::RECORD) {
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

    /// Send the rest of the last record. Returns whether the kernel has accepted all of it.
    fn flush(&mut self, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        if self.sent < self.record.len() {
            self.sent += send(&self.record[self.sent..]);
        }
        self.sent == self.record.len()
    }
}
