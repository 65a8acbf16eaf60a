//! `prony capacity` as users run it.

use serde_json::Value;

use crate::json_schema;
use crate::rig::{Serve, alone, prony, side_by_side, waiting};

/// A simulated queue with one server, whose p99 is at 46.05 ms at 900 requests per second.
const QUEUE: [&str; 10] = [
    "capacity",
    "--simulate",
    "7",
    "--simulate-latency",
    "exp:1ms",
    "--simulate-workers",
    "1",
    "--threshold",
    "p99 < 46.05ms",
    "--quiet",
];

#[test]
fn capacity_of_a_simulated_queue_is_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [html, svg, png, json] = ["c.html", "c.svg", "c.png", "c.json"].map(file);
    let files = ["-o", &html, "-o", &svg, "-o", &png, "-o", &json];
    let rest = ["--budget", "4m", "--from", "100", "http://example.test/"];
    let ended = prony(&[&QUEUE[..], &files, &rest].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let read = |path: &str| std::fs::read(path).expect("a file");
    let report: Value = serde_json::from_slice(&read(&json)).expect("JSON");
    let finding = &report["finding"];
    assert_eq!((&finding["kind"], &finding["stop"]), (&"capacity".into(), &"queueing".into()));
    let number = |value: &Value| value.as_f64().expect("a number");
    let (lo, hi) = (number(&finding["interval"]["lo"]), number(&finding["interval"]["hi"]));
    assert!(lo < 900.0 && 900.0 < hi && lo > 600.0 && hi < 1_000.0, "{finding}");
    assert!(ended.stdout.contains("The capacity is"), "{ended:?}");
    assert!(ended.stdout.contains("requests queue in the target"), "{ended:?}");
    // The command at 80 % is a load that works.
    let words = report["run_at_80_percent"].as_array().expect("words");
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let load = prony(&[&words[1..], &["-d", "2s", "--undecided", "pass"]].concat());
    assert_eq!(load.code, 0, "{load:?}");
    let line = ended.stdout.lines().find_map(|line| line.trim().strip_prefix("At 80 % of it: "));
    let pasted = shlex::split(line.expect("the command")).expect("words of a shell");
    assert_eq!(pasted, words);
    let points = report["points"].as_array().expect("points");
    assert!(
        points.len() > 15 && points.iter().all(|p| p["p50"]["value"].is_number()),
        "{points:?}"
    );
    let html = String::from_utf8_lossy(&read(&html)).into_owned();
    assert!(html.contains("The capacity is") && html.contains("<svg"), "{html}");
    assert!(String::from_utf8_lossy(&read(&svg)).contains("p99"));
    assert!(read(&png).starts_with(b"\x89PNG"));
    documented(&report);
}

/// The report is as the schema and the documentation say.
fn documented(report: &Value) {
    json_schema::check("capacity-1.json", report);
    let page = include_str!("../../../../docs/capacity.md");
    let (_, keys) = page.split_once("## JSON").expect("its section");
    let named = |name: &str| {
        let within = |of: &str| keys.contains(&format!("`{of}{name}`"));
        assert!(within("") || within("finding.") || within("scalability."), "{name}");
    };
    for of in [report, &report["finding"], &report["points"][0], &report["scalability"]] {
        of.as_object().into_iter().flat_map(|of| of.keys()).for_each(|name| named(name));
    }
}

#[test]
fn capacity_by_connections_is_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [html, svg, json] = ["c.html", "c.svg", "c.json"].map(file);
    // One worker that takes 1 ms: with N connections each request takes N milliseconds.
    let words = ["capacity", "--by", "connections", "--simulate", "7", "--simulate-latency", "1ms"];
    let rest = ["--simulate-workers", "1", "--threshold", "p99 < 20.5ms", "--quiet"];
    let files = ["-o", &html, "-o", &svg, "-o", &json, "http://example.test/"];
    let ended = prony(&[&words[..], &rest, &files].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let read = |path: &str| std::fs::read_to_string(path).expect("a file");
    let report: Value = serde_json::from_str(&read(&json)).expect("JSON");
    let (finding, interval) = (&report["finding"], &report["finding"]["interval"]);
    let numbers = [&finding["rate"], &interval["lo"], &interval["hi"]].map(|n| n.as_f64());
    // The network takes a part of the limit.
    let expected = 18.0..=20.0;
    assert!(numbers.iter().flatten().filter(|n| expected.contains(*n)).count() == 3, "{finding}");
    assert_eq!(
        (&report["by"], &report["arrivals"]),
        (&"connections".into(), &"closed loop".into())
    );
    let throughput = report["throughput"]["value"].as_f64().expect("a throughput");
    assert!((970.0..1_001.0).contains(&throughput), "{throughput}");
    // One connection waits for the network, so it completes less than the server could; from the
    // second on nothing grows.
    assert!(report["scalability"]["kind"].is_string(), "{report}");
    assert!(ended.stdout.contains("Universal Scalability Law"), "{ended:?}");
    assert!(ended.stdout.contains("connections (95 % CI"), "{ended:?}");
    assert!(read(&html).contains("Throughput by connections"));
    assert!(read(&svg).contains("connections"));
    let words = report["run_at_80_percent"].as_array().expect("words");
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    let connections = words.last().and_then(|n| n.parse::<u32>().ok());
    assert!(words.contains(&"--connections") && !words.contains(&"--by"), "{words:?}");
    assert!(connections.is_some_and(|n| (14..=16).contains(&n)), "{words:?}");
    documented(&report);
}

