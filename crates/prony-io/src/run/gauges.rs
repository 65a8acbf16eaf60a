//! What may be seen of a running load: gauges that each worker sets 20 times a second, and their
//! sum. Beside the stop flag the only memory that workers share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_core::engine::Engine;
use prony_core::fault::Fault;
use prony_core::proto::Carrier;
use prony_core::record::LagSoFar;
use prony_core::record::series::{Block, Cell, Series};
use prony_core::units::{Nanos, Span};

use super::control::Control;
use crate::host::cpu;
use crate::time::stop::PULSE;

/// A load as it stands: the sum over its workers, at most 50 ms old.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Time since the epoch.
    pub now: Nanos,
    /// Requests wanted so far, warm-up included.
    pub started: u64,
    /// Requests answered as expected.
    pub replies: u64,
    /// Requests failed.
    pub failed: u64,
    /// Requests among the failed that were lost: the peer has answered them neither rightly nor
    /// wrongly.
    pub lost: u64,
    /// Sessions completed, where there are any.
    pub sessions: u64,
    /// Requests wanted but neither answered nor failed.
    pub in_flight: u64,
    /// When the last worker has ended its drain at the latest; once all that have requests in
    /// flight drain.
    pub drain_end: Option<Nanos>,
    /// The newest interval of the time series that all workers have told, once there is one.
    pub last: Option<Interval>,
    /// For each worker, when it was looked at and how many replies it had then.
    pub workers: Vec<(Nanos, u64)>,
    /// What is told on demand only ([`crate::Options::detail`]).
    pub detail: Option<Detail>,
    /// Blocks of the measurement that have ended since the last look, each with when it begins,
    /// counted from the begin of the measurement; only on demand ([`crate::Options::blocks`]).
    pub blocks: Vec<(Span, Block)>,
    /// The same of the service times, where they are kept ([`crate::Options::keep_service`]).
    pub served: Vec<(Span, Block)>,
}

/// One interval of the time series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its begin, since the epoch.
    pub begin: Nanos,
    /// Its length: 1 s, and twice as long whenever a series is full.
    pub length: Span,
    /// What was counted in it.
    pub cell: Cell,
}

/// What only a whole screen has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Connections open or being opened.
    pub connections: u64,
    /// Whole replies by status, warm-up included.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed requests by fault, warm-up included.
    pub faults: [u64; Fault::COUNT],
    /// The send lag so far.
    pub lag: LagSoFar,
    /// CPU time of each worker so far, less what it spent spinning.
    pub work: Vec<Span>,
}

/// One worker's part of [`Live`], on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Gauge {
    started: AtomicU64,
    replies: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    sessions: AtomicU64,
    connections: AtomicU64,
    lag: [AtomicU64; 3],
    work: AtomicU64,
    faults: ByFault,
    /// When the worker ends its drain at the latest; 0 as long as it does not drain.
    drain_end: AtomicU64,
    /// How many changes of the rate the worker knows.
    steers: AtomicUsize,
    /// The worker only tries to lock it: it never waits for whoever looks.
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
    /// The newest interval that the worker has closed, and the one before it.
    last: [Option<Interval>; 2],
    /// When the replies were counted, and their number.
    replies: (Nanos, u64),
    statuses: Vec<(u16, u64)>,
    blocks: Ended,
    served: Ended,
}

/// The blocks of a series that have ended.
#[derive(Debug, Default)]
struct Ended {
    /// Those that nobody has fetched yet.
    blocks: Vec<(Span, Block)>,
    /// Until when they were told.
    until: Span,
}

impl Gauge {
    /// Tell the engine of changes of the rate that it does not know yet. Called by the worker.
    pub(crate) fn apply_changes<P: Carrier>(
        &self,
        control: &Control,
        engine: &mut Engine<P>,
        now: Nanos,
    ) {
        let known = self.steers.load(Ordering::Relaxed);
        let news = control.news(known, now);
        self.steers.store(known + news.len(), Ordering::Relaxed);
        for steer in news {
            engine.steer(steer);
        }
    }

