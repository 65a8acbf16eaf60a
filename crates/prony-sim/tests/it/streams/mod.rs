//! Tests of the engine with a carrier of streams: a small one ([`carrier`]), against a server with
//! known behavior ([`server`]). The properties that hold for HTTP/1 hold here too.

mod carrier;
mod server;

use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Load, Placement, Plan, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::oracle::histogram_mismatch;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load_with_carrier};
use prony_tally::record::Tally;

use crate::plans::{Seed, arrivals, assert_invariants, closed, has_all_seeds, ms, open, seeds};
use carrier::Streams;
use server::{StreamBehavior, StreamCounters, StreamServer};

/// An open loop over at most this number of connections, with this number of streams on each.
fn spread(rate: f64, requests: u64, connections: u32, streams: u32) -> Plan {
    let mut plan = open(rate, Arrivals::Fixed, requests);
    if let Load::Open { connections: limit, .. } = &mut plan.load {
        *limit = connections;
    }
    plan.pipeline = streams;
    plan
}

fn run(
    plan: &Plan,
    shares: u32,
    setup: &Setup,
    behavior: StreamBehavior,
) -> (Outcome, StreamCounters) {
    let ping = behavior.ping.map(|every| Span(every.0 / 2 + 1));
    let mut server = StreamServer::new(behavior, setup.seed);
    let make = |plan: &Plan| Streams::new(plan, ping);
    let outcome = load_with_carrier(plan, shares, setup, &mut [&mut server], make);
    assert_invariants(&outcome, &format!("seed {}", setup.seed));
    (outcome, server.counters)
}

fn perfect_network(seed: u64) -> Setup {
    Setup { watch: false, ..Setup::new(Link::default(), seed) }
}

fn response_times(plan: &Plan, of: impl Fn(Nanos) -> Nanos) -> Vec<u64> {
    arrivals(plan).map(|at| of(at).since(at).0).collect()
}

/// P2: all requests that arrive in a freeze wait for its end, on one connection or on many.
#[test]
fn p02_a_freeze_counts_from_the_intended_start_of_streams() {
    let freeze = (Nanos(400_000_000), ms(500));
    for connections in [1, 7] {
        let plan = spread(1_000.0, 1_500, connections, 10_000);
        let behavior = StreamBehavior { freeze: Some(freeze), ..StreamBehavior::default() };
        let (outcome, counters) = run(&plan, 1, &perfect_network(1), behavior);
        let thaws = freeze.0 + freeze.1;
        let expected = response_times(&plan, |at| {
            let done = at + ms(1);
            if done >= freeze.0 && done < thaws { thaws } else { done }
        });
        let main = outcome.main();
        assert_eq!(histogram_mismatch("response", &main.times.response, &expected), None);
        assert_eq!((main.replies, counters.connections), (1_500, u64::from(connections)));
        assert!(main.times.stream_wait.is_empty() && main.times.lag.sum_ns() == 0);
    }
}

/// P10: the merged tally of several shares has the times of a single one.
#[test]
fn p10_shares_of_streams_merge_to_the_whole() {
    let plan = spread(2_000.0, 1_000, 6, 10_000);
    let behavior =
        StreamBehavior { freeze: Some((Nanos(100_000_000), ms(50))), ..StreamBehavior::default() };
    let (one, _) = run(&plan, 1, &perfect_network(3), behavior.clone());
    let (three, _) = run(&plan, 3, &perfect_network(3), behavior);
    let (one, three) = (one.main(), three.main());
    assert_eq!(one.times.response, three.times.response);
    assert_eq!(one.times.service, three.times.service);
    assert_eq!((one.replies, one.started), (three.replies, three.started));
}

