//! The summary of a run: merged tallies, the meter's own statistics, and all derived figures.

mod accepted;
mod command;
mod conclusion;
pub mod confidence;
mod hosts;
mod offered;
mod pressure;
mod replay;
mod self_tested;
mod stages;
pub(crate) mod student;
mod threshold;
mod tokens;
mod verdict;

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, FaultClass};
use crate::plan::{Load, Plan, PlanSize};
use crate::rate::Arrivals;
use crate::record::Tally;
use crate::record::hist::Hist;
use crate::threshold::Threshold;
use crate::units::Span;
pub use accepted::Accepted;
pub use command::CommandLine;
pub use conclusion::{Conclusion, Weight};
use confidence::Until;
pub use hosts::{ClockOffset, Host, Hosts, Loss, PART_FORMAT, Part};
pub use offered::Offered;
pub use pressure::{CpuPressure, SchedDelay, Stalls};
pub use replay::{BadLine, Burstiness, LogBodies, LogRead, Replayed};
pub use self_tested::SelfTested;
pub use stages::{Stage, StageFigures};
pub(crate) use threshold::interval_of_part;
pub use threshold::{
    Between, Certain, Checked, Deciding, Doubt, Outcome, Sequential, interval_of_name,
    share_of_check,
};
pub use verdict::{
    Bottleneck, Change, Figure, Judgment, LateSend, Queued, Reason, Verdict, Waiting,
};

/// A finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The complete plan, not a worker's share of it.
    pub plan: Plan,
    /// How and where it was run.
    pub run: RunInfo,
    /// The warm-up, if there was one.
    pub warmup: Option<Tally>,
    /// The measurement.
    pub main: Tally,
    /// The meter's statistics about itself, one entry per worker.
    pub workers: Vec<WorkerStats>,
}

/// The circumstances of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// prony's version.
    pub version: String,
    /// The command line, as typed.
    pub command: CommandLine,
    /// What the user calls the run, such as a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Start, in seconds since 1970 (UTC); `None` in simulation.
    pub started_unix: Option<f64>,
    /// `epoll`, `io_uring` or `simulation`.
    pub driver: String,
    /// The resolved addresses of the endpoints, in the order of the plan's endpoints.
    pub addresses: Vec<Vec<String>>,
    /// Operating system and kernel, processor count; empty in simulation.
    pub host: String,
    /// The limit of open files; 0 = unknown.
    pub descriptor_limit: u64,
    /// Whether the user stopped the run early.
    pub interrupted: bool,
    /// The threshold that ended the load, because it was certainly missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Threshold>,
    /// The chance of a wrong decision about a threshold whose figure lies just at its limit, if the
    /// load went on until they were decided; `None`: 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// The highest percentile (above 0, below 100) for which the sample must be large enough, if
    /// one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// For how long due arrivals may wait in order to go out together, if that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Span>,
    /// CPU pressure: throttled and stolen processor time, as far as the machine reports it.
    #[serde(default)]
    pub cpu_pressure: CpuPressure,
    /// The precision goals that end the load, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The last self-test on this host, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_test: Option<SelfTested>,
    /// The target, if it runs on the meter's own machine and its addresses show that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_target: Option<LocalTarget>,
    /// Whether the plan's sessions only represent connections, because the user requested none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connections_as_sessions: bool,
    /// The size of the full plan, if a saved report contains only an excerpt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_size: Option<PlanSize>,
    /// Whether reports of the run show secrets: credentials, bodies and the like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secrets_shown: bool,
    /// What the user accepts, so that no report and no exit code calls it a failure.
    #[serde(default, skip_serializing_if = "Accepted::is_nothing")]
    pub accepted: Accepted,
    /// The run of which this is one share, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// What the program took that decided the steps of sessions, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub director: Option<DirectorCost>,
    /// The log, if the requests were those of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<Replayed>>,
    /// The hosts, if the shares of several were merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Box<Hosts>>,
    /// Facts that the reader must know (a lower connection limit, a fallback of the driver), as
    /// complete sentences.
    pub notes: Vec<String>,
}

/// What a program took that decided the steps of sessions. It is a part of the meter's busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectorCost {
    /// How many steps it decided.
    pub steps: u64,
    /// The time that they took together.
    pub time: Span,
    /// The time that the longest took.
    pub longest: Span,
}

impl DirectorCost {
    /// Add the cost of other steps.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.longest = self.longest.max(other.longest);
    }
}

/// A target on the meter's own machine, where it competes for the processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalTarget {
    /// Its address on this machine, or the path of its socket.
    pub address: String,
    /// The number of processors that this process may use.
    pub cores: u32,
}

