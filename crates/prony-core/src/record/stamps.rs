//! The four moments of a request, and the times that lie between them.

use crate::units::{Nanos, Span};

/// The life of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When the schedule (open loop) or the user (closed loop) wanted it to start.
    pub intended: Nanos,
    /// The turn in which its first byte was given to the kernel.
    pub sent: Nanos,
    /// The turn in which the first byte of its reply arrived.
    pub first: Nanos,
    /// The turn in which the last byte of its reply arrived, or in which it was given up.
    pub done: Nanos,
    /// Part of `sent - intended`: waiting in the client's queue for a connection, or for room on
    /// one.
    pub queue: Span,
    /// Part of `sent - intended`: waiting for the connection that was opened for it.
    pub connect: Span,
    /// Part of `sent - intended`: waiting on an open connection for the peer's limit of streams.
    pub stream: Span,
}

impl Stamps {
    /// `done - intended`.
    pub fn response(&self) -> Span {
        self.done.since(self.intended)
    }

    /// `done - sent`.
    pub fn service(&self) -> Span {
        self.done.since(self.sent)
    }

    /// `first - sent`.
    pub fn first_byte(&self) -> Span {
        self.first.since(self.sent)
    }

    /// `done - first`.
    pub fn transfer(&self) -> Span {
        self.done.since(self.first)
    }

    /// How late the meter itself was: `sent - intended` less the waits that are not its own doing.
    pub fn lag(&self) -> Span {
        self.sent.since(self.intended) - self.queue - self.connect - self.stream
    }
}
