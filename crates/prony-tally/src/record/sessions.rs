//! Statistics of sessions and of requests with a name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::hist::Hist;
use super::{Recorder, Stamps};
use prony_base::fault::{Fault, FaultClass};
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_proto::proto::Reply;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// All its requests were answered as expected.
    Completed,
    /// One of its requests failed.
    Failed,
    /// The run ended before the session.
    Unfinished,
}

/// The sessions of a section; each belongs to the section of its intended start.
///
/// Invariant: `started == completed + failed + unfinished`.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct SessionTally {
    /// Sessions that started.
    pub started: u64,
    /// Sessions with all requests answered as expected.
    pub completed: u64,
    /// Those among them that completed after the end of the load.
    #[serde(default)]
    pub completed_in_drain: u64,
    /// Sessions with a failed request.
    pub failed: u64,
    /// Sessions that had not ended when the run ended.
    pub unfinished: u64,
    /// From the intended start to the last reply; completed sessions.
    pub lifetime: Hist,
    /// From the intended start to the end; failed sessions.
    pub failtime: Hist,
    /// Connections that opened for completed sessions.
    pub connections: u64,
    /// Completed and failed sessions, by number of replies.
    pub lengths: BTreeMap<u64, u64>,
    /// Completed sessions, by the second of the run (since its epoch) in which they ended.
    pub per_second: BTreeMap<u64, u64>,
    /// One for each of the plan's kinds of sessions, if it has several but not too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindTally>,
    /// What sessions decided about their steps; `None`: nothing of it occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Box<StepTally>>,
}

/// The decisions of sessions about their steps; each belongs to the section of its session.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct StepTally {
    /// Steps and switches that were not made, because of their conditions.
    pub skipped: u64,
    /// Steps that were repeated as often as they may be, without the condition that ends it.
    pub limited: u64,
    /// Requests that were made again, each time.
    pub retried: u64,
    /// Steps that failed after their last retry.
    pub exhausted: u64,
    /// From the intended start of the first try to the last reply; steps that succeeded after
    /// retries.
    pub recovered: Hist,
}

/// The sessions of one kind. Sessions that were dropped before their kind was drawn are missing.
///
/// `started == completed + failed + unfinished` always.
#[derive(Clone, Debug, Default, Merge, PartialEq, Serialize, Deserialize)]
pub struct KindTally {
    /// Sessions that started.
    pub started: u64,
    /// Sessions in which every request got the expected reply.
    pub completed: u64,
    /// Sessions that ended otherwise.
    pub failed: u64,
    /// Sessions given up because the run ended.
    pub unfinished: u64,
    /// From the intended start to the last reply; completed sessions.
    pub lifetime: Hist,
}

/// The most kinds of sessions that are counted one by one: a session file can have thousands.
const KINDS_MAX: usize = 100;

/// The requests of one name.
#[derive(Clone, Debug, Merge, PartialEq, Serialize, Deserialize)]
pub struct NameTally {
    /// Requests that started.
    pub started: u64,
    /// Requests answered as expected.
    pub replies: u64,
    /// Requests that failed.
    pub failed: u64,
    /// From the intended start to the last byte; successes, and timeouts with at least the timeout.
    pub response: Hist,
    /// From the send to the last byte; successes, and timeouts that were sent.
    pub service: Hist,
    /// Replies that ended a request, by status.
    #[serde(default)]
    pub statuses: BTreeMap<u16, u64>,
}

impl Default for NameTally {
    /// Of a name that has not been seen, as most may be of thousands.
    fn default() -> Self {
        Self {
            started: 0,
            replies: 0,
            failed: 0,
            response: Hist::sparse(),
            service: Hist::sparse(),
            statuses: BTreeMap::new(),
        }
    }
}

impl Recorder {
    /// Count the sessions of each of `n` kinds, where these are several but not too many.
    #[must_use]
    pub fn of_session_kinds(mut self, n: usize) -> Self {
        let n = if (2..=KINDS_MAX).contains(&n) { n } else { 0 };
        for section in [&mut self.main, &mut self.warm] {
            if let Some(sessions) = &mut section.tally.sessions {
                sessions.kinds = vec![KindTally::default(); n];
            }
        }
        self
    }

