//! A histogram of times with exact count, sum, minimum and maximum beside it.

use hdrhistogram::Histogram;

use crate::units::Span;

/// Times from 1 ns to 1 hour, three significant digits (a value is off by at most 0.1 %), constant memory. Minimum,
/// maximum, sum and sum of squares are kept exactly; values over an hour count as an hour in the quantiles only.
#[derive(Clone, Debug)]
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
        self.sum_sq_ns += wide * wide * n;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Add all that `other` has counted; the result is that of counting all in one (P10).
    pub fn merge(&mut self, other: &Self) {
        self.bins.add(&other.bins).expect("same bounds");
        self.sum_ns += other.sum_ns;
        self.sum_sq_ns += other.sum_sq_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.bins.len()
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
        // n * sum of squares - square of the sum, in integers: no cancellation.
        let spread = (n * self.sum_sq_ns).checked_sub(self.sum_ns * self.sum_ns);
        let square = spread.map_or_else(
            || {
                let (m, q) = (self.sum_ns as f64 / n as f64, self.sum_sq_ns as f64 / n as f64);
                (q - m * m).max(0.0)
            },
            |s| s as f64 / (n as f64 * n as f64),
        );
        Some(square.sqrt())
    }

    /// The quantile `q` in [0, 1]: a value such that at least that share of the samples is not above it, off by at most
    /// 0.1 % and never above the true maximum. `None` where the sample cannot carry it (see [`Hist::samples_needed`]).
    pub fn quantile(&self, q: f64) -> Option<Span> {
        if self.count() == 0 || self.count() < Self::samples_needed(q) {
            return None;
        }
        Some(Span(self.bins.value_at_quantile(q).clamp(self.min_ns, self.max_ns)))
    }

    /// How many samples a quantile needs before it is told: ten beyond it on its thinner side (p50: 20, p99: 1,000,
    /// p99.9: 10,000).
    pub fn samples_needed(q: f64) -> u64 {
        let thin = (1.0 - q).min(q);
        if thin <= 0.0 { 1 } else { (10.0 / thin).round() as u64 }
    }

    /// The bins, for export.
    pub fn bins(&self) -> &Histogram<u64> {
        &self.bins
    }
}
