//! The parser of requests (RFC 9112), stricter than required: no bare line feeds, no folded
//! headers.

use memchr::memchr;
use prony_base::units::Span;

use super::model::Api;

/// The maximum length of request line and headers, and of the trailers of a chunked body.
pub const HEAD_LIMIT: usize = 64 << 10;

/// The maximum length of a chunk size line, extensions included.
const CHUNK_LINE_LIMIT: usize = 4 << 10;

/// The properties of a request that determine its reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head {
    /// The requested resource.
    pub(super) route: Route,
    /// Whether the method is HEAD, so that the reply has no body.
    pub(super) is_head: bool,
    /// Whether the version is HTTP/1.0.
    pub(super) is_http10: bool,
    /// Whether the client wants the connection to stay open.
    pub(super) keep_open: bool,
    /// Whether the client waits for a `100 Continue` before it sends the body.
    pub(super) wants_continue: bool,
    /// Whether a body follows.
    pub(super) has_body: bool,
    /// The event after which a stream continues, if that is a number.
    pub(super) last_event: Option<u64>,
}

/// The resource that a path names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Route {
    /// Any other path: the default reply.
    Default,
    /// `/bytes/N`: a body of that many bytes.
    Bytes(u64),
    /// `/status/N`: that status.
    Status(u16),
    /// `/redirect/N`: a redirect to `/redirect/N-1`, of which this is the number.
    Redirect(u32),
    /// `/delay/T`: that service time instead of the configured one.
    Delay(Span),
    /// `/echo`: the request's body.
    Echo,
    /// A path of a language model: the default reply, unless replies are streams.
    Model(Api),
    /// One of the above with a malformed number: 404.
    NotFound,
}

/// The reason for rejecting a request, sent as the reply; the connection is then closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reply's status.
    pub(super) status: u16,
    /// The reply's body.
    pub(super) why: &'static str,
}

/// The client speaks another protocol. It gets no reply: the connection is closed.
pub(super) const NOT_HTTP: Refusal = Refusal { status: 0, why: "" };

/// The next parsed element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event<'a> {
    /// Incomplete: more bytes are needed.
    More,
    /// A request's head.
    Head(Head),
    /// A piece of its body, without transfer coding.
    Body(&'a [u8]),
    /// The end of the body of a request that has one.
    End,
    /// A malformed request. Nothing after it can be parsed.
    Refused(Refusal),
}

/// The state of the parser of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    state: State,
    /// The start of the head's first incomplete line, and the end of the part already searched for
    /// a line feed, so that a head that arrives slowly is searched only once.
    line: u32,
    searched: u32,
    /// Whether an empty line came before the head.
    blank: bool,
    /// Bytes of a chunked body so far, because its length is not known in advance.
    body: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Head,
    /// Remaining bytes of a body with a content length.
    Body(u64),
    ChunkSize,
    /// Remaining bytes of this chunk.
    Chunk(u64),
    ChunkEnd,
    /// Bytes of trailers so far.
    Trailers(u32),
}

impl Reader {
    /// Whether the connection is between two requests.
    pub(super) fn is_between(&self) -> bool {
        self.state == State::Head
    }

