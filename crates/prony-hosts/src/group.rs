//! Merges the ticks of a group of workers into one: sums of counts, cells and blocks, all exact.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use prony_base::merge::Merge;
use prony_base::units::Span;
use prony_tally::record::series::{Block, Cell};
use serde_json::Value;

use crate::lost::Reported;
use crate::protocol::{self, Reply, Tick, TickBlock, TickInterval};
use crate::relay::{Relay, Share, Tally};

/// The maximum time between two tallies.
const EVERY: Duration = Duration::from_secs(1);

/// The workers of an aggregator during a run.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
    warmup: Span,
    start: Instant,
    /// Intervals by begin and length that were not reported yet.
    intervals: BTreeMap<(u64, u64), Cell>,
    /// Blocks of response and service times by begin.
    blocks: [BTreeMap<u64, Block>; 2],
    /// When the last tally was made.
    reported: Instant,
    is_past_warmup: bool,
}

#[derive(Debug, Default)]
struct Member {
    heard: Option<Instant>,
    reported: Reported,
    /// The start of its newest interval.
    newest: Option<u64>,
    report: Option<Value>,
    is_lost: bool,
}

impl Member {
    fn is_over(&self) -> bool {
        self.report.is_some() || self.is_lost
    }
}

impl Group {
    /// Workers of a plan with this warm-up, which starts at this instant.
    pub(crate) fn new(workers: usize, warmup: Span, start: Instant) -> Self {
        Self {
            members: (0..workers).map(|_| Member::default()).collect(),
            warmup,
            start,
            intervals: BTreeMap::new(),
            blocks: Default::default(),
            reported: start,
            is_past_warmup: warmup == Span::ZERO,
        }
    }

    /// Process a line of a worker. Returns what must be passed on.
    pub(crate) fn take(&mut self, worker: usize, line: String, now: Instant) -> Option<Relay> {
        let member = &mut self.members[worker];
        member.heard = Some(now);
        if member.is_lost {
            return None;
        }
        match protocol::parse::<Reply>(&line) {
            Ok(Reply::Tick(tick)) => {
                self.add(worker, *tick);
                None
            }
            Ok(Reply::Final { report }) => {
                member.report = Some(report);
                None
            }
            Ok(Reply::Refused { why }) => self.lose(worker, why),
            Ok(_) => Some(Relay::Line { worker, line }),
            Err(why) => self.lose(worker, format!("it sent a line that is {why}")),
        }
    }

    fn add(&mut self, worker: usize, mut tick: Tick) {
        let new = [mem::take(&mut tick.blocks), mem::take(&mut tick.service_blocks)];
        for (blocks, new) in self.blocks.iter_mut().zip(new) {
            for TickBlock { begin_ns, block } in new {
                blocks.entry(begin_ns).or_default().merge(&block);
            }
        }
        let member = &mut self.members[worker];
        if let Some(TickInterval { begin_ns, length_ns, cell }) = &tick.interval {
            self.intervals.entry((*begin_ns, *length_ns)).or_default().merge(cell);
            member.newest = Some(*begin_ns);
        }
        member.reported.add(tick, self.warmup);
    }

    /// A worker is lost. Returns its end for the driver, if it was running.
    pub(crate) fn lose(&mut self, worker: usize, cause: String) -> Option<Relay> {
        let member = &mut self.members[worker];
        if member.is_over() {
            return None;
        }
        member.is_lost = true;
        Some(Relay::Gone { worker, cause })
    }

    /// Workers that had been silent for longer than `limit` when all lines were read, each with how
    /// long.
    pub(crate) fn silent(&self, read: Instant, limit: Duration) -> Vec<(usize, Duration)> {
        let elapsed = read.saturating_duration_since(self.start);
        let silent = |member: &Member| {
            let since = |heard| read.saturating_duration_since(heard).min(elapsed);
            member.heard.map_or(elapsed, since)
        };
        let running = self.members.iter().enumerate().filter(|(_, member)| !member.is_over());
        running
            .map(|(worker, member)| (worker, silent(member)))
            .filter(|&(_, silent)| silent > limit)
            .collect()
    }

