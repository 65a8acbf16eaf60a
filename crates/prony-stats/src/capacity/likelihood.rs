//! What the trials say of the curve of one threshold: how far each agrees with each curve.
//!
//! A curve is a power of the rate: the mean excess is `(rate / capacity)^slope`, 1 at the capacity.
//! A share of requests is without bias however short a trial is, unlike the percentile of a trial.
//! Requests beyond a limit come in bursts. Their number is nearly Poisson, and a burst counts once,
//! so a trial is worth its number of bursts; between trials, the mean itself may vary, by a gamma
//! distribution. Together these are the negative binomial distribution.

use super::grid::Grid;
use crate::summary::student::t_critical;

/// Quarters of a trial, in which requests beyond the limit are counted.
pub(super) const PARTS: usize = 4;
/// A curve is a power of the rate within these; beyond, it is flat.
pub(super) const EXCESS_LOW: f64 = 0.02;
pub(super) const EXCESS_HIGH: f64 = 60.0;
/// Bursts in trials with a higher excess are those of an overload, and say nothing of others.
const BURSTS_BELOW: f64 = 10.0;
/// The slopes: 2 to 512.
const SLOPE_MIN: f64 = 2.0;
const SLOPES: usize = 17;
/// The variances between trials, relative to the square of the mean, and how likely each is before
/// the trials.
const VARIANCES: [(f64, f64); 7] =
    [(0.01, 1.0), (0.04, 1.0), (0.12, 1.0), (0.35, 0.7), (1.0, 0.3), (3.0, 0.1), (9.0, 0.03)];
/// The logarithm of the probability that a trial is disturbed and says nothing; of one that fell
/// behind; and of a short one that brackets.
const DISTURBED: f64 = 12.0;
const DISTURBED_BEHIND: f64 = 8.0;
const DISTURBED_SHORT: f64 = 4.0;
/// Of the slope where nothing is known of it: its median, and the standard deviation of its
/// logarithm.
const SLOPE_USUAL: f64 = 16.0;
const SLOPE_SPREAD: f64 = 1.2;
/// The standard deviation of the logarithm of the slope of a queue, and the relative error of its
/// saturation.
const QUEUE_SPREAD: f64 = 0.4;
const SATURATION_ERROR: f64 = 0.02;
/// The share of targets that are no queues.
const OTHERS: f64 = 0.1;
/// Closer to saturation, the slope of a queue is not known.
const SATURATED: f64 = 0.98;
/// The fewest degrees of freedom of the size of the bursts.
const FREEDOM_MIN: f64 = 3.0;

/// What one trial says of one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Datum {
    /// The logarithm of the rate.
    pub(super) rate: f64,
    /// The excess, at least 0; infinite if the target failed or fell behind.
    pub(super) excess: f64,
    /// How many requests beyond the limit an excess of 1 would be, above 0.
    pub(super) allowed: f64,
    /// How many there were in each quarter of the trial, if that is known.
    pub(super) parts: Option<[f64; PARTS]>,
    /// Whether it is a short trial of the bracketing.
    pub(super) short: bool,
}

/// What is known of a slope before the trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prior {
    /// The logarithm of the highest throughput, if an overload has shown it.
    pub(super) saturation: Option<f64>,
    /// By how many powers of e the threshold lies below all requests: `ln 100` for a p99.
    pub(super) depth: f64,
}

/// The posterior of one threshold on a grid.
#[derive(Clone, Debug)]
pub(super) struct Weighed {
    /// Of each cell.
    pub(super) mass: Vec<f64>,
    /// The mean slope (geometric).
    pub(super) slope: f64,
    /// Of each slope, those of each cell.
    joint: Vec<f64>,
    /// How many requests one burst is.
    pub(super) burst: f64,
    /// The logarithm of the probability of the data, but for a constant.
    pub(super) evidence: f64,
}

