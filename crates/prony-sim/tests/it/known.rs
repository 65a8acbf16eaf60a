//! Known distributions, which measured ones have to equal within 1 %.
//!
//! With n independent times of an exponential distribution, the standard error of the mean is
//! 1 / sqrt(n) of it, and that of the quantile q is sqrt(q / ((1 - q) n)) / -ln(1 - q) of it: for
//! 400,000 times 0.16 % of the mean, 0.23 % of the median and 0.34 % of the 99th. A histogram
//! rounds up by at most 0.1 %. So 400,000 times are enough for 1 %, and the 99.9th percentile
//! (0.72 %) is not among those that can be decided.

use prony_tally::record::hist::Hist;

/// How far a figure may be from the true one.
pub(crate) const BOUND: f64 = 0.01;

/// About 400,000; a random number of times may be lower.
const TIMES: u64 = 395_000;

/// The quantiles that 400,000 times decide.
pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// A figure is the true one within 1 %.
pub(crate) fn assert_close(measured: f64, truth: f64, what: &str) {
    assert!((measured / truth - 1.0).abs() < BOUND, "{what}: {measured}, not {truth}");
}

/// Mean and quantiles of the times are those of the distribution with this mean and these
/// quantiles.
pub(crate) fn assert_distribution(
    hist: &Hist,
    mean: f64,
    quantile: impl Fn(f64) -> f64,
    what: &str,
) {
    assert!(hist.count() >= TIMES, "{what}: {} times are too few", hist.count());
    assert_close(hist.mean_ns().expect("times"), mean, what);
    for q in QUANTILES {
        let measured = hist.quantile(q).expect("times").0 as f64;
        assert_close(measured, quantile(q), &format!("{what} {q}"));
    }
}

/// The times are exponential with this mean.
pub(crate) fn assert_exponential(hist: &Hist, mean: f64, what: &str) {
    assert_distribution(hist, mean, |q| -(1.0 - q).ln() * mean, what);
}

/// The probability that the sum of `k` exponential times of this rate is at most `t`.
pub(crate) fn erlang(k: u32, rate: f64, t: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for i in 0..k {
        sum += term;
        term *= rate * t / f64::from(i + 1);
    }
    1.0 - sum * (-rate * t).exp()
}

/// Where a distribution function reaches `q`, between 0 and `most`.
pub(crate) fn inverse(cdf: impl Fn(f64) -> f64, q: f64, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if cdf(middle) < q { low = middle } else { high = middle }
    }
    low
}

#[test]
fn the_distributions_agree_in_known_cases() {
    assert_close(erlang(1, 2.0, 0.5), 1.0 - (-1.0_f64).exp(), "one is exponential");
    // A chi-squared distribution with 10 degrees of freedom: the sum of 5 with a mean of 2.
    assert_close(erlang(5, 0.5, 9.341_8), 0.5, "the median of a table");
    assert_close(inverse(|t| erlang(5, 0.5, t), 0.99, 100.0), 23.209, "the percentile of a table");
}