/// P15: a stream without a reply counts as a latency of at least the timeout. The other streams on
/// the connection get their replies, and the server gets a cancel.
#[test]
fn p15_a_stream_without_a_reply_times_out_alone() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut plan = spread(500.0, 400, 3, 10_000);
        plan.timeout = ms(80);
        plan.seed = seed;
        let behavior = StreamBehavior { silent: 0.1, ..StreamBehavior::default() };
        let (outcome, counters) = run(&plan, 1, &perfect_network(seed), behavior);
        let main = outcome.main();
        assert!(counters.silent > 10);
        assert_eq!((main.failed, main.replies), (counters.silent, counters.answered));
        assert_eq!(counters.connections, 3, "a timeout closes no connection");
        let times = &main.times.response;
        assert_eq!(times.count(), main.replies + counters.silent);
        assert_eq!(times.max(), Some(ms(80)));
        assert_eq!(main.times.service.count(), times.count());
        // The last cancels may be sent after the client has finished.
        assert!(
            counters.cancelled <= counters.silent && counters.cancelled + 40 >= counters.silent
        );
    }
}

/// With a stream limit of the peer, the time between the intended start and the send is stream
/// wait.
#[test]
fn waits_for_a_stream_are_recorded() {
    // Ten requests share two streams of 10 ms each: pairs wait 0, 10, 20, 30 and 40 ms. After the
    // think time they arrive in pairs, and do not wait.
    let mut plan = closed(1, Think::Fixed(ms(1_000)), ms(1));
    plan.stop = Stop { requests: Some(20), ..Stop::default() };
    plan.pipeline = 10;
    let behavior = StreamBehavior { service: ms(10), limits: vec![2], ..StreamBehavior::default() };
    let (outcome, counters) = run(&plan, 1, &perfect_network(1), behavior);
    let times = &outcome.main().times;
    assert_eq!(counters.most, 2);
    let waits: Vec<u64> = (0..8).map(|i| ms(10 * (i / 2 + 1)).0).collect();
    assert_eq!(histogram_mismatch("stream wait", &times.stream_wait, &waits), None);
    assert_eq!(histogram_mismatch("service", &times.service, &[ms(10).0; 20]), None);
    assert_eq!(times.queue.count() + times.lag.max().map_or(0, |max| max.0), 0);
}

/// While the stream limit rises and falls, response and service times differ by the recorded waits,
/// to the nanosecond.
#[test]
fn response_and_service_times_differ_by_recorded_waits() {
    for seed in seeds(200) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 31);
        let mut plan = spread(2_000.0, 300, rng.between(1, 4) as u32, rng.between(1, 12) as u32);
        plan.seed = seed;
        plan.timeout = Span::from_secs(1_000);
        if rng.chance(0.5) {
            plan.placement = Placement::Fill;
        }
        let limits: Vec<u32> = (0..6).map(|_| rng.between(1, 9) as u32).collect();
        let most = *limits.iter().max().unwrap() as usize;
        let service = Span(rng.below(8_000_000));
        let behavior = StreamBehavior {
            service,
            limits,
            jitter: Span(rng.below(1_000_000)),
            ..StreamBehavior::default()
        };
        let setup = Setup {
            timer_lateness: Span(rng.below(2) * rng.below(300_000)),
            ..perfect_network(seed)
        };
        let (outcome, counters) = run(&plan, 1, &setup, behavior);
        let (main, times) = (outcome.main(), outcome.main().times);
        assert_eq!(main.replies, 300, "seed {seed}");
        assert!(counters.most <= most.min(plan.pipeline as usize), "seed {seed}: {counters:?}");
        let between = times.response.sum_ns() - times.service.sum_ns();
        let named = times.queue.sum_ns() + times.stream_wait.sum_ns() + times.lag.sum_ns();
        assert_eq!(between, named, "seed {seed}");
    }
}

/// Bodies that are longer than the window wait for it, and the wait is part of the service time.
#[test]
fn waits_for_the_window_are_recorded() {
    let mut plan = closed(1, Think::None, ms(1));
    plan.stop = Stop { requests: Some(10), ..Stop::default() };
    let mut calls = plan.calls.to_vec();
    (calls[0].method, calls[0].body) = ("POST".into(), vec![b'x'; 2_500]);
    plan.calls = calls.into();
    // 1,000 bytes at a time, acknowledged after 5 ms: two waits, then 1 ms of service.
    let behavior =
        StreamBehavior { window: 1_000, window_takes: ms(5), ..StreamBehavior::default() };
    let (outcome, counters) = run(&plan, 1, &perfect_network(1), behavior);
    let times = &outcome.main().times;
    assert_eq!((counters.body, counters.answered), (25_000, 10));
    // When the next request starts, part of the window is still in use, but will be acknowledged up
    // to 1 ms sooner.
    assert_eq!(times.flow_wait.count(), 10);
    assert!(times.flow_wait.min() >= Some(ms(9)), "{:?}", times.flow_wait.min());
    assert_eq!(times.service.sum_ns(), times.flow_wait.sum_ns() + 10 * u128::from(ms(1).0));
}

