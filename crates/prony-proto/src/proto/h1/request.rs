//! Requests as bytes, encoded once per run, so that sending one is a copy. Requests with variable
//! parts are encoded when they are sent.

use std::io::Write as _;
use std::ops::Range;

use super::head::{Kind, elements};
use prony_plan::plan::{CallSpec, Cookies, HttpVersion, Plan, Secret, Shared};
use prony_plan::script::{Filled, Moved};

/// Every call of a plan as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    arena: Vec<u8>,
    calls: Vec<Call>,
    kinds: Vec<Kind>,
    /// The calls themselves, if some of them have variable parts; otherwise empty.
    specs: Shared<CallSpec>,
    version: HttpVersion,
    /// The server as in URLs to which a proxy forwards each call, if it forwards some; otherwise
    /// empty.
    forwards: Vec<Option<String>>,
    /// The authorization of that proxy.
    authorization: Option<Secret>,
    /// Whether connections end after a number of requests, so that some request is the last.
    ends: bool,
}

/// The peer is asked to close the connection.
pub(super) const CLOSES: u8 = 1;
/// The body of the call is in a file.
pub(super) const IN_FILE: u8 = 2;

/// The position of a call in the arena.
#[derive(Clone, Debug)]
struct Call {
    /// Head and body, for a connection that stays open.
    whole: Range<usize>,
    /// The head for the last call of a connection; `None` if it is the same or never sent.
    last_head: Option<Range<usize>>,
    /// The body with its framing, a part of `whole`.
    body: Range<usize>,
    /// [`CLOSES`] and [`IN_FILE`], or none of them.
    flags: u8,
    /// Whether its body is sent as a chunk.
    chunked: bool,
}

impl Requests {
    pub(super) fn new(plan: &Plan) -> Self {
        let kinds = plan.calls.iter().map(|c| Kind::of(&c.method)).collect();
        let calls = Vec::with_capacity(plan.calls.len());
        let cookies = plan.sessions.as_ref().is_some_and(|s| s.cookies != Cookies::Off);
        let directed = plan.sessions.as_ref().is_some_and(|s| s.directed);
        let templates = plan.calls.iter().any(|call| call.template);
        let reconnects = plan.stream.as_deref().is_some_and(|stream| stream.reconnect);
        let follows = plan.follow.is_some();
        let signs = plan.aws_sigv4.is_some();
        let filled = plan.is_logged() || directed || cookies || templates || reconnects || follows;
        let filled = filled || signs;
        let specs = if filled { plan.calls.clone() } else { Shared::default() };
        let ends = plan.requests_per_connection.is_some();
        let proxy = plan.proxy.as_deref().filter(|proxy| !proxy.tunnel);
        let forwards = match proxy {
            Some(_) => plan.calls.iter().map(|call| plan.forwarded_to(call.endpoint)).collect(),
            None => Vec::new(),
        };
        let authorization = proxy.and_then(|proxy| proxy.authorization.clone());
        let mut requests = Self {
            arena: Vec::new(),
            calls,
            kinds,
            specs,
            version: plan.http,
            forwards,
            authorization,
            ends,
        };
        for spec in &plan.calls {
            requests.add(spec);
        }
        requests
    }

    /// Append a call's bytes. Returns what is special about it: [`CLOSES`], [`IN_FILE`].
    #[inline(always)]
    pub(super) fn write(&self, call: u32, last: bool, out: &mut Vec<u8>) -> u8 {
        let call = &self.calls[call as usize];
        debug_assert!(!last || self.ends, "the plan does not limit requests per connection");
        if last && let Some(head) = &call.last_head {
            out.extend_from_slice(&self.arena[head.clone()]);
            out.extend_from_slice(&self.arena[call.body.clone()]);
        } else {
            out.extend_from_slice(&self.arena[call.whole.clone()]);
        }
        u8::from(last) | call.flags
    }

