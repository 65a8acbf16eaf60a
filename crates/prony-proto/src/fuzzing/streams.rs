//! The fuzz target of the client of HTTP/2.

use std::collections::BTreeMap;

use crate::proto::h2::{Conn, H2};
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::http2::frame::{self, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::{CallSpec, GrpcCall, HttpVersion, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;

/// How an exchange has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Done(Reply),
    Failed(Fault),
    Moved,
}

/// What happened on a connection, whatever the pieces in which the bytes arrived.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The end and the body of each exchange.
    exchanges: BTreeMap<RequestId, (Option<End>, Vec<u8>)>,
    drains: bool,
    result: Option<Fault>,
    /// What is sent to the peer in the end.
    answer: Vec<u8>,
}

impl Seen {
    fn ends(&mut self, id: RequestId, end: End) {
        let (ended, _) = self.exchanges.get_mut(&id).expect("a known exchange");
        assert_eq!(ended.replace(end), None, "an exchange ends once");
    }
}

impl Sink for Seen {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        let mut open = self.exchanges.iter().filter(|(_, (end, _))| end.is_none());
        open.next().map(|(id, _)| (*id, 0))
    }

    fn outstanding(&self) -> u32 {
        self.exchanges.values().filter(|(end, _)| end.is_none()).count() as u32
    }

    fn began(&mut self, id: RequestId) {
        assert_eq!(self.exchanges[&id].0, None, "it has not ended");
    }

    fn wants_body(&self, _: RequestId) -> bool {
        true
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        let (end, body) = self.exchanges.get_mut(&id).expect("a known exchange");
        assert_eq!(*end, None, "it has not ended");
        body.extend_from_slice(piece);
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        let body = self.exchanges[&id].1.len() as u64;
        match reply.status {
            // A status of gRPC: the body has the messages without their prefixes.
            0..=16 => assert!(reply.body_bytes >= body),
            status => assert!((200..=599).contains(&status) && reply.body_bytes == body),
        }
        self.ends(id, End::Done(*reply));
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        self.ends(id, End::Failed(fault));
    }

    fn refused(&mut self, id: RequestId) {
        self.ends(id, End::Moved);
    }

    fn draining(&mut self) {
        self.drains = true;
    }
}

/// Fuzz target: what a server sends to a client with two GETs, a HEAD and a POST that waits for
/// flow control, in many pieces.
///
/// # Panics
/// If the outcome depends on the pieces, an exchange ends twice, or too much is kept.
pub fn streams(data: &[u8]) {
    in_any_pieces(&plan(), data);
}

