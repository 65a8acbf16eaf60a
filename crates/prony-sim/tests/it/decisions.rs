//! Thresholds at stations whose figures are known: how often a decision is wrong, and how often
//! none is made.

use std::env;

use prony_base::meter::WorkerStats;
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{CallSpec, Load, Plan, Stop, Think};
use prony_plan::target::Endpoint;
use prony_plan::threshold::Threshold;
use prony_sim::rng::Rng;
use prony_sim::server::ServiceTime;
use prony_stats::summary::{Checked, Outcome, RunInfo, Summary};
use prony_tally::record::{Tally, TimeLowerBound};

use crate::confidence::{HEAVY, SERVICE, Station};

const REQUESTS: u64 = 2_000;
/// The percentiles, in per cent.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];
/// The true figure as a multiple of the limit.
const RATIOS: [f64; 3] = [1.0, 0.5, 1.5];

const CONSTANT: Station = Station::Free("constant", ServiceTime::Fixed(SERVICE));

/// How often a threshold came to what.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    met: u32,
    missed: u32,
    undecided: u32,
}

impl Count {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Met => self.met += 1,
            Outcome::Missed => self.missed += 1,
            Outcome::Undecided => self.undecided += 1,
        }
    }
}

/// A limit for a figure of this many nanoseconds.
fn threshold(figure: &str, ns: f64) -> Threshold {
    format!("{figure} < {ns:.0}ns").parse().expect("a threshold")
}

fn checked(tally: Tally, thresholds: Vec<Threshold>) -> Vec<Checked> {
    checked_by(tally, thresholds, WorkerStats::default())
}

fn checked_by(tally: Tally, thresholds: Vec<Threshold>, meter: WorkerStats) -> Vec<Checked> {
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let call = CallSpec { authority: "h".into(), path: "/".into(), ..CallSpec::default() };
    let load = Load::Closed { connections: 1, think: Think::None };
    let mut plan = Plan::new(vec![endpoint], vec![call], load, Stop::default());
    plan.thresholds = thresholds;
    let parts = vec![(None, tally, meter)];
    Summary::from_parts(plan, RunInfo::default(), parts).thresholds()
}

/// The outcomes of each percentile, with the limit at each ratio.
fn count(station: Station, runs: u64, first: u64) -> [[Count; RATIOS.len()]; PERCENTILES.len()] {
    let mut counts = [[Count::default(); RATIOS.len()]; PERCENTILES.len()];
    let limits = PERCENTILES.map(|p| {
        let truth = station.truth(p / 100.0);
        RATIOS.map(|ratio| threshold(&format!("p{p}"), truth / ratio))
    });
    for seed in first..first + runs {
        let tally = station.run(REQUESTS, seed);
        let all = checked(tally, limits.concat());
        for (i, checked) in all.iter().enumerate() {
            counts[i / RATIOS.len()][i % RATIOS.len()].add(checked.outcome);
        }
    }
    counts
}

/// A row for each percentile.
fn lines(station: Station, runs: u64, first: u64) -> Vec<String> {
    let percent = |n: u32| format!("{:.1} %", f64::from(n) * 100.0 / runs as f64);
    let counts = count(station, runs, first);
    let line = |(p, [at, half, more]): (f64, [Count; 3])| {
        format!(
            "| {} | p{p} | {} | {} | {} | {} | {} | {} |",
            station.name(),
            percent(at.met),
            percent(at.missed),
            percent(half.undecided),
            percent(half.missed),
            percent(more.undecided),
            percent(more.met),
        )
    };
    PERCENTILES.into_iter().zip(counts).map(line).collect()
}

const STATIONS: [Station; 6] =
    [Station::Queue(0.3), Station::Queue(0.9), HEAVY, Station::Humps, CONSTANT, Station::Drift];

#[test]
fn study() {
    let options = env::var("PRONY_BARS").unwrap_or_default();
    let options: Vec<u64> = options.split(' ').filter_map(|n| n.parse().ok()).collect();
    let &[runs, first] = options.as_slice() else { return };
    for station in STATIONS {
        for line in lines(station, runs, first) {
            println!("{line}");
        }
    }
    for (burst, share) in [(1.0, 0.01), (1.0, 0.1), (5.0, 0.1)] {
        println!("{}", line_of_failures(burst, share, runs, first));
    }
}

/// What a late meter adds to each time: up to this share of the true p99 ...
const ADDED: f64 = 0.2;
/// ... and what it knows that it can have added at most: the double.
const BOUND: f64 = 2.0;

