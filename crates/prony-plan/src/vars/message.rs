//! Messages of Protocol Buffers with variable parts: the fixed parts are bytes, and only the values
//! of templates are encoded for each request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{Scope, Source, Template, TemplateError, Unsent};

/// The length of a message's prefix, in bytes.
const PREFIX: usize = 5;

/// A compiled message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// The key of a field, and its value.
    Field(Vec<u8>, Scalar, Template),
    /// The key of a field, and the parts of the message in it.
    Message(Vec<u8>, Vec<Self>),
}

/// The encoding of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Base64,
    Bool,
    /// A signed integer in the range of this many bits.
    Signed(u32, Format),
    /// An unsigned integer in the range of this many bits.
    Unsigned(u32, Format),
    Float,
    Double,
    Enum(Vec<(String, i32)>),
}

/// The wire format of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Varint,
    ZigZag,
    Fixed,
}

/// Builds a [`Message`].
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    pub(crate) scope: &'a Scope,
    /// Counts the random fields of the request.
    pub(crate) draws: &'a mut u64,
    parts: Vec<Part>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(scope: &'a Scope, draws: &'a mut u64) -> Self {
        Self { scope, draws, parts: Vec::new() }
    }

    /// Append encoded fields.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.parts.push(Part::Bytes(bytes.to_vec()));
    }

    /// Append a field with a template for its value.
    pub(crate) fn field(
        &mut self,
        number: u32,
        scalar: Scalar,
        text: &str,
    ) -> Result<(), TemplateError> {
        let template = Template::parse(text.as_bytes(), self.scope, self.draws)?;
        let key = key(number, scalar.wire_type());
        self.parts.push(Part::Field(key, scalar, template));
        Ok(())
    }

    /// Append a field that is a message; `fill` appends its parts.
    pub(crate) fn message(
        &mut self,
        number: u32,
        fill: impl FnOnce(&mut Builder<'_>) -> Result<(), TemplateError>,
    ) -> Result<(), TemplateError> {
        let mut inner = Builder::new(self.scope, self.draws);
        fill(&mut inner)?;
        let parts = inner.parts;
        self.parts.push(Part::Message(key(number, LENGTH_DELIMITED), parts));
        Ok(())
    }

    pub(crate) fn finish(self) -> Message {
        Message { parts: self.parts }
    }
}

impl Message {
    /// The indices of the variables in its templates.
    pub(crate) fn variables(&self) -> Vec<usize> {
        let mut found = Vec::new();
        collect(&self.parts, &mut found);
        found
    }

    /// Append the message with its prefix to `out`. `scratch` and `value` are overwritten.
    ///
    /// # Errors
    /// A variable has no value, or a value does not fit the type of its field.
    pub(crate) fn fill(
        &self,
        source: Source<'_>,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        let begin = out.len();
        out.extend_from_slice(&[0; PREFIX]);
        write(&self.parts, source, out, scratch, value)?;
        let length = u32::try_from(out.len() - begin - PREFIX).map_err(|_| Unsent::Unfit)?;
        out[begin + 1..begin + PREFIX].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

fn collect(parts: &[Part], found: &mut Vec<usize>) {
    for part in parts {
        match part {
            Part::Bytes(_) => {}
            Part::Field(_, _, template) => found.extend(template.variables()),
            Part::Message(_, inner) => collect(inner, found),
        }
    }
}

fn write(
    parts: &[Part],
    source: Source<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), Unsent> {
    for part in parts {
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Field(key, scalar, template) => {
                value.clear();
                template.fill(source, value, scratch)?;
                out.extend_from_slice(key);
                scalar.write(value, out).ok_or(Unsent::Unfit)?;
            }
            Part::Message(key, inner) => {
                out.extend_from_slice(key);
                let begin = out.len();
                write(inner, source, out, scratch, value)?;
                insert_length(out, begin);
            }
        }
    }
    Ok(())
}

/// Insert the length of what follows `begin` before it.
fn insert_length(out: &mut Vec<u8>, begin: usize) {
    let end = out.len();
    varint(out, (end - begin) as u64);
    let size = out.len() - end;
    out[begin..].rotate_right(size);
}

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED_32: u32 = 5;

fn key(number: u32, wire_type: u32) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, u64::from(number << 3 | wire_type));
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Scalar {
    fn wire_type(&self) -> u32 {
        match self {
            Self::Text | Self::Base64 => LENGTH_DELIMITED,
            Self::Signed(32, Format::Fixed) | Self::Unsigned(32, Format::Fixed) | Self::Float => {
                FIXED_32
            }
            Self::Signed(_, Format::Fixed) | Self::Unsigned(_, Format::Fixed) | Self::Double => {
                FIXED_64
            }
            _ => VARINT,
        }
    }

    /// Append the value of a text; `None`: it is not of this type.
    fn write(&self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let parsed = || std::str::from_utf8(text).ok().map(str::trim);
        match self {
            Self::Text => {
                std::str::from_utf8(text).ok()?;
                varint(out, text.len() as u64);
                out.extend_from_slice(text);
            }
            Self::Base64 => {
                let begin = out.len();
                let most = base64::decoded_len_estimate(text.len());
                out.resize(begin + most, 0);
                let n = BASE64.decode_slice(text, &mut out[begin..]).ok()?;
                out.truncate(begin + n);
                insert_length(out, begin);
            }
            Self::Bool => varint(out, u64::from(parsed()?.parse::<bool>().ok()?)),
            Self::Signed(bits, format) => signed(parsed()?, *bits, *format, out)?,
            Self::Unsigned(bits, format) => {
                let value: u64 = parsed()?.parse().ok()?;
                match (bits, format) {
                    (32, _) if value > u64::from(u32::MAX) => return None,
                    (32, Format::Fixed) => out.extend_from_slice(&(value as u32).to_le_bytes()),
                    (_, Format::Fixed) => out.extend_from_slice(&value.to_le_bytes()),
                    _ => varint(out, value),
                }
            }
            Self::Float => out.extend_from_slice(&parsed()?.parse::<f32>().ok()?.to_le_bytes()),
            Self::Double => out.extend_from_slice(&parsed()?.parse::<f64>().ok()?.to_le_bytes()),
            Self::Enum(names) => {
                let text = parsed()?;
                let known = names.iter().find(|(name, _)| name == text).map(|(_, n)| *n);
                let number = known.or_else(|| text.parse().ok())?;
                varint(out, i64::from(number) as u64);
            }
        }
        Some(())
    }
}