/// The statistics of one worker about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// User CPU time of the worker's thread over the run.
    pub cpu_user: Span,
    /// System CPU time.
    pub cpu_system: Span,
    /// Wall time from the first request to the last event.
    pub wall: Span,
    /// Time spent spinning until the next arrival (part of the CPU time, but available for work).
    pub spin: Span,
    /// Turns of the event loop.
    pub loop_iterations: u64,
    /// Event-loop stalls: how late the loop came to its periodic checks.
    #[serde(default)]
    pub stalls: Stalls,
    /// Run-queue delay of the thread; `None` if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sched_delay: Option<SchedDelay>,
    /// The kernel's statistics of the connections.
    pub transport: Transport,
    /// The error of the clock offset for kernel timestamps, if they were enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<StampClock>,
}

/// The error of the offset between the kernel's clock and the meter's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClock {
    /// The maximum error of the offset.
    pub error: Span,
    /// How often the clock was set during the load. Timestamps around such a step are not used.
    pub steps: u64,
}

/// Totals of TCP_INFO over the sampled connections, each sampled when it closed or when the run
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// Number of connections sampled.
    pub sampled: u64,
    /// Retransmitted segments of all of them.
    pub retransmits: u64,
    /// Sum of their smoothed round-trip times.
    pub rtt_sum: Span,
    /// The longest smoothed round-trip time.
    pub rtt_max: Span,
    /// The same for SCTP associations, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<Sctp>,
}

/// The SCTP implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SctpStack {
    /// The kernel's.
    #[default]
    Kernel,
    /// Userspace, with packets in UDP datagrams.
    Udp,
    /// Userspace, with packets directly over IP.
    Raw,
}

/// Statistics of SCTP associations, sampled when an association closed or when the run ended; for
/// the paths of multihomed associations, also during the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sctp {
    /// The implementation.
    #[serde(default)]
    pub stack: SctpStack,
    /// Number of associations sampled.
    pub associations: u64,
    /// Retransmitted data chunks of all of them.
    pub retransmits: u64,
    /// The maximum number of peer addresses of an association; 0 if all had ended before they were
    /// sampled.
    pub paths: u32,
    /// Paths that failed at some time, each counted once for each association.
    pub paths_failed: u64,
    /// Paths that did not fail, but were potentially failed (RFC 7829) to the end.
    #[serde(default)]
    pub paths_potentially_failed: u64,
    /// Associations that the peer had ended before they were sampled: their paths are those at the
    /// start, and their retransmissions are unknown.
    #[serde(default)]
    pub ended_by_peer: u64,
    /// This side's retransmission timeout before the first round trip, in ms.
    pub rto_initial_ms: u32,
    /// Its lower limit, in ms.
    pub rto_min_ms: u32,
    /// Its upper limit, in ms.
    pub rto_max_ms: u32,
    /// Maximum delay of this side's acknowledgements, in ms.
    pub sack_delay_ms: u32,
    /// Number of packets after which this side acknowledges at once.
    pub sack_packets: u32,
    /// Whether small messages are sent at once.
    pub nodelay: bool,
}

impl Sctp {
    /// Adds the counters. The settings are those of the part with associations; all associations of
    /// a run have the same settings.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let settings = if self.associations > 0 { self } else { other };
        // Every field is listed, so that a new one must be added as a counter or as a setting.
        let Self { stack, rto_initial_ms, rto_min_ms, rto_max_ms, sack_delay_ms, .. } = settings;
        let Self { sack_packets, nodelay, .. } = settings;
        Self {
            associations: self.associations + other.associations,
            retransmits: self.retransmits + other.retransmits,
            paths: self.paths.max(other.paths),
            paths_failed: self.paths_failed + other.paths_failed,
            paths_potentially_failed: self.paths_potentially_failed
                + other.paths_potentially_failed,
            ended_by_peer: self.ended_by_peer + other.ended_by_peer,
            stack,
            rto_initial_ms,
            rto_min_ms,
            rto_max_ms,
            sack_delay_ms,
            sack_packets,
            nodelay,
        }
    }
}

/// The quantiles in reports, with their names.
pub const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// The quantiles of the response time for which reports show what the meter added.
pub const METER_ADDED: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

/// The figures of one histogram in reports. All are `None` if it is empty, and a quantile is `None`
/// if the sample is too small for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The number of recorded times.
    pub count: u64,
    /// Their mean, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Their standard deviation (of the population), in nanoseconds.
    pub stdev_ns: Option<f64>,
    /// The shortest.
    pub min: Option<Span>,
    /// The quantiles, in the order of [`QUANTILES`].
    pub quantiles: [Option<Span>; QUANTILES.len()],
    /// The longest.
    pub max: Option<Span>,
}

