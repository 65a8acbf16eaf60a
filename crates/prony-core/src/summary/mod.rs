//! What a run amounts to: the merged tallies, the meter's account of itself, and every derived
//! figure, in one place.

mod command;
pub mod confidence;
mod held;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, FaultClass};
use crate::plan::{Load, Plan, PlanSize};
use crate::rate::Arrivals;
use crate::record::Tally;
use crate::record::hist::Hist;
use crate::units::Span;
pub use command::CommandLine;
use confidence::Until;
pub use held::{Stalls, Turned, Withheld};
pub use verdict::{Bound, Change, Figure, Judgement, Limit, Queued, Verdict, Waiting};

/// A finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What was asked (the whole, not a share).
    pub plan: Plan,
    /// What was done about it, and where.
    pub run: RunInfo,
    /// The warm-up, where there was one.
    pub warmup: Option<Tally>,
    /// The measurement.
    pub main: Tally,
    /// The meter about itself, one entry per worker.
    pub meters: Vec<Meter>,
}

/// The circumstances of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// prony's version.
    pub version: String,
    /// The command line, as typed.
    pub command: CommandLine,
    /// Start, in seconds since 1970 (UTC); `None` in simulation.
    pub started_unix: Option<f64>,
    /// `epoll`, `io_uring` or `simulation`.
    pub driver: String,
    /// The addresses that the endpoints stand for, in the order of the plan's endpoints.
    pub addresses: Vec<Vec<String>>,
    /// Operating system and kernel, processor count; empty in simulation.
    pub host: String,
    /// The descriptor limit in force; 0 = unknown.
    pub descriptor_limit: u64,
    /// Whether (and how) the user ended the run before its time.
    pub interrupted: bool,
    /// The highest percentile (over 0, below 100) that the run must carry, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// How long what was due may have waited for other arrivals, to go out with them, where that
    /// was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grain: Option<Span>,
    /// Processor time that the machine kept from the run, where it says so.
    #[serde(default)]
    pub withheld: Withheld,
    /// How far figures were to be known before the load ended, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The last self-test on this host, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_test: Option<SelfTested>,
    /// Where the target runs on the meter's machine, as far as its addresses show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_here: Option<TargetHere>,
    /// The plan's sessions stand for connections: the user asked for no sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connections_as_sessions: bool,
    /// How large the plan was of which a saved report has an excerpt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_size: Option<PlanSize>,
    /// Whether reports of the run show secrets: credentials, bodies and the like.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secrets_shown: bool,
    /// Facts that the reader must know (a cap lowered, a driver fallen back), in whole sentences.
    pub notes: Vec<String>,
}

/// A target on the meter's own machine, which competes with the meter for its processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetHere {
    /// Its address: of this machine, or a socket's path.
    pub address: String,
    /// Processors that this process may use.
    pub cores: u32,
}

/// What a report says of the last self-test on its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfTested {
    /// Its begin, in seconds since 1970 (UTC).
    pub started_unix: f64,
    /// The host's name.
    pub host: String,
    /// The release of its kernel.
    pub kernel: String,
    /// How many proofs were made ...
    pub proofs: u64,
    /// ... and how many of them held.
    pub held: u64,
    /// Whether the test came to its end and all proofs held.
    pub passed: bool,
    /// What has changed since, so that it says nothing of this run; empty where nothing has.
    pub changed: String,
}

/// What one worker did to the machine it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// User CPU time of the worker's thread over the run.
    pub cpu_user: Span,
    /// System CPU time.
    pub cpu_system: Span,
    /// Wall time from the first request to the last event.
    pub wall: Span,
    /// Time spent spinning for an arrival (part of the CPU time, but free for work).
    pub spin: Span,
    /// Turns of the event loop.
    pub turns: u64,
    /// How late the event loop came back to what it had set itself.
    #[serde(default)]
    pub stalls: Stalls,
    /// How the kernel gave the thread a processor; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turned: Option<Turned>,
    /// What the kernel knows of the connections.
    pub transport: Transport,
    /// How well the clock of the kernel's time stamps was known, where they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps: Option<StampClock>,
}

/// How well the clock of the kernel's time stamps was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClock {
    /// The largest error that the offset between its clock and the meter's can have had.
    pub error: Span,
    /// How often the clock was set while the load ran; the stamps around it are not used.
    pub steps: u64,
}

