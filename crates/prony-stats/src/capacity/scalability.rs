//! The Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007): with N connections a
//! closed loop completes `X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))` requests per
//! second.
//!
//! The time of one cycle of a connection, `N / X(N)`, is linear in `1/lambda`, `sigma/lambda` and
//! `kappa/lambda`. So the model is fitted by weighted linear regression (the weights make
//! deviations relative), and the ratios have Fieller's intervals (Journal of the Royal Statistical
//! Society B 16, 1954) with a variance that need not be equal at all N (HC3: MacKinnon and White,
//! Journal of Econometrics 29, 1985). Whether the model holds is a test for lack of fit: the
//! deviations of the means of trials with equal N against those between such trials.

use std::array;

use serde::Serialize;

use super::Estimate;
use crate::summary::confidence::Interval;
use crate::summary::student::{f_error, t_critical};

/// The parameters.
const PARAMETERS: usize = 3;
/// The error probability of the test for lack of fit.
const LACK_OF_FIT: f64 = 0.01;
/// A model that misses no throughput by more than this is good enough, whatever the test says.
const MISFIT_MAX: f64 = 0.02;
/// The error probability of the intervals.
const ERROR: f64 = 0.05;
/// Fits with new weights; the weights change little after the second.
const FITS: usize = 8;

type Vector = [f64; PARAMETERS];
type Matrix = [Vector; PARAMETERS];

/// How the throughput of a closed loop depends on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Scalability {
    /// The model describes it.
    Fits {
        /// The throughput of one connection, per second.
        lambda: Estimate,
        /// The contention: the share of the work that connections cannot do at the same time.
        sigma: Estimate,
        /// The coherency: the cost of each pair of connections.
        kappa: Estimate,
        /// The number of connections with the highest throughput, if kappa is certainly positive.
        peak: Option<f64>,
        /// The largest relative deviation of a mean throughput from the model.
        misfit: f64,
    },
    /// The model does not describe it.
    Deviates {
        /// The largest relative deviation of a mean throughput from the best fit.
        misfit: f64,
        /// The number of connections at which it occurs.
        at: f64,
        /// The probability of such a lack of fit if the model held.
        p_value: f64,
    },
    /// The throughput grows faster than the number of connections, which the model excludes.
    Superlinear,
    /// There are too few trials, or they differ too much.
    Unknown,
}

impl Scalability {
    /// The throughput by the model.
    pub fn throughput(&self, connections: f64) -> Option<f64> {
        let Self::Fits { lambda, sigma, kappa, .. } = self else { return None };
        let n = connections;
        let slowdown = 1.0 + sigma.value? * (n - 1.0) + kappa.value? * n * (n - 1.0);
        Some(lambda.value? * n / slowdown)
    }
}

/// Fits the model to pairs of connections and throughput.
pub(super) fn fit(trials: &[(f64, f64)]) -> Scalability {
    let mut known: Vec<(f64, f64)> = trials.iter().copied().filter(|(_, x)| *x > 0.0).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups: Vec<&[(f64, f64)]> = known.chunk_by(|a, b| a.0 == b.0).collect();
    let most = known.last().map_or(1.0, |(n, _)| *n);
    let between = known.len().saturating_sub(groups.len());
    if groups.len() <= PARAMETERS || between < groups.len() {
        return Scalability::Unknown;
    }
    let model = fitted(&known, &groups, most);
    // A curve that bends upwards can leave nothing of the model.
    let is_unknown = model == Scalability::Unknown;
    let is_faster = is_unknown && is_faster(groups[0], groups[groups.len() - 1]);
    if is_faster { Scalability::Superlinear } else { model }
}

