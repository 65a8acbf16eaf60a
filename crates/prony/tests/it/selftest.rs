//! The self-test as a user makes it. What it measures depends on the host; what it must tell does
//! not.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Ended, Running, Serve, alone, command, wait_until};

fn start(state: &Path, args: &[&str]) -> Running {
    let mut command = command(args);
    command.env("XDG_STATE_HOME", state);
    Running::of(command, args)
}

fn run(state: &Path, args: &[&str]) -> Ended {
    start(state, args).wait()
}

fn file(state: &Path) -> PathBuf {
    state.join("prony/selftest.json")
}

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/selftest-1.json");
    let text = fs::read_to_string(path).expect("the schema is in the tree");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// What no load of the host can change.
const SURE: [&str; 3] = ["counters", "bodies", "overload"];

fn proof<'a>(record: &'a Value, name: &str) -> &'a Value {
    let all = record["proofs"].as_array().expect("proofs");
    all.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no proof {name}: {record:#}"))
}

fn check_record(record: &Value) {
    let schema = jsonschema::validator_for(&schema()).expect("the schema is valid");
    let errors: Vec<String> =
        schema.iter_errors(record).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    for name in SURE {
        assert_eq!(proof(record, name)["held"], true, "{record:#}");
    }
    for name in ["fixed latency", "freeze", "arrivals"] {
        let checks = proof(record, name)["checks"].as_array().expect("checks");
        assert!(checks.iter().any(|c| !c["measured"].is_null()), "{name}: {checks:?}");
    }
    // No server is faster than its law.
    let shortest = &proof(record, "fixed latency")["checks"][0]["measured"]["ns"];
    assert!(shortest.as_f64() >= Some(1e7), "{shortest}");
    let loads: Vec<_> = record["rates"].as_array().expect("rates").iter().collect();
    let names: Vec<_> = loads.iter().map(|r| r["load"].as_str().expect("a name")).collect();
    assert_eq!(names, ["closed", "pipelined", "tls", "open"]);
    assert!(record["floor"]["clock_read_ns"].as_f64() > Some(0.0));
    assert_eq!(record["lags"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_quick_self_test_is_saved_and_cited() {
    let _alone = alone();
    let state = TempDir::new().expect("a folder");
    let ended = run(state.path(), &["selftest", "--quick", "--json"]);
    let record: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    check_record(&record);
    assert_eq!(ended.code, if record["passed"] == true { 0 } else { 98 }, "{record:#}");
    assert!(ended.stderr.contains("prony: proof: freeze"), "{}", ended.stderr);
    let saved = fs::read_to_string(file(state.path())).expect("it is saved");
    assert_eq!(saved, ended.stdout);

    let server = Serve::start(&[]);
    let url = server.url("/");
    let load = ["-c", "1", "-n", "5", "--quiet", "--accept-invalid", &url];
    let cited = || run(state.path(), &[&load[..], &["--json"]].concat()).report().0["run"].take();
    let of = cited()["self_test"].take();
    assert_eq!(of["started_unix"], record["started_unix"]);
    assert_eq!((of["proofs"].as_u64(), of["changed"].as_str()), (Some(6), Some("")));
    let text = run(state.path(), &load).stdout;
    let line = text.lines().find(|l| l.contains("self-test")).expect("a line");
    assert!(line.contains(record["host"]["kernel"].as_str().expect("a kernel")), "{line}");

    // Another kernel, and another host.
    let changed = |key: &str| {
        let mut other = record.clone();
        other["host"][key] = "another".into();
        fs::write(file(state.path()), other.to_string()).expect("written");
    };
    changed("kernel");
    assert_eq!(cited()["self_test"]["changed"], "the kernel");
    assert!(run(state.path(), &load).stdout.contains("stale (the kernel changed since)"));
    changed("name");
    assert!(cited()["self_test"].is_null());
}

#[test]
fn an_interrupted_self_test_tells_what_it_has_and_saves_nothing() {
    let _alone = alone();
    let state = TempDir::new().expect("a folder");
    let running = start(state.path(), &["selftest", "--quiet"]);
    let catches = format!("/proc/{}/status", running.pid());
    wait_until("a caught signal", || {
        let status = fs::read_to_string(&catches).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        // Bit 1 is that of SIGINT.
        caught.is_some_and(|set| u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & 2 != 0))
    });
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.stdout.contains("INTERRUPTED after"), "{}", ended.stdout);
    assert!(!file(state.path()).exists());
}

/// What cannot be saved is refused before anything is measured.
#[test]
fn it_is_saved_where_it_is_wanted() {
    let ended = run(Path::new("/nowhere"), &["selftest", "-o", "/nowhere/x/y.json"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("--output /nowhere/x/y.json: cannot be written"), "{ended:?}");
    // No folder can be where a file is, nor a file where a folder is.
    let (file, folder) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    fs::write(file.path().join("prony"), "").expect("written");
    fs::create_dir_all(folder.path().join("prony/selftest.json")).expect("a folder");
    for state in [file, folder] {
        let ended = run(state.path(), &["selftest"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains("the self-test cannot be kept as"), "{ended:?}");
        assert!(ended.stderr.contains("name another file by --output"), "{ended:?}");
    }
}
