//! The echo protocol on the wire, for both sides. `docs/echo-protocol.md` describes it.
//!
//! There are two framings. The short one is that of the ACE performance tests: 8 bytes open the
//! connection, each message has its length of 4 bytes before it, each reply is 2 bytes. The long
//! one has a header of [`HEADER`] bytes before every message and every reply. The first byte of a
//! connection distinguishes them: 0 or 1 in the short framing, the first byte of [`MAGIC`] in the
//! long one.

/// The first bytes of the header of the long framing: of a request, and with the highest bit of the
/// last byte set, of a reply. The last byte is the version.
pub const MAGIC: [u8; 4] = [0xEC, b'H', b'O', 1];
const REPLY_BIT: u8 = 0x80;

/// The length of the header of the long framing, in bytes.
pub const HEADER: usize = 20;
/// The length of the opening of a connection in the short framing, in bytes.
pub const OPENING: usize = 8;
/// The size of the length field before each message in the short framing, in bytes.
pub const LENGTH: usize = 4;
/// The length of each reply in the short framing, in bytes.
pub const SHORT_REPLY: u32 = 2;

/// The header of one message in the long framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which side has sent it.
    pub kind: Kind,
    /// How many bytes follow it.
    pub length: u32,
    /// The sender's number of the request; a reply has that of its request.
    pub sequence: u64,
}

/// Which side a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client, which requests a reply of `reply` bytes after its header.
    Request {
        /// Bytes of the reply.
        reply: u32,
    },
    /// The responder.
    Reply,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER] {
        let (is_reply, reply) = match self.kind {
            Kind::Request { reply } => (0, reply),
            Kind::Reply => (REPLY_BIT, 0),
        };
        let [m0, m1, m2, version] = MAGIC;
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        let [r0, r1, r2, r3] = reply.to_be_bytes();
        let [s0, s1, s2, s3, s4, s5, s6, s7] = self.sequence.to_be_bytes();
        let m3 = version | is_reply;
        [m0, m1, m2, m3, l0, l1, l2, l3, r0, r1, r2, r3, s0, s1, s2, s3, s4, s5, s6, s7]
    }

    /// The header at the start of `data`; `None` if there is none (of this version).
    ///
    /// # Panics
    /// If `data` is shorter than [`HEADER`].
    #[inline]
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; HEADER] = data.first_chunk().expect("a whole header");
        let [m0, m1, m2, m3, l0, l1, l2, l3, r0, r1, r2, r3, sequence @ ..] = *data;
        let is_reply = m3 & REPLY_BIT != 0;
        if [m0, m1, m2, m3 & !REPLY_BIT] != MAGIC {
            return None;
        }
        let kind = match (is_reply, u32::from_be_bytes([r0, r1, r2, r3])) {
            (false, reply) => Kind::Request { reply },
            (true, 0) => Kind::Reply,
            _ => return None,
        };
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        Some(Self { kind, length, sequence: u64::from_be_bytes(sequence) })
    }
}

/// The bytes that open a connection in the short framing: the sender's byte order, and how many
/// exchanges there will be; 0 means 2^32.
pub fn opening(exchanges: u32) -> [u8; OPENING] {
    let [a, b, c, d] = exchanges.to_le_bytes();
    [1, 0, 0, 0, a, b, c, d]
}

/// How many exchanges such an opening announces. Bytes 1 to 3 are padding, which senders do not
/// initialize.
pub fn announced(opening: [u8; OPENING]) -> u64 {
    let [order, _, _, _, count @ ..] = opening;
    let n = if order == 0 { u32::from_be_bytes(count) } else { u32::from_le_bytes(count) };
    if n == 0 { 1 << 32 } else { u64::from(n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_headers_as_they_are_written() {
        for kind in [Kind::Request { reply: 0 }, Kind::Request { reply: 70_000 }, Kind::Reply] {
            let header = Header { kind, length: 65_536, sequence: 0x0102_0304_0506_0708 };
            assert_eq!(Header::read(&header.bytes()), Some(header));
        }
        let request = Header { kind: Kind::Request { reply: 2 }, length: 128, sequence: 7 };
        let bytes = request.bytes();
        let expected = b"\xecHO\x01\0\0\0\x80\0\0\0\x02\0\0\0\0\0\0\0\x07";
        assert_eq!(&bytes, expected);
    }

    #[test]
    fn rejects_malformed_headers() {
        let good = Header { kind: Kind::Reply, length: 2, sequence: 1 }.bytes();
        for (at, byte) in [(0, 1), (1, b'h'), (3, 2), (3, 0x82), (11, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Header::read(&bad), None, "byte {at} is {byte}");
        }
    }

    /// The recorded opening of the old client with 100 warm-up exchanges and 2 more, and the same
    /// from a machine of the other byte order, with uninitialized padding.
    #[test]
    fn reads_openings_in_both_byte_orders() {
        assert_eq!(opening(102), [1, 0, 0, 0, 0x66, 0, 0, 0]);
        assert_eq!(announced(opening(102)), 102);
        assert_eq!(announced([0, 9, 8, 7, 0, 0, 0, 0x66]), 102);
        assert_eq!(announced([77, 0, 0, 0, 0x66, 0, 0, 0]), 102);
        assert_eq!(announced(opening(0)), 1 << 32);
    }
}
