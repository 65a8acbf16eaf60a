//! HTTP/2 against prony's own target server: the counters of both sides, freezes, the server's
//! limit of streams, and its refusals, resets and GOAWAYs.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use prony_base::fault::Fault;
use prony_base::http2::frame::Settings;
use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Http2Spec, HttpVersion, Load, Placement, Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, Serve, ServerBehavior, Share, Stall, Stalls, StatusMix};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::oracle::histogram_mismatch;
use prony_sim::rng::Rng;
use prony_sim::server::{Event, FrameServer, Server, Turn};
use prony_sim::world::Setup;

use crate::faults::random_setup;
use crate::plans::{Seed, arrivals, assert_invariants, at, closed, has_all_seeds, ms, open, seeds};

/// The plan over HTTP/2, with this many streams per connection.
pub(crate) fn http2(mut plan: Plan, connections: u32, streams: u32) -> Plan {
    plan.http = HttpVersion::Http2Only;
    plan.pipeline = streams;
    let (Load::Closed { connections: n, .. } | Load::Open { connections: n, .. }) = &mut plan.load;
    *n = connections;
    plan
}

pub(crate) fn random_plan(rng: &mut Rng) -> Plan {
    let plan = if rng.chance(0.5) {
        open(500.0 + rng.unit() * 20_000.0, Arrivals::Poisson, rng.between(1, 300))
    } else {
        closed(1, Think::None, ms(rng.between(1, 30)))
    };
    let (connections, streams) = (rng.between(1, 6) as u32, rng.between(1, 40) as u32);
    let mut plan = http2(plan, connections, streams);
    plan.seed = rng.below(1 << 40);
    plan.warmup = if rng.chance(0.3) { ms(rng.below(5)) } else { Span::ZERO };
    plan.placement = if rng.chance(0.5) { Placement::Fill } else { Placement::Spread };
    let mut calls = plan.calls.to_vec();
    for n in 0..rng.between(0, 3) {
        let mut call = calls[0].clone();
        call.path = format!("/{n}");
        if rng.chance(0.5) {
            (call.method, call.body) = ("POST".into(), vec![b'x'; rng.below(9_000) as usize]);
        }
        calls.push(call);
    }
    plan.calls = calls.into();
    if rng.chance(0.5) {
        plan.http2 = Some(Box::new(Http2Spec {
            window: rng.between(1, 200_000) as u32,
            table_size: rng.below(5_000) as u32,
            wait_settings: rng.chance(0.3),
            is_static: rng.chance(0.3),
            ..Http2Spec::default()
        }));
    }
    plan
}

pub(crate) fn random_server(rng: &mut Rng) -> ServerBehavior {
    let latency = match rng.below(3) {
        0 => Latency::None,
        1 => Latency::Fixed(Span(rng.below(3_000_000))),
        _ => Latency::Exponential(Span(rng.below(3_000_000))),
    };
    let mut behavior = ServerBehavior { latency, ..ServerBehavior::default() };
    behavior.size = rng.below(6_000);
    behavior.max_streams = rng.between(1, 60) as u32;
    behavior.window = rng.between(1, 12_000) as u32;
    if rng.chance(0.3) {
        behavior.workers = NonZeroU32::new(rng.between(1, 4) as u32);
    }
    if rng.chance(0.3) {
        behavior.settings_delay = Some(Span(rng.below(5_000_000)));
    }
    behavior
}

