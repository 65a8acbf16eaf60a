//! The variance of a sum whose parts follow each other in time, from the slow waves in them, and
//! how far the sum may be from its mean.
//!
//! The parts are held against the twelve slowest cosines that fit the run. Each of these sums of
//! squares has, where the parts hang together over times short against the run, the variance of
//! the whole for its mean, and they are independent of each other: twelve degrees of freedom.
//! (Heidelberger and Welch 1981; with cosines and Student's t, Mueller 2007, and Lazarus, Lewis,
//! Stock and Watson 2018.) Where few parts of the run make up the most of it they are fewer, and
//! the sum is skewed; both is told by 64 batches of the parts.

use std::f64::consts::PI;

use super::Lack;

/// How many waves are looked at. More would follow shorter times and make intervals too narrow
/// where the parts hang together for long; fewer make them wider than need be.
const WAVES: usize = 12;
/// How many are looked at to tell roughly how strongly the parts hang together: so many that by
/// chance the answer is off by a sixth and not by more than a third, as that of twelve is.
const WAVES_ROUGH: usize = 64;
/// The slowest of the twelve, which are the strongest by far where the parts hang together over a
/// good part of the run ...
const SLOW: usize = 3;
/// ... and the fastest ones, which they are held against.
const FAST: usize = 6;
/// Into how many batches the parts are joined to look at their distribution.
const BATCHES: usize = 64;
/// A mean or a rate is not told where hardly more than one batch makes up its variance.
const MATTER_LEAST: f64 = 1.2;
/// 97.5 % of a normal distribution lie below it.
const Z: f64 = 1.959_963_984_540_054;

/// The waves of a number of parts.
#[derive(Debug)]
pub(super) struct Waves {
    /// One after the other.
    cosines: Vec<f64>,
    parts: usize,
}

/// How a sum varies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Its variance.
    pub(super) variance: f64,
    batches: Batches,
}

impl Waves {
    pub(super) fn new(parts: usize) -> Self {
        let k = parts as f64;
        let wave =
            |j: usize| (0..parts).map(move |i| libm::cos(PI * j as f64 * (i as f64 + 0.5) / k));
        // A wave is no shorter than eight parts.
        let waves = WAVES_ROUGH.min(parts / 4).max(WAVES);
        Self { cosines: (1..=waves).flat_map(wave).collect(), parts }
    }

    /// How the sum of these parts varies, whose mean is zero.
    pub(super) fn spread(&self, parts: &[f64]) -> Spread {
        Spread { variance: self.variance(parts), batches: Batches::of(parts) }
    }

    /// The variance of the sum of these parts, whose mean is zero.
    fn variance(&self, parts: &[f64]) -> f64 {
        mean(&self.squares(parts, WAVES))
    }

    /// The same by more waves, less by chance: a little too small where the parts hang together for
    /// longer than the shortest of them.
    pub(super) fn rough_variance(&self, parts: &[f64]) -> f64 {
        mean(&self.squares(parts, usize::MAX))
    }

    /// How many times stronger the slowest waves are than the fastest of the twelve: about once
    /// where the parts hang together over times short against the run. `None` where nothing varies.
    pub(super) fn redness(&self, parts: &[f64]) -> Option<f64> {
        let squares = self.squares(parts, WAVES);
        if squares.is_empty() {
            return None;
        }
        let fast = mean(&squares[WAVES - FAST..]);
        (fast > 0.0).then(|| mean(&squares[..SLOW]) / fast)
    }

    fn squares(&self, parts: &[f64], most: usize) -> Vec<f64> {
        if self.parts == 0 {
            return Vec::new();
        }
        let waves = self.cosines.chunks_exact(self.parts).take(most);
        let sums = waves.map(|w| w.iter().zip(parts).map(|(c, x)| c * x).sum::<f64>());
        // The squares of a cosine over the run add up to half its length.
        sums.map(|s| s * s * 2.0).collect()
    }
}

impl Spread {
    /// So many of the standard errors that follow are 95 % of the cases, to either side. Of times
    /// added up, whose tail may be heavier than that of the batches: their kurtosis counts in full,
    /// as if a normal distribution had none.
    pub(super) fn t(&self) -> f64 {
        student(freedom(1.0 / self.batches.matter))
    }

    /// The same of shares, which are bounded.
    pub(super) fn t_of_share(&self) -> f64 {
        student(freedom((1.0 / self.batches.matter - self.batches.normal).max(0.0)))
    }

    /// Whether so many independent times are enough, and more than a part or two matters.
    pub(super) fn check(&self, independent: f64, least: f64) -> Result<(), Lack> {
        let matter = self.batches.matter;
        let few = matter < MATTER_LEAST;
        if self.variance > 0.0 && (few || independent < least) {
            let independent = if few { matter } else { independent };
            return Err(Lack::Dependent { independent });
        }
        Ok(())
    }

