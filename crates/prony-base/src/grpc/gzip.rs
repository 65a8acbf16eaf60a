//! Compressed messages, in memory that is used again.

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use super::messages::{PREFIX, length, prefix};

/// The start of a member: no flags, no time, an unknown system (RFC 1952, 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// The flags of a head: what follows it.
const HAS_CHECKSUM: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
/// The length of a trailer: the checksum and the length of the data.
const TRAILER: usize = 8;
/// Room for output is added in steps of this many bytes.
const STEP: usize = 4 << 10;
/// A longer message is not kept for reuse, in bytes.
const KEPT_MAX: usize = 1 << 20;

/// Why a compressed message has no plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpackable {
    /// The bytes are not in the format of gzip.
    Malformed,
    /// The message is longer than allowed.
    TooLong,
}

/// Compresses and decompresses messages in the format of gzip (RFC 1952). Allocates when it is used
/// first, and for messages that are longer than those before.
#[derive(Debug, Default)]
pub struct Gzip {
    deflate: Option<Box<Compress>>,
    inflate: Option<Box<Decompress>>,
    message: Vec<u8>,
}

impl Gzip {
    /// Append the messages of a body to `out`, each compressed with its prefix. Empty messages, and
    /// those that are compressed, stay as they are.
    pub fn pack(&mut self, mut body: &[u8], out: &mut Vec<u8>) {
        while !body.is_empty() {
            let (message, rest) = body.split_at(length(body));
            if message.len() <= PREFIX || message[0] != 0 {
                out.extend_from_slice(message);
            } else {
                self.pack_one(&message[PREFIX..], out);
            }
            body = rest;
        }
    }

    fn pack_one(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&prefix(true, 0));
        self.pack_bytes(message, out);
        let packed = (out.len() - begin - PREFIX) as u32;
        out[begin..begin + PREFIX].copy_from_slice(&prefix(true, packed));
    }

    /// Append these bytes as one member. The same bytes always give the same member.
    pub fn pack_bytes(&mut self, message: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&HEAD);
        let deflate = self.deflate.get_or_insert_with(|| {
            // What grpc-go uses by default.
            Box::new(Compress::new(Compression::default(), false))
        });
        deflate.reset();
        loop {
            out.reserve(STEP);
            let used = deflate.total_in() as usize;
            match deflate.compress_vec(&message[used..], out, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                Ok(_) => {}
                Err(why) => unreachable!("output has room, and input is complete: {why}"),
            }
        }
        let mut crc = Crc::new();
        crc.update(message);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
    }

    /// The message of at most `limit` bytes behind its compressed form.
    ///
    /// # Errors
    /// It is longer, or the bytes are malformed.
    pub fn unpack(&mut self, mut packed: &[u8], limit: usize) -> Result<&[u8], Unpackable> {
        if self.message.capacity() > KEPT_MAX {
            self.message = Vec::new();
        }
        self.message.clear();
        loop {
            packed = self.member(packed, limit)?;
            if packed.is_empty() {
                return Ok(&self.message);
            }
        }
    }

    /// Append the data of one member to the message. Returns what follows it.
    fn member<'a>(&mut self, packed: &'a [u8], limit: usize) -> Result<&'a [u8], Unpackable> {
        let data = after_head(packed).ok_or(Unpackable::Malformed)?;
        let inflate = self.inflate.get_or_insert_with(|| Box::new(Decompress::new(false)));
        inflate.reset(false);
        let begin = self.message.len();
        let out = &mut self.message;
        let used = loop {
            // One byte more than the limit shows that there are more.
            let room = (limit + 1 - out.len()).min(STEP);
            out.reserve(room);
            let (used, had) = (inflate.total_in() as usize, out.len());
            let status = inflate.decompress_vec(&data[used..], out, FlushDecompress::None);
            let now = inflate.total_in() as usize;
            if out.len() > limit {
                return Err(Unpackable::TooLong);
            }
            match status {
                Ok(Status::StreamEnd) => break now,
                Ok(_) if now > used || out.len() > had => {}
                _ => return Err(Unpackable::Malformed),
            }
        };
        let (trailer, rest) =
            data[used..].split_first_chunk::<TRAILER>().ok_or(Unpackable::Malformed)?;
        let mut crc = Crc::new();
        crc.update(&out[begin..]);
        let [sum, amount] = [crc.sum(), crc.amount()].map(u32::to_le_bytes);
        match *trailer == *[sum, amount].as_flattened() {
            true => Ok(rest),
            false => Err(Unpackable::Malformed),
        }
    }
}

