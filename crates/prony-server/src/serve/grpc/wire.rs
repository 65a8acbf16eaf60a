//! Fields of Protocol Buffers, as far as the served messages need them.

/// A message that is no sequence of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A varint, or a number of 4 or 8 bytes.
    Number(u64),
    /// A text, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes; of a number none.
    pub(super) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }

    /// A number of type int32, bool or enum.
    pub(super) fn int(self) -> i32 {
        match self {
            Self::Number(number) => number as i32,
            Self::Bytes(_) => 0,
        }
    }

    /// A text. What is not UTF-8 is replaced.
    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// The fields of a message, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        (key >> 3 > 0).then_some((key >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

/// Append a varint.
pub(super) fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Append a field with a number.
pub(super) fn number(out: &mut Vec<u8>, field: u64, number: u64) {
    varint(out, field << 3);
    varint(out, number);
}

/// Append a field with bytes.
pub(super) fn bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    start(out, field, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Append the start of a field whose `length` bytes follow.
pub(super) fn start(out: &mut Vec<u8>, field: u64, length: u64) {
    varint(out, field << 3 | 2);
    varint(out, length);
}

/// Append a field with a number of type double, by its bits.
pub(super) fn double(out: &mut Vec<u8>, field: u64, bits: u64) {
    varint(out, field << 3 | 1);
    out.extend_from_slice(&bits.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<Vec<(u64, Value<'_>)>, Malformed> {
        Fields(message).collect()
    }

    #[test]
    fn reads_what_it_writes() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        bytes(&mut out, 2, b"testing");
        double(&mut out, 16, 1.5_f64.to_bits());
        number(&mut out, 3, u64::MAX);
        out.extend([0x25, 1, 0, 0, 0]);
        let expected = vec![
            (1, Value::Number(150)),
            (2, Value::Bytes(b"testing")),
            (16, Value::Number(1.5_f64.to_bits())),
            (3, Value::Number(u64::MAX)),
            (4, Value::Number(1)),
        ];
        assert_eq!(read(&out), Ok(expected));
        assert_eq!(out[..3], [0x08, 0x96, 0x01], "the example of the encoding's description");
        assert_eq!(read(&[]), Ok(vec![]));
        assert_eq!(Value::Number(u64::MAX).int(), -1);
    }

    #[test]
    fn rejects_malformed_messages() {
        let long = [&[0x08][..], &[0xff; 10], &[0x01]].concat();
        for message in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 5, 1, 2],
            &[0x09, 1],
            &[0x0d, 1, 2, 3],
            &[0x0b, 0x0c],
            &[0x0f],
            &[0x00, 0x00],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &long,
        ] {
            assert_eq!(read(message), Err(Malformed), "{message:?}");
        }
    }
}
