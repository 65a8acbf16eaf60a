//! WebSocket over HTTP/2 against prony's target server: the figures of messages are those over
//! HTTP/1.1; windows, limits, refusals and resets.

use std::num::NonZeroU32;

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{Http2Spec, MessageReply, Plan, Stop, StreamFormat, StreamPlan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{
    BroadcastFaults, Latency, Serve, ServerBehavior, Share, SocketBehavior, Stall, Stalls,
};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::broadcast::broadcast;
use crate::faults::random_setup;
use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, closed, has_all_seeds, ms, open, seeds};
use crate::websocket::{echo, random_plan, run, schedule, websocket, with_ping};

/// The plan over HTTP/2.
pub(crate) fn over_http2(plan: Plan, connections: u32, streams: u32) -> Plan {
    let plan = Plan { requests_per_connection: None, ..http2(plan, connections, streams) };
    plan.check().expect("a valid plan");
    plan
}

/// The figures that do not depend on how connections are opened.
fn figures(t: &Tally) -> impl PartialEq + std::fmt::Debug {
    let counts = *t.stream_messages.clone().expect("messages");
    let times = &t.times;
    let all = [&times.message_service, &times.first_byte].map(Clone::clone);
    (all, counts, t.statuses.clone(), t.bytes_body, (t.replies, t.failed))
}

/// One WebSocket per 100 ms, each with 50 messages at 200 per second: a round trip takes 1 ms, a
/// service 2 ms. On one connection of HTTP/2, only the first waits for the connect and for the
/// settings; the handshake takes 1 ms as over HTTP/1.1. All other times are the same.
#[test]
fn times_of_messages_are_those_over_http1() {
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(schedule(200.0, 50)), None);
    let link = || Link::with_latency(Span::from_micros(500));
    let (one, _) = run(&plan, link(), echo(Latency::Fixed(ms(2))));
    let plan = over_http2(plan, 1, 100);
    let (t, served) = run(&plan, link(), echo(Latency::Fixed(ms(2))));
    assert_eq!(figures(&t), figures(&one));
    let times = &t.times;
    assert_eq!(
        (times.message_service.min(), times.message_service.max()),
        (Some(ms(3)), Some(ms(3)))
    );
    assert_eq!((times.first_byte.min(), times.first_byte.max()), (Some(ms(1)), Some(ms(1))));
    assert_eq!((t.connects, served.connections, served.h2_connections), (1, 1, 1));
    assert_eq!((served.sockets, served.h2_requests, served.statuses[&200]), (20, 20, 20));
    assert_eq!((served.socket_messages_received, served.socket_messages_sent), (1_000, 1_000));
    assert_eq!((served.violations, served.malformed, served.cancelled), (0, 0, 0));
    // The connect and the settings take 1 ms each, then each handshake.
    assert_eq!(times.message_lag.sum_ns(), 2_000_000 + 20 * 1_000_000);
    assert_eq!((times.message.min(), times.message.max()), (Some(ms(3)), Some(ms(6))));
    assert_eq!(times.message.sum_ns(), 1_000 * 3_000_000 + 2_000_000 + 20 * 1_000_000);
    assert_eq!(times.first_message.min(), Some(ms(4)));
    // 49 gaps, the last reply, and the round trip of the close.
    let all = Some(ms(49 * 5 + 3 + 1));
    assert_eq!((times.response.min(), times.response.max()), (all, all));
    let streams = t.http2.as_deref().expect("HTTP/2");
    assert_eq!((streams.connections, streams.cancelled, streams.resets.len()), (1, 0, 0));
}

/// A server that freezes delays every message that is due in the freeze, by arithmetic.
#[test]
fn a_freeze_delays_the_messages_that_are_due_in_it() {
    let (from, freeze) = (ms(1_000), ms(500));
    let behavior = ServerBehavior {
        stalls: Stalls(vec![Stall::Once { length: freeze, at: from }]),
        ..echo(Latency::Fixed(Span::ZERO))
    };
    let plan = websocket(open(1.0, Arrivals::Fixed, 1), Some(schedule(100.0, 300)), None);
    let (t, _) = run(&over_http2(plan, 1, 1), Link::with_latency(Span::ZERO), behavior);
    assert_eq!(t.times.message.count(), 300);
    let expected: u64 = (0..50).map(|k| (freeze - ms(10 * k)).0).sum();
    let sum = t.times.message.sum_ns();
    assert!(sum.abs_diff(u128::from(expected)) <= 300, "{sum} {expected}");
}

