//! The value of one field of a message, as a number that is equal for equal values.

/// The offset and the factor of FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FACTOR: u64 = 0x0100_0000_01b3;

/// A number for the value of the field `number` of an encoded message: equal for equal values. A
/// field that is missing has the value 0, or an empty text. If it occurs several times, the last
/// one counts, as in a decoder. What follows a malformed field is not read.
pub fn token(message: &[u8], number: u32) -> u64 {
    let mut rest = message;
    let mut token = OFFSET;
    while let Some((field, value)) = next(&mut rest) {
        if field == u64::from(number) {
            token = hash(value);
        }
    }
    token
}

/// Trailing zeroes do not count, so that 0 is the same as nothing.
fn hash(value: Value<'_>) -> u64 {
    let number;
    let bytes = match value {
        Value::Number(n) => {
            number = n.to_le_bytes();
            let used = number.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
            &number[..used]
        }
        Value::Bytes(bytes) => bytes,
    };
    bytes.iter().fold(OFFSET, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(FACTOR))
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The next field of a message: its number and its value. `None`: there is none.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let key = varint(rest)?;
    let value = match key & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Number(u64::from_le_bytes(*take(rest, 8)?.first_chunk()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?)
        }
        5 => Value::Number(u32::from_le_bytes(*take(rest, 4)?.first_chunk()?).into()),
        _ => return None,
    };
    Some((key >> 3, value))
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(n)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_tokens() {
        // Field 1 = 300 as a varint, field 2 = "ab", field 3 = 300 with 4 bytes.
        let message = [8, 0xac, 2, 18, 2, b'a', b'b', 29, 0x2c, 1, 0, 0];
        assert_eq!(token(&message, 1), token(&message, 3));
        assert_ne!(token(&message, 1), token(&message, 2));
        assert_eq!(token(&message[3..], 2), token(&message, 2));
        // The last one counts.
        assert_eq!(token(&[8, 1, 8, 0xac, 2], 1), token(&message, 1));
        // What is missing is 0, or empty.
        assert_eq!([token(&message, 9), token(&[8, 0], 1), token(&[10, 0], 1)], [OFFSET; 3]);
    }

    #[test]
    fn ends_at_a_malformed_field() {
        for bytes in [&[8][..], &[10, 5, 1], &[9, 1, 2], &[12, 1], &[0xff; 20]] {
            assert_eq!(token(bytes, 1), OFFSET, "{bytes:?}");
        }
    }
}
