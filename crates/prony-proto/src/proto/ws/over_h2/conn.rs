//! One connection: its sockets, and which of them have something to do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::line::Lines;
use crate::proto::h2;
use crate::proto::ws::socket::Current;
use prony_base::units::Nanos;
use prony_base::websocket::CloseCode;

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    pub(super) h2: h2::Conn,
    /// Whether the peer has allowed extended CONNECT.
    pub(super) is_allowed: bool,
    pub(super) lines: Lines,
    /// The streams that have something to send, in turn.
    pub(super) queue: VecDeque<u32>,
    /// Whether some of these may have become able to send.
    pub(super) may_send: bool,
    /// When streams have a ping to send, or have lingered.
    pub(super) alarms: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Steps that end without a socket: by a fault, or by the close of the peer.
    pub(super) without: Vec<Current>,
    /// The codes with which the peer has closed sockets between two steps, by their names.
    pub(super) closed: Vec<(u32, CloseCode)>,
}

impl Conn {
    /// Let a stream send in turn.
    pub(super) fn queue(&mut self, stream: u32) {
        let Some(line) = self.lines.get_mut(stream) else { return };
        if !std::mem::replace(&mut line.is_queued, true) {
            self.queue.push_back(stream);
        }
        self.may_send = true;
    }

    /// The code with which the peer has closed the socket of this name, once.
    pub(super) fn take_closed(&mut self, name: u32) -> Option<CloseCode> {
        let at = self.closed.iter().position(|(of, _)| *of == name)?;
        Some(self.closed.swap_remove(at).1)
    }
}
