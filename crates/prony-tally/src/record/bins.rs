//! A histogram with bins of equal width, counts of outliers, and moments, as the ACE performance
//! tests print it. Only that output uses it, not the shared recorder.

/// Counts of values in equal bins over `[first, last)`, values outside them, and power sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    first: f64,
    last: f64,
    /// Values below the first bin, in each bin, and above the last bin.
    counts: Vec<u64>,
    outliers_max: usize,
    outliers: Vec<f64>,
    n: u64,
    min: f64,
    max: f64,
    sums: [f64; 4],
}

/// Skewness and kurtosis of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Skewness: the third standardized moment.
    pub skew: f64,
    /// Excess kurtosis: the fourth standardized moment minus 3.
    pub kurtosis: f64,
}

impl Bins {
    /// `count` empty bins over `[first, last)`. The first `outliers_max` values outside them are
    /// kept in order of arrival.
    ///
    /// If `count` is zero.
    pub fn new(count: usize, first: f64, last: f64, outliers_max: usize) -> Self {
        assert!(count > 0, "a histogram needs at least one bin");
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

    /// Record a value. Values outside the bins count in the moments too.
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
            // Rounding could move a value just below `last` past the last bin.
            (((v - self.first) * bins / (self.last - self.first) + 1.0) as usize).min(above - 1)
        };
        self.counts[slot] += 1;
        if (slot == 0 || slot == above) && self.outliers.len() < self.outliers_max {
            self.outliers.push(v);
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// The smallest value; positive infinity if there are none.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest value; negative infinity if there are none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean; NaN if there are no values.
    pub fn mean(&self) -> f64 {
        self.sums[0] / self.n as f64
    }

    /// The sample variance from power sums, `(s2 - 2 s1 m + n m^2) / (n - 1)`; NaN for fewer than
    /// two values. Loses digits to cancellation if the spread is small compared with the mean.
    pub fn variance(&self) -> f64 {
        let (n, mean) = (self.n as f64, self.mean());
        (self.sums[1] - 2.0 * self.sums[0] * mean + n * mean * mean) / (n - 1.0)
    }

    /// Skewness and kurtosis, from the same power sums.
    pub fn shape(&self) -> Shape {
        let (n, m, sd) = (self.n as f64, self.mean(), self.variance().sqrt());
        let [s1, s2, s3, s4] = self.sums;
        let third = s3 - 3.0 * s2 * m + 3.0 * s1 * m * m - n * m * m * m;
        let fourth =
            s4 - 4.0 * s3 * m + 6.0 * s2 * m * m - 4.0 * s1 * m * m * m + n * m * m * m * m;
        Shape { skew: third / (sd * sd * sd) / n, kurtosis: fourth / (sd * sd * sd * sd) / n - 3.0 }
    }

    /// The lower edge of the first bin.
    pub fn first(&self) -> f64 {
        self.first
    }

    /// The upper edge of the last bin.
    pub fn last(&self) -> f64 {
        self.last
    }

    /// The number of values below the first bin.
    pub fn below(&self) -> u64 {
        self.counts[0]
    }

    /// The number of values at or above the end of the last bin.
    pub fn above(&self) -> u64 {
        self.counts[self.counts.len() - 1]
    }

    /// The number of values in each bin.
    pub fn bins(&self) -> &[u64] {
        &self.counts[1..self.counts.len() - 1]
    }

    /// The first values outside the bins, in order of arrival.
    pub fn outliers(&self) -> &[f64] {
        &self.outliers
    }
}

#[cfg(test)]
mod tests {
    use super::Bins;

    #[test]
    fn counts_each_value_once_and_assigns_edges_to_the_upper_bin() {
        let mut bins = Bins::new(4, 0.0, 100.0, 2);
        for v in [-1.0, 0.0, 24.9, 25.0, 99.999, 100.0, 7_000.0] {
            bins.record(v);
        }
        assert_eq!((bins.first(), bins.last()), (0.0, 100.0));
        assert_eq!((bins.below(), bins.bins(), bins.above()), (1, &[2, 1, 0, 1][..], 2));
        assert_eq!(bins.outliers(), [-1.0, 100.0]);
        assert_eq!((bins.count(), bins.min(), bins.max()), (7, -1.0, 7_000.0));
    }

    #[test]
    fn value_just_below_the_upper_edge_falls_into_the_last_bin() {
        for last in [0.3, 1.1, 1e9 / 7.0] {
            let mut bins = Bins::new(1000, 0.1, last, 0);
            bins.record(last.next_down());
            assert_eq!(bins.bins()[999], 1, "{last}");
        }
    }

    #[test]
    fn computes_the_moments_of_the_sample() {
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
