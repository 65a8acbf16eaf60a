//! Pings on a schedule, and the pongs to them.

use std::collections::VecDeque;

use crate::proto::Out;
use prony_base::units::{Nanos, Span};
use prony_base::websocket::Frame;

/// The pings of one connection. Each has its number as its content.
#[derive(Debug)]
pub(super) struct Pings {
    every: Span,
    next: Nanos,
    /// When those were due that are not sent.
    due: VecDeque<Nanos>,
    /// The number of the next one that is sent.
    number: u64,
    /// The numbers of those that were sent and have no pong, and when they were due and sent.
    sent: VecDeque<(u64, [Nanos; 2])>,
}

impl Pings {
    /// On a connection that has opened now.
    pub(super) fn new(every: Span, now: Nanos) -> Self {
        let (due, sent) = (VecDeque::new(), VecDeque::new());
        Self { every, next: now + every, due, number: 0, sent }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }

    /// Whether one waits to be sent.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn advance(&mut self, now: Nanos) {
        while self.next <= now {
            self.due.push_back(self.next);
            self.next = self.next + self.every;
        }
    }

    /// Write the next one that is due, in this frame.
    pub(super) fn write_next(&mut self, frame: &Frame, now: Nanos, out: &mut Out) {
        let Some(due) = self.due.pop_front() else { return };
        out.wrote_ping(due);
        frame.write(&self.number.to_be_bytes(), out.bytes());
        self.sent.push_back((self.number, [due, now]));
        self.number += 1;
    }

    /// A pong has arrived. Returns when the ping was due and sent to which it answers; those before
    /// it are answered by no other.
    pub(super) fn answered(&mut self, content: &[u8]) -> Option<[Nanos; 2]> {
        let number = u64::from_be_bytes(content.try_into().ok()?);
        let place = self.sent.iter().position(|&(sent, _)| sent == number)?;
        self.sent.drain(..=place).next_back().map(|(_, times)| times)
    }
}
