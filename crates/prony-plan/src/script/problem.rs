//! What is wrong with the dynamic parts of a plan, and where.

use crate::plan::Plan;

/// An error in the dynamic parts of a plan, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Index into the plan's calls; `None`: the error is not in a call.
    pub call: Option<usize>,
    /// The part that has the error.
    pub part: Part,
    /// The position of the error in the text of that part, in bytes, if it has one.
    pub at: Option<usize>,
    /// The error, as a sentence without its full stop.
    pub what: String,
}

/// A part of the plan that can have an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The call as a whole.
    Call,
    /// Its path.
    Path,
    /// The value of the header with this index.
    Header(usize),
    /// The text that the message is compared with for which it waits.
    Awaited,
    /// Its body.
    Body,
    /// Its extract with this index.
    Extract(usize),
    /// The variable with this index in the plan's data.
    Variable(usize),
    /// The table with this index in the plan's data.
    Table(usize),
    /// A condition of a session.
    Condition(ConditionPlace),
}

/// A condition of a plan, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionPlace {
    /// The kind of session.
    pub kind: usize,
    /// The burst in its kind.
    pub burst: usize,
    /// The switch at this burst to which it belongs; `None`: it belongs to the burst.
    pub switch: Option<usize>,
    /// Which condition it is.
    pub key: ConditionKey,
}

/// The name of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionKey {
    /// Made only if it holds.
    When,
    /// Made only if it does not hold.
    Unless,
    /// Repeated until it holds.
    Until,
}

impl ConditionPlace {
    /// The text of the condition.
    pub fn text(self, plan: &Plan) -> Option<&str> {
        let kinds = &plan.sessions.as_ref()?.kinds;
        let control = kinds.get(self.kind)?.bursts.get(self.burst)?.control.as_deref()?;
        let gate = match self.switch {
            Some(switch) => &control.switches.get(switch)?.gate,
            None => &control.gate,
        };
        match self.key {
            ConditionKey::When => gate.when.as_deref(),
            ConditionKey::Unless => gate.unless.as_deref(),
            ConditionKey::Until => control.until.as_ref().map(|until| until.condition.as_str()),
        }
    }
}

impl ConditionKey {
    /// Its key in plan files.
    pub fn name(self) -> &'static str {
        match self {
            Self::When => "when",
            Self::Unless => "unless",
            Self::Until => "until",
        }
    }
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(call) = self.call {
            write!(f, "request {}: ", call + 1)?;
        }
        match self.part {
            Part::Call => {}
            Part::Path => write!(f, "the path: ")?,
            Part::Header(index) => write!(f, "header {}: ", index + 1)?,
            Part::Awaited => write!(f, "`wait-for`: ")?,
            Part::Body => write!(f, "the body: ")?,
            Part::Extract(index) => write!(f, "extract {}: ", index + 1)?,
            Part::Variable(index) => write!(f, "variable {}: ", index + 1)?,
            Part::Table(index) => write!(f, "table {}: ", index + 1)?,
            Part::Condition(ConditionPlace { kind, burst, key, .. }) => {
                let key = key.name();
                write!(f, "session {}: burst {}: `{key}`: ", kind + 1, burst + 1)?;
            }
        }
        match self.at {
            Some(at) => write!(f, "at byte {}: {}", at + 1, self.what),
            None => write!(f, "{}", self.what),
        }
    }
}
