//! How many independent times the times of a run are worth in a decision about one of their
//! quantiles.
//!
//! Whether a quantile keeps to a limit depends on the share of times beyond the limit, so what
//! counts is how much larger the variance of such a share is than with independent times (Kish's
//! design effect). It is estimated where the share is the one that the limit allows, not where it
//! is measured: a run in which nothing lies beyond the limit says nothing about how such times
//! would come. The largest of several estimates counts, since the quiet runs, in which a decision
//! would be wrong, have small ones.

use std::iter;

use prony_tally::record::hist::Hist;

use super::spectrum::t_quantile;
use super::{Confidence, Interval, NoInterval};

/// The share by which an estimated effect lessens the worth. An estimate of twelve degrees of
/// freedom takes 0.15 (the squared ratio of the one-sided 95 % quantiles of the normal distribution
/// and of Student's t: Korn and Graubard, Survey Methodology 24, 1998). The rest is for its bias.
const ESTIMATED: f64 = 0.2;
/// An estimated effect up to this is what independent times can have by chance.
const BY_CHANCE: f64 = 2.0;
/// The fewest independent times beyond a quantile from which its interval is estimated, times their
/// effect: the more come at once, the more the ends of the interval are those of single bursts ...
const BEYOND_MIN: f64 = 4.0;
/// ... and from which that of a mean is.
const MEAN_MIN: f64 = 20.0;
/// Times that differ by no more than this share of their mean have a mean between the shortest and
/// the longest.
const ALIKE: f64 = 0.01;
/// A level of times matters for a limit from that share of the way from the shortest time to it.
const NEAR: f64 = 0.1;
/// Degrees of freedom of a variance that is known.
const KNOWN: f64 = 1e9;
/// At this worth, correlated times count for half: the correlation then extends over so large a
/// part of the run that the effect is underestimated.
const LONG: f64 = 200.0;

/// The design effect of shares near a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::summary) struct Effect {
    /// At least 1.
    size: f64,
    /// Whether it may be too small, as it was estimated from the times themselves.
    is_rough: bool,
}

impl Effect {
    /// That of independent times.
    pub(in crate::summary) const NONE: Self = Self { size: 1.0, is_rough: false };

    /// An effect that was estimated from the times; less than 1 counts as 1.
    fn estimated(size: f64) -> Self {
        Self { size: size.max(1.0), is_rough: true }
    }

    /// The effect of a larger sample, of which these times are a part.
    pub(in crate::summary) fn of_whole(size: f64) -> Self {
        Self { size: size.max(1.0), is_rough: false }
    }

    /// How many independent times `n` of these are worth.
    pub(in crate::summary) fn independent(self, n: f64) -> f64 {
        let Self { size, is_rough } = self;
        if !is_rough {
            return n / size;
        }
        let alike = 1.0 - 1.0 / size;
        let worth = n / size * (1.0 - ESTIMATED * alike);
        worth / (1.0 + alike * alike * (LONG / worth).powi(2))
    }

    /// The interval of a quantile of times with this effect: the times of the ranks of Wilson's
    /// interval of the share.
    ///
    /// # Errors
    /// It would extend beyond the shortest or the longest time.
    pub(in crate::summary) fn quantile(self, hist: &Hist, q: f64) -> Result<Interval, NoInterval> {
        let n = hist.count() as f64;
        let independent = self.independent(n);
        let (low, high) = wilson(q, independent, t_quantile(KNOWN));
        let tail = q.min(1.0 - q);
        let few = self.is_rough && independent * tail < BEYOND_MIN * self.size;
        if hist.is_empty() || few || low * n < 1.0 || high * n > n - 1.0 {
            // The upper end is below the longest time from some four times beyond it on.
            return Err(self.too_few(hist, (BEYOND_MIN / tail).round() as u64));
        }
        let at = |q: f64| hist.estimate(q).unwrap_or_default().0 as f64;
        Ok(Interval { lo: at(low), hi: at(high) })
    }

