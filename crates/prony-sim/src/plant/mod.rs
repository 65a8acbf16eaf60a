//! Servers whose truth is known. A [`Plant`] is the law by which a server answers; [`Server`] makes
//! a [`Machine`] of it, so the world runs it exactly as it runs prony's own target server.

mod hostile;
mod script;
mod station;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos};

use crate::oracle::wire::{Mark, Parser};

pub use hostile::Hostile;
pub use script::{Scripted, Step};
pub use station::{Law, Station};

/// How a server answers. All that it does goes through the [`Yard`].
pub trait Plant {
    /// A client has connected.
    fn opened(&mut self, id: ConnId, yard: &mut Yard) {
        let _ = (id, yard);
    }

    /// A whole request has arrived; it is the `index`-th of its connection, from 0.
    fn request(&mut self, id: ConnId, index: u64, head: &[u8], yard: &mut Yard);

    /// A token comes back that was given to [`Yard::at`].
    fn token(&mut self, id: ConnId, token: u64, yard: &mut Yard) {
        let _ = (id, token, yard);
    }

    /// The client has ended its stream.
    fn ended(&mut self, id: ConnId, yard: &mut Yard) {
        yard.close(id);
    }
}

/// What a plant does to a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Send bytes.
    Send(Vec<u8>),
    /// Close when all is sent.
    Close,
    /// Reset at once.
    Reset,
    /// Tell the plant.
    Token(u64),
}

/// A plant at work.
#[derive(Debug)]
pub struct Server<P> {
    plant: P,
    yard: Yard,
}

/// A plant's connections, its clock and its counters.
#[derive(Debug, Default)]
pub struct Yard {
    now: Nanos,
    peers: Vec<Peer>,
    free: Vec<u32>,
    actions: VecDeque<Action>,
    timers: BinaryHeap<Reverse<(Nanos, u64, ConnId, Act)>>,
    seq: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Requests that arrived whole.
    pub requests: u64,
    /// Bytes that arrived.
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
    gone: usize,
    asked: bool,
    closing: bool,
}

impl<P: Plant> Server<P> {
    /// A server that answers by that law.
    pub fn new(plant: P) -> Self {
        Self { plant, yard: Yard::default() }
    }

    /// The law, with what it has counted.
    pub fn plant(&self) -> &P {
        &self.plant
    }

    /// The connections and counters.
    pub fn yard(&self) -> &Yard {
        &self.yard
    }

    fn perform(&mut self, id: ConnId, act: Act) {
        match act {
            Act::Send(bytes) => self.yard.send(id, &bytes),
            Act::Close => self.yard.close(id),
            Act::Reset => self.yard.reset(id),
            Act::Token(token) if self.yard.is_live(id) => {
                self.plant.token(id, token, &mut self.yard);
            }
            Act::Token(_) => {}
        }
    }
}

impl<P: Plant> Machine for Server<P> {
    fn on_connected(&mut self, id: ConnId, _: Nanos) {
        panic!("{id:?}: a server asks for no connection");
    }

    fn on_accepted(&mut self, _: u32, now: Nanos) -> Option<ConnId> {
        self.yard.now = now;
        let id = self.yard.open();
        self.plant.opened(id, &mut self.yard);
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.yard.now = now;
        self.yard.bytes_in += data.len() as u64;
        let Some(peer) = self.yard.peer(id) else { return };
        let mut parser = std::mem::take(&mut peer.parser);
        let mut index = peer.requests;
        parser.feed(data, false, |mark| {
            if let Mark::Ends { head, .. } = mark
                && self.yard.is_live(id)
            {
                self.yard.requests += 1;
                self.plant.request(id, index, head, &mut self.yard);
                index += 1;
            }
        });
        if let Some(peer) = self.yard.peer(id) {
            peer.parser = parser;
            peer.requests = index;
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.yard.now = now;
        match why {
            None => self.plant.ended(id, &mut self.yard),
            Some(_) => self.yard.end(id, CloseHow::Orderly),
        }
    }

    fn on_tick(&mut self, now: Nanos) {
        self.yard.now = now;
        while self.yard.timers.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, id, act))) = self.yard.timers.pop() else { break };
            self.perform(id, act);
        }
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.yard.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Some(peer) = self.yard.peer(id) else { return true };
        peer.asked = false;
        if peer.gone < peer.out.len() {
            peer.gone += send(&peer.out[peer.gone..]);
        }
        if peer.gone < peer.out.len() {
            return false;
        }
        peer.out.clear();
        peer.gone = 0;
        if peer.closing {
            self.yard.end(id, CloseHow::Orderly);
        }
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        self.yard.timers.peek().map(|Reverse((at, ..))| *at)
    }
}

impl Yard {
    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Do something to a connection at a moment, if it is then still there.
    pub fn at(&mut self, when: Nanos, id: ConnId, act: Act) {
        self.seq += 1;
        self.timers.push(Reverse((when, self.seq, id, act)));
    }

    /// Send bytes.
    pub fn send(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(peer) = self.peer(id).filter(|p| !p.closing) else { return };
        peer.out.extend_from_slice(bytes);
        if !std::mem::replace(&mut peer.asked, true) {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// Close when all is sent.
    pub fn close(&mut self, id: ConnId) {
        let Some(peer) = self.peer(id) else { return };
        peer.closing = true;
        if peer.out.is_empty() {
            self.end(id, CloseHow::Orderly);
        }
    }

    /// Reset at once.
    pub fn reset(&mut self, id: ConnId) {
        self.end(id, CloseHow::Reset);
    }

    /// Whether the connection is still there.
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
        // A transmit that was asked for may no longer name the id after the close.
        self.actions.retain(|a| *a != Action::Transmit { id });
        self.actions.push_back(Action::Close { id, how });
        self.free.push(id.slot);
    }
}
