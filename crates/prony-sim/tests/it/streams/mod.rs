//! What the engine promises to carriers of streams, held by a small one ([`carrier`]) against a
//! server whose truth is known ([`server`]): the properties that hold for HTTP/1 hold here too.

mod carrier;
mod server;

use prony_core::plan::{Load, Placement, Plan, Stop, Think};
use prony_core::record::Tally;
use prony_core::schedule::{Arrivals, Schedule};
use prony_core::units::{Nanos, Span};
use prony_sim::dice::Dice;
use prony_sim::link::Link;
use prony_sim::oracle::differs;
use prony_sim::world::Setup;
use prony_sim::{Outcome, load_over};

use crate::plans::{Seed, assert_conserved, closed, ms, open};
use carrier::Streams;
use server::{Account, Loom, Manner};

/// An open loop over at most this number of connections, with this number of streams on each.
fn spread(rate: f64, requests: u64, connections: u32, streams: u32) -> Plan {
    let mut plan = open(rate, Arrivals::Fixed, requests);
    if let Load::Open { connections: cap, .. } = &mut plan.load {
        *cap = connections;
    }
    plan.pipeline = streams;
    plan
}

fn run(plan: &Plan, shares: u32, setup: &Setup, manner: Manner) -> (Outcome, Account) {
    let ping = manner.ping.map(|every| Span(every.0 / 2 + 1));
    let mut server = Loom::new(manner, setup.seed);
    let make = |plan: &Plan| Streams::new(plan, ping);
    let outcome = load_over(plan, shares, setup, &mut [&mut server], make);
    assert_conserved(&outcome, &format!("seed {}", setup.seed));
    (outcome, server.account)
}

fn calm(seed: u64) -> Setup {
    Setup { watch: false, ..Setup::new(Link::default(), seed) }
}

fn response_times(plan: &Plan, of: impl Fn(Nanos) -> Nanos) -> Vec<u64> {
    let mut schedule = Schedule::new(plan);
    let arrivals = std::iter::from_fn(|| schedule.pop()).map(|arrival| arrival.at);
    arrivals.map(|at| of(at).since(at).0).collect()
}

/// P2: all who arrive in a freeze of the server wait for its end, on one connection or on many.
#[test]
fn p02_streams_feel_a_freeze_from_their_intended_start() {
    let freeze = (Nanos(400_000_000), ms(500));
    for connections in [1, 7] {
        let plan = spread(1_000.0, 1_500, connections, 10_000);
        let manner = Manner { freeze: Some(freeze), ..Manner::default() };
        let (outcome, account) = run(&plan, 1, &calm(1), manner);
        let thaws = freeze.0 + freeze.1;
        let expected = response_times(&plan, |at| {
            let done = at + ms(1);
            if done >= freeze.0 && done < thaws { thaws } else { done }
        });
        let main = outcome.main();
        assert_eq!(differs("response", &main.times.response, &expected), None);
        assert_eq!((main.replies, account.connections), (1_500, u64::from(connections)));
        assert!(main.times.stream_wait.is_empty() && main.times.lag.sum_ns() == 0);
    }
}

/// P10: what several shares have counted is, merged, what one would have counted.
#[test]
fn p10_shares_of_streams_merge_to_the_whole() {
    let plan = spread(2_000.0, 1_000, 6, 10_000);
    let manner = Manner { freeze: Some((Nanos(100_000_000), ms(50))), ..Manner::default() };
    let (one, _) = run(&plan, 1, &calm(3), manner.clone());
    let (three, _) = run(&plan, 3, &calm(3), manner);
    let (one, three) = (one.main(), three.main());
    assert_eq!(one.times.response, three.times.response);
    assert_eq!(one.times.service, three.times.service);
    assert_eq!((one.replies, one.started), (three.replies, three.started));
}

