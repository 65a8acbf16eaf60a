//! Plans and small helpers for the tests.

use std::io::Write as _;

use prony_base::meter::WorkerStats;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{CallSpec, Expect, Load, Plan, Stop, Think};
use prony_plan::schedule::{Arrivals, RatePlan, Schedule};
use prony_plan::target::Endpoint;
use prony_sim::Outcome;
use prony_sim::oracle::{Truth, violated_invariants};
use prony_stats::summary::{RunInfo, Summary};

pub(crate) fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

pub(crate) fn at(n: u64) -> Nanos {
    Nanos::ZERO + ms(n)
}

pub(crate) fn get(path: &str) -> CallSpec {
    CallSpec {
        endpoint: 0,
        method: "GET".into(),
        path: path.into(),
        authority: "server".into(),
        ..CallSpec::default()
    }
}

fn plan(load: Load, stop: Stop) -> Plan {
    Plan {
        connect_timeout: Span::from_secs(60),
        expect: Expect { statuses: vec![(200, 599)], ..Expect::default() },
        ..Plan::new(
            vec![Endpoint::Tcp { host: "server".into(), port: 80 }],
            vec![get("/")],
            load,
            stop,
        )
    }
}

/// An open loop of this number of requests.
pub(crate) fn open(rate: f64, arrivals: Arrivals, requests: u64) -> Plan {
    let rate = RatePlan::constant(rate);
    let load = Load::Open { rate, arrivals, connections: 1 << 20 };
    plan(load, Stop { requests: Some(requests), sessions: None, duration: None })
}

/// A closed loop of this duration.
pub(crate) fn closed(connections: u32, think: Think, duration: Span) -> Plan {
    let load = Load::Closed { connections, think };
    plan(load, Stop { requests: None, sessions: None, duration: Some(duration) })
}

/// When the requests of an open loop arrive.
pub(crate) fn arrivals(plan: &Plan) -> impl Iterator<Item = Nanos> {
    let mut schedule = Schedule::new(plan);
    std::iter::from_fn(move || schedule.pop()).map(|arrival| arrival.at)
}

/// Make request k ask for `/k`, so that the oracle can identify it.
pub(crate) fn numbered(plan: Plan, requests: u64) -> Plan {
    Plan { calls: (0..requests).map(|k| get(&format!("/{k}"))).collect(), ..plan }
}

/// The seeds below this number. `PRONY_SEEDS=3/7` takes those that leave 3 when divided by 7: the
/// gate of `cargo xtask ci` takes another seventh every day. `PRONY_SEEDS_FROM=K` takes the K-th as
/// many after them, and `PRONY_SEEDS_COUNT` is a file that gets a line with their number.
pub(crate) fn seeds(all: u64) -> impl Iterator<Item = u64> {
    let (part, parts) = part();
    let from = all * turn();
    if let Some(path) = std::env::var_os("PRONY_SEEDS_COUNT") {
        let file = std::fs::OpenOptions::new().append(true).open(path);
        writeln!(file.expect("a file"), "{all}").expect("a line");
    }
    (from + part..from + all).step_by(parts)
}

fn turn() -> u64 {
    std::env::var("PRONY_SEEDS_FROM").map_or(0, |text| text.parse().expect("a number"))
}

/// Whether `seeds` gives all of them, so that they reach what they are known to reach together.
pub(crate) fn has_all_seeds() -> bool {
    part() == (0, 1) && turn() == 0
}

fn part() -> (u64, usize) {
    let Ok(text) = std::env::var("PRONY_SEEDS") else { return (0, 1) };
    let part = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    part.filter(|&(_, parts)| parts > 0).unwrap_or_else(|| panic!("PRONY_SEEDS is {text}"))
}

/// Prints the seed if the test panics.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {0}; PRONY_SEEDS={0}/1000000 takes it alone", self.0);
        }
    }
}

#[test]
fn parts_of_the_seeds_are_all_seeds_together() {
    // With `PRONY_SEEDS`, only part of them.
    let (part, parts) = part();
    let some: Vec<u64> = seeds(100).collect();
    let from = 100 * turn();
    let wanted = (from..from + 100).filter(|s| (s - from) % parts as u64 == part);
    assert_eq!(some, wanted.collect::<Vec<_>>());
    assert_eq!(has_all_seeds(), some.len() == 100 && from == 0);
}

/// The summary of this outcome, with each worker's wall time and stalls.
pub(crate) fn summed(plan: &Plan, run: RunInfo, outcome: Outcome) -> Summary {
    let workers = outcome.world.finished.iter().zip(&outcome.world.stalls);
    let workers = workers.map(|(end, &stalls)| WorkerStats {
        wall: end.since(Nanos::ZERO),
        stalls,
        ..WorkerStats::default()
    });
    let parts = outcome.tallies.into_iter().zip(workers).map(|((w, m), meter)| (w, m, meter));
    Summary::from_parts(plan.clone(), run, parts.collect())
}

/// Check that the counters of every tally agree; `what` is for the message.
pub(crate) fn assert_invariants(outcome: &Outcome, what: &str) {
    for (share, (warm, main)) in outcome.tallies.iter().enumerate() {
        let wrong: Vec<String> = warm.iter().chain([main]).flat_map(violated_invariants).collect();
        assert!(wrong.is_empty(), "{what}, share {share}: {wrong:#?}");
    }
    assert_eq!(
        outcome.world.server_connections_left, 0,
        "{what}: the server still has connections"
    );
}

/// Check that every figure of the tallies is the oracle's.
pub(crate) fn assert_matches_oracle(plan: &Plan, outcome: &Outcome, what: &str) {
    assert_invariants(outcome, what);
    let wrong = Truth::of(&outcome.world.oracle, plan, false).mismatches(&outcome.main());
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    if let Some(warm) = outcome.warmup() {
        let wrong = Truth::of(&outcome.world.oracle, plan, true).mismatches(&warm);
        assert!(wrong.is_empty(), "{what}, warm-up: {wrong:#?}");
    }
}