/// A closed loop of streams on few connections, bounds that end what a server pushes, and pings.
#[test]
fn streams_share_connections() {
    let stop = Stop { requests: Some(60), ..Stop::default() };
    let plan = Plan { stop, ..closed(3, Think::None, ms(1)) };
    let plan = websocket(plan, Some(schedule(100.0, 20)), None);
    let link = || Link::with_latency(Span::from_micros(500));
    let plan = over_http2(with_ping(plan, ms(50)), 3, 10);
    let (t, served) = run(&plan, link(), echo(Latency::None));
    assert_eq!((t.replies, t.failed, t.connects), (60, 0, 3), "{:?}", t.faults);
    assert_eq!((served.sockets, served.socket_messages_sent), (60, 1_200));
    assert_eq!(
        (t.times.message_service.min(), t.times.message_service.max()),
        (Some(ms(1)), Some(ms(1)))
    );
    let pings = t.pings.as_deref().expect("pings");
    // Each is open for 190 ms and two round trips, from 1 ms after its start.
    assert_eq!((pings.sent, pings.answered, pings.time.max()), (180, 180, Some(ms(1))));

    let gap = Latency::Fixed(ms(20));
    let push = ServerBehavior { ws: Some(SocketBehavior::Push(gap)), ..ServerBehavior::default() };
    let by_count = StreamPlan { count: Some(10), ..StreamPlan::new(StreamFormat::Messages) };
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), None, Some(by_count));
    let (t, served) = run(&over_http2(plan, 1, 100), link(), push);
    assert_eq!((t.replies, t.failed, served.sockets), (20, 0, 20), "{:?}", t.faults);
    assert_eq!(t.stream_messages.as_deref().expect("messages").received, 200);
    assert_eq!(
        (t.times.message_gap.min(), t.times.message_gap.max()),
        (Some(ms(20)), Some(ms(20)))
    );
    // The handshake and the first gap.
    assert_eq!(t.times.first_message.min(), Some(ms(21)));
    assert_eq!((served.cancelled, served.violations), (0, 0), "streams end in an orderly way");
}

/// Broadcasts to streams of several connections, on several threads.
#[test]
fn every_message_of_a_broadcast_reaches_every_stream() {
    for shares in [1, 3] {
        let mut plan = broadcast(4, 3, 10.0, 50, Span::from_secs(1));
        plan.stop.requests = Some(20);
        let plan = over_http2(plan, 4, 5);
        let ws = Some(SocketBehavior::Broadcast(BroadcastFaults::default()));
        let latency = Latency::Fixed(ms(2));
        let mut serve = Serve::new(ServerBehavior { latency, ws, ..ServerBehavior::default() }, 5);
        let setup = Setup::new(Link::with_latency(Span::from_micros(500)), 5);
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "broadcast");
        let t = outcome.main();
        let all = t.broadcast.as_deref().expect("a broadcast");
        assert_eq!((t.replies, t.failed, t.connects), (20, 0, 4), "{:?}", t.faults);
        assert_eq!((all.subscribers, all.published), (17, 150));
        assert_eq!((all.expected, all.delivered, all.complete), (150 * 17, 150 * 17, 150));
        assert_eq!((all.reordered, all.duplicates, all.unstamped), (0, 0, 0));
        assert_eq!((all.delivery.min(), all.delivery.max()), (Some(ms(3)), Some(ms(3))));
    }
}

fn random_http2(rng: &mut Rng, seed: u64) -> Plan {
    let plan = Plan { seed, timeout: Span::from_secs(6_000), ..random_plan(rng) };
    let (connections, streams) = (rng.between(1, 5) as u32, rng.between(1, 12) as u32);
    let mut plan = over_http2(plan, connections, streams);
    if let Some(messages) = plan.messages.as_deref_mut().filter(|_| rng.chance(0.3)) {
        messages.reply = MessageReply::Token;
    }
    if rng.chance(0.5) {
        let window = rng.between(100, 100_000) as u32;
        plan.http2 = Some(Box::new(Http2Spec { window, ..Http2Spec::default() }));
    }
    plan
}

fn random_server(rng: &mut Rng) -> ServerBehavior {
    ServerBehavior {
        window: rng.between(100, 12_000) as u32,
        // More than may start before the limit is known; some may linger.
        max_streams: rng.between(20, 60) as u32,
        ..echo(Latency::Exponential(ms(1)))
    }
}

/// However bytes are split and whatever the windows are: every message is sent once, and answered.
#[test]
fn counters_of_both_sides_are_equal() {
    let mut waited = 0;
    for seed in seeds(150) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 160);
        let mut plan = random_http2(&mut rng, seed);
        if rng.chance(0.3) {
            plan = with_ping(plan, ms(rng.between(1, 50)));
        }
        let mut behavior = random_server(&mut rng);
        if let Some(spec) = plan.websocket.as_deref_mut().filter(|_| rng.chance(0.3)) {
            (spec.compress, behavior.ws_compress) = (true, true);
        }
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "websocket over HTTP/2");
        let (t, served) = (outcome.main(), serve.served());
        assert_eq!((t.failed, t.unfinished), (0, 0), "{:?}", t.faults);
        let counts = *t.stream_messages.clone().expect("messages");
        let each = plan.messages.as_deref().and_then(|m| m.count).expect("a count");
        assert_eq!(counts.sent, t.replies * each);
        assert_eq!([counts.awaited, counts.answered, counts.received], [counts.sent; 3]);
        assert_eq!((counts.unmatched, served.unanswered), (0, 0));
        assert_eq!((served.violations, served.malformed), (0, 0), "the client keeps the rules");
        assert_eq!((served.socket_messages_received, served.sockets), (counts.sent, t.replies));
        assert_eq!(t.times.message.count(), counts.sent);
        if let Some(pings) = t.pings.as_deref() {
            assert_eq!(pings.sent, pings.answered);
        }
        waited += t.times.flow_wait.count();
    }
    assert!(!has_all_seeds() || waited > 20, "{waited}");
}