/// Without failures every request gets its reply, and the counters of both sides are equal,
/// however the bytes are split and whatever the windows and limits are.
#[test]
fn counters_of_both_sides_are_equal() {
    let (mut waited_streams, mut waited_windows) = (0, 0);
    for seed in seeds(200) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 120);
        let mut plan = random_plan(&mut rng);
        let mut behavior = random_server(&mut rng);
        // More streams than that may start before the server's limit is known.
        behavior.max_streams = behavior.max_streams.max(40);
        // Slow links and small windows may take long.
        plan.timeout = Span::from_secs(6_000);
        behavior.window = behavior.window.max(500);
        if let Some(spec) = &mut plan.http2 {
            spec.window = spec.window.max(500);
        }
        behavior.statuses = StatusMix(vec![(200, 8), (404, 1), (204, 1)]);
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "streams");
        let (served, mut all) = (serve.served(), outcome.main());
        if let Some(warm) = outcome.warmup() {
            all.merge(&warm);
        }
        assert_eq!((all.failed, all.unfinished), (0, 0), "{:?}", all.faults);
        assert_eq!((served.requests, served.replies), (all.sent, all.replies));
        assert_eq!(served.h2_requests, all.replies);
        assert_eq!(served.statuses, all.statuses);
        assert_eq!((served.violations, served.malformed, served.cancelled), (0, 0, 0));
        assert_eq!(all.http2.as_ref().map(|http2| http2.connections), Some(served.h2_connections));
        waited_streams += all.times.stream_wait.count();
        waited_windows += all.times.flow_wait.count();
    }
    assert!(
        !has_all_seeds() || waited_streams > 100 && waited_windows > 100,
        "{waited_streams} {waited_windows}"
    );
}

/// With failures of the network, refusals, resets and GOAWAYs, each request has one end, and no
/// connection stays open.
#[test]
fn p04_counters_of_http2_agree_whatever_fails() {
    let (mut refused, mut resets, mut cancelled, mut replies) = (0, 0, 0, 0);
    for seed in seeds(300) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 121);
        let mut plan = random_plan(&mut rng);
        if rng.chance(0.3) {
            plan.timeout = Span(rng.between(100_000, 20_000_000));
        }
        let mut behavior = random_server(&mut rng);
        if rng.chance(0.4) {
            behavior.goaway_after = NonZeroU32::new(rng.between(1, 20) as u32);
        }
        if rng.chance(0.4) {
            (behavior.refuse, behavior.rst) = (Share(rng.unit() * 0.2), Share(rng.unit() * 0.2));
        }
        let setup = random_setup(&mut rng, seed);
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "streams that fail");
        let served = serve.served();
        assert_eq!((served.violations, served.malformed), (0, 0), "the client keeps the rules");
        for (_, main) in &outcome.tallies {
            for fault in [Fault::BadHttp2, Fault::BadHpack, Fault::FlowControl, Fault::BadHeader] {
                assert_eq!((main.fault(fault), main.stray[fault as usize]), (0, 0), "{fault:?}");
            }
            let Some(http2) = main.http2.as_deref() else { continue };
            assert_eq!(http2.resets.get("REFUSED_STREAM").copied().unwrap_or(0), http2.refused);
            refused += main.fault(Fault::Refused);
            resets += main.fault(Fault::StreamReset);
            cancelled += http2.cancelled;
            replies += main.replies;
        }
    }
    let all = [refused, resets, cancelled, replies];
    assert!(!has_all_seeds() || all.iter().all(|&n| n > 100), "{all:?}");
}

/// A request that a GOAWAY moves keeps its intended start, and none is lost.
#[test]
fn goaways_lose_no_request() {
    for (streams, goaway_after) in [(1, 1), (10, 7), (100, 30)] {
        let plan = http2(open(2_000.0, Arrivals::Poisson, 2_000), 3, streams);
        let behavior = ServerBehavior {
            latency: Latency::Exponential(ms(2)),
            goaway_after: NonZeroU32::new(goaway_after),
            ..ServerBehavior::default()
        };
        let mut serve = Serve::new(behavior, 5);
        let setup = Setup::new(Link::with_latency(Span::from_micros(200)), 5);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "goaways");
        let (t, served) = (outcome.main(), serve.served());
        assert_eq!((t.replies, t.failed), (2_000, 0));
        let http2 = t.http2.as_deref().expect("HTTP/2");
        // A connection without streams is closed after the first of the server's two GOAWAYs.
        let goaways = http2.goaways.get("NO_ERROR").copied().unwrap_or(0);
        assert!(goaways * 2 >= served.goaways && goaways <= served.goaways, "{goaways}");
        assert_eq!(http2.moved, served.ignored, "what the server ignored was moved");
        assert!(http2.connections >= 2_000 / u64::from(goaway_after + streams), "{http2:?}");
    }
}

