//! Parses the status line and fields, one line at a time, and derives the framing (RFC 9112,
//! sections 2 to 6 and 9).

use memchr::memchr;

use crate::proto::is_of_events;
use prony_base::fault::Fault;

/// The maximum size of a head, and of a trailer section, in bytes.
pub(super) const LIMIT: usize = 64 * 1024;

/// The relevant contents of a head, collected line by line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// The content length; only valid if `has_length`.
    length: u64,
    /// The status code.
    pub(super) status: u16,
    /// The reply's version is 1.1 or a later 1.x.
    v11: bool,
    has_length: bool,
    /// There is a transfer coding.
    coded: bool,
    /// One of them is `chunked`.
    chunked: bool,
    /// ... and it is the last one.
    chunked_last: bool,
    close: bool,
    keep_alive: bool,
    /// The body has server-sent events.
    pub(super) has_events: bool,
}

/// What the method means for the framing of the reply (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing special.
    Plain,
    /// No reply has a body.
    Head,
    /// A successful reply turns the connection into a tunnel.
    Connect,
}

impl Kind {
    pub(super) fn of(method: &str) -> Self {
        match method {
            "HEAD" => Self::Head,
            "CONNECT" => Self::Connect,
            _ => Self::Plain,
        }
    }
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// This many bytes.
    Length(u64),
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

/// What the complete head means, given the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framing {
    pub(super) body: Body,
    /// Whether the connection can carry further calls after this reply.
    pub(super) keeps_open: bool,
    /// Whether the connection switches to another protocol after this reply.
    pub(super) tunnel: bool,
}

/// How much of a head or trailer section has been read, so that a section that arrives in small
/// pieces is scanned once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    /// Bytes of complete lines so far.
    used: u32,
    /// Bytes of the unfinished line that have been searched for the line end.
    pub(super) scanned: u32,
}

/// The result of reading one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The line has not ended yet.
    NeedsMore,
    /// The empty line at the section's end, and its length in bytes.
    End(usize),
    /// A line without its line end, and its length with it. A field may contain folds.
    Text(&'a [u8], usize),
}

impl Section {
    /// The status line at the start of `data`.
    pub(super) fn status_line<'a>(&mut self, data: &'a [u8]) -> Result<Line<'a>, Fault> {
        const START: &[u8] = b"HTTP/1.";
        // Checked from the first bytes on, so that garbage without a line end is refused at once.
        let n = data.len().min(START.len());
        if data[..n] != START[..n] {
            return Err(Fault::BadStatusLine);
        }
        let from = data.len().min(self.scanned as usize);
        match memchr(b'\n', &data[from..]) {
            Some(i) => self.take(data, from + i),
            None => self.starve(data.len(), data.len()),
        }
    }

    /// The next field line at the start of `data`, with the folded lines that belong to it.
    #[inline]
    pub(super) fn field_line<'a>(&mut self, data: &'a [u8]) -> Result<Line<'a>, Fault> {
        let end = match data {
            [] => return Ok(Line::NeedsMore),
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => return self.starve(1, 0),
            _ => return self.field(data),
        };
        self.count(end)?;
        Ok(Line::End(end))
    }

    /// Whether no byte has been scanned.
    #[inline]
    pub(super) fn is_fresh(self) -> bool {
        self.used == 0 && self.scanned == 0
    }

    /// A complete line of the usual form at the start of `data`, and its length with the line end.
    /// Everything else, valid or not, is left to `status_line`; if this finds a line, `status_line`
    /// would find the same.
    #[inline]
    pub(super) fn simple_line<'a>(&mut self, data: &'a [u8]) -> Option<(&'a [u8], usize)> {
        if self.scanned > 0 {
            return None;
        }
        let end = first_control(data)?;
        let n = end + 2;
        let simple = data[end..].starts_with(b"\r\n") && self.used as usize + n <= LIMIT;
        simple.then(|| {
            self.used += n as u32;
            (&data[..end], n)
        })
    }

    /// A complete field line of the usual form at the start of `data`: its name, its value with the
    /// whitespace around it, and its length with the line end. Everything else, valid or not, is
    /// left to `field_line`; if this finds a line, `field_line` would find the same.
    #[inline]
    pub(super) fn simple_field<'a>(
        &mut self,
        data: &'a [u8],
    ) -> Option<(&'a [u8], &'a [u8], usize)> {
        if self.scanned > 0 || data.first() == Some(&b'\r') {
            return None;
        }
        let colon = token_length(data);
        let (name, value) = (data.get(..colon)?, data.get(colon + 1..)?);
        let end = first_control(value)?;
        let n = colon + 1 + end + 2;
        let simple = colon > 0
            && data[colon] == b':'
            && matches!(value[end..], [b'\r', b'\n', next, ..] if next != b' ' && next != b'\t')
            && self.used as usize + n <= LIMIT;
        simple.then(|| {
            self.used += n as u32;
            (name, &value[..end], n)
        })
    }

    #[inline]
    fn field<'a>(&mut self, data: &'a [u8]) -> Result<Line<'a>, Fault> {
        let mut from = data.len().min(self.scanned as usize);
        while let Some(i) = memchr(b'\n', &data[from..]) {
            let end = from + i;
            match data.get(end + 1) {
                // Only the next byte shows whether the line is folded.
                None => return self.starve(data.len(), end),
                Some(b' ' | b'\t') => from = end + 1,
                Some(_) => return self.take(data, end),
            }
        }
        self.starve(data.len(), data.len())
    }

    /// A line is complete; its LF is at `lf`.
    #[inline]
    fn take<'a>(&mut self, data: &'a [u8], lf: usize) -> Result<Line<'a>, Fault> {
        self.count(lf + 1)?;
        let line = &data[..lf];
        Ok(Line::Text(line.strip_suffix(b"\r").unwrap_or(line), lf + 1))
    }

    #[inline]
    fn count(&mut self, n: usize) -> Result<(), Fault> {
        self.scanned = 0;
        self.used = u32::try_from(n)
            .ok()
            .and_then(|n| self.used.checked_add(n))
            .filter(|&n| n as usize <= LIMIT)
            .ok_or(Fault::HeaderTooLarge)?;
        Ok(())
    }

    /// More bytes are needed; the first `scanned` of the `pending` ones contain no line end.
    fn starve(&mut self, pending: usize, scanned: usize) -> Result<Line<'static>, Fault> {
        if self.used as usize + pending > LIMIT {
            return Err(Fault::HeaderTooLarge);
        }
        self.scanned = scanned as u32;
        Ok(Line::NeedsMore)
    }
}

