//! Server-sent events (WHATWG HTML, 9.2.6): lines that end with CR, LF or both, fields, and events
//! that end with an empty line. Knows the field `data`, `id` and `retry` if streams are opened
//! again, and of the replies of language models those of the type `error`: other fields complete no
//! event.

use memchr::memchr2;

use super::position::{Field, Position};
use super::{Collected, Message, Rules, TooLong};

/// May stand before the first line.
const MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// The state of the parser.
#[derive(Clone, Debug, Default)]
pub(super) struct Sse {
    at: At,
    /// Whether the last byte was CR: an LF belongs to it.
    after_cr: bool,
    /// The event so far has data, maybe an empty line of it.
    has_data: bool,
    /// The type of the event so far is `error`.
    is_error: bool,
    /// The position in the stream, if it may be opened again.
    pub(super) position: Option<Box<Position>>,
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
    /// In the name of another field, which so far is this many bytes of it.
    OwnName(Field, u8),
    /// After the colon of that field.
    OwnColon(Field),
    /// In its value.
    OwnValue(Field),
    /// In the name of the type of an event, which so far is this many bytes of `event`.
    TypeName(u8),
    /// After its colon.
    TypeColon,
    /// In its value, which so far is this many bytes of `error`; `None`: it is another one.
    Type(Option<u8>),
    /// In a line of no interest: a comment, or a field of no interest.
    Other,
}

impl Default for At {
    fn default() -> Self {
        Self::Mark(0)
    }
}

const DATA: &[u8] = b"data";
const TYPE: &[u8] = b"event";
/// The type of the events that say that a reply of a language model has failed.
const ERROR: &[u8] = b"error";

impl Sse {
    /// Start with the next body.
    pub(super) fn clear(&mut self) {
        (self.at, self.after_cr) = (At::default(), false);
        (self.has_data, self.is_error) = (false, false);
    }

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
                        let id = self.position.as_deref().and_then(Position::number);
                        let mut message = Message { id, ..event.take(rules) };
                        message.said.is_error |= std::mem::take(&mut self.is_error);
                        each(message);
                    }
                }
                (At::Name(4), b':') => {
                    self.data_begins(rules, event)?;
                    self.at = At::Colon;
                }
                (At::Name(_) | At::OwnName(..) | At::TypeName(_), _) => {
                    self.at = self.after_name(rules, byte);
                }
                (At::Colon, b' ') => self.at = At::Data,
                (At::OwnColon(field), b' ') => self.at = At::OwnValue(field),
                (At::TypeColon, b' ') => self.at = At::Type(Some(0)),
                (At::TypeColon, _) => {
                    self.at = At::Type(Some(0));
                    continue;
                }
                (At::Type(Some(n)), _) => {
                    let is_it = ERROR.get(usize::from(n)) == Some(&byte);
                    self.at = At::Type(is_it.then_some(n + 1));
                }
                _ => {
                    let end = memchr2(b'\r', b'\n', piece).unwrap_or(piece.len());
                    self.value(rules, &piece[..end], event)?;
                    piece = &piece[end..];
                    continue;
                }
            }
            piece = rest;
        }
        Ok(())
    }

    /// Where the parser is after this byte of the name of a field.
    fn after_name(&self, rules: &Rules, byte: u8) -> At {
        let follows = |name: &[u8], n: u8| match name.get(usize::from(n)) {
            Some(&next) if next == byte => Some(false),
            None if byte == b':' => Some(true),
            _ => None,
        };
        match self.at {
            At::Name(n) if DATA.get(usize::from(n)) == Some(&byte) => At::Name(n + 1),
            At::Name(0) => match byte {
                b'i' if self.position.is_some() => At::OwnName(Field::Id, 1),
                b'r' if self.position.is_some() => At::OwnName(Field::Retry, 1),
                b'e' if rules.dialect.is_some() => At::TypeName(1),
                _ => At::Other,
            },
            At::OwnName(field, n) => match follows(field.name(), n) {
                Some(false) => At::OwnName(field, n + 1),
                Some(true) => At::OwnColon(field),
                None => At::Other,
            },
            At::TypeName(n) => match follows(TYPE, n) {
                Some(false) => At::TypeName(n + 1),
                Some(true) => At::TypeColon,
                None => At::Other,
            },
            _ => At::Other,
        }
    }

    /// A part of a line, after the colon.
    fn value(&mut self, rules: &Rules, part: &[u8], event: &mut Collected) -> Result<(), TooLong> {
        self.at = match self.at {
            At::Colon => At::Data,
            At::OwnColon(field) => At::OwnValue(field),
            at => at,
        };
        match (self.at, &mut self.position) {
            (At::Data, _) => event.add(rules, part),
            (At::OwnValue(_), Some(position)) => position.add(part),
            _ => Ok(()),
        }
    }

    /// A line has ended. Returns whether an event has.
    fn line_ends(&mut self, rules: &Rules, event: &mut Collected) -> Result<bool, TooLong> {
        match std::mem::replace(&mut self.at, At::Name(0)) {
            At::Name(0) => {
                if let Some(position) = &mut self.position {
                    position.event_ends();
                }
                // An error is one even if it has no data.
                return Ok(std::mem::take(&mut self.has_data) || self.is_error);
            }
            // A field without a colon has an empty value.
            At::Name(4) => self.data_begins(rules, event)?,
            // The last one of an event counts.
            At::Type(n) => self.is_error = n == Some(ERROR.len() as u8),
            At::TypeName(n) if usize::from(n) == TYPE.len() => self.is_error = false,
            At::TypeColon => self.is_error = false,
            At::OwnName(field, n) if usize::from(n) < field.name().len() => {}
            At::OwnName(field, _) | At::OwnColon(field) | At::OwnValue(field) => {
                if let Some(position) = &mut self.position {
                    position.take(field);
                }
            }
            _ => {}
        }
        Ok(false)
    }

    /// A line of data has begun.
    fn data_begins(&mut self, rules: &Rules, event: &mut Collected) -> Result<(), TooLong> {
        if std::mem::replace(&mut self.has_data, true) { event.add(rules, b"\n") } else { Ok(()) }
    }
}
