//! Waits that end when they should: sleep until shortly before the moment, then spin the rest as
//! far as allowed.
//!
//! The kernel ends a sleep late, by tens of microseconds. How late is measured at the start and
//! followed during the run; a wait is then asked to end that much earlier, and what remains is spun
//! with non-blocking polls, so that a reply that arrives meanwhile is handled at once.

use std::num::NonZeroU64;

use prony_core::units::{Nanos, Span};
use rustix::thread::set_current_timer_slack;

use crate::host::cpu;
use crate::time::clock::Clock;

/// How much processor time a punctual start is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Never spin: starts are as late as the kernel's timers.
    Sleep,
    /// Spin for at most 10 % of one core's time, not counting waits that are so short that a sleep
    /// would take more of it.
    #[default]
    Auto,
    /// Never sleep: a whole core per worker, always.
    Spin,
    /// Never spin, and start nothing between the multiples of this span since the start of the
    /// run: what became due meanwhile starts together, late by half of it on average. Fewer sleeps
    /// take less processor time.
    Grain(Span),
}

/// The share of the time that `Auto` may spin.
const SPIN_SHARE_PERCENT: u64 = 10;
/// The most that `Auto` saves up.
const SAVINGS_MAX: u64 = 5_000_000;
/// Never wake earlier than this before a moment, whatever the kernel's lateness.
const LEAD_MAX: u64 = 150_000;
/// A sleep's own processor time is never taken to be more than this.
const COST_MAX: u64 = 20_000;
/// How long the lateness is measured at the start, and with which sleeps.
const CALIBRATION: Span = Span::from_millis(20);
const CALIBRATION_SLEEP: Span = Span::from_micros(100);

/// Decides how long to sleep and keeps the account of the spinning.
#[derive(Debug)]
pub(crate) struct Sleeper {
    precision: Precision,
    /// The kernel's lateness in nanoseconds: its median and its 99th percentile, followed by small
    /// steps.
    late_p50: u64,
    late_p99: u64,
    /// What a sleep costs in processor time (timer, two switches): a shorter wait is cheaper to
    /// spin.
    cost: u64,
    /// Nanoseconds that may be spun now.
    savings: u64,
    saved_at: Nanos,
    spun: Span,
}

impl Sleeper {
    pub(crate) fn new(precision: Precision) -> Self {
        Self {
            precision,
            late_p50: 20_000,
            late_p99: 60_000,
            cost: 0,
            savings: SAVINGS_MAX,
            saved_at: Nanos::ZERO,
            spun: Span::ZERO,
        }
    }

    /// Measure the kernel's lateness for about 20 ms; `sleep` waits that long.
    pub(crate) fn calibrate(&mut self, mut sleep: impl FnMut(Span)) {
        let clock = Clock::starting_now();
        let mut late = Vec::with_capacity(256);
        let used = cpu::thread_times();
        loop {
            let begin = clock.now();
            if begin >= Nanos::ZERO + CALIBRATION {
                break;
            }
            sleep(CALIBRATION_SLEEP);
            late.push(clock.now().since(begin + CALIBRATION_SLEEP).as_nanos());
        }
        let used_by_now = cpu::thread_times();
        let used = used_by_now.0 + used_by_now.1 - (used.0 + used.1);
        late.sort_unstable();
        // A machine so busy that there is no sample keeps the defaults.
        if let Some(&last) = late.last() {
            self.late_p50 = late[late.len() / 2].min(LEAD_MAX);
            self.late_p99 = late.get(late.len() * 99 / 100).map_or(last, |&x| x).min(LEAD_MAX);
            self.cost = (used.as_nanos() / late.len() as u64).min(COST_MAX);
        }
    }

    /// Median and 99th percentile of the kernel's lateness.
    #[cfg(test)]
    pub(crate) fn lateness(&self) -> (Span, Span) {
        (Span(self.late_p50), Span(self.late_p99))
    }

