//! Templates of requests without sessions in virtual time: each request has rows and numbers of its
//! own, on any number of shares.

use std::collections::BTreeMap;
use std::sync::Arc;

use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Pick, Plan, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Exhausted, PickRow, Table};

use crate::plans::{Seed, closed, get, open};
use crate::signed::run;

fn template(path: &str, body: &str) -> CallSpec {
    let method = if body.is_empty() { "GET" } else { "POST" };
    CallSpec { method: method.into(), body: body.into(), template: true, ..get(path) }
}

/// A table of the lines `line 0`, `line 1` and so on.
fn lines(count: u32, pick: PickRow, exhausted: Exhausted) -> Arc<Table> {
    let table = Table::new("lines", pick, vec!["line".to_owned()]).expect("a column");
    let mut table = table.when_exhausted(exhausted);
    for n in 0..count {
        table.push([&*format!("line {n}")]).expect("a cell");
    }
    Arc::new(table)
}

/// How often each of these was sent.
fn counts(all: impl Iterator<Item = String>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

/// An open loop, and a closed one that sends at least as many requests.
fn loads(requests: u64) -> [Plan; 2] {
    let mut second = closed(6, Think::None, Span::from_secs(60));
    (second.stop.requests, second.stop.duration) = (Some(requests), None);
    [open(500.0, Arrivals::Poisson, requests), second]
}

#[test]
fn each_request_has_a_line_of_its_own() {
    for seed in 0..6 {
        let _case = Seed(seed);
        let shares = 1 + seed as u32 % 3;
        for (mut plan, is_open) in loads(40).into_iter().zip([true, false]) {
            plan.seed = seed;
            plan.calls = vec![template("/{{counter}}", "{{lines.line}}")].into();
            plan.data.tables = vec![lines(40, PickRow::Unique, Exhausted::Fail)];
            let sent = run(&plan, shares);
            let bodies = sent.iter().map(|r| String::from_utf8(r.body.clone()).expect("text"));
            let expected = (0..40).map(|n| (format!("line {n}"), 1)).collect();
            assert_eq!(counts(bodies), expected, "{shares} shares, open: {is_open}");
            // The row belongs to the number.
            for request in &sent {
                let n: u32 = request.line["POST /".len()..]
                    .split(' ')
                    .next()
                    .map_or(0, |n| n.parse().expect("a number"));
                assert_eq!(request.body, format!("line {}", n - 1).as_bytes());
            }
            plan.data.tables = vec![lines(7, PickRow::InTurn, Exhausted::Stop)];
            let bodies = run(&plan, shares).into_iter().map(|request| request.body);
            let counts = counts(bodies.map(|body| String::from_utf8(body).expect("text")));
            assert!(
                counts.len() == 7 && counts.values().all(|n| (5..=6).contains(n)),
                "{counts:?}"
            );
        }
    }
}

/// Every call has each of its values equally often, in closed loops too, where each share goes
/// through the calls by itself.
#[test]
fn cycles_cover_their_values_whatever_the_shares() {
    for shares in 1..=3 {
        for mut plan in loads(240) {
            plan.pick = Pick::InTurn;
            plan.calls = vec![
                template("/a/{{cycle.int 1 10 every 2}}", ""),
                template("/b/{{cycle.pick x y every 4}}/{{cycle.int 01 02 every 2}}", ""),
            ]
            .into();
            let counts = counts(run(&plan, shares).into_iter().map(|request| request.line));
            let mut expected = BTreeMap::new();
            for n in 1..=10 {
                expected.insert(format!("GET /a/{n} HTTP/1.1"), 12);
            }
            for (word, n) in [("x", "01"), ("x", "02"), ("y", "01"), ("y", "02")] {
                expected.insert(format!("GET /b/{word}/{n} HTTP/1.1"), 30);
            }
            assert_eq!(counts, expected, "{shares} shares");
        }
    }
}

/// Random values depend only on the seed and the number of the request.
#[test]
fn the_same_seed_sends_the_same_bytes_on_any_number_of_shares() {
    let mut plan = open(300.0, Arrivals::Fixed, 90);
    plan.calls = vec![template("/{{random.hex 8}}?{{v}}", "{{lines.line}} {{session}}")].into();
    plan.data.tables = vec![lines(9, PickRow::Random, Exhausted::Stop)];
    plan.data.variables = vec![("v".into(), "{{random.int 1 1000}}".into())];
    let first = run(&plan, 1);
    assert_eq!(counts(first.iter().map(|request| request.line.clone())).len(), 90);
    for shares in [2, 3] {
        assert_eq!(run(&plan, shares), first, "{shares} shares");
    }
}

#[test]
fn what_needs_a_session_is_refused() {
    let mut plan = open(300.0, Arrivals::Fixed, 9);
    plan.calls = vec![template("/{{lines.line}}", "")].into();
    plan.data.tables = vec![lines(9, PickRow::Unique, Exhausted::Stop)];
    plan.warmup = Span::from_secs(1);
    let why = plan.check().expect_err("a warm-up");
    assert!(why.contains("rows that are used once exclude a warm-up"), "{why}");
}
