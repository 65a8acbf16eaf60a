//! Text with fields: `/users/{{users.id}}?token={{token | url}}`.
//!
//! A field is enclosed in `{{` and `}}`. Of more than two braces in a row, the inner ones enclose
//! the field, so that JSON needs no escapes. Quoted text in a field stands for itself, so
//! `{{"{{"}}` is two braces.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::cycle::{self, Cycle};
use super::filter::{self, Filter};
use super::now::{self, Now};
use super::random::{self, Draw};
use super::{Locals, PickRow, Sent, Source, Table, Unsent};
use crate::secret::Secret;

/// The names that the fields of a template may use.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Variables, by their index.
    pub variables: Vec<String>,
    /// Tables with their columns, by their index.
    pub tables: Vec<(String, Vec<String>)>,
    /// Environment variables with their values.
    pub environment: Vec<(String, Secret)>,
    /// The method of the request, if the text may name the rest of it ([`Sent`](super::Sent)).
    pub sent: Option<String>,
    /// The indices of the variables, if there are many ([`index`](Self::index)).
    pub by_name: HashMap<String, usize>,
    /// Only variables with a lower index are known.
    pub known: Option<usize>,
}

/// The most bytes of a text with its fields filled in, as of a file with a body. A longer one is
/// not sent.
pub const FILLED_MAX: usize = 64 << 20;

/// The most fields of a text.
const FIELDS: usize = 100_000;

/// The most filters of a field: each can make a value longer.
const FILTERS: usize = 32;

/// Predefined names.
pub const BUILT_IN: [&str; 6] = ["session", "request", "counter", "cycle", "random", "now"];

/// A parsed text with fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A number that no other request of the run has: `from`, and `step` more for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    from: i64,
    step: i64,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The position of the error in the template, in bytes.
    pub at: usize,
    /// The reason, as the end of a sentence.
    pub what: String,
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// A part of the text.
    Text(Range<usize>),
    Field(What, Vec<Filter>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Quoted(String),
    Variable(usize),
    Environment(Secret),
    Cell {
        table: usize,
        column: usize,
    },
    Session,
    Request,
    Counter(Counter),
    Cycle(Cycle),
    Now(Now),
    /// The path of the request, or its body.
    SentPath,
    SentBody,
    /// A draw, and its index among those of the request.
    Random(Draw, u64),
}

impl Template {
    /// Whether a text has fields.
    pub fn has_fields(text: &[u8]) -> bool {
        text.windows(2).any(|pair| pair == b"{{")
    }

    /// Parse a text. `draws` counts the random fields of a request, which draw independently.
    ///
    /// # Errors
    /// A field without an end, or with a name that is not in `scope`.
    pub fn parse(text: &[u8], scope: &Scope, draws: &mut u64) -> Result<Self, TemplateError> {
        Self::parse_all(text, scope, draws).map_err(|mut all| all.swap_remove(0))
    }

    /// The same with all errors, of which there is at least one.
    pub(crate) fn parse_all(
        text: &[u8],
        scope: &Scope,
        draws: &mut u64,
    ) -> Result<Self, Vec<TemplateError>> {
        let mut template = Self { text: text.to_vec(), pieces: Vec::new() };
        let mut errors = Vec::new();
        let mut at = 0;
        while let Some(open) = opening(text, at) {
            template.plain(at..open);
            let inner = open + 2;
            let mut error = |at: usize, what: String| errors.push(TemplateError { at, what });
            let Some(end) = closing(&text[inner..]) else {
                error(open, "'{{' is not followed by '}}'".into());
                break;
            };
            at = inner + end + 2;
            if template.pieces.len() > 2 * FIELDS {
                error(open, format!("a text has at most {FIELDS} fields"));
                break;
            }
            let Ok(field) = std::str::from_utf8(&text[inner..inner + end]) else {
                error(open, "the field is not UTF-8 text".into());
                continue;
            };
            let begins = inner + field.len() - field.trim_start().len();
            match parse_field(field.trim(), scope, draws) {
                Ok(piece) => template.pieces.push(piece),
                Err(what) => error(begins, what),
            }
        }
        template.plain(at..text.len());
        if errors.is_empty() { Ok(template) } else { Err(errors) }
    }

