//! What a decision that was not made would take: how many rounds more, if all goes on as it was.
//! The width of an interval shrinks with the root of the number of rounds, and with the quantile of
//! Student's t; what the meter may have added, and what histograms round, does not shrink.

use super::figure::Figure;
use super::interval::{Change, RESOLUTION};
use crate::summary::student::t_critical;

/// A comparison that needs more times as many rounds than this is never decided.
const TIMES_MAX: f64 = 1e4;

/// What a change is known by, in order to say what more of it would take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Price {
    change: Change,
    /// The part of each half of the interval that does not shrink.
    resolution: f64,
    rounds: f64,
    error: f64,
}

impl Price {
    /// Of a change that is known from this number of rounds; `None`: from too few.
    pub(super) fn of(figure: Figure, change: Change, rounds: u32, error: f64) -> Option<Self> {
        let resolution = match figure {
            Figure::Percentile(_) | Figure::Distribution => RESOLUTION,
            Figure::Mean | Figure::Rate | Figure::Errors | Figure::Cpu => 0.0,
        };
        (change.pairs >= 3).then_some(Self { change, resolution, rounds: rounds.into(), error })
    }

    /// How many rounds more would exclude this change; `None`: none would.
    pub(super) fn excludes(&self, at: f64) -> Option<f64> {
        let Change { least, most, .. } = self.change;
        let sides = [self.times(least - at, self.below()), self.times(at - most, self.above())];
        self.more(sides.into_iter().flatten().reduce(f64::min))
    }

    /// How many would show that it lies between these.
    pub(super) fn is_within(&self, lo: f64, hi: f64) -> Option<f64> {
        let Change { least, most, .. } = self.change;
        let of_lower = self.times(least - lo, self.below());
        let of_upper = self.times(hi - most, self.above());
        self.more(of_lower.zip(of_upper).map(|(a, b)| a.max(b)))
    }

    fn more(&self, times: Option<f64>) -> Option<f64> {
        times.map(|times| (self.rounds * (times - 1.0)).ceil())
    }

    fn below(&self) -> f64 {
        self.change.least - self.change.interval.lo
    }

    fn above(&self) -> f64 {
        self.change.interval.hi - self.change.most
    }

    /// How many times as many rounds there must be for a half-width that is below this distance.
    fn times(&self, distance: f64, half: f64) -> Option<f64> {
        let (distance, half) = (distance - self.resolution, half - self.resolution);
        if !(distance > 0.0 && half.is_finite()) {
            return None;
        }
        let pairs = f64::from(self.change.pairs);
        let critical = |times: f64| t_critical(self.error, pairs * times - 1.0);
        let now = critical(1.0);
        let is_enough = |times: f64| half * critical(times) / now / times.sqrt() <= distance;
        if is_enough(1.0) {
            return Some(1.0);
        }
        if !is_enough(TIMES_MAX) {
            return None;
        }
        let (mut few, mut enough) = (1.0, TIMES_MAX);
        while enough / few > 1.01 {
            let times = f64::sqrt(few * enough);
            if is_enough(times) { enough = times } else { few = times }
        }
        Some(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::{Ends, of_pairs};
    use super::*;

    fn price(values: &[f64], slack: f64, figure: Figure) -> Price {
        let ends = |&v: &f64| Ends { least: v - slack, measured: v, most: v + slack };
        let differences: Vec<Ends> = values.iter().map(ends).collect();
        let change = of_pairs(figure, &differences, 0.01, 0.0).expect("pairs");
        Price::of(figure, change, values.len() as u32, 0.01).expect("pairs enough")
    }

    /// A mean of 0.01 and a standard deviation of 0.05.
    fn noise(n: usize) -> Vec<f64> {
        (0..n).map(|i| if i % 2 == 0 { 0.06 } else { -0.04 }).collect()
    }

    /// With many pairs, twice as near needs four times as many.
    #[test]
    fn rounds_are_those_of_the_square_root() {
        let many = price(&noise(1_000), 0.0, Figure::Mean);
        let half = 2.576 * 0.05 / 1_000_f64.sqrt();
        let near = many.excludes(0.01 - half / 2.0).expect("a price");
        assert!((near / 3_000.0 - 1.0).abs() < 0.02, "{near}");
        assert_eq!(many.excludes(0.01 - 2.0 * half), Some(0.0), "it is decided");
        assert_eq!(many.excludes(0.01), None, "the estimate itself is never excluded");
        let within = many.is_within(0.01 - half, 0.01 + half / 2.0).expect("a price");
        assert!((within / 3_000.0 - 1.0).abs() < 0.02, "{within}");
        assert_eq!(many.is_within(0.02, 0.04), None);
    }

    /// With few, the quantile of Student's t falls, too.
    #[test]
    fn few_pairs_need_fewer_than_the_square_root_says() {
        let few = price(&noise(6), 0.0, Figure::Mean);
        let more = few.excludes(0.0).expect("a price");
        let half = few.below();
        assert!(more < 0.7 * 6.0 * ((half / 0.01_f64).powi(2) - 1.0), "{more}");
        assert!(more > 100.0, "{more}");
    }

    #[test]
    fn what_does_not_shrink_has_no_price() {
        let added = price(&noise(100), 0.02, Figure::Mean);
        assert_eq!(added.excludes(0.0), None);
        assert!(added.excludes(-0.02).is_some_and(|more| more > 0.0));
        let rounded = price(&noise(100), 0.0, Figure::Percentile(50.0));
        assert!(rounded.excludes(0.0) > price(&noise(100), 0.0, Figure::Mean).excludes(0.0));
        assert_eq!(rounded.excludes(0.0095), None);
        assert_eq!(Price::of(Figure::Mean, added.change, 2, 0.01).map(|p| p.rounds), Some(2.0));
    }
}
