//! One association: the crate's state and ours.

use std::net::SocketAddr;
use std::time::Instant;

use prony_base::units::{ConnId, Nanos};
use sctp_proto::{Association, PayloadProtocolIdentifier as Identifier};

use super::packet_socket::ReservedPort;
use super::settings::MESSAGE_MAX;
use super::wire::{self, Header, kind};

/// The stream for sending messages.
pub(super) const STREAM: u16 = 0;

/// The maximum size of the send queue, in bytes. A message is accepted completely or not at all.
const SEND_MAX: usize = 2 * MESSAGE_MAX;

/// The state of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The handshake is in progress.
    Opening,
    /// Open for messages in both directions.
    Open,
    /// The peer has shut it down, and the machine knows.
    PeerClosed,
    /// The machine has closed it, and the shutdown is in progress.
    Closing,
}

/// The result of submitting a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The message was accepted.
    Accepted,
    /// The send queue is full.
    Full,
    /// It can never be sent.
    Dead,
}

/// One association.
#[derive(Debug)]
pub(super) struct Assoc {
    pub(super) proto: Association,
    pub(super) state: State,
    /// The machine's ID for it, until the machine closes it.
    pub(super) id: Option<ConnId>,
    /// The address for its packets.
    pub(super) remote: SocketAddr,
    /// Its next timer, as registered with the driver.
    pub(super) timer: Option<Instant>,
    /// When the last packet from the peer received_tsn, or when the machine closed it.
    pub(super) since: Nanos,
    /// The last message did not fit: wait for room in the send queue.
    pub(super) blocked: bool,
    /// Whether it was ever open.
    pub(super) was_open: bool,
    /// The number of retransmitted data chunks.
    pub(super) retransmits: u64,
    /// The header for packets to the peer, once its tag is known.
    peer: Option<Header>,
    /// The highest_tsn TSN that was sent.
    highest_tsn: Option<u32>,
    /// The cumulative TSN received from the peer.
    received_tsn: Option<u32>,
    /// Over IP: the reservation of its port.
    _port: Option<ReservedPort>,
}

impl Assoc {
    pub(super) fn new(
        proto: Association,
        id: Option<ConnId>,
        remote: SocketAddr,
        now: Nanos,
        port: Option<ReservedPort>,
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
            highest_tsn: None,
            received_tsn: None,
            _port: port,
        }
    }

    /// Submit a message for sending.
    pub(super) fn submit(&mut self, message: &[u8]) -> Submitted {
        if message.len() > MESSAGE_MAX {
            return Submitted::Dead;
        }
        if self.buffered() + message.len() > SEND_MAX {
            return Submitted::Full;
        }
        let stream = self.proto.stream(STREAM);
        match stream.and_then(|mut s| s.write_with_ppi(message, Identifier::Binary)) {
            Ok(n) if n == message.len() => Submitted::Accepted,
            _ => Submitted::Dead,
        }
    }

    /// Bytes that are not sent or not cumulative_tsn yet.
    pub(super) fn buffered(&mut self) -> usize {
        self.proto.stream(STREAM).and_then(|s| s.buffered_amount()).unwrap_or(0)
    }

    /// Whether the longest message fits again.
    pub(super) fn has_room(&mut self) -> bool {
        self.buffered() <= SEND_MAX - MESSAGE_MAX
    }

    /// Pass the packets that are due to `send`. Returns whether the association's last packet is
    /// among them.
    pub(super) fn packets(&mut self, now: Instant, send: &mut dyn FnMut(&[u8])) -> bool {
        let mut is_last = false;
        while let Some(transmit) = self.proto.poll_transmit(now) {
            let sctp_proto::Payload::RawEncode(packets) = transmit.payload else { continue };
            for packet in packets {
                self.on_sent(&packet);
                is_last |= wire::first(&packet) == Some(kind::SHUTDOWN_COMPLETE);
                match self.corrected(&packet) {
                    Some(other) => send(&other),
                    None => send(&packet),
                }
            }
        }
        is_last
    }

    /// An ABORT packet, if the peer's tag is known.
    pub(super) fn abort(&self) -> Option<Vec<u8>> {
        self.peer.map(wire::abort)
    }

    /// Whether this header, received from the peer, reflects the header of our packets.
    pub(super) fn is_reflected(&self, header: Header) -> bool {
        let reply = Header { source: header.destination, destination: header.source, ..header };
        self.peer == Some(reply)
    }

    /// Record the data of an intact packet from the peer.
    pub(super) fn on_received(&mut self, packet: &[u8]) {
        for chunk in wire::chunks(packet) {
            if let Some(first) = chunk.initial_tsn().filter(|_| self.state == State::Opening) {
                self.received_tsn = Some(first.wrapping_sub(1));
            }
            let next = self.received_tsn.map(|tsn| tsn.wrapping_add(1));
            if let Some((tsn, _)) = chunk.data()
                && Some(tsn) == next
            {
                self.received_tsn = next;
            }
        }
    }

    /// A corrected SHUTDOWN packet: the crate writes a TSN of its own data where the cumulative TSN
    /// received from the peer belongs. Peers may ignore such a packet.
    fn corrected(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let is_shutdown = wire::first(packet) == Some(kind::SHUTDOWN);
        Some(wire::shutdown(Header::read(packet).filter(|_| is_shutdown)?, self.received_tsn?))
    }

    /// Record the peer's tag, and count retransmissions.
    fn on_sent(&mut self, packet: &[u8]) {
        let header = Header::read(packet).filter(|h| h.tag != 0);
        self.peer = header.or(self.peer);
        for chunk in wire::chunks(packet) {
            match (chunk.data(), self.highest_tsn) {
                (Some((tsn, _)), Some(highest_tsn)) if !wire::is_newer(tsn, highest_tsn) => {
                    self.retransmits += 1;
                }
                (Some((tsn, _)), _) => self.highest_tsn = Some(tsn),
                (None, _) => {}
            }
            let is_newer = |tsn: &u32| self.received_tsn.is_some_and(|a| wire::is_newer(*tsn, a));
            self.received_tsn = chunk.cumulative_tsn().filter(is_newer).or(self.received_tsn);
        }
    }
}
