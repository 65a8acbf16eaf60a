//! The exchanges in progress, in one slab, with checks and extracts. Knows nothing of sockets.

mod broadcast;
mod checked;
mod content;
mod directed;
pub(super) mod dynamic;
mod ended;
pub(super) mod expect;
pub(super) mod following;
mod logged;
mod messages;
pub(super) mod outcome;
mod reading;
mod reconnects;
mod resumed;
pub(super) mod script;
mod sequence;
mod signed;
mod single;
mod streams;
mod subscribers;
mod tokens;
mod windows;

use content::BodyMatch;
pub use ended::{EndedRequest, EndedStream};
pub(super) use messages::{Messages, ToSend};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::Plan;
use prony_plan::script::Capture;
use prony_tally::record::Stamps;
pub(super) use streams::After;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The owner of a request of an open loop.
pub(super) const NOBODY: u32 = u32::MAX;

/// A request from its intended start to its end.
#[derive(Debug)]
pub(super) struct Exchange {
    generation: u32,
    /// Neighbors in its list; `next` also in the list of free slots.
    prev: u32,
    next: u32,
    /// Its state.
    at: At,
    /// Its intended start.
    intended: Nanos,
    /// When its first byte was given to the kernel; meaningless before.
    sent: Nanos,
    /// When the first byte of its reply arrived; `Nanos::MAX` before.
    first: Nanos,
    /// Waits are accounted for up to here.
    waits_until: Nanos,
    /// Time it waited for a connection or for room on one.
    queue: Span,
    /// Time it waited for the connection that was opened for it.
    connect: Span,
    /// Time it waited on an open connection for the peer's limit of streams.
    stream: Span,
    /// Part of `connect`: can have waited for the meter to notice the connection.
    late: Span,
    /// Time it waited for the peer's permission to send more of it.
    window: Span,
    /// Index into the plan's calls.
    call: u32,
    /// Its owner: the user of a closed loop, the session; [`NOBODY`] in an open loop.
    user: u32,
    /// Its number in its session, from 0.
    nth: u32,
    /// How often it was sent again because its reply was not as expected.
    tries: u32,
    /// The number of the write with its last byte, if it is known (`trail.rs`); otherwise 0.
    write: u32,
    /// It was the next to be answered when the peer closed its connection, and was sent again.
    retried: bool,
    /// How often its connection was closed before its turn, without an announcement.
    passed_over: u8,
    /// Its send was recorded.
    counted: bool,
    /// It waits on an open connection for the peer's limit of streams.
    blocked: bool,
    /// The state of the search in the body of its reply.
    body: BodyMatch,
    /// Captured parts of the current reply.
    capture: Option<Box<Capture>>,
}

/// A request that is about to start.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    /// Its intended start.
    pub(super) intended: Nanos,
    /// Index into the plan's calls.
    pub(super) call: u32,
    /// Its owner.
    pub(super) user: u32,
    /// Its number in its session, from 0.
    pub(super) nth: u32,
}

