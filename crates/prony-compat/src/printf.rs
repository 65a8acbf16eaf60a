//! Formats numbers like C's `printf`, as parsers of the old tools' output expect.

/// `%g`: six significant digits without trailing zeros; with an exponent if the number is below
/// 1e-4 or has more than six digits before the decimal point.
pub(crate) fn general(x: f64) -> String {
    if !x.is_finite() {
        return not_finite(x);
    }
    if x == 0.0 {
        return if x.is_sign_negative() { "-0" } else { "0" }.into();
    }
    // Rounding to six digits can carry into the exponent, so the rounded number decides.
    let scientific = format!("{x:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("written with an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).expect("at most five");
        return cut(&format!("{x:.decimals$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", cut(digits), exponent.unsigned_abs())
}

/// Infinity and NaN as the C library prints them. On x86-64, 0/0 has its sign bit set, which is
/// printed.
fn not_finite(x: f64) -> String {
    let name = if x.is_nan() { "nan" } else { "inf" };
    format!("{}{name}", if x.is_sign_negative() { "-" } else { "" })
}

/// Remove the zeros at the end of the fraction.
fn cut(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn general_matches_printf() {
        // The output of printf("%g") of the C library.
        for (x, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (4.0, "4"),
            (0.25, "0.25"),
            (1e6, "1e+06"),
            (999_999.4, "999999"),
            (999_999.5, "1e+06"),
            (10.0 / 3.0, "3.33333"),
            (123_456.789, "123457"),
            (0.0001, "0.0001"),
            (0.000_099_999_99, "0.0001"),
            (0.000_012_345, "1.2345e-05"),
            (-1.5, "-1.5"),
            (1e100, "1e+100"),
            (1.234_567_89e-7, "1.23457e-07"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(x), text, "{x:e}");
        }
    }
}
