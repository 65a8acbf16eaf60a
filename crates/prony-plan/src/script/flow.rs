//! The decisions of sessions, compiled: which bursts a session makes, and how often.

use std::sync::Arc;

use super::problem::{ConditionKey, ConditionPlace, Part, ScriptError};
use super::{Locals, Moment, Scope, Sent, Source, Table, TemplateError};
use crate::plan::{self, AtLimit, Burst, Gate, Plan, Retry, RetryOn, Step, Switch};
use crate::vars::condition::{Condition, Scratch};
use prony_base::fault::{Fault, FaultClass};
use prony_base::rng::{self, Stream};

/// The variable with the status of the last reply, in conditions only. A variable of the plan with
/// this name comes first.
pub const STATUS: &str = "status";

/// Random fields of conditions do not share draws with those of requests, which are counted from 0.
const FIRST_DRAW: u64 = 1 << 32;

/// The decisions at all bursts of a plan, one kind of session after the other.
#[derive(Clone, Debug)]
pub struct Flow {
    nodes: Vec<Node>,
    /// The variable with the status of the last reply, if the plan has none of this name.
    status: Option<usize>,
}

/// The decisions at one burst.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The switches that start here, the outermost first.
    forks: Vec<Fork>,
    gate: Conditions,
    until: Option<(Condition, AtLimit)>,
    retry: Option<Box<Retry>>,
    /// The burst after it.
    next: u32,
}

#[derive(Clone, Debug)]
struct Fork {
    gate: Conditions,
    /// Its number in the plan.
    number: u64,
    /// The cumulative weights of the alternatives, and their first bursts. That of an empty
    /// alternative is the burst after the switch.
    arms: Vec<(u64, u32)>,
    /// The burst after the switch.
    after: u32,
}

#[derive(Clone, Debug, Default)]
struct Conditions {
    when: Option<Condition>,
    unless: Option<Condition>,
}

/// What the decisions of a session depend on.
#[derive(Debug)]
pub struct Deciding<'a> {
    pub(super) seed: u64,
    pub(super) moment: Moment,
    pub(super) tables: &'a [Arc<Table>],
    pub(super) locals: &'a Locals,
    /// Reused memory.
    pub(super) scratch: &'a mut Scratch,
}

/// What a session does after a repetition of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// It makes the burst again.
    Again,
    /// It goes on.
    Over,
    /// It goes on, although the condition that ends the repetitions does not hold.
    Limit(AtLimit),
}

impl Deciding<'_> {
    fn holds(&mut self, condition: &Condition) -> bool {
        let sent = Sent::default();
        let source = Source { moment: self.moment, tables: self.tables, locals: self.locals, sent };
        condition.holds(source, self.scratch)
    }

    fn opens(&mut self, gate: &Conditions) -> bool {
        gate.when.as_ref().is_none_or(|when| self.holds(when))
            && !gate.unless.as_ref().is_some_and(|unless| self.holds(unless))
    }
}

impl Flow {
    /// Compile the decisions of a plan. `None`: it has none. `scope` has the names that requests
    /// may use.
    pub(super) fn new(plan: &Plan, scope: &Scope) -> Result<Option<Self>, Vec<ScriptError>> {
        let Some(sessions) = plan.sessions.as_ref().filter(|sessions| sessions.has_control())
        else {
            return Ok(None);
        };
        let mut scope = scope.clone();
        let mut status = None;
        if scope.variable(STATUS).is_none() {
            status = Some(scope.variables.len());
            scope.variables.push(STATUS.to_owned());
            scope.index();
        }
        let mut compiler = Compiler { nodes: Vec::new(), scope, draws: FIRST_DRAW, forks: 0 };
        let mut problems = Vec::new();
        for (kind, spec) in sessions.kinds.iter().enumerate() {
            compiler.add(kind, &spec.bursts, &mut problems);
        }
        if problems.is_empty() {
            Ok(Some(Self { nodes: compiler.nodes, status }))
        } else {
            Err(problems)
        }
    }

