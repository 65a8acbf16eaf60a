//! `--until`: a load ends when its figures are known as closely as was asked for.

use prony_core::plan::Plan;
use prony_core::summary::Summary;
use prony_core::summary::confidence::{Clock, Goal, Until, Watch};
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live};

use crate::report::units;

/// How old blocks must be to be those of all workers, which tell of them 20 times a second.
const TOLD_AFTER: Span = Span::from_millis(250);

/// Looks at a load, and ends it.
pub(super) struct Ender<'a> {
    goals: Vec<Goal>,
    watch: Watch,
    warmup: Span,
    control: &'a Control,
    /// Whether it has ended the load.
    ended: bool,
}

impl<'a> Ender<'a> {
    /// That of a plan, where there are goals.
    pub(super) fn new(goals: &[Goal], plan: &Plan, control: &'a Control) -> Option<Self> {
        let goals = goals.to_vec();
        let watch = Watch::new(goals.clone());
        let new = Self { goals, watch, warmup: plan.warmup, control, ended: false };
        (!new.goals.is_empty()).then_some(new)
    }

    /// The load stands so. Ends it where that is enough, unless somebody else has.
    pub(super) fn heed(&mut self, live: &Live) {
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

    /// How closely the figures are known, for progress.
    pub(super) fn told(&self) -> String {
        let told = self.watch.seen().map(|(goal, reach)| match reach {
            Ok(reach) => format!(", {} of {goal}", units::bar(reach)),
            Err(_) => format!(", too early for {goal}"),
        });
        told.collect()
    }

    /// Note in the summary what has come of it.
    pub(super) fn note(self, summary: &mut Summary) {
        if self.ended {
            summary.run.interrupted = false;
        }
        summary.run.until = Some(Until::of(self.goals, self.ended, &summary.main));
    }
}
