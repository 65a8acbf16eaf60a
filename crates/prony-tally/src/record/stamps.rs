//! The four timestamps of a request, and the times between them.

use prony_base::units::{Nanos, Span};

/// The timestamps of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When the request was due: by the schedule (open loop) or when its user was ready (closed
    /// loop).
    pub intended: Nanos,
    /// The turn of the event loop in which its first byte was passed to the kernel.
    pub sent: Nanos,
    /// The turn in which the first byte of its reply was read.
    pub first: Nanos,
    /// The turn in which the last byte of its reply was read, or in which it was given up.
    pub done: Nanos,
    /// Part of `sent - intended`: time in the client's queue for a connection, or for capacity on
    /// one.
    pub queue: Span,
    /// Part of `sent - intended`: time waiting for the connection that was opened for it.
    pub connect: Span,
    /// Part of `sent - intended`: time on an open connection at the peer's limit of streams.
    pub stream: Span,
    /// Part of `connect`: the longest time for which the meter can have failed to notice that the
    /// connection was open.
    pub late: Span,
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

    /// The send lag, the lateness of the meter itself: `sent - intended` without the waits for
    /// connections and streams.
    pub fn lag(&self) -> Span {
        self.sent.since(self.intended) - self.queue - self.connect - self.stream
    }
}
