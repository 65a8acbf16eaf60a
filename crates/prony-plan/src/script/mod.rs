//! The dynamic parts of sessions: templates, rows of tables and values extracted from replies (see
//! [`vars`](crate::vars)), and cookies.
//!
//! A [`Script`] is compiled once from a valid plan. Each running session has its [`Locals`] and its
//! [`Jar`], which are reused after the session has ended. Random values depend only on the seed and
//! the numbers of session and request, so a plan sends the same bytes on any number of threads.

mod call;
mod capture;
mod checks;
mod compile;
mod consistent;
mod cookies;
mod decode;
mod filled;
mod flow;
mod messages;
mod problem;

pub use crate::vars::condition::{Condition, Scratch};
pub use crate::vars::{
    Awaited, BODY_LIMIT, BUILT_IN, Content, Exhausted, Extract, ExtractError, Locals, Matcher,
    Moment, PickRow, Place, Scope, Sent, Source, Table, TableError, Template, TemplateError,
    Unsent, VIRTUAL_EPOCH, is_name,
};
pub use capture::Capture;
pub use checks::{Checker, Figures};
pub use compile::Script;
pub use cookies::{Jar, Origin};
pub use decode::{Coding, Undecoded};
pub use filled::{Filled, Moved};
pub use flow::{Deciding, Flow, Repetition, STATUS};
pub use problem::{ConditionKey, ConditionPlace, Part, ScriptError};

#[cfg(test)]
mod tests;
