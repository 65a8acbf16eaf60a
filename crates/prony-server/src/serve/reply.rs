//! Encoding of replies.

use std::io::Write as _;

/// The maximum number of body bytes written at once; a longer body is written piece by piece as it
/// is sent.
pub(super) const PIECE: usize = 16 << 10;

/// A reply, decided but not yet written.
#[derive(Debug)]
pub(super) struct Reply {
    /// Its status.
    pub(super) status: u16,
    /// Its body.
    pub(super) content: Content,
    /// Whether it answers HEAD: the same headers, but no body.
    pub(super) is_head: bool,
    /// Whether the body is sent in chunks.
    pub(super) chunked: bool,
    /// Its `Connection` header.
    pub(super) connection: Connection,
    /// Whether it is truncated in the middle.
    pub(super) cut: bool,
    /// What happens to the connection after it.
    pub(super) after: After,
}

/// A reply's `Connection` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// No such header.
    None,
    /// `keep-alive`, for HTTP/1.0.
    KeepAlive,
    /// `close`.
    Close,
}

/// What happens to a connection after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum After {
    /// It stays open.
    #[default]
    Open,
    /// It is closed.
    Close,
    /// It is closed when the client has closed it, or after a timeout. The client is still sending,
    /// so an immediate close could reset the connection, and the client would lose the reply.
    Linger,
}

/// A reply's body.
#[derive(Debug)]
pub(super) enum Content {
    /// A number of bytes of the pattern.
    Pattern(u64),
    /// An error message.
    Text(&'static str),
    /// The body of the request.
    Echo(Vec<u8>),
    /// None: a redirect to `/redirect/N`.
    Redirect(u32),
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Pattern(n) => *n,
            Self::Text(text) => text.len() as u64,
            Self::Echo(bytes) => bytes.len() as u64,
            Self::Redirect(_) => 0,
        }
    }

    /// The bytes of it that are in memory.
    pub(super) fn size(&self) -> usize {
        if let Self::Echo(bytes) = self { bytes.capacity() } else { 0 }
    }

    /// Append `n` bytes from position `at`; at most [`PIECE`].
    pub(super) fn append(&self, at: u64, n: usize, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(&text.as_bytes()[at as usize..][..n]),
            Self::Echo(bytes) => out.extend_from_slice(&bytes[at as usize..][..n]),
            Self::Redirect(_) => {}
            Self::Pattern(_) => {
                let from = (at % PATTERN.len() as u64) as usize;
                let first = n.min(PATTERN.len() - from);
                out.extend_from_slice(&PATTERN[from..from + first]);
                out.extend_from_slice(&PATTERN[..n - first]);
            }
        }
    }
}

/// The part of a body that is still to be written.
#[derive(Debug)]
pub(super) struct Rest {
    content: Content,
    /// The position of the next byte.
    at: u64,
    /// The position after the last byte.
    end: u64,
    chunked: bool,
    /// Whether to write the last chunk.
    marks_end: bool,
}

impl Reply {
    /// Append the head and the first piece of the body, and return the rest of the body, if any.
    pub(super) fn start(self, out: &mut Vec<u8>) -> Option<Rest> {
        let start = out.len();
        let length = self.content.len();
        let never_has_body = matches!(self.status, 204 | 304);
        let reason = reason(self.status);
        let put = match self.status {
            200 => out.write_all(b"HTTP/1.1 200 OK\r\nServer: prony\r\n"),
            status => write!(out, "HTTP/1.1 {status} {reason}\r\nServer: prony\r\n"),
        };
        put.expect("a Vec takes all");
        if !never_has_body {
            out.extend_from_slice(match self.content {
                Content::Echo(_) => b"Content-Type: application/octet-stream\r\n",
                Content::Pattern(_) | Content::Text(_) => {
                    b"Content-Type: text/plain\r\n".as_slice()
                }
                Content::Redirect(_) => b"",
            });
            if let Content::Redirect(left) = self.content {
                write!(out, "Location: /redirect/{left}\r\n").expect("a Vec takes all");
            }
            if self.chunked {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            } else {
                write!(out, "Content-Length: {length}\r\n").expect("a Vec takes all");
            }
        }
        out.extend_from_slice(match self.connection {
            Connection::None => b"\r\n".as_slice(),
            Connection::KeepAlive => b"Connection: keep-alive\r\n\r\n",
            Connection::Close => b"Connection: close\r\n\r\n",
        });
        if never_has_body || self.is_head || (self.cut && length == 0) {
            if self.cut {
                out.truncate(start + (out.len() - start) / 2);
            }
            return None;
        }
        let mut rest = Rest {
            end: if self.cut { length / 2 } else { length },
            content: self.content,
            at: 0,
            chunked: self.chunked,
            marks_end: self.chunked && !self.cut,
        };
        if rest.next(out) { None } else { Some(rest) }
    }
}

impl Rest {
    /// The bytes of the body that are in memory.
    pub(super) fn size(&self) -> usize {
        self.content.size()
    }

    /// Append the next piece; return whether it was the last.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let n = (self.end - self.at).min(PIECE as u64);
        if self.chunked && n > 0 {
            write!(out, "{n:x}\r\n").expect("a Vec takes all");
        }
        let (from, to) = (self.at as usize, (self.at + n) as usize);
        match &self.content {
            Content::Text(text) => out.extend_from_slice(&text.as_bytes()[from..to]),
            Content::Echo(bytes) => out.extend_from_slice(&bytes[from..to]),
            Content::Redirect(_) => {}
            // Pieces start at multiples of PIECE, and so of the pattern's period.
            Content::Pattern(_) => out.extend_from_slice(&PATTERN[..to - from]),
        }
        if self.chunked && n > 0 {
            out.extend_from_slice(b"\r\n");
        }
        self.at += n;
        if self.at == self.end && self.marks_end {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        self.at == self.end
    }
}

/// Byte k of a default body is letter k mod 64 of the alphabet of URL-safe base64, so that a client
/// can check it.
static PATTERN: [u8; PIECE] = {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut pattern = [0; PIECE];
    let mut i = 0;
    while i < PIECE {
        pattern[i] = letters[i % letters.len()];
        i += 1;
    }
    pattern
};

/// The reason phrase of RFC 9110; empty for other statuses.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