/// The response times of a server that freezes, over one connection with many streams: those of
/// arithmetic, as over HTTP/1 with many connections.
#[test]
fn p02_a_freeze_delays_all_streams_that_start_in_it() {
    let (service, from, freeze) = (ms(2), Nanos(4_000_000_000), Span::from_secs(2));
    let behavior = ServerBehavior {
        latency: Latency::Fixed(service),
        stalls: Stalls(vec![Stall::Once { length: freeze, at: Span(from.0) }]),
        max_streams: 1_000,
        ..ServerBehavior::default()
    };
    let base = || open(100.0, Arrivals::Fixed, 1_000);
    let response = |plan: &Plan| {
        let mut serve = Serve::new(behavior.clone(), 1);
        let setup = Setup::new(Link::default(), 1);
        let outcome = load(plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "a freeze");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed), (1_000, 0));
        (t.times.response, t.times.stream_wait)
    };
    let (one, _) = response(&base());
    let (many, waits) = response(&http2(base(), 1, 1_000));
    assert_eq!((many, waits.count()), (one.clone(), 0), "one connection of many streams");
    let (spread, _) = response(&http2(base(), 100, 10));
    assert_eq!(spread, one, "100 connections of 10 streams");
}

/// A frozen server with a limit of 1, 10 and 100 streams: all times are those of a queue with that
/// many places. The first requests of the freeze occupy the streams; the others wait for one, as do
/// those that arrive while the queue becomes shorter.
#[test]
fn p02_a_freeze_counts_from_the_intended_start_whatever_the_stream_limit() {
    // No multiple of it is a gap between arrivals: none comes just when a stream becomes free.
    let service = Span::from_micros(2_001);
    let (from, thaw) = (at(4_000), at(6_000));
    // Of the 200 in the freeze all but the first, and k more until the queue is empty.
    for (max_streams, waiting) in [(1, 199 + 51), (10, 190 + 5), (100, 100 + 1)] {
        let mut plan = http2(open(100.0, Arrivals::Fixed, 1_000), 1, 1_000);
        plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
        let stall = Stall::Once { length: thaw.since(from), at: from.since(Nanos::ZERO) };
        let mut serve = Serve::new(
            ServerBehavior {
                latency: Latency::Fixed(service),
                stalls: Stalls(vec![stall]),
                max_streams,
                ..ServerBehavior::default()
            },
            1,
        );
        let outcome = load(&plan, 1, &Setup::new(Link::default(), 1), &mut [&mut serve]);
        assert_invariants(&outcome, "a freeze of streams");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.times.lag.sum_ns()), (1_000, 0, 0));
        let truth = queue(&plan, max_streams as usize, |begin| {
            let frozen = begin >= from && begin < thaw;
            if frozen { thaw + service } else { begin + service }
        });
        let waits: Vec<u64> = truth.iter().map(|[at, begin, _]| begin.since(*at).0).collect();
        let waits: Vec<u64> = waits.into_iter().filter(|wait| *wait > 0).collect();
        assert_eq!(waits.len(), waiting, "{max_streams} streams");
        let wrong = histogram_mismatch("stream wait", &t.times.stream_wait, &waits);
        assert_eq!(wrong, None, "{max_streams} streams");
        let all: Vec<u64> = truth.iter().map(|[at, _, done]| done.since(*at).0).collect();
        let wrong = histogram_mismatch("response", &t.times.response, &all);
        assert_eq!(wrong, None, "{max_streams} streams");
        let all: Vec<u64> = truth.iter().map(|[_, begin, done]| done.since(*begin).0).collect();
        let wrong = histogram_mismatch("service", &t.times.service, &all);
        assert_eq!(wrong, None, "{max_streams} streams");
    }
}

