//! P20: what limited a run, where the truth is known: the rate, the connections and the pipelines
//! were chosen, and the server has as many places as it was given.

use prony_core::plan::{Load, Plan, Stop, Think};
use prony_core::schedule::Arrivals;
use prony_core::summary::{Bound, Queued, RunInfo};
use prony_core::units::Span;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::plant::{Law, Server, Station};
use prony_sim::world::{Held, Setup};

use crate::plans::{Seed, assert_conserved, at, closed, ms, open, summed};

const LENGTH: Span = Span::from_secs(30);
const SEEDS: u64 = 3;

/// Service times of about 10 ms of every kind.
const LAWS: [Law; 6] = [
    Law::Fixed(Span::from_millis(10)),
    Law::Exponential(Span::from_millis(10)),
    Law::Uniform(Span::from_millis(2), Span::from_millis(18)),
    Law::Uniform(Span::from_millis(8), Span::from_millis(12)),
    Law::Pareto(Span::from_millis(5), 2.2),
    Law::Bimodal(Span::from_millis(5), Span::from_millis(60), 0.1),
];

fn bound(
    plan: &Plan,
    station: Station,
    seed: u64,
    change: impl FnOnce(&mut Setup),
) -> Option<Bound> {
    plan.check().expect("a valid plan");
    let link = Link { jitter: Span(100_000), ..Link::with_latency(Span(50_000)) };
    let mut setup = Setup { watch: false, ..Setup::new(link, seed) };
    change(&mut setup);
    let outcome = load(plan, 1 + (seed % 2) as u32, &setup, &mut [&mut Server::new(station)]);
    assert_conserved(&outcome, "bounds");
    let summary = summed(plan, RunInfo::default(), outcome);
    summary.bound(&summary.verdict())
}

/// Each law, each seed, and a warm-up now and then: `check` is told what limited the run.
fn each(plan: &Plan, servers: Option<usize>, check: impl Fn(Option<Bound>) -> bool) {
    each_of(&LAWS, plan, servers, check);
}

fn each_of(
    laws: &[Law],
    plan: &Plan,
    servers: Option<usize>,
    check: impl Fn(Option<Bound>) -> bool,
) {
    for &law in laws {
        for seed in 0..SEEDS {
            let _seed = Seed(seed);
            let warmup = if seed % 3 == 2 { ms(1_500) } else { Span::ZERO };
            let plan = Plan { warmup, seed, ..plan.clone() };
            let station = Station::new(law, seed);
            let station = servers.into_iter().fold(station, Station::servers);
            let bound = bound(&plan, station, seed, |_| {});
            assert!(check(bound), "{law:?}, seed {seed}: {bound:?}");
        }
    }
}

fn open_for(rate: f64, connections: u32) -> Plan {
    let mut plan = open(rate, Arrivals::Poisson, 1);
    plan.stop = Stop { duration: Some(LENGTH), ..Stop::default() };
    plan.timeout = Span::from_secs(300);
    let Load::Open { connections: cap, .. } = &mut plan.load else { unreachable!("it is open") };
    *cap = connections;
    plan
}

/// Of 30 s the server stands still for 2: 120 requests wait, for 1 s on average.
#[test]
fn p20_a_target_that_freezes_has_not_kept_up() {
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        let plan = Plan { seed, ..open_for(60.0, 1 << 20) };
        let steady = || Station::new(Law::Fixed(ms(1)), seed);
        let kept_up = Some(Bound::AskedRate { failed: None, waiting: None });
        assert_eq!(bound(&plan, steady(), seed, |_| {}), kept_up);
        let frozen = steady().freezes(vec![(at(10_000), Span::from_secs(2))]);
        let bound = bound(&plan, frozen, seed, |_| {});
        let Some(Bound::AskedRate { failed: None, waiting: Some(waiting) }) = bound else {
            panic!("seed {seed}: {bound:?}");
        };
        assert!((ms(1_800)..ms(2_010)).contains(&waiting.longest), "{waiting:?}");
        assert!((3.0..5.2).contains(&waiting.concurrency), "{waiting:?}");
    }
}

#[test]
fn p20_an_open_loop_is_limited_by_the_asked_rate() {
    each(&open_for(60.0, 1 << 20), None, |b| {
        matches!(b, Some(Bound::AskedRate { failed: None, .. }))
    });
}

/// Five connections carry about 500 a second, and the server would do any number.
#[test]
fn p20_an_open_loop_is_limited_by_its_cap() {
    each(&open_for(1_500.0, 5), None, |b| b == Some(Bound::Cap { connections: 5 }));
}

