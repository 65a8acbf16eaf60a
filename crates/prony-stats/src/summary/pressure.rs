//! CPU pressure: other processes on the meter's processors, a quota, a host that runs other guests;
//! and event-loop stalls.

use serde::{Deserialize, Serialize};

use super::{Summary, WorkerStats};
use crate::units::Span;

/// Minimum delay of an event-loop stall.
const LATE: Span = Span::from_millis(1);

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

impl WorkerStats {
    /// The share of the wall time in which the worker waited in a run queue, 0 to 1.
    pub fn waited(&self) -> Option<f64> {
        let waited = self.sched_delay?.total;
        (self.wall > Span::ZERO).then(|| (waited.0 as f64 / self.wall.0 as f64).min(1.0))
    }
}

impl Summary {
    /// The longest wall time of a worker.
    pub fn wall(&self) -> Span {
        self.workers.iter().map(|m| m.wall).max().unwrap_or_default()
    }

    /// The longest stall of any worker's event loop; `None` if none was longer than 1 ms.
    pub fn longest_stall(&self) -> Option<Span> {
        self.workers.iter().map(|m| m.stalls.longest).max().filter(|&t| t >= LATE)
    }

    /// The worker with the longest run-queue delay, and its share of the wall time.
    pub fn most_waiting(&self) -> Option<(usize, f64)> {
        let shares = self.workers.iter().enumerate().filter_map(|(i, m)| Some((i, m.waited()?)));
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
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
