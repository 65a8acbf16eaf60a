//! Student's t, the normal distribution and Fisher's F, for any error probability.

/// The continued fraction of the incomplete beta function has converged at this relative change.
const CONVERGED: f64 = 1e-14;
/// More terms than it ever needs.
const TERMS_MAX: u32 = 10_000;
/// Halvings of the interval that contains a quantile.
const HALVINGS: u32 = 200;

/// The two-sided critical value: a variate of Student's t with this many degrees of freedom (at
/// least 1, not necessarily whole) is further from zero with the probability `error` (above 0,
/// below 1).
pub(crate) fn t_critical(error: f64, freedom: f64) -> f64 {
    // Of the logarithm, because small errors with few degrees of freedom lead far out.
    let (mut low, mut high) = (-30.0, 300.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if t_error(libm::exp(middle), freedom) > error {
            low = middle;
        } else {
            high = middle;
        }
    }
    libm::exp(high)
}

/// The probability that a variate of Student's t is further than `t` from zero.
pub(crate) fn t_error(t: f64, freedom: f64) -> f64 {
    if freedom > 1e7 {
        return libm::erfc(t / std::f64::consts::SQRT_2);
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The same critical value of the standard normal distribution.
pub(crate) fn z_critical(error: f64) -> f64 {
    t_critical(error, f64::INFINITY)
}

/// The probability that a variate of Fisher's F with these degrees of freedom is larger than `f`.
pub(crate) fn f_error(f: f64, above: f64, below: f64) -> f64 {
    incomplete_beta(below / 2.0, above / 2.0, below / (below + above * f.max(0.0)))
}

/// The regularized incomplete beta function (Abramowitz and Stegun 26.5.8, evaluated with the
/// method of Lentz, Applied Optics 15, 1976).
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log1p(-x);
    // The fraction converges fast on one side of the mean; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        libm::exp(front) * fraction(a, b, x) / a
    } else {
        1.0 - libm::exp(front) * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let guarded = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for i in 1..=TERMS_MAX {
        let m = f64::from(i);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guarded(1.0 + even * d);
        c = guarded(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guarded(1.0 + odd * d);
        c = guarded(1.0 + odd / c);
        value *= d * c;
        if (d * c - 1.0).abs() < CONVERGED {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The critical value of one degree of freedom in closed form.
    fn cauchy(error: f64) -> f64 {
        libm::tan(std::f64::consts::FRAC_PI_2 * (1.0 - error))
    }

    #[test]
    fn critical_values_match_the_tables() {
        for (error, freedom, t) in [
            (0.05, 1.0, 12.706_204_736),
            (0.05, 5.0, 2.570_581_836),
            (0.01, 10.0, 3.169_272_673),
            (0.001, 30.0, 3.645_958_635),
            (0.05, f64::INFINITY, 1.959_963_985),
            (0.001, 1e9, 3.290_526_731),
            (1e-6, f64::INFINITY, 4.891_638_475),
        ] {
            let got = t_critical(error, freedom);
            assert!((got / t - 1.0).abs() < 1e-8, "{error} {freedom}: {got}, not {t}");
        }
    }

    #[test]
    fn f_matches_the_tables() {
        // The 5 % and 1 % points.
        for (f, above, below, p) in
            [(4.964_602_744, 1.0, 10.0, 0.05), (2.901, 5.0, 15.0, 0.05), (4.556, 5.0, 15.0, 0.01)]
        {
            let got = f_error(f, above, below);
            assert!((got / p - 1.0).abs() < 2e-3, "{f} {above} {below}: {got}, not {p}");
        }
        // With one degree of freedom above, it is the square of t.
        assert!((f_error(9.0, 1.0, 7.0) / t_error(3.0, 7.0) - 1.0).abs() < 1e-12);
        assert_eq!((f_error(0.0, 3.0, 4.0), f_error(f64::INFINITY, 3.0, 4.0)), (1.0, 0.0));
    }

    #[test]
    fn one_and_two_degrees_of_freedom_have_closed_forms() {
        for error in [0.5, 0.05, 1e-3, 1e-6, 1e-9] {
            let one = t_critical(error, 1.0);
            assert!((one / cauchy(error) - 1.0).abs() < 1e-6, "{error}: {one}");
            // The distribution function of two degrees of freedom is algebraic.
            let p = 1.0 - error / 2.0;
            let two = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (error / 2.0))).sqrt();
            let got = t_critical(error, 2.0);
            assert!((got / two - 1.0).abs() < 1e-6, "{error}: {got}, not {two}");
        }
    }

    #[test]
    fn errors_and_critical_values_are_inverse() {
        for freedom in [1.0, 2.5, 7.0, 53.0, 1e4, f64::INFINITY] {
            for error in [0.2, 0.01, 1e-4, 1e-7] {
                let back = t_error(t_critical(error, freedom), freedom);
                assert!((back / error - 1.0).abs() < 1e-6, "{freedom} {error}: {back}");
            }
        }
    }
}
