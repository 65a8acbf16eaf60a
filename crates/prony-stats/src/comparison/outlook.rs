//! What the rest of a comparison can still decide.
//!
//! The mean difference over all rounds of the budget is predicted from those so far, with their
//! variance (Student's t); so is the width of its last interval. The chance that this interval
//! decides says whether it is worth going on: the conditional power of a stochastically curtailed
//! test (Lan, Simon and Halperin, Sequential Analysis 1, 1982).

use super::figure::Figure;
use super::interval::{Ends, RESOLUTION, moments};
use crate::summary::student::{t_critical, t_error};

/// Below this chance of a decision, more rounds are not worth their time.
pub(super) const CHANCE_MIN: f64 = 0.1;

/// The last interval, as far as it can be predicted.
pub(super) struct Outlook {
    lower: End,
    upper: End,
}

/// One end of it.
struct End {
    /// What it is expected to be.
    at: f64,
    /// Its standard deviation, and the degrees of freedom of that.
    spread: f64,
    freedom: f64,
}

/// How many rounds there were, and can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) so_far: u32,
    pub(super) most: u32,
}

impl Outlook {
    /// The outlook from at least three differences. `error` is the error probability at the last
    /// look, `least` the least half-width of today's interval.
    pub(super) fn of(
        figure: Figure,
        differences: &[Ends],
        rounds: Rounds,
        error: f64,
        least: f64,
    ) -> Option<Self> {
        let n = differences.len() as f64;
        if differences.len() < 3 {
            return None;
        }
        let share = f64::from(rounds.so_far) / f64::from(rounds.most);
        let last = n / share;
        let resolution = match figure {
            Figure::Percentile(_) | Figure::Distribution => RESOLUTION,
            _ => 0.0,
        };
        let critical = t_critical(error, last - 1.0);
        let end = |of: fn(&Ends) -> f64, sign: f64| {
            let values: Vec<f64> = differences.iter().map(of).collect();
            let (mean, variance) = moments(&values)?;
            let half = critical * (variance / last).sqrt();
            let half = half.max(least * share.sqrt()) + resolution;
            let spread = (variance * (1.0 / n - 1.0 / last).max(0.0)).sqrt();
            Some(End { at: mean + sign * half, spread, freedom: n - 1.0 })
        };
        let unknown = |at| End { at, spread: 0.0, freedom: 1.0 };
        let is_known = |of: fn(&Ends) -> f64| differences.iter().all(|d| of(d).is_finite());
        let lower = if is_known(|d| d.least) {
            end(|d| d.least, -1.0)?
        } else {
            unknown(f64::NEG_INFINITY)
        };
        let upper =
            if is_known(|d| d.most) { end(|d| d.most, 1.0)? } else { unknown(f64::INFINITY) };
        Some(Self { lower, upper })
    }

    /// The chance that it excludes this change.
    pub(super) fn excludes(&self, change: f64) -> f64 {
        self.lower.is_above(change) + 1.0 - self.upper.is_above(change)
    }

    /// The chance that it lies between these changes: if both ends move together.
    pub(super) fn is_within(&self, least: f64, most: f64) -> f64 {
        (self.lower.is_above(least) - self.upper.is_above(most)).max(0.0)
    }
}

impl End {
    /// The chance that it will be above a change.
    fn is_above(&self, change: f64) -> f64 {
        let distance = self.at - change;
        if self.spread == 0.0 || !distance.is_finite() {
            return if distance > 0.0 { 1.0 } else { 0.0 };
        }
        let beyond = t_error(distance.abs() / self.spread, self.freedom) / 2.0;
        if distance > 0.0 { 1.0 - beyond } else { beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(values: &[f64], slack: f64, most: u32) -> Outlook {
        let ends = |&v: &f64| Ends { least: v - slack, measured: v, most: v + slack };
        let differences: Vec<Ends> = values.iter().map(ends).collect();
        let rounds = Rounds { so_far: values.len() as u32, most };
        Outlook::of(Figure::Mean, &differences, rounds, 0.01, 0.0).expect("an outlook")
    }

    #[test]
    fn a_change_far_beyond_its_noise_will_be_found() {
        let clear = outlook(&[0.19, 0.21, 0.2, 0.18, 0.22, 0.2], 0.0, 54);
        assert!(clear.excludes(0.0) > 0.999 && clear.is_within(-0.02, 0.02) < 1e-3);
        let same = outlook(&[0.001, -0.001, 0.002, -0.002, 0.001, -0.001], 0.0, 54);
        assert!(same.is_within(-0.02, 0.02) > 0.99 && same.excludes(0.05) > 0.99);
    }

    #[test]
    fn noise_leaves_little_chance() {
        let noise: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 0.3 } else { -0.3 }).collect();
        let hopeless = outlook(&noise, 0.0, 54);
        let chance = hopeless.excludes(0.0) + hopeless.is_within(-0.02, 0.02);
        assert!(chance < CHANCE_MIN, "{chance}");
    }

    #[test]
    fn what_the_meter_may_have_added_does_not_shrink() {
        let values = [0.19, 0.21, 0.2, 0.18, 0.22, 0.2];
        assert!(outlook(&values, 0.1, 540).excludes(0.0) > 0.999);
        assert!(outlook(&values, 0.3, 540).excludes(0.0) < 1e-3);
        let unbounded = Ends { least: f64::NEG_INFINITY, measured: 0.2, most: 0.2 };
        let rounds = Rounds { so_far: 6, most: 54 };
        let half = Outlook::of(Figure::Mean, &[unbounded; 6], rounds, 0.01, 0.0).expect("one");
        assert_eq!((half.excludes(0.0), half.excludes(0.3)), (0.0, 1.0));
        assert!(Outlook::of(Figure::Mean, &[unbounded; 2], rounds, 0.01, 0.0).is_none());
    }
}
