//! Requests over HTTP/2.

use std::sync::atomic::Ordering;

use prony_core::engine::Engine;
use prony_core::http2::PREFACE;
use prony_core::http2::frame::{self, Head, flag, kind};
use prony_core::http2::hpack::encode_static;
use prony_core::machine::{Action, Machine};
use prony_core::plan::{Expect, HttpVersion, Load, Plan, Think};
use prony_core::proto::http::Http;
use prony_core::units::{ConnId, Nanos, Span};

use crate::ALLOCATIONS;

/// Replies to each request with a head and a body.
struct Peer {
    /// The connections and the replies to their requests.
    replies: Vec<(ConnId, Vec<u8>)>,
    connecting: Vec<ConnId>,
    block: Vec<u8>,
    /// The body of each reply, and the block of its trailers; empty without trailers.
    body: &'static [u8],
    trailers: Vec<u8>,
    count: u64,
}

impl Peer {
    fn poll(&mut self, engine: &mut Engine<Http>, now: Nanos) {
        while let Some(action) = engine.poll_action() {
            match action {
                Action::Connect { id, .. } => self.connecting.push(id),
                Action::Transmit { id } => self.takes(engine, id, now),
                Action::Close { .. } | Action::Finished => panic!("{action:?}"),
                Action::Yield => {}
            }
        }
    }

    fn takes(&mut self, engine: &mut Engine<Http>, id: ConnId, now: Nanos) {
        let (_, replies) = &mut self.replies[id.slot as usize];
        let (block, count) = (&self.block, &mut self.count);
        let (body, trailers) = (self.body, &self.trailers);
        engine.take_output(id, now, &mut |bytes| {
            let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
            while let Some(head) = Head::read(rest) {
                rest = &rest[frame::HEADER + head.length as usize..];
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
            self.poll(engine, now);
        }
        while let Some(id) = self.connecting.pop() {
            self.replies[id.slot as usize].0 = id;
            frame::settings(&mut self.replies[id.slot as usize].1, &[]);
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

/// Allocations per virtual second, after a warm-up, over this many requests on two connections with
/// this many streams: GETs, or unary calls of gRPC.
pub(crate) fn allocations(streams: u32, requests: u64, is_grpc: bool) -> f64 {
    const CONNECTIONS: u32 = 2;
    let load = Load::Closed { connections: CONNECTIONS, think: Think::None };
    let mut plan = Plan { http: HttpVersion::Http2Only, ..crate::plan(load, streams, None) };
    let mut fields = vec![(":status", "200"), ("server", "s")];
    let (mut trailers, mut body) = (Vec::new(), &b"0123456789abcdef"[..]);
    if is_grpc {
        plan.expect = Expect { statuses: vec![(0, 0)], ..Expect::default() };
        plan.calls[0].grpc = Some(Box::default());
        plan.calls[0].method = "POST".into();
        plan.calls[0].body = b"\0\0\0\0\x02hi".to_vec();
        fields.push(("content-type", "application/grpc"));
        encode_static(&mut trailers, b"grpc-status", b"0");
        body = b"\0\0\0\0\x02hi";
        plan.check().expect("a valid plan");
    } else {
        fields.push(("content-length", "16"));
    }
    let plan = plan;
    let mut engine = Engine::new(&plan, Http::new(&plan));
    let mut block = Vec::new();
    for (name, value) in fields {
        encode_static(&mut block, name.as_bytes(), value.as_bytes());
    }
    let none = ConnId { slot: 0, generation: 0 };
    let replies = (0..CONNECTIONS).map(|_| (none, Vec::with_capacity(1 << 16))).collect();
    let mut peer =
        Peer { replies, connecting: Vec::with_capacity(8), block, body, trailers, count: 0 };
    let (mut now, step) = (Nanos::ZERO, Span::from_millis(1));
    while now < Nanos(2_000_000_000) {
        peer.turn(&mut engine, now);
        now = now + step;
    }
    let (before, start, from) = (ALLOCATIONS.load(Ordering::Relaxed), peer.count, now);
    while peer.count < start + requests {
        peer.turn(&mut engine, now);
        now = now + step;
    }
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let seconds = now.since(from).as_secs_f64();
    println!("{made} allocations over {requests} requests in {seconds:.1} virtual seconds");
    made as f64 / seconds.max(1.0)
}