    /// Return the number of bytes consumed from `data`, and the next event. The caller must pass
    /// the remaining bytes again, in front of those that arrive next. Bodies over `max_body` bytes
    /// are rejected.
    pub(super) fn next<'a>(&mut self, data: &'a [u8], max_body: u64) -> (usize, Event<'a>) {
        match self.state {
            State::Head => self.head(data, max_body),
            State::Body(0) => {
                self.state = State::Head;
                (0, Event::End)
            }
            _ if data.is_empty() => (0, Event::More),
            State::Body(left) => {
                let n = left.min(data.len() as u64);
                self.state = State::Body(left - n);
                (n as usize, Event::Body(&data[..n as usize]))
            }
            State::ChunkSize => self.chunk_size(data, max_body),
            State::Chunk(left) => {
                let n = left.min(data.len() as u64);
                self.state = if n == left { State::ChunkEnd } else { State::Chunk(left - n) };
                (n as usize, Event::Body(&data[..n as usize]))
            }
            State::ChunkEnd => match data {
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkSize;
                    let (n, event) = self.next(&data[2..], max_body);
                    (2 + n, event)
                }
                [b'\r'] => (0, Event::More),
                _ => refuse(400, "chunk longer than its size says\n"),
            },
            State::Trailers(so_far) => self.trailer(data, so_far),
        }
    }

    fn head<'a>(&mut self, data: &'a [u8], max_body: u64) -> (usize, Event<'a>) {
        loop {
            let searched = (self.searched as usize).min(data.len());
            let Some(at) = memchr(b'\n', &data[searched..]) else {
                if data.len() > HEAD_LIMIT {
                    return refuse(431, "request line and headers over 64 KiB\n");
                }
                self.searched = data.len() as u32;
                return (0, Event::More);
            };
            let end = searched + at;
            if end >= HEAD_LIMIT {
                return refuse(431, "request line and headers over 64 KiB\n");
            }
            let line = self.line as usize;
            if end == line || data[end - 1] != b'\r' {
                return refuse(400, "line not ended by CR LF\n");
            }
            (self.line, self.searched) = (end as u32 + 1, end as u32 + 1);
            if end - line > 1 {
                continue;
            }
            if line == 0 {
                // RFC 9112, section 2.2: ignore an empty line before a request, but only one.
                if self.blank {
                    return refuse(400, "empty lines instead of a request\n");
                }
                self.blank = true;
                (self.line, self.searched) = (0, 0);
                let (n, event) = self.head(&data[2..], max_body);
                return (2 + n, event);
            }
            (self.line, self.searched, self.blank) = (0, 0, false);
            return match parse_head(&data[..line], max_body) {
                Ok((head, framing)) => {
                    self.body = 0;
                    self.state = match framing {
                        Framing::None => State::Head,
                        Framing::Length(n) => State::Body(n),
                        Framing::Chunked => State::ChunkSize,
                    };
                    (end + 1, Event::Head(head))
                }
                Err(refusal) => (0, Event::Refused(refusal)),
            };
        }
    }

    fn chunk_size<'a>(&mut self, data: &'a [u8], max_body: u64) -> (usize, Event<'a>) {
        let Some(end) = memchr(b'\n', &data[..data.len().min(CHUNK_LINE_LIMIT)]) else {
            return match data.len() < CHUNK_LINE_LIMIT {
                true => (0, Event::More),
                false => refuse(400, "chunk size line over 4 KiB\n"),
            };
        };
        let Some(size) = data[..end].strip_suffix(b"\r").and_then(parse_chunk_line) else {
            return refuse(400, "malformed chunk size\n");
        };
        self.body = self.body.saturating_add(size);
        if self.body > max_body {
            return refuse(413, "body over the limit\n");
        }
        self.state = if size == 0 { State::Trailers(0) } else { State::Chunk(size) };
        let (n, event) = self.next(&data[end + 1..], max_body);
        (end + 1 + n, event)
    }

    fn trailer<'a>(&mut self, data: &'a [u8], mut so_far: u32) -> (usize, Event<'a>) {
        let mut used = 0;
        loop {
            let rest = &data[used..];
            let end = memchr(b'\n', rest);
            if so_far as usize + end.unwrap_or(rest.len()) > HEAD_LIMIT {
                return refuse(431, "trailers over 64 KiB\n");
            }
            let Some(end) = end else {
                self.state = State::Trailers(so_far);
                return (used, Event::More);
            };
            let Some(line) = rest[..end].strip_suffix(b"\r") else {
                return refuse(400, "line not ended by CR LF\n");
            };
            used += end + 1;
            if line.is_empty() {
                self.state = State::Head;
                return (used, Event::End);
            }
            if let Err(refusal) = parse_field(line) {
                return (0, Event::Refused(refusal));
            }
            so_far += end as u32 + 1;
        }
    }
}

enum Framing {
    None,
    Length(u64),
    Chunked,
}

fn refuse<'a>(status: u16, why: &'static str) -> (usize, Event<'a>) {
    (0, Event::Refused(Refusal { status, why }))
}

