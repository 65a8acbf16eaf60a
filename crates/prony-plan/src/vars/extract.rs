//! Values extracted from replies, for later requests of the session.

use memchr::memmem;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum length in bytes of a body that is searched.
pub const BODY_LIMIT: usize = 1 << 20;

/// A value of the reply that becomes a variable of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    /// The variable's name.
    pub variable: String,
    /// The place of the value in the reply.
    pub place: Place,
    /// The value to use if the reply has none; without a default, the request fails then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// The place of a value in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The first header with this name, or the first one that the expression matches.
    Header {
        /// Its name, in any case.
        name: String,
        /// The part of the value to extract: the first group, or the whole match without groups.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        regex: Option<String>,
    },
    /// The first match of an expression in the body: its first group, or the whole match without
    /// groups.
    Regex(String),
    /// A JSON pointer (RFC 6901) into the body. Strings are extracted without quotes; `null` counts
    /// as missing.
    Json(String),
    /// The text in the body between the first occurrence of one text and the next of another.
    Between(String, String),
}

/// Why an extract is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractError {
    /// An invalid expression: the reason, on one line.
    Regex(String),
    /// An invalid JSON pointer: not empty, and without a leading `/`.
    Pointer(String),
    /// A malformed header name.
    Header(String),
    /// One of the two texts is empty.
    Delimiter,
}

impl std::fmt::Display for ExtractError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Regex(why) => write!(f, "invalid regular expression: {why}"),
            Self::Pointer(text) => write!(
                f,
                "'{}' is not a JSON pointer: write '/' before each key or index, as in '/items/0/id'",
                text.escape_debug()
            ),
            Self::Header(why) => write!(f, "{why}"),
            Self::Delimiter => write!(f, "the texts around the value must not be empty"),
        }
    }
}

/// A compiled extract.
#[derive(Clone, Debug)]
pub(crate) struct Extractor {
    /// The variable, by its index.
    pub(crate) variable: usize,
    pub(crate) default: Option<String>,
    search: Search,
}

#[derive(Clone, Debug)]
enum Search {
    Header { name: String, regex: Option<Regex> },
    Regex(Regex),
    Json(String),
    Between(Vec<u8>, Vec<u8>),
}

/// A body that is searched for several values; parsed as JSON at most once.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    pub(crate) bytes: &'a [u8],
    json: Option<Option<Value>>,
}

impl Extract {
    pub(crate) fn compile(&self, variable: usize) -> Result<Extractor, ExtractError> {
        let search = match &self.place {
            Place::Header { name, regex } => {
                crate::target::check_header(name, "").map_err(ExtractError::Header)?;
                let regex = regex.as_deref().map(expression).transpose()?;
                Search::Header { name: name.clone(), regex }
            }
            Place::Regex(text) => Search::Regex(expression(text)?),
            Place::Json(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                Search::Json(pointer.clone())
            }
            Place::Json(pointer) => return Err(ExtractError::Pointer(pointer.clone())),
            Place::Between(left, right) if left.is_empty() || right.is_empty() => {
                return Err(ExtractError::Delimiter);
            }
            Place::Between(left, right) => {
                Search::Between(left.clone().into_bytes(), right.clone().into_bytes())
            }
        };
        Ok(Extractor { variable, default: self.default.clone(), search })
    }
}

impl Extractor {
    /// Whether it searches the headers, not the body.
    pub(crate) fn wants_headers(&self) -> bool {
        matches!(self.search, Search::Header { .. })
    }

    /// The value that it extracts from a header.
    pub(crate) fn in_header<'a>(&self, name: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
        let Search::Header { name: wanted, regex } = &self.search else { return None };
        if !name.eq_ignore_ascii_case(wanted.as_bytes()) {
            return None;
        }
        match regex {
            Some(regex) => first_group(regex, value),
            None => Some(value),
        }
    }

    /// Append the value found in a body to `out`. Return whether there is one.
    pub(crate) fn in_body(&self, body: &mut Body<'_>, out: &mut Vec<u8>) -> bool {
        let found = match &self.search {
            Search::Header { .. } => None,
            Search::Regex(regex) => first_group(regex, body.bytes),
            Search::Between(left, right) => between(body.bytes, left, right),
            Search::Json(pointer) => return body.json(pointer, out),
        };
        out.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    }
}

