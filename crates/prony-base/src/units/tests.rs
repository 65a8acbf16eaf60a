use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_near, check_errors};

#[test]
fn instants_and_spans_saturate() {
    assert_eq!(Nanos(5).since(Nanos(7)), Span::ZERO);
    assert_eq!(Nanos::MAX + Span(1), Nanos::MAX);
    assert_eq!(Span::MAX + Span(1), Span::MAX);
    assert_eq!(Span(1) - Span(2), Span::ZERO);
    assert_eq!(Span::MAX * 2, Span::MAX);
    assert_eq!([Span(1), Span(2)].into_iter().sum::<Span>(), Span(3));
    assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
    assert_eq!(Span::from_secs_f64(1.5), Span(1_500_000_000));
    assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
}

#[test]
fn parses_counts() {
    let cases = [
        ("0", 0),
        ("5000", 5000),
        ("1_000", 1000),
        ("10k", 10_000),
        ("10K", 10_000),
        ("2m", 2_000_000),
        ("1g", 1_000_000_000),
        ("1.5k", 1500),
        ("0.001k", 1),
        ("18446744073709551615", u64::MAX),
        ("18446744073709.551615m", u64::MAX),
    ];
    for (text, count) in cases {
        assert_eq!(parse_count(text), Ok(count), "{text}");
    }
    check_errors(
        &[
            "",
            "k",
            "-1",
            "+1",
            "1.5",
            "0.0001k",
            "10kk",
            "10 k",
            "1e3",
            "1.",
            "0x10",
            "10kb",
            "18446744073709551616",
            "99999999999999999999g",
            "9999999999999999999999999999999999999999999",
        ],
        parse_count,
        expect![[r#"
            '' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            'k' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            '-1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            '+1' is not a count: it must start with a digit; write 500, 10k, 2m or 1g
            '1.5' is not a count: it is not a whole number; write 500, 10k, 2m or 1g
            '0.0001k' is not a count: it is not a whole number; write 500, 10k, 2m or 1g
            '10kk' is not a count: unknown suffix 'kk'; write 500, 10k, 2m or 1g
            '10 k' is not a count: unknown suffix ' k'; write 500, 10k, 2m or 1g
            '1e3' is not a count: unknown suffix 'e3'; write 500, 10k, 2m or 1g
            '1.' is not a count: unknown suffix '.'; write 500, 10k, 2m or 1g
            '0x10' is not a count: unknown suffix 'x10'; write 500, 10k, 2m or 1g
            '10kb' is not a count: unknown suffix 'kb'; write 500, 10k, 2m or 1g
            '18446744073709551616' is not a count: it is too large; write 500, 10k, 2m or 1g
            '99999999999999999999g' is not a count: it is too large; write 500, 10k, 2m or 1g
            '9999999999999999999999999999999999999999999' is not a count: it is too large; write 500, 10k, 2m or 1g
        "#]],
    );
}

#[test]
fn parses_sizes() {
    let cases = [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("64k", 65_536),
        ("64KiB", 65_536),
        ("1m", 1 << 20),
        ("1MiB", 1 << 20),
        ("2g", 2 << 30),
        ("1.5KiB", 1536),
        ("1kB", 1000),
        ("1MB", 1_000_000),
        ("3GB", 3_000_000_000),
    ];
    for (text, size) in cases {
        assert_eq!(parse_size(text), Ok(size), "{text}");
    }
    check_errors(
        &["", "KiB", "1.0001k", "64 k", "1TiB", "64kk", "20000000000g"],
        parse_size,
        expect![[r#"
            '' is not a size: it must start with a digit; write 512, 64k, 1MiB or 1MB
            'KiB' is not a size: it must start with a digit; write 512, 64k, 1MiB or 1MB
            '1.0001k' is not a size: it is not a whole number of bytes; write 512, 64k, 1MiB or 1MB
            '64 k' is not a size: unknown unit ' k'; write 512, 64k, 1MiB or 1MB
            '1TiB' is not a size: unknown unit 'TiB'; write 512, 64k, 1MiB or 1MB
            '64kk' is not a size: unknown unit 'kk'; write 512, 64k, 1MiB or 1MB
            '20000000000g' is not a size: it is too large; write 512, 64k, 1MiB or 1MB
        "#]],
    );
}

#[test]
fn parses_and_formats_spans() {
    let cases = [
        ("0", 0, "0s"),
        ("0ms", 0, "0s"),
        ("1ns", 1, "1ns"),
        ("250us", 250_000, "250us"),
        ("250\u{b5}s", 250_000, "250us"),
        ("500ms", 500_000_000, "500ms"),
        ("1500us", 1_500_000, "1.5ms"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("10", 10_000_000_000, "10s"),
        ("0.1", 100_000_000, "100ms"),
        ("0.3333333333", 333_333_333, "333.333333ms"),
        ("0.30000000000000004", 300_000_000, "300ms"),
        ("1m30s", 90_000_000_000, "1m30s"),
        ("90s", 90_000_000_000, "1m30s"),
        ("1.5m", 90_000_000_000, "1m30s"),
        ("2h", 7_200_000_000_000, "2h"),
        ("1d", 86_400_000_000_000, "24h"),
        ("1h1ns", 3_600_000_000_001, "1h1ns"),
        ("1s20ms", 1_020_000_000, "1.02s"),
        ("1_000ms", 1_000_000_000, "1s"),
        ("18446744073709551615ns", u64::MAX, "5124095h34m33.709551615s"),
        ("5124095h34m33.709551615s", u64::MAX, "5124095h34m33.709551615s"),
        ("18446744073.709551615", u64::MAX, "5124095h34m33.709551615s"),
    ];
    for (text, nanos, back) in cases {
        assert_eq!(text.parse(), Ok(Span(nanos)), "{text}");
        assert_eq!(Span(nanos).to_string(), back);
    }
}

#[test]
fn pads_spans() {
    assert_eq!(format!("{:>6}|{:<6}", Span(1), Span(60_000_000_000)), "   1ns|1m    ");
}

#[test]
fn rejects_malformed_spans() {
    check_errors(
        &[
            "",
            "s",
            "-1s",
            "+1s",
            "1x",
            "1m30",
            "1m 30s",
            "1 s",
            "1M",
            "1.s",
            "1e3",
            "0.4ns",
            "18446744073709551616ns",
            "5124095h34m33.709551616s",
            "600y",
            "1s-1s",
        ],
        str::parse::<Span>,
        expect![[r#"
            '' is not a time: a number is missing; write 500ms, 1m30s or 2h
            's' is not a time: a number is missing; write 500ms, 1m30s or 2h
            '-1s' is not a time: a number is missing; write 500ms, 1m30s or 2h
            '+1s' is not a time: a number is missing; write 500ms, 1m30s or 2h
            '1x' is not a time: unknown unit 'x'; write 500ms, 1m30s or 2h
            '1m30' is not a time: its last number has no unit; write 500ms, 1m30s or 2h
            '1m 30s' is not a time: unknown unit 'm '; write 500ms, 1m30s or 2h
            '1 s' is not a time: unknown unit ' s'; write 500ms, 1m30s or 2h
            '1M' is not a time: unknown unit 'M'; write 500ms, 1m30s or 2h
            '1.s' is not a time: unknown unit '.s'; write 500ms, 1m30s or 2h
            '1e3' is not a time: unknown unit 'e'; write 500ms, 1m30s or 2h
            '0.4ns' is not a time: it is shorter than a nanosecond; write 500ms, 1m30s or 2h
            '18446744073709551616ns' is not a time: it is longer than 584 years; write 500ms, 1m30s or 2h
            '5124095h34m33.709551616s' is not a time: it is longer than 584 years; write 500ms, 1m30s or 2h
            '600y' is not a time: unknown unit 'y'; write 500ms, 1m30s or 2h
            '1s-1s' is not a time: unknown unit 's-'; write 500ms, 1m30s or 2h
        "#]],
    );
}

proptest! {
    #[test]
    fn spans_round_trip_through_text(nanos in prop_oneof![any::<u64>(), 0u64..10_000_000_000]) {
        let text = Span(nanos).to_string();
        prop_assert_eq!(text.parse(), Ok(Span(nanos)), "{}", text);
    }

    #[test]
    fn counts_and_sizes_round_trip_through_text(n in any::<u64>()) {
        prop_assert_eq!(parse_count(&n.to_string()), Ok(n));
        prop_assert_eq!(parse_size(&n.to_string()), Ok(n));
    }

    #[test]
    fn decimal_seconds_are_exact(secs in 0u64..1_000_000, nanos in 0u64..1_000_000_000) {
        let text = format!("{secs}.{nanos:09}");
        prop_assert_eq!(text.parse(), Ok(Span(secs * 1_000_000_000 + nanos)));
    }

    #[test]
    fn parsers_never_panic(text in any_near("0123456789._numshdkgKiB \u{b5}")) {
        let _ = (parse_count(&text), parse_size(&text), text.parse::<Span>());
    }
}
