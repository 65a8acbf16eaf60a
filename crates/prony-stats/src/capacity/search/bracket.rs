//! Bracketing: short trials, each rate twice the one before, until a threshold is missed.

use prony_base::units::Span;

use super::{AGAIN, LIMITS_SHORT, Observed, Phase, SHORT, Search, WARMUP, allowed, at_least, side};
use crate::capacity::{By, Finding, Limit, Purpose, Step};

/// A trial that would be missed by chance with a higher probability shows nothing.
const DOUBT: f64 = 0.02;

impl Search {
    pub(super) fn next_bracket(&mut self) -> Step {
        let length = self.short();
        let room = (length.as_secs_f64() * (1.0 + WARMUP)).min(self.settings.budget.as_secs_f64());
        if self.left().as_secs_f64() < room {
            return self.unbracketed();
        }
        if let Some(rate) = self.doubtful() {
            return self.run(rate, length * AGAIN, Purpose::Bracket);
        }
        let from = self.settings.from;
        let rates = |o: &Observed| o.point.trial.rate;
        let missed: Vec<f64> = self.valid().filter(|o| side(o) == Some(false)).map(rates).collect();
        let least = missed.iter().copied().min_by(f64::total_cmp);
        let below = |rate: &f64| least.is_none_or(|least| *rate < least);
        let held = self.valid().filter(|o| side(o) != Some(false)).map(rates).filter(below);
        let held = held.max_by(f64::total_cmp);
        // A rate that has held since is no ceiling.
        let above = |o: &&Observed| held.is_none_or(|held| rates(o) > held);
        let limited = self.seen.iter().filter(|o| o.limit.is_some()).filter(above);
        let limited: Vec<&Observed> = limited.collect();
        let ceiling = limited.iter().map(|o| rates(o)).min_by(f64::total_cmp);
        let limit = limited.last().and_then(|o| o.limit).unwrap_or(Limit::Meter);
        if ceiling.is_none() {
            self.tries = 0;
        }
        let rate = match (held, least, ceiling) {
            (Some(_), Some(_), _) => {
                self.phase = Phase::Estimate;
                return self.next_estimate();
            }
            // A target that has just started is slow at first: the first rate has two chances.
            (None, Some(least), _) if missed.len() < 2 => {
                return self.run(least, length * AGAIN, Purpose::Bracket);
            }
            (None, Some(rate), _) => {
                let threshold = self.first_missed();
                return self.over(Finding::Nowhere { rate, threshold });
            }
            (held, None, Some(ceiling)) => match self.below_ceiling(held, ceiling) {
                Some(rate) => rate,
                None => return self.found(Finding::AtLeast { rate: held, limit }),
            },
            (Some(held), None, None) if held * 2.0 > self.settings.most => match self.settings.by {
                By::Connections if held < self.settings.most => self.settings.most,
                By::Connections => return self.found(at_least(held, Limit::Connections)),
                By::Rate => return self.over(at_least(held, Limit::Meter)),
            },
            (Some(held), None, None) => held * 2.0,
            (None, None, None) => from,
        };
        self.run(rate, length, Purpose::Bracket)
    }

    /// The next rate below one at which the load generator was the limit.
    fn below_ceiling(&mut self, held: Option<f64>, ceiling: f64) -> Option<f64> {
        if self.is_noise(held) {
            return self.repeated(held, ceiling);
        }
        self.tries += 1;
        match held {
            // Once more: a processor may have been busy for a moment.
            _ if self.tries == 1 => Some(ceiling),
            Some(held) => {
                let apart = self.settings.by == By::Rate || ceiling - held > 1.0;
                let room = self.tries <= 5 && ceiling / held > 1.1 && apart;
                room.then(|| (held * ceiling).sqrt())
            }
            None => (self.tries <= 3).then_some(ceiling / 2.0),
        }
    }

    /// A trial that brackets is short: a few requests beyond the limit can be chance. Then it shows
    /// nothing, until a longer one has.
    pub(super) fn with_doubt(&self, mut observed: Observed) -> Observed {
        let trial = observed.point.trial;
        let is_first = trial.length <= self.short();
        let is_sure = !observed.point.kept_up || observed.failed || observed.limit.is_some();
        if trial.purpose != Purpose::Bracket || !is_first || is_sure {
            return observed;
        }
        let requests = observed.point.requests as f64;
        for (k, threshold) in self.settings.thresholds.iter().enumerate() {
            let allowed = requests * allowed(threshold);
            let beyond = observed.excess[k].unwrap_or(0.0) * allowed;
            if allowed < requests && beyond > allowed && by_chance(beyond.round(), allowed) > DOUBT
            {
                observed.point.holds[k] = None;
            }
        }
        observed
    }

    /// A longer trial at the same rate overrules shorter ones that missed a threshold there.
    pub(super) fn overrule(&mut self, observed: &Observed) {
        let trial = observed.point.trial;
        if side(observed) != Some(true) || observed.limit.is_some() {
            return;
        }
        for before in &mut self.seen {
            let is_same = before.point.trial.rate == trial.rate;
            if is_same && before.point.trial.length < trial.length {
                before.point.holds.iter_mut().for_each(|holds| *holds = None);
            }
        }
    }

    /// The rate of the last trial, if it was missed by so few requests that it is tried again.
    fn doubtful(&self) -> Option<f64> {
        let last = self.valid().last()?;
        let trial = last.point.trial;
        let missed = last.point.holds.iter().zip(&last.excess);
        let mut doubts = missed.filter(|(holds, e)| holds.is_none() && e.is_some_and(|e| e > 1.0));
        let is_doubtful = trial.purpose == Purpose::Bracket && doubts.next().is_some();
        (is_doubtful && side(last) != Some(false)).then_some(trial.rate)
    }

    /// The length of the measurement of a trial that brackets.
    pub(super) fn short(&self) -> Span {
        let times = self.longest_limit() * LIMITS_SHORT;
        SHORT.max(times).min(self.settings.budget / 30)
    }

    pub(super) fn longest_limit(&self) -> Span {
        super::longest_limit(&self.settings.thresholds)
    }

    /// The threshold that the last trial has missed.
    pub(super) fn first_missed(&self) -> usize {
        let holds = self.valid().last().map(|o| &o.point.holds);
        holds.and_then(|h| h.iter().position(|holds| *holds == Some(false))).unwrap_or(0)
    }
}

/// The probability that a Poisson variate of this mean is at least `count`.
fn by_chance(count: f64, mean: f64) -> f64 {
    let (mut term, mut below, mut k) = ((-mean).exp(), 0.0, 0.0);
    while k < count {
        below += term;
        k += 1.0;
        term *= mean / k;
    }
    1.0 - below
}