/// A draining connection keeps its streams. Later and refused requests are sent on another
/// connection, and keep their intended start.
#[test]
fn a_drain_moves_requests_that_were_not_sent() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 32);
        let mut plan = match rng.chance(0.5) {
            true => spread(3_000.0, 300, 2, 8),
            false => {
                let mut plan = closed(2, Think::None, ms(1));
                plan.stop = Stop { requests: Some(300), ..Stop::default() };
                plan.pipeline = 8;
                plan
            }
        };
        plan.seed = seed;
        let after = rng.between(1, 40) as u32;
        let jitter = Span(rng.below(2_000_000));
        let behavior =
            StreamBehavior { drains_after: Some(after), jitter, ..StreamBehavior::default() };
        let (outcome, counters) = run(&plan, 1, &perfect_network(seed), behavior);
        let main = outcome.main();
        assert_eq!((main.replies, main.failed), (300, 0), "seed {seed}");
        assert_eq!((counters.answered, main.retries), (300, counters.refused), "seed {seed}");
        assert!(counters.drained >= 300 / u64::from(after) / 2, "seed {seed}: {counters:?}");
    }
}

/// Pings of both sides get replies, and delay no request.
#[test]
fn pings_of_both_sides_get_replies() {
    let mut plan = spread(100.0, 100, 1, 100);
    plan.timeout = ms(100);
    let behavior = StreamBehavior { ping: Some(ms(20)), ..StreamBehavior::default() };
    let (outcome, counters) = run(&plan, 1, &perfect_network(1), behavior);
    let main = outcome.main();
    assert_eq!((main.replies, main.times.response.max()), (100, Some(ms(1))));
    // For 991 ms, every 20 ms and every 10 ms.
    assert!((48..=51).contains(&counters.pinged), "{counters:?}");
    assert!((96..=100).contains(&counters.pings), "{counters:?}");
    assert!(counters.pinged - counters.pongs <= 1, "{counters:?}");
}

/// Placement either fills one connection before the next, or spreads requests over all.
#[test]
fn requests_spread_over_connections_or_fill_them() {
    let streams = |placement| {
        let mut plan = spread(10_000.0, 1_000, 4, 100);
        plan.placement = placement;
        let (_, mut counters) = run(
            &plan,
            1,
            &perfect_network(1),
            StreamBehavior { service: ms(5), ..StreamBehavior::default() },
        );
        counters.streams.sort_unstable();
        counters.streams
    };
    let spread = streams(Placement::Spread);
    assert!(spread.iter().all(|n| (200..=300).contains(n)), "{spread:?}");
    let filled = streams(Placement::Fill);
    assert_eq!(filled, [1_000]);
}

/// P4: with failures of the peer and the network, every request is counted once.
#[test]
fn p04_counters_of_streams_agree_whatever_fails() {
    let mut total = Tally::default();
    for seed in seeds(600) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 33);
        let (plan, behavior) = (random_plan(&mut rng), random_behavior(&mut rng));
        let mut link = Link::rough(&mut rng);
        if rng.chance(0.3) {
            (link.reset, link.half_close) = (0.01, 0.01);
        }
        let setup = Setup {
            watch: false,
            timer_lateness: Span(rng.below(2) * rng.below(500_000)),
            ..Setup::new(link.clone(), seed)
        };
        let breaks = link.reset > 0.0 || link.connect != Link::default().connect;
        let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let (outcome, counters) = run(&plan, shares, &setup, behavior.clone());
        let main = outcome.main();
        assert_eq!(main.unfinished, 0, "seed {seed}");
        if !breaks {
            // A reply and its cancel may be in flight at the same time.
            assert!(counters.answered >= main.replies, "seed {seed}: {counters:?}");
            assert!(main.failed >= counters.failed, "seed {seed}: {counters:?}");
            // Requests in flight when a draining connection ends are sent again, or fail.
            let crosses = behavior.drains_after.is_some();
            if behavior.silent == 0.0 && plan.timeout > Span::from_secs(10) && !crosses {
                assert_eq!(counters.answered, main.replies, "seed {seed}");
                assert_eq!(counters.failed, main.failed, "seed {seed}");
                assert_eq!(counters.refused, main.retries, "seed {seed}");
                assert_eq!(counters.opened, main.started + main.retries, "seed {seed}");
            }
        }
        total.merge(&main);
    }
    let some = [total.replies, total.failed, total.retries, total.times.stream_wait.count()];
    assert!(
        !has_all_seeds() || some.iter().all(|&n| n > 1_000),
        "too few of these events: {some:?}"
    );
    assert!(!has_all_seeds() || total.times.flow_wait.count() > 100);
}

