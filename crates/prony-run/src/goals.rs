//! Stops a load when its figures have reached the requested precision.

use prony_base::units::{Nanos, Span};
use prony_io::{Control, Live};
use prony_plan::plan::Plan;
use prony_stats::summary::Summary;
use prony_stats::summary::confidence::{Goal, NoInterval, TimeKind, Until, Watch};

/// The age at which blocks are complete: workers report them 20 times per second.
pub(crate) const COMPLETE_AFTER: Span = Span::from_millis(250);

/// Watches a load, and stops it.
pub struct GoalWatch<'a> {
    goals: Vec<Goal>,
    watch: Watch,
    warmup: Span,
    control: &'a Control,
    /// Whether it has stopped the load.
    stopped: bool,
}

impl<'a> GoalWatch<'a> {
    /// A watch over the load of a plan, which `control` stops; `None` without goals.
    pub fn new(goals: &[Goal], plan: &Plan, control: &'a Control) -> Option<Self> {
        let goals = goals.to_vec();
        let watch = Watch::new(goals.clone());
        let new = Self { goals, watch, warmup: plan.warmup, control, stopped: false };
        (!new.goals.is_empty()).then_some(new)
    }

    /// Processes a snapshot. Stops the load when all goals are reached, unless it is already
    /// stopped.
    pub fn look(&mut self, live: &Live) {
        for (at, block) in &live.blocks {
            self.watch.add(TimeKind::Response, *at, block);
        }
        for (at, block) in &live.served {
            self.watch.add(TimeKind::Service, *at, block);
        }
        let measured = live.now.since(Nanos::ZERO + self.warmup + COMPLETE_AFTER);
        if self.control.stop_request().is_none() && self.watch.is_reached(measured) {
            self.stopped = true;
            self.control.stop();
        }
    }

    /// The precision of each figure so far, or why it is unknown.
    pub fn reached(&self) -> impl Iterator<Item = (&Goal, Result<f64, NoInterval>)> {
        self.watch.seen()
    }

    /// Records the result in the summary.
    pub fn note(self, summary: &mut Summary) {
        if self.stopped {
            summary.run.interrupted = false;
        }
        summary.run.until = Some(Until::of(self.goals, self.stopped, &summary.main));
    }
}