/// What follows the head of a member; `None`: the head is malformed or incomplete.
fn after_head(packed: &[u8]) -> Option<&[u8]> {
    let (head, mut rest) = packed.split_first_chunk::<10>()?;
    if head[..3] != HEAD[..3] || head[3] & 0xe0 != 0 {
        return None;
    }
    let flags = head[3];
    if flags & HAS_EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(u16::from_le_bytes(*length).into()..)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            rest = &rest[rest.iter().position(|&byte| byte == 0)? + 1..];
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use flate2::GzBuilder;
    use flate2::read::MultiGzDecoder;
    use flate2::write::GzEncoder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn packed(message: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(message).expect("a Vec takes all");
        encoder.finish().expect("a Vec takes all")
    }

    proptest! {
        /// The reader and the writer of the library agree.
        #[test]
        fn packs_and_unpacks(messages in vec(vec(0_u8..9, 0..9_000), 1..4)) {
            let (mut gzip, mut body, mut out) = (Gzip::default(), Vec::new(), Vec::new());
            for message in &messages {
                body.extend(prefix(false, message.len() as u32));
                body.extend(message);
            }
            gzip.pack(&body, &mut out);
            let mut rest = &out[..];
            for message in &messages {
                let (one, after) = rest.split_at(length(rest));
                rest = after;
                prop_assert_eq!(one[0] == 1, !message.is_empty());
                if message.is_empty() {
                    continue;
                }
                let mut read = Vec::new();
                MultiGzDecoder::new(&one[PREFIX..]).read_to_end(&mut read).expect("gzip");
                prop_assert_eq!(&read, message);
                prop_assert_eq!(gzip.unpack(&one[PREFIX..], message.len()), Ok(&message[..]));
                let theirs = packed(message);
                prop_assert_eq!(gzip.unpack(&theirs, message.len()), Ok(&message[..]));
            }
            prop_assert!(rest.is_empty());
            // What is compressed stays as it is.
            let mut again = Vec::new();
            gzip.pack(&out, &mut again);
            prop_assert_eq!(again, out);
        }

        #[test]
        fn survives_any_bytes(bytes in vec(any::<u8>(), 0..200), cut in 0_usize..200) {
            let mut gzip = Gzip::default();
            let _ = gzip.unpack(&bytes, 100);
            let _ = gzip.unpack(&[&HEAD[..], &bytes].concat(), 100);
            let whole = packed(&bytes);
            let cut = &whole[..cut.min(whole.len() - 1)];
            prop_assert_eq!(gzip.unpack(cut, 1_000), Err(Unpackable::Malformed));
        }
    }

    #[test]
    fn limits_the_length_of_a_message() {
        let bomb = packed(&vec![0; 100 << 20]);
        assert!(bomb.len() < 110_000, "{}", bomb.len());
        let mut gzip = Gzip::default();
        assert_eq!(gzip.unpack(&bomb, 1 << 20), Err(Unpackable::TooLong));
        assert!(gzip.message.capacity() < 3 << 20, "{}", gzip.message.capacity());
        // Several members are one message.
        let two = [packed(b"one "), packed(b"two")].concat();
        assert_eq!(gzip.unpack(&two, 7), Ok(&b"one two"[..]));
        assert_eq!(gzip.unpack(&two, 6), Err(Unpackable::TooLong));
        assert_eq!(gzip.unpack(&packed(b""), 0), Ok(&b""[..]));
    }

    #[test]
    fn reads_heads_with_all_their_parts_and_refuses_others() {
        let builder = GzBuilder::new().filename("a").comment("b").extra(vec![1; 300]);
        let mut encoder = builder.write(Vec::new(), Compression::fast());
        encoder.write_all(b"text").expect("a Vec takes all");
        let bytes = encoder.finish().expect("a Vec takes all");
        let mut gzip = Gzip::default();
        assert_eq!(gzip.unpack(&bytes, 4), Ok(&b"text"[..]));
        for end in 0..bytes.len() {
            assert_eq!(gzip.unpack(&bytes[..end], 4), Err(Unpackable::Malformed), "{end}");
        }
        for at in [0, 1, 2, bytes.len() - 1, bytes.len() - 8] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x80;
            assert_eq!(gzip.unpack(&wrong, 4), Err(Unpackable::Malformed), "byte {at}");
        }
    }
}
