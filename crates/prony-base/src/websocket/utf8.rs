//! UTF-8 in pieces.

use super::Violation;

/// The position in a text that arrives in pieces: what the next byte must be, if it continues a
/// character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Utf8 {
    /// How many bytes the character lacks.
    left: u8,
    /// The range of the next one.
    low: u8,
    high: u8,
}

impl Utf8 {
    /// The next piece of the text.
    pub(super) fn read(&mut self, piece: &[u8]) -> Result<(), Violation> {
        let mut rest = piece;
        while self.left > 0 {
            let [byte, after @ ..] = rest else { return Ok(()) };
            self.step(*byte)?;
            rest = after;
        }
        // Most texts are of ASCII, which takes a fraction of the time to see.
        if rest.is_ascii() {
            return Ok(());
        }
        let Err(error) = std::str::from_utf8(rest) else { return Ok(()) };
        if error.error_len().is_some() {
            return Err(Violation::Utf8);
        }
        // The beginning of a character.
        rest[error.valid_up_to()..].iter().try_for_each(|&byte| self.step(byte))
    }

    /// Whether the text may end here.
    pub(super) fn is_complete(self) -> bool {
        self.left == 0
    }

    fn step(&mut self, byte: u8) -> Result<(), Violation> {
        if self.left > 0 {
            if !(self.low..=self.high).contains(&byte) {
                return Err(Violation::Utf8);
            }
            *self = Self { left: self.left - 1, low: 0x80, high: 0xBF };
            return Ok(());
        }
        // No character in more bytes than it needs, no surrogate, none over U+10FFFF.
        let (left, low, high) = match byte {
            0x00..=0x7F => return Ok(()),
            0xC2..=0xDF => (1, 0x80, 0xBF),
            0xE0 => (2, 0xA0, 0xBF),
            0xED => (2, 0x80, 0x9F),
            0xE1..=0xEF => (2, 0x80, 0xBF),
            0xF0 => (3, 0x90, 0xBF),
            0xF1..=0xF3 => (3, 0x80, 0xBF),
            0xF4 => (3, 0x80, 0x8F),
            _ => return Err(Violation::Utf8),
        };
        *self = Self { left, low, high };
        Ok(())
    }
}
