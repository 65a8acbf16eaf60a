//! How a run is asked to end before its time.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use prony_core::machine::StopRequest;
use prony_core::units::{Nanos, Span};

/// Between two calls of `pulse`, and the longest wait: progress and the stop flag are looked at 20
/// times a second.
pub(crate) const PULSE: Span = Span::from_millis(50);

/// The stop flag. It may be set from a signal handler.
#[derive(Debug)]
pub struct StopFlag {
    stop: AtomicU8,
    /// Whether the user asked for the stop, and not a rule of the run.
    interrupted: AtomicBool,
    /// How long a drain may last, in nanoseconds.
    drain_ns: AtomicU64,
}

impl StopFlag {
    /// Nothing is asked yet.
    pub const fn new() -> Self {
        Self {
            stop: AtomicU8::new(0),
            interrupted: AtomicBool::new(false),
            drain_ns: AtomicU64::new(u64::MAX),
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
}

impl Default for StopFlag {
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
    pub(crate) fn asked(&mut self, flag: &StopFlag, now: Nanos) -> Option<StopRequest> {
        let asked = flag.stop_request();
        if asked.is_none() { None } else { self.heard(asked, flag, now) }
    }

    #[cold]
    fn heard(
        &mut self,
        mut asked: Option<StopRequest>,
        flag: &StopFlag,
        now: Nanos,
    ) -> Option<StopRequest> {
        if asked == Some(StopRequest::Drain) {
            let limit = flag.drain_limit();
            let ends = *self.drain_ends.get_or_insert_with(|| now + limit);
            if ends <= now {
                flag.stop_now();
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
    fn the_second_stop_is_urgent() {
        let c = StopFlag::new();
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
        let (c, at) = (StopFlag::new(), |ms| Nanos::ZERO + Span::from_millis(ms));
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
        let (c, at) = (StopFlag::new(), |s| Nanos::ZERO + Span::from_secs(s));
        let mut worker = StopSeen::default();
        c.interrupt(Span::MAX);
        assert_eq!(worker.asked(&c, at(1)), Some(StopRequest::Drain));
        assert_eq!(worker.asked(&c, at(100_000)), None);
        c.interrupt(Span::MAX);
        assert_eq!(worker.asked(&c, at(100_001)), Some(StopRequest::Now));
    }
}
