//! The chunked transfer coding, without its data and trailers: size lines and the line end after a
//! chunk (RFC 9112, 7.1).

use prony_base::fault::Fault;

/// The maximum length of a size line with its extensions, which are ignored.
const LIMIT: u16 = 16 * 1024;

/// A partly read size line, or end of a chunk. Uses every byte as it arrives, so nothing is ever
/// left over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkLine {
    at: At,
    /// Bytes of this line so far.
    length: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Before the first digit.
    #[default]
    Size,
    /// After a digit.
    Digits,
    /// After whitespace that follows the digits.
    Blank,
    Extension,
    /// Before the LF of the size line.
    SizeLf,
    /// Before the CR after a chunk's data.
    DataCr,
    DataLf,
}

impl ChunkLine {
    /// At the line end that must follow a chunk's data.
    pub(super) fn after_data() -> Self {
        Self { at: At::DataCr, length: 0 }
    }

    /// Continue reading; `size` is the size so far. Returns the bytes used and whether the size is
    /// complete.
    ///
    /// A bare LF is not accepted as a line end here: RFC 9112, 2.2 allows that for start lines and
    /// fields only.
    pub(super) fn read(&mut self, data: &[u8], size: &mut u64) -> Result<(usize, bool), Fault> {
        for (i, &b) in data.iter().enumerate() {
            self.at = match (self.at, b) {
                (At::DataCr, b'\r') => At::DataLf,
                (At::DataLf, b'\n') => {
                    *self = Self::default();
                    continue;
                }
                (At::SizeLf, b'\n') => return Ok((i + 1, true)),
                (At::Digits | At::Blank | At::Extension, b'\r') => At::SizeLf,
                (At::Digits | At::Blank, b';') => At::Extension,
                (At::Digits | At::Blank, b' ' | b'\t') => At::Blank,
                (At::Extension, b'\t' | b' '..=b'~' | 0x80..) => At::Extension,
                (At::Size | At::Digits, _) => {
                    let digit = hex(b).ok_or(Fault::BadChunk)?;
                    if *size >> 60 != 0 {
                        return Err(Fault::BadChunk);
                    }
                    *size = *size << 4 | digit;
                    At::Digits
                }
                _ => return Err(Fault::BadChunk),
            };
            self.length += 1;
            if self.length > LIMIT {
                return Err(Fault::BadChunk);
            }
        }
        Ok((data.len(), false))
    }
}

fn hex(b: u8) -> Option<u64> {
    char::from(b).to_digit(16).map(u64::from)
}
