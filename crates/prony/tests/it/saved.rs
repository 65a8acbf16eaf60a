//! Results that an older tool's front end has saved with `--output` work as any other.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{Ended, Serve, alone, prony};

/// A result of httperf: 400 requests per second for a second.
fn saved(server: &Serve, file: &Path) -> String {
    let url = server.url("");
    let port = url.rsplit(':').next().expect("a port");
    let file = file.to_str().expect("text");
    let target = ["httperf", "--server", "127.0.0.1", "--port", port, "--num-conns", "400"];
    let ended = prony(&[&target[..], &["--rate", "400", "--output", file]].concat());
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
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let [fast, slow] = ["exp:4ms", "exp:20ms"].map(|latency| Serve::start(&["--latency", latency]));
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for i in 0..4 {
        old.push(saved(&fast, &folder.path().join(format!("old{i}.json"))));
        new.push(saved(&slow, &folder.path().join(format!("new{i}.json"))));
    }
    let accepted = ["report", "--accept-invalid"];

    // One result, for people and for build servers.
    let [xml, md, html] = ["a.xml", "a.md", "a.html"].map(|name| folder.path().join(name));
    let files = [&xml, &md, &html].map(|file| file.to_str().expect("text"));
    let outputs = ["-o", files[0], "-o", files[1], "-o", files[2]];
    let text = shown(&[&accepted[..], &outputs].concat(), &old[..1]).stdout;
    assert!(text.contains("400"), "{text}");
    let [xml, md, html] = files.map(|file| fs::read_to_string(file).expect("a report"));
    assert!(xml.contains("<testcase classname=\"prony\" name=\"verdict\""), "{xml}");
    assert!(md.starts_with('#') && md.contains("p99"), "{md}");
    assert!(html.contains("<svg"), "{html}");

    // Several, over time and beside each other.
    let all = [&old[..], &new].concat();
    let trend = shown(&[&accepted[..], &["--trend", "--json"]].concat(), &all).stdout;
    let trend: Value = serde_json::from_str(&trend).expect("JSON");
    assert_eq!(trend["runs"].as_array().map(Vec::len), Some(8), "{trend}");
    let beside = shown(&accepted, &[old[0].clone(), new[0].clone()]).stdout;
    assert!(beside.contains("p50"), "{beside}");

    // And decided: B takes five times as long, so other work on the machine changes nothing.
    let groups = [&old[..], &["--".to_owned()], &new].concat();
    let found = shown(&["compare", "--accept", "--accept-invalid", "--json"], &groups).stdout;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let changes = found["changes"].as_array().expect("a list");
    let p50 = changes.iter().find(|c| c["figure"] == "p50").expect("the median");
    assert_eq!(p50["outcome"], "higher", "{p50}");
    let ratio = p50["ratio"].as_f64().expect("a ratio");
    assert!((2.5..7.0).contains(&ratio), "{ratio}");
}
