//! The sources of the variable parts of a request: templates with fields, rows of tables, values
//! extracted from replies. [`script`](crate::script) uses them for the sessions of a plan.

mod awaited;
pub(crate) mod condition;
mod cycle;
mod extract;
mod filter;
pub(crate) mod message;
mod now;
mod quotes;
mod random;
mod sign;
mod sigv4;
mod table;
pub(crate) mod template;
mod value;

pub use awaited::{Awaited, Content, Matcher};
pub use extract::{BODY_LIMIT, Extract, ExtractError, Place};
pub(crate) use extract::{Body, Extractor, check_expression, expression};
pub use now::VIRTUAL_EPOCH;
pub use sigv4::{BodyDigest, Signer, ToSign, body_digest};
pub(crate) use table::NO_ROW;
pub use table::{Exhausted, PickRow, Table, TableError};
pub use template::{FILLED_MAX, Template, TemplateError};
pub use value::{BUILT_IN, Scope};

use std::sync::Arc;

/// Why the fields of a request could not be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// A variable has no value.
    NoValue,
    /// A value has a line break, or another character that is not allowed in its place, or it is
    /// longer than [`FILLED_MAX`].
    Unfit,
}

/// The values of one session.
#[derive(Clone, Debug, Default)]
pub struct Locals {
    /// Its number in the whole run, from 0.
    pub(crate) session: u64,
    /// The number of its requests, if that does not follow from their session.
    pub counter: Option<u64>,
    /// The time at which its next text is filled in, in nanoseconds since 1970.
    pub now: u64,
    /// Its row in each table.
    pub(crate) rows: Vec<u32>,
    /// The values of its variables, and whether they are set; unset ones keep their memory.
    pub(crate) values: Vec<(bool, Vec<u8>)>,
}

/// Identifies the request to fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The seed of the run.
    pub seed: u64,
    /// The session's number in the whole run, from 0.
    pub session: u64,
    /// The request's number in its session, from 0.
    pub request: u64,
    /// The request's number in the whole run, from 0: no other request has it.
    pub counter: u64,
}

/// The inputs of a field: the request, the tables, the session.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The request to fill in.
    pub moment: Moment,
    /// The tables of the plan.
    pub tables: &'a [Arc<Table>],
    /// The values of the session.
    pub locals: &'a Locals,
    /// The other parts of the request, for the values of headers that name them.
    pub sent: Sent<'a>,
}

/// Parts of a request as they are sent, which header values may have: signatures, for example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent<'a> {
    /// Path and query.
    pub path: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl Locals {
    /// The value of a variable, if it has one.
    #[inline]
    pub fn get(&self, variable: usize) -> Option<&[u8]> {
        self.values.get(variable).filter(|(set, _)| *set).map(|(_, value)| value.as_slice())
    }

    /// Remove the value of a variable.
    pub fn unset(&mut self, variable: usize) {
        if let Some((set, _)) = self.values.get_mut(variable) {
            *set = false;
        }
    }

    /// Set the value of a variable.
    pub fn set(&mut self, variable: usize, value: &[u8]) {
        if self.values.len() <= variable {
            self.values.resize(variable + 1, (false, Vec::new()));
        }
        let (set, kept) = &mut self.values[variable];
        *set = true;
        kept.clear();
        kept.extend_from_slice(value);
    }
}

impl Source<'_> {
    /// The cell of the session's row; `None`: the table has no row for it.
    fn cell(&self, table: usize, column: usize) -> Option<&str> {
        let row = self.locals.rows[table];
        (row != NO_ROW).then(|| self.tables[table].cell(row, column))
    }
}

/// Whether a text can be the name of a variable or a table: a letter or `_`, then letters, digits,
/// `_` and `-`.
pub fn is_name(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(inside)
}
