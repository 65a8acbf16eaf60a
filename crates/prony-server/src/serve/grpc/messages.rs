//! The messages of `grpc.testing.TestService` and of the load reports.

use prony_base::grpc::{PREFIX, prefix};
use prony_base::units::Span;

use super::wire::{self, Fields, Malformed, Value};

/// How many steps the messages of a client may cause at once.
pub(super) const STEPS: usize = 1 << 14;

/// What a request may ask for, of any method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The type of the response's payload. Only 0 is valid.
    pub(super) kind: i32,
    pub(super) responses: Vec<Wanted>,
    /// Bytes of its own payload.
    pub(super) payload: u64,
    /// The status with which the call shall end, if it is not 0.
    pub(super) status: Option<(i32, String)>,
    pub(super) expects_compressed: Option<bool>,
    /// The load that the server shall report, as an `OrcaLoadReport`.
    pub(super) load: Option<Vec<u8>>,
}

/// A response that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of its payload.
    pub(super) size: i32,
    /// The pause before it.
    pub(super) pause: Span,
    pub(super) is_compressed: bool,
    /// Whether it names the server.
    pub(super) is_named: bool,
}

impl Request {
    /// Read a `SimpleRequest`.
    pub(super) fn simple(message: &[u8]) -> Result<Self, Malformed> {
        let (mut request, mut wanted) = (Self::default(), Wanted::default());
        for field in Fields(message) {
            match field? {
                (1, value) => request.kind = value.int(),
                (2, value) => wanted.size = value.int(),
                (3, value) => request.payload = payload(value)?,
                (6, value) => wanted.is_compressed = boolean(value)?,
                (7, value) => request.status = status(value)?,
                (8, value) => request.expects_compressed = Some(boolean(value)?),
                (9, value) => wanted.is_named = value.int() != 0,
                (11, value) => request.load = Some(load(value)?),
                _ => {}
            }
        }
        request.responses.push(wanted);
        Ok(request)
    }

    /// Read a `StreamingInputCallRequest`.
    pub(super) fn input(message: &[u8]) -> Result<Self, Malformed> {
        let mut request = Self::default();
        for field in Fields(message) {
            match field? {
                (1, value) => request.payload = payload(value)?,
                (2, value) => request.expects_compressed = Some(boolean(value)?),
                _ => {}
            }
        }
        Ok(request)
    }

    /// Read a `StreamingOutputCallRequest`.
    pub(super) fn output(message: &[u8]) -> Result<Self, Malformed> {
        let mut request = Self::default();
        for field in Fields(message) {
            match field? {
                (1, value) => request.kind = value.int(),
                // More than the most are refused.
                (2, _) if request.responses.len() > STEPS => {}
                (2, value) => request.responses.push(wanted(value)?),
                (3, value) => request.payload = payload(value)?,
                (7, value) => request.status = status(value)?,
                (8, value) => request.load = Some(load(value)?),
                _ => {}
            }
        }
        Ok(request)
    }
}

fn wanted(message: Value<'_>) -> Result<Wanted, Malformed> {
    let mut wanted = Wanted::default();
    for field in Fields(message.bytes()) {
        match field? {
            (1, value) => wanted.size = value.int(),
            (2, value) => {
                let micros = u64::try_from(value.int()).unwrap_or(0);
                wanted.pause = Span(1_000 * micros);
            }
            (3, value) => wanted.is_compressed = boolean(value)?,
            _ => {}
        }
    }
    Ok(wanted)
}

/// The length of a payload's body.
fn payload(message: Value<'_>) -> Result<u64, Malformed> {
    let mut length = 0;
    for field in Fields(message.bytes()) {
        if let (2, value) = field? {
            length = value.bytes().len() as u64;
        }
    }
    Ok(length)
}

fn boolean(message: Value<'_>) -> Result<bool, Malformed> {
    let mut is_true = false;
    for field in Fields(message.bytes()) {
        if let (1, value) = field? {
            is_true = value.int() != 0;
        }
    }
    Ok(is_true)
}

/// The status, if it is not 0.
fn status(message: Value<'_>) -> Result<Option<(i32, String)>, Malformed> {
    let (mut code, mut text) = (0, String::new());
    for field in Fields(message.bytes()) {
        match field? {
            (1, value) => code = value.int(),
            (2, value) => text = value.text(),
            _ => {}
        }
    }
    Ok((code != 0).then_some((code, text)))
}

/// A `TestOrcaReport` as an `OrcaLoadReport`, whose maps have other numbers.
fn load(message: Value<'_>) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    for field in Fields(message.bytes()) {
        match field? {
            (field @ 1..=2, Value::Number(bits)) => wire::double(&mut out, field, bits),
            (field @ 3..=4, Value::Bytes(entry)) => wire::bytes(&mut out, field + 1, entry),
            _ => {}
        }
    }
    Ok(out)
}

/// A message to send: some bytes, then zeros.
#[derive(Debug, Default)]
pub(in super::super) struct Outgoing {
    /// Its prefix and its first bytes.
    bytes: Vec<u8>,
    zeros: u64,
    /// The position of the next byte to send.
    at: u64,
}

impl Outgoing {
    /// A message.
    pub(super) fn new(message: &[u8], is_compressed: bool) -> Self {
        let mut bytes = Vec::with_capacity(PREFIX + message.len());
        bytes.extend_from_slice(&prefix(is_compressed, message.len() as u32));
        bytes.extend_from_slice(message);
        Self { bytes, zeros: 0, at: 0 }
    }

