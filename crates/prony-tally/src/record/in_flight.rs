//! The integral over time of the number of requests in flight: one side of Little's law (Little,
//! Operations Research 9, 1961).
//!
//! It uses only counters and the times of events, so an error in timestamps, in histograms or in
//! their merging shows as a difference between the two sides.

use super::Recorder;
use prony_base::units::{Nanos, Span};

/// The integral so far, in requests times nanoseconds.
#[derive(Debug, Default)]
pub(super) struct InFlightIntegral {
    seen: Nanos,
    in_window: u128,
    in_drain: u128,
    /// For requests that were given up: the time in flight until the last completion, and the time
    /// after it.
    given_up: (Span, Span),
}

impl InFlightIntegral {
    /// The time of the last event.
    #[inline]
    pub(super) fn seen(&self) -> Nanos {
        self.seen
    }

    /// The integral over the window, which ends with the load if `by_time`, otherwise with the last
    /// completion.
    pub(super) fn total(&self, by_time: bool) -> Span {
        let all = self.in_window + self.in_drain - u128::from(self.given_up.1.0);
        let inside = if by_time { self.in_window } else { all };
        Span(u64::try_from(inside).unwrap_or(u64::MAX))
    }

    /// Total time in flight, up to the last completion, of requests that were given up.
    pub(super) fn given_up(&self) -> Span {
        self.given_up.0
    }

    /// `n` requests were in flight from the last event to `now`.
    #[cold]
    fn past_end(&mut self, n: u64, now: Nanos, end: Nanos) {
        let end = end.max(self.seen);
        self.in_window += u128::from(n) * u128::from(end.since(self.seen).0);
        self.in_drain += u128::from(n) * u128::from(now.since(end).0);
    }
}

impl Recorder {
    /// An event occurs at `now`: add the time since the last event, with the current number of
    /// requests in flight. Call it before counting the effects of the event. Calling it twice with
    /// the same time has no effect.
    #[inline]
    pub fn event(&mut self, now: Nanos) {
        let t = &self.main.tally;
        let n = t.started - t.replies - t.failed - t.unfinished;
        if now > self.load_end {
            self.in_flight.past_end(n, now, self.load_end);
        } else {
            let passed = now.since(self.in_flight.seen).0;
            self.in_flight.in_window += u128::from(n) * u128::from(passed);
        }
        self.in_flight.seen = now;
    }

    /// `n` requests have been due since before the last event.
    #[cold]
    pub(super) fn noticed_late(&mut self, intended: Nanos, n: u64) {
        if intended >= self.start {
            let (inside, behind) = self.parts(intended, self.in_flight.seen);
            self.in_flight.in_window += inside * u128::from(n);
            self.in_flight.in_drain += behind * u128::from(n);
        }
    }

    /// The intended start of a request moves from `before` to `now`.
    pub fn intended_moved(&mut self, before: Nanos, now: Nanos) {
        self.event(now);
        if before >= self.start {
            let (inside, behind) = self.parts(before, now);
            self.in_flight.in_window -= inside;
            self.in_flight.in_drain -= behind;
        } else if now >= self.start {
            // It started in the warm-up, and now starts in the measurement.
            let warm = &mut self.warm.tally;
            warm.started -= 1;
            warm.series.did_not_start(before);
            self.main.tally.started += 1;
            self.main.tally.series.started(now);
        }
    }

    /// A request is given up. Call it after all requests that ended by themselves.
    pub(super) fn given_up(&mut self, intended: Nanos) {
        if intended >= self.start {
            let last = self.main.last_done.max(self.start);
            let (until, from) = &mut self.in_flight.given_up;
            *until += last.since(intended);
            *from += self.in_flight.seen.since(last.max(intended));
        }
    }

    /// The parts of an interval before and after the end of the load.
    fn parts(&self, from: Nanos, to: Nanos) -> (u128, u128) {
        let end = self.load_end.min(to).max(from);
        (u128::from(end.since(from).0), u128::from(to.since(end).0))
    }
}