/// One interval of the run in reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its start, counted from the start of the section.
    pub at: Span,
    /// Its length. The last interval may extend beyond the end of the run.
    pub length: Span,
    /// Intended starts in it.
    pub started: u64,
    /// Successes in it.
    pub replies: u64,
    /// Failures in it.
    pub failed: u64,
    /// Bytes of the successes.
    pub bytes: u64,
    /// Median response time, to 1.6 %.
    pub p50: Option<Span>,
    /// 99th percentile of the response time, to 1.6 %.
    pub p99: Option<Span>,
    /// The exact maximum of the response time; `None` if no request ended in the interval.
    pub max: Option<Span>,
}

impl Summary {
    /// Merge the results of the workers: the warm-up, measurement and statistics of each.
    pub fn from_parts(
        plan: Plan,
        run: RunInfo,
        parts: Vec<(Option<Tally>, Tally, WorkerStats)>,
    ) -> Self {
        let (mut warmup, mut main, mut workers) = (None::<Tally>, None::<Tally>, Vec::new());
        let join = |all: &mut Option<Tally>, part: Tally| match all {
            Some(all) => all.merge(&part),
            None => *all = Some(part),
        };
        for (w, m, meter) in parts {
            if let Some(w) = w {
                join(&mut warmup, w);
            }
            join(&mut main, m);
            workers.push(meter);
        }
        let mut main = main.unwrap_or_default();
        main.settle();
        Self { plan, run, warmup, main, workers }
    }

    /// The target rate: the mean rate of scheduled arrivals over the measurement, in requests per
    /// second. `None` in a closed loop, and for sessions, where the requests follow the replies. If
    /// a count or the user ended the run early, the mean until then.
    pub fn target_rate(&self) -> Option<f64> {
        let Load::Open { rate, arrivals, .. } = &self.plan.load else { return None };
        if self.plan.sessions.is_some() {
            return None;
        }
        let window = self.main.window();
        // A share of the plan has its share of the rate.
        let part = self.plan.deal().part();
        match arrivals {
            Arrivals::Fixed | Arrivals::Poisson | Arrivals::Gamma(_) => {
                let length = rate.length().map_or(window, |length| length.min(window));
                let asked = rate.arrivals_until(length);
                Some(per_second(asked, length) * part)
            }
            Arrivals::Uniform(low, high) => Some(2.0 / (*low + *high).as_secs_f64() * part),
            Arrivals::Trace(_) | Arrivals::Log => {
                Some(per_second(self.main.started as f64, window))
            }
        }
        .filter(|rate| rate.is_finite())
    }

    /// The sent rate: requests due within the measurement that the meter did not delay beyond its
    /// end, per second. Waits for a connection and refusals by the target do not reduce it. `None`
    /// in a closed loop.
    pub fn sent_rate(&self) -> Option<f64> {
        let t = &self.main;
        matches!(self.plan.load, Load::Open { .. })
            .then(|| t.per_second(t.started - t.sent_late - t.overdue - t.fault(Fault::Dropped)))
    }

    /// The busiest worker and its utilization, 0 to 1.
    pub fn busiest(&self) -> Option<(usize, f64)> {
        let shares = self.workers.iter().map(WorkerStats::busy).enumerate();
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// CPU time (user and system) of all workers, over warm-up and measurement.
    pub fn cpu(&self) -> Span {
        self.workers.iter().map(WorkerStats::cpu).sum()
    }

    /// Requests that ended, over warm-up and measurement; the denominator of the CPU time per
    /// request.
    pub fn ended(&self) -> u64 {
        self.warmup.iter().chain([&self.main]).map(|t| t.replies + t.failed).sum()
    }

    /// The kernel's statistics of the connections of all workers.
    pub fn transport(&self) -> Transport {
        self.workers.iter().fold(Transport::default(), |a, m| Transport {
            sampled: a.sampled + m.transport.sampled,
            retransmits: a.retransmits + m.transport.retransmits,
            rtt_sum: a.rtt_sum + m.transport.rtt_sum,
            rtt_max: a.rtt_max.max(m.transport.rtt_max),
            sctp: match (a.sctp, m.transport.sctp) {
                (Some(a), Some(b)) => Some(a.and(b)),
                (a, b) => a.or(b),
            },
        })
    }
}

impl WorkerStats {
    /// User and system CPU time.
    pub fn cpu(&self) -> Span {
        self.cpu_user + self.cpu_system
    }

