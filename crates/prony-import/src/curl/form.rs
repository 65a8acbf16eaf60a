//! The parts of curl's forms: `-F name=content` with what may follow it.

/// A part as it is written: its content, and what is after it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Field {
    pub(super) name: Vec<u8>,
    pub(super) content: Source,
    pub(super) kind: Option<Vec<u8>>,
    pub(super) file: Option<Vec<u8>>,
    pub(super) headers: Vec<Vec<u8>>,
    /// What means nothing to curl.
    pub(super) unknown: Vec<Vec<u8>>,
}

/// Where the content of a part is.
#[derive(Debug, PartialEq)]
pub(super) enum Source {
    Text(Vec<u8>),
    /// `@`: an uploaded file.
    Upload(Vec<u8>),
    /// `<`: a field with the text of the file.
    TextOf(Vec<u8>),
}

impl Default for Source {
    fn default() -> Self {
        Self::Text(Vec::new())
    }
}

/// Reads the value of `-F`.
///
/// # Errors
/// curl refuses it, or it has parts in parts: why, as the end of a sentence.
pub(super) fn field(value: &[u8]) -> Result<Field, String> {
    let equals = value.iter().position(|&b| b == b'=').ok_or("there is no = in it")?;
    let (name, content) = (value[..equals].to_vec(), &value[equals + 1..]);
    let start = content.first().copied();
    let mut field = Field { name, ..Field::default() };
    match start {
        Some(b'(' | b')') => return Err("parts in parts are not sent".into()),
        Some(b'@' | b'<') => {
            let end = if start == Some(b'@') { b',' } else { 0 };
            let mut reader = Reader { rest: &content[1..], end };
            let name = reader.field(&mut field)?;
            if reader.rest.first() == Some(&b',') {
                return Err("several files in a part are not sent".into());
            }
            field.content = match start {
                Some(b'@') => Source::Upload(name),
                _ => Source::TextOf(name),
            };
        }
        _ => {
            let mut reader = Reader { rest: content, end: 0 };
            field.content = Source::Text(reader.field(&mut field)?);
        }
    }
    Ok(field)
}

struct Reader<'a> {
    rest: &'a [u8],
    /// What ends it, besides its end; 0 for nothing.
    end: u8,
}

impl Reader<'_> {
    /// Reads the content, and puts what follows it into the field.
    fn field(&mut self, field: &mut Field) -> Result<Vec<u8>, String> {
        self.skip_spaces();
        let content = self.word();
        let mut is_kind = false;
        while self.rest.first() == Some(&b';') {
            self.rest = &self.rest[1..];
            self.skip_spaces();
            if !is_kind && self.skip("type=") {
                self.skip_spaces();
                let kind = self.kind();
                let parts = kind.iter().position(|&b| b == b'/');
                if parts.is_none_or(|at| at == 0 || at + 1 == kind.len()) {
                    return Err("its type is not understood".into());
                }
                field.kind = Some(kind);
                is_kind = true;
            } else if self.skip("filename=") {
                is_kind = false;
                self.skip_spaces();
                field.file = Some(self.word());
            } else if self.skip("headers=") {
                is_kind = false;
                if matches!(self.rest.first(), Some(b'@' | b'<')) {
                    return Err("headers from a file are not read".into());
                }
                self.skip_spaces();
                field.headers.push(self.word());
            } else if self.skip("encoder=") {
                return Err("its content would be encoded".into());
            } else if is_kind {
                // A parameter of the type.
                let more = self.kind();
                if let Some(kind) = &mut field.kind {
                    kind.push(b';');
                    kind.extend(more);
                }
            } else {
                let unknown = self.word();
                if !unknown.is_empty() {
                    field.unknown.push(unknown);
                }
            }
        }
        Ok(content)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn skip(&mut self, start: &str) -> bool {
        let length = start.len();
        let is_here =
            self.rest.len() >= length && self.rest[..length].eq_ignore_ascii_case(start.as_bytes());
        if is_here {
            self.rest = &self.rest[length..];
        }
        is_here
    }

    fn is_end(&self, b: u8) -> bool {
        b == b';' || b == self.end && self.end != 0
    }

    /// Up to the next `;`, without spaces at its end.
    fn kind(&mut self) -> Vec<u8> {
        let end = self.rest.iter().position(|&b| self.is_end(b)).unwrap_or(self.rest.len());
        let (kind, rest) = self.rest.split_at(end);
        self.rest = rest;
        kind.trim_ascii_end().to_vec()
    }

    /// A word in quotes, in which `\` stands before others, or all up to the next `;`.
    fn word(&mut self) -> Vec<u8> {
        if let Some(mut inner) = self.rest.strip_prefix(b"\"") {
            let mut word = Vec::new();
            while let [first, after @ ..] = inner {
                match (first, after.first()) {
                    (b'\\', Some(&b @ (b'\\' | b'"'))) => {
                        word.push(b);
                        inner = &after[1..];
                    }
                    (b'"', _) => {
                        // What follows the quotes means nothing.
                        let end = after.iter().position(|&b| self.is_end(b));
                        self.rest = &after[end.unwrap_or(after.len())..];
                        return word;
                    }
                    (&b, _) => {
                        word.push(b);
                        inner = after;
                    }
                }
            }
            // Without an end, the quote is a part of the word.
        }
        self.kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parts_as_curl_does() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let text = |name: &str, content: &str| Field {
            name: bytes(name),
            content: Source::Text(bytes(content)),
            ..Field::default()
        };
        for (value, wanted) in [
            ("name=\"John; Doe\"", text("name", "John; Doe")),
            ("a= x y ", text("a", "x y")),
            ("a=\"x \\\"y\\\\\" z", text("a", "x \"y\\")),
            ("a=\"x", text("a", "\"x")),
            ("a=b=c", text("a", "b=c")),
            (
                "a=b;type=text/x; charset=utf-8 ;filename=\"q;r\"",
                Field {
                    kind: Some(bytes("text/x;charset=utf-8")),
                    file: Some(bytes("q;r")),
                    ..text("a", "b")
                },
            ),
            (
                "a=b;headers=\"X-A: 1;2\";HEADERS=X-B: 2;foo=1",
                Field {
                    headers: vec![bytes("X-A: 1;2"), bytes("X-B: 2")],
                    unknown: vec![bytes("foo=1")],
                    ..text("a", "b")
                },
            ),
            ("a=@f", Field { content: Source::Upload(bytes("f")), ..text("a", "") }),
            ("a=<\"f,g\"", Field { content: Source::TextOf(bytes("f,g")), ..text("a", "") }),
        ] {
            assert_eq!(field(value.as_bytes()), Ok(wanted), "{value}");
        }
        for value in ["a", "a=@f,g", "a=(b", "a=b;type=x", "a=b;encoder=base64"] {
            assert!(field(value.as_bytes()).is_err(), "{value}");
        }
    }
}
