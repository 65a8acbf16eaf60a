//! Tables of a plan file, key by key, with the place of everything that is wrong.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys whose values messages do not repeat.
const SECRETS: [&str; 6] = ["url", "headers", "body", "raw", "request", "rows"];

/// The most problems of one file that are told.
const TOLD_MAX: usize = 50;

/// Everything that is wrong with a file.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    name: &'a str,
    text: &'a str,
    found: Vec<(usize, String)>,
    /// Of other files, which this one names; with their place.
    foreign: Vec<String>,
}

impl<'a> Problems<'a> {
    /// None yet. `name` is the file's, as it is shown.
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, found: Vec::new(), foreign: Vec::new() }
    }

    /// Something is wrong at that byte.
    pub(super) fn add(&mut self, at: usize, sentence: impl Into<String>) {
        self.found.push((at, sentence.into()));
    }

    /// Something is wrong in another file; the sentence has its place.
    pub(super) fn add_foreign(&mut self, sentence: String) {
        self.foreign.push(sentence);
    }

    /// The text of the file.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.foreign.is_empty()
    }

    /// `FILE:LINE:COLUMN: sentence` for each, in the order of the file.
    pub(super) fn into_sentences(mut self) -> Vec<String> {
        self.found.sort_by_key(|(at, _)| *at);
        let all = self.found.len() + self.foreign.len();
        let own = self.found.iter().map(|(at, what)| {
            let (line, column) = place(self.text, *at);
            one_line(&format!("{}:{line}:{column}: {what}", self.name))
        });
        let mut told: Vec<_> = own.chain(self.foreign).take(TOLD_MAX).collect();
        if all > TOLD_MAX {
            told.push(format!("{}: {} more", self.name, all - TOLD_MAX));
        }
        told
    }
}

/// The line and the column (in characters) of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let at = (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Without anything that could end the line or paint a terminal.
fn one_line(sentence: &str) -> String {
    let visible = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.into() };
    sentence.chars().map(visible).collect()
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// The key to which it belongs, for sentences.
    pub(super) key: &'a str,
    /// The byte where it begins.
    pub(super) at: usize,
    /// The value itself.
    pub(super) value: &'a DeValue<'a>,
}

impl<'a> Item<'a> {
    pub(super) fn new(key: &'a str, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self { key, at: value.span().start, value: value.get_ref() }
    }

    /// Its text, where it is a string or a number as it stands in the file.
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

    /// What `parse` makes of its text. `expected` ends the sentence where it has none.
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

    /// The word of the table that it is.
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

    /// Its text, or the texts of an array.
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

    /// What has been made of a text of it, or `None` and why.
    pub(super) fn taken<T>(
        &self,
        problems: &mut Problems<'_>,
        text: &str,
        made: Result<T, String>,
    ) -> Option<T> {
        made.map_err(|why| self.refuse(problems, text, &why)).ok()
    }

    /// Its parts, where it is an array.
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

    /// Say that it is of another type than what is expected.
    pub(super) fn wrong_type(&self, problems: &mut Problems<'_>, expected: &str) {
        let found = match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        problems.add(self.at, format!("`{}` is {found}, expected {expected}", self.key));
    }

    /// Say why its text cannot be taken.
    fn refuse(&self, problems: &mut Problems<'_>, text: &str, why: &str) {
        // Most sentences name the value themselves.
        let named = why.contains(&format!("'{text}'")) || SECRETS.contains(&self.key);
        let value = if named { String::new() } else { format!(" '{text}'") };
        problems.add(self.at, format!("`{}`{value}: {why}", self.key));
    }
}

/// A table that is read key by key.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// What it tells of, for sentences: `a request`.
    what: &'static str,
    /// Where it begins.
    pub(super) at: usize,
    table: &'a DeTable<'a>,
    asked: Vec<&'static str>,
    taken: usize,
}

impl<'a> Section<'a> {
    pub(super) fn new(what: &'static str, at: usize, table: &'a DeTable<'a>) -> Self {
        Self { what, at, table, asked: Vec::with_capacity(16), taken: 0 }
    }

    /// The value of the key, if it is there.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Item<'a>> {
        self.asked.push(key);
        let item = Item::new(key, self.table.get(key)?);
        self.taken += 1;
        Some(item)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Say which keys nobody has asked for.
    pub(super) fn finish(self, problems: &mut Problems<'_>) {
        if self.taken == self.table.len() {
            return;
        }
        for (key, _) in self.table {
            if !self.asked.contains(&key.get_ref().as_ref()) {
                let what = self.unknown(key.get_ref());
                problems.add(key.span().start, what);
            }
        }
    }

    fn unknown(&self, key: &str) -> String {
        let likeness = |known: &&&'static str| (strsim::jaro_winkler(known, key) * 1e6) as u64;
        let nearest = self.asked.iter().max_by_key(likeness);
        match nearest.filter(|known| strsim::jaro_winkler(known, key) > 0.8) {
            Some(known) => format!("{} has no key `{key}`; did you mean `{known}`?", self.what),
            None => {
                let mut known = self.asked.clone();
                known.sort_unstable();
                known.dedup();
                format!("{} has no key `{key}`; it may have {}", self.what, known.join(", "))
            }
        }
    }
}
