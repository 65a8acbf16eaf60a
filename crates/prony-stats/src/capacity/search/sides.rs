//! On which side of the capacity trials are, and on which side the next is to be.

use super::{Search, side};
use crate::capacity::Purpose;

/// After this number of trials on the same side, the next is further away, by this logarithm.
const AGREE: usize = 9;
pub(super) const FAR: f64 = 0.4;

impl Search {
    /// Whether trials around the estimate have held all thresholds and missed one.
    pub(super) fn is_on_both_sides(&self) -> bool {
        let mut sides = self.of(Purpose::Estimate).filter_map(side);
        sides.next().is_some_and(|first| sides.any(|side| side != first))
    }

    /// Which way the capacity lies if the last trials around the estimate agree: up (1), or down.
    pub(super) fn way(&self) -> Option<f64> {
        let sides: Vec<bool> = self.of(Purpose::Estimate).filter_map(side).collect();
        let last = sides.len().checked_sub(AGREE).map(|first| &sides[first..])?;
        let agree = last.iter().all(|side| *side == last[0]);
        agree.then_some(if last[0] { 1.0 } else { -1.0 })
    }
}

/// The whole number below, next to or above a number of connections. Rounding to the nearest would
/// leave small numbers without a trial on one side.
pub(super) fn whole_around(connections: f64, place: f64) -> f64 {
    match place {
        p if p < -0.5 => connections.floor(),
        p if p > 0.5 => connections.ceil(),
        _ => connections.round(),
    }
}
