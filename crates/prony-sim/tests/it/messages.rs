//! Messages in streams of gRPC on a schedule of their own, against prony's target server: times by
//! arithmetic, freezes, windows, counters of both sides.

use prony_base::fault::Fault;
use prony_base::grpc::prefix;
use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{CallSpec, Expect, GrpcCall, Http2Spec, MessagePlan, Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, Serve, ServerBehavior, Stall, Stalls};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::faults::random_setup;
use crate::http2::http2;
use crate::known::{assert_close, assert_exponential};
use crate::plans::{Seed, arrivals, assert_invariants, closed, has_all_seeds, ms, open, seeds};

/// A message that asks the target server for one reply of this many bytes, `pause` microseconds
/// after its service.
pub(crate) fn message(size: u8, pause: u8) -> Vec<u8> {
    let parameters = [8, size, 16, pause];
    let message = [&[18, parameters.len() as u8][..], &parameters].concat();
    [&prefix(false, message.len() as u32)[..], &message].concat()
}

/// A call whose streams have these messages.
fn call(messages: &[Vec<u8>]) -> CallSpec {
    CallSpec {
        method: "POST".into(),
        path: "/grpc.testing.TestService/FullDuplexCall".into(),
        authority: "server".into(),
        body: messages.concat(),
        grpc: Some(Box::new(GrpcCall { streams: true, takes: true, ..GrpcCall::default() })),
        ..CallSpec::default()
    }
}

pub(crate) fn schedule(rate: f64, count: u64) -> MessagePlan {
    MessagePlan::fixed(rate, Some(count), None)
}

pub(crate) fn with_messages(plan: Plan, messages: MessagePlan) -> Plan {
    Plan {
        calls: vec![call(&[message(10, 0)])].into(),
        messages: Some(Box::new(messages)),
        expect: Expect { statuses: vec![(0, 0)], ..Expect::default() },
        timeout: Span::from_secs(600),
        ..plan
    }
}

pub(crate) fn grpc(latency: Latency) -> ServerBehavior {
    ServerBehavior { latency, grpc: true, ..ServerBehavior::default() }
}

fn run(plan: &Plan, link: Link, behavior: ServerBehavior) -> Tally {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link, 5), &mut [&mut serve]);
    assert_invariants(&outcome, "messages");
    assert_eq!(serve.served().violations, 0);
    outcome.main()
}

/// When the user ends the load, calls send no further messages, and end with the replies to those
/// that they have sent.
#[test]
fn the_end_of_the_load_ends_schedules_of_messages() {
    let plan = with_messages(http2(open(10.0, Arrivals::Fixed, 5), 1, 100), schedule(200.0, 9_999));
    plan.check().expect("a valid plan");
    let first = arrivals(&plan).next().expect("arrivals");
    let mut setup = Setup::new(Link::with_latency(Span::from_micros(500)), 5);
    setup.stops = vec![(first + ms(1_002), StopRequest::Drain)];
    let mut serve = Serve::new(grpc(Latency::Fixed(ms(2))), 5);
    let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
    assert_invariants(&outcome, "the end of a load");
    let t = outcome.main();
    assert_eq!((t.replies, t.failed, t.unfinished), (5, 0, 0), "{:?}", t.faults);
    let sent = (0..5).map(|k| (1_000 - 100 * k) / 5 + 1).sum::<u64>();
    let counts = *t.stream_messages.expect("messages");
    assert_eq!((counts.sent, counts.awaited, counts.answered), (sent, sent, sent));
    // The end of the stream is sent at 1,002 ms; the last reply takes until 1,003 ms.
    assert_eq!(t.times.response.max(), Some(ms(1_003)));
}

