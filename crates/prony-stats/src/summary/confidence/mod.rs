//! 95 % confidence intervals of the figures of one run, from the run's own blocks, for
//! autocorrelated times.
//!
//! The interval of a quantile is that of Woodruff (1952): the share of times up to a point is a
//! ratio of two sums over the blocks; the spectral density of its surplus at frequency zero gives
//! its variance (module `spectrum`), whatever the autocorrelation, as long as that does not extend
//! over a large part of the run. From the variance follows an interval of ranks, and the histogram
//! of all times turns ranks into times (module `quantile`). `docs/terms.md` lists the steps with
//! their sources, `docs/confidence.md` the measured coverage.

mod goal;
mod quantile;
mod spectrum;
#[cfg(test)]
mod tests;
mod worth;

use prony_base::units::Span;
use prony_plan::threshold::Timed;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::{self, BINS, Block, Series};
use prony_tally::record::{StreamTime, Tally};
use serde::{Deserialize, Serialize};

pub use goal::{Goal, GoalFigure, TimeKind, Until, Watch};
pub(super) use goal::{pooled, spread_over_bins};
use spectrum::Cosines;
pub(super) use spectrum::t_quantile;
pub(super) use worth::{Effect, Effects, wilson};

/// The minimum number of blocks for an interval: those of one second.
const BLOCKS_MIN: usize = 32;
/// The minimum effective sample size for an interval.
const EFFECTIVE_MIN: f64 = 500.0;
/// The minimum number of times for the interval of their mean, also if they are all equal.
const TIMES_MIN: u64 = 20;
/// By how much an interval at this limit is widened, if the times are strongly autocorrelated ...
const WIDENING: f64 = 1.4;
/// ... and the power of the distance from the limit by which that decreases: at twice the limit it
/// is a 64th.
const WIDENING_POWER: i32 = 6;
/// Critical value of the ratio of the power of the three slowest cosines to that of the six
/// fastest: with independent times, one run in 200 exceeds it. (A ratio of means of 3 and 6 squared
/// normal variates has an F distribution with 3 and 6 degrees of freedom; its 99.5th percentile is
/// 12.9.)
const REDNESS_MAX: f64 = 12.9;
/// Autocorrelation matters if the ends of the median's interval have at least this ratio.
const ENDS_RATIO_MIN: f64 = 1.2;
/// A mean of times with a tail as heavy as that of a distribution without a variance needs at least
/// this number of times ...
const HEAVY_TAIL_SAMPLES: u64 = 20_000;
/// ... where the tail is the longest 50th of them ...
const TAIL: u64 = 50;
/// ... and its index must exceed 2 by this number of standard errors for a lighter tail.
const LIGHTER_ERRORS: f64 = 1.5;

/// A closed 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub lo: f64,
    /// Its upper end.
    pub hi: f64,
}

/// The reason for a missing interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "no_interval", rename_all = "kebab-case")]
pub enum NoInterval {
    /// Nothing was measured.
    Empty,
    /// The sample is too small for the figure, or for its interval even if all times were
    /// independent.
    TooFewSamples {
        /// The sample size that it needs.
        needs: u64,
    },
    /// The run is shorter than a second (or than 32 of its blocks).
    TooShort,
    /// As many independent times would do, but the effective sample size is too small: the times
    /// are strongly autocorrelated.
    Autocorrelated {
        /// The effective sample size.
        effective: f64,
    },
    /// A short part of the run decides the figure alone.
    Dominated,
    /// The result was saved by a version that kept no blocks, or the figure has none.
    NotRecorded,
    /// The plan changes the target rate, so the completed rate is not a constant to estimate.
    RateChanges,
}

/// The intervals of one section of a run.
#[derive(Clone, Debug)]
pub struct Confidence<'a> {
    hist: &'a Hist,
    seconds: f64,
    missing: Option<NoInterval>,
    blocks: Vec<&'a Block>,
    cosines: Cosines,
    /// The number of times in the blocks up to and including each bin.
    up_to: Vec<u64>,
}

impl Interval {
    /// The distance from `figure` to the further end, as a share of `figure`. 0 if the interval is
    /// a single value.
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

    /// The intervals of its service times, if they were kept, or are the response times: no service
    /// time is longer than its response time, so all are equal if their distributions are.
    pub fn of_service(tally: &'a Tally) -> Option<Self> {
        let Tally { times, series, service_series, .. } = tally;
        let is_same = times.service == times.response && times.service.count() > 0;
        let served = service_series.as_deref().or_else(|| is_same.then_some(series))?;
        Some(Self::of_series(tally, &times.service, served))
    }

