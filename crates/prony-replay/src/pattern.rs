//! Lines whose parts are separated by fixed texts: the format strings of nginx, Apache and Tomcat,
//! and the formats that have no string of their own.
//!
//! A part ends where the text after it begins, if it cannot contain that text. `fixed_order` reads
//! such lines from left to right. Where a part may contain what separates it from the next one (a
//! list of nginx, the name of a browser without quotation marks), `search` finds all ways to read
//! the line, and a line that can be read in more than one way is refused.

use crate::escapes::Escapes;
use crate::fields::{Edge, Fields, Role, Why};
use crate::format_error::FormatError;
use crate::times::Times;
use class::Class;

mod apache;
mod class;
mod fixed;
mod nginx;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use apache::{compile as apache, tomcat};
pub(crate) use fixed::{alb, common, elb, envoy_text, haproxy, s3};
pub(crate) use nginx::compile as nginx;

const MILLI: i64 = 1_000_000;
const MICRO: i64 = 1000;

/// A compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The text before the first part.
    begin: Vec<u8>,
    parts: Vec<Part>,
    /// How many parts there are up to the last one of use.
    used: usize,
    /// Parts that stand after these in newer versions of the format.
    optional: Vec<Part>,
    escapes: Escapes,
    /// The header of syslog may stand before a line.
    may_have_syslog: bool,
    /// Whether each part of use ends for certain where its text is first found.
    is_certain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    role: Role,
    class: Class,
    /// Its name in the format string.
    name: String,
    /// The text after it; the end of the line if that is empty and the part is the last.
    until: Vec<u8>,
    /// It is in quotation marks, before which a backslash stands in its text.
    is_quoted: bool,
}

/// A piece of a format string.
enum Piece {
    Text(Vec<u8>),
    /// A part, what it may contain, and its name in the string.
    Part(Role, Class, String),
}

impl Pattern {
    /// Pieces in their order.
    fn new(pieces: Vec<Piece>, escapes: Escapes) -> Result<Self, FormatError> {
        let mut begin = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        for piece in pieces {
            match (piece, parts.last_mut()) {
                (Piece::Text(text), None) => begin.extend(text),
                (Piece::Text(text), Some(part)) => part.until.extend(text),
                (Piece::Part(role, class, name), last) => {
                    if let Some(last) = last.filter(|part| part.until.is_empty())
                        && !(last.class.excludes(b'/') && class == Class::Target)
                    {
                        return Err(FormatError::Adjacent(last.name.clone(), name));
                    }
                    parts.push(Part { role, class, name, until: Vec::new(), is_quoted: false });
                }
            }
        }
        let mut before: &[u8] = &begin;
        for part in &mut parts {
            let is_between = before.ends_with(b"\"") && part.until.starts_with(b"\"");
            part.is_quoted = is_between && escapes.hides_quotes();
            before = &part.until;
        }
        let (used, optional) = (0, Vec::new());
        let mut pattern = Self {
            begin,
            parts,
            used,
            optional,
            escapes,
            may_have_syslog: false,
            is_certain: false,
        };
        pattern.choose();
        pattern.check()
    }

    /// If a line has the request as it was sent, the parsed parts are not needed; if it has how
    /// long the request took, the times of its attempts are not.
    fn choose(&mut self) {
        let has = |parts: &[Part], is: fn(Role) -> bool| parts.iter().any(|part| is(part.role));
        let has_request = has(&self.parts, |role| role == Role::Request);
        let has_took = has(&self.parts, |role| matches!(role, Role::Took(_)));
        let has_target = has(&self.parts, |role| role == Role::Target);
        for part in &mut self.parts {
            let is_parsed = match part.role {
                Role::Method | Role::Target | Role::RawPath => has_request,
                Role::Path | Role::PathQuery | Role::Query => has_request || has_target,
                Role::TookList(_) => has_took,
                _ => false,
            };
            if is_parsed {
                part.role = Role::Ignored;
            }
        }
        let last = self.parts.iter().rposition(|part| part.role != Role::Ignored);
        self.used = last.map_or(0, |last| last + 1);
        self.is_certain = (0..self.used).all(|i| self.ends_for_certain(i));
    }

