//! WebSocket against prony's target server: times by arithmetic, freezes, a known distribution,
//! counters of both sides.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::machine::{Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::{
    Expect, MessagePlan, MessageReply, Plan, Stop, StreamFormat, StreamPlan, Think, WebSocketPlan,
};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_server::serve::{Latency, Serve, Served, ServerBehavior, SocketBehavior, Stall, Stalls};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::Tally;

use crate::delegate::delegate;
use crate::faults::random_setup;
use crate::known::{assert_close, assert_exponential};
use crate::plans::{Seed, arrivals, assert_invariants, closed, has_all_seeds, ms, open, seeds};
use crate::websocket_http2::over_http2;

pub(crate) fn schedule(rate: f64, count: u64) -> MessagePlan {
    MessagePlan::fixed(rate, Some(count), None)
}

pub(crate) fn websocket(
    mut plan: Plan,
    messages: Option<MessagePlan>,
    stream: Option<StreamPlan>,
) -> Plan {
    let mut calls = plan.calls.to_vec();
    for call in calls.iter_mut().filter(|_| messages.is_some()) {
        call.body = b"a message of 64 bytes, or almost".to_vec();
    }
    plan.calls = calls.into();
    let plan = Plan {
        websocket: Some(Box::new(WebSocketPlan::default())),
        messages: messages.map(Box::new),
        stream: stream.map(Box::new),
        expect: Expect { statuses: vec![(1000, 1000)], ..Expect::default() },
        requests_per_connection: Some(1),
        timeout: Span::from_secs(600),
        ..plan
    };
    plan.check().expect("a valid plan");
    plan
}

pub(crate) fn echo(latency: Latency) -> ServerBehavior {
    ServerBehavior { latency, ws: Some(SocketBehavior::Echo), ..ServerBehavior::default() }
}

pub(crate) fn run(plan: &Plan, link: Link, behavior: ServerBehavior) -> (Tally, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link, 5), &mut [&mut serve]);
    assert_invariants(&outcome, "websocket");
    assert_eq!(serve.served().violations, 0);
    (outcome.main(), serve.served().clone())
}

/// One connection per 100 ms, each with 50 messages at 200 per second. A round trip takes 1 ms, a
/// service 2 ms; the connect and the handshake take 1 ms each.
#[test]
fn times_of_messages_are_those_of_arithmetic() {
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(schedule(200.0, 50)), None);
    let link = Link::with_latency(Span::from_micros(500));
    let (t, served) = run(&plan, link, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.connects), (20, 0, 20), "{:?}", t.faults);
    assert_eq!(t.statuses.iter().collect::<Vec<_>>(), [(&1000, &20)]);
    let counts = *t.stream_messages.expect("messages");
    assert_eq!((counts.sent, counts.awaited, counts.answered), (1_000, 1_000, 1_000));
    assert_eq!((counts.received, counts.unmatched, counts.together), (1_000, 0, 0));
    assert_eq!((served.sockets, served.statuses[&101]), (20, 20));
    assert_eq!((served.socket_messages_received, served.socket_messages_sent), (1_000, 1_000));
    let times = &t.times;
    assert_eq!((times.connect.min(), times.connect.max()), (Some(ms(1)), Some(ms(1))));
    assert_eq!(
        (times.first_byte.min(), times.first_byte.max()),
        (Some(ms(1)), Some(ms(1))),
        "handshakes"
    );
    // The first message waits for the connection and its handshake.
    assert_eq!(times.message_service.min(), Some(ms(3)));
    assert_eq!(times.message_service.max(), Some(ms(3)));
    assert_eq!((times.message.min(), times.message.max()), (Some(ms(3)), Some(ms(5))));
    assert_eq!(times.message.sum_ns(), 1_000 * 3_000_000 + 20 * 2_000_000);
    assert_eq!((times.message_lag.count(), times.message_lag.sum_ns()), (1_000, 20 * 2_000_000));
    assert_eq!((times.first_message.count(), times.first_message.min()), (20, Some(ms(5))));
    assert_eq!((times.message_gap.min(), times.message_gap.max()), (Some(ms(3)), Some(ms(5))));
    // 49 gaps, the last reply, and the round trip of the close.
    assert_eq!((times.response.min(), times.response.max()), {
        let all = Some(ms(49 * 5 + 3 + 1));
        (all, all)
    });
}

