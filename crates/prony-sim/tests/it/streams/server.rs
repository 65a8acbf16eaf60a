//! The server for the carrier of streams. Its seed determines all of its choices.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use prony_sim::rng::Rng;

use super::carrier::{HEADER, Kind, frame, read};

/// How the server behaves.
#[derive(Clone, Debug)]
pub(crate) struct StreamBehavior {
    /// The service time of a stream.
    pub(crate) service: Span,
    /// The maximum of a uniform random addition to the service time, and of the time between the
    /// pieces of a reply.
    pub(crate) jitter: Span,
    /// The number of pieces of each reply.
    pub(crate) pieces: u32,
    /// Start and length of a freeze, in which the server does nothing.
    pub(crate) freeze: Option<(Nanos, Span)>,
    /// The limits of concurrent streams, one after the other, each for `limit_for`; then the last.
    pub(crate) limits: Vec<u32>,
    pub(crate) limit_for: Span,
    /// Bytes of bodies that a client may send before they are acknowledged, and the time until the
    /// server acknowledges them.
    pub(crate) window: u32,
    pub(crate) window_takes: Span,
    /// The probabilities that a stream is refused, fails, or gets no reply.
    pub(crate) refuses: f64,
    pub(crate) fails: f64,
    pub(crate) silent: f64,
    /// The number of streams after which a connection drains.
    pub(crate) drains_after: Option<u32>,
    /// The interval of the server's pings.
    pub(crate) ping: Option<Span>,
}

impl Default for StreamBehavior {
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

/// The server's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamCounters {
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
    /// Bytes of bodies received.
    pub(crate) body: u64,
    /// The maximum number of concurrent streams on a connection.
    pub(crate) most: usize,
    /// The number of streams on each connection.
    pub(crate) streams: Vec<u64>,
}

pub(crate) struct StreamServer {
    behavior: StreamBehavior,
    rng: Rng,
    conns: Vec<Peer>,
    free: Vec<u32>,
    events: BinaryHeap<Reverse<(Nanos, u64, ConnId, Event)>>,
    seq: u64,
    actions: VecDeque<Action>,
    pub(crate) counters: StreamCounters,
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
    /// The number of the connection.
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

impl StreamServer {
    pub(crate) fn new(behavior: StreamBehavior, seed: u64) -> Self {
        Self {
            behavior,
            rng: Rng::new(seed, 77),
            conns: Vec::new(),
            free: Vec::new(),
            events: BinaryHeap::new(),
            seq: 0,
            actions: VecDeque::new(),
            counters: StreamCounters::default(),
        }
    }

    fn at(&mut self, at: Nanos, id: ConnId, event: Event) {
        let at = match self.behavior.freeze {
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
                let window = self.behavior.window;
                self.send(id, Kind::Window, window, &[]);
                self.on_event(id, Event::Limit(0), now);
                if self.behavior.ping.is_some() {
                    self.on_event(id, Event::Ping, now);
                }
            }
            Kind::Open => self.open(id, number),
            Kind::Data => {
                self.counters.body += payload.len() as u64;
                let at = now + self.behavior.window_takes;
                self.at(at, id, Event::Window(payload.len() as u32));
            }
            Kind::Close if self.conns[slot].streams.contains(&number) => {
                self.serve(id, number, now);
            }
            Kind::Close => {}
            Kind::Cancel => {
                self.counters.cancelled += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.close_if_done(id);
            }
            Kind::Ping => {
                self.counters.pings += 1;
                self.send(id, Kind::Pong, 0, &[]);
            }
            Kind::Pong => self.counters.pongs += 1,
            _ => panic!("a client sends no {kind:?}"),
        }
    }

    fn open(&mut self, id: ConnId, number: u32) {
        let peer = &mut self.conns[id.slot as usize];
        self.counters.opened += 1;
        self.counters.streams[peer.number] += 1;
        if peer.drains || self.rng.chance(self.behavior.refuses) {
            self.counters.refused += 1;
            self.send(id, Kind::Refused, number, &[]);
            return;
        }
        peer.streams.push(number);
        peer.opened += 1;
        self.counters.most = self.counters.most.max(peer.streams.len());
        if self.behavior.drains_after == Some(peer.opened) {
            peer.drains = true;
            self.counters.drained += 1;
            self.send(id, Kind::Drain, 0, &[]);
        }
    }

    /// Serve a complete request.
    fn serve(&mut self, id: ConnId, number: u32, now: Nanos) {
        if self.rng.chance(self.behavior.silent) {
            self.counters.silent += 1;
            return;
        }
        let at = now + self.behavior.service + self.rng.up_to(self.behavior.jitter);
        if self.rng.chance(self.behavior.fails) {
            self.at(at, id, Event::Piece(number, u32::MAX));
        } else {
            self.at(at, id, Event::Piece(number, 1));
        }
    }

    fn on_event(&mut self, id: ConnId, event: Event, now: Nanos) {
        let slot = id.slot as usize;
        match event {
            Event::Piece(number, _) if !self.conns[slot].streams.contains(&number) => {}
            Event::Piece(number, u32::MAX) => {
                self.counters.failed += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.send(id, Kind::Failed, number, &[]);
                self.close_if_done(id);
            }
            Event::Piece(number, n) if n < self.behavior.pieces => {
                self.send(id, Kind::Data, number, b"a piece");
                let at = now + self.rng.up_to(self.behavior.jitter);
                self.at(at, id, Event::Piece(number, n + 1));
            }
            Event::Piece(number, _) => {
                self.counters.answered += 1;
                self.conns[slot].streams.retain(|&s| s != number);
                self.send(id, Kind::End, number, &[]);
                self.close_if_done(id);
            }
            Event::Limit(i) => {
                let limit = self.behavior.limits[i];
                self.send(id, Kind::Limit, limit, &[]);
                if i + 1 < self.behavior.limits.len() {
                    self.at(now + self.behavior.limit_for, id, Event::Limit(i + 1));
                }
            }
            Event::Window(n) => self.send(id, Kind::Window, n, &[]),
            Event::Ping => {
                self.counters.pinged += 1;
                self.send(id, Kind::Ping, 0, &[]);
                let every = self.behavior.ping.expect("it pings");
                self.at(now + every, id, Event::Ping);
            }
        }
    }

    /// Close a draining connection after its last stream.
    fn close_if_done(&mut self, id: ConnId) {
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

impl Machine for StreamServer {
    fn on_connected(&mut self, _: ConnId, _: Nanos) {}

    fn on_accepted(&mut self, _: u32, _: Nanos) -> Option<ConnId> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Peer::default());
            self.conns.len() as u32 - 1
        });
        let peer = &mut self.conns[slot as usize];
        (peer.is_open, peer.number) = (true, self.counters.streams.len());
        self.counters.streams.push(0);
        self.counters.connections += 1;
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
        // The client closes a connection that it no longer needs.
        let _ = why;
        self.close(id);
    }

    fn on_tick(&mut self, now: Nanos) {
        while let Some(&Reverse((at, _, id, event))) = self.events.peek()
            && at <= now
        {
            self.events.pop();
            if self.is_live(id) {
                self.on_event(id, event, now);
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
        self.close_if_done(id);
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        // Events of closed connections are ignored.
        self.events.iter().filter(|e| self.is_live(e.0.2)).map(|e| e.0.0).min()
    }
}
