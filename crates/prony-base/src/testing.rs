//! What the tests of several crates share. prony-plan includes this file in its own tests.

use std::fmt;

use expect_test::Expect;
use prony_base::units::ParseError;
use proptest::prelude::*;

/// Compare the errors of a parser for invalid texts, one per line, with the expected ones.
pub(crate) fn check_errors<T: fmt::Debug>(
    texts: &[&str],
    parse: impl Fn(&str) -> Result<T, ParseError>,
    sentences: Expect,
) {
    let all: String = texts
        .iter()
        .map(|text| match parse(text) {
            Ok(value) => panic!("{text:?} was parsed as {value:?}"),
            Err(error) => format!("{error}\n"),
        })
        .collect();
    assert!(all.lines().count() == texts.len(), "an error has more than one line:\n{all}");
    sentences.assert_eq(&all);
}

/// Arbitrary texts. Half of them consist of the parser's own characters, to get past its first
/// checks.
pub(crate) fn any_near(alphabet: &'static str) -> impl Strategy<Value = String> {
    let chars: Vec<_> = alphabet.chars().collect();
    let near = prop::collection::vec(prop::sample::select(chars), 0..24)
        .prop_map(|chars| chars.into_iter().collect());
    prop_oneof![any::<String>(), near]
}

/// The Kolmogorov-Smirnov statistic: the largest distance between the empirical distribution
/// function of the draws and `cdf`, times the square root of their number. If `cdf` is correct, it
/// exceeds 1.95 once in a thousand samples. The seeds are fixed, so the tests are deterministic.
pub(crate) fn ks_statistic(draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    ks_statistic_from(0.0, draws, cdf)
}

/// The same, looking only at draws of at least `least`: for draws that are rounded to less than
/// that.
pub(crate) fn ks_statistic_from(least: f64, mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    draws.sort_by(f64::total_cmp);
    let n = draws.len() as f64;
    let looked_at = draws.iter().enumerate().filter(|(_, x)| **x >= least);
    let distance = looked_at.fold(0.0f64, |worst, (i, &x)| {
        let p = cdf(x);
        worst.max(p - i as f64 / n).max((i + 1) as f64 / n - p)
    });
    distance * n.sqrt()
}

/// What that statistic exceeds once in a thousand samples.
pub(crate) const KS_LIMIT: f64 = 1.95;

/// The regularized lower incomplete gamma function: the probability that a gamma draw of the shape
/// `a` with scale 1 is at most `x`. By its series, or by its continued fraction (modified Lentz's
/// method) where the series converges slowly.
pub(crate) fn gamma_cdf(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let factor = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return sum * factor;
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (f64::MAX, 1.0 / b);
    let mut fraction = d;
    for k in 1..10_000 {
        let k = f64::from(k);
        let an = -k * (k - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let step = d * c;
        fraction *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - factor * fraction
}
