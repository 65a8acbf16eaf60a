//! A figure, how well it is known, and whether it keeps to a limit.

use prony_base::units::Span;
use prony_plan::threshold::{Relation, Threshold};
use prony_tally::record::hist::{Hist, TIME_MAX};

use super::super::confidence::{Effects, Interval, NoInterval};
use super::super::student::z_critical;
use super::binomial::Sample;

/// The chance that a figure lies beyond one end of its 95 % confidence interval.
const TAIL: f64 = 0.025;

/// A figure and how well it is known.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    /// In the unit of its threshold; `None` where the run has none.
    pub(super) value: Option<f64>,
    /// `Ok(None)`: exactly.
    pub(super) interval: Result<Option<Interval>, NoInterval>,
    /// What a decision looks at.
    pub(super) evidence: Evidence<'a>,
}

/// How a decision is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    /// For a run this many times as long in which all goes on as it was.
    pub(super) multiple: f64,
    /// The chance of a wrong decision about a figure that lies just at its limit.
    pub(super) level: f64,
}

impl Test {
    /// By how much a 95 % confidence interval must be wider, which is wrong on each side in one of
    /// forty runs.
    fn widening(self) -> f64 {
        if self.level >= TAIL { 1.0 } else { z_critical(2.0 * self.level) / z_critical(2.0 * TAIL) }
    }
}

/// What a decision about a figure looks at.
#[derive(Clone, Debug)]
pub(super) enum Evidence<'a> {
    /// Nothing: the figure can be anything.
    Nothing,
    /// The figure itself.
    Exact(f64),
    /// Its 95 % confidence interval.
    Interval(f64, Interval),
    /// How many are of the kind that is counted.
    Share(Sample),
    /// The times of which it is a percentile.
    Percentile(Percentile<'a>),
}

/// A percentile of times.
#[derive(Clone, Debug)]
pub(super) struct Percentile<'a> {
    pub(super) times: &'a Hist,
    /// How much shorter the times can be.
    pub(super) shift: Span,
    /// The quantile, over 0 and below 1.
    pub(super) q: f64,
    /// How correlated the times are; `None` if that is not known.
    pub(super) effects: Option<Effects>,
}

impl<'a> Known<'a> {
    pub(super) const NOTHING: Self =
        Self { value: None, interval: Err(NoInterval::Empty), evidence: Evidence::Nothing };

    pub(super) fn exact(value: f64) -> Self {
        Self { value: Some(value), interval: Ok(None), evidence: Evidence::Exact(value) }
    }

    pub(super) fn estimate(value: f64, interval: Result<Interval, NoInterval>) -> Self {
        let evidence = match interval {
            Ok(interval) => Evidence::Interval(value, interval),
            Err(_) => Evidence::Nothing,
        };
        Self { value: Some(value), interval: interval.map(Some), evidence }
    }
}

impl Evidence<'_> {
    /// How many do not keep to the limit of a percentile (at most), or are of the kind of a share;
    /// and of how many.
    pub(super) fn counted(&self, threshold: &Threshold) -> Option<(u64, u64)> {
        match self {
            Self::Percentile(percentile) => {
                let (_, most) = percentile.wrong(threshold.relation, threshold.limit);
                Some((most, percentile.times.count()))
            }
            Self::Share(sample) => Some((sample.k as u64, sample.n as u64)),
            Self::Nothing | Self::Exact(_) | Self::Interval(..) => None,
        }
    }

    /// Whether the figure keeps to a limit; `None` if that is not certain.
    pub(super) fn keeps(&self, relation: Relation, limit: f64, test: Test) -> Option<bool> {
        let Test { multiple, level } = test;
        let holds = |value: f64| relation.holds(value, limit);
        let is_upper = matches!(relation, Relation::Below | Relation::AtMost);
        match self {
            Self::Nothing => None,
            Self::Exact(value) => Some(holds(*value)),
            Self::Interval(value, Interval { lo, hi }) => {
                let nearer = test.widening() / multiple.sqrt();
                let lo = value - (value - lo) * nearer;
                let hi = value + (hi - value) * nearer;
                match (holds(lo), holds(hi)) {
                    (true, true) if relation != Relation::Equal => Some(true),
                    (false, false) => Some(false),
                    _ => None,
                }
            }
            Self::Share(sample) => {
                let Sample { k, n, independent } = *sample;
                let [k, n, independent] = [k, n, independent].map(|number| number * multiple);
                let sample = Sample { k, n, independent };
                let below = sample.is_below(limit, level);
                let above = sample.is_above(limit, level);
                let keeps = if is_upper { (below, above) } else { (above, below) };
                decided(keeps)
            }
            Self::Percentile(percentile) => percentile.keeps(relation, limit, test),
        }
    }
}

/// Whether it certainly keeps to the limit, and certainly does not.
fn decided((keeps, breaks): (bool, bool)) -> Option<bool> {
    (keeps || breaks).then_some(keeps)
}

impl Percentile<'_> {
    /// It keeps to an upper limit if the share of times beyond the limit is certainly smaller than
    /// the percentile allows; to a lower one likewise.
    fn keeps(&self, relation: Relation, limit: f64, test: Test) -> Option<bool> {
        let Test { multiple, level } = test;
        let is_upper = match relation {
            Relation::Below | Relation::AtMost => true,
            Relation::Above | Relation::AtLeast => false,
            Relation::Equal => return None,
        };
        let n = self.times.count() as f64 * multiple;
        let allowed = if is_upper { 1.0 - self.q } else { self.q };
        let effect = self.effects.as_ref().map(|all| all.near(limit + self.shift.0 as f64));
        let sample = |wrong: u64| Sample {
            k: wrong as f64 * multiple,
            n,
            independent: effect.map_or(0.0, |effect| effect.independent(n)),
        };
        let (least, most) = self.wrong(relation, limit);
        let keeps = sample(most).is_below(allowed, level);
        decided((keeps, sample(least).is_above(allowed, level)))
    }

    /// How many of the times do not keep to the limit, at least and at most: the histogram does not
    /// say on which side of it those in its own bin are.
    pub(super) fn wrong(&self, relation: Relation, limit: f64) -> (u64, u64) {
        let all = self.times.count();
        let (Some(min), Some(max)) = (self.times.min(), self.times.max()) else { return (0, 0) };
        // Shorter times keep to a limit as measured ones to a limit that is longer.
        let limit = limit + self.shift.0 as f64;
        let holds = |time: Span| relation.holds(time.0 as f64, limit);
        let is_upper = matches!(relation, Relation::Below | Relation::AtMost);
        match (holds(min), holds(max)) {
            (true, true) => return (0, 0),
            (false, false) => return (all, all),
            _ => {}
        }
        let at = Span(limit.clamp(0.0, TIME_MAX.0 as f64) as u64);
        let inside = self.times.count_in_bin(at);
        let first = Hist::bin_start(at);
        let below = match first.0 {
            0 => 0,
            first => self.times.count_between(Span::ZERO, Span(first - 1)),
        };
        let above = all - below - inside;
        if is_upper { (above, above + inside) } else { (below, below + inside) }
    }
}
