//! The figures of a load do not depend on the number of its threads, shards or hosts: a load of
//! constant times is the same in one share and in many, and what times that vary change is bounded.

use prony_base::units::Span;
use prony_plan::plan::{
    Burst, Clients, Load, Pace, Plan, SessionKind, Sessions, Stop, StreamFormat, StreamPlan, Think,
};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{EventBehavior, Latency, Serve, ServerBehavior};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, closed, ms, open, seeds};
use crate::websocket::{echo, schedule, websocket};

/// The service time of a request: longer than the ways to the server and back.
const SERVICE: Span = Span::from_millis(40);
const WAY: Span = Span::from_micros(100);
/// What a connect and its handshakes may take.
const CONNECT: Span = Span::from_millis(2);

fn run(plan: &Plan, shares: u32, behavior: &ServerBehavior) -> Outcome {
    let setup = Setup { watch: false, ..Setup::new(Link::with_latency(WAY), 3) };
    let mut serve = Serve::new(behavior.clone(), 3);
    let outcome = load(plan, shares, &setup, &mut [&mut serve]);
    assert_invariants(&outcome, "shares");
    outcome
}

fn constant() -> ServerBehavior {
    ServerBehavior { latency: Latency::Fixed(SERVICE), ..ServerBehavior::default() }
}

fn by_count(plan: Plan, requests: Option<u64>, sessions: Option<u64>) -> Plan {
    Plan { stop: Stop { requests, sessions, duration: None }, ..plan }
}

/// A closed loop of this number of requests.
fn users(connections: u32, think: Think, requests: u64) -> Plan {
    by_count(closed(connections, think, ms(1)), Some(requests), None)
}

/// Two bursts with a pause between them, the first of two requests.
fn with_sessions(plan: Plan) -> Plan {
    let bursts = vec![Burst::of(vec![0, 0], Think::Fixed(ms(25))), Burst::of(vec![0], Think::None)];
    let kinds = vec![SessionKind { name: String::new(), weight: 1, bursts }];
    Plan { sessions: Some(Sessions::plain(kinds)), pipeline: 2, ..plan }
}

/// An open loop with a connection limit that it nearly needs.
fn limited(connections: u32, requests: u64) -> Plan {
    let capacity = f64::from(connections) / 0.041;
    let mut plan = open(0.9 * capacity, Arrivals::Fixed, requests);
    if let Load::Open { connections: limit, .. } = &mut plan.load {
        *limit = connections;
    }
    plan
}

fn streams(plan: Plan) -> (Plan, ServerBehavior) {
    let stream = Some(Box::new(StreamPlan::new(StreamFormat::Sse)));
    let events: EventBehavior = "ttft=20ms,gap=3ms,count=9".parse().expect("events");
    (Plan { stream, ..plan }, ServerBehavior { sse: Some(events), ..ServerBehavior::default() })
}

/// A random load of each kind with constant times, and the server for it.
fn loads(rng: &mut Rng) -> Vec<(&'static str, Plan, ServerBehavior)> {
    let c = rng.between(1, 12) as u32;
    let n = if rng.chance(0.3) { rng.between(1, 20) } else { rng.between(20, 150) };
    let depth = rng.between(2, 5) as u32;
    let clients =
        Clients { starts: None, pace: Pace::Free, lifetime: None, ends_on_timeout: false };
    let clients = Some(Box::new(clients));
    let plain = |what, plan| (what, plan, constant());
    let (closed_streams, sse) = streams(users(c, Think::None, n));
    let (open_streams, _) = streams(limited(c, n));
    let calls = websocket(users(c, Think::None, n), Some(schedule(200.0, 9)), None);
    let mut started = users(c, Think::None, n);
    started.ramp_up = Some(ms(30));
    vec![
        plain("a closed loop", users(c, Think::None, n)),
        plain("think times", users(c, Think::Fixed(ms(15)), n)),
        plain("a ramp", started),
        plain("pipelines", Plan { pipeline: depth, ..users(c, Think::None, n) }),
        plain("streams of HTTP/2", http2(users(c, Think::None, n), c, depth)),
        plain("clients", Plan { clients, ..users(c, Think::None, n.max(c.into())) }),
        ("streams of events", closed_streams, sse.clone()),
        ("streams that arrive", open_streams, sse),
        ("WebSocket", calls, echo(Latency::Fixed(ms(2)))),
        plain("sessions", with_sessions(by_count(closed(c, Think::None, ms(1)), None, Some(n)))),
        plain("sessions and requests", with_sessions(users(c, Think::Fixed(ms(5)), n))),
        plain("an open loop", limited(c, n)),
        plain("sessions that arrive", {
            with_sessions(by_count(limited(4 * c, n), None, Some(n)))
        }),
    ]
}

/// Loads in which a user takes several requests together: one who takes the last ones leaves
/// another without, and with several shares this may be one of another share. The lengths differ by
/// the time of these.
const TOGETHER: [&str; 2] = ["pipelines", "sessions and requests"];

