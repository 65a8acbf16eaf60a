//! The blocks of a comparison in pairs: the differences of their figures.
//!
//! A block that its meter disturbed has ends between which its true figure lies. So has each
//! difference of a pair. A percentile for which the blocks have too few requests has its values
//! from several rounds together.

use prony_base::units::Span;
use prony_tally::record::hist::Hist;

use super::Missing;
use super::figure::{Figure, GRID, Measured};
use super::interval::{Counts, Ends, compared};
use crate::summary::Between;

/// The fewest values of a percentile that needs several rounds for each: of fewer, some are alike
/// by chance, as histograms round them.
const POOLS_MIN: usize = 4;

/// What one block says.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// In the order of the figures.
    pub(super) values: Vec<Option<Ends>>,
    pub(super) counts: Counts,
    /// The quantiles of [`GRID`].
    pub(super) grid: Option<Vec<Ends>>,
    /// Whether the meter disturbed it.
    pub(super) is_disturbed: bool,
    /// The times, if a percentile may need those of several blocks.
    times: Option<Box<Between<Times>>>,
    measured: Option<Box<Times>>,
}

/// Response times: the bins of a histogram.
type Times = Vec<(Span, u64)>;

/// What is certain of a value.
fn ends_between(figure: Figure, measured: f64, Between { least, most }: Between<f64>) -> Ends {
    let measured = compared(figure, measured);
    // Histograms without what the meter added are rounded down.
    let least = least.map_or(f64::NEG_INFINITY, |v| compared(figure, v.max(0.0)));
    let most = most.map_or(f64::INFINITY, |v| compared(figure, v));
    Ends { least: least.min(measured), measured, most: most.max(measured) }
}

/// The value of a figure of these times, in nanoseconds.
fn of_times(times: &Hist, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Mean => times.mean_ns(),
        Figure::Percentile(p) => times.quantile(p / 100.0).map(|t| t.0 as f64),
        _ => None,
    }
}

/// A figure of response times between these.
fn ends_of_times(figure: Figure, measured: f64, between: Between<&Hist>) -> Ends {
    let least = between.least.and_then(|times| of_times(times, figure));
    let most = between.most.and_then(|times| of_times(times, figure));
    ends_between(figure, measured, Between { least, most })
}

/// What a block, or a run, says of a figure; `None` if nothing.
pub(super) fn ends(measured: &Measured<'_>, figure: Figure) -> Option<Ends> {
    let value = measured.value(figure)?;
    let exact = Between { least: Some(value), most: Some(value) };
    let Some(certain) = &measured.certain else { return Some(ends_between(figure, value, exact)) };
    Some(match figure {
        Figure::Mean | Figure::Percentile(_) => ends_of_times(figure, value, certain.times),
        Figure::Rate => ends_between(figure, value, certain.rate),
        Figure::Errors => {
            let share = |n: u64| n as f64 / measured.ended.max(1) as f64;
            let Between { least, most } = certain.failed;
            ends_between(figure, value, Between { least: least.map(share), most: most.map(share) })
        }
        // The meter has no part in the CPU time of the server.
        Figure::Cpu | Figure::Distribution => ends_between(figure, value, exact),
    })
}

/// The same of each quantile of [`GRID`].
pub(super) fn grid(measured: &Measured<'_>) -> Option<Vec<Ends>> {
    let whole = Between { least: Some(measured.response), most: Some(measured.response) };
    let between = measured.certain.map_or(whole, |certain| certain.times);
    let of = |q: f64| {
        let value = measured.response.quantile(q)?.0.max(1) as f64;
        Some(ends_of_times(Figure::Percentile(q * 100.0), value, between))
    };
    GRID.into_iter().map(of).collect()
}

impl Cell {
    /// What a block says of these figures.
    pub(super) fn of(figures: &[Figure], measured: &Measured<'_>) -> Self {
        let needed = figures.iter().filter(|f| matches!(f, Figure::Percentile(_)));
        let needed = needed.map(|f| f.samples_needed()).max().unwrap_or_default();
        // The other half of its pair has about as many.
        let is_kept = measured.response.count() < needed.saturating_mul(2);
        let times = |hist: &Hist| hist.recorded().collect::<Times>();
        let between = measured.certain.map(|certain| {
            let Between { least, most } = certain.times;
            Box::new(Between { least: least.map(times), most: most.map(times) })
        });
        let has_distribution = figures.contains(&Figure::Distribution);
        Self {
            values: figures.iter().map(|&f| ends(measured, f)).collect(),
            counts: Counts { ended: measured.ended, failed: measured.failed },
            grid: has_distribution.then(|| grid(measured)).flatten(),
            is_disturbed: measured.certain.is_some(),
            times: between.filter(|_| is_kept),
            measured: is_kept.then(|| Box::new(times(measured.response))),
        }
    }
}

