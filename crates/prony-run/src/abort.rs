//! A load that ends early because a threshold is missed beyond doubt.

use prony_core::plan::Plan;
use prony_core::summary::confidence::TimeKind;
use prony_core::summary::{Sequential, Summary};
use prony_core::threshold::Threshold;
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live};
use prony_report::units;

use crate::goals::COMPLETE_AFTER;

/// Looks at a load, and ends it where a threshold with `abort` is missed.
pub struct Aborter<'a> {
    test: Sequential,
    warmup: Span,
    control: &'a Control,
    /// Requests that had ended, and failed, when the measurement started.
    before: (u64, u64),
    /// When it has ended the load, and by which threshold.
    ended: Option<(Span, Threshold)>,
}

impl<'a> Aborter<'a> {
    /// That of a plan whose load `control` ends; `None` where no threshold can end it.
    pub fn new(plan: &Plan, control: &'a Control) -> Option<Self> {
        let test = Sequential::new(&plan.thresholds)?;
        Some(Self { test, warmup: plan.warmup, control, before: (0, 0), ended: None })
    }

    /// Take in how the load stands. Ends it where a threshold is missed, unless somebody else has.
    pub fn look(&mut self, live: &Live) {
        for (at, block) in &live.blocks {
            self.test.add(TimeKind::Response, *at, block);
        }
        for (at, block) in &live.served {
            self.test.add(TimeKind::Service, *at, block);
        }
        let (ended, failed) = (live.replies + live.failed, live.failed);
        let start = Nanos::ZERO + self.warmup;
        if live.now <= start {
            self.before = (ended, failed);
            return;
        }
        let since = |n: u64, before: u64| n.saturating_sub(before);
        let at = live.now.since(start);
        self.test.count(at, since(ended, self.before.0), since(failed, self.before.1));
        // Blocks come later than counts.
        if self.control.stop_request().is_none()
            && let Some(threshold) = self.test.missed(at.saturating_sub(COMPLETE_AFTER))
        {
            self.ended = Some((at, threshold.clone()));
            self.control.stop();
        }
    }

    /// Note in the summary what has come of it.
    pub fn note(self, summary: &mut Summary) {
        if let Some((at, threshold)) = self.ended {
            summary.run.interrupted = false;
            summary.run.notes.push(sentence(at, &threshold));
        }
    }
}

/// Why a load ended before its time.
pub(crate) fn sentence(at: Span, threshold: &Threshold) -> String {
    format!("Ended after {}: '{threshold}' was missed beyond doubt.", units::span(at))
}