/// A server without the setting gets no handshake, and none of its connections is used.
#[test]
fn servers_that_do_not_allow_it_fail_every_request() {
    for plan in [open(10.0, Arrivals::Fixed, 20), {
        let stop = Stop { requests: Some(20), ..Stop::default() };
        Plan { stop, ..closed(2, Think::None, ms(1)) }
    }] {
        let plan = over_http2(websocket(plan, Some(schedule(10.0, 5)), None), 2, 4);
        let link = Link::with_latency(Span::from_micros(500));
        let (t, served) = run(&plan, link, ServerBehavior::default());
        assert_eq!((t.replies, t.failed), (0, 20), "{:?}", t.faults);
        assert_eq!((t.fault(Fault::NoExtendedConnect), served.streams), (20, 0));
    }
}

/// Streams that the server refuses or resets, and connections that it leaves: each WebSocket has
/// one end, and those on a connection with a GOAWAY go on.
#[test]
fn refusals_resets_and_goaways_are_counted() {
    let plan = websocket(open(100.0, Arrivals::Poisson, 600), Some(schedule(100.0, 10)), None);
    let link = || Link::with_latency(Span::from_micros(500));
    let behavior = ServerBehavior {
        goaway_after: NonZeroU32::new(40),
        rst: Share(0.1),
        ..echo(Latency::Fixed(ms(1)))
    };
    let (t, served) = run(&over_http2(plan.clone(), 4, 100), link(), behavior);
    let resets = t.fault(Fault::StreamReset);
    assert_eq!((t.replies + resets, t.failed, t.unfinished), (600, resets, 0), "{:?}", t.faults);
    assert_eq!((served.stream_resets, served.sockets), (resets, t.replies));
    assert!(resets > 20 && served.connections > 10, "{resets} {}", served.connections);
    let http2 = t.http2.as_deref().expect("HTTP/2");
    assert_eq!(http2.moved, served.ignored);
    // Refused streams are sent again if asked.
    let spec = Http2Spec { retry_refused: true, ..Http2Spec::default() };
    let plan = Plan { http2: Some(Box::new(spec)), ..over_http2(plan, 4, 100) };
    let behavior = ServerBehavior { refuse: Share(0.2), ..echo(Latency::None) };
    let (t, served) = run(&plan, link(), behavior);
    assert_eq!((t.replies, t.failed), (600, 0), "{:?}", t.faults);
    assert!(served.refused > 60, "{}", served.refused);
}

/// A time-out ends its stream alone.
#[test]
fn timeouts_end_their_stream_alone() {
    let messages = schedule(10.0, 20);
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(messages), None);
    let plan = Plan { timeout: Span::from_secs(2), ..over_http2(plan, 1, 100) };
    let stalls = Stalls(vec![Stall::Once { length: ms(1_500), at: ms(1_000) }]);
    let behavior = ServerBehavior { stalls, ..echo(Latency::None) };
    let (t, served) = run(&plan, Link::with_latency(Span::from_micros(500)), behavior);
    // The server is silent until 2.5 s: those that start in the first 0.5 s time out before.
    let late = t.fault(Fault::RequestTimeout);
    assert_eq!((t.replies + late, t.failed, t.connects), (20, late, 1), "{:?}", t.faults);
    assert!((4..=7).contains(&late), "{late}");
    assert_eq!((served.violations, served.malformed), (0, 0));
}

/// Links that break: what is counted stays consistent.
#[test]
fn broken_links_break_no_invariant() {
    let mut failed = 0;
    for seed in seeds(150) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 161);
        let plan = random_http2(&mut rng, seed);
        let plan = Plan { timeout: Span::from_secs(3), ..plan };
        let setup = random_setup(&mut rng, seed);
        let mut behavior = random_server(&mut rng);
        if rng.chance(0.5) {
            (behavior.rst, behavior.refuse) = (Share(rng.unit() * 0.2), Share(rng.unit() * 0.2));
        }
        if rng.chance(0.4) {
            behavior.goaway_after = NonZeroU32::new(rng.between(1, 20) as u32);
        }
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "broken websocket over HTTP/2");
        let t = outcome.main();
        failed += t.failed;
        assert_eq!((serve.served().violations, serve.served().malformed), (0, 0));
        for fault in [Fault::BadHttp2, Fault::BadHpack, Fault::FlowControl, Fault::BadWebSocket] {
            assert_eq!((t.fault(fault), t.stray[fault as usize]), (0, 0), "{fault:?}");
        }
        let Some(counts) = t.stream_messages.as_deref() else { continue };
        assert!(counts.received <= counts.sent && counts.answered <= counts.awaited);
    }
    assert!(!has_all_seeds() || failed > 50, "{failed}");
}
