//! The client against a scripted peer, one row for each rule.

mod attacks;
mod bodies;
mod grpc;
mod requests;
mod rows;

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::proto::h2::{Conn, H2};
use crate::proto::{Call, Cancelled, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, Code, Settings, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::{CallSpec, Http2Spec, HttpVersion, Load, Plan, Stop, Think};
use prony_plan::script::Filled;
use prony_plan::target::Endpoint;

/// What the sink saw of one exchange.
#[derive(Clone, Debug, Default)]
struct Exchange {
    call: u32,
    begun: bool,
    body: Vec<u8>,
    end: Option<String>,
}

/// Records what happens to the exchanges.
#[derive(Debug, Default)]
struct Seen {
    exchanges: BTreeMap<RequestId, Exchange>,
    headers: Vec<(String, String)>,
    /// Where the pieces of bodies were.
    pieces: Vec<Range<*const u8>>,
    wants_headers: bool,
    drains: bool,
}

impl Seen {
    fn ends(&mut self, id: RequestId, end: String) {
        let exchange = self.exchanges.get_mut(&id).expect("a known exchange");
        assert_eq!(exchange.end.replace(end), None, "it ends once");
    }

    /// The ends of all exchanges in order; `-`: it has not ended.
    fn all(&self) -> String {
        let ends = self.exchanges.values().map(|e| e.end.as_deref().unwrap_or("-"));
        ends.collect::<Vec<_>>().join(", ")
    }
}

impl Sink for Seen {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        let mut open = self.exchanges.iter().filter(|(_, e)| e.end.is_none());
        open.next().map(|(id, e)| (*id, e.call))
    }

    fn outstanding(&self) -> u32 {
        self.exchanges.values().filter(|e| e.end.is_none()).count() as u32
    }

    fn began(&mut self, id: RequestId) {
        self.exchanges.get_mut(&id).unwrap().begun = true;
    }

    fn wants_headers(&self, _: RequestId) -> bool {
        self.wants_headers
    }

    fn header(&mut self, _: RequestId, name: &[u8], value: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.headers.push((text(name), text(value)));
    }

    fn wants_body(&self, _: RequestId) -> bool {
        true
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        self.pieces.push(piece.as_ptr_range());
        self.exchanges.get_mut(&id).unwrap().body.extend_from_slice(piece);
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        let body = &self.exchanges[&id].body;
        assert!(reply.keeps_open);
        if reply.status < 100 {
            let fault = reply.fault.map_or_else(String::new, |fault| format!(" {fault:?}"));
            self.ends(id, format!("{}{fault}", prony_plan::plan::status_text(reply.status)));
            return;
        }
        assert_eq!(reply.body_bytes, body.len() as u64);
        assert!(reply.fault.is_none());
        let interim = match reply.interim {
            0 => String::new(),
            n => format!("({n})"),
        };
        let end = format!("{}{interim} {}", reply.status, body.len());
        self.ends(id, end);
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        self.ends(id, format!("{fault:?}"));
    }

    fn refused(&mut self, id: RequestId) {
        self.ends(id, "moved".into());
    }

    fn draining(&mut self) {
        self.drains = true;
    }
}

/// A client with one connection.
struct Client {
    h2: H2,
    conn: Conn,
    seen: Seen,
    started: u32,
    /// Received bytes that were not used yet.
    stash: Vec<u8>,
    now: Nanos,
    /// How many messages were sent at their time.
    written: usize,
}

/// A frame that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    head: frame::Head,
    payload: Vec<u8>,
}

fn plan(calls: Vec<CallSpec>) -> Plan {
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let load = Load::Closed { connections: 1, think: Think::None };
    let mut plan = Plan::new(vec![endpoint], calls, load, Stop::default());
    plan.http = HttpVersion::Http2Only;
    plan
}

fn get() -> CallSpec {
    CallSpec {
        method: "GET".into(),
        path: "/a".into(),
        authority: "h:80".into(),
        ..CallSpec::default()
    }
}

fn post(body: usize) -> CallSpec {
    CallSpec { method: "POST".into(), body: vec![b'x'; body], ..get() }
}

impl Client {
    fn new(plan: &Plan) -> Self {
        Self {
            h2: H2::new(plan),
            conn: Conn::default(),
            seen: Seen::default(),
            started: 0,
            stash: Vec::new(),
            now: Nanos(1),
            written: 0,
        }
    }