/// What must not depend on the number of shares.
fn counts(outcome: &Outcome) -> Vec<(&'static str, u64)> {
    let t = outcome.main();
    let sessions = t.sessions.as_deref().map_or(0, |sessions| sessions.completed);
    let received = t.stream_messages.as_deref().map_or(0, |messages| messages.received);
    vec![
        ("started", t.started),
        ("replies", t.replies),
        ("failed", t.failed),
        ("sessions", sessions),
        ("messages", received),
    ]
}

#[test]
fn loads_of_constant_times_are_the_same_in_any_number_of_shares() {
    for seed in seeds(30) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 120);
        for (what, plan, behavior) in loads(&mut rng) {
            plan.check().expect(what);
            let single = run(&plan, 1, &behavior);
            let alone = single.main();
            let most = plan.shards_max().min(7);
            for shares in 2..=most {
                let several = run(&plan, shares, &behavior);
                let slack = if TOGETHER.contains(&what) { SERVICE * 3 } else { CONNECT };
                let what = format!("{what}, {:?}, {:?}, {shares} shares", plan.load, plan.stop);
                let all = several.main();
                if slack == CONNECT {
                    assert_eq!(counts(&several), counts(&single), "{what}");
                }
                // A request of an open loop takes any connection that is idle.
                if slack == CONNECT && matches!(plan.load, Load::Closed { .. }) {
                    assert_eq!(all.connected, alone.connected, "{what}");
                }
                assert_eq!((all.started, all.failed), (alone.started, alone.failed), "{what}");
                let (one, many) = (alone.window(), all.window());
                let differs = many.max(one) - many.min(one);
                assert!(differs <= slack, "{what}: {many} for {one}");
                // The time in flight is that of the requests, so the concurrency is in the
                // proportion of the lengths.
                let in_flight = |t: &Tally| t.concurrency() * t.window().as_secs_f64();
                let (one, many) = (in_flight(&alone), in_flight(&all));
                assert!((one - many).abs() <= 0.05 * one, "{what}: {many} s in flight for {one}");
                let longest = [&alone, &all].map(|t| t.times.response.max().unwrap_or_default());
                assert!(longest[1] <= longest[0] + CONNECT, "{what}: {longest:?}");
            }
        }
    }
}

/// Three users, 60 requests of 300 ms: 6 s and 10/s, and not 9 s and 6.66/s on two threads.
#[test]
fn three_users_on_two_threads_make_ten_requests_per_second() {
    let behavior = ServerBehavior { latency: Latency::Fixed(ms(300)), ..ServerBehavior::default() };
    for (connections, requests) in [(3, 60), (5, 100)] {
        let plan = users(connections, Think::None, requests);
        for shares in 1..=connections {
            let t = run(&plan, shares, &behavior).main();
            let rate = f64::from(connections) / 0.3;
            assert!((t.rate() / rate - 1.0).abs() < 0.01, "{shares} shares: {}/s", t.rate());
            let in_flight = t.concurrency();
            assert!((in_flight - f64::from(connections)).abs() < 0.02, "{in_flight} in flight");
        }
    }
}

/// The shards of two hosts with different numbers of threads are one run, too.
#[test]
fn hosts_with_different_numbers_of_threads_make_the_whole_load() {
    for (connections, requests) in [(3, 60), (5, 101), (7, 93), (9, 4), (12, 1_000)] {
        let plan = users(connections, Think::None, requests);
        let single = run(&plan, 1, &constant()).main();
        let hosts = [(0, 1), (1, 3)].map(|(index, threads)| {
            let share = plan.shard(index, 2);
            let threads = threads.min(share.shards_max());
            run(&share, threads, &constant()).main()
        });
        assert_eq!(hosts.iter().map(|t| t.started).sum::<u64>(), requests);
        let length = hosts.iter().map(|t| t.window()).max().unwrap_or_default();
        let one = single.window();
        assert!(length.max(one) - length.min(one) <= CONNECT, "{length} for {one}");
    }
}

/// Response times that vary: each share lasts at most as long as its response times take its users,
/// and one more response. (`docs/terms.md` gives this bound.)
#[test]
fn times_that_vary_lengthen_a_run_within_the_stated_bound() {
    for seed in 0..40 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 121);
        let latency = Latency::Exponential(SERVICE);
        let behavior = ServerBehavior { latency, ..ServerBehavior::default() };
        let (connections, n) = (rng.between(2, 9) as u32, rng.between(1, 400));
        let plan = users(connections, Think::None, n);
        for shares in 1..=plan.shards_max() {
            let outcome = run(&plan, shares, &behavior);
            assert_eq!(outcome.main().replies, n);
            for (index, (_, t)) in outcome.tallies.iter().enumerate() {
                let users = plan.shard(index as u32, shares).connections_max();
                let Some(longest) = t.times.response.max() else { continue };
                let busy = Span(t.times.response.sum_ns() as u64 / users);
                let length = t.window();
                assert!(length <= busy + longest + CONNECT, "{length}: {busy}, {longest}");
            }
        }
    }
}
