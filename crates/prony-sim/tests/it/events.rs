//! Streams of messages in the bodies of replies, against prony's target server and scripted ones:
//! times by arithmetic and by a known distribution, bounds, faults, counters of both sides.

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{HttpVersion, Plan, StreamFormat, StreamPlan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{EventBehavior, Latency, Serve, Served, ServerBehavior, Share};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Scripted, Server, Step};
use prony_sim::world::Setup;
use prony_stats::summary::confidence::{Confidence, Interval};
use prony_tally::record::{StreamBodies, StreamTime, Tally, Times};

use crate::faults::random_setup;
use crate::http2::http2;
use crate::known::{assert_close, assert_exponential};
use crate::plans::{Seed, assert_invariants, closed, ms, open, seeds};

const POINTER: &str = "/choices/0/delta/content";

fn sse() -> StreamPlan {
    StreamPlan { content: Some(POINTER.into()), ..StreamPlan::new(StreamFormat::Sse) }
}

pub(crate) fn with(plan: Plan, stream: StreamPlan) -> Plan {
    let plan = Plan { stream: Some(Box::new(stream)), timeout: Span::from_secs(600), ..plan };
    plan.check().expect("a valid plan");
    plan
}

/// The same load with HTTP/1.1 and HTTP/2.
fn versions(plan: &Plan) -> [Plan; 2] {
    [plan.clone(), http2(plan.clone(), 1, 1_000)]
}

pub(crate) fn events(text: &str) -> ServerBehavior {
    ServerBehavior { sse: Some(text.parse().expect(text)), ..ServerBehavior::default() }
}

fn run(plan: &Plan, link: Link, behavior: ServerBehavior) -> (Tally, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link, 5), &mut [&mut serve]);
    assert_invariants(&outcome, "events");
    assert_eq!(serve.served().violations, 0);
    (outcome.main(), serve.served().clone())
}

fn bodies(t: &Tally) -> StreamBodies {
    *t.stream_messages.as_deref().and_then(|m| m.bodies.as_deref()).expect("streams")
}

/// One stream per second: the first event after 20 ms, then one each 5 ms; the second is the first
/// with content. A round trip takes 1 ms, and so does the connect.
#[test]
fn times_of_events_are_those_of_arithmetic() {
    for plan in versions(&with(open(1.0, Arrivals::Fixed, 20), sse())) {
        let link = Link::with_latency(Span::from_micros(500));
        let behavior = events("ttft=20ms,gap=5ms,count=40,empty=1,pings");
        let (t, served) = run(&plan, link, behavior);
        assert_eq!((t.replies, t.failed, served.events), (20, 0, 800), "{:?}", t.faults);
        let counts = t.stream_messages.as_deref().expect("messages");
        assert_eq!((counts.received, counts.together, counts.sent), (800, 0, 0));
        let sizes = counts.sizes.as_deref().expect("sizes");
        let (messages, bytes) = (&sizes.messages, &sizes.bytes);
        assert_eq!(
            (messages.count(), messages.min(), messages.max()),
            (20, Some(Span(40)), Some(Span(40)))
        );
        assert_eq!((bytes.count(), bytes.sum_ns()), (20, t.bytes_body.into()));
        let expected = StreamBodies { begun: 20, ended_by_server: 20, ..StreamBodies::default() };
        assert_eq!(bodies(&t), expected);
        let times = &t.times;
        // Only the first request waits for the connection.
        let all = |hist: &prony_tally::record::hist::Hist| (hist.count(), hist.min(), hist.max());
        let connect = |n, least| (n, Some(ms(least)), Some(ms(least + 1)));
        assert_eq!(all(&times.first_message), connect(20, 21));
        assert_eq!(all(&times.first_content), connect(20, 26));
        assert_eq!(all(&times.message_gap), (20 * 39, Some(ms(5)), Some(ms(5))));
        // The head does not wait for the first event.
        assert_eq!(all(&times.first_byte), (20, Some(ms(1)), Some(ms(1))));
        assert_eq!(all(&times.response), connect(20, 21 + 39 * 5));
    }
}

