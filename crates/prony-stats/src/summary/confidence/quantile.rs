//! The confidence interval of a quantile (Woodruff, JASA 47, 1952): the interval of the share of
//! times up to a point, from the blocks, gives an interval of ranks, and the histogram gives the
//! times of these ranks. No density estimate is needed.

use std::iter;

use prony_base::units::Span;
use prony_tally::record::hist::Hist;
use prony_tally::record::series::{self, BINS};

use super::{Confidence, EFFECTIVE_MIN, Interval, NoInterval, widening};

/// The minimum effective sample size beyond a quantile.
const BEYOND_MIN: f64 = 20.0;
/// The maximum ratio of odds between q and the share at an edge between bins that is used in place
/// of q.
const ODDS_MAX: f64 = 4.0;
/// The number of iterations for each end.
const ROUNDS: usize = 4;
/// A bin's times are assumed evenly spread if it holds at most this multiple of the times of either
/// neighbor; otherwise they may be a single value.
const EVEN: u64 = 3;

/// The surplus of each block at an edge between bins: its number of times up to the edge, minus its
/// total times the overall share up to the edge.
pub(super) struct Surplus {
    pub(super) parts: Vec<f64>,
    share: f64,
}

/// A bin of the histogram and its position among all times.
struct Place {
    /// The smallest and the largest possible time in it, in nanoseconds.
    least: f64,
    greatest: f64,
    /// Its lower edge and its width.
    low: f64,
    width: f64,
    /// The number of times below it, and in it.
    below: f64,
    count: f64,
    /// Whether its times can be assumed evenly spread.
    even: bool,
}

