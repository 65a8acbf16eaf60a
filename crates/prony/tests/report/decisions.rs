//! Compares the JSON of searches and comparisons with their committed schemas, and the schemas with
//! their documentation.

use std::collections::BTreeSet;

use prony_base::units::Span;
use prony_report::Format;
use prony_report::capacity::Capacity;
use prony_report::comparison::{Block, Comparison};
use prony_stats::capacity::{
    Answer, By, Estimate, Finding, Fitted, Lack, Limit, Point, Purpose, Recovery, Scalability,
    Stop, Trial,
};
use prony_stats::comparison::{self, Design, Figure, Measured, Rounds};
use prony_stats::summary::Verdict;
use prony_stats::summary::confidence::Interval;
use prony_tally::record::hist::Hist;
use serde_json::Value;

use super::json_schema::{check, read};
use super::schema::{described, used};

const SOME: Estimate = Estimate { value: Some(2.0), interval: Some(INTERVAL) };
const NONE: Estimate = Estimate { value: None, interval: None };
const INTERVAL: Interval = Interval { lo: 1.0, hi: 3.0 };

fn point(purpose: Purpose, verdict: Verdict, remark: Option<&str>) -> Point {
    let trial =
        Trial { rate: 10.0, warmup: Span::ZERO, length: Span::from_secs(1), purpose, number: 1 };
    Point {
        trial,
        seconds: 1.0,
        requests: 10,
        p50: SOME,
        p99: NONE,
        errors: SOME,
        goodput: SOME,
        excess: vec![Some(0.5), None, None],
        holds: vec![Some(true), Some(false), None],
        kept_up: true,
        verdict,
        counts: remark.is_none(),
        remark: remark.map(str::to_owned),
    }
}

/// Every finding.
fn findings() -> Vec<Finding> {
    let mut all = vec![
        Finding::Nowhere { rate: 1.0, threshold: 0 },
        Finding::Changed { first: 1.0, second: 2.0 },
        Finding::Interrupted { held: None, missed: Some(2.0), estimate: SOME },
    ];
    for stop in [Stop::Queueing, Stop::Errors, Stop::Network, Stop::Threshold] {
        all.push(Finding::Capacity {
            rate: 2.0,
            interval: INTERVAL,
            threshold: 0,
            stop,
            more_seconds: (stop == Stop::Queueing).then_some(90.0),
        });
    }
    for limit in [Limit::Meter, Limit::Connections, Limit::Budget] {
        all.extend([None, Some(2.0)].map(|rate| Finding::AtLeast { rate, limit }));
    }
    let lack = Lack::Budget;
    all.push(Finding::Undecided { lack, held: Some(1.0), missed: None });
    for (held, after_ns) in [(None, Some(1e9)), (Some(1.0), None)] {
        let (overload, probe, before_ns, waited) = (9.0, 1.0, 1e6, 60.0);
        all.push(Finding::NotRecovered { held, overload, probe, before_ns, after_ns, waited });
    }
    all
}

/// Every kind of scalability.
fn scalabilities() -> [Scalability; 5] {
    let fits =
        |peak| Scalability::Fits { lambda: SOME, sigma: SOME, kappa: SOME, peak, misfit: 0.01 };
    [
        fits(None),
        fits(Some(20.0)),
        Scalability::Deviates { misfit: 0.2, at: 3.0, p_value: 0.001 },
        Scalability::Superlinear,
        Scalability::Unknown,
    ]
}

fn capacity(
    by: By,
    finding: Finding,
    scalability: Option<Scalability>,
    points: Vec<Point>,
) -> Value {
    let answer = Answer {
        by,
        finding,
        points,
        curve: vec![Fitted { rate: 2.0, excess: 1.0, interval: INTERVAL }],
        recoveries: vec![Recovery { overload: 9.0, probe: 1.0, seconds: 3.0 }],
        throughput: scalability.map(|_| SOME),
        scalability,
        seconds: 60.0,
    };
    let mut report = Capacity::new(answer, vec!["p99 < 50ms".into()], 0.02);
    report.arrivals = "Poisson".into();
    report.run_at_80_percent = Some(vec!["prony".into()]);
    let bytes = report.render(Format::Json).expect("it has a JSON report");
    serde_json::from_slice(&bytes).expect("it is JSON")
}

