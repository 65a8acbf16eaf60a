use expect_test::{Expect as Sentences, expect};
use proptest::prelude::*;

use super::*;
use crate::testing::{any_near, check_errors};

/// A valid plan of 100 arrivals per second for a second.
pub(crate) fn plan() -> Plan {
    Plan::new(
        vec![Endpoint::Tcp { host: "localhost".into(), port: 80 }],
        vec![CallSpec {
            endpoint: 0,
            method: "GET".into(),
            path: "/".into(),
            authority: "localhost".into(),
            ..CallSpec::default()
        }],
        Load::Open { rate: RatePlan::constant(100.0), arrivals: Arrivals::Fixed, connections: 10 },
        Stop { requests: None, sessions: None, duration: Some(Span::from_secs(1)) },
    )
}

type Change = fn(&mut Plan);

fn open(rate: RatePlan, arrivals: Arrivals) -> Load {
    Load::Open { rate, arrivals, connections: 1 }
}

#[test]
fn think_times_by_table() {
    let ms = Span::from_millis;
    let cases = [
        ("none", Think::None, "none"),
        ("0", Think::None, "none"),
        ("50ms", Think::Fixed(ms(50)), "50ms"),
        ("1", Think::Fixed(ms(1000)), "1s"),
        ("exp:50ms", Think::Exponential(ms(50)), "exp:50ms"),
        ("uniform:10ms:90ms", Think::Uniform(ms(10), ms(90)), "uniform:10ms:90ms"),
        ("uniform:0:0.5", Think::Uniform(ms(0), ms(500)), "uniform:0s:500ms"),
        ("lognormal:50ms:0.5", Think::LogNormal(ms(50), 500), "lognormal:50ms:0.5"),
        ("lognormal:1s:1.005", Think::LogNormal(ms(1000), 1005), "lognormal:1s:1.005"),
    ];
    for (text, think, back) in cases {
        assert_eq!(text.parse(), Ok(think), "{text}");
        assert_eq!(think.to_string(), back);
    }
    check_errors::<Think>(
        &[
            "",
            "soon",
            "exp:",
            "exp:x",
            "uniform:1s",
            "uniform:2s:1s",
            "uniform::",
            "gauss:1s",
            "lognormal:1s",
            "lognormal:1s:6",
            "lognormal:1s:.5",
        ],
        str::parse,
        expect![[r#"
            '' is not a think time: '' is not a time: a number is missing; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'soon' is not a think time: unknown distribution 'soon'; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'exp:' is not a think time: '' is not a time: a number is missing; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'exp:x' is not a think time: 'x' is not a time: a number is missing; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'uniform:1s' is not a think time: the form is uniform:LOW:HIGH; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'uniform:2s:1s' is not a think time: 2s is longer than 1s; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'uniform::' is not a think time: '' is not a time: a number is missing; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'gauss:1s' is not a think time: unknown distribution 'gauss'; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'lognormal:1s' is not a think time: the form is lognormal:MEDIAN:SIGMA; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'lognormal:1s:6' is not a think time: '6' is not a sigma from 0 to 5 with at most 3 decimals; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
            'lognormal:1s:.5' is not a think time: '.5' is not a sigma from 0 to 5 with at most 3 decimals; write 50ms, exp:50ms, uniform:10ms:90ms or lognormal:50ms:0.5
        "#]],
    );
}

#[test]
fn statuses_by_table() {
    type Ranges = [(u16, u16)];
    let cases: [(&str, &Ranges, &str); 6] = [
        ("200", &[(200, 200)], "200"),
        ("2xx", &[(200, 299)], "2xx"),
        ("200-299,404", &[(200, 299), (404, 404)], "2xx,404"),
        ("200-399", &[(200, 399)], "200-399"),
        ("150-249", &[(150, 249)], "150-249"),
        ("5XX,100,599", &[(500, 599), (100, 100), (599, 599)], "5xx,100,599"),
    ];
    for (text, statuses, back) in cases {
        let parsed = Expect::parse_statuses(text).unwrap();
        assert_eq!(parsed, statuses, "{text}");
        assert_eq!(Expect { statuses: parsed, ..Expect::default() }.statuses_text(), back);
    }
    check_errors(
        &["", "20", "099", "600", "6xx", "0xx", "xx", "2x", "300-200", "200-", "200,,201", "+20"],
        Expect::parse_statuses,
        expect![[r#"
            '' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '20' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '099' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '600' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '6xx' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '0xx' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            'xx' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '2x' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '300-200' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '200-' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
            '+20' is not a status or range of statuses from 100 to 599; write 200, 2xx or 200-299,404
        "#]],
    );
}

#[test]
fn words_by_table() {
    for pick in [Pick::InTurn, Pick::Random] {
        assert_eq!(pick.to_string().parse(), Ok(pick));
    }
    let versions =
        [HttpVersion::Http10, HttpVersion::Http11, HttpVersion::Http2, HttpVersion::Http2Only];
    for version in versions {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    check_errors::<Pick>(
        &["", "RANDOM"],
        str::parse,
        expect![[r#"
        '' is not a way to pick requests; write in-turn or random
        'RANDOM' is not a way to pick requests; write in-turn or random
    "#]],
    );
    check_errors::<HttpVersion>(
        &["3", "HTTP/1.1"],
        str::parse,
        expect![[r#"
        '3' is not a supported HTTP version; write 1.0, 1.1, 2 or 2-only
        'HTTP/1.1' is not a supported HTTP version; write 1.0, 1.1, 2 or 2-only
    "#]],
    );
}

#[test]
fn shares_of_shares_partition_the_whole() {
    let whole = plan();
    let mut indices: Vec<_> = (0..3)
        .flat_map(|i| (0..4).map(move |j| (i, j)))
        .map(|(i, j)| whole.shard(i, 3).shard(j, 4).shard)
        .inspect(|shard| assert_eq!(shard.of, 12))
        .map(|shard| shard.index)
        .collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..12).collect::<Vec<_>>());
    for total in [0, 1, 11, 12, 13, 1000] {
        let sum: u64 = (0..12).map(|index| Shard { index, of: 12 }.share_of(total)).sum();
        assert_eq!(sum, total);
    }
}

#[test]
fn a_valid_plan_passes() {
    let second = Span::from_secs(1);
    let trace = Arrivals::Trace([Span::ZERO, second].into());
    let ramp = RatePlan::parse("0..100@1s").unwrap();
    let endless = Stop { requests: None, sessions: None, duration: None };
    let changes: [Change; 3] = [
        |_| (),
        |p| p.calls[0].path = "*".into(),
        |p| p.load = Load::Closed { connections: 1, think: Think::None },
    ];
    for change in changes {
        let mut p = plan();
        change(&mut p);
        assert_eq!(p.check(), Ok(()));
    }
    for load in [open(RatePlan::default(), trace), open(ramp, Arrivals::Poisson)] {
        let p = Plan { load, stop: endless, ..plan() };
        assert_eq!(p.check(), Ok(()), "{p:?}");
    }
}

/// The sentence for each change that makes a valid plan invalid.
fn check_invalid(changes: &[Change], sentences: Sentences) {
    let all: String = changes
        .iter()
        .map(|change| {
            let mut p = plan();
            change(&mut p);
            p.check().unwrap_err() + "\n"
        })
        .collect();
    sentences.assert_eq(&all);
}

#[test]
fn invalid_targets_are_named() {
    check_invalid(
        &[
            |p| p.endpoints.clear(),
            |p| p.endpoints[0] = Endpoint::Tcp { host: String::new(), port: 80 },
            |p| p.endpoints[0] = Endpoint::Tcp { host: "a".into(), port: 0 },
            |p| p.endpoints[0] = Endpoint::Unix { path: String::new() },
            |p| p.endpoints[0] = Endpoint::Unix { path: "x".repeat(108) },
            |p| p.calls.clear(),
            |p| p.calls[0].endpoint = 1,
            |p| p.calls[0].method = "".into(),
            |p| p.calls[0].method = "GET /\r\n".into(),
            |p| p.calls[0].path = "x".into(),
            |p| p.calls[0].path = "/ HTTP/1.1".into(),
            |p| p.calls[0].authority = "a\r\nX: y".into(),
            |p| p.calls[0].headers.push((String::new(), "x".into())),
            |p| p.calls[0].headers.push(("A:".into(), "x".into())),
            |p| p.calls[0].headers.push(("A".into(), "x\r\ny".into())),
            |p| p.calls[0].raw = b"A:b\r\n".to_vec(),
        ],
        expect![[r#"
            the plan has no endpoint to connect to
            endpoint 1: the host is missing
            endpoint 1: port 0 is not a valid port
            endpoint 1: the path of the socket is missing
            endpoint 1: the path of the socket has 108 bytes; the limit is 107
            the plan has no request to send
            request 1: there is no endpoint 1
            request 1: the method is missing; write GET, POST or the like
            request 1: the method 'GET /\r\n' contains ' '; write GET, POST or the like
            request 1: the path 'x' does not start with '/'
            request 1: the path contains ' ', which is not allowed
            request 1: the host contains '\r', which is not allowed
            request 1: a header's name is missing; write 'Name: value'
            request 1: the header name contains ':' after 'A'; names have letters, digits and !#$%&'*+-.^_`|~
            request 1: the value of the header 'A' contains '\r', which would break the request
            request 1: raw lines need a request to which no headers are added
        "#]],
    );
}

#[test]
fn does_not_check_bare_requests() {
    let mut p = plan();
    let call = &mut p.calls[0];
    (call.bare, call.path, call.raw) = (true, "no path/ ".into(), b"A:b\n".to_vec());
    assert_eq!(p.check(), Ok(()));
}

#[test]
fn invalid_limits_are_named() {
    check_invalid(
        &[
            |p| p.pipeline = 0,
            |p| (p.pipeline, p.http) = (2, HttpVersion::Http10),
            |p| p.requests_per_connection = Some(0),
            |p| {
                p.load = Load::Closed { connections: 100_000, think: Think::None };
                p.pipeline = 50_000;
            },
            |p| {
                p.load = Load::Closed { connections: 100_000, think: Think::None };
                p.endpoints = vec![p.endpoints[0].clone(); 50_000];
            },
            |p| p.timeout = Span::ZERO,
            |p| p.connect_timeout = Span::ZERO,
            |p| p.shard.of = 0,
            |p| p.shard.index = 1,
            |p| p.expect.statuses.clear(),
            |p| p.expect.statuses = vec![(300, 200)],
            |p| p.expect.statuses = vec![(200, 600)],
            |p| p.stop.requests = Some(0),
            |p| p.stop.duration = Some(Span::ZERO),
            |p| p.stop.duration = None,
            |p| (p.stop.duration, p.warmup) = (Some(Span::MAX), Span(1)),
            |p| p.replace_lost = true,
        ],
        expect![[r#"
            the pipelining depth must be at least 1
            HTTP/1.0 has no pipelining; use HTTP/1.1 or a depth of 1
            a connection must carry at least 1 request
            100000 connections with a pipelining depth of 50000 have 5000000000 requests in flight; the limit is 2147483648
            100000 connections to each of 50000 hosts are 5000000000 connections; the limit is 134217728
            a timeout must be longer than 0
            a timeout must be longer than 0
            share 0 of 0 does not exist; shares are counted from 0
            share 1 of 1 does not exist; shares are counted from 0
            the list of expected statuses is empty
            300-200 is not a range of statuses within 100 to 599
            200-600 is not a range of statuses within 100 to 599
            the run must have at least 1 request
            the duration must be longer than 0
            the run has no end; give a number of requests or a duration
            warm-up and run together are longer than 584 years
            only a closed loop with a number of requests, without sessions, can replace lost requests
        "#]],
    );
}

#[test]
fn invalid_loads_are_named() {
    check_invalid(
        &[
            |p| p.load = Load::Closed { connections: 0, think: Think::None },
            |p| {
                let think = Think::Uniform(Span(2), Span(1));
                p.load = Load::Closed { connections: 1, think };
            },
            |p| {
                let (rate, arrivals) = (RatePlan::default(), Arrivals::Fixed);
                p.load = Load::Open { rate, arrivals, connections: 0 };
            },
            |p| p.load = open(RatePlan::default(), Arrivals::Fixed),
            |p| p.load = open(RatePlan::constant(f64::NAN), Arrivals::Poisson),
            |p| p.load = open(RatePlan::constant(-1.0), Arrivals::Poisson),
            |p| p.load = open(RatePlan::constant(0.0), Arrivals::Poisson),
            |p| p.load = open(RatePlan::constant(1.0), Arrivals::Gamma(0.001)),
            |p| p.load = open(RatePlan::constant(1.0), Arrivals::Gamma(f64::NAN)),
            |p| p.load = open(RatePlan::default(), Arrivals::Gamma(2.0)),
            |p| p.load = open(RatePlan::default(), Arrivals::Uniform(Span(2), Span(1))),
            |p| p.load = open(RatePlan::default(), Arrivals::Uniform(Span(0), Span(0))),
            |p| p.load = open(RatePlan::default(), Arrivals::Trace([].into())),
            |p| p.load = open(RatePlan::default(), Arrivals::Trace([Span(2), Span(1)].into())),
        ],
        expect![[r#"
            the run needs at least 1 connection
            the bounds of the think time, 2ns and 1ns, are swapped
            the run needs at least 1 connection
            the rate plan is empty
            piece 1 of the rate plan has a rate of NaN/s, which is not between 0 and 1g/s
            piece 1 of the rate plan has a rate of -1/s, which is not between 0 and 1g/s
            the rate is always zero
            the shape of gamma arrivals, 0.001, is not from 0.01 to 1000
            the shape of gamma arrivals, NaN, is not from 0.01 to 1000
            the rate plan is empty
            the bounds of the inter-arrival times, 2ns and 1ns, are swapped
            the inter-arrival times are all zero
            the trace has no times
            time 2 of the trace is earlier than the previous one
        "#]],
    );
}

#[test]
fn think_times_follow_their_distribution() {
    let (low, high) = (Span::from_millis(10), Span::from_millis(90));
    let bits = rng::keyed(3, rng::Stream::Think, 1, 2);
    assert_eq!(Think::None.draw(bits), Span::ZERO);
    assert_eq!(Think::Fixed(low).draw(bits), low);
    assert_eq!(Think::Exponential(low).draw(bits), rng::exponential(bits, low));
    assert_eq!(Think::Uniform(low, high).draw(bits), rng::uniform(bits, low, high));
}

proptest! {
    #[test]
    fn think_times_read_back(a in any::<u64>(), b in any::<u64>(), which in 0..3usize) {
        let (a, b) = (Span(a.min(b)), Span(a.max(b).max(1)));
        let think = [Think::Fixed(b), Think::Exponential(a), Think::Uniform(a, b)][which];
        prop_assert_eq!(think.to_string().parse::<Think>(), Ok(think));
    }

    #[test]
    fn statuses_read_back(ranges in prop::collection::vec((100u16..600, 100u16..600), 1..5)) {
        let statuses: Vec<_> = ranges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        let expect = Expect { statuses, ..Expect::default() };
        prop_assert_eq!(Expect::parse_statuses(&expect.statuses_text()), Ok(expect.statuses));
    }

    #[test]
    fn nothing_panics(text in any_near("uniform:exp:none0123456789.mshx-,xX2")) {
        let _ = (text.parse::<Think>(), Expect::parse_statuses(&text), text.parse::<Pick>());
    }
}

#[test]
fn a_plan_with_a_shared_cookie_jar_is_not_split() {
    let mut plan = plan();
    assert_eq!(plan.shards_max(), 10);
    let burst = Burst::of(vec![0], Think::None);
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    for (cookies, most) in [(Cookies::Off, 10), (Cookies::Session, 10), (Cookies::Shared, 1)] {
        plan.sessions = Some(Sessions { cookies, ..Sessions::plain(vec![kind.clone()]) });
        assert_eq!((plan.check(), plan.shards_max()), (Ok(()), most), "{cookies:?}");
    }
}
