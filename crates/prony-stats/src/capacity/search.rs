//! The search: brackets the capacity by doubling the rate, then runs trials around its estimate in
//! random order, until the interval is narrow or the budget is used.

mod answer;
mod bracket;
mod closed;
mod disturbed;
mod recovery;
mod sides;

use prony_base::rng::{Sequence, Stream};
use prony_base::units::Span;
use prony_plan::threshold::{Figure, Statistic, Threshold, Unit};

use super::likelihood::{Datum, Prior};
use super::observe::Observed;
use super::posterior::{Known, Posterior};
use super::{By, Estimate, Finding, Limit, Point, Purpose, Recovery, Settings, Step, Trial};
use crate::summary::confidence::Interval;

/// The length of a trial that brackets, at least; and in multiples of the longest limit of a time.
const SHORT: Span = Span::from_secs(1);
const LIMITS_SHORT: u64 = 20;
/// The warm-up of a trial, as a share of its measurement.
const WARMUP: f64 = 0.25;
/// How much longer the first rate is tried again if it is missed.
const AGAIN: u64 = 4;
/// How far the capacity can lie outside the trials near it: a factor of four.
const BEYOND: f64 = 1.4;
/// The requests of a trial that estimates, as far as the budget has room for it, and for how many
/// such trials there must be room.
const REQUESTS: f64 = 20_000.0;
const ROOM: f64 = 30.0;
const ROOM_MIN: f64 = 18.0;
/// The requests beyond its limit that a trial should have at the capacity.
const BEYOND_SHARE: f64 = 20.0;
/// The shortest of these trials.
const LONG: Span = Span::from_secs(2);
/// In multiples of the longest limit of a time: what a trial should have, so that a queue settles
/// and its bursts are many; and what one of a closed loop should have, whose queue cannot grow.
const LIMITS_LONG: f64 = 100.0;
const LIMITS_CLOSED: f64 = 40.0;
/// Shorter trials than this share of it are worth less than their requests.
const WORTH: f64 = 0.6;
/// In the same unit, the shortest budget: such trials with their warm-up, and the bracketing.
const LIMITS_BUDGET: u64 = 1_500;
/// The fewest of them.
const TRIALS_MIN: usize = 15;
/// The most of them, so that the grid stays quick.
const TRIALS_MAX: usize = 150;
/// The logarithm of the excess at which rates around the estimate aim, and how far apart rates are
/// at most.
const AIM: f64 = 0.7;
const APART: f64 = 0.1;
/// Above this standard deviation (of the logarithm), the capacity must be found before it can be
/// estimated.
const FOUND: f64 = 0.1;
/// The first trials of an estimate halve the bracket: how many, of which length relative to others,
/// and up to which ratio of its ends.
const HALVINGS: usize = 2;
const HALVING: f64 = 0.6;
const HALVED: f64 = 1.3;
/// A target has changed if its drift during the search is this many standard errors.
const CHANGED: f64 = 3.0;
/// This excess is an overload.
const OVERLOAD: f64 = 20.0;
/// Requests of a probe.
const PROBE_REQUESTS: f64 = 40.0;
/// The shortest budget with which a search for these thresholds can find a number; zero if it does
/// not depend on them.
pub fn least_budget(by: By, thresholds: &[Threshold]) -> Span {
    match by {
        By::Rate => longest_limit(thresholds) * LIMITS_BUDGET,
        By::Connections => Span::ZERO,
    }
}

/// The longest limit of a time.
fn longest_limit(thresholds: &[Threshold]) -> Span {
    let times = thresholds.iter().filter(|t| t.unit == Unit::Time);
    times.map(|t| Span(t.limit as u64)).max().unwrap_or(Span::ZERO)
}

