//! The variance of the sum of an autocorrelated series, from its spectral density at frequency
//! zero, and the interval of that sum.
//!
//! The series is projected on the twelve slowest cosines that fit the run (discrete cosine
//! transform). If the correlation is short compared with the run, the coefficients are independent,
//! and each squared coefficient has the variance of the sum as its mean: their mean is a spectral
//! variance estimate with twelve degrees of freedom (Heidelberger and Welch, CACM 24, 1981; with
//! cosines and Student's t: Mueller, Journal of Econometrics 141, 2007; Lazarus, Lewis, Stock and
//! Watson, JBES 36, 2018). If a few parts of the run dominate the variance, the degrees of freedom
//! are fewer and the sum is skewed; the kurtosis and skewness of 64 batch means measure both.

use std::f64::consts::PI;

use super::NoInterval;

/// The number of cosines. More would include higher frequencies and make intervals too narrow with
/// long correlations; fewer would make them wider than necessary.
const COSINES: usize = 12;
/// The number of cosines for a rough estimate of the autocorrelation: enough for a relative
/// standard error of a sixth, where twelve have two fifths.
const COSINES_ROUGH: usize = 64;
/// The number of slowest cosines, which dominate if the correlation extends over a large part of
/// the run ...
const SLOW: usize = 3;
/// ... and the number of the fastest of the twelve, for comparison.
const FAST: usize = 6;
/// The number of batches for the kurtosis and skewness.
const BATCHES: usize = 64;
/// The minimum number of batches that dominate the variance of a mean or rate.
const DOMINANT_MIN: f64 = 1.2;
/// The 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The slowest cosines over a series of this length.
#[derive(Clone, Debug)]
pub(super) struct Cosines {
    /// The values of one cosine after the other.
    values: Vec<f64>,
    parts: usize,
}

/// The estimated variance of a sum, and the statistics of its batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Its variance.
    pub(super) variance: f64,
    batches: Batches,
}

impl Cosines {
    pub(super) fn new(parts: usize) -> Self {
        let k = parts as f64;
        let wave =
            |j: usize| (0..parts).map(move |i| libm::cos(PI * j as f64 * (i as f64 + 0.5) / k));
        // The shortest cosine has a period of eight parts.
        let cosines = COSINES_ROUGH.min(parts / 4).max(COSINES);
        Self { values: (1..=cosines).flat_map(wave).collect(), parts }
    }

    /// The variance and batch statistics of the sum of a series with mean zero.
    pub(super) fn spread(&self, parts: &[f64]) -> Spread {
        Spread { variance: self.variance(parts), batches: Batches::of(parts) }
    }

    /// The spectral variance estimate of the sum of a series with mean zero.
    fn variance(&self, parts: &[f64]) -> f64 {
        mean(&self.squares(parts, COSINES))
    }

    /// The same from more cosines, with a smaller standard error. Biased downwards if the
    /// correlation extends over more than the shortest period.
    pub(super) fn rough_variance(&self, parts: &[f64]) -> f64 {
        mean(&self.squares(parts, usize::MAX))
    }

    /// The mean power of the slowest cosines, divided by that of the fastest of the twelve: about 1
    /// if the correlation is short compared with the run. `None` if nothing varies.
    pub(super) fn redness(&self, parts: &[f64]) -> Option<f64> {
        let squares = self.squares(parts, COSINES);
        if squares.is_empty() {
            return None;
        }
        let fast = mean(&squares[COSINES - FAST..]);
        (fast > 0.0).then(|| mean(&squares[..SLOW]) / fast)
    }

    fn squares(&self, parts: &[f64], most: usize) -> Vec<f64> {
        if self.parts == 0 {
            return Vec::new();
        }
        let cosines = self.values.chunks_exact(self.parts).take(most);
        let sums = cosines.map(|w| w.iter().zip(parts).map(|(c, x)| c * x).sum::<f64>());
        // The squares of a cosine over the run sum to half its length.
        sums.map(|s| s * s * 2.0).collect()
    }
}

impl Spread {
    /// The t quantile for a sum of times. The full kurtosis of the batches reduces the degrees of
    /// freedom, as the tail of the times may be heavier than that of the batches.
    pub(super) fn t(&self) -> f64 {
        t_quantile(degrees_of_freedom(1.0 / self.batches.dominant))
    }

    /// The t quantile for a share, which is bounded: only the excess kurtosis counts.
    pub(super) fn t_of_share(&self) -> f64 {
        t_quantile(degrees_of_freedom((1.0 / self.batches.dominant - self.batches.normal).max(0.0)))
    }

    /// Whether more than one batch dominates the variance.
    pub(super) fn check_dominant(&self) -> Result<(), NoInterval> {
        let is_one = self.variance > 0.0 && self.batches.dominant < DOMINANT_MIN;
        if is_one { Err(NoInterval::Dominated) } else { Ok(()) }
    }

    /// The distances from the sum to the ends of its interval, `wider` times the estimate:
    /// Student's t, adjusted for skewness (Johnson, JASA 73, 1978, in the form of Willink,
    /// Communications in Statistics 34, 2005).
    pub(super) fn reach(&self, wider: f64) -> (f64, f64) {
        let (error, t) = (self.variance.sqrt(), self.t() * wider);
        let skewness = self.batches.skewness;
        (error * willink(t, skewness), -error * willink(-t, skewness))
    }
}

/// Statistics of batches that are long compared with the correlation.
#[derive(Clone, Copy, Debug)]
struct Batches {
    /// The effective number of batches, (sum of squares)^2 / (sum of fourth powers): exactly k if k
    /// batches deviate equally and the others do not.
    dominant: f64,
    /// Its reciprocal for a normal distribution.
    normal: f64,
    /// The skewness of the sum of all batches.
    skewness: f64,
}

