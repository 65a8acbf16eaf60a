//! Precise waits: sleep until shortly before the deadline, then spin the rest within a CPU budget.
//!
//! The kernel ends sleeps late, by tens of microseconds. This lateness is measured at the start and
//! tracked during the run. A sleep is then set to end that much earlier, and the rest of the wait
//! is spent in non-blocking polls, so that a reply that arrives meanwhile is handled at once.

use std::num::NonZeroU64;

use prony_base::units::{Nanos, Span};
use rustix::thread::set_current_timer_slack;

use crate::host::cpu;
use crate::time::clock::Clock;

/// How much CPU time to spend on punctual starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Never spin: starts are as late as the kernel's timers.
    Sleep,
    /// Spin for at most 10 % of one core's time, not counting waits so short that a sleep would
    /// take more CPU time.
    #[default]
    Auto,
    /// Never sleep: each worker always uses a whole core.
    Spin,
    /// Never spin, and start work only at multiples of this span since the start of the run.
    /// Requests that become due in between start together, late by half the span on average. Fewer
    /// sleeps take less CPU time.
    Grain(Span),
}

/// The share of the time that `Auto` may spin.
const SPIN_SHARE_PERCENT: u64 = 10;
/// The maximum budget that `Auto` accumulates, in nanoseconds.
const BUDGET_MAX: u64 = 5_000_000;
/// Never wake earlier than this before a deadline, however late the kernel is.
const LEAD_MAX: u64 = 150_000;
/// An upper limit for the estimated CPU time of a sleep.
const COST_MAX: u64 = 20_000;
/// The duration of the measurement at the start, and of its sleeps.
const CALIBRATION: Span = Span::from_millis(20);
const CALIBRATION_SLEEP: Span = Span::from_micros(100);

/// Decides how long to sleep, and tracks the spin budget.
#[derive(Debug)]
pub(crate) struct Sleeper {
    precision: Precision,
    /// The kernel's lateness in nanoseconds: estimates of its median and 99th percentile, updated
    /// in small steps.
    late_p50: u64,
    late_p99: u64,
    /// The CPU time of a sleep (timer, two context switches): a shorter wait is cheaper to spin.
    cost: u64,
    /// The current spin budget, in nanoseconds.
    budget: u64,
    budget_at: Nanos,
    spun: Span,
}

impl Sleeper {
    pub(crate) fn new(precision: Precision) -> Self {
        Self {
            precision,
            late_p50: 20_000,
            late_p99: 60_000,
            cost: 0,
            budget: BUDGET_MAX,
            budget_at: Nanos::ZERO,
            spun: Span::ZERO,
        }
    }

    /// Measure the kernel's lateness for about 20 ms; `sleep` waits for the given span.
    pub(crate) fn calibrate(&mut self, mut sleep: impl FnMut(Span)) {
        let clock = Clock::starting_now();
        let mut late = Vec::with_capacity(256);
        let used = cpu::thread_times();
        loop {
            let start = clock.now();
            if start >= Nanos::ZERO + CALIBRATION {
                break;
            }
            sleep(CALIBRATION_SLEEP);
            late.push(clock.now().since(start + CALIBRATION_SLEEP).as_nanos());
        }
        let used_by_now = cpu::thread_times();
        let used = used_by_now.0 + used_by_now.1 - (used.0 + used.1);
        late.sort_unstable();
        // If the machine is too busy for a single sample, keep the defaults.
        if let Some(&last) = late.last() {
            self.late_p50 = late[late.len() / 2].min(LEAD_MAX);
            self.late_p99 = late.get(late.len() * 99 / 100).map_or(last, |&x| x).min(LEAD_MAX);
            self.cost = (used.as_nanos() / late.len() as u64).min(COST_MAX);
        }
    }

    /// The median and 99th percentile of the kernel's lateness.
    #[cfg(test)]
    pub(crate) fn lateness(&self) -> (Span, Span) {
        (Span(self.late_p50), Span(self.late_p99))
    }

    /// When to start work that is due at `due`.
    #[inline]
    pub(crate) fn start_time(&self, due: Nanos) -> Nanos {
        match self.precision {
            Precision::Grain(span) => {
                Nanos(due.0.checked_next_multiple_of(span.0).unwrap_or(due.0))
            }
            _ => due,
        }
    }

    pub(crate) fn always_spins(&self) -> bool {
        self.precision == Precision::Spin
    }

    /// How long to sleep at `now` for a deadline at `due`; `None`: do not sleep, spin.
    pub(crate) fn nap(&mut self, now: Nanos, due: Nanos) -> Option<Span> {
        let wait = due.since(now).as_nanos();
        let lead = match self.precision {
            Precision::Spin => return None,
            Precision::Sleep | Precision::Grain(_) => return Some(Span(wait)),
            Precision::Auto => self.lead(now),
        };
        if wait <= self.cost && self.budget >= wait {
            return None;
        }
        if lead == 0 {
            return Some(Span(wait));
        }
        // The kernel may extend a wait by a thousandth to end it together with others
        // (select_estimate_accuracy).
        let nap = wait.saturating_sub(lead + wait / 1_000);
        (nap > 0).then_some(Span(nap))
    }

