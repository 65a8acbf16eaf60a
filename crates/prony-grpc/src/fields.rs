//! Template fields in JSON: `{"name": "{{users.name}}", "id": {{users.id}}}`.
//!
//! They are replaced by marks before the JSON is parsed, so that a field can stand in place of a
//! value or inside a string.

use serde_json::Value;

/// The characters around the number of a field. They are for private use, so that no text has them.
const OPEN: char = '\u{f8f0}';
const CLOSE: char = '\u{f8f1}';

/// JSON without fields, and the fields.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) json: String,
    fields: Vec<String>,
}

impl Marked {
    /// Replaces the fields of a text by marks.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let mut marked = Self { json: String::with_capacity(text.len()), fields: Vec::new() };
        let (mut at, mut is_string) = (0, false);
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            // Of more than two braces in a row, the inner ones enclose the field.
            if rest.starts_with("{{") && !rest.starts_with("{{{") {
                let Some(end) = closing(&rest[2..]) else {
                    return Err("'{{' is not followed by '}}'".into());
                };
                let mark = format!("{OPEN}{}{CLOSE}", marked.fields.len());
                match is_string {
                    true => marked.json.push_str(&mark),
                    false => marked.json.push_str(&format!("\"{mark}\"")),
                }
                marked.fields.push(rest[..2 + end + 2].to_owned());
                at += 2 + end + 2;
                continue;
            }
            if c == '"' {
                is_string = !is_string;
            }
            // The character after a backslash does not end the string.
            let mut length = c.len_utf8();
            if c == '\\' && is_string {
                length += rest[1..].chars().next().map_or(0, char::len_utf8);
            }
            marked.json.push_str(&rest[..length]);
            at += length;
        }
        Ok(marked)
    }

    /// Whether a string of the JSON has a mark.
    pub(crate) fn is_marked(text: &str) -> bool {
        text.contains(OPEN)
    }

    /// The template behind a string of the JSON.
    pub(crate) fn template(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            out.push_str(before);
            let (number, after) = after.split_once(CLOSE).unwrap_or((after, ""));
            let field = number.parse::<usize>().ok().and_then(|n| self.fields.get(n));
            out.push_str(field.map_or("", String::as_str));
            rest = after;
        }
        out + rest
    }
}

/// The length of a field's name: up to the first `}}` outside quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[i..].starts_with("}}") => return Some(i),
            None => {}
        }
    }
    None
}

/// The start of a sentence about the field at a path.
pub(crate) fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("the field '{path}': ") }
}

/// Whether a value has a template field.
pub(crate) fn varies(value: &Value) -> bool {
    match value {
        Value::String(text) => Marked::is_marked(text),
        Value::Array(values) => values.iter().any(varies),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| Marked::is_marked(name) || varies(value))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_fields_in_place_of_values_and_in_strings() {
        let text = r#"{"a":{"b":{{x}}},"c":"\"{{y | default "}}"}}!"}"#;
        let marked = Marked::new(text).unwrap();
        let json: Value = serde_json::from_str(&marked.json).unwrap();
        let value = |pointer: &str| {
            let text = json.pointer(pointer).unwrap().as_str().unwrap();
            assert!(Marked::is_marked(text));
            marked.template(text)
        };
        assert_eq!(value("/a/b"), "{{x}}");
        assert_eq!(value("/c"), r#""{{y | default "}}"}}!"#);
        assert!(Marked::new(r#"{"a": "{{x"}"#).is_err());
    }
}
