//! The planned load against the load that was offered, second by second: what the loss of a host
//! took away.

use prony_base::units::Span;

use super::Summary;

/// One interval of a run, a part of whose load was never offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Its start, counted from the start of the measurement.
    pub at: Span,
    /// Its length. The last one ends with the load.
    pub length: Span,
    /// The requests that the plan has in it; their expected number where arrivals are random.
    pub planned: f64,
    /// The requests that started in it, on all hosts together, as far as they were reported.
    pub offered: u64,
}

impl Summary {
    /// Each interval of a run on several hosts that is partial. Empty for other runs, and where the
    /// plan has no rate of requests.
    pub fn offered(&self) -> Vec<Offered> {
        if !self.run.hosts.as_ref().is_some_and(|hosts| hosts.is_partial()) {
            return Vec::new();
        }
        let (window, length) = (self.main.window(), self.main.series.interval());
        let cells = self.main.series.cells();
        let row = |i: u64| {
            let at = length * i;
            let length = length.min(window - at);
            let offered = cells.get(i as usize).map_or(0, |cell| cell.started);
            Some(Offered { at, length, planned: self.plan.due(at, length)?, offered })
        };
        // After all hosts were lost there are no more cells.
        (0..window.0.div_ceil(length.0)).filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use prony_base::units::Nanos;
    use prony_plan::plan::{Load, Plan, Stop};
    use prony_plan::rate::{Arrivals, RatePlan};
    use prony_tally::record::Tally;

    use super::*;
    use crate::summary::tests::{meter, summary};
    use crate::summary::{Host, Hosts, Loss, Part};

    const S: u64 = 1_000_000_000;

    fn plan(rate: &str, arrivals: Arrivals) -> Plan {
        let rate: RatePlan = rate.parse().expect("a rate plan");
        let load = Load::Open { rate, arrivals, connections: 50 };
        Plan::new(vec![], vec![], load, Stop { requests: None, sessions: None, duration: None })
    }

    /// A run of two hosts, one of which is lost after the second second.
    fn run(plan: Plan, end: u64, lost: bool) -> Summary {
        let mut t = Tally::new(Nanos::ZERO);
        for k in 0..end * 10 / S {
            let at = Nanos(k * S / 10);
            // Every second request is that of the lost host.
            if k % 2 == 0 || at.0 < 2 * S {
                t.series.started(at);
                t.started += 1;
            }
        }
        t.series.close();
        t.end = Nanos(end);
        let mut summary = summary(plan, t, meter(10));
        let lost = lost.then(|| Loss { offered: 0.5, ..Loss::default() });
        let part = Summary {
            run: super::super::RunInfo {
                part: Some(Part::default()),
                ..super::super::RunInfo::default()
            },
            ..summary.clone()
        };
        let host = |shard, lost| Host { shard, lost, ..Host::of("web".into(), &part) };
        let hosts = vec![host(0, None), host(1, lost)];
        let hosts = Hosts { shards: 2, hosts, ..Hosts::default() };
        summary.run.hosts = Some(Box::new(hosts));
        summary
    }

    #[test]
    fn shows_what_a_lost_host_did_not_offer() {
        let s = run(plan("10", Arrivals::Fixed), 3 * S + S / 2, true);
        let rows: Vec<(u64, u64, f64, u64)> = s
            .offered()
            .iter()
            .map(|row| (row.at.0 / S, row.length.0 / 1_000_000, row.planned.round(), row.offered))
            .collect();
        let expected =
            [(0, 1_000, 10.0, 10), (1, 1_000, 10.0, 10), (2, 1_000, 10.0, 5), (3, 500, 5.0, 3)];
        assert_eq!(rows, expected);
        // A run that lost nothing has nothing to compare.
        assert_eq!(run(plan("10", Arrivals::Fixed), 3 * S, false).offered(), []);
    }

    #[test]
    fn seconds_after_the_loss_of_all_hosts_are_rows_too() {
        let mut s = run(plan("10", Arrivals::Fixed), 3 * S, true);
        s.main.end = Nanos(5 * S);
        let rows: Vec<u64> = s.offered().iter().map(|row| row.offered).collect();
        assert_eq!(rows, [10, 10, 5, 0, 0]);
    }

    #[test]
    fn due_requests_follow_the_arrivals() {
        let secs = Span::from_secs;
        let ramp = plan("0..100@10s", Arrivals::Poisson);
        let due = ramp.due(secs(4), secs(2)).expect("a rate");
        assert!((due - 100.0).abs() < 1e-9, "{due}");
        let uniform = plan("1", Arrivals::Uniform(Span(0), secs(1)));
        assert_eq!(uniform.due(secs(3), secs(5)), Some(10.0));
        let times = [0, 1, 1, 2, 5].map(secs);
        let trace = plan("1", Arrivals::Trace(times.into()));
        assert_eq!(trace.due(secs(1), secs(1)), Some(2.0));
        let closed = Load::Closed { connections: 2, think: prony_plan::plan::Think::None };
        let closed = Plan::new(vec![], vec![], closed, Stop::default());
        assert_eq!(closed.due(secs(0), secs(1)), None);
    }
}