    /// The intervals of the times of messages in streams, if there were any.
    pub fn of_stream(tally: &'a Tally, time: StreamTime) -> Option<Self> {
        let (hist, series) = tally.stream_times(time)?;
        Some(Self::of_series(tally, hist, series))
    }

    /// The intervals of the times of a kind, if these were kept over time.
    pub fn of_times(tally: &'a Tally, timed: Timed) -> Option<Self> {
        match timed {
            Timed::Response => Some(Self::of(tally)),
            Timed::Service => Self::of_service(tally),
            other => Self::of_stream(tally, StreamTime::of(other)?),
        }
    }

    fn of_series(tally: &Tally, hist: &'a Hist, series: &'a Series) -> Self {
        let (from, until) = (tally.start.since(series.start()), tally.end.since(series.start()));
        let kept = !series.blocks().all().is_empty();
        let blocks = series.blocks().between(from, until).map(|(_, block)| block).collect();
        let length = series.blocks().length();
        let mut all = Self::of_blocks(hist, blocks, length);
        if !kept && hist.count() > 0 {
            all.missing = Some(NoInterval::NotRecorded);
        }
        all
    }

    /// The same, from blocks of this length and the histogram of all times.
    pub fn of_blocks(hist: &'a Hist, blocks: Vec<&'a Block>, length: Span) -> Self {
        let mut up_to = vec![0; BINS];
        for &(bin, n) in blocks.iter().flat_map(|b| &b.bins) {
            up_to[usize::from(bin)] += u64::from(n);
        }
        for i in 1..BINS {
            up_to[i] += up_to[i - 1];
        }
        // A run that is shorter than a block has times, but none in a block.
        let is_short = hist.count() > 0 && blocks.len() < BLOCKS_MIN;
        let missing = if is_short {
            Some(NoInterval::TooShort)
        } else {
            (up_to[BINS - 1] == 0).then_some(NoInterval::Empty)
        };
        let seconds = length.as_secs_f64() * blocks.len() as f64;
        Self { hist, seconds, missing, cosines: Cosines::new(blocks.len()), blocks, up_to }
    }

    /// The interval of the mean time, in nanoseconds: batch means with the variance of module
    /// `spectrum`, and Student's t adjusted for skewness (Johnson, JASA 73, 1978). If the sample is
    /// too small for that, Student's t of as many independent times as it is worth.
    ///
    /// # Errors
    /// If the sample is too small for that, too.
    pub fn mean(&self) -> Result<Interval, NoInterval> {
        self.spectral_mean().or_else(|why| match why {
            NoInterval::Dominated => worth::range_if_alike(self.hist).ok_or(why),
            // A part of the run that decides alone, or a tail, has no variance to go by.
            NoInterval::TooFewSamples { needs: HEAVY_TAIL_SAMPLES } => Err(why),
            _ => self.effect(0.5)?.mean(self.hist),
        })
    }

    /// The same by the spectral method only.
    fn spectral_mean(&self) -> Result<Interval, NoInterval> {
        self.ready()?;
        let total = self.up_to[BINS - 1] as f64;
        let extra = self.surplus_of_sums();
        let mean = self.hist.mean_ns().ok_or(NoInterval::Empty)?;
        if self.hist.count() < HEAVY_TAIL_SAMPLES && self.is_heavy_tailed() {
            return Err(NoInterval::TooFewSamples { needs: HEAVY_TAIL_SAMPLES });
        }
        let n = self.hist.count() as f64;
        let spread = self.cosines.spread(&extra);
        // Times that are not equal vary. If their blocks do not, few are in whole blocks, or all
        // are in one.
        let varies = self.hist.stdev_ns().unwrap_or_default() > 0.0;
        if self.hist.count() < TIMES_MIN || varies && spread.variance <= 0.0 {
            return Err(match n < EFFECTIVE_MIN {
                true => NoInterval::TooFewSamples { needs: EFFECTIVE_MIN as u64 },
                false => NoInterval::Dominated,
            });
        }
        // If all times around the median are equal, the times themselves give the effective sample
        // size: n times the ratio of the variance of independent times to the estimated variance.
        let alone = || {
            let variance = self.hist.stdev_ns().unwrap_or_default().powi(2) * total.powi(2);
            if spread.variance > 0.0 { variance / spread.variance } else { f64::INFINITY }
        };
        let independent = self.design_effect(0.5).map_or_else(alone, |d| n / d);
        if spread.variance > 0.0 {
            if independent < EFFECTIVE_MIN && n < EFFECTIVE_MIN {
                return Err(NoInterval::TooFewSamples { needs: EFFECTIVE_MIN as u64 });
            }
            spread.check_dominant()?;
            if independent < EFFECTIVE_MIN {
                return Err(NoInterval::Autocorrelated { effective: independent });
            }
        }
        let wider = widening(n / independent, independent / EFFECTIVE_MIN);
        // Scaled from the times in whole blocks to all times.
        let scale = 1.0 / total * (total / n).sqrt();
        let (below, above) = spread.reach(wider);
        Ok(Interval { lo: (mean - below * scale).max(0.0), hi: mean + above * scale })
    }

