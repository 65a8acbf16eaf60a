//! How far the figures of one run can be trusted: 95 % confidence intervals from the run's own
//! blocks, which take into account that neighbouring times hang together.
//!
//! A quantile is the place where the share of the times below it reaches q. That share is a ratio
//! of two sums over the blocks, and what each block adds to it more or less than its part is a
//! series over time; its slow waves tell the variance of the whole (module `spectrum`), however
//! its neighbours hang together, as long as that ends within a fraction of the run. The variance
//! of the share becomes an interval of ranks, and the pooled histogram turns these into times
//! (module `quantile`). `docs/terms.md` has the method with its sources, `docs/confidence.md` how
//! often the intervals are right.

mod goal;
mod quantile;
mod spectrum;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::record::Tally;
use crate::record::hist::Hist;
use crate::record::series::{self, BINS, Block, Series};
use crate::units::Span;
pub use goal::{Clock, Goal, Until, Wanted, Watch};
use spectrum::Waves;

/// The fewest blocks from which anything is said: a second of them.
const BLOCKS_LEAST: usize = 32;
/// Nothing is said of times that count for fewer independent ones.
const INDEPENDENT_LEAST: f64 = 500.0;
/// How much wider an interval is that is told at just that limit, were neighbours all but alike ...
const CAUTION: f64 = 1.4;
/// ... and by which power of the distance from the limit that grows less: of twice as many times it
/// is a sixtieth.
const CAUTION_FADES: i32 = 6;
/// The three slowest waves are believed to be stronger than the six fastest of twelve from here on:
/// of independent times one run in 200 has that (F with 3 and 6 degrees of freedom).
const REDNESS_MAX: f64 = 12.9;
/// It matters where the ends between which the median may lie are a fifth apart.
const WANDER_MIN: f64 = 1.2;
/// Of the mean of times whose tail is as heavy as that of a distribution without a variance nothing
/// is said until there are so many of them ...
const HEAVY_NEEDS: u64 = 20_000;
/// ... which is judged by their longest 50th ...
const TAIL: u64 = 50;
/// ... and must be so many standard errors lighter than that.
const LIGHTER: f64 = 1.5;

/// A 95 % confidence interval. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
}

/// Why there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "lacks", rename_all = "kebab-case")]
pub enum Lack {
    /// Nothing was measured.
    Empty,
    /// Too few times for the figure itself.
    Samples {
        /// How many it needs.
        needs: u64,
    },
    /// The run is shorter than a second (or than 32 of its blocks).
    Short,
    /// The times hang together so much, or so few of them matter, that they count for too few
    /// independent ones.
    Dependent {
        /// How many independent ones they count for: of a quantile those beyond it.
        independent: f64,
    },
    /// The result was saved by a version that kept no blocks, or the figure has none.
    NotKept,
}

/// The intervals of one section of a run.
#[derive(Debug)]
pub struct Confidence<'a> {
    hist: &'a Hist,
    seconds: f64,
    lack: Option<Lack>,
    blocks: Vec<&'a Block>,
    waves: Waves,
    /// How many of the blocks' times lie in each bin or below it.
    up_to: Vec<u64>,
}

impl Interval {
    /// How far its further end is from the figure whose interval it is, as a share of that. 0
    /// where the interval is nothing but a figure of 0.
    pub fn reach(&self, figure: f64) -> f64 {
        let reach = (self.hi - figure).max(figure - self.lo);
        if reach <= 0.0 { 0.0 } else { reach / figure }
    }
}

impl<'a> Confidence<'a> {
    /// The intervals of a tally's response times and rate.
    pub fn of(tally: &'a Tally) -> Self {
        Self::of_series(tally, &tally.times.response, &tally.series)
    }

    /// Those of its service times, where they were kept.
    pub fn of_service(tally: &'a Tally) -> Option<Self> {
        let served = tally.served.as_deref()?;
        Some(Self::of_series(tally, &tally.times.service, served))
    }

    fn of_series(tally: &Tally, hist: &'a Hist, series: &'a Series) -> Self {
        let (from, until) = (tally.begin.since(series.begin()), tally.end.since(series.begin()));
        let kept = !series.blocks().all().is_empty();
        let blocks = series.blocks().between(from, until).map(|(_, block)| block).collect();
        let length = series.blocks().length();
        let mut all = Self::of_blocks(hist, blocks, length);
        if all.hist.count() == 0 {
            all.lack = Some(Lack::Empty);
        } else if !kept {
            all.lack = Some(Lack::NotKept);
        }
        all
    }

    /// The same of blocks of that length and the histogram of all times.
    pub fn of_blocks(hist: &'a Hist, blocks: Vec<&'a Block>, length: Span) -> Self {
        let mut up_to = vec![0; BINS];
        for &(bin, n) in blocks.iter().flat_map(|b| &b.bins) {
            up_to[usize::from(bin)] += u64::from(n);
        }
        for i in 1..BINS {
            up_to[i] += up_to[i - 1];
        }
        let lack = if up_to[BINS - 1] == 0 {
            Some(Lack::Empty)
        } else {
            (blocks.len() < BLOCKS_LEAST).then_some(Lack::Short)
        };
        let seconds = length.as_secs_f64() * blocks.len() as f64;
        Self { hist, seconds, lack, waves: Waves::new(blocks.len()), blocks, up_to }
    }

