//! Broadcasts over WebSocket: times by arithmetic, and a server whose mistakes are known.

use prony_base::machine::StopRequest;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{BroadcastPlan, Expect, MessagePlan, Plan, Stop, Think, WebSocketPlan};
use prony_server::serve::{
    BroadcastFaults, Latency, Serve, Served, ServerBehavior, Share, SocketBehavior, Stall, Stalls,
};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::{Broadcast, Tally};

use crate::faults::random_setup;
use crate::plans::{Seed, assert_invariants, closed, has_all_seeds, ms, seeds};

/// A schedule of `count` messages for each of `publishers` among `connections`.
pub(crate) fn broadcast(
    connections: u32,
    publishers: u32,
    rate: f64,
    count: u64,
    after: Span,
) -> Plan {
    let plan = closed(connections, Think::None, ms(1));
    let mut calls = plan.calls.to_vec();
    for call in &mut calls {
        call.body = b"{\"text\":\"{{stamp}}\",\"more\":\"some more text\"}".to_vec();
    }
    let spec = BroadcastPlan { publishers, after, wait: Span::from_secs(2), process: 0 };
    let plan = Plan {
        calls: calls.into(),
        stop: Stop { requests: Some(connections.into()), ..Stop::default() },
        websocket: Some(Box::new(WebSocketPlan {
            broadcast: Some(Box::new(spec)),
            ..WebSocketPlan::default()
        })),
        messages: Some(Box::new(MessagePlan::fixed(rate, Some(count), None))),
        expect: Expect { statuses: vec![(1000, 1000)], ..Expect::default() },
        requests_per_connection: Some(1),
        timeout: Span::from_secs(600),
        ..plan
    };
    plan.check().expect("a valid plan");
    plan
}

fn server(latency: Latency, faults: BroadcastFaults) -> ServerBehavior {
    let ws = Some(SocketBehavior::Broadcast(faults));
    ServerBehavior { latency, ws, ..ServerBehavior::default() }
}

fn run(plan: &Plan, link: Link, behavior: ServerBehavior) -> (Tally, Broadcast, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link, 5), &mut [&mut serve]);
    assert_invariants(&outcome, "broadcast");
    let t = outcome.main();
    let all = *t.broadcast.clone().expect("a broadcast");
    (t, all, serve.served().clone())
}

/// A message takes 0.5 ms to the server, 2 ms there, and 0.5 ms to each subscriber.
#[test]
fn every_message_reaches_every_subscriber_at_a_known_time() {
    let plan = broadcast(20, 3, 10.0, 50, Span::from_secs(1));
    let link = Link::with_latency(Span::from_micros(500));
    let behavior = server(Latency::Fixed(ms(2)), BroadcastFaults::default());
    let (t, all, served) = run(&plan, link, behavior);
    assert_eq!((t.replies, t.failed, t.connects), (20, 0, 20), "{:?}", t.faults);
    assert_eq!(t.statuses.iter().collect::<Vec<_>>(), [(&1000, &20)]);
    assert_eq!((all.subscribers, all.published), (17, 150));
    assert_eq!((all.expected, all.delivered, all.complete), (150 * 17, 150 * 17, 150));
    assert_eq!((all.reordered, all.duplicates, all.unstamped), (0, 0, 0));
    assert_eq!(all.reach(), Some(1.0));
    assert_eq!((all.delivery.min(), all.delivery.max()), (Some(ms(3)), Some(ms(3))));
    assert_eq!((all.delivery.count(), all.spread.count()), (150 * 17, 150));
    assert_eq!(all.spread.max(), Some(Span::ZERO));
    // Publishers receive what the others send, which is not measured, until they have sent their
    // last message.
    assert_eq!(served.socket_messages_received, 150);
    assert_eq!(served.socket_messages_sent, 150 * 17 + 147 * 2);
    let counts = t.stream_messages.as_deref().expect("messages");
    assert_eq!((counts.sent, counts.awaited, counts.received), (150, 0, 150 * 17 + 147 * 2));
    assert_eq!(t.times.message_lag.max(), Some(Span::ZERO));
    // They stay for the schedule and the wait, and then for the round trip of the close.
    let stay = Span::from_secs(1) + ms(4_900) + Span::from_secs(2) + ms(1);
    assert_eq!(t.times.response.max(), Some(stay));
}

