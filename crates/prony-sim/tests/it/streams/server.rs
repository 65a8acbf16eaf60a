//! The other side of the carrier of streams: a server whose every choice follows from its seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};
use prony_sim::dice::Dice;

use super::carrier::{HEADER, Kind, frame, read};

/// How the server behaves.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    /// How long a stream's service takes.
    pub(crate) service: Span,
    /// Up to so much is added to it, and between the pieces of a reply.
    pub(crate) jitter: Span,
    /// Pieces of each reply.
    pub(crate) pieces: u32,
    /// Nothing goes on in this time.
    pub(crate) freeze: Option<(Nanos, Span)>,
    /// The most streams at once, one limit after the other, each for `limit_for`; then the last.
    pub(crate) limits: Vec<u32>,
    pub(crate) limit_for: Span,
    /// Bytes of bodies that may come before they are acknowledged, which takes so long.
    pub(crate) window: u32,
    pub(crate) window_takes: Span,
    /// Probabilities of a stream's fates: refused, failed, never answered.
    pub(crate) refuses: f64,
    pub(crate) fails: f64,
    pub(crate) silent: f64,
    /// After how many streams a connection drains.
    pub(crate) drains_after: Option<u32>,
    /// How often it pings.
    pub(crate) ping: Option<Span>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            service: Span::from_millis(1),
            jitter: Span::ZERO,
            pieces: 1,
            freeze: None,
            limits: vec![u32::MAX],
            limit_for: Span::from_millis(20),
            window: u32::MAX,
            window_takes: Span::ZERO,
            refuses: 0.0,
            fails: 0.0,
            silent: 0.0,
            drains_after: None,
            ping: None,
        }
    }
}

/// What it has seen and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) connections: u64,
    pub(crate) opened: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) silent: u64,
    pub(crate) cancelled: u64,
    pub(crate) drained: u64,
    pub(crate) pinged: u64,
    pub(crate) pongs: u64,
    pub(crate) pings: u64,
    /// Bytes of bodies that came.
    pub(crate) body: u64,
    /// The most streams that one connection had at once.
    pub(crate) most: usize,
    /// Streams by connection.
    pub(crate) streams: Vec<u64>,
}

pub(crate) struct Loom {
    manner: Manner,
    dice: Dice,
    conns: Vec<Peer>,
    free: Vec<u32>,
    events: BinaryHeap<Reverse<(Nanos, u64, ConnId, Event)>>,
    seq: u64,
    actions: VecDeque<Action>,
    pub(crate) account: Account,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Piece(u32, u32),
    Limit(usize),
    Window(u32),
    Ping,
}

#[derive(Debug, Default)]
struct Peer {
    is_open: bool,
    generation: u32,
    /// Which connection it is, of all.
    number: usize,
    stash: Vec<u8>,
    out: Vec<u8>,
    taken: usize,
    streams: Vec<u32>,
    opened: u32,
    drains: bool,
    ended: bool,
    asked: bool,
}

impl Loom {
    pub(crate) fn new(manner: Manner, seed: u64) -> Self {
        Self {
            manner,
            dice: Dice::new(seed, 77),
            conns: Vec::new(),
            free: Vec::new(),
            events: BinaryHeap::new(),
            seq: 0,
            actions: VecDeque::new(),
            account: Account::default(),
        }
    }

    fn at(&mut self, at: Nanos, id: ConnId, event: Event) {
        let at = match self.manner.freeze {
            Some((from, length)) if at >= from && at < from + length => from + length,
            _ => at,
        };
        self.seq += 1;
        self.events.push(Reverse((at, self.seq, id, event)));
    }

    fn is_live(&self, id: ConnId) -> bool {
        let peer = self.conns.get(id.slot as usize);
        peer.is_some_and(|p| p.is_open && p.generation == id.generation)
    }

