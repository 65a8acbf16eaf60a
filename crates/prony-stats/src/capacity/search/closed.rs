//! Closed loops: after the search by connections, their throughput is measured from one connection
//! to beyond the capacity, in random order, for the Universal Scalability Law.

use prony_base::units::Span;

use super::{Observed, SHORT, Search, WARMUP};
use crate::capacity::scalability::{self, Scalability};
use crate::capacity::{By, Estimate, Finding, Purpose};
use crate::summary::confidence::Interval;
use crate::summary::student::t_critical;

/// Numbers of connections on the curve at most, evenly spaced on a logarithmic scale, and how often
/// each is measured.
const NUMBERS: u32 = 8;
const VISITS: usize = 3;
/// How far the curve goes beyond the capacity, as a factor.
const BEYOND: f64 = 2.0;
/// The share of the budget for all of them.
const SHARE: f64 = 0.25;
/// Requests of a trial, as far as there is room for them.
const REQUESTS: f64 = 5_000.0;
/// The fewest trials that show the throughput at the capacity, and how far from it they may be.
const TRIALS_MIN: usize = 3;
const NEAR: f64 = 0.05;

impl Search {
    /// The time to keep for the curve.
    pub(super) fn for_curve(&self) -> Span {
        match self.settings.by {
            By::Rate => Span::ZERO,
            By::Connections => Span::from_secs_f64(self.settings.budget.as_secs_f64() * SHARE),
        }
    }

    /// Chooses the trials of the curve; `false` if there are none.
    pub(super) fn plan_curve(&mut self, finding: &Finding) -> bool {
        let highest = match *finding {
            Finding::Capacity { rate, .. } => {
                // Where the load generator is the limit, the throughput is its own.
                let limited = self.seen.iter().filter(|o| o.limit.is_some());
                let limited = limited.map(|o| o.point.trial.rate).fold(f64::INFINITY, f64::min);
                (rate * BEYOND).min(limited - 1.0)
            }
            Finding::AtLeast { rate: Some(rate), .. } => rate,
            _ => return false,
        };
        if self.settings.by == By::Rate {
            return false;
        }
        let highest = highest.min(self.settings.most).max(1.0);
        let last = f64::from(NUMBERS - 1);
        let mut numbers: Vec<f64> =
            (0..NUMBERS).map(|i| highest.powf(f64::from(i) / last).round()).collect();
        numbers.dedup();
        let mut trials = numbers.repeat(VISITS);
        // Within a visit, all numbers once: what drifts affects all of them.
        for visit in trials.chunks_mut(numbers.len()) {
            for i in (1..visit.len()).rev() {
                visit.swap(i, self.rng.below(i as u64 + 1) as usize);
            }
        }
        let one = self.of(Purpose::Bracket).find(|o| o.point.trial.rate <= 1.0);
        let slowest = one.and_then(|o| o.point.goodput.value).unwrap_or(1.0).max(1e-3);
        let wanted = (REQUESTS / slowest).max(SHORT.as_secs_f64());
        let reserve = if self.settings.beyond.is_some() { self.whole() } else { Span::ZERO };
        let left = self.left().saturating_sub(reserve).min(self.for_curve());
        let room = left.as_secs_f64() / (trials.len() as f64 * (1.0 + WARMUP));
        self.curve_length = Span::from_secs_f64(wanted.min(room));
        self.curve = trials;
        room > 0.01
    }

    /// The model, from the trials of the curve that have the target as their limit.
    pub(super) fn scalability(&self) -> Option<Scalability> {
        if self.settings.by == By::Rate {
            return None;
        }
        let of = |o: &Observed| Some((o.point.trial.rate, o.point.goodput.value?));
        let trials: Vec<(f64, f64)> = self.of(Purpose::Curve).filter_map(of).collect();
        Some(scalability::fit(&trials))
    }

    /// The completed requests per second at the capacity: the mean of the trials next to it.
    pub(super) fn throughput(&self, finding: &Finding) -> Option<Estimate> {
        let at = match *finding {
            _ if self.settings.by == By::Rate => return None,
            Finding::Capacity { rate, .. } => rate,
            _ => return None,
        };
        let of = |o: &Observed| Some((o.point.trial.rate, o.point.goodput.value?));
        let mut all: Vec<(f64, f64)> = self.of(Purpose::Estimate).filter_map(of).collect();
        let away = |n: f64| (n / at).ln().abs();
        all.sort_by(|a, b| away(a.0).total_cmp(&away(b.0)));
        let exact = all.iter().filter(|(n, _)| *n == at).count();
        let near = all.iter().filter(|(n, _)| away(*n) <= NEAR).count();
        let used = if exact >= TRIALS_MIN { exact } else { near };
        let each: Vec<f64> = all[..used].iter().map(|(_, x)| *x).collect();
        let size = each.len() as f64;
        let mean = each.iter().sum::<f64>() / size;
        let squares: f64 = each.iter().map(|x| (x - mean).powi(2)).sum();
        let reach = (each.len() >= TRIALS_MIN)
            .then(|| t_critical(0.05, size - 1.0) * (squares / (size - 1.0) / size).sqrt());
        let interval = reach.map(|reach| Interval { lo: mean - reach, hi: mean + reach });
        Some(Estimate { value: (used > 0).then_some(mean), interval })
    }

    /// The requests per second to expect at this level of the load.
    pub(super) fn requests_at(&self, level: f64) -> f64 {
        if self.settings.by == By::Rate {
            return level;
        }
        let known = self.valid().filter_map(|o| Some((o.point.trial.rate, o.point.goodput.value?)));
        let nearest = known.filter(|(_, x)| *x > 0.0).min_by(|a, b| {
            let away = |n: f64| (n / level).ln().abs();
            away(a.0).total_cmp(&away(b.0))
        });
        nearest.map_or(level, |(_, x)| x)
    }
}
