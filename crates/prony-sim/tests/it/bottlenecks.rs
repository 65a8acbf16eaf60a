//! P20: the reported bottleneck of runs with a known one: the rate, the connections, the pipelines,
//! the station's servers, the streams, or the server's limit of streams and its windows.

use prony_base::machine::Machine;
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Http2Spec, Load, Plan, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Latency, Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::{Pauses, Setup};
use prony_stats::summary::{Bottleneck, Queued, RunInfo};
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, at, closed, get, ms, open, summed};
use crate::theory::erlang_c;

const LENGTH: Span = Span::from_secs(30);
const SEEDS: u64 = 3;

/// Distributions with service times of about 10 ms.
const SERVICE_TIMES: [ServiceTime; 6] = [
    ServiceTime::Fixed(Span::from_millis(10)),
    ServiceTime::Exponential(Span::from_millis(10)),
    ServiceTime::Uniform(Span::from_millis(2), Span::from_millis(18)),
    ServiceTime::Uniform(Span::from_millis(8), Span::from_millis(12)),
    ServiceTime::Pareto(Span::from_millis(5), 2.2),
    ServiceTime::Bimodal(Span::from_millis(5), Span::from_millis(60), 0.1),
];

fn bottleneck(
    plan: &Plan,
    station: Station,
    seed: u64,
    change: impl FnOnce(&mut Setup),
) -> Option<Bottleneck> {
    let link = Link { jitter: Span(100_000), ..Link::with_latency(Span(50_000)) };
    let mut setup = Setup { watch: false, ..Setup::new(link, seed) };
    change(&mut setup);
    found(plan, &setup, &mut Server::new(station)).1
}

/// The tally of a run with this server, and its bottleneck.
fn found(plan: &Plan, setup: &Setup, server: &mut dyn Machine) -> (Tally, Option<Bottleneck>) {
    plan.check().expect("a valid plan");
    let outcome = load(plan, 1 + (setup.seed % 2) as u32, setup, &mut [server]);
    assert_invariants(&outcome, "bounds");
    let summary = summed(plan, RunInfo::default(), outcome);
    let bottleneck = summary.bottleneck(&summary.verdict());
    (summary.main, bottleneck)
}

/// The same of a load over HTTP/2 to a server with this behavior.
fn found_in_streams(
    plan: &Plan,
    link: Link,
    behavior: &ServerBehavior,
) -> (Tally, Option<Bottleneck>) {
    let setup = Setup { watch: false, ..Setup::new(link, plan.seed) };
    let (t, bottleneck) = found(plan, &setup, &mut Serve::new(behavior.clone(), plan.seed));
    assert_eq!(t.failed, 0, "{:?}", t.faults);
    (t, bottleneck)
}

/// Run the plan with each distribution of service times and each seed, some with a warm-up, and
/// check the reported bottleneck.
fn each_service_time(
    plan: &Plan,
    servers: Option<usize>,
    check: impl Fn(Option<Bottleneck>) -> bool,
) {
    each_service_time_of(&SERVICE_TIMES, plan, servers, check);
}

fn each_service_time_of(
    service_times: &[ServiceTime],
    plan: &Plan,
    servers: Option<usize>,
    check: impl Fn(Option<Bottleneck>) -> bool,
) {
    for &service_time in service_times {
        for seed in 0..SEEDS {
            let _seed = Seed(seed);
            let warmup = if seed % 3 == 2 { ms(1_500) } else { Span::ZERO };
            let plan = Plan { warmup, seed, ..plan.clone() };
            let station = Station::new(service_time, seed);
            let station = servers.into_iter().fold(station, Station::servers);
            let bottleneck = bottleneck(&plan, station, seed, |_| {});
            assert!(check(bottleneck), "{service_time:?}, seed {seed}: {bottleneck:?}");
        }
    }
}