fn bad(why: &'static str) -> Refusal {
    Refusal { status: 400, why }
}

/// Parse the hexadecimal size before any extension; at most 15 digits, so that sums cannot
/// overflow.
fn parse_chunk_line(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let rest = line[digits..].trim_ascii_start();
    if digits == 0 || digits > 15 || !(rest.is_empty() || rest[0] == b';') {
        return None;
    }
    if line.iter().any(|&b| b != b'\t' && (b < b' ' || b == 0x7f)) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()
}

/// The relevant headers of a request.
#[derive(Default)]
struct Fields {
    hosts: u32,
    length: Option<u64>,
    coding: Option<Coding>,
    close: bool,
    keep_alive: bool,
    wants_continue: bool,
    last_event: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Coding {
    Chunked,
    Other,
}

/// Parse request line and headers: complete lines with their CR LF, without the empty line at the
/// end.
fn parse_head(lines: &[u8], max_body: u64) -> Result<(Head, Framing), Refusal> {
    let mut lines = lines.strip_suffix(b"\r\n").unwrap_or(lines);
    let first = next_line(&mut lines).unwrap_or_default();
    let (route, is_head, is_http10) = parse_request_line(first)?;
    let mut fields = Fields::default();
    while let Some(line) = next_line(&mut lines) {
        let (name, value) = parse_field(line)?;
        take_field(&mut fields, name, value)?;
    }
    if fields.hosts != 1 && !(is_http10 && fields.hosts == 0) {
        return Err(bad("not exactly one Host header\n"));
    }
    let framing = match (fields.coding, fields.length) {
        (Some(_), Some(_)) => return Err(bad("both Content-Length and Transfer-Encoding\n")),
        (Some(_), None) if is_http10 => return Err(bad("Transfer-Encoding in HTTP/1.0\n")),
        (Some(Coding::Other), None) => {
            return Err(Refusal { status: 501, why: "transfer coding other than chunked\n" });
        }
        (Some(Coding::Chunked), None) => Framing::Chunked,
        (None, Some(n)) if n > max_body => {
            return Err(Refusal { status: 413, why: "body over the limit\n" });
        }
        (None, None | Some(0)) => Framing::None,
        (None, Some(n)) => Framing::Length(n),
    };
    let has_body = !matches!(framing, Framing::None);
    let head = Head {
        route,
        is_head,
        is_http10,
        keep_open: !fields.close && (!is_http10 || fields.keep_alive),
        wants_continue: fields.wants_continue && has_body && !is_http10,
        has_body,
        last_event: fields.last_event,
    };
    Ok((head, framing))
}

/// Split off the next line. Each line but the last ends with CR LF.
fn next_line<'a>(lines: &mut &'a [u8]) -> Option<&'a [u8]> {
    if lines.is_empty() {
        return None;
    }
    let end = memchr(b'\n', lines).unwrap_or(lines.len());
    let line = &lines[..end];
    *lines = &lines[(end + 1).min(lines.len())..];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn parse_request_line(line: &[u8]) -> Result<(Route, bool, bool), Refusal> {
    let mut words = line.split(|&b| b == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("request line is not METHOD TARGET VERSION\n"));
    };
    if method.is_empty() || !method.iter().all(|&b| is_token(b)) {
        return Err(bad("method is not a token\n"));
    }
    let is_http10 = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            match major {
                b'1' => false,
                _ => return Err(Refusal { status: 505, why: "only HTTP/1.0 and 1.1\n" }),
            }
        }
        // Neither method nor version: that is no HTTP.
        _ if !version.starts_with(b"HTTP/") && !is_known(method) => return Err(NOT_HTTP),
        _ => return Err(bad("version is not HTTP/1.1\n")),
    };
    if !target.iter().all(|b| b.is_ascii_graphic()) {
        return Err(bad("target with bytes that no target may have\n"));
    }
    let path = match is_known(method) {
        true => target_path(method, target)?,
        false => return Err(Refusal { status: 501, why: "method not known\n" }),
    };
    Ok((route(path), method == b"HEAD", is_http10))
}

