//! What a live view shows of a run on several hosts: the sums of what the workers have reported,
//! and a line for each.

use std::collections::{BTreeMap, VecDeque};

use prony_base::fault::Fault;
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_io::{Detail, Interval, Live};
use prony_tally::record::LagSoFar;
use prony_tally::record::series::Cell;

use crate::protocol::{Tick, TickInterval};

/// How many intervals of a worker are kept: one that is slower than this is silent.
const KEPT: usize = 5;

/// One host in a live view, or the hosts of one aggregator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    /// Its name, unique in the run.
    pub name: String,
    /// How many hosts it is.
    pub hosts: usize,
    /// How many of them were lost.
    pub lost_hosts: usize,
    /// Failed requests so far.
    pub failed: u64,
    /// Its latest complete second, if it has reported one.
    pub second: Option<Cell>,
    /// Whether its share is complete.
    pub is_done: bool,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
}

/// What the view shows.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) live: Live,
    pub(crate) hosts: Vec<HostView>,
    /// Whether workers have reported since.
    pub(crate) is_old: bool,
}

/// The latest intervals of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(VecDeque<TickInterval>);

impl Recent {
    /// Add the interval of a tick, if it has one.
    pub(crate) fn add(&mut self, interval: Option<&TickInterval>) {
        if let Some(interval) = interval {
            self.0.push_back(interval.clone());
            if self.0.len() > KEPT {
                self.0.pop_front();
            }
        }
    }

    /// The latest one.
    pub(crate) fn newest(&self) -> Option<&TickInterval> {
        self.0.back()
    }
}

/// The sum of the latest interval that all of these workers have reported.
pub(crate) fn common<'a>(workers: impl Iterator<Item = &'a Recent> + Clone) -> Option<Interval> {
    let newest = workers.clone().map(|recent| recent.newest().map(|interval| interval.begin_ns));
    let begin_ns = newest.min().flatten()?;
    let mut sum = None::<Interval>;
    for interval in workers.flat_map(|recent| recent.0.iter().find(|i| i.begin_ns == begin_ns)) {
        let length = Span(interval.length_ns);
        match &mut sum {
            None => {
                let (begin, cell) = (Nanos(begin_ns), interval.cell.clone());
                sum = Some(Interval { begin, length, cell });
            }
            Some(sum) if sum.length == length => sum.cell.merge(&interval.cell),
            Some(_) => {}
        }
    }
    sum
}

/// No details yet. Workers do not report their connections, their lag and their load while they
/// run.
pub(crate) fn detail() -> Detail {
    Detail {
        connections: 0,
        statuses: BTreeMap::new(),
        faults: [0; Fault::COUNT],
        lag: LagSoFar::default(),
        work: Vec::new(),
    }
}

/// Add what a worker has reported.
pub(crate) fn add(detail: &mut Detail, tick: &Tick) {
    for &(status, n) in &tick.statuses {
        *detail.statuses.entry(status).or_default() += n;
    }
    for (&fault, n) in &tick.faults {
        detail.faults[fault as usize] += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(seconds: std::ops::Range<u64>) -> Recent {
        let mut recent = Recent::default();
        for second in seconds {
            let cell = Cell { started: 10, replies: second, ..Cell::default() };
            let (begin_ns, length_ns) = (second * 1_000_000_000, 1_000_000_000);
            recent.add(Some(&TickInterval { begin_ns, length_ns, cell }));
            recent.add(None);
        }
        recent
    }

    #[test]
    fn the_latest_second_of_all_is_added_up() {
        let all = [recent(0..4), recent(0..6), recent(0..5)];
        let sum = common(all.iter()).expect("all have reported");
        assert_eq!((sum.begin, sum.length), (Nanos(3_000_000_000), Span::from_secs(1)));
        assert_eq!((sum.cell.started, sum.cell.replies), (30, 9));
        // One has reported nothing yet.
        let all = [recent(0..4), recent(0..0)];
        assert_eq!(common(all.iter()), None);
        // One that is far behind has no part in the sum of the others.
        let all = [recent(0..1), recent(0..9)];
        assert_eq!(common(all.iter()).map(|sum| sum.cell.started), Some(10));
    }

    #[test]
    fn details_are_added_up() {
        let mut sum = detail();
        let faults = BTreeMap::from([(Fault::Reset, 2)]);
        let tick = Tick { statuses: vec![(200, 5), (503, 1)], faults, ..Tick::default() };
        add(&mut sum, &tick);
        add(&mut sum, &tick);
        assert_eq!(sum.statuses, BTreeMap::from([(200, 10), (503, 2)]));
        assert_eq!(sum.faults[Fault::Reset as usize], 4);
    }
}
