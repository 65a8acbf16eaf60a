//! Intervals of synthetic blocks. prony-sim tests their coverage.

use prony_base::merge::Merge;
use prony_base::units::Nanos;
use prony_tally::record::series::{BLOCK_MIN, bin_of};

use super::*;

/// A tally with the response times (in ms) that `of` returns for each block.
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
fn reports_why_there_is_no_interval() {
    assert_eq!(Confidence::of(&Tally::default()).quantile(0.5), Err(NoInterval::Empty));
    let short = tally(31, |_| vec![1, 2, 3]);
    let c = Confidence::of(&short);
    assert_eq!((c.quantile(0.5), c.mean()), (Err(NoInterval::TooShort), Err(NoInterval::TooShort)));
    assert_eq!(c.quantile(0.99), Err(NoInterval::TooFewSamples { needs: 1_000 }));
    // Shorter than a block.
    let mut shortest = tally(1, |_| vec![1; 2_000]);
    shortest.end = Nanos(BLOCK_MIN.0 / 2);
    assert_eq!(Confidence::of(&shortest).quantile(0.99), Err(NoInterval::TooShort));
    let mut old = tally(64, |i| (0..50).map(|k| 1 + (i * 31 + k * 17) % 40).collect());
    assert!(Confidence::of(&old).quantile(0.5).is_ok());
    old.series = Series::new(Nanos::ZERO);
    assert_eq!(Confidence::of(&old).quantile(0.5), Err(NoInterval::NotRecorded));
}

/// No request waited: the service times were not kept, but are known.
#[test]
fn service_times_that_are_the_response_times_have_their_intervals() {
    let mut same = tally(64, |i| (0..50).map(|k| 1 + (i * 31 + k * 17) % 40).collect());
    assert!(Confidence::of_service(&same).is_none());
    same.times.service = same.times.response.clone();
    let service = Confidence::of_service(&same).expect("they are known");
    assert_eq!(service.quantile(0.5), Confidence::of(&same).quantile(0.5));
    assert_eq!(service.mean(), Confidence::of(&same).mean());
    same.times.service.record(Span(1));
    assert!(Confidence::of_service(&same).is_none(), "others are not");
    assert!(Confidence::of_service(&Tally::default()).is_none());
}