/// P15: a stream that is never answered is a latency of at least the timeout. It takes nobody with
/// it: its neighbours are answered, on the same connection, and the server hears of it.
#[test]
fn p15_a_stream_without_an_answer_times_out_alone() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut plan = spread(500.0, 400, 3, 10_000);
        plan.timeout = ms(80);
        plan.seed = seed;
        let manner = Manner { silent: 0.1, ..Manner::default() };
        let (outcome, account) = run(&plan, 1, &calm(seed), manner);
        let main = outcome.main();
        assert!(account.silent > 10);
        assert_eq!((main.failed, main.replies), (account.silent, account.answered));
        assert_eq!(account.connections, 3, "a timeout ends no connection");
        let times = &main.times.response;
        assert_eq!(times.count(), main.replies + account.silent);
        assert_eq!(times.max(), Some(ms(80)));
        assert_eq!(main.times.service.count(), times.count());
        // The cancels of the last ones may come when the client is gone.
        assert!(account.cancelled <= account.silent && account.cancelled + 40 >= account.silent);
    }
}

/// With a limit of the peer's, what lies between the two clocks is the wait for a stream.
#[test]
fn a_limit_of_streams_is_a_wait_of_its_own() {
    // Ten at once want one of two streams of 10 ms each: pairs wait 0, 10, 20, 30 and 40 ms. When
    // they come back, each after its pause, they come in pairs and wait no more.
    let mut plan = closed(1, Think::Fixed(ms(1_000)), ms(1));
    plan.stop = Stop { requests: Some(20), ..Stop::default() };
    plan.pipeline = 10;
    let manner = Manner { service: ms(10), limits: vec![2], ..Manner::default() };
    let (outcome, account) = run(&plan, 1, &calm(1), manner);
    let times = &outcome.main().times;
    assert_eq!(account.most, 2);
    let waits: Vec<u64> = (0..8).map(|i| ms(10 * (i / 2 + 1)).0).collect();
    assert_eq!(differs("stream wait", &times.stream_wait, &waits), None);
    assert_eq!(differs("service", &times.service, &[ms(10).0; 20]), None);
    assert_eq!(times.queue.count() + times.lag.max().map_or(0, |max| max.0), 0);
}

/// In worlds in which the limit rises and falls while requests wait, both clocks differ by the
/// waits that have a name, to the nanosecond.
#[test]
fn what_lies_between_the_clocks_has_a_name() {
    for seed in 0..200 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 31);
        let mut plan = spread(2_000.0, 300, dice.between(1, 4) as u32, dice.between(1, 12) as u32);
        plan.seed = seed;
        plan.timeout = Span::from_secs(1_000);
        if dice.chance(0.5) {
            plan.placement = Placement::Fill;
        }
        let limits: Vec<u32> = (0..6).map(|_| dice.between(1, 9) as u32).collect();
        let most = *limits.iter().max().unwrap() as usize;
        let service = Span(dice.below(8_000_000));
        let manner =
            Manner { service, limits, jitter: Span(dice.below(1_000_000)), ..Manner::default() };
        let setup = Setup { late: Span(dice.below(2) * dice.below(300_000)), ..calm(seed) };
        let (outcome, account) = run(&plan, 1, &setup, manner);
        let (main, times) = (outcome.main(), outcome.main().times);
        assert_eq!(main.replies, 300, "seed {seed}");
        assert!(account.most <= most.min(plan.pipeline as usize), "seed {seed}: {account:?}");
        let between = times.response.sum_ns() - times.service.sum_ns();
        let named = times.queue.sum_ns() + times.stream_wait.sum_ns() + times.lag.sum_ns();
        assert_eq!(between, named, "seed {seed}");
    }
}

/// Bodies that are longer than the window: what is held back is a wait, and part of the service.
#[test]
fn a_window_is_a_wait_of_its_own() {
    let mut plan = closed(1, Think::None, ms(1));
    plan.stop = Stop { requests: Some(10), ..Stop::default() };
    let mut calls = plan.calls.to_vec();
    (calls[0].method, calls[0].body) = ("POST".into(), vec![b'x'; 2_500]);
    plan.calls = calls.into();
    // 1,000 bytes at a time, each acknowledged after 5 ms: two waits, then 1 ms of service.
    let manner = Manner { window: 1_000, window_takes: ms(5), ..Manner::default() };
    let (outcome, account) = run(&plan, 1, &calm(1), manner);
    let times = &outcome.main().times;
    assert_eq!((account.body, account.answered), (25_000, 10));
    // The next request finds 500 bytes acknowledged 1 ms before their time, and half a window.
    assert_eq!(times.flow_wait.count(), 10);
    assert!(times.flow_wait.min() >= Some(ms(9)), "{:?}", times.flow_wait.min());
    assert_eq!(times.service.sum_ns(), times.flow_wait.sum_ns() + 10 * u128::from(ms(1).0));
}

