//! What one look at a connection has led to. Whoever looks fills it in; the engine applies it
//! before it looks at anything else.

use crate::fault::Fault;
use crate::units::RequestId;

/// What has become of a connection's exchanges. One value, used again and again: its lists keep
/// their memory.
#[derive(Debug, Default)]
pub(in crate::engine) struct Outcome {
    /// The owners of exchanges that have ended, one entry for each exchange.
    pub(in crate::engine) ended: Vec<u32>,
    /// Exchanges that left the connection and go out again.
    pub(in crate::engine) again: Vec<RequestId>,
    /// Exchanges that left the connection because they failed alone, and why.
    pub(in crate::engine) failed: Vec<(RequestId, Fault)>,
    /// A reply was no success.
    pub(in crate::engine) missed: bool,
}

impl Outcome {
    /// Whether nothing is left to be applied.
    pub(in crate::engine) fn is_applied(&self) -> bool {
        let Self { ended, again, failed, missed } = self;
        ended.is_empty() && again.is_empty() && failed.is_empty() && !missed
    }
}
