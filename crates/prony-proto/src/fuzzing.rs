//! The bodies of the fuzz targets, and the tests that replay the committed corpora.

mod checks;
mod events;
mod http2;
mod redirect;
mod streams;
mod tunnel;
mod websocket;

pub use checks::checks;
pub use events::events;
pub use http2::{hpack, huffman};
pub use streams::{grpc, streams};
pub use tunnel::tunnel;
pub use websocket::websocket;

use crate::layer::TlsContext;
use crate::proto::h1::{Conn, H1};
use crate::proto::{self, Carrier, Reply};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, ParseError, RequestId, Span};
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think, TlsSpec};
use prony_plan::rate::RatePlan;
use prony_plan::script::{Condition, Scope, Template};
use prony_plan::target::{Endpoint, Url, check_header, check_method, parse_url_file};

/// The result of parsing the bytes of a connection. It does not depend on how the bytes are split
/// into reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The replies, with their bodies; `Surplus` is in `surplus` instead.
    pub replies: Vec<(Reply, Vec<u8>)>,
    /// Whether bytes followed the last expected reply.
    pub surplus: bool,
    /// The fault that ended the parsing, if any.
    pub fault: Option<Fault>,
}

/// Parse replies like an engine: calls with these methods are outstanding, `bytes` arrive in pieces
/// with the lengths that `cut` returns, then the peer ends its stream. Asserts the guarantees of
/// the codec.
///
/// # Panics
/// If a guarantee is violated.
pub fn read(methods: &[&str], bytes: &[u8], cut: impl FnMut() -> usize) -> Outcome {
    parse_all(&mut Sink::new(methods.len()), methods, bytes, cut)
}

/// Like [`read`], and return the names and values of all headers, including those of an incomplete
/// reply.
///
/// # Panics
/// If a guarantee is violated.
pub fn read_headers(
    methods: &[&str],
    bytes: &[u8],
    cut: impl FnMut() -> usize,
) -> (Outcome, Headers) {
    let mut sink = Sink { wants_headers: true, ..Sink::new(methods.len()) };
    let outcome = parse_all(&mut sink, methods, bytes, cut);
    (outcome, sink.headers)
}

/// Names and values of headers.
pub type Headers = Vec<(Vec<u8>, Vec<u8>)>;

fn parse_all(
    sink: &mut Sink,
    methods: &[&str],
    bytes: &[u8],
    mut cut: impl FnMut() -> usize,
) -> Outcome {
    let mut h1 = H1::new(&plan(methods));
    let mut conn = Conn::default();
    let mut stash = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(cut().clamp(1, rest.len()));
        rest = next;
        stash.extend_from_slice(piece);
        sink.began = false;
        match h1.receive(&mut conn, &stash, Nanos::ZERO, sink) {
            Ok(used) => drop(stash.drain(..used)),
            Err(fault) => return sink.outcome(methods, Some(fault), false),
        }
        if sink.replies.last().is_some_and(|(r, _)| !r.keeps_open) {
            return sink.outcome(methods, None, !rest.is_empty());
        }
        assert!(stash.len() <= 64 * 1024, "more bytes are left than a head may have");
        let taken = (bytes.len() - rest.len()) as u64;
        assert_eq!(sink.began, taken > sink.counted(), "began");
    }
    let fault = h1.end(&mut conn, &stash, sink).err();
    sink.outcome(methods, fault, false)
}

