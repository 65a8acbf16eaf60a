//! The interval of the change of one figure, from pairs of blocks or from groups of runs.

use super::figure::Figure;
use crate::summary::confidence::Interval;
use crate::summary::student::{t_critical, z_critical};

/// How closely the histograms know a quantile, as a logarithm of a ratio: values are at most 0.1 %
/// too high.
pub(super) const RESOLUTION: f64 = 0.001;

/// A change and how well it is known: the logarithm of a ratio, or a difference of shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) estimate: f64,
    pub(super) interval: Interval,
    /// The interval without what the meter may have added.
    pub(super) as_measured: Interval,
    /// The least and the most that the estimate can be, with what the meter may have added.
    pub(super) least: f64,
    pub(super) most: f64,
    /// The number of pairs from which it is known; 0 if not from pairs.
    pub(super) pairs: u32,
}

/// A value as it is compared, and the ends between which the true one lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ends {
    /// Negative infinity if there is no such end.
    pub(super) least: f64,
    pub(super) measured: f64,
    /// Infinity if there is no such end.
    pub(super) most: f64,
}

/// Requests that ended, and those of them that failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) ended: u64,
    pub(super) failed: u64,
}

impl Ends {
    /// How much larger it is than A.
    pub(super) fn against(self, a: Self) -> Self {
        Self {
            least: self.least - a.most,
            measured: self.measured - a.measured,
            most: self.most - a.least,
        }
    }

    /// Whether the meter may have added anything.
    fn is_disturbed(self) -> bool {
        self.least < self.measured || self.most > self.measured
    }

    /// Whether both ends are known.
    pub(super) fn is_bounded(self) -> bool {
        self.least.is_finite() && self.most.is_finite()
    }
}

impl Change {
    fn of(estimate: f64, half: f64) -> Self {
        Self::between(estimate, Interval { lo: estimate - half, hi: estimate + half })
    }

    fn between(estimate: f64, interval: Interval) -> Self {
        let (least, most) = (estimate, estimate);
        Self { estimate, interval, as_measured: interval, least, most, pairs: 0 }
    }

    /// The same with what the meter may have added to both sides.
    pub(super) fn with_meter(self, a: Ends, b: Ends) -> Self {
        let Ends { least, measured, most } = b.against(a);
        let Interval { lo, hi } = self.interval;
        let interval = Interval { lo: lo - (measured - least), hi: hi + (most - measured) };
        Self { interval, least, most, ..self }
    }

    /// The same with an interval whose ends are these far from the least and the most.
    fn reaching(self, (least, below): (f64, f64), (most, above): (f64, f64)) -> Self {
        let interval = Interval {
            lo: if least.is_finite() { least - below } else { f64::NEG_INFINITY },
            hi: if most.is_finite() { most + above } else { f64::INFINITY },
        };
        Self { interval, least, most, ..self }
    }

    /// The same with an interval that reaches at least this far.
    pub(super) fn at_least(self, half: f64) -> Self {
        let reach = |Interval { lo, hi }: Interval| Interval {
            lo: lo.min(self.estimate - half),
            hi: hi.max(self.estimate + half),
        };
        let [interval, as_measured] = [self.interval, self.as_measured].map(reach);
        Self { interval, as_measured, ..self }
    }

    /// What the values of a figure say at the best.
    fn resolved(self, figure: Figure) -> Self {
        match figure {
            Figure::Percentile(_) | Figure::Distribution => {
                let wider = |Interval { lo, hi }: Interval| Interval {
                    lo: lo - RESOLUTION,
                    hi: hi + RESOLUTION,
                };
                let [interval, as_measured] = [self.interval, self.as_measured].map(wider);
                Self { interval, as_measured, ..self }
            }
            Figure::Mean | Figure::Rate | Figure::Errors | Figure::Cpu => self,
        }
    }
}

/// The value as it is compared: times and rates by their logarithm.
pub(super) fn compared(figure: Figure, value: f64) -> f64 {
    if figure.is_ratio() { libm::log(value) } else { value }
}

/// The mean difference of pairs, with Student's t (at least two pairs). Its lower end is that of
/// the least differences, its upper end that of the most, and both are at least `least_half` from
/// their means.
pub(super) fn of_pairs(
    figure: Figure,
    differences: &[Ends],
    error: f64,
    least_half: f64,
) -> Option<Change> {
    let n = differences.len() as f64;
    if differences.len() < 2 {
        return None;
    }
    let critical = t_critical(error, n - 1.0);
    let mean_and_half = |of: fn(&Ends) -> f64| {
        let (mean, variance) = moments(&differences.iter().map(of).collect::<Vec<f64>>())?;
        Some((mean, (critical * (variance / n).sqrt()).max(least_half)))
    };
    let (estimate, half) = mean_and_half(|d| d.measured)?;
    let measured = Change { pairs: differences.len() as u32, ..Change::of(estimate, half) };
    if !differences.iter().any(|d| d.is_disturbed()) {
        return Some(measured.resolved(figure));
    }
    let lower = mean_and_half(|d| d.least)?;
    let upper = mean_and_half(|d| d.most)?;
    Some(measured.reaching(lower, upper).resolved(figure))
}