    /// The tallies that are due: one for each interval that every running worker has reported, and
    /// at least one a second.
    pub(crate) fn tallies(&mut self, now: Instant) -> Vec<Tally> {
        let running = || self.members.iter().filter(|member| !member.is_over());
        let complete = match running().count() {
            0 => Some(u64::MAX),
            _ => running().map(|member| member.newest).min().flatten(),
        };
        let is_complete = |begin: u64| complete.is_some_and(|complete| begin <= complete);
        let mut tallies = Vec::new();
        while let Some(first) = self.intervals.first_entry()
            && is_complete(first.key().0)
        {
            let ((begin_ns, length_ns), cell) = first.remove_entry();
            let interval = Some(TickInterval { begin_ns, length_ns, cell });
            tallies.push(Tally { tick: Tick { interval, ..Tick::default() }, warm_up: None });
        }
        if tallies.is_empty() && now.saturating_duration_since(self.reported) >= EVERY {
            tallies.push(Tally::default());
        }
        if let Some(last) = tallies.last_mut() {
            self.reported = now;
            [last.tick.blocks, last.tick.service_blocks] =
                mem::take(&mut self.blocks).map(|blocks| {
                    let block = |(begin_ns, block)| TickBlock { begin_ns, block };
                    blocks.into_iter().map(block).collect()
                });
        }
        let now_ns = self.now_ns();
        let sums = self.sums(|reported| &reported.last);
        for Tally { tick, .. } in &mut tallies {
            add_counts(tick, &sums);
            tick.now_ns = now_ns;
        }
        if !self.is_past_warmup && now_ns > self.warmup.0 && !tallies.is_empty() {
            self.is_past_warmup = true;
            tallies[0].warm_up = Some(Box::new(self.sums(|reported| &reported.before)));
        }
        tallies
    }

    /// What the slowest running worker has reported; without one, the latest.
    fn now_ns(&self) -> u64 {
        let now = |member: &Member| member.reported.last.now_ns;
        let running = self.members.iter().filter(|member| !member.is_over());
        running.map(now).min().or_else(|| self.members.iter().map(now).max()).unwrap_or(0)
    }

    fn sums(&self, of: impl Fn(&Reported) -> &Tick) -> Tick {
        let mut sums = Tick::default();
        for member in &self.members {
            let tick = of(&member.reported);
            add_counts(&mut sums, tick);
            sums.now_ns = sums.now_ns.max(tick.now_ns);
        }
        sums
    }

    /// What is left of each worker, once all are done or lost. Empties the group.
    pub(crate) fn over(&mut self) -> Option<Vec<Share>> {
        if self.members.is_empty() || !self.members.iter().all(Member::is_over) {
            return None;
        }
        let share = |member: Member| match member.report {
            Some(report) => Share::Report(report),
            None => Share::Lost(Box::new(member.reported)),
        };
        Some(mem::take(&mut self.members).into_iter().map(share).collect())
    }
}

