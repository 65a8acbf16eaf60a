//! The end of a search: what was found.

use prony_plan::threshold::Unit;

use super::{CHANGED, Known, Observed, Phase, Posterior, Search, TRIALS_MIN, side};
use crate::capacity::{Answer, By, Finding, Fitted, Lack, Limit, Purpose, Step, Stop};
use crate::summary::Bottleneck;
use crate::summary::confidence::Interval;

/// Points of the curve.
const POINTS: u32 = 41;

impl Search {
    pub(super) fn over(&mut self, finding: Finding) -> Step {
        self.phase = Phase::Over(finding.clone());
        Step::Done(Box::new(self.answer(finding)))
    }

    pub(super) fn answer(&self, finding: Finding) -> Answer {
        Answer {
            by: self.settings.by,
            throughput: self.throughput(&finding),
            scalability: self.scalability(),
            curve: self.curve_of(&finding),
            finding,
            points: self.points.clone(),
            recoveries: self.recoveries.clone(),
            seconds: self.spent.as_secs_f64(),
        }
    }

    /// The curve between the lowest and the highest level near the capacity.
    fn curve_of(&self, finding: &Finding) -> Vec<Fitted> {
        let (Finding::Capacity { rate, .. }, Some(posterior)) = (finding, &self.posterior) else {
            return Vec::new();
        };
        let near = self.of(Purpose::Estimate).map(|o| o.point.trial.rate);
        let (low, high) = near.fold((*rate * 0.9, *rate * 1.1), |(low, high), level| {
            (low.min(level.max(rate / 2.0)), high.max(level.min(rate * 2.0)))
        });
        let at = |i: u32| {
            let level = low * (high / low).powf(f64::from(i) / f64::from(POINTS - 1));
            let [lo, excess, hi] = posterior.excess_at(level.ln());
            Fitted { rate: level, excess, interval: Interval { lo, hi } }
        };
        (0..POINTS).map(at).collect()
    }

    /// The finding where the budget has ended before one level held and another missed.
    pub(super) fn unbracketed(&mut self) -> Step {
        let (held, missed) = self.bracket();
        let finding = match (held, missed) {
            (Some(_), _) => Finding::AtLeast { rate: held, limit: Limit::Budget },
            (None, Some(rate)) => Finding::Nowhere { rate, threshold: self.first_missed() },
            (None, None) => Finding::Undecided { lack: Lack::Budget, held, missed },
        };
        self.over(finding)
    }

    /// The finding from the trials so far: a number, if a level held and another missed.
    pub(super) fn conclude(&mut self) -> Step {
        let (Some(_), Some(_)) = self.bracket() else { return self.unbracketed() };
        let posterior = self.posterior();
        if let Some((first, second)) = self.changed(&posterior) {
            return self.over(Finding::Changed { first, second });
        }
        let (rate, interval) = self.figures();
        let (threshold, stop) = (posterior.binding, self.stop(rate));
        let more_seconds = self.more_seconds(rate, interval);
        self.found(Finding::Capacity { rate, interval, threshold, stop, more_seconds })
    }

    /// How much longer the search would take to reach its accuracy: an interval narrows with the
    /// square root of the time.
    fn more_seconds(&self, rate: f64, interval: Interval) -> Option<f64> {
        let reach = (interval.hi - interval.lo) / 2.0 / rate;
        let ratio = reach / self.settings.precision;
        let is_next = self.settings.by == By::Connections && interval.hi - interval.lo <= 1.0;
        (ratio > 1.0 && !is_next).then(|| self.spent.as_secs_f64() * (ratio * ratio - 1.0))
    }

    /// The capacities at the start and at the end of the search, if they differ beyond chance.
    fn changed(&self, posterior: &Posterior) -> Option<(f64, f64)> {
        let trials: Vec<&Observed> = self.of(Purpose::Estimate).collect();
        let known: Vec<&Observed> =
            trials.into_iter().filter(|o| o.excess[posterior.binding].is_some()).collect();
        if known.len() < TRIALS_MIN {
            return None;
        }
        let data: Known = self.known(&known).swap_remove(posterior.binding);
        let last = known.len() as f64 - 1.0;
        let times: Vec<f64> = (0..known.len()).map(|i| i as f64 / last - 0.5).collect();
        let (drift, error) = posterior.drift(&data, &times);
        let center = posterior.quantile(0.5);
        let beyond_chance = drift.abs() > CHANGED * error && drift.abs() > self.settings.precision;
        beyond_chance.then(|| ((center - drift / 2.0).exp(), (center + drift / 2.0).exp()))
    }

    /// What the target did in the trials in which it missed a threshold, for the most part.
    fn stop(&self, capacity: f64) -> Stop {
        let above: Vec<&Observed> = self
            .valid()
            .filter(|o| o.point.trial.rate >= capacity * 0.98 && side(o) == Some(false))
            .collect();
        let most = |of: &dyn Fn(&Observed) -> bool| {
            above.iter().filter(|o| of(o)).count() * 2 > above.len()
        };
        let failing = |o: &Observed| o.failed || o.point.errors.value.unwrap_or(0.0) > 0.001;
        let network = |o: &Observed| matches!(o.bottleneck, Some(Bottleneck::Network { .. }));
        let kinds: Vec<Unit> = self.settings.thresholds.iter().map(|t| t.unit).collect();
        if most(&failing) {
            Stop::Errors
        } else if most(&network) {
            Stop::Network
        } else if kinds.contains(&Unit::Time) || most(&|o: &Observed| !o.point.kept_up) {
            // Times that grow with the rate of an open loop are waits.
            Stop::Queueing
        } else {
            Stop::Threshold
        }
    }
}
