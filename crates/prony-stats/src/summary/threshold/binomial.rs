//! Decisions about shares: of times beyond a limit, of failures, of checks that pass.
//!
//! Each decision is a one-sided test at 5 % (Clopper and Pearson, Biometrika 26, 1934): a share
//! that lies just at its limit is called below it in at most one of twenty runs, and above it as
//! rarely. With correlated samples, the number of independent ones replaces their number.

use super::super::student::incomplete_beta;

/// The chance of a wrong decision about a figure that lies just at its limit.
pub(super) const LEVEL: f64 = 0.05;
/// The longest extension that is worth naming, as a multiple of the run.
const LONGEST: f64 = 1_000.0;
/// The steps in which a sufficient extension is looked for.
const STEP: f64 = 1.05;

/// How many of a sample are of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Of that kind.
    pub(super) k: f64,
    /// All of them.
    pub(super) n: f64,
    /// How many independent ones these are worth; 0 if that is not known.
    pub(super) independent: f64,
}

impl Sample {
    /// Number of independent ones, and of that kind among them. If all are alike, they are worth
    /// one at least, however much they depend on each other: each alone is of that kind with the
    /// probability of the share.
    fn worth(&self) -> Option<(f64, f64)> {
        let Self { k, n, independent } = *self;
        let worth = if k <= 0.0 || k >= n { independent.max(1.0) } else { independent };
        (n > 0.0 && worth >= 1.0).then_some((k / n * worth, worth))
    }

    /// Whether the share is certainly below `limit` (0 to 1); `level` is the chance that this is
    /// wrong.
    pub(super) fn is_below(&self, limit: f64, level: f64) -> bool {
        let Some((k, n)) = self.worth() else { return false };
        // The probability of so few, if the share were at the limit.
        limit >= 1.0
            || limit > 0.0 && k < n && incomplete_beta(n - k, k + 1.0, 1.0 - limit) <= level
    }

    /// Whether the share is certainly above `limit` (0 to 1).
    pub(super) fn is_above(&self, limit: f64, level: f64) -> bool {
        let Some((k, n)) = self.worth() else { return false };
        k > 0.0 && (limit <= 0.0 || incomplete_beta(k, n - k + 1.0, limit) <= level)
    }
}

/// How many times as long the run would have to be for `is_decided`, which gets that multiple;
/// `None` if even a thousand times would not do.
pub(super) fn multiple(is_decided: impl Fn(f64) -> bool) -> Option<f64> {
    let all = std::iter::successors(Some(STEP), |multiple| Some(multiple * STEP));
    all.take_while(|&multiple| multiple <= LONGEST).find(|&multiple| is_decided(multiple))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(k: f64, n: f64) -> Sample {
        Sample { k, n, independent: n }
    }

    /// The rule of three: no failure of 3,000 decides 0.1 %, and of 2,900 does not.
    #[test]
    fn nothing_of_three_thousand_is_below_a_thousandth() {
        assert!(sample(0.0, 3_000.0).is_below(0.001, LEVEL));
        assert!(!sample(0.0, 2_900.0).is_below(0.001, LEVEL));
        let more =
            multiple(|m| sample(0.0, 2_000.0 * m).is_below(0.001, LEVEL)).expect("a multiple");
        assert!((1.5..1.58).contains(&more), "{more}");
    }

    /// Clopper and Pearson's table: 2 of 10 has the one-sided limits 0.0368 and 0.5069.
    #[test]
    fn limits_are_those_of_the_tables() {
        let two = sample(2.0, 10.0);
        assert!(two.is_below(0.507, LEVEL) && !two.is_below(0.506, LEVEL));
        assert!(two.is_above(0.0367, LEVEL) && !two.is_above(0.0369, LEVEL));
        assert!(sample(1.0, 10.0).is_above(0.0, LEVEL) && !sample(0.0, 10.0).is_above(0.0, LEVEL));
        assert!(!sample(0.0, 10.0).is_below(0.0, LEVEL) && sample(10.0, 10.0).is_below(1.0, LEVEL));
    }

    #[test]
    fn what_is_all_alike_is_worth_one() {
        let all = Sample { k: 40.0, n: 40.0, independent: 0.0 };
        assert!(all.is_above(0.04, LEVEL) && !all.is_above(0.06, LEVEL));
        let none = Sample { k: 0.0, ..all };
        assert!(none.is_below(0.96, LEVEL) && !none.is_below(0.94, LEVEL));
        let some = Sample { k: 39.0, ..all };
        assert!(!some.is_above(0.01, LEVEL) && !some.is_below(0.99, LEVEL));
        assert!(!Sample { k: 0.0, n: 0.0, independent: 0.0 }.is_below(0.99, LEVEL));
    }

    #[test]
    fn a_share_at_its_limit_is_never_decided() {
        assert_eq!(multiple(|m| sample(50.0 * m, 100.0 * m).is_below(0.5, LEVEL)), None);
    }
}
