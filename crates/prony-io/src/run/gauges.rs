//! The progress of a running load: gauges that each worker updates 20 times a second, and their
//! sum. Apart from the stop flag, these are the only memory that workers share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_base::fault::Fault;
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_core::engine::AnyEngine;
use prony_tally::record::LagSoFar;
use prony_tally::record::series::{Block, Cell, Series};

use super::control::Control;
use crate::host::cpu;
use crate::time::stop::PULSE;

/// The state of a load: the sum over its workers, at most 50 ms old.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Time since the epoch.
    pub now: Nanos,
    /// Requests due so far, including the warm-up.
    pub started: u64,
    /// Requests with a reply as expected.
    pub replies: u64,
    /// Failed requests.
    pub failed: u64,
    /// Failed requests without any reply from the peer.
    pub lost: u64,
    /// Completed sessions, in a load of sessions.
    pub sessions: u64,
    /// Connections that have opened, without their TLS handshakes; `None` if it is not known.
    pub connected: Option<u64>,
    /// Requests due that have neither completed nor failed.
    pub in_flight: u64,
    /// When the drain of the last worker ends at the latest; set once all workers with requests in
    /// flight drain.
    pub drain_end: Option<Nanos>,
    /// The latest interval of the time series that all workers have completed, if any.
    pub last: Option<Interval>,
    /// For each worker, the time of its last update and its number of replies then.
    pub workers: Vec<(Nanos, u64)>,
    /// Details, if requested ([`crate::Options::detail`]).
    pub detail: Option<Detail>,
    /// Blocks of the measurement that have ended since the last update, with their start, relative
    /// to the start of the measurement; if requested ([`crate::Options::blocks`]).
    pub blocks: Vec<(Span, Block)>,
    /// The same for service times, if they are kept ([`crate::Options::keep_service`]).
    pub served: Vec<(Span, Block)>,
}

/// One interval of the time series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its start, since the epoch.
    pub begin: Nanos,
    /// Its length: 1 s, doubled whenever a series is full.
    pub length: Span,
    /// The counts in the interval.
    pub cell: Cell,
}

/// Details for the full-screen view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Open connections, including those being opened.
    pub connections: u64,
    /// Complete replies by status, including the warm-up.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed requests by fault, including the warm-up.
    pub faults: [u64; Fault::COUNT],
    /// The send lag so far.
    pub lag: LagSoFar,
    /// The CPU time of each worker so far, without spinning.
    pub work: Vec<Span>,
}

/// One worker's part of [`Live`], on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    started: AtomicU64,
    replies: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    sessions: AtomicU64,
    connected: AtomicU64,
    connections: AtomicU64,
    lag: [AtomicU64; 3],
    work: AtomicU64,
    faults: ByFault,
    /// When the worker's drain ends at the latest; 0 while it does not drain.
    drain_end: AtomicU64,
    /// The number of rate changes that the worker has applied.
    rate_changes: AtomicUsize,
    /// The worker only uses `try_lock`, so it never waits for a reader.
    lists: Mutex<Lists>,
}

/// A gauge for each fault.
#[derive(Debug)]
struct ByFault([AtomicU64; Fault::COUNT]);

impl Default for ByFault {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

#[derive(Debug, Default)]
struct Lists {
    /// The last two intervals that the worker has completed, latest first.
    last: [Option<Interval>; 2],
    /// When the replies were counted, and their number.
    replies: (Nanos, u64),
    statuses: Vec<(u16, u64)>,
    blocks: CompletedBlocks,
    served: CompletedBlocks,
}

/// The completed blocks of a series.
#[derive(Debug, Default)]
struct CompletedBlocks {
    /// Blocks that were not fetched yet.
    blocks: Vec<(Span, Block)>,
    /// The end of the last published block.
    until: Span,
}

impl Gauge {
    /// Apply new rate changes to the engine. Called by the worker.
    pub(crate) fn apply_changes(&self, control: &Control, engine: &mut dyn AnyEngine, now: Nanos) {
        let known = self.rate_changes.load(Ordering::Relaxed);
        let new = control.changes_since(known, now);
        self.rate_changes.store(known + new.len(), Ordering::Relaxed);
        for change in new {
            engine.change_rate(change);
        }
    }

