//! Requests over HTTP/2.

use std::sync::atomic::Ordering;

use prony_base::grpc::Gzip;
use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Head, Settings, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::machine::{Action, Machine};
use prony_base::units::{ConnId, Nanos, Span};
use prony_core::engine::Engine;
use prony_plan::plan::{
    Burst, Expect, GrpcCall, HttpVersion, Load, MessagePart, Plan, ScalarKind, SessionKind,
    Sessions, Stop, Think, Wire,
};
use prony_proto::proto::http::Http;

use crate::{ALLOCATIONS, LIVE};

/// A message of gRPC, of two bytes.
const MESSAGE: &[u8] = b"\0\0\0\0\x02hi";

/// Replies to each request with a head and a body.
struct Peer {
    /// The connections and the replies to their requests.
    replies: Vec<(ConnId, Vec<u8>)>,
    connecting: Vec<ConnId>,
    block: Vec<u8>,
    /// The body of each reply, and the block of its trailers; empty without trailers.
    body: &'static [u8],
    trailers: Vec<u8>,
    /// Whether it gives a window for bodies, and gives back what they use of it.
    gives_window: bool,
    count: u64,
}

impl Peer {
    fn poll(&mut self, engine: &mut Engine<Http>, now: Nanos) {
        while let Some(action) = engine.poll_action() {
            match action {
                Action::Connect { id, .. } => self.connecting.push(id),
                Action::Transmit { id } => self.takes(engine, id, now),
                Action::Close { .. } | Action::Finished => panic!("{action:?}"),
                Action::Yield | Action::Pause { .. } | Action::Resume { .. } => {}
            }
        }
    }

    fn takes(&mut self, engine: &mut Engine<Http>, id: ConnId, now: Nanos) {
        let (_, replies) = &mut self.replies[id.slot as usize];
        let (block, count) = (&self.block, &mut self.count);
        let (body, trailers) = (self.body, &self.trailers);
        let gives_window = self.gives_window;
        engine.take_output(id, now, &mut |bytes| {
            let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
            while let Some(head) = Head::read(rest) {
                rest = &rest[frame::HEADER + head.length as usize..];
                if head.kind == kind::DATA && gives_window {
                    frame::window_update(replies, 0, head.length);
                }
                if head.kind == kind::HEADERS {
                    *count += 1;
                    frame::head(
                        replies,
                        block.len(),
                        kind::HEADERS,
                        flag::END_HEADERS,
                        head.stream,
                    );
                    replies.extend_from_slice(block);
                    let flags = if trailers.is_empty() { flag::END_STREAM } else { 0 };
                    frame::head(replies, body.len(), kind::DATA, flags, head.stream);
                    replies.extend_from_slice(body);
                    if !trailers.is_empty() {
                        let flags = flag::END_STREAM | flag::END_HEADERS;
                        frame::head(replies, trailers.len(), kind::HEADERS, flags, head.stream);
                        replies.extend_from_slice(trailers);
                    }
                }
            }
            bytes.len()
        });
    }

    fn turn(&mut self, engine: &mut Engine<Http>, now: Nanos) {
        if engine.deadline().is_some_and(|at| at <= now) {
            engine.on_tick(now);
        }
        engine.on_turn(now);
        self.poll(engine, now);
        while let Some(id) = self.connecting.pop() {
            self.replies[id.slot as usize].0 = id;
            let settings: &[_] = if self.gives_window { &[] } else { &[(Settings::WINDOW, 0)] };
            frame::settings(&mut self.replies[id.slot as usize].1, settings);
            engine.on_connected(id, now);
            self.poll(engine, now);
        }
        for slot in 0..self.replies.len() {
            let (id, bytes) = &mut self.replies[slot];
            let (id, mut bytes) = (*id, std::mem::take(bytes));
            if !bytes.is_empty() {
                engine.on_recv(id, &mut bytes, now);
                bytes.clear();
                self.replies[slot].1 = bytes;
                self.poll(engine, now);
            }
        }
    }
}

/// A load of this plan, and the server's side of its connections.
fn start(plan: &Plan, connections: u32) -> (Engine<Http>, Peer) {
    let engine = Engine::new(plan, Http::new(plan));
    let mut block = Vec::new();
    for (name, value) in [(":status", "200"), ("content-length", "16"), ("server", "s")] {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    let none = ConnId { slot: 0, generation: 0 };
    let replies = (0..connections).map(|_| (none, Vec::with_capacity(1 << 16))).collect();
    let connecting = Vec::with_capacity(connections as usize);
    let (body, trailers) = (&b"0123456789abcdef"[..], Vec::new());
    let (gives_window, count) = (true, 0);
    (engine, Peer { replies, connecting, block, body, trailers, gives_window, count })
}

/// The bytes that the engine has allocated for this number of connections, each of which has
/// carried requests on this number of streams and is idle.
pub(crate) fn idle_bytes(connections: u32, streams: u32) -> u64 {
    let before = LIVE.load(Ordering::Relaxed);
    let think = Think::Fixed(Span::from_secs(3_600));
    let load = Load::Closed { connections, think };
    let plan = Plan { http: HttpVersion::Http2Only, ..crate::plan(load, streams, None) };
    let (mut engine, mut peer) = start(&plan, connections);
    for ms in 0..2_000 {
        peer.turn(&mut engine, Nanos::ZERO + Span::from_millis(ms));
    }
    assert_eq!(engine.connections(), connections as usize);
    assert_eq!((engine.in_flight(), peer.count), (0, u64::from(connections * streams)));
    drop(peer);
    LIVE.load(Ordering::Relaxed).wrapping_sub(before)
}

/// What requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requests {
    Get,
    /// Unary calls of gRPC.
    Grpc,
    /// The same in sessions, with template fields in their messages.
    FilledGrpc,
    /// The same to a server that gives no window, and replies without the messages.
    BlockedGrpc,
    /// Unary calls of gRPC with compressed messages in both directions, which are looked into.
    PackedGrpc,
    /// The same in sessions, with template fields in their messages.
    FilledPackedGrpc,
}

