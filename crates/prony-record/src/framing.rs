//! Where a body ends. Its bytes are observed, and pass on as they are.

use crate::head::{self, Header, Malformed, ReplyHead, RequestHead};

/// The most bytes of a line between chunks.
const LINE: usize = 16 << 10;

/// How the end of a body is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There are this many more bytes.
    Length(u64),
    /// In chunks.
    Chunked(Chunked),
    /// By the end of the connection.
    UntilClose,
}

/// The position in a body in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// In a line with a size.
    Size(Vec<u8>),
    /// In the data of a chunk.
    Data(u64),
    /// In the end of the line after the data.
    End,
    /// In a line of the trailer.
    Trailer(Vec<u8>),
    Done,
}

impl Framing {
    pub(crate) fn of_request(head: &RequestHead) -> Result<Self, Malformed> {
        match coded(&head.headers)? {
            Some(framing) => Ok(framing),
            None => Ok(Self::Length(0)),
        }
    }

    /// The body of a reply to a request with this method.
    pub(crate) fn of_reply(head: &ReplyHead, method: &str) -> Result<Self, Malformed> {
        let is_empty = method == "HEAD" || matches!(head.status, 100..200 | 204 | 304);
        if is_empty {
            return Ok(Self::Length(0));
        }
        Ok(coded(&head.headers)?.unwrap_or(Self::UntilClose))
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunked::Done))
    }

    /// Observes bytes up to the end of the body, and gives its contents to `sink`. Returns how many
    /// of them belong to it.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Malformed> {
        match self {
            Self::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= n as u64;
                sink(&bytes[..n]);
                Ok(n)
            }
            Self::UntilClose => {
                sink(bytes);
                Ok(bytes.len())
            }
            Self::Chunked(state) => {
                let mut at = 0;
                while at < bytes.len() && *state != Chunked::Done {
                    at += state.take(&bytes[at..], sink)?;
                }
                Ok(at)
            }
        }
    }
}

impl Chunked {
    fn take(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<usize, Malformed> {
        match self {
            Self::Size(line) => {
                let (n, is_whole) = until_newline(line, bytes)?;
                if is_whole {
                    *self = match size(line)? {
                        0 => Self::Trailer(Vec::new()),
                        size => Self::Data(size),
                    };
                }
                Ok(n)
            }
            Self::Data(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                sink(&bytes[..n]);
                *left -= n as u64;
                if *left == 0 {
                    *self = Self::End;
                }
                Ok(n)
            }
            Self::End => match bytes[0] {
                b'\r' => Ok(1),
                b'\n' => {
                    *self = Self::Size(Vec::new());
                    Ok(1)
                }
                _ => Err(Malformed),
            },
            Self::Trailer(line) => {
                let (n, is_whole) = until_newline(line, bytes)?;
                if is_whole {
                    let is_last = line.is_empty();
                    line.clear();
                    if is_last {
                        *self = Self::Done;
                    }
                }
                Ok(n)
            }
            Self::Done => Ok(0),
        }
    }
}

/// Appends to the line up to its end, which is not part of it. Returns how many bytes were used,
/// and whether the line is complete.
fn until_newline(line: &mut Vec<u8>, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
    let end = bytes.iter().position(|&b| b == b'\n');
    line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
    if line.len() > LINE {
        return Err(Malformed);
    }
    if end.is_some() && line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok((end.map_or(bytes.len(), |at| at + 1), end.is_some()))
}

fn size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
    let digits = str::from_utf8(digits).map_err(|_| Malformed)?;
    if digits.starts_with(['+', '-']) {
        return Err(Malformed);
    }
    u64::from_str_radix(digits, 16).map_err(|_| Malformed)
}

/// The framing that the headers announce.
fn coded(headers: &[Header]) -> Result<Option<Framing>, Malformed> {
    if head::has_word(headers, "transfer-encoding", "chunked") {
        return Ok(Some(Framing::Chunked(Chunked::Size(Vec::new()))));
    }
    let Some(length) = head::header(headers, "content-length") else { return Ok(None) };
    // Several equal lengths are one.
    let mut lengths =
        head::all(headers, "content-length").flat_map(|v| v.split(',')).map(str::trim);
    let first = length.split(',').next().unwrap_or_default().trim();
    if !lengths.all(|other| other == first) || !first.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Malformed);
    }
    first.parse().map(|n| Some(Framing::Length(n))).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunked() -> Framing {
        Framing::Chunked(Chunked::Size(Vec::new()))
    }

    /// The contents, and how many bytes belong to the body, if they come in pieces of this size.
    fn taken(
        mut framing: Framing,
        bytes: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, usize), Malformed> {
        let (mut contents, mut all) = (Vec::new(), 0);
        for part in bytes.chunks(piece) {
            let n = framing.take(part, &mut |bytes| contents.extend_from_slice(bytes))?;
            all += n;
            if n < part.len() {
                assert!(framing.is_done());
                break;
            }
        }
        Ok((contents, all))
    }

    #[test]
    fn bodies_end_where_they_say() {
        let body = b"3;x=y\r\nabc\r\n00a\r\n0123456789\r\n0\r\nA: b\r\n\r\nHTTP/1.1 200";
        for piece in [1, 2, 3, 7, 100] {
            let (contents, used) = taken(chunked(), body, piece).unwrap();
            assert_eq!((contents.as_slice(), used), (&b"abc0123456789"[..], body.len() - 12));
            assert_eq!(taken(Framing::Length(3), b"abcd", piece), Ok((b"abc".to_vec(), 3)));
            assert_eq!(taken(Framing::UntilClose, b"abcd", piece), Ok((b"abcd".to_vec(), 4)));
        }
        for wrong in [&b"g\r\n"[..], b"\r\n", b"-1\r\n", b"1\r\nab", b"11111111111111111\r\n"] {
            assert_eq!(taken(chunked(), wrong, 100), Err(Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn heads_say_how_a_body_ends() {
        let of = |headers: &[(&str, &str)], status, method| {
            let headers = headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
            Framing::of_reply(&ReplyHead { status, headers, ..ReplyHead::default() }, method)
        };
        assert_eq!(of(&[("Content-Length", "5")], 200, "GET"), Ok(Framing::Length(5)));
        assert_eq!(of(&[("Content-Length", "5, 5")], 200, "GET"), Ok(Framing::Length(5)));
        assert_eq!(of(&[("Content-Length", "5")], 200, "HEAD"), Ok(Framing::Length(0)));
        assert_eq!(of(&[("Content-Length", "5")], 304, "GET"), Ok(Framing::Length(0)));
        assert_eq!(of(&[], 200, "GET"), Ok(Framing::UntilClose));
        assert_eq!(of(&[("transfer-encoding", "Chunked")], 200, "GET"), Ok(chunked()));
        for wrong in ["5, 6", "+5", "x"] {
            assert_eq!(of(&[("content-length", wrong)], 200, "GET"), Err(Malformed), "{wrong}");
        }
        let head = RequestHead::default();
        assert_eq!(Framing::of_request(&head), Ok(Framing::Length(0)));
    }
}
