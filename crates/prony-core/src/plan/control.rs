//! What decides whether a session makes a burst, how often, and in which alternative.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Burst;
use crate::rng;
use crate::units::Span;

/// The decisions at one burst. Conditions are texts, which [`crate::script`] compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The switches that start at this burst, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<Switch>,
    /// Whether the burst is made. Checked once, before its first repetition.
    #[serde(default, skip_serializing_if = "Gate::is_open")]
    pub gate: Gate,
    /// What ends its repetitions before their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Whether its only request is made again if it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// The conditions of a step. Without any, the step is always made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The step is made only if this condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The step is made only if this condition does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
}

/// Alternatives, of which a session makes one. They are the next bursts, one alternative after the
/// other; a switch within an alternative starts at one of its bursts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Whether the switch is made.
    #[serde(default, skip_serializing_if = "Gate::is_open")]
    pub gate: Gate,
    /// The alternatives, in order. One of them has a burst.
    pub alternatives: Vec<Alternative>,
}

/// An alternative of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// How often it is chosen, relative to the others.
    pub weight: u32,
    /// The number of its bursts; 0: the session makes nothing.
    pub bursts: u32,
}

/// A condition that ends the repetitions of a burst.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    /// The condition, checked after each repetition.
    pub condition: String,
    /// What happens if it does not hold after the last repetition.
    #[serde(default)]
    pub at_limit: AtLimit,
}

/// What happens if a burst was repeated as often as it may be, and its condition does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtLimit {
    /// The session has failed, as after a failed request.
    #[default]
    Fail,
    /// The session continues.
    Continue,
}

/// How a failed request is made again: each time as another request, after a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How often, at least once.
    pub times: u32,
    /// The wait before the first retry.
    pub wait: Span,
    /// By what each further wait is longer than the one before, in thousandths.
    pub factor: u32,
    /// The longest wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// By what part a wait may be shorter or longer, in thousandths: uniformly distributed.
    pub jitter: u32,
    /// The failures after which the request is made again. Never empty.
    pub on: Vec<RetryOn>,
}

/// A group of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetryOn {
    /// A status that does not count as success.
    Status,
    /// Any other valid reply that does not count as success.
    Reply,
    /// No reply within the timeout.
    Timeout,
    /// The connection broke.
    Lost,
    /// The connection could not be opened.
    Connect,
}

/// A step of a session: bursts with their switches, as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The burst with this index.
    Burst(usize),
    /// A switch, with the steps of each of its alternatives.
    Switch(&'a Switch, Vec<Vec<Self>>),
}

impl Gate {
    /// Whether there is no condition.
    pub fn is_open(&self) -> bool {
        self.when.is_none() && self.unless.is_none()
    }

    fn conditions(&self) -> impl Iterator<Item = &String> {
        self.when.iter().chain(&self.unless)
    }
}

impl Control {
    /// Whether it decides nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its conditions.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        let gates = self.switches.iter().map(|switch| &switch.gate).chain([&self.gate]);
        let until = self.until.iter().map(|until| &until.condition);
        gates.flat_map(Gate::conditions).chain(until).map(String::as_str)
    }

    /// Replace its conditions.
    pub(super) fn hide(&mut self, text: &str) {
        let gates = self.switches.iter_mut().map(|switch| &mut switch.gate);
        for gate in gates.chain([&mut self.gate]) {
            for condition in gate.when.iter_mut().chain(&mut gate.unless) {
                text.clone_into(condition);
            }
        }
        if let Some(until) = &mut self.until {
            text.clone_into(&mut until.condition);
        }
    }
}

impl Burst {
    /// The conditions at this burst.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        self.control.iter().flat_map(|control| control.conditions())
    }

    fn switches(&self) -> &[Switch] {
        self.control.as_ref().map_or(&[], |control| &control.switches)
    }
}

