//! Stops a load early when it certainly misses a threshold.

use prony_core::plan::Plan;
use prony_core::summary::confidence::TimeKind;
use prony_core::summary::{Sequential, Summary};
use prony_core::threshold::Threshold;
use prony_core::units::{Nanos, Span};
use prony_io::{Control, Live};
use prony_report::units;

use crate::goals::COMPLETE_AFTER;

/// Watches a load, and stops it if a threshold with `abort` is missed.
pub struct Aborter<'a> {
    test: Sequential,
    warmup: Span,
    control: &'a Control,
    /// Requests that had ended, and failed, when the measurement started.
    before: (u64, u64),
    /// When it has stopped the load, and the threshold.
    ended: Option<(Span, Threshold)>,
}

impl<'a> Aborter<'a> {
    /// A watch over the load of a plan, which `control` stops; `None` if no threshold can stop it.
    pub fn new(plan: &Plan, control: &'a Control) -> Option<Self> {
        let test = Sequential::new(&plan.thresholds)?;
        Some(Self { test, warmup: plan.warmup, control, before: (0, 0), ended: None })
    }

    /// Processes a snapshot. Stops the load if a threshold is missed, unless it is already stopped.
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
        // Blocks arrive later than counts.
        if self.control.stop_request().is_none()
            && let Some(threshold) = self.test.missed(at.saturating_sub(COMPLETE_AFTER))
        {
            self.ended = Some((at, threshold.clone()));
            self.control.stop();
        }
    }

    /// Records the result in the summary.
    pub fn note(self, summary: &mut Summary) {
        if let Some((at, threshold)) = self.ended {
            summary.run.interrupted = false;
            note(summary, at, threshold);
        }
    }
}

/// Records the reason for the early end.
pub(crate) fn note(summary: &mut Summary, at: Span, threshold: Threshold) {
    let at = units::span(at);
    let sentence = format!("Ended after {at}: '{threshold}' was missed beyond doubt.");
    summary.run.notes.push(sentence);
    summary.run.ended_by = Some(threshold);
}
