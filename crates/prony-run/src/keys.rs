//! Options that are declared once: a row of a table is a key of a plan file and an option of the
//! command line, with its help, its values and its place in the plan. Plan files are read and
//! written, and the command line is built, from these tables.

mod grpc;
mod http2;
mod messages;
mod stream;
mod tls;
mod websocket;

use std::ops::RangeInclusive;

use prony_base::units::{self, Span};
use prony_plan::plan::{Http2Spec, StreamPlan, TlsSpec};

use crate::grpc::GrpcDraft;
use crate::values;
use crate::websocket::WebSocketDraft;

/// A part of a plan whose fields are keys.
pub trait Keyed: Clone + Default + PartialEq + Send + Sync + 'static {
    /// The keys, in the order of the help.
    const KEYS: &'static [Key<Self>];

    /// The part for a plan; `None` if all keys have their defaults.
    fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// A key, which is also an option.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// The option.
    pub option: &'static str,
    /// Another name of the option, which the help shows, too.
    pub alias: Option<&'static str>,
    /// The key of a plan file, if it is not the option without its dashes.
    pub key: Option<&'static str>,
    /// What the help calls its value; empty if it has none.
    pub value: &'static str,
    /// The first sentence of its help.
    pub help: &'static str,
    /// The rest, if there is any.
    pub more: Option<&'static str>,
    /// An option without which it is refused, by its name without dashes.
    pub needs: Option<&'static str>,
    /// An option with which it is refused.
    pub excludes: Option<&'static str>,
    /// The group of options to which it belongs, of which others need one.
    pub group: Option<&'static str>,
    /// The default, if the help has it and all words in lists of their own.
    pub listed: Option<&'static str>,
    /// Whether plan files are written with its default, too.
    pub is_always_written: bool,
    /// What it sets.
    pub field: Field<T>,
}

/// What a key sets.
#[derive(Debug)]
pub enum Field<T: 'static> {
    /// Set, or not.
    Flag(Place<T, bool>),
    /// A number of bytes in this range, and a sentence that states it.
    Size(Place<T, u32>, RangeInclusive<u32>, &'static str),
    /// A time above 0, or none.
    Time(Place<T, Option<Span>>),
    /// A number above 0, or none.
    Count(Place<T, Option<u64>>),
    /// A text, or none.
    Text(Place<T, Option<String>>),
    /// Texts: an option that may be repeated, and an array in a plan file; and what they are.
    Texts(Place<T, Vec<String>>, &'static str),
    /// A word, with what it sets.
    Word(&'static [(&'static str, Set<T>)]),
    /// A list of names.
    Names(Names<T>),
    /// Anything else that has a text.
    Parsed(Parsed<T>),
}

/// A value with a text.
#[derive(Debug)]
pub struct Parsed<T: 'static> {
    /// What it is.
    pub what: &'static str,
    /// Parses and sets it.
    pub set: fn(&mut T, &str) -> Result<(), String>,
    /// Its text, if it is set.
    pub get: fn(&T) -> Option<String>,
}

/// Where a part has a value.
pub type Place<T, V> = fn(&mut T) -> &mut V;

/// What a word does.
pub type Set<T> = fn(&mut T);

/// A list of names, separated by commas. In a plan file, it may be an array.
#[derive(Debug)]
pub struct Names<T: 'static> {
    /// What the names are, in plural.
    pub what: &'static str,
    /// How an empty list is written.
    pub none: &'static str,
    /// Parses them.
    pub parse: fn(&str) -> Result<Vec<String>, String>,
    /// The field.
    pub field: Place<T, Vec<String>>,
}

/// A value of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a flag.
    Set(bool),
    /// Of a size, or a count.
    Number(u64),
    /// A text, a word, or a time.
    Text(String),
    /// A list of names or texts.
    Names(Vec<String>),
}

type Text = &'static str;