impl Step<'_> {
    /// Whether a session that comes to one of these steps makes a request, whatever its conditions
    /// and choices come to.
    pub fn always_request(steps: &[Self], bursts: &[Burst]) -> bool {
        steps.iter().any(|step| match step {
            Self::Burst(index) => {
                bursts[*index].control.as_ref().is_none_or(|control| control.gate.is_open())
            }
            Self::Switch(switch, alternatives) => {
                let mut weighted = switch.alternatives.iter().zip(alternatives);
                switch.gate.is_open()
                    && weighted
                        .all(|(a, steps)| a.weight == 0 || Self::always_request(steps, bursts))
            }
        })
    }

    /// How deep switches may be nested.
    pub const DEPTH_MAX: usize = 8;

    /// Its bursts, which follow one another.
    pub fn bursts(&self) -> Range<usize> {
        match self {
            Self::Burst(index) => *index..*index + 1,
            Self::Switch(switch, alternatives) => {
                let first = alternatives.iter().find_map(|steps| steps.first());
                let start = first.map_or(0, |step| step.bursts().start);
                let bursts = switch.alternatives.iter().map(|a| a.bursts as usize);
                start..start + bursts.sum::<usize>()
            }
        }
    }

    /// The number of the first of these steps that have exactly these bursts; `None` if the bursts
    /// begin or end within a step.
    pub fn prefix(steps: &[Self], bursts: &Range<usize>) -> Option<usize> {
        let is_first = steps.first().is_some_and(|step| step.bursts().start == bursts.start);
        let last = steps.iter().position(|step| step.bursts().end == bursts.end)?;
        is_first.then_some(last + 1)
    }

    /// Whether these bursts are whole steps that follow one another, in one alternative if they
    /// are in a switch.
    pub(super) fn are_whole(steps: &[Self], bursts: &Range<usize>) -> bool {
        (0..steps.len()).any(|at| Self::prefix(&steps[at..], bursts).is_some())
            || steps.iter().any(|step| match step {
                Self::Burst(_) => false,
                Self::Switch(_, alternatives) => {
                    alternatives.iter().any(|steps| Self::are_whole(steps, bursts))
                }
            })
    }
}

/// The bursts of a session as a tree of steps.
///
/// # Errors
/// One sentence about the first switch that does not fit.
pub fn steps(bursts: &[Burst]) -> Result<Vec<Step<'_>>, String> {
    branch(bursts, 0..bursts.len(), 0, 0)
}

/// The steps of a range of bursts. The first `taken` switches at its first burst are around it.
fn branch(
    bursts: &[Burst],
    range: Range<usize>,
    mut taken: usize,
    depth: usize,
) -> Result<Vec<Step<'_>>, String> {
    let (mut steps, mut at) = (Vec::new(), range.start);
    while at < range.end {
        let Some(switch) = bursts[at].switches().get(taken) else {
            steps.push(Step::Burst(at));
            (at, taken) = (at + 1, 0);
            continue;
        };
        if depth == Step::DEPTH_MAX {
            return Err(format!("switches are nested more than {} deep", Step::DEPTH_MAX));
        }
        if switch.alternatives.iter().all(|a| a.weight == 0) {
            return Err("all alternatives of a switch have a weight of 0".into());
        }
        let (mut alternatives, mut start) = (Vec::new(), at);
        for alternative in &switch.alternatives {
            let end = start + alternative.bursts as usize;
            if end > range.end {
                return Err("an alternative of a switch is longer than what is around it".into());
            }
            let around = if start == at { taken + 1 } else { 0 };
            alternatives.push(branch(bursts, start..end, around, depth + 1)?);
            start = end;
        }
        if start == at {
            return Err("no alternative of a switch has a request".into());
        }
        steps.push(Step::Switch(switch, alternatives));
        (at, taken) = (start, 0);
    }
    Ok(steps)
}

impl Retry {
    /// The wait before retry `n`, from 0, with 64 random bits.
    pub fn wait(&self, n: u32, bits: u64) -> Span {
        let most = self.max.unwrap_or(Self::WAIT_MAX).min(Self::WAIT_MAX);
        let mut wait = self.wait.min(most);
        for _ in 0..n {
            if wait == most || self.factor == 1000 {
                break;
            }
            let next = u128::from(wait.0) * u128::from(self.factor) / 1000;
            wait = Span(u64::try_from(next).unwrap_or(u64::MAX)).min(most);
        }
        if self.jitter == 0 {
            return wait;
        }
        let part = u128::from(wait.0) * u128::from(self.jitter.min(1000)) / 1000;
        let part = part as u64;
        rng::uniform(bits, Span(wait.0 - part), Span(wait.0 + part)).min(most)
    }

    /// No wait is longer.
    const WAIT_MAX: Span = Span::from_secs(24 * 60 * 60);