impl Weighed {
    /// The posterior from these trials. `burst` is the size of the bursts if it is given, else it
    /// is estimated.
    pub(super) fn of(data: &[Datum], prior: Prior, grid: &Grid, burst: Option<f64>) -> Self {
        let burst = burst.unwrap_or_else(|| burst_of(data, prior, grid));
        let cells = grid.middles.len();
        let logs = log_likelihoods(data, prior, grid, burst, &VARIANCES);
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut joint = vec![0.0; SLOPES * cells];
        for (n, rows) in logs.chunks(VARIANCES.len() * cells).enumerate() {
            for row in rows.chunks(cells) {
                for (i, log) in row.iter().enumerate() {
                    if *log > most - 30.0 {
                        joint[n * cells + i] += (log - most).exp() * grid.width(i);
                    }
                }
            }
        }
        let total: f64 = joint.iter().sum();
        joint.iter_mut().for_each(|weight| *weight /= total);
        let mut mass = vec![0.0; cells];
        let mut slope = 0.0;
        for (row, steep) in joint.chunks(cells).zip(slopes()) {
            row.iter().zip(&mut mass).for_each(|(weight, sum)| *sum += weight);
            slope += row.iter().sum::<f64>() * steep.ln();
        }
        Self { mass, slope: slope.exp(), joint, burst, evidence: most + total.ln() }
    }

    /// The logarithm of the excess at a rate (a logarithm): the quantiles of its posterior.
    pub(super) fn excess_at(&self, rate: f64, grid: &Grid, quantiles: [f64; 3]) -> [f64; 3] {
        let each = slopes().flat_map(|slope| grid.middles.iter().map(move |c| slope * (rate - c)));
        let mut all: Vec<(f64, f64)> =
            each.zip(self.joint.iter().copied()).filter(|(_, weight)| *weight > 0.0).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        quantiles.map(|q| {
            let mut sum = 0.0;
            let found = all.iter().find(|(_, weight)| {
                sum += weight;
                sum >= q
            });
            found.or_else(|| all.last()).map_or(0.0, |(value, _)| *value)
        })
    }
}

/// Whether a threshold was ever near its limit: one that holds everywhere by far says nothing of
/// where it would be missed.
pub(super) fn is_active(data: &[Datum]) -> bool {
    data.iter().any(|datum| datum.excess > 0.25)
}

fn slopes() -> impl Iterator<Item = f64> {
    (0..SLOPES).map(|i| SLOPE_MIN * 2_f64.powf(i as f64 / 2.0))
}

/// How many requests one burst is: the index of dispersion of the requests beyond the limit, within
/// trials (between their quarters, and their halves) or between them, whichever is larger. Widened
/// for the number of bursts that show it.
fn burst_of(data: &[Datum], prior: Prior, grid: &Grid) -> f64 {
    let (mut quarters, mut halves, mut beyond) = (0.0, 0.0, 0.0);
    let near = |datum: &&Datum| datum.excess < BURSTS_BELOW;
    for parts in data.iter().filter(near).filter_map(|datum| datum.parts) {
        let all: f64 = parts.iter().sum();
        let squares: f64 = parts.iter().map(|n| n * n).sum();
        quarters += PARTS as f64 * squares - all * all;
        halves += (parts[0] + parts[1] - parts[2] - parts[3]).powi(2);
        beyond += all;
    }
    let least: f64 = 1.0;
    let (mut burst, mut seen, mut trials) = (least, 0.0, 0.0);
    if beyond > 0.0 {
        burst = least.max(quarters / (PARTS as f64 - 1.0) / beyond).max(halves / beyond);
    }
    for datum in data.iter().filter(|datum| !datum.short) {
        trials += 1.0;
        seen += if datum.excess < BURSTS_BELOW { datum.excess * datum.allowed } else { 0.0 };
    }
    let widened = |burst: f64| {
        let freedom = (seen / burst).min(3.0 * trials).max(FREEDOM_MIN);
        burst * (t_critical(0.05, freedom) / t_critical(0.05, 1e9)).powi(2)
    };
    if trials > 3.0 {
        burst = burst.max(between_trials(data, prior, grid, widened(burst)));
    }
    widened(burst)
}

/// Pearson's dispersion between trials around the best curve.
fn between_trials(data: &[Datum], prior: Prior, grid: &Grid, burst: f64) -> f64 {
    let cells = grid.middles.len();
    let logs = log_likelihoods(data, prior, grid, burst, &VARIANCES[1..2]);
    let best = (0..logs.len()).max_by(|&a, &b| logs[a].total_cmp(&logs[b])).unwrap_or(0);
    let slope = slopes().nth(best / cells).unwrap_or(SLOPE_USUAL);
    let capacity = grid.middles[best % cells];
    let (mut squares, mut sum, mut trials) = (0.0, 0.0, 0.0);
    for datum in data.iter().filter(|datum| !datum.short && datum.excess < BURSTS_BELOW) {
        let mean = mean_excess(slope * (datum.rate - capacity));
        if mean < BURSTS_BELOW {
            squares += (datum.allowed * (datum.excess - mean)).powi(2);
            sum += datum.allowed * mean;
            trials += 1.0;
        }
    }
    if trials > 2.0 { squares / sum * trials / (trials - 2.0) } else { 0.0 }
}

