//! Comparisons of saved runs: the variance between the runs of a group, or within single runs. A
//! run that its meter disturbed counts with what is certain of it, as a block does.

use super::figure::{Figure, GRID, Measured};
use super::interval::{self, Change, Counts, Ends};
use super::pairs;
use super::{Against, Answer, Compared, Design, ERROR, Missing, Shape};
use crate::summary::Summary;
use crate::summary::confidence::{Confidence, Interval};

/// A saved run, as far as a comparison needs it.
#[derive(Clone, Debug)]
pub struct SavedRun {
    /// In the order of the figures, as they are compared.
    values: Vec<Option<Known>>,
    grid: Option<Vec<Known>>,
    counts: Counts,
}

/// A value, and the 95 % confidence interval that the run itself gives it as it was measured.
#[derive(Clone, Copy, Debug)]
struct Known {
    value: Ends,
    interval: Option<Interval>,
}

impl SavedRun {
    /// The figures of a design in a run.
    pub fn of(summary: &Summary, design: &Design) -> Self {
        let tally = &summary.main;
        let confidence = Confidence::of(tally);
        let measured = Measured::of_run(summary, None);
        let log =
            |i: Interval| Interval { lo: libm::log(i.lo.max(1e-9)), hi: libm::log(i.hi.max(1e-9)) };
        let known = |figure: Figure| {
            let value = pairs::ends(&measured, figure)?;
            let interval = match figure {
                Figure::Mean => confidence.mean().ok(),
                Figure::Percentile(p) => confidence.quantile(p / 100.0).ok(),
                Figure::Rate => summary.rate_interval().ok(),
                Figure::Errors | Figure::Cpu | Figure::Distribution => None,
            };
            Some(Known { value, interval: interval.map(log) })
        };
        let quantile = |(&q, value): (&f64, Ends)| Known {
            value,
            interval: confidence.quantile(q).ok().map(log),
        };
        let has_distribution = design.figures.contains(&Figure::Distribution);
        let grid = has_distribution.then(|| pairs::grid(&measured)).flatten();
        Self {
            values: design.figures.iter().map(|&f| known(f)).collect(),
            grid: grid.map(|grid| GRID.iter().zip(grid).map(quantile).collect()),
            counts: Counts { ended: measured.ended, failed: measured.failed },
        }
    }
}

/// Compares groups of saved runs, the first of which is A. All figures share [`ERROR`]: there is
/// one look. With one run in each of two groups, the intervals are those within the runs.
pub fn compare_saved(design: &Design, groups: &[Vec<SavedRun>]) -> Answer {
    let error = ERROR / design.comparisons();
    let Some((a, others)) = groups.split_first() else {
        return Answer { rounds: 0, error, targets: Vec::new() };
    };
    let against = |(i, b): (usize, &Vec<SavedRun>)| {
        let change = |(k, &figure): (usize, &Figure)| {
            let change = change(figure, a, b, error, |run| run.values[k]);
            Compared::of(figure, change, design.margin)
        };
        let figures = design.figures.iter().enumerate();
        let figures = figures.filter(|(_, f)| **f != Figure::Distribution).map(change).collect();
        let has_distribution = design.figures.contains(&Figure::Distribution);
        let distribution = has_distribution.then(|| distribution(design, a, b, error));
        Against::of(i as u32 + 1, figures, distribution, &design.limits)
    };
    Answer { rounds: 0, error, targets: others.iter().enumerate().map(against).collect() }
}

/// The quantiles alone: there are no pairs whose halves could be exchanged.
fn distribution(design: &Design, a: &[SavedRun], b: &[SavedRun], error: f64) -> Shape {
    let of = |q: usize| {
        let known = |run: &SavedRun| run.grid.as_ref().map(|grid| grid[q]);
        change(Figure::Distribution, a, b, error, known)
    };
    let changes: Result<Vec<Change>, Missing> = (0..GRID.len()).map(of).collect();
    match changes {
        Ok(all) if all.iter().any(|c| !(c.interval.hi - c.interval.lo).is_finite()) => {
            Shape::missing(Missing::Unbounded, error)
        }
        Ok(changes) => Shape::of(&changes, None, design.margin, error),
        Err(missing) => Shape::missing(missing, error),
    }
}

fn change(
    figure: Figure,
    a: &[SavedRun],
    b: &[SavedRun],
    error: f64,
    of: impl Fn(&SavedRun) -> Option<Known>,
) -> Result<Change, Missing> {
    let needs = figure.samples_needed();
    let known = |run: &SavedRun| {
        of(run).ok_or(if run.counts.ended < needs {
            Missing::TooFewSamples { needs }
        } else {
            Missing::NotMeasured
        })
    };
    let all = |runs: &[SavedRun]| runs.iter().map(known).collect::<Result<Vec<Known>, Missing>>();
    let (of_a, of_b) = (all(a)?, all(b)?);
    let at_least = |runs: &[SavedRun]| {
        runs.iter().map(|run| run.counts).fold(Counts::default(), |a, b| Counts {
            ended: a.ended + b.ended,
            failed: a.failed + b.failed,
        })
    };
    let floor = || interval::of_counts(at_least(a), at_least(b), error);
    if let ([one], [other]) = (&of_a[..], &of_b[..]) {
        let interval = |k: &Known| match figure {
            Figure::Errors => Ok(Interval { lo: k.value.measured, hi: k.value.measured }),
            _ => k.interval.ok_or(Missing::NotMeasured),
        };
        let [x, y] = [one, other].map(|k| Ok((k.value.measured, interval(k)?)));
        let change = interval::of_runs(figure, x?, y?, error);
        let change = if figure == Figure::Errors { change.at_least(floor()) } else { change };
        return Ok(change.with_meter(one.value, other.value));
    }
    let values = |all: &[Known]| all.iter().map(|k| k.value).collect::<Vec<Ends>>();
    let change = interval::of_groups(figure, &values(&of_a), &values(&of_b), error);
    let change = change.ok_or(Missing::TooFewRounds)?;
    Ok(if figure == Figure::Errors { change.at_least(floor()) } else { change })
}
