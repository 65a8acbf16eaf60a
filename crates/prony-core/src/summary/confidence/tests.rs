//! Intervals of made-up blocks; how often they are right is asked in prony-sim.

use super::*;
use crate::record::series::{BLOCK_MIN, bin_of};
use crate::units::Nanos;

/// A tally of so many blocks, in each of which `of` tells the times, in ms.
fn tally(blocks: u64, of: impl Fn(u64) -> Vec<u64>) -> Tally {
    let mut t = Tally::new(Nanos::ZERO);
    for i in 0..blocks {
        for ms in of(i) {
            let (at, time) = (Nanos(BLOCK_MIN.0 * i + 1), Span::from_millis(ms));
            t.series.replied(at, time, 1);
            t.times.response.record(time);
            (t.started, t.replies) = (t.started + 1, t.replies + 1);
        }
    }
    t.end = Nanos(BLOCK_MIN.0 * blocks);
    t.series.close();
    t
}

#[test]
fn what_a_run_cannot_carry_is_said() {
    assert_eq!(Confidence::of(&Tally::default()).quantile(0.5), Err(Lack::Empty));
    let short = tally(31, |_| vec![1, 2, 3]);
    let c = Confidence::of(&short);
    assert_eq!((c.quantile(0.5), c.mean()), (Err(Lack::Short), Err(Lack::Short)));
    assert_eq!(c.quantile(0.99), Err(Lack::Samples { needs: 1_000 }));
    let mut old = tally(64, |i| (0..50).map(|k| 1 + (i * 31 + k * 17) % 40).collect());
    assert!(Confidence::of(&old).quantile(0.5).is_ok());
    old.series = Series::new(Nanos::ZERO);
    assert_eq!(Confidence::of(&old).quantile(0.5), Err(Lack::NotKept));
}

#[test]
fn a_run_that_is_one_drift_is_not_many_runs() {
    // Ten seconds in which the times only grow: there is no such thing as their median.
    let drift = tally(320, |i| vec![10 + i; 20]);
    let c = Confidence::of(&drift);
    for told in [c.quantile(0.5), c.quantile(0.9), c.mean()] {
        assert!(
            matches!(told, Err(Lack::Dependent { independent }) if independent < 100.0),
            "{told:?}"
        );
    }
    assert!(c.wanders().is_some_and(|r| r > 100.0));
    // The same times in a row that has forgotten where it came from.
    let mixed = tally(320, |i| vec![10 + i * 7_919 % 320; 20]);
    let Interval { lo, hi } = Confidence::of(&mixed).quantile(0.5).expect("an interval");
    assert!(lo < 169e6 && hi > 169e6 && hi - lo < 60e6, "{lo} to {hi}");
    assert_eq!(Confidence::of(&mixed).wanders(), None);
    // A drift too small to matter.
    let little = tally(320, |i| vec![3_000 + i; 20]);
    assert_eq!(Confidence::of(&little).wanders(), None);
    let mean = Confidence::of(&mixed).mean().expect("an interval");
    assert!(mean.lo < 169.5e6 && mean.hi > 169.5e6);
}

#[test]
fn times_that_are_all_alike_have_an_interval_as_narrow_as_is_known() {
    let same = tally(64, |_| vec![2; 30]);
    let c = Confidence::of(&same);
    assert_eq!(c.quantile(0.9), Ok(Interval { lo: 2e6, hi: 2e6 }));
    let Interval { lo, hi } = c.mean().expect("an interval");
    assert_eq!((lo, hi), (2e6, 2e6));
    assert_eq!(c.rate(960.0), Ok(Interval { lo: 960.0, hi: 960.0 }));
    // Two values: the median lies within the one, the 95th percentile within the other, and what
    // lies near the border between them may be either.
    let two = tally(320, |i| (0..100).map(|k| if (k * 7 + i) % 10 == 0 { 9 } else { 2 }).collect());
    let c = Confidence::of(&two);
    let known = |q: f64| c.quantile(q).map(|i| (i.lo, i.hi)).expect("an interval");
    assert_eq!(known(0.5).0, 2e6);
    assert!(known(0.5).1 <= series::bin_bounds(bin_of(Span::from_millis(2))).1.0 as f64);
    assert_eq!(known(0.99).1, 9e6);
}