    /// Check the values.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.times == 0 {
            return Err("a request must be made again at least once (`times`)".into());
        }
        if self.factor < 1000 {
            return Err("the factor of the waits must be at least 1".into());
        }
        if self.jitter > 1000 {
            return Err("the jitter of the waits must be from 0 to 1".into());
        }
        if self.on.is_empty() {
            return Err("there is no failure after which the request is made again (`on`)".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Think;

    fn switch(bursts: &[u32]) -> Switch {
        let alternatives = bursts.iter().map(|&bursts| Alternative { weight: 1, bursts });
        Switch { gate: Gate::default(), alternatives: alternatives.collect() }
    }

    fn bursts(switches: &[&[Switch]]) -> Vec<Burst> {
        let burst = |switches: &&[Switch]| {
            let control = Control { switches: switches.to_vec(), ..Control::default() };
            let control = Some(Box::new(control));
            Burst { calls: vec![0], lead: false, think: Think::None, repeat: 1, control }
        };
        switches.iter().map(burst).collect()
    }

    /// The tree as text: bursts are numbers, switches brackets with `|` between alternatives.
    fn shown(steps: &[Step<'_>]) -> String {
        let one = |step: &Step<'_>| match step {
            Step::Burst(index) => index.to_string(),
            Step::Switch(_, alternatives) => {
                let parts: Vec<String> = alternatives.iter().map(|a| shown(a)).collect();
                format!("[{}]", parts.join("|"))
            }
        };
        steps.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bursts_with_switches_are_a_tree() {
        for (switches, tree) in [
            (&[&[][..], &[][..]][..], "0 1"),
            (&[&[], &[switch(&[1, 2])], &[], &[], &[]], "0 [1|2 3] 4"),
            (&[&[switch(&[2, 1]), switch(&[0, 1, 0])], &[], &[]], "[[|0|] 1|2]"),
            (&[&[switch(&[1])], &[switch(&[1, 0])]], "[0] [1|]"),
        ] {
            let bursts = bursts(switches);
            assert_eq!(shown(&steps(&bursts).expect("a tree")), tree);
        }
    }

    #[test]
    fn knows_which_sessions_always_make_a_request() {
        let gated = Gate { when: Some("{{v}}".into()), unless: None };
        let closed = |switches: Vec<Switch>| {
            Some(Box::new(Control { switches, gate: gated.clone(), ..Control::default() }))
        };
        let maybe = Switch { gate: gated.clone(), ..switch(&[1]) };
        for (switches, always) in [
            (&[&[][..]][..], true),
            (&[&[switch(&[1, 1])], &[]], true),
            (&[&[switch(&[1, 0])]], false),
            (&[&[switch(&[1, 0])], &[]], true),
            (&[&[maybe]], false),
        ] {
            let mut bursts = bursts(switches);
            let makes =
                |bursts: &[Burst]| Step::always_request(&steps(bursts).expect("a tree"), bursts);
            assert_eq!(makes(&bursts), always, "{bursts:?}");
            for burst in &mut bursts {
                let switches = burst.control.take().map_or(Vec::new(), |control| control.switches);
                burst.control = closed(switches);
            }
            assert!(!makes(&bursts), "{bursts:?}");
        }
    }

    #[test]
    fn refuses_switches_that_do_not_fit() {
        let weightless =
            Switch { alternatives: vec![Alternative { weight: 0, bursts: 1 }], ..switch(&[]) };
        let deep = vec![switch(&[1]); Step::DEPTH_MAX + 1];
        for (switches, why) in [
            (vec![switch(&[2])], "longer than what is around it"),
            (vec![switch(&[0, 0])], "no alternative of a switch has a request"),
            (vec![switch(&[1]), switch(&[1, 1])], "longer than what is around it"),
            (vec![weightless], "a weight of 0"),
            (deep, "more than 8 deep"),
        ] {
            let bursts = bursts(&[&switches]);
            let refused = steps(&bursts).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }

    fn retry(factor: u32, max: Option<u64>, jitter: u32) -> Retry {
        let (wait, max) = (Span::from_millis(100), max.map(Span::from_millis));
        Retry { times: 9, wait, factor, max, jitter, on: vec![RetryOn::Status] }
    }

    #[test]
    fn waits_grow_by_the_factor_up_to_the_longest() {
        let waits = |retry: Retry| [0, 1, 2, 3, 8].map(|n| retry.wait(n, 7).0 / 1_000_000);
        assert_eq!(waits(retry(2_000, None, 0)), [100, 200, 400, 800, 25_600]);
        assert_eq!(waits(retry(1_500, Some(300), 0)), [100, 150, 225, 300, 300]);
        assert_eq!(waits(retry(1_000, None, 0)), [100; 5]);
        assert_eq!(waits(retry(2_000, Some(50), 0)), [50; 5]);
        assert_eq!(retry(u32::MAX, None, 0).wait(u32::MAX, 0), Retry::WAIT_MAX);
    }

    #[test]
    fn jitter_moves_a_wait_by_no_more_than_its_part() {
        let retry = retry(1_000, None, 200);
        assert_eq!(retry.wait(0, 0), Span::from_millis(80));
        assert_eq!(retry.wait(0, u64::MAX), Span::from_millis(120));
        let middle = retry.wait(0, 1 << 63).0;
        assert!((99_999_999..=100_000_001).contains(&middle), "{middle}");
    }
}
