//! The exchanges that have begun and not ended, and the slab of all of them.
//! What is expected of replies, what reads their bodies, what sessions take from them. Knows no
//! socket.

mod content;
pub(super) mod expect;
pub(super) mod outcome;
pub(super) mod script;

use crate::record::Stamps;
use crate::script::Capture;
use crate::units::{Nanos, RequestId, Span};

use content::BodyMatch;

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// The owner of a request that an open-loop schedule wants.
pub(super) const NOBODY: u32 = u32::MAX;

/// A request from its intended start to its end.
#[derive(Debug)]
pub(super) struct Exchange {
    generation: u32,
    /// Neighbours in the list in which it stands; `next` also in that of the free places.
    prev: u32,
    next: u32,
    /// Where it stands.
    at: At,
    /// Its intended start.
    intended: Nanos,
    /// When its first byte was given to the kernel; meaningless before.
    sent: Nanos,
    /// When the first byte of its reply came; `Nanos::MAX` before.
    first: Nanos,
    /// Waits are accounted for up to here.
    waits_until: Nanos,
    /// Waited for a connection or for room on one.
    queue: Span,
    /// Waited for the connection that was opened for it.
    connect: Span,
    /// Waited on an open connection for the peer's limit of streams.
    stream: Span,
    /// Waited for the peer's permission to send more of it.
    window: Span,
    /// Index into the plan's calls.
    call: u32,
    /// Who wants it: the user of a closed loop, the session; [`NOBODY`] in the open loop.
    user: u32,
    /// Which request of its session it is, from 0.
    nth: u32,
    /// How often it was sent again because its reply was not as expected.
    tries: u32,
    /// In which write its last byte went, where that is followed (`trail.rs`); 0 = unknown.
    write: u32,
    /// It was the next to be answered when the peer closed its connection, and went out again.
    retried: bool,
    /// How often its connection was closed before its turn came, without an announcement.
    passed_over: u8,
    /// Its send was recorded.
    counted: bool,
    /// It waits on an open connection for the peer's limit of streams.
    blocked: bool,
    /// How far its reply's body has matched.
    body: BodyMatch,
    /// What is kept of the reply that is coming in.
    capture: Option<Box<Capture>>,
}

/// A request that is to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    /// Its intended start.
    pub(super) intended: Nanos,
    /// Index into the plan's calls.
    pub(super) call: u32,
    /// Who wants it.
    pub(super) user: u32,
    /// Which request of its session it is, from 0.
    pub(super) nth: u32,
}

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// The place is free.
    Free,
    /// It waits for a connection, or was given one and was not submitted.
    Waiting,
    /// The carrier has it; the kernel has not taken its first byte.
    Submitted,
    /// The kernel has taken its first byte.
    Sent,
}

impl Exchange {
    fn vacant() -> Self {
        Self {
            generation: 0,
            prev: NONE,
            next: NONE,
            at: At::Free,
            intended: Nanos::ZERO,
            sent: Nanos::ZERO,
            first: Nanos::MAX,
            waits_until: Nanos::ZERO,
            queue: Span::ZERO,
            connect: Span::ZERO,
            stream: Span::ZERO,
            window: Span::ZERO,
            call: 0,
            user: 0,
            nth: 0,
            tries: 0,
            write: 0,
            retried: false,
            passed_over: 0,
            counted: false,
            blocked: false,
            body: BodyMatch::default(),
            capture: None,
        }
    }

    /// Another request begins in this place. What is meaningless before the send stays as it is.
    #[inline]
    fn begin(&mut self, new: New) {
        let New { intended, call, user, nth } = new;
        debug_assert!(self.at == At::Free && self.capture.is_none());
        self.at = At::Waiting;
        self.intended = intended;
        self.first = Nanos::MAX;
        self.waits_until = intended;
        self.queue = Span::ZERO;
        self.connect = Span::ZERO;
        self.stream = Span::ZERO;
        self.window = Span::ZERO;
        self.call = call;
        self.user = user;
        self.nth = nth;
        self.tries = 0;
        self.write = 0;
        self.retried = false;
        self.passed_over = 0;
        self.counted = false;
        self.blocked = false;
        self.body = BodyMatch::default();
    }

    /// Its intended start.
    #[inline]
    pub(super) fn intended(&self) -> Nanos {
        self.intended
    }

    /// Index into the plan's calls.
    #[inline]
    pub(super) fn call(&self) -> u32 {
        self.call
    }

    /// Who wants it.
    #[inline]
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// In which write its last byte went; 0: unknown.
    pub(super) fn write(&self) -> u32 {
        self.write
    }

    pub(super) fn went_in(&mut self, write: u32) {
        self.write = write;
    }

    /// How long it has waited for the peer's permission to send more of it.
    #[inline]
    pub(super) fn window(&self) -> Span {
        self.window
    }

    pub(super) fn waited_for_window(&mut self, wait: Span) {
        self.window += wait;
    }