/// The state of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// The slot is free.
    Free,
    /// It waits for a connection, or is on one and not submitted.
    Waiting,
    /// The carrier has it; the kernel has not accepted its first byte.
    Submitted,
    /// The kernel has accepted its first byte.
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
            late: Span::ZERO,
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

    /// Start another request in this slot. What is meaningless before the send keeps its value.
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
        self.late = Span::ZERO;
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

    /// Its owner.
    #[inline]
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// The number of the write with its last byte; 0: unknown.
    pub(super) fn write(&self) -> u32 {
        self.write
    }

    pub(super) fn went_in(&mut self, write: u32) {
        self.write = write;
    }

    /// Its timestamps, with its end at `done`.
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
            late: self.late,
        }
    }

    /// Whether the kernel has accepted its first byte.
    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.at == At::Sent
    }

    /// Whether it has been submitted to the carrier.
    pub(super) fn is_submitted(&self) -> bool {
        matches!(self.at, At::Submitted | At::Sent)
    }

    /// Whether its send was recorded: now or on an earlier connection.
    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.counted
    }

    /// Whether the first byte of its reply has arrived.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        self.first != Nanos::MAX
    }

    /// The body of its reply has this fault.
    pub(super) fn find_fault(&mut self, fault: Fault) {
        self.body.find_fault(fault);
    }

    /// The first byte of its reply has arrived, now or before.
    pub(super) fn begins(&mut self, now: Nanos) {
        self.first = self.first.min(now);
    }

    /// Whether it was sent again after it was the next to be answered, and how often for other
    /// reasons.
    pub(super) fn resent(&self) -> (bool, u8) {
        (self.retried, self.passed_over)
    }

    /// It is sent again: it was the next to be answered, or its connection was closed before its
    /// turn.
    pub(super) fn resend(&mut self, was_next: bool) {
        self.retried |= was_next;
        self.passed_over += u8::from(!was_next);
    }

    /// Whether it may be sent again because its reply was not as expected.
    pub(super) fn may_try_again(&self, most: u32) -> bool {
        self.tries < most
    }

    /// It is sent again because its reply was not as expected.
    pub(super) fn tries_again(&mut self, now: Nanos) {
        self.tries += 1;
        self.waits_until = now;
        self.goes_again();
    }

    /// When the kernel accepted its first byte.
    #[inline]
    pub(super) fn sent_at(&self) -> Nanos {
        self.sent
    }

    /// The kernel has accepted its first byte. Returns what that means for the records.
    #[inline]
    pub(super) fn goes_out(&mut self, now: Nanos) -> Sent {
        self.at = At::Sent;
        if self.counted {
            // A stream that is opened again keeps its first send.
            if !self.has_begun() {
                self.sent = now;
            }
            return Sent::Again;
        }
        self.sent = now;
        self.counted = true;
        if self.intended == now { Sent::OnTime } else { Sent::Late }
    }

    /// Whether it has neither been sent nor waited.
    pub(super) fn is_fresh(&self) -> bool {
        self.waits_until == self.intended && !self.counted
    }

    /// The time before `now` is not counted as a wait.
    #[inline]
    pub(super) fn waits_from(&mut self, now: Nanos) {
        self.waits_until = self.waits_until.max(now);
    }

    /// Its wait in the queue so far, for restoring it if the wait continues.
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

    /// Count the time since the last update as a wait for room: in the queue, or if it is blocked.
    pub(super) fn waited_in_queue(&mut self, now: Nanos) {
        let wait = now.since(self.waits_until);
        match std::mem::take(&mut self.blocked) {
            true => self.stream += wait,
            false => self.queue += wait,
        }
        self.waits_until = self.waits_until.max(now);
    }

    /// Count the time since the last update as a wait for the peer's limit of streams.
    pub(super) fn waited_for_stream(&mut self, now: Nanos) {
        self.blocked = true;
        self.waited_in_queue(now);
    }

    /// Count the time since the last update as a wait for the connect.
    pub(super) fn waited_for_connect(&mut self, now: Nanos, unnoticed: Span) {
        let wait = now.since(self.waits_until);
        self.connect += wait;
        self.late += unnoticed.min(wait);
        self.waits_until = self.waits_until.max(now);
    }

    /// It leaves its connection and will be sent again: nothing of its reply is kept.
    pub(super) fn goes_again(&mut self) {
        self.at = At::Waiting;
        self.first = Nanos::MAX;
        self.body = BodyMatch::default();
        self.capture = None;
    }

    /// It starts now, and not at its original intended start.
    pub(super) fn begins_anew(&mut self, now: Nanos) {
        (self.intended, self.waits_until) = (now, now);
        (self.queue, self.connect, self.stream) = (Span::ZERO, Span::ZERO, Span::ZERO);
        self.late = Span::ZERO;
    }
}

/// What the send of an exchange means for the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The first send, exactly at the intended start.
    OnTime,
    /// The first send, after the intended start.
    Late,
    /// A repeated send; the first one is recorded.
    Again,
}

/// All exchanges that have started and not ended. The most recently freed slot is reused first, so
/// that the slab stays small and in the cache.
#[derive(Debug)]
pub(super) struct Exchanges {
    all: Vec<Exchange>,
    /// The first free slot.
    free: u32,
    /// The messages in their streams, if any call has some.
    pub(super) messages: Option<Box<Messages>>,
    /// Some of them have waited for a peer's permission to send more.
    windows: bool,
}

/// An ordered list of exchanges. An exchange is in one list at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: u32,
    last: u32,
    len: u32,
}

