//! Reads the tables of a plan file key by key, and collects errors with their positions.

use std::borrow::Cow;

use prony_base::plain;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys with values that error messages must not repeat.
const SECRETS: [&str; 6] = ["url", "headers", "body", "raw", "request", "rows"];

/// Names of other tools for our keys.
const SYNONYMS: [(&str, &str); 7] = [
    ("iterations", "requests"),
    ("steps", "request"),
    ("tables", "data"),
    ("target", "url"),
    ("targets", "url"),
    ("verify", "insecure"),
    ("vus", "users"),
];

/// The maximum number of errors to report for one file.
const PROBLEMS_MAX: usize = 50;

/// The errors in a file.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    name: &'a str,
    text: &'a str,
    found: Vec<(usize, String)>,
    /// Errors in other files that this one names, with their positions.
    foreign: Vec<String>,
}

impl<'a> Problems<'a> {
    /// No errors so far. `name` is the name of the file for messages.
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, found: Vec::new(), foreign: Vec::new() }
    }

    /// Adds an error at this byte.
    pub(super) fn add(&mut self, at: usize, sentence: impl Into<String>) {
        self.found.push((at, sentence.into()));
    }

    /// Adds an error in another file; the sentence contains its position.
    pub(super) fn add_foreign(&mut self, sentence: String) {
        self.foreign.push(sentence);
    }

    /// Adds the errors of the parts of this file, each with its name and its position: an error
    /// that all parts have once, and one about a whole part at the position of that part.
    pub(super) fn add_parts(&mut self, parts: &[(&str, usize, Self)]) {
        for (name, at, part) in parts {
            for error in &part.found {
                let is_of_all = parts.iter().all(|(.., other)| other.found.contains(error));
                let error = match error {
                    (0, what) if !is_of_all => (*at, format!("phase '{name}': {what}")),
                    error => error.clone(),
                };
                if !self.found.contains(&error) {
                    self.found.push(error);
                }
            }
            for sentence in &part.foreign {
                if !self.foreign.contains(sentence) {
                    self.foreign.push(sentence.clone());
                }
            }
        }
    }

    /// The text of the file.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.foreign.is_empty()
    }

    /// Each error as `FILE:LINE:COLUMN: sentence`, in the order of the file.
    pub(super) fn into_sentences(mut self) -> Vec<String> {
        self.found.sort_by_key(|(at, _)| *at);
        let all = self.found.len() + self.foreign.len();
        let own = self.found.iter().map(|(at, what)| {
            let (line, column) = place(self.text, *at);
            plain::line(&format!("{}:{line}:{column}: {what}", self.name)).into_owned()
        });
        let mut shown: Vec<_> = own.chain(self.foreign).take(PROBLEMS_MAX).collect();
        if all > PROBLEMS_MAX {
            shown.push(format!("{}: {} more", self.name, all - PROBLEMS_MAX));
        }
        shown
    }
}

/// The line and the column (in characters) of a byte, both counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A value and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// Its key, for error messages.
    pub(super) key: &'a str,
    /// The position of its first byte.
    pub(super) at: usize,
    /// The value itself.
    pub(super) value: &'a DeValue<'a>,
}

impl<'a> Item<'a> {
    pub(super) fn new(key: &'a str, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { key, at: value.span().start, value: value.get_ref() }
    }

