//! The bottleneck: what limited the rate of a run.

use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, SessionKind, Think};
use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::{Judgment, Verdict};

/// The bottleneck of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bottleneck {
    /// The meter.
    Client,
    /// The network: segments were retransmitted.
    Network {
        /// Retransmissions per request that ended.
        share: f64,
    },
    /// Failures of half of the requests or more.
    Failures,
    /// The schedule: the target rate was reached. The target kept up if neither of the fields is
    /// present.
    TargetRate {
        /// The share of requests that failed; `None` if none did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<f64>,
        /// Requests that waited long, if there were any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waiting: Option<Waiting>,
    },
    /// The connection limit of an open loop.
    ConnectionLimit {
        /// The limit.
        connections: u32,
    },
    /// The server: it fell behind the schedule of an open loop, or requests queued in it.
    Server {
        /// The evidence of a queue; `None` if the server only fell behind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queued: Option<Queued>,
    },
    /// The connections of a closed loop: a request was in flight on each.
    Connections {
        /// The number of connections.
        connections: u32,
        /// The mean number of requests in flight.
        concurrency: f64,
    },
    /// The pipelines of a closed loop were full.
    Pipeline {
        /// The number of requests that fit into the pipelines.
        requests: u64,
        /// The mean number of requests in flight.
        concurrency: f64,
    },
    /// The server's limit of concurrent streams: requests waited for one.
    StreamLimit {
        /// The lowest limit that a server stated.
        limit: u32,
        /// The share of requests that waited.
        waited: f64,
    },
    /// The streams of a closed loop: a request was in flight on each.
    Streams {
        /// The number of streams over all connections.
        streams: u64,
        /// The mean number of requests in flight.
        concurrency: f64,
    },
    /// The server's flow-control windows: bodies of requests waited for them.
    Window {
        /// The share of the service times that these waits are.
        share: f64,
    },
    /// The users of a closed loop: their think times and the replies determined the rate.
    Users {
        /// The number of users.
        users: u32,
        /// The mean number of requests in flight.
        concurrency: f64,
    },
    /// The number of users of a closed loop of sessions: each had a request in flight.
    BusyUsers {
        /// The number of users.
        users: u32,
        /// The mean number of requests in flight.
        concurrency: f64,
    },
}

/// Long response times in a run with no backlog at its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The mean number of requests in flight.
    pub concurrency: f64,
    /// The maximum response time.
    pub longest: Span,
}

/// Service times that show a queue in the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// The minimum, without a queue.
    pub fastest: Span,
    /// The median.
    pub median: Span,
}

/// Retransmissions per request above which the network is the bottleneck.
const RETRANSMITS_MIN: f64 = 0.01;
/// A request waited long if its response time is at least this ...
const LONG_MIN: Span = Span::from_millis(100);
/// ... and at least this multiple of the lower quartile. The median would be a worse reference: it
/// includes a freeze of half of the run.
const LONG_RATIO: u64 = 10;
/// The connections of a closed loop are in use above this share.
const IN_USE_MIN: f64 = 0.9;
/// An open loop kept up if at its end at most this share of all requests is left ...
const LEFT_MAX: f64 = 0.01;
/// ... or at most this multiple of the mean concurrency, plus a constant.
const LEFT_RATIO: f64 = 1.5;
const LEFT_MIN: f64 = 10.0;
/// A share of requests above which their waits for streams are the bottleneck.
const STREAMS_MIN: f64 = 0.1;
/// A share of the service times above which waits for windows are the bottleneck.
const WINDOW_MIN: f64 = 0.5;
/// Requests queue if the minimum is at most this fraction of the median ...
const QUEUE_MIN: u64 = 6;
/// ... and the 1st percentile is not below this fraction of it: times that vary by themselves have
/// more fast ones.
const BODY_MAX: u64 = 2;

/// Whether the users of a closed loop pause between requests or wait for times of their own,
/// besides their think time.
fn users_pause(plan: &Plan) -> bool {
    let pauses = |kind: &SessionKind| kind.bursts.iter().any(|burst| burst.think != Think::None);
    let sessions = plan.sessions.as_ref();
    // A program that decides the steps of sessions may pause.
    sessions.is_some_and(|of| of.directed || of.kinds.iter().any(pauses))
        || plan.clients.as_ref().is_some_and(|clients| clients.is_timed())
}

