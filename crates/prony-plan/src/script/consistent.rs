//! Checks of the compiled parts of a plan together: each variable has a value when it is needed,
//! and no text is too long.

use super::call::Call;
use super::problem::{Part, ScriptError};
use crate::plan::{Plan, Sessions};
use crate::vars::{FILLED_MAX, Scope, Template};
use prony_base::units::Span;

/// The most bytes of the initial values of a session's variables. Those beyond are not set.
pub(super) const INITIAL_MAX: usize = 16 << 20;

/// Check that no text is too long whatever the random and extracted values in it are.
pub(super) fn check_lengths(
    calls: &[Call],
    initial: &[Option<Template>],
    problems: &mut Vec<ScriptError>,
) {
    let mut lengths = vec![0_u64; initial.len()];
    let mut sum: u64 = 0;
    for (index, template) in initial.iter().enumerate() {
        let Some(template) = template else { continue };
        let length = template.least(&|variable| lengths[variable]);
        lengths[index] = length;
        sum = sum.saturating_add(length);
        if sum > INITIAL_MAX as u64 {
            let what = "with the variables before it, a session has more than 16 MiB of them";
            let (part, what) = (Part::Variable(index), what.to_owned());
            problems.push(ScriptError { call: None, part, at: None, what });
            return;
        }
    }
    for (index, call) in calls.iter().enumerate() {
        let parts = call.parts.as_deref().unwrap_or_default();
        for (nth, template) in parts.iter().enumerate() {
            // What has no fields may have any length.
            let is_long = || template.least(&|variable| lengths[variable]) > FILLED_MAX as u64;
            if template.is_variable() && is_long() {
                let part = call.part_of(nth, parts.len());
                let what = "with its fields filled in, it is longer than 64 MiB".to_owned();
                problems.push(ScriptError { call: Some(index), part, at: None, what });
            }
        }
    }
}

/// Check the requests of a plan without sessions: no later request has a value of a reply, so they
/// have only what each has from its start.
pub(super) fn check_alone(
    plan: &Plan,
    calls: &[Call],
    initial: &[Option<Template>],
    scope: &Scope,
    problems: &mut Vec<ScriptError>,
) {
    let known: Vec<bool> = initial.iter().map(Option::is_some).collect();
    for (index, call) in calls.iter().enumerate() {
        let error = |part, what| ScriptError { call: Some(index), part, at: None, what };
        if !plan.calls[index].extract.is_empty() {
            problems.push(error(Part::Call, "extracts need sessions".to_owned()));
        } else if plan.calls[index].template && plan.clients.is_some() {
            let what = "independent clients have no templates".to_owned();
            problems.push(error(Part::Call, what));
        } else if plan.calls[index].template
            && plan.warmup > Span::ZERO
            && plan.data.sessions_max() < u64::MAX
        {
            let what = "rows that are used once exclude a warm-up, unless there are sessions";
            problems.push(error(Part::Call, what.to_owned()));
        } else if let Some((part, variable)) = call.first_unknown(&known) {
            let name = &scope.variables[variable];
            problems.push(error(part, format!("'{name}' has no value: it needs a session")));
        }
    }
}

/// Check that every variable has a value before a request uses it. Extracted values are known from
/// the next burst on, or after the leading request of a burst. Each request is reported once.
pub(super) fn check_order(
    sessions: &Sessions,
    calls: &[Call],
    initial: &[Option<Template>],
    scope: &Scope,
    problems: &mut Vec<ScriptError>,
) {
    let mut reported = vec![false; calls.len()];
    for index in problems.iter().filter_map(|problem| problem.call) {
        reported[index] = true;
    }
    let from_start: Vec<bool> = initial.iter().map(Option::is_some).collect();
    let mut known = from_start.clone();
    for kind in &sessions.kinds {
        // What this kind sets.
        let (mut set, mut next) = (Vec::new(), Vec::new());
        for burst in &kind.bursts {
            for (position, &index) in burst.calls.iter().enumerate() {
                if position == 1 && burst.lead {
                    learn(&mut next, &mut known, &mut set);
                }
                let index = index as usize;
                let Some(call) = calls.get(index) else { continue };
                if let Some((part, variable)) =
                    call.first_unknown(&known).filter(|_| !reported[index])
                {
                    let what = format!(
                        "'{}' has no value yet: no earlier request of the session \
                         extracts it",
                        scope.variables[variable]
                    );
                    problems.push(ScriptError { call: Some(index), part, at: None, what });
                    reported[index] = true;
                }
                next.extend_from_slice(&call.sets);
            }
            learn(&mut next, &mut known, &mut set);
        }
        set.into_iter().for_each(|variable| known[variable] = from_start[variable]);
    }
}

/// Make the next variables known, and add them to those that are set.
fn learn(next: &mut Vec<usize>, known: &mut [bool], set: &mut Vec<usize>) {
    for variable in next.drain(..) {
        known[variable] = true;
        set.push(variable);
    }
}