    /// A response with a payload of `size` zeros, and the server's name before it.
    pub(super) fn zeros(size: u32, is_named: bool) -> Self {
        let mut message = Vec::with_capacity(16);
        start_payload(&mut message, size, is_named);
        let length = message.len() as u32 + size;
        let mut outgoing = Self::new(&message, false);
        outgoing.bytes[..PREFIX].copy_from_slice(&prefix(false, length));
        outgoing.zeros = u64::from(size);
        outgoing
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.bytes.first() == Some(&1)
    }

    /// The bytes that are left.
    pub(in super::super) fn left(&self) -> u64 {
        self.bytes.len() as u64 + self.zeros - self.at
    }

    /// The bytes of it that are in memory.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// End it in its middle.
    pub(super) fn cut(&mut self) {
        let length = self.left() / 2;
        self.zeros = length.saturating_sub(self.bytes.len() as u64);
        self.bytes.truncate(length as usize);
    }

    /// Append the next `n` bytes; at most a frame's.
    pub(in super::super) fn append(&mut self, n: usize, out: &mut Vec<u8>) {
        let at = self.at.min(self.bytes.len() as u64) as usize;
        let first = n.min(self.bytes.len() - at);
        out.extend_from_slice(&self.bytes[at..at + first]);
        out.resize(out.len() + n - first, 0);
        self.at += n as u64;
    }
}

/// Append the start of a response whose `size` zeros follow: `server_id`, `payload { body }`.
pub(super) fn start_payload(out: &mut Vec<u8>, size: u32, is_named: bool) {
    if is_named {
        wire::bytes(out, 4, b"prony");
    }
    if size == 0 {
        return;
    }
    let mut inner = Vec::with_capacity(8);
    wire::start(&mut inner, 2, u64::from(size));
    wire::start(out, 1, inner.len() as u64 + u64::from(size));
    out.extend_from_slice(&inner);
}

/// The most bytes of a payload: a length of four bytes is also that of the message around it.
pub(super) const SIZE_MAX: i32 = i32::MAX - 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_requests() {
        let mut message = Vec::new();
        wire::number(&mut message, 2, 314_159);
        let mut inner = Vec::new();
        wire::bytes(&mut inner, 2, &[0; 271_828]);
        wire::bytes(&mut message, 3, &inner);
        wire::bytes(&mut message, 6, &[8, 1]);
        wire::bytes(&mut message, 7, b"\x08\x02\x12\x04test");
        wire::bytes(&mut message, 8, &[]);
        let request = Request::simple(&message).expect("a message");
        let wanted = Wanted { size: 314_159, is_compressed: true, ..Wanted::default() };
        assert_eq!((request.responses, request.payload), (vec![wanted], 271_828));
        assert_eq!(request.status, Some((2, "test".to_owned())));
        assert_eq!((request.kind, request.expects_compressed), (0, Some(false)));
        assert_eq!(Request::simple(&message[..9]), Err(Malformed));
    }

    #[test]
    fn reads_streams_of_wanted_responses() {
        let message = b"\x12\x05\x08\x09\x10\xe8\x07\x12\x04\x1a\x02\x08\x01\x12\x02\x10\x01";
        let request = Request::output(message).expect("a message");
        let pauses: Vec<_> = request.responses.iter().map(|wanted| wanted.pause).collect();
        assert_eq!(pauses, [Span::from_millis(1), Span::ZERO, Span(1_000)]);
        assert_eq!((request.responses[0].size, request.responses[1].is_compressed), (9, true));
        assert_eq!(Request::output(b"\x12\x01\x08"), Err(Malformed));
        assert_eq!(Request::input(b"\x0a\x03\x12\x01x").map(|request| request.payload), Ok(1));
    }

    #[test]
    fn renumbers_load_reports() {
        let mut report = Vec::new();
        wire::double(&mut report, 1, 0.5_f64.to_bits());
        wire::bytes(&mut report, 4, b"\x0a\x01u");
        let mut expected = Vec::new();
        wire::double(&mut expected, 1, 0.5_f64.to_bits());
        wire::bytes(&mut expected, 5, b"\x0a\x01u");
        assert_eq!(load(Value::Bytes(&report)), Ok(expected));
    }

    #[test]
    fn sends_responses_in_any_pieces() {
        let whole = |mut outgoing: Outgoing, piece: u64| {
            let mut out = Vec::new();
            while outgoing.left() > 0 {
                outgoing.append(outgoing.left().min(piece) as usize, &mut out);
            }
            out
        };
        let mut expected = vec![0, 0, 0, 1, 50, 0x0a, 0xaf, 2, 0x12, 0xac, 2];
        expected.resize(expected.len() + 300, 0);
        for piece in [1, 3, 8, 200, 1_000] {
            assert_eq!(whole(Outgoing::zeros(300, false), piece), expected, "pieces of {piece}");
        }
        assert_eq!(whole(Outgoing::zeros(0, false), 9), [0; 5]);
        assert_eq!(whole(Outgoing::zeros(0, true), 9), b"\0\0\0\0\x07\x22\x05prony");
        assert_eq!(whole(Outgoing::new(b"ab", true), 9), [1, 0, 0, 0, 2, b'a', b'b']);
        let mut cut = Outgoing::zeros(300, false);
        cut.cut();
        assert_eq!(whole(cut, 100), expected[..155]);
        let mut cut = Outgoing::new(b"abc", false);
        cut.cut();
        assert_eq!(whole(cut, 100), [0, 0, 0, 0]);
    }
}