/// When the user ends the load, connections send no further messages, wait for the replies to those
/// they have sent, and close. Those that start 0, 100, ... 400 ms after the first send a message
/// each 5 ms until then.
#[test]
fn the_end_of_the_load_ends_schedules_of_messages() {
    for over_h2 in [false, true] {
        let plan = websocket(open(10.0, Arrivals::Fixed, 5), Some(schedule(200.0, 10_000)), None);
        let plan = if over_h2 { over_http2(plan, 1, 100) } else { plan };
        let first = arrivals(&plan).next().expect("arrivals");
        let mut setup = Setup::new(Link::with_latency(Span::from_micros(500)), 5);
        setup.stops = vec![(first + ms(1_002), StopRequest::Drain)];
        let mut serve = Serve::new(echo(Latency::Fixed(ms(2))), 5);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "the end of a load");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.unfinished), (5, 0, 0), "{:?}", t.faults);
        assert_eq!(t.statuses.iter().collect::<Vec<_>>(), [(&1000, &5)]);
        let sent = (0..5).map(|k| (1_000 - 100 * k) / 5 + 1).sum::<u64>();
        let counts = *t.stream_messages.expect("messages");
        assert_eq!((counts.sent, counts.awaited, counts.answered), (sent, sent, sent));
        assert_eq!(serve.served().socket_messages_received, sent);
        // The last message is sent after 1,000 ms, its reply takes 3 ms, and the close 1 ms.
        let response = &t.times.response;
        assert_eq!((response.min(), response.max()), (Some(ms(604)), Some(ms(1_004))));
    }
}

/// A load that ends while a connection is being opened: what was due by then is sent, unless the
/// load is to end at once.
#[test]
fn a_load_can_end_before_its_connections_are_open() {
    let plan = websocket(open(10.0, Arrivals::Fixed, 1), Some(schedule(200.0, 1_000)), None);
    let first = arrivals(&plan).next().expect("arrivals");
    for (after, how, replies) in [(1, StopRequest::Drain, 1), (1, StopRequest::Now, 0)] {
        let mut setup = Setup::new(Link::with_latency(ms(1)), 5);
        setup.stops = vec![(first + ms(after), how)];
        let mut serve = Serve::new(echo(Latency::None), 5);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "an early end");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.unfinished), (replies, 0, 1 - replies));
        let sent = t.stream_messages.map_or(0, |counts| counts.sent);
        // That of the start.
        assert_eq!((sent, serve.served().socket_messages_received), (replies, replies));
    }
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
    let (t, _) = run(&plan, Link::with_latency(Span::ZERO), behavior);
    assert_eq!(t.times.message.count(), 300);
    // Those due 0, 10, ... 490 ms after its start wait for the rest of the freeze.
    let expected: u64 = (0..50).map(|k| (freeze - ms(10 * k)).0).sum();
    let sum = t.times.message.sum_ns();
    assert!(sum.abs_diff(u128::from(expected)) <= 300, "{sum} {expected}");
    let max = t.times.message.max().expect("messages");
    assert!(max.0.abs_diff(freeze.0) < 1_000_000, "{max}");
}

/// Exponential gaps and services: messages wait for a worker that they share, as in M/M/1 with a
/// load of 20 %. The measured distributions are the true ones within 1 %.
#[test]
fn known_distributions_are_measured_within_1_percent() {
    let messages = MessagePlan {
        arrivals: Arrivals::Poisson,
        count: None,
        time: Some(Span::from_secs(500)),
        ..schedule(40.0, 1)
    };
    let behavior = ServerBehavior {
        workers: std::num::NonZeroU32::new(1),
        ..echo(Latency::Exponential(Span::from_micros(100)))
    };
    let plan = websocket(open(1_000.0, Arrivals::Fixed, 50), Some(messages), None);
    let (t, served) = run(&plan, Link::with_latency(Span::ZERO), behavior);
    assert_eq!((t.replies, t.failed), (50, 0), "{:?}", t.faults);
    let n = t.times.message.count();
    assert_close(n as f64, 50.0 * 500.0 * 40.0, "messages");
    assert_eq!(served.socket_messages_sent, n);
    // The time in the system is exponential with the mean 1 / (10,000 - 2,000). All messages are
    // sent when they are due.
    assert_exponential(&t.times.message, 1e9 / 8_000.0, "message");
    assert_exponential(&t.times.message_service, 1e9 / 8_000.0, "message service");
    assert_eq!(t.times.message_lag.max(), Some(Span::ZERO));
    // Replies of M/M/1 are Poisson, too (Burke), and so are those of each connection.
    assert_exponential(&t.times.message_gap, 1e9 / 40.0, "message gap");
}