    /// Whether a part ends where the text after it is first found, whatever it contains.
    fn ends_for_certain(&self, index: usize) -> bool {
        let part = &self.parts[index];
        let Some(&first) = part.until.first() else { return index + 1 == self.parts.len() };
        let has_mark = |part: &Part| self.escapes.protects_quotes() && part.until.contains(&b'"');
        let excludes = part.class.excludes(first) || has_mark(part);
        // After ` [` stands a time of a fixed form, and after that a quotation mark, which the part
        // cannot contain.
        let next = self.parts.get(index + 1);
        excludes || next.is_some_and(|next| next.class == Class::Time && has_mark(next))
    }

    fn check(self) -> Result<Self, FormatError> {
        let has = |is: fn(Role) -> bool| self.parts.iter().any(|part| is(part.role));
        if !has(Role::is_time) {
            return Err(FormatError::NoTime);
        }
        if !has(Role::is_path) {
            return Err(FormatError::NoPath);
        }
        if !has(Role::is_method) {
            return Err(FormatError::NoMethod);
        }
        Ok(self)
    }

    /// Times whose unit the format does not say are in this unit, in nanoseconds. Returns whether
    /// there are some.
    pub(crate) fn set_unit(&mut self, unit: i64) -> bool {
        let unclear = self.parts.iter_mut().filter(|part| part.role == Role::TookUnclear);
        unclear.map(|part| part.role = Role::Took(unit)).count() > 0
    }

    /// The names of the part that is the time of a line, and of those that are how long it took;
    /// what the time is.
    pub(crate) fn times(&self) -> (String, Edge, Vec<(Role, String)>) {
        let parts = || self.parts.iter().chain(&self.optional);
        let start = |part: &&Part| matches!(part.role, Role::Time(_, Edge::Start));
        let end = |part: &&Part| part.role.is_time();
        let found = parts().find(start).map(|part| (part, Edge::Start));
        let found = found.or_else(|| parts().find(end).map(|part| (part, Edge::End)));
        let (name, edge) =
            found.map_or((String::new(), Edge::End), |(part, edge)| (part.name.clone(), edge));
        let took = parts().filter(|part| part.role.is_took());
        (name, edge, took.map(|part| (part.role, part.name.clone())).collect())
    }

    pub(crate) fn read<'a>(&self, line: &'a [u8], times: &mut Times) -> Result<Fields<'a>, Why> {
        let line = if self.may_have_syslog { fixed::after_syslog(line) } else { line };
        if !self.is_certain {
            return self.searched(line, times);
        }
        match self.fixed_order(line, times) {
            // What is found first may not be what the server has written.
            Err(why @ (Why::Form | Why::BadTime)) => self.searched(line, times).map_err(|_| why),
            read => read,
        }
    }

    /// Reads the parts from left to right.
    #[inline]
    fn fixed_order<'a>(&self, line: &'a [u8], times: &mut Times) -> Result<Fields<'a>, Why> {
        let mut rest = line.strip_prefix(&self.begin[..]).ok_or(Why::Form)?;
        let mut fields = Fields::new(self.escapes);
        for part in &self.parts[..self.used] {
            let end = part.end(rest).ok_or(Why::Form)?;
            fields.set(part.role, &rest[..end], times)?;
            rest = &rest[end + part.until.len()..];
        }
        self.set_optional(&mut fields, rest, times);
        fields.is_no_request |= fields.aim.target.is_empty();
        fields.finish()?;
        Ok(fields)
    }

    /// Reads what newer versions of the format have, as far as it is there.
    #[inline]
    fn set_optional<'a>(&self, fields: &mut Fields<'a>, text: &'a [u8], times: &mut Times) {
        let mut rest = text;
        for part in &self.optional {
            let Some(end) = part.end(rest) else { return };
            let is_other = rest[..end].iter().any(|b| part.class.excludes(*b));
            if is_other || fields.set(part.role, &rest[..end], times).is_err() {
                return;
            }
            rest = &rest[end + part.until.len()..];
        }
    }
}

impl Part {
    /// Where the part at the beginning of `text` ends.
    #[inline]
    fn end(&self, text: &[u8]) -> Option<usize> {
        let Some((&first, others)) = self.until.split_first() else { return Some(text.len()) };
        let mut from = 0;
        loop {
            let at = from + memchr::memchr(first, &text[from..])?;
            from = at + 1;
            if self.is_quoted && is_escaped(text, at) {
                continue;
            }
            if text[from..].starts_with(others) {
                return Some(at);
            }
        }
    }
}

/// Whether a backslash stands before this byte, which no other backslash escapes.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}
