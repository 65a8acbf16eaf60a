//! Decodes the bodies of replies that have a `Content-Encoding`, so that they can be searched.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// The format of zlib, whatever its name (RFC 9110, 8.4.1.2).
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
    /// One that is not known.
    Unknown,
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// It has more bytes than the limit.
    TooLong,
    /// It is damaged, or has another encoding.
    Unreadable,
}

/// The largest window of zstd that is decoded, in bytes: RFC 9659 lets no server use a larger one.
const WINDOW_MAX: u64 = 8 << 20;

impl Coding {
    /// The codings in the value of a header `Content-Encoding`, in the order in which they were
    /// applied, appended to a list.
    pub fn parse(value: &[u8], codings: &mut Vec<Self>) {
        for name in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if name.is_empty() || is("identity") {
                continue;
            }
            codings.push(if is("gzip") || is("x-gzip") {
                Self::Gzip
            } else if is("deflate") {
                Self::Deflate
            } else if is("br") {
                Self::Brotli
            } else if is("zstd") {
                Self::Zstd
            } else {
                Self::Unknown
            });
        }
    }

    /// Decode a body into `out`, which is empty, up to a limit in bytes.
    ///
    /// # Errors
    /// It is too long, or cannot be read; a part of it may be in `out`.
    pub fn decode(self, body: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Undecoded> {
        // One byte more shows that the limit is exceeded.
        let most = limit as u64 + 1;
        let read = match self {
            Self::Gzip => MultiGzDecoder::new(body).take(most).read_to_end(out),
            Self::Deflate => ZlibDecoder::new(body).take(most).read_to_end(out),
            Self::Brotli => {
                let decoder = brotli_decompressor::Decompressor::new(body, 4 << 10);
                decoder.take(most).read_to_end(out)
            }
            Self::Zstd => match StreamingDecoder::new_with_max_window_size(body, WINDOW_MAX) {
                Ok(decoder) => decoder.take(most).read_to_end(out),
                Err(_) => return Err(Undecoded::Unreadable),
            },
            Self::Unknown => return Err(Undecoded::Unreadable),
        };
        match read {
            Ok(_) if out.len() <= limit => Ok(()),
            Ok(_) => Err(Undecoded::TooLong),
            Err(_) => Err(Undecoded::Unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// "hello hello hello hello\n", by the reference encoder of Brotli (that of Node.js 20).
    const BROTLI: &[u8] = &[
        0x1b, 0x17, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0xd6, 0x0a, 0x20, 0x6c,
        0x6f, 0x4a, 0x11, 0x79, 0xe2, 0x80, 0xae, 0x16,
    ];

    /// The same, by `zstd` 1.5.
    const ZSTD: &[u8] = &[
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x6d, 0x00, 0x00, 0x38, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
        0x20, 0x0a, 0x01, 0x00, 0x99, 0x4b, 0x11, 0xa8, 0x7c, 0x2e, 0xa8,
    ];

    fn text() -> Vec<u8> {
        (0..5_000_u32).flat_map(|i| format!("line {i}\n").into_bytes()).collect()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn reads_the_names_of_codings() {
        let parse = |text: &str| {
            let mut codings = Vec::new();
            Coding::parse(text.as_bytes(), &mut codings);
            codings
        };
        use Coding::{Brotli, Deflate, Gzip, Unknown, Zstd};
        assert_eq!(parse("gzip"), [Gzip]);
        assert_eq!(parse(" X-GZIP , br,zstd,, identity"), [Gzip, Brotli, Zstd]);
        assert_eq!(parse("deflate, compress"), [Deflate, Unknown]);
        assert_eq!(parse("identity"), []);
    }

    #[test]
    fn decodes_what_other_encoders_wrote_and_refuses_what_is_cut() {
        let text = text();
        let zstd = compress_to_vec(&text[..], CompressionLevel::Fastest);
        let hello = b"hello hello hello hello\n".to_vec();
        for (coding, encoded, plain) in [
            (Coding::Gzip, gzip(&text), &text),
            (Coding::Deflate, zlib(&text), &text),
            (Coding::Zstd, zstd, &text),
            (Coding::Brotli, BROTLI.to_vec(), &hello),
            (Coding::Zstd, ZSTD.to_vec(), &hello),
        ] {
            let decode = |bytes: &[u8], limit| {
                let mut out = Vec::new();
                coding.decode(bytes, limit, &mut out).map(|()| out)
            };
            let unreadable = Err(Undecoded::Unreadable);
            assert!(decode(&encoded, plain.len()).as_ref() == Ok(plain), "{coding:?}");
            let over = decode(&encoded, plain.len() - 1);
            assert_eq!(over, Err(Undecoded::TooLong), "{coding:?}: over the limit");
            assert_eq!(
                decode(&encoded[..encoded.len() / 2], 1 << 20),
                unreadable,
                "{coding:?}: cut"
            );
            assert_eq!(decode(b"plain text", 1 << 20), unreadable, "{coding:?}: not encoded");
        }
        let unknown = Coding::Unknown.decode(b"", 10, &mut Vec::new());
        assert_eq!(unknown, Err(Undecoded::Unreadable));
    }
}
