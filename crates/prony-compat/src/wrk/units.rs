//! Prints and parses numbers in wrk's formats.

/// A family of units: the base unit, the larger ones, and the factor between them.
struct Units {
    scale: f64,
    base: &'static str,
    larger: &'static [&'static str],
}

const MICROSECONDS: Units = Units { scale: 1e3, base: "us", larger: &["ms"] };
const SECONDS: Units = Units { scale: 60.0, base: "s", larger: &["m", "h"] };
const BINARY: Units = Units { scale: 1024.0, base: "", larger: &["K", "M", "G", "T"] };
const METRIC: Units = Units { scale: 1e3, base: "", larger: &["k", "M", "G", "T"] };

impl Units {
    /// Print a value in its largest suitable unit; a unit is used from 85 % of it upward.
    fn format(&self, mut value: f64, digits: usize) -> String {
        let mut unit = self.base;
        for larger in self.larger {
            if value < self.scale * 0.85 {
                break;
            }
            value /= self.scale;
            unit = larger;
        }
        format!("{value:.digits$}{unit}")
    }

    /// Parse a whole number, with or without a unit.
    fn parse(&self, text: &str) -> Option<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let number: u64 = digits.parse().ok()?;
        if unit.is_empty() || unit.eq_ignore_ascii_case(self.base) {
            return Some(number);
        }
        let at = self.larger.iter().position(|l| l.eq_ignore_ascii_case(unit))?;
        number.checked_mul((self.scale as u64).checked_pow(at as u32 + 1)?)
    }
}

/// A measured time: `726.30us`, `1.85ms`, `2.10s`, `1.20m`.
pub(super) fn time(us: f64) -> String {
    if us >= 1e6 { SECONDS.format(us / 1e6, 2) } else { MICROSECONDS.format(us, 2) }
}

/// A time from the command line: `30s`, `2m`.
pub(super) fn seconds(s: u64) -> String {
    SECONDS.format(s as f64, 0)
}

/// An amount of data without its `B`: `737.65K`.
pub(super) fn binary(bytes: f64) -> String {
    BINARY.format(bytes, 2)
}

/// A number: `20.59k`.
pub(super) fn metric(n: f64) -> String {
    METRIC.format(n, 2)
}

/// Parse `1k`, `2M`.
pub(super) fn parse_metric(text: &str) -> Option<u64> {
    METRIC.parse(text)
}

/// Parse `10`, `10s`, `2m`, `1h`; the result is in seconds.
pub(super) fn parse_time(text: &str) -> Option<u64> {
    SECONDS.parse(text)
}

/// Align the text at the right of `width` columns, the letters of its unit in the last two.
pub(super) fn column(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).take_while(char::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>width$}{:pad$}", "", width = width - pad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_numbers_as_wrk_does() {
        let times = [0.0, 100.0, 849.9, 850.0, 1_850.0, 849_000.0, 999_999.0, 1e6, 52e6, 3.1e9];
        let printed = times.map(time);
        let expected = [
            "0.00us",
            "100.00us",
            "849.90us",
            "0.85ms",
            "1.85ms",
            "849.00ms",
            "1000.00ms",
            "1.00s",
            "0.87m",
            "0.86h",
        ];
        assert_eq!(printed, expected);
        assert_eq!([1, 30, 60, 61, 3_600].map(seconds), ["1s", "30s", "1m", "1m", "1h"]);
        assert_eq!([0.0, 737.65 * 1024.0, 6.2e6].map(binary), ["0.00", "737.65K", "5.91M"]);
        assert_eq!([0.0, 849.0, 20_590.0].map(metric), ["0.00", "849.00", "20.59k"]);
    }

    #[test]
    fn parses_numbers_as_wrk_does() {
        assert_eq!(
            ["1k", "2M", "01", "7"].map(parse_metric),
            [Some(1_000), Some(2_000_000), Some(1), Some(7)]
        );
        assert_eq!(["1.5k", "x", "", "1x", "-1"].map(parse_metric), [None; 5]);
        assert_eq!(
            ["10", "10s", "2m", "1H"].map(parse_time),
            [Some(10), Some(10), Some(120), Some(3_600)]
        );
        assert_eq!(["1.5", "1x", "100ms", "s"].map(parse_time), [None; 4]);
    }

    #[test]
    fn aligns_digits_with_units_in_the_last_two_columns() {
        assert_eq!(column("726.30us", 8), "726.30us");
        assert_eq!(column("20.59k", 8), " 20.59k ");
        assert_eq!(column("849.00", 10), "  849.00  ");
    }
}
