//! Choices among the values that a schema allows: the first ones, or by seed.

use std::cell::Cell;

use prony_base::rng::{Stream, keyed, unit};

/// Makes the choices.
#[derive(Debug, Default)]
pub(super) struct Draw {
    /// None chooses the first of everything.
    seed: Option<u64>,
    /// How many draws there were.
    position: Cell<u64>,
}

impl Draw {
    pub(super) fn new(seed: Option<u64>) -> Self {
        Self { seed, position: Cell::new(0) }
    }

    pub(super) fn is_fixed(&self) -> bool {
        self.seed.is_none()
    }

    /// One of `count` things, of which there is at least one.
    pub(super) fn index(&self, count: usize) -> usize {
        self.bits().map_or(0, |bits| usize::try_from(bits % count.max(1) as u64).unwrap_or(0))
    }

    /// From `low` to `high`, inclusive.
    pub(super) fn whole(&self, low: i64, high: i64) -> i64 {
        let count = high.saturating_sub(low).saturating_add(1).max(1) as u64;
        self.bits().map_or(low, |bits| low.saturating_add((bits % count) as i64))
    }

    /// From 0 to 1.
    pub(super) fn unit(&self) -> f64 {
        self.bits().map_or(0.0, unit)
    }

    fn bits(&self) -> Option<u64> {
        let at = self.position.get();
        self.position.set(at + 1);
        self.seed.map(|seed| keyed(seed, Stream::Template, at, 0))
    }
}