impl Batches {
    fn of(parts: &[f64]) -> Self {
        let k = parts.len().min(BATCHES);
        let batch = |i: usize| &parts[i * parts.len() / k..(i + 1) * parts.len() / k];
        let sums: Vec<f64> = (0..k).map(|i| batch(i).iter().sum()).collect();
        let k = k as f64;
        let center = mean(&sums);
        let moment = |power: i32| sums.iter().map(|x| (x - center).powi(power)).sum::<f64>();
        let (second, third, fourth) = (moment(2), moment(3), moment(4));
        if second <= 0.0 || k < 3.0 {
            return Self { dominant: f64::INFINITY, normal: 0.0, skewness: 0.0 };
        }
        // Unbiased estimates of the cumulants of a batch; those of the sum are k times as large.
        let variance = second / (k - 1.0);
        let skewness = third * k / ((k - 1.0) * (k - 2.0)) / variance.powf(1.5) / k.sqrt();
        Self { dominant: second * second / fourth, normal: 3.0 / k, skewness }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// The degrees of freedom of a mean of twelve squares with this additional kurtosis: those of the
/// chi-squared distribution with the same relative variance (Satterthwaite, Biometrics Bulletin 2,
/// 1946).
fn degrees_of_freedom(kurtosis: f64) -> f64 {
    2.0 / (2.0 / COSINES as f64 + kurtosis)
}

/// The 97.5 % quantile of Student's t (Cornish-Fisher expansion, Abramowitz and Stegun 26.7.5; the
/// error is below 1 % from 4 degrees of freedom up).
pub(in crate::summary) fn t_quantile(freedom: f64) -> f64 {
    let z = Z;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// Willink's transformation of t for a skewed sum.
fn willink(t: f64, skewness: f64) -> f64 {
    let a = skewness / 6.0;
    if a.abs() < 1e-6 {
        return t;
    }
    ((1.0 + 6.0 * a * (t - a)).cbrt() - 1.0) / (2.0 * a)
}

#[cfg(test)]
mod tests {
    use prony_base::rng::{self, Stream};

    use super::super::REDNESS_MAX;
    use super::*;

    #[test]
    fn t_quantiles_match_the_tables() {
        for (freedom, t) in [(4.0, 2.776), (6.0, 2.447), (8.0, 2.306), (12.0, 2.179), (30.0, 2.042)]
        {
            assert!(
                (t_quantile(freedom) / t - 1.0).abs() < 0.01,
                "{freedom}: {}",
                t_quantile(freedom)
            );
        }
    }

    #[test]
    fn skewed_sum_has_a_longer_interval_on_its_long_side() {
        // Bursts: most parts are a little below the mean, few far above.
        let bursts: Vec<f64> = (0..256).map(|i| if i % 32 == 0 { 31.0 } else { -1.0 }).collect();
        let cosines = Cosines::new(bursts.len());
        let (below, above) = cosines.spread(&bursts).reach(1.0);
        assert!(above > below && below > 0.0, "{below} {above}");
        let down: Vec<f64> = bursts.iter().map(|x| -x).collect();
        let mirrored = cosines.spread(&down).reach(1.0);
        assert!((mirrored.0 - above).abs() < 1e-9 && (mirrored.1 - below).abs() < 1e-9);
        let even: Vec<f64> = (0..256).map(|i| f64::from(i * 7_919 % 256) - 127.5).collect();
        let few = cosines.spread(&bursts).t();
        assert!(few > cosines.spread(&even).t(), "few dominant parts leave few degrees of freedom");
        assert!((2.178..2.4).contains(&cosines.spread(&even).t()));
        assert!((2.178..2.2).contains(&cosines.spread(&even).t_of_share()));
        let (once, twice) = (cosines.spread(&even).reach(1.0), cosines.spread(&even).reach(2.0));
        assert!((twice.0 / once.0 - 2.0).abs() < 0.05, "{once:?} {twice:?}");
        assert!((twice.1 / once.1 - 2.0).abs() < 0.05, "{once:?} {twice:?}");
        assert!(cosines.spread(&bursts).t_of_share() < few);
    }

    #[test]
    fn detects_low_frequency_power_of_a_drift() {
        let cosines = Cosines::new(256);
        let drift: Vec<f64> = (0..256).map(|i| f64::from(i) - 127.5).collect();
        assert!(cosines.redness(&drift).is_some_and(|r| r > 100.0));
        assert_eq!(cosines.redness(&[0.0; 256]), None);
        let even: Vec<f64> = (0..256).map(|i| f64::from(i * 7_919 % 256) - 127.5).collect();
        assert!(cosines.redness(&even).is_some_and(|r| r < 10.0), "{:?}", cosines.redness(&even));
    }

    /// Too low a limit calls good runs autocorrelated, too high a limit lets bad ones pass.
    #[test]
    fn one_run_in_200_of_independent_times_exceeds_the_limit_of_redness() {
        let cosines = Cosines::new(64);
        let exceeds = |run: &u64| {
            let part = |i| rng::keyed(9, Stream::Think, *run, i) as f64 / 2_f64.powi(64) - 0.5;
            let parts: Vec<f64> = (0..64).map(part).collect();
            cosines.redness(&parts).is_some_and(|redness| redness > REDNESS_MAX)
        };
        let n = (0..20_000).filter(exceeds).count();
        assert!((65..=135).contains(&n), "{n} of 20,000 instead of 100");
    }
}
