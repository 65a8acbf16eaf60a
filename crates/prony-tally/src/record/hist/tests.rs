use proptest::prelude::*;

use super::*;

const QUANTILES: [f64; 9] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

fn hist(values: &[u64]) -> Hist {
    let mut h = Hist::new();
    values.iter().for_each(|&v| h.record(Span(v)));
    h
}

/// Pseudo-random numbers in [0, 1) from a fixed seed.
fn units(seed: u64, n: usize) -> impl Iterator<Item = f64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    })
    .take(n)
}

fn check_against_sort(name: &str, mut values: Vec<u64>) {
    let h = hist(&values);
    values.sort_unstable();
    let n = values.len() as u64;
    for q in QUANTILES {
        let Some(reported) = h.quantile(q) else {
            assert!(n < Hist::samples_needed(q), "{name}: p{} is reported", q * 100.0);
            continue;
        };
        let exact = values[(Hist::rank(q, n) - 1) as usize];
        let off = reported.0.abs_diff(exact) as f64;
        assert!(
            off <= exact as f64 * 0.001,
            "{name}: quantile {q}: {reported:?} instead of {exact}"
        );
    }
    assert_eq!(h.quantile(0.0), values.first().map(|&v| Span(v)));
    assert_eq!(h.quantile(1.0), values.last().map(|&v| Span(v)));
    assert_eq!((h.min(), h.max()), (h.quantile(0.0), h.quantile(1.0)));
}

#[test]
fn p11_quantiles_match_an_exact_sort_within_a_thousandth() {
    let n = 200_000;
    type Inverse = fn(f64) -> f64;
    let distributions: [(&str, Inverse); 6] = [
        ("constant", |_| 123_457.0),
        ("uniform", |u| 1.0 + u * 1e6),
        ("exponential", |u| -1e6 * (1.0 - u).ln()),
        ("pareto", |u| 1e3 / (1.0 - u).powf(1.5)),
        ("bimodal", |u| if u < 0.985 { 2e5 + u } else { 1.9e9 + u * 1e8 }),
        ("a few nanoseconds", |u| (u * 9.0).floor()),
    ];
    for (seed, (name, inverse)) in distributions.iter().enumerate() {
        let draw = |u| inverse(u).min(TIME_MAX.0 as f64) as u64;
        check_against_sort(name, units(seed as u64, n).map(draw).collect());
    }
}

/// P10: one worker had the slow connections. The merged percentile is that of the pooled sample,
/// and differs from the average of the workers' percentiles.
#[test]
fn p10_merged_percentile_equals_that_of_the_pooled_sample() {
    let fast: Vec<u64> = units(1, 200_000).map(|u| 1_000_000 + (u * 1e5) as u64).collect();
    let slow: Vec<u64> = units(2, 1_000).map(|u| 50_000_000 + (u * 1e7) as u64).collect();
    let pooled = [fast.clone(), slow.clone()].concat();
    let (fast, slow) = (hist(&fast), hist(&slow));
    let mut merged = fast.clone();
    merged.merge(&slow);
    assert_eq!(merged, hist(&pooled));
    check_against_sort("pooled", pooled);
    let p99 = |h: &Hist| h.quantile(0.99).expect("enough samples").0 as f64;
    let average = (p99(&fast) + p99(&slow)) / 2.0;
    assert!(average > 20.0 * p99(&merged), "{average} and {}", p99(&merged));
}

#[test]
fn computes_exact_ranks() {
    let cases =
        [(0.5, 20, 10), (0.999, 10_000, 9_990), (0.99, 1_000, 990), (0.9999, 100_000, 99_990)];
    for (q, n, rank) in cases {
        assert_eq!(Hist::rank(q, n), rank, "{q} of {n}");
    }
    assert_eq!(Hist::rank(0.5, 21), 11);
    assert_eq!(Hist::rank(0.5, 1), 1);
    for n in (1_000..5_000_000).step_by(9_000) {
        assert_eq!(Hist::rank(0.999, n), n * 999 / 1_000, "{n}");
    }
}

#[test]
fn p12_reports_no_quantile_of_a_sample_that_is_too_small() {
    let needs = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0, 0.0].map(Hist::samples_needed);
    assert_eq!(needs, [20, 40, 100, 200, 1_000, 10_000, 100_000, 1, 1]);
    let mut h = Hist::new();
    assert_eq!(h.quantile(1.0), None);
    h.record_n(Span(5), 999);
    assert_eq!(h.quantile(0.99), None);
    assert_eq!(h.estimate(0.99), Some(Span(5)));
    h.record(Span(7));
    assert_eq!(h.quantile(0.99), Some(Span(5)));
}

#[test]
fn moments_are_exact_even_with_huge_squares() {
    let h = hist(&[2, 4, 4, 4, 5, 5, 7, 9]);
    assert_eq!((h.mean_ns(), h.stdev_ns()), (Some(5.0), Some(2.0)));
    // 10^12 equal times of an hour, then times of an hour that differ by two nanoseconds.
    let mut h = Hist::new();
    h.record_n(TIME_MAX, 1_000_000_000_000);
    assert_eq!(h.stdev_ns(), Some(0.0));
    let mut h = Hist::new();
    h.record_n(Span(TIME_MAX.0 - 2), 500_000_000_000);
    h.record_n(TIME_MAX, 500_000_000_000);
    assert_eq!(h.mean_ns(), Some(TIME_MAX.0 as f64 - 1.0));
    assert_eq!(h.stdev_ns(), Some(1.0));
    assert_eq!((Hist::new().mean_ns(), Hist::new().stdev_ns()), (None, None));
}

