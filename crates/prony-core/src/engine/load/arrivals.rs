//! The arrivals of an open loop: when each request is due.

use prony_base::units::Nanos;
use prony_plan::plan::Plan;
use prony_plan::schedule::{Arrival, Schedule, Skipped};

/// The arrivals of a share.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) schedule: Schedule,
    /// Ended by time, or by the user.
    cut: bool,
    by_count: bool,
    /// False until the first tick. A share without arrivals must get one tick to finish.
    begun: bool,
}

impl Arrivals {
    pub(super) fn new(plan: &Plan) -> Self {
        let schedule = Schedule::new(plan);
        Self {
            begun: schedule.peek().is_some() && plan.exchange.is_none(),
            schedule,
            cut: false,
            by_count: plan.stop.requests.is_some(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.begun = true;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Drop all arrivals from `at` on.
    pub(super) fn end(&mut self, at: Nanos) {
        self.cut = true;
        self.schedule.cut(at);
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Nanos> {
        self.schedule.peek().map(|next| next.at)
    }

    /// The next arrival, if it is due.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Arrival> {
        self.schedule.peek().filter(|next| next.at <= now)?;
        self.schedule.pop()
    }

    pub(super) fn due_before(&self, limit: Nanos) -> u64 {
        self.schedule.due_before(limit)
    }

    pub(super) fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        self.schedule.skip_before(limit)
    }

    pub(super) fn is_over(&self) -> bool {
        self.schedule.is_over()
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        self.by_count && !self.cut && self.schedule.is_over()
    }
}