    /// A client of this many GETs that are sent, after settings of the peer.
    fn with_requests(n: u32) -> Self {
        let mut client = Self::new(&plan(vec![get()]));
        client.send(0, n);
        client
    }

    /// Start `n` requests of this call and send them. Returns the bytes sent.
    fn send(&mut self, call: u32, n: u32) -> Vec<u8> {
        self.send_all(call, n, None)
    }

    fn send_filled(&mut self, call: u32, filled: Option<&Filled>) -> Vec<u8> {
        self.send_all(call, 1, filled)
    }

    fn send_all(&mut self, index: u32, n: u32, filled: Option<&Filled>) -> Vec<u8> {
        let mut out = Out::default();
        if self.h2.owes(&self.conn) {
            self.h2.transmit(&mut self.conn, self.now, &mut out);
        }
        for _ in 0..n {
            let id = RequestId { slot: self.started, generation: 0 };
            self.started += 1;
            self.seen.exchanges.insert(id, Exchange { call: index, ..Exchange::default() });
            self.h2.submit(&mut self.conn, id, Call { index, filled }, false, &mut out);
        }
        if self.h2.owes(&self.conn) {
            self.h2.transmit(&mut self.conn, self.now, &mut out);
        }
        self.written += out.take_messages().count();
        out.as_bytes().to_vec()
    }

    /// The exchanges, in order.
    fn ids(&self) -> Vec<RequestId> {
        self.seen.exchanges.keys().copied().collect()
    }

    /// Everything that is owed to the peer.
    fn owed(&mut self) -> Vec<Frame> {
        frames(&self.send(0, 0))
    }

    /// Receive bytes in pieces of this size.
    fn receive(&mut self, bytes: &[u8], piece: usize) -> Result<(), Fault> {
        for piece in bytes.chunks(piece) {
            self.stash.extend_from_slice(piece);
            let stash = std::mem::take(&mut self.stash);
            let used = self.h2.receive(&mut self.conn, &stash, self.now, &mut self.seen)?;
            self.stash = stash[used..].to_vec();
        }
        Ok(())
    }

    /// The code of the GOAWAY that goes before the close.
    fn close(&mut self) -> Option<Code> {
        let mut out = Vec::new();
        self.h2.close(&mut self.conn, &mut out);
        let frame = frames(&out).pop()?;
        assert_eq!(frame.head.kind, kind::GOAWAY);
        Some(Code(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap())))
    }
}

/// The frames in these bytes, without the preface.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut rest = bytes.strip_prefix(prony_base::http2::PREFACE).unwrap_or(bytes);
    let mut all = Vec::new();
    while let Some(head) = frame::Head::read(rest) {
        let end = frame::HEADER + head.length as usize;
        all.push(Frame { head, payload: rest[frame::HEADER..end].to_vec() });
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    all
}

/// What a server sends.
#[derive(Clone, Debug, Default)]
struct Server(Vec<u8>);

impl Server {
    /// With empty settings.
    fn new() -> Self {
        Self::default().settings(&[])
    }

    fn settings(mut self, pairs: &[(u16, u32)]) -> Self {
        frame::settings(&mut self.0, pairs);
        self
    }

    fn frame(mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        frame::head(&mut self.0, payload.len(), kind, flags, stream);
        self.0.extend_from_slice(payload);
        self
    }

    fn headers(self, stream: u32, flags: u8, fields: &[(&str, &str)]) -> Self {
        self.frame(kind::HEADERS, flags | 4, stream, &block(fields))
    }

    /// A head with status 200.
    fn ok(self, stream: u32, flags: u8) -> Self {
        self.headers(stream, flags, &[(":status", "200"), ("server", "s")])
    }

    fn data(self, stream: u32, flags: u8, bytes: usize) -> Self {
        self.frame(kind::DATA, flags, stream, &vec![b'y'; bytes])
    }

    fn window(mut self, stream: u32, increment: u32) -> Self {
        frame::window_update(&mut self.0, stream, increment);
        self
    }

    fn rst(mut self, stream: u32, code: Code) -> Self {
        frame::rst_stream(&mut self.0, stream, code);
        self
    }