    /// Its text, if it is a string or a number (as written in the file).
    pub(super) fn scalar(&self) -> Option<Cow<'a, str>> {
        match self.value {
            DeValue::String(text) => Some(Cow::Borrowed(text)),
            DeValue::Integer(n) if n.radix() == 10 => Some(Cow::Borrowed(n.as_str())),
            DeValue::Integer(n) => {
                let number = u64::from_str_radix(n.as_str(), n.radix()).ok()?;
                Some(Cow::Owned(number.to_string()))
            }
            DeValue::Float(number) => Some(Cow::Borrowed(number.as_str())),
            _ => None,
        }
    }

    /// Parses its text with `parse`. `expected` describes the value for error messages.
    pub(super) fn parse<T>(
        &self,
        problems: &mut Problems<'_>,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = self.scalar() else {
            self.wrong_type(problems, expected);
            return None;
        };
        parse(&text).map_err(|why| self.refuse(problems, &text, &why)).ok()
    }

    /// Looks its text up in a table of words.
    pub(super) fn word<T: Copy>(
        &self,
        problems: &mut Problems<'_>,
        words: &[(&str, T)],
    ) -> Option<T> {
        let names: Vec<_> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let expected = names.join(" or ");
        let find = |text: &str| {
            let found = words.iter().find(|(name, _)| *name == text);
            found
                .map(|(_, word)| *word)
                .ok_or_else(|| format!("'{text}' is unknown; write {expected}"))
        };
        self.parse(problems, &expected, find)
    }

    pub(super) fn string(&self, problems: &mut Problems<'_>, expected: &str) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => {
                self.wrong_type(problems, expected);
                None
            }
        }
    }

    pub(super) fn boolean(&self, problems: &mut Problems<'_>) -> Option<bool> {
        if let DeValue::Boolean(value) = self.value {
            return Some(*value);
        }
        self.wrong_type(problems, "true or false");
        None
    }

    /// Its text, or the texts of its elements.
    pub(super) fn texts(
        &self,
        problems: &mut Problems<'_>,
        expected: &str,
    ) -> Option<Vec<&'a str>> {
        match self.value {
            DeValue::String(text) => Some(vec![text]),
            _ => self.list(problems, expected)?.map(|i| i.string(problems, expected)).collect(),
        }
    }

    /// Returns a parsed value; adds an error if it is invalid.
    pub(super) fn taken<T>(
        &self,
        problems: &mut Problems<'_>,
        text: &str,
        made: Result<T, String>,
    ) -> Option<T> {
        made.map_err(|why| self.refuse(problems, text, &why)).ok()
    }

    /// Its elements, if it is an array.
    pub(super) fn list(
        &self,
        problems: &mut Problems<'_>,
        expected: &str,
    ) -> Option<impl Iterator<Item = Self> + use<'a>> {
        let DeValue::Array(values) = self.value else {
            self.wrong_type(problems, expected);
            return None;
        };
        let key = self.key;
        Some(values.iter().map(move |value| Item::new(key, value)))
    }

    /// Adds an error: the value has the wrong type.
    pub(super) fn wrong_type(&self, problems: &mut Problems<'_>, expected: &str) {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        problems.add(self.at, format!("`{}` is {found}, expected {expected}", self.key));
    }

    /// Adds an error: the text is invalid.
    fn refuse(&self, problems: &mut Problems<'_>, text: &str, why: &str) {
        // Most messages contain the value.
        let named = why.contains(&format!("'{text}'")) || SECRETS.contains(&self.key);
        let value = if named { String::new() } else { format!(" '{text}'") };
        problems.add(self.at, format!("`{}`{value}: {why}", self.key));
    }
}

/// A table, which is read key by key.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// What it describes, for error messages: `a request`.
    what: &'static str,
    /// Its position.
    pub(super) at: usize,
    table: &'a DeTable<'a>,
    known_keys: Vec<&'static str>,
    taken: usize,
}

impl<'a> Section<'a> {
    pub(super) fn new(what: &'static str, at: usize, table: &'a DeTable<'a>) -> Self {
        Self { what, at, table, known_keys: Vec::with_capacity(16), taken: 0 }
    }

    /// The value of the key, if it exists.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Item<'a>> {
        self.known_keys.push(key);
        let item = Item::new(key, self.table.get(key)?);
        self.taken += 1;
        Some(item)
    }

    /// The table with this key, if it exists. `what` is its name in errors: `[tls]`.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        what: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let item = self.take(key)?;
        let DeValue::Table(table) = item.value else {
            item.wrong_type(problems, &format!("a table: {what}"));
            return None;
        };
        Some(Self::new(what, item.at, table))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether the key is known, because its value was asked for.
    pub(super) fn asked(&self, key: &str) -> bool {
        self.known_keys.contains(&key)
    }

    pub(super) fn into_known_keys(self) -> Vec<&'static str> {
        self.known_keys
    }

    /// Adds an error for each unknown key.
    pub(super) fn finish(self, problems: &mut Problems<'_>) {
        if self.taken == self.table.len() {
            return;
        }
        for (key, _) in self.table {
            if !self.known_keys.contains(&key.get_ref().as_ref()) {
                let what = self.unknown(key.get_ref());
                problems.add(key.span().start, what);
            }
        }
    }

    fn unknown(&self, key: &str) -> String {
        let likeness = |known: &&&'static str| (strsim::jaro_winkler(known, key) * 1e6) as u64;
        let nearest = self.known_keys.iter().max_by_key(likeness);
        let nearest = nearest.filter(|known| strsim::jaro_winkler(known, key) > 0.8);
        let meant = SYNONYMS.iter().find(|(other, _)| *other == key).map(|(_, ours)| ours);
        match meant.filter(|ours| self.known_keys.contains(ours)).or(nearest) {
            Some(known) => format!("{} has no key `{key}`; did you mean `{known}`?", self.what),
            None => {
                let mut known = self.known_keys.clone();
                known.sort_unstable();
                known.dedup();
                format!("{} has no key `{key}`; it may have {}", self.what, known.join(", "))
            }
        }
    }
}