impl Summary {
    /// What limited the run, given its verdict. `None` if nothing ended, or if no single cause
    /// stands out.
    pub fn bottleneck(&self, judgment: &Judgment) -> Option<Bottleneck> {
        let t = &self.main;
        match judgment.verdict {
            Verdict::ClientLimited => return Some(Bottleneck::Client),
            // What was offered is not what was planned.
            Verdict::Partial => return None,
            Verdict::TargetFailed => return Some(Bottleneck::Failures),
            _ => {}
        }
        let share = self.transport().retransmits as f64 / self.ended().max(1) as f64;
        if share > RETRANSMITS_MIN {
            return Some(Bottleneck::Network { share });
        }
        if t.replies == 0 {
            return None;
        }
        let concurrency = t.concurrency();
        if let Some(found) = self.streams() {
            return Some(found);
        }
        match &self.plan.load {
            Load::Open { connections, .. } => {
                let left = (t.replies_in_drain + t.unfinished) as f64;
                // A backlog that grows throughout the run ends at twice its mean. In a run that is
                // not much longer than the shortest response, requests have not had the time.
                let usual = LEFT_RATIO * concurrency.max(self.at_least_in_flight()) + LEFT_MIN;
                let kept_up = left <= usual.max(t.started as f64 * LEFT_MAX);
                let limit = self.share_of(*connections);
                // Requests also wait for a connection that is being opened.
                let is_reached = t.connections.open_max as f64 >= IN_USE_MIN * f64::from(limit);
                let waited = t.times.queue.count() as f64 > t.started as f64 * LEFT_MAX;
                let queued = self.queued().filter(|_| !kept_up);
                Some(match (waited && is_reached, kept_up) {
                    (_, false) if queued.is_some() => Bottleneck::Server { queued },
                    (true, _) => Bottleneck::ConnectionLimit { connections: limit },
                    (false, true) => {
                        let failed = t.error_share().filter(|_| t.failed > 0);
                        Bottleneck::TargetRate { failed, waiting: self.waiting() }
                    }
                    (false, false) => Bottleneck::Server { queued: None },
                })
            }
            &Load::Closed { connections: users, think } => {
                let users = self.share_of(users);
                let queued = self.queued().filter(|queued| self.was_fastest_at_start(queued));
                if queued.is_some() {
                    return Some(Bottleneck::Server { queued });
                }
                let has_sessions = self.plan.sessions.is_some();
                let depth = if has_sessions { 1 } else { self.plan.pipeline };
                let requests = u64::from(users) * u64::from(depth);
                let in_use = concurrency >= IN_USE_MIN * requests as f64;
                if !in_use {
                    // Users without think times wait for something else.
                    let thinks = think != Think::None || users_pause(&self.plan);
                    return thinks.then_some(Bottleneck::Users { users, concurrency });
                }
                Some(if has_sessions {
                    Bottleneck::BusyUsers { users, concurrency }
                } else if self.plan.http.is_http2() {
                    Bottleneck::Streams { streams: requests, concurrency }
                } else if self.plan.pipeline > 1 {
                    Bottleneck::Pipeline { requests, concurrency }
                } else {
                    Bottleneck::Connections { connections: users, concurrency }
                })
            }
        }
    }

    /// How many requests are in flight at the end of the load at least, in an open loop whose
    /// target needs as long for each as for the fastest.
    fn at_least_in_flight(&self) -> f64 {
        let sections = self.warmup.iter().chain([&self.main]);
        let fastest = sections.filter_map(|t| t.times.response.min()).min().unwrap_or_default();
        let rate = self.main.per_second(self.main.started);
        rate * fastest.min(self.main.window()).as_secs_f64()
    }

    /// Whether the limits of HTTP/2's servers determined the rate.
    fn streams(&self) -> Option<Bottleneck> {
        let (t, http2) = (&self.main, self.main.http2.as_deref()?);
        let waited = t.times.stream_wait.count() as f64 / t.started.max(1) as f64;
        if waited > STREAMS_MIN
            && let Some(limit) = http2.limit_least
        {
            return Some(Bottleneck::StreamLimit { limit, waited });
        }
        let (flow, service) = (&t.times.flow_wait, &t.times.service);
        let all = service.mean_ns()? * service.count() as f64;
        let share = flow.mean_ns().unwrap_or(0.0) * flow.count() as f64 / all;
        (share > WINDOW_MIN).then_some(Bottleneck::Window { share })
    }

    /// Connections or users of this share of the plan.
    fn share_of(&self, all: u32) -> u32 {
        u32::try_from(self.plan.shard.share_of(u64::from(all))).unwrap_or(u32::MAX)
    }

    /// Whether some requests waited long, for example in a freeze: then the target did not keep up
    /// all the time, even if nothing was left at the end.
    fn waiting(&self) -> Option<Waiting> {
        let response = &self.main.times.response;
        let (usual, longest) = (response.quantile(0.25)?, response.max()?);
        let long = longest >= LONG_MIN && longest >= usual * LONG_RATIO;
        long.then(|| Waiting { concurrency: self.main.concurrency(), longest })
    }

    /// Whether requests queued in the server. The first requests found no queue and were fast, and
    /// hardly any other came close to them: times that vary by themselves have a whole tail of fast
    /// ones, and times without a queue are alike from the first to the last. Pipelines are queues
    /// themselves, so the server's must be longer than theirs. `None` for sessions, as their
    /// requests differ.
    fn queued(&self) -> Option<Queued> {
        let service = &self.main.times.service;
        let (low, median) = (service.quantile(0.01)?, service.quantile(0.5)?);
        let sections = self.warmup.iter().chain([&self.main]);
        let fastest = sections.filter_map(|t| t.times.service.min()).min()?;
        let alone = fastest * (QUEUE_MIN * self.queue_depth()) <= median;
        let found = self.plan.sessions.is_none() && alone && low * BODY_MAX >= median;
        found.then_some(Queued { fastest, median })
    }

    /// How many requests a connection carries one after another.
    fn queue_depth(&self) -> u64 {
        // Streams are independent.
        if self.plan.http.is_http2() { 1 } else { u64::from(self.plan.pipeline) }
    }

    /// Whether the fast requests of a closed loop were at its start, and in at most half of the
    /// other intervals. Requests that are fast now and then (from a cache) do not wait in a queue
    /// then either.
    fn was_fastest_at_start(&self, queued: &Queued) -> bool {
        let fast = queued.median / (QUEUE_MIN * self.queue_depth());
        // The bins of the series are 1.6 % wide.
        let fast = fast + fast / 50;
        let cells = self.warmup.iter().chain([&self.main]).flat_map(|t| t.series.cells());
        let mut had = cells.filter_map(|c| c.quantile(0.0)).map(|least| least <= fast);
        let first = had.next().unwrap_or(false);
        let (with, without): (Vec<bool>, Vec<bool>) = had.partition(|&had| had);
        first && without.len() > with.len()
    }
}