/// Totals of TCP_INFO over the connections that were asked, each when it was closed or the run
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transport {
    /// Connections asked.
    pub sampled: u64,
    /// Segments sent again, over all of them.
    pub retransmits: u64,
    /// Sum of their smoothed round-trip times.
    pub rtt_sum: Span,
    /// The longest smoothed round-trip time.
    pub rtt_max: Span,
    /// The same of SCTP associations, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp: Option<Sctp>,
}

/// Whose SCTP it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SctpStack {
    /// The kernel's.
    #[default]
    Kernel,
    /// One in userspace, whose packets go over UDP.
    Udp,
    /// One in userspace, whose packets go over IP.
    Raw,
}

/// What is known of SCTP's associations: of each when it was closed or the run ended, and of the
/// paths of those that have several also while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sctp {
    /// Whose they were.
    #[serde(default)]
    pub stack: SctpStack,
    /// Associations asked.
    pub associations: u64,
    /// Chunks of data sent again, over all of them.
    pub retransmits: u64,
    /// The most addresses of the peer that one had; 0 where all were over already.
    pub paths: u32,
    /// Addresses that were given up at some time, each once for each of the associations.
    pub paths_failed: u64,
    /// Those that were not, but had timeouts that nothing had taken back.
    #[serde(default)]
    pub paths_potentially_failed: u64,
    /// Associations of which nothing was known any more when they were asked, because the peer had
    /// ended them: their paths are those of their beginning, and what was sent again is not known.
    #[serde(default)]
    pub ended_by_peer: u64,
    /// This side's retransmission timeout before the first round trip, in ms.
    pub rto_initial_ms: u32,
    /// Its lower limit, in ms.
    pub rto_min_ms: u32,
    /// Its upper limit, in ms.
    pub rto_max_ms: u32,
    /// This side acknowledges at the latest after so many ms ...
    pub sack_delay_ms: u32,
    /// ... and after so many packets.
    pub sack_packets: u32,
    /// Whether small messages are sent at once.
    pub nodelay: bool,
}

impl Sctp {
    /// Counts added up, and the settings of whoever has any; all associations of a run have the
    /// same.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let settings = if self.associations > 0 { self } else { other };
        // Every field stands here, so that a new one is either a count or a setting.
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

/// The quantiles that reports tell, with their names.
pub const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// What reports tell of one histogram. Nothing is told of an empty one, and no quantile that the
/// sample cannot carry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// How many times there are.
    pub count: u64,
    /// Their mean, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Their standard deviation (of the population), in nanoseconds.
    pub stdev_ns: Option<f64>,
    /// The shortest.
    pub min: Option<Span>,
    /// One for each of [`QUANTILES`].
    pub quantiles: [Option<Span>; QUANTILES.len()],
    /// The longest.
    pub max: Option<Span>,
}

/// One interval of the run, as reports tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its begin, counted from the section's.
    pub at: Span,
    /// Its length; that of the last may reach beyond the end of the run.
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
    /// The longest response time, exact; `None` where none ended in it.
    pub max: Option<Span>,
}

impl Summary {
    /// The summary of what the workers hand in: warm-up, measurement and meter of each.
    pub fn from_parts(plan: Plan, run: RunInfo, parts: Vec<(Option<Tally>, Tally, Meter)>) -> Self {
        let (mut warmup, mut main, mut meters) = (None::<Tally>, None::<Tally>, Vec::new());
        let join = |all: &mut Option<Tally>, part: Tally| match all {
            Some(all) => all.merge(&part),
            None => *all = Some(part),
        };
        for (w, m, meter) in parts {
            if let Some(w) = w {
                join(&mut warmup, w);
            }
            join(&mut main, m);
            meters.push(meter);
        }
        Self { plan, run, warmup, main: main.unwrap_or_default(), meters }
    }

    /// The rate that the plan asked for over the measurement, in requests per second; `None` in a
    /// closed loop, which asks for none, and where sessions arrive, whose requests follow the
    /// replies. Where a count or the user ended the run earlier, the mean rate asked until then.
    pub fn asked_rate(&self) -> Option<f64> {
        let Load::Open { rate, arrivals, .. } = &self.plan.load else { return None };
        if self.plan.sessions.is_some() {
            return None;
        }
        let window = self.main.window();
        match arrivals {
            Arrivals::Fixed | Arrivals::Poisson => {
                let length = rate.length().map_or(window, |length| length.min(window));
                let asked = rate.arrivals_until(length);
                Some(per_second(asked, length))
            }
            Arrivals::Uniform(low, high) => Some(2.0 / (*low + *high).as_secs_f64()),
            Arrivals::Trace(_) => Some(per_second(self.main.started as f64, window)),
        }
        .filter(|rate| rate.is_finite())
    }