/// Fuzz target: replies, split in many ways. The first line of the input names the outstanding
/// calls (`H`: HEAD, `C`: CONNECT, otherwise GET); the rest is what the peer sends.
///
/// # Panics
/// If the outcome depends on the split, or a guarantee of the codec is violated.
pub fn reply(data: &[u8]) {
    let (calls, bytes) = match data.iter().position(|&b| b == b'\n') {
        Some(i) if i <= 16 => (&data[..i], &data[i + 1..]),
        _ => (&b"G"[..], data),
    };
    let methods: Vec<_> = calls
        .iter()
        .map(|b| match b {
            b'H' => "HEAD",
            b'C' => "CONNECT",
            _ => "GET",
        })
        .collect();
    let whole = read(&methods, bytes, || usize::MAX);
    assert_eq!(read(&methods, bytes, || 1), whole, "byte by byte");
    // Pieces of 1 to 40 bytes, drawn from the input (FNV-1a, then a linear congruential generator).
    let fnv = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    let mut seed = data.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let cut = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % 40 + 1
    };
    assert_eq!(read(&methods, bytes, cut), whole, "random pieces");
    let (reported, headers) = read_headers(&methods, bytes, || usize::MAX);
    assert_eq!(reported, whole, "with headers");
    let (reported, by_byte) = read_headers(&methods, bytes, || 1);
    assert_eq!(reported, whole, "with headers, byte by byte");
    assert_eq!(by_byte, headers, "headers");
}

/// Fuzz target: a template. Filling in a parsed template always gives the same text, or fails
/// because a variable has no value.
///
/// # Panics
/// If not.
pub fn template(data: &[u8]) {
    let scope = Scope {
        variables: vec!["token".to_owned()],
        tables: vec![("users".to_owned(), vec!["id".to_owned(), "first name".to_owned()])],
        environment: vec![("KEY".to_owned(), "value".into())],
        sent: Some("GET".to_owned()),
        ..Scope::default()
    };
    let mut draws = 0;
    match Template::parse(data, &scope, &mut draws) {
        Err(error) => {
            assert!(error.at <= data.len() && !error.what.is_empty(), "{error:?}");
            assert!(!error.what.contains(['\n', '\r']), "{error:?}");
        }
        Ok(template) => {
            let without = template.variables().next().is_none();
            let fill = || template.sample(9, (!without).then_some(&b"value"[..]));
            let first = fill();
            assert_eq!(first, fill(), "the same moment, another text");
            assert!(first.is_ok(), "no variable lacks a value");
            if !Template::has_fields(data) {
                assert_eq!(first.as_deref(), Ok(data), "a text without fields");
            }
            assert_eq!(template.sample(9, None).is_ok(), without, "a variable without a value");
        }
    }
}

/// Fuzz target: a condition. A parsed condition always gives the same result, and never holds if it
/// compares with a value that is missing.
///
/// # Panics
/// If not.
pub fn condition(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let variables = ["token", "absent"].map(str::to_owned).to_vec();
    let scope = Scope { variables, ..Scope::default() };
    match Condition::parse(text, &scope, &mut 0) {
        Err(error) => {
            assert!(error.at <= data.len() && !error.what.is_empty(), "{error:?}");
            assert!(!error.what.contains(['\n', '\r']), "{error:?}");
        }
        Ok(condition) => {
            assert!(Template::has_fields(data), "it cannot change");
            for value in ["", "7", "-1.5", "text"] {
                let first = condition.sample(9, value.as_bytes());
                assert_eq!(first, condition.sample(9, value.as_bytes()), "another result");
                assert!(!(first && condition.needs(1)), "it holds without a value");
            }
        }
    }
}

/// Fuzz target: TLS records from a server, during a client's handshake. The result does not depend
/// on how they are split, and is never longer than the input.
///
/// # Panics
/// If not.
pub fn tls_records(data: &[u8]) {
    let mut plan = plan(&["GET"]);
    plan.endpoints[0] = plan.endpoints[0].clone().secured("localhost");
    plan.tls = Some(Box::new(TlsSpec { verify: false, ..TlsSpec::default() }));
    let context = TlsContext::new(&plan, Vec::new(), None).expect("a context");
    let read = |piece: usize| {
        let mut tls = context.begin(0, context.place()).expect("a client");
        assert!(tls.wants_send() && !tls.is_open(), "the client begins");
        let (mut plain, mut bytes) = (Vec::new(), data.to_vec());
        let mut pieces = bytes.chunks_mut(piece);
        let fault = pieces.find_map(|piece| tls.receive(piece, &mut plain).err());
        assert!(plain.len() <= data.len(), "more than came");
        let alert = tls.close_notify();
        assert!(alert.len() < 4_096, "{} bytes at the end", alert.len());
        (plain, fault.map(|why| why.to_string()))
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1), whole, "byte by byte");
    assert_eq!(read(7), whole, "in sevens");
}

