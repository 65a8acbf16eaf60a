//! Streams of server-sent events: over HTTP/1.1, each on a connection of its own, and over HTTP/2,
//! many on each connection.

use std::sync::atomic::Ordering;
use std::time::Instant;

use prony_base::http2::PREFACE;
use prony_base::http2::frame::{self, Head, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::machine::{Action, Machine};
use prony_base::units::{ConnId, Nanos, Span};
use prony_core::engine::Engine;
use prony_plan::plan::{
    Expect, HttpVersion, Load, Plan, StreamFormat, StreamPlan, Think, TokenDialect, TokenPlan,
};
use prony_proto::proto::h1::H1;
use prony_proto::proto::http::Http;

use crate::{ALLOCATIONS, LIVE};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Transfer-Encoding: chunked\r\n\r\n";

/// An event, as the chunk of a server, in two pieces.
const EVENT: [&[u8]; 2] =
    [b"39\r\nid: 7\ndata: {\"choices\":[{\"delta\":", b"{\"content\":\"word \"}}]}\n\n\r\n"];

/// What open streams need.
pub(crate) struct Needs {
    /// Bytes that the engine has allocated.
    pub(crate) bytes: u64,
    /// Allocations while events arrive, after the first ones.
    pub(crate) allocations: u64,
    /// Events per second of one core, with its checks of their content.
    pub(crate) events_per_second: f64,
}

/// Streams whose events have content at a place that the plan names.
pub(crate) fn plain() -> StreamPlan {
    let pointer = Some("/choices/0/delta/content".into());
    StreamPlan { content: pointer, ..StreamPlan::new(StreamFormat::Sse) }
}

/// The same streams, opened again when they end.
pub(crate) fn reconnecting() -> StreamPlan {
    StreamPlan { reconnect: true, count: Some(u64::MAX), ..plain() }
}

/// The replies of a language model.
pub(crate) fn tokens() -> StreamPlan {
    let tokens = Some(TokenPlan::new(TokenDialect::OpenAi));
    StreamPlan { tokens, ..StreamPlan::new(StreamFormat::Sse) }
}

/// Open this number of streams, each of which receives this number of events after three others,
/// and keep them in the middle of the next.
pub(crate) fn open(stream: StreamPlan, streams: u32, events: u64) -> Needs {
    let before = LIVE.load(Ordering::Relaxed);
    let plan = plan(stream, streams, 1);
    let mut engine = Engine::new(&plan, H1::new(&plan));
    let mut now = Nanos(1_000_000);
    engine.on_tick(now);
    let mut open: Vec<ConnId> = Vec::with_capacity(streams as usize);
    let mut connecting = Vec::new();
    poll(&mut engine, now, &mut connecting);
    while open.len() < streams as usize {
        let Some(id) = connecting.pop() else {
            // The engine lets the driver look at its sockets after a few connects.
            now = now + Span::from_millis(1);
            engine.on_turn(now);
            engine.on_tick(now);
            poll(&mut engine, now, &mut connecting);
            assert!(now < Nanos(60_000_000_000), "{} of {streams} connections", open.len());
            continue;
        };
        engine.on_connected(id, now);
        poll(&mut engine, now, &mut connecting);
        engine.on_recv(id, &mut HEAD.to_vec(), now);
        open.push(id);
        poll(&mut engine, now, &mut connecting);
    }
    drop(connecting);
    let mut pieces = EVENT.map(<[u8]>::to_vec);
    let mut event = |engine: &mut Engine<H1>, now| {
        for &id in &open {
            for piece in &mut pieces {
                engine.on_recv(id, piece, now);
            }
        }
    };
    for _ in 0..3 {
        now = now + Span::from_millis(1);
        event(&mut engine, now);
    }
    let (made, start) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
    for _ in 0..events {
        now = now + Span::from_millis(1);
        event(&mut engine, now);
    }
    let took = start.elapsed().as_secs_f64();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - made;
    for &id in &open {
        engine.on_recv(id, &mut pieces[0], now);
    }
    assert_eq!(engine.in_flight(), u64::from(streams));
    drop((open, pieces));
    let bytes = LIVE.load(Ordering::Relaxed).wrapping_sub(before);
    let events_per_second = (events * u64::from(streams)) as f64 / took;
    Needs { bytes, allocations, events_per_second }
}

/// A plan whose requests open such streams, `per` of them on each connection.
fn plan(stream: StreamPlan, connections: u32, per: u32) -> Plan {
    let plan = crate::plan(Load::Closed { connections, think: Think::None }, per, None);
    let (timeout, expect) = (Span::from_secs(3_600), Expect::default());
    Plan { stream: Some(Box::new(stream)), timeout, expect, ..plan }
}

fn poll(engine: &mut Engine<H1>, now: Nanos, connecting: &mut Vec<ConnId>) {
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Connect { id, .. } => connecting.push(id),
            Action::Transmit { id } => {
                engine.take_output(id, now, &mut |bytes| bytes.len());
            }
            Action::Close { .. } | Action::Finished => panic!("{action:?}"),
            Action::Yield | Action::Pause { .. } | Action::Resume { .. } => {}
        }
    }
}

