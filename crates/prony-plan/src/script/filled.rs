//! The filled-in parts of one request, in reused memory.

use std::sync::Arc;

use super::cookies::{Jar, Origin};
use crate::plan::CallSpec;
use crate::vars::message::Message;
use crate::vars::{Source, Unsent};
use prony_base::grpc::Gzip;
use prony_base::units::Nanos;

/// What a followed redirect changes in a request besides its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The host of another server, to which it leads; `None`: the server stays.
    pub authority: Option<Arc<str>>,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// Whether the method has become GET, without a body.
    pub is_get: bool,
}

/// The headers that describe a body.
const OF_BODY: [&str; 7] = [
    "content-length",
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "transfer-encoding",
    "expect",
];
/// The headers that only the server for which the user has written them gets.
const OF_SERVER: [&str; 4] = ["host", "authorization", "proxy-authorization", "cookie"];

/// Path, header values and body of a request, and the cookies that go with it.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    bytes: Vec<u8>,
    /// The ends of the parts: the path, each header value, the body. Empty: the request is sent as
    /// in the plan.
    ends: Vec<usize>,
    /// Header lines that are sent after those of the plan, each with its line break.
    headers: Vec<u8>,
    /// The value of its Cookie header; empty: none.
    pub(super) cookies: Vec<u8>,
    /// A temporary buffer.
    pub(super) scratch: Vec<u8>,
    /// Another one.
    pub(super) value: Vec<u8>,
    /// The path and the body of a request whose headers have them.
    sent: (Vec<u8>, Vec<u8>),
    /// Compresses its body.
    packer: Packer,
    /// What else a redirect has changed.
    moved: Option<Moved>,
}

/// Compresses bodies. A copy has memory of its own.
#[derive(Debug, Default)]
struct Packer(Gzip);

impl Clone for Packer {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Filled {
    /// The path to send instead of the plan's; `None`: the plan's.
    pub fn path(&self) -> Option<&[u8]> {
        self.part(0)
    }

    /// The value to send instead of that of the plan's header with this index; `None`: the plan's.
    pub fn header(&self, index: usize) -> Option<&[u8]> {
        if index + 2 < self.ends.len() { self.part(index + 1) } else { None }
    }

    /// The text that the value of the awaited message must equal instead of the plan's; `None`: the
    /// plan's. Only for calls that wait for a message, which have no headers.
    pub fn awaited(&self) -> Option<&[u8]> {
        self.header(0)
    }

    /// The body to send instead of the plan's; `None`: the plan's.
    pub fn body(&self) -> Option<&[u8]> {
        self.part(self.ends.len().checked_sub(1)?)
    }

    /// How many bytes the body has, which is here, in the file of its call, or in the plan.
    pub fn body_length(&self, spec: &CallSpec) -> u64 {
        match &spec.file {
            // A redirect that has become GET has no body.
            Some(file) if !self.moved().is_some_and(|moved| moved.is_get) => file.length,
            _ => self.body().unwrap_or(&spec.body).len() as u64,
        }
    }

    /// The value of the Cookie header; empty: none is sent.
    pub fn cookies(&self) -> &[u8] {
        &self.cookies
    }

    /// The header lines that are sent after those of the plan, each with its line break.
    pub fn headers(&self) -> &[u8] {
        &self.headers
    }

    /// What a redirect has changed besides the path; `None`: the request follows none.
    pub fn moved(&self) -> Option<&Moved> {
        self.moved.as_ref()
    }

    /// Whether the plan's header of this name is not sent, as a redirect has changed the method or
    /// the server.
    pub fn omits(&self, name: &str) -> bool {
        let is_of = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        self.moved.as_ref().is_some_and(|moved| {
            (moved.is_get && is_of(&OF_BODY)) || (moved.authority.is_some() && is_of(&OF_SERVER))
        })
    }

    /// Follow a redirect to this path. `body` is the plan's.
    pub fn redirect(&mut self, path: &[u8], body: &[u8], moved: Moved) {
        let mut old = std::mem::take(&mut self.scratch);
        old.clear();
        std::mem::swap(&mut self.bytes, &mut old);
        let ends = std::mem::take(&mut self.ends);
        self.bytes.extend_from_slice(path);
        self.end_part();
        // Without parts of its own, it has the plan's headers and body.
        let own = ends.split_last().map_or((body, &[][..]), |(&end, before)| {
            let start = before.last().copied().unwrap_or(0);
            (&old[start..end], before)
        });
        for pair in own.1.windows(2) {
            self.bytes.extend_from_slice(&old[pair[0]..pair[1]]);
            self.end_part();
        }
        if !moved.is_get {
            self.bytes.extend_from_slice(own.0);
        }
        self.end_part();
        self.moved = Some(moved);
        self.scratch = old;
    }