impl Confidence<'_> {
    /// The interval of a quantile of the time, in nanoseconds. If the sample is too small for the
    /// spectral method, that of as many independent times as it is worth.
    ///
    /// # Errors
    /// Where the sample cannot carry it.
    pub fn quantile(&self, q: f64) -> Result<Interval, NoInterval> {
        let needs = Hist::samples_needed(q);
        self.spectral_quantile(q).or_else(|why| match why {
            NoInterval::TooFewSamples { needs: for_any } if for_any == needs => Err(why),
            _ => self.effect(q)?.quantile(self.hist, q),
        })
    }

    /// The same by the spectral method only.
    pub(super) fn spectral_quantile(&self, q: f64) -> Result<Interval, NoInterval> {
        let n = self.hist.count();
        let needs = Hist::samples_needed(q);
        if n > 0 && n < needs {
            return Err(NoInterval::TooFewSamples { needs });
        }
        self.ready()?;
        let n = self.hist.count() as f64;
        let share = q.min(1.0 - q);
        let surplus = self.surplus(q);
        let own = surplus.as_ref().map(|surplus| self.design_effect_of(surplus));
        let design_effect = self.design_effect_nearer(q).or(own).unwrap_or_default();
        // If nothing varies, all times are independent.
        let beyond = n / design_effect * share;
        let independent = n / self.design_effect(0.5).unwrap_or_default();
        if beyond < BEYOND_MIN || independent < EFFECTIVE_MIN {
            // Too few even if all times were independent?
            let needs = (BEYOND_MIN / share).round().max(EFFECTIVE_MIN);
            return Err(if n < needs {
                NoInterval::TooFewSamples { needs: needs as u64 }
            } else {
                NoInterval::Autocorrelated { effective: independent.min(beyond / share) }
            });
        }
        let Some(surplus) = surplus else { return Ok(self.bin_of_rank(q)) };
        let room = (beyond / BEYOND_MIN).min(independent / EFFECTIVE_MIN);
        let (lo, hi) = self.ranks(q, &surplus, widening(design_effect, room));
        if lo < 1.0 || hi > n {
            return Err(NoInterval::Autocorrelated { effective: independent.min(beyond / share) });
        }
        let Interval { lo, hi } = self.between(lo, hi);
        // The reported figure is the upper end of its bin.
        let figure = self.hist.estimate(q).unwrap_or_default().0 as f64;
        Ok(Interval { lo: lo.min(figure), hi: hi.max(figure) })
    }

    /// The design effect (how many successive times are worth one independent time) around the
    /// quantile: the estimated variance of the share of times up to it, divided by that of
    /// independent times. `None` if there is only a single value around it.
    pub(super) fn design_effect(&self, q: f64) -> Option<f64> {
        Some(self.design_effect_of(&self.surplus(q)?))
    }

    fn design_effect_of(&self, surplus: &Surplus) -> f64 {
        self.cosines.rough_variance(&surplus.parts) / self.binomial_variance(surplus)
    }

    /// The mean of the design effect over the quantiles with two, four, ... times as many times
    /// beyond them. This decides whether there is an interval: if a tail decided by itself, the
    /// runs in which little happened there by chance would pass, and their intervals are too
    /// narrow.
    fn design_effect_nearer(&self, q: f64) -> Option<f64> {
        let tails = iter::successors(Some(q.min(1.0 - q) * 2.0), |tail| Some(tail * 2.0));
        let nearer = tails.take_while(|&tail| tail <= 0.5);
        let all: Vec<f64> = nearer
            .filter_map(|tail| self.design_effect(if q < 0.5 { tail } else { 1.0 - tail }))
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The binomial variance of the number of times up to the edge, for independent times.
    pub(super) fn binomial_variance(&self, surplus: &Surplus) -> f64 {
        self.up_to[BINS - 1] as f64 * surplus.share * (1.0 - surplus.share)
    }

    /// The ends of the interval of ranks, `wider` times as far apart as estimated. A score interval
    /// (Wilson, JASA 22, 1927): each end uses the variance at the end itself, that is, the surplus
    /// there.
    pub(super) fn ranks(&self, q: f64, own: &Surplus, wider: f64) -> (f64, f64) {
        let n = self.hist.count() as f64;
        let reach = |surplus: &Surplus| {
            let spread = self.cosines.spread(&surplus.parts);
            let error =
                (spread.variance / self.binomial_variance(surplus) * q * (1.0 - q) / n).sqrt();
            error * spread.t_of_share() * wider
        };
        let near = reach(own);
        let (least, most) = (1.0 / n, 1.0 - 1.0 / n);
        let end = |side: f64| {
            let mut end = q + side * near;
            for _ in 0..ROUNDS {
                let there = self.surplus(end.clamp(least, most));
                // Damped by half, so that the iteration does not oscillate.
                end = f64::midpoint(end, q + side * there.as_ref().map_or(near, reach));
            }
            end
        };
        ((end(-1.0) * n).round(), (end(1.0) * n).round() + 1.0)
    }

    /// The surplus at the edge between bins nearest to the quantile.
    pub(super) fn surplus(&self, q: f64) -> Option<Surplus> {
        let (bin, share) = self.edge(q)?;
        let parts = self.blocks.iter().map(|b| {
            let below = b.bins.iter().take_while(|&&(at, _)| usize::from(at) <= bin);
            let below: u64 = below.map(|&(_, n)| u64::from(n)).sum();
            below as f64 - share * b.count() as f64
        });
        Some(Surplus { parts: parts.collect(), share })
    }

    /// The last bin below that edge, and the share of times up to it.
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

    /// The bin of the series that contains the quantile, clamped to minimum and maximum. Used if
    /// all times around the quantile are in one bin.
    fn bin_of_rank(&self, q: f64) -> Interval {
        let value = self.hist.estimate(q).unwrap_or_default();
        let bin = series::bin_of(value);
        let (lo, hi) = series::bin_bounds(bin);
        let (min, max) = (self.hist.min().unwrap_or_default(), self.hist.max().unwrap_or_default());
        Interval { lo: lo.max(min).0 as f64, hi: hi.min(max).0 as f64 }
    }

    /// The times of two ranks. If the histogram cannot distinguish them, the whole bin.
    pub(super) fn between(&self, lo: f64, hi: f64) -> Interval {
        let (first, last) = (self.place(lo), self.place(hi));
        let apart = first.low < last.low;
        let inside = |place: &Place, rank: f64| {
            let within = place.low + place.width * (rank - place.below) / (place.count + 1.0);
            (apart && place.even).then_some(within.clamp(place.least, place.greatest))
        };
        Interval {
            lo: inside(&first, lo).unwrap_or(first.least),
            hi: inside(&last, hi).unwrap_or(last.greatest),
        }
    }

    /// The bin of the time with this rank, from 1.
    fn place(&self, rank: f64) -> Place {
        let (min, max) = (self.hist.min().unwrap_or_default(), self.hist.max().unwrap_or_default());
        let n = self.hist.count() as f64;
        let value = self.hist.estimate(((rank - 0.5) / n).clamp(0.0, 1.0)).unwrap_or_default();
        let (low, next) = (Hist::bin_start(value).0, Hist::bin_end(value));
        let count = self.hist.count_in_bin(value);
        let before = low.checked_sub(1).map(Span);
        let count_of = |t: Span| self.hist.count_in_bin(t);
        let beside = before.map_or(0, count_of).min(count_of(next));
        Place {
            least: low.clamp(min.0, max.0) as f64,
            greatest: value.0 as f64,
            low: low as f64,
            width: (next.0 - low) as f64,
            below: before.map_or(0, |before| self.hist.count_between(Span::ZERO, before)) as f64,
            count: count as f64,
            even: count <= beside * EVEN,
        }
    }
}