    fn goaway(mut self, last: u32, code: Code) -> Self {
        frame::goaway(&mut self.0, last, code, b"debug");
        self
    }
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encode_static(&mut out, name.as_bytes(), value.as_bytes());
    }
    out
}

#[test]
fn greets_with_preface_settings_and_window() {
    let mut plan = plan(vec![get()]);
    let sent = Client::new(&plan).send(0, 1);
    assert!(sent.starts_with(prony_base::http2::PREFACE));
    let kinds: Vec<u8> = frames(&sent).iter().map(|f| f.head.kind).collect();
    assert_eq!(kinds, [kind::SETTINGS, kind::WINDOW_UPDATE, kind::HEADERS]);
    plan.http2 = Some(Box::new(Http2Spec {
        window: 1000,
        table_size: 0,
        frame_size: 1 << 15,
        ..Http2Spec::default()
    }));
    let sent = frames(&Client::new(&plan).send(0, 1));
    let mut settings = Settings::default();
    settings.apply(&sent[0].payload, |_, _| {}).unwrap();
    assert_eq!((settings.window, settings.table_size, settings.push), (1000, 0, false));
    assert_eq!((settings.frame_size, settings.list_size), (1 << 15, Some(65_536)));
    assert_eq!(sent[1].head.kind, kind::HEADERS, "the connection's window cannot be smaller");
}

#[test]
fn waits_for_settings_only_if_asked() {
    let mut plan = plan(vec![get()]);
    assert!(!H2::new(&plan).opens());
    plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
    let mut client = Client::new(&plan);
    assert!(client.h2.opens() && !client.h2.is_ready(&client.conn));
    client.send(0, 0);
    client.receive(&Server::new().0, usize::MAX).unwrap();
    assert!(client.h2.is_ready(&client.conn));
}

/// 100 before the settings of the first peer, then its limit, then its new one.
#[test]
fn follows_the_limit_of_the_peer() {
    let mut client = Client::with_requests(0);
    let room = |client: &Client, limit| client.h2.capacity(&client.conn, 3, limit);
    assert_eq!((room(&client, 1000), room(&client, 50)), (97, 47));
    let limit = |n| Server::default().settings(&[(Settings::STREAMS, n)]).0;
    for n in [7, 5, 0, 200] {
        client.receive(&limit(n), usize::MAX).unwrap();
        assert_eq!(room(&client, 1000), n.saturating_sub(3));
    }
    assert_eq!((client.h2.counts.limit_least, client.h2.counts.limit_last), (Some(0), Some(200)));
    // The next connection begins with the last limit that a peer has stated, with 1 to 100 streams.
    for (n, first) in [(200, 100), (20, 20), (0, 1)] {
        client.receive(&limit(n), usize::MAX).unwrap();
        assert_eq!(client.h2.capacity(&Conn::default(), 0, 1000), first);
    }
    let mut client = Client::with_requests(0);
    client.receive(&Server::new().0, usize::MAX).unwrap();
    assert_eq!(room(&client, 1000), 997, "no limit");
}

#[test]
fn acknowledges_settings_and_pings() {
    let mut client = Client::with_requests(1);
    let server = Server::new().settings(&[]).frame(kind::PING, 0, 0, b"12345678");
    client.receive(&server.frame(kind::PING, 1, 0, b"87654321").0, 5).unwrap();
    let owed: Vec<_> = client.owed().into_iter().map(|f| (f.head.kind, f.head.flags)).collect();
    assert_eq!(owed, [(kind::SETTINGS, 1), (kind::SETTINGS, 1), (kind::PING, 1)]);
    assert_eq!(client.owed(), []);
}

#[test]
fn cancels_a_stream_and_ignores_what_still_arrives() {
    let mut client = Client::with_requests(2);
    client.receive(&Server::new().ok(1, 0).0, usize::MAX).unwrap();
    let first = RequestId { slot: 0, generation: 0 };
    assert_eq!(client.h2.cancel(&mut client.conn, first), Cancelled::Exchange);
    client.seen.exchanges.remove(&first);
    let owed = client.owed();
    let reset = Frame {
        head: frame::Head { length: 4, kind: kind::RST_STREAM, flags: 0, stream: 1 },
        payload: vec![0, 0, 0, 8],
    };
    assert!(owed.contains(&reset), "{owed:?}");
    let late = Server::default().data(1, 0, 10).data(1, 1, 5).ok(3, 1);
    client.receive(&late.0, 3).unwrap();
    assert_eq!(client.seen.all(), "200 0");
    assert_eq!(client.h2.counts.cancelled, 1);
}

