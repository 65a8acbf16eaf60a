//! Stops a load early when it certainly misses a threshold, or when all are decided.

use prony_base::units::{Nanos, Span};
use prony_io::{Control, Live};
use prony_plan::plan::Plan;
use prony_plan::threshold::Threshold;
use prony_report::units;
use prony_stats::summary::confidence::TimeKind;
use prony_stats::summary::{Deciding, Sequential, Summary};

use crate::goals::COMPLETE_AFTER;

/// Watches a load, and stops it if a threshold with `abort` is missed, or if all are decided.
pub struct Aborter<'a> {
    test: Option<Sequential>,
    deciding: Option<Deciding>,
    warmup: Span,
    control: &'a Control,
    /// Requests that had ended, and failed, when the measurement started.
    before: (u64, u64),
    /// When it has stopped the load, and the threshold; `None`: all.
    ended: Option<(Span, Option<Threshold>)>,
}

impl<'a> Aborter<'a> {
    /// A watch over the load of a plan, which `control` stops; `None` if no threshold can stop it.
    pub fn new(plan: &Plan, control: &'a Control) -> Option<Self> {
        let (test, deciding) = (Sequential::new(&plan.thresholds), Deciding::new(plan));
        let (warmup, before) = (plan.warmup, (0, 0));
        let watches = test.is_some() || deciding.is_some();
        watches.then_some(Self { test, deciding, warmup, control, before, ended: None })
    }

    /// Processes a snapshot. Stops the load if a threshold is missed, unless it is already stopped.
    pub fn look(&mut self, live: &Live) {
        let of = |kind| move |(at, block)| (kind, at, block);
        let responses = live.blocks.iter().map(|(at, block)| (at, block));
        let served = live.served.iter().map(|(at, block)| (at, block));
        let all = responses.map(of(TimeKind::Response)).chain(served.map(of(TimeKind::Service)));
        for (kind, at, block) in all {
            self.test.iter_mut().for_each(|test| test.add(kind, *at, block));
            self.deciding.iter_mut().for_each(|deciding| deciding.add(kind, *at, block));
        }
        let (ended, failed) = (live.replies + live.failed, live.failed);
        let start = Nanos::ZERO + self.warmup;
        if live.now <= start {
            self.before = (ended, failed);
            return;
        }
        let since = |n: u64, before: u64| n.saturating_sub(before);
        let at = live.now.since(start);
        let (ended, failed) = (since(ended, self.before.0), since(failed, self.before.1));
        self.test.iter_mut().for_each(|test| test.count(at, ended, failed));
        self.deciding.iter_mut().for_each(|deciding| deciding.count(at, ended, failed));
        if self.control.stop_request().is_some() {
            return;
        }
        // Blocks arrive later than counts.
        let complete = at.saturating_sub(COMPLETE_AFTER);
        let missed = self.test.as_mut().and_then(|test| test.missed(complete).cloned());
        let mut is_decided = || self.deciding.as_mut().is_some_and(|all| all.is_decided(complete));
        if missed.is_some() || is_decided() {
            self.ended = Some((at, missed));
            self.control.stop();
        }
    }

    /// Records the result in the summary.
    pub fn note(self, summary: &mut Summary) {
        let stopped = self.ended.as_ref().map(|(at, _)| *at);
        if stopped.is_some() {
            summary.run.interrupted = false;
        }
        match (self.ended, self.deciding) {
            (Some((at, Some(threshold))), _) => note(summary, at, threshold),
            (_, Some(deciding)) => note_level(summary, stopped, deciding.level()),
            (_, None) => {}
        }
    }
}

/// Records that the load went on until its thresholds were decided: when they were, if they were,
/// and how certain decisions had to be.
pub(crate) fn note_level(summary: &mut Summary, at: Option<Span>, level: f64) {
    summary.run.level = Some(level);
    let sentence = match at {
        Some(at) => format!("Ended after {}: all thresholds were decided.", units::span(at)),
        // The user's stop is said elsewhere.
        None if summary.run.interrupted => return,
        None => "The time was over before all thresholds were decided.".to_owned(),
    };
    summary.run.notes.push(sentence);
}

/// Records the reason for the early end.
pub(crate) fn note(summary: &mut Summary, at: Span, threshold: Threshold) {
    let at = units::span(at);
    let sentence = format!("Ended after {at}: '{threshold}' was missed beyond doubt.");
    summary.run.notes.push(sentence);
    summary.run.ended_by = Some(threshold);
}
