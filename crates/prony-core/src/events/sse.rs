//! Server-sent events (WHATWG HTML, 9.2.6): lines that end with CR, LF or both, fields, and events
//! that end with an empty line. Knows only the field `data`: the others complete no event.

use memchr::memchr2;

use super::{Collected, Message, Rules, TooLong};

/// May stand before the first line.
const MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// The position in a stream of events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sse {
    at: At,
    /// Whether the last byte was CR: an LF belongs to it.
    after_cr: bool,
    /// The event so far has data, maybe an empty line of it.
    has_data: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the byte order mark, or before it: this many bytes of it have arrived.
    Mark(u8),
    /// In the name of a field, which so far is this many bytes of `data`.
    Name(u8),
    /// After the colon of `data`: one space does not belong to the value.
    Colon,
    /// In the value of `data`.
    Data,
    /// In a line of no interest: a comment, or another field.
    Other,
}

impl Default for At {
    fn default() -> Self {
        Self::Mark(0)
    }
}

const DATA: &[u8] = b"data";

impl Sse {
    /// Whether a part of an event has arrived.
    pub(super) fn is_inside(&self) -> bool {
        self.has_data || matches!(self.at, At::Name(4))
    }

    pub(super) fn read(
        &mut self,
        rules: &Rules,
        mut piece: &[u8],
        event: &mut Collected,
        mut each: impl FnMut(Message),
    ) -> Result<(), TooLong> {
        while let Some((&byte, rest)) = piece.split_first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                piece = rest;
                continue;
            }
            match (self.at, byte) {
                (At::Mark(n), _) if byte == MARK[usize::from(n)] => {
                    self.at = if n == 2 { At::Name(0) } else { At::Mark(n + 1) };
                }
                (At::Mark(0), _) => {
                    self.at = At::Name(0);
                    continue;
                }
                // It was the name of an unknown field.
                (At::Mark(_), _) => {
                    self.at = At::Other;
                    continue;
                }
                (_, b'\r' | b'\n') => {
                    self.after_cr = byte == b'\r';
                    if self.line_ends(rules, event)? {
                        each(event.take(rules));
                    }
                }
                (At::Name(4), b':') => {
                    self.data_begins(rules, event)?;
                    self.at = At::Colon;
                }
                (At::Name(n), _) if DATA.get(usize::from(n)) == Some(&byte) => {
                    self.at = At::Name(n + 1);
                }
                (At::Name(_), _) => self.at = At::Other,
                (At::Colon, b' ') => self.at = At::Data,
                (At::Colon | At::Data | At::Other, _) => {
                    let end = memchr2(b'\r', b'\n', piece).unwrap_or(piece.len());
                    if self.at == At::Colon {
                        self.at = At::Data;
                    }
                    if self.at == At::Data {
                        event.add(rules, &piece[..end])?;
                    }
                    piece = &piece[end..];
                    continue;
                }
            }
            piece = rest;
        }
        Ok(())
    }

    /// A line has ended. Returns whether an event has.
    fn line_ends(&mut self, rules: &Rules, event: &mut Collected) -> Result<bool, TooLong> {
        match std::mem::replace(&mut self.at, At::Name(0)) {
            At::Name(0) => return Ok(std::mem::take(&mut self.has_data)),
            // A field without a colon has an empty value.
            At::Name(4) => self.data_begins(rules, event)?,
            _ => {}
        }
        Ok(false)
    }

    /// A line of data has begun.
    fn data_begins(&mut self, rules: &Rules, event: &mut Collected) -> Result<(), TooLong> {
        if std::mem::replace(&mut self.has_data, true) { event.add(rules, b"\n") } else { Ok(()) }
    }
}