/// A server that pushes a message each 20 ms, for connections that are closed after a number of
/// messages, or after a time.
#[test]
fn pushed_messages_are_read_as_a_stream() {
    let gap = Latency::Fixed(ms(20));
    let behavior =
        ServerBehavior { ws: Some(SocketBehavior::Push(gap)), ..ServerBehavior::default() };
    let link = || Link::with_latency(Span::from_micros(500));
    let by_count = StreamPlan { count: Some(10), ..StreamPlan::new(StreamFormat::Messages) };
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), None, Some(by_count));
    let (t, served) = run(&plan, link(), behavior.clone());
    assert_eq!((t.replies, t.failed), (20, 0), "{:?}", t.faults);
    let counts = t.stream_messages.as_deref().expect("messages");
    assert_eq!((counts.received, counts.sent), (200, 0));
    assert_eq!(served.sockets, 20);
    let times = &t.times;
    // The connect, the handshake, the first gap.
    assert_eq!(
        (times.first_message.min(), times.first_message.max()),
        (Some(ms(22)), Some(ms(22)))
    );
    assert_eq!((times.message_gap.min(), times.message_gap.max()), (Some(ms(20)), Some(ms(20))));
    let by_time = StreamPlan { time: Some(ms(1_010)), ..StreamPlan::new(StreamFormat::Messages) };
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), None, Some(by_time));
    let (t, _) = run(&plan, link(), behavior);
    let counts = t.stream_messages.as_deref().expect("messages");
    assert_eq!((t.replies, t.failed, counts.received), (20, 0, 20 * 50), "{:?}", t.faults);
    assert_eq!(t.times.service.max(), Some(ms(1_010)));
}

pub(crate) fn with_ping(plan: Plan, every: Span) -> Plan {
    let spec = WebSocketPlan { ping_every: Some(every), ..WebSocketPlan::default() };
    Plan { websocket: Some(Box::new(spec)), ..plan }
}

/// A ping each 100 ms on connections that are open for 990 ms and the round trips of their last
/// message and of their close; a round trip takes 1 ms. In a freeze, pings wait for its end.
#[test]
fn pongs_arrive_at_a_known_time() {
    let link = || Link::with_latency(Span::from_micros(500));
    let plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(schedule(100.0, 100)), None);
    let plan = with_ping(plan, ms(100));
    let (t, _) = run(&plan, link(), echo(Latency::None));
    let pings = t.pings.as_deref().expect("pings");
    assert_eq!((t.replies, pings.sent, pings.answered), (20, 180, 180));
    assert_eq!((pings.time.min(), pings.time.max()), (Some(ms(1)), Some(ms(1))));
    let (from, freeze) = (ms(205), ms(300));
    let stalls = Stalls(vec![Stall::Once { length: freeze, at: from }]);
    let plan = websocket(open(1.0, Arrivals::Fixed, 1), Some(schedule(100.0, 100)), None);
    let plan = with_ping(plan, ms(100));
    let (t, _) = run(&plan, link(), ServerBehavior { stalls, ..echo(Latency::None) });
    let pings = t.pings.as_deref().expect("pings");
    assert_eq!((pings.sent, pings.answered), (9, 9));
    // The handshake arrives after 1.5 ms, so the freeze is from 206.5 to 506.5 ms. The pongs to the
    // pings that are due after 302, 402 and 502 ms arrive after 507 ms.
    assert_eq!(pings.time.sum_ns(), (205 + 105 + 5 + 6) * 1_000_000);
}

