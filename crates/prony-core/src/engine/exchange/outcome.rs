//! The results of one event on a connection. The code that handles the event fills it in, and the
//! engine applies it before it handles the next.

use prony_base::fault::Fault;
use prony_base::units::RequestId;

/// What happened to a connection's exchanges. One value is reused, so that its lists keep their
/// memory.
#[derive(Debug, Default)]
pub(in crate::engine) struct Outcome {
    /// The owners of exchanges that have ended, one entry for each exchange.
    pub(in crate::engine) ended: Vec<u32>,
    /// Exchanges that left the connection and are sent again, and those that follow a redirect.
    pub(in crate::engine) again: Vec<RequestId>,
    /// Exchanges that left the connection because they failed without affecting the others, and
    /// why.
    pub(in crate::engine) failed: Vec<(RequestId, Fault)>,
    /// Exchanges that left the connection because their stream has ended before its bound: they
    /// are sent again later.
    pub(in crate::engine) reopens: Vec<RequestId>,
    /// The code with which the peer has closed a socket while no step was made on it.
    pub(in crate::engine) closed: Option<u16>,
    /// A reply was not a success.
    pub(in crate::engine) missed: bool,
    /// A reply was not a success, an exchange is sent again or has failed alone, or there is
    /// something to do for streams of messages or sockets. Set by what reads replies.
    pub(in crate::engine) is_rare: bool,
}

impl Outcome {
    /// While replies are read: the exchange has left the connection and is sent again.
    pub(in crate::engine) fn goes_again(&mut self, id: RequestId) {
        self.again.push(id);
        self.is_rare = true;
    }

    /// While replies are read: the exchange has left the connection, as it has failed without
    /// affecting the others.
    pub(in crate::engine) fn fails_alone(&mut self, id: RequestId, why: Fault) {
        self.failed.push((id, why));
        self.is_rare = true;
    }

    /// Whether nothing is left to apply.
    pub(in crate::engine) fn is_applied(&self) -> bool {
        let Self { ended, again, failed, reopens, closed, missed, is_rare } = self;
        let lists = [again.is_empty(), failed.is_empty(), reopens.is_empty()];
        ended.is_empty() && lists == [true; 3] && closed.is_none() && !missed && !is_rare
    }
}
