//! The head of a reply: its fields and whether they are valid (RFC 9113, 8).

use crate::proto::is_of_events;
use prony_base::grpc::Status;

/// How many bytes of a `grpc-message` are kept: more than are shown.
const MESSAGE_MAX: usize = 4 << 10;

/// What a header block says, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// 0: it has no `:status`.
    pub(super) status: u16,
    /// The content length; `u64::MAX`: none.
    pub(super) length: u64,
    /// Whether a field is not allowed.
    pub(super) is_malformed: bool,
    /// The sum of the lengths of names and values.
    pub(super) plain: u32,
    /// Whether the body is one of gRPC.
    pub(super) is_grpc: bool,
    /// How compressed messages are encoded.
    pub(super) encoding: Encoding,
    /// Whether the body has server-sent events.
    pub(super) has_events: bool,
    /// The status of gRPC, if there is a valid one.
    pub(super) grpc_status: Option<Status>,
}

/// How the compressed messages of a body are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    /// There may be none.
    #[default]
    None,
    Gzip,
    /// In a way that is not known here.
    Unknown,
}

/// Reads the fields of one block.
#[derive(Debug)]
pub(super) struct Reader {
    head: Head,
    /// Whether a field that is not a pseudo-header was read.
    is_past_pseudo: bool,
    /// The value of `grpc-message`, or the start of a long one.
    message: Vec<u8>,
}

impl Reader {
    /// `message` is memory for the value of `grpc-message`.
    pub(super) fn new(mut message: Vec<u8>) -> Self {
        message.clear();
        let head = Head { length: u64::MAX, ..Head::default() };
        Self { head, is_past_pseudo: false, message }
    }

    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.head.plain = self.head.plain.saturating_add((name.len() + value.len()) as u32);
        if name.first() == Some(&b':') {
            self.pseudo(name, value);
            return;
        }
        self.is_past_pseudo = true;
        self.head.is_malformed |= !is_valid_name(name) || !is_valid_value(value);
        match name {
            b"content-length" => self.length(value),
            b"content-type" => {
                self.head.is_grpc = is_of_grpc(value);
                self.head.has_events = is_of_events(value);
            }
            b"grpc-status" => self.head.grpc_status = Status::parse(value),
            b"grpc-message" => {
                self.message.clear();
                self.message.extend_from_slice(&value[..value.len().min(MESSAGE_MAX)]);
            }
            b"grpc-encoding" => {
                self.head.encoding = match value {
                    b"identity" => Encoding::None,
                    b"gzip" => Encoding::Gzip,
                    _ => Encoding::Unknown,
                }
            }
            // Those are of one connection; HTTP/2 has its own means.
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => self.head.is_malformed = true,
            b"te" => self.head.is_malformed |= value != b"trailers",
            _ => {}
        }
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) {
        let digits = <[u8; 3]>::try_from(value).ok().filter(|d| d.iter().all(u8::is_ascii_digit));
        let again = self.head.status != 0 || self.is_past_pseudo;
        match digits {
            Some(digits) if name == b":status" && !again => {
                self.head.status =
                    digits.iter().fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
            }
            _ => self.head.is_malformed = true,
        }
    }

    /// A content length. Several are allowed if they are the same.
    fn length(&mut self, value: &[u8]) {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = match std::str::from_utf8(value) {
            Ok(text) if is_number => text.parse::<u64>().ok().filter(|&n| n < u64::MAX),
            _ => None,
        };
        match length {
            Some(n) if self.head.length == u64::MAX || self.head.length == n => {
                self.head.length = n;
            }
            _ => self.head.is_malformed = true,
        }
    }

    /// What the block says, and the value of `grpc-message`.
    pub(super) fn finish(self) -> (Head, Vec<u8>) {
        (self.head, self.message)
    }
}

/// Whether a content type is `application/grpc`, with or without the format of its messages.
fn is_of_grpc(value: &[u8]) -> bool {
    let rest = value.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Whether the name is a token in lower case (RFC 9113, 8.2.1).
#[inline]
fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| VALID[byte as usize])
}

/// Whether the value has no line break, no NUL, and no space at its ends.
#[inline]
fn is_valid_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first())
        && !is_space(value.last())
        && memchr::memchr3(b'\r', b'\n', 0, value).is_none()
}

/// The characters of a token, without upper case.
const VALID: [bool; 256] = {
    let mut valid = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        valid[byte] = matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+')
            || matches!(b, b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    valid
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Head {
        let mut reader = Reader::new(Vec::new());
        for (name, value) in fields {
            reader.field(name.as_bytes(), value.as_bytes());
        }
        reader.finish().0
    }

    #[test]
    fn reads_status_and_length() {
        let head = read(&[(":status", "204"), ("server", "x"), ("content-length", "10")]);
        let expected = Head { status: 204, length: 10, plain: 33, ..Head::default() };
        assert_eq!(head, expected);
        assert_eq!(read(&[(":status", "200")]).length, u64::MAX);
        let same = [(":status", "200"), ("content-length", "7"), ("content-length", "7")];
        assert_eq!(read(&same).length, 7);
    }

    #[test]
    fn reads_the_fields_of_grpc() {
        let head = read(&[
            (":status", "200"),
            ("content-type", "application/grpc+proto"),
            ("grpc-encoding", "gzip"),
        ]);
        assert!(head.is_grpc && head.grpc_status.is_none());
        assert_eq!(head.encoding, Encoding::Gzip);
        let trailers = read(&[("grpc-status", "5"), ("grpc-encoding", "identity")]);
        let known = (trailers.grpc_status, trailers.encoding);
        assert_eq!(known, (Some(Status::NOT_FOUND), Encoding::None));
        assert_eq!(read(&[("grpc-encoding", "snappy")]).encoding, Encoding::Unknown);
        assert_eq!(read(&[("grpc-status", "five")]).grpc_status, None);
        for other in ["application/grpc-web", "text/html", ""] {
            assert!(!read(&[("content-type", other)]).is_grpc, "{other}");
        }
    }

    #[test]
    fn refuses_malformed_fields() {
        let status = (":status", "200");
        let rows: [&[(&str, &str)]; 20] = [
            &[status, status],
            &[("a", "b"), status],
            &[(":status", "20")],
            &[(":status", "2000")],
            &[(":status", "2x0")],
            &[(":path", "/"), status],
            &[status, (":other", "")],
            &[status, ("", "b")],
            &[status, ("A", "b")],
            &[status, ("a b", "b")],
            &[status, ("a", "b\r")],
            &[status, ("a", "b\nc")],
            &[status, ("a", "\0")],
            &[status, ("a", " b")],
            &[status, ("connection", "close")],
            &[status, ("transfer-encoding", "chunked")],
            &[status, ("te", "gzip")],
            &[status, ("content-length", "+1")],
            &[status, ("content-length", "18446744073709551615")],
            &[status, ("content-length", "1"), ("content-length", "2")],
        ];
        for row in rows {
            assert!(read(row).is_malformed, "{row:?}");
        }
        let valid = [status, ("x-a.b_c~", "any \u{e9} value, \"quoted\""), ("x-empty", "")];
        assert!(!read(&valid).is_malformed);
    }
}
