//! The client's connections: a table of slots, and what each connection has in flight.

use std::collections::VecDeque;

use super::flight::{BodyMatch, Flight};
use crate::layer::Layer;
use crate::script::Capture;
use crate::units::{ConnId, Nanos};

/// No slot, no position, no lane.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    Connecting,
    /// Open, but its TLS handshake is not done.
    Securing,
    /// Open and, if it is to be, secured, but the protocol's greeting is not done.
    Greeting,
    Open,
}

/// Which list of its pool an open-loop connection stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    No,
    /// Nothing in flight.
    Idle,
    /// Something in flight, but room for more.
    Roomy,
}

/// One connection. Idle ones own no buffers beyond the small ring of flights.
#[derive(Debug)]
pub(super) struct Conn<C> {
    pub(super) state: State,
    pub(super) generation: u32,
    /// It waits for its turn to be opened.
    pub(super) in_line: bool,
    /// The driver was asked for it.
    pub(super) asked: bool,
    pub(super) endpoint: u32,
    /// The lane (closed loop) or the session that it serves.
    pub(super) lane: u32,
    /// What it was asked to carry and has not answered, oldest first.
    pub(super) flights: VecDeque<Flight>,
    /// How many of the flights, from the oldest on, have had their first byte taken by the kernel.
    pub(super) sent: u32,
    /// How many requests it was ever given.
    pub(super) given: u64,
    /// How many replies it has brought.
    pub(super) served: u64,
    /// What it carries may go elsewhere although it has brought no reply.
    pub(super) excused: bool,
    /// No further request may be given to it: the peer closes it, or its number of requests is used
    /// up.
    pub(super) retired: bool,
    /// `Action::Transmit` stands in the queue.
    pub(super) transmit_queued: bool,
    pub(super) listed: Listed,
    pub(super) position: u32,
    pub(super) connect_began: Nanos,
    /// When it opened; meaningless before.
    pub(super) opened: Nanos,
    /// When its greeting last came on, and how often it was tried again since; meaningless before.
    pub(super) greeted: Nanos,
    pub(super) greet_tries: u32,
    pub(super) body: BodyMatch,
    /// What is kept of the reply that is coming in.
    pub(super) capture: Option<Box<Capture>>,
    pub(super) layer: Layer,
    pub(super) proto: C,
    /// Received bytes that the protocol could not use yet.
    pub(super) stash: Vec<u8>,
    /// Encoded bytes that the kernel has not taken yet.
    pub(super) tail: Option<Box<Tail>>,
}

/// What did not fit into the socket.
#[derive(Debug, Default)]
pub(super) struct Tail {
    pub(super) bytes: Vec<u8>,
    /// How many of them were taken since.
    pub(super) taken: usize,
    /// Where in `bytes` the requests begin whose first byte was not taken, oldest first.
    pub(super) starts: VecDeque<usize>,
}

/// The table. A slot is used again, last freed first, so that the table stays small and warm.
#[derive(Debug)]
pub(super) struct Table<C> {
    slots: Vec<Conn<C>>,
    free: Vec<u32>,
    /// When the slot's timer stands in the heap; `Nanos::MAX`: not at all. Belongs to the slot and
    /// not to the connection, so that short-lived connections leave nothing behind in the heap.
    pub(super) armed: Vec<Nanos>,
}

impl<C: Default> Table<C> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            armed: Vec::with_capacity(capacity),
        }
    }

    /// A new connection, connecting.
    pub(super) fn insert(&mut self, endpoint: u32, lane: u32, now: Nanos) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Conn::vacant());
            self.armed.push(Nanos::MAX);
            self.slots.len() as u32 - 1
        });
        let conn = &mut self.slots[slot as usize];
        assert!(conn.state == State::Free && conn.flights.is_empty());
        conn.state = State::Connecting;
        conn.endpoint = endpoint;
        conn.lane = lane;
        conn.connect_began = now;
        ConnId { slot, generation: conn.generation }
    }

    /// Free the slot; everything but the memory of its ring goes.
    pub(super) fn remove(&mut self, slot: u32) {
        let conn = &mut self.slots[slot as usize];
        assert!(conn.state != State::Free && conn.flights.is_empty());
        assert!(conn.listed == Listed::No);
        let flights = std::mem::take(&mut conn.flights);
        let generation = conn.generation.wrapping_add(1);
        *conn = Conn { flights, generation, ..Conn::vacant() };
        self.free.push(slot);
    }

    /// Whether the id is not stale.
    #[inline]
    pub(super) fn live(&self, id: ConnId) -> bool {
        self.slots.get(id.slot as usize).is_some_and(|c| c.is(id))
    }

    /// The slot's connection if the id is not stale.
    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn<C>> {
        self.slots.get_mut(id.slot as usize).filter(|c| c.is(id))
    }

    pub(super) fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self[slot].generation }
    }

    /// Connections that are open or being opened.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All slots in use.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|&s| self[s].state != State::Free)
    }
}

impl<C> std::ops::Index<u32> for Table<C> {
    type Output = Conn<C>;
    #[inline]
    fn index(&self, slot: u32) -> &Conn<C> {
        &self.slots[slot as usize]
    }
}

impl<C> std::ops::IndexMut<u32> for Table<C> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Conn<C> {
        &mut self.slots[slot as usize]
    }
}

impl<C> Conn<C> {
    #[inline]
    fn is(&self, id: ConnId) -> bool {
        self.generation == id.generation && self.state != State::Free
    }
}

impl<C: Default> Conn<C> {
    pub(super) fn vacant() -> Self {
        Self {
            state: State::Free,
            generation: 0,
            in_line: false,
            asked: false,
            endpoint: 0,
            lane: NONE,
            flights: VecDeque::new(),
            sent: 0,
            given: 0,
            served: 0,
            excused: false,
            retired: false,
            transmit_queued: false,
            listed: Listed::No,
            position: NONE,
            connect_began: Nanos::ZERO,
            opened: Nanos::ZERO,
            greeted: Nanos::ZERO,
            greet_tries: 0,
            body: BodyMatch::default(),
            capture: None,
            layer: Layer::default(),
            proto: C::default(),
            stash: Vec::new(),
            tail: None,
        }
    }
}