/// One schedule over all connections: 20 connections send 200 messages per second together, evenly,
/// so that a server with one worker and a service of 4 ms is never late.
#[test]
fn connections_take_turns_with_one_schedule() {
    let messages = MessagePlan { over: 20, ..schedule(200.0, 50) };
    let stop = Stop { requests: Some(20), ..Stop::default() };
    let plan = Plan { stop, ..closed(20, Think::None, ms(1)) };
    let plan = websocket(plan, Some(messages), None);
    let behavior =
        ServerBehavior { workers: std::num::NonZeroU32::new(1), ..echo(Latency::Fixed(ms(4))) };
    for shares in [1, 3] {
        let mut serve = Serve::new(behavior.clone(), 5);
        let setup = Setup::new(Link::with_latency(Span::ZERO), 5);
        let t = load(&plan, shares, &setup, &mut [&mut serve]).main();
        assert_eq!((t.replies, t.times.message.count()), (20, 1_000), "{:?}", t.faults);
        assert_eq!((t.times.message.min(), t.times.message.max()), (Some(ms(4)), Some(ms(4))));
        // The last message is due 999 / 200 s after the first.
        assert_eq!(t.times.response.max(), Some(ms(4_995) + ms(4)));
    }
}

/// Replies that are matched by their stamps, whatever their order: the same latencies as by order,
/// where a server answers in order, and the right ones where it does not.
#[test]
fn replies_are_matched_by_their_stamps() {
    let by = |reply| MessagePlan { reply, ..schedule(200.0, 50) };
    let tallies = [MessageReply::Order, MessageReply::Token].map(|reply| {
        let plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(by(reply)), None);
        let link = Link::with_latency(Span::from_micros(500));
        let (t, served) = run(&plan, link, echo(Latency::Exponential(ms(2))));
        assert_eq!((t.replies, t.failed, served.socket_messages_sent), (20, 0, 1_000));
        t
    });
    let [order, token] = &tallies;
    assert_eq!(order.times.message, token.times.message);
    assert_eq!(order.times.message_service, token.times.message_service);
    let counts = |t: &Tally| {
        let counts = t.stream_messages.as_deref().expect("messages");
        (counts.awaited, counts.answered, counts.received, counts.unmatched)
    };
    assert_eq!(counts(token), (1_000, 1_000, 1_000, 0));
    assert_eq!(counts(order), counts(token));
}

/// Runs with pings over links that split everything.
pub(crate) fn with_pings(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed, 152);
    let plan = Plan { seed, timeout: Span::from_secs(6_000), ..random_plan(&mut rng) };
    let plan = with_ping(plan, ms(rng.between(1, 50)));
    let mut setup = Setup::new(Link::rough(&mut rng), seed);
    setup.link.window = setup.link.window.map(|w| w.max(4_096));
    setup.link.rate = None;
    let mut serve = Serve::new(echo(Latency::Exponential(ms(1))), seed);
    let shares = plan.shards_max().min(2);
    let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
    assert_invariants(&outcome, "pings");
    outcome
}

/// However bytes are split: every ping has its pong.
#[test]
fn every_ping_is_answered() {
    let mut sent = 0;
    for seed in seeds(60) {
        let _case = Seed(seed);
        let t = with_pings(seed).main();
        assert_eq!((t.failed, t.unfinished), (0, 0), "{:?}", t.faults);
        let Some(pings) = t.pings.as_deref() else { continue };
        assert_eq!((pings.sent, pings.time.count()), (pings.answered, pings.answered));
        sent += pings.sent;
    }
    assert!(!has_all_seeds() || sent > 1_000, "{sent}");
}

pub(crate) fn random_plan(rng: &mut Rng) -> Plan {
    let plan = match rng.chance(0.5) {
        true => open(50.0, Arrivals::Poisson, rng.between(1, 60)),
        false => closed(rng.between(1, 8) as u32, Think::None, ms(rng.between(100, 900))),
    };
    let messages = MessagePlan {
        arrivals: if rng.chance(0.5) { Arrivals::Poisson } else { Arrivals::Fixed },
        ..schedule(20.0 + rng.unit() * 2_000.0, rng.between(1, 60))
    };
    websocket(plan, Some(messages), None)
}

/// However bytes are split: every message is sent once, and answered.
#[test]
fn counters_of_both_sides_are_equal() {
    for seed in seeds(100) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 150);
        let plan = Plan { seed, timeout: Span::from_secs(6_000), ..random_plan(&mut rng) };
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let mut serve = Serve::new(echo(Latency::Exponential(ms(1))), seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "websocket");
        let (t, served) = (outcome.main(), serve.served());
        assert_eq!((t.failed, t.unfinished), (0, 0), "{:?}", t.faults);
        let counts = *t.stream_messages.expect("messages");
        assert_eq!(counts.sent, t.replies * plan.messages.and_then(|m| m.count).expect("a count"));
        assert_eq!([counts.awaited, counts.answered, counts.received], [counts.sent; 3]);
        assert_eq!((counts.unmatched, served.violations, served.unanswered), (0, 0, 0));
        assert_eq!((served.socket_messages_received, served.sockets), (counts.sent, t.replies));
        assert_eq!(t.times.message.count(), counts.sent);
    }
}