/// A connection that drains keeps what it has; what comes later, and what was refused, goes to
/// another with its intended start.
#[test]
fn a_drain_moves_what_was_not_begun() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 32);
        let mut plan = match dice.chance(0.5) {
            true => spread(3_000.0, 300, 2, 8),
            false => {
                let mut plan = closed(2, Think::None, ms(1));
                plan.stop = Stop { requests: Some(300), ..Stop::default() };
                plan.pipeline = 8;
                plan
            }
        };
        plan.seed = seed;
        let after = dice.between(1, 40) as u32;
        let jitter = Span(dice.below(2_000_000));
        let manner = Manner { drains_after: Some(after), jitter, ..Manner::default() };
        let (outcome, account) = run(&plan, 1, &calm(seed), manner);
        let main = outcome.main();
        assert_eq!((main.replies, main.failed), (300, 0), "seed {seed}");
        assert_eq!((account.answered, main.retries), (300, account.refused), "seed {seed}");
        assert!(account.drained >= 300 / u64::from(after) / 2, "seed {seed}: {account:?}");
    }
}

/// Pings of both sides are answered, and cost no request anything.
#[test]
fn both_sides_ping() {
    let mut plan = spread(100.0, 100, 1, 100);
    plan.timeout = ms(100);
    let manner = Manner { ping: Some(ms(20)), ..Manner::default() };
    let (outcome, account) = run(&plan, 1, &calm(1), manner);
    let main = outcome.main();
    assert_eq!((main.replies, main.times.response.max()), (100, Some(ms(1))));
    // For 991 ms, each 20 ms and 10 ms.
    assert!((48..=51).contains(&account.pinged), "{account:?}");
    assert!((96..=100).contains(&account.pings), "{account:?}");
    assert!(account.pinged - account.pongs <= 1, "{account:?}");
}

/// A full connection before the next one, or all alike.
#[test]
fn requests_spread_over_connections_or_fill_them() {
    let streams = |placement| {
        let mut plan = spread(10_000.0, 1_000, 4, 100);
        plan.placement = placement;
        let (_, mut account) =
            run(&plan, 1, &calm(1), Manner { service: ms(5), ..Manner::default() });
        account.streams.sort_unstable();
        account.streams
    };
    let spread = streams(Placement::Spread);
    assert!(spread.iter().all(|n| (200..=300).contains(n)), "{spread:?}");
    let filled = streams(Placement::Fill);
    assert_eq!(filled, [1_000]);
}

/// P4: whatever the peer and the network do, every request is counted once.
#[test]
fn p04_sums_hold_for_streams_whatever_breaks() {
    let mut seen = Tally::default();
    for seed in 0..600 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 33);
        let (plan, manner) = (some_plan(&mut dice), some_manner(&mut dice));
        let mut link = Link::rough(&mut dice);
        if dice.chance(0.3) {
            (link.reset, link.half_close) = (0.01, 0.01);
        }
        let setup = Setup {
            watch: false,
            late: Span(dice.below(2) * dice.below(500_000)),
            ..Setup::new(link.clone(), seed)
        };
        let breaks = link.reset > 0.0 || link.connect != Link::default().connect;
        let shares = dice.between(1, u64::from(plan.shards_max().min(3))) as u32;
        let (outcome, account) = run(&plan, shares, &setup, manner.clone());
        let main = outcome.main();
        assert_eq!(main.unfinished, 0, "seed {seed}");
        if !breaks {
            // A reply may cross its cancel.
            assert!(account.answered >= main.replies, "seed {seed}: {account:?}");
            assert!(main.failed >= account.failed, "seed {seed}: {account:?}");
            // What crosses the end of a connection that drains goes out again, or fails with it.
            let crosses = manner.drains_after.is_some();
            if manner.silent == 0.0 && plan.timeout > Span::from_secs(10) && !crosses {
                assert_eq!(account.answered, main.replies, "seed {seed}");
                assert_eq!(account.failed, main.failed, "seed {seed}");
                assert_eq!(account.refused, main.retries, "seed {seed}");
                assert_eq!(account.opened, main.started + main.retries, "seed {seed}");
            }
        }
        seen.merge(&main);
    }
    let some = [seen.replies, seen.failed, seen.retries, seen.times.stream_wait.count()];
    assert!(some.iter().all(|&n| n > 1_000), "the worlds were too kind: {some:?}");
    assert!(seen.times.flow_wait.count() > 100);
}

