//! Whether a run was the same from begin to end, as far as its series tells.
//!
//! Two models are held against the logarithms of a figure's intervals: one step, and a straight
//! line. Each is believed where what it explains stands out of what is left by so many standard
//! errors, these being widened as the residuals hang together, and where the change is large enough
//! to matter. The note on the verdict says how the limits were found.

use serde::{Deserialize, Serialize};

use super::super::Summary;
use super::super::confidence::Confidence;
use super::Limit;
use crate::plan::Load;
use crate::rate::Arrivals;
use crate::units::Span;

/// The fewest whole intervals of which anything is said.
const CELLS_MIN: usize = 8;
/// The least change that matters: by a fifth.
const RATIO_MIN: f64 = 1.2;
/// The least spread of the logarithms within which figures are taken for equal: the bins of the
/// series are 1.6 % wide.
const SPREAD_MIN: f64 = 0.02;
/// More than this is not assumed of how much neighbouring residuals hang together.
const HANG_MAX: f64 = 0.9;

/// A change in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What has changed.
    pub figure: Figure,
    /// Its value before, in requests per second or nanoseconds: of a step the geometric mean of the
    /// intervals before it, of a drift the median of the first fifth of the intervals.
    pub from: f64,
    /// Its value after it, or the median of the last fifth.
    pub to: f64,
    /// When it stepped, counted from the begin of the measurement; `None`: it drifted all along.
    pub at: Option<Span>,
}

/// What is looked at over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Replies per second of a closed loop; in an open one they follow the schedule.
    Rate,
    /// Median response time.
    P50,
    /// 90th percentile of the response time.
    P90,
}

/// The first figure that changed. Nothing is said where the plan itself asks for a change.
pub(super) fn change(summary: &Summary) -> Option<Change> {
    let is_closed = matches!(summary.plan.load, Load::Closed { .. });
    let whole = whole_cells(summary)?;
    let (t, length) = (&summary.main, summary.main.series.interval());
    let cells = t.series.cells().get(..whole)?;
    let rate = || cells.iter().map(|c| c.replies as f64 / length.as_secs_f64()).collect();
    let times = |q| cells.iter().map(|c| c.quantile(q).map(|t| t.0 as f64)).collect();
    let figures: [(Figure, Option<Vec<f64>>); 3] = [
        (Figure::P50, times(0.5)),
        (Figure::Rate, is_closed.then(rate)),
        (Figure::P90, times(0.9)),
    ];
    figures.into_iter().find_map(|(figure, values)| {
        let values = values.filter(|v| v.iter().all(|&x| x > 0.0))?;
        let Found { from, to, at } = found(&values)?;
        // The bins of the series are coarser than the extremes.
        let (low, high) = match figure {
            Figure::Rate => (0.0, f64::INFINITY),
            Figure::P50 | Figure::P90 => {
                (t.times.response.min()?.0 as f64, t.times.response.max()?.0 as f64)
            }
        };
        let (from, to) = (from.clamp(low, high), to.clamp(low, high));
        Some(Change { figure, from, to, at: at.map(|k| length * k as u64) })
    })
}

/// That response times hang together for too long for the run to tell of them.
pub(super) fn correlated(summary: &Summary) -> Option<Limit> {
    whole_cells(summary)?;
    Confidence::of(&summary.main).wanders().map(|redness| Limit::Correlated { redness })
}

/// How many whole intervals there are, where the plan asks for no change and they are enough to say
/// anything.
fn whole_cells(summary: &Summary) -> Option<usize> {
    if let Load::Open { rate, arrivals, .. } = &summary.plan.load {
        let even = rate.pieces.iter().all(|p| p.from == p.to && p.from == rate.pieces[0].from);
        if !even || matches!(arrivals, Arrivals::Trace(_)) {
            return None;
        }
    }
    let t = &summary.main;
    let whole = (t.window().0 / t.series.interval().0.max(1)) as usize;
    (whole >= CELLS_MIN).then_some(whole)
}

/// A change in a row of positive values: before, after, and at which index it stepped.
struct Found {
    from: f64,
    to: f64,
    at: Option<usize>,
}

