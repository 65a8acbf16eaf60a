//! Streams of server-sent events over HTTP/1.1, each on a connection of its own.

use std::sync::atomic::Ordering;
use std::time::Instant;

use prony_core::engine::Engine;
use prony_core::machine::{Action, Machine};
use prony_core::plan::{
    Expect, Load, Plan, StreamFormat, StreamPlan, Think, TokenDialect, TokenPlan,
};
use prony_core::proto::h1::H1;
use prony_core::units::{ConnId, Nanos, Span};

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
    let plan = crate::plan(Load::Closed { connections: streams, think: Think::None }, 1, None);
    let timeout = Span::from_secs(3_600);
    let expect = Expect::default();
    let plan = Plan { stream: Some(Box::new(stream)), timeout, expect, ..plan };
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

fn poll(engine: &mut Engine<H1>, now: Nanos, connecting: &mut Vec<ConnId>) {
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Connect { id, .. } => connecting.push(id),
            Action::Transmit { id } => {
                engine.take_output(id, now, &mut |bytes| bytes.len());
            }
            Action::Close { .. } | Action::Finished => panic!("{action:?}"),
            Action::Yield => {}
        }
    }
}
