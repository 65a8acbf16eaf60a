//! `--ramp-up`: users of a closed loop who start one after the other.

use serde_json::Value;

use crate::rig::{Serve, prony, served, waiting};

/// How many requests started in each second.
fn started(measurement: &Value) -> Vec<u64> {
    let rows = measurement["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["started"].as_u64().expect("a count")).collect()
}

#[test]
fn users_start_over_the_ramp() {
    let _waiting = waiting();
    // Nobody gets a reply while others start, so each request is the start of a user.
    let server = Serve::start(&["--latency", "3500ms"]);
    let url = server.url("/");
    let load = ["-c", "30", "--ramp-up", "3s", "-d", "3s", "--accept-invalid"];
    let ended = prony(&[&load[..], &["-t", "2", "--json", &url]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("started"), report.count("replies")), (30, 30));
    assert_eq!(started(&report.0["measurement"])[..3], [10, 10, 10]);
    assert_eq!(served(&server.stop(), "replies"), 30);
    assert_eq!(report.0["plan"]["ramp_up"], 3_000_000_000_u64);
}

#[test]
fn a_ramp_is_explained_reported_and_refused() {
    let words = ["-c", "100", "--ramp-up", "1m", "-d", "5m", "http://h/"];
    let explained = prony(&[&words[..], &["--explain"]].concat());
    assert!(explained.stdout.contains("\nconnections = 100\nramp-up = \"1m\"\n"), "{explained:?}");
    let world = ["--simulate", "1", "--simulate-latency", "fixed:100ms"];
    let simulated = prony(&[&words[..], &world].concat());
    assert_eq!(simulated.code, 0, "{simulated:?}");
    let line = "closed loop: 100 connections, connections start evenly over 1 min, for 5 min";
    assert!(simulated.stdout.contains(line), "{}", simulated.stdout);
    assert!(simulated.stdout.contains("VALID"), "a ramp is no change of the target");
    for (words, why) in [
        (&["--ramp-up", "1m", "-r", "5"][..], "an open loop has no users"),
        (
            &["--ramp-up", "1m", "-d", "10s"],
            "starts its last user after 58.8s, when the load is over",
        ),
        (&["--ramp-up", "x"], "--ramp-up: 'x' is not a time"),
        (&["--ramp-up", "5s", "--until", "rate +- 5%"], "the load changes during the run"),
    ] {
        let refused = prony(&[words, &["http://127.0.0.1:9/"]].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(why), "{words:?}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    }
}