impl<T: 'static> Key<T> {
    const fn new(option: Text, value: Text, help: Text, field: Field<T>) -> Self {
        Self {
            option,
            alias: None,
            key: None,
            value,
            help,
            more: None,
            needs: None,
            excludes: None,
            group: None,
            listed: None,
            is_always_written: false,
            field,
        }
    }

    const fn flag(option: Text, help: Text, field: Place<T, bool>) -> Self {
        Self::new(option, "", help, Field::Flag(field))
    }

    const fn time(option: Text, help: Text, field: Place<T, Option<Span>>) -> Self {
        Self::new(option, "T", help, Field::Time(field))
    }

    const fn count(option: Text, help: Text, field: Place<T, Option<u64>>) -> Self {
        Self::new(option, "N", help, Field::Count(field))
    }

    const fn text(option: Text, value: Text, help: Text, field: Place<T, Option<String>>) -> Self {
        Self::new(option, value, help, Field::Text(field))
    }

    const fn texts(
        option: Text,
        value: Text,
        help: Text,
        field: Place<T, Vec<String>>,
        what: Text,
    ) -> Self {
        Self::new(option, value, help, Field::Texts(field, what))
    }

    const fn parsed(option: Text, value: Text, help: Text, parsed: Parsed<T>) -> Self {
        Self::new(option, value, help, Field::Parsed(parsed))
    }

    const fn size(
        option: Text,
        help: Text,
        field: Place<T, u32>,
        range: RangeInclusive<u32>,
        why: Text,
    ) -> Self {
        Self::new(option, "SIZE", help, Field::Size(field, range, why))
    }

    const fn word(
        option: Text,
        value: Text,
        help: Text,
        words: &'static [(&'static str, Set<T>)],
    ) -> Self {
        Self::new(option, value, help, Field::Word(words))
    }

    const fn names(option: Text, help: Text, names: Names<T>) -> Self {
        Self::new(option, "LIST", help, Field::Names(names))
    }

    /// With more help.
    const fn more(mut self, more: &'static str) -> Self {
        self.more = Some(more);
        self
    }

    /// Refused without this option.
    const fn needs(mut self, other: &'static str) -> Self {
        self.needs = Some(other);
        self
    }

    /// Refused with this option.
    const fn excludes(mut self, other: &'static str) -> Self {
        self.excludes = Some(other);
        self
    }

    /// A member of this group.
    const fn group(mut self, group: &'static str) -> Self {
        self.group = Some(group);
        self
    }

    /// A word, whose help lists the words, and this default.
    const fn listed(mut self, default: &'static str) -> Self {
        self.listed = Some(default);
        self
    }

    /// Written with its default, too.
    const fn always_written(mut self) -> Self {
        self.is_always_written = true;
        self
    }

    /// With another name in plan files.
    const fn key(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    /// With another name at the command line.
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    /// The option without its dashes.
    pub fn long(&self) -> &'static str {
        self.option.trim_start_matches('-')
    }

    /// Its name in a plan file.
    pub fn name(&self) -> &'static str {
        self.key.unwrap_or_else(|| self.long())
    }
}

impl<T: Keyed> Key<T> {
    /// Sets the field to the value with this text, or adds it; a flag has none.
    ///
    /// # Errors
    /// The value is invalid; the error is one sentence.
    pub fn set(&self, part: &mut T, text: &str) -> Result<(), String> {
        match &self.field {
            Field::Flag(field) => *field(part) = true,
            Field::Size(field, range, why) => {
                let size = units::parse_size(text).map_err(|e| e.to_string())?;
                let size = u32::try_from(size).ok().filter(|size| range.contains(size));
                *field(part) = size.ok_or_else(|| (*why).to_owned())?;
            }
            Field::Time(field) => *field(part) = Some(values::positive_span(text)?),
            Field::Count(field) => *field(part) = Some(values::positive(text)?),
            Field::Text(field) => *field(part) = Some(text.to_owned()),
            Field::Word(words) => match words.iter().find(|(word, _)| *word == text) {
                Some((_, set)) => set(part),
                None => return Err(format!("'{text}' is unknown; write {}", either(words))),
            },
            Field::Texts(field, _) => field(part).push(text.to_owned()),
            Field::Names(names) => *(names.field)(part) = (names.parse)(text)?,
            Field::Parsed(parsed) => (parsed.set)(part, text)?,
        }
        Ok(())
    }

    /// Its value for a plan file; `None` if it is the default, unless that is always written.
    pub fn get(&self, part: &T) -> Option<Value> {
        let is_default = |value: &Value| self.value_of(&T::default()).as_ref() == Some(value);
        self.value_of(part).filter(|value| self.is_always_written || !is_default(value))
    }

    fn value_of(&self, part: &T) -> Option<Value> {
        let mut copy = part.clone();
        match &self.field {
            Field::Flag(field) => Some(Value::Set(*field(&mut copy))),
            Field::Size(field, ..) => Some(Value::Number((*field(&mut copy)).into())),
            Field::Time(field) => field(&mut copy).map(|time| Value::Text(time.to_string())),
            Field::Count(field) => field(&mut copy).map(Value::Number),
            Field::Text(field) => field(&mut copy).clone().map(Value::Text),
            Field::Word(words) => {
                // The word that changes nothing.
                let is_set = |(_, set): &&(&str, Set<T>)| {
                    set(&mut copy);
                    copy == *part
                };
                words.iter().find(is_set).map(|(word, _)| Value::Text((*word).to_owned()))
            }
            Field::Texts(field, _) => Some(Value::Names(field(&mut copy).clone())),
            Field::Names(names) => Some(Value::Names((names.field)(&mut copy).clone())),
            Field::Parsed(parsed) => (parsed.get)(part).map(Value::Text),
        }
    }
}

