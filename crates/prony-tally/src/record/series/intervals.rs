//! Intervals that were counted elsewhere.

use super::{Cell, Series};
use prony_base::merge::Merge;
use prony_base::units::Nanos;

impl Series {
    /// Add the counts and times of an interval of another series that begins at that moment.
    pub fn add_interval(&mut self, begin: Nanos, cell: &Cell) {
        self.cell(begin).merge(cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_base::units::Span;

    #[test]
    fn intervals_of_another_series_are_kept() {
        let second = |n| Nanos::ZERO + Span::from_secs(n);
        let mut counted = Series::new(Nanos::ZERO);
        for n in [0, 0, 1, 3] {
            counted.started(second(n));
            counted.replied(second(n), Span::from_millis(2), 10);
        }
        counted.close();
        let mut copied = Series::new(Nanos::ZERO);
        for (n, cell) in (0..).zip(counted.cells()) {
            copied.add_interval(second(n), cell);
        }
        assert_eq!(copied.cells(), counted.cells());
    }
}