/// Messages that both sides compress, over links that split everything: the same counters, and
/// fewer bytes. A server that does not compress fails every connection.
#[test]
fn compressed_messages_are_those_that_were_sent() {
    let text = b"a message that repeats itself, a message that repeats itself".repeat(5);
    for seed in seeds(40) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 153);
        let mut plan = Plan { seed, timeout: Span::from_secs(6_000), ..random_plan(&mut rng) };
        let mut calls = plan.calls.to_vec();
        calls.iter_mut().for_each(|call| call.body.clone_from(&text));
        plan.calls = calls.into();
        let by_token = seed % 2 == 1;
        if let Some(messages) = plan.messages.as_deref_mut().filter(|_| by_token) {
            messages.reply = MessageReply::Token;
        }
        let spec = WebSocketPlan { compress: true, ..WebSocketPlan::default() };
        plan.websocket = Some(Box::new(spec));
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let behavior = ServerBehavior { ws_compress: true, ..echo(Latency::Exponential(ms(1))) };
        let mut serve = Serve::new(behavior, seed);
        let shares = plan.shards_max().min(2);
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "compressed");
        let (t, served) = (outcome.main(), serve.served());
        assert_eq!((t.failed, t.unfinished, served.violations), (0, 0, 0), "{:?}", t.faults);
        let counts = *t.stream_messages.expect("messages");
        assert_eq!([counts.awaited, counts.answered, counts.received], [counts.sent; 3]);
        assert_eq!(served.socket_messages_received, counts.sent);
        let longest = if by_token { 160 } else { 80 };
        assert!(t.bytes_body < counts.sent * longest, "{} {}", t.bytes_body, counts.sent);
    }
    let mut plan = websocket(open(10.0, Arrivals::Fixed, 20), Some(schedule(100.0, 10)), None);
    let spec = WebSocketPlan { compress: true, ..WebSocketPlan::default() };
    plan.websocket = Some(Box::new(spec));
    let (t, _) = run(&plan, Link::with_latency(Span::ZERO), echo(Latency::None));
    assert_eq!((t.replies, t.fault(Fault::BadUpgrade)), (0, 20));
}

/// Links that break: what is counted stays consistent.
#[test]
fn broken_links_break_no_invariant() {
    let mut failed = 0;
    for seed in seeds(100) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 151);
        let plan = Plan { seed, timeout: Span::from_secs(3), ..random_plan(&mut rng) };
        let setup = random_setup(&mut rng, seed);
        let latency = Latency::Exponential(Span::from_micros(rng.between(1, 3_000)));
        let mut serve = Serve::new(echo(latency), seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "broken websocket");
        let t = outcome.main();
        failed += t.failed;
        let Some(counts) = t.stream_messages.as_deref() else { continue };
        assert_eq!((counts.unmatched, serve.served().violations), (0, 0));
        assert!(counts.received <= counts.sent && counts.answered <= counts.awaited);
    }
    assert!(!has_all_seeds() || failed > 50, "{failed}");
}

/// A server that notes when it has received something on each connection after its handshake.
struct Timed<'s> {
    server: &'s mut Serve,
    received: BTreeMap<ConnId, Vec<Nanos>>,
}

impl Machine for Timed<'_> {
    delegate!(server: on_connected on_closed on_tick on_stop poll_action take_output deadline);

    fn on_accepted(&mut self, listener: u32, now: Nanos) -> Option<ConnId> {
        self.server.on_accepted(listener, now)
    }
    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.received.entry(id).or_default().push(now);
        self.server.on_recv(id, data, now);
    }
}

