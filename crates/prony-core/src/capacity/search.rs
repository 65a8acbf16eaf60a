//! The search: brackets the capacity by doubling the rate, then runs trials around its estimate in
//! random order, until the interval is narrow or the budget is used.

mod bracket;
mod closed;
mod recovery;
mod sides;

use super::observe::Observed;
use super::posterior::{Caution, Datum, Posterior};
use super::{
    Answer, By, Estimate, Finding, Lack, Limit, Point, Purpose, Recovery, Settings, Step, Stop,
    Trial,
};
use crate::rng::{Sequence, Stream};
use crate::summary::Bottleneck;
use crate::summary::confidence::Interval;
use crate::threshold::{Figure, Statistic, Threshold, Unit};
use crate::units::Span;

/// The length of a trial that brackets, at least; and in multiples of the longest limit of a time.
const SHORT: Span = Span::from_secs(1);
const LIMITS_SHORT: u64 = 20;
/// The warm-up of a trial, as a share of its measurement.
const WARMUP: f64 = 0.25;
/// How much longer the first rate is tried again if it is missed.
const AGAIN: u64 = 4;
/// How far the capacity can lie outside its bracket: a factor of eight.
const BEYOND_BRACKET: f64 = 2.1;
/// The width of a bracket, with room: a factor of four.
const BELOW_BRACKET: f64 = 1.4;
/// The requests of a trial that estimates, as far as the budget has room for it, and for how many
/// such trials there must be room.
const REQUESTS: f64 = 20_000.0;
const ROOM: f64 = 36.0;
const ROOM_MIN: f64 = 24.0;
/// The requests beyond its limit that a trial should have at the capacity.
const BEYOND_SHARE: f64 = 20.0;
/// The shortest of these trials.
const LONG: Span = Span::from_secs(2);
/// In multiples of the longest limit of a time: what a trial should have, so that a queue settles
/// and its bursts are many; what it must have; and what one of a closed loop should have, whose
/// queue cannot grow.
const LIMITS_LONG: f64 = 100.0;
const LIMITS_MIN: f64 = 40.0;
const LIMITS_CLOSED: f64 = 40.0;
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
/// The error that the skewness of few bursts may cause, as a share of the capacity.
const SKEW_MAX: f64 = 0.0066;
/// The ends of an interval that is a number have at most this ratio.
const RATIO_MAX: f64 = 1.5;
/// A target has changed if its drift during the search is this many standard errors.
const CHANGED: f64 = 3.5;
/// This excess is an overload.
const OVERLOAD: f64 = 20.0;
/// Requests of a probe.
const PROBE_REQUESTS: f64 = 40.0;
/// Trials of which the load generator was the limit, among the last ones, that end the search.
const LIMITED: usize = 3;
const LIMITED_OF: usize = 5;

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
                if is_overload(&observed) {
                    self.recover(trial.rate);
                }
                self.seen.push(observed);
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

    fn over(&mut self, finding: Finding) -> Step {
        self.phase = Phase::Over(finding.clone());
        Step::Done(Box::new(self.answer(finding)))
    }

    fn answer(&self, finding: Finding) -> Answer {
        Answer {
            by: self.settings.by,
            throughput: self.throughput(&finding),
            scalability: self.scalability(),
            finding,
            points: self.points.clone(),
            recoveries: self.recoveries.clone(),
            seconds: self.spent.as_secs_f64(),
        }
    }

    fn undecided(&mut self, lack: Lack) -> Step {
        let (held, missed) = self.bracket();
        self.over(Finding::Undecided { lack, held, missed })
    }

    fn next_estimate(&mut self) -> Step {
        let whole = self.whole();
        let reserve = if self.settings.beyond.is_some() { whole } else { Span::ZERO };
        let reserve = reserve + self.for_curve();
        let done = self.of(Purpose::Estimate).count();
        if self.left() < whole + reserve || done >= TRIALS_MAX {
            return self.conclude();
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

    /// Whether trials by the rate are at least this many times as long as the longest limit.
    fn has_limits(&self, least: f64) -> bool {
        let limits = self.longest_limit().as_secs_f64() * least * (1.0 + WARMUP);
        // To the nanosecond, the length is rounded.
        let is_long = |long: Span| long.as_secs_f64() > limits * 0.999;
        self.settings.by == By::Connections || self.long.is_none_or(is_long)
    }

    /// The length of the measurement of such a trial.
    fn measured(&mut self) -> Span {
        Span::from_secs_f64(self.whole().as_secs_f64() / (1.0 + WARMUP))
    }

    /// After a trial that estimates: whether that is enough.
    fn decide(&mut self) {
        let last = self.seen.iter().rev().take(LIMITED_OF);
        let limited: Vec<Limit> = last.filter_map(|o| o.limit).collect();
        if limited.len() >= LIMITED {
            let rate = self.bracket().0;
            self.found(Finding::AtLeast { rate, limit: limited[0] });
            return;
        }
        let trials = self.of(Purpose::Estimate).count();
        if trials < TRIALS_MIN || !self.is_on_both_sides() || self.posterior().skew() > SKEW_MAX {
            return;
        }
        let (rate, interval) = self.figures();
        if (interval.hi - interval.lo) / 2.0 <= self.settings.precision * rate {
            self.conclude();
        }
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

    /// The finding from the trials so far.
    fn conclude(&mut self) -> Step {
        let trials = self.of(Purpose::Estimate).count();
        if trials < TRIALS_MIN || !self.has_limits(LIMITS_MIN) {
            return self.undecided(Lack::Budget);
        }
        let posterior = self.posterior();
        let (rate, interval) = self.figures();
        if let Some((first, second)) = self.changed(&posterior) {
            return self.over(Finding::Changed { first, second });
        }
        let is_next = self.settings.by == By::Connections && interval.hi - interval.lo <= 1.0;
        if interval.hi > interval.lo * RATIO_MAX && !is_next {
            return self.undecided(Lack::Spread);
        }
        if posterior.skew() > SKEW_MAX || !self.is_on_both_sides() {
            return self.undecided(Lack::Bursts);
        }
        let threshold = posterior.binding;
        let stop = self.stop(rate);
        self.found(Finding::Capacity { rate, interval, threshold, stop })
    }

    /// The capacities at the start and at the end of the search, if they differ beyond chance.
    fn changed(&self, posterior: &Posterior) -> Option<(f64, f64)> {
        let trials: Vec<&Observed> = self.of(Purpose::Estimate).collect();
        let known: Vec<&Observed> =
            trials.into_iter().filter(|o| o.excess[posterior.binding].is_some()).collect();
        let data = self.data(&known).swap_remove(posterior.binding);
        let last = known.len().max(2) as f64 - 1.0;
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

    /// The range of the prior, in logarithms: around the trials that bracket.
    fn range(&self) -> (f64, f64) {
        let bracket = self.of(Purpose::Bracket).map(|o| o.point.trial.rate.ln());
        let (low, high) = bracket
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), r| (r.min(low), r.max(high)));
        ((high - BELOW_BRACKET).max(low) - BEYOND_BRACKET, high + BEYOND_BRACKET)
    }

    fn posterior(&mut self) -> Posterior {
        if let Some(posterior) = &self.posterior {
            return posterior.clone();
        }
        let trials: Vec<&Observed> = self.valid().collect();
        let range = self.range();
        let window = self.window.unwrap_or(range);
        let caution = Caution::of(self.has_limits(LIMITS_LONG));
        let found = Posterior::of(&self.data(&trials), range, window, caution);
        self.window = Some(found.window());
        self.posterior = Some(found.clone());
        found
    }

    /// The data of each threshold.
    fn data(&self, trials: &[&Observed]) -> Vec<Vec<Datum>> {
        let usual = self.of(Purpose::Estimate).map(|o| o.point.requests as f64);
        let (sum, n) = usual.fold((0.0, 0.0), |(sum, n), requests| (sum + requests, n + 1.0));
        let datum = |o: &Observed, excess: f64, k: usize| {
            let trial = o.point.trial;
            let short = trial.purpose == Purpose::Bracket;
            let weight = if n > 0.0 { o.point.requests as f64 * n / sum } else { 1.0 };
            let (rate, weight) = (trial.rate.ln(), weight.clamp(0.01, 4.0));
            let twice = o.twice[k].unwrap_or(0.0);
            let allowed = allowed(&self.settings.thresholds[k]);
            Datum { rate, excess, twice, allowed, weight, short }
        };
        let of = |k: usize| {
            let known = trials.iter().filter_map(move |&o| Some((o, o.excess[k]?)));
            known.map(|(o, excess)| datum(o, excess, k)).collect()
        };
        (0..self.settings.thresholds.len()).map(of).collect()
    }
}

/// Whether all thresholds hold and the target kept up; `None` if that is not known of any.
fn side(observed: &Observed) -> Option<bool> {
    let known = observed.point.holds.iter().flatten().copied();
    known.fold(None, |all, holds| Some(all.unwrap_or(true) && holds))
}

/// The share of requests that a percentile allows beyond its limit.
fn allowed(threshold: &Threshold) -> f64 {
    match threshold.figure {
        Figure::Time(_, Statistic::Percentile(p)) => 1.0 - p / 100.0,
        _ => 0.0,
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