/// One call per 100 ms, each with 50 messages at 200 per second. A round trip takes 1 ms, a service
/// 2 ms, the connect 1 ms.
#[test]
fn times_of_messages_are_those_of_arithmetic() {
    let plan = with_messages(http2(open(10.0, Arrivals::Fixed, 20), 1, 100), schedule(200.0, 50));
    plan.check().expect("a valid plan");
    let link = Link::with_latency(Span::from_micros(500));
    let t = run(&plan, link, grpc(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed), (20, 0), "{:?}", t.faults);
    let counts = *t.stream_messages.expect("messages");
    assert_eq!((counts.sent, counts.awaited, counts.answered), (1_000, 1_000, 1_000));
    assert_eq!((counts.received, counts.unmatched, counts.together), (1_000, 0, 0));
    let times = &t.times;
    // Only the first message of the first call waits for the connection.
    assert_eq!(times.message_service.min(), Some(ms(3)));
    assert_eq!(times.message_service.max(), Some(ms(3)));
    assert_eq!((times.message.min(), times.message.max()), (Some(ms(3)), Some(ms(4))));
    assert_eq!(times.message.sum_ns(), 1_000 * 3_000_000 + 1_000_000);
    assert_eq!((times.message_lag.count(), times.message_lag.sum_ns()), (1_000, 1_000_000));
    assert_eq!((times.first_message.count(), times.first_message.min()), (20, Some(ms(3))));
    assert_eq!(times.message_gap.count(), 20 * 49);
    assert_eq!((times.message_gap.min(), times.message_gap.max()), (Some(ms(4)), Some(ms(5))));
    // 49 gaps, then the last reply; the head of the first call waited for the connection.
    assert_eq!(times.response.max(), Some(ms(49 * 5 + 3)));
}

/// A server that freezes delays every message that is due in the freeze, by arithmetic.
#[test]
fn p02_a_freeze_delays_the_messages_that_are_due_in_it() {
    let (from, freeze) = (ms(1_000), ms(500));
    let behavior = ServerBehavior {
        stalls: Stalls(vec![Stall::Once { length: freeze, at: from }]),
        ..grpc(Latency::Fixed(Span::ZERO))
    };
    let plan = with_messages(http2(open(1.0, Arrivals::Fixed, 1), 1, 1), schedule(100.0, 300));
    let t = run(&plan, Link::with_latency(Span::ZERO), behavior);
    assert_eq!(t.times.message.count(), 300);
    // Those due 0, 10, ... 490 ms after its start wait for the rest of the freeze.
    let expected: u64 = (0..50).map(|k| (freeze - ms(10 * k)).0).sum();
    let sum = t.times.message.sum_ns();
    assert!(sum.abs_diff(u128::from(expected)) <= 300, "{sum} {expected}");
    let max = t.times.message.max().expect("messages");
    assert!(max.0.abs_diff(freeze.0) < 1_000_000, "{max}");
    // They arrive together, with the one that is due at its end.
    assert_eq!(t.stream_messages.expect("messages").together, 50);
}

/// Exponential gaps and services: the measured distributions are the true ones within 1 %.
#[test]
fn known_distributions_are_measured_within_1_percent() {
    let messages = MessagePlan {
        arrivals: Arrivals::Poisson,
        count: None,
        time: Some(Span::from_secs(100)),
        ..schedule(20.0, 1)
    };
    // Calls that are served one after another, far below their capacity: each message waits only
    // for the one before it in its stream, as in M/M/1 with a load of 10 %.
    let plan = with_messages(http2(open(10.0, Arrivals::Fixed, 200), 1, 200), messages);
    let t = run(&plan, Link::with_latency(Span::ZERO), grpc(Latency::Exponential(ms(5))));
    let n = t.times.message.count();
    assert_close(n as f64, 200.0 * 100.0 * 20.0, "messages");
    // M/M/1: the time in the system is exponential with the mean 1 / (200 - 20).
    assert_exponential(&t.times.message, 1e9 / 180.0, "message");
    // Departures from M/M/1 are Poisson, too (Burke).
    let gap = t.times.message_gap.mean_ns().expect("gaps");
    assert_close(gap, 5e7, "gap");
}

