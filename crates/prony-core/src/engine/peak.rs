//! The most connections of all workers of a run at one time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A gauge that several engines share: their connections that are open or being opened, and the
/// most that there were at once. The sum of each engine's maximum is larger, as they need not reach
/// theirs at the same time.
#[derive(Debug, Default)]
pub struct Peak {
    now: AtomicU64,
    most: AtomicU64,
}

impl Peak {
    pub(super) fn opens(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn closes(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most at once, so far.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers, each with at most three connections, but not at the same time.
    #[test]
    fn the_most_at_once_is_not_the_sum_of_the_maxima() {
        let peak = Peak::default();
        for _ in 0..2 {
            (0..3).for_each(|_| peak.opens());
            (0..2).for_each(|_| peak.closes());
        }
        assert_eq!(peak.most(), 4);
    }
}
