//! Bins of equal width, with what lies outside them and the moments: the histogram of the ACE
//! performance tests. The shared recorder does not use it; it keeps what an old format must show.

/// Counts of values in `count` bins over `[first, last)`, values outside it, and power sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    first: f64,
    last: f64,
    /// Below, the bins, above.
    counts: Vec<u64>,
    outliers_max: usize,
    outliers: Vec<f64>,
    n: u64,
    min: f64,
    max: f64,
    sums: [f64; 4],
}

/// Skew and kurtosis of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The third standardised moment.
    pub skew: f64,
    /// The fourth one, less the 3 of a normal law.
    pub kurtosis: f64,
}

impl Bins {
    /// `count` empty bins over `[first, last)`. The first `outliers_max` values that lie outside
    /// are kept as they came.
    ///
    /// # Panics
    /// Where there is no bin.
    pub fn new(count: usize, first: f64, last: f64, outliers_max: usize) -> Self {
        assert!(count > 0, "a histogram needs a bin");
        Self {
            first,
            last,
            counts: vec![0; count + 2],
            outliers_max,
            outliers: Vec::new(),
            n: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sums: [0.0; 4],
        }
    }

    /// Count one value. One outside the bins counts in everything, too.
    pub fn record(&mut self, v: f64) {
        self.n += 1;
        self.min = self.min.min(v);
        self.max = self.max.max(v);
        let mut power = v;
        for sum in &mut self.sums {
            *sum += power;
            power *= v;
        }
        let above = self.counts.len() - 1;
        let slot = if v < self.first {
            0
        } else if v >= self.last {
            above
        } else {
            let bins = (above - 1) as f64;
            // Rounding could carry a value just below the last edge over it.
            (((v - self.first) * bins / (self.last - self.first) + 1.0) as usize).min(above - 1)
        };
        self.counts[slot] += 1;
        if (slot == 0 || slot == above) && self.outliers.len() < self.outliers_max {
            self.outliers.push(v);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// The smallest value; infinite where there is none.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value; minus infinite where there is none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean; not a number where there is none.
    pub fn mean(&self) -> f64 {
        self.sums[0] / self.n as f64
    }

    /// The sample variance from power sums, `(s2 - 2 s1 m + n m^2) / (n - 1)`; not a number for
    /// fewer than two values. Values that are close together cost it digits.
    pub fn variance(&self) -> f64 {
        let (n, mean) = (self.n as f64, self.mean());
        (self.sums[1] - 2.0 * self.sums[0] * mean + n * mean * mean) / (n - 1.0)
    }

    /// Skew and kurtosis, from the same sums.
    pub fn shape(&self) -> Shape {
        let (n, m, sd) = (self.n as f64, self.mean(), self.variance().sqrt());
        let [s1, s2, s3, s4] = self.sums;
        let third = s3 - 3.0 * s2 * m + 3.0 * s1 * m * m - n * m * m * m;
        let fourth =
            s4 - 4.0 * s3 * m + 6.0 * s2 * m * m - 4.0 * s1 * m * m * m + n * m * m * m * m;
        Shape { skew: third / (sd * sd * sd) / n, kurtosis: fourth / (sd * sd * sd * sd) / n - 3.0 }
    }

    /// Where the bins begin.
    pub fn first(&self) -> f64 {
        self.first
    }

    /// Where they end.
    pub fn last(&self) -> f64 {
        self.last
    }

    /// How many values lie below the first bin.
    pub fn below(&self) -> u64 {
        self.counts[0]
    }

    /// How many values lie at or above the end of the last bin.
    pub fn above(&self) -> u64 {
        self.counts[self.counts.len() - 1]
    }

    /// How many values lie in each bin.
    pub fn bins(&self) -> &[u64] {
        &self.counts[1..self.counts.len() - 1]
    }

    /// The first values outside the bins, in the order in which they came.
    pub fn outliers(&self) -> &[f64] {
        &self.outliers
    }
}

#[cfg(test)]
mod tests {
    use super::Bins;

    #[test]
    fn every_value_is_counted_once_and_edges_belong_to_the_bin_above() {
        let mut bins = Bins::new(4, 0.0, 100.0, 2);
        for v in [-1.0, 0.0, 24.9, 25.0, 99.999, 100.0, 7_000.0] {
            bins.record(v);
        }
        assert_eq!((bins.below(), bins.bins(), bins.above()), (1, &[2, 1, 0, 1][..], 2));
        assert_eq!(bins.outliers(), [-1.0, 100.0]);
        assert_eq!((bins.count(), bins.min(), bins.max()), (7, -1.0, 7_000.0));
    }

    #[test]
    fn a_value_just_below_the_end_stays_in_the_last_bin() {
        for last in [0.3, 1.1, 1e9 / 7.0] {
            let mut bins = Bins::new(1000, 0.1, last, 0);
            bins.record(last.next_down());
            assert_eq!(bins.bins()[999], 1, "{last}");
        }
    }

    #[test]
    fn moments_are_those_of_the_sample() {
        let mut bins = Bins::new(1, 0.0, 1.0, 0);
        for v in [10.0, 20.0, 30.0, 40.0, 90.0] {
            bins.record(v);
        }
        assert!((bins.mean() - 38.0).abs() < 1e-12 && (bins.variance() - 970.0).abs() < 1e-9);
        assert!((bins.shape().skew - 0.743_583).abs() < 1e-6);
        assert!((bins.shape().kurtosis + 1.291_98).abs() < 1e-5);
        assert!(Bins::new(1, 0.0, 1.0, 0).mean().is_nan());
    }
}