fn fitted(known: &[(f64, f64)], groups: &[&[(f64, f64)]], most: f64) -> Scalability {
    let regression = Regression::of(known, most).filter(|regression| regression.is_positive);
    let Some(regression) = regression else { return Scalability::Unknown };
    let lack = LackOfFit::of(groups, &regression);
    if lack.p_value < LACK_OF_FIT && lack.misfit > MISFIT_MAX {
        let LackOfFit { misfit, at, p_value, .. } = lack;
        return Scalability::Deviates { misfit, at, p_value };
    }
    // A deviation that is small, but certain, is more than the trials with equal N show.
    let is_certain = lack.p_value < LACK_OF_FIT;
    let freedom = if is_certain { groups.len() } else { known.len() } - PARAMETERS;
    let wider = if is_certain { lack.ratio } else { 1.0 };
    regression.model(t_critical(ERROR, freedom as f64), wider, lack.misfit)
}

/// Whether each connection completes more in all trials of one number of connections than in any
/// of another.
fn is_faster(few: &[(f64, f64)], many: &[(f64, f64)]) -> bool {
    let each = |trials: &[(f64, f64)]| trials.iter().map(|(n, x)| x / n).collect::<Vec<f64>>();
    let most = each(few).into_iter().fold(0.0, f64::max);
    each(many).into_iter().all(|x| x > most * (1.0 + MISFIT_MAX))
}

/// The regression of the cycle time on 1, N - 1 and N (N - 1), the latter two divided by their
/// largest values.
struct Regression {
    /// Whether the fit has a positive time for each trial.
    is_positive: bool,
    scale: Vector,
    coefficients: Vector,
    covariance: Matrix,
}

impl Regression {
    fn of(trials: &[(f64, f64)], most: f64) -> Option<Self> {
        let scale = [1.0, (most - 1.0).max(1.0), (most * (most - 1.0)).max(1.0)];
        let row = |n: f64| [1.0, (n - 1.0) / scale[1], n * (n - 1.0) / scale[2]];
        let mut weights: Vec<f64> = trials.iter().map(|(n, x)| (x / n).powi(2)).collect();
        let (mut coefficients, mut is_positive) = ([0.0; PARAMETERS], true);
        let mut inverse = [[0.0; PARAMETERS]; PARAMETERS];
        for _ in 0..FITS {
            let mut moments = [[0.0; PARAMETERS]; PARAMETERS];
            let mut right = [0.0; PARAMETERS];
            for (&(n, x), w) in trials.iter().zip(&weights) {
                let row = row(n);
                for i in 0..PARAMETERS {
                    right[i] += w * row[i] * n / x;
                    for j in 0..PARAMETERS {
                        moments[i][j] += w * row[i] * row[j];
                    }
                }
            }
            inverse = inverted(&moments)?;
            coefficients = array::from_fn(|i| dot(&inverse[i], &right));
            let fitted = trials.iter().map(|(n, _)| dot(&row(*n), &coefficients));
            let fitted: Vec<f64> = fitted.collect();
            is_positive = fitted.iter().all(|y| *y > 0.0);
            if !is_positive {
                break;
            }
            weights = fitted.iter().map(|y| y.powi(-2)).collect();
        }
        let mut middle = [[0.0; PARAMETERS]; PARAMETERS];
        for (&(n, x), w) in trials.iter().zip(&weights) {
            let row = row(n);
            let leverage = w * dot(&row, &array::from_fn(|i| dot(&inverse[i], &row)));
            let deviation = (n / x - dot(&row, &coefficients)) / (1.0 - leverage).max(1e-6);
            let square = (w * deviation).powi(2);
            for i in 0..PARAMETERS {
                for j in 0..PARAMETERS {
                    middle[i][j] += square * row[i] * row[j];
                }
            }
        }
        let covariance = product(&product(&inverse, &middle), &inverse);
        Some(Self { is_positive, scale, coefficients, covariance })
    }

    /// The time of a cycle by the fit.
    fn cycle(&self, n: f64) -> f64 {
        let terms = [1.0, (n - 1.0) / self.scale[1], n * (n - 1.0) / self.scale[2]];
        dot(&terms, &self.coefficients)
    }