/// Fuzz target: a URL. A parsed URL can be printed and parsed again, and sent in a request.
///
/// # Panics
/// If not.
pub fn url(data: &[u8]) {
    redirect::check(data);
    let Some(url) = parsed(data, Url::parse) else { return };
    check_url(&url);
}

/// Fuzz target: a rate plan. A parsed plan can be run, and printed and parsed again.
///
/// # Panics
/// If not.
pub fn rate_plan(data: &[u8]) {
    let Some(plan) = parsed(data, RatePlan::parse) else { return };
    assert_eq!(plan.check(), Ok(()));
    assert_eq!(RatePlan::parse(&plan.to_string()).as_ref(), Ok(&plan), "{plan}");
    let mut before = 0.0;
    for t in [0, 1, 1_000_000_000, 3_600_000_000_000, u64::MAX].map(Span) {
        let (rate, arrivals) = (plan.rate_at(t), plan.arrivals_until(t));
        assert!(rate.is_finite() && rate >= 0.0, "{rate}/s at {t:?}");
        assert!(arrivals.is_finite() && arrivals >= before, "{before}, then {arrivals} at {t:?}");
        before = arrivals;
    }
}

/// Fuzz target: a file of URLs. The entries of a parsed file can be sent.
///
/// # Panics
/// If not.
pub fn url_file(data: &[u8]) {
    let Some(entries) = parsed(data, parse_url_file) else { return };
    assert!(!entries.is_empty());
    for entry in entries {
        check_url(&entry.url);
        assert_eq!(entry.method.as_deref().map_or(Ok(()), check_method), Ok(()));
        for (name, value) in entry.headers {
            assert_eq!(check_header(&name, &value), Ok(()));
        }
        assert_ne!(entry.body_file.as_deref(), Some(""));
    }
}

/// Parse the input, if it is text. Checks that an error message is one sentence on one line.
fn parsed<T>(data: &[u8], parse: fn(&str) -> Result<T, ParseError>) -> Option<T> {
    match parse(std::str::from_utf8(data).ok()?) {
        Ok(value) => Some(value),
        Err(error) => {
            let sentence = error.to_string();
            let one_line = !sentence.is_empty() && !sentence.contains(['\n', '\r']);
            assert!(one_line, "{sentence:?}");
            None
        }
    }
}

fn check_url(url: &Url) {
    let again = Url::parse(&url.to_string()).expect("what was written can be read");
    assert_eq!(again, Url { user: None, ..url.clone() });
    assert!(url.path.starts_with('/') && url.port > 0, "{url:?}");
    let authority = url.authority();
    for part in [&url.path, &authority] {
        let breaks = |c: char| c == ' ' || c.is_ascii_control();
        assert!(!part.is_empty() && !part.contains(breaks), "{part:?} would break the request");
    }
}

/// A plan with one call for each method.
pub fn plan(methods: &[&str]) -> Plan {
    let call = |method: &&str| CallSpec {
        endpoint: 0,
        method: (*method).to_owned().into(),
        path: "/".to_owned(),
        authority: "localhost:8080".into(),
        ..CallSpec::default()
    };
    Plan {
        requests_per_connection: Some(u32::MAX),
        seed: 0,
        ..Plan::new(
            vec![Endpoint::Tcp { host: "localhost".to_owned(), port: 8080 }],
            methods.iter().map(call).collect(),
            Load::Closed { connections: 1, think: Think::None },
            Stop { requests: Some(1), sessions: None, duration: None },
        )
    }
}

/// A sink that collects everything.
#[derive(Debug)]
struct Sink {
    calls: usize,
    began: bool,
    body: Vec<u8>,
    replies: Vec<(Reply, Vec<u8>)>,
    wants_headers: bool,
    headers: Headers,
}

