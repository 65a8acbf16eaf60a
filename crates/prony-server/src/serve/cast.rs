//! A message of WebSocket that is to be sent to all others.

use prony_base::units::ConnId;
use prony_base::websocket::Opcode;

use super::work::ENTRY;

/// A delivery that is held back, and the number of its publisher.
pub(super) type Held = Option<Box<(u64, Vec<u8>)>>;

/// A message that is to be sent to all connections but that of its publisher.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) publisher: (ConnId, u32),
    /// The number of the handshake of its publisher, and its own number on that connection.
    pub(super) number: u64,
    pub(super) k: u64,
    pub(super) opcode: Opcode,
    pub(super) message: Vec<u8>,
    /// How far it is: the next slot of connections, and the requests so far when it began. Those
    /// that came later are no receivers.
    pub(super) slot: usize,
    pub(super) before: u64,
    /// Its frame, not compressed and compressed.
    pub(super) frames: [Option<Vec<u8>>; 2],
}

/// How many bytes of messages may wait to be sent to all others. Beyond it, the messages of
/// publishers wait on their connections, which are then not read.
pub(super) const CASTS: usize = 1 << 20;

impl Cast {
    pub(super) fn cost(&self) -> usize {
        ENTRY + self.message.len()
    }
}
