use super::*;
use crate::testing::{KS_LIMIT, ks_statistic};

/// The standard normal distribution function.
fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

#[test]
fn keyed_draws_never_change() {
    let draws = [
        keyed(0, Stream::Arrivals, 0, 0),
        keyed(1, Stream::Arrivals, 0, 0),
        keyed(1, Stream::Pick, 0, 0),
        keyed(1, Stream::Pick, 1, 0),
        keyed(1, Stream::Pick, 0, 1),
        keyed(u64::MAX, Stream::Link, u64::MAX, u64::MAX),
    ];
    expect_test::expect![[r#"
        [
            15114123258453576503,
            14512240895448352642,
            8460352000482166300,
            1155881950921884847,
            14418179372084732305,
            14880215314564804982,
        ]
    "#]]
    .assert_debug_eq(&draws);
}

#[test]
fn sequences_never_change() {
    let mut s = Sequence::new(42, Stream::Arrivals);
    let bits = [s.next_u64(), s.next_u64(), s.next_u64()];
    let draws = (
        s.unit(),
        s.below(1000),
        s.exponential(Span::from_secs(1)),
        s.uniform(Span(10), Span(1_000_000)),
        s.normal(),
        s.log_normal(Span::from_millis(1), 0.5),
    );
    expect_test::expect![[r#"
        (
            [
                8813588936495747451,
                17447309307562095173,
                14953675101450070922,
            ],
            (
                0.08987047481423893,
                499,
                Span(
                    48990295,
                ),
                Span(
                    910606,
                ),
                -0.931928696963621,
                Span(
                    400783,
                ),
            ),
        )
    "#]]
    .assert_debug_eq(&(bits, draws));
}

#[test]
fn numbered_sequences_differ() {
    let first = |number| Sequence::numbered(7, Stream::Link, number).next_u64();
    assert_eq!(first(0), Sequence::new(7, Stream::Link).next_u64());
    assert_ne!(first(0), first(1));
    assert_ne!(first(0), Sequence::new(7, Stream::Serve).next_u64());
    assert_ne!(first(0), Sequence::new(8, Stream::Link).next_u64());
}

#[test]
fn extreme_bits_stay_in_range() {
    assert_eq!(unit(0), 0.0);
    assert!(unit(u64::MAX) < 1.0);
    assert_eq!(exponential(0, Span::from_secs(1)), Span::ZERO);
    assert_eq!(exponential(u64::MAX, Span(1_000_000_000)), Span(36_736_800_570));
    assert_eq!(exponential(u64::MAX, Span::MAX), Span::MAX);
    assert_eq!(uniform(0, Span(5), Span(9)), Span(5));
    assert_eq!(uniform(u64::MAX, Span(5), Span(9)), Span(9));
    assert_eq!(uniform(u64::MAX, Span(9), Span(5)), Span(9));
    assert_eq!(uniform(123, Span(5), Span(5)), Span(5));
    assert_eq!(uniform(u64::MAX, Span::ZERO, Span::MAX), Span::MAX);
}

#[test]
fn keyed_units_are_uniform_along_each_key() {
    let n = 100_000;
    let along = [
        (0..n).map(|i| unit(keyed(i, Stream::Pick, 0, 0))).collect::<Vec<_>>(),
        (0..n).map(|i| unit(keyed(0, Stream::Pick, i, 0))).collect(),
        (0..n).map(|i| unit(keyed(0, Stream::Pick, 0, i))).collect(),
    ];
    for draws in along {
        let d = ks_statistic(draws, |x| x);
        assert!(d < KS_LIMIT, "{d}");
    }
}

#[test]
fn neighboring_keys_are_not_correlated() {
    let n = 100_000u64;
    let x = |i| unit(keyed(11, Stream::Think, i, 0)) - 0.5;
    let r = (0..n).map(|i| x(i) * x(i + 1)).sum::<f64>() / n as f64 * 12.0;
    // The standard error of a correlation of n independent pairs is 1 / sqrt(n).
    assert!(r.abs() < 4.0 / (n as f64).sqrt(), "{r}");
}

#[test]
fn draws_follow_their_distributions() {
    let mut s = Sequence::new(2024, Stream::Serve);
    let mut draws = |f: fn(&mut Sequence) -> f64| (0..100_000).map(|_| f(&mut s)).collect();
    type Cdf = fn(f64) -> f64;
    let cases: [(&str, Vec<f64>, Cdf); 5] = [
        ("unit", draws(Sequence::unit), |x| x),
        ("exponential", draws(|s| unit_exponential(s.next_u64())), |x| 1.0 - (-x).exp()),
        ("span", draws(|s| s.exponential(Span::from_secs(2)).as_secs_f64()), |x| {
            1.0 - (-x / 2.0).exp()
        }),
        ("normal", draws(Sequence::normal), phi),
        ("log-normal", draws(|s| s.log_normal(Span::from_secs(3), 0.7).as_secs_f64()), |x| {
            phi((x / 3.0).ln() / 0.7)
        }),
    ];
    for (name, draws, cdf) in cases {
        let d = ks_statistic(draws, cdf);
        assert!(d < KS_LIMIT, "{name}: {d}");
    }
}

#[test]
fn below_and_chance_have_the_expected_frequencies() {
    let mut s = Sequence::new(5, Stream::Link);
    let n = 60_000;
    let mut counts = [0u32; 6];
    for _ in 0..n {
        counts[s.below(6) as usize] += 1;
    }
    // Chi-square with 5 degrees of freedom exceeds 20.5 with probability 0.001.
    let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4).sum();
    assert!(chi < 20.5, "{counts:?}");
    assert_eq!(s.below(0), 0);
    let hits = (0..n).filter(|_| s.chance(0.1)).count() as f64;
    assert!((hits - 6000.0).abs() < 4.0 * (n as f64 * 0.09).sqrt(), "{hits}");
    assert!(!s.chance(0.0) && s.chance(1.0));
}
