//! Thresholds against stations whose figures are known: how often the interval of a share holds
//! the truth, and that no threshold at a distance is decided wrongly.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;
use prony_sim::rng::Rng;
use prony_stats::summary::{Checked, Outcome, RunInfo, Sequential, Summary};
use prony_tally::record::Tally;

use crate::plans::seeds;

const RUNS: u64 = 400;
/// A thousand requests a second, for twenty seconds.
const REQUESTS: u64 = 20_000;
/// The share of the requests that fail.
const FAILING: f64 = 0.01;

/// A run of requests with exponential times of 1 ms, some of which fail: each by itself
/// (`burst` = 1), or `burst` in a row on average.
fn run(seed: u64, burst: f64) -> Tally {
    let mut rng = Rng::new(seed, 0x7e);
    let (start, end) = (FAILING / (1.0 - FAILING) / burst, 1.0 / burst);
    let mut fails = rng.chance(FAILING);
    let mut tally = Tally::new(Nanos::ZERO);
    let mut now = Nanos::ZERO;
    for _ in 0..REQUESTS {
        now = now + rng.exponential(Span::from_millis(1));
        fails = match burst {
            1.0 => rng.chance(FAILING),
            _ if fails => !rng.chance(end),
            _ => rng.chance(start),
        };
        if fails {
            tally.failed += 1;
            tally.series.failed(now);
            continue;
        }
        let time = rng.exponential(Span::from_millis(1));
        tally.replies += 1;
        tally.series.replied(now, time, 1);
        tally.times.response.record(time);
        tally.times.first_byte.record(time);
    }
    (tally.started, tally.end) = (REQUESTS, now);
    tally.series.close();
    tally
}

fn checked(tally: Tally, thresholds: &[&str]) -> Vec<Checked> {
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let call = CallSpec { authority: "h".into(), path: "/".into(), ..CallSpec::default() };
    let load = Load::Closed { connections: 1, think: Think::None };
    let mut plan = Plan::new(vec![endpoint], vec![call], load, Stop::default());
    plan.thresholds = thresholds.iter().map(|text| text.parse().expect(text)).collect();
    let parts = vec![(None, tally, Default::default())];
    Summary::from_parts(plan, RunInfo::default(), parts).thresholds()
}

/// In how many of the runs the interval holds the truth.
fn held(burst: f64, threshold: &str, truth: f64) -> u64 {
    let holds = |seed: &u64| {
        let checked = checked(run(*seed, burst), &[threshold]);
        let interval = checked[0].interval.expect("an interval");
        interval.lo <= truth && truth <= interval.hi
    };
    (0..RUNS).filter(holds).count() as u64
}

/// Of 400 intervals of 95 %, fewer than 366 hold the truth once in a thousand times.
#[test]
fn the_interval_of_a_share_holds_the_truth() {
    let independent = held(1.0, "errors < 1%", FAILING);
    assert!((366..=396).contains(&independent), "{independent}");
    // Failures in bursts: the count is worth a fraction of them, down to the two effective failures
    // of four bursts of fifty.
    for burst in [10.0, 50.0] {
        let bursts = held(burst, "errors < 1%", FAILING);
        assert!((366..=396).contains(&bursts), "{burst}: {bursts}");
    }
}

#[test]
fn the_interval_of_a_time_without_a_series_holds_the_truth() {
    let p99 = held(1.0, "first-byte.p99 < 1ms", 1e6 * 100_f64.ln());
    assert!((366..=396).contains(&p99), "{p99}");
    let mean = held(1.0, "first-byte.mean < 1ms", 1e6);
    assert!((366..=396).contains(&mean), "{mean}");
}

#[test]
fn thresholds_at_a_distance_are_decided_and_never_wrongly() {
    let thresholds = ["errors < 2%", "errors > 2%", "p99 < 10ms", "p99 > 10ms", "rate >= 900"];
    let expected = [Outcome::Met, Outcome::Missed, Outcome::Met, Outcome::Missed, Outcome::Met];
    for seed in seeds(100) {
        let outcomes: Vec<Outcome> =
            checked(run(seed, 1.0), &thresholds).iter().map(|c| c.outcome).collect();
        assert_eq!(outcomes, expected, "seed {seed}");
    }
}

/// A limit at the truth is decided as rarely as a 95 % interval misses it.
#[test]
fn a_limit_at_the_truth_is_undecided() {
    let undecided = |seed: &u64| {
        let checked = checked(run(*seed, 1.0), &["errors < 1%"]);
        checked[0].outcome == Outcome::Undecided
    };
    let undecided = (0..RUNS).filter(undecided).count();
    assert!(undecided >= 366, "{undecided}");
}

#[test]
fn counts_and_extremes_are_facts() {
    let tally = run(1, 1.0);
    let (failed, longest) = (tally.failed, tally.times.response.max().expect("one"));
    let exactly = format!("errors = {failed}");
    let longer = format!("max <= {longest}");
    let all = checked(tally, &[&exactly, &longer, "errors = 0", "requests >= 20k"]);
    let outcomes: Vec<Outcome> = all.iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Met, Outcome::Met, Outcome::Missed, Outcome::Met]);
    assert!(all.iter().all(|c| c.interval.is_none() && c.no_interval.is_none()));
    let missing = checked(run(1, 1.0), &["handshake.p99 < 1s", "p99.99 < 1s"]);
    assert!(missing.iter().all(|c| c.outcome == Outcome::Undecided));
    assert!(missing[0].value.is_none() && missing[1].value.is_some(), "{missing:?}");
}

/// When a threshold at the truth, or beyond it, would have ended those runs.
fn ends(burst: f64, threshold: &str) -> Vec<Option<f64>> {
    let thresholds = [threshold.parse().expect(threshold)];
    let end = |seed: u64| {
        let end = Sequential::end_of(&thresholds, &run(seed, burst));
        end.map(|(at, _)| at.as_secs_f64())
    };
    (0..RUNS).map(end).collect()
}

/// Of 400 runs at the limit, 1 % may be ended: more than 10 once in a hundred times.
#[test]
fn a_load_at_its_limit_is_not_ended() {
    for (burst, threshold) in [
        (1.0, "errors < 1%, abort"),
        (10.0, "errors < 1%, abort"),
        (1.0, "p90 < 2302585ns, abort"),
        (1.0, "mean < 1ms, abort"),
        (1.0, "rate > 990, abort"),
    ] {
        let ended = ends(burst, threshold).into_iter().flatten().count();
        assert!(ended <= 10, "{threshold}: {ended} of {RUNS}");
    }
}

#[test]
fn a_load_beyond_its_limit_is_ended_soon() {
    for (threshold, within) in [
        ("errors < 0.3%, abort", 12.0),
        ("p90 < 2ms, abort", 6.0),
        ("mean < 800us, abort", 4.0),
        ("rate > 1500, abort", 4.0),
    ] {
        let mut all: Vec<f64> =
            ends(1.0, threshold).into_iter().map(|end| end.unwrap_or(f64::INFINITY)).collect();
        all.sort_by(f64::total_cmp);
        let median = all[all.len() / 2];
        assert!(median <= within, "{threshold}: after {median} s");
    }
    let late = ends(1.0, "mean < 800us, abort after 10s").into_iter().flatten();
    assert!(late.fold(f64::INFINITY, f64::min) >= 10.0);
}
