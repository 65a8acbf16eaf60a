//! Options that are declared once: a row of a table is a key of a plan file and an option of the
//! command line, with its help, its values and its place in the plan. Plan files are read and
//! written, and the command line is built, from these tables.

mod http2;

use std::ops::RangeInclusive;

use prony_core::units::{self, Span};

use crate::values;

/// A part of a plan whose fields are keys.
pub trait Keyed: Clone + Default + PartialEq + Send + Sync + 'static {
    /// The keys, in the order of the help.
    const KEYS: &'static [Key<Self>];
}

/// A key, which is also an option.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// The option. The key of a plan file has no dashes before it.
    pub option: &'static str,
    /// What the help calls its value; empty if it has none.
    pub value: &'static str,
    /// The first sentence of its help.
    pub help: &'static str,
    /// The rest, if there is any.
    pub more: Option<&'static str>,
    /// What it sets.
    pub field: Field<T>,
}

/// What a key sets.
#[derive(Debug)]
pub enum Field<T> {
    /// Set, or not.
    Flag(fn(&mut T) -> &mut bool),
    /// A number of bytes in this range, and a sentence that states it.
    Size(fn(&mut T) -> &mut u32, RangeInclusive<u32>, &'static str),
    /// A time above 0, or none.
    Time(fn(&mut T) -> &mut Option<Span>),
    /// One of two words.
    Choice(fn(&mut T) -> &mut bool, [(&'static str, bool); 2]),
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a flag, or a choice.
    Bool(bool),
    /// Of a size.
    Size(u32),
    /// Of a time.
    Time(Span),
}

impl<T: Keyed> Key<T> {
    /// Its name in a plan file.
    pub fn name(&self) -> &'static str {
        self.option.trim_start_matches('-')
    }

    /// Parses its value; a flag has none.
    ///
    /// # Errors
    /// The value is invalid; the error is one sentence.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        match &self.field {
            Field::Flag(_) => Ok(Value::Bool(true)),
            Field::Size(_, range, why) => {
                let size = units::parse_size(text).map_err(|e| e.to_string())?;
                let size = u32::try_from(size).ok().filter(|size| range.contains(size));
                size.map(Value::Size).ok_or_else(|| (*why).to_owned())
            }
            Field::Time(_) => values::positive_span(text).map(Value::Time),
            Field::Choice(_, words) => {
                let word = words.iter().find(|(word, _)| *word == text);
                word.map(|(_, is)| Value::Bool(*is)).ok_or_else(|| {
                    let [(one, _), (other, _)] = words;
                    format!("'{text}' is unknown; write {one} or {other}")
                })
            }
        }
    }

    /// Sets the field to a value of [`Key::parse`].
    pub fn set(&self, part: &mut T, value: Value) {
        match (&self.field, value) {
            (Field::Flag(field) | Field::Choice(field, _), Value::Bool(is)) => *field(part) = is,
            (Field::Size(field, ..), Value::Size(size)) => *field(part) = size,
            (Field::Time(field), Value::Time(time)) => *field(part) = Some(time),
            (field, value) => unreachable!("{value:?} for {}: {}", self.option, field.kind()),
        }
    }

    /// Its value; `None` if it is the default.
    pub fn get(&self, part: &T) -> Option<Value> {
        let of = |part: &T| {
            let mut part = part.clone();
            match &self.field {
                Field::Flag(field) | Field::Choice(field, _) => {
                    Some(Value::Bool(*field(&mut part)))
                }
                Field::Size(field, ..) => Some(Value::Size(*field(&mut part))),
                Field::Time(field) => field(&mut part).map(Value::Time),
            }
        };
        of(part).filter(|value| Some(*value) != of(&T::default()))
    }
}

impl<T> Field<T> {
    /// What a plan file must have for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Size(..) => "a size in bytes, such as 65536 or \"64k\"",
            Self::Time(_) => "a time",
            Self::Choice(..) => "a word",
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_core::plan::Http2Spec;

    use super::*;

    /// Each key sets a field of its own, and nothing else.
    #[test]
    fn keys_set_and_get_their_fields() {
        let default = Http2Spec::default();
        for key in Http2Spec::KEYS {
            assert_eq!(key.get(&default), None, "{}", key.option);
            let text = match key.field {
                Field::Size(..) => "64k",
                Field::Time(_) => "3s",
                Field::Choice(_, [_, (word, _)]) => word,
                Field::Flag(_) => "",
            };
            let value = key.parse(text).expect("a value");
            let mut part = default;
            key.set(&mut part, value);
            let set: Vec<_> = Http2Spec::KEYS.iter().filter_map(|k| k.get(&part)).collect();
            assert_eq!(set, [value], "{}", key.option);
        }
    }

    #[test]
    fn values_beyond_their_range_are_refused() {
        let key = |option| Http2Spec::KEYS.iter().find(|key| key.option == option).expect("a key");
        let range = Err("a window has 1 to 2147483647 bytes".into());
        assert_eq!(key("--window").parse("0"), range);
        assert_eq!(key("--window").parse("2147483647"), Ok(Value::Size(u32::MAX >> 1)));
        assert_eq!(key("--window").parse("2g"), range);
        let words = Err("'cold' is unknown; write warm or static".into());
        assert_eq!(key("--hpack").parse("cold"), words);
        assert!(key("--keepalive").parse("0s").is_err());
    }
}