fn some_plan(dice: &mut Dice) -> Plan {
    let requests = dice.between(1, 80);
    let mut plan = if dice.chance(0.5) {
        spread(100.0 + dice.unit() * 10_000.0, requests, dice.between(1, 6) as u32, 1)
    } else {
        let mut plan = closed(dice.between(1, 4) as u32, Think::None, ms(1));
        plan.stop = Stop { requests: Some(requests), ..Stop::default() };
        plan
    };
    plan.pipeline = dice.between(1, 12) as u32;
    plan.seed = dice.bits();
    plan.timeout = if dice.chance(0.5) { ms(200) } else { Span::from_secs(1_000) };
    plan.connect_timeout = Span::from_secs(5);
    if dice.chance(0.3) {
        plan.placement = Placement::Fill;
    }
    if dice.chance(0.5) {
        let mut calls = plan.calls.to_vec();
        let length = dice.between(1, 3_000) as usize;
        (calls[0].method, calls[0].body) = ("POST".into(), vec![b'x'; length]);
        plan.calls = calls.into();
    }
    plan
}

fn some_manner(dice: &mut Dice) -> Manner {
    let mut odds = |p: f64, most: f64| if dice.chance(p) { dice.unit() * most } else { 0.0 };
    let (refuses, fails, silent) = (odds(0.3, 0.3), odds(0.3, 0.3), odds(0.2, 0.2));
    Manner {
        service: Span(dice.below(5_000_000)),
        jitter: Span(dice.below(3_000_000)),
        pieces: dice.between(1, 4) as u32,
        freeze: dice.chance(0.2).then(|| (Nanos(dice.below(50_000_000)), ms(dice.below(100)))),
        limits: (0..dice.between(1, 8)).map(|_| dice.between(1, 10) as u32).collect(),
        limit_for: Span(dice.below(30_000_000)),
        window: if dice.chance(0.5) { u32::MAX } else { dice.between(1, 4_000) as u32 },
        window_takes: Span(dice.below(2_000_000)),
        refuses,
        fails,
        silent,
        drains_after: dice.chance(0.3).then(|| dice.between(1, 30) as u32),
        ping: dice.chance(0.3).then(|| ms(dice.between(1, 50))),
    }
}

/// What comes in pieces of any size means the same as what comes whole.
#[test]
fn any_split_of_the_bytes_means_the_same() {
    for seed in 0..100 {
        let _case = Seed(seed);
        let mut dice = Dice::new(seed, 34);
        let mut plan = closed(1, Think::None, ms(1));
        plan.stop = Stop { requests: Some(100), ..Stop::default() };
        (plan.pipeline, plan.seed) = (6, seed);
        let manner = Manner { pieces: 3, limits: vec![3, 6, 2, 5], ..Manner::default() };
        let counts = |link: Link| {
            let setup = Setup { watch: false, ..Setup::new(link, seed) };
            let (outcome, account) = run(&plan, 1, &setup, manner.clone());
            let t = outcome.main();
            (t.started, t.replies, t.failed, t.bytes_body, t.bytes_head, account.answered)
        };
        let cut = Link {
            segment: Some(dice.between(1, 9) as usize),
            write: Some(dice.between(1, 9) as usize),
            ..Link::default()
        };
        assert_eq!(counts(Link::default()), counts(cut), "seed {seed}");
    }
}