impl Requests {
    pub(crate) const ALL: [Self; 6] = [
        Self::Get,
        Self::Grpc,
        Self::FilledGrpc,
        Self::BlockedGrpc,
        Self::PackedGrpc,
        Self::FilledPackedGrpc,
    ];
}

/// Allocations per virtual second, after a warm-up, over 100,000 requests on two connections with
/// this many streams. Over 900 if replies come before their requests end: after 1,000 of those a
/// connection is closed.
pub(crate) fn allocations(streams: u32, what: Requests) -> f64 {
    let is_grpc = what != Requests::Get;
    let is_packed = matches!(what, Requests::PackedGrpc | Requests::FilledPackedGrpc);
    const CONNECTIONS: u32 = 2;
    let load = Load::Closed { connections: CONNECTIONS, think: Think::None };
    let mut plan = Plan { http: HttpVersion::Http2Only, ..crate::plan(load, streams, None) };
    if is_grpc {
        plan.expect = Expect { statuses: vec![(0, 0)], ..Expect::default() };
        plan.calls[0].grpc = Some(Box::default());
        plan.calls[0].method = "POST".into();
        plan.calls[0].body = MESSAGE.to_vec();
        if !matches!(what, Requests::Grpc | Requests::PackedGrpc) {
            plan = filled(plan);
        }
        if is_packed {
            plan.calls[0].grpc.as_mut().expect("a call").gzip = true;
            plan.expect.body = Some(b"hi".to_vec());
        }
        plan.check().expect("a valid plan");
    }
    let (mut engine, mut peer) = start(&plan, CONNECTIONS);
    if is_grpc {
        peer.block.clear();
        encode_static(&mut peer.block, b":status", b"200");
        encode_static(&mut peer.block, b"content-type", b"application/grpc");
        encode_static(&mut peer.trailers, b"grpc-status", b"0");
        peer.body = MESSAGE;
        if is_packed {
            encode_static(&mut peer.block, b"grpc-encoding", b"gzip");
            let mut packed = Vec::new();
            Gzip::default().pack(MESSAGE, &mut packed);
            assert_eq!(packed[0], 1, "it is compressed");
            // Once for each case.
            peer.body = packed.leak();
        }
        peer.gives_window = what != Requests::BlockedGrpc;
    }
    let (warm_up, requests) =
        if peer.gives_window { (Span::from_secs(2), 100_000) } else { (Span::ZERO, 900) };
    let (mut now, step) = (Nanos::ZERO, Span::from_millis(1));
    while now < Nanos::ZERO + warm_up || peer.count < requests.min(900) {
        peer.turn(&mut engine, now);
        now = now + step;
    }
    let (before, start, from) = (ALLOCATIONS.load(Ordering::Relaxed), peer.count, now);
    while peer.count < start + requests {
        peer.turn(&mut engine, now);
        now = now + step;
    }
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    if is_packed {
        let (_, main) = engine.finish();
        assert!(main.replies > requests / 2 && main.failed == 0, "{:?}", main.faults);
    }
    let seconds = now.since(from).as_secs_f64();
    println!("{made} allocations over {requests} requests in {seconds:.1} virtual seconds");
    made as f64 / seconds.max(1.0)
}

/// The plan in sessions without an end, with messages of two template fields.
fn filled(mut plan: Plan) -> Plan {
    let burst = Burst { repeat: u32::MAX, ..Burst::of(vec![0; 20], Think::None) };
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    plan.sessions = Some(Sessions { connections: 1, ..Sessions::plain(vec![kind]) });
    plan.stop = Stop { requests: None, sessions: Some(2), duration: None };
    let field = |number, kind, text: &str| MessagePart::Field { number, kind, text: text.into() };
    let message = vec![
        field(1, ScalarKind::String, "tea of {{session}}"),
        field(2, ScalarKind::Int64(Wire::Varint), "{{session}}"),
    ];
    let call = &mut plan.calls[0];
    call.body = Vec::new();
    call.template = true;
    call.grpc = Some(Box::new(GrpcCall { messages: vec![message], ..GrpcCall::default() }));
    plan
}