    /// The interval of the mean: Student's t, with as many independent times as these are worth.
    ///
    /// # Errors
    /// They are worth too few.
    pub(in crate::summary) fn mean(self, hist: &Hist) -> Result<Interval, NoInterval> {
        let mean = hist.mean_ns().ok_or(NoInterval::Empty)?;
        let independent = self.independent(hist.count() as f64);
        if let Some(range) = range_if_alike(hist) {
            return Ok(range);
        }
        if independent < MEAN_MIN * if self.is_rough { self.size } else { 1.0 } {
            return Err(self.too_few(hist, MEAN_MIN as u64));
        }
        let stdev = hist.stdev_ns().unwrap_or_default();
        let reach = t_quantile(independent - 1.0) * stdev / independent.sqrt();
        Ok(Interval { lo: (mean - reach).max(0.0), hi: mean + reach })
    }

    /// The true reason why these times are too few; `needs` independent ones would do.
    fn too_few(self, hist: &Hist, needs: u64) -> NoInterval {
        if self.size > BY_CHANCE && hist.count() >= needs {
            let effective = self.independent(hist.count() as f64);
            return NoInterval::Autocorrelated { effective };
        }
        let needs = (needs as f64 * self.size.min(BY_CHANCE).powi(2)).ceil() as u64;
        NoInterval::TooFewSamples { needs: needs.max(hist.count() + 1) }
    }
}

/// The shortest and the longest time, if there are enough and they hardly differ.
pub(super) fn range_if_alike(hist: &Hist) -> Option<Interval> {
    let (min, max, mean) = (hist.min()?, hist.max()?, hist.mean_ns()?);
    let are_alike = hist.count() >= MEAN_MIN as u64 && (max - min).0 as f64 <= mean * ALIKE;
    are_alike.then_some(Interval { lo: min.0 as f64, hi: max.0 as f64 })
}

/// The effects at several levels of the times, from the tail that a quantile allows to the median.
#[derive(Clone, Debug)]
pub(in crate::summary) struct Effects {
    /// In nanoseconds; 0 if lower levels say no less about a limit.
    shortest: f64,
    /// The nearest to the quantile first.
    levels: Vec<Level>,
}

/// The effects of the times beyond one of them.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// That time, in nanoseconds.
    time: f64,
    /// From the lowest frequencies.
    few: f64,
    /// From many.
    rough: f64,
}

impl Effects {
    /// The same at all levels.
    pub(in crate::summary) fn alike(Effect { size, .. }: Effect) -> Self {
        let level = Level { time: f64::INFINITY, few: size, rough: size };
        Self { shortest: 0.0, levels: vec![level] }
    }

    /// The effect at all levels.
    fn all(&self) -> Effect {
        Effect::of_levels(&self.levels)
    }

    /// The effect for a decision about a limit (in nanoseconds): that of the levels which are near
    /// it. How times come that hardly differ from the shortest says nothing about such that are
    /// many times as far away from it.
    pub(in crate::summary) fn near(&self, limit: f64) -> Effect {
        let is_near = |level: &&Level| level.time - self.shortest >= NEAR * (limit - self.shortest);
        let near: Vec<Level> = self.levels.iter().filter(is_near).copied().collect();
        Effect::of_levels(&near)
    }
}

impl Effect {
    /// The largest estimate from some levels; none of them: independent times.
    fn of_levels(levels: &[Level]) -> Self {
        let mean = |of: &[Level], which: fn(&Level) -> f64| {
            of.iter().map(which).sum::<f64>() / of.len().max(1) as f64
        };
        let nearest = mean(&levels[..levels.len().min(2)], |level| level.few);
        let few = mean(levels, |level| level.few);
        Self::estimated(nearest.max(few).max(mean(levels, |level| level.rough)))
    }
}

