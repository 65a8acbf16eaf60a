//! YAML 1.2 as JSON, for documents that may be written in either: keys are texts, aliases are
//! replaced by their values.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Number, Value};

use crate::context::VALUES;

/// How deep values may be in each other.
const DEPTH: u32 = 128;
/// As many bytes of text count as a value.
const TEXT: usize = 64;

/// The first document of a text.
///
/// # Errors
/// `:LINE:COLUMN: sentence`.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader =
        Reader { events: Parser::new_from_str(text), anchors: HashMap::new(), values: 0 };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(Value::Null),
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            event => return reader.value(event, 0).map(|(value, _)| value),
        }
    }
}

/// Why a document is refused.
const MANY: &str = "the document has too many values";

struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Values with an anchor, and how many values are in each.
    anchors: HashMap<usize, (Value, u64)>,
    /// How many values there are so far, with copies of aliases and anchors.
    values: u64,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(wrong(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The value that starts with this event, and how many values are in it.
    fn value(
        &mut self,
        (event, span): (Event<'a>, Span),
        depth: u32,
    ) -> Result<(Value, u64), String> {
        let error = |why: &str| {
            let at = &span.start;
            Err(format!(":{}:{}: {why}", at.line(), at.col() + 1))
        };
        if depth > DEPTH {
            return error("values are too deep in each other");
        }
        let (anchor, value, mut count) = match event {
            Event::Alias(anchor) => {
                let Some((value, count)) = self.anchors.get(&anchor) else {
                    return error("an alias refers to a value that has not ended");
                };
                // Before they take memory: a few lines could have any number.
                self.values += count;
                if self.values > VALUES {
                    return error(MANY);
                }
                (0, value.clone(), *count)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let count = (text.len() / TEXT) as u64;
                (anchor, scalar(text, style, tag.as_deref()), count)
            }
            Event::SequenceStart(anchor, _) => {
                let (mut all, mut count) = (Vec::new(), 0);
                loop {
                    match self.next()? {
                        (Event::SequenceEnd | Event::StreamEnd, _) => break,
                        event => {
                            let (value, more) = self.value(event, depth + 1)?;
                            all.push(value);
                            count += more;
                        }
                    }
                }
                (anchor, Value::Array(all), count)
            }
            Event::MappingStart(anchor, _) => {
                let (fields, count) = self.fields(depth)?;
                (anchor, Value::Object(fields), count)
            }
            _ => return error("a value is expected"),
        };
        count += 1;
        self.values += 1;
        if anchor > 0 {
            self.values += count;
        }
        if self.values > VALUES {
            return error(MANY);
        }
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), count));
        }
        Ok((value, count))
    }

    /// The fields of a mapping after its start, and how many values are in them.
    fn fields(&mut self, depth: u32) -> Result<(Map<String, Value>, u64), String> {
        let (mut fields, mut count) = (Map::new(), 0);
        let mut merged = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd | Event::StreamEnd, _) => break,
                (Event::Scalar(text, style, 0, _), _) => (text.into_owned(), style),
                event => match self.value(event, depth + 1)?.0 {
                    Value::String(text) => (text, ScalarStyle::DoubleQuoted),
                    other => (other.to_string(), ScalarStyle::DoubleQuoted),
                },
            };
            let event = self.next()?;
            let (value, more) = self.value(event, depth + 1)?;
            count += more;
            // The fields of other mappings, for those that this one lacks.
            match (key.0 == "<<" && key.1 == ScalarStyle::Plain, value) {
                (true, Value::Array(all)) => merged.extend(all),
                (true, value) => merged.push(value),
                (false, value) => drop(fields.insert(key.0, value)),
            }
        }
        for other in merged {
            let Value::Object(other) = other else { continue };
            for (name, value) in other {
                fields.entry(name).or_insert(value);
            }
        }
        Ok((fields, count))
    }
}

fn wrong(error: &ScanError) -> String {
    let at = error.marker();
    format!(":{}:{}: this is not YAML: {}", at.line(), at.col() + 1, error.info())
}

/// The value of a scalar, by the core schema (YAML 1.2, 10.3).
fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return Value::String(text.into_owned());
    }
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        plain => number(plain).unwrap_or_else(|| Value::String(text.into_owned())),
    }
}

fn number(text: &str) -> Option<Value> {
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix)?;
        u64::from_str_radix(digits, radix).ok()
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(number.into());
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Names such as `inf` and `e5` are texts.
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
    {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(number) = plain.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = plain.parse::<u64>() {
        return Some(number.into());
    }
    Number::from_f64(plain.parse().ok()?).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_of_json() {
        for (yaml, value) in [
            (
                "a: 1\nb: [x, 'y', \"z\\n\", 2.50, -3, 1e3]",
                json!({"a": 1, "b": ["x", "y", "z\n", 2.5, -3, 1000.0]}),
            ),
            (
                "- true\n- False\n- yes\n- null\n- ~\n-\n- ''",
                json!([true, false, "yes", null, null, null, ""]),
            ),
            (
                "v: 3.0.3\nw: 0x1f\nx: 0o17\ny: 007\nz: .inf\nu: 2026-01-01",
                json!({"v": "3.0.3", "w": 31, "x": 15, "y": 7, "z": ".inf", "u": "2026-01-01"}),
            ),
            (
                "200: ok\n'201': made\ntrue: t\n1.5: f",
                json!({"200": "ok", "201": "made", "true": "t", "1.5": "f"}),
            ),
            ("t: |\n  a\n  b\nf: >-\n  a\n  b\n", json!({"t": "a\nb\n", "f": "a b"})),
            (
                "a: &x {n: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\nd: {<<: [*x, {n: 5, o: 6}], n: 9}",
                json!({"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 1, "m": 2}, "d": {"n": 9, "o": 6}}),
            ),
            (
                "a: !!str 5\nb: # nothing\nc: {}\nd: []",
                json!({"a": "5", "b": null, "c": {}, "d": []}),
            ),
            ("%YAML 1.2\n---\n{\"a\": [1, {\"b\": null}]}\n...\n", json!({"a": [1, {"b": null}]})),
            ("", Value::Null),
            ("just text", json!("just text")),
            ("-1-2", json!("-1-2")),
            ("18446744073709551615", json!(u64::MAX)),
        ] {
            assert_eq!(parse(yaml), Ok(value), "{yaml}");
        }
    }

    #[test]
    fn wrong_documents_are_refused_with_their_place() {
        for (yaml, why) in [
            ("a: [1", ":"),
            ("a: 'x", ":"),
            ("a: b: c", ":1:5: this is not YAML: "),
            ("a:\n\t- b", ":2:"),
            ("a: &x [*x]", ":1:8: "),
        ] {
            let refused = parse(yaml).expect_err(yaml);
            assert!(refused.starts_with(why), "{yaml}: {refused}");
        }
        let deep = "[".repeat(10_000);
        assert!(parse(&deep).is_err());
        // Each line has ten times the one before.
        let mut laughs = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
        for n in 1..12 {
            let before = format!("*a{}, ", n - 1).repeat(10);
            laughs += &format!("a{n}: &a{n} [{}]\n", before.trim_end_matches(", "));
        }
        assert!(parse(&laughs).expect_err("too many").contains("too many values"));
    }
}