/// When the user ends the load, publishers stop, and subscribers stay for their wait: all messages
/// that were sent count, and have reached everyone.
#[test]
fn the_end_of_the_load_ends_a_broadcast() {
    let plan = broadcast(20, 3, 10.0, 5_000, Span::from_secs(1));
    // Before the first message, and after 21 of each publisher.
    for (stop, published) in [(500, 0), (3_050, 3 * 21)] {
        let mut setup = Setup::new(Link::with_latency(Span::from_micros(500)), 5);
        setup.stops = vec![(Nanos::ZERO + ms(stop), StopRequest::Drain)];
        let mut serve = Serve::new(server(Latency::Fixed(ms(2)), BroadcastFaults::default()), 5);
        let outcome = load(&plan, 1, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "the end of a broadcast");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.unfinished), (20, 0, 0), "{:?}", t.faults);
        let all = t.broadcast.as_deref().expect("a broadcast");
        assert_eq!((all.subscribers, all.published), (17, published));
        assert_eq!((all.expected, all.delivered), (published * 17, published * 17));
        assert_eq!(all.complete, published);
        assert_eq!(t.times.response.max(), Some(ms(stop) + Span::from_secs(2) + ms(1)));
        assert_eq!(serve.served().socket_messages_received, published);
    }
}

/// Without a wait, the first message is due before any connection is open: its delivery counts from
/// then. A server that freezes delays what is due in its freeze.
#[test]
fn deliveries_count_from_the_time_when_a_message_is_due() {
    let link = || Link::with_latency(Span::from_micros(500));
    let plan = broadcast(5, 1, 10.0, 1, Span::ZERO);
    let (t, all, _) = run(&plan, link(), server(Latency::None, BroadcastFaults::default()));
    // Connect, handshake, and the way to the subscribers.
    assert_eq!((all.expected, all.delivered), (4, 4));
    assert_eq!((all.delivery.min(), all.delivery.max()), (Some(ms(3)), Some(ms(3))));
    assert_eq!(t.times.message_lag.max(), Some(ms(2)));

    let freeze = ms(500);
    let behavior = ServerBehavior {
        stalls: Stalls(vec![Stall::Once { length: freeze, at: ms(1_000) }]),
        ..server(Latency::Fixed(Span::ZERO), BroadcastFaults::default())
    };
    let plan = broadcast(3, 1, 100.0, 300, Span::ZERO);
    let (_, all, _) = run(&plan, Link::with_latency(Span::ZERO), behavior);
    assert_eq!((all.expected, all.delivered, all.delivery.count()), (600, 600, 600));
    let expected: u64 = (0..50).map(|k| (freeze - ms(10 * k)).0).sum();
    let sum = all.delivery.sum_ns();
    assert!(sum.abs_diff(2 * u128::from(expected)) <= 600, "{sum} {expected}");
}

/// A broadcast of `shares` workers by a server that makes mistakes.
pub(crate) fn with_mistakes(seed: u64, shares: u32) -> (Outcome, Served) {
    let mut rng = Rng::new(seed, 160);
    let faults = BroadcastFaults { lose: Share(0.05), duplicate: Share(0.03), swap: Share(0.04) };
    let plan = broadcast(rng.between(8, 20) as u32, 3, 50.0, 100, ms(rng.between(0, 100)));
    let plan = Plan { seed, ..plan };
    let mut setup = Setup::new(Link::rough(&mut rng), seed);
    setup.link.window = setup.link.window.map(|w| w.max(4_096));
    setup.link.rate = None;
    let mut serve = Serve::new(server(Latency::Exponential(ms(1)), faults), seed);
    let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
    assert_invariants(&outcome, "broadcast");
    let served = serve.served().clone();
    (outcome, served)
}