impl Exchanges {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), free: NONE, messages: None, windows: false }
    }

    /// None, for a plan.
    pub(super) fn of_plan(plan: &Plan) -> Self {
        Self { messages: Messages::new(plan), ..Self::new() }
    }

    /// The slot of the request that starts next.
    pub(super) fn next_slot(&self) -> u32 {
        if self.free == NONE { self.all.len() as u32 } else { self.free }
    }

    /// Start a request.
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

    /// Free the slot of an exchange that is in no list.
    #[inline]
    pub(super) fn remove(&mut self, id: RequestId) {
        let free = self.free;
        let place = &mut self[id];
        place.at = At::Free;
        place.generation = id.generation.wrapping_add(1);
        place.next = free;
        self.free = id.slot;
    }

    /// Free the slot of an exchange that may have captured parts of a reply.
    pub(super) fn give_up(&mut self, id: RequestId) {
        self[id].capture = None;
        self.remove(id);
    }

    /// Start a request at the end of a list. Returns its slot.
    #[inline]
    pub(super) fn begin(&mut self, list: &mut List, new: New) -> u32 {
        let id = self.insert(new);
        self.push(list, id);
        id.slot
    }

    /// Mark the exchange in this slot as submitted. Returns it with the slot after it in its list;
    /// `None` if there is no such slot.
    #[inline]
    pub(super) fn submit(&mut self, slot: u32) -> Option<(RequestId, u32, &mut Exchange)> {
        let exchange = self.all.get_mut(slot as usize)?;
        exchange.at = At::Submitted;
        Some((RequestId { slot, generation: exchange.generation }, exchange.next, exchange))
    }

    /// Remove it from the list of its connection. Returns its state and the slot after it.
    #[inline(always)]
    pub(super) fn leave(&mut self, list: &mut List, id: RequestId) -> (At, u32, &mut Exchange) {
        list.len -= 1;
        if list.first != id.slot {
            return self.leave_from_behind(list, id);
        }
        let exchange = &mut self[id];
        let next = exchange.next;
        list.first = next;
        if next == NONE {
            list.last = NONE;
        }
        (exchange.at, next, exchange)
    }

    /// The same for one that is not the first: its neighbors close up.
    #[cold]
    fn leave_from_behind(&mut self, list: &mut List, id: RequestId) -> (At, u32, &mut Exchange) {
        let &Exchange { at, prev, next, .. } = &self[id];
        self.all[prev as usize].next = next;
        match self.all.get_mut(next as usize) {
            Some(behind) => behind.prev = prev,
            None => list.last = prev,
        }
        (at, next, &mut self[id])
    }

    /// The exchange, if it has not ended.
    #[inline]
    pub(super) fn get(&self, id: RequestId) -> Option<&Exchange> {
        let exchange = self.all.get(id.slot as usize)?;
        (exchange.generation == id.generation).then_some(exchange)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Exchange> {
        let exchange = self.all.get_mut(id.slot as usize)?;
        (exchange.generation == id.generation).then_some(exchange)
    }

    /// The oldest exchange of a list, and its call.
    #[inline]
    pub(super) fn oldest(&self, list: &List) -> Option<(RequestId, u32)> {
        let slot = list.first;
        let exchange = self.all.get(slot as usize)?;
        Some((RequestId { slot, generation: exchange.generation }, exchange.call))
    }

    /// The exchange in this slot.
    #[inline]
    pub(super) fn id(&self, slot: u32) -> Option<RequestId> {
        self.all.get(slot as usize).map(|e| RequestId { slot, generation: e.generation })
    }

    /// The first exchange of a list.
    #[inline]
    pub(super) fn first(&self, list: &List) -> Option<RequestId> {
        self.id(list.first)
    }

    /// The exchange after it in its list.
    #[inline]
    pub(super) fn next(&self, id: RequestId) -> Option<RequestId> {
        self.id(self[id].next)
    }

    /// The one before it in the list.
    fn previous(&self, list: &List, id: RequestId) -> Option<RequestId> {
        if list.first == id.slot { None } else { self.id(self[id].prev) }
    }

    /// Mark the last exchanges of the list as waiting for the peer's limit of streams: those that
    /// are not submitted, after the last one that is already marked.
    pub(super) fn block_rest(&mut self, list: &List, now: Nanos) {
        let mut next = self.id(list.last);
        while let Some(id) = next.filter(|&id| !self[id].blocked && self[id].at == At::Waiting) {
            let exchange = &mut self[id];
            exchange.blocked = true;
            exchange.waits_until = exchange.waits_until.max(now);
            next = self.previous(list, id);
        }
    }

    /// The exchanges of a list, in order.
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
