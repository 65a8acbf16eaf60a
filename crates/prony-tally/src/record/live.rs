//! What a recorder reports while its run continues. All of it is cheap: nothing iterates over a
//! histogram.

use super::series::Series;
use super::{Recorder, Section, Tally};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};

/// The send lag so far: count, sum and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagSoFar {
    /// Number of requests sent.
    pub count: u64,
    /// Sum of their send lags, in nanoseconds.
    pub sum_ns: u64,
    /// The largest send lag.
    pub max: Span,
}

impl Recorder {
    /// Numbers of requests started, answered, failed, and lost (a part of the failed, see
    /// [`Fault::is_lost`]) so far, in both sections.
    pub fn progress(&self) -> [u64; 4] {
        let sum = |of: &dyn Fn(&Tally) -> u64| of(&self.warm.tally) + of(&self.main.tally);
        [sum(&|t| t.started), sum(&|t| t.replies), sum(&|t| t.failed), sum(&Tally::lost)]
    }

    /// Connections that have opened so far, in both sections.
    pub fn connections_opened(&self) -> u64 {
        self.warm.tally.connected + self.main.tally.connected
    }

    /// The series of the section that contains `now`.
    pub fn series(&self, now: Nanos) -> &Series {
        if now >= self.start { &self.main.tally.series } else { &self.warm.tally.series }
    }

    /// The series of the measurement.
    pub fn measured(&self) -> &Series {
        &self.main.tally.series
    }

    /// The service times of the measurement over time, if they are kept.
    pub fn served(&self) -> Option<&Series> {
        self.main.tally.service_series.as_deref()
    }

    /// Complete replies by status so far, in no order. A status can occur twice; add the counts.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        let of = |s: &Section| {
            let last = Some(s.status_last).filter(|&(_, n)| n > 0);
            s.tally.statuses.clone().into_iter().chain(last)
        };
        of(&self.warm).chain(of(&self.main))
    }

    /// Requests that failed with `fault` so far, in both sections.
    pub fn fault(&self, fault: Fault) -> u64 {
        self.warm.tally.fault(fault) + self.main.tally.fault(fault)
    }

    /// The send lag so far, in both sections.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Stamps;
    use super::super::tests::reply;
    use super::*;

    #[test]
    fn progress_counts_both_sections() {
        let mut r = Recorder::new(Nanos(1_000));
        let mut want = BTreeMap::new();
        for (i, status) in [200, 200, 404, 200, 404, 404].into_iter().enumerate() {
            let intended = Nanos(i as u64 * 400);
            let sent = intended + Span(10);
            let stamps = Stamps {
                intended,
                sent,
                first: sent,
                done: sent,
                queue: Span::ZERO,
                connect: Span::ZERO,
                stream: Span::ZERO,
                late: Span::ZERO,
            };
            r.started(intended);
            r.sent(&stamps);
            r.replied(&stamps, &reply(status, 1), None);
            *want.entry(status).or_insert(0) += 1;
            let mut found = BTreeMap::new();
            for (status, n) in r.statuses() {
                *found.entry(status).or_insert(0) += n;
            }
            assert_eq!(found, want);
        }
        assert_eq!(r.progress(), [6, 6, 0, 0]);
        assert_eq!(r.lag(), LagSoFar { count: 6, sum_ns: 60, max: Span(10) });
    }
}
