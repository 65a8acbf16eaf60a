//! The message that a session waits for.

use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::{Body, Extract, Extractor, Place};

/// What a message must have to be the one that a session waits for. If its call is a template, its
/// [`text`](Self::text) is one, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// What it must contain.
    pub content: Content,
    /// The text that the value found in it must equal. `None`: any value will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
}

/// What a message contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// This text. The empty text is in every message.
    Text(String),
    /// A value other than `null` at this JSON pointer.
    Json(String),
    /// A match of this expression. Its value is the first group, or the whole match without groups.
    Regex(String),
}

/// Finds the message.
#[derive(Clone, Debug)]
pub struct Matcher {
    search: Search,
    equals: Option<Vec<u8>>,
    /// Scratch: the value.
    value: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Search {
    Text(Vec<u8>),
    Value(Extractor),
}

impl Awaited {
    /// The text that it is compared with, if there is one: the text that it contains, or the one
    /// that its value equals.
    pub fn text(&self) -> Option<&String> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Json(_) | Content::Regex(_) => self.equals.as_ref(),
        }
    }

    /// Compile it.
    ///
    /// # Errors
    /// One sentence about the defect.
    pub fn compile(&self) -> Result<Matcher, String> {
        let place = match &self.content {
            Content::Text(_) if self.equals.is_some() => {
                return Err("`equals` compares the value of `json` or `regex`, not a `text`".into());
            }
            Content::Text(text) => {
                let search = Search::Text(text.clone().into_bytes());
                return Ok(Matcher { search, equals: None, value: Vec::new() });
            }
            Content::Json(pointer) => Place::Json(pointer.clone()),
            Content::Regex(text) => Place::Regex(text.clone()),
        };
        let extract = Extract { variable: String::new(), place, default: None };
        let search = Search::Value(extract.compile(0).map_err(|error| error.to_string())?);
        let equals = self.equals.clone().map(String::into_bytes);
        Ok(Matcher { search, equals, value: Vec::new() })
    }
}

impl Matcher {
    /// Whether this is the message. `filled` replaces [`Awaited::text`].
    pub fn matches(&mut self, message: &[u8], filled: Option<&[u8]>) -> bool {
        let extractor = match &self.search {
            Search::Text(text) => {
                return memmem::find(message, filled.unwrap_or(text)).is_some();
            }
            Search::Value(extractor) => extractor,
        };
        self.value.clear();
        let has_value = extractor.in_body(&mut Body::new(message), &mut self.value);
        let wanted = filled.or(self.equals.as_deref());
        has_value && wanted.is_none_or(|wanted| wanted == self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(content: Content, equals: Option<&str>, message: &str) -> bool {
        let awaited = Awaited { content, equals: equals.map(str::to_owned) };
        awaited.compile().expect("valid").matches(message.as_bytes(), None)
    }

    #[test]
    fn finds_messages_by_text_value_and_expression() {
        let text = |text: &str| Content::Text(text.into());
        assert!(matches(text("bye"), None, "good bye!"));
        assert!(!matches(text("bye"), None, "by e"));
        assert!(matches(text(""), None, ""), "any message");
        let json = |pointer: &str| Content::Json(pointer.into());
        assert!(matches(json("/a/0"), None, r#"{"a":[0]}"#));
        assert!(!matches(json("/a"), None, r#"{"a":null}"#));
        assert!(!matches(json("/a"), None, "no JSON"));
        assert!(matches(json("/a"), Some("7"), r#"{"a":7}"#));
        assert!(matches(json("/a"), Some("7"), r#"{"a":"7"}"#));
        assert!(!matches(json("/a"), Some("7"), r#"{"a":70}"#));
        let regex = |text: &str| Content::Regex(text.into());
        assert!(matches(regex("^id=([0-9]+)"), Some("12"), "id=12;"));
        assert!(!matches(regex("^id=([0-9]+)"), Some("1"), "id=12;"));
        assert!(matches(regex("^id="), None, "id="));
        assert!(
            matches(regex("\\bid\\b"), None, "an id") && !matches(regex("\\bid\\b"), None, "ids")
        );
    }

    #[test]
    fn a_filled_in_text_replaces_that_of_the_plan() {
        let equals = Some("{{id}}".to_owned());
        let awaited = Awaited { content: Content::Json("/id".into()), equals };
        let mut matcher = awaited.compile().expect("valid");
        assert!(matcher.matches(br#"{"id":"x"}"#, Some(b"x")));
        assert!(!matcher.matches(br#"{"id":"y"}"#, Some(b"x")));
        let awaited = Awaited { content: Content::Text("hi {{id}}".into()), equals: None };
        let mut matcher = awaited.compile().expect("valid");
        assert!(matcher.matches(b"oh, hi x!", Some(b"hi x")));
        assert!(!matcher.matches(b"hi {{id}}", Some(b"hi x")));
    }

    #[test]
    fn refuses_what_cannot_be_found() {
        let refused = |content, equals: Option<&str>| {
            Awaited { content, equals: equals.map(str::to_owned) }.compile().unwrap_err()
        };
        let text = refused(Content::Text("a".into()), Some("b"));
        assert_eq!(text, "`equals` compares the value of `json` or `regex`, not a `text`");
        assert!(refused(Content::Json("a".into()), None).contains("is not a JSON pointer"));
        assert!(refused(Content::Regex("(".into()), None).contains("regular expression"));
    }
}