impl Framing {
    /// The body, if its length is known and all of it is at the start of `data`.
    #[inline]
    pub(super) fn whole_body<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let Body::Length(length) = self.body else { return None };
        data.get(..usize::try_from(length).ok()?)
    }
}

impl Head {
    /// Parse a status line: `HTTP/1.x`, a space, three digits, and a space before the reason, if
    /// there is one.
    pub(super) fn status_line(line: &[u8]) -> Result<Self, Fault> {
        let Some((start, reason)) = line.split_first_chunk::<12>() else {
            return Err(Fault::BadStatusLine);
        };
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', code @ ..] = start else {
            return Err(Fault::BadStatusLine);
        };
        let reason_fits = matches!(reason, [] | [b' ', ..]) && is_text(reason);
        if !minor.is_ascii_digit() || !code.iter().all(u8::is_ascii_digit) || !reason_fits {
            return Err(Fault::BadStatusLine);
        }
        let status = code.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
        if !(100..=599).contains(&status) {
            return Err(Fault::BadStatus);
        }
        Ok(Self { status, v11: *minor != b'0', ..Self::default() })
    }

    /// Add a field.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        match name.len() {
            10 if is_named(name, b"Connection") => self.connection(value),
            12 if is_named(name, b"Content-Type") => self.has_events = is_of_events(value),
            14 if is_named(name, b"Content-Length") => return self.content_length(value),
            17 if is_named(name, b"Transfer-Encoding") => return self.transfer_encoding(value),
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        match trim(value) {
            b"keep-alive" => return self.keep_alive = true,
            b"close" => return self.close = true,
            _ => {}
        }
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// A list is accepted if all its elements are the same number (RFC 9112, 6.3).
    fn content_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        if elements(value).next().is_none() {
            return Err(Fault::BadLength);
        }
        for element in elements(value) {
            let length = decimal(element).ok_or(Fault::BadLength)?;
            if self.has_length && self.length != length {
                return Err(Fault::BadLength);
            }
            (self.has_length, self.length) = (true, length);
        }
        Ok(())
    }

    /// The codings of RFC 9112, section 7. With others (including the old `identity`), the end of
    /// the reply cannot be found.
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Fault> {
        const KNOWN: [&[u8]; 5] = [b"gzip", b"deflate", b"compress", b"x-gzip", b"x-compress"];
        if elements(value).next().is_none() {
            return Err(Fault::BadCoding);
        }
        for element in elements(value) {
            let name = element.split(|&b| b == b';').next().map_or(element, trim);
            if name.eq_ignore_ascii_case(b"chunked") {
                // It has no parameters and is applied once.
                if self.chunked || name.len() != element.len() {
                    return Err(Fault::BadCoding);
                }
                (self.chunked, self.chunked_last) = (true, true);
            } else if KNOWN.iter().any(|k| name.eq_ignore_ascii_case(k)) {
                self.chunked_last = false;
            } else {
                return Err(Fault::BadCoding);
            }
            self.coded = true;
        }
        Ok(())
    }

    /// Whether this is a 1xx reply before the final reply. 101 is not: no HTTP follows it.
    pub(super) fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Apply the rules of RFC 9112, 6.3 and 9.3, in order.
    #[inline]
    pub(super) fn framing(&self, kind: Kind) -> Framing {
        let tunnel =
            self.status == 101 || (kind == Kind::Connect && (200..=299).contains(&self.status));
        let body = if tunnel || kind == Kind::Head || matches!(self.status, 204 | 304) {
            Body::Length(0)
        } else if self.chunked_last {
            Body::Chunked
        } else if self.has_length && !self.coded {
            Body::Length(self.length)
        } else {
            Body::UntilClose
        };
        // A coding together with a length, or in a reply of HTTP/1.0, may be an attempt to make two
        // readers see different messages: the coding counts, and the connection is not used again
        // (RFC 9112, 6.1 and 6.3).
        let doubtful = self.coded && (self.has_length || !self.v11);
        let keeps_open = !self.close
            && (self.v11 || self.keep_alive)
            && !doubtful
            && !tunnel
            && body != Body::UntilClose;
        Framing { body, keeps_open, tunnel }
    }
}