pub(super) fn is_known(method: &[u8]) -> bool {
    matches!(
        method,
        b"GET" | b"HEAD" | b"POST" | b"PUT" | b"DELETE" | b"PATCH" | b"OPTIONS" | b"TRACE"
    )
}

/// The path of a target in origin, absolute or asterisk form, without its query.
fn target_path<'a>(method: &[u8], target: &'a [u8]) -> Result<&'a [u8], Refusal> {
    let target = if target.starts_with(b"/") {
        target
    } else if target == b"*" && method == b"OPTIONS" {
        b"/"
    } else {
        let rest =
            strip_scheme(target).ok_or_else(|| bad("target is neither a path nor a URL\n"))?;
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
        if end == 0 {
            return Err(bad("URL without a host\n"));
        }
        &rest[end..]
    };
    let query = memchr(b'?', target).unwrap_or(target.len());
    Ok(&target[..query])
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', target)?;
    let (scheme, rest) = target.split_at(colon);
    let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    if known { rest.strip_prefix(b"://") } else { None }
}

pub(super) fn route(path: &[u8]) -> Route {
    let Some((name, argument)) = path
        .get(1..)
        .and_then(|p| std::str::from_utf8(p).ok())
        .map(|p| p.split_once('/').unwrap_or((p, "")))
    else {
        return Route::Default;
    };
    let found = match name {
        "echo" => argument.is_empty().then_some(Route::Echo),
        "bytes" => number(argument).map(Route::Bytes),
        // An interim status cannot end a reply.
        "status" => {
            number(argument).filter(|n| (200..=599).contains(n)).map(|n| Route::Status(n as u16))
        }
        // The last one is the default reply.
        "redirect" => number(argument).filter(|&n| n <= 1_000).map(|n| match n {
            0 => Route::Default,
            n => Route::Redirect(n as u32 - 1),
        }),
        "delay" => argument.parse().ok().filter(|&t| t <= DELAY_LIMIT).map(Route::Delay),
        _ => Some(
            std::str::from_utf8(path).ok().and_then(Api::of).map_or(Route::Default, Route::Model),
        ),
    };
    found.unwrap_or(Route::NotFound)
}

/// The longest `/delay/T`.
const DELAY_LIMIT: Span = Span::from_secs(3600);

/// Parse a decimal number of at most 15 digits, so that sums cannot overflow.
pub(super) fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Split a header line into name and value, without whitespace around the value.
fn parse_field(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let colon = memchr(b':', line).ok_or_else(|| bad("header line without a colon\n"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(|&b| is_token(b)) {
        return Err(bad("header name is not a token\n"));
    }
    if value.iter().any(|&b| b != b'\t' && (b < b' ' || b == 0x7f)) {
        return Err(bad("header value with control characters\n"));
    }
    Ok((name, value.trim_ascii()))
}

fn take_field(fields: &mut Fields, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
    if name.eq_ignore_ascii_case(b"host") {
        fields.hosts += 1;
    } else if name.eq_ignore_ascii_case(b"content-length") {
        for part in value.split(|&b| b == b',') {
            let length = std::str::from_utf8(part.trim_ascii()).ok().and_then(number);
            let length = length.ok_or_else(|| bad("Content-Length is not a number\n"))?;
            if fields.length.is_some_and(|n| n != length) {
                return Err(bad("two different Content-Lengths\n"));
            }
            fields.length = Some(length);
        }
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        let only_chunked = fields.coding.is_none() && value.eq_ignore_ascii_case(b"chunked");
        fields.coding = Some(if only_chunked { Coding::Chunked } else { Coding::Other });
    } else if name.eq_ignore_ascii_case(b"connection") {
        for part in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
            fields.close |= part.eq_ignore_ascii_case(b"close");
            fields.keep_alive |= part.eq_ignore_ascii_case(b"keep-alive");
        }
    } else if name.eq_ignore_ascii_case(b"expect") {
        fields.wants_continue |= value.eq_ignore_ascii_case(b"100-continue");
    } else if name.eq_ignore_ascii_case(b"last-event-id") {
        fields.last_event = std::str::from_utf8(value).ok().and_then(number);
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
pub(super) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}