    /// The share of the wall time in which the worker was busy, 0 to 1: CPU time minus spinning. 0
    /// if nothing is known.
    pub fn busy(&self) -> f64 {
        if self.wall == Span::ZERO {
            return 0.0;
        }
        // In a run of a millisecond, the CPU time after its last event can exceed the wall time.
        ((self.cpu() - self.spin).0 as f64 / self.wall.0 as f64).min(1.0)
    }
}

impl Transport {
    /// The mean of the connections' smoothed round-trip times.
    pub fn rtt_mean(&self) -> Option<Span> {
        (self.sampled > 0).then(|| self.rtt_sum / self.sampled)
    }
}

impl Tally {
    /// The load window: from the start of the section to the end of its load.
    pub fn window(&self) -> Span {
        self.end.since(self.start)
    }

    /// Complete replies inside the window with a status in this range.
    pub fn statuses_inside(&self, range: impl RangeBounds<u16> + Clone) -> u64 {
        let of = |all: &BTreeMap<u16, u64>| all.range(range.clone()).map(|(_, n)| n).sum::<u64>();
        of(&self.statuses).saturating_sub(of(&self.statuses_in_drain))
    }

    /// `n` per second of that window; 0 if it is empty.
    pub fn per_second(&self, n: u64) -> f64 {
        per_second(n as f64, self.window())
    }

    /// The completed rate: successes inside the window per second. 0 if the window is empty.
    pub fn rate(&self) -> f64 {
        self.per_second(self.replies - self.replies_in_drain)
    }

    /// Sessions completed inside the window per second. `None` without sessions.
    pub fn session_rate(&self) -> Option<f64> {
        let sessions = self.sessions.as_ref()?;
        Some(self.per_second(sessions.completed - sessions.completed_in_drain))
    }

    /// Bytes received inside the window per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes_received() - self.bytes_in_drain)
    }

    /// Bytes received, those of failed replies included. Results of versions that did not count
    /// these have the bytes of complete replies.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.max(self.bytes_head + self.bytes_body)
    }

    /// The share of failed requests among those that ended; `None` if none ended.
    pub fn error_share(&self) -> Option<f64> {
        let ended = self.replies + self.failed;
        (ended > 0).then(|| self.failed as f64 / ended as f64)
    }

    /// Requests that timed out, while connecting or waiting for the reply.
    pub fn timeouts(&self) -> u64 {
        let timeouts = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Timeout);
        timeouts.map(|f| self.fault(f)).sum()
    }

    /// Requests that were never sent.
    pub fn unsent(&self) -> u64 {
        self.started - self.sent
    }

    /// The concurrency: the mean number of requests in flight, computed as the total time that
    /// requests spent in flight inside the window, divided by the window (Little's law; Little,
    /// Operations Research 9, 1961). In a closed loop without think time it is close to the number
    /// of users.
    pub fn concurrency(&self) -> f64 {
        let ended = self.times.response.sum_ns() + self.times.failed.sum_ns();
        let inside = ended as f64 + self.time_unfinished.0 as f64
            - (self.time_in_drain + self.time_assumed).0 as f64;
        per_second(inside.max(0.0) / 1e9, self.window())
    }

    /// The other side of Little's law: the integral over the window of the number of requests in
    /// flight, divided by the window. `None` if it was not recorded.
    pub fn in_flight_mean(&self) -> Option<f64> {
        Some(per_second(self.time_in_flight?.as_secs_f64(), self.window()))
    }

    /// The mean number of open streams over the window, on all connections together. `None` without
    /// HTTP/2.
    pub fn streams_mean(&self) -> Option<f64> {
        let open = self.http2.as_deref()?.open_time;
        Some(per_second(open.as_secs_f64(), self.window()))
    }

    /// Upper bound of the time that the meter added to the quantile `q` of the response times (1:
    /// the maximum). `None` if the driver did not report its polls, or the sample is too small for
    /// the quantile.
    pub fn meter_added(&self, q: f64) -> Option<Span> {
        self.without_meter.as_ref()?.added(&self.times.response, q)
    }

    /// The section over time.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let length = self.series.interval();
        self.series.cells().iter().enumerate().map(move |(i, c)| Row {
            at: length * i as u64,
            length,
            started: c.started,
            replies: c.replies,
            failed: c.failed,
            bytes: c.bytes,
            p50: c.quantile(0.5),
            p99: c.quantile(0.99),
            max: c.quantile(1.0),
        })
    }
}

impl Figures {
    /// The figures of a histogram.
    pub fn of(h: &Hist) -> Self {
        Self {
            count: h.count(),
            mean_ns: h.mean_ns(),
            stdev_ns: h.stdev_ns(),
            min: h.min(),
            quantiles: QUANTILES.map(|(_, q)| h.quantile(q)),
            max: h.max(),
        }
    }
}

fn per_second(n: f64, window: Span) -> f64 {
    if window == Span::ZERO { 0.0 } else { n / window.as_secs_f64() }
}

#[cfg(test)]
pub(crate) mod tests;
