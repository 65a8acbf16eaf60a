//! Changes of the rate while it is carried out.
//!
//! Arrival k falls where the integral of the rate reaches its number (or its draw), whatever the
//! rate. So a change moves the arrivals behind its moment, and each share of a run can move its own
//! without knowing those of the others.

use super::Schedule;
use crate::plan::Load;
use crate::rate::{Arrivals, RatePlan, Steer};

/// What a schedule knows of its changes.
#[derive(Clone, Debug)]
pub(super) struct Helm {
    /// The plan's own rate; `None` where the arrivals follow none and cannot be changed.
    rate: Option<RatePlan>,
    steers: Vec<Steer>,
    /// There may be (further) changes.
    pub(super) awaits: bool,
    /// The number of arrivals has ended the schedule.
    pub(super) counted_out: bool,
}

impl Helm {
    pub(super) fn new(load: &Load) -> Self {
        let rate = match load {
            Load::Open { rate, arrivals: Arrivals::Fixed | Arrivals::Poisson, .. } => Some(rate),
            _ => None,
        };
        Self { rate: rate.cloned(), steers: Vec::new(), awaits: false, counted_out: false }
    }
}

impl Load {
    /// The rate, where it can be changed on the way.
    pub fn steerable(&mut self) -> Option<&mut RatePlan> {
        match self {
            Self::Open { rate, arrivals: Arrivals::Fixed | Arrivals::Poisson, .. } => Some(rate),
            _ => None,
        }
    }
}

impl Schedule {
    /// The rate may be changed: what would come after the end of the load may then come before it,
    /// so the schedule lasts until its end ([`Schedule::end`]), which it does not notice by itself.
    /// Nothing happens where the arrivals follow no rate.
    pub fn expect_steers(&mut self) {
        self.helm.awaits = self.helm.rate.is_some();
    }

    /// Change the rate from a moment on, which is not before that of the change before it. Every
    /// arrival at or behind that moment which has not been taken yet moves; the arrivals are then
    /// those of [`RatePlan::steered`]. Nothing happens where the arrivals follow no rate.
    pub fn steer(&mut self, steer: Steer) {
        let helm = &mut self.helm;
        let Some(rate) = &helm.rate else { return };
        helm.steers.push(steer);
        helm.awaits = true;
        let at = self.measured.turn(&rate.steered(self.begin, &helm.steers));
        let is_fixed = self.next.is_some_and(|next| next.at < steer.from);
        if self.first_measured.is_some() && !helm.counted_out && !is_fixed {
            // `index` is the one behind the arrival that is to come next.
            self.next = at.and_then(|at| self.at(self.index - 1, at));
        }
    }

    /// Whether no arrival will come any more, however the rate is changed from now on.
    pub fn is_over(&self) -> bool {
        self.next.is_none() && (self.helm.counted_out || !self.helm.awaits)
    }
}