/// However bytes are split, whatever the windows are: every message is sent once, and answered.
#[test]
fn counters_of_both_sides_are_equal() {
    let mut waited = 0;
    for seed in seeds(150) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 140);
        let own = rng.between(1, 4);
        let sizes = (0..own).map(|_| message(rng.below(100) as u8, rng.below(100) as u8));
        let calls = vec![call(&sizes.collect::<Vec<_>>())];
        let count = rng.between(1, 60);
        let messages = MessagePlan {
            arrivals: if rng.chance(0.5) { Arrivals::Poisson } else { Arrivals::Fixed },
            count: rng.chance(0.8).then_some(count),
            ..schedule(10.0 + rng.unit() * 5_000.0, 1)
        };
        let each = messages.count.unwrap_or(own);
        let (connections, streams) = (rng.between(1, 4) as u32, rng.between(1, 20) as u32);
        let base = if rng.chance(0.5) {
            open(200.0, Arrivals::Poisson, rng.between(1, 40))
        } else {
            closed(1, Think::None, ms(rng.between(1, 300)))
        };
        let mut plan = with_messages(http2(base, connections, streams), messages);
        plan.calls = calls.into();
        plan.seed = seed;
        plan.timeout = Span::from_secs(6_000);
        plan.http2 = Some(Box::new(Http2Spec {
            window: rng.between(500, 100_000) as u32,
            ..Http2Spec::default()
        }));
        let mut behavior = grpc(Latency::Exponential(ms(1)));
        behavior.window = rng.between(100, 5_000) as u32;
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "messages");
        let t = outcome.main();
        assert_eq!((t.failed, t.unfinished), (0, 0), "{:?}", t.faults);
        let counts = *t.stream_messages.expect("messages");
        assert_eq!(counts.sent, t.replies * each);
        assert_eq!([counts.awaited, counts.answered, counts.received], [counts.sent; 3]);
        assert_eq!((counts.unmatched, serve.served().violations), (0, 0));
        assert_eq!(t.times.message.count(), counts.sent);
        waited += t.times.flow_wait.count();
    }
    assert!(!has_all_seeds() || waited > 50, "{waited}");
}

/// Failures of the network end streams at any time: no more replies than messages, and no stream is
/// left.
#[test]
fn streams_that_fail_leave_nothing() {
    let mut failed = 0;
    for seed in seeds(150) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 141);
        let base = closed(1, Think::None, ms(200));
        let messages = schedule(500.0 + rng.unit() * 5_000.0, rng.between(1, 60));
        let mut plan = with_messages(http2(base, 3, 4), messages);
        plan.timeout = Span(rng.between(1_000_000, 100_000_000));
        plan.seed = seed;
        let setup = random_setup(&mut rng, seed);
        let mut behavior = grpc(Latency::Exponential(ms(1)));
        behavior.max_streams = rng.between(1, 9) as u32;
        behavior.goaway_after = std::num::NonZeroU32::new(rng.below(9) as u32);
        behavior.rst = prony_server::serve::Share(rng.unit() * 0.1);
        let mut serve = Serve::new(behavior, seed);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "messages of streams that fail");
        let t = outcome.main();
        let counts = t.stream_messages.as_deref().cloned().unwrap_or_default();
        assert!(counts.answered <= counts.awaited && counts.unmatched == 0, "{counts:?}");
        assert_eq!(t.fault(Fault::BadHttp2) + t.fault(Fault::FlowControl), 0);
        failed += t.failed;
    }
    assert!(!has_all_seeds() || failed > 500, "{failed}");
}

/// The last message is that before the end of the time.
#[test]
fn a_stream_ends_with_its_time() {
    let messages = MessagePlan { count: None, time: Some(ms(95)), ..schedule(100.0, 1) };
    let plan = with_messages(http2(open(10.0, Arrivals::Fixed, 3), 1, 9), messages);
    let t = run(&plan, Link::with_latency(Span::ZERO), grpc(Latency::None));
    assert_eq!(t.stream_messages.expect("messages").sent, 30);
    assert_eq!(t.end.since(Nanos::ZERO), ms(290));
}