    /// The same as another one.
    pub fn copy(&mut self, other: &Self) {
        self.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend_from_slice(&other.ends);
        self.headers.extend_from_slice(&other.headers);
        self.cookies.extend_from_slice(&other.cookies);
        self.moved.clone_from(&other.moved);
    }

    /// Send the cookies that a jar has for this destination.
    pub fn take_cookies(&mut self, jar: &mut Jar, to: Origin<'_>, now: Nanos) {
        self.cookies.clear();
        jar.write(to, now, &mut self.cookies);
    }

    /// Remove everything: the request is sent as in the plan.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.bytes.clear();
        self.ends.clear();
        self.cookies.clear();
        self.moved = None;
    }

    /// Whether these lines have a header of this name (in lower case).
    pub fn has(&self, name: impl AsRef<[u8]>) -> bool {
        let names = |line: &[u8]| line.iter().position(|&byte| byte == b':');
        self.headers.split(|&byte| byte == b'\n').any(|line| {
            names(line).is_some_and(|end| line[..end].eq_ignore_ascii_case(name.as_ref()))
        })
    }

    /// The whole content of a request: its path, its own header lines, and its body.
    pub fn set(&mut self, path: &[u8], headers: &[u8], body: &[u8]) {
        self.clear();
        self.bytes.extend_from_slice(path);
        self.end_part();
        self.bytes.extend_from_slice(body);
        self.end_part();
        self.headers.extend_from_slice(headers);
    }

