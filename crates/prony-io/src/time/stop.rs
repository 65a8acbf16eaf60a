//! How to stop a run early.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use prony_base::machine::StopRequest;
use prony_base::meter::Stalls;
use prony_base::units::{Nanos, Span};

/// The mean interval of pulses: progress and the stop flag are checked about 20 times a second.
pub(crate) const PULSE: Span = Stalls::CHECK;

/// How long a run that the user stops waits for replies, unless it has another limit. Supervisors
/// kill a process that does not end soon (`docker stop` after 10 s), and users do too.
pub const DRAIN: Span = Span::from_secs(3);

/// The stop flag. It may be set from a signal handler.
#[derive(Debug)]
pub struct StopFlag {
    stop: AtomicU8,
    /// Whether the user requested the stop, not a rule of the run.
    interrupted: AtomicBool,
    /// The time limit of a drain on behalf of the user, in nanoseconds.
    drain_ns: AtomicU64,
}

impl StopFlag {
    /// No stop requested yet.
    pub const fn new() -> Self {
        Self {
            stop: AtomicU8::new(0),
            interrupted: AtomicBool::new(false),
            drain_ns: AtomicU64::new(DRAIN.as_nanos()),
        }
    }

    /// Request to start nothing new; a second request ends the run at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        if self.stop.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.stop_now();
        }
    }

    /// The same on behalf of the user: the drain has a [limit](Self::limit_drain), then the run
    /// ends at once. Safe in a signal handler.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Sets how long a run that the user stops waits for replies; without it, [`DRAIN`].
    /// [`Span::MAX`]: until the requests' own timeouts.
    pub fn limit_drain(&self, limit: Span) {
        self.drain_ns.store(limit.as_nanos(), Ordering::Relaxed);
    }

    /// Whether the user requested the stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The time limit of the drain; [`Span::MAX`]: until the requests' own timeouts, as when a rule
    /// of the run has stopped it.
    pub fn drain_limit(&self) -> Span {
        match self.is_interrupted() {
            true => Span(self.drain_ns.load(Ordering::Relaxed)),
            false => Span::MAX,
        }
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
            if self.drain_ends.is_none() && limit < Span::MAX {
                self.drain_ends = Some(now + limit);
            }
            if self.drain_ends.is_some_and(|ends| ends <= now) {
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
        assert_eq!(c.drain_limit(), Span::MAX, "nobody has stopped it");
        c.interrupt();
        assert!(c.is_interrupted() && c.drain_limit() == DRAIN);
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
        c.limit_drain(Span::MAX);
        c.interrupt();
        assert_eq!(worker.new_request(&c, at(1)), Some(StopRequest::Drain));
        assert_eq!(worker.new_request(&c, at(100_000)), None);
        c.interrupt();
        assert_eq!(worker.new_request(&c, at(100_001)), Some(StopRequest::Now));
    }

    #[test]
    fn stop_by_a_rule_has_no_limit() {
        let (c, at) = (StopFlag::new(), |s| Nanos::ZERO + Span::from_secs(s));
        let mut worker = StopSeen::default();
        c.stop();
        assert_eq!(worker.new_request(&c, at(1)), Some(StopRequest::Drain));
        assert_eq!(worker.new_request(&c, at(100_000)), None);
        c.interrupt();
        assert_eq!(worker.new_request(&c, at(100_001)), Some(StopRequest::Now));
    }
}
