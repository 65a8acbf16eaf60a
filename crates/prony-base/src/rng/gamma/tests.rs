use super::*;
use crate::rng::Stream;
use crate::testing::{KS_LIMIT, gamma_cdf, ks_statistic};

const SHAPES: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 1.5, 4.0, 100.0];

/// The inter-arrival times of a rate of 1.
fn gaps(shape: f64, seed: u64, n: usize) -> Vec<f64> {
    let mut sum = GammaSum::new(Sequence::new(seed, Stream::Arrivals), shape);
    std::iter::repeat_with(|| sum.one() / shape).take(n).collect()
}

/// Against values of another implementation (mpmath 1.3, 30 digits), and in closed form.
#[test]
fn reference_has_known_values() {
    for (a, x, p) in [
        (0.05, 1e-6, 0.5148279545251782),
        (0.25, 0.01, 0.34818645276048404),
        (0.25, 0.5, 0.8464864041916775),
        (0.25, 3.0, 0.9949891040512917),
        (0.5, 0.2, 0.4729107431344619),
        (0.5, 2.0, 0.9544997361036416),
        (1.5, 0.3, 0.10356762665808857),
        (2.5, 4.0, 0.8437643724222776),
        (4.0, 1.0, 0.01898815687615381),
        (4.0, 9.0, 0.9787735136970911),
        (10.0, 7.0, 0.16950406276132657),
        (10.0, 25.0, 0.9997785233617512),
        (100.0, 90.0, 0.15822098918643018),
        (100.0, 130.0, 0.9972495916326934),
    ] {
        let found = gamma_cdf(a, x);
        assert!((found - p).abs() < 1e-12, "{a}, {x}: {found}, not {p}");
    }
    for x in [0.01, 0.5, 1.0, 3.0, 20.0] {
        assert!((gamma_cdf(1.0, x) - (1.0 - libm::exp(-x))).abs() < 1e-14, "{x}");
        assert!((gamma_cdf(0.5, x) - libm::erf(x.sqrt())).abs() < 1e-14, "{x}");
    }
}

#[test]
fn draws_have_the_gamma_distribution() {
    for shape in SHAPES {
        let d = ks_statistic(gaps(shape, 2024, 100_000), |gap| gamma_cdf(shape, gap * shape));
        assert!(d < KS_LIMIT, "shape {shape}: {d}");
    }
}

/// Over many seeds, the statistics are themselves distributed as they should be: the mean has the
/// variance 1 / (shape n), and one test in twenty fails at the 5 % level.
#[test]
fn draws_of_many_seeds_have_the_gamma_distribution() {
    const SEEDS: u64 = 300;
    const N: usize = 1_000;
    for shape in SHAPES {
        let (mut failed, mut scores, mut squares) = (0, 0.0, 0.0);
        for seed in 0..SEEDS {
            let gaps = gaps(shape, seed, N);
            let mean = gaps.iter().sum::<f64>() / N as f64;
            let score = (mean - 1.0) * (shape * N as f64).sqrt();
            (scores, squares) = (scores + score, squares + score * score);
            let d = ks_statistic(gaps, |gap| gamma_cdf(shape, gap * shape));
            failed += u32::from(d > 1.358);
        }
        let seeds = SEEDS as f64;
        // Four standard errors; those of a mean square of normal scores are sqrt(2 / n). The scores
        // of small shapes have heavier tails: their kurtosis is 3 + 6 / (shape n).
        assert!(scores.abs() < 4.0 * seeds.sqrt(), "shape {shape}: mean {}", scores / seeds);
        let spread = (2.0 + 6.0 / (shape * N as f64)) / seeds;
        let square = squares / seeds;
        assert!((square - 1.0).abs() < 4.0 * spread.sqrt(), "shape {shape}: variance {square}");
        let expected = 0.05 * seeds;
        let chance = 4.0 * (expected * 0.95).sqrt();
        assert!((f64::from(failed) - expected).abs() < chance, "shape {shape}: {failed} failed");
    }
}

#[test]
fn squared_coefficient_of_variation_is_1_over_the_shape() {
    for shape in SHAPES {
        let n = 400_000;
        let gaps = gaps(shape, 7, n);
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n as f64;
        let scv = variance / (mean * mean);
        // Four standard errors: that of a sample variance is the variance times
        // sqrt((kurtosis - 1) / n), with a kurtosis of 3 + 6 / shape.
        let error = 4.0 * ((2.0 + 6.0 / shape) / n as f64).sqrt();
        assert!((scv * shape - 1.0).abs() < error, "shape {shape}: {scv}");
    }
}

#[test]
fn successive_draws_are_not_correlated() {
    for shape in SHAPES {
        let n = 100_000;
        let gaps = gaps(shape, 5, n);
        let r = gaps.windows(2).map(|w| (w[0] - 1.0) * (w[1] - 1.0)).sum::<f64>() * shape;
        assert!(r.abs() / (n as f64) < 4.0 / (n as f64).sqrt(), "shape {shape}: {r}");
    }
}

#[test]
fn sum_does_not_depend_on_the_batch_size() {
    for shape in SHAPES {
        let start = || GammaSum::new(Sequence::new(7, Stream::Arrivals), shape);
        let mut one = start();
        let values: Vec<f64> = std::iter::repeat_with(|| {
            one.draw(1);
            one.value()
        })
        .take(1_000)
        .collect();
        for step in [2, 3, 16, 100] {
            let mut other = start();
            for k in (0..1_000 / step).map(|k| k * step) {
                other.draw(step as u64);
                assert_eq!(other.value().to_bits(), values[k + step - 1].to_bits(), "{step}");
            }
        }
    }
}

#[test]
fn extreme_shapes_give_finite_ascending_sums() {
    for shape in [0.01, 1_000.0] {
        let mut sum = GammaSum::new(Sequence::new(1, Stream::Arrivals), shape);
        let mut last = 0.0;
        for _ in 0..100_000 {
            sum.draw(1);
            assert!(sum.value() >= last && sum.value().is_finite());
            last = sum.value();
        }
        // Four standard errors of the mean.
        let error = 4.0 * (1.0 / (shape * 100_000.0_f64)).sqrt();
        assert!((last / 100_000.0 - 1.0).abs() < error, "shape {shape}: {last}");
    }
}