    fn model(&self, t: f64, wider: f64, misfit: f64) -> Scalability {
        let first = self.coefficients[0];
        let reach = t * (self.covariance[0][0] * wider).sqrt();
        if reach >= first {
            return Scalability::Unknown;
        }
        let one = Interval { lo: 1.0 / (first + reach), hi: 1.0 / (first - reach) };
        let lambda = Estimate { value: Some(1.0 / first), interval: Some(one) };
        let (sigma, kappa) = (self.ratio(1, t, wider), self.ratio(2, t, wider));
        if sigma.1.hi < 0.0 || kappa.1.hi < 0.0 {
            return Scalability::Superlinear;
        }
        let peak = (kappa.1.lo > 0.0 && sigma.0 < 1.0).then(|| ((1.0 - sigma.0) / kappa.0).sqrt());
        // By the model, neither is negative.
        let positive = |(value, interval): (f64, Interval)| Estimate {
            value: Some(value.max(0.0)),
            interval: Some(Interval { lo: interval.lo.max(0.0), hi: interval.hi }),
        };
        let (sigma, kappa) = (positive(sigma), positive(kappa));
        Scalability::Fits { lambda, sigma, kappa, peak, misfit }
    }

    /// The ratio of a coefficient to the first one, with Fieller's interval. The first is known to
    /// differ from zero.
    fn ratio(&self, k: usize, t: f64, wider: f64) -> (f64, Interval) {
        let (a, b) = (self.coefficients[0], self.coefficients[k]);
        let var = |i: usize, j: usize| t * t * wider * self.covariance[i][j];
        let (aa, ab, bb) = (a * a - var(0, 0), a * b - var(0, k), b * b - var(k, k));
        let root = (ab * ab - aa * bb).max(0.0).sqrt();
        let of = |ratio: f64| ratio / self.scale[k];
        (of(b / a), Interval { lo: of((ab - root) / aa), hi: of((ab + root) / aa) })
    }
}

struct LackOfFit {
    misfit: f64,
    at: f64,
    /// The mean square of the misfits over that between trials with equal N.
    ratio: f64,
    p_value: f64,
}

impl LackOfFit {
    /// From the trials of each N, and their relative cycle times.
    fn of(groups: &[&[(f64, f64)]], regression: &Regression) -> Self {
        let (mut own, mut lack, mut n) = (0.0, 0.0, 0.0);
        let (mut misfit, mut at) = (0.0_f64, 1.0);
        for group in groups {
            let cycle = regression.cycle(group[0].0);
            let relative: Vec<f64> = group.iter().map(|(n, x)| n / x / cycle).collect();
            let size = relative.len() as f64;
            let mean = relative.iter().sum::<f64>() / size;
            own += relative.iter().map(|r| (r - mean).powi(2)).sum::<f64>();
            lack += size * (mean - 1.0).powi(2);
            n += size;
            let away = 1.0 / mean - 1.0;
            if away.abs() > misfit.abs() {
                (misfit, at) = (away, group[0].0);
            }
        }
        let above = groups.len().saturating_sub(PARAMETERS) as f64;
        let below = n - groups.len() as f64;
        // Throughputs without any difference between trials are known to that many digits at most.
        let ratio = (lack / above) / (own / below).max(1e-12);
        Self { misfit, at, ratio, p_value: f_error(ratio, above, below) }
    }
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    array::from_fn(|i| array::from_fn(|j| (0..PARAMETERS).map(|k| a[i][k] * b[k][j]).sum()))
}

/// The inverse of a symmetric matrix, by its cofactors; `None` if it has none.
fn inverted(m: &Matrix) -> Option<Matrix> {
    let minor = |i: usize, j: usize| {
        let (a, b) = ((i + 1) % 3, (i + 2) % 3);
        let (c, d) = ((j + 1) % 3, (j + 2) % 3);
        m[a][c] * m[b][d] - m[a][d] * m[b][c]
    };
    let determinant: f64 = (0..PARAMETERS).map(|j| m[0][j] * minor(0, j)).sum();
    let size = m[0][0] * m[1][1] * m[2][2];
    (determinant > size * 1e-14)
        .then(|| array::from_fn(|i| array::from_fn(|j| minor(j, i) / determinant)))
}