/// The state of a search.
#[derive(Debug)]
pub struct Search {
    settings: Settings,
    rng: Sequence,
    /// The trials that say something of the target, and those of which the meter was the limit.
    seen: Vec<Observed>,
    /// All points but the probes.
    points: Vec<Point>,
    spent: Span,
    /// The part of it of trials that the load generator disturbed.
    disturbed: Span,
    number: u64,
    phase: Phase,
    /// The total length of the trials that estimate, once it is chosen.
    long: Option<Span>,
    /// The rates to come, as multiples of the distance from the estimate.
    block: Vec<f64>,
    recovering: Option<Recovering>,
    recoveries: Vec<Recovery>,
    tries: u32,
    /// The posterior by the trials so far.
    posterior: Option<Posterior>,
    window: Option<(f64, f64)>,
    /// The numbers of connections that are still to be measured for the curve, and how long each.
    curve: Vec<f64>,
    curve_length: Span,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Bracket,
    Estimate,
    Curve(Finding),
    Beyond(Finding),
    Over(Finding),
}

/// A target that is probed after an overload.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovering {
    overload: f64,
    probe: f64,
    before_ns: f64,
    after_ns: Option<f64>,
    since: Span,
}

impl Search {
    /// A search that has not started.
    pub fn new(settings: Settings) -> Self {
        Self {
            rng: Sequence::new(settings.seed, Stream::Pick),
            settings,
            seen: Vec::new(),
            points: Vec::new(),
            spent: Span::ZERO,
            disturbed: Span::ZERO,
            number: 0,
            phase: Phase::Bracket,
            long: None,
            block: Vec::new(),
            recovering: None,
            recoveries: Vec::new(),
            tries: 0,
            posterior: None,
            window: None,
            curve: Vec::new(),
            curve_length: Span::ZERO,
        }
    }

    /// What the trials vary.
    pub fn by(&self) -> By {
        self.settings.by
    }

    /// The time that is left of the budget.
    pub fn left(&self) -> Span {
        self.settings.budget.saturating_sub(self.spent)
    }