/// One place for about 100 a second.
#[test]
fn p20_an_open_loop_is_limited_by_the_server() {
    each(&open_for(250.0, 1 << 20), Some(1), |b| matches!(b, Some(Bound::Server { .. })));
    // No number of connections would have helped.
    let law = |b| matches!(b, Some(Bound::Server { queued: Some(_) } | Bound::Cap { .. }));
    each(&open_for(250.0, 24), Some(1), law);
    let fixed = Station::new(LAWS[0], 1).servers(1);
    let Some(Bound::Server { queued: Some(Queued { fastest, median }) }) =
        bound(&open_for(250.0, 24), fixed, 1, |_| {})
    else {
        panic!("the cap was not the limit")
    };
    assert!(fastest < ms(11) && median > ms(235), "{fastest:?} {median:?}");
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_connections() {
    for connections in [1, 12] {
        let plan = closed(connections, Think::None, LENGTH);
        let law =
            |b| matches!(b, Some(Bound::Connections { connections: n, .. }) if n == connections);
        each(&plan, None, law);
    }
}

/// Forty for one place: more of them would have waited longer, and no more been done. Only where
/// single times vary as widely as those of the last law does that stay hidden.
#[test]
fn p20_a_closed_loop_is_limited_by_the_server() {
    let law = |b| matches!(b, Some(Bound::Server { queued: Some(_) }));
    each_of(&LAWS[..5], &closed(40, Think::None, LENGTH), Some(1), law);
    each_of(&LAWS[..5], &closed(60, Think::Exponential(ms(20)), LENGTH), Some(1), law);
    let piped = Plan { pipeline: 2, ..closed(24, Think::None, LENGTH) };
    each_of(&[LAWS[0], LAWS[2], LAWS[3]], &piped, Some(1), law);
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_pipelines() {
    let piped = Plan { pipeline: 4, ..closed(3, Think::None, LENGTH) };
    each(&piped, None, |b| matches!(b, Some(Bound::Window { requests: 12, .. })));
}

#[test]
fn p20_a_closed_loop_is_limited_by_its_users() {
    let plan = closed(8, Think::Exponential(ms(20)), LENGTH);
    each(&plan, None, |b| matches!(b, Some(Bound::Users { users: 8, .. })));
}

/// One answer in five hundred is there at once: those waited for nobody, but nor did the rest.
#[test]
fn p20_what_is_fast_now_and_then_is_no_queue() {
    for (share, seed) in [(0.998, 1), (0.995, 2), (0.99, 3)] {
        let law = Law::Bimodal(Span::from_micros(200), ms(10), share);
        let bound = bound(&closed(8, Think::None, LENGTH), Station::new(law, seed), seed, |_| {});
        assert!(matches!(bound, Some(Bound::Connections { .. })), "{share}: {bound:?}");
    }
}

/// Replies would be in time if it were there to take them in.
#[test]
fn p20_a_client_that_misses_its_replies_is_the_limit() {
    let plan = Plan { timeout: ms(580), ..closed(4, Think::None, LENGTH) };
    let station = || Station::new(Law::Fixed(ms(560)), 1);
    let away = |setup: &mut Setup| setup.held = Some(Held { period: ms(100), away: ms(80) });
    assert_eq!(bound(&plan, station(), 1, away), Some(Bound::Client));
    let there = bound(&plan, station(), 1, |_| {});
    assert!(matches!(there, Some(Bound::Connections { .. })), "{there:?}");
    let slow = Station::new(Law::Fixed(ms(600)), 1);
    assert_eq!(bound(&plan, slow, 1, |_| {}), Some(Bound::Failures));
}

/// Whatever else may have been the limit.
#[test]
fn p20_a_client_that_is_away_is_the_limit() {
    let away = |setup: &mut Setup| setup.held = Some(Held { period: ms(100), away: ms(80) });
    let plans = [
        closed(8, Think::None, LENGTH),
        closed(8, Think::Exponential(ms(20)), LENGTH),
        Plan { pipeline: 4, ..closed(3, Think::None, LENGTH) },
        open_for(60.0, 1 << 20),
        open_for(1_500.0, 20),
    ];
    for plan in plans {
        // Requests that wait in its queue for too long fail, and not by the server's fault.
        for timeout in [Span::from_secs(300), ms(1_000)] {
            let plan = Plan { timeout, ..plan.clone() };
            let found = bound(&plan, Station::new(LAWS[0], 1), 1, away);
            assert_eq!(found, Some(Bound::Client), "{:?}", plan.load);
        }
    }
}
