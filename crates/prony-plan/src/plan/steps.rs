//! The bursts of a session with their switches, as a tree.

use std::ops::Range;

use super::{Burst, Switch};

/// A step of a session: bursts with their switches, as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The burst with this index.
    Burst(usize),
    /// A switch, with the steps of each of its alternatives.
    Switch(&'a Switch, Vec<Vec<Self>>),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Alternative, Control, Gate, Think};

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
}
