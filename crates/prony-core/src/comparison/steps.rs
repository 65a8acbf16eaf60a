//! Steps in a series of runs: where the level of a figure changes.
//!
//! The split with the largest Student's t between the runs before and after it is a step if that t
//! is larger than in all but few random orders of the same runs (a permutation test of the
//! maximum, which allows for the choice of the split); then both parts are searched in the same way
//! (binary segmentation: Scott and Knott, Biometrics 30, 1974; with permutations as in E-divisive,
//! Matteson and James, JASA 109, 2014).

use crate::rng::{Sequence, Stream};

/// The fewest runs on each side of a step.
const SIDE_MIN: usize = 3;
/// The fewest runs among which a step can be found: of nine, one random order in 63 separates four
/// from five as well as the clearest step does, and that is more than [`STEP_ERROR`].
pub const RUNS_MIN: usize = 10;
/// Random orders.
const DRAWS: u32 = 999;
/// The probability that a series without a step has one all the same.
pub const STEP_ERROR: f64 = 0.01;

/// A change of the level of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The index of the first run after it.
    pub at: usize,
    /// The mean of the runs before it, since the step before.
    pub before: f64,
    /// The mean of the runs after it, up to the next step.
    pub after: f64,
}

/// The steps of a series, in order. The random orders depend on its length alone.
pub fn steps(values: &[f64]) -> Vec<Step> {
    let mut found = Vec::new();
    search(values, 0, &mut found);
    found.sort_unstable();
    let mut ends: Vec<usize> = vec![0];
    ends.extend(&found);
    ends.push(values.len());
    let mean =
        |from: usize, to: usize| values[from..to].iter().sum::<f64>() / (to - from).max(1) as f64;
    let step = |w: &[usize]| Step { at: w[1], before: mean(w[0], w[1]), after: mean(w[1], w[2]) };
    ends.windows(3).map(step).collect()
}

fn search(values: &[f64], offset: usize, found: &mut Vec<usize>) {
    let Some((at, statistic)) = best(values) else { return };
    let mut rng = Sequence::numbered(values.len() as u64, Stream::Blocks, offset as u64);
    let mut order = values.to_vec();
    let mut extreme = 0;
    for _ in 0..DRAWS {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        extreme += u32::from(best(&order).is_some_and(|(_, s)| s >= statistic * (1.0 - 1e-9)));
    }
    // The observed order is one of them.
    if f64::from(extreme + 1) / f64::from(DRAWS + 1) > STEP_ERROR {
        return;
    }
    found.push(offset + at);
    search(&values[..at], offset, found);
    search(&values[at..], offset + at, found);
}

/// The best split and its squared t; `None` for too few runs, or if all are equal.
fn best(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    if n < 2 * SIDE_MIN {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let total: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    if total <= 0.0 {
        return None;
    }
    let (mut sum, mut best) = (0.0, (0, -1.0));
    for (i, v) in values.iter().enumerate() {
        sum += v - mean;
        let (left, right) = (i + 1, n - i - 1);
        if left < SIDE_MIN || right < SIDE_MIN {
            continue;
        }
        // The sum of squares between the two parts, and what is left within them.
        let between = sum * sum * n as f64 / (left as f64 * right as f64);
        let within = (total - between).max(total * 1e-12);
        let statistic = between / within;
        if statistic > best.1 {
            best = (left, statistic);
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut rng = Sequence::new(seed, Stream::Pick);
        let level = |&(n, mean): &(usize, f64)| vec![mean; n];
        levels.iter().flat_map(level).map(|mean| mean + rng.normal()).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let found = steps(&series(&[(15, 0.0), (10, 6.0), (12, 2.0)], 1));
        let at: Vec<usize> = found.iter().map(|s| s.at).collect();
        assert_eq!(at, [15, 25]);
        assert!((found[0].after - found[0].before - 6.0).abs() < 1.0, "{found:?}");
        assert!(found[1].after < found[1].before);
    }

    #[test]
    fn series_without_a_step_have_none() {
        // 1 % of 300 are 3; nine or more occur once in 250 test runs.
        let marked = (0..300).filter(|&seed| !steps(&series(&[(20, 0.0)], seed)).is_empty());
        let marked = marked.count();
        assert!(marked <= 8, "{marked} of 300");
        assert_eq!(steps(&[1.0; 30]), []);
        assert_eq!(steps(&[1.0, 1.0, 9.0, 9.0]), [], "too few runs");
        assert_eq!(steps(&[]), []);
    }
}