    /// A sleep has ended at its timeout, `late` after the requested moment.
    pub(crate) fn overslept(&mut self, late: Span) {
        follow(&mut self.late_p50, late.as_nanos(), 500, 500);
        follow(&mut self.late_p99, late.as_nanos(), 990, 10);
    }

    /// Count time spent spinning without events.
    pub(crate) fn add_spun(&mut self, span: Span) {
        self.spun += span;
        self.budget = self.budget.saturating_sub(span.as_nanos());
    }

    pub(crate) fn spun(&self) -> Span {
        self.spun
    }

    /// How early to wake: by the 99th percentile of the lateness while the budget is large, by the
    /// median when it runs low (half of the sleeps then end slightly late), by nothing when it is
    /// used up.
    fn lead(&mut self, now: Nanos) -> u64 {
        let earned = now.since(self.budget_at).as_nanos() * SPIN_SHARE_PERCENT / 100;
        if earned > 0 {
            self.budget = (self.budget + earned).min(BUDGET_MAX);
            self.budget_at = now;
        }
        match self.budget {
            s if s > BUDGET_MAX / 2 => self.late_p99,
            s if s > self.late_p50 => self.late_p50,
            _ => 0,
        }
    }
}

/// Move a quantile estimate by one step: up by `up` if the sample is above it, down by `down` if
/// below, so that it settles where `up * P(above) == down * P(below)`.
fn follow(estimate: &mut u64, sample: u64, up: u64, down: u64) {
    *estimate = if sample > *estimate {
        (*estimate + up).min(LEAD_MAX)
    } else {
        estimate.saturating_sub(down)
    };
}

/// Ask the kernel to end this thread's sleeps as punctually as possible (otherwise it may add 50
/// us).
pub(crate) fn tighten_timer_slack() {
    // If the kernel refuses, the calibration measures the default slack.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    #[test]
    fn sleep_never_spins_and_spin_never_sleeps() {
        let (now, due) = (Nanos(5), Nanos(5 + 100 * US));
        assert_eq!(Sleeper::new(Precision::Sleep).nap(now, due), Some(Span(100 * US)));
        assert_eq!(Sleeper::new(Precision::Spin).nap(now, due), None);
    }

    #[test]
    fn grain_rounds_start_times_up() {
        let s = Sleeper::new(Precision::Grain(Span(1_000 * US)));
        for (due, start) in [(0, 0), (1, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 2_000)] {
            assert_eq!(s.start_time(Nanos(due * US)), Nanos(start * US), "due at {due} us");
        }
        assert_eq!(s.start_time(Nanos::MAX), Nanos::MAX, "no deadline");
        assert_eq!(Sleeper::new(Precision::Auto).start_time(Nanos(7)), Nanos(7));
    }

    #[test]
    fn auto_spins_at_most_a_tenth_of_the_time() {
        let mut s = Sleeper::new(Precision::Auto);
        let mut now = Nanos::ZERO;
        let mut spun = 0;
        // A deadline every 50 us for 2 s: each wait is shorter than the lead.
        while now < Nanos(2_000_000_000) {
            let due = now + Span(50 * US);
            if s.nap(now, due).is_none() {
                s.add_spun(due.since(now));
                spun += 50 * US;
            }
            now = due;
        }
        assert!(spun <= 2_000_000_000 / 10 + BUDGET_MAX + 50 * US, "{spun} ns");
        assert!(spun >= 2_000_000_000 / 12, "it uses the budget: {spun} ns");
        assert_eq!(s.spun(), Span(spun));
    }

    #[test]
    fn waits_cheaper_than_a_sleep_are_spun_within_the_budget() {
        let mut s = Sleeper::new(Precision::Auto);
        s.cost = 15 * US;
        s.budget = 15 * US;
        assert_eq!(s.nap(Nanos(0), Nanos(15 * US)), None);
        s.add_spun(Span(15 * US));
        assert_eq!(s.nap(Nanos(0), Nanos(15 * US)), Some(Span(15 * US)), "the budget is used up");
        assert_eq!((s.spun(), s.budget), (Span(15 * US), 0));
    }

    #[test]
    fn estimates_converge_to_their_quantiles() {
        let (mut p50, mut p99) = (20_000, 60_000);
        // Lateness uniform over 0..100 us, in a scrambled order.
        for i in 0..200_000_u64 {
            let sample = i * 7_919 % 100_000;
            follow(&mut p50, sample, 500, 500);
            follow(&mut p99, sample, 990, 10);
        }
        assert!((40_000..60_000).contains(&p50), "{p50}");
        assert!((94_000..100_000).contains(&p99), "{p99}");
    }

    #[test]
    fn calibration_measures_the_lateness_of_sleeps() {
        let mut s = Sleeper::new(Precision::Auto);
        // A sleep that always ends 30 us late.
        s.calibrate(|d| {
            let c = Clock::starting_now();
            while c.now() < Nanos(d.as_nanos() + 30 * US) {}
        });
        let (p50, p99) = s.lateness();
        assert!(p50 >= Span(30 * US) && p50 <= p99, "{p50:?} {p99:?}");
    }
}