impl Confidence<'_> {
    /// The effect for decisions about the quantile `q` (over 0 and below 1).
    ///
    /// # Errors
    /// The run is too short to estimate it, or has no times.
    pub(in crate::summary) fn effect(&self, q: f64) -> Result<Effect, NoInterval> {
        Ok(self.effects(q)?.all())
    }

    /// The same by levels.
    ///
    /// # Errors
    /// As of the effect.
    pub(in crate::summary) fn effects(&self, q: f64) -> Result<Effects, NoInterval> {
        self.ready()?;
        let tails = iter::successors(Some(q.min(1.0 - q)), |tail| Some(tail * 2.0));
        let of_tail = |tail: f64| {
            let q = if q < 0.5 { tail } else { 1.0 - tail };
            let surplus = self.surplus(q)?;
            let independent = self.binomial_variance(&surplus);
            Some(Level {
                time: self.hist.estimate(q)?.0 as f64,
                few: self.cosines.spread(&surplus.parts).variance / independent,
                rough: self.cosines.rough_variance(&surplus.parts) / independent,
            })
        };
        let levels = tails.take_while(|&tail| tail <= 0.5).filter_map(of_tail).collect();
        let shortest = self.hist.min().unwrap_or_default().0 as f64;
        Ok(Effects { shortest, levels })
    }
}

/// Wilson's interval of a share of `n` independent events.
pub(in crate::summary) fn wilson(share: f64, n: f64, z: f64) -> (f64, f64) {
    let zz = z * z;
    let center = (share + zz / (2.0 * n)) / (1.0 + zz / n);
    let reach = z / (1.0 + zz / n) * (share * (1.0 - share) / n + zz / (4.0 * n * n)).sqrt();
    ((center - reach).max(0.0), (center + reach).min(1.0))
}

#[cfg(test)]
mod tests {
    use prony_base::units::Span;

    use super::*;

    #[test]
    fn independent_times_are_worth_their_number() {
        assert_eq!(Effect::NONE.independent(3_000.0), 3_000.0);
        assert_eq!(Effect::of_whole(0.4), Effect::NONE);
    }

    /// 10,000 times of which ten in a row are alike: 1,000, less what the estimate may be off.
    #[test]
    fn correlated_times_are_worth_less() {
        let many = Effect::estimated(10.0).independent(10_000.0);
        assert!((780.0..800.0).contains(&many), "{many}");
        // A run that is hardly longer than its correlation is worth next to nothing.
        let few = Effect::estimated(100.0).independent(1_000.0);
        assert!(few < 0.1, "{few}");
        let times = [100.0, 1_000.0, 10_000.0, 1e5, 1e6];
        let worth = times.map(|n| Effect::estimated(30.0).independent(n));
        assert!(worth.is_sorted(), "{worth:?}");
    }

    /// The reason is that which is true: too few times, or times that are alike.
    #[test]
    fn a_figure_without_an_interval_says_why() {
        let mut hist = Hist::new();
        (0..19).for_each(|i| hist.record(Span(1_000 + i * 100)));
        assert_eq!(Effect::NONE.mean(&hist), Err(NoInterval::TooFewSamples { needs: 20 }));
        hist.record(Span(3_000));
        assert!(Effect::NONE.mean(&hist).is_ok());
        let alike = Effect::estimated(4.0).mean(&hist);
        assert!(matches!(alike, Err(NoInterval::Autocorrelated { .. })), "{alike:?}");
        (0..2_000).for_each(|i| hist.record(Span(1_000 + i)));
        assert!(Effect::NONE.quantile(&hist, 0.99).is_ok());
        let alike = Effect::estimated(20.0).quantile(&hist, 0.99);
        assert!(matches!(alike, Err(NoInterval::Autocorrelated { .. })), "{alike:?}");
        let few = Effect::NONE.quantile(&hist, 0.999);
        assert_eq!(few, Err(NoInterval::TooFewSamples { needs: 4_000 }));
    }

    /// Times that are all alike have an interval without width, however they depend on each other.
    #[test]
    fn constant_times_have_a_known_mean() {
        let mut hist = Hist::new();
        hist.record_n(Span(20_000_000), 100);
        let mean = Effect::estimated(50.0).mean(&hist);
        assert_eq!(mean, Ok(Interval { lo: 20_000_000.0, hi: 20_000_000.0 }));
    }
}