    /// The interval of the rate of successes, per second, from the numbers of replies in the
    /// blocks.
    ///
    /// If the run is too short.
    pub fn rate(&self, rate: f64) -> Result<Interval, NoInterval> {
        self.ready()?;
        // Those of a damaged file may be more than an integer can count.
        let replies = self.blocks.iter().map(|b| b.replies as f64).sum::<f64>();
        let mean = replies / self.blocks.len() as f64;
        let extra: Vec<f64> = self.blocks.iter().map(|b| b.replies as f64 - mean).collect();
        let spread = self.cosines.spread(&extra);
        let error = spread.variance.sqrt() / self.seconds;
        let reach = spread.t() * error;
        if rate <= 0.0 || reach >= rate {
            // The standard error of n independent replies is the square root of n.
            let needs = spread.t().powi(2).ceil() as u64;
            return Err(if replies < needs as f64 {
                NoInterval::TooFewSamples { needs }
            } else {
                NoInterval::Autocorrelated { effective: (rate / error).powi(2) }
            });
        }
        spread.check_dominant()?;
        Ok(Interval { lo: rate - reach, hi: rate + reach })
    }

    /// The ratio of low-frequency to higher-frequency power in the course of the mean, if it is far
    /// beyond chance and the interval of the median is wide enough to matter: then the run is worth
    /// about one independent sample.
    pub fn autocorrelation(&self) -> Option<f64> {
        self.ready().ok()?;
        let surplus = self.surplus(0.5)?;
        let redness = self.cosines.redness(&self.surplus_of_sums())?;
        let (lo, hi) = self.ranks(0.5, &surplus, 1.0);
        let Interval { lo, hi } = self.between(lo.max(1.0), hi.min(self.hist.count() as f64));
        (redness > REDNESS_MAX && hi > lo * ENDS_RATIO_MIN).then_some(redness)
    }

    /// The design effect at a quantile, at least 1; `None` if the run is too short for one.
    pub fn inflation(&self, q: f64) -> Option<f64> {
        self.ready().ok()?;
        self.design_effect(q).map(|effect| effect.max(1.0))
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.hist.count()
    }

    /// Their mean, in nanoseconds.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        self.hist.mean_ns()
    }

    /// Whether there are intervals at all.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn ready(&self) -> Result<(), NoInterval> {
        self.missing.map_or(Ok(()), Err)
    }

    /// The surplus of each block: the sum of its times minus their number times the mean.
    fn surplus_of_sums(&self) -> Vec<f64> {
        let sum = self.blocks.iter().map(|b| b.sum_ns as f64).sum::<f64>();
        let mean = sum / self.up_to[BINS - 1] as f64;
        self.blocks.iter().map(|b| b.sum_ns as f64 - mean * b.count() as f64).collect()
    }

    /// Whether the tail is as heavy as that of a distribution with infinite variance, or lighter
    /// only by chance: the Hill estimate (Annals of Statistics 3, 1975) of the tail index is below
    /// 2, or above it by less than [`LIGHTER_ERRORS`] standard errors.
    fn is_heavy_tailed(&self) -> bool {
        let total = self.up_to[BINS - 1];
        let below = total - total / TAIL;
        let least = self.up_to.partition_point(|&n| n <= below);
        let log = |bin: usize| (series::bin_value(bin as u16).0.max(1) as f64).ln();
        let (mut longest, mut sum) = (0, 0.0);
        for bin in least..BINS {
            let before = bin.checked_sub(1).map_or(0, |before| self.up_to[before]);
            let here = self.up_to[bin] - before.max(below);
            longest += here;
            sum += here as f64 * (log(bin) - log(least));
        }
        let longest = longest as f64;
        // The standard error of the Hill estimate of k times is its value over sqrt(k).
        sum * 2.0 * (1.0 + LIGHTER_ERRORS / longest.sqrt()) > longest
    }
}

/// The factor by which an interval is widened near the limit of the effective sample size.
/// `design_effect`: how many successive times are worth one independent time; `room`: the ratio by
/// which the limit is passed. A run in which little happened by chance looks less correlated, and
/// its figures are biased; near the limit, most runs that pass are of this kind.
fn widening(design_effect: f64, room: f64) -> f64 {
    let alike = 1.0 - 1.0 / design_effect.max(1.0);
    1.0 + WIDENING * alike * room.powi(WIDENING_POWER).recip()
}
