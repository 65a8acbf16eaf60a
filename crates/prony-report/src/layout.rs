//! The layout of JSON: the outer levels on separate lines for people, the inner ones compact,
//! because each number of a long run's intervals would otherwise take a line.

use std::io::{self, Write};

use prony_base::plain::{Sink, plain};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// Outer levels on separate lines.
const LEVELS: usize = 3;

/// A value as JSON, with a line feed at its end.
pub fn json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    let layout = Layout { pretty: PrettyFormatter::new(), depth: 0 };
    value
        .serialize(&mut Serializer::with_formatter(&mut out, layout))
        .expect("the report has only text keys, and writing to memory does not fail");
    out.push(b'\n');
    String::from_utf8(out).expect("JSON is UTF-8")
}

struct Layout {
    pretty: PrettyFormatter<'static>,
    depth: usize,
}

/// Delegate a call to the formatter of the current level.
macro_rules! pass {
    ($self:ident, $name:ident, $out:ident $(, $arg:ident)*) => {
        if $self.depth <= LEVELS {
            $self.pretty.$name($out $(, $arg)*)
        } else {
            CompactFormatter.$name($out $(, $arg)*)
        }
    };
}

impl Formatter for Layout {
    /// Readers get the text unchanged, and terminals and build servers nothing that they obey.
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(plain(fragment, Sink::Json).as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        pass!(self, begin_array, out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let end = pass!(self, end_array, out);
        self.depth -= 1;
        end
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        pass!(self, begin_array_value, out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        pass!(self, end_array_value, out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        pass!(self, begin_object, out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let end = pass!(self, end_object, out);
        self.depth -= 1;
        end
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        pass!(self, begin_object_key, out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        pass!(self, begin_object_value, out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        pass!(self, end_object_value, out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn texts_are_plain_and_read_as_they_were() {
        let value = json!({"##[error]": "a\u{9b}\u{202e}\u{e0041}\n::error::b"});
        let text = json(&value);
        let key = r"#\u0023[error]";
        let shown = r"a\u009b\u202e\udb40\udc41\n:\u003aerror::b";
        assert!(text.contains(&format!("\"{key}\": \"{shown}\"")), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }

    #[test]
    fn puts_outer_levels_on_separate_lines_and_keeps_inner_ones_compact() {
        let value = json!({"a": {"b": [{"c": [1, 2], "d": {}}, []]}, "e": "x"});
        let text = json(&value);
        let lines = [
            "{",
            "  \"a\": {",
            "    \"b\": [",
            "      {\"c\":[1,2],\"d\":{}},",
            "      []",
            "    ]",
            "  },",
            "  \"e\": \"x\"",
            "}\n",
        ];
        assert_eq!(text, lines.join("\n"));
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }
}