/// Fuzz target: the body of a reply of gRPC. Of the first byte, one bit says whether the method has
/// a stream of replies, one whether messages may be compressed, and the rest is the status in the
/// trailers (over 16: there are no trailers). Then come the frames of the body: the length of each
/// in a byte, and its bytes.
///
/// # Panics
/// If the outcome depends on the pieces, or a malformed body is a success.
pub fn grpc(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    let (streams, encoded, status) = (how & 1 == 1, how & 2 == 2, how >> 2);
    let mut call = plan().calls[1].clone();
    call.method = "POST".into();
    call.grpc = Some(Box::new(GrpcCall { streams, ..GrpcCall::default() }));
    let plan = Plan { calls: vec![call].into(), ..plan() };
    let mut bytes = Vec::new();
    frame::settings(&mut bytes, &[]);
    let mut head = vec![(":status", "200"), ("content-type", "application/grpc")];
    if encoded {
        head.push(("grpc-encoding", "gzip"));
    }
    headers(&mut bytes, 0, &head);
    let (mut body, mut rest) = (Vec::new(), rest);
    while let Some((&length, after)) = rest.split_first() {
        let (part, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        body.extend_from_slice(part);
        frame::head(&mut bytes, part.len(), kind::DATA, 0, 1);
        bytes.extend_from_slice(part);
    }
    let text = status.to_string();
    match status {
        0..=16 => headers(&mut bytes, flag::END_STREAM, &[("grpc-status", &text)]),
        _ => frame::head(&mut bytes, 0, kind::DATA, flag::END_STREAM, 1),
    }
    in_any_pieces(&plan, &bytes);
    let seen = receive(&plan, &bytes, || usize::MAX);
    let Some((Some(End::Done(reply)), messages)) = seen.exchanges.values().next() else {
        panic!("it ends with a status: {seen:?}");
    };
    assert!(reply.fault.is_some() || reply.status == u16::from(status), "{reply:?}");
    if reply.status == 0 {
        assert_eq!(Some(messages.clone()), model(&body, streams, encoded), "{reply:?}");
    }
}

/// The messages of a body, joined; `None`: it is not a valid one.
fn model(body: &[u8], streams: bool, encoded: bool) -> Option<Vec<u8>> {
    let (mut messages, mut all, mut rest) = (0, Vec::new(), body);
    while !rest.is_empty() {
        let (head, after) = rest.split_first_chunk::<5>()?;
        let [compressed, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        all.extend_from_slice(after.get(..length)?);
        rest = &after[length..];
        messages += 1;
        if compressed > u8::from(encoded) {
            return None;
        }
    }
    (streams || messages == 1).then_some(all)
}

fn headers(out: &mut Vec<u8>, flags: u8, fields: &[(&str, &str)]) {
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    frame::head(out, block.len(), kind::HEADERS, flags | flag::END_HEADERS, 1);
    out.extend_from_slice(&block);
}

fn in_any_pieces(plan: &Plan, data: &[u8]) {
    let whole = receive(plan, data, || usize::MAX);
    assert_eq!(receive(plan, data, || 1), whole, "byte by byte");
    let mut seed = data.len() as u64;
    let cut = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % 40 + 1
    };
    assert_eq!(receive(plan, data, cut), whole, "random pieces");
}

fn receive(plan: &Plan, data: &[u8], mut cut: impl FnMut() -> usize) -> Seen {
    let (mut h2, mut conn) = (H2::new(plan), Conn::default());
    let (mut seen, mut out) = (Seen::default(), Out::default());
    h2.transmit(&mut conn, Nanos::ZERO, &mut out);
    for index in 0..plan.calls.len() as u32 {
        let id = RequestId { slot: index, generation: 0 };
        seen.exchanges.insert(id, (None, Vec::new()));
        h2.submit(&mut conn, id, Call { index, filled: None }, false, &mut out);
    }
    h2.transmit(&mut conn, Nanos::ZERO, &mut out);
    let mut stash = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let (piece, next) = rest.split_at(cut().clamp(1, rest.len()));
        rest = next;
        stash.extend_from_slice(piece);
        match h2.receive(&mut conn, &stash, Nanos::ZERO, &mut seen) {
            Ok(used) => drop(stash.drain(..used)),
            Err(fault) => {
                seen.result = Some(fault);
                break;
            }
        }
        assert!(stash.len() < (16 << 10) + 9, "more than a frame is left");
    }
    let mut answer = Out::default();
    match seen.result {
        None => {
            h2.transmit(&mut conn, Nanos::ZERO, &mut answer);
            assert!(!h2.owes(&conn), "everything was sent");
            seen.result = h2.end(&mut conn, &stash, &mut seen).err();
        }
        Some(_) => h2.close(&mut conn, answer.bytes()),
    }
    seen.answer = answer.bytes().clone();
    seen
}

/// Two GETs, a HEAD, and a POST with more body than the first windows allow.
fn plan() -> Plan {
    let call = |method: &'static str, body: usize| CallSpec {
        method: method.into(),
        path: "/".into(),
        authority: "h".into(),
        body: vec![b'x'; body],
        ..CallSpec::default()
    };
    let calls = vec![call("GET", 0), call("GET", 0), call("HEAD", 0), call("POST", 70_000)];
    let load = Load::Closed { connections: 1, think: Think::None };
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let mut plan = Plan::new(vec![endpoint], calls, load, Stop::default());
    plan.http = HttpVersion::Http2Only;
    plan
}
