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

use serde::{Deserialize, Serialize};

use crate::record::Tally;
use crate::record::hist::Hist;
use crate::record::series::{self, BINS, Block, Series};
use crate::units::Span;
pub use goal::{Clock, Goal, Until, Wanted, Watch};
use spectrum::{T, Waves};

/// The fewest blocks from which anything is said: a second of them.
const BLOCKS_LEAST: usize = 32;
/// Below so many independent times beyond a quantile, how strongly they hang together cannot be
/// told from them alone.
const OWN_ENOUGH: f64 = 50.0;
/// A mean needs so many independent times, or the times' skewness shows in it ...
const MEAN_NEEDS: f64 = 100.0;
/// ... and so many blocks that matter.
const MEAN_BLOCKS: f64 = 3.0;
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
        let tail = q.min(1.0 - q);
        let Some((dependence, independent)) = self.dependence(q, n) else {
            return Ok(self.bin_of_rank(q));
        };
        let reach = T * (dependence * q * (1.0 - q) / n).sqrt();
        let (lo, hi) = ((q - reach) * n, (q + reach) * n);
        if tail <= 0.0 || lo < 1.0 || hi > n {
            return Err(Lack::Dependent { independent });
        }
        Ok(Interval { lo: self.at_rank(lo.floor()).0, hi: self.at_rank(hi.ceil()).1 })
    }

    /// The interval of the mean response time, in nanoseconds.
    ///
    /// # Errors
    /// Where the sample cannot carry it.
    pub fn mean(&self) -> Result<Interval, Lack> {
        self.ready()?;
        let total = self.blocks.iter().map(|b| b.count()).sum::<u64>() as f64;
        let sum = self.blocks.iter().map(|b| b.sum_ns as f64).sum::<f64>();
        let pooled = sum / total;
        let extra: Vec<f64> =
            self.blocks.iter().map(|b| b.sum_ns as f64 - pooled * b.count() as f64).collect();
        // That of all times, of which those outside whole blocks are a few.
        let n = self.hist.count() as f64;
        let error = self.waves.variance(&extra).sqrt() / total * (total / n).sqrt();
        let (Some(mean), Some(spread)) = (self.hist.mean_ns(), self.hist.stdev_ns()) else {
            return Err(Lack::Empty);
        };
        if error > 0.0 {
            let independent = (spread / error).powi(2);
            if independent < MEAN_NEEDS || matter(&extra) < MEAN_BLOCKS {
                return Err(Lack::Dependent { independent });
            }
        }
        Ok(Interval { lo: (mean - T * error).max(0.0), hi: mean + T * error })
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
        let error = self.waves.variance(&extra).sqrt() / self.seconds;
        if rate <= 0.0 || T * error >= rate || (error > 0.0 && matter(&extra) < MEAN_BLOCKS) {
            return Err(Lack::Dependent { independent: (rate / error).powi(2) });
        }
        Ok(Interval { lo: rate - T * error, hi: rate + T * error })
    }

    fn ready(&self) -> Result<(), Lack> {
        self.lack.map_or(Ok(()), Err)
    }

    /// How many times larger the variance of the share of times up to the quantile is than it were
    /// of independent ones, and for how many independent ones those beyond it count. `None` where
    /// nothing but a single value lies around it.
    ///
    /// In a tail with few independent times too little is seen of how they hang together; it is
    /// taken to be as much as anywhere between the median and there.
    fn dependence(&self, q: f64, n: f64) -> Option<(f64, f64)> {
        let own = self.dependence_at(q)?;
        let tail = q.min(1.0 - q);
        let mut most = own;
        let mut nearer = tail * 2.0;
        while nearer <= 0.5 {
            let q = if q < 0.5 { nearer } else { 1.0 - nearer };
            most = most.max(self.dependence_at(q).unwrap_or(0.0));
            nearer *= 2.0;
        }
        let independent = |dependence: f64| n * tail / dependence.max(f64::MIN_POSITIVE);
        let used = if independent(most) < OWN_ENOUGH { most } else { own };
        Some((used, independent(used)))
    }

    /// The same at the edge between two bins that is nearest to the quantile.
    fn dependence_at(&self, q: f64) -> Option<f64> {
        let (bin, share) = self.edge(q)?;
        let extra: Vec<f64> = self
            .blocks
            .iter()
            .map(|b| {
                let below = b.bins.iter().take_while(|&&(at, _)| usize::from(at) <= bin);
                let below: u64 = below.map(|&(_, n)| u64::from(n)).sum();
                below as f64 - share * b.count() as f64
            })
            .collect();
        let total = self.up_to[BINS - 1] as f64;
        Some(self.waves.variance(&extra) / (total * share * (1.0 - share)))
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

/// How many blocks matter for the variance, were they of two kinds: those that add the same and
/// those that add nothing.
fn matter(extra: &[f64]) -> f64 {
    let sum = |power: i32| extra.iter().map(|x| x.powi(power)).sum::<f64>();
    sum(2).powi(2) / sum(4)
}
