use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_near, check_errors};

#[test]
fn parses_and_formats_rate_plans() {
    let secs = |s| Some(Span::from_secs(s));
    let piece = |from, to, length| RatePiece { from, to, length };
    let cases: [(&str, &[RatePiece], &str); 17] = [
        ("500", &[piece(500.0, 500.0, None)], "500"),
        ("20k/s", &[piece(20e3, 20e3, None)], "20k"),
        ("1.1k", &[piece(1100.0, 1100.0, None)], "1.1k"),
        ("0.5", &[piece(0.5, 0.5, None)], "0.5"),
        ("1234", &[piece(1234.0, 1234.0, None)], "1234"),
        ("30/m", &[piece(0.5, 0.5, None)], "0.5"),
        ("36k/h@1h", &[piece(10.0, 10.0, secs(3600))], "10@1h"),
        ("1m", &[piece(1e6, 1e6, None)], "1m"),
        ("1m/m", &[piece(1e6 / 60.0, 1e6 / 60.0, None)], "16666.666666666668"),
        (
            "1k@10s,1k..20k@60s,20k@30s",
            &[piece(1e3, 1e3, secs(10)), piece(1e3, 20e3, secs(60)), piece(20e3, 20e3, secs(30))],
            "1k@10s,1k..20k@1m,20k@30s",
        ),
        ("0@5,10", &[piece(0.0, 0.0, secs(5)), piece(10.0, 10.0, None)], "0@5s,10"),
        ("60..120/m@1s", &[piece(1.0, 2.0, secs(1))], "1..2@1s"),
        ("30m/s", &[piece(3e7, 3e7, None)], "30m/s"),
        ("30/m", &[piece(0.5, 0.5, None)], "0.5"),
        ("10m", &[piece(1e7, 1e7, None)], "10m"),
        ("1k..1g/s@1s", &[piece(1e3, 1e9, secs(1))], "1k..1g/s@1s"),
        ("60/m..2/s@1s", &[piece(1.0, 2.0, secs(1))], "1..2@1s"),
    ];
    for (text, pieces, back) in cases {
        let plan = RatePlan::parse(text).unwrap();
        assert_eq!(plan.pieces, pieces, "{text}");
        assert_eq!(plan.to_string(), back);
    }
}