    /// A text without fields, whatever it contains.
    pub(crate) fn literal(text: &[u8]) -> Self {
        let mut template = Self { text: text.to_vec(), pieces: Vec::new() };
        template.plain(0..text.len());
        template
    }

    /// Append a text so that the template that contains it has no fields there.
    pub fn escape(text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"{{") {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(br#"{{"{{"}}"#);
            rest = &rest[at + 2..];
        }
        out.extend_from_slice(rest);
    }

    /// The text of which [`escape`](Self::escape) makes this one. `None`: it has other fields.
    pub fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
        const QUOTED: &[u8] = br#"{{"{{"}}"#;
        let mut plain = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"{{") {
            plain.extend_from_slice(&rest[..at]);
            plain.extend_from_slice(b"{{");
            rest = rest[at..].strip_prefix(QUOTED)?;
        }
        plain.extend_from_slice(rest);
        let mut again = Vec::with_capacity(text.len());
        Self::escape(&plain, &mut again);
        (again == text).then_some(plain)
    }

    /// The names of the environment variables in the fields of a text.
    pub fn environment(text: &[u8]) -> Vec<String> {
        let (mut names, mut at) = (Vec::new(), 0);
        while let Some(inner) = opening(text, at).map(|open| open + 2) {
            let Some(end) = closing(&text[inner..]) else { break };
            let field = String::from_utf8_lossy(&text[inner..inner + end]);
            names.extend(filter::environment(&field).map(str::to_owned));
            at = inner + end + 2;
        }
        names
    }

    /// A text whose only fields are environment variables, with their values.
    ///
    /// # Errors
    /// A field that is something else, or a variable that is not set.
    pub(crate) fn with_environment(
        text: &str,
        environment: &[(String, Secret)],
    ) -> Result<Secret, String> {
        let scope = Scope { environment: environment.to_vec(), ..Scope::default() };
        let template = Self::parse(text.as_bytes(), &scope, &mut 0).map_err(|error| error.what)?;
        if !template.values().all(|what| matches!(what, What::Environment(_) | What::Quoted(_))) {
            return Err("its fields can only be environment variables: {{env NAME}}".to_owned());
        }
        let locals = Locals::default();
        let moment = Moment { seed: 0, session: 0, request: 0, counter: 0 };
        let source = Source { moment, tables: &[], locals: &locals, sent: Sent::default() };
        let mut out = Vec::new();
        template.fill(source, &mut out, &mut Vec::new()).map_err(|_| "it has no value")?;
        String::from_utf8(out).map(Secret::from).map_err(|_| "it is not UTF-8 text".to_owned())
    }

    /// Whether it has a field.
    pub(crate) fn is_variable(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Field(..)))
    }

    /// The texts between its fields, and their positions.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &[u8])> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(range) => Some((range.start, &self.text[range.clone()])),
            Piece::Field(..) => None,
        })
    }

    /// The values in its fields.
    fn values(&self) -> impl Iterator<Item = &What> + '_ {
        let fields = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Field(what, filters) => Some((what, filters)),
        });
        fields.flat_map(|(what, filters)| {
            std::iter::once(what).chain(filters.iter().filter_map(Filter::value))
        })
    }

    /// The indices of the variables in its fields.
    pub fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        self.values().filter_map(|value| match value {
            What::Variable(index) => Some(*index),
            _ => None,
        })
    }

    /// Whether it has the path or the body of the request, which are filled in before it then.
    pub(crate) fn names_sent(&self) -> bool {
        self.values().any(|value| matches!(value, What::SentPath | What::SentBody))
    }

    /// Append the text with its fields filled in to `out`. `scratch` is overwritten.
    ///
    /// # Errors
    /// A variable has no value, or the text is too long.
    pub fn fill(
        &self,
        source: Source<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        self.fill_within(FILLED_MAX, source, out, scratch)
    }

    /// The same, with at most this many bytes.
    ///
    /// # Errors
    /// A variable has no value, or the text is longer.
    pub(crate) fn fill_within(
        &self,
        most: usize,
        source: Source<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        let begin = out.len();
        for piece in &self.pieces {
            match piece {
                Piece::Text(range) => out.extend_from_slice(&self.text[range.clone()]),
                Piece::Field(what, filters) => {
                    let start = out.len();
                    what.write(source, out)?;
                    for filter in filters {
                        filter.apply(source, start, out, scratch)?;
                        // Each filter can make a multiple of it.
                        if out.len() - begin > most {
                            return Err(Unsent::Unfit);
                        }
                    }
                    if out.len() - begin > most {
                        return Err(Unsent::Unfit);
                    }
                }
            }
        }
        Ok(())
    }

    /// The fewest bytes of the text with its fields filled in, if variables have at least these
    /// lengths.
    pub(crate) fn least(&self, variable: &dyn Fn(usize) -> u64) -> u64 {
        let value = |what: &What| match what {
            What::Variable(index) => variable(*index),
            What::Quoted(text) => text.len() as u64,
            What::Environment(value) => value.expose().len() as u64,
            _ => 0,
        };
        let piece = |piece: &Piece| match piece {
            Piece::Text(range) => range.len() as u64,
            Piece::Field(what, filters) => {
                filters.iter().fold(value(what), |length, filter| match filter {
                    Filter::Url | Filter::Json => length,
                    Filter::Base64 => length.saturating_add(length / 3),
                    Filter::Append(more) => length.saturating_add(value(more)),
                    // They can make it shorter.
                    Filter::Path | Filter::Sha256(_) | Filter::HmacSha256(..) | Filter::Jwt(_) => 0,
                })
            }
        };
        self.pieces.iter().map(piece).fold(0, u64::saturating_add)
    }

    /// For the fuzz target: the text for a session with row 0 of a table `users` with two columns,
    /// and a value of the first variable, if given.
    pub(crate) fn sample(&self, seed: u64, value: Option<&[u8]>) -> Result<Vec<u8>, Unsent> {
        let columns = vec!["id".to_owned(), "first name".to_owned()];
        let mut table = Table::new("users", PickRow::InTurn, columns).expect("columns");
        table.push(["7", "Zo\u{eb} B"]).expect("two cells");
        let mut locals = Locals { rows: vec![0], ..Locals::default() };
        if let Some(value) = value {
            locals.set(0, value);
        }
        let moment = Moment { seed, session: 0, request: 0, counter: 0 };
        let source =
            Source { moment, tables: &[Arc::new(table)], locals: &locals, sent: Sent::default() };
        let mut out = Vec::new();
        self.fill(source, &mut out, &mut Vec::new()).map(|()| out)
    }

    fn plain(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.pieces.push(Piece::Text(range));
        }
    }
}