impl<'a> Body<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, json: None }
    }

    /// The value at a JSON pointer.
    pub(crate) fn value(&mut self, pointer: &str) -> Option<&Value> {
        let json = self.json.get_or_insert_with(|| serde_json::from_slice(self.bytes).ok());
        json.as_ref().and_then(|json| json.pointer(pointer))
    }

    fn json(&mut self, pointer: &str, out: &mut Vec<u8>) -> bool {
        match self.value(pointer) {
            None | Some(Value::Null) => return false,
            Some(Value::String(text)) => out.extend_from_slice(text.as_bytes()),
            Some(other) => out.extend_from_slice(other.to_string().as_bytes()),
        }
        true
    }
}

/// Check that this is a regular expression.
///
/// # Errors
/// The reason why not.
pub(crate) fn check_expression(text: &str) -> Result<(), String> {
    expression(text).map(drop).map_err(|error| error.to_string())
}

/// A compiled expression for bytes that need not be UTF-8.
pub(crate) fn expression(text: &str) -> Result<Regex, ExtractError> {
    // A body need not be UTF-8.
    let config = Regex::config().utf8_empty(false);
    let syntax = syntax::Config::new().utf8(false);
    Regex::builder().configure(config).syntax(syntax).build(text).map_err(|error| {
        ExtractError::Regex(match error.size_limit() {
            Some(limit) => format!("it is too large; a compiled one has at most {limit} bytes"),
            None => reason(&error),
        })
    })
}

/// The reason why an expression cannot be compiled, on one line.
fn reason(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => reason(cause),
        None => {
            // A syntax error has several lines, which show the expression; the last one has the
            // reason.
            let text = error.to_string();
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
            last.trim().trim_start_matches("error: ").to_owned()
        }
    }
}

fn first_group<'a>(regex: &Regex, text: &'a [u8]) -> Option<&'a [u8]> {
    let mut groups = regex.create_captures();
    regex.captures(text, &mut groups);
    let wanted = usize::from(regex.captures_len() > 1);
    groups.get_group(wanted).map(|place| &text[place])
}