fn capacities() -> Vec<Value> {
    let verdicts = [
        Verdict::Valid,
        Verdict::ClientLimited,
        Verdict::Partial,
        Verdict::TargetFailed,
        Verdict::Interrupted,
        Verdict::NotStationary,
        Verdict::TooShort,
    ];
    let points = |verdict| {
        [Purpose::Bracket, Purpose::Estimate, Purpose::Curve, Purpose::Beyond]
            .map(|purpose| point(purpose, verdict, Some("It was limited.")))
    };
    let points: Vec<Point> = verdicts.into_iter().flat_map(points).collect();
    let found = |finding| capacity(By::Rate, finding, None, points.clone());
    let mut all: Vec<Value> = findings().into_iter().map(found).collect();
    let finding = &findings()[3];
    all.extend(scalabilities().map(|scalability| {
        let points = vec![point(Purpose::Curve, Verdict::Valid, None)];
        capacity(By::Connections, finding.clone(), Some(scalability), points)
    }));
    all
}

/// Comparisons of which the second target takes `ratio` times as long, and of nothing. The levels
/// of blocks differ by this noise.
fn comparisons() -> Vec<Value> {
    let of = |ratio: f64, requests: u32, noise: f64| {
        let limits = ["p50 > +5%", "p50 > +20%", "p50 > +10%"];
        let design = Design {
            targets: 2,
            figures: Figure::USUAL.to_vec(),
            rounds: Rounds::Exactly(8),
            margin: comparison::MARGIN,
            limits: limits.map(|limit| limit.parse().expect("a limit")).to_vec(),
            seed: 7,
        };
        let mut found = comparison::Comparison::new(design.clone());
        let mut report = Comparison::new(&["http://a/".into(), "http://b/".into()], &design);
        report.round_length = Some(Span::from_secs(2));
        while let Some(block) = found.next_block() {
            let noise = 1.0 + noise * f64::from((block.round * 7 + block.target * 3) % 5);
            let level = if block.target == 0 { 1.0 } else { ratio } * noise;
            let mut response = Hist::new();
            for i in 0..requests {
                response.record(Span((f64::from(i + 500) * 1e3 * level) as u64));
            }
            let (ended, cpu_ns) = (u64::from(requests), (ratio > 1.0).then_some(1e9));
            let measured = Measured {
                response: &response,
                rate: 100.0,
                ended,
                failed: 0,
                cpu_ns,
                certain: None,
            };
            found.record(block, &measured);
            let (round, seed) = (block.round + 1, block.seed);
            let shown = Block { round, seed, verdict: "VALID", ..Block::default() };
            report.add(block.target, shown, &measured);
        }
        report.answer(&design, &found.answer());
        let bytes = report.render(Format::Json).expect("it has a JSON report");
        serde_json::from_slice(&bytes).expect("it is JSON")
    };
    let little = 0.002;
    vec![
        of(1.1, 1_000, little),
        of(0.9, 1_000, little),
        of(1.0, 1_000, little),
        of(1.0, 0, little),
        of(1.02, 1_000, 0.02),
    ]
}

/// All reports match the schema, which has no other fields than they have.
fn check_all(schema: &str, reports: &[Value]) {
    let (mut in_schema, mut in_reports) = (BTreeSet::new(), BTreeSet::new());
    described(&read(schema), &mut in_schema);
    for report in reports {
        check(schema, report);
        used(report, &mut in_reports);
    }
    assert_eq!(in_schema, in_reports, "{schema}: in one, but not in the other");
}

#[test]
fn capacities_match_their_schema() {
    check_all("capacity-1.json", &capacities());
}

#[test]
fn comparisons_match_their_schema() {
    check_all("comparison-1.json", &comparisons());
}

#[test]
fn schemas_reject_other_reports() {
    let refused = |schema: &str, good: &Value, change: fn(&mut Value)| {
        let known = jsonschema::validator_for(&read(schema)).expect("the schema is valid");
        let mut bad = good.clone();
        change(&mut bad);
        assert!(bad != *good && known.is_valid(good) && !known.is_valid(&bad), "{bad}");
    };
    let capacity = &capacities()[3];
    for change in [
        |r: &mut Value| r["schema"] = 2.into(),
        |r: &mut Value| r["new"] = 2.into(),
        |r: &mut Value| r["finding"]["kind"] = "new".into(),
        |r: &mut Value| r["finding"]["stop"] = Value::Null,
        |r: &mut Value| r["finding"]["held"] = 1.into(),
        |r: &mut Value| r["points"][0]["p99"] = Value::Null,
    ] {
        refused("capacity-1.json", capacity, change);
    }
    let comparison = &comparisons()[0];
    for change in [
        |r: &mut Value| r["kind"] = "run".into(),
        |r: &mut Value| r["changes"][0]["outcome"] = "better".into(),
        |r: &mut Value| r["targets"][0]["p99_ns"] = 1.5.into(),
        |r: &mut Value| drop(r.as_object_mut().and_then(|r| r.remove("blocks"))),
    ] {
        refused("comparison-1.json", comparison, change);
    }
}
