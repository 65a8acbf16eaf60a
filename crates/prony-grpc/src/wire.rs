//! The wire format of Protocol Buffers: descriptors are read in it, and messages written.

/// The value of a field that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A value that no descriptor has: of fixed length, or a group.
    Other,
}

/// How a value is written, with its number in the key of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    GroupStart = 3,
    GroupEnd = 4,
    Fixed32 = 5,
}

/// The greatest number of a field.
pub(crate) const NUMBER_MAX: u32 = (1 << 29) - 1;
/// How deep groups may be nested.
const DEPTH: usize = 64;

/// Reads the fields of a message, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Item<'a>)>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.key()?;
        let item = match kind {
            3 => {
                self.skip_group(number)?;
                Item::Other
            }
            4 => return Err("a group ends that has not started".into()),
            _ => self.value(kind)?,
        };
        Ok(Some((number, item)))
    }

    fn key(&mut self) -> Result<(u32, u64), String> {
        let key = self.varint()?;
        match u32::try_from(key >> 3) {
            Ok(number) if (1..=NUMBER_MAX).contains(&number) => Ok((number, key & 7)),
            _ => Err(format!("{} is not the number of a field", key >> 3)),
        }
    }

    /// A value that is no group.
    fn value(&mut self, kind: u64) -> Result<Item<'a>, String> {
        match kind {
            0 => Ok(Item::Number(self.varint()?)),
            1 => self.take(8).map(|_| Item::Other),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                self.take(length).map(Item::Bytes)
            }
            5 => self.take(4).map(|_| Item::Other),
            _ => Err(format!("{kind} is not a type of the wire format")),
        }
    }

    fn skip_group(&mut self, number: u32) -> Result<(), String> {
        let mut open = vec![number];
        while let Some(&last) = open.last() {
            let (number, kind) = self.key()?;
            match kind {
                3 if open.len() == DEPTH => return Err("groups are nested too deep".into()),
                3 => open.push(number),
                4 if number == last => {
                    open.pop();
                }
                4 => return Err("a group ends that has not started".into()),
                _ => {
                    self.value(kind)?;
                }
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than ten bytes".into())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let parts = self.rest.split_at_checked(length);
        let (taken, rest) = parts.ok_or("it ends in the middle of a field")?;
        self.rest = rest;
        Ok(taken)
    }
}

pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_key(number: u32, kind: WireType, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | kind as u64, out);
}

/// A field whose value has its length before it.
pub(crate) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_key(number, WireType::Bytes, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A name from a schema that may be anything, for a sentence.
pub(crate) fn shown(name: &str) -> String {
    prony_base::grpc::shown_text(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut bytes = Vec::new();
        put_key(NUMBER_MAX, WireType::Varint, &mut bytes);
        put_varint(u64::MAX, &mut bytes);
        put_bytes(1, b"ab", &mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next(), Ok(Some((NUMBER_MAX, Item::Number(u64::MAX)))));
        assert_eq!(reader.next(), Ok(Some((1, Item::Bytes(b"ab")))));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn skips_groups_and_refuses_what_is_no_field() {
        // Field 2 is a group with a field and another group; then field 1.
        let bytes = [0x13, 0x08, 0x01, 0x1b, 0x1c, 0x14, 0x08, 0x05];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next(), Ok(Some((2, Item::Other))));
        assert_eq!(reader.next(), Ok(Some((1, Item::Number(5)))));
        let deep = vec![0x13; 100_000];
        for bad in [&b"\x13"[..], b"\x14", b"\x13\x1c", b"\x0f", b"\x00", b"\x0a\x05a", &deep] {
            assert!(Reader::new(bad).next().is_err(), "{:?}", &bad[..1]);
        }
        let long = [0xff; 11];
        assert!(Reader::new(&long).next().is_err());
    }
}