/// When each request of the plan arrives, begins and ends in a queue with this many places, in the
/// order of arrival. Work that begins at a time is done at `done`.
fn queue(plan: &Plan, places: usize, done: impl Fn(Nanos) -> Nanos) -> Vec<[Nanos; 3]> {
    let mut free = vec![Nanos::ZERO; places];
    let served = arrivals(plan).map(|at| {
        let place = free.iter_mut().min().expect("a place");
        let begin = at.max(*place);
        *place = done(begin);
        [at, begin, *place]
    });
    served.collect()
}

/// P3: response and service times differ by the waits that are recorded, to the nanosecond: in the
/// queue, for a stream, and for the meter.
#[test]
fn p03_the_time_between_schedule_and_send_is_recorded_over_streams() {
    let mut waited = [0; 3];
    for seed in seeds(200) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 122);
        let (connections, streams) = (rng.between(1, 4) as u32, rng.between(1, 12) as u32);
        let mut plan = http2(open(2_000.0, Arrivals::Poisson, 300), connections, streams);
        plan.seed = seed;
        plan.timeout = Span::from_secs(1_000);
        plan.placement = if rng.chance(0.5) { Placement::Fill } else { Placement::Spread };
        plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
        let behavior = ServerBehavior {
            latency: Latency::Exponential(Span(rng.between(1, 8_000_000))),
            max_streams: rng.between(1, 9) as u32,
            ..ServerBehavior::default()
        };
        let mut setup = Setup { watch: false, ..Setup::new(Link::default(), seed) };
        setup.timer_lateness = Span(rng.below(2) * rng.below(300_000));
        let mut serve = Serve::new(behavior, seed);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "both times of streams");
        let (t, times) = (outcome.main(), outcome.main().times);
        assert_eq!((t.replies, t.failed), (300, 0));
        let between = times.response.sum_ns() - times.service.sum_ns();
        let parts = [&times.queue, &times.stream_wait, &times.lag];
        assert_eq!(between, parts.iter().map(|part| part.sum_ns()).sum::<u128>());
        for (sum, part) in waited.iter_mut().zip(parts) {
            *sum += u64::from(part.sum_ns() > 0);
        }
    }
    assert!(!has_all_seeds() || waited.iter().all(|&runs| runs > 20), "{waited:?}");
}

/// P15: a stream without a reply is a latency of the timeout; the others on its connection get
/// their replies.
#[test]
fn p15_timeouts_of_streams_are_latencies_too() {
    let mut timeouts = 0;
    for seed in 0..60 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 123);
        let mut plan = http2(open(500.0, Arrivals::Fixed, 400), 3, 10_000);
        (plan.seed, plan.timeout) = (seed, ms(80));
        let mut silent = 0;
        let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| match turn.event {
            Event::Request(_) if rng.chance(0.1) => silent += 1,
            Event::Request(_) => _ = turn.after(rng.up_to(ms(70)), 0),
            Event::Timer(_) => _ = turn.ok(),
            _ => _ = turn.usual(),
        }));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), seed), &mut [&mut server]);
        assert_invariants(&outcome, "silent streams");
        let connections = server.model().seen().connections;
        drop(server);
        let t = outcome.main();
        let failed = (t.failed, t.fault(Fault::RequestTimeout), t.replies);
        assert_eq!(failed, (silent, silent, 400 - silent));
        assert_eq!((t.connects, connections), (3, 3), "a timeout closes no connection");
        assert_eq!((t.times.response.count(), t.times.response.max()), (400, Some(ms(80))));
        timeouts += silent;
    }
    assert!(timeouts > 1_000, "{timeouts}");
}