#[test]
fn rejects_malformed_rate_plans() {
    check_errors(
        &[
            "",
            "fast",
            "\n5\u{1b}[1m",
            "-5",
            "1e3",
            "5x",
            "5/d",
            "5/",
            "500@",
            "500@x",
            "500@10q",
            "1k..",
            "..1k",
            "1k..2k",
            "1k@10s,",
            "1k,2k@10s",
            "1k@10s,2k..@10s",
            "1k@0s",
            "0",
            "0@10s,0@5s",
            "2g",
            "30m",
            "1g",
            "1k..30m@5s",
            "1k@5124095h,1k@5124095h",
            "1k@10s;2k",
            "20k/s/s",
            "1,000",
        ],
        RatePlan::parse,
        expect![[r#"
            '' is not a rate: a rate is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            'fast' is not a rate: 'fast' is not a number; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '\n5\u{1b}[1m' is not a rate: '\n5\u{1b}[1m' is not a number; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '-5' is not a rate: '-5' is not a number; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1e3' is not a rate: unknown suffix 'e3'; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '5x' is not a rate: unknown suffix 'x'; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '5/d' is not a rate: unknown unit of time '/d' (use /s, /m or /h); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '5/' is not a rate: unknown unit of time '/' (use /s, /m or /h); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '500@' is not a rate: '' is not a time: a number is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '500@x' is not a rate: 'x' is not a time: a number is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '500@10q' is not a rate: '10q' is not a time: unknown unit 'q'; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k..' is not a rate: a rate is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '..1k' is not a rate: a rate is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k..2k': the ramp in piece 1 has no length (@TIME); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            rate plan, piece 2 (''): a rate is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k,2k@10s': piece 1 of the rate plan has no length (@TIME); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            rate plan, piece 2 ('2k..@10s'): a rate is missing; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k@0s': piece 1 of the rate plan has a length of zero; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '0': the rate is always zero; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '0@10s,0@5s': the rate is always zero; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '2g': piece 1 of the rate plan has a rate of 2g/s, which is not between 0 and 1g/s; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '30m' is not a rate: that is 30m/s, more than any machine can send; did you mean 30/m (30 per minute)? If not, write 30m/s; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1g' is not a rate: that is 1g/s, more than any machine can send; if you mean it, write 1g/s; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k..30m@5s' is not a rate: that is 30m/s, more than any machine can send; did you mean 30/m (30 per minute)? If not, write 30m/s; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k@5124095h,1k@5124095h': the rate plan is longer than 584 years; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1k@10s;2k' is not a rate: '10s;2k' is not a time: unknown unit 's;'; write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '20k/s/s' is not a rate: unknown unit of time '/s/s' (use /s, /m or /h); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
            '1,000': piece 1 of the rate plan has no length (@TIME); write 500, 20k/s, 90/m or 1k@10s,1k..20k@60s
        "#]],
    );
}

#[test]
fn parses_and_formats_arrival_processes() {
    let us = Span::from_micros;
    let processes = [
        ("fixed", Arrivals::Fixed, "fixed"),
        ("poisson", Arrivals::Poisson, "poisson"),
        ("gamma:0.25", Arrivals::Gamma(0.25), "gamma:0.25"),
        ("gamma:.50", Arrivals::Gamma(0.5), "gamma:0.5"),
        ("gamma:1", Arrivals::Gamma(1.0), "gamma:1"),
        ("gamma:1000", Arrivals::Gamma(1000.0), "gamma:1000"),
        ("uniform:10us:0.09ms", Arrivals::Uniform(us(10), us(90)), "uniform:10us:90us"),
        ("uniform:0:1", Arrivals::Uniform(us(0), us(1_000_000)), "uniform:0s:1s"),
    ];
    for (text, process, back) in processes {
        assert_eq!(process.to_string(), back);
        assert_eq!(Arrivals::parse(text), Ok(ArrivalsArg::Process(process)), "{text}");
    }
    let file = |name: &str| Ok(ArrivalsArg::TraceFile(name.into()));
    assert_eq!(Arrivals::parse("trace:a b.txt"), file("a b.txt"));
    assert_eq!(Arrivals::parse("trace:C:x"), file("C:x"));
    assert_eq!(Arrivals::Trace([Span(1), Span(2)].into()).to_string(), "trace of 2");
    check_errors(
        &[
            "",
            "Fixed",
            "fixed:1",
            "normal:1ms",
            "uniform",
            "uniform:",
            "uniform:1ms",
            "trace",
            "uniform:2ms:1ms",
            "uniform:0:0",
            "uniform:1x:2",
            "trace:",
            "gamma",
            "gamma:",
            "gamma:0",
            "gamma:-1",
            "gamma:0.001",
            "gamma:1001",
            "gamma:0.5:1",
            "gamma:nan",
            "gammas:1",
        ],
        Arrivals::parse,
        expect![[r#"
            '' is not an arrival process: '' is not a time: a number is missing; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'Fixed' is not an arrival process: unknown distribution 'Fixed'; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'fixed:1' is not an arrival process: for constant inter-arrival times, use fixed and a rate; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'normal:1ms' is not an arrival process: unknown distribution 'normal'; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform' is not an arrival process: the form is uniform:LOW:HIGH; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform:' is not an arrival process: the form is uniform:LOW:HIGH; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform:1ms' is not an arrival process: the form is uniform:LOW:HIGH; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'trace' is not an arrival process: the file name is missing; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform:2ms:1ms' is not an arrival process: 2ms is longer than 1ms; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform:0:0' is not an arrival process: the inter-arrival times are all zero; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'uniform:1x:2' is not an arrival process: '1x' is not a time: unknown unit 'x'; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'trace:' is not an arrival process: the file name is missing; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma' is not an arrival process: the form is gamma:SHAPE; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:' is not an arrival process: '' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:0' is not an arrival process: '0' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:-1' is not an arrival process: '-1' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:0.001' is not an arrival process: '0.001' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:1001' is not an arrival process: '1001' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:0.5:1' is not an arrival process: '0.5:1' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gamma:nan' is not an arrival process: 'nan' is not a shape from 0.01 to 1000; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
            'gammas:1' is not an arrival process: the form is gamma:SHAPE; write fixed, poisson, gamma:0.5, uniform:10us:90us or trace:FILE
        "#]],
    );
}

#[test]
fn parses_traces() {
    let cases: [(&str, &[u64]); 5] = [
        ("0", &[0]),
        ("# a comment\n\n0.5\r\n 0.5 # again\n1\n", &[500_000_000, 500_000_000, 1_000_000_000]),
        ("1e-3\n+1.5e+00\n2E0", &[1_000_000, 1_500_000_000, 2_000_000_000]),
        // More digits than a double can hold.
        ("1234567890.123456789", &[1_234_567_890_123_456_789]),
        (".5", &[500_000_000]),
    ];
    for (text, times) in cases {
        let times = times.iter().map(|&t| Span(t)).collect();
        assert_eq!(parse_trace(text), Ok(Arrivals::Trace(times)), "{text:?}");
    }
    check_errors(
        &[
            "",
            "# nothing\n",
            "0\nx",
            "0\n\n# c\n-1",
            "1\n2\n1.5",
            "1,2",
            "1s",
            "inf",
            "nan",
            "1e30",
        ],
        parse_trace,
        expect![[r#"
            the trace has no times; write one time in seconds per line
            the trace has no times; write one time in seconds per line
            line 2: 'x' is not a time in seconds; write one time per line, such as 0.25
            line 4: '-1' is not a time in seconds; write one time per line, such as 0.25
            line 3: 1.5 is earlier than the previous time; sort the times in ascending order
            line 1: '1,2' is not a time in seconds; write one time per line, such as 0.25
            line 1: '1s' is not a time in seconds; write one time per line, such as 0.25
            line 1: 'inf' is not a time in seconds; write one time per line, such as 0.25
            line 1: 'nan' is not a time in seconds; write one time per line, such as 0.25
            line 1: '1e30' is not a time in seconds; write one time per line, such as 0.25
        "#]],
    );
}

fn any_piece() -> impl Strategy<Value = RatePiece> {
    let level = prop_oneof![0.0..1e9, (0u32..1_000_000).prop_map(f64::from), Just(0.0), Just(1e9)];
    (level.clone(), level, 1u64..1_000_000_000_000_000, any::<bool>()).prop_map(
        |(from, to, length, ramp)| RatePiece {
            from,
            to: if ramp { to } else { from },
            length: Some(Span(length)),
        },
    )
}

proptest! {
    #[test]
    fn rate_plans_round_trip_through_text(
        pieces in prop::collection::vec(any_piece(), 0..6),
        last in prop::option::of(0.001..1e9),
    ) {
        let mut plan = RatePlan { pieces };
        plan.pieces.extend(last.into_iter().flat_map(|r| RatePlan::constant(r).pieces));
        let text = plan.to_string();
        match plan.check() {
            Ok(()) => prop_assert_eq!(RatePlan::parse(&text), Ok(plan), "{}", text),
            Err(_) => prop_assert!(RatePlan::parse(&text).is_err()),
        }
    }

    #[test]
    fn gamma_arrivals_round_trip_through_text(shape in 0.01..1000.0_f64) {
        let process = Arrivals::Gamma(shape);
        prop_assert_eq!(Arrivals::parse(&process.to_string()), Ok(ArrivalsArg::Process(process)));
    }

    #[test]
    fn uniform_arrivals_round_trip_through_text(a in any::<u64>(), b in 1..u64::MAX) {
        let process = Arrivals::Uniform(Span(a.min(b)), Span(a.max(b)));
        prop_assert_eq!(Arrivals::parse(&process.to_string()), Ok(ArrivalsArg::Process(process)));
    }

    #[test]
    fn traces_round_trip_through_text(mut times in prop::collection::vec(any::<u64>(), 1..50)) {
        times.sort_unstable();
        let line = |t: &u64| format!("{}.{:09}\n", t / 1_000_000_000, t % 1_000_000_000);
        let text: String = times.iter().map(line).collect();
        let times = times.into_iter().map(Span).collect();
        prop_assert_eq!(parse_trace(&text), Ok(Arrivals::Trace(times)));
    }

    #[test]
    fn parsed_plans_are_valid(text in any_near("0123456789.k/smh@,..gu e-\n#")) {
        if let Ok(plan) = RatePlan::parse(&text) {
            prop_assert_eq!(plan.check(), Ok(()));
            prop_assert_eq!(RatePlan::parse(&plan.to_string()), Ok(plan));
        }
        let _ = (Arrivals::parse(&text), Arrivals::parse(&format!("uniform:{text}")));
        if let Ok(Arrivals::Trace(times)) = parse_trace(&text) {
            prop_assert!(!times.is_empty() && times.windows(2).all(|w| w[0] <= w[1]));
        }
    }
}
