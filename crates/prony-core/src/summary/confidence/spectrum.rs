//! The variance of a sum whose parts follow each other in time, from the slow waves in them.
//!
//! The parts are held against the twelve slowest cosines that fit the run. Each of these sums of
//! squares has, where the parts hang together over times short against the run, the variance of
//! the whole for its mean, and they are independent of each other: twelve degrees of freedom.
//! (Heidelberger and Welch 1981; with cosines and Student's t, Mueller 2007, and Lazarus, Lewis,
//! Stock and Watson 2018.)

use std::f64::consts::PI;

/// How many waves are looked at. More would follow shorter times and make intervals too narrow
/// where the parts hang together for long; fewer make them wider than need be.
const WAVES: usize = 12;

/// 97.5 % of Student's t with [`WAVES`] degrees of freedom lie below it.
pub(super) const T: f64 = 2.178_812_829_667_228;

/// The waves of a number of parts.
#[derive(Debug)]
pub(super) struct Waves {
    /// One after the other.
    cosines: Vec<f64>,
    parts: usize,
}

impl Waves {
    pub(super) fn new(parts: usize) -> Self {
        let k = parts as f64;
        let wave =
            |j: usize| (0..parts).map(move |i| libm::cos(PI * j as f64 * (i as f64 + 0.5) / k));
        Self { cosines: (1..=WAVES).flat_map(wave).collect(), parts }
    }

    /// The variance of the sum of these parts, whose mean is zero.
    pub(super) fn variance(&self, parts: &[f64]) -> f64 {
        if self.parts == 0 {
            return 0.0;
        }
        let waves = self.cosines.chunks_exact(self.parts);
        let sums = waves.map(|w| w.iter().zip(parts).map(|(c, x)| c * x).sum::<f64>());
        // The squares of a cosine over the run add up to half its length.
        sums.map(|s| s * s).sum::<f64>() * 2.0 / WAVES as f64
    }
}