    /// The highest rate at which all thresholds held, and the lowest one above it at which one was
    /// missed.
    pub fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let held = |o: &&Observed| side(o) == Some(true) && o.limit.is_none();
        let missed = self.valid().filter(|o| side(o) == Some(false));
        let least = missed.map(|o| o.point.trial.rate).min_by(f64::total_cmp);
        let below = |o: &&Observed| least.is_none_or(|least| o.point.trial.rate < least);
        let most = self.valid().filter(held).filter(below).map(|o| o.point.trial.rate);
        (most.max_by(f64::total_cmp), least)
    }

    /// The estimate so far, with its 95 % interval; `None` while the capacity is bracketed.
    pub fn estimate(&self) -> Option<Estimate> {
        let (value, interval) = figures(self.posterior.as_ref()?);
        Some(Estimate { value: Some(value), interval: Some(interval) })
    }

    /// What to do next. The same until [`Search::feed`] is called, except for random rates.
    pub fn step(&mut self) -> Step {
        if let Phase::Over(finding) = &self.phase {
            return Step::Done(Box::new(self.answer(finding.clone())));
        }
        if let Some(recovering) = self.recovering {
            let least = PROBE_REQUESTS / self.requests_at(recovering.probe);
            let length = Span::from_secs_f64(least.max(0.5));
            return self.run(recovering.probe, length, Purpose::Probe);
        }
        match self.phase.clone() {
            Phase::Bracket => self.next_bracket(),
            Phase::Estimate => self.next_estimate(),
            Phase::Curve(finding) => match self.curve.pop() {
                Some(connections) => self.run(connections, self.curve_length, Purpose::Curve),
                None => self.then_beyond(finding),
            },
            Phase::Beyond(finding) => match (&finding, self.settings.beyond) {
                (&Finding::Capacity { rate, .. }, Some(factor)) => {
                    let length = self.measured();
                    self.run(rate * factor, length, Purpose::Beyond)
                }
                _ => self.over(finding),
            },
            Phase::Over(finding) => self.over(finding),
        }
    }

    /// Takes what the last trial has shown, and how long it took, with warm-up and drain.
    pub fn feed(&mut self, mut observed: Observed, took: Span) {
        self.spent += took;
        if !observed.point.kept_up {
            // A queue that grows misses every limit in the end.
            observed.excess.iter_mut().for_each(|excess| *excess = Some(f64::INFINITY));
            observed.point.holds.iter_mut().for_each(|holds| *holds = Some(false));
        }
        let trial = observed.point.trial;
        if trial.purpose != Purpose::Probe {
            self.points.push(observed.point.clone());
        }
        if observed.interrupted {
            return self.interrupt();
        }
        match trial.purpose {
            Purpose::Probe => self.probed(&observed),
            Purpose::Curve => self.seen.push(observed),
            Purpose::Beyond => {
                if let Phase::Beyond(finding) = self.phase.clone() {
                    self.phase = Phase::Over(finding);
                }
            }
            Purpose::Bracket | Purpose::Estimate => {
                if observed.limit.is_some() {
                    self.disturbed += took;
                }
                if is_overload(&observed) {
                    self.recover(trial.rate);
                }
                self.overrule(&observed);
                self.seen.push(self.with_doubt(observed));
                self.posterior = None;
                if trial.purpose == Purpose::Estimate {
                    self.decide();
                }
            }
        }
    }

    /// Ends the search with what is known so far.
    pub fn interrupt(&mut self) {
        let (held, missed) = self.bracket();
        let estimate = self.estimate().unwrap_or_default();
        self.phase = Phase::Over(Finding::Interrupted { held, missed, estimate });
    }

    /// The trials of which the target was the limit, if there was one.
    fn valid(&self) -> impl Iterator<Item = &Observed> {
        self.seen.iter().filter(|o| o.limit.is_none())
    }

    fn of(&self, purpose: Purpose) -> impl Iterator<Item = &Observed> {
        self.valid().filter(move |o| o.point.trial.purpose == purpose)
    }

    fn run(&mut self, rate: f64, length: Span, purpose: Purpose) -> Step {
        let number = self.number;
        self.number += 1;
        let rate = match self.settings.by {
            By::Rate => rate,
            By::Connections => rate.round().clamp(1.0, self.settings.most),
        };
        let warmup = match purpose {
            // Beyond the capacity, requests of the warm-up would be served in the measurement, and
            // not count as its goodput.
            Purpose::Probe | Purpose::Beyond => Span::ZERO,
            _ => Span::from_secs_f64(length.as_secs_f64() * WARMUP),
        };
        Step::Run(Trial { rate, warmup, length, purpose, number })
    }

    /// Measures the curve of a closed loop, and beyond the capacity, as far as there is one.
    fn found(&mut self, finding: Finding) -> Step {
        if self.plan_curve(&finding) {
            self.phase = Phase::Curve(finding);
            return self.step();
        }
        self.then_beyond(finding)
    }

    fn then_beyond(&mut self, finding: Finding) -> Step {
        if self.settings.beyond.is_some() && matches!(finding, Finding::Capacity { .. }) {
            self.phase = Phase::Beyond(finding);
            return self.step();
        }
        self.over(finding)
    }

    fn next_estimate(&mut self) -> Step {
        let whole = self.whole();
        let reserve = if self.settings.beyond.is_some() { whole } else { Span::ZERO };
        let reserve = reserve + self.for_curve();
        let done = self.of(Purpose::Estimate).count();
        if self.left() < whole + reserve || done >= TRIALS_MAX {
            return self.conclude();
        }
        if let Some(rate) = self.halved(done) {
            let length = Span::from_secs_f64(self.measured().as_secs_f64() * HALVING);
            return self.run(rate, length, Purpose::Estimate);
        }
        let posterior = self.posterior();
        let deviation = posterior.deviation();
        let center = posterior.quantile(0.5);
        let place = self.place();
        let apart = if deviation > FOUND {
            deviation * 0.4
        } else {
            (AIM / posterior.slope).min(APART).max(deviation * 0.8)
        };
        let length = self.measured();
        // A trial that was disturbed can have misplaced the bracket.
        let (place, apart) = self.way().map_or((place, apart), |way| (way, sides::FAR.max(apart)));
        let rate = (center + place * apart).exp();
        let rate = if self.settings.by == By::Connections {
            sides::whole_around(rate, place)
        } else {
            rate
        };
        self.run(rate, length, Purpose::Estimate)
    }

    /// The middle of the bracket, as long as it is wide.
    fn halved(&self, done: usize) -> Option<f64> {
        let (Some(held), Some(missed)) = self.bracket() else { return None };
        let is_wide = missed > held * HALVED && done < HALVINGS;
        (is_wide && self.way().is_none()).then(|| (held * missed).sqrt())
    }

    /// The next place around the estimate: below, at and above it in random order, each a little
    /// off.
    fn place(&mut self) -> f64 {
        if self.block.is_empty() {
            self.block = vec![-1.0, 0.0, 1.0];
            for i in (1..self.block.len()).rev() {
                let other = self.rng.below(i as u64 + 1) as usize;
                self.block.swap(i, other);
            }
        }
        let place = self.block.pop().unwrap_or_default();
        place + 0.6 * (self.rng.unit() - 0.5)
    }

    /// The wall time of a trial that estimates: the same for all, so that they have the same noise.
    fn whole(&mut self) -> Span {
        if let Some(long) = self.long {
            return long;
        }
        let (held, missed) = self.bracket();
        let rate = match (held, missed) {
            (Some(held), Some(missed)) => (held * missed).sqrt(),
            (one, other) => one.or(other).unwrap_or(self.settings.from),
        };
        let requests = self.settings.thresholds.iter().map(|threshold| match threshold.figure {
            Figure::Time(_, Statistic::Percentile(p)) => BEYOND_SHARE / (1.0 - p / 100.0).max(1e-6),
            Figure::Count(_) if threshold.limit > 0.0 => {
                BEYOND_SHARE / threshold.limit.min(1.0 - threshold.limit).max(1e-6)
            }
            _ => 0.0,
        });
        let requests = requests.fold(REQUESTS, f64::max);
        let limits = self.longest_limit().as_secs_f64()
            * match self.settings.by {
                By::Rate => LIMITS_LONG,
                By::Connections => LIMITS_CLOSED,
            };
        let wanted = (requests / self.requests_at(rate)).max(limits).max(LONG.as_secs_f64());
        let left = self.left().saturating_sub(self.for_curve());
        let left = left.as_secs_f64();
        let room = |trials: f64| left / (trials + f64::from(self.settings.beyond.is_some()));
        // A small budget has fewer trials rather than trials too short for a queue to settle.
        let room = room(ROOM).max(room(ROOM_MIN).min(limits * (1.0 + WARMUP)));
        let long = (wanted * (1.0 + WARMUP)).max(left / TRIALS_MAX as f64);
        let long = Span::from_secs_f64(long.min(room));
        self.long = Some(long);
        long
    }

    /// The length of the measurement of such a trial.
    fn measured(&mut self) -> Span {
        Span::from_secs_f64(self.whole().as_secs_f64() / (1.0 + WARMUP))
    }

    /// The capacity and its 95 % interval. Of connections, the whole numbers below.
    fn figures(&mut self) -> (f64, Interval) {
        let (rate, Interval { lo, hi }) = figures(&self.posterior());
        match self.settings.by {
            By::Rate => (rate, Interval { lo, hi }),
            By::Connections => {
                let whole = |n: f64| n.floor().max(1.0);
                (whole(rate), Interval { lo: whole(lo), hi: whole(hi) })
            }
        }
    }

    /// The range of the prior, in logarithms: around the bracket, and the trials of the estimate.
    fn range(&self) -> (f64, f64) {
        let (held, missed) = self.bracket();
        let all = || self.valid().map(|o| o.point.trial.rate);
        let held = held.unwrap_or_else(|| all().fold(f64::INFINITY, f64::min));
        let missed = missed.unwrap_or_else(|| all().fold(0.0, f64::max));
        let near = self.of(Purpose::Estimate).map(|o| o.point.trial.rate);
        let (low, high) = near.fold((held, missed), |(low, high), r| (low.min(r), high.max(r)));
        (low.ln() - BEYOND, high.ln() + BEYOND)
    }

    fn posterior(&mut self) -> Posterior {
        if let Some(posterior) = &self.posterior {
            return posterior.clone();
        }
        let trials: Vec<&Observed> = self.valid().collect();
        let range = self.range();
        let window = self.window.unwrap_or(range);
        let found = Posterior::of(&self.known(&trials), range, window);
        self.window = Some(found.window());
        self.posterior = Some(found.clone());
        found
    }

    /// What is known of each threshold by these trials.
    fn known(&self, trials: &[&Observed]) -> Vec<Known> {
        let saturation = self.saturation().map(f64::ln);
        let limits = match self.settings.by {
            By::Rate => LIMITS_LONG,
            By::Connections => LIMITS_CLOSED,
        };
        let long = (self.longest_limit().as_secs_f64() * limits * WORTH).max(1e-9);
        let datum = |o: &Observed, excess: f64, k: usize| {
            let trial = o.point.trial;
            // Bursts are cut off by the end of a short trial, or have not begun.
            let worth = (trial.length.as_secs_f64() / long).min(1.0);
            let requests = o.point.requests.max(1) as f64;
            let allowed = requests * allowed(&self.settings.thresholds[k]) * worth;
            Datum {
                rate: trial.rate.ln(),
                excess,
                allowed: allowed.max(1e-3),
                parts: o.parts[k],
                short: trial.purpose == Purpose::Bracket,
            }
        };
        let of = |k: usize| {
            let known = trials.iter().filter_map(move |&o| Some((o, o.excess[k]?)));
            let data = known.map(|(o, excess)| datum(o, excess, k)).collect();
            (data, Prior { saturation, depth: depth(&self.settings.thresholds[k]) })
        };
        (0..self.settings.thresholds.len()).map(of).collect()
    }

    /// The throughput of an open loop in overloads.
    fn saturation(&self) -> Option<f64> {
        let behind =
            self.valid().filter(|o| self.settings.by == By::Rate && !o.point.kept_up && !o.failed);
        let (mut completed, mut seconds) = (0.0, 0.0);
        for o in behind {
            completed += o.point.goodput.value.unwrap_or(0.0) * o.point.seconds;
            seconds += o.point.seconds;
        }
        (completed > 0.0).then(|| completed / seconds)
    }
}

