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
mod verdict;

use prony_base::fault::Fault;
use prony_base::merge::Merge;
use prony_base::meter::{CpuPressure, Transport, WorkerStats};
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, PlanSize};
use prony_plan::rate::Arrivals;
use prony_plan::threshold::Threshold;
use prony_tally::record::hist::Hist;
use prony_tally::record::{Tally, per_second};
use serde::{Deserialize, Serialize};

pub use accepted::Accepted;
pub use command::CommandLine;
pub use conclusion::{Conclusion, Weight};
use confidence::Until;
pub use hosts::{ClockOffset, Host, Hosts, Loss, PART_FORMAT, Part};
pub use offered::Offered;
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

#[cfg(test)]
pub(crate) mod tests;
