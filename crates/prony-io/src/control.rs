//! What the outside may ask of a running load, and what it may see of it: the only memory that
//! workers share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use prony_core::machine::StopRequest;
use prony_core::record::series::Cell;
use prony_core::units::Nanos;

/// The stop flag. May be a `static`, and may be set from a signal handler.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicU8,
}

/// A load as it stands: the sum over its workers, at most 50 ms old.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Time since the epoch.
    pub now: Nanos,
    /// Requests wanted so far, warm-up included.
    pub started: u64,
    /// Requests answered as expected.
    pub replies: u64,
    /// Requests failed.
    pub failed: u64,
    /// Requests among the failed that were lost: the peer has answered them neither rightly nor
    /// wrongly.
    pub lost: u64,
    /// Sessions completed, where there are any.
    pub sessions: u64,
    /// Requests wanted but neither answered nor failed.
    pub in_flight: u64,
    /// The newest whole interval of the time series, once there is one.
    pub last: Option<Cell>,
}

/// One worker's part of [`Live`], alone on its cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    started: AtomicU64,
    replies: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    sessions: AtomicU64,
    /// The interval that `last` covers, and its counts.
    last: Mutex<Option<(u64, Cell)>>,
}

impl Control {
    /// Nothing is asked yet.
    pub const fn new() -> Self {
        Self { stop: AtomicU8::new(0) }
    }

    /// Ask to start nothing new; or, where that was asked before, to end at once. Safe in a signal
    /// handler.
    pub fn stop(&self) {
        if self.stop.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.stop_now();
        }
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

impl Gauge {
    pub(crate) fn show(&self, [started, replies, failed, lost]: [u64; 4]) {
        self.started.store(started, Ordering::Relaxed);
        self.replies.store(replies, Ordering::Relaxed);
        self.failed.store(failed, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
    }

    pub(crate) fn show_sessions(&self, completed: u64) {
        self.sessions.store(completed, Ordering::Relaxed);
    }

    pub(crate) fn show_cell(&self, interval: u64, cell: &Cell) {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *last = Some((interval, cell.clone()));
    }
}

impl Live {
    /// Requests that were answered, rightly or wrongly.
    pub fn answered(&self) -> u64 {
        // The gauges are read one by one while they change.
        self.replies + self.failed.saturating_sub(self.lost)
    }

    /// The sum of the gauges. The newest interval counts once every worker that still reports has
    /// closed it.
    pub(crate) fn of(gauges: &[Gauge], now: Nanos) -> Self {
        let mut live = Self { now, ..Self::default() };
        let mut newest = None;
        for g in gauges {
            live.started += g.started.load(Ordering::Relaxed);
            live.replies += g.replies.load(Ordering::Relaxed);
            live.lost += g.lost.load(Ordering::Relaxed);
            live.sessions += g.sessions.load(Ordering::Relaxed);
            live.failed += g.failed.load(Ordering::Relaxed);
            let last = g.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Some((interval, cell)) = &*last else { continue };
            match &mut newest {
                Some((at, sum)) if at == interval => Cell::merge(sum, cell),
                Some((at, _)) if *at > *interval => {}
                _ => newest = Some((*interval, cell.clone())),
            }
        }
        live.in_flight = live.started.saturating_sub(live.replies + live.failed);
        live.last = newest.map(|(_, cell)| cell);
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn live_is_the_sum_of_the_gauges() {
        let gauges = [Gauge::default(), Gauge::default()];
        gauges[0].show([10, 7, 1, 1]);
        gauges[1].show([5, 5, 0, 0]);
        let live = Live::of(&gauges, Nanos(3));
        assert_eq!((live.started, live.replies, live.failed, live.in_flight), (15, 12, 1, 2));
        assert_eq!(live.lost, 1);
        gauges[1].show_sessions(4);
        assert_eq!(Live::of(&gauges, Nanos(3)).sessions, 4);
        assert!(live.last.is_none());
        gauges[0].show_cell(4, &Cell { started: 3, ..Cell::default() });
        gauges[1].show_cell(3, &Cell { started: 9, ..Cell::default() });
        assert_eq!(Live::of(&gauges, Nanos(3)).last.map(|c| c.started), Some(3));
    }
}
