//! Where requests are served: any number at once, or by so many workers with one queue before them;
//! with freezes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use super::law::Stalls;
use crate::units::{ConnId, Nanos, Span};

/// Which request: the connection, and the reply's number in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) id: ConnId,
    pub(super) entry: u64,
}

/// The place of service.
#[derive(Debug)]
pub(super) struct Station {
    stalls: Stalls,
    /// The first request's arrival, from which freezes count.
    origin: Option<Nanos>,
    workers: Option<NonZeroU32>,
    busy: u32,
    waiting: VecDeque<Waiting>,
    /// What is in service, by the time when it is done; the number keeps equal times in order.
    in_service: BinaryHeap<Reverse<(Nanos, u64, bool, Ticket)>>,
    begun: u64,
    /// Requests waiting or in service.
    inside: u64,
    /// Requests whose service a freeze has lengthened.
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
            begun: 0,
            inside: 0,
            frozen: 0,
        }
    }

    /// Requests whose service a freeze has lengthened so far.
    pub(super) fn frozen(&self) -> u64 {
        self.frozen
    }

    /// How long after the first request that is.
    pub(super) fn since_first(&self, now: Nanos) -> Span {
        self.origin.map_or(Span::ZERO, |origin| now.since(origin))
    }

    /// Requests waiting or in service.
    pub(super) fn inside(&self) -> u64 {
        self.inside
    }

    /// A request arrives that takes `work` to serve. Returns whether it is served at once. What was
    /// done before `now` must have been taken with `pop_done` first, unless the server is frozen.
    pub(super) fn arrive(&mut self, now: Nanos, ticket: Ticket, work: Span) -> bool {
        self.origin.get_or_insert(now);
        self.inside += 1;
        if self.workers.is_some_and(|n| self.busy >= n.get()) {
            self.waiting.push_back(Waiting { since: now, ticket, work });
            return false;
        }
        self.begin(now, Some(now), ticket, work, self.workers.is_some())
    }

    /// As `arrive`, for what takes no time and no worker.
    pub(super) fn pass(&mut self, now: Nanos, ticket: Ticket) -> bool {
        self.origin.get_or_insert(now);
        self.inside += 1;
        self.begin(now, Some(now), ticket, Span::ZERO, false)
    }

    /// The next request that is done at `now`, in the order of the times. A freed worker takes the
    /// next that waits (and is still wanted) at the very time of the other's end, however late the
    /// caller is.
    pub(super) fn pop_done(
        &mut self,
        now: Nanos,
        is_wanted: impl Fn(ConnId) -> bool,
    ) -> Option<Ticket> {
        let &Reverse((at, _, holds_worker, ticket)) = self.in_service.peek()?;
        if at > now {
            return None;
        }
        self.in_service.pop();
        self.inside -= 1;
        if holds_worker {
            self.busy -= 1;
            while let Some(next) = self.waiting.pop_front() {
                if is_wanted(next.ticket.id) {
                    let start = at.max(next.since);
                    self.begin(start, None, next.ticket, next.work, true);
                    break;
                }
                self.inside -= 1;
            }
        }
        Some(ticket)
    }

    /// The end of the freeze in which `now` lies.
    pub(super) fn frozen_until(&self, now: Nanos) -> Option<Nanos> {
        let origin = self.origin?;
        let t = now.since(origin).0;
        let (begin, end) = self.stalls.ending_after(t)?;
        // At the very begin the work that ends there is still answered.
        (begin < t).then(|| origin + Span(end))
    }

    /// When the next request is done.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.in_service.peek().map(|Reverse((at, ..))| *at)
    }

    /// Begin a service at `start`. If it is done by `now`, says so and forgets it.
    fn begin(
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
        self.in_service.push(Reverse((done, self.begun, holds_worker, ticket)));
        self.begun += 1;
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
