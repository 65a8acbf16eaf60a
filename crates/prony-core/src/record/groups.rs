//! Groups of steps of sessions: how many there were, and how long they took.

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::merge::{add, merge_fields};
use super::{Recorder, SessionEnd};
use crate::units::{Nanos, Span};

/// The groups of one name. A group belongs to the section of its intended start, which is that of
/// its first step.
///
/// Invariant: `started == completed + failed + unfinished`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
}

impl GroupTally {
    pub(super) fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            started: add,
            completed: add,
            failed: add,
            unfinished: add,
            duration: Hist::merge,
            without_pauses: Hist::merge,
        });
    }
}

impl Recorder {
    /// The same, for a plan with this number of groups.
    #[must_use]
    pub fn of_groups(mut self, groups: usize) -> Self {
        for section in [&mut self.main, &mut self.warm] {
            section.tally.groups = vec![GroupTally::default(); groups];
        }
        self
    }

    /// A group of steps has ended at `done`. `paused`: the time of the pauses in it.
    pub fn group_ended(
        &mut self,
        group: u32,
        how: SessionEnd,
        intended: Nanos,
        done: Nanos,
        paused: Span,
    ) {
        let Some(tally) = self.section(intended).tally.groups.get_mut(group as usize) else {
            return;
        };
        tally.started += 1;
        match how {
            SessionEnd::Completed => {
                tally.completed += 1;
                let took = done.since(intended);
                tally.duration.record(took);
                tally.without_pauses.record(Span(took.0.saturating_sub(paused.0)));
            }
            SessionEnd::Failed => tally.failed += 1,
            SessionEnd::Unfinished => tally.unfinished += 1,
        }
    }
}