    /// Add a header line.
    pub fn add_header(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.headers.extend_from_slice(part);
        }
    }

    /// Add header lines, each with its line break.
    pub fn add_lines(&mut self, lines: &[u8]) {
        self.headers.extend_from_slice(lines);
    }

    /// The names and values of the header lines that are sent after those of the plan.
    pub fn header_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.headers.split(|&byte| byte == b'\n').filter_map(|line| {
            let middle = line.iter().position(|&byte| byte == b':')?;
            Some((&line[..middle], line[middle + 1..].trim_ascii()))
        })
    }

    /// The same as another one, but with an empty body.
    pub fn copy_without_body(&mut self, other: &Self) {
        self.clear();
        let ends = &other.ends[..other.ends.len().saturating_sub(1)];
        self.bytes.extend_from_slice(&other.bytes[..ends.last().copied().unwrap_or(0)]);
        self.ends.extend_from_slice(ends);
        if !other.ends.is_empty() {
            self.end_part();
        }
        self.headers.extend_from_slice(&other.headers);
        self.cookies.extend_from_slice(&other.cookies);
    }

    /// The buffer to which the next part is appended, and a temporary buffer.
    pub(super) fn buffers(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.bytes, &mut self.scratch)
    }

    /// Empty buffers for the path and the body of a request whose headers have them.
    pub(super) fn take_sent(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut path, mut body) = std::mem::take(&mut self.sent);
        path.clear();
        body.clear();
        (path, body)
    }

    /// Compress a body with gzip.
    pub(super) fn pack(&mut self, body: &mut Vec<u8>) {
        let Self { packer, value, .. } = self;
        value.clear();
        packer.0.pack_bytes(body, value);
        std::mem::swap(body, value);
    }

    /// Keep the memory of these buffers.
    pub(super) fn put_back_sent(&mut self, path: Vec<u8>, body: Vec<u8>) {
        self.sent = (path, body);
    }

    /// Append messages of gRPC to the current part.
    pub(super) fn fill_messages(
        &mut self,
        messages: &[Message],
        source: Source<'_>,
    ) -> Result<(), Unsent> {
        let Self { bytes, scratch, value, .. } = self;
        messages.iter().try_for_each(|message| message.fill(source, bytes, scratch, value))
    }

    /// Complete the current part. Returns it.
    pub(super) fn end_part(&mut self) -> &[u8] {
        let begin = self.ends.last().copied().unwrap_or(0);
        self.ends.push(self.bytes.len());
        &self.bytes[begin..]
    }

    fn part(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_requests_are_set() {
        let mut filled = Filled::default();
        filled.set(b"/a?b", b"X-One: 1\r\nUser-Agent: me\r\n", b"body");
        assert_eq!((filled.path(), filled.body()), (Some(&b"/a?b"[..]), Some(&b"body"[..])));
        assert_eq!(filled.header(0), None, "those of the plan stay");
        assert!(filled.has("user-agent") && filled.has("x-one") && !filled.has("accept"));
        filled.set(b"/", b"", b"");
        assert_eq!((filled.path(), filled.body()), (Some(&b"/"[..]), Some(&b""[..])));
        assert!(filled.headers().is_empty());
    }

    #[test]
    fn a_header_line_is_added_to_a_request_of_the_plan() {
        let mut filled = Filled::default();
        filled.add_header("Last-Event-ID", b"7");
        assert_eq!((filled.path(), filled.header(0), filled.body()), (None, None, None));
        assert_eq!(filled.headers(), b"Last-Event-ID: 7\r\n");
        filled.add_lines(b"A: b c\r\n");
        let lines: Vec<_> = filled.header_lines().collect();
        assert_eq!(lines, [(&b"Last-Event-ID"[..], &b"7"[..]), (b"A", b"b c")]);
        assert!(filled.has("last-event-id"));
    }

    fn moved(authority: Option<&str>, is_get: bool) -> Moved {
        Moved { authority: authority.map(Into::into), secure: false, is_get }
    }

    #[test]
    fn redirects_replace_the_path_and_keep_the_rest() {
        let mut filled = Filled::default();
        filled.redirect(b"/b", b"body", moved(None, false));
        assert_eq!((filled.path(), filled.body()), (Some(&b"/b"[..]), Some(&b"body"[..])));
        assert_eq!(filled.header(0), None, "those of the plan stay");
        filled.clear();
        for part in [&b"/a"[..], b"one", b"two", b"own"] {
            filled.buffers().0.extend_from_slice(part);
            filled.end_part();
        }
        filled.redirect(b"/longer", b"body", moved(None, false));
        let headers = |filled: &Filled| [0, 1, 2].map(|n| filled.header(n).map(<[u8]>::to_vec));
        let own = [Some(b"one".to_vec()), Some(b"two".to_vec()), None];
        assert_eq!((filled.path(), filled.body()), (Some(&b"/longer"[..]), Some(&b"own"[..])));
        assert_eq!(headers(&filled), own);
        filled.redirect(b"/", b"body", moved(None, true));
        assert_eq!((filled.path(), filled.body()), (Some(&b"/"[..]), Some(&b""[..])));
        assert_eq!(headers(&filled), own);
        let mut copy = Filled::default();
        copy.copy(&filled);
        assert_eq!(
            (copy.path(), copy.body(), copy.moved()),
            (filled.path(), filled.body(), filled.moved())
        );
        copy.clear();
        assert_eq!((copy.path(), copy.moved()), (None, None));
    }

    #[test]
    fn redirects_omit_headers_of_the_body_and_of_the_server() {
        let omits = |moved| {
            let mut filled = Filled::default();
            filled.redirect(b"/", b"", moved);
            ["Content-Type", "Authorization", "Host", "Cookie", "X-Own"]
                .map(|name| filled.omits(name))
        };
        assert_eq!(omits(moved(None, false)), [false; 5]);
        assert_eq!(omits(moved(None, true)), [true, false, false, false, false]);
        assert_eq!(omits(moved(Some("h"), false)), [false, true, true, true, false]);
    }

    #[test]
    fn copies_have_everything_but_the_body() {
        let (mut filled, mut copy) = (Filled::default(), Filled::default());
        copy.copy_without_body(&filled);
        assert_eq!((copy.path(), copy.body()), (None, None));
        filled.set(b"/a", b"X-One: 1\r\n", b"body");
        filled.cookies.extend_from_slice(b"a=b");
        copy.copy_without_body(&filled);
        assert_eq!((copy.path(), copy.body()), (Some(&b"/a"[..]), Some(&b""[..])));
        assert_eq!((copy.headers(), copy.cookies()), (filled.headers(), &b"a=b"[..]));
    }
}
