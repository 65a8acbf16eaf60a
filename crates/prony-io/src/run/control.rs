//! Control of a running load: stop requests and rate changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_plan::schedule::RateChange;

use crate::time::stop::StopFlag;

/// The delay before a rate change takes effect, so that every worker learns of it in time; workers
/// check for changes 20 times a second.
const NOTICE: Span = Span::from_millis(200);

/// The stop flag and the rate changes. May be a `static`; the flag may be set from a signal
/// handler.
#[derive(Debug)]
pub struct Control {
    stop: StopFlag,
    /// The number of changes, which workers read without a lock.
    changes: AtomicUsize,
    rate_changes: Mutex<Vec<RateChange>>,
    applied_late: AtomicBool,
}

impl Control {
    /// Nothing requested yet.
    pub const fn new() -> Self {
        Self {
            stop: StopFlag::new(),
            changes: AtomicUsize::new(0),
            rate_changes: Mutex::new(Vec::new()),
            applied_late: AtomicBool::new(false),
        }
    }

    /// Request to start nothing new; a second request ends the run at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// The same on behalf of the user: the drain has a [limit](Self::limit_drain), then the run
    /// ends at once. Safe in a signal handler.
    pub fn interrupt(&self) {
        self.stop.interrupt();
    }

    /// Sets how long a run that the user stops waits for replies; without it, [`crate::DRAIN`].
    /// [`Span::MAX`]: until the requests' own timeouts.
    pub fn limit_drain(&self, limit: Span) {
        self.stop.limit_drain(limit);
    }

    /// Whether the user requested the stop.
    pub fn is_interrupted(&self) -> bool {
        self.stop.is_interrupted()
    }

    /// The time limit of the drain; [`Span::MAX`]: until the requests' own timeouts, as when a rule
    /// of the run has stopped it.
    pub fn drain_limit(&self) -> Span {
        self.stop.drain_limit()
    }

    /// Request to end at once. Safe in a signal handler.
    pub fn stop_now(&self) {
        self.stop.stop_now();
    }

    /// The current stop request.
    pub fn stop_request(&self) -> Option<StopRequest> {
        self.stop.stop_request()
    }

    /// The stop flag alone, for drivers.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Set the rate to the planned rate times `factor` (0 pauses the load), shortly after `now`
    /// (time since the epoch). Needs [`crate::Options::adjustable_rate`]. Only one thread may call
    /// this.
    pub fn change_rate(&self, factor: f64, now: Nanos) {
        let mut rate_changes = self.rate_changes.lock().unwrap_or_else(PoisonError::into_inner);
        let last = rate_changes.last().map_or(Nanos::ZERO, |last| last.from);
        rate_changes.push(RateChange { from: last.max(now + NOTICE), factor });
        self.changes.store(rate_changes.len(), Ordering::Release);
    }

    /// Change the rate from an agreed moment on, the same in several processes. A moment before the
    /// last change counts as the moment of that change.
    pub fn change_rate_from(&self, change: RateChange) {
        let mut rate_changes = self.rate_changes.lock().unwrap_or_else(PoisonError::into_inner);
        let last = rate_changes.last().map_or(Nanos::ZERO, |last| last.from);
        rate_changes.push(RateChange { from: last.max(change.from), ..change });
        self.changes.store(rate_changes.len(), Ordering::Release);
    }

    /// All changes so far, in order of time.
    pub fn rate_changes(&self) -> Vec<RateChange> {
        self.rate_changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a worker was too busy to apply a change in time: it may have started requests after
    /// the change at the previous rate.
    pub fn applied_late(&self) -> bool {
        self.applied_late.load(Ordering::Relaxed)
    }

    /// The changes after the first `known`, for a worker that applies them now.
    pub(crate) fn changes_since(&self, known: usize, now: Nanos) -> Vec<RateChange> {
        if self.changes.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        let new = self.rate_changes().split_off(known);
        if new.iter().any(|change| change.from < now) {
            self.applied_late.store(true, Ordering::Relaxed);
        }
        new
    }
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_changes_are_ordered_by_time() {
        let (c, at) = (Control::new(), |ms| Nanos::ZERO + Span::from_millis(ms));
        assert!(c.changes_since(0, at(0)).is_empty());
        c.change_rate(0.0, at(1_000));
        c.change_rate(1.1, at(900));
        c.change_rate(1.21, at(2_000));
        let changes: Vec<_> = c.rate_changes().iter().map(|s| (s.from, s.factor)).collect();
        assert_eq!(changes, [(at(1_200), 0.0), (at(1_200), 1.1), (at(2_200), 1.21)]);
        assert_eq!(c.changes_since(1, at(1_200)), c.rate_changes()[1..]);
        assert!(!c.applied_late());
        assert_eq!(c.changes_since(2, at(2_201)).len(), 1);
        assert!(c.applied_late());
        assert!(c.changes_since(3, at(9_000)).is_empty());
    }
}