    /// Append the bytes of a call with `filled` in place of the plan's parts. Returns what is
    /// special about it, too.
    pub(super) fn write_filled(
        &self,
        call: u32,
        filled: &Filled,
        last: bool,
        out: &mut Vec<u8>,
    ) -> u8 {
        let spec = &self.specs[call as usize];
        let server = match filled.moved() {
            Some(moved) if moved.secure || self.forwards.is_empty() => None,
            Some(Moved { authority: Some(authority), .. }) => Some(&**authority),
            _ => self.server_of(call),
        };
        let forward = server.map(|server| (server, self.authorization.as_ref()));
        let how = How { version: self.version, last, forward };
        head(spec, how, filled, out);
        let Call { flags, chunked, .. } = self.calls[call as usize];
        let is_get = filled.moved().is_some_and(|moved| moved.is_get);
        // A redirect that has become GET has no body.
        if spec.file.is_none() || is_get {
            body(filled.body().unwrap_or(&spec.body), chunked && !is_get, out);
        }
        u8::from(last) | if is_get { flags & !IN_FILE } else { flags }
    }

    /// What the call's method means for its reply.
    #[inline]
    pub(super) fn kind(&self, call: u32) -> Kind {
        self.kinds.get(call as usize).copied().unwrap_or(Kind::Plain)
    }

    /// The server to which a proxy forwards this call.
    fn server_of(&self, call: u32) -> Option<&str> {
        self.forwards.get(call as usize)?.as_deref()
    }

    fn add(&mut self, spec: &CallSpec) {
        let version = self.version;
        let server = self.forwards.get(self.calls.len()).and_then(Option::as_deref);
        let forward = server.map(|server| (server, self.authorization.as_ref()));
        let how = How { version, last: false, forward };
        let arena = &mut self.arena;
        let start = arena.len();
        let plain = Filled::default();
        head(spec, how, &plain, arena);
        let (begin, chunked) = (arena.len(), spec.is_chunked());
        // It follows in pieces.
        if spec.file.is_none() {
            body(&spec.body, chunked, arena);
        }
        let (body, whole) = (begin..arena.len(), start..arena.len());
        let last_head = (self.ends && !spec.bare && !has(spec, "connection")).then(|| {
            let start = arena.len();
            head(spec, How { last: true, ..how }, &plain, arena);
            start..arena.len()
        });
        let in_file = if spec.file.is_some() { IN_FILE } else { 0 };
        let flags = in_file | if closes(spec, version) { CLOSES } else { 0 };
        self.calls.push(Call { whole, last_head, body, flags, chunked });
    }
}

/// How a head is written.
#[derive(Clone, Copy)]
struct How<'a> {
    version: HttpVersion,
    /// Whether it is that of the last request of its connection.
    last: bool,
    /// The server as in URLs, and the authorization of the proxy, if the request goes to one.
    forward: Option<(&'a str, Option<&'a Secret>)>,
}