/// A step and a ramp, for each connection and for all of them together: message k is sent when the
/// integral of the rate reaches k, to the nanosecond, and the end of the rate ends the connections.
#[test]
fn messages_follow_a_rate_that_changes() {
    let rate: RatePlan = "40@1s,40..160@2s".parse().expect("a rate");
    // 40 in the step, then 40 t + 30 t^2.
    let truth: Vec<f64> = (0..40)
        .map(|k| f64::from(k) / 40.0)
        .chain((0..200).map(|k| 1.0 + ((1_600.0 + 120.0 * f64::from(k)).sqrt() - 40.0) / 60.0))
        .collect();
    for (over, shares) in [(1, 1), (8, 1), (8, 3)] {
        let messages =
            MessagePlan { rate: rate.clone(), over, ..MessagePlan::fixed(1.0, None, None) };
        let stop = Stop { requests: Some(8), ..Stop::default() };
        let plan = Plan { stop, ..closed(8, Think::None, ms(1)) };
        let plan = websocket(plan, Some(messages), None);
        let mut serve = Serve::new(echo(Latency::None), 5);
        let mut timed = Timed { server: &mut serve, received: BTreeMap::new() };
        let setup = Setup::new(Link::with_latency(Span::ZERO), 5);
        let t = load(&plan, shares, &setup, &mut [&mut timed]).main();
        assert_eq!((t.replies, t.failed), (8, 0), "{:?}", t.faults);
        let mut received: Vec<Vec<Nanos>> = timed.received.into_values().collect();
        assert_eq!(received.len(), 8);
        // What comes first is the handshake, and the close is the last.
        for times in &mut received {
            times.remove(0);
            times.pop();
        }
        let all = if over == 1 { received.clone() } else { vec![received.concat()] };
        for mut times in all {
            times.sort_unstable();
            assert_eq!(times.len(), truth.len(), "{over} {shares}");
            for (k, (at, truth)) in times.iter().zip(&truth).enumerate() {
                let off = at.since(Nanos::ZERO).0 as f64 - truth * 1e9;
                assert!(off.abs() < 2.0, "{over} {shares}: message {k} at {at:?}, not {truth}");
            }
        }
        assert_eq!(t.stream_messages.expect("messages").answered, 240 * 8 / u64::from(over));
        assert_eq!(t.times.message_lag.max(), Some(Span::ZERO));
    }
}

/// Bursts and uniform times of one schedule over all connections: what all send together has the
/// mean and the variance of that process.
#[test]
fn processes_over_all_connections_are_those_of_one() {
    for (rate, arrivals, mean, variance) in [
        ("100", Arrivals::Gamma(0.5), 10e-3, 2.0),
        ("100", Arrivals::Gamma(4.0), 10e-3, 0.25),
        ("", Arrivals::Uniform(ms(5), ms(15)), 10e-3, 1.0 / 12.0),
    ] {
        let rate = rate.parse().unwrap_or_default();
        let time = Some(Span::from_secs(300));
        let messages =
            MessagePlan { rate, arrivals, over: 5, ..MessagePlan::fixed(1.0, None, time) };
        let stop = Stop { requests: Some(5), ..Stop::default() };
        let plan = Plan { stop, ..closed(5, Think::None, ms(1)) };
        let plan = websocket(plan, Some(messages), None);
        let mut serve = Serve::new(echo(Latency::None), 5);
        let mut timed = Timed { server: &mut serve, received: BTreeMap::new() };
        let setup = Setup::new(Link::with_latency(Span::ZERO), 5);
        let t = load(&plan, 1, &setup, &mut [&mut timed]).main();
        assert_eq!((t.replies, t.failed), (5, 0), "{:?}", t.faults);
        let mut all: Vec<f64> = timed
            .received
            .into_values()
            .flat_map(|times| times[1..times.len() - 1].to_vec())
            .map(|at| at.since(Nanos::ZERO).as_secs_f64())
            .collect();
        all.sort_by(f64::total_cmp);
        let gaps: Vec<f64> = all.windows(2).map(|two| two[1] - two[0]).collect();
        let n = gaps.len() as f64;
        let found = gaps.iter().sum::<f64>() / n;
        let spread = gaps.iter().map(|gap| (gap / mean - 1.0).powi(2)).sum::<f64>() / n;
        assert!((n / 30_000.0 - 1.0).abs() < 0.03, "{n}");
        assert!((found / mean - 1.0).abs() < 0.03, "{found}");
        assert!((spread / variance - 1.0).abs() < 0.1, "{spread}, not {variance}");
    }
}
