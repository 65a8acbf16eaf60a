//! Frames: header, types, flags, error codes, settings.

use super::{FRAME_SIZE, FRAME_SIZE_MAX, TABLE_SIZE, WINDOW, WINDOW_MAX};

/// The length of a frame's header, in bytes.
pub const HEADER: usize = 9;

/// Types of frames. Others are ignored (RFC 9113, 5.5).
pub mod kind {
    /// A part of a body.
    pub const DATA: u8 = 0;
    /// The start of a header block.
    pub const HEADERS: u8 = 1;
    /// Ignored.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream by an error.
    pub const RST_STREAM: u8 = 3;
    /// Settings, or their acknowledgement.
    pub const SETTINGS: u8 = 4;
    /// A reply that the server starts.
    pub const PUSH_PROMISE: u8 = 5;
    /// A ping, or its acknowledgement.
    pub const PING: u8 = 6;
    /// The announcement that the connection ends.
    pub const GOAWAY: u8 = 7;
    /// More room in a flow-control window.
    pub const WINDOW_UPDATE: u8 = 8;
    /// The continuation of a header block.
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub mod flag {
    /// SETTINGS, PING: this is an acknowledgement.
    pub const ACK: u8 = 1;
    /// DATA, HEADERS: the stream ends in this direction.
    pub const END_STREAM: u8 = 1;
    /// HEADERS, PUSH_PROMISE, CONTINUATION: the header block ends.
    pub const END_HEADERS: u8 = 4;
    /// DATA, HEADERS, PUSH_PROMISE: the payload is padded.
    pub const PADDED: u8 = 8;
    /// HEADERS: the payload starts with a priority.
    pub const PRIORITY: u8 = 0x20;
}

/// Why a stream or connection ends (RFC 9113, 7). Codes that are not listed there are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u32);

impl Code {
    /// No error.
    pub const NO_ERROR: Self = Self(0);
    /// A violation of the protocol for which there is no other code.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// An error of the implementation.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More bytes than the flow-control window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// No acknowledgement of settings in time.
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// A frame on a stream that is already closed.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of an invalid size.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not processed.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// A header block that cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The connection of a CONNECT failed.
    pub const CONNECT_ERROR: Self = Self(10);
    /// The peer sends too much of something.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(12);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(13);

    /// The number of codes that have a name; they are 0 to 13.
    pub const NAMED: usize = 14;

    /// The name of the code in the standard; `None` if it has none.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; Code::NAMED] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied()
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The length of the payload, in bytes.
    pub length: u32,
    /// The type; see [`kind`].
    pub kind: u8,
    /// The flags; see [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl Head {
    /// The first header, if its 9 bytes are there. The reserved bit is ignored.
    #[inline]
    pub fn read(data: &[u8]) -> Option<Self> {
        let head = data.first_chunk::<HEADER>()?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *head;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & !(1 << 31),
        })
    }

    /// The header as bytes.
    #[inline]
    pub fn bytes(self) -> [u8; HEADER] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// Whether it has this flag.
    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Append the header of a frame whose payload follows.
#[inline]
pub fn head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&Head { length: length as u32, kind, flags, stream }.bytes());
}

