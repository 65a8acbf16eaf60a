//! `--simulate`: the same arguments give identical output.

use crate::rig::{prony, waiting};
use crate::sides::Both;

#[test]
fn same_seed_gives_identical_output() {
    for format in ["text", "json", "csv", "hgrm", "hlog"] {
        for load in [
            &["-c", "10", "-n", "5k", "--simulate-latency", "exp:1ms"][..],
            &["-r", "1k..3k@3s", "--arrivals", "poisson", "--simulate-latency", "fixed:2ms"],
            &["-r", "1k", "-d", "2s", "--threads", "3", "--no-reuse"],
            &["--h2c", "-c", "2", "--streams", "9", "-n", "3k", "--simulate-latency", "exp:1ms"],
        ] {
            let run = |seed| {
                let more = ["--simulate", seed, "--format", format, "http://virtual/"];
                let ended = prony(&[load, &more].concat());
                assert_eq!(ended.code, 0, "{ended:?}");
                ended.stdout
            };
            let first = run("7");
            assert!(!first.is_empty());
            assert!(first == run("7"), "{format} {load:?}: two runs differ");
            let random = load.contains(&"poisson") || load.contains(&"exp:1ms");
            assert!(!random || first != run("8"), "{format} {load:?}: the seed means nothing");
        }
    }
}