/// The difference of the means of two groups: Welch (Biometrika 34, 1947), with the degrees of
/// freedom of Satterthwaite; of a single run and a group, the standard deviation of the group for
/// both. `None` for two single runs. The lower end is that of the least of B against the most of A,
/// and the other way round.
pub(super) fn of_groups(figure: Figure, a: &[Ends], b: &[Ends], error: f64) -> Option<Change> {
    let values = |all: &[Ends], of: fn(&Ends) -> f64| all.iter().map(of).collect::<Vec<f64>>();
    let welch = |of_a, of_b| welch(&values(a, of_a), &values(b, of_b), error);
    let (estimate, half) = welch(|e| e.measured, |e| e.measured)?;
    let measured = Change::of(estimate, half);
    if !a.iter().chain(b).any(|e| e.is_disturbed()) {
        return Some(measured.resolved(figure));
    }
    let lower = welch(|e| e.most, |e| e.least)?;
    let upper = welch(|e| e.least, |e| e.most)?;
    Some(measured.reaching(lower, upper).resolved(figure))
}

/// The difference of two means, and its half-width.
fn welch(a: &[f64], b: &[f64], error: f64) -> Option<(f64, f64)> {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let estimate = mean(b) - mean(a);
    let half = match (moments(a), moments(b)) {
        (None, None) => return None,
        (Some((_, variance)), None) | (None, Some((_, variance))) => {
            let n = (a.len() + b.len() - 1) as f64;
            t_critical(error, n - 1.0) * (variance * (1.0 + 1.0 / n)).sqrt()
        }
        (Some((_, va)), Some((_, vb))) => {
            let (na, nb) = (a.len() as f64, b.len() as f64);
            let (sa, sb) = (va / na, vb / nb);
            let spread = sa + sb;
            if spread > 0.0 {
                let freedom = spread.powi(2) / (sa.powi(2) / (na - 1.0) + sb.powi(2) / (nb - 1.0));
                t_critical(error, freedom) * spread.sqrt()
            } else {
                0.0
            }
        }
    };
    Some((estimate, half))
}

/// The difference of two runs whose 95 % confidence intervals are known, each as it is compared:
/// their half-widths are those of normal estimates.
pub(super) fn of_runs(
    figure: Figure,
    (a, of_a): (f64, Interval),
    (b, of_b): (f64, Interval),
    error: f64,
) -> Change {
    let scale = z_critical(error) / z_critical(0.05);
    // Towards its further end each, as the intervals are not symmetric.
    let down = ((b - of_b.lo).powi(2) + (of_a.hi - a).powi(2)).sqrt() * scale;
    let up = ((of_b.hi - b).powi(2) + (a - of_a.lo).powi(2)).sqrt() * scale;
    let interval = Interval { lo: b - a - down, hi: b - a + up };
    Change::between(b - a, interval).resolved(figure)
}

/// How far a difference of two shares must at least be uncertain, however alike the blocks are:
/// independent failures (Agresti and Caffo, The American Statistician 54, 2000).
pub(super) fn of_counts(a: Counts, b: Counts, error: f64) -> f64 {
    let variance = |c: Counts| {
        let n = c.ended as f64 + 2.0;
        let share = (c.failed as f64 + 1.0) / n;
        share * (1.0 - share) / n
    };
    z_critical(error) * (variance(a) + variance(b)).sqrt()
}

