//! A histogram of times with exact count, sum, minimum and maximum.

mod bins;
mod wire;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::units::Span;
use bins::Bins;

/// Times from 1 ns to 1 hour with three significant digits (the error of a value is at most 0.1 %),
/// in constant memory. Minimum, maximum, sum and sum of squares are exact. Times over an hour count
/// as an hour, in the quantiles only.
///
/// Its bins (at most 270 kB, of which the kernel provides what is used) are allocated with the
/// first time, or by [`Hist::allocate`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Hist {
    bins: Option<Bins>,
    count: u64,
    sum_ns: u128,
    sum_sq_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// The longest time that the bins distinguish.
pub const TIME_MAX: Span = Span::from_secs(3_600);

impl Default for Hist {
    fn default() -> Self {
        Self::new()
    }
}

impl Hist {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self { bins: None, count: 0, sum_ns: 0, sum_sq_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Allocates the bins, so that the first time costs no more than any other.
    pub fn allocate(&mut self) {
        self.bins.get_or_insert_default();
    }

    /// Record a time.
    #[inline]
    pub fn record(&mut self, t: Span) {
        self.record_n(t, 1);
    }

    /// Record the same time `n` times.
    #[inline]
    pub fn record_n(&mut self, t: Span, n: u64) {
        if n > 0 {
            self.bins.get_or_insert_default().add(t.0, n);
            self.note(t.0, n);
        }
    }

