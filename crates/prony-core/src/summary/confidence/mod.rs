//! How far the figures of one run can be trusted: 95 % confidence intervals from the run's own
//! blocks, which take into account that neighbouring times hang together.
//!
//! A quantile is the place where the share of the times below it reaches q. That share is a ratio
//! of two sums over the blocks, and what each block adds to it more or less than its part is a
//! series over time; its slow waves tell the variance of the whole (module `spectrum`), however
//! its neighbours hang together, as long as that ends within a fraction of the run. The variance
//! of the share becomes an interval of ranks, and the pooled histogram turns these into times
//! (Woodruff 1952), so that no density is needed. `docs/terms.md` has the method with its sources,
//! `docs/confidence.md` how often the intervals are right.

mod goal;
mod spectrum;
#[cfg(test)]
mod tests;

use std::iter;

use serde::{Deserialize, Serialize};

use crate::record::Tally;
use crate::record::hist::Hist;
use crate::record::series::{self, BINS, Block, Series};
use crate::units::Span;
pub use goal::{Clock, Goal, Until, Wanted, Watch};
use spectrum::Waves;

/// The fewest blocks from which anything is said: a second of them.
const BLOCKS_LEAST: usize = 32;
/// Nothing is said of times that count for fewer independent ones ...
const INDEPENDENT_LEAST: f64 = 400.0;
/// ... and nothing of a quantile with fewer of them beyond it.
const BEYOND_LEAST: f64 = 20.0;
/// The three slowest waves are believed to be stronger than the six fastest of twelve from here on:
/// of independent times one run in 200 has that (F with 3 and 6 degrees of freedom).
const REDNESS_MAX: f64 = 12.9;
/// It matters where the ends between which the median may lie are a fifth apart.
const WANDER_MIN: f64 = 1.2;
/// Of the mean of times whose tail is as heavy as that of a distribution without a variance nothing
/// is said until there are so many of them ...
const HEAVY_NEEDS: u64 = 20_000;
/// ... which is judged by their longest 50th.
const TAIL: u64 = 50;
/// How many times further from q than q is from certainty, in odds, an edge between two bins may
/// lie and still tell how strongly the times hang together at q.
const ODDS_MAX: f64 = 4.0;

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

/// How many times more than its part each block has up to an edge between two bins, and the share
/// of all times up to it.
struct Surplus {
    parts: Vec<f64>,
    share: f64,
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

    /// The interval of a quantile of the response time, in nanoseconds.
    ///
    /// # Errors
    /// Where the sample cannot carry it.
    pub fn quantile(&self, q: f64) -> Result<Interval, Lack> {
        let n = self.hist.count();
        let needs = Hist::samples_needed(q);
        if n > 0 && n < needs {
            return Err(Lack::Samples { needs });
        }
        self.ready()?;
        let n = n as f64;
        let surplus = self.surplus(q);
        let own = surplus.as_ref().map(|surplus| self.dependence_of(surplus));
        // Where nothing varies all are independent.
        let independent = |dependence: Option<f64>| n / dependence.unwrap_or_default();
        let beyond = independent(self.dependence_nearer(q).or(own)) * q.min(1.0 - q);
        if beyond < BEYOND_LEAST || independent(self.dependence(0.5)) < INDEPENDENT_LEAST {
            return Err(Lack::Dependent { independent: beyond });
        }
        let Some(surplus) = surplus else { return Ok(self.bin_of_rank(q)) };
        let (lo, hi) = self.ranks(q, &surplus);
        if lo < 1.0 || hi > n {
            return Err(Lack::Dependent { independent: beyond });
        }
        Ok(Interval { lo: self.at_rank(lo).0, hi: self.at_rank(hi).1 })
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
        let alone =
            || self.hist.stdev_ns().unwrap_or_default().powi(2) * total.powi(2) / spread.variance;
        let independent = self.dependence(0.5).map_or_else(alone, |d| n / d);
        spread.check(independent, INDEPENDENT_LEAST)?;
        // That of all times, of which those outside whole blocks are a few.
        let scale = 1.0 / total * (total / n).sqrt();
        let (below, above) = spread.reach();
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
        let reach = spread.t * error;
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
        let (lo, hi) = self.ranks(0.5, &surplus);
        let (lo, hi) =
            (self.at_rank(lo.max(1.0)).0, self.at_rank(hi.min(self.hist.count() as f64)).1);
        (redness > REDNESS_MAX && hi > lo * WANDER_MIN).then_some(redness)
    }

    fn ready(&self) -> Result<(), Lack> {
        self.lack.map_or(Ok(()), Err)
    }

