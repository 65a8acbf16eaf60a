//! Requests as bytes, made once per run: sending one is a copy.

use std::ops::Range;

use super::head::{Kind, elements};
use crate::plan::{CallSpec, HttpVersion, Plan};

/// Every call of a plan as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    arena: Vec<u8>,
    calls: Vec<Call>,
    kinds: Vec<Kind>,
}

/// Where a call lies in the arena.
#[derive(Clone, Debug)]
struct Call {
    /// Head and body, for a connection that stays open.
    whole: Range<usize>,
    /// The head alone for the last call of a connection; `None` where it is the same.
    last_head: Option<Range<usize>>,
    /// The body, a part of `whole`.
    body: Range<usize>,
    /// Whether the request itself asks for the end of the connection, by a header of the user's.
    closes: bool,
}

impl Requests {
    pub(super) fn new(plan: &Plan) -> Self {
        let kinds = plan.calls.iter().map(|c| Kind::of(&c.method)).collect();
        let calls = Vec::with_capacity(plan.calls.len());
        let mut requests = Self { arena: Vec::new(), calls, kinds };
        for spec in &plan.calls {
            requests.add(spec, plan.http);
        }
        requests
    }

    /// Append a call's bytes; returns whether they tell the peer to close the connection.
    #[inline]
    pub(super) fn write(&self, call: u32, last: bool, out: &mut Vec<u8>) -> bool {
        let call = &self.calls[call as usize];
        if last && let Some(head) = &call.last_head {
            out.extend_from_slice(&self.arena[head.clone()]);
            out.extend_from_slice(&self.arena[call.body.clone()]);
        } else {
            out.extend_from_slice(&self.arena[call.whole.clone()]);
        }
        last || call.closes
    }

    /// What the call's method means for its reply.
    #[inline]
    pub(super) fn kind(&self, call: u32) -> Kind {
        self.kinds.get(call as usize).copied().unwrap_or(Kind::Plain)
    }

    fn add(&mut self, spec: &CallSpec, version: HttpVersion) {
        let arena = &mut self.arena;
        let start = arena.len();
        head(spec, version, false, arena);
        let body = arena.len()..arena.len() + spec.body.len();
        arena.extend_from_slice(&spec.body);
        let whole = start..arena.len();
        let last_head = (!spec.bare && !has(spec, "connection")).then(|| {
            let start = arena.len();
            head(spec, version, true, arena);
            start..arena.len()
        });
        self.calls.push(Call { whole, last_head, body, closes: closes(spec, version) });
    }
}

/// Request line, headers and the empty line. Headers of the user's take the place of those of the
/// same name.
fn head(spec: &CallSpec, version: HttpVersion, last: bool, out: &mut Vec<u8>) {
    let number = match version {
        HttpVersion::Http10 => "1.0",
        HttpVersion::Http11 => "1.1",
    };
    line(out, &[&spec.method, " ", &spec.path, " HTTP/", number]);
    if spec.bare {
        for (name, value) in &spec.headers {
            line(out, &[name, ": ", value]);
        }
        line(out, &[]);
        return;
    }
    if !has(spec, "host") {
        line(out, &["Host: ", &spec.authority]);
    }
    if !has(spec, "user-agent") {
        line(out, &["User-Agent: prony/", env!("CARGO_PKG_VERSION")]);
    }
    if !has(spec, "accept") {
        line(out, &["Accept: */*"]);
    }
    if !has(spec, "connection") {
        match (version, last) {
            (HttpVersion::Http10, false) => line(out, &["Connection: keep-alive"]),
            (HttpVersion::Http11, true) => line(out, &["Connection: close"]),
            // The default of the version.
            (HttpVersion::Http10, true) | (HttpVersion::Http11, false) => {}
        }
    }
    for (name, value) in &spec.headers {
        line(out, &[name, ": ", value]);
    }
    // RFC 9110, 8.6: a method that gives a body a meaning says when there is none.
    let wants_length =
        !spec.body.is_empty() || matches!(spec.method.as_str(), "POST" | "PUT" | "PATCH");
    if wants_length && !has(spec, "content-length") && !has(spec, "transfer-encoding") {
        line(out, &["Content-Length: ", &spec.body.len().to_string()]);
    }
    line(out, &[]);
}

fn line(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether the user gives a header of that name (in lower case).
fn has(spec: &CallSpec, name: &str) -> bool {
    spec.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
}

/// Whether the user's own `Connection` headers let the connection end after this call.
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