impl Sink {
    fn new(calls: usize) -> Self {
        let (body, replies, headers) = (Vec::new(), Vec::new(), Vec::new());
        Self { calls, began: false, body, replies, wants_headers: false, headers }
    }

    /// The bytes of complete replies.
    fn counted(&self) -> u64 {
        self.replies.iter().map(|(r, _)| r.head_bytes + r.body_bytes).sum()
    }

    /// The outcome. `more`: bytes were left after the last reply had closed the connection.
    fn outcome(&mut self, methods: &[&str], fault: Option<Fault>, more: bool) -> Outcome {
        let n = self.replies.len();
        let mut surplus = fault == Some(Fault::Surplus);
        if let Some((last, _)) = self.replies.last_mut() {
            let tunnel = last.status == 101
                || (methods[n - 1] == "CONNECT" && (200..300).contains(&last.status));
            surplus |= last.fault == Some(Fault::Surplus) || (more && !tunnel);
            if surplus {
                (last.keeps_open, last.fault) = (false, None);
            }
        }
        let fault = fault.filter(|&f| f != Fault::Surplus);
        Outcome { replies: std::mem::take(&mut self.replies), surplus, fault }
    }
}

impl proto::Sink for Sink {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        let call = self.replies.len() as u32;
        let id = RequestId { slot: call, generation: 0 };
        (self.outstanding() > 0).then_some((id, call))
    }

    fn outstanding(&self) -> u32 {
        (self.calls - self.replies.len()) as u32
    }

    fn began(&mut self, _: RequestId) {
        assert!(self.outstanding() > 0, "a reply without an outstanding call");
        self.began = true;
    }

    fn wants_headers(&self, _: RequestId) -> bool {
        self.wants_headers
    }

    fn header(&mut self, _: RequestId, name: &[u8], value: &[u8]) {
        assert!(self.wants_headers && self.outstanding() > 0, "a header that was not requested");
        self.headers.push((name.to_vec(), value.to_vec()));
    }

    fn wants_body(&self, _: RequestId) -> bool {
        true
    }

    fn body(&mut self, _: RequestId, piece: &[u8]) {
        self.body.extend_from_slice(piece);
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        assert_eq!(id.slot as usize, self.replies.len(), "replies are in order");
        assert_eq!(self.body.len() as u64, reply.body_bytes, "bytes of body");
        assert!(matches!(reply.status, 101 | 200..=599), "status {}", reply.status);
        self.replies.push((*reply, std::mem::take(&mut self.body)));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Run a target over its committed corpus.
    fn replay(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .expect("a corpus")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        assert!(files.len() >= 20, "{} files in {}", files.len(), folder.display());
        for file in files {
            println!("{}", file.display());
            run(&fs::read(&file).expect("a readable file"));
        }
    }

    #[test]
    fn corpus_of_reply() {
        replay("reply", super::reply);
    }

    #[test]
    fn corpus_of_hpack() {
        replay("hpack", super::hpack);
    }

    #[test]
    fn corpus_of_huffman() {
        replay("huffman", super::huffman);
    }

    #[test]
    fn corpus_of_grpc() {
        replay("grpc", super::grpc);
    }

    #[test]
    fn corpus_of_events() {
        replay("events", super::events);
    }

    #[test]
    fn corpus_of_websocket() {
        replay("websocket", super::websocket);
    }

    #[test]
    fn corpus_of_streams() {
        replay("streams", super::streams);
    }

    #[test]
    fn corpus_of_checks() {
        replay("checks", super::checks);
    }

    #[test]
    fn corpora_of_templates_and_conditions() {
        replay("template", super::template);
        replay("condition", super::condition);
    }

    #[test]
    fn corpora_of_what_opens_connections() {
        replay("tls_records", super::tls_records);
        replay("tunnel", super::tunnel);
    }

    #[test]
    fn corpus_of_rate_plan() {
        replay("rate_plan", super::rate_plan);
    }

    #[test]
    fn corpora_of_urls() {
        replay("url", super::url);
        replay("url_file", super::url_file);
    }
}
