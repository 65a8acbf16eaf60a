//! How many requests are under way, over time: the integral that Little's law is held against.
//!
//! It comes from counters and from the times of the events alone, so whatever is wrong with stamps,
//! histograms or their merging shows as a difference between the two sides of the law.

use super::Recorder;
use crate::units::{Nanos, Span};

/// The integral so far, in nanoseconds of requests.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    seen: Nanos,
    in_window: u128,
    in_drain: u128,
    /// Of those that were given up: the time until the last completion, and from it on.
    given_up: (Span, Span),
}

impl UnderWay {
    /// The time of the last event.
    #[inline]
    pub(super) fn seen(&self) -> Nanos {
        self.seen
    }

    /// The integral over the window: until the load ended, where that was by time, else until the
    /// last completion.
    pub(super) fn total(&self, by_time: bool) -> Span {
        let all = self.in_window + self.in_drain - u128::from(self.given_up.1.0);
        let inside = if by_time { self.in_window } else { all };
        Span(u64::try_from(inside).unwrap_or(u64::MAX))
    }

    /// For how long those that were given up had been under way at the last completion.
    pub(super) fn given_up(&self) -> Span {
        self.given_up.0
    }

    /// So many were under way from the last event until `now`.
    #[cold]
    fn past_end(&mut self, n: u64, now: Nanos, end: Nanos) {
        let end = end.max(self.seen);
        self.in_window += u128::from(n) * u128::from(end.since(self.seen).0);
        self.in_drain += u128::from(n) * u128::from(now.since(end).0);
    }
}

impl Recorder {
    /// An event at `now`: until then as many requests were under way as the counts say. To be
    /// called before anything that it brings is counted; twice for one time does no harm.
    #[inline]
    pub fn event(&mut self, now: Nanos) {
        let t = &self.main.tally;
        let n = t.started - t.replies - t.failed - t.unfinished;
        if now > self.load_end {
            self.under_way.past_end(n, now, self.load_end);
        } else {
            let passed = now.since(self.under_way.seen).0;
            self.under_way.in_window += u128::from(n) * u128::from(passed);
        }
        self.under_way.seen = now;
    }

    /// `n` requests are wanted since before the last event.
    #[cold]
    pub(super) fn noticed_late(&mut self, intended: Nanos, n: u64) {
        if intended >= self.begin {
            let (inside, behind) = self.parts(intended, self.under_way.seen);
            self.under_way.in_window += inside * u128::from(n);
            self.under_way.in_drain += behind * u128::from(n);
        }
    }

    /// A request that was wanted from `before` on is now wanted from `now` on only.
    pub fn begins_anew(&mut self, before: Nanos, now: Nanos) {
        self.event(now);
        if before >= self.begin {
            let (inside, behind) = self.parts(before, now);
            self.under_way.in_window -= inside;
            self.under_way.in_drain -= behind;
        }
    }

    /// A request is given up, after all that ended by themselves.
    pub(super) fn given_up(&mut self, intended: Nanos) {
        if intended >= self.begin {
            let last = self.main.last_done.max(self.begin);
            let (until, from) = &mut self.under_way.given_up;
            *until += last.since(intended);
            *from += self.under_way.seen.since(last.max(intended));
        }
    }

    /// How much of a time lies before the end of the load, and how much behind it.
    fn parts(&self, from: Nanos, to: Nanos) -> (u128, u128) {
        let end = self.load_end.min(to).max(from);
        (u128::from(end.since(from).0), u128::from(to.since(end).0))
    }
}
