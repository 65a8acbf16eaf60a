//! Trials that the load generator disturbed: they are repeated, up to a share of the budget.

use super::{Observed, Search, TRIALS_MIN};
use crate::capacity::{Finding, Limit, Purpose};

/// The share of the budget for disturbed trials.
const SHARE: f64 = 1.0 / 3.0;
/// After this number of trials at the rate that is disturbed, one lower, at a rate that held.
const REPEATS: usize = 3;
/// If all of this number of trials lower show the target, the rate is the limit, not the noise.
const CONTROLS: usize = 2;
/// Trials whose limit was not the target, among the last ones, that end the search, unless the host
/// was busy.
const LIMITED: usize = 3;
const LAST: usize = 5;

impl Search {
    /// Whether there is room for more disturbed trials.
    pub(super) fn may_spoil(&self) -> bool {
        self.disturbed.as_secs_f64() < self.settings.budget.as_secs_f64() * SHARE
    }

    /// The trials since the first of the disturbed ones that end the list, but for controls.
    fn since_disturbed(&self, held: Option<f64>) -> &[Observed] {
        let is_control = |o: &Observed| Some(o.point.trial.rate) == held && o.limit.is_none();
        let from = self.seen.iter().rposition(|o| o.limit.is_none() && !is_control(o));
        let tail = &self.seen[from.map_or(0, |i| i + 1)..];
        let first = tail.iter().position(|o| o.limit.is_some()).unwrap_or(tail.len());
        &tail[first..]
    }

    /// Whether the disturbed trials can be due to a host that is busy for a while.
    pub(super) fn is_noise(&self, held: Option<f64>) -> bool {
        let since = self.since_disturbed(held);
        let is_host = since.iter().filter(|o| o.limit.is_some()).all(|o| o.is_host_busy);
        let controls = since.iter().filter(|o| Some(o.point.trial.rate) == held);
        let (good, all) = controls
            .fold((0, 0), |(good, all), o| (good + usize::from(o.limit.is_none()), all + 1));
        self.may_spoil() && is_host && !(good == all && good >= CONTROLS)
    }

    /// The next rate while the host is busy: the same again, and now and then one that held.
    pub(super) fn repeated(&self, held: Option<f64>, ceiling: f64) -> Option<f64> {
        let n = self.since_disturbed(held).len();
        match held {
            Some(held) if n % (REPEATS + 1) == REPEATS => Some(held),
            _ => Some(ceiling),
        }
    }

    /// After a trial that estimates: whether that is enough.
    pub(super) fn decide(&mut self) {
        let last = self.seen.iter().rev().take(LAST).filter(|o| !o.is_host_busy);
        let limits: Vec<Limit> = last.filter_map(|o| o.limit).collect();
        if limits.len() >= LIMITED {
            let rate = self.bracket().0;
            self.found(Finding::AtLeast { rate, limit: limits[0] });
            return;
        }
        if self.seen.last().is_some_and(|o| o.limit.is_some()) && !self.may_spoil() {
            self.conclude();
            return;
        }
        let trials = self.of(Purpose::Estimate).count();
        if trials < TRIALS_MIN || !self.is_on_both_sides() {
            return;
        }
        let (rate, interval) = self.figures();
        if (interval.hi - interval.lo) / 2.0 <= self.settings.precision * rate {
            self.conclude();
        }
    }
}
