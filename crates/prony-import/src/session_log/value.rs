//! Values of a session file: quotes, escapes, numbers.

use std::borrow::Cow;

use super::{Dialect, LogError, LogErrorKind, Place, Reader};

impl<'a> Reader<'a> {
    /// Read a value: parts with and without quotes, up to a blank or the end of the line. A missing
    /// closing quote ends the value with the line, line feed included. With `over_lines`, the value
    /// continues on the next line instead.
    pub(super) fn value(
        &mut self,
        begin: Place,
        over_lines: bool,
    ) -> Result<Cow<'a, [u8]>, LogError> {
        if let Some(plain) = self.plain_value() {
            return Ok(Cow::Borrowed(plain));
        }
        let mut value = Vec::new();
        let mut quote = None;
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.escape(begin, &mut value)?,
                b'\n' if quote.is_some() && over_lines => {
                    value.push(byte);
                    self.pass_line_end();
                }
                b'\n' => {
                    // The reader of lines skips the end of the line.
                    value.extend(quote.map(|_| byte));
                    return Ok(Cow::Owned(value));
                }
                b'"' | b'\'' if quote == Some(byte) => {
                    quote = None;
                    self.at += 1;
                }
                b'"' | b'\'' if quote.is_none() => {
                    quote = Some(byte);
                    self.at += 1;
                }
                _ if quote.is_none() && self.ends_value() => return Ok(Cow::Owned(value)),
                _ => {
                    value.push(byte);
                    self.at += 1;
                }
            }
        }
        if quote.is_some() && over_lines {
            return Err(self.error(begin, LogErrorKind::Ends));
        }
        Ok(Cow::Owned(value))
    }

    /// Read a value in one pair of quotes without escapes, which needs no copy.
    fn plain_value(&mut self) -> Option<&'a [u8]> {
        let rest = &self.text[self.at..];
        let quote = *rest.first().filter(|b| matches!(b, b'"' | b'\''))?;
        let length = rest[1..].iter().position(|b| [quote, b'\\', b'\n'].contains(b))?;
        let after = rest.get(length + 2).copied().unwrap_or(b'\n');
        if rest[1 + length] != quote || !matches!(after, b' ' | b'\t' | b'\n') {
            return None;
        }
        self.at += length + 2;
        Some(&rest[1..=length])
    }

    /// Whether the current byte, outside of quotes, ends a value.
    fn ends_value(&self) -> bool {
        match self.text[self.at] {
            b' ' | b'\t' => true,
            // httperf leaves the carriage return of a line's end in the value.
            b'\r' if self.dialect == Dialect::Prony => {
                matches!(self.text.get(self.at + 1), None | Some(b'\n'))
            }
            _ => false,
        }
    }

    /// Read a backslash and the byte that it escapes.
    fn escape(&mut self, begin: Place, value: &mut Vec<u8>) -> Result<(), LogError> {
        self.at += 1;
        let Some(byte) = self.peek() else { return Ok(()) };
        if byte != b'\n' {
            self.at += 1;
            value.push(match byte {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => other,
            });
            return Ok(());
        }
        value.push(byte);
        self.pass_line_end();
        if self.peek().is_none() {
            return Err(self.error(begin, LogErrorKind::Ends));
        }
        Ok(())
    }
}

/// Parse the number at the start of a word like C's `strtod`, and ignore the rest. `None` if there
/// is no number.
pub(super) fn leading_number(word: &str) -> Option<f64> {
    let bytes = word.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = sign + whole;
    let mut mantissa = whole;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        mantissa += fraction;
        end += 1 + fraction;
    }
    if mantissa == 0 {
        let name = word[sign..].get(..3).unwrap_or_default();
        // Infinity and NaN mean no pause.
        return (name.eq_ignore_ascii_case("inf") || name.eq_ignore_ascii_case("nan"))
            .then_some(0.0);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    word[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::is_blank;
    use super::*;

    #[test]
    fn parses_leading_numbers_like_strtod() {
        for (word, number) in [
            ("1", 1.0),
            ("2.5,x", 2.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e-1,3", 0.1),
            ("1e", 1.0),
            ("1e+z", 1.0),
            ("-3", -3.0),
            ("+4x", 4.0),
            ("inf", 0.0),
            ("nan", 0.0),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(leading_number(word), Some(number), "{word}");
        }
        for word in ["", "+", "x", ".", "-.", "e5", "..5"] {
            assert_eq!(leading_number(word), None, "{word}");
        }
    }

    #[test]
    fn blanks_are_not_values() {
        assert!([b' ', b'\t', b'\r', 0x0B, 0x0C].into_iter().all(is_blank));
        assert!(!b"\nx\0".iter().copied().any(is_blank));
    }
}
