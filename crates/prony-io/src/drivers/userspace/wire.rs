//! The parts of SCTP packets (RFC 9260) that the driver itself reads and writes, outside the
//! crate's associations.

use crc::{CRC_32_ISCSI, Crc};

/// The size of the common header.
const HEADER: usize = 12;
/// The size of a chunk's header.
const CHUNK: usize = 4;
/// The T flag of ABORT and SHUTDOWN COMPLETE: the tag is reflected from the packet that it replies
/// to.
const REFLECTED: u8 = 1;
/// The error cause of an ABORT: initiated by the user.
const USER_INITIATED: [u8; 4] = [0, 12, 0, 4];

const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Chunk types.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const INIT: u8 = 1;
    pub(crate) const INIT_ACK: u8 = 2;
    pub(crate) const SACK: u8 = 3;
    pub(crate) const ABORT: u8 = 6;
    pub(crate) const SHUTDOWN: u8 = 7;
    pub(crate) const SHUTDOWN_ACK: u8 = 8;
    pub(crate) const ERROR: u8 = 9;
    pub(crate) const SHUTDOWN_COMPLETE: u8 = 14;
}

/// The ports and the verification tag of a packet, which identify its association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The sender's port.
    pub(super) source: u16,
    /// The receiver's port.
    pub(super) destination: u16,
    /// The tag that the receiver has chosen; 0 in an INIT packet.
    pub(super) tag: u32,
}

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) value: &'a [u8],
}

impl Header {
    /// The header of a packet, if the packet is long enough.
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER] = packet.first_chunk()?;
        Some(Self {
            source: u16::from_be_bytes([head[0], head[1]]),
            destination: u16::from_be_bytes([head[2], head[3]]),
            tag: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        })
    }

    fn reply_header(self, tag: u32) -> Self {
        Self { source: self.destination, destination: self.source, tag }
    }
}

impl Chunk<'_> {
    /// The TSN and the stream of a DATA chunk.
    pub(super) fn data(&self) -> Option<(u32, u16)> {
        let [a, b, c, d, e, f, ..] = *self.value else { return None };
        let is_data = self.kind == kind::DATA;
        is_data.then(|| (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f])))
    }

    /// The initial TSN of an INIT or INIT ACK chunk.
    pub(super) fn initial_tsn(&self) -> Option<u32> {
        let is_opening = matches!(self.kind, kind::INIT | kind::INIT_ACK);
        let tsn = self.value.get(12..16)?.first_chunk()?;
        is_opening.then(|| u32::from_be_bytes(*tsn))
    }

    /// The cumulative TSN of a SACK chunk.
    pub(super) fn cumulative_tsn(&self) -> Option<u32> {
        let is_sack = self.kind == kind::SACK;
        self.value.first_chunk().filter(|_| is_sack).map(|tsn| u32::from_be_bytes(*tsn))
    }

    /// Whether the tag of an ABORT is reflected.
    pub(super) fn is_reflected(&self) -> bool {
        self.flags & REFLECTED != 0
    }
}

/// The chunks of a packet, up to the first truncated one.
pub(super) fn chunks(packet: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    let mut rest = packet.get(HEADER..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        let [kind, flags, a, b, ..] = *rest else { return None };
        let length = usize::from(u16::from_be_bytes([a, b]));
        let value = rest.get(CHUNK..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Chunk { kind, flags, value })
    })
}

/// The type of the first chunk.
pub(super) fn first(packet: &[u8]) -> Option<u8> {
    packet.get(HEADER).copied()
}

/// Whether a packet's checksum is correct.
pub(super) fn is_intact(packet: &[u8]) -> bool {
    let Some((head, rest)) = packet.split_at_checked(HEADER) else { return false };
    let expected = [head[8], head[9], head[10], head[11]];
    checksum(&head[..8], rest).to_le_bytes() == expected
}

/// An ABORT packet.
pub(super) fn abort(header: Header) -> Vec<u8> {
    packet(header, kind::ABORT, 0, &USER_INITIATED)
}

/// A SHUTDOWN packet with this cumulative TSN.
pub(super) fn shutdown(header: Header, received: u32) -> Vec<u8> {
    packet(header, kind::SHUTDOWN, 0, &received.to_be_bytes())
}

/// Whether `tsn` is newer than `other`, modulo 2^32.
pub(super) fn is_newer(tsn: u32, other: u32) -> bool {
    tsn.wrapping_sub(other) as i32 > 0
}

/// The reply to a packet that belongs to no association (RFC 9260, 8.4), so that its sender stops
/// retransmitting. Never longer than the packet.
pub(super) fn stray_reply(stray: &[u8]) -> Option<Vec<u8>> {
    if !is_intact(stray) || chunks(stray).any(|c| c.kind == kind::ABORT) {
        return None;
    }
    let (header, first) = (Header::read(stray)?, chunks(stray).next()?);
    let reflected = header.reply_header(header.tag);
    match first.kind {
        kind::SHUTDOWN_COMPLETE | kind::ERROR => None,
        kind::SHUTDOWN_ACK => Some(packet(reflected, kind::SHUTDOWN_COMPLETE, REFLECTED, &[])),
        // An INIT contains the tag for the reply.
        kind::INIT => {
            let tag = u32::from_be_bytes(*first.value.first_chunk()?);
            Some(packet(header.reply_header(tag), kind::ABORT, 0, &[]))
        }
        _ => Some(packet(reflected, kind::ABORT, REFLECTED, &[])),
    }
}