    /// Tell how the engine stands; `detail` with what only a whole screen has room for. `spun` is
    /// what the worker has spent spinning so far. Called by the worker itself.
    pub(crate) fn show<P: Carrier>(
        &self,
        engine: &Engine<P>,
        now: Nanos,
        detail: bool,
        spun: Span,
    ) {
        let recorder = engine.recorder();
        let [started, replies, failed, lost] = recorder.progress();
        let set = |a: &AtomicU64, value| a.store(value, Ordering::Relaxed);
        set(&self.started, started);
        set(&self.replies, replies);
        set(&self.failed, failed);
        set(&self.lost, lost);
        set(&self.sessions, recorder.sessions_completed());
        // What was in flight when the drain began only becomes less: looked at once.
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
            lists.close(series.begin() + length * index as u64, length, cell);
        }
    }
}

impl Gauge {
    /// Tell of the blocks that have ended. Called by the worker itself.
    pub(crate) fn show_blocks<P: Carrier>(&self, engine: &Engine<P>) {
        let Ok(mut lists) = self.lists.try_lock() else { return };
        lists.blocks.tell(engine.recorder().measured());
        if let Some(served) = engine.recorder().served() {
            lists.served.tell(served);
        }
    }

    /// What a worker that panicked has left is as good as any.
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ended {
    fn tell(&mut self, series: &Series) {
        let blocks = series.blocks();
        for (at, block) in blocks.between(self.until, series.settled()) {
            self.blocks.push((at, block.clone()));
            self.until = at + blocks.length();
        }
    }
}

impl Lists {
    /// That is now the newest interval which is complete, as it mostly was already.
    fn close(&mut self, begin: Nanos, length: Span, cell: Cow<'_, Cell>) {
        let [newest, before] = &mut self.last;
        match newest {
            Some(n) if n.begin != begin => *before = newest.take(),
            Some(n) if n.length == length && n.cell == *cell => return,
            _ => {}
        }
        *newest = Some(Interval { begin, length, cell: cell.into_owned() });
    }
}

impl Live {
    /// Requests that were answered, rightly or wrongly.
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
        live.last = newest(gauges, now);
        live.detail = detail.then(|| Detail::of(gauges));
        live
    }
}

/// The newest interval that every worker which is still at work has closed.
fn newest(gauges: &[Gauge], now: Nanos) -> Option<Interval> {
    let mut newest: Option<Interval> = None;
    for g in gauges {
        let lists = g.lists();
        // Two pulses after its end a worker has told of it, be it busy in one of them.
        let told = |i: &&Interval| i.begin + i.length + PULSE * 2 <= now;
        for interval in lists.last.iter().flatten().filter(told) {
            match &mut newest {
                Some(sum) if (sum.begin, sum.length) == (interval.begin, interval.length) => {
                    sum.cell.merge(&interval.cell);
                }
                Some(sum) if sum.begin > interval.begin => {}
                _ => newest = Some(interval.clone()),
            }
        }
    }
    newest
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
    fn a_drain_is_known_once_all_workers_drain() {
        let gauges = [Gauge::default(), Gauge::default(), Gauge::default()];
        for (gauge, started) in gauges.iter().zip([3, 2, 0]) {
            gauge.started.store(started, Ordering::Relaxed);
        }
        let end = || Live::of(&gauges, Nanos(3), false).drain_end;
        assert_eq!(end(), None);
        gauges[0].drain_end.store(40, Ordering::Relaxed);
        assert_eq!(end(), None, "the second has requests in flight and has not heard of it");
        gauges[1].drain_end.store(70, Ordering::Relaxed);
        assert_eq!(end(), Some(Nanos(70)), "the third has none");
    }

    #[test]
    fn an_interval_counts_once_all_have_told_of_it() {
        let gauges = [Gauge::default(), Gauge::default(), Gauge::default()];
        let close = |worker: usize, begin, started| {
            let Interval { begin, length, cell } = interval(begin, started);
            gauges[worker].lists.lock().unwrap().close(begin, length, Cow::Owned(cell));
        };
        let last = |now: Nanos| newest(&gauges, now).map(|i| (i.begin, i.cell.started));
        close(0, 3, 1);
        close(1, 3, 10);
        close(1, 3, 20);
        close(2, 3, 100);
        assert_eq!(last(seconds(4)), None, "a worker may not have told of it yet");
        assert_eq!(last(seconds(4) + PULSE * 2), Some((seconds(3), 121)));
        // The first is ahead, and the last has ended: it will close no interval any more.
        close(0, 4, 2);
        assert_eq!(last(seconds(5)), Some((seconds(3), 121)));
        close(1, 4, 30);
        assert_eq!(last(seconds(5) + PULSE * 2), Some((seconds(4), 32)));
    }
}
