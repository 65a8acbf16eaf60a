//! The values of fields: variables, cells of tables, numbers, random draws, the time.

use std::collections::HashMap;

use super::cycle::{self, Cycle};
use super::now::{self, Now};
use super::quotes::{quoted, split};
use super::random::{self, Draw};
use super::{Source, Unsent};
use prony_base::secret::Secret;

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

/// Predefined names.
pub const BUILT_IN: [&str; 6] = ["session", "request", "counter", "cycle", "random", "now"];

/// A number that no other request of the run has: `from`, and `step` more for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    from: i64,
    step: i64,
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