/// A server with a limit of c streams is M/M/c: the share of requests that wait for a stream, and
/// their mean wait, are those of Erlang C.
#[test]
fn waits_for_streams_follow_erlang_c() {
    for (streams, load_share, seed) in [(1, 0.5, 1), (3, 0.7, 2), (8, 0.8, 3)] {
        let service = Span::from_micros(100);
        let a = load_share * f64::from(streams);
        let requests = 500_000;
        let mut plan =
            http2(open(a / service.as_secs_f64(), Arrivals::Poisson, requests), 1, 100_000);
        plan.seed = seed;
        plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
        let behavior = ServerBehavior {
            latency: Latency::Exponential(service),
            max_streams: streams,
            ..ServerBehavior::default()
        };
        let mut serve = Serve::new(behavior, seed);
        let setup = Setup { watch: false, ..Setup::new(Link::default(), seed) };
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "M/M/c");
        let t = outcome.main();
        assert_eq!((t.replies, t.times.lag.sum_ns()), (requests, 0));
        let waits = &t.times.stream_wait;
        let share = waits.count() as f64 / requests as f64;
        let expected = crate::theory::erlang_c(streams as usize, a);
        let what = format!("{streams} streams busy {load_share}");
        assert!((share / expected - 1.0).abs() < 0.02, "{what}: {share} wait, theory {expected}");
        let mean = waits.mean_ns().expect("waits") / service.0 as f64;
        let expected = 1.0 / (f64::from(streams) - a);
        assert!((mean / expected - 1.0).abs() < 0.02, "{what}: {mean}, theory {expected}");
    }
}

/// Pings find out that a server is frozen; while it answers, they change nothing.
#[test]
fn pings_find_a_frozen_server() {
    for frozen in [false, true] {
        let mut plan = http2(closed(1, Think::None, ms(1_000)), 2, 3);
        let keepalive = Some(ms(50));
        plan.http2 = Some(Box::new(Http2Spec { keepalive, ..Http2Spec::default() }));
        let mut behavior = ServerBehavior { latency: Latency::Fixed(ms(2)), ..Default::default() };
        if frozen {
            behavior.stalls = Stalls(vec![Stall::Once { length: ms(300), at: ms(400) }]);
        }
        let mut serve = Serve::new(behavior, 3);
        let setup = Setup::new(Link::with_latency(Span::from_micros(100)), 3);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "pings");
        let t = outcome.main();
        assert_eq!(t.failed, t.fault(Fault::NoPong));
        assert_eq!((t.failed > 0, t.connected > 2), (frozen, frozen), "{t:?}");
    }
}

/// Refused requests that are sent again keep their intended start, and all succeed.
#[test]
fn refused_requests_are_sent_again_if_asked() {
    for retry_refused in [false, true] {
        let mut plan = http2(open(1_000.0, Arrivals::Fixed, 2_000), 2, 20);
        plan.http2 = Some(Box::new(Http2Spec { retry_refused, ..Http2Spec::default() }));
        let behavior = ServerBehavior { refuse: Share(0.2), ..ServerBehavior::default() };
        let mut serve = Serve::new(behavior, 4);
        let setup = Setup::new(Link::with_latency(ms(1)), 4);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "refused");
        let t = outcome.main();
        let refused = t.http2.as_deref().expect("HTTP/2").refused;
        assert!(refused > 300, "{refused}");
        if !retry_refused {
            assert_eq!((t.fault(Fault::Refused), t.replies), (refused, 2_000 - refused));
            continue;
        }
        assert_eq!((t.replies, t.failed, t.retries), (2_000, 0, refused));
        // Each refusal costs one more round trip of 2 ms.
        let most = t.times.response.max().expect("replies");
        let sum = t.times.response.sum_ns();
        assert!(sum >= u128::from((2_000 + refused) * ms(2).0) && most >= ms(6), "{sum} {most}");
    }
}