    #[inline]
    fn note(&mut self, ns: u64, n: u64) {
        self.count += n;
        let (wide, n) = (u128::from(ns), u128::from(n));
        self.sum_ns += wide * n;
        // The square of a century in nanoseconds still fits. No run takes longer.
        let squares = if n == 1 { wide * wide } else { (wide * wide).saturating_mul(n) };
        self.sum_sq_ns = self.sum_sq_ns.saturating_add(squares);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Add all times of `other`. The result equals that of recording all times in one histogram
    /// (P10).
    pub fn merge(&mut self, other: &Self) {
        let &Self { ref bins, count, sum_ns, sum_sq_ns, min_ns, max_ns } = other;
        if count == 0 {
            return;
        }
        if let Some(bins) = bins {
            // All of its times are in these.
            self.bins.get_or_insert_default().merge(bins, min_ns..=max_ns);
        }
        self.count += count;
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.sum_sq_ns = self.sum_sq_ns.saturating_add(sum_sq_ns);
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// The number of recorded times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The exact sum of all times, in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The exact minimum; `None` if empty.
    pub fn min(&self) -> Option<Span> {
        (self.count() > 0).then_some(Span(self.min_ns))
    }

    /// The exact maximum; `None` if empty.
    pub fn max(&self) -> Option<Span> {
        (self.count() > 0).then_some(Span(self.max_ns))
    }

    /// The exact mean in nanoseconds; `None` if empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The population standard deviation in nanoseconds; `None` if empty.
    pub fn stdev_ns(&self) -> Option<f64> {
        let n = u128::from(self.count());
        if n == 0 {
            return None;
        }
        // The sum of squares minus n times the squared mean. In integers, so that no digits cancel,
        // and with the mean as quotient and remainder, so that nothing overflows: no term exceeds
        // the sum of squares.
        let (mean, rest) = (self.sum_ns / n, self.sum_ns % n);
        let known = mean.saturating_mul(mean).saturating_mul(n) + 2 * mean * rest;
        let (whole, part) = (rest * rest / n, rest * rest % n);
        let spread = self.sum_sq_ns.saturating_sub(known).saturating_sub(whole);
        let spread = spread as f64 - part as f64 / n as f64;
        Some((spread.max(0.0) / n as f64).sqrt())
    }

    /// The quantile `q` in [0, 1]: a value that at least this share of the samples does not exceed.
    /// At most 0.1 % too high, and never above the maximum. `None` if the sample is too small (see
    /// [`Hist::samples_needed`]).
    pub fn quantile(&self, q: f64) -> Option<Span> {
        if self.count() < Self::samples_needed(q) { None } else { self.estimate(q) }
    }

    /// The same for any sample that is not empty, however small. For decisions, not for reports.
    pub fn estimate(&self, q: f64) -> Option<Span> {
        let n = self.count();
        if n == 0 {
            return None;
        }
        if q <= 0.0 || q >= 1.0 {
            return Some(Span(if q <= 0.0 { self.min_ns } else { self.max_ns }));
        }
        let time = self.bins.as_ref()?.of_rank(Self::rank(q, n), self.min_ns..=self.max_ns);
        Some(Span(time.clamp(self.min_ns, self.max_ns)))
    }

    /// The rank (from 1) of the quantile `q` among `n` sorted samples: the smallest rank r with r /
    /// n >= q. If q n is an integer except for rounding, it counts as an integer (0.999 of 1,000 is
    /// the 999th).
    pub(crate) fn rank(q: f64, n: u64) -> u64 {
        let exact = q * n as f64;
        let rank = if (exact - exact.round()).abs() < exact * 1e-12 {
            exact.round()
        } else {
            exact.ceil()
        };
        (rank as u64).clamp(1, n.max(1))
    }

    /// The minimum sample size for reporting a quantile: ten samples must lie beyond it on its
    /// thinner side (p50: 20, p99: 1,000, p99.9: 10,000).
    pub fn samples_needed(q: f64) -> u64 {
        let thin = (1.0 - q).min(q);
        if thin <= 0.0 { 1 } else { (10.0 / thin).round() as u64 }
    }

    /// The first time in the bin of this time.
    pub fn bin_start(t: Span) -> Span {
        Span(bins::start(bins::bin_of(t.0)))
    }

    /// The first time beyond the bin of this time.
    pub fn bin_end(t: Span) -> Span {
        Span(bins::end(bins::bin_of(t.0)))
    }

    /// How many times are in the bin of this time.
    pub fn count_in_bin(&self, t: Span) -> u64 {
        self.bins.as_ref().map_or(0, |bins| bins.count(bins::bin_of(t.0)))
    }

    /// How many times are in the bins from that of the first time to that of the last.
    pub fn count_between(&self, first: Span, last: Span) -> u64 {
        self.bins.as_ref().map_or(0, |bins| bins.counts(first.0..=last.0).iter().sum())
    }

    /// The bins that are not empty, in order: the last time that falls into each, and how many
    /// have.
    pub fn recorded(&self) -> impl Iterator<Item = (Span, u64)> {
        let all = self.bins.iter().flat_map(|bins| bins.recorded(self.min_ns..=self.max_ns));
        all.map(|(bin, n)| (Span(bins::end(bin) - 1), n))
    }

    /// The bins as an HdrHistogram, for export.
    pub fn to_hdr(&self) -> Histogram<u64> {
        let mut hdr =
            Histogram::new_with_bounds(1, TIME_MAX.0, 3).expect("bounds are valid constants");
        for (last, n) in self.recorded() {
            hdr.saturating_record_n(Self::bin_start(last).0, n);
        }
        hdr
    }
}

impl Clone for Hist {
    fn clone(&self) -> Self {
        let &Self { ref bins, count, sum_ns, sum_sq_ns, min_ns, max_ns } = self;
        let bins = bins.as_ref().filter(|_| count > 0).map(|bins| bins.copy(min_ns..=max_ns));
        Self { bins, count, sum_ns, sum_sq_ns, min_ns, max_ns }
    }
}

impl PartialEq for Hist {
    /// Whether both have the same times, allocated or not.
    fn eq(&self, other: &Self) -> bool {
        let Self { bins: _, count, sum_ns, sum_sq_ns, min_ns, max_ns } = other;
        let rest = (&self.count, &self.sum_ns, &self.sum_sq_ns, &self.min_ns, &self.max_ns);
        rest == (count, sum_ns, sum_sq_ns, min_ns, max_ns) && self.recorded().eq(other.recorded())
    }
}

#[cfg(test)]
mod tests;
