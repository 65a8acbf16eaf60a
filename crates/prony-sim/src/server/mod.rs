//! Servers with known behavior. A [`ServerModel`] defines when and what a server replies.
//! [`Server`] makes a [`Machine`] of it, which the world runs like prony's own target server.

mod frames;
mod hostile;
mod script;
mod station;

use std::collections::VecDeque;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos};

use crate::oracle::wire::{Mark, Parser};
use crate::queue::Queue;

pub use frames::{Event, FrameServer, Received, Seen, Turn};
pub use hostile::Hostile;
pub use script::{Scripted, Step};
pub use station::{ServiceTime, Station};

/// How a server behaves. It acts through [`Connections`].
pub trait ServerModel {
    /// A client has connected.
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        let _ = (id, conns);
    }

    /// Bytes have arrived. Returns whether the model has read them, as they are not of HTTP/1.
    fn received(&mut self, id: ConnId, data: &[u8], conns: &mut Connections) -> bool {
        let _ = (id, data, conns);
        false
    }

    /// A complete request has arrived. `index` is its number on its connection, from 0.
    fn request(&mut self, id: ConnId, index: u64, head: &[u8], conns: &mut Connections);

    /// A timer has fired that was set with [`ServerAction::Timer`].
    fn timer(&mut self, id: ConnId, number: u64, conns: &mut Connections) {
        let _ = (id, number, conns);
    }

    /// The client has closed its direction of the connection.
    fn ended(&mut self, id: ConnId, conns: &mut Connections) {
        conns.close(id);
    }
}

/// What a server does on a connection at a set time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAction {
    /// Send bytes.
    Send(Vec<u8>),
    /// Close the connection when everything is sent.
    Close,
    /// Reset the connection immediately.
    Reset,
    /// Call [`ServerModel::timer`] with this number.
    Timer(u64),
}

/// A server that follows a model.
#[derive(Debug)]
pub struct Server<M> {
    model: M,
    conns: Connections,
}

/// The connections of a server, its clock and its counters.
#[derive(Debug, Default)]
pub struct Connections {
    now: Nanos,
    peers: Vec<Peer>,
    free: Vec<u32>,
    actions: VecDeque<Action>,
    timers: Queue<(ConnId, ServerAction)>,
    /// Connections accepted.
    pub accepted: u64,
    /// Complete requests received.
    pub requests: u64,
    /// Bytes received.
    pub bytes_in: u64,
}

#[derive(Debug, Default)]
struct Peer {
    generation: u32,
    live: bool,
    requests: u64,
    parser: Parser,
    out: Vec<u8>,
    /// How much of `out` is sent.
    sent: usize,
    /// Whether [`Action::Transmit`] is pending.
    transmitting: bool,
    closing: bool,
}

impl<M: ServerModel> Server<M> {
    /// A server that follows this model.
    pub fn new(model: M) -> Self {
        Self { model, conns: Connections::default() }
    }

    /// The model, with its counters.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The connections and counters.
    pub fn connections(&self) -> &Connections {
        &self.conns
    }

    fn perform(&mut self, id: ConnId, act: ServerAction) {
        match act {
            ServerAction::Send(bytes) => self.conns.send(id, &bytes),
            ServerAction::Close => self.conns.close(id),
            ServerAction::Reset => self.conns.reset(id),
            ServerAction::Timer(number) if self.conns.is_live(id) => {
                self.model.timer(id, number, &mut self.conns);
            }
            ServerAction::Timer(_) => {}
        }
    }
}

impl<M: ServerModel> Machine for Server<M> {
    fn on_connected(&mut self, id: ConnId, _: Nanos) {
        panic!("{id:?}: a server does not connect");
    }

    fn on_accepted(&mut self, _: u32, now: Nanos) -> Option<ConnId> {
        self.conns.now = now;
        let id = self.conns.open();
        self.model.opened(id, &mut self.conns);
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.conns.now = now;
        self.conns.bytes_in += data.len() as u64;
        if self.model.received(id, data, &mut self.conns) {
            return;
        }
        let Some(peer) = self.conns.peer(id) else { return };
        let mut parser = std::mem::take(&mut peer.parser);
        let mut index = peer.requests;
        parser.feed(data, false, |mark| {
            if let Mark::End { head, .. } = mark
                && self.conns.is_live(id)
            {
                self.conns.requests += 1;
                self.model.request(id, index, head, &mut self.conns);
                index += 1;
            }
        });
        if let Some(peer) = self.conns.peer(id) {
            peer.parser = parser;
            peer.requests = index;
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.conns.now = now;
        match why {
            None => self.model.ended(id, &mut self.conns),
            Some(_) => self.conns.end(id, CloseHow::Orderly),
        }
    }

    fn on_tick(&mut self, now: Nanos) {
        self.conns.now = now;
        while self.conns.timers.next_at().is_some_and(|at| at <= now) {
            let Some((_, (id, act))) = self.conns.timers.pop() else { break };
            self.perform(id, act);
        }
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.conns.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Some(peer) = self.conns.peer(id) else { return true };
        peer.transmitting = false;
        if peer.sent < peer.out.len() {
            peer.sent += send(&peer.out[peer.sent..]);
        }
        if peer.sent < peer.out.len() {
            return false;
        }
        peer.out.clear();
        peer.sent = 0;
        if peer.closing {
            self.conns.end(id, CloseHow::Orderly);
        }
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        self.conns.timers.next_at()
    }
}

impl Connections {
    /// The current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Act on a connection at time `when`, if it is still open then.
    pub fn at(&mut self, when: Nanos, id: ConnId, act: ServerAction) {
        self.timers.push(when, (id, act));
    }

    /// Send bytes.
    pub fn send(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(peer) = self.peer(id).filter(|p| !p.closing) else { return };
        peer.out.extend_from_slice(bytes);
        if !std::mem::replace(&mut peer.transmitting, true) {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// Close the connection when everything is sent.
    pub fn close(&mut self, id: ConnId) {
        let Some(peer) = self.peer(id) else { return };
        peer.closing = true;
        if peer.out.is_empty() {
            self.end(id, CloseHow::Orderly);
        }
    }

    /// Reset the connection immediately.
    pub fn reset(&mut self, id: ConnId) {
        self.end(id, CloseHow::Reset);
    }

    /// Whether the connection is open.
    pub fn is_live(&self, id: ConnId) -> bool {
        let peer = self.peers.get(id.slot as usize);
        peer.is_some_and(|p| p.live && p.generation == id.generation)
    }

    fn peer(&mut self, id: ConnId) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(id.slot as usize);
        peer.filter(|p| p.live && p.generation == id.generation)
    }

    fn open(&mut self) -> ConnId {
        self.accepted += 1;
        let slot = self.free.pop().unwrap_or(self.peers.len() as u32);
        if slot as usize == self.peers.len() {
            self.peers.push(Peer::default());
        }
        let peer = &mut self.peers[slot as usize];
        let generation = peer.generation.wrapping_add(1);
        *peer = Peer { generation, live: true, ..Peer::default() };
        ConnId { slot, generation }
    }

    fn end(&mut self, id: ConnId, how: CloseHow) {
        let Some(peer) = self.peer(id) else { return };
        peer.live = false;
        // No action may refer to the id after the close.
        self.actions.retain(|a| *a != Action::Transmit { id });
        self.actions.push_back(Action::Close { id, how });
        self.free.push(id.slot);
    }
}
