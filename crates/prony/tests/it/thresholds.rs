//! `--threshold`: the outcome of each, and the exit code.

use std::fs;

use prony_plan::threshold::{Figure, Unit};

use crate::rig::{Ended, Serve, alone, prony, waiting};

/// An infinite-server queue with exponential times (mean 1 ms) and a round trip of 0.1 ms.
fn simulated(thresholds: &[&str]) -> Ended {
    let load = ["--simulate", "7", "--simulate-latency", "exp:1ms", "-r", "500", "-d", "20s"];
    let mut args: Vec<&str> = load.to_vec();
    args.extend(["--arrivals", "poisson", "--json"]);
    for threshold in thresholds {
        args.extend(["--threshold", threshold]);
    }
    args.push("http://virtual/");
    prony(&args)
}

fn outcomes(ended: &Ended) -> Vec<String> {
    let report = ended.report();
    let all = report.0["thresholds"].as_array().expect("thresholds").clone();
    all.iter().map(|t| t["outcome"].as_str().expect("an outcome").to_owned()).collect()
}

#[test]
fn thresholds_are_met_missed_or_undecided() {
    let met = simulated(&["p99 < 20ms", "errors < 0.1%", "rate > 400", "status.503 = 0"]);
    assert_eq!(met.code, 0, "{met:?}");
    assert_eq!(outcomes(&met), ["met"; 4]);
    let missed = simulated(&["p99 < 20ms", "service.p90 < 1ms"]);
    assert_eq!(missed.code, 99, "{missed:?}");
    assert_eq!(outcomes(&missed), ["met", "missed"]);
    // 20 s are too short for a p99.99.
    let undecided = simulated(&["p99.99 < 20ms"]);
    assert_eq!(undecided.code, 97, "{undecided:?}");
    assert_eq!(outcomes(&undecided), ["undecided"]);
    let report = undecided.report();
    assert_eq!(report.0["thresholds"][0]["no_interval"], "too-few-samples");
}

/// Of 1,000 requests the shortest takes 0.1 ms: one of them alone decides a p99.99.
#[test]
fn a_percentile_is_missed_if_not_one_time_keeps_to_its_limit() {
    let load = ["--simulate", "7", "-r", "500", "-d", "2s", "--simulate-latency", "exp:1ms"];
    let limits = ["p99 < 50us", "p99.99 <= 50us", "p99.99 < 10s"].map(|t| ["--threshold", t]);
    let more = ["--undecided", "pass", "--json", "http://virtual/"];
    let slow = prony(&[&load[..], limits.as_flattened(), &more[..]].concat());
    assert_eq!(slow.code, 99, "{slow:?}");
    assert_eq!(outcomes(&slow), ["missed", "missed", "undecided"]);
    let report = slow.report();
    let sentence = |i: usize| report.0["thresholds"][i]["sentence"].as_str().expect("a sentence");
    for i in [0, 1] {
        let said = " ms, 1,000 of 1,000 beyond the limit)";
        assert!(sentence(i).ends_with(said), "{}", sentence(i));
    }
    // 0.9999^n is below 5 % from 29,956 independent requests on: a minute at 500/s.
    let said = " ms, 0 of 1,000 beyond the limit, about ";
    assert!(sentence(2).contains(said), "{}", sentence(2));
    let more = report.0["thresholds"][2]["more_ns"].as_f64().expect("a time");
    assert!((57e9..240e9).contains(&more), "{more}");
    assert_eq!(report.0["thresholds"][2]["doubt"], "sample");
}