    /// A session of this kind is due since `intended`.
    pub fn session_started(&mut self, kind: u32, intended: Nanos) {
        if let Some(sessions) = &mut self.section(intended).tally.sessions {
            sessions.started += 1;
            if let Some(kind) = sessions.kinds.get_mut(kind as usize) {
                kind.started += 1;
            }
        }
    }

    /// `n` sessions due at `intended` or a little later are dropped before their first request.
    #[cold]
    pub fn sessions_dropped(&mut self, intended: Nanos, n: u64, now: Nanos) {
        let Some(sessions) = &mut self.section(intended).tally.sessions else { return };
        sessions.started += n;
        sessions.failed += n;
        sessions.failtime.record_n(now.since(intended), n);
        *sessions.lengths.entry(0).or_default() += n;
    }

    /// A session of this kind has ended, with its numbers of replies and of opened connections.
    pub fn session_ended(
        &mut self,
        how: SessionEnd,
        kind: u32,
        intended: Nanos,
        now: Nanos,
        replies: u64,
        connections: u64,
    ) {
        let drained = now > self.load_end;
        let Some(sessions) = &mut self.section(intended).tally.sessions else { return };
        let took = now.since(intended);
        if let Some(kind) = sessions.kinds.get_mut(kind as usize) {
            match how {
                SessionEnd::Completed => {
                    kind.completed += 1;
                    kind.lifetime.record(took);
                }
                SessionEnd::Failed => kind.failed += 1,
                SessionEnd::Unfinished => kind.unfinished += 1,
            }
        }
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

    /// What the session that is due since `intended` decides about its steps.
    fn steps(&mut self, intended: Nanos) -> Option<&mut StepTally> {
        let sessions = self.section(intended).tally.sessions.as_mut()?;
        Some(sessions.steps.get_or_insert_default())
    }

    /// The session due since `intended` skips this number of steps.
    pub fn steps_skipped(&mut self, intended: Nanos, n: u64) {
        if let Some(steps) = self.steps(intended) {
            steps.skipped += n;
        }
    }

    /// The session due since `intended` has repeated a step as often as it may.
    pub fn limit_reached(&mut self, intended: Nanos) {
        if let Some(steps) = self.steps(intended) {
            steps.limited += 1;
        }
    }

    /// The session due since `intended` makes a failed request again.
    pub fn step_retried(&mut self, intended: Nanos) {
        if let Some(steps) = self.steps(intended) {
            steps.retried += 1;
        }
    }

    /// A step of the session due since `intended` has succeeded after retries, `took` after the
    /// intended start of its first try.
    pub fn step_recovered(&mut self, intended: Nanos, took: Span) {
        if let Some(steps) = self.steps(intended) {
            steps.recovered.record(took);
        }
    }

    /// A step of the session due since `intended` has failed after its last retry.
    pub fn retries_exhausted(&mut self, intended: Nanos) {
        if let Some(steps) = self.steps(intended) {
            steps.exhausted += 1;
        }
    }

    /// Sessions completed so far in both sections, for progress.
    pub fn sessions_completed(&self) -> u64 {
        let sections = [&self.warm, &self.main].into_iter();
        sections.filter_map(|s| s.tally.sessions.as_ref()).map(|s| s.completed).sum()
    }

    /// A request with this name is due.
    pub fn name_started(&mut self, name: u32, intended: Nanos) {
        self.section(intended).tally.names[name as usize].started += 1;
    }

    /// A request with this name has ended with a reply; `fault` is the reason if it is not a
    /// success.
    pub fn name_ended(&mut self, name: u32, stamps: Stamps, status: u16, fault: Option<Fault>) {
        let name = &mut self.section(stamps.intended).tally.names[name as usize];
        *name.statuses.entry(status).or_default() += 1;
        if fault.is_some() {
            name.failed += 1;
            return;
        }
        name.replies += 1;
        name.response.record(stamps.response());
        name.service.record(stamps.service());
    }

    /// A request with this name failed without a complete reply, see [`Recorder::failed`].
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

    /// An unexpected complete reply arrived; its request is sent again.
    pub fn reply_retried(&mut self, stamps: &Stamps, reply: &Reply) {
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