fn open_for(rate: f64, connections: u32) -> Plan {
    let mut plan = open(rate, Arrivals::Poisson, 1);
    plan.stop = Stop { duration: Some(LENGTH), ..Stop::default() };
    plan.timeout = Span::from_secs(300);
    let Load::Open { connections: limit, .. } = &mut plan.load else { unreachable!("it is open") };
    *limit = connections;
    plan
}

/// The server freezes for 2 of 30 s: 120 requests wait, for 1 s on average.
#[test]
fn p20_a_freeze_is_reported_with_the_target_rate() {
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        let plan = Plan { seed, ..open_for(60.0, 1 << 20) };
        let steady = || Station::new(ServiceTime::Fixed(ms(1)), seed);
        let kept_up = Some(Bottleneck::TargetRate { failed: None, waiting: None });
        assert_eq!(bottleneck(&plan, steady(), seed, |_| {}), kept_up);
        let frozen = steady().freezes(vec![(at(10_000), Span::from_secs(2))]);
        let bottleneck = bottleneck(&plan, frozen, seed, |_| {});
        let Some(Bottleneck::TargetRate { failed: None, waiting: Some(waiting) }) = bottleneck
        else {
            panic!("seed {seed}: {bottleneck:?}");
        };
        assert!((ms(1_800)..ms(2_010)).contains(&waiting.longest), "{waiting:?}");
        assert!((3.0..5.2).contains(&waiting.concurrency), "{waiting:?}");
    }
}

#[test]
fn p20_an_open_loop_is_limited_by_the_target_rate() {
    each_service_time(&open_for(60.0, 1 << 20), None, |b| {
        matches!(b, Some(Bottleneck::TargetRate { failed: None, .. }))
    });
}

/// Five connections carry about 500 requests a second; the number of servers is unlimited.
#[test]
fn p20_an_open_loop_is_limited_by_its_connections() {
    each_service_time(&open_for(1_500.0, 5), None, |b| {
        b == Some(Bottleneck::ConnectionLimit { connections: 5 })
    });
}