/// Whether all thresholds hold and the target kept up; `None` if that is not known of any.
fn side(observed: &Observed) -> Option<bool> {
    let known = observed.point.holds.iter().flatten().copied();
    known.fold(None, |all, holds| Some(all.unwrap_or(true) && holds))
}

/// The share of requests that a threshold allows beyond its limit. Of a mean, all.
fn allowed(threshold: &Threshold) -> f64 {
    match threshold.figure {
        Figure::Time(_, Statistic::Percentile(p)) => 1.0 - p / 100.0,
        Figure::Count(_) if threshold.limit > 0.0 => threshold.limit.min(1.0 - threshold.limit),
        _ => 1.0,
    }
}

/// By how many powers of e a threshold lies below all requests.
fn depth(threshold: &Threshold) -> f64 {
    match threshold.figure {
        Figure::Time(_, Statistic::Percentile(_)) => -allowed(threshold).max(1e-9).ln(),
        _ => 1.0,
    }
}

fn is_overload(observed: &Observed) -> bool {
    let far = observed.excess.iter().flatten().any(|excess| *excess >= OVERLOAD);
    observed.failed || !observed.point.kept_up || far
}

fn at_least(rate: f64, limit: Limit) -> Finding {
    Finding::AtLeast { rate: Some(rate), limit }
}

/// The capacity and its 95 % interval.
fn figures(posterior: &Posterior) -> (f64, Interval) {
    let at = |q| posterior.quantile(q).exp();
    (at(0.5), Interval { lo: at(0.025), hi: at(0.975) })
}
