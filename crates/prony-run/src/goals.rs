//! A load that ends when its figures are known as closely as was asked for.

use prony_core::plan::Plan;
use prony_core::summary::Summary;
use prony_core::summary::confidence::{Clock, Goal, Lack, Until, Watch};
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live};

/// How old blocks must be to be those of all workers, which tell of them 20 times a second.
const TOLD_AFTER: Span = Span::from_millis(250);

/// Looks at a load, and ends it.
pub struct Ender<'a> {
    goals: Vec<Goal>,
    watch: Watch,
    warmup: Span,
    control: &'a Control,
    /// Whether it has ended the load.
    ended: bool,
}

impl<'a> Ender<'a> {
    /// That of a plan whose load `control` ends; `None` where there are no goals.
    pub fn new(goals: &[Goal], plan: &Plan, control: &'a Control) -> Option<Self> {
        let goals = goals.to_vec();
        let watch = Watch::new(goals.clone());
        let new = Self { goals, watch, warmup: plan.warmup, control, ended: false };
        (!new.goals.is_empty()).then_some(new)
    }

    /// Take in how the load stands. Ends it where that is enough, unless somebody else has.
    pub fn look(&mut self, live: &Live) {
        for (at, block) in &live.blocks {
            self.watch.add(Clock::Response, *at, block);
        }
        for (at, block) in &live.served {
            self.watch.add(Clock::Service, *at, block);
        }
        let measured = live.now.since(Nanos::ZERO + self.warmup + TOLD_AFTER);
        if self.control.stop_request().is_none() && self.watch.is_reached(measured) {
            self.ended = true;
            self.control.stop();
        }
    }

    /// How closely each figure is known; or why nobody can say yet.
    pub fn reached(&self) -> impl Iterator<Item = (&Goal, Result<f64, Lack>)> {
        self.watch.seen()
    }

    /// Note in the summary what has come of it.
    pub fn note(self, summary: &mut Summary) {
        if self.ended {
            summary.run.interrupted = false;
        }
        summary.run.until = Some(Until::of(self.goals, self.ended, &summary.main));
    }
}
