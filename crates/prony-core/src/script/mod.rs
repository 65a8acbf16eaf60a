//! What makes the requests of a session differ from those of another. A plan says it with what is
//! in [`vars`](crate::vars): templates, rows of tables, values taken from replies; and by cookies.
//!
//! A [`Script`] is made once from a valid plan. Each running session has its [`Locals`] and
//! its [`Jar`]; they are used again when the session has ended. All that is random depends on the
//! seed and on the numbers of session and request alone, so that the same plan sends the same bytes
//! on any number of threads.

mod capture;
mod compile;
mod cookies;
mod filled;

pub use crate::vars::{
    BODY_LIMIT, BUILT_IN, Extract, ExtractError, Locals, Moment, PickRow, Place, Scope, Source,
    Table, TableError, Template, TemplateError, Unsent, is_name,
};
pub use capture::Capture;
pub use compile::{Part, Script, ScriptError};
pub use cookies::{Jar, Origin};
pub use filled::Filled;

#[cfg(test)]
mod tests;