    /// Publish the engine's progress, with details if `detail`. `spun` is the worker's spin time so
    /// far. Called by the worker.
    pub(crate) fn show(&self, engine: &dyn AnyEngine, now: Nanos, detail: bool, spun: Span) {
        let recorder = engine.recorder();
        let [started, replies, failed, lost] = recorder.progress();
        let set = |a: &AtomicU64, value| a.store(value, Ordering::Relaxed);
        set(&self.started, started);
        set(&self.replies, replies);
        set(&self.failed, failed);
        set(&self.lost, lost);
        set(&self.sessions, recorder.sessions_completed());
        set(&self.connected, recorder.connections_opened());
        // Requests in flight can only decrease during the drain, so set this once.
        if self.drain_end.load(Ordering::Relaxed) == 0
            && let Some(end) = engine.drain_end()
        {
            set(&self.drain_end, end.0);
        }
        if detail {
            set(&self.connections, engine.connections() as u64);
            let lag = recorder.lag();
            for (a, value) in self.lag.iter().zip([lag.count, lag.sum_ns, lag.max.0]) {
                set(a, value);
            }
            for (a, fault) in self.faults.0.iter().zip(Fault::ALL) {
                set(a, recorder.fault(fault));
            }
            let (user, system) = cpu::thread_times();
            set(&self.work, (user + system - spun).0);
        }
        let Ok(mut lists) = self.lists.try_lock() else { return };
        lists.replies = (now, replies);
        if detail {
            lists.statuses.clear();
            lists.statuses.extend(recorder.statuses());
        }
        let series = recorder.series(now);
        if let Some((index, cell)) = series.last_complete(now) {
            let length = series.interval();
            lists.close(series.start() + length * index as u64, length, cell);
        }
    }
}

impl Gauge {
    /// Publish the blocks that have ended. Called by the worker.
    pub(crate) fn show_blocks(&self, engine: &dyn AnyEngine) {
        let Ok(mut lists) = self.lists.try_lock() else { return };
        lists.blocks.publish(engine.recorder().measured());
        if let Some(served) = engine.recorder().served() {
            lists.served.publish(served);
        }
    }

    /// The values of a worker that panicked are still valid.
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompletedBlocks {
    fn publish(&mut self, series: &Series) {
        let blocks = series.blocks();
        for (at, block) in blocks.between(self.until, series.settled()) {
            self.blocks.push((at, block.clone()));
            self.until = at + blocks.length();
        }
    }
}

impl Lists {
    /// Set the latest complete interval. Usually it is unchanged.
    fn close(&mut self, begin: Nanos, length: Span, cell: Cow<'_, Cell>) {
        let [latest, before] = &mut self.last;
        match latest {
            Some(n) if n.begin != begin => *before = latest.take(),
            Some(n) if n.length == length && n.cell == *cell => return,
            _ => {}
        }
        *latest = Some(Interval { begin, length, cell: cell.into_owned() });
    }
}

impl Live {
    /// Requests with a reply, as expected or not.
    pub fn answered(&self) -> u64 {
        // The gauges are read one by one while they change.
        self.replies + self.failed.saturating_sub(self.lost)
    }

