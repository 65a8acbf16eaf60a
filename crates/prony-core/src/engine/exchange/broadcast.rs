//! The broadcast of a plan: which streams publish, and until when the others await messages.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{BroadcastPlan, Plan};

/// The broadcast of a plan.
#[derive(Debug)]
pub(super) struct Broadcasting {
    pub(super) plan: BroadcastPlan,
    /// From the intended start of a subscriber to the time until which it awaits messages.
    pub(super) awaits: Span,
}

impl Broadcasting {
    /// `None`: the plan is no broadcast.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let spec = *plan.broadcast()?;
        let awaits = plan.awaits_until(&spec, Nanos::ZERO).since(Nanos::ZERO);
        Some(Self { plan: spec, awaits })
    }

    /// When the schedule of the stream with this number starts, or, if it is that of a subscriber,
    /// when that ends.
    pub(super) fn starts(&self, number: u64, intended: Nanos) -> Result<Nanos, Nanos> {
        match number < self.plan.publishers.into() {
            true => Ok(intended + self.plan.after),
            false => Err(intended + self.awaits + self.plan.wait / 2),
        }
    }

    /// The publishers have stopped at this time: until when subscribers await what is sent, and
    /// until when they stay.
    pub(super) fn after_stop(&self, at: Nanos) -> [Nanos; 2] {
        [at + self.plan.wait / 2, at + self.plan.wait]
    }
}
