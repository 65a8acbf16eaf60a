//! Whether two distributions differ: a randomization test over pairs of blocks.
//!
//! If both halves of a pair come from the same distribution, exchanging them changes nothing but
//! the signs of the pair's differences (Fisher, The Design of Experiments, 1935; Pitman,
//! Supplement to the JRSS 4, 1937). The statistic is the sum over the quantiles of
//! [`GRID`](super::figure::GRID) of the squared sum of the log ratios, each divided by the sum of
//! their squares.

use crate::rng::{Sequence, Stream};

/// Up to this number of pairs, all signs are tried.
const EXACT_MAX: u32 = 12;
/// How many signs are drawn for more pairs.
const DRAWS: u32 = 9_999;

/// The probability, if both are the same, of a statistic at least as large as that of these
/// pairs: log ratios of each quantile. The draws depend on the seed alone.
pub(super) fn p_value(pairs: &[Vec<f64>], seed: u64) -> f64 {
    let Some(first) = pairs.first() else { return 1.0 };
    let scale: Vec<f64> =
        (0..first.len()).map(|q| pairs.iter().map(|pair| pair[q].powi(2)).sum()).collect();
    let statistic = |sign: &mut dyn FnMut(usize) -> bool| {
        let mut sums = vec![0.0; first.len()];
        for (i, pair) in pairs.iter().enumerate() {
            let flip = if sign(i) { -1.0 } else { 1.0 };
            sums.iter_mut().zip(pair).for_each(|(sum, x)| *sum += flip * x);
        }
        let terms = sums.iter().zip(&scale).filter(|(_, s)| **s > 0.0);
        terms.map(|(sum, s)| sum * sum / s).sum::<f64>()
    };
    let found = statistic(&mut |_| false);
    // Sums in another order differ by rounding.
    let is_extreme = |value: f64| value >= found * (1.0 - 1e-9);
    let n = pairs.len() as u32;
    if n <= EXACT_MAX {
        // Flipping all signs gives the same statistic, so the first pair keeps its own.
        let all = 1_u32 << (n - 1);
        let extreme = (0..all)
            .filter(|bits| is_extreme(statistic(&mut |i| i > 0 && bits >> (i - 1) & 1 == 1)));
        return extreme.count() as f64 / f64::from(all);
    }
    let mut rng = Sequence::new(seed, Stream::Blocks);
    let mut extreme = 0;
    for _ in 0..DRAWS {
        let (mut bits, mut left) = (0, 0);
        let mut sign = |_| {
            if left == 0 {
                (bits, left) = (rng.next_u64(), 64);
            }
            left -= 1;
            let is_set = bits & 1 == 1;
            bits >>= 1;
            is_set
        };
        extreme += u32::from(is_extreme(statistic(&mut sign)));
    }
    // The observed signs are one of the draws, so that the test is exact (Phipson and Smyth,
    // Statistical Applications in Genetics and Molecular Biology 9, 2010).
    f64::from(extreme + 1) / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(n: usize, quantiles: usize, shift: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut rng = Sequence::new(seed, Stream::Pick);
        (0..n).map(|_| (0..quantiles).map(|_| rng.normal() + shift).collect()).collect()
    }

    #[test]
    fn the_smallest_p_value_is_that_of_one_sign_in_all() {
        let alike: Vec<Vec<f64>> = (1..=8).map(|i| vec![f64::from(i), 1.0]).collect();
        assert_eq!(p_value(&alike, 1), 1.0 / 128.0);
        let many = vec![vec![1.0]; 40];
        assert_eq!(p_value(&many, 1), 1.0 / 10_000.0);
        assert_eq!(p_value(&[], 1), 1.0);
        assert_eq!(p_value(&vec![vec![0.0, 0.0]; 6], 1), 1.0, "nothing differs");
    }

    #[test]
    fn p_values_of_equal_distributions_are_uniform() {
        for n in [8, 20] {
            let small = (0..600).filter(|&seed| p_value(&pairs(n, 5, 0.0, seed), seed) <= 0.1);
            // 60 are expected; the binomial standard deviation is 7.3.
            let small = small.count();
            assert!((35..=85).contains(&small), "{n}: {small}");
        }
        let found = (0..50).filter(|&seed| p_value(&pairs(20, 5, 1.0, seed), seed) <= 0.01);
        assert!(found.count() >= 48);
    }
}
