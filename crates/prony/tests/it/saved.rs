//! Results that an older tool's front end has saved with `--output` work as any other.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{Ended, Serve, prony, waiting};

/// A result of a tool: of httperf 400 requests at 400 per second, of ab 400 requests over ten
/// connections, of wrk a second with ten connections.
fn saved(tool: &str, server: &Serve, file: &Path) -> String {
    let (host, url) = (server.url(""), server.url("/"));
    let port = host.rsplit(':').next().expect("a port");
    let file = file.to_str().expect("text");
    let words = match tool {
        "httperf" => {
            let target = ["--server", "127.0.0.1", "--port", port];
            [&target[..], &["--num-conns", "400", "--rate", "400", "--output", file]].concat()
        }
        "ab" => vec!["-q", "-k", "-n", "400", "-c", "10", "--output", file, &url],
        _ => vec!["-c", "10", "-t", "1", "-d", "1s", "--output", file, &url],
    };
    let ended = prony(&[&[tool], &words[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    file.to_owned()
}

/// A report of saved results.
fn shown(words: &[&str], files: &[String]) -> Ended {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let ended = prony(&[words, &files].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

#[test]
fn results_of_httperf_are_reported_and_compared() {
    reported_and_compared("httperf");
}

#[test]
fn results_of_ab_are_reported_and_compared() {
    reported_and_compared("ab");
}

#[test]
fn results_of_wrk_are_reported_and_compared() {
    reported_and_compared("wrk");
}

fn reported_and_compared(tool: &str) {
    let _waiting = waiting();
    let folder = tempfile::tempdir().expect("a folder");
    let [fast, slow] =
        ["fixed:4ms", "fixed:20ms"].map(|latency| Serve::start(&["--latency", latency]));
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for i in 0..4 {
        old.push(saved(tool, &fast, &folder.path().join(format!("old{i}.json"))));
        new.push(saved(tool, &slow, &folder.path().join(format!("new{i}.json"))));
    }
    let accepted = ["report", "--accept-invalid"];

    // One result, for people and for build servers.
    let [xml, md, html] = ["a.xml", "a.md", "a.html"].map(|name| folder.path().join(name));
    let files = [&xml, &md, &html].map(|file| file.to_str().expect("text"));
    let outputs = ["-o", files[0], "-o", files[1], "-o", files[2]];
    let text = shown(&[&accepted[..], &outputs].concat(), &old[..1]).stdout;
    assert!(tool == "wrk" || text.contains("400"), "{text}");
    let [xml, md, html] = files.map(|file| fs::read_to_string(file).expect("a report"));
    assert!(xml.contains("<testcase classname=\"prony\" name=\"verdict\""), "{xml}");
    assert!(md.starts_with('#') && md.contains("p99"), "{md}");
    assert!(html.contains("<svg"), "{html}");

    // Several, over time and beside each other.
    let all = [&old[..], &new].concat();
    let trend = shown(&[&accepted[..], &["--trend", "--json"]].concat(), &all).stdout;
    let trend: Value = serde_json::from_str(&trend).expect("JSON");
    assert_eq!(trend["runs"].as_array().map(Vec::len), Some(8), "{trend}");
    let refused =
        prony(&[&["report", "--trend", "-o", "x.txt"], &[&*old[0], &*old[1]][..]].concat());
    assert!(refused.stderr.contains("x.txt`: a trend can be written as .html or .json"));
    let beside = shown(&accepted, &[old[0].clone(), new[0].clone()]).stdout;
    assert!(beside.contains("p50"), "{beside}");

    // And compared: no figure is less than its server took, and the decision is that of the
    // interval. Other load on the machine makes both wider and later.
    let groups = [&old[..], &["--".to_owned()], &new].concat();
    let found = shown(&["compare", "--accept-invalid", "--json"], &groups).stdout;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let changes = found["changes"].as_array().expect("a list");
    let p50 = changes.iter().find(|c| c["figure"] == "p50").expect("the median");
    let [a, b, lo, ratio, hi] = ["a", "b", "ratio_lo", "ratio", "ratio_hi"]
        .map(|name| p50[name].as_f64().unwrap_or_else(|| panic!("{name}: {p50}")));
    assert!(a >= 4e6 * 0.999 && b >= 20e6 * 0.999, "{p50}");
    assert!(lo <= ratio && ratio <= hi, "{p50}");
    let is_higher = p50["outcome"] == "higher";
    assert!(is_higher || lo < 1.05, "{p50}");
    assert!(!is_higher || lo > 1.0, "{p50}");
}
