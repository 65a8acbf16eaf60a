//! Makes the report of a share from the reports of a worker before it was lost.

use std::collections::BTreeMap;

use prony_base::fault::FaultClass;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::Plan;
use prony_stats::summary::{Part, RunInfo, Summary};
use prony_tally::record::Tally;
use prony_tally::record::series::{Series, bin_value};
use serde::{Deserialize, Serialize};

use crate::protocol::{Tick, TickInterval};

/// What a worker has reported so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The last tick of the warm-up.
    pub(crate) before: Tick,
    /// The last tick.
    pub(crate) last: Tick,
    intervals: Vec<TickInterval>,
}

impl Reported {
    /// Add a tick of the worker of a plan with this warm-up.
    pub(crate) fn add(&mut self, tick: Tick, warmup: Span) {
        if let Some(interval) = &tick.interval
            && interval.begin_ns >= warmup.0
        {
            self.intervals.push(interval.clone());
        }
        if tick.now_ns <= warmup.0 {
            self.before = tick.clone();
        }
        self.last = tick;
    }

    /// Add the sums over several workers. Those at the end of the warm-up come apart, because the
    /// workers do not report at the same time.
    pub(crate) fn add_sums(&mut self, tick: Tick, before: Option<Tick>, warmup: Span) {
        self.add(tick, warmup);
        if let Some(before) = before {
            self.before = before;
        }
    }

    /// The report of the share, without figures of the meter itself, and with response times only.
    /// It covers the complete seconds that were reported.
    pub(crate) fn summary(&self, share: Plan, part: Part, note: Option<String>) -> Summary {
        let begin = Nanos::ZERO + share.warmup;
        let mut t = Tally::new(begin);
        t.end = begin.max(Nanos(self.last.now_ns));
        t.series = Series::new(begin);
        for interval in &self.intervals {
            let cell = &interval.cell;
            t.series.add_interval(Nanos(interval.begin_ns), cell);
            t.started += cell.started;
            t.replies += cell.replies;
            for (i, &(bin, n)) in cell.bins.iter().enumerate() {
                // The maximum is exact.
                let longest = u32::from(i + 1 == cell.bins.len()).min(n);
                t.times.response.record_n(bin_value(bin).min(cell.max), u64::from(n - longest));
                t.times.response.record_n(cell.max, u64::from(longest));
            }
        }
        self.add_failures(&mut t);
        t.started = t.started.max(t.replies + t.failed);
        t.unfinished = t.started - t.replies - t.failed;
        t.sent = t.started;
        let statuses = |tick: &Tick| tick.statuses.iter().copied().collect();
        t.statuses = less(&statuses(&self.last), &statuses(&self.before));
        let run = RunInfo {
            version: env!("CARGO_PKG_VERSION").into(),
            part: Some(part),
            notes: note.into_iter().collect(),
            ..RunInfo::default()
        };
        let warmup = (share.warmup > Span::ZERO).then(|| Tally { end: begin, ..Tally::default() });
        Summary { plan: share, run, warmup, main: t, workers: Vec::new() }
    }

    /// The failures of the intervals. The totals of their errors may be later than the last
    /// interval, so no more errors are counted than failures.
    fn add_failures(&self, t: &mut Tally) {
        let failed: u64 = self.intervals.iter().map(|interval| interval.cell.failed).sum();
        // Timeouts are response times, too.
        let mut timeouts = t.times.response.count().saturating_sub(t.replies).min(failed);
        let mut others = failed - timeouts;
        for (fault, n) in less(&self.last.faults, &self.before.faults) {
            let is_timeout = fault.class() == FaultClass::Timeout;
            let left = if is_timeout { &mut timeouts } else { &mut others };
            let n = n.min(*left);
            *left -= n;
            t.faults[fault as usize] += n;
            t.failed += n;
        }
    }
}

/// What the report of a lost worker covers.
pub(crate) fn note(host: &str) -> String {
    format!(
        "{host} was lost: its figures are those of the complete seconds that it had reported, its \
         response times to 1.6 %."
    )
}

/// The same of a group of workers whose aggregator was lost.
pub(crate) fn note_of_group(workers: &str) -> String {
    format!(
        "{workers} were lost with their aggregator: their figures are those of the complete seconds \
         that it had reported, their response times to 1.6 %, all together as those of the first."
    )
}

/// The difference between two counts.
fn less<K: Copy + Ord>(now: &BTreeMap<K, u64>, before: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let left = |(key, n): (&K, &u64)| (*key, n - before.get(key).copied().unwrap_or(0).min(*n));
    now.iter().map(left).filter(|&(_, n)| n > 0).collect()
}

#[cfg(test)]
mod tests {
    use prony_base::fault::Fault;
    use prony_plan::plan::{Load, Stop, Think};
    use prony_tally::record::series::{Cell, bin_of};

    use super::*;

    #[test]
    fn keeps_what_was_reported_after_the_warm_up() {
        let ms = Span::from_millis;
        let tick = |secs: u64, interval: Option<(u64, u64)>| Tick {
            now_ns: secs * 1_000_000_000,
            started: secs * 12,
            replies: secs * 10,
            failed: secs,
            faults: [(Fault::Reset, secs)].into(),
            statuses: vec![(200, secs * 10)],
            interval: interval.map(|(second, n)| TickInterval {
                begin_ns: second * 1_000_000_000,
                length_ns: 1_000_000_000,
                cell: Cell {
                    started: 12,
                    replies: n,
                    failed: 1,
                    max: ms(3),
                    bins: vec![(bin_of(ms(3)), n as u32)],
                    ..Cell::default()
                },
            }),
            ..Tick::default()
        };
        let mut reported = Reported::default();
        for (secs, interval) in [(1, Some((0, 5))), (2, Some((1, 6))), (3, Some((2, 7))), (4, None)]
        {
            reported.add(tick(secs, interval), Span::from_secs(1));
        }
        let load = Load::Closed { connections: 2, think: Think::None };
        let mut plan = Plan::new(Vec::new(), Vec::new(), load, Stop::default());
        plan.warmup = Span::from_secs(1);
        let summary = reported.summary(plan.shard(1, 2), Part::default(), Some(note("web2")));
        let t = &summary.main;
        assert_eq!((t.started, t.replies, t.failed, t.unfinished), (24, 13, 2, 9));
        assert_eq!((t.fault(Fault::Reset), t.statuses[&200]), (2, 30));
        assert_eq!((t.times.response.count(), t.times.response.max()), (13, Some(ms(3))));
        let replies: Vec<u64> = t.series.cells().iter().map(|cell| cell.replies).collect();
        assert_eq!(replies, [6, 7]);
        assert!(summary.run.notes[0].starts_with("web2 was lost: "));
    }
}
