//! One association: the crate's state of it, and ours.

use std::net::SocketAddr;
use std::time::Instant;

use prony_core::units::{ConnId, Nanos};
use sctp_proto::{Association, PayloadProtocolIdentifier as Identifier};

use super::link::Reserved;
use super::wire::{self, Header, kind};

/// The stream that messages are sent on.
pub(super) const STREAM: u16 = 0;
/// Streams that a peer may use.
pub(super) const STREAMS: u16 = 16;
/// The longest message, in bytes, its framing included.
pub(super) const MESSAGE_MAX: usize = super::SIZE_MAX as usize + 64;
/// What may wait to be sent, in bytes; a message is taken whole or not at all.
const SEND_MAX: usize = 2 * MESSAGE_MAX;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The peer has not agreed yet.
    Opening,
    /// Messages go both ways.
    Open,
    /// The peer has ended it, and the machine knows.
    Ended,
    /// The machine has let go of it, but the peer has not agreed to the end yet.
    Ending,
}

/// What came of a message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// It was taken.
    Taken,
    /// There is no room for it now.
    Full,
    /// It can never be sent.
    Dead,
}

/// One association.
#[derive(Debug)]
pub(super) struct Assoc {
    pub(super) proto: Association,
    pub(super) state: State,
    /// The machine's name for it, until it lets go.
    pub(super) id: Option<ConnId>,
    /// Where its packets go.
    pub(super) remote: SocketAddr,
    /// When it wants to be called, as the driver has noted it.
    pub(super) timer: Option<Instant>,
    /// When something was heard of the peer, or the machine let go.
    pub(super) since: Nanos,
    /// A message did not fit: the next comes when there is room again.
    pub(super) blocked: bool,
    /// Whether it was ever open.
    pub(super) was_open: bool,
    /// Chunks of data that were sent again.
    pub(super) retransmits: u64,
    /// The header of packets to the peer, once its tag is known.
    peer: Option<Header>,
    /// The highest number of a chunk of data that was sent.
    highest: Option<u32>,
    /// The number up to which all data of the peer has arrived.
    arrived: Option<u32>,
    /// Over IP alone: its port is nobody else's.
    _port: Option<Reserved>,
}

impl Assoc {
    pub(super) fn new(
        proto: Association,
        id: Option<ConnId>,
        remote: SocketAddr,
        now: Nanos,
        port: Option<Reserved>,
    ) -> Self {
        Self {
            proto,
            state: State::Opening,
            id,
            remote,
            timer: None,
            since: now,
            blocked: false,
            was_open: false,
            retransmits: 0,
            peer: None,
            highest: None,
            arrived: None,
            _port: port,
        }
    }

    /// Take a message to send.
    pub(super) fn give(&mut self, message: &[u8]) -> Given {
        if message.len() > MESSAGE_MAX {
            return Given::Dead;
        }
        if self.waiting() + message.len() > SEND_MAX {
            return Given::Full;
        }
        let stream = self.proto.stream(STREAM);
        match stream.and_then(|mut s| s.write_with_ppi(message, Identifier::Binary)) {
            Ok(n) if n == message.len() => Given::Taken,
            _ => Given::Dead,
        }
    }

    /// Bytes that are not sent, or not acknowledged.
    pub(super) fn waiting(&mut self) -> usize {
        self.proto.stream(STREAM).and_then(|s| s.buffered_amount()).unwrap_or(0)
    }

    /// Whether there is room for the longest message again.
    pub(super) fn has_room(&mut self) -> bool {
        self.waiting() <= SEND_MAX - MESSAGE_MAX
    }

    /// The packets that are to be sent now; whether the last word of the association is among them.
    pub(super) fn packets(&mut self, now: Instant, send: &mut dyn FnMut(&[u8])) -> bool {
        let mut is_last = false;
        while let Some(transmit) = self.proto.poll_transmit(now) {
            let sctp_proto::Payload::RawEncode(packets) = transmit.payload else { continue };
            for packet in packets {
                self.note(&packet);
                is_last |= wire::first(&packet) == Some(kind::SHUTDOWN_COMPLETE);
                match self.corrected(&packet) {
                    Some(other) => send(&other),
                    None => send(&packet),
                }
            }
        }
        is_last
    }

    /// The packet that ends it at once, where the peer can be told.
    pub(super) fn abort(&self) -> Option<Vec<u8>> {
        self.peer.map(wire::abort)
    }

    /// Whether a packet of that header, sent by the peer, would have our answers' tag.
    pub(super) fn is_to(&self, header: Header) -> bool {
        let answered = Header { source: header.destination, destination: header.source, ..header };
        self.peer == Some(answered)
    }

    /// Take note of a packet of the peer that is whole.
    pub(super) fn hear(&mut self, packet: &[u8]) {
        for chunk in wire::chunks(packet) {
            if let Some(first) = chunk.begins_with().filter(|_| self.state == State::Opening) {
                self.arrived = Some(first.wrapping_sub(1));
            }
            let next = self.arrived.map(|number| number.wrapping_add(1));
            if let Some((number, _)) = chunk.data()
                && Some(number) == next
            {
                self.arrived = next;
            }
        }
    }

    /// What is sent instead of a packet: the crate puts a number of its own data where a SHUTDOWN
    /// has to say how much of the peer's has arrived. Peers need not take such a one for an end.
    fn corrected(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let is_it = wire::first(packet) == Some(kind::SHUTDOWN);
        Some(wire::shutdown(Header::read(packet).filter(|_| is_it)?, self.arrived?))
    }

    /// Remember where to, and count what is sent again.
    fn note(&mut self, packet: &[u8]) {
        let header = Header::read(packet).filter(|h| h.tag != 0);
        self.peer = header.or(self.peer);
        for chunk in wire::chunks(packet) {
            match (chunk.data(), self.highest) {
                (Some((number, _)), Some(highest)) if !wire::is_behind(number, highest) => {
                    self.retransmits += 1;
                }
                (Some((number, _)), _) => self.highest = Some(number),
                (None, _) => {}
            }
            let further = |number: &u32| self.arrived.is_some_and(|a| wire::is_behind(*number, a));
            self.arrived = chunk.acknowledged().filter(further).or(self.arrived);
        }
    }
}