impl What {
    pub(super) fn write(&self, source: Source<'_>, out: &mut Vec<u8>) -> Result<(), Unsent> {
        let Source { moment, locals, .. } = source;
        match self {
            Self::Quoted(text) => out.extend_from_slice(text.as_bytes()),
            Self::Variable(index) => {
                out.extend_from_slice(locals.get(*index).ok_or(Unsent::NoValue)?);
            }
            Self::Environment(value) => out.extend_from_slice(value.expose().as_bytes()),
            Self::Cell { table, column } => {
                let cell = source.cell(*table, *column).ok_or(Unsent::NoValue)?;
                out.extend_from_slice(cell.as_bytes());
            }
            Self::Session => random::number(moment.session.saturating_add(1), out),
            Self::Request => random::number(moment.request.saturating_add(1), out),
            Self::Counter(counter) => counter.write(moment.counter, out),
            Self::Cycle(cycle) => cycle.write(moment.counter, out),
            Self::Now(now) => now.write(locals.now, out),
            Self::SentPath => out.extend_from_slice(source.sent.path),
            Self::SentBody => out.extend_from_slice(source.sent.body),
            Self::Random(draw, index) => draw.write(moment, *index, out),
        }
        Ok(())
    }
}

impl Counter {
    /// Parse the words after `counter`: none, FROM, or FROM STEP.
    fn parse(words: &[&str]) -> Result<Self, String> {
        let number = |text: &str| {
            let wrong = |_| format!("'{}' is not a whole number", text.escape_debug());
            text.parse::<i64>().map_err(wrong)
        };
        let (from, step) = match words {
            [] => (1, 1),
            [from] => (number(from)?, 1),
            [from, step] => (number(from)?, number(step)?),
            _ => return Err("write 'counter [FROM [STEP]]'".into()),
        };
        if step == 0 {
            return Err("with a step of 0, all requests would have the same number".into());
        }
        Ok(Self { from, step })
    }

