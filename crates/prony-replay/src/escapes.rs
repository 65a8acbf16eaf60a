//! How the formats of logs write bytes that cannot stand in a line, and how these are undone.

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It has an escape that the format does not have.
    Escape,
    /// The server has replaced bytes of it.
    Replaced,
}

/// The escapes of a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Escapes {
    /// Every byte stands for itself.
    None,
    /// A backslash: `\x22` of nginx and Apache, `\"` and `\n` of Apache and JSON, `\u00e9` of JSON
    /// is a character. No two of these servers write the same escape with another meaning.
    #[default]
    Backslash,
    /// The same, but `\u00e9` is a byte, as Tomcat has it.
    Tomcat,
    /// That of Tomcat's logs in the W3C format, in which a quotation mark is two, too.
    TomcatW3c,
    /// `#22`, of HAProxy.
    Hash,
}

impl Escapes {
    /// Where the first escape is.
    #[inline]
    fn find(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Backslash | Self::Tomcat => memchr::memchr(b'\\', text),
            Self::TomcatW3c => memchr::memchr2(b'\\', b'"', text),
            Self::Hash => memchr::memchr(b'#', text),
        }
    }

    /// Whether a backslash before a quotation mark makes it a part of the text.
    pub(crate) fn hides_quotes(self) -> bool {
        matches!(self, Self::Backslash | Self::Tomcat)
    }

    /// Whether a quotation mark in a text is always escaped.
    pub(crate) fn protects_quotes(self) -> bool {
        self != Self::None
    }

    /// Calls `push` with the bytes that `text` stands for.
    ///
    /// # Errors
    /// It has what the server does not write.
    #[inline]
    pub(crate) fn undo(self, text: &[u8], mut push: impl FnMut(&[u8])) -> Result<(), Flaw> {
        let mut rest = text;
        while let Some(i) = self.find(rest) {
            push(&rest[..i]);
            let escape = &rest[i + 1..];
            let used = match self {
                Self::Hash => byte(escape.get(..2).unwrap_or_default()).map(|b| {
                    push(&[b]);
                    2
                }),
                Self::TomcatW3c if rest[i] == b'"' => escape.starts_with(b"\"").then(|| {
                    push(b"\"");
                    1
                }),
                _ => self.backslash(escape, &mut push)?,
            };
            rest = &escape[used.ok_or(Flaw::Escape)?..];
        }
        push(rest);
        Ok(())
    }

    /// What follows a backslash. Returns how many bytes of it belong to the escape.
    fn backslash(self, text: &[u8], push: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Flaw> {
        let plain = match text.first() {
            Some(b'x') => {
                let Some(b) = text.get(1..3).and_then(byte) else { return Ok(None) };
                push(&[b]);
                return Ok(Some(3));
            }
            Some(b'u') => return self.unicode(text, push),
            Some(b @ (b'"' | b'\\' | b'/')) => *b,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'b') => 8,
            Some(b'v') => 11,
            Some(b'f') => 12,
            _ => return Ok(None),
        };
        push(&[plain]);
        Ok(Some(1))
    }

    /// `u00e9`, or two of them for a character beyond U+FFFF.
    fn unicode(self, text: &[u8], push: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Flaw> {
        let unit = |from: usize| text.get(from..from + 4).and_then(number);
        let Some(first) = unit(1) else { return Ok(None) };
        if matches!(self, Self::Tomcat | Self::TomcatW3c) {
            let Ok(b) = u8::try_from(first) else { return Ok(None) };
            push(&[b]);
            return Ok(Some(5));
        }
        let (code, used) = match first {
            0xd800..0xdc00 if text.get(5..7) == Some(b"\\u") => match unit(7) {
                Some(low @ 0xdc00..0xe000) => {
                    (0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00), 11)
                }
                _ => return Ok(None),
            },
            code => (code, 5),
        };
        match char::from_u32(code) {
            // What a writer of JSON puts in the place of bytes that are no UTF-8.
            Some(char::REPLACEMENT_CHARACTER) => Err(Flaw::Replaced),
            Some(c) => {
                push(c.encode_utf8(&mut [0; 4]).as_bytes());
                Ok(Some(used))
            }
            None => Ok(None),
        }
    }
}

/// The byte of two hexadecimal digits.
fn byte(digits: &[u8]) -> Option<u8> {
    if digits.len() == 2 { number(digits).and_then(|n| u8::try_from(n).ok()) } else { None }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |n, digit| Some(n * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(escapes: Escapes, text: &str) -> Result<Vec<u8>, Flaw> {
        let mut all = Vec::new();
        escapes.undo(text.as_bytes(), |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    #[test]
    fn each_format_has_its_own() {
        use Escapes::{Backslash, Hash, None, Tomcat, TomcatW3c};
        for (escapes, text, bytes) in [
            (None, r#"/a\x22#22"#, &br#"/a\x22#22"#[..]),
            (Backslash, r#"/\x22\xC3\xa9\\\"\/#22"#, b"/\"\xc3\xa9\\\"/#22"),
            (Backslash, r"\n\r\t\b\f\v", b"\n\r\t\x08\x0c\x0b"),
            (Backslash, r"\u0026\u00e9\ud83d\ude00", "&\u{e9}\u{1f600}".as_bytes()),
            (Tomcat, r#"/\u00c3\u00a9\""#, b"/\xc3\xa9\""),
            (TomcatW3c, r#"/""a\\\u00c3"#, b"/\"a\\\xc3"),
            (Hash, r"/#22#23#7Cx\", b"/\"#|x\\"),
        ] {
            assert_eq!(undone(escapes, text).as_deref(), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_a_server_does_not_write_is_refused() {
        use Escapes::{Backslash, Hash, Tomcat};
        for (escapes, text) in [
            (Backslash, r"/a\"),
            (Backslash, r"/a\x2"),
            (Backslash, r"/a\xg1"),
            (Backslash, r"/a\d"),
            (Backslash, r"/a\ud83d"),
            (Backslash, r"/a\ud83d\u0041"),
            (Tomcat, r"\u0141"),
            (Escapes::TomcatW3c, "/\"a"),
            (Hash, "/a#b"),
            (Hash, "/a#2"),
        ] {
            assert_eq!(undone(escapes, text), Err(Flaw::Escape), "{text}");
        }
        assert_eq!(undone(Backslash, r"/\ufffd"), Err(Flaw::Replaced));
    }
}