fn between<'a>(text: &'a [u8], left: &[u8], right: &[u8]) -> Option<&'a [u8]> {
    let begin = memmem::find(text, left)? + left.len();
    let length = memmem::find(&text[begin..], right)?;
    Some(&text[begin..begin + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(place: Place, body: &[u8]) -> Option<String> {
        let extract = Extract { variable: "v".into(), place, default: None };
        let mut out = Vec::new();
        let extractor = extract.compile(0).expect("an extract");
        assert!(!extractor.wants_headers());
        let found = extractor.in_body(&mut Body::new(body), &mut out);
        found.then(|| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn values_are_found_in_bodies() {
        let json = br#"{"id":17,"a":[{"b":"x\"y"},null],"on":true,"o":{"k":[1,2.50]},"":"e"}"#;
        for (pointer, value) in [
            ("/id", Some("17")),
            ("/a/0/b", Some("x\"y")),
            ("/a/1", None),
            ("/on", Some("true")),
            ("/o", Some(r#"{"k":[1,2.5]}"#)),
            ("/", Some("e")),
            ("/none", None),
            ("/a/7", None),
        ] {
            let got = found(Place::Json(pointer.into()), json);
            assert_eq!(got.as_deref(), value, "{pointer}");
        }
        assert_eq!(found(Place::Json(String::new()), b"[1, 2]").as_deref(), Some("[1,2]"));
        assert_eq!(found(Place::Json("/a".into()), b"<html>"), None);
        let page = b"<input name=csrf value='a1'>\xff<input name=csrf value='b2'>";
        for (regex, value) in [
            ("name=csrf value='([^']*)'", Some("a1")),
            ("value='b\\d'", Some("value='b2'")),
            ("(?i)NAME=(?:csrf) VALUE='(b.)'", Some("b2")),
            ("nothing", None),
            ("(x)?<input", None),
            ("\\bcsrf\\b.*?\\b(\\w\\d)\\b", Some("a1")),
            ("put\\b", Some("put")),
            ("\\bput", None),
        ] {
            assert_eq!(found(Place::Regex(regex.into()), page).as_deref(), value, "{regex}");
        }
        for (left, right, value) in [
            ("value='", "'", Some("a1")),
            ("b2'", ">", Some("")),
            ("b2'", "<", None),
            ("missing", "'", None),
        ] {
            let got = found(Place::Between(left.into(), right.into()), page);
            assert_eq!(got.as_deref(), value, "{left}..{right}");
        }
    }

    /// Words have letters of any alphabet. Bytes that are not UTF-8 are in no word.
    #[test]
    fn expressions_know_unicode() {
        let page = "<b>Zo\u{eb} \u{c9}T\u{c9}</b>".as_bytes();
        for (regex, value) in [
            ("\\bZo\\w\\b", Some("Zo\u{eb}")),
            ("\\bZo\\b", None),
            ("(?i)\\b\u{e9}t\u{e9}\\b", Some("\u{c9}T\u{c9}")),
            ("(?i-u:zo\\b)", Some("Zo")),
        ] {
            assert_eq!(found(Place::Regex(regex.into()), page).as_deref(), value, "{regex}");
        }
        let latin1 = b"bar\xe9 \xffx";
        for (regex, value) in [("\\bbar\\b", Some("bar")), ("\\bx\\b", Some("x"))] {
            assert_eq!(found(Place::Regex(regex.into()), latin1).as_deref(), value, "{regex}");
        }
    }

    #[test]
    fn values_are_found_in_headers() {
        let extractor = |regex: Option<&str>| {
            let place =
                Place::Header { name: "Set-Cookie".into(), regex: regex.map(str::to_owned) };
            let extract = Extract { variable: "v".into(), place, default: None };
            extract.compile(0).expect("an extract")
        };
        let whole = extractor(None);
        assert!(whole.wants_headers());
        assert_eq!(whole.in_header(b"set-cookie", b"a=b; Path=/"), Some(&b"a=b; Path=/"[..]));
        assert_eq!(whole.in_header(b"cookie", b"a=b"), None);
        let part = extractor(Some("sid=([^;]+)"));
        assert_eq!(part.in_header(b"SET-COOKIE", b"sid=42; Secure"), Some(&b"42"[..]));
        assert_eq!(part.in_header(b"Set-Cookie", b"other=1"), None);
    }

    #[test]
    fn rejects_invalid_extracts_with_one_line() {
        for (place, what) in [
            (Place::Regex("a(b".into()), "invalid regular expression: unclosed group"),
            (
                Place::Regex("(\\w{100}){1000}".into()),
                "invalid regular expression: it is too large; a compiled one has at most 10485760 \
                 bytes",
            ),
            (
                Place::Json("a/b".into()),
                "'a/b' is not a JSON pointer: write '/' before each key or index, as in '/items/0/id'",
            ),
            (
                Place::Between("a".into(), String::new()),
                "the texts around the value must not be empty",
            ),
            (
                Place::Header { name: "a b".into(), regex: None },
                "the header name contains ' ' after 'a'; names have letters, digits and \
                 !#$%&'*+-.^_`|~",
            ),
        ] {
            let extract = Extract { variable: "v".into(), place, default: None };
            let error = extract.compile(0).expect_err("no extract").to_string();
            assert_eq!(error, what);
        }
    }
}
