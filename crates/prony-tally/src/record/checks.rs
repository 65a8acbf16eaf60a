//! Checks of replies: how many passed and failed, over time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Recorder;
use prony_base::merge::Merge;
use prony_base::units::Nanos;

/// The results of one check. A reply belongs to the section of the intended start of its request.
#[derive(Clone, Debug, Default, Merge, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckTally {
    /// Replies that passed.
    pub passed: u64,
    /// Replies that did not.
    pub failed: u64,
    /// Those among them with a body that could not be read.
    #[serde(default)]
    pub unreadable: u64,
    /// Replies that passed, by the second of the run in which they ended.
    pub passed_by_second: BTreeMap<u64, u64>,
    /// Replies that did not pass, likewise.
    pub failed_by_second: BTreeMap<u64, u64>,
}

impl CheckTally {
    /// A reply that ended at `done` passed or did not; `None`: its body could not be read.
    pub fn count(&mut self, passed: Option<bool>, done: Nanos) {
        let (n, by_second) = match passed {
            Some(true) => (&mut self.passed, &mut self.passed_by_second),
            _ => (&mut self.failed, &mut self.failed_by_second),
        };
        *n += 1;
        *by_second.entry(done.0 / 1_000_000_000).or_default() += 1;
        self.unreadable += u64::from(passed.is_none());
    }
}

impl Recorder {
    /// Keep the results of the checks of replies: those of the warm-up, and of the measurement.
    pub fn checked(&mut self, warm: Vec<CheckTally>, main: Vec<CheckTally>) {
        self.warm.tally.checks = warm;
        self.main.tally.checks = main;
    }
}
