//! The client's connections: how far each has come, what it carries, what it sends and receives,
//! and how it ends. Knows no session.

mod carried;
mod depth;
mod give;
mod loss;
mod opening;
mod receive;
mod send;
mod sink;
mod streams;
mod tap;
#[cfg(test)]
mod tests;
mod timeout;
mod tls;
mod trail;

use std::collections::VecDeque;

use super::exchange::{Exchanges, New};
use crate::layer::Layer;
use crate::proto::Begin;
use crate::units::{ConnId, Nanos};
use carried::Carried;
pub(super) use depth::Depths;
pub(super) use send::OUT_CHUNK;
pub use tap::Tap;
pub(super) use tap::Tapped;
pub(super) use tls::Secure;
pub(super) use trail::Trails;

/// No connection has that slot.
pub(super) const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The slot is free.
    Free,
    Connecting,
    /// Open, but its TLS handshake is not done.
    Securing,
    /// Open and, if it is to be, secured, but the carrier's opening exchange is not over.
    Opening,
    Open,
}

/// One connection. Idle ones own no buffers.
#[derive(Debug)]
pub(super) struct Conn<C> {
    state: State,
    generation: u32,
    /// It waits for its turn to be opened.
    in_line: bool,
    /// The driver was asked for it.
    asked: bool,
    endpoint: u32,
    /// The lane (closed loop) or the session that it serves.
    owner: u32,
    carried: Carried,
    /// What it carries may go elsewhere although it has brought no reply.
    excused: bool,
    /// The driver is asked to take its output.
    transmit_queued: bool,
    connect_began: Nanos,
    /// When it opened; meaningless before.
    opened: Nanos,
    /// When its opening exchange last came on; meaningless before.
    came_on: Nanos,
    layer: Layer,
    carrier: C,
    /// Received bytes that the carrier could not use yet.
    stash: Vec<u8>,
    /// Encoded bytes that the kernel has not taken yet.
    tail: Option<Box<Tail>>,
}

/// What did not fit into the socket.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    /// How many of them were taken since.
    taken: usize,
    /// Where in `bytes` the exchanges begin whose first byte was not taken, oldest first.
    begins: VecDeque<Begin>,
    /// What is offered to the kernel by itself ends at these places.
    cuts: VecDeque<usize>,
}

/// The table. A slot is used again, last freed first, so that the table stays small and warm.
#[derive(Debug)]
pub(super) struct Links<C> {
    slots: Vec<Conn<C>>,
    free: Vec<u32>,
    /// When the slot's timer stands in the agenda; `Nanos::MAX`: not at all. Belongs to the slot
    /// and not to the connection, so that short-lived connections leave nothing behind there.
    armed: Vec<Nanos>,
}

impl<C: Default> Links<C> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            armed: Vec::with_capacity(capacity),
        }
    }

    /// A new connection, connecting.
    pub(super) fn insert(&mut self, endpoint: u32, owner: u32, now: Nanos) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Conn::vacant());
            self.armed.push(Nanos::MAX);
            self.slots.len() as u32 - 1
        });
        let conn = &mut self.slots[slot as usize];
        assert!(conn.state == State::Free && conn.carried.is_empty());
        conn.state = State::Connecting;
        conn.endpoint = endpoint;
        conn.owner = owner;
        conn.connect_began = now;
        ConnId { slot, generation: conn.generation }
    }

    /// Free the slot.
    fn remove(&mut self, slot: u32) {
        let conn = &mut self.slots[slot as usize];
        assert!(conn.state != State::Free && conn.carried.is_empty());
        *conn = Conn { generation: conn.generation.wrapping_add(1), ..Conn::vacant() };
        self.free.push(slot);
    }

    /// Whether the id is not stale.
    #[inline]
    pub(super) fn live(&self, id: ConnId) -> bool {
        self.slots.get(id.slot as usize).is_some_and(|c| c.is(id))
    }

    /// The slot's connection if the id is not stale.
    #[inline]
    fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn<C>> {
        self.slots.get_mut(id.slot as usize).filter(|c| c.is(id))
    }

    fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self[slot].generation }
    }

    /// Connections that are open or being opened.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All slots in use.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|&s| self[s].state != State::Free)
    }

    /// The connection's endpoint, and whom it serves: a lane, or a session.
    #[inline]
    pub(super) fn of(&self, slot: u32) -> (u32, u32) {
        (self[slot].endpoint, self[slot].owner)
    }

    /// Whether it can carry requests now.
    #[inline]
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self[slot].state == State::Open
    }

    /// How many exchanges it was given that have not ended.
    #[inline]
    pub(super) fn in_flight(&self, slot: u32) -> u32 {
        self[slot].carried.len()
    }

    /// How many replies it has brought.
    #[inline]
    pub(super) fn served(&self, slot: u32) -> u64 {
        self[slot].carried.served
    }

    /// Whether its peer takes further exchanges on it.
    #[inline]
    pub(super) fn carries(&self, slot: u32) -> bool {
        !self[slot].carried.is_spent()
    }

    /// It waits for its turn to be opened.
    pub(super) fn waits_for_turn(&mut self, slot: u32) {
        self[slot].in_line = true;
    }

    /// Requests begin on the connection, which is then to be `given` their number.
    #[inline]
    pub(super) fn begin_on(
        &mut self,
        slot: u32,
        exchanges: &mut Exchanges,
        new: impl Iterator<Item = New>,
    ) {
        let carried = &mut self[slot].carried;
        for new in new {
            carried.begin(exchanges, new);
        }
    }

    /// The driver takes its output now: it is to be asked again for the next. `None`: it is gone.
    #[inline]
    pub(super) fn output_taken(&mut self, id: ConnId) -> Option<()> {
        self.get_mut(id).map(|conn| conn.transmit_queued = false)
    }

    /// The driver is asked for it now: since when it was wanted. `None`: it is gone.
    pub(super) fn is_asked_for(&mut self, id: ConnId) -> Option<Nanos> {
        self.get_mut(id).map(|conn| {
            conn.asked = true;
            conn.connect_began
        })
    }

    /// Whether the timer of the slot that has fired is the one that stands.
    #[inline]
    pub(super) fn disarm(&mut self, slot: u32, at: Nanos) -> bool {
        let armed = &mut self.armed[slot as usize];
        let is_it = *armed == at;
        if is_it {
            *armed = Nanos::MAX;
        }
        is_it
    }
}

impl<C> std::ops::Index<u32> for Links<C> {
    type Output = Conn<C>;
    #[inline]
    fn index(&self, slot: u32) -> &Conn<C> {
        &self.slots[slot as usize]
    }
}

impl<C> std::ops::IndexMut<u32> for Links<C> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Conn<C> {
        &mut self.slots[slot as usize]
    }
}

impl<C> Conn<C> {
    /// Whether the carrier may send something.
    #[inline]
    fn speaks(&self) -> bool {
        matches!(self.state, State::Open | State::Opening)
    }

    #[inline]
    fn is(&self, id: ConnId) -> bool {
        self.generation == id.generation && self.state != State::Free
    }
}

impl<C: Default> Conn<C> {
    fn vacant() -> Self {
        Self {
            state: State::Free,
            generation: 0,
            in_line: false,
            asked: false,
            endpoint: 0,
            owner: NOBODY,
            carried: Carried::nothing(),
            excused: false,
            transmit_queued: false,
            connect_began: Nanos::ZERO,
            opened: Nanos::ZERO,
            came_on: Nanos::ZERO,
            layer: Layer::default(),
            carrier: C::default(),
            stash: Vec::new(),
            tail: None,
        }
    }
}
