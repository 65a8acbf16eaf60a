//! Plans and small helpers for the tests.

use prony_core::plan::{CallSpec, Expect, Load, Plan, Stop, Think};
use prony_core::schedule::{Arrivals, RatePlan};
use prony_core::summary::{Meter, RunInfo, Summary};
use prony_core::target::Endpoint;
use prony_core::units::{Nanos, Span};
use prony_sim::Outcome;
use prony_sim::oracle::{Truth, conserves};

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
        authority: "plant".into(),
        ..CallSpec::default()
    }
}

fn plan(load: Load, stop: Stop) -> Plan {
    Plan {
        connect_timeout: Span::from_secs(60),
        expect: Expect { statuses: vec![(200, 599)], ..Expect::default() },
        ..Plan::new(
            vec![Endpoint::Tcp { host: "plant".into(), port: 80 }],
            vec![get("/")],
            load,
            stop,
        )
    }
}

/// So many requests by that law at that rate.
pub(crate) fn open(rate: f64, arrivals: Arrivals, requests: u64) -> Plan {
    let rate = RatePlan::constant(rate);
    let load = Load::Open { rate, arrivals, connections: 1 << 20 };
    plan(load, Stop { requests: Some(requests), sessions: None, duration: None })
}

/// A closed loop until the duration is over.
pub(crate) fn closed(connections: u32, think: Think, duration: Span) -> Plan {
    let load = Load::Closed { connections, think };
    plan(load, Stop { requests: None, sessions: None, duration: Some(duration) })
}

/// The k-th request asks for `/k`, so that the oracle knows each.
pub(crate) fn numbered(plan: Plan, requests: u64) -> Plan {
    Plan { calls: (0..requests).map(|k| get(&format!("/{k}"))).collect(), ..plan }
}

/// Says which seed it was when a test panics, wherever it does.
pub(crate) struct Seed(pub(crate) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was seed {}", self.0);
        }
    }
}

/// The report's figures of that outcome; of each worker it is known how long it ran and how it
/// stalled.
pub(crate) fn summed(plan: &Plan, run: RunInfo, outcome: Outcome) -> Summary {
    let meters = outcome.ran.finished.iter().zip(&outcome.ran.stalls);
    let meters = meters.map(|(end, &stalls)| Meter {
        wall: end.since(Nanos::ZERO),
        stalls,
        ..Meter::default()
    });
    let parts = outcome.tallies.into_iter().zip(meters).map(|((w, m), meter)| (w, m, meter));
    Summary::from_parts(plan.clone(), run, parts.collect())
}

/// Sums must hold in the outcome's every tally; `what` is told where they do not.
pub(crate) fn assert_conserved(outcome: &Outcome, what: &str) {
    for (share, (warm, main)) in outcome.tallies.iter().enumerate() {
        let wrong: Vec<String> = warm.iter().chain([main]).flat_map(conserves).collect();
        assert!(wrong.is_empty(), "{what}, share {share}: {wrong:#?}");
    }
    assert_eq!(outcome.ran.dangling, 0, "{what}: the server still has connections");
}

/// Every figure of the tally must be what the oracle knows.
pub(crate) fn assert_true(plan: &Plan, outcome: &Outcome, what: &str) {
    assert_conserved(outcome, what);
    let wrong = Truth::of(&outcome.ran.oracle, plan, false).against(&outcome.main());
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    if let Some(warm) = outcome.warmup() {
        let wrong = Truth::of(&outcome.ran.oracle, plan, true).against(&warm);
        assert!(wrong.is_empty(), "{what}, warm-up: {wrong:#?}");
    }
}