/// Exponential times to the first event and between events, counts from a range: the figures are
/// those of the distribution, within 1 %.
#[test]
fn times_of_events_are_those_of_a_known_distribution() {
    for plan in versions(&with(open(50.0, Arrivals::Fixed, 400_000), sse())) {
        let behavior = events("ttft=exp:200ms,gap=exp:20ms,count=1..5");
        let (t, served) = run(&plan, Link::with_latency(Span::ZERO), behavior);
        assert_eq!((t.replies, t.failed), (400_000, 0), "{:?}", t.faults);
        let counts = t.stream_messages.as_deref().expect("messages");
        assert_eq!(counts.received, served.events);
        assert_close(counts.received as f64 / 400_000.0, 3.0, "events of a stream");
        assert_exponential(&t.times.first_message, 200e6, "first event");
        assert_exponential(&t.times.first_content, 200e6, "first content");
        assert_exponential(&t.times.message_gap, 20e6, "gap");
    }
}

/// The 95 % intervals of the times of events contain those of the distribution: each figure in at
/// least 34 of 40 runs (with a coverage of 95 %, fewer have a probability of 0.3 %).
#[test]
fn intervals_of_the_times_of_events_contain_the_true_ones() {
    let behavior = events("ttft=exp:200ms,gap=exp:20ms,count=5..25");
    let plan = with(open(50.0, Arrivals::Poisson, 3_000), sse());
    let mut missed = [[0; 3]; 2];
    for seed in 0..40 {
        let _seed = Seed(seed);
        let plan = Plan { seed, ..plan.clone() };
        let mut serve = Serve::new(behavior.clone(), seed);
        let setup = Setup::new(Link::with_latency(Span::ZERO), seed);
        let t = load(&plan, 1, &setup, &mut [&mut serve]).main();
        let kinds = [(StreamTime::FirstMessage, 200e6), (StreamTime::MessageGap, 20e6)];
        for ((kind, mean), missed) in kinds.into_iter().zip(&mut missed) {
            let intervals = Confidence::of_stream(&t, kind).expect("times");
            let quantile = |q: f64| (intervals.quantile(q), -(1.0 - q).ln() * mean);
            let figures = [(intervals.mean(), mean), quantile(0.5), quantile(0.9)];
            for ((interval, truth), missed) in figures.into_iter().zip(missed) {
                let Interval { lo, hi } = interval.expect("an interval");
                assert!(hi < lo * 2.0, "{kind:?} {lo} {hi}");
                // The histogram rounds up by at most 0.1 %.
                *missed += u32::from(!(lo..=hi * 1.001).contains(&truth));
            }
        }
    }
    assert!(missed.iter().flatten().all(|&n| n <= 6), "{missed:?}");
}

/// With one worker, streams wait for it until their first event: M/D/1.
#[test]
fn first_events_wait_for_a_worker() {
    let plan = with(open(40.0, Arrivals::Poisson, 20_000), sse());
    let behavior = ServerBehavior {
        workers: std::num::NonZeroU32::new(1),
        ..events("ttft=20ms,gap=7ms,count=3")
    };
    for plan in versions(&plan) {
        let (t, _) = run(&plan, Link::with_latency(Span::ZERO), behavior.clone());
        let mean = t.times.first_message.mean_ns().expect("events");
        // Load 0.8: service, and a wait of load * service / (2 * (1 - load)).
        assert!((mean / 60e6 - 1.0).abs() < 0.05, "{mean}");
        assert_eq!(t.times.message_gap.max(), Some(ms(7)));
    }
}