/// Of 1,100 independent times 11 are beyond the p99, and one beyond the p99.9.
#[test]
fn a_percentile_with_few_times_beyond_it_has_too_few_samples() {
    let few = tally(110, |i| {
        let draw = |k: u64| {
            let x = (10 * i + k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            1 + (x ^ (x >> 27)) % 311
        };
        (0..10).map(draw).collect()
    });
    let c = Confidence::of(&few);
    for q in [0.5, 0.9, 0.99] {
        assert!(c.quantile(q).is_ok(), "{q}: {:?}", c.quantile(q));
    }
    assert_eq!(c.quantile(0.999), Err(NoInterval::TooFewSamples { needs: 10_000 }));
}

#[test]
fn run_with_a_drift_has_no_interval() {
    // Ten seconds with ever-growing times.
    let drift = tally(320, |i| vec![10 + i; 20]);
    let c = Confidence::of(&drift);
    for result in [c.quantile(0.5), c.quantile(0.9), c.mean()] {
        assert!(
            matches!(result, Err(NoInterval::Autocorrelated { effective }) if effective < 100.0),
            "{result:?}"
        );
    }
    assert!(c.autocorrelation().is_some_and(|r| r > 100.0));
    // The same times in pseudo-random order.
    let mixed = tally(320, |i| vec![10 + i * 7_919 % 320; 20]);
    let Interval { lo, hi } = Confidence::of(&mixed).quantile(0.5).expect("an interval");
    assert!(lo < 169e6 && hi > 169e6 && hi - lo < 60e6, "{lo} to {hi}");
    assert_eq!(Confidence::of(&mixed).autocorrelation(), None);
    // A drift too small to dominant.
    let little = tally(320, |i| vec![3_000 + i; 20]);
    assert_eq!(Confidence::of(&little).autocorrelation(), None);
    let mean = Confidence::of(&mixed).mean().expect("an interval");
    assert!(mean.lo < 169.5e6 && mean.hi > 169.5e6);
}

#[test]
fn equal_times_have_the_narrowest_possible_interval() {
    let same = tally(64, |_| vec![2; 30]);
    let c = Confidence::of(&same);
    assert_eq!(c.quantile(0.9), Ok(Interval { lo: 2e6, hi: 2e6 }));
    let Interval { lo, hi } = c.mean().expect("an interval");
    assert_eq!((lo, hi), (2e6, 2e6));
    assert_eq!(c.rate(960.0), Ok(Interval { lo: 960.0, hi: 960.0 }));
    // Two values: the interval of the median is at the one, that of the 95th percentile at the
    // other; near the border between them it may include either.
    let two = tally(320, |i| (0..100).map(|k| if (k * 7 + i) % 10 == 0 { 9 } else { 2 }).collect());
    let c = Confidence::of(&two);
    let known = |q: f64| c.quantile(q).map(|i| (i.lo, i.hi)).expect("an interval");
    assert_eq!(known(0.5).0, 2e6);
    assert!(known(0.5).1 <= series::bin_bounds(bin_of(Span::from_millis(2))).1.0 as f64);
    assert_eq!(known(0.99).1, 9e6);
}

/// Two times in one block, or one in a block and one after the last, do not differ from block to
/// block, and neither does a single time.
#[test]
fn a_few_times_are_not_without_variance() {
    let too_few = Err(NoInterval::TooFewSamples { needs: 20 });
    for few in [vec![3], vec![3, 4], vec![3; 19]] {
        let few = tally(64, |i| if i == 63 { few.clone() } else { vec![] });
        assert_eq!(Confidence::of(&few).mean(), too_few);
    }
    let mut late = tally(64, |i| if i == 63 { vec![3; 20] } else { vec![] });
    late.times.response.record(Span::from_millis(4));
    let mean = Confidence::of(&late).mean();
    assert!(mean.is_ok_and(|mean| mean.lo < 3e6 && mean.hi > 3e6), "{mean:?}");
    let one_block = tally(64, |i| if i == 63 { (0..600).collect() } else { vec![] });
    assert_eq!(Confidence::of(&one_block).mean(), Err(NoInterval::Dominated));
}

/// Messages that arrive in one read have no time between them.
#[test]
fn times_may_be_zero() {
    for longest in [0, 3] {
        let zeros = tally(64, |i| [vec![0; 99], vec![longest * (i % 2)]].concat());
        let c = Confidence::of(&zeros);
        let mean = zeros.times.response.mean_ns().expect("times");
        match c.mean() {
            Ok(interval) => assert!(interval.lo <= mean && mean <= interval.hi, "{interval:?}"),
            Err(why) => assert!(matches!(why, NoInterval::TooFewSamples { .. }), "{why:?}"),
        }
        assert_eq!(c.quantile(0.5).map(|interval| interval.lo), Ok(0.0));
    }
}

#[test]
fn mean_of_a_heavy_tail_needs_many_times() {
    // Pareto times with exponent 1.5: equally spaced quantiles.
    let time = |k: u64| (1e2 * (1.0 - (k as f64 + 0.5) / 12_800.0).powf(-1.0 / 1.5)) as u64;
    let heavy = |blocks: u64| {
        tally(blocks, move |i| (0..100).map(|k| time((i * 100 + k) * 7_919 % 12_800)).collect())
    };
    let mean = Confidence::of(&heavy(128)).mean();
    assert_eq!(mean, Err(NoInterval::TooFewSamples { needs: 20_000 }), "12,800 times");
    assert!(Confidence::of(&heavy(128)).quantile(0.9).is_ok());
    assert!(Confidence::of(&heavy(256)).mean().is_ok());
    let light = tally(128, |i| (0..100).map(|k| 1 + (i * 100 + k) * 7_919 % 12_800).collect());
    assert!(Confidence::of(&light).mean().is_ok());
}

#[test]
fn merged_blocks_of_workers_equal_those_of_one_worker() {
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
fn widens_intervals_near_the_limit_for_autocorrelated_times() {
    for room in [1.0, 1.5, 10.0] {
        assert!((widening(1.0, room) - 1.0).abs() < 1e-12, "no widening for independent times");
        assert!(widening(2.0, room) < widening(50.0, room));
        assert!(widening(50.0, room * 1.2) < widening(50.0, room));
    }
    assert!(widening(50.0, 1.0) > 2.0 && widening(50.0, 2.0) < 1.03);
    assert!((widening(0.0, f64::INFINITY) - 1.0).abs() < 1e-12, "nothing varies");
}

#[test]
fn interpolates_within_bins_of_evenly_spread_times() {
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
    // Bins with a single value each: no interpolation.
    let values = [1_000_100, 1_002_000, 1_004_000, 1_008_000];
    let steps = of(&mut (0..400).map(|i| values[i / 100]));
    let (lo, hi) = between(&steps, 150.0, 250.0);
    assert!(lo <= 1_002_000.0 && hi >= 1_004_000.0, "{lo} {hi}");
}

/// Ten seconds of blocks with 10 or 20 replies each, at random: 4,800 replies, and a variance of 25
/// per block.
#[test]
fn the_interval_of_a_rate_is_that_of_independent_blocks() {
    let blocks = 320;
    let many = |i: u64| {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if (x ^ (x >> 29)).count_ones().is_multiple_of(2) { 10 } else { 20 }
    };
    let t = tally(blocks, |i| vec![1; many(i)]);
    let rate = t.replies as f64 / 10.0;
    let Interval { lo, hi } = Confidence::of(&t).rate(rate).expect("an interval");
    let error = (25.0 * blocks as f64).sqrt() / 10.0;
    assert!(((hi + lo) / 2.0 - rate).abs() < 1e-9);
    // Twelve coefficients estimate the variance: the width is 2.2 errors, and varies by a fifth.
    assert!((1.2..3.5).contains(&((hi - lo) / 2.0 / error)), "{lo} to {hi}, error {error}");
}

/// Times that are independent by construction, with about this many in each block.
fn independent(blocks: u64, each: u64) -> Tally {
    tally(blocks, move |i| (0..each).map(|k| 1 + drawn(i * each + k) % 97).collect())
}

/// A number that looks drawn (splitmix64).
fn drawn(k: u64) -> u64 {
    let x = (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Independent times may be too few, but are not called correlated.
#[test]
fn too_few_times_are_not_called_correlated() {
    for (blocks, each) in [(100, 1), (100, 3), (100, 4), (40, 8)] {
        let few = independent(blocks, each);
        let c = Confidence::of(&few);
        for result in [c.quantile(0.5), c.quantile(0.9), c.mean()] {
            let is_true = matches!(result, Ok(_) | Err(NoInterval::TooFewSamples { .. }));
            assert!(is_true, "{blocks} {each}: {result:?}");
        }
    }
    let enough = independent(300, 4);
    let c = Confidence::of(&enough);
    assert!(c.quantile(0.5).is_ok() && c.mean().is_ok(), "{:?}", c.mean());
    // 1,200 times of which those close in time are alike: a longer run helps, a faster one not.
    let alike = tally(300, |i| vec![1 + drawn(i / 30) % 97; 4]);
    let c = Confidence::of(&alike);
    for result in [c.quantile(0.5), c.quantile(0.9), c.mean()] {
        assert!(
            matches!(result, Err(NoInterval::Autocorrelated { effective }) if effective < 500.0),
            "{result:?}"
        );
    }
}

/// A constant with one burst: the times are not correlated, and a 64th of the run decides.
#[test]
fn a_mean_that_one_part_decides_says_so() {
    let burst = tally(320, |i| vec![if i == 100 { 400 } else { 20 }; 80]);
    assert_eq!(Confidence::of(&burst).mean(), Err(NoInterval::Dominated));
}

/// A rate of four replies could be zero however independent they are.
#[test]
fn a_rate_of_a_few_replies_has_too_few_samples() {
    let few = tally(320, |i| if i % 80 == 9 { vec![1] } else { vec![] });
    let rate = Confidence::of(&few).rate(0.4);
    assert!(matches!(rate, Err(NoInterval::TooFewSamples { needs: 5.. })), "{rate:?}");
}
