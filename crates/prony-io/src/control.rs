//! What the outside may ask of a running load.

use std::sync::atomic::{AtomicU8, Ordering};

use prony_core::machine::StopRequest;

/// The stop flag. May be a `static`, and may be set from a signal handler.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicU8,
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
}