    /// How strongly the times hang together around the quantile: how many times larger the variance
    /// of the share of times up to it is than it were of independent ones. `None` where nothing but
    /// a single value lies around it.
    fn dependence(&self, q: f64) -> Option<f64> {
        Some(self.dependence_of(&self.surplus(q)?))
    }

    fn dependence_of(&self, surplus: &Surplus) -> f64 {
        self.waves.rough_variance(&surplus.parts) / self.alone(surplus)
    }

    /// The variance of the number of times up to the edge, were they independent.
    fn alone(&self, surplus: &Surplus) -> f64 {
        self.up_to[BINS - 1] as f64 * surplus.share * (1.0 - surplus.share)
    }

    /// The ranks within which the quantile's own may lie, as far as their surplus tells.
    fn ranks(&self, q: f64, surplus: &Surplus) -> (f64, f64) {
        let n = self.hist.count() as f64;
        let spread = self.waves.spread(&surplus.parts);
        let reach = spread.t * (spread.variance / self.alone(surplus) * q * (1.0 - q) / n).sqrt();
        (((q - reach) * n).round(), ((q + reach) * n).round() + 1.0)
    }

    /// The same, on average over the quantiles with twice, four times ... as many times beyond
    /// them. Whether an interval is told depends on these: a tail in which little happened by
    /// chance would be told by itself just where its interval is too narrow.
    fn dependence_nearer(&self, q: f64) -> Option<f64> {
        let tails = iter::successors(Some(q.min(1.0 - q) * 2.0), |tail| Some(tail * 2.0));
        let nearer = tails.take_while(|&tail| tail <= 0.5);
        let all: Vec<f64> = nearer
            .filter_map(|tail| self.dependence(if q < 0.5 { tail } else { 1.0 - tail }))
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// How many more times each block has up to the edge between two bins that is nearest to the
    /// quantile than its part.
    fn surplus(&self, q: f64) -> Option<Surplus> {
        let (bin, share) = self.edge(q)?;
        let parts = self.blocks.iter().map(|b| {
            let below = b.bins.iter().take_while(|&&(at, _)| usize::from(at) <= bin);
            let below: u64 = below.map(|&(_, n)| u64::from(n)).sum();
            below as f64 - share * b.count() as f64
        });
        Some(Surplus { parts: parts.collect(), share })
    }

    /// How much longer the times of each block are, added up, than so many of the mean.
    fn surplus_of_sums(&self) -> Vec<f64> {
        let sum = self.blocks.iter().map(|b| b.sum_ns as f64).sum::<f64>();
        let mean = sum / self.up_to[BINS - 1] as f64;
        self.blocks.iter().map(|b| b.sum_ns as f64 - mean * b.count() as f64).collect()
    }

    /// Whether the longest times are as far apart as those of a distribution whose variance is
    /// infinite (Hill 1975: a tail index below 2).
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
        sum * 2.0 > longest as f64
    }

    /// The last bin below the edge, and the share of the times up to it.
    fn edge(&self, q: f64) -> Option<(usize, f64)> {
        let total = self.up_to[BINS - 1];
        let odds = |share: f64| (share / (1.0 - share)).ln();
        let over = self.up_to.partition_point(|&n| (n as f64) < q * total as f64);
        let below = over.checked_sub(1);
        let near = [below, Some(over)].into_iter().flatten().filter_map(|bin| {
            let n = *self.up_to.get(bin)?;
            let share = n as f64 / total as f64;
            let away = (odds(share) - odds(q)).abs();
            (n > 0 && n < total && away <= ODDS_MAX.ln()).then_some((bin, share, away))
        });
        let nearest = near.min_by(|a, b| a.2.total_cmp(&b.2))?;
        Some((nearest.0, nearest.1))
    }

    /// The bin of the series in which the quantile lies, as far as there are times in it: all that
    /// is known where everything around the quantile lies in that bin.
    fn bin_of_rank(&self, q: f64) -> Interval {
        let value = self.hist.estimate(q).unwrap_or_default();
        let bin = series::bin_of(value);
        let (lo, hi) = series::bin_bounds(bin);
        let (min, max) = (self.hist.min().unwrap_or_default(), self.hist.max().unwrap_or_default());
        Interval { lo: lo.max(min).0 as f64, hi: hi.min(max).0 as f64 }
    }

    /// What the time of that rank is at least and at most, as far as the histogram tells.
    fn at_rank(&self, rank: f64) -> (f64, f64) {
        let (min, max) = (self.hist.min().unwrap_or_default(), self.hist.max().unwrap_or_default());
        let n = self.hist.count() as f64;
        let value = self.hist.estimate(((rank - 0.5) / n).clamp(0.0, 1.0)).unwrap_or_default();
        let least = self.hist.bins().lowest_equivalent(value.0).clamp(min.0, max.0);
        (least as f64, value.0 as f64)
    }
}