    /// Its stamps, ended at `done`.
    #[inline]
    pub(super) fn stamps(&self, done: Nanos) -> Stamps {
        Stamps {
            intended: self.intended,
            sent: self.sent,
            first: self.first.min(done),
            done,
            queue: self.queue,
            connect: self.connect,
            stream: self.stream,
        }
    }

    /// Whether the kernel has taken its first byte.
    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.at == At::Sent
    }

    /// Whether the carrier has it, or had it when the kernel took its first byte.
    pub(super) fn is_submitted(&self) -> bool {
        matches!(self.at, At::Submitted | At::Sent)
    }

    /// Whether its send was recorded: now or on an earlier connection.
    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.counted
    }

    /// Whether the first byte of its reply has come.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        self.first != Nanos::MAX
    }

    /// The first byte of its reply has come, now or before.
    pub(super) fn begins(&mut self, now: Nanos) {
        self.first = self.first.min(now);
    }

    /// Whether it was sent again after it was the next to be answered, and how often else.
    pub(super) fn resent(&self) -> (bool, u8) {
        (self.retried, self.passed_over)
    }

    /// It is sent again: it was the next to be answered, or was passed over.
    pub(super) fn resend(&mut self, was_next: bool) {
        self.retried |= was_next;
        self.passed_over += u8::from(!was_next);
    }

    /// Whether it may be sent again because its reply was not as expected.
    pub(super) fn may_try_again(&self, most: u32) -> bool {
        self.tries < most
    }

    /// It is sent again for that.
    pub(super) fn tries_again(&mut self, now: Nanos) {
        self.tries += 1;
        self.waits_until = now;
        self.goes_again();
    }

    /// When the kernel has taken its first byte.
    #[inline]
    pub(super) fn sent_at(&self) -> Nanos {
        self.sent
    }

    /// The kernel has taken its first byte. Returns what that means for the records.
    #[inline]
    pub(super) fn goes_out(&mut self, now: Nanos) -> Sent {
        self.at = At::Sent;
        self.sent = now;
        if self.counted {
            return Sent::Again;
        }
        self.counted = true;
        if self.intended == now { Sent::OnTime } else { Sent::Late }
    }

    /// Whether nothing has been done about it yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.waits_until == self.intended && !self.counted
    }

    /// What passed before `now` is no wait of its own.
    #[inline]
    pub(super) fn waits_from(&mut self, now: Nanos) {
        self.waits_until = self.waits_until.max(now);
    }

    /// Its wait in the queue, to be put back if it goes on.
    pub(super) fn queued(&self) -> (Span, Nanos) {
        (self.queue, self.waits_until)
    }

    pub(super) fn put_back(&mut self, queued: (Span, Nanos)) {
        (self.queue, self.waits_until) = queued;
    }

    /// Whether it waits on its connection for the peer's limit of streams.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The time since the waits were last accounted for went into waiting for room: on its
    /// connection, where it is blocked there, else in the queue.
    pub(super) fn waited_in_queue(&mut self, now: Nanos) {
        let wait = now.since(self.waits_until);
        match std::mem::take(&mut self.blocked) {
            true => self.stream += wait,
            false => self.queue += wait,
        }
        self.waits_until = self.waits_until.max(now);
    }

    /// The time since the waits were last accounted for went into connecting.
    pub(super) fn waited_for_connect(&mut self, now: Nanos) {
        self.connect += now.since(self.waits_until);
        self.waits_until = self.waits_until.max(now);
    }

    /// It leaves its connection and is to go out again: nothing of its reply is kept.
    pub(super) fn goes_again(&mut self) {
        self.at = At::Waiting;
        self.first = Nanos::MAX;
        self.body = BodyMatch::default();
        self.capture = None;
    }

    /// It begins now, and did not before.
    pub(super) fn begins_anew(&mut self, now: Nanos) {
        (self.intended, self.waits_until) = (now, now);
        (self.queue, self.connect, self.stream) = (Span::ZERO, Span::ZERO, Span::ZERO);
    }
}

/// What it means for the records that an exchange went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// For the first time, at the very time at which it was wanted.
    OnTime,
    /// For the first time.
    Late,
    /// It was recorded before.
    Again,
}

/// All exchanges that have begun and not ended. A place is used again, last freed first, so that
/// the slab stays small and warm.
#[derive(Debug)]
pub(super) struct Exchanges {
    all: Vec<Exchange>,
    /// The first free place.
    free: u32,
}