    /// The sum of the gauges.
    pub(crate) fn of(gauges: &[Gauge], now: Nanos, detail: bool) -> Self {
        let mut live = Self { now, ..Self::default() };
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let mut draining = true;
        for g in gauges {
            let (started, replies, failed) = (get(&g.started), get(&g.replies), get(&g.failed));
            live.started += started;
            live.replies += replies;
            live.failed += failed;
            live.lost += get(&g.lost);
            live.sessions += get(&g.sessions);
            *live.connected.get_or_insert_default() += get(&g.connected);
            let end = Nanos(get(&g.drain_end));
            draining &= end > Nanos::ZERO || started <= replies + failed;
            live.drain_end = live.drain_end.max(Some(end).filter(|&end| end > Nanos::ZERO));
            let mut lists = g.lists();
            live.workers.push(lists.replies);
            live.blocks.append(&mut lists.blocks.blocks);
            live.served.append(&mut lists.served.blocks);
        }
        live.drain_end = live.drain_end.filter(|_| draining);
        live.in_flight = live.started.saturating_sub(live.replies + live.failed);
        live.last = latest(gauges, now);
        live.detail = detail.then(|| Detail::of(gauges));
        live
    }
}

/// The latest interval that every running worker has completed.
fn latest(gauges: &[Gauge], now: Nanos) -> Option<Interval> {
    let mut latest: Option<Interval> = None;
    for g in gauges {
        let lists = g.lists();
        // Two pulses after its end, every worker has published it, even if one pulse was late.
        let published = |i: &&Interval| i.begin + i.length + PULSE * 2 <= now;
        for interval in lists.last.iter().flatten().filter(published) {
            match &mut latest {
                Some(sum) if (sum.begin, sum.length) == (interval.begin, interval.length) => {
                    sum.cell.merge(&interval.cell);
                }
                Some(sum) if sum.begin > interval.begin => {}
                _ => latest = Some(interval.clone()),
            }
        }
    }
    latest
}

impl Detail {
    fn of(gauges: &[Gauge]) -> Self {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let mut all = Self {
            connections: 0,
            statuses: BTreeMap::new(),
            faults: [0; Fault::COUNT],
            lag: LagSoFar::default(),
            work: Vec::with_capacity(gauges.len()),
        };
        for g in gauges {
            all.connections += get(&g.connections);
            let [count, sum_ns, max] = &g.lag;
            all.lag.count += get(count);
            all.lag.sum_ns += get(sum_ns);
            all.lag.max = all.lag.max.max(Span(get(max)));
            for (sum, n) in all.faults.iter_mut().zip(&g.faults.0) {
                *sum += get(n);
            }
            all.work.push(Span(get(&g.work)));
            let lists = g.lists();
            for &(status, n) in &lists.statuses {
                *all.statuses.entry(status).or_default() += n;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Nanos {
        Nanos::ZERO + Span::from_secs(n)
    }

    fn interval(begin: u64, started: u64) -> Interval {
        let cell = Cell { started, ..Cell::default() };
        Interval { begin: seconds(begin), length: Span::from_secs(1), cell }
    }

    #[test]
    fn live_is_the_sum_of_the_gauges() {
        let gauges = [Gauge::default(), Gauge::default()];
        for (gauge, [started, replies, failed, lost]) in
            gauges.iter().zip([[10, 7, 1, 1], [5, 5, 0, 0]])
        {
            gauge.started.store(started, Ordering::Relaxed);
            gauge.replies.store(replies, Ordering::Relaxed);
            gauge.failed.store(failed, Ordering::Relaxed);
            gauge.lost.store(lost, Ordering::Relaxed);
        }
        let live = Live::of(&gauges, Nanos(3), false);
        assert_eq!((live.started, live.replies, live.failed, live.in_flight), (15, 12, 1, 2));
        assert_eq!((live.lost, live.answered()), (1, 12));
        assert!(live.last.is_none() && live.detail.is_none());
        gauges[1].lists().replies = (Nanos(2), 5);
        let workers = Live::of(&gauges, Nanos(3), false).workers;
        assert_eq!(workers, [(Nanos(0), 0), (Nanos(2), 5)]);
    }

    #[test]
    fn drain_end_is_known_once_all_workers_drain() {
        let gauges = [Gauge::default(), Gauge::default(), Gauge::default()];
        for (gauge, started) in gauges.iter().zip([3, 2, 0]) {
            gauge.started.store(started, Ordering::Relaxed);
        }
        let end = || Live::of(&gauges, Nanos(3), false).drain_end;
        assert_eq!(end(), None);
        gauges[0].drain_end.store(40, Ordering::Relaxed);
        assert_eq!(end(), None, "the second has requests in flight and does not drain yet");
        gauges[1].drain_end.store(70, Ordering::Relaxed);
        assert_eq!(end(), Some(Nanos(70)), "the third has no requests in flight");
    }

    #[test]
    fn interval_counts_once_all_workers_have_published_it() {
        let gauges = [Gauge::default(), Gauge::default(), Gauge::default()];
        let close = |worker: usize, begin, started| {
            let Interval { begin, length, cell } = interval(begin, started);
            gauges[worker].lists.lock().unwrap().close(begin, length, Cow::Owned(cell));
        };
        let last = |now: Nanos| latest(&gauges, now).map(|i| (i.begin, i.cell.started));
        close(0, 3, 1);
        close(1, 3, 10);
        close(1, 3, 20);
        close(2, 3, 100);
        assert_eq!(last(seconds(4)), None, "a worker may not have published it yet");
        assert_eq!(last(seconds(4) + PULSE * 2), Some((seconds(3), 121)));
        // The first worker is ahead, and the last has finished: it will complete no more intervals.
        close(0, 4, 2);
        assert_eq!(last(seconds(5)), Some((seconds(3), 121)));
        close(1, 4, 30);
        assert_eq!(last(seconds(5) + PULSE * 2), Some((seconds(4), 32)));
    }
}
