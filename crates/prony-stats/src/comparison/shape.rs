//! Whether two distributions differ: a randomization test over pairs of blocks.
//!
//! If both halves of a pair come from the same distribution, exchanging them changes nothing but
//! the signs of the pair's differences (Fisher, The Design of Experiments, 1935; Pitman,
//! Supplement to the JRSS 4, 1937). The statistic is the sum over the quantiles of
//! [`GRID`] of the squared sum of the log ratios, each divided by the sum of their squares.
//!
//! Distributions with different percentiles, or means, differ. So what a percentile decides, the
//! test of the distribution decides as well: with so few pairs that no p-value is small enough,
//! Student's t can still decide. That costs no error probability: where the distributions are
//! equal, the percentiles are too, and the wrong decision about one of them is counted there.

use prony_base::rng::{Sequence, Stream};

use super::figure::{Figure, GRID};
use super::interval::{self, Change, Ends};
use super::{Band, Cell, Compared, Missing, Outcome, Shape, outcome};

/// Up to this number of pairs, all signs are tried.
const EXACT_MAX: u32 = 12;
/// How many signs are drawn for more pairs.
const DRAWS: u32 = 9_999;

impl Shape {
    pub(super) fn of_pairs(pairs: &[(&Cell, &Cell)], margin: f64, error: f64, seed: u64) -> Self {
        let needs = Figure::Distribution.samples_needed();
        let grids: Option<Vec<_>> =
            pairs.iter().map(|(a, b)| Some((a.grid.as_ref()?, b.grid.as_ref()?))).collect();
        let Some(grids) = grids else {
            return Self::missing(Missing::TooFewSamples { needs }, error);
        };
        let difference = |(a, b): &(&Vec<Ends>, &Vec<Ends>)| {
            b.iter().zip(a.iter()).map(|(b, a)| b.against(*a)).collect::<Vec<Ends>>()
        };
        let differences: Vec<Vec<Ends>> = grids.iter().map(difference).collect();
        if !differences.iter().flatten().all(|d| d.is_bounded()) {
            return Self::missing(Missing::Unbounded, error);
        }
        let of = |q: usize| {
            let column: Vec<Ends> = differences.iter().map(|d| d[q]).collect();
            interval::of_pairs(Figure::Distribution, &column, error, 0.0)
        };
        let changes: Option<Vec<Change>> = (0..GRID.len()).map(of).collect();
        let Some(changes) = changes else { return Self::missing(Missing::TooFewRounds, error) };
        // A pair of which the meter disturbed a half cannot be exchanged.
        let is_whole = |(a, b): &&(&Cell, &Cell)| !a.is_disturbed && !b.is_disturbed;
        let exchanged = pairs.iter().zip(&differences).filter(|(pair, _)| is_whole(pair));
        let measured = |d: &Vec<Ends>| d.iter().map(|d| d.measured).collect::<Vec<f64>>();
        let exchanged: Vec<Vec<f64>> = exchanged.map(|(_, d)| measured(d)).collect();
        let p_value = p_value(&exchanged, seed);
        Self::of(&changes, Some(p_value), margin, error)
    }

    pub(super) fn missing(missing: Missing, error: f64) -> Self {
        Self {
            p_value: None,
            bands: Vec::new(),
            missing: Some(missing),
            outcome: Outcome::Undecided,
            error,
            shown_by: None,
        }
    }

    /// All quantiles within the margin are an intersection of tests, each of which needs the whole
    /// error probability (Berger, Technometrics 24, 1982).
    pub(super) fn of(changes: &[Change], p_value: Option<f64>, margin: f64, error: f64) -> Self {
        let band = |(&quantile, change): (&f64, &Change)| Band {
            quantile,
            estimate: change.estimate,
            interval: change.interval,
        };
        let is_same =
            |c: &Change| outcome(Figure::Distribution, c.interval, margin) == Outcome::Same;
        let outcome = if changes.iter().all(is_same) {
            Outcome::Same
        } else if p_value.is_some_and(|p| p <= error) {
            Outcome::Higher
        } else {
            Outcome::Undecided
        };
        Self {
            p_value,
            bands: GRID.iter().zip(changes).map(band).collect(),
            missing: None,
            outcome,
            error,
            shown_by: None,
        }
    }

    /// The same, together with what the means and percentiles of the same times decide.
    pub(super) fn with(self, figures: &[Compared]) -> Self {
        let differs = |c: &&Compared| {
            let of_times = matches!(c.figure, Figure::Mean | Figure::Percentile(_));
            of_times && matches!(c.outcome, Outcome::Higher | Outcome::Lower)
        };
        // The percentiles beyond the grid can differ where all of its quantiles are the same.
        let is_inside = |c: &&Compared| {
            let ends = GRID[0] * 100.0..=GRID[GRID.len() - 1] * 100.0;
            matches!(c.figure, Figure::Percentile(p) if ends.contains(&p))
        };
        let mut found = figures.iter().filter(differs);
        let shown_by = match self.outcome {
            _ if self.missing.is_some() => None,
            Outcome::Same => found.find(is_inside),
            _ => found.clone().find(is_inside).or_else(|| found.next()),
        };
        match shown_by {
            Some(c) => Self { outcome: Outcome::Higher, shown_by: Some(c.figure), ..self },
            None => self,
        }
    }
}

/// The probability, if both are the same, of a statistic at least as large as that of these
/// pairs: log ratios of each quantile. The draws depend on the seed alone.
fn p_value(pairs: &[Vec<f64>], seed: u64) -> f64 {
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