/// Some of the exchanges, in an order. An exchange stands in one list at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl Exchanges {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), free: NONE }
    }

    /// A request begins.
    #[inline]
    pub(super) fn insert(&mut self, new: New) -> RequestId {
        let slot = self.free;
        let Some(place) = self.all.get_mut(slot as usize) else { return self.grow(new) };
        self.free = place.next;
        place.begin(new);
        RequestId { slot, generation: place.generation }
    }

    #[cold]
    fn grow(&mut self, new: New) -> RequestId {
        let slot = u32::try_from(self.all.len()).expect("fewer than 2^32 exchanges");
        let mut exchange = Exchange::vacant();
        exchange.begin(new);
        self.all.push(exchange);
        RequestId { slot, generation: 0 }
    }

    /// The exchange is over; its place is free. It stands in no list.
    #[inline]
    pub(super) fn remove(&mut self, id: RequestId) {
        let free = self.free;
        let place = &mut self[id];
        place.at = At::Free;
        place.generation = id.generation.wrapping_add(1);
        place.next = free;
        self.free = id.slot;
    }

    /// The same for one that may have kept something of a reply.
    pub(super) fn give_up(&mut self, id: RequestId) {
        self[id].capture = None;
        self.remove(id);
    }

    /// A request begins at the end of a list; its place.
    #[inline]
    pub(super) fn begin(&mut self, list: &mut List, new: New) -> u32 {
        let id = self.insert(new);
        self.push(list, id);
        id.slot
    }

    /// The carrier has the exchange in that place now. With it comes the place behind it in its
    /// list. `None`: it is no place.
    #[inline]
    pub(super) fn submit(&mut self, slot: u32) -> Option<(RequestId, u32, &mut Exchange)> {
        let exchange = self.all.get_mut(slot as usize)?;
        exchange.at = At::Submitted;
        Some((RequestId { slot, generation: exchange.generation }, exchange.next, exchange))
    }

    /// Take it out of the list of its connection: how far it has come, and what was behind it.
    #[inline]
    pub(super) fn leave(&mut self, list: &mut List, id: RequestId) -> (At, u32) {
        let &Exchange { at, prev, next, .. } = &self[id];
        match self.all.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => list.first = next,
        }
        match self.all.get_mut(next as usize) {
            Some(behind) => behind.prev = prev,
            None => list.last = prev,
        }
        list.len -= 1;
        (at, next)
    }

    /// The exchange, if it has not ended.
    #[inline]
    pub(super) fn get(&self, id: RequestId) -> Option<&Exchange> {
        self.all.get(id.slot as usize).filter(|e| e.generation == id.generation)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Exchange> {
        self.all.get_mut(id.slot as usize).filter(|e| e.generation == id.generation)
    }

    /// The oldest exchange of a list, and its call.
    #[inline]
    pub(super) fn oldest(&self, list: &List) -> Option<(RequestId, u32)> {
        let slot = list.first;
        let exchange = self.all.get(slot as usize)?;
        Some((RequestId { slot, generation: exchange.generation }, exchange.call))
    }

    /// The exchange in that place.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> Option<RequestId> {
        self.all.get(slot as usize).map(|e| RequestId { slot, generation: e.generation })
    }

    /// The first exchange of a list.
    #[inline]
    pub(super) fn first(&self, list: &List) -> Option<RequestId> {
        self.id(list.first)
    }

    /// The one behind it in its list.
    #[inline]
    pub(super) fn next(&self, id: RequestId) -> Option<RequestId> {
        self.id(self[id].next)
    }

    /// The one before it in its list.
    fn previous(&self, id: RequestId) -> Option<RequestId> {
        self.id(self[id].prev)
    }

    /// From now on the last exchanges of the list wait for the peer's limit of streams: those
    /// behind the last one that already does, and that were not submitted.
    pub(super) fn block_rest(&mut self, list: &List, now: Nanos) {
        let mut next = self.id(list.last);
        while let Some(id) = next.filter(|&id| !self[id].blocked && self[id].at == At::Waiting) {
            let exchange = &mut self[id];
            exchange.blocked = true;
            exchange.waits_until = exchange.waits_until.max(now);
            next = self.previous(id);
        }
    }

    /// The exchanges of a list, in their order.
    pub(super) fn of<'a>(&'a self, list: &List) -> impl Iterator<Item = RequestId> + use<'a> {
        std::iter::successors(self.first(list), |&id| self.next(id))
    }

    #[inline]
    pub(super) fn push(&mut self, list: &mut List, id: RequestId) {
        let last = std::mem::replace(&mut list.last, id.slot);
        let exchange = &mut self[id];
        (exchange.prev, exchange.next) = (last, NONE);
        match self.all.get_mut(last as usize) {
            Some(before) => before.next = id.slot,
            None => list.first = id.slot,
        }
        list.len += 1;
    }
}

impl std::ops::Index<RequestId> for Exchanges {
    type Output = Exchange;
    #[inline]
    fn index(&self, id: RequestId) -> &Exchange {
        let exchange = &self.all[id.slot as usize];
        debug_assert_eq!(exchange.generation, id.generation, "a stale exchange");
        exchange
    }
}

impl std::ops::IndexMut<RequestId> for Exchanges {
    #[inline]
    fn index_mut(&mut self, id: RequestId) -> &mut Exchange {
        let exchange = &mut self.all[id.slot as usize];
        debug_assert_eq!(exchange.generation, id.generation, "a stale exchange");
        exchange
    }
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
