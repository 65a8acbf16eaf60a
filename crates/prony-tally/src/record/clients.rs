//! Statistics of the independent clients of a closed loop.

use super::Recorder;
use prony_base::units::Nanos;

/// What one client has done. Its times are those of its first connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTally {
    /// When its connect started; `None`: it has not started.
    pub began: Option<Nanos>,
    /// When its connection could carry requests, with TLS if the plan wants it.
    pub ready: Option<Nanos>,
    /// When the first byte of the application protocol arrived.
    pub first_byte: Option<Nanos>,
    /// Requests of the measurement that ended with a reply.
    pub replies: u64,
    /// Requests of the measurement that it was to start and did not, as it gave up.
    pub abandoned: u64,
    /// When its last request ended.
    pub last: Nanos,
    /// Whether it gave up, and because of a timeout.
    pub gave_up: Option<bool>,
}

impl Recorder {
    /// Keep what the clients have done.
    pub fn clients(&mut self, clients: impl Iterator<Item = ClientTally>) {
        self.main.tally.clients.extend(clients);
    }
}