    /// The variable with the status of the last reply.
    pub fn status(&self) -> Option<usize> {
        self.status
    }

    /// The first burst from `burst` on that the session makes, or `end`; and how many steps it
    /// skips before.
    pub fn arrive(&self, mut burst: u32, end: u32, deciding: &mut Deciding<'_>) -> (u32, u64) {
        let (mut taken, mut skipped) = (0, 0);
        while burst < end {
            let node = &self.nodes[burst as usize];
            let Some(fork) = node.forks.get(taken) else {
                if deciding.opens(&node.gate) {
                    break;
                }
                (burst, taken) = (node.next, 0);
                skipped += 1;
                continue;
            };
            if !deciding.opens(&fork.gate) {
                (burst, taken) = (fork.after, 0);
                skipped += 1;
                continue;
            }
            let first = fork.draw(deciding);
            taken = if first == burst { taken + 1 } else { 0 };
            burst = first;
        }
        (burst, skipped)
    }

    /// The burst after this one, before its conditions are checked.
    pub fn next(&self, burst: u32) -> u32 {
        self.nodes[burst as usize].next
    }

    /// Whether the session repeats a burst of which it has made `round` of at most `most`
    /// repetitions.
    pub fn repeats(
        &self,
        burst: u32,
        round: u32,
        most: u32,
        deciding: &mut Deciding<'_>,
    ) -> Repetition {
        let left = round < most;
        match &self.nodes[burst as usize].until {
            None if left => Repetition::Again,
            None => Repetition::Over,
            Some((until, _)) if deciding.holds(until) => Repetition::Over,
            Some(_) if left => Repetition::Again,
            Some((_, at_limit)) => Repetition::Limit(*at_limit),
        }
    }

    /// How the request of a burst is made again after this failure, if it is.
    pub fn retry(&self, burst: u32, fault: Fault) -> Option<&Retry> {
        let on = group(fault)?;
        self.nodes[burst as usize].retry.as_deref().filter(|retry| retry.on.contains(&on))
    }
}

/// The group of a failure, if requests can be made again after it.
fn group(fault: Fault) -> Option<RetryOn> {
    match (fault, fault.class()) {
        (Fault::UnexpectedStatus | Fault::GrpcStatus, _) => Some(RetryOn::Status),
        (Fault::RequestTimeout | Fault::WaitTimeout, _) => Some(RetryOn::Timeout),
        (Fault::ConnectTimeout, _) | (_, FaultClass::Connect) => Some(RetryOn::Connect),
        (Fault::GivenUp, _) => None,
        (_, FaultClass::Connection) => Some(RetryOn::Lost),
        (_, FaultClass::Unexpected) => Some(RetryOn::Reply),
        _ => None,
    }
}

impl Fork {
    /// The first burst of the alternative that the session makes.
    fn draw(&self, deciding: &Deciding<'_>) -> u32 {
        let total = self.arms.last().map_or(0, |&(sum, _)| sum);
        let bits = rng::keyed(deciding.seed, Stream::Switch, deciding.moment.session, self.number);
        let drawn = ((u128::from(bits) * u128::from(total)) >> 64) as u64;
        let arm = self.arms.partition_point(|&(sum, _)| sum <= drawn);
        self.arms.get(arm).map_or(self.after, |&(_, first)| first)
    }
}

struct Compiler {
    nodes: Vec<Node>,
    scope: Scope,
    draws: u64,
    /// The number of switches so far.
    forks: u64,
}

/// The bursts of one kind of session.
struct KindOfSession<'a> {
    kind: usize,
    bursts: &'a [Burst],
    /// The index of the first among those of all kinds.
    first: usize,
}

