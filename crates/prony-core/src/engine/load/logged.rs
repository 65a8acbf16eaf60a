//! The arrivals of a log that is read while the load runs: when each request is due.

use std::fmt;

use crate::feed::{Entry, Fed, Feed};
use crate::plan::Plan;
use crate::schedule::Skipped;
use crate::units::{Nanos, Span};

/// How soon a feed that should have had a request is asked again.
const AGAIN: Span = Span::from_millis(1);

/// The arrivals of a share.
pub(super) struct Logged {
    /// What has the requests; `None`: there are none.
    feed: Option<Box<dyn Feed>>,
    /// The next request, if `due` is set.
    entry: Entry,
    due: Option<Nanos>,
    /// When to ask the feed again, if it had none.
    ask: Nanos,
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
            entry: Entry::default(),
            due: None,
            ask: start,
            start,
            before: Nanos::MAX,
            cut: false,
        }
    }

    pub(super) fn replay(&mut self, feed: Box<dyn Feed>) {
        self.feed = Some(feed);
        self.look(self.start);
    }

    /// Ask for the next request.
    fn look(&mut self, now: Nanos) {
        self.due = None;
        let Some(feed) = &mut self.feed else { return };
        let since = |at: Span| Some(self.start + at).filter(|&at| at < self.before);
        match feed.next(&mut self.entry, now.since(self.start)) {
            Fed::Entry => self.due = since(self.entry.at),
            Fed::Later(until) => match since(until) {
                Some(until) => return self.ask = until.max(now + AGAIN),
                None => {}
            },
            Fed::Ended => {}
        }
        if self.due.is_none() {
            self.feed = None;
        }
    }

    /// Drop all arrivals from `at` on.
    pub(super) fn end(&mut self, at: Nanos) {
        self.cut = true;
        self.before = self.before.min(at);
        if self.due.is_some_and(|due| due >= at) {
            (self.due, self.feed) = (None, None);
        }
    }

    /// When the next request is due, or the feed is to be asked for it.
    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.due.or(self.feed.is_some().then_some(self.ask))
    }

    /// The next request, if it is due: its intended start and its call. Its path is exchanged for
    /// `path`, whose memory is used again.
    pub(super) fn take_due(&mut self, now: Nanos, path: &mut Vec<u8>) -> Option<(Nanos, u32)> {
        if self.due.is_none() && self.ask <= now {
            self.look(now);
        }
        let due = self.due.filter(|&due| due <= now)?;
        let call = self.entry.call;
        std::mem::swap(path, &mut self.entry.path);
        self.look(now);
        Some((due, call))
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
        self.feed.is_none()
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
