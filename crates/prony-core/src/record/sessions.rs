//! What is counted of sessions, and of calls that have a name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hist::Hist;

/// The sessions of a section, each counted where its intended start falls.
///
/// `started == completed + failed + unfinished` always.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTally {
    /// Sessions that started.
    pub started: u64,
    /// Sessions all of whose requests were answered as the plan expects.
    pub completed: u64,
    /// Sessions that ended otherwise.
    pub failed: u64,
    /// Sessions given up because the run ended.
    pub unfinished: u64,
    /// From the intended start to the last reply; completed sessions.
    pub lifetime: Hist,
    /// From the intended start to the end; failed sessions.
    pub failtime: Hist,
    /// Connections that opened for completed sessions.
    pub connections: u64,
    /// Completed and failed sessions by the number of replies that they brought.
    pub lengths: BTreeMap<u64, u64>,
    /// Completed sessions by the second of the run, counted from its epoch, in which they ended.
    pub per_second: BTreeMap<u64, u64>,
}

/// The calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NameTally {
    /// Requests that started.
    pub started: u64,
    /// Requests answered as the plan expects.
    pub replies: u64,
    /// Requests that failed.
    pub failed: u64,
    /// From the intended start to the last byte; successes, and timeouts with at least the timeout.
    pub response: Hist,
    /// From the send to the last byte; successes, and timeouts that were sent.
    pub service: Hist,
}

impl SessionTally {
    /// Add what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.lifetime.merge(&other.lifetime);
        self.failtime.merge(&other.failtime);
        self.connections += other.connections;
        for (&length, &n) in &other.lengths {
            *self.lengths.entry(length).or_default() += n;
        }
        for (&second, &n) in &other.per_second {
            *self.per_second.entry(second).or_default() += n;
        }
    }
}

impl NameTally {
    /// Add what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.replies += other.replies;
        self.failed += other.failed;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
    }
}