/// The same run, measured by a meter that was late and says by how much at most.
fn late(station: Station, seed: u64) -> Tally {
    let mut rng = Rng::new(seed, 0x80);
    let most = station.truth(0.99) * ADDED;
    let mut tally = Tally::new(Nanos::ZERO);
    let mut bound = TimeLowerBound::default();
    let mut last = Nanos::ZERO;
    for (at, time) in station.times(REQUESTS, seed) {
        let added = Span((most * rng.unit()) as u64);
        let measured = time + added;
        let most = Span((added.0 as f64 * BOUND) as u64).min(measured);
        tally.series.replied(at + added, measured, 1);
        tally.times.response.record(measured);
        bound.times.record(measured - most);
        bound.added_max = bound.added_max.max(most);
        last = at;
    }
    (tally.started, tally.replies, tally.end) = (REQUESTS, REQUESTS, last);
    tally.sent = REQUESTS;
    tally.series.close();
    tally.without_meter = Some(Box::new(bound));
    tally
}

/// A meter that is late by a fifth leaves decisions at a distance, and makes no wrong ones.
#[test]
fn a_late_meter_decides_what_its_part_cannot_change() {
    let busy = WorkerStats {
        wall: Span::from_secs(2),
        cpu_user: Span::from_secs(2),
        ..WorkerStats::default()
    };
    for station in [Station::Queue(0.3), Station::Humps] {
        let truth = station.truth(0.99);
        let limits = [0.5, 0.99, 1.0 + ADDED, 2.0].map(|ratio| threshold("p99", truth * ratio));
        let mut counts = [Count::default(); 4];
        for seed in 0..100 {
            let all = checked_by(late(station, seed), limits.to_vec(), busy.clone());
            all.iter().zip(&mut counts).for_each(|(checked, count)| count.add(checked.outcome));
        }
        let [half, at, above, double] = counts;
        assert!(half.met == 0 && at.met <= 12, "{}: {counts:?}", station.name());
        assert!(above.missed <= 12 && double.missed == 0, "{}: {counts:?}", station.name());
        assert!(half.missed >= 90 && double.met >= 80, "{}: {counts:?}", station.name());
    }
}

/// Few decisions at the limit are wrong, none far from it is, and few that could be made are not.
#[test]
fn thresholds_are_decided_rightly_and_nearly_always() {
    const RUNS: u64 = 150;
    for station in [Station::Queue(0.3), Station::Humps, Station::Drift, HEAVY] {
        for (p, [at, half, more]) in PERCENTILES.into_iter().zip(count(station, RUNS, 0)) {
            let row = format!("{}, p{p}: {at:?} {half:?} {more:?}", station.name());
            // 5 % of 150 are more than 15 once in 200 rows.
            assert!(at.met <= 15 && at.missed <= 15, "{row}");
            assert!(half.missed == 0 && more.met == 0, "{row}");
            // A heavy tail or bursts at the p99 leave more open.
            let open = if p == 99.0 { RUNS as u32 / 5 } else { RUNS as u32 / 20 };
            assert!(half.undecided <= open && more.undecided <= open, "{row}");
        }
    }
    // So few independent times support nothing: 2,000 requests are six times their correlation.
    for [at, half, more] in count(Station::Queue(0.9), 60, 0) {
        assert!(at.met <= 8 && at.missed <= 8 && half.missed + more.met <= 1);
    }
}

/// Requests of which a share fails, in bursts of this mean length.
fn failing(seed: u64, burst: f64, share: f64) -> Tally {
    let mut rng = Rng::new(seed, 0x7f);
    let (start, end) = (share / (1.0 - share) / burst, 1.0 / burst);
    let mut fails = rng.chance(share);
    let mut tally = Tally::new(Nanos::ZERO);
    let mut now = Nanos::ZERO;
    for _ in 0..REQUESTS {
        now = now + rng.exponential(Span::from_millis(5));
        fails = match burst {
            1.0 => rng.chance(share),
            _ if fails => !rng.chance(end),
            _ => rng.chance(start),
        };
        if fails {
            tally.failed += 1;
            tally.series.failed(now);
            continue;
        }
        tally.replies += 1;
        tally.series.replied(now, SERVICE, 1);
        tally.times.response.record(SERVICE);
    }
    (tally.started, tally.end) = (REQUESTS, now);
    tally.series.close();
    tally
}

fn line_of_failures(burst: f64, share: f64, runs: u64, first: u64) -> String {
    let mut counts = [Count::default(); RATIOS.len()];
    let limits =
        RATIOS.map(|ratio| format!("errors < {}%", share * 100.0 / ratio).parse().expect("one"));
    for seed in first..first + runs {
        let all = checked(failing(seed, burst, share), limits.to_vec());
        all.iter().zip(&mut counts).for_each(|(checked, count)| count.add(checked.outcome));
    }
    let percent = |n: u32| format!("{:.1} %", f64::from(n) * 100.0 / runs as f64);
    let [at, half, more] = counts;
    format!(
        "| failures, {share}, in bursts of {burst} | errors | {} | {} | {} | {} | {} | {} |",
        percent(at.met),
        percent(at.missed),
        percent(half.undecided),
        percent(half.missed),
        percent(more.undecided),
        percent(more.met),
    )
}