#[cfg(test)]
mod tests {
    use prony_base::rng::{Sequence, Stream};

    use super::*;

    const POINTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 14.0, 24.0, 40.0, 64.0];

    /// Three trials for each number of connections, with a relative deviation of `noise`.
    fn trials(model: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut rng = Sequence::new(seed, Stream::Pick);
        let points = POINTS.iter().flat_map(|n| [*n; 3]);
        points.map(|n| (n, model(n) * (noise * rng.normal()).exp())).collect()
    }

    fn usl(lambda: f64, sigma: f64, kappa: f64) -> impl Fn(f64) -> f64 {
        move |n| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
    }

    #[test]
    fn exact_model_is_found_exactly() {
        let Scalability::Fits { lambda, sigma, kappa, peak, misfit } =
            fit(&trials(usl(995.6, 0.026_7, 0.000_769), 1e-9, 1))
        else {
            panic!("it fits");
        };
        let near = |e: Estimate, truth: f64| {
            let value = e.value.expect("a value");
            assert!((value / truth - 1.0).abs() < 1e-5, "{value}, not {truth}");
        };
        near(lambda, 995.6);
        near(sigma, 0.026_7);
        near(kappa, 0.000_769);
        // The square root of (1 - sigma) / kappa.
        assert!((peak.expect("a peak") - 35.58).abs() < 0.01 && misfit.abs() < 1e-6);
    }

    #[test]
    fn intervals_cover_the_parameters() {
        for (sigma, kappa) in [(0.05, 0.001), (0.2, 0.0), (0.0, 0.0), (0.01, 0.01)] {
            let (mut fits, mut covered) = (0, [0; 3]);
            for seed in 0..200 {
                let fit = fit(&trials(usl(500.0, sigma, kappa), 0.03, seed));
                let Scalability::Fits { lambda, sigma: s, kappa: k, .. } = fit else { continue };
                fits += 1;
                for (i, (e, truth)) in
                    [(lambda, 500.0), (s, sigma), (k, kappa)].into_iter().enumerate()
                {
                    let interval = e.interval.expect("an interval");
                    covered[i] += i32::from(interval.lo <= truth && truth <= interval.hi);
                }
            }
            // The test for lack of fit errs in 1 %, and without a cost a parameter's upper end is
            // below zero in 2.5 %, each.
            assert!(fits >= 180, "sigma {sigma}, kappa {kappa}: {fits} fits");
            // 95 %; the standard deviation is 1.5 %.
            for covered in covered {
                let share = f64::from(covered) / f64::from(fits);
                assert!((0.90..=1.0).contains(&share), "{sigma} {kappa}: {share}");
            }
        }
    }

    #[test]
    fn other_models_are_refused() {
        // As many connections as workers scale linearly; more do not scale at all.
        let wall = fit(&trials(|n: f64| 100.0 * n.min(14.0), 0.01, 2));
        assert!(
            matches!(wall, Scalability::Deviates { misfit, .. } if misfit.abs() > 0.1),
            "{wall:?}"
        );
        let more = fit(&trials(|n: f64| 100.0 * n.powf(1.3), 0.01, 2));
        let refused = matches!(more, Scalability::Superlinear | Scalability::Deviates { .. });
        assert!(refused, "{more:?}");
        assert_eq!(wall.throughput(5.0), None);
    }

    #[test]
    fn too_few_trials_show_nothing() {
        let all = trials(usl(500.0, 0.1, 0.001), 0.01, 3);
        assert_eq!(fit(&all[..9]), Scalability::Unknown);
        let once: Vec<(f64, f64)> = all.iter().copied().step_by(3).collect();
        assert_eq!(fit(&once), Scalability::Unknown);
        assert_eq!(fit(&[]), Scalability::Unknown);
        let wild = fit(&trials(usl(500.0, 0.1, 0.001), 2.0, 4));
        assert!(!matches!(wild, Scalability::Fits { lambda, .. }
            if lambda.interval.is_some_and(|i| i.hi < 550.0)));
    }
}
