//! Text with fields: `/users/{{users.id}}?token={{token | url}}`.
//!
//! A field is enclosed in `{{` and `}}`. Of more than two braces in a row, the inner ones enclose
//! the field, so that JSON needs no escapes. Quoted text in a field stands for itself, so
//! `{{"{{"}}` is two braces.

use std::ops::Range;

use super::filter::{self, Filter};
use super::quotes::split;
use super::value::{Scope, What, parse_value};
use super::{Locals, Moment, Sent, Source, Unsent};
use prony_base::secret::Secret;

/// The most bytes of a text with its fields filled in, as of a file with a body. A longer one is
/// not sent.
pub const FILLED_MAX: usize = 64 << 20;

/// The most fields of a text.
const FIELDS: usize = 100_000;

/// The most filters of a field: each can make a value longer.
const FILTERS: usize = 32;

/// A parsed text with fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The position of the error in the template, in bytes.
    pub at: usize,
    /// The reason, as the end of a sentence.
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// A part of the text.
    Text(Range<usize>),
    Field(What, Vec<Filter>),
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
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn sample(&self, seed: u64, value: Option<&[u8]>) -> Result<Vec<u8>, Unsent> {
        let columns = vec!["id".to_owned(), "first name".to_owned()];
        let mut table =
            super::Table::new("users", super::PickRow::InTurn, columns).expect("columns");
        table.push(["7", "Zo\u{eb} B"]).expect("two cells");
        let mut locals = Locals { rows: vec![0], ..Locals::default() };
        if let Some(value) = value {
            locals.set(0, value);
        }
        let moment = Moment { seed, session: 0, request: 0, counter: 0 };
        let source = Source {
            moment,
            tables: &[std::sync::Arc::new(table)],
            locals: &locals,
            sent: Sent::default(),
        };
        let mut out = Vec::new();
        self.fill(source, &mut out, &mut Vec::new()).map(|()| out)
    }

    fn plain(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.pieces.push(Piece::Text(range));
        }
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

#[cfg(test)]
pub(crate) mod tests;