/// A model of the row, and what it leaves unexplained.
struct Fit {
    from: f64,
    to: f64,
    at: Option<usize>,
    residuals: Vec<f64>,
    /// The variance of what is estimated, in units of that of the residuals.
    leverage: f64,
    /// What is estimated: the height of the step, or the slope.
    effect: f64,
}

fn found(values: &[f64]) -> Option<Found> {
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    let (step, line) = (step(&logs), line(&logs));
    let first = if step.unexplained() <= line.unexplained() { [step, line] } else { [line, step] };
    let believed = first.into_iter().find(Fit::is_believed)?;
    let (from, to) = match believed.at {
        Some(_) => (believed.from.exp(), believed.to.exp()),
        // The ends of the line are values that nothing may have had.
        None => ends(values),
    };
    Some(Found { from, to, at: believed.at })
}

/// The medians of the first and of the last fifth.
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

    fn is_believed(&self) -> bool {
        let n = self.residuals.len() as f64;
        // Three are estimated: two values and where they meet.
        let spread = (self.unexplained() / (n - 3.0)).sqrt().max(SPREAD_MIN);
        let pairs = self.residuals.windows(2).map(|w| w[0] * w[1]).sum::<f64>();
        // Of so few, unrelated ones seem to hang together by that much.
        let by_chance = 1.0 / n.sqrt();
        let hang = (pairs / self.unexplained().max(1e-12) - by_chance).clamp(0.0, HANG_MAX);
        let error = spread * (self.leverage * (1.0 + hang) / (1.0 - hang)).sqrt();
        let matters = (self.to - self.from).abs() > RATIO_MIN.ln();
        matters && self.effect.abs() / error > believed_from(n)
    }
}

/// So many standard errors are believed of that many intervals: the fewer there are, the more often
/// the best of all steps stands out by chance.
fn believed_from(n: f64) -> f64 {
    (5.0 + 24.0 / n).min(8.0)
}

/// The step that explains most, with two intervals or more on either side.
fn step(logs: &[f64]) -> Fit {
    let fits = (2..=logs.len() - 2).map(|k| {
        let (a, b) = logs.split_at(k);
        let (from, to) = (mean(a), mean(b));
        let residuals = a.iter().map(|x| x - from).chain(b.iter().map(|x| x - to)).collect();
        let leverage = 1.0 / a.len() as f64 + 1.0 / b.len() as f64;
        Fit { from, to, at: Some(k), residuals, leverage, effect: to - from }
    });
    let least = fits.min_by(|a, b| a.unexplained().total_cmp(&b.unexplained()));
    least.expect("there are splits of a row of that length")
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
    use super::*;
    use crate::rng::{self, Stream};

    /// A row with noise of that spread around what `of` says.
    fn row(n: usize, seed: u64, spread: f64, of: impl Fn(usize) -> f64) -> Vec<f64> {
        let unit = |i: u64| rng::keyed(seed, Stream::Think, i, 0) as f64 / u64::MAX as f64;
        // The sum of twelve is as good as normal.
        let normal = |i: usize| (0..12).map(|k| unit(i as u64 * 12 + k)).sum::<f64>() - 6.0;
        (0..n).map(|i| of(i) * (normal(i) * spread).exp()).collect()
    }

    #[test]
    fn steps_and_drifts_are_found() {
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
    fn what_only_varies_does_not_change() {
        let mut alarms = 0;
        for seed in 0..4_000 {
            let n = 8 + (seed as usize % 60);
            let spread = [0.03, 0.1, 0.4][seed as usize % 3];
            alarms += u32::from(found(&row(n, seed, spread, |_| 5.0)).is_some());
        }
        assert!(alarms <= 20, "{alarms} of 4,000");
        // Too little to matter, however sure.
        assert!(found(&row(200, 1, 0.01, |i| if i < 100 { 1.0 } else { 1.1 })).is_none());
    }

    #[test]
    fn a_single_bad_interval_is_no_change() {
        for at in [0, 5, 9] {
            let values = row(10, 3, 0.03, |i| if i == at { 900.0 } else { 2.0 });
            assert!(found(&values).is_none(), "at {at}");
        }
    }
}
