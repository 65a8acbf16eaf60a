//! What held the meter back, whatever the load: others on its processors, quotas, a host; and
//! whether it has counted right, by a law that every run obeys.

use super::super::Summary;
use super::{BUSY_MAX, Limit};
use crate::units::Span;

/// The two sides of Little's law may differ by that much.
const AUDIT_MAX: f64 = 0.02;
/// A quota that held the process back matters from this share of the run on ...
const THROTTLED_MAX: f64 = 0.01;
/// ... stolen time from this share of the time for which there was work ...
const STOLEN_MAX: f64 = 0.05;
/// ... and of the run: the kernel counts it in ticks of 10 ms.
const STOLEN_RUN_MAX: f64 = 0.01;
/// Waits for a processor may add this share to the times, or be this share of a full worker's.
const WAITED_MAX: f64 = 0.1;
/// A wait that is no longer is the waking up itself.
const WAKE_UP: Span = Span::from_micros(5);
/// From this share of its moments on an event loop is late too often ...
const STALLED_MAX: f64 = 0.05;
/// ... where it is so often at least ...
const STALLS_MIN: u64 = 3;
/// ... and by this share of the median service time.
const STALL_SHARE: f64 = 0.1;
/// From this share on it was away for most of the time.
const ABSENT_MAX: f64 = 0.5;

impl Summary {
    /// The integral of the requests under way must be what their times add up to.
    pub(super) fn audit_limit(&self) -> Option<Limit> {
        let (counted, timed) = (self.main.under_way()?, self.main.concurrency());
        let differs = (counted - timed).abs() > AUDIT_MAX * counted.max(timed);
        differs.then_some(Limit::Audit { counted, timed })
    }

    /// Whatever kept the meter from working when it had work to do.
    pub(super) fn held_limits(&self) -> impl Iterator<Item = Limit> {
        let all = [self.throttled(), self.stolen(), self.waited(), self.stalled()];
        all.into_iter().flatten()
    }

    fn throttled(&self) -> Option<Limit> {
        let time = self.run.withheld.throttled?;
        let share = time.0 as f64 / self.wall().0.max(1) as f64;
        (share > THROTTLED_MAX).then_some(Limit::Throttled { time, share })
    }

    fn stolen(&self) -> Option<Limit> {
        let (time, wanted) = (self.run.withheld.stolen?, self.run.withheld.wanted?);
        let share = time.0 as f64 / wanted.0.max(1) as f64;
        let much = time.0 as f64 > STOLEN_RUN_MAX * self.wall().0 as f64;
        (share > STOLEN_MAX && much).then_some(Limit::Stolen { time, share })
    }

    /// A worker waited for a processor. What it takes in after a wait has waited as long, so waits
    /// add the mean wait over the mean time; but no larger a share than theirs in the time for
    /// which requests were under way. And one that was at work or waiting all the time would have
    /// done more.
    fn waited(&self) -> Option<Limit> {
        let waited = |i: usize| self.meters[i].turned.map_or(Span::ZERO, |t| t.waited);
        let worker = (0..self.meters.len()).max_by_key(|&i| waited(i))?;
        let meter = &self.meters[worker];
        let turned = meter.turned?;
        let all = turned.waited.0 as f64;
        let (wait, share) = (turned.waited / turned.times.max(1), meter.waited()?);
        let (count, times) = self.services();
        let under_way = (times / self.meters.len() as f64).min(meter.wall.0 as f64);
        let added = (wait.0 as f64 * count / times.max(1.0)).min(all / under_way.max(1.0));
        let distorts = wait > WAKE_UP && added > WAITED_MAX;
        let was_full = share > WAITED_MAX && meter.busy() + share > BUSY_MAX;
        (distorts || was_full).then_some(Limit::Waited { worker, share, wait })
    }

    /// How many service times there are, and their sum. Not the response times: a meter that is
    /// held back makes requests wait in its own queue, and would be small beside that.
    fn services(&self) -> (f64, f64) {
        let sections = self.warmup.iter().chain([&self.main]).map(|t| &t.times.service);
        let each = sections.map(|h| (h.count() as f64, h.sum_ns() as f64));
        each.fold((0.0, 0.0), |all, h| (all.0 + h.0, all.1 + h.1))
    }

    /// An event loop came back late to what it had set itself, so often and so late that replies
    /// have waited for it. Or so often that it was at work or away all the time, and would have
    /// done more; or away for most of the time while most requests timed out, which is then no
    /// fault of the target's.
    fn stalled(&self) -> Option<Limit> {
        let median = self.main.times.service.estimate(0.5);
        let shares = self.meters.iter().enumerate().filter_map(|(worker, meter)| {
            let (share, late) = meter.stalls.share()?;
            let often = share > STALLED_MAX && meter.stalls.late >= STALLS_MIN;
            let much = median.is_some_and(|m| late.0 as f64 > STALL_SHARE * m.0 as f64);
            let was_full = share > WAITED_MAX && meter.busy() + share > BUSY_MAX;
            let missed = share > ABSENT_MAX && self.main.timeouts() > self.main.replies;
            let longest = meter.stalls.longest;
            let limit = Limit::Stalled { worker, share, late, longest };
            (often && (much || was_full || missed)).then_some((share, limit))
        });
        shares.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, limit)| limit)
    }
}
