//! Tests for a change during the run, from its series over time.
//!
//! Two models are fitted by least squares to the logarithms of a figure's intervals: one step, and
//! a straight line. A model is accepted if its effect exceeds enough standard errors of the
//! residuals, inflated for their lag-1 autocorrelation by (1 + r) / (1 - r), the variance inflation
//! of a first-order autoregressive process (Bayley and Hammersley, JRSS Supplement 8, 1946), and if
//! the change is large enough to matter. `docs/verdict.md` explains how the limits were chosen.

use prony_base::units::Span;
use prony_plan::plan::Load;
use prony_plan::rate::Arrivals;
use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::super::confidence::Confidence;
use super::Reason;

/// The minimum number of complete intervals.
const CELLS_MIN: usize = 8;
/// The smallest change that matters, as a ratio.
const RATIO_MIN: f64 = 1.2;
/// The minimum assumed standard deviation of the logarithms: the bins of the series are 1.6 % wide.
const SPREAD_MIN: f64 = 0.02;
/// The response time after which a closed loop has begun: until then, most users wait for their
/// first reply, and the rate says nothing about the target.
const BEGUN: f64 = 0.9;
/// The maximum assumed lag-1 autocorrelation of the residuals.
const AUTOCORRELATION_MAX: f64 = 0.9;

/// A change during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The figure that changed.
    pub figure: Figure,
    /// Its value before the change, in requests per second or nanoseconds: for a step, the
    /// geometric mean of the intervals before it; for a drift, the median of the first fifth of the
    /// intervals.
    pub from: f64,
    /// Its value after the change, or the median of the last fifth.
    pub to: f64,
    /// The time of a step, counted from the start of the measurement; `None` for a drift.
    pub at: Option<Span>,
}

/// A figure that is tested for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Replies per second in a closed loop. In an open loop they follow the schedule.
    Rate,
    /// Median response time.
    P50,
    /// 90th percentile of the response time.
    P90,
}

/// The first figure that changed. `None` if the plan itself changes the rate.
pub(super) fn change(summary: &Summary) -> Option<Change> {
    let is_closed = matches!(summary.plan.load, Load::Closed { .. });
    let whole = whole_cells(summary)?;
    let (t, length) = (&summary.main, summary.main.series.interval());
    let cells = t.series.cells().get(..whole)?;
    let begun = cells.len().min(intervals_to_start(summary));
    let rate = || cells[begun..].iter().map(|c| c.replies as f64 / length.as_secs_f64()).collect();
    let times = |q| cells.iter().map(|c| c.quantile(q).map(|t| t.0 as f64)).collect();
    let figures: [(Figure, Option<Vec<f64>>); 3] = [
        (Figure::P50, times(0.5)),
        (Figure::Rate, is_closed.then(rate)),
        (Figure::P90, times(0.9)),
    ];
    figures.into_iter().find_map(|(figure, values)| {
        let is_enough = |v: &Vec<f64>| v.len() >= CELLS_MIN && v.iter().all(|&x| x > 0.0);
        let values = values.filter(is_enough)?;
        let before = if figure == Figure::Rate { begun } else { 0 };
        let Found { from, to, at } = found(&values)?;
        // The bins of the series are coarser than the exact minimum and maximum.
        let (low, high) = match figure {
            Figure::Rate => (0.0, f64::INFINITY),
            Figure::P50 | Figure::P90 => {
                (t.times.response.min()?.0 as f64, t.times.response.max()?.0 as f64)
            }
        };
        let (from, to) = (from.clamp(low, high), to.clamp(low, high));
        Some(Change { figure, from, to, at: at.map(|k| length * (before + k) as u64) })
    })
}

/// How many intervals begin before most users can have their first reply, if that takes a part of
/// an interval that matters.
fn intervals_to_start(summary: &Summary) -> usize {
    let t = &summary.main;
    let first = t.times.response.estimate(BEGUN).unwrap_or_default().as_secs_f64();
    let intervals = first / t.series.interval().as_secs_f64().max(1e-9);
    // A warm-up has the first replies.
    let is_soon = intervals < RATIO_MIN - 1.0 || summary.plan.warmup.as_secs_f64() >= first;
    if is_soon { 0 } else { intervals.ceil() as usize }
}

/// Whether response times are correlated over too much of the run for a confidence interval.
pub(super) fn correlated(summary: &Summary) -> Option<Reason> {
    whole_cells(summary)?;
    Confidence::of(&summary.main)
        .autocorrelation()
        .map(|redness| Reason::Autocorrelated { redness })
}

/// The number of complete intervals, if the plan has a constant load and there are enough of them.
fn whole_cells(summary: &Summary) -> Option<usize> {
    if summary.plan.has_changing_users() {
        return None;
    }
    if let Load::Open { rate, arrivals, .. } = &summary.plan.load
        && (rate.changes() || matches!(arrivals, Arrivals::Trace(_) | Arrivals::Log))
    {
        return None;
    }
    let t = &summary.main;
    let whole = (t.window().0 / t.series.interval().0.max(1)) as usize;
    (whole >= CELLS_MIN).then_some(whole)
}

/// A change in a sequence of positive values: the values before and after, and the index of a step.
struct Found {
    from: f64,
    to: f64,
    at: Option<usize>,
}

/// A fitted model and its residuals.
struct Fit {
    from: f64,
    to: f64,
    at: Option<usize>,
    residuals: Vec<f64>,
    /// The variance of the estimated effect, in units of the variance of the residuals.
    leverage: f64,
    /// The estimated effect: the height of the step, or the slope.
    effect: f64,
}

