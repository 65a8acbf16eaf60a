//! The position in a stream of events: what a client needs to open it again after its last event.

use super::TooLong;
use prony_base::units::Span;

/// The maximum length of an ID in bytes: it is sent in a header.
pub const ID_MAX: usize = 4 << 10;

/// A field that says something about the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Id,
    Retry,
}

/// The position in a stream, over all of its connections.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// The ID of the last complete event.
    id: Vec<u8>,
    /// The ID of the event that is being read, unless a field changes it.
    next: Vec<u8>,
    /// The value of the field that is being read.
    value: Vec<u8>,
    retry: Option<Span>,
    /// Whether the event that is being read has an ID of its own, and whether the last one had.
    has_own: bool,
    had_own: bool,
}

impl Field {
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Self::Id => b"id",
            Self::Retry => b"retry",
        }
    }
}

impl Position {
    /// The ID of the last event that has one; empty: there is none.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// How long the server wants its clients to wait before they open the stream again, if it has
    /// said so.
    pub fn retry(&self) -> Option<Span> {
        self.retry
    }

    /// The ID of the last event, if that is a number and the event had it itself.
    pub fn number(&self) -> Option<u64> {
        if self.had_own { digits(&self.id) } else { None }
    }

    /// Another stream starts.
    pub(super) fn clear(&mut self) {
        self.id.clear();
        self.retry = None;
        self.continues();
    }

    /// The stream was opened again.
    pub(super) fn continues(&mut self) {
        self.next.clone_from(&self.id);
        self.value.clear();
        (self.has_own, self.had_own) = (false, false);
    }

    /// A part of the value of a field.
    pub(super) fn add(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.value.len() + part.len() > ID_MAX {
            return Err(TooLong);
        }
        self.value.extend_from_slice(part);
        Ok(())
    }

    /// The field is complete.
    pub(super) fn take(&mut self, field: Field) {
        match field {
            Field::Id if !self.value.contains(&0) => {
                self.has_own = true;
                std::mem::swap(&mut self.next, &mut self.value);
            }
            Field::Retry => {
                let millis = digits(&self.value);
                let span = millis.map(|n| Span(n.saturating_mul(1_000_000)));
                self.retry = span.or(self.retry);
            }
            Field::Id => {}
        }
        self.value.clear();
    }

    /// The event is complete, whether it has data or not.
    pub(super) fn event_ends(&mut self) {
        self.had_own = std::mem::take(&mut self.has_own);
        if self.had_own {
            self.id.clone_from(&self.next);
        }
    }
}

/// A number that has only digits.
fn digits(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