/// Mean and sample variance of at least two values.
pub(super) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some((mean, variance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(values: &[f64]) -> Vec<Ends> {
        values.iter().map(|&v| Ends { least: v, measured: v, most: v }).collect()
    }

    fn half(change: Change) -> f64 {
        (change.interval.hi - change.interval.lo) / 2.0
    }

    /// 10, 12, 14, 16, 18: mean 14, standard deviation sqrt(10), t of 4 degrees 2.776.
    #[test]
    fn pairs_have_students_t() {
        let change = of_pairs(Figure::Mean, &exact(&[10.0, 12.0, 14.0, 16.0, 18.0]), 0.05, 0.0)
            .expect("pairs");
        assert!((change.estimate - 14.0).abs() < 1e-12);
        assert!((half(change) - 2.776_445 * 2_f64.sqrt()).abs() < 1e-5, "{change:?}");
        assert_eq!(of_pairs(Figure::Mean, &exact(&[1.0]), 0.05, 0.0), None);
        let equal =
            of_pairs(Figure::Percentile(50.0), &exact(&[0.0; 6]), 0.05, 0.0).expect("pairs");
        assert!((half(equal) - RESOLUTION).abs() < 1e-12, "{equal:?}");
    }

    /// Both sides of the middle pair were disturbed: its difference is between 11 and 15.
    #[test]
    fn disturbed_pairs_count_with_their_ends() {
        let mut pairs = exact(&[10.0, 12.0, 14.0, 16.0, 18.0]);
        pairs[2] = Ends { least: 11.0, measured: 14.0, most: 15.0 };
        let change = of_pairs(Figure::Mean, &pairs, 0.05, 0.0).expect("pairs");
        let as_measured =
            of_pairs(Figure::Mean, &exact(&[10.0, 12.0, 14.0, 16.0, 18.0]), 0.05, 0.0);
        assert_eq!(Some(change.as_measured), as_measured.map(|c| c.interval));
        let least = of_pairs(Figure::Mean, &exact(&[10.0, 12.0, 11.0, 16.0, 18.0]), 0.05, 0.0);
        let most = of_pairs(Figure::Mean, &exact(&[10.0, 12.0, 15.0, 16.0, 18.0]), 0.05, 0.0);
        assert_eq!(Some(change.interval.lo), least.map(|c| c.interval.lo));
        assert_eq!(Some(change.interval.hi), most.map(|c| c.interval.hi));
        pairs[0].most = f64::INFINITY;
        let open = of_pairs(Figure::Mean, &pairs, 0.05, 0.0).expect("pairs");
        assert_eq!((open.interval.lo, open.interval.hi), (change.interval.lo, f64::INFINITY));
    }

    /// Two groups of equal size and variance: as many degrees of freedom as in the pooled test.
    #[test]
    fn groups_have_welchs_interval() {
        let (a, b) = (exact(&[1.0, 2.0, 3.0]), exact(&[11.0, 12.0, 13.0]));
        let change = of_groups(Figure::Mean, &a, &b, 0.05).expect("groups");
        assert!((change.estimate - 10.0).abs() < 1e-12);
        assert!((half(change) - 2.776_445 * (2.0_f64 / 3.0).sqrt()).abs() < 1e-5, "{change:?}");
        // One run and a group: a prediction interval.
        let one = of_groups(Figure::Mean, &a, &exact(&[12.0]), 0.05).expect("a group");
        assert!((half(one) - 4.302_653 * (4.0_f64 / 3.0).sqrt()).abs() < 1e-5, "{one:?}");
        assert_eq!(of_groups(Figure::Mean, &exact(&[1.0]), &exact(&[2.0]), 0.05), None);
    }

    /// The last run of B was disturbed: without what was added it took between 10 and 13.
    #[test]
    fn disturbed_runs_count_with_their_ends() {
        let (a, mut b) = (exact(&[1.0, 2.0, 3.0]), exact(&[11.0, 12.0, 13.0]));
        let of = |b: &[Ends]| of_groups(Figure::Mean, &a, b, 0.05).expect("groups");
        let (measured, least) = (of(&b), of(&exact(&[11.0, 12.0, 10.0])));
        b[2].least = 10.0;
        let change = of(&b);
        assert_eq!(change.as_measured, measured.interval);
        assert_eq!(change.interval, Interval { lo: least.interval.lo, hi: measured.interval.hi });
        b[2].least = f64::NEG_INFINITY;
        assert_eq!(of(&b).interval.lo, f64::NEG_INFINITY);
        assert_eq!(of(&b).interval.hi, measured.interval.hi);
        let [one, other] = [a[0], b[2]];
        let single = of_runs(
            Figure::Mean,
            (1.0, Interval { lo: 0.9, hi: 1.1 }),
            (13.0, Interval { lo: 12.5, hi: 13.5 }),
            0.05,
        );
        assert_eq!(single.with_meter(one, other).interval.lo, f64::NEG_INFINITY);
        let bounded = single.with_meter(one, Ends { least: 10.0, ..other }).interval;
        assert!((single.interval.lo - bounded.lo - 3.0).abs() < 1e-12, "{bounded:?}");
        assert_eq!(bounded.hi, single.interval.hi);
    }

    #[test]
    fn two_runs_add_the_squares_of_their_half_widths() {
        let a = (0.0, Interval { lo: -0.3, hi: 0.3 });
        let b = (1.0, Interval { lo: 0.6, hi: 1.4 });
        let change = of_runs(Figure::Mean, a, b, 0.05);
        assert!((change.interval.lo - 0.5).abs() < 1e-9, "{change:?}");
        assert!((change.interval.hi - 1.5).abs() < 1e-9, "{change:?}");
        assert!(half(of_runs(Figure::Mean, a, b, 0.01)) > 0.65);
    }

    #[test]
    fn no_failures_leave_the_shares_uncertain() {
        let none = Counts { ended: 998, failed: 0 };
        let half = of_counts(none, none, 0.05);
        // Two shares of 1 in 1,000.
        let expected = 1.959_964 * (2.0_f64 * 0.001 * 0.999 / 1_000.0).sqrt();
        assert!((half / expected - 1.0).abs() < 1e-6, "{half}");
    }
}