fn signed(text: &str, bits: u32, format: Format, out: &mut Vec<u8>) -> Option<()> {
    let value: i64 = text.parse().ok()?;
    let narrow = i32::try_from(value);
    match (bits, format) {
        (32, Format::Fixed) => out.extend_from_slice(&narrow.ok()?.to_le_bytes()),
        (_, Format::Fixed) => out.extend_from_slice(&value.to_le_bytes()),
        (32, _) if narrow.is_err() => return None,
        (_, Format::ZigZag) => varint(out, (value << 1 ^ value >> 63) as u64),
        (_, Format::Varint) => varint(out, value as u64),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vars::{Locals, Moment, Sent};

    fn encoded(scalar: Scalar, text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        scalar.write(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn encodes_values_as_protocol_buffers_do() {
        use Format::{Fixed, Varint, ZigZag};
        let rows: [(Scalar, &str, &[u8]); 14] = [
            (Scalar::Text, "hi", b"\x02hi"),
            (Scalar::Base64, "AAE=", b"\x02\x00\x01"),
            (Scalar::Bool, "true", b"\x01"),
            (Scalar::Signed(32, Varint), "150", b"\x96\x01"),
            (Scalar::Signed(32, Varint), "-1", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            (Scalar::Signed(32, ZigZag), "-2", b"\x03"),
            (Scalar::Signed(64, ZigZag), "2147483647", b"\xfe\xff\xff\xff\x0f"),
            (Scalar::Signed(32, Fixed), "-1", b"\xff\xff\xff\xff"),
            (Scalar::Signed(64, Fixed), "1", b"\x01\0\0\0\0\0\0\0"),
            (Scalar::Unsigned(32, Fixed), "258", b"\x02\x01\0\0"),
            (Scalar::Unsigned(64, Varint), "300", b"\xac\x02"),
            (Scalar::Float, "1", b"\0\0\x80\x3f"),
            (Scalar::Double, "1", b"\0\0\0\0\0\0\xf0\x3f"),
            (Scalar::Enum(vec![("RED".into(), 3)]), "RED", b"\x03"),
        ];
        for (scalar, text, bytes) in rows {
            assert_eq!(encoded(scalar.clone(), text).as_deref(), Some(bytes), "{scalar:?} {text}");
        }
        for (scalar, text) in [
            (Scalar::Signed(32, Varint), "2147483648"),
            (Scalar::Unsigned(32, Varint), "4294967296"),
            (Scalar::Unsigned(64, Varint), "-1"),
            (Scalar::Bool, "1"),
            (Scalar::Base64, "*"),
            (Scalar::Enum(Vec::new()), "RED"),
        ] {
            assert_eq!(encoded(scalar.clone(), text), None, "{scalar:?} {text}");
        }
    }

    #[test]
    fn fills_in_nested_messages_with_their_lengths() {
        let scope = Scope { variables: vec!["v".into()], ..Scope::default() };
        let mut draws = 0;
        let mut builder = Builder::new(&scope, &mut draws);
        builder.bytes(b"\x08\x01");
        let inner = |inner: &mut Builder<'_>| inner.field(2, Scalar::Text, "x{{v}}");
        builder.message(3, inner).expect("a template");
        let message = builder.finish();
        assert_eq!(message.variables(), [0]);
        for length in [0, 5, 200] {
            let mut locals = Locals::default();
            locals.set(0, "y".repeat(length).as_bytes());
            let moment = Moment { seed: 0, session: 0, request: 0, counter: 0 };
            let source = Source { moment, tables: &[], locals: &locals, sent: Sent::default() };
            let mut out = b"before".to_vec();
            message.fill(source, &mut out, &mut Vec::new(), &mut Vec::new()).expect("a value");
            let text = [b"x".to_vec(), b"y".repeat(length)].concat();
            let mut field = vec![0x12];
            varint(&mut field, text.len() as u64);
            field.extend(&text);
            let mut body = b"\x08\x01\x1a".to_vec();
            varint(&mut body, field.len() as u64);
            body.extend(&field);
            let mut expected = b"before\0".to_vec();
            expected.extend((body.len() as u32).to_be_bytes());
            expected.extend(&body);
            assert_eq!(out, expected, "{length} bytes");
        }
    }
}
