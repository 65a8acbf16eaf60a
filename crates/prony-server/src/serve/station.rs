//! The service of requests: unlimited concurrency, or a number of workers behind one queue; with
//! freezes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use prony_base::units::{ConnId, Nanos, Span};

use super::behavior::Stalls;

/// The name of a request: its connection, and the number of its reply in the connection's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) id: ConnId,
    pub(super) entry: u64,
}

/// How many requests may be in the station at least before it is swept.
const ROOM: usize = 16_384;

/// The service station.
#[derive(Debug)]
pub(super) struct Station {
    stalls: Stalls,
    /// The arrival of the first request, from which freezes count.
    origin: Option<Nanos>,
    workers: Option<NonZeroU32>,
    busy: u32,
    waiting: VecDeque<Waiting>,
    /// Requests in service by completion time; the number orders equal times.
    in_service: BinaryHeap<Reverse<(Nanos, u64, bool, Ticket)>>,
    started: u64,
    /// Requests waiting or in service.
    inside: u64,
    /// How many requests may be here before those are removed whose connection has ended.
    room: usize,
    /// Requests with a service time extended by a freeze.
    frozen: u64,
}

#[derive(Debug)]
struct Waiting {
    since: Nanos,
    ticket: Ticket,
    work: Span,
}

impl Station {
    pub(super) fn new(workers: Option<NonZeroU32>, stalls: Stalls) -> Self {
        Self {
            stalls,
            origin: None,
            workers,
            busy: 0,
            waiting: VecDeque::new(),
            in_service: BinaryHeap::new(),
            started: 0,
            inside: 0,
            room: ROOM,
            frozen: 0,
        }
    }

    /// The number of requests so far with a service time extended by a freeze.
    pub(super) fn frozen(&self) -> u64 {
        self.frozen
    }

    /// The time since the first request.
    pub(super) fn since_first(&self, now: Nanos) -> Span {
        self.origin.map_or(Span::ZERO, |origin| now.since(origin))
    }

    /// Requests waiting or in service.
    pub(super) fn inside(&self) -> u64 {
        self.inside
    }

    /// Add a request with a service time of `work`. Return whether it is done at once. Requests
    /// that are done before `now` must have been removed with `pop_done`, unless the server is
    /// frozen.
    pub(super) fn arrive(&mut self, now: Nanos, ticket: Ticket, work: Span) -> bool {
        self.origin.get_or_insert(now);
        self.inside += 1;
        if self.workers.is_some_and(|n| self.busy >= n.get()) {
            self.waiting.push_back(Waiting { since: now, ticket, work });
            return false;
        }
        self.start(now, Some(now), ticket, work, self.workers.is_some())
    }

    /// As `arrive`, for an answer that needs no worker.
    pub(super) fn pass(&mut self, now: Nanos, ticket: Ticket, time: Span) -> bool {
        self.origin.get_or_insert(now);
        self.inside += 1;
        self.start(now, Some(now), ticket, time, false)
    }

    /// As `pass`, for one that follows what was done at `at`, even if the caller is late.
    pub(super) fn follow(&mut self, at: Nanos, ticket: Ticket, time: Span) {
        self.inside += 1;
        self.start(at, None, ticket, time, false);
    }

    /// Remove and return the next request that is done at `now`, in the order of completion, and
    /// when it was done. A free
    /// worker starts the next waiting request (if it is still wanted) exactly at the completion
    /// time, even if the caller is late.
    pub(super) fn pop_done(
        &mut self,
        now: Nanos,
        is_wanted: impl Fn(Ticket) -> bool,
    ) -> Option<(Ticket, Nanos)> {
        let &Reverse((at, _, holds_worker, ticket)) = self.in_service.peek()?;
        if at > now {
            return None;
        }
        self.in_service.pop();
        self.inside -= 1;
        if holds_worker {
            self.busy -= 1;
            while let Some(next) = self.waiting.pop_front() {
                if is_wanted(next.ticket) {
                    let start = at.max(next.since);
                    self.start(start, None, next.ticket, next.work, true);
                    break;
                }
                self.inside -= 1;
            }
        }
        Some((ticket, at))
    }

    /// Whether there are enough requests that it is time to `sweep`.
    pub(super) fn is_full(&self) -> bool {
        self.in_service.len() + self.waiting.len() > self.room
    }

    /// Remove the requests that nobody waits for any more, but for those that workers serve.
    pub(super) fn sweep(&mut self, is_wanted: impl Fn(Ticket) -> bool) {
        let before = self.in_service.len() + self.waiting.len();
        self.in_service
            .retain(|Reverse((_, _, holds_worker, ticket))| *holds_worker || is_wanted(*ticket));
        self.waiting.retain(|waiting| is_wanted(waiting.ticket));
        self.in_service.shrink_to(2 * self.in_service.len());
        self.waiting.shrink_to(2 * self.waiting.len());
        let after = self.in_service.len() + self.waiting.len();
        self.inside -= (before - after) as u64;
        self.room = 2 * after + ROOM;
    }

    /// The end of the current freeze, if there is one.
    pub(super) fn frozen_until(&self, now: Nanos) -> Option<Nanos> {
        let origin = self.origin?;
        let t = now.since(origin).0;
        let (start, end) = self.stalls.ending_after(t)?;
        // A request that is done exactly at the start of a freeze is still answered.
        (start < t).then(|| origin + Span(end))
    }

    /// When the next request is done.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.in_service.peek().map(|Reverse((at, ..))| *at)
    }

    /// Start a service at `start`. If it is done by `now`, return true and do not store it.
    fn start(
        &mut self,
        start: Nanos,
        now: Option<Nanos>,
        ticket: Ticket,
        work: Span,
        holds_worker: bool,
    ) -> bool {
        let done = self.done(start, work);
        self.frozen += u64::from(done > start + work);
        if now.is_some_and(|now| done <= now) {
            self.inside -= 1;
            return true;
        }
        self.busy += u32::from(holds_worker);
        self.in_service.push(Reverse((done, self.started, holds_worker, ticket)));
        self.started += 1;
        false
    }

    fn done(&self, start: Nanos, work: Span) -> Nanos {
        match self.origin {
            Some(origin) if !self.stalls.is_empty() => {
                origin + Span(self.stalls.done(start.since(origin).0, work))
            }
            _ => start + work,
        }
    }
}