/// One server for about 100 requests a second.
#[test]
fn p20_an_open_loop_is_limited_by_the_server() {
    each_service_time(&open_for(250.0, 1 << 20), Some(1), |b| {
        matches!(b, Some(Bottleneck::Server { .. }))
    });
    // More connections would not have helped.
    let expected = |b| {
        matches!(
            b,
            Some(Bottleneck::Server { queued: Some(_) } | Bottleneck::ConnectionLimit { .. })
        )
    };
    each_service_time(&open_for(250.0, 24), Some(1), expected);
    let fixed = Station::new(SERVICE_TIMES[0], 1).servers(1);
    let Some(Bottleneck::Server { queued: Some(Queued { fastest, median }) }) =
        bottleneck(&open_for(250.0, 24), fixed, 1, |_| {})
    else {
        panic!("the connection limit was not the bottleneck")
    };
    assert!(fastest < ms(11) && median > ms(235), "{fastest:?} {median:?}");
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_connections() {
    for connections in [1, 12] {
        let plan = closed(connections, Think::None, LENGTH);
        let expected = |b| {
            use Bottleneck::Connections;
            matches!(b, Some(Connections { connections: n, .. }) if n == connections)
        };
        each_service_time(&plan, None, expected);
    }
}

/// Forty connections to one server: with more, the response times would be longer and the rate the
/// same. The last distribution is omitted: it varies so widely that the queue cannot be detected.
#[test]
fn p20_a_closed_loop_is_limited_by_the_server() {
    let expected = |b| matches!(b, Some(Bottleneck::Server { queued: Some(_) }));
    each_service_time_of(&SERVICE_TIMES[..5], &closed(40, Think::None, LENGTH), Some(1), expected);
    each_service_time_of(
        &SERVICE_TIMES[..5],
        &closed(60, Think::Exponential(ms(20)), LENGTH),
        Some(1),
        expected,
    );
    let piped = Plan { pipeline: 2, ..closed(24, Think::None, LENGTH) };
    each_service_time_of(
        &[SERVICE_TIMES[0], SERVICE_TIMES[2], SERVICE_TIMES[3]],
        &piped,
        Some(1),
        expected,
    );
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_pipelines() {
    let piped = Plan { pipeline: 4, ..closed(3, Think::None, LENGTH) };
    each_service_time(&piped, None, |b| {
        matches!(b, Some(Bottleneck::Pipeline { requests: 12, .. }))
    });
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_users() {
    let plan = closed(8, Think::Exponential(ms(20)), LENGTH);
    each_service_time(&plan, None, |b| matches!(b, Some(Bottleneck::Users { users: 8, .. })));
}

/// The share of requests that wait for a stream is Erlang C's. Above 10 %, the limit of streams is
/// the bottleneck, with its figure.
#[test]
fn p20_an_open_loop_is_limited_by_the_stream_limit() {
    const STREAMS: u32 = 8;
    let behavior = ServerBehavior {
        latency: Latency::Exponential(ms(1)),
        max_streams: STREAMS,
        ..ServerBehavior::default()
    };
    for (busy, is_above) in [(4.4, false), (4.6, true)] {
        let expected = erlang_c(STREAMS as usize, busy);
        assert_eq!(expected > 0.1, is_above, "{expected}");
        for seed in 0..SEEDS {
            let _seed = Seed(seed);
            let mut plan = http2(open(busy * 1_000.0, Arrivals::Poisson, 200_000), 1, 10_000);
            (plan.seed, plan.http2) = (2 * seed, waits_for_settings());
            let (t, bottleneck) = found_in_streams(&plan, Link::default(), &behavior);
            let share = t.times.stream_wait.count() as f64 / t.started as f64;
            assert!((share / expected - 1.0).abs() < 0.05, "{share}, expected {expected}");
            match bottleneck {
                Some(Bottleneck::StreamLimit { limit: STREAMS, waited }) if is_above => {
                    assert_eq!(waited, share);
                }
                Some(Bottleneck::TargetRate { failed: None, waiting: None }) if !is_above => {}
                other => panic!("{busy} streams: {other:?}"),
            }
        }
    }
}

/// Fourteen users on two connections: with seven streams on each, a request is in flight on each
/// stream. With six, all but the first twelve requests wait for one.
#[test]
fn p20_a_closed_loop_is_limited_by_its_streams_or_by_their_limit() {
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        let mut plan = http2(closed(1, Think::None, LENGTH), 2, 7);
        (plan.seed, plan.http2) = (seed, waits_for_settings());
        let latency = Latency::Fixed(ms(5));
        let with = |max_streams| {
            let behavior = ServerBehavior { latency, max_streams, ..ServerBehavior::default() };
            found_in_streams(&plan, Link::with_latency(ms(1)), &behavior)
        };
        let (_, bottleneck) = with(7);
        let Some(Bottleneck::Streams { streams: 14, concurrency }) = bottleneck else {
            panic!("{bottleneck:?}");
        };
        assert!((13.9..14.000_001).contains(&concurrency), "{concurrency}");
        // The replies of a connection arrive together. Its seventh request takes one of the six
        // streams, and one of the six that follow waits.
        let (_, bottleneck) = with(6);
        let Some(Bottleneck::StreamLimit { limit: 6, waited }) = bottleneck else {
            panic!("{bottleneck:?}");
        };
        assert!((waited - 1.0 / 6.0).abs() < 1e-3, "{waited}");
    }
}

/// A body of four windows waits three times for a round trip of 2 ms. The reply takes a round trip,
/// a half of one for the last piece and the service, so that the waits are half of the service time
/// with a service of 4 ms.
#[test]
fn p20_a_load_is_limited_by_the_windows_of_the_server() {
    const WINDOW: u32 = 2_000;
    for (service, is_above) in [(3_900, true), (4_100, false)] {
        let service = Span::from_micros(service);
        let mut plan = http2(closed(1, Think::None, LENGTH), 1, 1);
        plan.http2 = waits_for_settings();
        let body = vec![b'x'; 4 * WINDOW as usize];
        plan.calls = vec![CallSpec { method: "POST".into(), body, ..get("/") }].into();
        let latency = Latency::Fixed(service);
        let behavior = ServerBehavior { latency, window: WINDOW, ..ServerBehavior::default() };
        let (t, bottleneck) = found_in_streams(&plan, Link::with_latency(ms(1)), &behavior);
        let (flow, all) = (&t.times.flow_wait, &t.times.service);
        assert_eq!((flow.min(), flow.max()), (Some(ms(6)), Some(ms(6))));
        assert_eq!((all.min(), all.max()), (Some(service + ms(8)), Some(service + ms(8))));
        match bottleneck {
            Some(Bottleneck::Window { share }) if is_above => {
                let truth = ms(6).as_secs_f64() / (service + ms(8)).as_secs_f64();
                assert!((share / truth - 1.0).abs() < 1e-3, "{share}, not {truth}");
            }
            Some(Bottleneck::Streams { streams: 1, .. }) if !is_above => {}
            other => panic!("{service:?}: {other:?}"),
        }
    }
}

fn waits_for_settings() -> Option<Box<Http2Spec>> {
    Some(Box::new(Http2Spec { wait_settings: true, ..Http2Spec::default() }))
}

/// A few replies arrive immediately, but the others did not wait in a queue either.
#[test]
fn p20_a_few_fast_replies_are_no_queue() {
    for (share, seed) in [(0.998, 1), (0.995, 2), (0.99, 3)] {
        let service_time = ServiceTime::Bimodal(Span::from_micros(200), ms(10), share);
        let bottleneck = bottleneck(
            &closed(8, Think::None, LENGTH),
            Station::new(service_time, seed),
            seed,
            |_| {},
        );
        assert!(
            matches!(bottleneck, Some(Bottleneck::Connections { .. })),
            "{share}: {bottleneck:?}"
        );
    }
}

/// The replies arrive in time, but the client is paused and reads them after the timeout.
#[test]
fn p20_a_client_that_reads_replies_too_late_is_the_limit() {
    let plan = Plan { timeout: ms(580), ..closed(4, Think::None, LENGTH) };
    let station = || Station::new(ServiceTime::Fixed(ms(560)), 1);
    let pauses = |setup: &mut Setup| setup.pauses = Some(Pauses::fixed(ms(100), ms(80)));
    assert_eq!(bottleneck(&plan, station(), 1, pauses), Some(Bottleneck::Client));
    let without_pauses = bottleneck(&plan, station(), 1, |_| {});
    assert!(matches!(without_pauses, Some(Bottleneck::Connections { .. })), "{without_pauses:?}");
    let slow = Station::new(ServiceTime::Fixed(ms(600)), 1);
    assert_eq!(bottleneck(&plan, slow, 1, |_| {}), Some(Bottleneck::Failures));
}

/// A paused client is reported before any other bottleneck.
#[test]
fn p20_a_paused_client_is_the_limit() {
    let pauses = |setup: &mut Setup| setup.pauses = Some(Pauses::fixed(ms(100), ms(80)));
    let plans = [
        closed(8, Think::None, LENGTH),
        closed(8, Think::Exponential(ms(20)), LENGTH),
        Plan { pipeline: 4, ..closed(3, Think::None, LENGTH) },
        open_for(60.0, 1 << 20),
        open_for(1_500.0, 20),
    ];
    for plan in plans {
        // With the short timeout, requests fail in the client's own queue.
        for timeout in [Span::from_secs(300), ms(1_000)] {
            let plan = Plan { timeout, ..plan.clone() };
            let found = bottleneck(&plan, Station::new(SERVICE_TIMES[0], 1), 1, pauses);
            assert_eq!(found, Some(Bottleneck::Client), "{:?}", plan.load);
        }
    }
}