/// The server's side of connections of HTTP/2.
#[derive(Default)]
struct Peer {
    connecting: Vec<ConnId>,
    open: Vec<ConnId>,
    /// The streams that each connection has opened, by its slot.
    streams: Vec<Vec<u32>>,
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
        let slot = id.slot as usize;
        if self.streams.len() <= slot {
            self.streams.resize(slot + 1, Vec::new());
        }
        let streams = &mut self.streams[slot];
        engine.take_output(id, now, &mut |bytes| {
            let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
            while let Some(head) = Head::read(rest) {
                rest = &rest[frame::HEADER + head.length as usize..];
                if head.kind == kind::HEADERS {
                    streams.push(head.stream);
                }
            }
            bytes.len()
        });
    }

    /// All connections receive these bytes.
    fn send(&mut self, engine: &mut Engine<Http>, bytes: &mut [u8], now: Nanos) {
        for k in 0..self.open.len() {
            engine.on_recv(self.open[k], bytes, now);
            self.poll(engine, now);
        }
    }
}

/// As [`open`], with `per` streams on each of these connections of HTTP/2. The events of all
/// streams of a connection arrive together, in two pieces each.
pub(crate) fn open_http2(stream: StreamPlan, connections: u32, per: u32, events: u64) -> Needs {
    let before = LIVE.load(Ordering::Relaxed);
    let plan = Plan { http: HttpVersion::Http2Only, ..plan(stream, connections, per) };
    let mut engine = Engine::new(&plan, Http::new(&plan));
    let (mut now, mut peer) = (Nanos(1_000_000), Peer::default());
    let mut settings = Vec::new();
    frame::settings(&mut settings, &[]);
    let all: Vec<u32> = (0..per).map(|k| 2 * k + 1).collect();
    while peer.streams.iter().filter(|streams| **streams == all).count() < connections as usize {
        now = now + Span::from_millis(1);
        assert!(now < Nanos(60_000_000_000), "{} connections", peer.open.len());
        engine.on_tick(now);
        engine.on_turn(now);
        peer.poll(&mut engine, now);
        while let Some(id) = peer.connecting.pop() {
            engine.on_connected(id, now);
            peer.poll(&mut engine, now);
            engine.on_recv(id, &mut settings.clone(), now);
            peer.open.push(id);
            peer.poll(&mut engine, now);
        }
    }
    let mut block = Vec::new();
    encode_static(&mut block, b":status", b"200");
    encode_static(&mut block, b"content-type", b"text/event-stream");
    let frames = |kind, flags, payload: &[u8]| {
        let mut bytes = Vec::new();
        for &stream in &all {
            frame::head(&mut bytes, payload.len(), kind, flags, stream);
            bytes.extend_from_slice(payload);
        }
        bytes
    };
    peer.send(&mut engine, &mut frames(kind::HEADERS, flag::END_HEADERS, &block), now);
    // Without the framing of chunks.
    let event = EVENT.concat();
    let (first, second) = event[4..event.len() - 2].split_at(20);
    let mut pieces = [first, second].map(|piece| frames(kind::DATA, 0, piece));
    let mut round = |peer: &mut Peer, engine: &mut Engine<Http>, now| {
        pieces.iter_mut().for_each(|piece| peer.send(engine, piece, now));
    };
    for _ in 0..3 {
        now = now + Span::from_millis(1);
        round(&mut peer, &mut engine, now);
    }
    let (made, start) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
    for _ in 0..events {
        now = now + Span::from_millis(1);
        round(&mut peer, &mut engine, now);
    }
    let took = start.elapsed().as_secs_f64();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - made;
    peer.send(&mut engine, &mut pieces[0], now);
    let streams = u64::from(connections) * u64::from(per);
    assert_eq!(engine.in_flight(), streams);
    drop((peer, pieces, all, block, settings, event));
    let bytes = LIVE.load(Ordering::Relaxed).wrapping_sub(before);
    Needs { bytes, allocations, events_per_second: (events * streams) as f64 / took }
}
