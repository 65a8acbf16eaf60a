//! A histogram of times with exact count, sum, minimum and maximum.

mod bins;
mod few;
mod wire;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use bins::Bins;
use few::Few;
use prony_base::merge::Merge;
use prony_base::units::Span;
pub use wire::memory_of;

/// Times from 1 ns to 1 hour with three significant digits (the error of a value is at most 0.1 %),
/// in constant memory. Minimum, maximum, sum and sum of squares are exact. Times over an hour count
/// as an hour, in the quantiles only.
///
/// Its bins (at most 270 kB, of which the kernel provides what is used) are allocated with the
/// first time, or by [`Hist::allocate`]. One of many ([`Hist::sparse`]) has only those that are not
/// empty until it has many times.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "wire::Wire", into = "wire::Wire")]
pub struct Hist {
    bins: Option<Bins>,
    /// The bins instead, while there are few times.
    few: Option<Box<Few>>,
    is_sparse: bool,
    count: u64,
    sum_ns: u128,
    sum_sq_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// A sparse histogram has all bins from this number of times on, from which each of them costs
/// less to record.
const FEW_MAX: u64 = 512;

/// The longest time that the bins distinguish.
pub const TIME_MAX: Span = Span::from_secs(3_600);

impl Default for Hist {
    fn default() -> Self {
        Self::new()
    }
}

impl Merge for Hist {
    /// Add all times of `other`. The result equals that of recording all times in one histogram
    /// (P10).
    fn merge(&mut self, other: &Self) {
        let &Self { ref bins, ref few, is_sparse: _, count, sum_ns, sum_sq_ns, min_ns, max_ns } =
            other;
        if count == 0 {
            return;
        }
        if let Some(bins) = bins {
            // All of its times are in these.
            self.all_bins().merge(bins, min_ns..=max_ns);
        }
        if let Some(few) = few {
            self.merge_few(few);
        }
        self.count += count;
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.sum_sq_ns = self.sum_sq_ns.saturating_add(sum_sq_ns);
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }
}

impl Hist {
    /// An empty histogram.
    pub const fn new() -> Self {
        let (min_ns, max_ns) = (u64::MAX, 0);
        let (bins, few, is_sparse) = (None, None, false);
        Self { bins, few, is_sparse, count: 0, sum_ns: 0, sum_sq_ns: 0, min_ns, max_ns }
    }

    /// An empty histogram of which there may be thousands: few times cost little memory.
    pub const fn sparse() -> Self {
        let mut sparse = Self::new();
        sparse.is_sparse = true;
        sparse
    }

    /// Allocates the bins, so that the first time costs no more than any other.
    pub fn allocate(&mut self) {
        self.all_bins();
    }

    /// All bins, with what was in the few.
    fn all_bins(&mut self) -> &mut Bins {
        let bins = self.bins.get_or_insert_default();
        if let Some(few) = self.few.take() {
            few.recorded().for_each(|(bin, n)| bins.add_to(bin, n));
        }
        bins
    }

    /// Adds times to a histogram without all bins.
    #[cold]
    #[inline(never)]
    fn add_first(&mut self, ns: u64, n: u64) {
        if self.is_sparse && self.count.saturating_add(n) < FEW_MAX {
            self.few.get_or_insert_default().add(bins::bin_of(ns), n);
        } else {
            self.all_bins().add(ns, n);
        }
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
            match &mut self.bins {
                Some(bins) => bins.add(t.0, n),
                None => self.add_first(t.0, n),
            }
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

    fn merge_few(&mut self, other: &Few) {
        let known = self.few.as_ref().map_or(0, |few| few.len());
        let is_few = self.is_sparse && ((known + other.len()) as u64) < FEW_MAX;
        if self.bins.is_none() && (is_few || self.count == 0) {
            let few = self.few.get_or_insert_default();
            other.recorded().for_each(|(bin, n)| few.add(bin, n));
        } else {
            let bins = self.all_bins();
            other.recorded().for_each(|(bin, n)| bins.add_to(bin, n));
        }
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
        // the sum of squares, but in damaged files.
        let (mean, rest) = (self.sum_ns / n, self.sum_ns % n);
        let between = mean.saturating_mul(rest).saturating_mul(2);
        let known = mean.saturating_mul(mean).saturating_mul(n).saturating_add(between);
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
        let rank = Self::rank(q, n);
        let time = match (&self.bins, &self.few) {
            (Some(bins), _) => bins::of_rank(bins.recorded(self.min_ns..=self.max_ns), rank),
            (None, Some(few)) => bins::of_rank(few.recorded(), rank),
            (None, None) => return None,
        };
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
        let bin = bins::bin_of(t.0);
        let few = self.few.as_ref().map_or(0, |few| few.count(bin));
        self.bins.as_ref().map_or(few, |bins| bins.count(bin))
    }

    /// How many times are in the bins from that of the first time to that of the last.
    pub fn count_between(&self, first: Span, last: Span) -> u64 {
        let range = bins::bin_of(first.0)..=bins::bin_of(last.0);
        let few = self.few.iter().flat_map(|few| few.recorded());
        let few = few.filter(|(bin, _)| range.contains(bin)).map(|(_, n)| n).sum();
        self.bins.as_ref().map_or(few, |bins| bins.counts(first.0..=last.0).iter().sum())
    }

    /// The bins that are not empty, in order: the last time that falls into each, and how many
    /// have.
    pub fn recorded(&self) -> impl Iterator<Item = (Span, u64)> {
        let all = self.bins.iter().flat_map(|bins| bins.recorded(self.min_ns..=self.max_ns));
        let few = self.few.iter().flat_map(|few| few.recorded());
        all.chain(few).map(|(bin, n)| (Span(bins::end(bin) - 1), n))
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
        let &Self { ref bins, ref few, is_sparse, count, sum_ns, sum_sq_ns, min_ns, max_ns } = self;
        let bins = bins.as_ref().filter(|_| count > 0).map(|bins| bins.copy(min_ns..=max_ns));
        let few = few.clone();
        Self { bins, few, is_sparse, count, sum_ns, sum_sq_ns, min_ns, max_ns }
    }
}

impl PartialEq for Hist {
    /// Whether both have the same times, allocated or not.
    fn eq(&self, other: &Self) -> bool {
        let Self { bins: _, few: _, is_sparse: _, count, sum_ns, sum_sq_ns, min_ns, max_ns } =
            other;
        let rest = (&self.count, &self.sum_ns, &self.sum_sq_ns, &self.min_ns, &self.max_ns);
        rest == (count, sum_ns, sum_sq_ns, min_ns, max_ns) && self.recorded().eq(other.recorded())
    }
}

#[cfg(test)]
mod tests;
