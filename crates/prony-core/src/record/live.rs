//! What a recorder tells while its run goes on. All of it is cheap: no histogram is walked.

use super::series::Series;
use super::{Recorder, Section, Tally};
use crate::fault::Fault;
use crate::units::{Nanos, Span};

/// The send lag so far: how many requests were sent, their lags added up, the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagSoFar {
    /// Requests that were sent.
    pub count: u64,
    /// Their lags added up, in nanoseconds.
    pub sum_ns: u64,
    /// The longest of them.
    pub max: Span,
}

impl Recorder {
    /// Requests wanted, answered, failed, and lost (of the failed, see [`Fault::is_lost`]) so far,
    /// both sections.
    pub fn progress(&self) -> [u64; 4] {
        let sum = |of: &dyn Fn(&Tally) -> u64| of(&self.warm.tally) + of(&self.main.tally);
        [sum(&|t| t.started), sum(&|t| t.replies), sum(&|t| t.failed), sum(&Tally::lost)]
    }

    /// The series of the section in which `now` lies.
    pub fn series(&self, now: Nanos) -> &Series {
        if now >= self.begin { &self.main.tally.series } else { &self.warm.tally.series }
    }

    /// The series of the measurement.
    pub fn measured(&self) -> &Series {
        &self.main.tally.series
    }

    /// The service times of the measurement over time, where they are kept.
    pub fn served(&self) -> Option<&Series> {
        self.main.tally.served.as_deref()
    }

    /// Whole replies by status so far, in no order; a status may come twice, to be added up.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let of = |s: &Section| {
            let last = Some(s.status_last).filter(|&(_, n)| n > 0);
            s.tally.statuses.clone().into_iter().chain(last)
        };
        of(&self.warm).chain(of(&self.main))
    }

    /// Failed requests of one fault so far, both sections.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.warm.tally.fault(fault) + self.main.tally.fault(fault)
    }

    /// The send lag so far, both sections.
    pub fn lag(&self) -> LagSoFar {
        let mut all = LagSoFar::default();
        for s in [&self.warm, &self.main] {
            let lag = &s.tally.times.lag;
            all.count += lag.count() + s.on_time;
            all.sum_ns += lag.sum_ns() as u64;
            all.max = all.max.max(lag.max().unwrap_or_default());
        }
        all
    }
}
