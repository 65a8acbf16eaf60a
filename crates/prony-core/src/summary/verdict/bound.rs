//! What held the rate where it was: asked of every run.

use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::{Judgement, Verdict};
use crate::plan::{Load, Think};

/// What limited a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "bound", rename_all = "kebab-case")]
pub enum Bound {
    /// The meter.
    Client,
    /// The network: segments were sent again.
    Network {
        /// How many, over the requests that ended.
        share: f64,
    },
    /// Failures: more than half of what was asked.
    Failures,
    /// The schedule asked for no more.
    AskedRate,
    /// The cap on an open loop's connections.
    Cap {
        /// The cap.
        connections: u32,
    },
    /// The server fell behind an open loop's schedule.
    Server,
    /// The connections of a closed loop: each had its request under way.
    Connections {
        /// How many there are.
        connections: u32,
        /// How many requests were under way on average.
        concurrency: f64,
    },
    /// The pipelines of a closed loop were full.
    Window {
        /// Requests that the pipelines hold.
        requests: u64,
        /// How many requests were under way on average.
        concurrency: f64,
    },
    /// The users of a closed loop: what they asked for followed from their pauses and the replies.
    Users {
        /// How many there are.
        users: u32,
        /// How many requests were under way on average.
        concurrency: f64,
    },
}

/// From this share of requests on, segments that are sent again hold a run back.
const RETRANSMITS_MIN: f64 = 0.01;
/// A closed loop's connections are in use from this share on.
const IN_USE_MIN: f64 = 0.9;
/// What an open loop may have left at its end, as a share of all.
const LEFT_MAX: f64 = 0.01;

impl Summary {
    /// What limited the run; `judgement` is its verdict. `None` where nothing ended, or where no
    /// single thing stands out.
    pub fn bound(&self, judgement: &Judgement) -> Option<Bound> {
        let t = &self.main;
        match judgement.verdict {
            Verdict::ClientLimited => return Some(Bound::Client),
            Verdict::TargetFailed => return Some(Bound::Failures),
            _ => {}
        }
        let share = self.transport().retransmits as f64 / self.ended().max(1) as f64;
        if share > RETRANSMITS_MIN {
            return Some(Bound::Network { share });
        }
        if t.replies == 0 {
            return None;
        }
        let concurrency = t.concurrency();
        match &self.plan.load {
            Load::Open { connections, .. } => {
                let left = (t.replies_in_drain + t.unfinished) as f64;
                let kept_up = left <= (t.started as f64 * LEFT_MAX).max(2.0 * concurrency);
                let waited = t.times.queue.count() as f64 > t.started as f64 * LEFT_MAX;
                Some(match (waited, kept_up) {
                    (true, _) => Bound::Cap { connections: *connections },
                    (false, true) => Bound::AskedRate,
                    (false, false) => Bound::Server,
                })
            }
            &Load::Closed { connections: users, think } => {
                if think != Think::None || self.plan.sessions.is_some() {
                    return Some(Bound::Users { users, concurrency });
                }
                let requests = u64::from(users) * u64::from(self.plan.pipeline);
                let in_use = concurrency >= IN_USE_MIN * requests as f64;
                in_use.then_some(if self.plan.pipeline > 1 {
                    Bound::Window { requests, concurrency }
                } else {
                    Bound::Connections { connections: users, concurrency }
                })
            }
        }
    }
}