#[test]
fn an_undecided_threshold_passes_on_request() {
    let load = ["--simulate", "7", "-r", "500", "-d", "2s", "--undecided", "pass"];
    let ended = prony(&[&load[..], &["--threshold", "p99.99 < 1s", "http://virtual/"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let said = ", 0 of 1,000 beyond the limit, about ";
    assert!(ended.stdout.contains("undecided: p99.99 < 1s ("), "{ended:?}");
    assert!(ended.stdout.contains(said), "{ended:?}");
}

/// README's example: 0 failures of 3,000, on any seed.
#[test]
fn three_thousand_requests_without_a_failure_decide_a_thousandth() {
    let limits = ["p99 < 200ms", "errors < 0.1%"].map(|limit| ["--threshold", limit]);
    for seed in 1..=20 {
        let seed = seed.to_string();
        let load = ["--simulate", &seed, "--simulate-latency", "lognormal:20ms:0.3"];
        let more = ["-r", "300", "-d", "10s", "http://virtual/"];
        let ended = prony(&[&load[..], limits.as_flattened(), &more[..]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.contains("met: errors < 0.1% (0 %, 0 of 3,000)"), "{ended:?}");
    }
}

/// 300 independent times between 9 and 41 ms decide what they can, and a constant has a mean.
#[test]
fn few_times_decide_what_they_can() {
    let limits = ["p50 < 1ms", "p90 < 200ms", "mean < 1s"].map(|limit| ["--threshold", limit]);
    let latency = ["--simulate-latency", "lognormal:20ms:0.3", "-r", "100", "-d", "3s", "--json"];
    let url = ["http://virtual/"];
    let seed = ["--simulate", "1"];
    let ended = prony(&[&seed, &latency[..], limits.as_flattened(), &url].concat());
    assert_eq!(ended.code, 99, "{ended:?}");
    assert_eq!(outcomes(&ended), ["missed", "met", "met"]);
    let constant = ["--simulate-latency", "fixed:20ms", "-c", "5", "-d", "5s", "--json"];
    let ended = prony(&[&seed, &constant[..], &url].concat());
    let mean = &ended.report().0["measurement"]["ci95"]["response"]["mean_ns"];
    let [lo, hi] = ["lo", "hi"].map(|end| mean[end].as_f64().expect("an end"));
    assert!(hi - lo < 0.01 * lo && lo >= 20e6, "{mean}");
}

/// Without an end of its own, a load goes on until its thresholds are decided.
#[test]
fn a_load_ends_when_its_thresholds_are_decided() {
    let run = |more: &[&str]| {
        let load = ["--simulate", "3", "--simulate-latency", "exp:1ms", "-r", "100", "--json"];
        prony(&[&load[..], more, &["http://virtual/"]].concat())
    };
    let seconds = |ended: &Ended| {
        let window = &ended.report().0["measurement"]["rates"]["window_ns"];
        window.as_u64().expect("a time") / 1_000_000_000
    };
    let soon = run(&["--threshold", "p99 < 1s", "--threshold", "errors = 0"]);
    assert_eq!((soon.code, seconds(&soon)), (0, 10), "{soon:?}");
    // 0 of 3,300 at a level of 0.5 %.
    let later = run(&["--threshold", "errors < 0.17%"]);
    assert_eq!((later.code, seconds(&later)), (0, 33), "{later:?}");
    let never = run(&["--threshold", "errors < 0.01%", "--decide-within", "30s"]);
    assert_eq!((never.code, seconds(&never)), (97, 30), "{never:?}");
    let said = never.report().0["run"]["notes"].to_string();
    assert!(said.contains("The time was over before all thresholds were decided."), "{said}");
    let fixed = run(&["--threshold", "p99 < 1s", "-d", "20s"]);
    assert_eq!((fixed.code, seconds(&fixed)), (0, 20), "{fixed:?}");
    for wrong in [&["--decide-within", "30s"][..], &["--decide-within", "30s", "-d", "5s"]] {
        let refused = run(wrong);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("--decide-within: there is no threshold"), "{refused:?}");
    }
    let both = run(&["--decide-within", "30s", "-d", "5s", "--threshold", "p99 < 1s"]);
    assert!(both.stderr.contains("something else ends the load"), "{both:?}");
}

#[test]
fn thresholds_that_can_never_be_decided_are_refused() {
    for (threshold, why) in [
        ("p99 < 200", "the limit '200' of p99 lacks its unit: write 200ms"),
        ("errrs < 3", "there is no figure 'errrs'; did you mean 'errors'?"),
        ("login: p99 < 3ms", "the plan has no named requests; omit the name"),
        ("session.completed > 99%", "the plan has no sessions"),
        ("tunnel.p99 < 50ms", "there are no tunnels without a proxy"),
        ("handshake.p99 < 50ms", "there are no TLS handshakes without https://"),
    ] {
        let ended = simulated(&[threshold]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
    }
}

#[test]
fn a_plan_file_has_thresholds_of_named_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = "url = 'http://virtual/'\nrate = 500\nduration = '5s'\n\
                thresholds = ['login: p90 < 1s', 'errors = 0']\n\
                request = [{path = '/login', name = 'login'}, {path = '/b'}]\n";
    fs::write(&file, text).expect("a plan");
    let path = file.to_str().expect("a path");
    let ended = prony(&["run", path, "--simulate", "1", "--threshold", "GET /b: errors = 0"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for line in ["met: login: p90 < 1s (", "met: errors = 0 (0)", "met: GET /b: errors = 0 (0)"] {
        assert!(ended.stdout.contains(line), "{line}: {ended:?}");
    }
    let explained = prony(&["run", path, "--explain"]);
    let line = "thresholds = [\"login: p90 < 1s\", \"errors = 0\"]";
    assert!(explained.stdout.contains(line), "{explained:?}");
    fs::write(&file, text.replace("p90 <", "p90 ~")).expect("a plan");
    let refused = prony(&["check", path]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains(":4:15: "), "{refused:?}");
    fs::write(&file, text.replace("'login: p90", "'logn: p90")).expect("a plan");
    let refused = prony(&["run", path, "--simulate", "1"]);
    assert!(refused.stderr.contains("no request has the name 'logn'"), "{refused:?}");
}

/// On the network: a server that replies 503 to every tenth request.
#[test]
fn a_real_run_is_decided_by_its_thresholds() {
    let _alone = alone();
    let server = Serve::start(&["--status", "200:90,503:10"]);
    let url = server.url("/");
    let load = ["-r", "2000", "-d", "3s", "--accept-invalid"];
    let of = |threshold: &str| {
        let args = [&load[..], &["--threshold", threshold, "--expect", "2xx,503", &url]].concat();
        prony(&args).code
    };
    assert_eq!(of("status.503 < 20%"), 0);
    assert_eq!(of("status.503 < 5%"), 99);
    assert_eq!(of("status.503 = 0"), 99);
}

/// A server that replies 503 to every second request, and a load of an hour.
#[test]
fn a_load_that_misses_its_threshold_ends_early() {
    let _waiting = waiting();
    let server = Serve::start(&["--status", "200:50,503:50"]);
    let load = ["-r", "500", "-d", "1h", "--accept-invalid"];
    let url = server.url("/");
    let args = [&load[..], &["--threshold", "errors < 5%, abort after 3s", &url]].concat();
    let start = std::time::Instant::now();
    let ended = prony(&args);
    assert_eq!(ended.code, 99, "{ended:?}");
    let took = start.elapsed().as_secs_f64();
    assert!(took >= 3.0, "{took} s: {ended:?}");
    let note = "'errors < 5%, abort after 3s' was missed beyond doubt";
    assert!(
        ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(note),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("interrupted"), "{ended:?}");
}

#[test]
fn a_simulated_load_ends_early_too() {
    let load = ["--simulate", "7", "--simulate-latency", "exp:1ms", "-r", "500", "-d", "60s"];
    // Of the second one, there are too few samples for an interval when it ends.
    for threshold in ["p50 < 200us, abort", "p99 < 1ms, abort"] {
        let poisson = ["--arrivals", "poisson", "--json", "--threshold", threshold];
        let ended = prony(&[&load[..], &poisson[..], &["http://virtual/"]].concat());
        assert_eq!(ended.code, 99, "{ended:?}");
        let report = ended.report().0;
        let window = &report["measurement"]["rates"]["window_ns"];
        assert!(window.as_u64().is_some_and(|ns| ns < 10_000_000_000), "{window}");
        assert_eq!(report["run"]["ended_by"], threshold);
        assert_eq!(report["thresholds"][0]["outcome"], "missed");
    }
}

/// The figures that docs/terms.md defines, and the names of thresholds for them.
const FIGURES: [(&str, &[&str]); 57] = [
    // Times
    ("response", &["p50", "response.p99"]),
    ("service", &["service.p99"]),
    ("first byte", &["first-byte.p99"]),
    ("transfer", &["transfer.p99"]),
    ("send lag", &["send-lag.p99"]),
    ("queue", &["queue.p99"]),
    ("stream wait", &["stream-wait.p99"]),
    ("flow wait", &["flow-wait.p99"]),
    // Without streams of messages there are none: message.p99 and so on.
    ("message", &[]),
    ("message service", &[]),
    ("message lag", &[]),
    ("first message", &[]),
    ("first content", &[]),
    ("message gap", &[]),
    ("reconnect", &[]),
    // Only WebSocket has them.
    ("delivery", &[]),
    ("spread", &[]),
    ("ping", &[]),
    ("connect", &["connect.p99"]),
    ("tunnel", &[]),    // there is none without a proxy: tunnel.p99
    ("handshake", &[]), // there is none without TLS: handshake.p99
    // Only HTTP/2 has them: streams, streams-max, window-time.
    ("streams open", &[]),
    ("own window", &[]),
    ("failed", &["failed.p99", "errors", "session.failed"]),
    ("connection wait", &[]), // not reported by itself
    // Figures of a distribution
    ("count", &[]), // that of the requests or connections
    ("mean", &["mean", "service.mean"]),
    ("stdev", &["stdev", "service.stdev"]),
    ("min", &["min", "connect.min"]),
    ("max", &["max", "connect.max"]),
    ("p50", &["p50"]),
    ("p99.99", &["p99.99"]),
    // Counts
    ("started", &["requests"]),
    ("sent", &["sent"]),
    ("replies", &["replies"]),
    ("unfinished", &["unfinished"]),
    ("retries", &["retries"]),
    ("errors", &["errors", "timeouts", "error.reset"]),
    ("stray", &["stray"]),
    ("statuses", &["status.200", "status.5xx"]),
    ("connects", &["connects"]),
    ("connected", &["connections"]),
    ("handshakes", &["handshakes"]),
    ("bytes sent", &["bytes-sent"]),
    ("bytes received", &["bytes-received"]),
    ("in flight", &["in-flight-max"]),
    // Sessions
    ("completed", &["session.completed", "rate"]),
    ("session rate", &["session.rate"]),
    ("lifetime", &["session.p50"]),
    // Rates
    ("rate", &["rate"]),
    ("target rate", &[]), // what was asked for
    ("sent rate", &["sent-rate"]),
    ("throughput", &["throughput"]),
    ("error share", &["errors"]),
    ("concurrency", &["concurrency"]),
    ("in flight on average", &["concurrency"]),
    ("in-flight mean", &[]), // the check of the one before
];

/// Every figure that the tables of docs/terms.md define can stand in a threshold.
#[test]
fn every_figure_of_the_terms_can_stand_in_a_threshold() {
    let terms = include_str!("../../../../docs/terms.md");
    let tables =
        ["## Times", "## Figures of a distribution", "## Counts", "## The window and the rates"];
    let mut names = Vec::new();
    for table in tables {
        let (_, text) = terms.split_once(&format!("\n{table}\n")).expect(table);
        let section = text.split("\n## ").next().unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default();
        for row in section.lines().filter_map(|line| line.strip_prefix("| **")) {
            let cell = row.split(" |").next().unwrap_or_default();
            names.extend(cell.split("**").step_by(2).map(str::to_owned));
        }
    }
    assert!(names.len() > 30, "{names:?}");
    for name in &names {
        assert!(FIGURES.iter().any(|(known, _)| known == name), "{name} is in no threshold");
    }
    let mut figures: Vec<&str> = FIGURES.iter().flat_map(|(_, names)| *names).copied().collect();
    figures.sort_unstable();
    figures.dedup();
    let thresholds: Vec<String> = figures.iter().map(|name| at_least_nothing(name)).collect();
    let (of_sessions, others): (Vec<_>, Vec<_>) =
        thresholds.iter().map(String::as_str).partition(|text| text.starts_with("session."));
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let text = format!(
        "url = 'http://virtual/'\nrate = 50\nduration = '5s'\nthresholds = {of_sessions:?}\n\
         [[session]]\nname = 'look'\nrequest = ['/a', '/b']\n"
    );
    fs::write(&plan, text).expect("it can be written");
    let plan = plan.to_str().expect("text");
    let sessions = prony(&["run", plan, "--simulate", "7", "--json", "--accept-invalid"]);
    for (ended, thresholds) in [(simulated(&others), others), (sessions, of_sessions)] {
        assert!([0, 97].contains(&ended.code), "{ended:?}");
        let decided = ended.report().0["thresholds"].as_array().expect("thresholds").clone();
        assert_eq!(decided.len(), thresholds.len(), "{decided:?}");
        for (decided, text) in decided.iter().zip(thresholds) {
            assert_eq!(decided["threshold"], text.trim_start_matches("response."));
            // There were no such times.
            let is_empty = ["failed", "queue", "stream-wait", "flow-wait", "connect.p99"]
                .iter()
                .any(|name| text.starts_with(name));
            let is_rare = text.starts_with("p99.99");
            assert!(is_empty || is_rare || decided["value"].is_number(), "{decided}");
        }
    }
}

/// A threshold that every value of the figure meets.
fn at_least_nothing(name: &str) -> String {
    let limit = match Figure::parse(name).expect(name).unit() {
        Unit::Time => "0ms",
        Unit::Rate => "0/s",
        Unit::ByteRate => "0B/s",
        Unit::Count => "0",
        Unit::Share => "0%",
    };
    format!("{name} >= {limit}")
}