/// Whatever the network does to the bytes, both sides count the same events, and gaps are those of
/// the reads.
#[test]
fn any_split_has_the_same_events() {
    for seed in 0..60 {
        let _seed = Seed(seed);
        let mut rng = Rng::new(seed, 0);
        let link = Link { window: None, ..Link::rough(&mut rng) };
        let plan = with(open(200.0, Arrivals::Poisson, 40), sse());
        let plan = &versions(&plan)[rng.below(2) as usize];
        let behavior = events("ttft=exp:2ms,gap=bimodal:0ns:1ms:50%,count=1..40,empty=1,pings");
        let (t, served) = run(plan, link, behavior);
        assert_eq!((t.replies, t.failed), (40, 0), "{:?}", t.faults);
        let counts = t.stream_messages.as_deref().expect("messages");
        assert_eq!(counts.received, served.events);
        assert_eq!(t.times.first_message.count(), 40);
        assert_eq!(t.times.message_gap.count(), counts.received - 40);
        // An event that came with the one before has no gap, and no other has none.
        let zeros = t.times.message_gap.count_in_bin(Span::ZERO);
        assert_eq!(zeros, counts.together);
    }
}

/// A bound ends a stream, and its request succeeds. With HTTP/1.1 that closes the connection, with
/// HTTP/2 it resets the stream.
#[test]
fn bounds_end_streams_without_a_failure() {
    let count = StreamPlan { count: Some(4), ..sse() };
    let time = StreamPlan { time: Some(ms(37)), ..sse() };
    let text = StreamPlan { until: Some("w3 ".into()), ..sse() };
    let ended = |n: [u64; 3]| StreamBodies {
        begun: 10,
        ended_by_count: n[0],
        ended_by_time: n[1],
        ended_by_text: n[2],
        ..StreamBodies::default()
    };
    for (stream, received, expected, last) in [
        (count, 40, ended([10, 0, 0]), 35),
        (time, 40, ended([0, 10, 0]), 37),
        (text, 30, ended([0, 0, 10]), 30),
    ] {
        for (k, plan) in versions(&with(open(2.0, Arrivals::Fixed, 10), stream)).iter().enumerate()
        {
            let behavior = events("ttft=20ms,gap=5ms,count=1000000");
            let (t, served) = run(plan, Link::with_latency(Span::ZERO), behavior);
            assert_eq!((t.replies, t.failed), (10, 0), "{:?}", t.faults);
            assert_eq!(t.statuses.get(&200), Some(&10));
            assert_eq!(t.stream_messages.as_deref().expect("messages").received, received);
            assert_eq!(bodies(&t), expected);
            assert_eq!(t.times.service.max(), Some(ms(last)));
            match k {
                0 => assert_eq!((t.connects, served.connections), (10, 10)),
                // The last reset is sent before the run ends.
                _ => assert_eq!((t.connects, served.cancelled, served.connections), (1, 10, 1)),
            }
        }
    }
}

