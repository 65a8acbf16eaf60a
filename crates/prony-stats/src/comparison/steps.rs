//! Steps in a series of runs: where the level of a figure changes.
//!
//! The split with the largest Student's t between the runs before and after it is a step if that t
//! is larger than in all but few random orders of the same runs (a permutation test of the
//! maximum, which allows for the choice of the split); then both parts are searched in the same way
//! (binary segmentation: Scott and Knott, Biometrics 30, 1974; with permutations as in E-divisive,
//! Matteson and James, JASA 109, 2014).

use prony_base::rng::{Sequence, Stream};

use crate::summary::student::t_critical;

/// The fewest runs on each side of a step.
pub const SIDE_MIN: usize = 3;
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
    /// Half of the 95 % confidence interval of their difference, as if the place of the step were
    /// known (Welch, Biometrika 34, 1947).
    pub reach: f64,
}

/// The steps of a series, in order. The random orders depend on its length alone.
pub fn steps(values: &[f64]) -> Vec<Step> {
    let mut found = Vec::new();
    search(values, 0, &mut found);
    found.sort_unstable();
    let mut ends: Vec<usize> = vec![0];
    ends.extend(&found);
    ends.push(values.len());
    let step = |w: &[usize]| {
        let sides = [&values[w[0]..w[1]], &values[w[1]..w[2]]];
        let [before, after] = sides.map(mean);
        Step { at: w[1], before, after, reach: reach(sides) }
    };
    ends.windows(3).map(step).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half of the interval of the difference between two means.
fn reach(sides: [&[f64]; 2]) -> f64 {
    let [a, b] = sides.map(|side| {
        let squares: f64 = side.iter().map(|v| (v - mean(side)).powi(2)).sum();
        let freedom = side.len() as f64 - 1.0;
        (squares / freedom / side.len() as f64, freedom)
    });
    let variance = a.0 + b.0;
    if variance <= 0.0 {
        return 0.0;
    }
    let freedom = variance * variance / (a.0 * a.0 / a.1 + b.0 * b.0 / b.1);
    t_critical(0.05, freedom) * variance.sqrt()
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

    /// By hand: the variances of the means are 1/3 each, with 4 degrees of freedom together.
    #[test]
    fn a_change_has_the_interval_of_two_means() {
        let reach = reach([&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]]);
        assert!((reach - 2.776_445 * (2.0_f64 / 3.0).sqrt()).abs() < 1e-5, "{reach}");
        assert_eq!(super::reach([&[1.0; 3], &[2.0; 3]]), 0.0);
        // 285 are 95 %.
        let held = (0..300).filter(|&seed| {
            let found = steps(&series(&[(10, 0.0), (10, 4.0)], seed));
            found.first().is_some_and(|s| (s.after - s.before - 4.0).abs() <= s.reach)
        });
        let held = held.count();
        assert!(held >= 276, "{held} of 300");
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