/// Streams in flight: by Little's law the rate times the service time, and at most all users'.
#[test]
fn open_streams_are_the_rate_times_the_service_time() {
    let latency = Latency::Fixed(ms(8));
    let behavior = ServerBehavior { latency, max_streams: 50, ..ServerBehavior::default() };
    let setup = Setup::new(Link::with_latency(ms(1)), 1);
    for (shares, warmup) in [(1, Span::ZERO), (3, ms(500))] {
        // 10 ms on a stream, 300 times per second.
        let mut plan = http2(open(300.0, Arrivals::Fixed, 3_000), 6, 50);
        plan.warmup = warmup;
        let mut server = Serve::new(behavior.clone(), 1);
        let outcome = load(&plan, shares, &setup, &mut [&mut server]);
        let t = outcome.main();
        let counts = t.http2.as_deref().expect("HTTP/2");
        let truth = t.replies as f64 * t.times.service.mean_ns().expect("replies") / 1e9;
        let measured = counts.open_time.as_secs_f64();
        assert!((measured / truth - 1.0).abs() < 2e-3, "{measured} s, not {truth} s");
        let mean = t.streams_mean().expect("HTTP/2");
        assert!((mean - 3.0).abs() < 0.03, "{mean} streams");
        assert!((1..=3).contains(&counts.open_max), "{}", counts.open_max);
    }
    // A closed loop keeps all its streams open, but for the time between a reply and the next
    // request, which is zero here.
    let mut server = Serve::new(behavior, 1);
    let plan = http2(closed(1, Think::None, Span::from_secs(2)), 3, 7);
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    let t = outcome.main();
    let mean = t.streams_mean().expect("HTTP/2");
    assert!((20.5..=21.0).contains(&mean), "{mean} streams");
    assert_eq!(t.http2.as_deref().expect("HTTP/2").open_max, 7);
}

/// Placement on real connections of HTTP/2, with 50 requests in flight: one connection after the
/// other is filled up to the server's limit, or all of them have the same share.
#[test]
fn requests_fill_connections_or_spread_over_them() {
    let by_connection = |placement, limit| {
        let mut plan = http2(open(10_000.0, Arrivals::Fixed, 2_000), 4, 100);
        plan.placement = placement;
        plan.http2 = Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }));
        let mut requests = BTreeMap::<u64, u64>::new();
        let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
            match turn.event {
                Event::Opened => turn.settings(&[(Settings::STREAMS, limit)]),
                Event::Request(_) => {
                    *requests.entry(turn.conn).or_default() += 1;
                    turn.after(ms(5), 0)
                }
                Event::Timer(_) => turn.ok(),
                _ => turn,
            };
        }));
        let outcome = load(&plan, 1, &Setup::new(Link::default(), 1), &mut [&mut server]);
        assert_invariants(&outcome, "placement");
        let t = outcome.main();
        drop(server);
        assert_eq!((t.replies, t.failed, t.connects), (2_000, 0, requests.len() as u64));
        assert!(t.times.stream_wait.is_empty() && t.times.response.max() == Some(ms(5)));
        requests.into_values().collect::<Vec<u64>>()
    };
    assert_eq!(by_connection(Placement::Fill, 100), [2_000]);
    // 50 need three of them, which are filled in turn as their requests end.
    let filled = by_connection(Placement::Fill, 20);
    assert_eq!(filled.len(), 3, "{filled:?}");
    for limit in [20, 100] {
        let spread = by_connection(Placement::Spread, limit);
        assert_eq!(spread.len(), 4, "{spread:?}");
        assert!(spread.iter().all(|n| (400..=600).contains(n)), "{spread:?}");
    }
}

/// A body that fills the client's window six times waits five times for a round trip.
#[test]
fn replies_wait_for_the_own_window_for_a_round_trip() {
    let behavior = ServerBehavior { size: 60_000, ..ServerBehavior::default() };
    for (window, waits) in [(10_000, 5), (60_000, 0), (1 << 20, 0)] {
        let mut plan = http2(closed(1, Think::None, ms(0)), 1, 1);
        (plan.stop.requests, plan.stop.duration) = (Some(40), None);
        plan.http2 = Some(Box::new(Http2Spec { window, ..Http2Spec::default() }));
        let setup = Setup::new(Link::with_latency(ms(3)), 1);
        let mut server = Serve::new(behavior.clone(), 1);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        let t = outcome.main();
        let counts = t.http2.as_deref().expect("HTTP/2");
        assert_eq!((t.replies, counts.blocked), (40, 40 * waits), "{window}");
        assert_eq!(counts.blocked_time, ms(6) * counts.blocked, "{window}");
    }
}