/// P1: the report names the kind of load.
#[test]
fn p01_report_names_the_loop_and_the_arrival_process() {
    let reported = |load: &[&str], format: &str| {
        let more = ["--simulate", "1", "--format", format, "http://virtual/"];
        let ended = prony(&[load, &more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    };
    let cases: [(&[&str], &str, &str, &str); 3] = [
        (&["-c", "10", "-n", "1k"], "closed loop: 10 connections", "closed", ""),
        (&["-r", "1k", "-n", "1k"], "open loop: fixed arrivals", "open", "fixed"),
        (
            &["-r", "1k", "-n", "1k", "--arrivals", "poisson"],
            "open loop: Poisson arrivals",
            "open",
            "poisson",
        ),
    ];
    for (load, words, kind, arrivals) in cases {
        let text = reported(load, "text").stdout;
        assert!(text.contains(words), "{words}: {text}");
        let report = reported(load, "json").report();
        let loaded = &report.0["plan"]["load"][kind];
        assert_eq!(loaded["arrivals"].as_str().unwrap_or(""), arrivals);
    }
}

/// 1,000 requests arrive in a second in which two connections carry about 200: the report says that
/// the connection limit delayed them, and that the client was not the limit.
#[test]
fn reports_a_connection_limit_that_delays_requests() {
    let run = |cap: &str, format: &str| {
        let load = ["-r", "1k", "-d", "1s", "--simulate-latency", "fixed:10ms", "-c", cap];
        let more = ["--simulate", "1", "--format", format, "http://virtual/"];
        let ended = prony(&[&load[..], &more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended
    };
    let words = "The limit of 2 connections delayed requests: 998 of 1,000 waited";
    let reported = run("2", "text").stdout;
    assert!(
        reported.split_whitespace().collect::<Vec<_>>().join(" ").contains(words),
        "{reported}"
    );
    assert!(reported.contains("VALID"), "{reported}");
    let report = run("2", "json").report();
    assert_eq!(report.verdict(), "VALID");
    let notes = report.0["run"]["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|n| n.as_str().is_some_and(|n| n.starts_with(words))), "{notes:?}");
    assert!(!run("50", "text").stdout.contains("delayed requests"));
}

/// A closed loop with a service of 2 ms and twice a way of 50 us: each stream has a reply every
/// 2.1 ms, so the times and the length of the run are those of arithmetic.
#[test]
fn times_of_streams_and_of_calls_are_those_of_arithmetic() {
    let calls = "grpc://virtual/grpc.testing.TestService/UnaryCall";
    let cases: [(&[&str], &str); 2] = [(&["--h2c"], "http://virtual/"), (&[], calls)];
    for (version, url) in cases {
        let world = ["--simulate", "3", "--simulate-latency", "fixed:2ms", "--json", url];
        let closed = ["-c", "2", "--streams", "10", "-n", "2000"];
        let ended = prony(&[&closed[..], version, &world].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let report = ended.report();
        report.check_sums();
        assert_eq!((report.count("replies"), report.count("failed")), (2_000, 0), "{url}");
        for figure in ["p50", "max"] {
            let ms = report.ms("service", figure);
            assert!((ms / 2.1 - 1.0).abs() < 0.01, "{url}: {figure} is {ms} ms");
        }
        // 100 rounds.
        let window = report.0["measurement"]["rates"]["window_ns"].as_f64().expect("a window");
        assert!((window / 210e6 - 1.0).abs() < 0.02, "{url}: {window} ns");
        let http2 = &report.0["measurement"]["tally"]["http2"];
        let of = |name: &str| http2[name].as_u64();
        assert_eq!((of("connections"), of("open_max")), (Some(2), Some(10)), "{url}");
    }
}

/// To the nanosecond. The server gets each request between its stamps of the client.
#[test]
fn same_seed_gives_the_same_schedule_on_the_network() {
    let _waiting = waiting();
    let intended = |seed: &str| {
        let load = ["-r", "200", "--arrivals", "poisson", "-d", "1s", "--seed", seed];
        let both =
            Both::measure(|url| load.iter().chain(&[url]).map(|word| (*word).to_owned()).collect());
        assert_eq!(both.report.0["plan"]["seed"], seed.parse::<u64>().expect("a number"));
        assert_eq!(both.agree(), Ok(()));
        both.intended()
    };
    let (one, again, other) = (intended("3"), intended("3"), intended("4"));
    assert_eq!(one, again);
    let same = one.iter().filter(|at| other.contains(at)).count();
    assert!(same * 10 < one.len(), "another seed is another schedule: {same} are the same");
}

/// The simulated server has the services of the target server. Times of messages are those of
/// arithmetic: a service of 2 ms, and twice a way of 50 us.
#[test]
fn simulates_calls_of_grpc() {
    let messages = ["--messages", "100/s", "--messages-count", "30", "-r", "5", "-d", "2s"];
    let body = r#"{"response_parameters": [{"size": 3}]}"#;
    let more = ["--simulate", "7", "--simulate-latency", "fixed:2ms", "-b", body];
    let url = "grpc://virtual/grpc.testing.TestService/FullDuplexCall";
    let args = [&messages[..], &more, &["--json", url]].concat();
    let first = prony(&args);
    assert_eq!((first.code, &first.stdout), (0, &prony(&args).stdout), "{}", first.stderr);
    let report = first.report();
    let message = &report.0["measurement"]["times"]["message"];
    assert_eq!(message["count"], 300);
    let p50 = message["p50_ns"].as_f64().expect("a median");
    assert!((p50 / 2.1e6 - 1.0).abs() < 0.01, "{p50}");
    let unary = ["--simulate", "7", "-n", "50", "--json"];
    let url = "grpc://virtual/grpc.testing.TestService/UnaryCall";
    let report = prony(&[&unary[..], &[url]].concat()).report();
    assert_eq!((report.status(0), report.count("failed")), (50, 0));
    let ended = prony(&[&unary[..], &["grpc://virtual/shop.Shop/Buy"]].concat());
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("there is no service 'shop.Shop'"), "{}", ended.stderr);
}

/// The first event comes after the service, the others each 10 ms. The way takes 100 us there and
/// back, and so does the connect.
#[test]
fn simulates_streams_of_events() {
    for (format, version) in [("sse", "--http=1.1"), ("sse", "--h2c"), ("chunks", "--http=1.1")] {
        let load = ["-r", "5", "-d", "2s", "--stream", format, "--stream-events", "20", version];
        let world = ["--simulate", "7", "--simulate-latency", "fixed:40ms", "--accept-invalid"];
        let ended = prony(&[&load[..], &world, &["--json", "http://virtual/"]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        let report = ended.report();
        assert_eq!((report.count("replies"), report.count("failed")), (10, 0), "{format}");
        let messages = &report.0["measurement"]["tally"]["stream_messages"];
        assert_eq!(messages["received"], 200, "{format}");
        for (figure, truth) in [("first_message", 40.2), ("message_gap", 10.0)] {
            let mean = report.ms(figure, "mean");
            assert!((mean / truth - 1.0).abs() < 0.01, "{format}: {figure} is {mean} ms");
        }
    }
}