fn mean_excess(log: f64) -> f64 {
    log.clamp(EXCESS_LOW.ln(), EXCESS_HIGH.ln()).exp()
}

/// For each slope and variance the logarithms of the likelihood of the cells.
fn log_likelihoods(
    data: &[Datum],
    prior: Prior,
    grid: &Grid,
    burst: f64,
    variances: &[(f64, f64)],
) -> Vec<f64> {
    let cells = grid.middles.len();
    let mut logs = vec![0.0; SLOPES * variances.len() * cells];
    for datum in data {
        let seen = Seen::of(datum, burst);
        for (slope, rows) in slopes().zip(logs.chunks_mut(variances.len() * cells)) {
            let means = grid.middles.iter().map(|c| mean_excess(slope * (datum.rate - c)));
            let means: Vec<(f64, f64)> =
                means.map(|mean| mean * seen.allowed).map(|mean| (mean, mean.ln())).collect();
            for ((variance, _), row) in variances.iter().zip(rows.chunks_mut(cells)) {
                seen.add(1.0 / variance, &means, row);
            }
        }
    }
    for (slope, rows) in slopes().zip(logs.chunks_mut(variances.len() * cells)) {
        let priors: Vec<f64> = grid.middles.iter().map(|c| prior.log(slope, *c)).collect();
        for ((_, likely), row) in variances.iter().zip(rows.chunks_mut(cells)) {
            row.iter_mut().zip(&priors).for_each(|(sum, prior)| *sum += prior + likely.ln());
        }
    }
    logs
}

/// A trial in bursts.
struct Seen {
    /// The bursts that it saw, and those of an excess of 1.
    bursts: f64,
    allowed: f64,
    /// Whether it saw that number or more.
    at_least: bool,
    /// The least of its logarithm.
    disturbed: f64,
}

impl Seen {
    fn of(datum: &Datum, burst: f64) -> Self {
        let at_least = datum.excess >= EXCESS_HIGH;
        let allowed = datum.allowed / burst;
        let disturbed = match (datum.short, datum.excess.is_infinite()) {
            (true, _) => DISTURBED_SHORT,
            (false, true) => DISTURBED_BEHIND,
            (false, false) => DISTURBED,
        };
        Self { bursts: allowed * datum.excess.min(EXCESS_HIGH), allowed, at_least, disturbed }
    }

    /// Adds the logarithms of the likelihood for these means (each with its logarithm).
    fn add(&self, shape: f64, means: &[(f64, f64)], row: &mut [f64]) {
        let power = shape + self.bursts;
        let of = |mean: f64, ln: f64| self.bursts * ln - power * (shape + mean).ln();
        let own = if self.at_least {
            let bound = EXCESS_HIGH * self.allowed;
            -of(bound, bound.ln())
        } else {
            libm::lgamma(power) - libm::lgamma(shape) - libm::lgamma(self.bursts + 1.0)
                + shape * shape.ln()
        };
        for (sum, (mean, ln)) in row.iter_mut().zip(means) {
            *sum += (own + of(*mean, *ln)).max(-self.disturbed);
        }
    }
}

impl Prior {
    /// The logarithm of the probability of a slope at a capacity. In a queue, the share of requests
    /// that wait longer than a limit is exponential in the limit and in what is left of its
    /// throughput, so that the slope at the capacity follows from the load there.
    fn log(&self, slope: f64, capacity: f64) -> f64 {
        let normal = |mean: f64, spread: f64| {
            let z = (slope.ln() - mean) / spread;
            (-0.5 * z * z).exp() / spread
        };
        let usual = normal(SLOPE_USUAL.ln(), SLOPE_SPREAD);
        let load = self.saturation.map(|saturation| (capacity - saturation).exp());
        let Some(load) = load.filter(|load| *load < SATURATED) else { return usual.ln() };
        let queue = (self.depth * load / (1.0 - load)).max(SLOPE_MIN).ln();
        let spread = QUEUE_SPREAD.hypot((SATURATION_ERROR / (1.0 - load)).min(1.0));
        ((1.0 - OTHERS) * normal(queue, spread) + OTHERS * usual).ln()
    }
}
