//! How to stop a run early.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use prony_core::machine::StopRequest;
use prony_core::summary::Stalls;
use prony_core::units::{Nanos, Span};

/// The mean interval of pulses: progress and the stop flag are checked about 20 times a second.
pub(crate) const PULSE: Span = Stalls::CHECK;

/// The stop flag. It may be set from a signal handler.
#[derive(Debug)]
pub struct StopFlag {
    stop: AtomicU8,
    /// Whether the user requested the stop, not a rule of the run.
    interrupted: AtomicBool,
    /// The time limit of a drain, in nanoseconds.
    drain_ns: AtomicU64,
}

impl StopFlag {
    /// No stop requested yet.
    pub const fn new() -> Self {
        Self {
            stop: AtomicU8::new(0),
            interrupted: AtomicBool::new(false),
            drain_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// Request to start nothing new; a second request ends the run at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        if self.stop.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.stop_now();
        }
    }

    /// The same on behalf of the user. The first request limits the drain to `drain`, then the run
    /// ends at once. Safe in a signal handler.
    pub fn interrupt(&self, drain: Span) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.drain_ns.fetch_min(drain.as_nanos(), Ordering::Relaxed);
        self.stop();
    }

    /// Whether the user requested the stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The time limit of the drain; [`Span::MAX`]: until the requests' own timeouts.
    pub fn drain_limit(&self) -> Span {
        Span(self.drain_ns.load(Ordering::Relaxed))
    }

    /// Request to end at once. Safe in a signal handler.
    pub fn stop_now(&self) {
        self.stop.store(2, Ordering::Relaxed);
    }

    /// The current stop request.
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
    /// When the time limit of the drain expires.
    drain_ends: Option<Nanos>,
}

impl StopSeen {
    /// A stop request that was not returned before. When the drain's time limit expires for one
    /// worker, the run ends at once for all.
    #[inline]
    pub(crate) fn new_request(&mut self, flag: &StopFlag, now: Nanos) -> Option<StopRequest> {
        let request = flag.stop_request();
        if request.is_none() { None } else { self.apply(request, flag, now) }
    }

    #[cold]
    fn apply(
        &mut self,
        mut request: Option<StopRequest>,
        flag: &StopFlag,
        now: Nanos,
    ) -> Option<StopRequest> {
        if request == Some(StopRequest::Drain) {
            let limit = flag.drain_limit();
            let ends = *self.drain_ends.get_or_insert_with(|| now + limit);
            if ends <= now {
                flag.stop_now();
                request = Some(StopRequest::Now);
            }
        }
        if request <= self.seen {
            return None;
        }
        self.seen = request;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_stop_request_ends_at_once() {
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
    fn limited_drain_ends_at_its_limit() {
        let (c, at) = (StopFlag::new(), |ms| Nanos::ZERO + Span::from_millis(ms));
        let (mut one, mut other) = (StopSeen::default(), StopSeen::default());
        assert_eq!(one.new_request(&c, at(100)), None);
        c.interrupt(Span::from_secs(3));
        assert!(c.is_interrupted());
        assert_eq!(one.new_request(&c, at(1_000)), Some(StopRequest::Drain));
        assert_eq!(one.new_request(&c, at(3_999)), None);
        assert_eq!(one.new_request(&c, at(4_000)), Some(StopRequest::Now));
        assert_eq!(one.new_request(&c, at(9_000)), None);
        assert_eq!(
            other.new_request(&c, at(4_000)),
            Some(StopRequest::Now),
            "the drain ends for all workers"
        );
    }

    #[test]
    fn unlimited_drain_lasts_until_the_second_stop_request() {
        let (c, at) = (StopFlag::new(), |s| Nanos::ZERO + Span::from_secs(s));
        let mut worker = StopSeen::default();
        c.interrupt(Span::MAX);
        assert_eq!(worker.new_request(&c, at(1)), Some(StopRequest::Drain));
        assert_eq!(worker.new_request(&c, at(100_000)), None);
        c.interrupt(Span::MAX);
        assert_eq!(worker.new_request(&c, at(100_001)), Some(StopRequest::Now));
    }
}
