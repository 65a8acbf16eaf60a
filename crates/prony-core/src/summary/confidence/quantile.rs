//! The interval of a quantile: how far the share of the times below an edge may be off by chance,
//! as the blocks tell it, and which times have the ranks that follow (Woodruff 1952), so that no
//! density is needed.

use std::iter;

use super::{Confidence, INDEPENDENT_LEAST, Interval, Lack, caution};
use crate::record::hist::Hist;
use crate::record::series::{self, BINS};

/// Nothing is said of a quantile with fewer independent times beyond it.
const BEYOND_LEAST: f64 = 20.0;
/// How many times further from q than q is from certainty, in odds, an edge between two bins may
/// lie and still tell how strongly the times hang together at q.
const ODDS_MAX: f64 = 4.0;
/// So often the ends are looked for where they were found last.
const ROUNDS: usize = 4;
/// The times of a histogram's bin lie anywhere in it, evenly, where it holds at most so many times
/// what either bin beside it does; else they may be a single value.
const EVEN: u64 = 3;

/// How many times more than its part each block has up to an edge between two bins, and the share
/// of all times up to it.
pub(super) struct Surplus {
    parts: Vec<f64>,
    share: f64,
}

/// A bin of the histogram, and which of all times lie in it.
struct Place {
    /// The least and the greatest of its times, as far as is known, in nanoseconds.
    least: f64,
    greatest: f64,
    /// How far it reaches.
    low: f64,
    width: f64,
    /// How many of all times lie below it, and in it.
    below: f64,
    count: f64,
    /// Whether they can be taken to be spread evenly in it.
    even: bool,
}

impl Confidence<'_> {
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
        let dependence = self.dependence_nearer(q).or(own).unwrap_or_default();
        // Where nothing varies all are independent.
        let beyond = n / dependence * q.min(1.0 - q);
        let independent = n / self.dependence(0.5).unwrap_or_default();
        if beyond < BEYOND_LEAST || independent < INDEPENDENT_LEAST {
            return Err(Lack::Dependent { independent: beyond });
        }
        let Some(surplus) = surplus else { return Ok(self.bin_of_rank(q)) };
        let room = (beyond / BEYOND_LEAST).min(independent / INDEPENDENT_LEAST);
        let (lo, hi) = self.ranks(q, &surplus, caution(dependence, room));
        if lo < 1.0 || hi > n {
            return Err(Lack::Dependent { independent: beyond });
        }
        let Interval { lo, hi } = self.between(lo, hi);
        // The figure that is told is the upper end of its bin.
        let figure = self.hist.estimate(q).unwrap_or_default().0 as f64;
        Ok(Interval { lo: lo.min(figure), hi: hi.max(figure) })
    }

    /// How strongly the times hang together around the quantile: how many times larger the variance
    /// of the share of times up to it is than it were of independent ones. `None` where nothing but
    /// a single value lies around it.
    pub(super) fn dependence(&self, q: f64) -> Option<f64> {
        Some(self.dependence_of(&self.surplus(q)?))
    }

    fn dependence_of(&self, surplus: &Surplus) -> f64 {
        self.waves.rough_variance(&surplus.parts) / self.alone(surplus)
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

    /// The variance of the number of times up to the edge, were they independent.
    fn alone(&self, surplus: &Surplus) -> f64 {
        self.up_to[BINS - 1] as f64 * surplus.share * (1.0 - surplus.share)
    }

    /// The ranks within which the quantile's own may lie, `wider` times as far away as the surplus
    /// tells. What is asked of each end is whether the quantile could lie there: so it is the times
    /// around the end that tell how far the share there may be off (an interval of scores, Wilson
    /// 1927).
    pub(super) fn ranks(&self, q: f64, own: &Surplus, wider: f64) -> (f64, f64) {
        let n = self.hist.count() as f64;
        let reach = |surplus: &Surplus| {
            let spread = self.waves.spread(&surplus.parts);
            let error = (spread.variance / self.alone(surplus) * q * (1.0 - q) / n).sqrt();
            error * spread.t_of_share() * wider
        };
        let near = reach(own);
        let (least, most) = (1.0 / n, 1.0 - 1.0 / n);
        let end = |side: f64| {
            let mut end = q + side * near;
            for _ in 0..ROUNDS {
                let there = self.surplus(end.clamp(least, most));
                // By halves, so that it does not swing to and fro.
                end = f64::midpoint(end, q + side * there.as_ref().map_or(near, reach));
            }
            end
        };
        ((end(-1.0) * n).round(), (end(1.0) * n).round() + 1.0)
    }

    /// How many more times each block has up to the edge between two bins that is nearest to the
    /// quantile than its part.
    pub(super) fn surplus(&self, q: f64) -> Option<Surplus> {
        let (bin, share) = self.edge(q)?;
        let parts = self.blocks.iter().map(|b| {
            let below = b.bins.iter().take_while(|&&(at, _)| usize::from(at) <= bin);
            let below: u64 = below.map(|&(_, n)| u64::from(n)).sum();
            below as f64 - share * b.count() as f64
        });
        Some(Surplus { parts: parts.collect(), share })
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

    /// From the time of the one rank to that of the other, as far as the histogram tells. Where it
    /// cannot tell them apart that is the whole bin.
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

    /// Where the time of that rank lies, counted from 1.
    fn place(&self, rank: f64) -> Place {
        let (min, max) = (self.hist.min().unwrap_or_default(), self.hist.max().unwrap_or_default());
        let n = self.hist.count() as f64;
        let value = self.hist.estimate(((rank - 0.5) / n).clamp(0.0, 1.0)).unwrap_or_default();
        let bins = self.hist.bins();
        let (low, next) = (bins.lowest_equivalent(value.0), bins.next_non_equivalent(value.0));
        let count = bins.count_at(value.0);
        let before = low.checked_sub(1);
        let beside = before.map_or(0, |before| bins.count_at(before)).min(bins.count_at(next));
        Place {
            least: low.clamp(min.0, max.0) as f64,
            greatest: value.0 as f64,
            low: low as f64,
            width: (next - low) as f64,
            below: before.map_or(0, |before| bins.count_between(0, before)) as f64,
            count: count as f64,
            even: count <= beside * EVEN,
        }
    }
}
