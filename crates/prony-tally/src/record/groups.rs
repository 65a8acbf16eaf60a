//! Groups of steps of sessions: how many there were, how long they took, and the most that the
//! meter can have added to that.
//!
//! A step ends with its last request. It would have ended at least when that request would have, so
//! what the meter added to this request is the most that it added to the step. The next step starts
//! when the one before has ended, or after a pause, and a late start of it is in the send lag of
//! its requests. So the bound of a group is the sum over its steps, that of a chain of redirects
//! the sum over its requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::lower_bounds::{Bound, LowerBounds};
use super::section::Section;
use super::{Recorder, SessionEnd, Stamps, TimeLowerBound};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};

/// The groups of one name. A group belongs to the section of its intended start, which is that of
/// its first step.
///
/// Invariant: `started == completed + failed + unfinished`.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct GroupTally {
    /// Groups that started.
    pub started: u64,
    /// Groups with all requests answered as expected.
    pub completed: u64,
    /// Groups with a failed request.
    pub failed: u64,
    /// Groups that had not ended when the run ended.
    pub unfinished: u64,
    /// From the intended start to the last reply, with the pauses between the steps; completed
    /// groups.
    pub duration: Hist,
    /// The same without the pauses.
    pub without_pauses: Hist,
    /// Lower bounds of the true durations. `None` if the driver did not report its polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_meter: Option<Box<TimeLowerBound>>,
}

/// Which group of those that have started and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// The group in which the session in this slot is.
    Session(u32),
    /// The chain of redirects with this number.
    Chain(u32),
}

/// A group that has ended.
#[derive(Clone, Copy, Debug)]
pub struct GroupEnd {
    /// Which one of those that had started.
    pub key: GroupKey,
    /// Index into the plan's groups.
    pub group: u32,
    /// How it ended.
    pub how: SessionEnd,
    /// The intended start of its first request.
    pub began: Nanos,
    /// The time of the pauses in it.
    pub paused: Span,
}

impl GroupTally {
    /// The most by which the meter can have made the quantile `q` of the durations too long (1: the
    /// maximum). `None` if the driver did not report its polls, or if the sample is too small.
    pub fn meter_added(&self, q: f64) -> Option<Span> {
        self.without_meter.as_ref()?.added(&self.duration, q)
    }
}

/// What happens to a group, as far as it matters to what the meter added. Each waits until it is
/// known for how long replies can have waited in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum GroupStep {
    Starts,
    /// A step ends, or a request of a chain.
    Adds,
    /// It has completed, and is this group of the plan.
    Completes(u32),
    /// It has ended in another way.
    IsGone,
}

/// What the meter can have added to the groups that have not ended.
#[derive(Debug, Default)]
pub(super) struct GroupSums {
    /// Whether sessions have groups.
    in_sessions: bool,
    /// Of the request that ended last.
    last: Bound,
    sums: BTreeMap<GroupKey, Span>,
}

impl GroupSums {
    /// `added`: the most that the meter can have added. `time`: the duration of a group that
    /// completes.
    pub(super) fn settle(
        &mut self,
        (key, step): (GroupKey, GroupStep),
        section: &mut Section,
        (time, added): (Span, Span),
    ) {
        match step {
            GroupStep::Adds => {
                let sum = self.sums.entry(key).or_default();
                *sum += added;
            }
            GroupStep::Starts | GroupStep::IsGone => {
                self.sums.remove(&key);
            }
            GroupStep::Completes(group) => {
                let sum = self.sums.remove(&key).unwrap_or_default();
                section.group_bounds[group as usize].record(time, sum, 1);
            }
        }
    }
}

impl Recorder {
    /// The same, for a plan with this number of groups. `in_sessions`: whether any of them has
    /// steps of sessions.
    #[must_use]
    pub fn of_groups(mut self, groups: usize, in_sessions: bool) -> Self {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.groups = vec![GroupTally::default(); groups];
            section.group_bounds.resize_with(groups, LowerBounds::default);
        }
        self.polls.groups.in_sessions = in_sessions;
        self
    }

    /// A group of steps starts.
    pub fn group_started(&mut self, key: GroupKey, intended: Nanos) {
        self.wait_for_bound((key, GroupStep::Starts), (intended, intended), Bound::default());
    }

    /// A request with these times has a reply, and is perhaps the last of its step.
    pub fn step_replied(&mut self, stamps: &Stamps) {
        self.polls.groups.last = of_reply(stamps);
    }

    /// A request has failed without a whole reply, and is perhaps the last of its step.
    pub(super) fn step_failed(&mut self, stamps: &Stamps, sent: bool) {
        self.polls.groups.last = match sent {
            true => of_reply(stamps),
            // It may have waited for the meter all the time.
            false => Bound::of_answer(stamps.response(), Span::ZERO),
        };
    }

    /// A step of a group has ended at `done`, with the request that ended last.
    pub fn step_ended(&mut self, key: GroupKey, done: Nanos) {
        let last = self.polls.groups.last;
        self.wait_for_bound((key, GroupStep::Adds), (done, done), last);
    }

    /// A request with these times, of this user, is part of a chain of redirects.
    pub fn request_of_chain(&mut self, chain: GroupKey, user: u32, stamps: &Stamps, is_last: bool) {
        let (times, bound) = ((stamps.done, stamps.done), of_reply(stamps));
        self.wait_for_bound((chain, GroupStep::Adds), times, bound);
        // The last one is the request that the session knows of.
        if self.polls.groups.in_sessions && !is_last {
            self.wait_for_bound((GroupKey::Session(user), GroupStep::Adds), times, bound);
        }
    }

    /// A group of steps has ended at `done`.
    pub fn group_ended(&mut self, end: GroupEnd, done: Nanos) {
        let GroupEnd { key, group, how, began, paused } = end;
        let Some(tally) = self.section(began).tally.groups.get_mut(group as usize) else {
            return;
        };
        tally.started += 1;
        let mut step = GroupStep::IsGone;
        match how {
            SessionEnd::Completed => {
                tally.completed += 1;
                let took = done.since(began);
                tally.duration.record(took);
                tally.without_pauses.record(Span(took.0.saturating_sub(paused.0)));
                step = GroupStep::Completes(group);
            }
            SessionEnd::Failed => tally.failed += 1,
            SessionEnd::Unfinished => tally.unfinished += 1,
        }
        self.wait_for_bound((key, step), (began, done), Bound::default());
    }

    fn wait_for_bound(
        &mut self,
        group: (GroupKey, GroupStep),
        (from, done): (Nanos, Nanos),
        bound: Bound,
    ) {
        self.bound(group, (from, done), done.since(from), bound);
    }
}

/// What bounds the meter's part of the response time of a request with a reply.
fn of_reply(stamps: &Stamps) -> Bound {
    Bound::of_answer(stamps.lag() + stamps.late, stamps.service())
}
