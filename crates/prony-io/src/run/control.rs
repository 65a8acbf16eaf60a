//! What the outside may ask of a running load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use prony_core::machine::StopRequest;
use prony_core::schedule::Steer;
use prony_core::units::{Nanos, Span};

use crate::time::stop::StopFlag;

/// From the wish to change the rate to the moment from which on it changes: time for every worker
/// to hear of it, which looks for changes 20 times a second.
const NOTICE: Span = Span::from_millis(200);

/// The stop flag, and changes of the rate. May be a `static`; the flag may be set from a signal
/// handler.
#[derive(Debug)]
pub struct Control {
    stop: StopFlag,
    /// How many changes there are, so that workers need not lock anything to see it.
    changes: AtomicUsize,
    steers: Mutex<Vec<Steer>>,
    heard_late: AtomicBool,
}

impl Control {
    /// Nothing is asked yet.
    pub const fn new() -> Self {
        Self {
            stop: StopFlag::new(),
            changes: AtomicUsize::new(0),
            steers: Mutex::new(Vec::new()),
            heard_late: AtomicBool::new(false),
        }
    }

    /// Ask to start nothing new; or, where that was asked before, to end at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// The same in the user's name. A first request lets the drain last at most `drain`; after that
    /// the run ends as if asked twice. Safe in a signal handler.
    pub fn interrupt(&self, drain: Span) {
        self.stop.interrupt(drain);
    }

    /// Whether the user asked for the stop.
    pub fn is_interrupted(&self) -> bool {
        self.stop.is_interrupted()
    }

    /// How long the drain may last; [`Span::MAX`]: until the requests' own timeouts.
    pub fn drain_limit(&self) -> Span {
        self.stop.drain_limit()
    }

    /// Ask to end at once. Safe in a signal handler.
    pub fn stop_now(&self) {
        self.stop.stop_now();
    }

    /// What is asked.
    pub fn stop_request(&self) -> Option<StopRequest> {
        self.stop.stop_request()
    }

    /// The stop flag alone, which is all that drivers look at.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Change the rate to the plan's times `factor` (0: a pause) shortly after `now`, which is the
    /// time since the epoch. Only in a load that expects it ([`crate::Options::steerable`]), by one
    /// thread.
    pub fn steer(&self, factor: f64, now: Nanos) {
        let mut steers = self.steers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = steers.last().map_or(Nanos::ZERO, |last| last.from);
        steers.push(Steer { from: last.max(now + NOTICE), factor });
        self.changes.store(steers.len(), Ordering::Release);
    }

    /// All changes so far, in the order of their moments.
    pub fn steers(&self) -> Vec<Steer> {
        self.steers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a worker was too busy to hear of a change before its moment: it may have started
    /// requests behind that moment as the rate before it asked.
    pub fn heard_late(&self) -> bool {
        self.heard_late.load(Ordering::Relaxed)
    }

    /// The changes behind the first `known`, for a worker that hears of them now.
    pub(crate) fn news(&self, known: usize, now: Nanos) -> Vec<Steer> {
        if self.changes.load(Ordering::Acquire) <= known {
            return Vec::new();
        }
        let news = self.steers().split_off(known);
        if news.iter().any(|steer| steer.from < now) {
            self.heard_late.store(true, Ordering::Relaxed);
        }
        news
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
    fn changes_come_in_the_order_of_their_moments() {
        let (c, at) = (Control::new(), |ms| Nanos::ZERO + Span::from_millis(ms));
        assert!(c.news(0, at(0)).is_empty());
        c.steer(0.0, at(1_000));
        c.steer(1.1, at(900));
        c.steer(1.21, at(2_000));
        let told: Vec<_> = c.steers().iter().map(|s| (s.from, s.factor)).collect();
        assert_eq!(told, [(at(1_200), 0.0), (at(1_200), 1.1), (at(2_200), 1.21)]);
        assert_eq!(c.news(1, at(1_200)), c.steers()[1..]);
        assert!(!c.heard_late());
        assert_eq!(c.news(2, at(2_201)).len(), 1);
        assert!(c.heard_late());
        assert!(c.news(3, at(9_000)).is_empty());
    }
}
