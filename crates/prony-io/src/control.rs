//! What the outside may ask of a running load.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use prony_core::machine::StopRequest;
use prony_core::schedule::Steer;
use prony_core::units::{Nanos, Span};

/// Between two calls of `pulse`, and the longest wait: progress and the stop flag are looked at 20
/// times a second.
pub(crate) const PULSE: Span = Span::from_millis(50);

/// From the wish to change the rate to the moment from which on it changes: time for every worker
/// to hear of it, which looks for changes 20 times a second.
const NOTICE: Span = Span::from_millis(200);

/// The stop flag, and changes of the rate. May be a `static`; the flag may be set from a signal
/// handler.
#[derive(Debug)]
pub struct Control {
    stop: AtomicU8,
    /// Whether the user asked for the stop, and not a rule of the run.
    interrupted: AtomicBool,
    /// How long a drain may last, in nanoseconds.
    drain_ns: AtomicU64,
    /// How many changes there are, so that workers need not lock anything to see it.
    changes: AtomicUsize,
    steers: Mutex<Vec<Steer>>,
    heard_late: AtomicBool,
}

impl Control {
    /// Nothing is asked yet.
    pub const fn new() -> Self {
        Self {
            stop: AtomicU8::new(0),
            interrupted: AtomicBool::new(false),
            drain_ns: AtomicU64::new(u64::MAX),
            changes: AtomicUsize::new(0),
            steers: Mutex::new(Vec::new()),
            heard_late: AtomicBool::new(false),
        }
    }

    /// Ask to start nothing new; or, where that was asked before, to end at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        if self.stop.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.stop_now();
        }
    }

    /// The same in the user's name. A first request lets the drain last at most `drain`; after that
    /// the run ends as if asked twice. Safe in a signal handler.
    pub fn interrupt(&self, drain: Span) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.drain_ns.fetch_min(drain.as_nanos(), Ordering::Relaxed);
        self.stop();
    }

    /// Whether the user asked for the stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// How long the drain may last; [`Span::MAX`]: until the requests' own timeouts.
    pub fn drain_limit(&self) -> Span {
        Span(self.drain_ns.load(Ordering::Relaxed))
    }

    /// Ask to end at once. Safe in a signal handler.
    pub fn stop_now(&self) {
        self.stop.store(2, Ordering::Relaxed);
    }

    /// What is asked.
    #[inline]
    pub fn stop_request(&self) -> Option<StopRequest> {
        match self.stop.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(StopRequest::Drain),
            _ => Some(StopRequest::Now),
        }
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

/// What one worker has seen of the stop flag.
#[derive(Debug, Default)]
pub(crate) struct StopSeen {
    seen: Option<StopRequest>,
    /// When a drain has lasted long enough.
    drain_ends: Option<Nanos>,
}

impl StopSeen {
    /// How to stop, where that is asked anew. A drain whose limit has passed ends for all workers.
    #[inline]
    pub(crate) fn asked(&mut self, control: &Control, now: Nanos) -> Option<StopRequest> {
        let asked = control.stop_request();
        if asked.is_none() { None } else { self.heard(asked, control, now) }
    }

    #[cold]
    fn heard(
        &mut self,
        mut asked: Option<StopRequest>,
        control: &Control,
        now: Nanos,
    ) -> Option<StopRequest> {
        if asked == Some(StopRequest::Drain) {
            let limit = control.drain_limit();
            let ends = *self.drain_ends.get_or_insert_with(|| now + limit);
            if ends <= now {
                control.stop_now();
                asked = Some(StopRequest::Now);
            }
        }
        if asked <= self.seen {
            return None;
        }
        self.seen = asked;
        asked
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

    #[test]
    fn the_second_stop_is_urgent() {
        let c = Control::new();
        assert_eq!(c.stop_request(), None);
        c.stop();
        assert_eq!(c.stop_request(), Some(StopRequest::Drain));
        c.stop();
        assert_eq!(c.stop_request(), Some(StopRequest::Now));
        c.stop();
        assert_eq!(c.stop_request(), Some(StopRequest::Now));
    }
    #[test]
    fn a_limited_drain_ends_by_itself() {
        let (c, at) = (Control::new(), |ms| Nanos::ZERO + Span::from_millis(ms));
        let (mut one, mut other) = (StopSeen::default(), StopSeen::default());
        assert_eq!(one.asked(&c, at(100)), None);
        c.interrupt(Span::from_secs(3));
        assert!(c.is_interrupted());
        assert_eq!(one.asked(&c, at(1_000)), Some(StopRequest::Drain));
        assert_eq!(one.asked(&c, at(3_999)), None);
        assert_eq!(one.asked(&c, at(4_000)), Some(StopRequest::Now));
        assert_eq!(one.asked(&c, at(9_000)), None);
        assert_eq!(other.asked(&c, at(4_000)), Some(StopRequest::Now), "for all workers");
    }

    #[test]
    fn an_unlimited_drain_lasts_and_the_second_stop_ends_it() {
        let (c, at) = (Control::new(), |s| Nanos::ZERO + Span::from_secs(s));
        let mut worker = StopSeen::default();
        c.interrupt(Span::MAX);
        assert_eq!(worker.asked(&c, at(1)), Some(StopRequest::Drain));
        assert_eq!(worker.asked(&c, at(100_000)), None);
        c.interrupt(Span::MAX);
        assert_eq!(worker.asked(&c, at(100_001)), Some(StopRequest::Now));
    }
}
