//! A message while it is made: encoded bytes, and between them the parts that vary.

use prony_plan::plan::MessagePart;

use crate::wire::{WireType, put_bytes, put_key};

/// The fields of one message, in order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<MessagePart>,
    /// What follows them.
    pub(crate) bytes: Vec<u8>,
}

impl Parts {
    /// Adds a part that varies.
    pub(crate) fn push(&mut self, part: MessagePart) {
        self.flush();
        self.parts.push(part);
    }

    /// Adds a field that is a message.
    pub(crate) fn message(&mut self, number: u32, inner: Self) {
        match inner.parts.is_empty() {
            true => put_bytes(number, &inner.bytes, &mut self.bytes),
            false => self.push(MessagePart::Message { number, parts: inner.finish() }),
        }
    }

    /// Adds a field that is a group: it has no length, so its parts can stay beside others.
    pub(crate) fn group(&mut self, number: u32, inner: Self) {
        put_key(number, WireType::GroupStart, &mut self.bytes);
        if !inner.parts.is_empty() {
            self.flush();
            self.parts.extend(inner.parts);
        }
        self.bytes.extend(inner.bytes);
        put_key(number, WireType::GroupEnd, &mut self.bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.bytes.is_empty()
    }

    /// The parts of the message; one of bytes if nothing in it varies.
    pub(crate) fn finish(mut self) -> Vec<MessagePart> {
        if self.parts.is_empty() || !self.bytes.is_empty() {
            self.parts.push(MessagePart::Bytes(self.bytes));
        }
        self.parts
    }

    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            self.parts.push(MessagePart::Bytes(std::mem::take(&mut self.bytes)));
        }
    }
}
