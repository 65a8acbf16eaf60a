//! The arrivals of a log that is read while the load runs: when each request is due.

use std::fmt;

use super::held::Held;
use crate::engine::exchange::Exchanges;
use prony_base::feed::{Entry, Fed, Feed, Own};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::Plan;
use prony_plan::schedule::Skipped;

/// How soon a feed that should have had a request is asked again.
const AGAIN: Span = Span::from_millis(1);

/// A request that has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It starts now.
    Starts {
        /// When it was due.
        intended: Nanos,
        /// Index into the plan's calls.
        call: u32,
        /// Whose it is.
        owner: u32,
    },
    /// It waits for the last request of its client.
    Waits,
    /// It would have to wait, and there is no room for it. When it was due.
    Dropped(Nanos),
}

/// The arrivals of a share.
pub(super) struct Logged {
    /// What has the requests; `None`: there are none.
    feed: Option<Box<dyn Feed>>,
    /// There are no more requests.
    is_over: bool,
    /// Requests that wait for their client.
    held: Held,
    /// The owners of requests that have ended, whose next requests are being started.
    pub(super) ended: Vec<u32>,
    pub(super) releases: bool,
    /// The next request, if `due` is set.
    entry: Entry,
    due: Option<Nanos>,
    /// When to ask the feed again, if it had none.
    ask: Nanos,
    /// When to look again for requests that need not wait for a send any more.
    recheck: Nanos,
    /// The start of the measurement.
    start: Nanos,
    /// All arrivals are before this time.
    before: Nanos,
    /// Ended by time, or by the user.
    cut: bool,
}

impl Logged {
    /// None, until there is a feed.
    pub(super) fn new(plan: &Plan) -> Self {
        let start = Nanos::ZERO + plan.warmup;
        Self {
            feed: None,
            is_over: true,
            held: Held::default(),
            ended: Vec::new(),
            releases: false,
            entry: Entry::default(),
            due: None,
            ask: start,
            recheck: Nanos::ZERO,
            start,
            before: Nanos::MAX,
            cut: false,
        }
    }

    pub(super) fn replay(&mut self, feed: Box<dyn Feed>) {
        self.held.only_until_sent = !feed.waits_for_replies();
        (self.feed, self.is_over) = (Some(feed), false);
        self.look(self.start);
    }

    /// Ask for the next request.
    fn look(&mut self, now: Nanos) {
        self.due = None;
        let Some(feed) = self.feed.as_mut().filter(|_| !self.is_over) else { return };
        let since = |at: Span| Some(self.start + at).filter(|&at| at < self.before);
        match feed.next(&mut self.entry, now.since(self.start)) {
            Fed::Entry => self.due = since(self.entry.at),
            Fed::Later(until) => {
                if let Some(until) = since(until) {
                    self.ask = until.max(now + AGAIN);
                    return;
                }
            }
            Fed::Ended => {}
        }
        self.is_over = self.due.is_none();
    }

    /// Drop all arrivals from `at` on.
    pub(super) fn end(&mut self, at: Nanos) {
        self.cut = true;
        self.before = self.before.min(at);
        if self.due.is_some_and(|due| due >= at) {
            (self.due, self.is_over) = (None, true);
        }
        self.held.clear();
    }

    /// When the next request is due, or the feed is to be asked for it.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        let next = self.due.or_else(|| (!self.is_over).then_some(self.ask));
        match self.held.is_blocked() {
            false => next,
            true => Some(next.map_or(self.recheck, |next| next.min(self.recheck))),
        }
    }

    /// The next request, if it is due. If it starts, what it has of its own is exchanged for `own`,
    /// whose memory is used again. At most `most` wait for their client.
    pub(super) fn take_due(
        &mut self,
        now: Nanos,
        own: &mut Own,
        most: usize,
        exchanges: &Exchanges,
    ) -> Option<Taken> {
        if self.held.is_blocked() && self.recheck <= now {
            if let Some((owner, mut next)) = self.held.unblocked(exchanges) {
                if let Some(feed) = &mut self.feed {
                    feed.held(now.since(next.due));
                }
                std::mem::swap(own, &mut next.own);
                self.held.give_back(next.own);
                return Some(Taken::Starts { intended: next.due, call: next.call, owner });
            }
            self.recheck = now + AGAIN;
        }
        if self.due.is_none() && self.ask <= now {
            self.look(now);
        }
        let due = self.due.filter(|&due| due <= now)?;
        let Entry { call, client, .. } = self.entry;
        let taken = match self.held.owner(client, exchanges) {
            Some(owner) => {
                std::mem::swap(own, &mut self.entry.own);
                Taken::Starts { intended: due, call, owner }
            }
            None if self.held.len() >= most => Taken::Dropped(due),
            None => {
                self.held.wait(client, due, call, &mut self.entry.own);
                Taken::Waits
            }
        };
        self.look(now);
        Some(taken)
    }

    /// A request of this owner has ended: its next one, which starts now if it was due before, as
    /// its intended start and its call. What it has of its own is exchanged for `own`.
    pub(super) fn release(
        &mut self,
        owner: u32,
        now: Nanos,
        own: &mut Own,
        exchanges: &Exchanges,
    ) -> Option<(Nanos, u32)> {
        let mut next = self.held.release(owner, exchanges)?;
        if let Some(feed) = &mut self.feed {
            feed.held(now.since(next.due));
        }
        std::mem::swap(own, &mut next.own);
        self.held.give_back(next.own);
        // One that waits for a reply waits as a user does, who is not late.
        let intended = if self.held.only_until_sent { next.due } else { now };
        Some((intended, next.call))
    }

    /// How many requests wait for their client.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// How many of the requests that have been read are due before `limit`.
    pub(super) fn due_before(&self, limit: Nanos) -> u64 {
        let more = self.feed.as_ref().map_or(0, |feed| feed.due_before(limit.since(self.start)));
        match self.due {
            Some(due) if due < limit => 1 + more,
            _ => 0,
        }
    }

    /// Skip the requests that have been read and are due before `limit`.
    pub(super) fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        let first = self.due.filter(|&due| due < limit)?;
        let mut count = 0;
        while self.due.is_some_and(|due| due < limit) {
            count += 1;
            self.look(first);
        }
        Some(Skipped { first, count })
    }

    /// Whether there are no more requests.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the end of the log, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        !self.cut && self.is_over()
    }
}

impl fmt::Debug for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { due, ask, before, .. } = self;
        let (due, ask, before) = (due as &dyn fmt::Debug, ask, before);
        f.debug_struct("Logged")
            .field("due", due)
            .field("ask", ask)
            .field("before", before)
            .finish_non_exhaustive()
    }
}
