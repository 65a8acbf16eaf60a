//! What held the rate where it was: asked of every run.

use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::{Judgement, Verdict};
use crate::plan::{Load, Think};
use crate::units::Span;

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
    /// Failures: half of the requests or more.
    Failures,
    /// The schedule asked for no more. The target kept up where neither of the two is there.
    AskedRate {
        /// The share of requests that failed; `None` where none did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<f64>,
        /// That some waited long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<Waiting>,
    },
    /// The cap on an open loop's connections.
    Cap {
        /// The cap.
        connections: u32,
    },
    /// The server: it fell behind an open loop's schedule, or requests waited in it for others.
    Server {
        /// What tells that requests waited for others; `None` where it only fell behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued: Option<Queued>,
    },
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

/// Requests that waited long for their replies in a run whose backlog was gone at its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many requests were in flight on average.
    pub concurrency: f64,
    /// The longest response time.
    pub longest: Span,
}

/// Service times of a server in which requests wait for those that came before them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// The shortest, as when there was nobody to wait for.
    pub fastest: Span,
    /// The median.
    pub median: Span,
}

/// From this share of requests on, segments that are sent again hold a run back.
const RETRANSMITS_MIN: f64 = 0.01;
/// A request waited long from this response time on ...
const LONG_MIN: Span = Span::from_millis(100);
/// ... and from so many times the response time of the fastest quarter on. The median would be a
/// worse measure: a freeze over half of the run is in it.
const LONG_RATIO: u64 = 10;
/// A closed loop's connections are in use from this share on.
const IN_USE_MIN: f64 = 0.9;
/// What an open loop may have left at its end, as a share of all.
const LEFT_MAX: f64 = 0.01;
/// It may also have left so many times what was under way on average, and that many more.
const LEFT_RATIO: f64 = 1.5;
const LEFT_MIN: f64 = 10.0;
/// Where requests wait for others, the fastest had so many times less to wait than the median ...
const QUEUE_MIN: u64 = 6;
/// ... while no more than 1 % had this many times less: what varies by itself has more of those.
const BODY_MAX: u64 = 2;

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
                // A backlog that grows all along is in the end twice what it was on average.
                let usual = LEFT_RATIO * concurrency + LEFT_MIN;
                let kept_up = left <= usual.max(t.started as f64 * LEFT_MAX);
                let waited = t.times.queue.count() as f64 > t.started as f64 * LEFT_MAX;
                let queued = self.queued().filter(|_| !kept_up);
                Some(match (waited, kept_up) {
                    (_, false) if queued.is_some() => Bound::Server { queued },
                    (true, _) => Bound::Cap { connections: *connections },
                    (false, true) => {
                        let failed = t.error_share().filter(|_| t.failed > 0);
                        Bound::AskedRate { failed, waiting: self.waiting() }
                    }
                    (false, false) => Bound::Server { queued: None },
                })
            }
            &Load::Closed { connections: users, think } => {
                let queued = self.queued().filter(|queued| self.began_faster(queued));
                if queued.is_some() {
                    return Some(Bound::Server { queued });
                }
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

    /// That some requests waited long, as in a freeze: then the target did not keep up all along,
    /// even if nothing was left at the end.
    fn waiting(&self) -> Option<Waiting> {
        let response = &self.main.times.response;
        let (usual, longest) = (response.quantile(0.25)?, response.max()?);
        let long = longest >= LONG_MIN && longest >= usual * LONG_RATIO;
        long.then(|| Waiting { concurrency: self.main.concurrency(), longest })
    }

    /// Whether requests waited in the server for those that came before them. The first of all had
    /// nobody to wait for and were fast, while hardly any other came near that: times that vary by
    /// themselves have a whole tail of fast ones, and those of a server with nothing to wait for
    /// are the same from the first to the last. Pipelines are queues themselves, so there the
    /// server's must be longer than theirs. Nothing is said of sessions, whose requests differ.
    fn queued(&self) -> Option<Queued> {
        let service = &self.main.times.service;
        let (low, median) = (service.quantile(0.01)?, service.quantile(0.5)?);
        let sections = self.warmup.iter().chain([&self.main]);
        let fastest = sections.filter_map(|t| t.times.service.min()).min()?;
        let alone = fastest * (QUEUE_MIN * u64::from(self.plan.pipeline)) <= median;
        let found = self.plan.sessions.is_none() && alone && low * BODY_MAX >= median;
        found.then_some(Queued { fastest, median })
    }

    /// Whether a closed loop had its fast ones at its begin, and in no more than half of the other
    /// intervals: what is fast now and then (a cache that has it) waits for nobody then either.
    fn began_faster(&self, queued: &Queued) -> bool {
        let fast = queued.median / (QUEUE_MIN * u64::from(self.plan.pipeline));
        // The bins of the series are 1.6 % wide.
        let fast = fast + fast / 50;
        let cells = self.warmup.iter().chain([&self.main]).flat_map(|t| t.series.cells());
        let mut had = cells.filter_map(|c| c.quantile(0.0)).map(|least| least <= fast);
        let first = had.next().unwrap_or(false);
        let (with, without): (Vec<bool>, Vec<bool>) = had.partition(|&had| had);
        first && without.len() > with.len()
    }
}
