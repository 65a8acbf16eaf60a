//! A driver's poll of its sockets, and what is known of the poll before it.

use super::Nanos;

/// A poll of all sockets of a driver, blocking or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// When the driver asked the kernel.
    pub at: Nanos,
    /// The result of the poll before it.
    pub previous: PreviousPoll,
}

/// What the previous poll left in the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousPoll {
    /// All ready events were delivered.
    Drained,
    /// Ready events may remain.
    Partial,
    /// There were no ready events, immediately before the next poll.
    Empty,
}
