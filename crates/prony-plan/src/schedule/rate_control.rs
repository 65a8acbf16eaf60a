//! Changes of the rate during the run.
//!
//! Arrival k is due when the integral of the rate reaches k (or the k-th draw). A change of the
//! rate therefore moves all later arrivals, and each share can move its own without knowing those
//! of the others.

use super::Schedule;
use crate::plan::Load;
use crate::rate::{RateChange, RatePlan};

/// The rate of a schedule and its changes.
#[derive(Clone, Debug)]
pub(super) struct RateControl {
    /// The planned rate; `None` for arrivals without a rate, which cannot be changed.
    rate: Option<RatePlan>,
    changes: Vec<RateChange>,
    /// Whether further changes may come.
    pub(super) expects_changes: bool,
    /// Whether the maximum number of arrivals has ended the schedule.
    pub(super) reached_count: bool,
}

impl RateControl {
    pub(super) fn new(load: &Load) -> Self {
        let rate = match load {
            Load::Open { rate, arrivals, .. } if arrivals.has_rate() => Some(rate),
            _ => None,
        };
        Self {
            rate: rate.cloned(),
            changes: Vec::new(),
            expects_changes: false,
            reached_count: false,
        }
    }
}

impl Load {
    /// The rate, if it can be changed during the run.
    pub fn adjustable_rate(&mut self) -> Option<&mut RatePlan> {
        match self {
            Self::Open { rate, arrivals, .. } if arrivals.has_rate() => Some(rate),
            _ => None,
        }
    }
}

impl Schedule {
    /// Prepare for changes of the rate. A change can bring further arrivals before the end of the
    /// load, so [`Schedule::is_over`] stays false until the caller reaches [`Schedule::end`]. No
    /// effect if the arrivals have no rate.
    pub fn expect_rate_changes(&mut self) {
        self.rate_control.expects_changes = self.rate_control.rate.is_some();
    }

    /// Change the rate from `change.from` on, which must not be earlier than the previous change.
    /// Arrivals at or after that time move, unless they were already taken; they are then those of
    /// [`RatePlan::with_changes`]. No effect if the arrivals have no rate.
    pub fn change_rate(&mut self, change: RateChange) {
        let rate_control = &mut self.rate_control;
        let Some(rate) = &rate_control.rate else { return };
        rate_control.changes.push(change);
        rate_control.expects_changes = true;
        let at = self.measured.set_rate(&rate.with_changes(self.start, &rate_control.changes));
        let is_before_change = self.next.is_some_and(|next| next.at < change.from);
        if self.first_measured.is_some() && !rate_control.reached_count && !is_before_change {
            // `index` is one past the next arrival.
            self.next = at.and_then(|at| self.at(self.index - 1, at));
        }
    }

    /// Whether no further arrival can come, even if the rate changes.
    pub fn is_over(&self) -> bool {
        self.next.is_none()
            && (self.rate_control.reached_count || !self.rate_control.expects_changes)
    }
}