    fn send(&mut self, id: ConnId, kind: Kind, number: u32, payload: &[u8]) {
        let peer = &mut self.conns[id.slot as usize];
        frame(&mut peer.out, kind, number, payload);
        if !std::mem::replace(&mut peer.asked, true) {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    fn take(&mut self, id: ConnId, kind: Kind, number: u32, payload: &[u8], now: Nanos) {
        let slot = id.slot as usize;
        match kind {
            Kind::Hello => {
                let window = self.manner.window;
                self.send(id, Kind::Window, window, &[]);
                self.happens(id, Event::Limit(0), now);
                if self.manner.ping.is_some() {
                    self.happens(id, Event::Ping, now);
                }
            }
            Kind::Open => self.open(id, number),
            Kind::Data => {
                self.account.body += payload.len() as u64;
                let at = now + self.manner.window_takes;
                self.at(at, id, Event::Window(payload.len() as u32));
            }
            Kind::Close if self.conns[slot].streams.contains(&number) => {
                self.serve(id, number, now);
            }
            Kind::Close => {}
            Kind::Cancel => {
                self.account.cancelled += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.leave_if_done(id);
            }
            Kind::Ping => {
                self.account.pings += 1;
                self.send(id, Kind::Pong, 0, &[]);
            }
            Kind::Pong => self.account.pongs += 1,
            _ => panic!("a client sends no {kind:?}"),
        }
    }

    fn open(&mut self, id: ConnId, number: u32) {
        let peer = &mut self.conns[id.slot as usize];
        self.account.opened += 1;
        self.account.streams[peer.number] += 1;
        if peer.drains || self.dice.chance(self.manner.refuses) {
            self.account.refused += 1;
            self.send(id, Kind::Refused, number, &[]);
            return;
        }
        peer.streams.push(number);
        peer.opened += 1;
        self.account.most = self.account.most.max(peer.streams.len());
        if self.manner.drains_after == Some(peer.opened) {
            peer.drains = true;
            self.account.drained += 1;
            self.send(id, Kind::Drain, 0, &[]);
        }
    }

    /// The whole request is here.
    fn serve(&mut self, id: ConnId, number: u32, now: Nanos) {
        if self.dice.chance(self.manner.silent) {
            self.account.silent += 1;
            return;
        }
        let at = now + self.manner.service + self.dice.up_to(self.manner.jitter);
        if self.dice.chance(self.manner.fails) {
            self.at(at, id, Event::Piece(number, u32::MAX));
        } else {
            self.at(at, id, Event::Piece(number, 1));
        }
    }

    fn happens(&mut self, id: ConnId, event: Event, now: Nanos) {
        let slot = id.slot as usize;
        match event {
            Event::Piece(number, _) if !self.conns[slot].streams.contains(&number) => {}
            Event::Piece(number, u32::MAX) => {
                self.account.failed += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.send(id, Kind::Failed, number, &[]);
                self.leave_if_done(id);
            }
            Event::Piece(number, n) if n < self.manner.pieces => {
                self.send(id, Kind::Data, number, b"a piece");
                let at = now + self.dice.up_to(self.manner.jitter);
                self.at(at, id, Event::Piece(number, n + 1));
            }
            Event::Piece(number, _) => {
                self.account.answered += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.send(id, Kind::End, number, &[]);
                self.leave_if_done(id);
            }
            Event::Limit(i) => {
                let limit = self.manner.limits[i];
                self.send(id, Kind::Limit, limit, &[]);
                if i + 1 < self.manner.limits.len() {
                    self.at(now + self.manner.limit_for, id, Event::Limit(i + 1));
                }
            }
            Event::Window(n) => self.send(id, Kind::Window, n, &[]),
            Event::Ping => {
                self.account.pinged += 1;
                self.send(id, Kind::Ping, 0, &[]);
                let every = self.manner.ping.expect("it pings");
                self.at(now + every, id, Event::Ping);
            }
        }
    }

    /// A connection that drains ends when its last stream has.
    fn leave_if_done(&mut self, id: ConnId) {
        let peer = &self.conns[id.slot as usize];
        if (peer.drains || peer.ended) && peer.streams.is_empty() && peer.out.is_empty() {
            self.close(id);
        }
    }

    fn close(&mut self, id: ConnId) {
        let peer = &mut self.conns[id.slot as usize];
        *peer = Peer { generation: peer.generation.wrapping_add(1), ..Peer::default() };
        self.free.push(id.slot);
        self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
    }
}

impl Machine for Loom {
    fn on_connected(&mut self, _: ConnId, _: Nanos) {}

    fn on_accepted(&mut self, _: u32, _: Nanos) -> Option<ConnId> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Peer::default());
            self.conns.len() as u32 - 1
        });
        let peer = &mut self.conns[slot as usize];
        (peer.is_open, peer.number) = (true, self.account.streams.len());
        self.account.streams.push(0);
        self.account.connections += 1;
        Some(ConnId { slot, generation: peer.generation })
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        if !self.is_live(id) {
            return;
        }
        let mut stash = std::mem::take(&mut self.conns[id.slot as usize].stash);
        stash.extend_from_slice(data);
        let mut at = 0;
        while self.is_live(id)
            && let Some((kind, number, payload)) = read(&stash[at..]).expect("frames")
        {
            at += HEADER + payload.len();
            self.take(id, kind, number, payload, now);
        }
        if self.is_live(id) {
            stash.drain(..at);
            self.conns[id.slot as usize].stash = stash;
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _: Nanos) {
        if !self.is_live(id) {
            return;
        }
        self.conns[id.slot as usize].ended = true;
        // The client ends a connection that it needs no more.
        let _ = why;
        self.close(id);
    }

    fn on_tick(&mut self, now: Nanos) {
        while let Some(&Reverse((at, _, id, event))) = self.events.peek()
            && at <= now
        {
            self.events.pop();
            if self.is_live(id) {
                self.happens(id, event, now);
            }
        }
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        if !self.is_live(id) {
            return true;
        }
        let peer = &mut self.conns[id.slot as usize];
        while peer.taken < peer.out.len() {
            let n = send(&peer.out[peer.taken..]);
            peer.taken += n;
            if n == 0 {
                return false;
            }
        }
        peer.out.clear();
        (peer.taken, peer.asked) = (0, false);
        self.leave_if_done(id);
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        // What is due on connections that are gone calls nobody.
        self.events.iter().filter(|e| self.is_live(e.0.2)).map(|e| e.0.0).min()
    }
}
