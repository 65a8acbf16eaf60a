//! Pings at intervals, which find out whether the peer of a silent connection still exists.

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};

/// What the pings contain.
pub(super) const KEEPALIVE: [u8; 8] = *b"prony   ";

/// The pings of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keepalive {
    /// When the next one is due, and the last one must have been answered. 0: never.
    pub(super) next: Nanos,
    /// Whether one is to be sent.
    pub(super) owes: bool,
    /// Whether the last one was not answered.
    pub(super) awaits: bool,
}

impl Keepalive {
    #[inline]
    pub(super) fn deadline(self) -> Option<Nanos> {
        (self.next > Nanos::ZERO).then_some(self.next)
    }

    /// The next ping is due.
    ///
    /// # Errors
    /// The last one was not answered.
    pub(super) fn check(&mut self, now: Nanos, interval: Span) -> Result<(), Fault> {
        if self.awaits {
            return Err(Fault::NoPong);
        }
        *self = Self { next: now + interval, owes: true, awaits: true };
        Ok(())
    }
}