/// However bytes are split and workers share the connections: prony counts the mistakes that the
/// server has made. Deliveries to publishers are mistaken, too, but are not measured.
#[test]
fn mistakes_of_the_server_are_counted_exactly() {
    let mut found = [0; 3];
    for seed in seeds(60) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 161);
        let (outcome, _) = with_mistakes(seed, rng.between(1, 3) as u32);
        let t = outcome.main();
        assert_eq!((t.failed, t.unfinished), (0, 0), "{:?}", t.faults);
        let all = t.broadcast.as_deref().expect("a broadcast");
        assert_eq!((all.published, all.unstamped, all.subscribers), (300, 0, t.replies - 3));
        assert_eq!(all.delivery.count(), all.delivered);
        found[0] += all.expected - all.delivered;
        found[1] += all.duplicates;
        found[2] += all.reordered;
    }
    assert!(!has_all_seeds() || found.iter().all(|&n| n > 1_000), "{found:?}");
    // With one publisher, all mistakes are about subscribers.
    for seed in seeds(30) {
        let _case = Seed(seed);
        let share = |k: u64| Share(if seed % 3 == k { 0.2 } else { 0.01 });
        let faults = BroadcastFaults { lose: share(0), duplicate: share(1), swap: share(2) };
        let plan = Plan { seed, ..broadcast(9, 1, 200.0, 200, ms(20)) };
        let mut serve = Serve::new(server(Latency::Fixed(ms(1)), faults), seed);
        let setup = Setup::new(Link::with_latency(ms(1)), seed);
        let outcome = load(&plan, 1 + (seed % 4) as u32, &setup, &mut [&mut serve]);
        let (t, served) = (outcome.main(), serve.served());
        let all = t.broadcast.as_deref().expect("a broadcast");
        assert_eq!(all.expected, 200 * 8);
        assert_eq!(all.expected - all.delivered, served.deliveries_lost);
        assert_eq!(all.duplicates, served.deliveries_duplicated);
        assert_eq!(all.reordered, served.deliveries_swapped);
        assert!(served.deliveries_lost > 0 && served.deliveries_swapped > 0);
    }
}

/// Links with jitter: the spread of each message is that of its deliveries.
#[test]
fn a_correct_server_has_a_reach_of_one_over_every_link() {
    for seed in seeds(60) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 162);
        let (n, publishers) = (rng.between(4, 30) as u32, rng.between(1, 3) as u32);
        let plan = Plan { seed, ..broadcast(n, publishers, 100.0, 40, ms(rng.between(0, 50))) };
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.window = setup.link.window.map(|w| w.max(4_096));
        setup.link.rate = None;
        let mut plan = plan;
        if let Some(spec) = plan.websocket.as_deref_mut() {
            spec.compress = seed % 3 == 0;
        }
        let behavior = ServerBehavior {
            ws_compress: seed % 2 == 0 || seed % 3 == 0,
            ..server(Latency::Exponential(Span::from_micros(500)), BroadcastFaults::default())
        };
        let mut serve = Serve::new(behavior, seed);
        let shares = rng.between(1, 4) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "broadcast");
        let t = outcome.main();
        let all = t.broadcast.as_deref().expect("a broadcast");
        assert_eq!((t.failed, all.published), (0, u64::from(publishers) * 40));
        assert_eq!((all.reach(), all.complete), (Some(1.0), all.published));
        assert_eq!((all.reordered, all.duplicates, all.unstamped), (0, 0, 0));
        let (spread, delivery) = (all.spread.max(), all.delivery.max());
        assert!(spread <= delivery, "{spread:?} {delivery:?}");
    }
}

/// Links that break: what is counted stays consistent.
#[test]
fn broken_links_break_no_invariant_of_broadcasts() {
    let (mut failed, mut missing) = (0, 0);
    for seed in seeds(100) {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 163);
        let plan = broadcast(rng.between(3, 12) as u32, 2, 50.0, 60, ms(100));
        let plan = Plan { seed, timeout: Span::from_secs(6), ..plan };
        let setup = random_setup(&mut rng, seed);
        let mut serve = Serve::new(server(Latency::None, BroadcastFaults::default()), seed);
        let shares = rng.between(1, 3) as u32;
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "broken broadcast");
        let t = outcome.main();
        failed += t.failed;
        let Some(all) = t.broadcast.as_deref() else { continue };
        assert!(all.delivered <= all.expected && all.complete <= all.published);
        assert_eq!((all.reordered, all.duplicates, all.unstamped), (0, 0, 0));
        missing += all.expected - all.delivered;
    }
    assert!(!has_all_seeds() || failed > 50 && missing > 50, "{failed} {missing}");
}
