//! Reasons from CPU pressure and event-loop stalls, and the check of Little's law, which every run
//! must satisfy.

use prony_base::units::Span;

use super::super::Summary;
use super::measured::Scale;
use super::{BUSY_MAX, Reason};

/// Maximum relative difference between the two sides of Little's law.
const LITTLES_LAW_MAX: f64 = 0.02;
/// Throttled time matters above this share of the run.
const THROTTLED_MAX: f64 = 0.01;
/// Stolen time matters above this share of the time for which there was work ...
const STOLEN_MAX: f64 = 0.05;
/// ... and above this share of the run: the kernel counts it in ticks of 10 ms.
const STOLEN_RUN_MAX: f64 = 0.01;
/// Run-queue delays matter if they add more than this share to the times, or take more than this
/// share of a saturated worker's time.
const WAITED_MAX: f64 = 0.1;
/// Mean waits up to this are the cost of waking up.
const WAKE_UP: Span = Span::from_micros(5);
/// An event loop is late too often above this share of its checks ...
const STALLED_MAX: f64 = 0.05;
/// ... and at least this number of late checks ...
const STALLS_MIN: u64 = 3;
/// ... by more than this share of the shortest median of what is measured.
const STALL_SHARE: f64 = 0.1;
/// Above this share of late checks it was away for most of the time.
const AWAY_MAX: f64 = 0.5;

impl Summary {
    /// Compare the two sides of Little's law.
    pub(super) fn littles_law_mismatch(&self) -> Option<Reason> {
        let (counted, timed) = (self.main.in_flight_mean()?, self.main.concurrency());
        let differs = (counted - timed).abs() > LITTLES_LAW_MAX * counted.max(timed);
        differs.then_some(Reason::LittlesLawMismatch { counted, timed })
    }

    /// Throttled and stolen time, run-queue delay, event-loop stalls.
    pub(super) fn cpu_pressure_reasons(&self) -> impl Iterator<Item = Reason> {
        let all = [self.throttled(), self.stolen(), self.waited(), self.stalled()];
        all.into_iter().flatten()
    }

    fn throttled(&self) -> Option<Reason> {
        let time = self.run.cpu_pressure.throttled?;
        let share = time.0 as f64 / self.wall().0.max(1) as f64;
        (share > THROTTLED_MAX).then_some(Reason::CpuThrottled { time, share })
    }

    fn stolen(&self) -> Option<Reason> {
        let (time, wanted) = (self.run.cpu_pressure.stolen?, self.run.cpu_pressure.wanted?);
        let share = time.0 as f64 / wanted.0.max(1) as f64;
        let much = time.0 as f64 > STOLEN_RUN_MAX * self.wall().0 as f64;
        (share > STOLEN_MAX && much).then_some(Reason::CpuStolen { time, share })
    }

    /// A worker waited in a run queue. What is read after a wait is late by that wait, so waits add
    /// at most the mean wait to the mean of any time that is measured, but no larger share than the
    /// share of the waits in the time in which something was in flight. A worker that was busy or
    /// waiting all the time would have done more work.
    fn waited(&self) -> Option<Reason> {
        let waited = |i: usize| self.workers[i].sched_delay.map_or(Span::ZERO, |t| t.total);
        let worker = (0..self.workers.len()).max_by_key(|&i| waited(i))?;
        let meter = &self.workers[worker];
        let sched_delay = meter.sched_delay?;
        let all = sched_delay.total.0 as f64;
        let (wait, share) = (sched_delay.total / sched_delay.count.max(1), meter.waited()?);
        let added = |scale: Scale| {
            let times = scale.sum_ns;
            let in_flight = (times / self.workers.len() as f64).min(meter.wall.0 as f64);
            (wait.0 as f64 * scale.count / times.max(1.0)).min(all / in_flight.max(1.0))
        };
        let distorts = wait > WAKE_UP && self.scales().into_iter().any(|s| added(s) > WAITED_MAX);
        let was_full = share > WAITED_MAX && meter.busy() + share > BUSY_MAX;
        (distorts || was_full).then_some(Reason::RunQueueDelay { worker, share, wait })
    }

    /// An event loop was late so often and so much that replies waited for it. Or it was busy or
    /// away all the time and would have done more work. Or it was away for most of the time and
    /// most requests timed out; then these timeouts are not the target's.
    fn stalled(&self) -> Option<Reason> {
        let median = self.scales().into_iter().filter_map(|scale| scale.median).min();
        let shares = self.workers.iter().enumerate().filter_map(|(worker, meter)| {
            let (share, late) = meter.stalls.share()?;
            let often = share > STALLED_MAX && meter.stalls.late >= STALLS_MIN;
            let much = median.is_some_and(|m| late.0 as f64 > STALL_SHARE * m.0 as f64);
            let was_full = share > WAITED_MAX && meter.busy() + share > BUSY_MAX;
            let missed = share > AWAY_MAX && self.main.timeouts() > self.main.replies;
            let longest = meter.stalls.longest;
            let limit = Reason::EventLoopStall { worker, share, late, longest };
            (often && (much || was_full || missed)).then_some((share, limit))
        });
        shares.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, limit)| limit)
    }
}