/// Append a WINDOW_UPDATE.
pub fn window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!((1..=WINDOW_MAX).contains(&increment), "an increment of 0 is an error");
    head(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Append a RST_STREAM.
pub fn rst_stream(out: &mut Vec<u8>, stream: u32, code: Code) {
    head(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Append a GOAWAY. `last` is the last stream that was or will be processed.
pub fn goaway(out: &mut Vec<u8>, last: u32, code: Code, debug: &[u8]) {
    head(out, 8 + debug.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug);
}

/// Append a PING, or its acknowledgement.
pub fn ping(out: &mut Vec<u8>, data: [u8; 8], ack: bool) {
    head(out, 8, kind::PING, if ack { flag::ACK } else { 0 }, 0);
    out.extend_from_slice(&data);
}

/// Append the acknowledgement of settings.
pub fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, kind::SETTINGS, flag::ACK, 0);
}

/// Append settings: pairs of a parameter (see [`Settings`]) and its value.
pub fn settings(out: &mut Vec<u8>, pairs: &[(u16, u32)]) {
    head(out, 6 * pairs.len(), kind::SETTINGS, 0, 0);
    for (parameter, value) in pairs {
        out.extend_from_slice(&parameter.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Append a header block that is not empty, in as many frames as it needs. `flags`: of the first
/// one, without END_HEADERS.
pub fn header_block(out: &mut Vec<u8>, stream: u32, mut flags: u8, block: &[u8]) {
    let mut pieces = block.chunks(FRAME_SIZE as usize).peekable();
    let mut kind = kind::HEADERS;
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        head(out, piece.len(), kind, flags, stream);
        out.extend_from_slice(piece);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

/// The payload of a DATA or HEADERS frame without its padding, and without the priority of HEADERS
/// (the frame's other fields are of no interest). `None`: the padding does not fit.
#[inline]
pub fn unpadded(head: Head, payload: &[u8]) -> Option<&[u8]> {
    let skips = head.flags & (flag::PADDED | flag::PRIORITY);
    if skips == 0 { Some(payload) } else { without_padding(head, payload) }
}

#[cold]
fn without_padding(head: Head, mut payload: &[u8]) -> Option<&[u8]> {
    let mut padding = 0;
    if head.has(flag::PADDED) {
        let (&length, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(length), rest);
    }
    if head.kind == kind::HEADERS && head.has(flag::PRIORITY) {
        payload = payload.get(5..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

/// The settings of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The size of its decoder's dynamic table, in bytes.
    pub table_size: u32,
    /// Whether it accepts pushed replies.
    pub push: bool,
    /// How many streams its peer may have open at once; `None`: any number.
    pub streams: Option<u32>,
    /// The flow-control window of new streams to it, in bytes.
    pub window: u32,
    /// The largest payload of a frame to it, in bytes.
    pub frame_size: u32,
    /// The largest header list that it wants, in bytes; `None`: not limited.
    pub list_size: Option<u32>,
    /// Whether it opens tunnels by extended CONNECT (RFC 8441).
    pub connect: bool,
}

impl Default for Settings {
    /// Those that hold before any SETTINGS frame.
    fn default() -> Self {
        Self {
            table_size: TABLE_SIZE,
            push: true,
            streams: None,
            window: WINDOW,
            frame_size: FRAME_SIZE,
            list_size: None,
            connect: false,
        }
    }
}

impl Settings {
    /// The parameter of `table_size`.
    pub const TABLE_SIZE: u16 = 1;
    /// The parameter of `push`.
    pub const PUSH: u16 = 2;
    /// The parameter of `streams`.
    pub const STREAMS: u16 = 3;
    /// The parameter of `window`.
    pub const WINDOW: u16 = 4;
    /// The parameter of `frame_size`.
    pub const FRAME_SIZE: u16 = 5;
    /// The parameter of `list_size`.
    pub const LIST_SIZE: u16 = 6;
    /// The parameter of `connect`.
    pub const CONNECT: u16 = 8;

    /// Apply the payload of a SETTINGS frame. `each` is called after each known parameter, with the
    /// settings so far.
    ///
    /// # Errors
    /// A payload that is no whole number of settings, or a value that is not allowed.
    pub fn apply(&mut self, payload: &[u8], mut each: impl FnMut(u16, &Self)) -> Result<(), Code> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Code::FRAME_SIZE_ERROR);
        };
        for &[p0, p1, v0, v1, v2, v3] in settings {
            let parameter = u16::from_be_bytes([p0, p1]);
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match parameter {
                Self::TABLE_SIZE => self.table_size = value,
                Self::PUSH if value > 1 => return Err(Code::PROTOCOL_ERROR),
                Self::PUSH => self.push = value == 1,
                Self::STREAMS => self.streams = Some(value),
                Self::WINDOW if value > WINDOW_MAX => return Err(Code::FLOW_CONTROL_ERROR),
                Self::WINDOW => self.window = value,
                Self::FRAME_SIZE if !(FRAME_SIZE..=FRAME_SIZE_MAX).contains(&value) => {
                    return Err(Code::PROTOCOL_ERROR);
                }
                Self::FRAME_SIZE => self.frame_size = value,
                Self::LIST_SIZE => self.list_size = Some(value),
                Self::CONNECT if value > 1 => return Err(Code::PROTOCOL_ERROR),
                Self::CONNECT => self.connect = value == 1,
                _ => continue,
            }
            each(parameter, self);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let mut out = Vec::new();
        head(&mut out, 0x01_02_03, kind::DATA, flag::END_STREAM, 0x7fff_fffe);
        assert_eq!(out, [1, 2, 3, 0, 1, 0x7f, 0xff, 0xff, 0xfe]);
        let expected = Head { length: 0x01_02_03, kind: 0, flags: 1, stream: 0x7fff_fffe };
        assert_eq!(Head::read(&out), Some(expected));
        out[5] |= 0x80;
        assert_eq!(Head::read(&out), Some(expected), "the reserved bit is ignored");
        assert_eq!(Head::read(&out[..8]), None);
    }

    #[test]
    fn writes_frames_of_the_connection() {
        let mut out = Vec::new();
        window_update(&mut out, 3, 1000);
        rst_stream(&mut out, 5, Code::CANCEL);
        goaway(&mut out, 7, Code::NO_ERROR, b"hi");
        ping(&mut out, *b"12345678", true);
        settings_ack(&mut out);
        let mut kinds = Vec::new();
        let mut rest = &out[..];
        while let Some(head) = Head::read(rest) {
            let (frame, after) = rest.split_at(HEADER + head.length as usize);
            kinds.push((head.kind, head.flags, head.stream, frame[HEADER..].to_vec()));
            rest = after;
        }
        assert!(rest.is_empty());
        let expected = [
            (8, 0, 3, vec![0, 0, 3, 0xe8]),
            (3, 0, 5, vec![0, 0, 0, 8]),
            (7, 0, 0, vec![0, 0, 0, 7, 0, 0, 0, 0, b'h', b'i']),
            (6, 1, 0, b"12345678".to_vec()),
            (4, 1, 0, vec![]),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn removes_padding_and_priority() {
        let head = |kind, flags| Head { length: 0, kind, flags, stream: 1 };
        let both = flag::PADDED | flag::PRIORITY;
        type Row = (Head, &'static [u8], Option<&'static [u8]>);
        let rows: [Row; 8] = [
            (head(kind::DATA, 0), b"abc", Some(b"abc")),
            (head(kind::DATA, flag::PADDED), b"\x02abcd", Some(b"ab")),
            (head(kind::DATA, flag::PADDED), b"\x04abcd", Some(b"")),
            (head(kind::DATA, flag::PADDED), b"\x05abcd", None),
            (head(kind::DATA, flag::PADDED), b"", None),
            (head(kind::HEADERS, flag::PRIORITY), b"12345ab", Some(b"ab")),
            (head(kind::HEADERS, flag::PRIORITY), b"1234", None),
            (head(kind::HEADERS, both), b"\x0112345ab", Some(b"a")),
        ];
        for (head, payload, expected) in rows {
            assert_eq!(unpadded(head, payload), expected, "{head:?} {payload:?}");
        }
    }

    #[test]
    fn settings_are_applied_in_order() {
        let mut out = Vec::new();
        let pairs = [(3, 100), (4, 1 << 20), (99, 1), (1, 0), (3, 0), (6, 10), (2, 0), (8, 1)];
        settings(&mut out, &pairs);
        let mut seen = Vec::new();
        let mut all = Settings::default();
        let result = all.apply(&out[HEADER..], |parameter, now| {
            seen.push((parameter, now.streams));
        });
        assert_eq!(result, Ok(()));
        let in_order = [Some(100), Some(100), Some(100), Some(0), Some(0), Some(0), Some(0)];
        assert_eq!(seen, [3, 4, 1, 3, 6, 2, 8].into_iter().zip(in_order).collect::<Vec<_>>());
        let expected = Settings {
            table_size: 0,
            push: false,
            streams: Some(0),
            window: 1 << 20,
            frame_size: FRAME_SIZE,
            list_size: Some(10),
            connect: true,
        };
        assert_eq!(all, expected);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let rows: [(u16, u32, Code); 5] = [
            (2, 2, Code::PROTOCOL_ERROR),
            (8, 2, Code::PROTOCOL_ERROR),
            (4, 1 << 31, Code::FLOW_CONTROL_ERROR),
            (5, FRAME_SIZE - 1, Code::PROTOCOL_ERROR),
            (5, FRAME_SIZE_MAX + 1, Code::PROTOCOL_ERROR),
        ];
        for (parameter, value, code) in rows {
            let mut out = Vec::new();
            settings(&mut out, &[(parameter, value)]);
            let mut all = Settings::default();
            assert_eq!(all.apply(&out[HEADER..], |_, _| {}), Err(code), "{parameter} {value}");
        }
        let result = Settings::default().apply(&[0; 7], |_, _| {});
        assert_eq!(result, Err(Code::FRAME_SIZE_ERROR));
    }

    #[test]
    fn codes_have_names() {
        assert_eq!(Code::ENHANCE_YOUR_CALM.name(), Some("ENHANCE_YOUR_CALM"));
        assert_eq!(Code::HTTP_1_1_REQUIRED.name(), Some("HTTP_1_1_REQUIRED"));
        assert_eq!(Code(14).name(), None);
    }
}
