//! Gamma arrivals: a renewal process in units of the integral of the rate.

use super::*;
use crate::testing::{gamma_cdf, ks_statistic_from};

const SHAPES: [f64; 4] = [0.25, 0.5, 2.0, 9.0];

/// Shorter distances are changed by the rounding of times to nanoseconds.
const LEAST: f64 = 1e-3;

/// The distances of the arrivals in units of the integral of the rate, that to the first included.
fn distances(plan: &Plan, rate: &RatePlan) -> Vec<f64> {
    let mut last = 0.0;
    let distance = |a: &Arrival| {
        let integral = rate.arrivals_until(a.at.since(Nanos::ZERO));
        let distance = integral - last;
        last = integral;
        distance
    };
    all(plan).iter().map(distance).collect()
}

fn mean_and_scv(distances: &[f64]) -> (f64, f64) {
    let n = distances.len() as f64;
    let mean = distances.iter().sum::<f64>() / n;
    let variance = distances.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
    (mean, variance / (mean * mean))
}

#[test]
fn p07_gamma_inter_arrival_times_have_the_distribution_of_the_shape() {
    for shape in SHAPES {
        let rate = RatePlan::constant(2_000.0);
        let mut p = plan(rate.clone(), Arrivals::Gamma(shape));
        p.stop.requests = Some(100_000);
        let distances = distances(&p, &rate);
        let (mean, scv) = mean_and_scv(&distances);
        assert!((mean - 1.0).abs() < 4.0 / (shape * 100_000.0).sqrt(), "{shape}: mean {mean}");
        let error = 4.0 * ((2.0 + 6.0 / shape) / 100_000.0).sqrt();
        assert!((scv * shape - 1.0).abs() < error, "{shape}: squared variation {scv}");
        let d = ks_statistic_from(LEAST, distances, |x| gamma_cdf(shape, x * shape));
        assert!(d < KS_LIMIT, "{shape}: {d}");
    }
}

/// On a ramp, the same process runs in units of the integral of the rate.
#[test]
fn gamma_arrivals_on_a_ramp_follow_its_integral() {
    let r = rate(&[piece(100.0, 2000.0, 30.0), piece(500.0, 500.0, 30.0)]);
    for shape in SHAPES {
        let distances = distances(&plan(r.clone(), Arrivals::Gamma(shape)), &r);
        let (n, total) = (distances.len() as f64, r.arrivals_until(Span::from_secs(60)));
        // The number of renewals has the variance total / shape.
        assert!((n - total).abs() < 4.0 * (total / shape).sqrt(), "{shape}: {n} of {total}");
        let d = ks_statistic_from(LEAST, distances, |x| gamma_cdf(shape, x * shape));
        assert!(d < KS_LIMIT, "{shape}: {d}");
    }
}

/// Over many seeds, the number of arrivals in a time has the mean and the variance of a renewal
/// process: t + (v - 1) / 2 and v t, where v = 1 / shape is the squared coefficient of variation
/// (Cox, Renewal Theory, 1962; here the first arrival is a whole distance from the start).
#[test]
fn numbers_of_arrivals_of_many_seeds_have_the_variance_of_a_renewal_process() {
    const SEEDS: u64 = 1_000;
    for shape in SHAPES {
        let v = 1.0 / shape;
        let mut p = plan(rate(&[piece(400.0, 400.0, 1.0)]), Arrivals::Gamma(shape));
        let counts: Vec<f64> = (0..SEEDS)
            .map(|seed| {
                p.seed = seed;
                all(&p).len() as f64
            })
            .collect();
        let n = SEEDS as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n;
        let (expected, spread) = (400.0 + (v - 1.0) / 2.0, v * 400.0);
        let error = 4.0 * (spread / n).sqrt();
        assert!((mean - expected).abs() < error, "{shape}: mean {mean}, expected {expected}");
        // Four standard errors of a variance; it has terms of a lower order, below 2 %.
        let error = 4.0 * (2.0 / n).sqrt() + 0.02;
        assert!((variance / spread - 1.0).abs() < error, "{shape}: variance {variance}");
    }
}

#[test]
fn gamma_arrivals_of_shape_1_are_those_of_a_poisson_process() {
    let mut p = plan(rate(&[piece(100.0, 4000.0, 3.0)]), Arrivals::Poisson);
    p.warmup = Span::from_secs(1);
    let poisson = all(&p);
    p.load = Load::Open {
        rate: rate(&[piece(100.0, 4000.0, 3.0)]),
        arrivals: Arrivals::Gamma(1.0),
        connections: 10,
    };
    assert_eq!(all(&p), poisson);
}

#[test]
fn gamma_schedules_of_a_seed_never_change() {
    let at = |shape| {
        let mut p = plan(rate(&[piece(1000.0, 5000.0, 1.0)]), Arrivals::Gamma(shape));
        p.seed = 42;
        p.stop.requests = Some(4);
        all(&p).iter().map(|a| a.at.0).collect::<Vec<_>>()
    };
    expect_test::expect![[r#"
        (
            [
                2417092,
                4572870,
                9279049,
                15082729,
            ],
            [
                899094,
                1449635,
                3711411,
                4332225,
            ],
        )
    "#]]
    .assert_debug_eq(&(at(0.25), at(4.0)));
}

/// Each of many shards, as of a run on many hosts.
#[test]
fn shards_of_gamma_arrivals_are_the_same_schedule_for_every_number_of_them() {
    for shape in [0.1, 0.5, 7.0] {
        let mut p = plan(RatePlan::constant(3_000.0), Arrivals::Gamma(shape));
        p.stop.requests = Some(5_000);
        p.warmup = Span::from_millis(200);
        let whole = all(&p);
        for n in [2, 7, 64, 500] {
            let mut union: Vec<_> = (0..n).flat_map(|i| all(&p.shard(i, n))).collect();
            union.sort_by_key(|a| a.index);
            assert!(union == whole, "{shape}, {n} shards");
        }
    }
}
