//! What is counted of sessions, and of calls that have a name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::merge::{add, add_by_key, merge_fields};
use super::{Recorder, Stamps};
use crate::fault::{Fault, FaultClass};
use crate::proto::Reply;
use crate::units::{Nanos, Span};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// All its requests were answered as the plan expects.
    Completed,
    /// One was not.
    Failed,
    /// The run ended before it.
    Unfinished,
}

/// The sessions of a section, each counted where its intended start falls.
///
/// `started == completed + failed + unfinished` always.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTally {
    /// Sessions that started.
    pub started: u64,
    /// Sessions all of whose requests were answered as the plan expects.
    pub completed: u64,
    /// Those of them that were done only after the load's end.
    #[serde(default)]
    pub completed_in_drain: u64,
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
        merge_fields!(self, other, {
            started: add,
            completed: add,
            completed_in_drain: add,
            failed: add,
            unfinished: add,
            lifetime: Hist::merge,
            failtime: Hist::merge,
            connections: add,
            lengths: add_by_key,
            per_second: add_by_key,
        });
    }
}

impl NameTally {
    /// Add what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        merge_fields!(self, other, {
            started: add,
            replies: add,
            failed: add,
            response: Hist::merge,
            service: Hist::merge,
        });
    }
}

impl Recorder {
    /// A session is wanted from now on.
    pub fn session_started(&mut self, intended: Nanos) {
        if let Some(sessions) = &mut self.section(intended).tally.sessions {
            sessions.started += 1;
        }
    }

    /// `n` sessions that were wanted from `intended` on, or a little later, are dropped: none
    /// has made a request.
    #[cold]
    pub fn sessions_dropped(&mut self, intended: Nanos, n: u64, now: Nanos) {
        let Some(sessions) = &mut self.section(intended).tally.sessions else { return };
        sessions.started += n;
        sessions.failed += n;
        sessions.failtime.record_n(now.since(intended), n);
        *sessions.lengths.entry(0).or_default() += n;
    }

    /// A session has ended: the replies that it brought and the connections that opened for it.
    pub fn session_ended(
        &mut self,
        how: SessionEnd,
        intended: Nanos,
        now: Nanos,
        replies: u64,
        connections: u64,
    ) {
        let drained = now > self.load_end;
        let Some(sessions) = &mut self.section(intended).tally.sessions else { return };
        let took = now.since(intended);
        match how {
            SessionEnd::Completed => {
                sessions.completed += 1;
                sessions.completed_in_drain += u64::from(drained);
                sessions.lifetime.record(took);
                sessions.connections += connections;
                *sessions.per_second.entry(now.0 / 1_000_000_000).or_default() += 1;
            }
            SessionEnd::Failed => {
                sessions.failed += 1;
                sessions.failtime.record(took);
            }
            SessionEnd::Unfinished => {
                sessions.unfinished += 1;
                return;
            }
        }
        *sessions.lengths.entry(replies).or_default() += 1;
    }

    /// Sessions completed so far, both sections, for progress.
    pub fn sessions_completed(&self) -> u64 {
        let sections = [&self.warm, &self.main].into_iter();
        sections.filter_map(|s| s.tally.sessions.as_ref()).map(|s| s.completed).sum()
    }

    /// A request of that name is wanted.
    pub fn name_started(&mut self, name: u32, intended: Nanos) {
        self.section(intended).tally.names[name as usize].started += 1;
    }

    /// A request of that name was answered; `fault` says why that is no success, if it is none.
    pub fn name_ended(&mut self, name: u32, stamps: Stamps, fault: Option<Fault>) {
        let name = &mut self.section(stamps.intended).tally.names[name as usize];
        if fault.is_some() {
            name.failed += 1;
            return;
        }
        name.replies += 1;
        name.response.record(stamps.response());
        name.service.record(stamps.service());
    }

    /// A request of that name has failed without a whole reply, see [`Recorder::failed`].
    pub fn name_failed(
        &mut self,
        name: u32,
        stamps: &Stamps,
        fault: Fault,
        sent: bool,
        timeout: Span,
    ) {
        let name = &mut self.section(stamps.intended).tally.names[name as usize];
        name.failed += 1;
        if fault.class() == FaultClass::Timeout {
            name.response.record(stamps.response().max(timeout));
            if sent {
                name.service.record(stamps.service());
            }
        }
    }

    /// A whole reply has come that is not as the plan expects; its request gets another try.
    pub fn tried(&mut self, stamps: &Stamps, reply: &Reply) {
        let s = self.section(stamps.intended);
        s.status(reply.status);
        let t = &mut s.tally;
        t.retries += 1;
        t.interim += u64::from(reply.interim);
        t.bytes_head += reply.head_bytes;
        t.bytes_framing += reply.framing_bytes;
        t.bytes_footer += reply.footer_bytes;
        t.bytes_body += reply.body_bytes;
    }
}
