//! Numbers for people: three significant digits and a unit.

use prony_base::units::Span;

const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
const BYTES: [(f64, &str); 5] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1048576.0, "MiB"),
    (1073741824.0, "GiB"),
    (1.099511627776e12, "TiB"),
];
const COUNTS: [(f64, &str); 4] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")];

/// A measured time: `412 ns`, `1.24 ms`, `73.0 s`.
pub fn span(t: Span) -> String {
    nanos(t.0 as f64)
}

/// The same of a mean or a deviation, in nanoseconds.
pub fn nanos(ns: f64) -> String {
    if ns < 0.5 {
        return "0".to_owned();
    }
    // Below a microsecond only a mean has decimals, and they carry no information.
    let (value, unit) = scaled(ns, &TIMES);
    if unit == "ns" { format!("{} ns", ns.round()) } else { format!("{value} {unit}") }
}

/// A time of the plan, to the last digit: `30 s`, `1.5 ms`, `2 min`, `8 h`.
pub fn exact(t: Span) -> String {
    if t.0 > 0 && t.0.is_multiple_of(3_600_000_000_000) {
        return format!("{} h", count(t.0 / 3_600_000_000_000));
    }
    if t.0 > 0 && t.0.is_multiple_of(60_000_000_000) {
        return format!("{} min", count(t.0 / 60_000_000_000));
    }
    let at = TIMES.iter().rposition(|&(size, _)| t.0 as f64 >= size).unwrap_or(0);
    let (size, unit) = TIMES[at];
    let size = size as u64;
    let (whole, part) = (t.0 / size, t.0 % size);
    if part == 0 {
        return format!("{} {unit}", count(whole));
    }
    let digits = format!("{part:0width$}", width = 3 * at);
    format!("{}.{} {unit}", count(whole), digits.trim_end_matches('0'))
}

/// A time of the plan to the last digit if that is short, otherwise rounded: keys on the live view
/// start and end stages at any nanosecond.
pub fn brief(t: Span) -> String {
    let exact = exact(t);
    if exact.len() <= "10.125 ms".len() { exact } else { span(t) }
}

/// A rate: `0.50/s`, `55.3k/s`, and one below a hundredth as `0.00100/s`.
pub fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 0.01 {
        let digits = 2 - per_second.log10().floor() as i32;
        return format!("{per_second:.*}/s", digits.clamp(0, 12) as usize);
    }
    let (value, unit) = scaled(per_second, &COUNTS);
    format!("{value}{unit}/s")
}

/// A round number, as people type it: `500`, `1k`, `2.5k`.
pub fn round(number: f64) -> String {
    let at = COUNTS.iter().rposition(|&(size, _)| number >= size).unwrap_or(0);
    let (size, unit) = COUNTS[at];
    let digits = format!("{:.6}", number / size);
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// An amount of data: `412 B`, `3.20 MiB`.
pub fn bytes(n: f64) -> String {
    let (value, unit) = scaled(n, &BYTES);
    if unit == "B" { format!("{} B", n.round()) } else { format!("{value} {unit}") }
}

/// A count, exactly: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 reply`, `2 replies`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A share of one: `12.3 %`, `0.004 %`; `0 %` only for zero.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        0.0 => "0 %".to_owned(),
        p if p < 0.001 => "under 0.001 %".to_owned(),
        p if p < 0.0995 => format!("{p:.3} %"),
        p if p < 9.95 => format!("{p:.2} %"),
        p if p < 99.95 || share >= 1.0 => format!("{} %", three(p)),
        p => format!("{p:.3} %"),
    }
}

/// The half-width of an interval as a share of the figure: `1.23 %`.
pub fn bar(share: f64) -> String {
    format!("{} %", three(share * 100.0))
}

/// Seconds since 1970 as a date and time of day, UTC.
pub fn date(unix: f64) -> String {
    let seconds = unix.max(0.0) as u64;
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let length = |y: u64| if leap(y) { 366 } else { 365 };
    // The limit ends the loop for absurd dates.
    while days >= length(year) && year < 10_000 {
        days -= length(year);
        year += 1;
    }
    let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year}-{:02}-{:02} {hour:02}:{minute:02}:{second:02}", month + 1, days + 1)
}