    fn write(self, counter: u64, out: &mut Vec<u8>) {
        let up = i128::from(self.step) * i128::from(counter);
        random::whole(i128::from(self.from) + up, out);
    }
}

/// The position of the next `{{` that starts a field, at or after `at`.
pub(super) fn opening(text: &[u8], at: usize) -> Option<usize> {
    let open = at + text[at..].windows(2).position(|pair| pair == b"{{")?;
    let more = text[open + 2..].iter().take_while(|&&b| b == b'{').count();
    Some(open + more)
}

/// The length of the field at the start of a text: up to the first `}}` outside quotes.
pub(super) fn closing(text: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (i, &byte) in text.iter().enumerate() {
        match quote {
            Some(q) if byte == q => quote = None,
            Some(_) => {}
            None if byte == b'"' || byte == b'\'' => quote = Some(byte),
            None if text[i..].starts_with(b"}}") => return Some(i),
            None => {}
        }
    }
    None
}

fn parse_field(field: &str, scope: &Scope, draws: &mut u64) -> Result<Piece, String> {
    let mut parts = split(field, '|').into_iter();
    let value = parts.next().unwrap_or_default().trim();
    if parts.len() > FILTERS {
        return Err(format!("a field has at most {FILTERS} filters"));
    }
    let what = parse_value(value, scope, draws)?;
    let filters = parts.map(|text| filter::parse(text, scope, draws)).collect::<Result<_, _>>()?;
    Ok(Piece::Field(what, filters))
}

