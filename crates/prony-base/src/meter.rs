//! What a meter measures of itself: its workers, their event loops, connections and processors.

use serde::{Deserialize, Serialize};

use crate::units::Span;

/// Minimum delay of an event-loop stall.
pub const LATE: Span = Span::from_millis(1);

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

    /// The share of the wall time in which the worker waited in a run queue, 0 to 1.
    pub fn waited(&self) -> Option<f64> {
        let waited = self.sched_delay?.total;
        (self.wall > Span::ZERO).then(|| (waited.0 as f64 / self.wall.0 as f64).min(1.0))
    }
}

/// Event-loop stalls: how late a loop came to its periodic checks (about 20 a second), which it
/// makes in any load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Number of checks.
    pub checks: u64,
    /// Number of checks that were late by 1 ms or more.
    pub late: u64,
    /// Sum of the delays of these late checks.
    pub sum: Span,
    /// The longest delay, of other timed waits too.
    pub longest: Span,
}

impl Stalls {
    /// The mean time between two checks.
    pub const CHECK: Span = Span::from_millis(50);

    /// The time from the last check to the next one: half of the mean to one and a half. Equal
    /// times could keep step with what stops the loop periodically, and then every check would be
    /// in time. Multiples of the golden ratio, modulo 1, are spread evenly, however many there are.
    pub fn next_check(&self) -> Span {
        let spread = self.checks.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Span(Self::CHECK.0 / 2 + ((Self::CHECK.0 * spread) >> 32))
    }

    /// Count one check that was `late`.
    pub fn record(&mut self, late: Span) {
        self.checks += 1;
        if late >= LATE {
            self.late += 1;
            self.sum += late;
        }
        self.longest = self.longest.max(late);
    }

    /// The share of late checks, and their mean delay. The checks are spread over the run, so the
    /// share estimates the share of the time in which the loop was away. `None` if no check was
    /// late.
    pub fn share(&self) -> Option<(f64, Span)> {
        (self.late > 0).then(|| (self.late as f64 / self.checks as f64, self.sum / self.late))
    }
}

/// Run-queue delay of a thread (`/proc/thread-self/schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedDelay {
    /// Time in which it was ready to run and did not run: in the queue of a processor, or
    /// throttled.
    pub total: Span,
    /// How often it was scheduled.
    pub count: u64,
}

/// Throttled and stolen processor time of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPressure {
    /// Throttled time: a control group of the process had used up its quota; summed over all
    /// processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Span>,
    /// Stolen time: the host took processors that the process may use while they had work to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Span>,
    /// Time in which these processors had work to do, stolen time included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Span>,
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

impl Transport {
    /// The mean of the connections' smoothed round-trip times.
    pub fn rtt_mean(&self) -> Option<Span> {
        (self.sampled > 0).then(|| self.rtt_sum / self.sampled)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    /// The checks of a loop that is stopped in the last half of each period, from this phase on.
    fn stopped(period: Span, phase: Span, end: Nanos) -> Stalls {
        let mut stalls = Stalls::default();
        let mut due = Nanos::ZERO + phase + Stalls::CHECK;
        while due < end {
            let into = due.0 % period.0;
            let is_stopped = into >= period.0 / 2;
            let checked = if is_stopped { Nanos(due.0 - into + period.0) } else { due };
            stalls.record(checked.since(due));
            due = checked + stalls.next_check();
        }
        stalls
    }

    /// Whatever the period of the stops is: the times between checks keep step with none.
    #[test]
    fn checks_find_stops_of_any_period() {
        for period in 10..=250 {
            let period = Span::from_millis(period);
            for phase in 0..10 {
                let end = Nanos::ZERO + Span::from_secs(2);
                let stalls = stopped(period, period * phase / 10, end);
                let (share, _) = stalls.share().expect("late checks");
                assert!(share > 0.15, "{period} from {phase}: {stalls:?}");
            }
        }
    }

    #[test]
    fn checks_are_due_20_times_a_second() {
        let mut stalls = Stalls::default();
        let mut all = Vec::new();
        for _ in 0..1_000 {
            all.push(stalls.next_check());
            stalls.record(Span::ZERO);
        }
        let sum: u64 = all.iter().map(|span| span.0).sum();
        let mean = Span(sum / 1_000);
        assert!((mean.0 as f64 / Stalls::CHECK.0 as f64 - 1.0).abs() < 0.01, "{mean}");
        assert!(all.iter().all(|span| (25_000_000..75_000_000).contains(&span.0)), "{all:?}");
    }
}