#[test]
fn the_mean_of_a_heavy_tail_takes_many_times() {
    // Pareto times, exponent 1.5: of 100 in a block those at the quantiles between its ranks.
    let time = |k: u64| (1e2 * (1.0 - (k as f64 + 0.5) / 12_800.0).powf(-1.0 / 1.5)) as u64;
    let heavy = |blocks: u64| {
        tally(blocks, move |i| (0..100).map(|k| time((i * 100 + k) * 7_919 % 12_800)).collect())
    };
    let mean = Confidence::of(&heavy(128)).mean();
    assert_eq!(mean, Err(Lack::Samples { needs: 20_000 }), "12,800 times");
    assert!(Confidence::of(&heavy(128)).quantile(0.9).is_ok());
    assert!(Confidence::of(&heavy(256)).mean().is_ok());
    let light = tally(128, |i| (0..100).map(|k| 1 + (i * 100 + k) * 7_919 % 12_800).collect());
    assert!(Confidence::of(&light).mean().is_ok());
}

#[test]
fn the_blocks_of_workers_are_those_of_the_run() {
    let part = |k: u64| tally(100, move |i| vec![1 + (i * 31 + k * 17) % 40; 10]);
    let whole = tally(100, |i| (0..3).flat_map(|k| vec![1 + (i * 31 + k * 17) % 40; 10]).collect());
    let mut merged = part(0);
    merged.merge(&part(1));
    merged.merge(&part(2));
    assert_eq!(merged.series, whole.series);
    let (a, b) = (Confidence::of(&merged), Confidence::of(&whole));
    assert_eq!((a.quantile(0.9), a.mean()), (b.quantile(0.9), b.mean()));
    assert!(a.quantile(0.9).is_ok());
}

#[test]
fn an_interval_near_the_limit_is_wider_where_times_hang_together() {
    for room in [1.0, 1.5, 10.0] {
        assert!((caution(1.0, room) - 1.0).abs() < 1e-12, "independent times are what they seem");
        assert!(caution(2.0, room) < caution(50.0, room));
        assert!(caution(50.0, room * 1.2) < caution(50.0, room));
    }
    assert!(caution(50.0, 1.0) > 2.0 && caution(50.0, 2.0) < 1.03);
    assert!((caution(0.0, f64::INFINITY) - 1.0).abs() < 1e-12, "nothing varies");
}

#[test]
fn ends_lie_within_a_bin_where_its_times_are_spread_evenly() {
    let of = |times: &mut dyn Iterator<Item = u64>| {
        let mut hist = Hist::new();
        times.for_each(|ns| hist.record(Span(ns)));
        hist
    };
    let between = |hist: &Hist, lo, hi| {
        let Interval { lo, hi } = Confidence::of_blocks(hist, vec![], BLOCK_MIN).between(lo, hi);
        (lo, hi)
    };
    // One time each 8 ns; the bins are 512 ns wide.
    let even = of(&mut (0..1_280).map(|i| 1_000_000 + i * 8));
    let (lo, hi) = between(&even, 300.0, 700.0);
    assert!((lo - 1_002_392.0).abs() < 16.0 && (hi - 1_005_592.0).abs() < 16.0, "{lo} {hi}");
    let (lo, hi) = between(&even, 300.0, 305.0);
    assert!(hi - lo > 500.0 && lo < 1_002_392.0 && hi > 1_002_432.0, "one bin: {lo} {hi}");
    // Bins of a single value each, which are nowhere but there.
    let values = [1_000_100, 1_002_000, 1_004_000, 1_008_000];
    let steps = of(&mut (0..400).map(|i| values[i / 100]));
    let (lo, hi) = between(&steps, 150.0, 250.0);
    assert!(lo <= 1_002_000.0 && hi >= 1_004_000.0, "{lo} {hi}");
}
