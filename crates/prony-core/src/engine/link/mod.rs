//! The connections of the client: their state, the exchanges on them, sending and receiving, and
//! how they end. Knows nothing of sessions.

mod alone;
mod body;
mod carried;
mod closing;
mod depth;
mod give;
mod loss;
mod messages;
mod opening;
mod receive;
mod reopen;
mod send;
mod sink;
mod streams;
mod tap;
#[cfg(test)]
mod tests;
mod timeout;
mod tls;
mod trail;
mod tunnel;

use std::collections::VecDeque;

use super::exchange::{Exchanges, New};
use carried::Carried;
pub(super) use closing::Closing;
pub(super) use depth::Depths;
use prony_base::units::{ConnId, Nanos, Span};
use prony_proto::layer::Layer;
use prony_proto::proto::{Begin, BodyRest};
pub(super) use tap::Tapped;
pub use tap::{Tap, Taps};
pub(super) use tls::Secure;
pub(super) use trail::Trails;

/// No connection has this slot.
pub(super) const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The slot is free.
    Free,
    Connecting,
    /// Open, but the tunnel through the proxy is not.
    Tunneling,
    /// Open, but its TLS handshake is not complete.
    Securing,
    /// Open, with TLS if the plan wants it, but the carrier's opening exchange is not complete.
    Opening,
    Open,
}

/// One connection. Idle ones own no buffers.
#[derive(Debug)]
pub(super) struct Conn<C> {
    state: State,
    generation: u32,
    /// Its connect is queued.
    connect_queued: bool,
    /// The driver was asked to connect.
    asked: bool,
    endpoint: u32,
    /// The group of users (closed loop) or the session that it belongs to.
    owner: u32,
    carried: Carried,
    /// Its exchanges may be sent again on another connection although this one has received no
    /// reply.
    resend_allowed: bool,
    /// The driver was asked to take its output.
    transmit_queued: bool,
    connect_began: Nanos,
    /// When it opened; meaningless before.
    opened: Nanos,
    /// When its opening exchange last made progress; meaningless before.
    last_progress: Nanos,
    layer: Layer,
    carrier: C,
    /// Received bytes that the carrier could not use yet.
    stash: Vec<u8>,
    /// Encoded bytes that the kernel has not accepted yet, and the rest of a body from a file.
    tail: Option<Box<Tail>>,
}

/// Output that did not fit into the socket, or is still in a file.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    /// How many of them the kernel has accepted since.
    taken: usize,
    /// The first position in `bytes` where a frame of the carrier starts, if that matters.
    unit: usize,
    /// Where in `bytes` exchanges start whose first byte the kernel has not accepted, oldest first.
    begins: VecDeque<Begin>,
    /// Ends of the pieces that are given to the kernel one by one.
    cuts: VecDeque<usize>,
    /// The body inside which they end.
    body: Option<BodyRest>,
}

/// The table of connections. The most recently freed slot is reused first, so that the table stays
/// small and in the cache.
#[derive(Debug)]
pub(super) struct Links<C> {
    slots: Vec<Conn<C>>,
    free: Vec<u32>,
    /// How many slots belong to connections that are closed after their last bytes.
    reserved: usize,
    /// When the slot's timer fires; `Nanos::MAX` if it is not set. Belongs to the slot and not to
    /// the connection, so that short-lived connections leave no stale timers.
    armed: Vec<Nanos>,
}

impl<C: Default> Links<C> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            reserved: 0,
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
        self.vacate(slot);
        self.free.push(slot);
    }

    /// The connection is gone, but its slot is not free yet.
    fn reserve(&mut self, slot: u32) {
        self.vacate(slot);
        self.reserved += 1;
    }

    /// Free a reserved slot.
    fn give_back(&mut self, slot: u32) {
        self.reserved -= 1;
        self.free.push(slot);
    }

    fn vacate(&mut self, slot: u32) {
        let conn = &mut self.slots[slot as usize];
        assert!(conn.state != State::Free && conn.carried.is_empty());
        *conn = Conn { generation: conn.generation.wrapping_add(1), ..Conn::vacant() };
    }

    /// Whether the id is current.
    #[inline]
    pub(super) fn live(&self, id: ConnId) -> bool {
        self.slots.get(id.slot as usize).is_some_and(|c| c.is(id))
    }

    /// The slot's connection, if the id is current.
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
        self.slots.len() - self.free.len() - self.reserved
    }

    /// All slots in use.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|&s| self[s].state != State::Free)
    }

    /// The connection's endpoint and owner: a group of users, or a session.
    #[inline]
    pub(super) fn of(&self, slot: u32) -> (u32, u32) {
        (self[slot].endpoint, self[slot].owner)
    }

    /// Whether it can carry requests now.
    #[inline]
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self[slot].state == State::Open
    }

    /// Whether another connection than this one has existed, or was being opened, for this time.
    pub(super) fn any_for(&self, time: Span, now: Nanos, other_than: u32) -> bool {
        let is_old = |slot: u32| self[slot].asked && now.since(self[slot].connect_began) >= time;
        self.used().any(|slot| slot != other_than && is_old(slot))
    }

    /// How many of its exchanges have not ended.
    #[inline]
    pub(super) fn in_flight(&self, slot: u32) -> u32 {
        self[slot].carried.len()
    }

    /// How many replies it has received.
    #[inline]
    pub(super) fn served(&self, slot: u32) -> u64 {
        self[slot].carried.served
    }

    /// How many replies it has received, and when its connect began.
    #[inline]
    pub(super) fn life(&self, slot: u32) -> (u64, Nanos) {
        (self[slot].carried.served, self[slot].connect_began)
    }

    /// Whether its peer accepts more exchanges on it.
    #[inline]
    pub(super) fn carries(&self, slot: u32) -> bool {
        !self[slot].carried.is_spent()
    }

    /// Give the connection no more requests, so that it makes room for another one.
    pub(super) fn leave_to_others(&mut self, slot: u32) {
        self[slot].carried.drains = true;
    }

    /// Its connect is queued.
    pub(super) fn connect_is_queued(&mut self, slot: u32) {
        self[slot].connect_queued = true;
    }

    /// Start requests on the connection. The caller must then call `given` with their number.
    #[inline(always)]
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

    /// The driver takes its output now, and must be asked again for more. Returns `None` if the
    /// connection is gone.
    #[inline]
    pub(super) fn output_taken(&mut self, id: ConnId) -> Option<()> {
        self.get_mut(id).map(|conn| conn.transmit_queued = false)
    }

    /// The driver is asked to connect now. Returns when the connection was requested, or `None`
    /// if it is gone.
    pub(super) fn connect_taken(&mut self, id: ConnId) -> Option<Nanos> {
        self.get_mut(id).map(|conn| {
            conn.asked = true;
            conn.connect_began
        })
    }

    /// Whether the timer that has fired is the slot's current one, and not a stale entry.
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
    /// Whether the carrier may send now.
    #[inline]
    fn can_send(&self) -> bool {
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
            connect_queued: false,
            asked: false,
            endpoint: 0,
            owner: NOBODY,
            carried: Carried::nothing(),
            resend_allowed: false,
            transmit_queued: false,
            connect_began: Nanos::ZERO,
            opened: Nanos::ZERO,
            last_progress: Nanos::ZERO,
            layer: Layer::default(),
            carrier: C::default(),
            stash: Vec::new(),
            tail: None,
        }
    }
}
