//! Integers with a prefix of a few bits (RFC 7541, section 5.1).

use super::HpackError;

/// The largest integer that is accepted. No index, length or size of a table comes near it.
const MAX: u64 = (1 << 31) - 1;

/// An integer has at most this many bytes after its prefix: 35 bits, so leading zeros are bounded.
const MAX_BYTES: usize = 5;

/// Append an integer. `first` has the bits before the prefix of `bits` bits.
pub(super) fn write(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let limit = (1_usize << bits) - 1;
    if value < limit {
        return out.push(first | value as u8);
    }
    out.push(first | limit as u8);
    let mut rest = value - limit;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Read an integer from the start of `rest`, with a prefix of `bits` bits.
#[inline]
pub(super) fn read(rest: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, after) = rest.split_first().ok_or(HpackError::Invalid)?;
    *rest = after;
    let limit = u8::MAX >> (8 - bits);
    let value = first & limit;
    if value < limit { Ok(usize::from(value)) } else { read_more(rest, u64::from(limit)) }
}

fn read_more(rest: &mut &[u8], limit: u64) -> Result<usize, HpackError> {
    let mut value = limit;
    for at in 0..MAX_BYTES {
        let (&byte, after) = rest.split_first().ok_or(HpackError::Invalid)?;
        *rest = after;
        value += u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return if value > MAX { Err(HpackError::Invalid) } else { Ok(value as usize) };
        }
    }
    Err(HpackError::Invalid)
}
