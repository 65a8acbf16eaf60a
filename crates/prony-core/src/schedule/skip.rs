//! Arrivals that nobody will make: counted by arithmetic, not one by one, so that a schedule of a
//! thousand million a second can be brought to its end at once.

use super::Schedule;
use super::law::Law;
use crate::units::{Nanos, Span};

/// Arrivals that were passed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// When the first of them was due.
    pub first: Nanos,
    /// How many there were.
    pub count: u64,
}

impl Schedule {
    /// Pass over this share's arrivals before `limit`; `None` where there is none. Arrivals of
    /// warm-up and measurement are not passed over together: call it until it returns `None`.
    ///
    /// Their number is exact where the arrivals follow a formula (fixed, a trace). Where they are
    /// drawn (Poisson, uniform gaps) it is their expectation: the rate's integral, or the time
    /// divided by the mean gap, rounded.
    pub fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        let next = self.next.filter(|next| next.at < limit)?;
        let count = self.due_before(limit);
        // In whole rounds of the shares, so that the next arrival is again this share's.
        let (_, of) = self.share;
        let others = (count - 1) * of;
        let law = if next.warmup { &mut self.warmup } else { &mut self.measured };
        law.pass_over(others);
        self.index += others;
        self.next = self.advance();
        Some(Skipped { first: next.at, count })
    }

    /// How many of this share's arrivals [`Schedule::skip_before`] would pass over.
    pub fn due_before(&self, limit: Nanos) -> u64 {
        let Some(next) = self.next.filter(|next| next.at < limit) else { return 0 };
        let (law, since, most) = if next.warmup {
            (&self.warmup, limit.min(self.begin).since(Nanos::ZERO), u64::MAX)
        } else {
            let first = self.first_measured.unwrap_or(self.index);
            let left = self.count.saturating_sub(self.index - first);
            (&self.measured, limit.min(self.before).since(self.begin), left)
        };
        let (_, of) = self.share;
        law.due_before(since, most) / of + 1
    }

    /// Nothing arrives from `at` on, whatever the rate becomes.
    pub fn cut(&mut self, at: Nanos) {
        self.before = self.before.min(at);
        self.next = self.next.filter(|next| next.at < at);
        self.helm.awaits = false;
    }
}

impl Law {
    /// How many arrivals, of those that have not been given yet and of `most`, fall before `limit`.
    fn due_before(&self, limit: Span, most: u64) -> u64 {
        let due = match self {
            Self::Silent => 0,
            Self::Fixed { clock, ordinal } => {
                let is_due = |n| clock.look((ordinal + n) as f64).is_some_and(|at| at < limit);
                first_not(is_due, most)
            }
            Self::Trace { times, ordinal } => {
                let given = usize::try_from(*ordinal).unwrap_or(usize::MAX).min(times.len());
                times[given..].partition_point(|&at| at < limit) as u64
            }
            Self::Poisson { clock, integral } => {
                let integral = integral.value();
                let is_due = |n| clock.look(integral + n as f64).is_some_and(|at| at < limit);
                first_not(is_due, most)
            }
            Self::Uniform { low, high, last, .. } => {
                let mean = (low.0 as f64 + high.0 as f64) / 2.0;
                ((limit - *last).0 as f64 / mean).round() as u64
            }
        };
        due.min(most)
    }

    /// Pass over the next `n` arrivals.
    fn pass_over(&mut self, n: u64) {
        match self {
            Self::Silent => {}
            Self::Fixed { ordinal, .. } | Self::Trace { ordinal, .. } => *ordinal += n,
            Self::Poisson { integral, .. } => integral.add(n as f64),
            Self::Uniform { low, high, last, .. } => {
                let mean = (low.0 as f64 + high.0 as f64) / 2.0;
                *last += Span((mean * n as f64) as u64);
            }
        }
    }
}

/// The smallest number, of at most `most`, that has not the property which all smaller ones have.
fn first_not(has: impl Fn(u64) -> bool, most: u64) -> u64 {
    let mut high = 1;
    while high < most && has(high) {
        high = high.saturating_mul(2);
    }
    let (mut low, mut high) = (0, high.min(most));
    while low < high {
        let middle = low + (high - low) / 2;
        if has(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