#[test]
fn keeps_the_exact_maximum_of_times_over_an_hour() {
    let mut h = hist(&[5]);
    h.record(Span::from_secs(7_200));
    h.record(Span::MAX);
    assert_eq!(h.max(), Some(Span::MAX));
    assert_eq!(h.quantile(1.0), Some(Span::MAX));
    assert!(h.stdev_ns().is_some_and(f64::is_finite));
}

/// From a file, the bins, the count, and the shortest and the longest time must agree.
#[test]
fn a_saved_histogram_that_contradicts_itself_is_refused() {
    let hour = TIME_MAX.0;
    for values in
        [vec![5, 5, 70_000, 9_000_000], vec![0], vec![hour + 7, 2 * hour], vec![1, u64::MAX]]
    {
        let saved = serde_json::to_value(hist(&values)).expect("serializable");
        let read = |saved| serde_json::from_value::<Hist>(saved).map_err(|e| e.to_string());
        assert_eq!(read(saved.clone()).as_ref(), Ok(&hist(&values)), "{values:?}");
        let changed = |key: &str, to: serde_json::Value| {
            let mut saved = saved.clone();
            assert!(saved[key] != to, "{key}");
            saved[key] = to;
            read(saved).expect_err("a contradiction")
        };
        let count = (values.len() + 1).into();
        assert_eq!(
            changed("count", count),
            "the histogram contradicts its count, minimum or maximum"
        );
    }
    let saved = serde_json::to_value(hist(&[5_000, 70_000, 9_000_000])).expect("serializable");
    for (key, ns) in
        [("min_ns", 5_100), ("min_ns", 8_000_000), ("max_ns", 8_000_000), ("max_ns", 6_000)]
    {
        let mut saved = saved.clone();
        saved[key] = ns.into();
        let e = serde_json::from_value::<Hist>(saved).expect_err("bins beyond it").to_string();
        assert_eq!(e, "the histogram has times beyond its minimum or maximum", "{key} {ns}");
    }
}

fn times() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![0..2_000_u64, 0..=TIME_MAX.0], 0..200)
}

proptest! {
    #[test]
    fn merging_equals_pooling(a in times(), b in times()) {
        let pooled = hist(&a.iter().chain(&b).copied().collect::<Vec<_>>());
        let mut merged = hist(&a);
        merged.merge(&hist(&b));
        prop_assert_eq!(&merged, &pooled);
        for q in QUANTILES {
            prop_assert_eq!(merged.quantile(q), pooled.quantile(q));
        }
    }

    #[test]
    fn standard_deviation_matches_its_definition(values in times()) {
        prop_assume!(!values.is_empty());
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| v as f64).sum::<f64>() / n;
        let square = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / n;
        let reported = hist(&values).stdev_ns().expect("not empty");
        let stdev = square.sqrt();
        let tolerance = 1e-6 * stdev + 1e-3;
        prop_assert!((reported - stdev).abs() <= tolerance, "{} {}", reported, stdev);
    }
}

/// A plan can have 20,000 names, of which each is seen a few times.
#[test]
fn few_times_take_little_memory() {
    let mut few = Hist::sparse();
    for i in 0..FEW_MAX - 1 {
        few.record(Span(i * 1_000_003));
        assert!(few.bins.is_none() && few.clone().bins.is_none());
    }
    let mut merged = Hist::sparse();
    merged.merge(&few);
    assert!(merged.bins.is_none() && merged == few);
    let saved = serde_json::to_value(&few).expect("serializable");
    let read: Hist = serde_json::from_value(saved).expect("a histogram");
    assert!(read.bins.is_none() && read == few);
    // From here on, each time is one addition.
    few.record(Span(5));
    merged.merge(&read);
    assert!(few.bins.is_some() && few.few.is_none() && merged.bins.is_some());
    let mut usual = Hist::new();
    usual.merge(&read);
    usual.record(Span(5));
    assert!(usual.bins.is_some() && usual == few);
}

proptest! {
    #[test]
    fn sparse_ones_merge_exactly(a in times(), b in times(), kinds in [any::<bool>(); 3]) {
        let of = |values: &[u64], is_sparse: bool| {
            let mut h = if is_sparse { Hist::sparse() } else { Hist::new() };
            values.iter().for_each(|&v| h.record(Span(v)));
            h
        };
        let pooled = hist(&a.iter().chain(&b).copied().collect::<Vec<_>>());
        let mut merged = of(&[], kinds[0]);
        merged.merge(&of(&a, kinds[1]));
        merged.merge(&of(&b, kinds[2]));
        prop_assert_eq!(&merged, &pooled);
        for q in QUANTILES {
            prop_assert_eq!(merged.estimate(q), pooled.estimate(q));
        }
    }
}