/// The differences of the figure with this index, from A to another target: one for each pair, or
/// for several pairs together.
pub(super) fn differences(
    figure: Figure,
    index: usize,
    pairs: &[(&Cell, &Cell)],
) -> Result<Vec<Ends>, Missing> {
    let of = |(a, b): &(&Cell, &Cell)| Some(b.values[index]?.against(a.values[index]?));
    if let Some(all) = pairs.iter().map(of).collect::<Option<Vec<Ends>>>() {
        return Ok(all);
    }
    let needs = figure.samples_needed();
    let cells = || pairs.iter().flat_map(|(a, b)| [a, b]);
    let has_too_few = cells().any(|c| c.values[index].is_none() && c.counts.ended < needs);
    let is_percentile = matches!(figure, Figure::Percentile(_));
    if !is_percentile || cells().any(|cell| cell.measured.is_none()) {
        let too_few = Missing::TooFewSamples { needs };
        return Err(if has_too_few { too_few } else { Missing::NotMeasured });
    }
    let pools = pools(needs, pairs);
    if pools.len() < POOLS_MIN {
        return Err(Missing::TooFewInAll { needs: needs.saturating_mul(POOLS_MIN as u64) });
    }
    let of = |pool: &&[(&Cell, &Cell)]| {
        let a = pooled(figure, pool.iter().map(|pair| pair.0))?;
        Some(pooled(figure, pool.iter().map(|pair| pair.1))?.against(a))
    };
    pools.iter().map(of).collect::<Option<Vec<Ends>>>().ok_or(Missing::NotMeasured)
}

/// The fewest rounds that have that many times on both sides, one after another. What is left at
/// the end belongs to the last.
fn pools<'a, 'b>(needs: u64, pairs: &'b [(&'a Cell, &'a Cell)]) -> Vec<&'b [(&'a Cell, &'a Cell)]> {
    let count = |cell: &Cell| cell.measured.iter().flat_map(|t| t.iter()).map(|t| t.1).sum::<u64>();
    let mut ends = vec![0];
    let (mut of_a, mut of_b) = (0, 0);
    for (i, (a, b)) in pairs.iter().enumerate() {
        (of_a, of_b) = (of_a + count(a), of_b + count(b));
        if of_a.min(of_b) >= needs {
            ends.push(i + 1);
            (of_a, of_b) = (0, 0);
        }
    }
    if let [_, .., last] = &mut ends[..] {
        *last = pairs.len();
    }
    ends.windows(2).map(|ends| &pairs[ends[0]..ends[1]]).collect()
}

/// A percentile of all times of these blocks.
fn pooled<'a>(figure: Figure, cells: impl Iterator<Item = &'a Cell>) -> Option<Ends> {
    let mut all = Hist::new();
    let mut between = Between { least: Some(Hist::new()), most: Some(Hist::new()) };
    let add = |hist: &mut Hist, times: &Times| {
        times.iter().for_each(|&(time, n)| hist.record_n(time, n));
    };
    for cell in cells {
        let measured = cell.measured.as_deref()?;
        add(&mut all, measured);
        let ends = cell.times.as_deref();
        for (hist, times) in [
            (&mut between.least, ends.map_or(Some(measured), |ends| ends.least.as_ref())),
            (&mut between.most, ends.map_or(Some(measured), |ends| ends.most.as_ref())),
        ] {
            match (hist.as_mut(), times) {
                (Some(hist), Some(times)) => add(hist, times),
                _ => *hist = None,
            }
        }
    }
    let value = of_times(&all, figure).filter(|v| *v > 0.0)?;
    let Between { least, most } = &between;
    Some(ends_of_times(figure, value, Between { least: least.as_ref(), most: most.as_ref() }))
}