    /// When to look at what is due at `due`.
    #[inline]
    pub(crate) fn look_at(&self, due: Nanos) -> Nanos {
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

    /// How long to sleep at `now` for something due at `due`; `None`: do not sleep, spin.
    pub(crate) fn nap(&mut self, now: Nanos, due: Nanos) -> Option<Span> {
        let wait = due.since(now).as_nanos();
        let lead = match self.precision {
            Precision::Spin => return None,
            Precision::Sleep | Precision::Grain(_) => return Some(Span(wait)),
            Precision::Auto => self.lead(now),
        };
        if wait <= self.cost && self.savings >= wait {
            return None;
        }
        if lead == 0 {
            return Some(Span(wait));
        }
        // The kernel may add a thousandth of a wait to end it together with others
        // (select_estimate_accuracy).
        let nap = wait.saturating_sub(lead + wait / 1_000);
        (nap > 0).then_some(Span(nap))
    }

    /// A sleep ended by its time, that long after the moment it was asked to end.
    pub(crate) fn overslept(&mut self, late: Span) {
        follow(&mut self.late_p50, late.as_nanos(), 500, 500);
        follow(&mut self.late_p99, late.as_nanos(), 990, 10);
    }

    /// So long was spun without anything to do.
    pub(crate) fn spun(&mut self, span: Span) {
        self.spun += span;
        self.savings = self.savings.saturating_sub(span.as_nanos());
    }

    pub(crate) fn spun_in_all(&self) -> Span {
        self.spun
    }

    /// How early to wake: by the 99th percentile of the lateness while there are savings, by the
    /// median when they run low (half of the sleeps then end a little late), not at all when they
    /// are gone.
    fn lead(&mut self, now: Nanos) -> u64 {
        let earned = now.since(self.saved_at).as_nanos() * SPIN_SHARE_PERCENT / 100;
        if earned > 0 {
            self.savings = (self.savings + earned).min(SAVINGS_MAX);
            self.saved_at = now;
        }
        match self.savings {
            s if s > SAVINGS_MAX / 2 => self.late_p99,
            s if s > self.late_p50 => self.late_p50,
            _ => 0,
        }
    }
}

/// Move an estimate of a quantile one step: up by `up` where the sample is above, down by `down`
/// where it is below, so that it rests where `up * P(above) == down * P(below)`.
fn follow(estimate: &mut u64, sample: u64, up: u64, down: u64) {
    *estimate = if sample > *estimate {
        (*estimate + up).min(LEAD_MAX)
    } else {
        estimate.saturating_sub(down)
    };
}

/// Ask the kernel to end this thread's sleeps as punctually as it can (it may else add 50 us).
pub(crate) fn tighten_timer_slack() {
    // A refusal leaves the default slack, which the calibration then sees.
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
    fn a_grain_gathers_what_is_due_within_it_and_never_starts_early() {
        let s = Sleeper::new(Precision::Grain(Span(1_000 * US)));
        for (due, looked_at) in [(0, 0), (1, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 2_000)] {
            assert_eq!(s.look_at(Nanos(due * US)), Nanos(looked_at * US), "due at {due} us");
        }
        assert_eq!(s.look_at(Nanos::MAX), Nanos::MAX, "what never comes");
        assert_eq!(Sleeper::new(Precision::Auto).look_at(Nanos(7)), Nanos(7));
    }

    #[test]
    fn auto_spins_for_a_tenth_of_the_time_at_most() {
        let mut s = Sleeper::new(Precision::Auto);
        let mut now = Nanos::ZERO;
        let mut spun = 0;
        // Something is due every 50 us for 2 s: every wait is shorter than the lead.
        while now < Nanos(2_000_000_000) {
            let due = now + Span(50 * US);
            if s.nap(now, due).is_none() {
                s.spun(due.since(now));
                spun += 50 * US;
            }
            now = due;
        }
        assert!(spun <= 2_000_000_000 / 10 + SAVINGS_MAX + 50 * US, "{spun} ns");
        assert!(spun >= 2_000_000_000 / 12, "the allowance is there to be used: {spun} ns");
        assert_eq!(s.spun_in_all(), Span(spun));
    }

    #[test]
    fn waits_that_cost_less_than_a_sleep_are_spun_while_there_are_savings() {
        let mut s = Sleeper::new(Precision::Auto);
        s.cost = 15 * US;
        s.savings = 15 * US;
        assert_eq!(s.nap(Nanos(0), Nanos(15 * US)), None);
        s.spun(Span(15 * US));
        assert_eq!(s.nap(Nanos(0), Nanos(15 * US)), Some(Span(15 * US)), "nothing is left");
        assert_eq!((s.spun_in_all(), s.savings), (Span(15 * US), 0));
    }

    #[test]
    fn estimates_rest_at_their_quantiles() {
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
    fn calibration_takes_the_measured_lateness() {
        let mut s = Sleeper::new(Precision::Auto);
        // A sleep that is late by 30 us by its own doing.
        s.calibrate(|d| {
            let c = Clock::starting_now();
            while c.now() < Nanos(d.as_nanos() + 30 * US) {}
        });
        let (p50, p99) = s.lateness();
        assert!(p50 >= Span(30 * US) && p50 <= p99, "{p50:?} {p99:?}");
    }
}
