//! Compressed messages.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// A message in the format of gzip.
pub(super) fn compress(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(message).expect("a Vec takes all");
    encoder.finish().expect("a Vec takes all")
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The bytes are not in the format of gzip.
    Malformed,
    /// The message is longer than allowed.
    TooLong,
}

/// The message of at most `limit` bytes behind its compressed form.
pub(super) fn decompress(bytes: &[u8], limit: u64) -> Result<Vec<u8>, Unreadable> {
    let mut message = Vec::new();
    let mut decoder = MultiGzDecoder::new(bytes).take(limit + 1);
    decoder.read_to_end(&mut message).map_err(|_| Unreadable::Malformed)?;
    if message.len() as u64 > limit { Err(Unreadable::TooLong) } else { Ok(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let message = vec![7; 100_000];
        let bytes = compress(&message);
        assert!(bytes.len() < 1_000, "{}", bytes.len());
        assert_eq!(decompress(&bytes, 100_000).as_deref(), Ok(&message[..]));
        assert_eq!(decompress(&bytes, 99_999), Err(Unreadable::TooLong));
        assert_eq!(decompress(&bytes[..bytes.len() - 9], 100_000), Err(Unreadable::Malformed));
        assert_eq!(decompress(b"no gzip", 100), Err(Unreadable::Malformed));
    }
}