fn scaled<'a>(value: f64, units: &[(f64, &'a str)]) -> (String, &'a str) {
    let mut at = units.iter().rposition(|&(size, _)| value >= size).unwrap_or(0);
    // Values that round up to the next unit are shown in that unit.
    if let Some(&(next, _)) = units.get(at + 1)
        && (value / units[at].0).round() * units[at].0 >= next
    {
        at += 1;
    }
    (three(value / units[at].0), units[at].1)
}

/// Three significant digits, or all digits of the integer part if it has more.
pub fn three(value: f64) -> String {
    let v = value.abs();
    if v < 9.995 {
        format!("{value:.2}")
    } else if v < 99.95 {
        format!("{value:.1}")
    } else {
        count(value.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_their_unit() {
        let cases = [
            (0, "0"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (12_345, "12.3 us"),
            (412_400, "412 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (1_239_000, "1.24 ms"),
            (9_996_000, "10.0 ms"),
            (1_500_000_000, "1.50 s"),
            (99_960_000_000, "100 s"),
            (3_600_000_000_000, "3,600 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(span(Span(ns)), text, "{ns}");
        }
        assert_eq!(nanos(0.4), "0");
        assert_eq!(nanos(1.7), "2 ns");
    }

    #[test]
    fn times_of_the_plan_are_exact() {
        let cases = [
            (0, "0 ns"),
            (30_000_000_000, "30 s"),
            (90_000_000_000, "90 s"),
            (120_000_000_000, "2 min"),
            (1_500_000, "1.5 ms"),
            (1_500_000_001, "1.500000001 s"),
            (250_000, "250 us"),
            (61_250, "61.25 us"),
        ];
        for (ns, text) in cases {
            assert_eq!(exact(Span(ns)), text, "{ns}");
        }
    }

    #[test]
    fn long_times_of_the_plan_are_rounded() {
        let cases = [(30_000_000_000, "30 s"), (1_500_000, "1.5 ms"), (1_457_686_234, "1.46 s")];
        for (ns, text) in cases {
            assert_eq!(brief(Span(ns)), text, "{ns}");
        }
    }

    #[test]
    fn rates_bytes_and_counts() {
        assert_eq!([rate(0.0), rate(0.5), rate(95.0)], ["0.00/s", "0.50/s", "95.0/s"]);
        assert_eq!([rate(999.6), rate(55_280.0), rate(2.5e6)], ["1.00k/s", "55.3k/s", "2.50M/s"]);
        let rounded = [0.5, 500.0, 1e3, 2_500.0, 12_345.0, 2e6].map(round);
        assert_eq!(rounded, ["0.5", "500", "1k", "2.5k", "12.345k", "2M"]);
        assert_eq!([bytes(0.0), bytes(412.0), bytes(1023.9)], ["0 B", "412 B", "1.00 KiB"]);
        assert_eq!([bytes(1536.0), bytes(3.2 * 1048576.0)], ["1.50 KiB", "3.20 MiB"]);
        let counts = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "reply", "replies"), "1 reply");
        assert_eq!(counted(2_000, "reply", "replies"), "2,000 replies");
    }

    #[test]
    fn shares_are_never_rounded_to_nothing_or_all() {
        let shares = [0.0, 1e-9, 0.00004, 0.0123, 0.5, 0.9996, 1.0, 1.5].map(percent);
        let expected =
            ["0 %", "under 0.001 %", "0.004 %", "1.23 %", "50.0 %", "99.960 %", "100 %", "150 %"];
        assert_eq!(shares, expected);
    }

    #[test]
    fn dates() {
        for (unix, shown) in [
            (0.0, "1970-01-01 00:00:00"),
            (951_782_400.0, "2000-02-29 00:00:00"),
            (1_700_000_000.25, "2023-11-14 22:13:20"),
            (1_735_689_599.0, "2024-12-31 23:59:59"),
            (4_107_542_400.0, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(unix), shown);
        }
    }
}