/// Add the counts of a tick.
fn add_counts(sums: &mut Tick, tick: &Tick) {
    sums.started += tick.started;
    sums.replies += tick.replies;
    sums.failed += tick.failed;
    for (&fault, n) in &tick.faults {
        *sums.faults.entry(fault).or_default() += n;
    }
    for &(status, n) in &tick.statuses {
        match sums.statuses.binary_search_by_key(&status, |&(status, _)| status) {
            Ok(index) => sums.statuses[index].1 += n,
            Err(index) => sums.statuses.insert(index, (status, n)),
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_base::fault::Fault;
    use prony_base::rng::{Sequence, Stream};
    use prony_tally::record::series::bin_of;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The tick of a worker after its second number `second`, with counts that `n` sets.
    fn tick(second: u64, n: u64) -> Tick {
        let time = Span::from_millis(1 + n);
        let bins = vec![(bin_of(time), n as u32)];
        let cell =
            Cell { started: n, replies: n, max: time, bins: bins.clone(), ..Cell::default() };
        let block = Block { replies: n, sum_ns: time.0 * n, bins };
        Tick {
            now_ns: (second + 1) * SECOND + n,
            started: 100 * second + n,
            replies: 100 * second,
            faults: [(Fault::Reset, second)].into(),
            statuses: vec![(200, second), (500 + (n % 2) as u16, 1)],
            interval: Some(TickInterval { begin_ns: second * SECOND, length_ns: SECOND, cell }),
            blocks: vec![TickBlock { begin_ns: second * SECOND, block }],
            ..Tick::default()
        }
    }

    fn line(tick: &Tick) -> String {
        protocol::line(&Reply::Tick(Box::new(tick.clone())))
    }

    fn group(workers: usize, warmup: Span) -> (Group, Instant) {
        let start = Instant::now();
        (Group::new(workers, warmup, start), start)
    }

    #[test]
    fn tallies_are_the_exact_sums_of_the_ticks_in_any_order() {
        for seed in 0..50 {
            let mut draws = Sequence::new(seed, Stream::Link);
            let (mut group, start) = group(5, Span::from_secs(2));
            let mut next = [0_u64; 5];
            let (mut cells, mut blocks) = (BTreeMap::new(), BTreeMap::new());
            let (mut expected_cells, mut expected_blocks) =
                (BTreeMap::<u64, Cell>::new(), BTreeMap::<u64, Block>::new());
            let mut before = None;
            while next.iter().any(|&second| second < 6) {
                let worker = draws.below(5) as usize;
                if next[worker] < 6 {
                    let tick = tick(next[worker], 1 + draws.below(20));
                    next[worker] += 1;
                    let interval = tick.interval.as_ref().expect("it has one");
                    expected_cells.entry(interval.begin_ns).or_default().merge(&interval.cell);
                    let TickBlock { begin_ns, block } = &tick.blocks[0];
                    expected_blocks.entry(*begin_ns).or_default().merge(block);
                    assert_eq!(group.take(worker, line(&tick), start), None);
                }
                for Tally { tick, warm_up } in group.tallies(start) {
                    let interval = tick.interval.expect("nothing else is due");
                    // Complete: all workers have reported it.
                    assert!(next.iter().all(|&second| second * SECOND > interval.begin_ns));
                    assert!(cells.insert(interval.begin_ns, interval.cell).is_none(), "twice");
                    for TickBlock { begin_ns, block } in tick.blocks {
                        blocks.entry(begin_ns).or_insert_with(Block::default).merge(&block);
                    }
                    before = before.or(warm_up);
                }
            }
            assert_eq!((cells, blocks), (expected_cells, expected_blocks), "seed {seed}");
            // Two seconds of warm-up, of which each worker has reported the end of the first: the
            // second one ended after the warm-up.
            let before = before.expect("the warm-up is over");
            assert_eq!((before.replies, before.faults.get(&Fault::Reset)), (0, Some(&0)));
            assert_eq!(before.statuses.iter().map(|&(_, n)| n).sum::<u64>(), 5);
        }
    }

    #[test]
    fn lost_workers_hold_no_interval_back() {
        let (mut group, start) = group(3, Span::ZERO);
        for worker in 0..3 {
            group.take(worker, line(&tick(0, 4)), start);
        }
        assert_eq!(group.tallies(start).len(), 1);
        let later = start + Duration::from_secs(3);
        for worker in 0..2 {
            group.take(worker, line(&tick(1, 5)), later);
        }
        assert_eq!(group.tallies(start), []);
        let silent = group.silent(later, Duration::from_millis(2_500));
        assert_eq!(silent, [(2, Duration::from_secs(3))]);
        let lost = group.lose(2, "it was silent".into());
        assert_eq!(lost, Some(Relay::Gone { worker: 2, cause: "it was silent".into() }));
        assert_eq!(group.lose(2, "again".into()), None);
        // Its late ticks have no part in the sums.
        group.take(2, line(&tick(1, 9)), later);
        let [Tally { tick: sum, .. }] = &group.tallies(later)[..] else { panic!("one is due") };
        assert_eq!(sum.interval.as_ref().map(|interval| interval.cell.replies), Some(10));
        assert_eq!(sum.statuses, [(200, 2), (500, 1), (501, 2)]);
        // Without news, there is one each second.
        assert_eq!(group.tallies(later).len(), 0);
        let [Tally { tick: sum, .. }] = &group.tallies(later + EVERY)[..] else { panic!("one") };
        assert_eq!((sum.started, &sum.interval), (2 * 105 + 4, &None));
    }

    #[test]
    fn what_is_left_comes_when_all_are_done_or_lost() {
        let (mut group, start) = group(2, Span::ZERO);
        let last = tick(0, 7);
        group.take(0, line(&last), start);
        assert!(group.take(0, "no line".into(), start).is_some());
        assert_eq!(group.over(), None);
        let report = protocol::line(&Reply::Final { report: "all".into() });
        assert_eq!(group.take(1, report, start), None);
        let mut kept = Reported::default();
        kept.add(Tick { blocks: Vec::new(), ..last }, Span::ZERO);
        let shares = vec![Share::Lost(Box::new(kept)), Share::Report("all".into())];
        assert_eq!(group.over(), Some(shares));
        assert_eq!(group.over(), None);
    }
}
