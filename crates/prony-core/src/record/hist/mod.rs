//! A histogram of times with exact count, sum, minimum and maximum beside it.

mod wire;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// Times from 1 ns to 1 hour, three significant digits (a value is off by at most 0.1 %), constant
/// memory. Minimum, maximum, sum and sum of squares are kept exactly; values over an hour count as
/// an hour in the quantiles only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Hist {
    bins: Histogram<u64>,
    sum_ns: u128,
    sum_sq_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// The longest time that the bins tell apart.
pub const TIME_MAX: Span = Span::from_secs(3_600);

impl Default for Hist {
    fn default() -> Self {
        Self::new()
    }
}

impl Hist {
    /// An empty histogram.
    pub fn new() -> Self {
        let bins =
            Histogram::new_with_bounds(1, TIME_MAX.0, 3).expect("bounds are valid constants");
        Self { bins, sum_ns: 0, sum_sq_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Count one time.
    #[inline]
    pub fn record(&mut self, t: Span) {
        self.bins.saturating_record(t.0);
        self.note(t.0, 1);
    }

    /// Count the same time `n` times.
    pub fn record_n(&mut self, t: Span, n: u64) {
        if n > 0 {
            self.bins.saturating_record_n(t.0, n);
            self.note(t.0, n);
        }
    }

    #[inline]
    fn note(&mut self, ns: u64, n: u64) {
        let (wide, n) = (u128::from(ns), u128::from(n));
        self.sum_ns += wide * n;
        // A square of a century of nanoseconds still fits; what does not is no time that a run
        // could have taken.
        self.sum_sq_ns = self.sum_sq_ns.saturating_add((wide * wide).saturating_mul(n));
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Add all that `other` has counted; the result is that of counting all in one (P10).
    pub fn merge(&mut self, other: &Self) {
        let &Self { ref bins, sum_ns, sum_sq_ns, min_ns, max_ns } = other;
        self.bins.add(bins).expect("same bounds");
        self.sum_ns += sum_ns;
        self.sum_sq_ns = self.sum_sq_ns.saturating_add(sum_sq_ns);
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.bins.len()
    }

    /// Whether none was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The sum of all, exact.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The least, exact; `None` when empty.
    pub fn min(&self) -> Option<Span> {
        (self.count() > 0).then_some(Span(self.min_ns))
    }

    /// The greatest, exact; `None` when empty.
    pub fn max(&self) -> Option<Span> {
        (self.count() > 0).then_some(Span(self.max_ns))
    }

    /// The mean in nanoseconds, exact; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The standard deviation of the population in nanoseconds; `None` when empty.
    pub fn stdev_ns(&self) -> Option<f64> {
        let n = u128::from(self.count());
        if n == 0 {
            return None;
        }
        // The squares' sum less n times the mean's square, in integers so that nothing cancels,
        // with the mean as quotient and remainder so that nothing overflows: no term is larger than
        // the sum of squares itself.
        let (mean, rest) = (self.sum_ns / n, self.sum_ns % n);
        let known = mean.saturating_mul(mean).saturating_mul(n) + 2 * mean * rest;
        let (whole, part) = (rest * rest / n, rest * rest % n);
        let spread = self.sum_sq_ns.saturating_sub(known).saturating_sub(whole);
        let spread = spread as f64 - part as f64 / n as f64;
        Some((spread.max(0.0) / n as f64).sqrt())
    }

    /// The quantile `q` in [0, 1]: a value such that at least that share of the samples is not
    /// above it, off by at most 0.1 % and never above the true maximum. `None` where the sample
    /// cannot carry it (see [`Hist::samples_needed`]).
    pub fn quantile(&self, q: f64) -> Option<Span> {
        if self.count() < Self::samples_needed(q) { None } else { self.estimate(q) }
    }

    /// The same of any sample that is not empty, be it too small: for decisions, never for reports.
    pub fn estimate(&self, q: f64) -> Option<Span> {
        let n = self.count();
        if n == 0 {
            return None;
        }
        if q <= 0.0 || q >= 1.0 {
            return Some(Span(if q <= 0.0 { self.min_ns } else { self.max_ns }));
        }
        // Half a sample below the rank: the bins' own rounding up then finds exactly this rank.
        let share = (Self::rank(q, n) as f64 - 0.5) / n as f64;
        Some(Span(self.bins.value_at_quantile(share).clamp(self.min_ns, self.max_ns)))
    }

    /// Which of `n` sorted samples, counted from 1, is the quantile `q`: the least rank that has a
    /// share of at least `q`. A product that is whole but for the rounding of its factors counts as
    /// whole (0.999 of 1,000 is the 999th).
    pub(crate) fn rank(q: f64, n: u64) -> u64 {
        let exact = q * n as f64;
        let rank = if (exact - exact.round()).abs() < exact * 1e-12 {
            exact.round()
        } else {
            exact.ceil()
        };
        (rank as u64).clamp(1, n.max(1))
    }

    /// How many samples a quantile needs before it is told: ten beyond it on its thinner side (p50:
    /// 20, p99: 1,000, p99.9: 10,000).
    pub fn samples_needed(q: f64) -> u64 {
        let thin = (1.0 - q).min(q);
        if thin <= 0.0 { 1 } else { (10.0 / thin).round() as u64 }
    }

    /// The bins, for export.
    pub fn bins(&self) -> &Histogram<u64> {
        &self.bins
    }
}

#[cfg(test)]
mod tests;