    /// The rate at which requests that were due within the measurement also went out within it, as
    /// far as that depended on the meter: waits for a connection and refusals by the target are not
    /// held against it. `None` in a closed loop.
    pub fn sent_rate(&self) -> Option<f64> {
        let t = &self.main;
        matches!(self.plan.load, Load::Open { .. })
            .then(|| t.per_second(t.started - t.sent_late - t.overdue - t.fault(Fault::Dropped)))
    }

    /// The busiest worker: its index and its share of busy time.
    pub fn busiest(&self) -> Option<(usize, f64)> {
        let shares = self.meters.iter().map(Meter::busy).enumerate();
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// CPU time (user and system) of all workers, over warm-up and measurement.
    pub fn cpu(&self) -> Span {
        self.meters.iter().map(Meter::cpu).sum()
    }

    /// Requests that ended, over warm-up and measurement: what the CPU time was spent on.
    pub fn ended(&self) -> u64 {
        self.warmup.iter().chain([&self.main]).map(|t| t.replies + t.failed).sum()
    }

    /// What the kernel knows of the connections of all workers.
    pub fn transport(&self) -> Transport {
        self.meters.iter().fold(Transport::default(), |a, m| Transport {
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

impl Meter {
    /// User and system CPU time.
    pub fn cpu(&self) -> Span {
        self.cpu_user + self.cpu_system
    }

    /// The share of the wall time in which the worker worked, 0 to 1: CPU time less spinning. 0
    /// where nothing is known.
    pub fn busy(&self) -> f64 {
        if self.wall == Span::ZERO {
            return 0.0;
        }
        // In a run of a millisecond what comes after its last event counts for more than the run.
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
    /// The load window: from the begin of the section to the end of its load.
    pub fn window(&self) -> Span {
        self.end.since(self.begin)
    }

    fn per_second(&self, n: u64) -> f64 {
        per_second(n as f64, self.window())
    }

    /// Successes inside the window, per second of it. 0 where the window is empty.
    pub fn rate(&self) -> f64 {
        self.per_second(self.replies - self.replies_in_drain)
    }

    /// Sessions completed inside the window, per second of it. `None` where there are no sessions.
    pub fn session_rate(&self) -> Option<f64> {
        let sessions = self.sessions.as_ref()?;
        Some(self.per_second(sessions.completed - sessions.completed_in_drain))
    }

    /// Bytes received inside the window, per second of it.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes_received() - self.bytes_in_drain)
    }

    /// Bytes received, those of replies that failed half-way included. Results of versions that did
    /// not count them have those of whole replies.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received.max(self.bytes_head + self.bytes_body)
    }

    /// Failed requests among those that ended; `None` where none ended.
    pub fn error_share(&self) -> Option<f64> {
        let ended = self.replies + self.failed;
        (ended > 0).then(|| self.failed as f64 / ended as f64)
    }

    /// Requests that timed out, connecting or waiting.
    pub fn timeouts(&self) -> u64 {
        let timeouts = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Timeout);
        timeouts.map(|f| self.fault(f)).sum()
    }

    /// Requests that never went out, for whatever reason.
    pub fn unsent(&self) -> u64 {
        self.started - self.sent
    }

    /// How many requests were under way at a time, on average: the time that they spent inside the
    /// window, added up, over the window (Little's law). In a closed loop without think time it is
    /// the number of users, but for the moments between two requests.
    pub fn concurrency(&self) -> f64 {
        let ended = self.times.response.sum_ns() + self.times.failed.sum_ns();
        let inside = ended as f64 + self.time_unfinished.0 as f64
            - (self.time_in_drain + self.time_assumed).0 as f64;
        per_second(inside.max(0.0) / 1e9, self.window())
    }

    /// The same from the other side of Little's law: the integral over the window of how many were
    /// under way, over the window. `None` where nobody has integrated.
    pub fn under_way(&self) -> Option<f64> {
        Some(per_second(self.time_under_way?.as_secs_f64(), self.window()))
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
mod tests;