    /// The interval of the mean response time, in nanoseconds.
    ///
    /// # Errors
    /// Where the sample cannot carry it.
    pub fn mean(&self) -> Result<Interval, Lack> {
        self.ready()?;
        let total = self.up_to[BINS - 1] as f64;
        let extra = self.surplus_of_sums();
        let mean = self.hist.mean_ns().ok_or(Lack::Empty)?;
        if self.hist.count() < HEAVY_NEEDS && self.is_heavy_tailed() {
            return Err(Lack::Samples { needs: HEAVY_NEEDS });
        }
        let n = self.hist.count() as f64;
        let spread = self.waves.spread(&extra);
        // Without a median that varies the times tell it themselves.
        let alone = || {
            let variance = self.hist.stdev_ns().unwrap_or_default().powi(2) * total.powi(2);
            if spread.variance > 0.0 { variance / spread.variance } else { f64::INFINITY }
        };
        let independent = self.dependence(0.5).map_or_else(alone, |d| n / d);
        spread.check(independent, INDEPENDENT_LEAST)?;
        let wider = caution(n / independent, independent / INDEPENDENT_LEAST);
        // That of all times, of which those outside whole blocks are a few.
        let scale = 1.0 / total * (total / n).sqrt();
        let (below, above) = spread.reach(wider);
        Ok(Interval { lo: (mean - below * scale).max(0.0), hi: mean + above * scale })
    }

    /// The interval of the rate of successes, per second.
    ///
    /// # Errors
    /// Where the run cannot carry it.
    pub fn rate(&self, rate: f64) -> Result<Interval, Lack> {
        self.ready()?;
        let mean =
            self.blocks.iter().map(|b| b.replies).sum::<u64>() as f64 / self.blocks.len() as f64;
        let extra: Vec<f64> = self.blocks.iter().map(|b| b.replies as f64 - mean).collect();
        let spread = self.waves.spread(&extra);
        let error = spread.variance.sqrt() / self.seconds;
        let reach = spread.t() * error;
        if rate <= 0.0 || reach >= rate {
            return Err(Lack::Dependent { independent: (rate / error).powi(2) });
        }
        spread.check(f64::INFINITY, 0.0)?;
        Ok(Interval { lo: rate - reach, hi: rate + reach })
    }

    /// Whether the times hang together over so much of the run that it is like a single one of
    /// them: how many times stronger the slowest waves in the course of the mean are than faster
    /// ones, where that is far beyond chance and the median might as well be a fifth off.
    pub fn wanders(&self) -> Option<f64> {
        self.ready().ok()?;
        let surplus = self.surplus(0.5)?;
        let redness = self.waves.redness(&self.surplus_of_sums())?;
        let (lo, hi) = self.ranks(0.5, &surplus, 1.0);
        let Interval { lo, hi } = self.between(lo.max(1.0), hi.min(self.hist.count() as f64));
        (redness > REDNESS_MAX && hi > lo * WANDER_MIN).then_some(redness)
    }

    fn ready(&self) -> Result<(), Lack> {
        self.lack.map_or(Ok(()), Err)
    }

    /// How much longer the times of each block are, added up, than so many of the mean.
    fn surplus_of_sums(&self) -> Vec<f64> {
        let sum = self.blocks.iter().map(|b| b.sum_ns as f64).sum::<f64>();
        let mean = sum / self.up_to[BINS - 1] as f64;
        self.blocks.iter().map(|b| b.sum_ns as f64 - mean * b.count() as f64).collect()
    }

    /// Whether the longest times are as far apart as those of a distribution whose variance is
    /// infinite (Hill 1975: a tail index below 2), or by chance so little closer.
    fn is_heavy_tailed(&self) -> bool {
        let total = self.up_to[BINS - 1];
        let below = total - total / TAIL;
        let least = self.up_to.partition_point(|&n| n <= below);
        let log = |bin: usize| (series::bin_value(bin as u16).0.max(1) as f64).ln();
        let (mut longest, mut sum) = (0, 0.0);
        for bin in least..BINS {
            let here = self.up_to[bin] - self.up_to[bin - 1].max(below);
            longest += here;
            sum += here as f64 * (log(bin) - log(least));
        }
        let longest = longest as f64;
        // The index of so many times is off by its part of their root.
        sum * 2.0 * (1.0 + LIGHTER / longest.sqrt()) > longest
    }
}

/// How much wider an interval is told than it is estimated, where times that hang together so
/// strongly count for so many times more independent ones than must be. A run in which little
/// happened by chance seems to hang together less than it does, and its figures are off to one
/// side: near the limit most of those that are told anything are such runs.
fn caution(dependence: f64, room: f64) -> f64 {
    let alike = 1.0 - 1.0 / dependence.max(1.0);
    1.0 + CAUTION * alike * room.powi(CAUTION_FADES).recip()
}