/// A packet with one chunk.
pub(super) fn packet(header: Header, kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(HEADER + CHUNK + value.len());
    all.extend_from_slice(&header.source.to_be_bytes());
    all.extend_from_slice(&header.destination.to_be_bytes());
    all.extend_from_slice(&header.tag.to_be_bytes());
    all.extend_from_slice(&[0; 4]);
    all.extend_from_slice(&[kind, flags, 0, (CHUNK + value.len()) as u8]);
    all.extend_from_slice(value);
    sign(&mut all);
    all
}

/// Write a packet's checksum.
pub(super) fn sign(packet: &mut [u8]) {
    let Some((head, rest)) = packet.split_at_mut_checked(HEADER) else { return };
    let sum = checksum(&head[..8], rest);
    head[8..].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a packet, computed with zeros in its place.
fn checksum(before: &[u8], behind: &[u8]) -> u32 {
    let mut digest = CHECKSUM.digest();
    digest.update(before);
    digest.update(&[0; 4]);
    digest.update(behind);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Header = Header { source: 7, destination: 9, tag: 0xA1B2_C3D4 };

    /// The check value of CRC32c (RFC 9260, appendix A; the same as for iSCSI).
    #[test]
    fn checksum_matches_the_standard() {
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn written_packets_can_be_read() {
        let sent = abort(TO);
        assert_eq!((Header::read(&sent), sent.len()), (Some(TO), 20));
        let all: Vec<_> = chunks(&sent).collect();
        assert_eq!(all, [Chunk { kind: kind::ABORT, flags: 0, value: &USER_INITIATED }]);
        assert!(is_intact(&sent));
        for i in 0..sent.len() {
            let mut corrupted = sent.clone();
            corrupted[i] ^= 1;
            assert!(!is_intact(&corrupted), "byte {i}");
        }
    }

    #[test]
    fn reads_tsns_of_chunks() {
        let mut opening = 7_u32.to_be_bytes().to_vec();
        opening.extend_from_slice(&[0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 2]);
        let init = packet(TO, kind::INIT_ACK, 0, &opening);
        assert_eq!(chunks(&init).next().and_then(|c| c.initial_tsn()), Some(258));
        assert_eq!(chunks(&init).next().and_then(|c| c.cumulative_tsn()), None);
        let sack = packet(TO, kind::SACK, 0, &[0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(chunks(&sack).next().and_then(|c| c.cumulative_tsn()), Some(513));
        let end = shutdown(TO, 0x0102_0304);
        assert_eq!(end[12..], [kind::SHUTDOWN, 0, 0, 8, 1, 2, 3, 4]);
        assert!(is_intact(&end) && Header::read(&end) == Some(TO));
        assert!(is_newer(3, u32::MAX) && !is_newer(u32::MAX, 3) && !is_newer(4, 4));
    }

    #[test]
    fn replies_to_stray_packets_by_their_type() {
        let reply_to = |stray: &[u8]| {
            let reply = stray_reply(stray)?;
            assert!(reply.len() <= stray.len() && is_intact(&reply));
            let header = Header::read(&reply)?;
            assert_eq!((header.source, header.destination), (9, 7));
            Some((header.tag, reply[12], reply[13]))
        };
        let init = packet(Header { tag: 0, ..TO }, kind::INIT, 0, &[1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(reply_to(&init), Some((0x0102_0304, kind::ABORT, 0)));
        let data = packet(TO, kind::DATA, 3, &[0; 16]);
        assert_eq!(reply_to(&data), Some((TO.tag, kind::ABORT, REFLECTED)));
        let late = packet(TO, kind::SHUTDOWN_ACK, 0, &[]);
        assert_eq!(reply_to(&late), Some((TO.tag, kind::SHUTDOWN_COMPLETE, REFLECTED)));
        assert_eq!(reply_to(&packet(TO, kind::SHUTDOWN_COMPLETE, 0, &[])), None);
        assert_eq!(reply_to(&abort(TO)), None);
        let mut corrupted = data;
        corrupted[20] ^= 4;
        assert_eq!(reply_to(&corrupted), None);
    }

    #[test]
    fn reads_nothing_beyond_a_packet() {
        let data = packet(TO, kind::DATA, 3, &[0, 0, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, b'x']);
        assert_eq!(chunks(&data).next().and_then(|c| c.data()), Some((5, 2)));
        for n in 0..data.len() {
            assert!(chunks(&data[..n]).all(|c| c.value.len() < 13), "{n} bytes");
            assert!(stray_reply(&data[..n]).is_none());
        }
        // A chunk with length 0 must not cause an endless loop.
        let endless = packet(TO, kind::DATA, 0, &[]);
        let mut endless = endless;
        endless[15] = 0;
        assert_eq!(chunks(&endless).count(), 0);
    }
}