fn found(values: &[f64]) -> Option<Found> {
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    let (step, line) = (step(&logs), line(&logs));
    let first = if step.unexplained() <= line.unexplained() { [step, line] } else { [line, step] };
    let accepted = first.into_iter().find(Fit::is_significant)?;
    let (from, to) = match accepted.at {
        Some(_) => (accepted.from.exp(), accepted.to.exp()),
        // The ends of the fitted line may be values that no interval had.
        None => ends(values),
    };
    Some(Found { from, to, at: accepted.at })
}

/// The medians of the first and the last fifth of the values.
fn ends(values: &[f64]) -> (f64, f64) {
    let fifth = values.len().div_ceil(5);
    let median = |part: &[f64]| {
        let mut part = part.to_vec();
        part.sort_by(f64::total_cmp);
        part[part.len() / 2]
    };
    (median(&values[..fifth]), median(&values[values.len() - fifth..]))
}

impl Fit {
    fn unexplained(&self) -> f64 {
        self.residuals.iter().map(|r| r * r).sum()
    }

    fn is_significant(&self) -> bool {
        let n = self.residuals.len() as f64;
        // Three parameters are estimated: two levels and the position of the step.
        let spread = (self.unexplained() / (n - 3.0)).sqrt().max(SPREAD_MIN);
        let pairs = self.residuals.windows(2).map(|w| w[0] * w[1]).sum::<f64>();
        // The standard error of the autocorrelation of n independent values is 1 / sqrt(n).
        let by_chance = 1.0 / n.sqrt();
        let autocorrelation =
            (pairs / self.unexplained().max(1e-12) - by_chance).clamp(0.0, AUTOCORRELATION_MAX);
        let error =
            spread * (self.leverage * (1.0 + autocorrelation) / (1.0 - autocorrelation)).sqrt();
        let matters = (self.to - self.from).abs() > RATIO_MIN.ln();
        matters && self.effect.abs() / error > standard_errors_min(n)
    }
}

/// The minimum number of standard errors for n intervals: the fewer there are, the more often the
/// best of all steps stands out by chance.
fn standard_errors_min(n: f64) -> f64 {
    (5.0 + 24.0 / n).min(8.0)
}

/// The step that leaves the smallest residual sum of squares, with at least two intervals on either
/// side.
fn step(logs: &[f64]) -> Fit {
    let fits = (2..=logs.len() - 2).map(|k| {
        let (a, b) = logs.split_at(k);
        let (from, to) = (mean(a), mean(b));
        let residuals = a.iter().map(|x| x - from).chain(b.iter().map(|x| x - to)).collect();
        let leverage = 1.0 / a.len() as f64 + 1.0 / b.len() as f64;
        Fit { from, to, at: Some(k), residuals, leverage, effect: to - from }
    });
    let least = fits.min_by(|a, b| a.unexplained().total_cmp(&b.unexplained()));
    least.expect("there are enough values for a split")
}

fn line(logs: &[f64]) -> Fit {
    let n = logs.len() as f64;
    let (middle, height) = ((n - 1.0) / 2.0, mean(logs));
    let spread: f64 = (0..logs.len()).map(|i| (i as f64 - middle).powi(2)).sum();
    let along = logs.iter().enumerate().map(|(i, x)| (i as f64 - middle) * (x - height));
    let slope = along.sum::<f64>() / spread;
    let at = |i: usize| height + slope * (i as f64 - middle);
    let residuals = logs.iter().enumerate().map(|(i, x)| x - at(i)).collect();
    let (from, to) = (at(0), at(logs.len() - 1));
    Fit { from, to, at: None, residuals, leverage: 1.0 / spread, effect: slope }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use prony_base::rng::{self, Stream};

    use super::*;

    /// `n` values with log-normal noise of this standard deviation around `of`.
    fn row(n: usize, seed: u64, spread: f64, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let unit = |i: u64| rng::keyed(seed, Stream::Think, i, 0) as f64 / u64::MAX as f64;
        // The sum of twelve uniform variates is approximately normal.
        let normal = |i: usize| (0..12).map(|k| unit(i as u64 * 12 + k)).sum::<f64>() - 6.0;
        (0..n).map(|i| of(i) * (normal(i) * spread).exp()).collect()
    }

    #[test]
    fn detects_steps_and_drifts() {
        let mut missed = 0;
        for seed in 0..200 {
            for n in [10, 30, 120] {
                let stepped = row(n, seed, 0.05, |i| if i * 3 < n { 2.0 } else { 3.0 });
                match found(&stepped) {
                    Some(Found { from, to, at: Some(k) }) => {
                        assert!(k.abs_diff(n.div_ceil(3)) <= 1, "{n} {seed}: at {k}");
                        assert!((to / from - 1.5).abs() < 0.2, "{n} {seed}");
                    }
                    _ => missed += 1,
                }
                let drifted = row(n, seed, 0.05, |i| 1.0 + i as f64 / n as f64);
                missed += u32::from(found(&drifted).is_none());
            }
        }
        assert!(missed <= 12, "{missed} of 1,200");
    }

    #[test]
    fn ignores_noise_without_a_change() {
        let mut alarms = 0;
        for seed in 0..4_000 {
            let n = 8 + (seed as usize % 60);
            let spread = [0.03, 0.1, 0.4][seed as usize % 3];
            alarms += u32::from(found(&row(n, seed, spread, |_| 5.0)).is_some());
        }
        assert!(alarms <= 20, "{alarms} of 4,000");
        // A certain change that is too small to matter.
        assert!(found(&row(200, 1, 0.01, |i| if i < 100 { 1.0 } else { 1.1 })).is_none());
    }

    #[test]
    fn ignores_a_single_outlying_interval() {
        for at in [0, 5, 9] {
            let values = row(10, 3, 0.03, |i| if i == at { 900.0 } else { 2.0 });
            assert!(found(&values).is_none(), "at {at}");
        }
    }
}