#[test]
fn cancels_are_limited() {
    let mut client = Client::with_requests(0);
    for n in 0..1001 {
        client.send(0, 1);
        let id = RequestId { slot: n, generation: 0 };
        let expected = if n < 999 { Cancelled::Exchange } else { Cancelled::Last };
        assert_eq!(client.h2.cancel(&mut client.conn, id), expected, "{n}");
        let room = client.h2.capacity(&client.conn, 0, 10);
        assert_eq!(room, if n < 999 { 10 } else { 0 }, "{n}");
    }
}

#[test]
fn passes_on_headers_if_they_are_wanted() {
    let mut client = Client::with_requests(2);
    let fields = [(":status", "200"), ("set-cookie", "a=b"), ("x", "y")];
    // The same block twice, so that its memo exists.
    let server = Server::new().headers(1, 1, &fields);
    client.receive(&server.0, usize::MAX).unwrap();
    assert_eq!(client.seen.headers, []);
    client.seen.wants_headers = true;
    client.receive(&Server::default().headers(3, 1, &fields).0, usize::MAX).unwrap();
    let seen: Vec<_> = client.seen.headers.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(seen, fields);
}

#[test]
fn counts_the_sizes_of_heads() {
    let mut client = Client::with_requests(2);
    let fields = [(":status", "200"), ("server", "s")];
    client.receive(&Server::new().ok(1, 1).ok(3, 1).0, usize::MAX).unwrap();
    let counts = &client.h2.counts;
    assert_eq!(counts.received_blocks, 2 * block(&fields).len() as u64);
    assert_eq!(counts.received_fields, 2 * (10 + 7));
    assert!(counts.sent_blocks < counts.sent_fields, "{counts:?}");
}

/// What happens during the warm-up is not counted, except for what holds afterwards.
#[test]
fn forgets_the_warm_up() {
    let mut plan = plan(vec![get()]);
    plan.warmup = prony_base::units::Span(1000);
    let mut client = Client::new(&plan);
    client.send(0, 3);
    let server = Server::default().settings(&[(Settings::STREAMS, 9)]).rst(1, Code::CANCEL);
    client.receive(&server.0, usize::MAX).unwrap();
    assert!(client.h2.counts.resets.is_empty());
    client.now = Nanos(1000);
    client.receive(&Server::default().rst(3, Code::CANCEL).0, usize::MAX).unwrap();
    assert_eq!(client.h2.counts.resets, BTreeMap::from([("CANCEL".into(), 1)]));
    assert_eq!(client.h2.counts.limit_least, Some(9));
}

proptest! {
    /// Random changes of what servers send have one outcome, however it is cut.
    #[test]
    fn changed_frames_have_one_outcome(
        (first, second) in (any::<Index>(), any::<Index>()),
        changes in vec((any::<Index>(), any::<u8>(), 0..3), 0..4),
    ) {
        let corpus = corpus();
        let mut bytes = first.get(&corpus).clone();
        bytes.extend(second.get(&corpus));
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        crate::fuzzing::streams(&bytes);
    }
}

/// Sequences of frames that are worth changing.
fn corpus() -> Vec<Vec<u8>> {
    let s = Server::new;
    let mixed = s().ok(1, 0).ok(3, 0).data(1, 0, 10).data(3, 1, 1).data(1, 1, 5).ok(5, 1);
    let ends = s().rst(1, Code::REFUSED_STREAM).goaway(3, Code::NO_ERROR).ok(3, 1);
    let window = s().window(0, 9000).window(7, 9000).settings(&[(Settings::WINDOW, 70_000)]);
    let padded = s().ok(1, 0).frame(kind::DATA, 9, 1, b"\x03abcdePAD").headers(
        3,
        1,
        &[(":status", "200"), ("content-length", "0")],
    );
    let whole = block(&[(":status", "200"), ("a", "b")]);
    let split = s().frame(1, 1, 1, &whole[..1]).frame(9, 0, 1, &[]).frame(9, 4, 1, &whole[1..]);
    [mixed, ends, window, padded, split].into_iter().map(|server| server.0).collect()
}
