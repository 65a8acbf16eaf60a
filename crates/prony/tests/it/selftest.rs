//! `prony selftest` as users run it. Its measurements depend on the host; the tests do not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, thread};

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkfifoat};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::json_schema;
use crate::rig::{Ended, Running, Serve, alone, command, side_by_side, slow, wait_until};

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

/// Checks that pass on any host, however busy.
const SURE: [&str; 3] = ["counters", "bodies", "overload"];

fn check<'a>(record: &'a Value, name: &str) -> &'a Value {
    let all = record["checks"].as_array().expect("checks");
    all.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no check {name}: {record:#}"))
}

fn check_shape(record: &Value) {
    json_schema::check("selftest-1.json", record);
}

fn check_record(record: &Value) {
    check_shape(record);
    for name in SURE {
        assert_eq!(check(record, name)["passed"], true, "{record:#}");
    }
    for name in ["fixed latency", "freeze", "arrivals"] {
        let all = check(record, name)["comparisons"].as_array().expect("comparisons");
        assert!(all.iter().any(|c| !c["measured"].is_null()), "{name}: {all:?}");
    }
    // No reply arrives before the latency of the server.
    let shortest = &check(record, "fixed latency")["comparisons"][0]["measured"]["ns"];
    assert!(shortest.as_f64() >= Some(1e7), "{shortest}");
    let loads: Vec<_> = record["rates"].as_array().expect("rates").iter().collect();
    let names: Vec<_> = loads.iter().map(|r| r["load"].as_str().expect("a name")).collect();
    assert_eq!(names, ["closed", "pipelined", "tls", "open"]);
    assert!(record["floor"]["clock_read_ns"].as_f64() > Some(0.0));
    assert_eq!(record["lags"].as_array().map(Vec::len), Some(2));
}

#[test]
fn saves_the_self_test_and_cites_it_in_later_reports() {
    let _alone = alone();
    let state = TempDir::new().expect("a folder");
    let ended = run(state.path(), &["selftest", "--quick", "--json"]);
    let record: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    check_record(&record);
    assert_eq!(ended.code, if record["passed"] == true { 0 } else { 98 }, "{record:#}");
    assert!(ended.stderr.contains("prony: check: freeze"), "{}", ended.stderr);
    let saved = fs::read_to_string(file(state.path())).expect("a saved result");
    assert_eq!(saved, ended.stdout);

    let server = Serve::start(&[]);
    let url = server.url("/");
    let load = ["-c", "1", "-n", "5", "--quiet", "--accept-invalid", &url];
    let cited = || run(state.path(), &[&load[..], &["--json"]].concat()).report().0["run"].take();
    let of = cited()["self_test"].take();
    assert_eq!(of["started_unix"], record["started_unix"]);
    assert_eq!((of["checks"].as_u64(), of["changed"].as_str()), (Some(6), Some("")));
    let text = run(state.path(), &[&load[..], &["-v"]].concat()).stdout;
    let line = text.lines().find(|l| l.contains("self-test")).expect("a line");
    assert!(line.contains(record["host"]["kernel"].as_str().expect("a kernel")), "{line}");

    // Another kernel; then another host.
    let changed = |key: &str| {
        let mut other = record.clone();
        other["host"][key] = "another".into();
        fs::write(file(state.path()), other.to_string()).expect("written");
    };
    changed("kernel");
    assert_eq!(cited()["self_test"]["changed"], "the kernel");
    let text = run(state.path(), &[&load[..], &["-v"]].concat()).stdout;
    let line = text.lines().find(|l| l.contains("self-test")).expect("a line");
    assert!(line.contains("stale, from ") && line.contains("(the kernel changed since)"), "{line}");
    changed("name");
    assert!(cited()["self_test"].is_null());
}