/// Check a field line without a meaning here (trailers).
pub(super) fn check_field(line: &[u8]) -> Result<(), Fault> {
    split_field(line).map(|_| ())
}

/// The elements of a comma-separated list, without the whitespace around them. Empty ones do not
/// count (RFC 9110, 5.6.1).
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim).filter(|e| !e.is_empty())
}

/// Whether a field has this name, given in its usual spelling.
#[inline]
fn is_named<const N: usize>(name: &[u8], usual: &[u8; N]) -> bool {
    name == usual || name.eq_ignore_ascii_case(usual)
}

/// Name and value (with the whitespace around it). Nothing may stand between name and colon (RFC
/// 9112, 5.1).
pub(super) fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let n = token_length(line);
    let (name, [b':', value @ ..]) = line.split_at(n) else { return Err(Fault::BadHeader) };
    if n == 0 || !(is_text(value) || is_folded_text(value)) {
        return Err(Fault::BadHeader);
    }
    Ok((name, value))
}

/// How many bytes at the start are allowed in a token.
#[inline]
fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| !TOKEN[b as usize]).unwrap_or(bytes.len())
}

/// Whether there is no control character but tabs.
fn is_text(mut bytes: &[u8]) -> bool {
    while let Some(i) = first_control(bytes) {
        if bytes[i] != b'\t' {
            return false;
        }
        bytes = &bytes[i + 1..];
    }
    true
}

/// The position of the first control character, tabs included.
#[inline]
fn first_control(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Eight bytes at once. The lowest bit that is set belongs to the first matching byte: borrows
    // propagate upwards only.
    let (words, rest) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let delete = word ^ (ONES * 0x7f);
        let low = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (low | (delete.wrapping_sub(ONES) & !delete)) & HIGH;
        if found != 0 {
            return Some(i * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let i = rest.iter().position(|b| b.is_ascii_control())?;
    Some(words.len() * 8 + i)
}

/// Like `is_text`, but line ends are allowed, which in a field are always folds. A CR alone is not
/// a line end (RFC 9112, 2.2).
fn is_folded_text(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|&b| b == b'\n');
    let last = lines.next_back().unwrap_or(bytes);
    is_text(last) && lines.all(|line| is_text(line.strip_suffix(b"\r").unwrap_or(line)))
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A number of digits only, if it fits.
fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_u64, |n, b| {
        b.is_ascii_digit().then_some(())?;
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}

/// Which bytes are allowed in a token (RFC 9110, 5.6.2).
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"!#$%&'*+-.^_`|~";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    let mut b = 0;
    while b < 128 {
        if (b as u8).is_ascii_alphanumeric() {
            table[b] = true;
        }
        b += 1;
    }
    table
};