impl<T> Field<T> {
    /// What a plan file must have for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::Size(..) => "a size in bytes, such as 65536 or \"64k\"",
            Self::Time(_) => "a time",
            Self::Count(_) => "a number",
            Self::Text(_) => "a text",
            Self::Word(_) => "a word",
            Self::Texts(_, what) => what,
            Self::Names(names) => names.what,
            Self::Parsed(parsed) => parsed.what,
        }
    }
}

/// The words of an option that has some, for suggestions.
pub fn words_of(option: &str) -> Option<Vec<&'static str>> {
    fn of<T: Keyed>(option: &str) -> Option<Vec<&'static str>> {
        match T::KEYS.iter().find(|key| key.option == option)?.field {
            Field::Word(words) => Some(words.iter().map(|(word, _)| *word).collect()),
            _ => None,
        }
    }
    let of_http2 = of::<Http2Spec>(option).or_else(|| of::<TlsSpec>(option));
    let of_streams = of_http2.or_else(|| of::<StreamPlan>(option));
    of_streams.or_else(|| of::<GrpcDraft>(option)).or_else(|| of::<WebSocketDraft>(option))
}

/// `a, b or c`.
fn either<V>(words: &[(&str, V)]) -> String {
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    match &names[..] {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::MessagesDraft;

    /// Each key sets a field of its own, and nothing else; what it writes sets the same.
    fn check<T: Keyed + std::fmt::Debug>(other: impl Fn(&Key<T>) -> &'static str) {
        let default = T::default();
        for key in T::KEYS {
            assert_eq!(key.get(&default).is_some(), key.is_always_written, "{}", key.option);
            let mut part = default.clone();
            key.set(&mut part, other(key)).expect("a value");
            let is_set = |other: &&Key<T>| other.get(&part) != other.get(&default);
            let set = T::KEYS.iter().filter(is_set);
            let set: Vec<_> = set.filter_map(|k| Some((k.option, k.get(&part)?))).collect();
            let [(option, value)] = &set[..] else { panic!("{}: {set:?}", key.option) };
            assert_eq!(*option, key.option);
            let text = match value {
                Value::Set(is) => is.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Text(text) => text.clone(),
                Value::Names(names) => names.join(","),
            };
            let mut again = default.clone();
            key.set(&mut again, &text).expect("a value");
            assert_eq!(again, part, "{}", key.option);
        }
    }

    #[test]
    fn keys_set_and_get_their_fields() {
        check::<Http2Spec>(|key| match key.field {
            Field::Size(..) => "64k",
            Field::Word(words) => words[1].0,
            _ => "3s",
        });
        check::<TlsSpec>(|key| match key.option {
            "--tls" => "1.3",
            "--ciphers" => "TLS_AES_128_GCM_SHA256",
            "--groups" => "P-256,x25519",
            "--alpn" => "h2,http/1.1",
            _ => "session",
        });
        check::<GrpcDraft>(
            |key| if let Field::Word(words) = key.field { words[1].0 } else { "3s" },
        );
        check::<MessagesDraft>(|key| match key.option {
            "--messages" | "--messages-count" => "5",
            "--messages-arrivals" => "poisson",
            _ => "3s",
        });
        check::<WebSocketDraft>(|key| match key.option {
            "--messages-over" => "all",
            "--publishers" => "5",
            _ => "3s",
        });
        check::<StreamPlan>(|key| match key.option {
            "--stream" => "whole",
            "--stream-time" => "3s",
            _ => "5",
        });
    }

    #[test]
    fn values_beyond_their_range_are_refused() {
        let set = |option, text| {
            let mut spec = Http2Spec::default();
            let key = Http2Spec::KEYS.iter().find(|key| key.option == option).expect("a key");
            key.set(&mut spec, text).map(|()| spec)
        };
        let range = Err("a window has 1 to 2147483647 bytes".into());
        assert_eq!(set("--window", "0"), range);
        assert_eq!(set("--window", "2147483647").map(|spec| spec.window), Ok(u32::MAX >> 1));
        assert_eq!(set("--window", "2g"), range);
        let words = Err("'cold' is unknown; write warm or static".into());
        assert_eq!(set("--hpack", "cold"), words);
        assert!(set("--keepalive", "0s").is_err());
    }

    #[test]
    fn words_are_listed_and_suggested() {
        let why = TlsSpec::KEYS.iter().find(|key| key.option == "--tls-resume").expect("a key");
        let why = why.set(&mut TlsSpec::default(), "yes").expect_err("no word");
        assert_eq!(why, "'yes' is unknown; write on, off or session");
        assert_eq!(words_of("--hpack"), Some(vec!["warm", "static"]));
        assert_eq!(words_of("--tls-resume"), Some(vec!["on", "off", "session"]));
        assert_eq!(words_of("--window"), None);
    }
}