/// A connection of HTTP/2 whose streams are ended a thousand times is left for another.
#[test]
fn many_ended_streams_do_not_break_others() {
    let stream = StreamPlan { count: Some(1), ..sse() };
    let plan = with(http2(closed(8, Think::None, ms(5_000)), 1, 8), stream);
    let behavior = events("ttft=exp:5ms,gap=5ms,count=1000");
    let (t, _) = run(&plan, Link::with_latency(Span::ZERO), behavior);
    assert!(t.replies > 3_000 && t.connects > 2, "{} {}", t.replies, t.connects);
    assert_eq!(t.failed, 0, "{:?}", t.faults);
    assert_eq!(bodies(&t).ended_by_count, t.replies);
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

/// One request to a server with this script.
fn scripted(script: Vec<Step>, stream: StreamPlan, timeout: Span) -> Tally {
    let plan = Plan { timeout, ..with(open(1.0, Arrivals::Fixed, 1), stream) };
    let mut server = Server::new(Scripted::one(script));
    let setup = Setup::new(Link::with_latency(Span::ZERO), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a script");
    outcome.main()
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

#[test]
fn a_server_that_closes_in_an_event_loses_only_that_event() {
    let script =
        vec![Step::Await(1), send(HEAD), send("data: 1\n\ndata: 2\n\ndata: 3"), Step::Close];
    let t = scripted(script, sse(), ms(1_000));
    assert_eq!((t.replies, t.failed), (1, 0), "{:?}", t.faults);
    assert_eq!(t.stream_messages.as_deref().expect("messages").received, 2);
    let expected =
        StreamBodies { begun: 1, ended_by_server: 1, incomplete: 1, ..StreamBodies::default() };
    assert_eq!(bodies(&t), expected);
    // With a coding that marks the end, the reply is truncated.
    let behavior = ServerBehavior { truncate: Share(1.0), ..events("ttft=20ms,gap=5ms,count=40") };
    for plan in versions(&with(open(10.0, Arrivals::Fixed, 10), sse())) {
        let (t, served) = run(&plan, Link::with_latency(Span::ZERO), behavior.clone());
        assert_eq!((t.replies, t.failed, served.truncated), (0, 10, 10));
        let counts = t.stream_messages.as_deref().expect("messages");
        assert_eq!((counts.received, served.events), (10 * 19, 10 * 19));
        assert_eq!(bodies(&t), StreamBodies { begun: 10, failed: 10, ..StreamBodies::default() });
    }
}

#[test]
fn a_timeout_keeps_what_was_seen() {
    let script = vec![Step::Await(1), send(HEAD), send(": hello\n\n")];
    let t = scripted(script, sse(), ms(300));
    assert_eq!(t.fault(Fault::RequestTimeout), 1);
    assert_eq!(
        bodies(&t),
        StreamBodies { begun: 1, failed: 1, empty: 1, ..StreamBodies::default() }
    );
    let script = vec![Step::Await(1), send(HEAD), send("data: 1\n\ndata: 2\n\n")];
    let t = scripted(script, sse(), ms(300));
    assert_eq!(t.fault(Fault::RequestTimeout), 1);
    assert_eq!(t.stream_messages.as_deref().expect("messages").received, 2);
    assert_eq!(t.stream_messages.as_deref().expect("messages").together, 1);
    assert_eq!(t.times.first_message.count(), 1);
    assert_eq!(bodies(&t), StreamBodies { begun: 1, failed: 1, ..StreamBodies::default() });
}

#[test]
fn replies_that_are_no_streams_fail() {
    let head =
        |kind| format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 9\r\n\r\n");
    let script = |text: String| vec![Step::Await(1), Step::Send(text.into_bytes())];
    let html = script(head("text/html") + "data: 1\n\n");
    let t = scripted(html.clone(), sse(), ms(300));
    assert_eq!((t.fault(Fault::NotAStream), t.failed), (1, 1));
    assert_eq!(t.statuses.get(&200), Some(&1));
    // A line stream has no type of its own.
    let t = scripted(html, StreamPlan::new(StreamFormat::Ndjson), ms(300));
    assert_eq!((t.failed, t.stream_messages.as_deref().expect("messages").received), (0, 1));
    let t = scripted(script(head("Text/Event-Stream ;a=b") + "data: 1\n\n"), sse(), ms(300));
    assert_eq!((t.failed, t.stream_messages.as_deref().expect("messages").received), (0, 1));
    // The body of an error is not read.
    let error = "HTTP/1.1 503 X\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\n";
    let t = scripted(script(error.to_owned() + "data: 1\n\n"), sse(), ms(300));
    assert_eq!(t.stream_messages, None);
    let long = "data: ".to_owned() + &"x".repeat(1 << 20) + "x";
    let t = scripted(script(HEAD.to_owned() + &long), sse(), ms(300));
    assert_eq!((t.fault(Fault::MessageTooLong), t.failed), (1, 1));
    assert_eq!(
        bodies(&t),
        StreamBodies { begun: 1, failed: 1, empty: 1, ..StreamBodies::default() }
    );
}

/// A chunk of HTTP/1.1 and a DATA frame of HTTP/2 is a message each.
#[test]
fn chunks_are_messages() {
    for plan in
        versions(&with(open(1.0, Arrivals::Fixed, 5), StreamPlan::new(StreamFormat::Chunks)))
    {
        let behavior = events("ttft=20ms,gap=5ms,count=40,pings");
        let (t, _) = run(&plan, Link::with_latency(Span::ZERO), behavior);
        assert_eq!(t.stream_messages.as_deref().expect("messages").received, 200);
        assert_eq!(t.times.message_gap.min(), Some(ms(5)));
        assert_eq!(t.times.message_gap.max(), Some(ms(5)));
    }
}

/// With every fault that a server and a network can have, the counters agree.
/// A plan with streams, over either version, and a server that may break them off.
pub(crate) fn random_streams(rng: &mut Rng) -> (Plan, ServerBehavior) {
    let stream = StreamPlan {
        count: rng.chance(0.3).then(|| rng.between(1, 9)),
        time: rng.chance(0.3).then(|| ms(rng.between(1, 30))),
        until: rng.chance(0.2).then(|| "w7 ".into()),
        ..sse()
    };
    let has_bound = stream.count.is_some() || stream.time.is_some() || stream.until.is_some();
    let stream = StreamPlan { reconnect: has_bound && rng.chance(0.7), ..stream };
    let plan = if rng.chance(0.5) {
        open(300.0, Arrivals::Poisson, 60)
    } else {
        closed(rng.between(1, 5) as u32, Think::None, ms(100))
    };
    let mut plan = versions(&with(plan, stream))[rng.below(2) as usize].clone();
    plan.timeout = ms(rng.between(31, 90));
    if plan.http == HttpVersion::Http11 && rng.chance(0.2) {
        plan.pipeline = 3;
    }
    let share = |rng: &mut Rng| Share(rng.unit() * 0.1);
    let behavior = ServerBehavior {
        sse: Some(EventBehavior {
            first: Latency::Exponential(ms(2)),
            gap: Latency::Exponential(Span::from_micros(700)),
            count: (1, 60),
            cut: rng.chance(0.5).then(|| (1, rng.between(1, 10))),
            retry: rng.chance(0.9).then(|| ms(rng.between(0, 20))),
            ..EventBehavior::default()
        }),
        reset: share(rng),
        truncate: share(rng),
        rst: share(rng),
        refuse: share(rng),
        statuses: "200:9,503:1".parse().expect("statuses"),
        ..ServerBehavior::default()
    };
    (plan, behavior)
}

#[test]
fn p4_counters_of_streams_agree_whatever_fails() {
    for seed in seeds(300) {
        let _seed = Seed(seed);
        let mut rng = Rng::new(seed, 0);
        let (plan, behavior) = random_streams(&mut rng);
        let setup = random_setup(&mut rng, seed);
        let mut serve = Serve::new(behavior, seed);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "streams that fail");
        let t = outcome.main();
        let counts = t.stream_messages.as_deref().cloned().unwrap_or_default();
        let bodies = counts.bodies.as_deref().copied().unwrap_or_default();
        let StreamBodies { ended_by_server, ended_by_count, ended_by_time, ended_by_text, .. } =
            bodies;
        let ended = ended_by_server + ended_by_count + ended_by_time + ended_by_text;
        assert!(ended + bodies.failed <= bodies.begun, "{bodies:?}");
        assert!(bodies.begun <= ended + bodies.failed + t.unfinished + t.retries, "{bodies:?}");
        let Times { first_message, message_gap, reconnect, .. } = &t.times;
        let timed = first_message.count() + message_gap.count() + reconnect.count();
        assert_eq!(counts.received, timed);
        let reconnects = bodies.reconnects.unwrap_or_default();
        assert!(reconnects.resumed <= reconnects.made, "{reconnects:?}");
        assert!(reconnects.made <= reconnects.ended + reconnects.broken, "{reconnects:?}");
        assert!(reconnect.count() <= reconnects.resumed, "{reconnects:?}");
        // Each server of a stream continues where it was.
        assert_eq!((reconnects.repeated, reconnects.missed), (0, 0));
        assert!(counts.received <= serve.served().events);
        assert_eq!(t.fault(Fault::BadHttp2) + t.fault(Fault::NotAStream), 0, "{:?}", t.faults);
    }
}