pub(super) fn parse_value(value: &str, scope: &Scope, draws: &mut u64) -> Result<What, String> {
    if value.is_empty() {
        return Err(format!("the field is empty; {}", scope.known_names()));
    }
    if let Some(text) = quoted(value) {
        return Ok(What::Quoted(text.to_owned()));
    }
    if let Some(index) = scope.variable(value).filter(|index| scope.knows(*index)) {
        return Ok(What::Variable(index));
    }
    if value == "random" || value.starts_with("random.") {
        let draw = random::parse(&split(value, ' '))?;
        *draws += 1;
        return Ok(What::Random(draw, *draws - 1));
    }
    let words = split(value, ' ');
    match words[..] {
        ["now", ..] => return Ok(What::Now(now::parse(&words)?)),
        ["counter", ref rest @ ..] => return Ok(What::Counter(Counter::parse(rest)?)),
        [first, ..] if first == "cycle" || first.starts_with("cycle.") => {
            return Ok(What::Cycle(cycle::parse(&words)?));
        }
        _ => {}
    }
    if let Some(name) = environment_name(value) {
        let found = scope.environment.iter().find(|(known, _)| known == name);
        return match found {
            Some((_, value)) => Ok(What::Environment(value.clone())),
            None => Err(format!(
                "the environment variable '{}' is not set, or not to UTF-8 text",
                name.escape_debug()
            )),
        };
    }
    if let Some(part) = value.strip_prefix("request.") {
        return match (part, &scope.sent) {
            ("method", Some(method)) => Ok(What::Quoted(method.clone())),
            ("path", Some(_)) => Ok(What::SentPath),
            ("body", Some(_)) => Ok(What::SentBody),
            ("method" | "path" | "body", None) => {
                Err(format!("'{value}' is known only in the values of headers"))
            }
            _ => Err(format!(
                "'{}' is unknown; write request.method, request.path or request.body",
                value.escape_debug()
            )),
        };
    }
    if let Some((name, column)) = value.split_once('.')
        && let Some(table) = scope.tables.iter().position(|(table, _)| table == name)
    {
        let columns = &scope.tables[table].1;
        return match columns.iter().position(|c| c == column) {
            Some(column) => Ok(What::Cell { table, column }),
            None => Err(format!(
                "'{name}' has no column '{}'; its columns are: {}",
                column.escape_debug(),
                columns.join(", ")
            )),
        };
    }
    match value {
        "session" => Ok(What::Session),
        "request" => Ok(What::Request),
        _ => Err(format!("'{}' is unknown; {}", value.escape_debug(), scope.known_names())),
    }
}

/// The name in `env NAME`.
pub(super) fn environment_name(value: &str) -> Option<&str> {
    let name = value.strip_prefix("env")?;
    name.starts_with(char::is_whitespace).then(|| name.trim())
}

impl Scope {
    /// Look the variables up by their names from now on: with many of them, texts with many fields
    /// would take long otherwise. Those that are added later need it again.
    pub fn index(&mut self) {
        self.by_name.clear();
        for (index, name) in self.variables.iter().enumerate() {
            self.by_name.entry(name.clone()).or_insert(index);
        }
    }

    /// The index of a variable.
    pub(crate) fn variable(&self, name: &str) -> Option<usize> {
        match self.by_name.len() {
            0 => self.variables.iter().position(|other| other == name),
            _ => self.by_name.get(name).copied(),
        }
    }

    fn knows(&self, variable: usize) -> bool {
        self.known.is_none_or(|known| variable < known)
    }

    /// The known names, for a message.
    fn known_names(&self) -> String {
        let known = self.known.unwrap_or(self.variables.len());
        let mut names: Vec<String> = self.variables.iter().take(known.min(13)).cloned().collect();
        for (table, columns) in self.tables.iter().take(13) {
            let columns = columns.iter().take(13);
            names.extend(columns.map(|column| format!("{table}.{column}")));
        }
        if names.len() > 12 {
            names.truncate(12);
            names.push("...".to_owned());
        }
        names.extend(["session", "request", "counter [FROM [STEP]]"].map(str::to_owned));
        names.extend(["cycle.int LOW HIGH", "cycle.pick A B ..."].map(str::to_owned));
        names.extend(["random.int LOW HIGH"].map(str::to_owned));
        names.extend(["random.hex DIGITS", "random.text LENGTH"].map(str::to_owned));
        names.extend(["random.uuid", "random.pick A B ...", "now", "env NAME"].map(str::to_owned));
        format!("known names: {}", names.join(", "))
    }
}

/// The text without its quotes, if all of it is one quoted text.
pub(super) fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Split a text at separators outside quotes. Consecutive blanks count as one separator.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (i, c) in text.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == separator || (separator == ' ' && c.is_whitespace()) => {
                parts.push(&text[start..i]);
                start = i + c.len_utf8();
            }
            None => {}
        }
    }
    parts.push(&text[start..]);
    if separator == ' ' {
        parts.retain(|part| !part.is_empty());
    }
    parts
}

#[cfg(test)]
pub(crate) mod tests;