#[test]
fn interrupted_self_test_prints_its_results_and_saves_nothing() {
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

/// The progress messages of a quick self-test.
const PHASES: [&str; 13] = [
    "check: fixed latency",
    "check: freeze",
    "check: counters",
    "check: bodies",
    "check: overload",
    "check: arrivals",
    "shortest times",
    "send lag at 200 requests/s",
    "send lag at 5000 requests/s",
    "highest rate: closed load, auto",
    "highest rate: pipelined load, auto",
    "highest rate: tls load, auto",
    "highest rate: open load, auto",
];
/// The number of checks, and the index of the first search for a rate.
const CHECKS: usize = 6;
const RATES: usize = 9;

/// Interrupts a self-test after this progress message. It must save nothing.
fn interrupted_at(line: &str, args: &[&str]) -> Ended {
    let state = TempDir::new().expect("a folder");
    let mut running = start(state.path(), &[&["selftest"], args].concat());
    running.reported(&format!("prony: {line}"));
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{line}: {ended:?}");
    assert!(!file(state.path()).exists(), "{line}");
    ended
}

/// Interrupts a self-test in this phase. The record must have all earlier phases, and no later one.
fn check_interrupted(phase: usize) {
    let ended = interrupted_at(PHASES[phase], &["--quick", "--json"]);
    let record: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    check_shape(&record);
    assert_eq!((&record["interrupted"], &record["passed"]), (&true.into(), &false.into()));
    let length = |list: &str| record[list].as_array().expect("a list").len();
    let found = length("checks")
        + usize::from(!record["floor"].is_null())
        + length("lags")
        + length("rates");
    assert!((phase..=phase + 1).contains(&found), "{}: {record:#}", PHASES[phase]);
    assert_eq!(length("checks"), found.min(CHECKS), "{record:#}");
    assert_eq!(length("rates"), found.saturating_sub(RATES), "{record:#}");
}

#[test]
fn interrupt_keeps_the_results_of_earlier_phases() {
    let _alone = alone();
    // A self-test mostly waits, and this test does not depend on times.
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let phase = next.fetch_add(1, Ordering::Relaxed);
            if phase >= PHASES.len() {
                break;
            }
            check_interrupted(phase);
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(work)));
    });
    let text = interrupted_at(PHASES[RATES], &["--quick"]).stdout;
    for part in
        ["arrivals: Poisson", "shortest times on this host", "send lag by rate", "INTERRUPTED"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    if slow() {
        for driver in ["epoll", "uring"] {
            let line = format!("highest rate: open load, {driver}");
            let ended = interrupted_at(&line, &["--json"]);
            let record: Value = serde_json::from_str(&ended.stdout).expect("JSON");
            check_shape(&record);
            assert!(record["rates"].as_array().is_some_and(|r| r.len() >= 3), "{record:#}");
        }
    }
}

/// After the last measurement, Ctrl-C has no effect.
#[test]
fn interrupt_during_the_write_leaves_a_complete_file() {
    let _alone = alone();
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("record.json");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
    // Fill the pipe, so that the write blocks until the test reads.
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&path).expect("the pipe");
    let flags = fcntl_getfl(&pipe).expect("flags");
    fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).expect("flags");
    let mut full = 0;
    while let Ok(n) = pipe.write(&[b' '; 1_024]) {
        full += n;
    }
    fcntl_setfl(&pipe, flags).expect("flags");
    let name = path.display().to_string();
    let mut running = start(folder.path(), &["selftest", "--quick", "-o", &name]);
    running.reported(&format!("prony: {}", PHASES[PHASES.len() - 1]));
    // After the measurements, only the main thread and the signal thread remain.
    let tasks = PathBuf::from(format!("/proc/{}/task", running.pid()));
    wait_until("the end of the measurements", || {
        fs::read_dir(&tasks).is_ok_and(|t| t.count() == 2)
    });
    running.signal(Signal::INT);
    thread::sleep(Duration::from_millis(100));
    let mut filled = vec![0; full];
    pipe.read_exact(&mut filled).expect("the bytes that filled the pipe");
    let ended = running.wait();
    assert!([0, 98].contains(&ended.code), "{ended:?}");
    fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).expect("flags");
    let mut written = Vec::new();
    // The read ends with an empty pipe and not at end of file, as this test has it open for
    // writing.
    let end = pipe.read_to_end(&mut written).expect_err("an empty pipe");
    assert_eq!(end.kind(), ErrorKind::WouldBlock);
    let record: Value = serde_json::from_slice(&written).expect("JSON");
    check_record(&record);
    assert_eq!(record["interrupted"], false);
    assert!(!ended.stdout.contains("INTERRUPTED"), "{ended:?}");
}

/// An unwritable `--output` is refused before the measurements; an unwritable default file is not.
#[test]
fn checks_the_output_file_before_measuring() {
    let ended = run(Path::new("/nowhere"), &["selftest", "-o", "/nowhere/x/y.json"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("--output /nowhere/x/y.json: cannot be written"), "{ended:?}");
    // A file in the place of the directory, and a directory in the place of the file.
    let (file, folder) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    fs::write(file.path().join("prony"), "").expect("written");
    fs::create_dir_all(folder.path().join("prony/selftest.json")).expect("a folder");
    side_by_side([file, folder], |state| {
        let ended = run(state.path(), &["selftest", "--quick"]);
        assert!([0, 98].contains(&ended.code), "{ended:?}");
        assert!(ended.stdout.contains("checks"), "{ended:?}");
        let warned =
            "prony: the self-test will not be saved, and later reports cannot refer to it: ";
        assert!(ended.stderr.starts_with(warned), "{ended:?}");
        assert!(ended.stderr.contains("choose another file with --output"), "{ended:?}");
        assert!(!ended.stderr.contains("saved in"), "{ended:?}");
    });
}