    /// How far below and above the sum its true mean may be, in units of the sum, `wider` times as
    /// far as is estimated: Student's t, bent as the sum is skewed (Johnson 1978, in the form of
    /// Willink 2005).
    pub(super) fn reach(&self, wider: f64) -> (f64, f64) {
        let (error, t) = (self.variance.sqrt(), self.t() * wider);
        let skewness = self.batches.skewness;
        (error * bent(t, skewness), -error * bent(-t, skewness))
    }
}

/// What parts look like in batches that are long against the times over which they hang together.
#[derive(Clone, Copy, Debug)]
struct Batches {
    /// How many of them matter for the sum, were they of two kinds: those that add the same and
    /// those that add nothing.
    matter: f64,
    /// One by the number that would matter of a normal distribution's.
    normal: f64,
    /// The skewness of the sum of all.
    skewness: f64,
}

impl Batches {
    fn of(parts: &[f64]) -> Self {
        let k = parts.len().min(BATCHES);
        let batch = |i: usize| &parts[i * parts.len() / k..(i + 1) * parts.len() / k];
        let sums: Vec<f64> = (0..k).map(|i| batch(i).iter().sum()).collect();
        let k = k as f64;
        let centre = mean(&sums);
        let moment = |power: i32| sums.iter().map(|x| (x - centre).powi(power)).sum::<f64>();
        let (second, third, fourth) = (moment(2), moment(3), moment(4));
        if second <= 0.0 || k < 3.0 {
            return Self { matter: f64::INFINITY, normal: 0.0, skewness: 0.0 };
        }
        // The unbiased cumulants of a batch; those of the sum are k times as much.
        let variance = second / (k - 1.0);
        let skewness = third * k / ((k - 1.0) * (k - 2.0)) / variance.powf(1.5) / k.sqrt();
        Self { matter: second * second / fourth, normal: 3.0 / k, skewness }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// The variance of a mean of twelve squares, each of which varies by the parts' kurtosis beside its
/// own: so many degrees of freedom have the same (Satterthwaite 1946).
fn freedom(kurtosis: f64) -> f64 {
    2.0 / (2.0 / WAVES as f64 + kurtosis)
}

/// Of Student's t with so many degrees of freedom 97.5 % lie below it (Cornish and Fisher's
/// expansion, Abramowitz and Stegun 26.7.5; off by less than 1 % from 4 degrees on).
fn student(freedom: f64) -> f64 {
    let z = Z;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// Willink's transformation.
fn bent(t: f64, skewness: f64) -> f64 {
    let a = skewness / 6.0;
    if a.abs() < 1e-6 {
        return t;
    }
    ((1.0 + 6.0 * a * (t - a)).cbrt() - 1.0) / (2.0 * a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_is_that_of_the_tables() {
        for (freedom, t) in [(4.0, 2.776), (6.0, 2.447), (8.0, 2.306), (12.0, 2.179), (30.0, 2.042)]
        {
            assert!((student(freedom) / t - 1.0).abs() < 0.01, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn what_is_skewed_reaches_further_to_its_long_side() {
        // Bursts: most parts are a little below the mean, few far above.
        let bursts: Vec<f64> = (0..256).map(|i| if i % 32 == 0 { 31.0 } else { -1.0 }).collect();
        let waves = Waves::new(bursts.len());
        let (below, above) = waves.spread(&bursts).reach(1.0);
        assert!(above > below && below > 0.0, "{below} {above}");
        let down: Vec<f64> = bursts.iter().map(|x| -x).collect();
        let mirrored = waves.spread(&down).reach(1.0);
        assert!((mirrored.0 - above).abs() < 1e-9 && (mirrored.1 - below).abs() < 1e-9);
        let even: Vec<f64> = (0..256).map(|i| f64::from(i * 7_919 % 256) - 127.5).collect();
        let few = waves.spread(&bursts).t();
        assert!(few > waves.spread(&even).t(), "few parts, few degrees of freedom");
        assert!((2.178..2.4).contains(&waves.spread(&even).t()));
        assert!((2.178..2.2).contains(&waves.spread(&even).t_of_share()));
        assert!(waves.spread(&bursts).t_of_share() < few);
    }

    #[test]
    fn slow_waves_are_strong_where_the_parts_hang_together_for_long() {
        let waves = Waves::new(256);
        let drift: Vec<f64> = (0..256).map(|i| f64::from(i) - 127.5).collect();
        assert!(waves.redness(&drift).is_some_and(|r| r > 100.0));
        assert_eq!(waves.redness(&[0.0; 256]), None);
        let even: Vec<f64> = (0..256).map(|i| f64::from(i * 7_919 % 256) - 127.5).collect();
        assert!(waves.redness(&even).is_some_and(|r| r < 10.0), "{:?}", waves.redness(&even));
    }
}