impl Compiler {
    /// Add the bursts of a kind of session.
    fn add(&mut self, kind: usize, bursts: &[Burst], problems: &mut Vec<ScriptError>) {
        let first = self.nodes.len();
        self.nodes.resize_with(first + bursts.len(), Node::default);
        let of = KindOfSession { kind, bursts, first };
        match plan::steps(bursts) {
            Ok(steps) => {
                self.place(&of, &steps, first + bursts.len(), problems);
            }
            Err(what) => {
                let what = format!("session {}: {what}", kind + 1);
                problems.push(ScriptError { call: None, part: Part::Call, at: None, what });
            }
        }
    }

    /// Place steps, after which the session continues at `after`. Returns the first burst.
    fn place(
        &mut self,
        of: &KindOfSession<'_>,
        steps: &[Step<'_>],
        after: usize,
        problems: &mut Vec<ScriptError>,
    ) -> usize {
        let firsts: Vec<usize> = steps.iter().map(|step| of.first + step.bursts().start).collect();
        for (i, step) in steps.iter().enumerate() {
            let after = firsts.get(i + 1).copied().unwrap_or(after);
            match step {
                Step::Burst(index) => self.burst(of, *index, after, problems),
                Step::Switch(switch, alternatives) => {
                    self.switch(of, firsts[i], (switch, alternatives), after, problems);
                }
            }
        }
        firsts.first().copied().unwrap_or(after)
    }

    fn burst(
        &mut self,
        of: &KindOfSession<'_>,
        index: usize,
        after: usize,
        problems: &mut Vec<ScriptError>,
    ) {
        self.nodes[of.first + index].next = after as u32;
        let Some(control) = of.bursts[index].control.as_deref() else { return };
        let place = |key| ConditionPlace { kind: of.kind, burst: index, switch: None, key };
        let gate = self.gate(&control.gate, place, problems);
        let until = control.until.as_ref().and_then(|until| {
            let place = place(ConditionKey::Until);
            Some((self.condition(&until.condition, place, problems)?, until.at_limit))
        });
        let node = &mut self.nodes[of.first + index];
        (node.gate, node.until) = (gate, until);
        node.retry = control.retry.clone().map(Box::new);
    }

    fn switch(
        &mut self,
        of: &KindOfSession<'_>,
        at: usize,
        (switch, alternatives): (&Switch, &[Vec<Step<'_>>]),
        after: usize,
        problems: &mut Vec<ScriptError>,
    ) {
        let number = self.nodes[at].forks.len();
        let burst = at - of.first;
        let place = |key| ConditionPlace { kind: of.kind, burst, switch: Some(number), key };
        let gate = self.gate(&switch.gate, place, problems);
        let fork = Fork { gate, number: self.forks, arms: Vec::new(), after: after as u32 };
        self.forks += 1;
        self.nodes[at].forks.push(fork);
        let (mut arms, mut sum) = (Vec::with_capacity(alternatives.len()), 0);
        for (alternative, steps) in switch.alternatives.iter().zip(alternatives) {
            sum += u64::from(alternative.weight);
            arms.push((sum, self.place(of, steps, after, problems) as u32));
        }
        self.nodes[at].forks[number].arms = arms;
    }

    fn gate(
        &mut self,
        gate: &Gate,
        place: impl Fn(ConditionKey) -> ConditionPlace,
        problems: &mut Vec<ScriptError>,
    ) -> Conditions {
        let mut compile = |text: &Option<String>, key| {
            text.as_ref().and_then(|text| self.condition(text, place(key), problems))
        };
        Conditions {
            when: compile(&gate.when, ConditionKey::When),
            unless: compile(&gate.unless, ConditionKey::Unless),
        }
    }

    fn condition(
        &mut self,
        text: &str,
        place: ConditionPlace,
        problems: &mut Vec<ScriptError>,
    ) -> Option<Condition> {
        let parsed = Condition::parse(text, &self.scope, &mut self.draws);
        let add = |TemplateError { at, what }| {
            let part = Part::Condition(place);
            problems.push(ScriptError { call: None, part, at: Some(at), what });
        };
        parsed.map_err(add).ok()
    }
}

#[cfg(test)]
mod tests;