/// Append the request line, headers and the empty line. Headers of the user replace those of the
/// same name; filled-in parts replace the plan's.
fn head(spec: &CallSpec, how: How<'_>, filled: &Filled, out: &mut Vec<u8>) {
    let number = match how.version {
        HttpVersion::Http10 => "1.0",
        _ => "1.1",
    };
    let is_get = filled.moved().is_some_and(|moved| moved.is_get);
    out.extend_from_slice(if is_get { b"GET" } else { spec.method.as_bytes() });
    out.push(b' ');
    target(spec, how, filled, out);
    line(out, &[" HTTP/", number]);
    if !spec.bare {
        own_headers(spec, how, filled, out);
    }
    for (index, (name, value)) in spec.headers.iter().enumerate() {
        // That of the user is the one of the first request.
        if name.eq_ignore_ascii_case("last-event-id") && filled.has("last-event-id") {
            continue;
        }
        if filled.omits(name) {
            continue;
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(filled.header(index).unwrap_or(value.as_bytes()));
        if !filled.cookies().is_empty() && name.eq_ignore_ascii_case("cookie") {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(filled.cookies());
        }
        line(out, &[]);
    }
    out.extend_from_slice(&spec.raw);
    out.extend_from_slice(filled.headers());
    if !spec.bare {
        content_length(spec, filled, out);
    }
    // A request has one Cookie header (RFC 6265, 5.4).
    if !filled.cookies().is_empty() && (!has(spec, "cookie") || filled.omits("cookie")) {
        out.extend_from_slice(b"Cookie: ");
        out.extend_from_slice(filled.cookies());
        line(out, &[]);
    }
    line(out, &[]);
}

/// Append the request target: the path, or the whole URL for a proxy.
fn target(spec: &CallSpec, how: How<'_>, filled: &Filled, out: &mut Vec<u8>) {
    let path = filled.path().unwrap_or(spec.path.as_bytes());
    if let Some((server, _)) = how.forward.filter(|_| path.starts_with(b"/")) {
        out.extend_from_slice(b"http://");
        out.extend_from_slice(server.as_bytes());
    }
    out.extend_from_slice(path);
}

/// Append prony's own headers, unless headers of the user replace them.
fn own_headers(spec: &CallSpec, how: How<'_>, filled: &Filled, out: &mut Vec<u8>) {
    let has =
        |spec: &CallSpec, name: &str| (has(spec, name) && !filled.omits(name)) || filled.has(name);
    if !has(spec, "host") {
        let moved = filled.moved().and_then(|moved| moved.authority.as_deref());
        line(out, &["Host: ", moved.unwrap_or(&spec.authority)]);
    }
    if !has(spec, "user-agent") {
        line(out, &["User-Agent: prony/", env!("CARGO_PKG_VERSION")]);
    }
    if !has(spec, "accept") {
        line(out, &["Accept: */*"]);
    }
    if !has(spec, "connection") {
        match (how.version, how.last) {
            (HttpVersion::Http10, false) => line(out, &["Connection: keep-alive"]),
            (HttpVersion::Http10, true) => {}
            (_, true) => line(out, &["Connection: close"]),
            // The default of the version.
            (_, false) => {}
        }
    }
    if let Some(value) = how.forward.and_then(|(_, authorization)| authorization)
        && !has(spec, "proxy-authorization")
    {
        line(out, &["Proxy-Authorization: ", value.expose()]);
    }
}

fn content_length(spec: &CallSpec, filled: &Filled, out: &mut Vec<u8>) {
    if filled.moved().is_some_and(|moved| moved.is_get) {
        return;
    }
    // RFC 9110, 8.6: a method for which a body has a meaning states its length even if there is
    // none.
    let length = filled.body_length(spec);
    let wants_length =
        length > 0 || !spec.body.is_empty() || matches!(&*spec.method, "POST" | "PUT" | "PATCH");
    if wants_length && !has(spec, "content-length") && !has(spec, "transfer-encoding") {
        write!(out, "Content-Length: {length}\r\n").expect("writing to memory does not fail");
    }
}

/// Append the body, if `chunked` as one chunk and the last one (RFC 9112, 7.1).
fn body(bytes: &[u8], chunked: bool, out: &mut Vec<u8>) {
    if !chunked {
        out.extend_from_slice(bytes);
        return;
    }
    if !bytes.is_empty() {
        write!(out, "{:x}\r\n", bytes.len()).expect("writing to memory does not fail");
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

fn line(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether the user sets a header of this name (in lower case).
fn has(spec: &CallSpec, name: &str) -> bool {
    spec.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

/// Whether the user's own `Connection` headers end the connection after this call.
fn closes(spec: &CallSpec, version: HttpVersion) -> bool {
    if !has(spec, "connection") {
        return false;
    }
    let says = |option: &[u8]| {
        spec.headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case("connection"))
            .flat_map(|(_, v)| elements(v.as_bytes()))
            .any(|e| e.eq_ignore_ascii_case(option))
    };
    says(b"close") || (version == HttpVersion::Http10 && !says(b"keep-alive"))
}
