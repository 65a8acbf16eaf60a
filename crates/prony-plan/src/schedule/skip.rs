//! Skipping arrivals that will not be sent. They are counted by arithmetic, not one by one, so that
//! even a schedule of 1e9 arrivals per second is finished at once.

use super::Schedule;
use super::process::ArrivalProcess;
use crate::rate::Inverse;
use prony_base::units::{Nanos, Span};

/// Consecutive arrivals of one share that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// When the first of them was due.
    pub first: Nanos,
    /// How many there were.
    pub count: u64,
}

impl Schedule {
    /// Skip this share's arrivals before `limit`. Return `None` if there are none. One call skips
    /// arrivals of either the warm-up or the measurement: call it until it returns `None`.
    ///
    /// The number is exact for deterministic processes (fixed, trace). For random ones (Poisson,
    /// gamma, uniform) it is the rounded expectation: the integral of the rate, or the time divided
    /// by the mean inter-arrival time.
    pub fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        let next = self.next.filter(|next| next.at < limit)?;
        let count = self.due_before(limit);
        // The last one that is skipped belongs to this share, too.
        let last = self.deal.nth(self.deal.count(next.index) + count - 1);
        let others = last - next.index;
        let process = if next.warmup { &mut self.warmup } else { &mut self.measured };
        process.skip(others);
        self.index += others;
        self.next = self.advance();
        Some(Skipped { first: next.at, count })
    }

    /// How many of this share's arrivals are due before `limit`, as [`Schedule::skip_before`]
    /// counts them.
    pub fn due_before(&self, limit: Nanos) -> u64 {
        let Some(next) = self.next.filter(|next| next.at < limit) else { return 0 };
        let (process, since, most) = if next.warmup {
            (&self.warmup, limit.min(self.start).since(Nanos::ZERO), u64::MAX)
        } else {
            let first = self.first_measured.unwrap_or(self.index);
            let left = self.count.saturating_sub(self.index - first);
            (&self.measured, limit.min(self.before).since(self.start), left)
        };
        let due = process.due_before(since, most);
        self.deal.count(self.index.saturating_add(due)) - self.deal.count(self.index) + 1
    }

    /// End the schedule at `at`: no arrival is at or after it, and the rate cannot change any more.
    pub fn cut(&mut self, at: Nanos) {
        self.before = self.before.min(at);
        self.next = self.next.filter(|next| next.at < at);
        self.rate_control.expects_changes = false;
    }
}

impl ArrivalProcess {
    /// How many of the next `most` arrivals are before `limit`.
    fn due_before(&self, limit: Span, most: u64) -> u64 {
        let due = match self {
            Self::None => 0,
            Self::Fixed { clock, next } => {
                let is_due = |n| clock.peek((next + n) as f64).is_some_and(|at| at < limit);
                partition_point(is_due, most)
            }
            Self::Trace { times, next } => {
                let taken = usize::try_from(*next).unwrap_or(usize::MAX).min(times.len());
                times[taken..].partition_point(|&at| at < limit) as u64
            }
            Self::Poisson { clock, integral } => expected(clock, integral.value(), limit, most),
            Self::Gamma { clock, integral } => expected(clock, integral.value(), limit, most),
            Self::Uniform { low, high, last, .. } => {
                let mean = (low.0 as f64 + high.0 as f64) / 2.0;
                ((limit - *last).0 as f64 / mean).round() as u64
            }
        };
        due.min(most)
    }

    /// Skip the next `n` arrivals.
    fn skip(&mut self, n: u64) {
        match self {
            Self::None => {}
            Self::Fixed { next, .. } | Self::Trace { next, .. } => *next += n,
            Self::Poisson { integral, .. } => integral.add(n as f64),
            Self::Gamma { integral, .. } => integral.add(n as f64),
            Self::Uniform { low, high, last, .. } => {
                let mean = (low.0 as f64 + high.0 as f64) / 2.0;
                *last += Span((mean * n as f64) as u64);
            }
        }
    }
}

/// How many of the next `most` arrivals are expected before `limit`, if the latest was at this
/// integral of the rate and their mean distance is 1.
fn expected(clock: &Inverse, integral: f64, limit: Span, most: u64) -> u64 {
    partition_point(|n| clock.peek(integral + n as f64).is_some_and(|at| at < limit), most)
}

/// The smallest number for which `holds` is false, at most `most`. `holds` must be true for all
/// numbers below it and false for all above.
fn partition_point(holds: impl Fn(u64) -> bool, most: u64) -> u64 {
    let mut high = 1;
    while high < most && holds(high) {
        high = high.saturating_mul(2);
    }
    let (mut low, mut high) = (0, high.min(most));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
