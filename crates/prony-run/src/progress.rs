//! The progress of a load as figures, for front ends to display.

use prony_base::units::{Nanos, Span};
use prony_io::Live;
use prony_plan::plan::Plan;

/// The state of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Its phase.
    pub phase: Phase,
    /// The current target rate, per second; `None` in a closed loop.
    pub target_rate: Option<f64>,
    /// The rate of successes in the last second; `None` during the first second.
    pub rate: Option<f64>,
    /// Requests in flight.
    pub in_flight: u64,
    /// Response times of the last second; `None` without a success.
    pub latencies: Option<Latencies>,
    /// Failures so far.
    pub failed: u64,
}

/// The phase of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Warm-up.
    Warmup {
        /// The elapsed time.
        elapsed: Span,
        /// The duration.
        whole: Span,
    },
    /// Measurement.
    Measurement {
        /// The elapsed time.
        elapsed: Span,
        /// The duration, if it is known.
        whole: Option<Span>,
    },
    /// Waiting for the last replies.
    Drain {
        /// The time since the start of the measurement.
        elapsed: Span,
    },
}

/// Response times of one second; quantiles only with enough samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The median.
    pub p50: Option<Span>,
    /// The 99th percentile.
    pub p99: Option<Span>,
    /// The maximum.
    pub max: Span,
}

impl Snapshot {
    /// The state of the load of a plan.
    pub fn of(plan: &Plan, live: &Live) -> Self {
        let last = live.last.as_ref();
        let cell = last.map(|last| &last.cell).filter(|cell| cell.replies > 0);
        Self {
            phase: Phase::of(plan, live),
            target_rate: plan.target_rate(live.now),
            rate: last.map(|last| last.cell.replies as f64 / last.length.as_secs_f64()),
            in_flight: live.in_flight,
            latencies: cell.map(|cell| Latencies {
                p50: cell.quantile(0.5),
                p99: cell.quantile(0.99),
                max: cell.max,
            }),
            failed: live.failed,
        }
    }
}

impl Phase {
    fn of(plan: &Plan, live: &Live) -> Self {
        let elapsed = live.now.since(Nanos::ZERO);
        if elapsed < plan.warmup {
            return Self::Warmup { elapsed, whole: plan.warmup };
        }
        let elapsed = live.now.since(Nanos::ZERO + plan.warmup);
        let whole = plan.length();
        if live.drain_end.is_some() || whole.is_some_and(|whole| elapsed > whole) {
            return Self::Drain { elapsed };
        }
        Self::Measurement { elapsed, whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    #[test]
    fn phases_follow_the_plan_and_the_drain() {
        let timed = "url = 'http://h/'\nwarmup = '5s'\nduration = '10s'";
        let counted = "url = 'http://h/'\nrequests = 9";
        let phase = |plan: &str, secs, drain_end| {
            let now = Nanos::ZERO + Span::from_secs(secs);
            Snapshot::of(&plan_file::tests::plan(plan), &Live { now, drain_end, ..Live::default() })
                .phase
        };
        let s = Span::from_secs;
        assert_eq!(phase(timed, 4, None), Phase::Warmup { elapsed: s(4), whole: s(5) });
        let measured = Phase::Measurement { elapsed: s(10), whole: Some(s(10)) };
        assert_eq!(phase(timed, 15, None), measured);
        assert_eq!(phase(timed, 16, None), Phase::Drain { elapsed: s(11) });
        assert_eq!(phase(counted, 3, None), Phase::Measurement { elapsed: s(3), whole: None });
        assert_eq!(phase(counted, 3, Some(Nanos(1))), Phase::Drain { elapsed: s(3) });
    }
}