fn random_plan(rng: &mut Rng) -> Plan {
    let requests = rng.between(1, 80);
    let mut plan = if rng.chance(0.5) {
        spread(100.0 + rng.unit() * 10_000.0, requests, rng.between(1, 6) as u32, 1)
    } else {
        let mut plan = closed(rng.between(1, 4) as u32, Think::None, ms(1));
        plan.stop = Stop { requests: Some(requests), ..Stop::default() };
        plan
    };
    plan.pipeline = rng.between(1, 12) as u32;
    plan.seed = rng.bits();
    plan.timeout = if rng.chance(0.5) { ms(200) } else { Span::from_secs(1_000) };
    plan.connect_timeout = Span::from_secs(5);
    if rng.chance(0.3) {
        plan.placement = Placement::Fill;
    }
    if rng.chance(0.5) {
        let mut calls = plan.calls.to_vec();
        let length = rng.between(1, 3_000) as usize;
        (calls[0].method, calls[0].body) = ("POST".into(), vec![b'x'; length]);
        plan.calls = calls.into();
    }
    plan
}

fn random_behavior(rng: &mut Rng) -> StreamBehavior {
    let mut odds = |p: f64, most: f64| if rng.chance(p) { rng.unit() * most } else { 0.0 };
    let (refuses, fails, silent) = (odds(0.3, 0.3), odds(0.3, 0.3), odds(0.2, 0.2));
    StreamBehavior {
        service: Span(rng.below(5_000_000)),
        jitter: Span(rng.below(3_000_000)),
        pieces: rng.between(1, 4) as u32,
        freeze: rng.chance(0.2).then(|| (Nanos(rng.below(50_000_000)), ms(rng.below(100)))),
        limits: (0..rng.between(1, 8)).map(|_| rng.between(1, 10) as u32).collect(),
        limit_for: Span(rng.below(30_000_000)),
        window: if rng.chance(0.5) { u32::MAX } else { rng.between(1, 4_000) as u32 },
        window_takes: Span(rng.below(2_000_000)),
        refuses,
        fails,
        silent,
        drains_after: rng.chance(0.3).then(|| rng.between(1, 30) as u32),
        ping: rng.chance(0.3).then(|| ms(rng.between(1, 50))),
    }
}

/// The result does not depend on how the bytes are split into segments.
#[test]
fn results_do_not_depend_on_segments() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 34);
        let mut plan = closed(1, Think::None, ms(1));
        plan.stop = Stop { requests: Some(100), ..Stop::default() };
        (plan.pipeline, plan.seed) = (6, seed);
        let behavior =
            StreamBehavior { pieces: 3, limits: vec![3, 6, 2, 5], ..StreamBehavior::default() };
        let counts = |link: Link| {
            let setup = Setup { watch: false, ..Setup::new(link, seed) };
            let (outcome, counters) = run(&plan, 1, &setup, behavior.clone());
            let t = outcome.main();
            (t.started, t.replies, t.failed, t.bytes_body, t.bytes_head, counters.answered)
        };
        let cut = Link {
            segment: Some(rng.between(1, 9) as usize),
            write: Some(rng.between(1, 9) as usize),
            ..Link::default()
        };
        assert_eq!(counts(Link::default()), counts(cut), "seed {seed}");
    }
}