/// Users who pause are more than requests: N of them with a pause of 10 ms wait for a queue of
/// N - 10 milliseconds.
#[test]
fn connections_with_think_time_are_found() {
    let words = ["capacity", "--by", "connections", "--simulate", "7", "--simulate-latency", "1ms"];
    let rest = ["--simulate-workers", "1", "--threshold", "p99 < 20.5ms", "--quiet", "--json"];
    let ended =
        prony(&[&words[..], &rest, &["--think", "fixed:10ms", "http://example.test/"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let found = report["finding"]["rate"].as_f64().expect("a number");
    assert!((28.0..=31.0).contains(&found), "{}", report["finding"]);
    let words = report["run_at_80_percent"].as_array().expect("words");
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    assert!(words.windows(2).any(|two| two == ["--think", "fixed:10ms"]), "{words:?}");
}

#[test]
fn what_is_left_beyond_the_capacity_is_measured() {
    // One worker completes 1,000 requests per second, and no more at 1.5 times the capacity of 900.
    let rest = ["--beyond", "1.5", "--from", "100", "--json", "http://example.test/"];
    let ended = prony(&[&QUEUE[..], &rest].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let points = report["points"].as_array().expect("points");
    let beyond: Vec<&Value> = points.iter().filter(|point| point["purpose"] == "beyond").collect();
    let [beyond] = beyond[..] else { panic!("one trial beyond the capacity: {points:?}") };
    let number = |value: &Value| value.as_f64().expect("a number");
    let factor = number(&beyond["rate"]) / number(&report["finding"]["rate"]);
    assert!((factor - 1.5).abs() < 0.01, "{factor}");
    let goodput = number(&beyond["goodput"]["value"]);
    assert!((950.0..1_030.0).contains(&goodput), "{beyond}");
    assert!(number(&beyond["p99"]["value"]) > 500e6, "{beyond}");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("At 1.50 times the capacity") && notes.contains("it degrades"),
        "{notes}"
    );
    for factor in ["1", "0.5", "x"] {
        let ended = prony(&[&QUEUE[..], &["--beyond", factor, "http://example.test/"]].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("--beyond"), "{}", ended.stderr);
    }
}

/// Both searches put a small load on their servers, and take long: they run at the same time. Other
/// load on the machine can only lower a capacity, or leave a search without a number. That numbers
/// are close to the truth is tested in virtual time.
#[test]
fn capacities_of_real_queues_are_not_exceeded() {
    let _alone = alone();
    side_by_side([by_connections as fn(), by_rate], |search| search());
}

fn by_connections() {
    // Ten workers that take 10 ms: more than ten connections wait, N of them N milliseconds.
    let server = Serve::start(&["--latency", "10ms", "--workers", "10"]);
    let url = server.url("/");
    let words = ["capacity", &url, "--by", "connections", "--threshold", "p99 < 42ms", "--json"];
    let rest = ["--budget", "30s", "-t", "1", "--quiet"];
    found_at_most(&[&words[..], &rest].concat(), 40.0);
}

/// Searches for a capacity, of which the truth is known for an idle machine. Returns the report.
fn found_at_most(words: &[&str], truth: f64) -> Value {
    let ended = prony(words);
    let report = serde_json::from_str(&ended.stdout);
    let report: Value = report.unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let finding = &report["finding"];
    // 98: the load generator was the limit; 97: too little is known.
    assert!([0, 97, 98].contains(&ended.code), "{ended:?}");
    let number = |value: &Value| value.as_f64();
    let least = match ended.code {
        0 => number(&finding["interval"]["lo"]).expect("the lower end of its interval"),
        _ => number(&finding["rate"]).unwrap_or(0.0),
    };
    assert!(least <= truth * 1.05, "at least {least}, not {truth}: {finding}");
    let points = report["points"].as_array().expect("trials");
    assert!(!points.is_empty(), "{report}");
    report
}

#[test]
fn a_target_without_a_queue_has_no_ceiling() {
    let words = ["capacity", "--simulate", "7", "--simulate-latency", "1ms", "--quiet"];
    let rest = ["--threshold", "p99 < 5ms", "-c", "50", "--from", "1000", "http://example.test/"];
    let ended = prony(&[&words[..], &rest].concat());
    assert_eq!(ended.code, 98, "{ended:?}");
    // 50 connections carry 50 requests in 1.1 ms.
    assert!(ended.stdout.contains("is at least"), "{ended:?}");
    assert!(ended.stdout.contains("the connection limit (-c) is the limit"), "{ended:?}");
}

#[test]
fn options_that_a_search_sets_itself_are_refused() {
    let refused = |words: &[&str]| {
        let ended = prony(&[&["capacity", "http://127.0.0.1:1/"], words].concat());
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.stderr
    };
    let p99 = ["--threshold", "p99 < 5ms"];
    assert!(refused(&[]).contains("needs --threshold"));
    let options = [["--rate", "5"], ["-d", "5s"], ["-n", "9"], ["--think", "1s"]];
    for option in options.into_iter().chain([["--label", "new"], ["--github", "-q"]]) {
        assert!(refused(&[&p99[..], &option].concat()).contains("prony capacity"), "{option:?}");
    }
    let short = refused(&[&p99[..], &["--budget", "7s"]].concat());
    assert!(short.contains("--budget: too short") && short.contains(" 8 s "), "{short}");
    let text = refused(&[&p99[..], &["-o", "x.txt"]].concat());
    assert!(text.contains("x.txt`: a capacity can be written as .html, .svg, .png or"), "{text}");
    for option in [["--arrivals", "poisson"], ["--rate", "5"], ["--from", "1.5"], ["--from", "9"]] {
        let why = refused(&[&p99[..], &["--by", "connections", "-c", "8"], &option].concat());
        assert!(why.contains(option[0]), "{option:?}: {why}");
    }
    for threshold in ["rate > 100/s", "send-lag.p99 < 1ms", "max < 1s", "errors < 10", "p99 > 1s"] {
        let why = refused(&["--threshold", threshold]);
        assert!(why.contains(&format!("threshold '{threshold}': ")), "{why}");
    }
}

/// The rate at which 10 % of the requests to this queue take longer, all service times alike.
fn truth(workers: usize, service: f64, limit: f64) -> f64 {
    let (mut low, mut high) = (1.0, workers as f64 / service);
    for _ in 0..14 {
        let rate = f64::midpoint(low, high);
        let (mut free, mut now, mut longer) = (vec![0.0_f64; workers], 0.0, 0_u32);
        let mut state = 1_u64;
        let n = 200_000;
        for i in 0..n {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
            now -= (1.0 - unit).ln() / rate;
            // Equal service times: the servers become free in turn.
            let start = free[i % workers].max(now);
            free[i % workers] = start + service;
            longer += u32::from(start + service - now > limit);
        }
        if f64::from(longer) > n as f64 * 0.1 { high = rate } else { low = rate }
    }
    low
}

fn by_rate() {
    let server = Serve::start(&["--latency", "10ms", "--workers", "10"]);
    let (url, truth) = (server.url("/"), truth(10, 0.010, 0.014));
    let words =
        ["capacity", &url, "--threshold", "p90 < 14ms", "--from", "250", "--json", "--quiet"];
    let rest = ["--budget", "25s", "-t", "1"];
    found_at_most(&[&words[..], &rest].concat(), truth);
}

/// The trials run on two workers, and the search decides on their merged figures.
#[test]
fn capacity_is_found_on_several_workers() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "10ms", "--workers", "10"]);
    let (url, truth) = (server.url("/"), truth(10, 0.010, 0.014));
    let words = ["capacity", &url, "--threshold", "p90 < 14ms", "--from", "500", "--json"];
    let rest = ["--budget", "22s", "--hosts", "2", "--quiet"];
    let report = found_at_most(&[&words[..], &rest].concat(), truth);
    // Both workers together offered the rate of each trial.
    for point in report["points"].as_array().expect("trials") {
        let number = |key: &str| point[key].as_f64().expect("a number");
        let expected = number("rate") * number("seconds");
        let sigma = expected.sqrt().max(1.0);
        assert!((number("requests") - expected).abs() < 6.0 * sigma, "{point}");
    }
}
