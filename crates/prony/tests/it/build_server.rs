//! `--github`, `prony report --trend`, and the examples for build servers.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::rig::{command, have, prony, waiting};

const LOAD: [&str; 8] =
    ["-r", "500", "-d", "20s", "--simulate-latency", "exp:1ms", "--arrivals", "poisson"];

/// A run with `--github` and a summary file.
fn annotated(threshold: &str) -> (i32, String, String) {
    let folder = TempDir::new().expect("a folder");
    let summary = folder.path().join("summary.md");
    fs::write(&summary, "before\n").expect("a file");
    let mut run = command(&LOAD);
    run.args(["--simulate", "7", "--github", "--threshold", threshold, "http://virtual/"]);
    let out = run.env("GITHUB_STEP_SUMMARY", &summary).output().expect("prony runs");
    let stdout = String::from_utf8(out.stdout).expect("text");
    (out.status.code().expect("a code"), stdout, fs::read_to_string(summary).expect("a summary"))
}

#[test]
fn github_shows_what_is_missed() {
    let (code, stdout, summary) = annotated("p50 < 1us");
    assert_eq!(code, 99, "{stdout}");
    let line = stdout.lines().last().expect("a line");
    assert!(line.starts_with("::error title=prony http%3A//virtual/"), "{line}");
    assert!(line.contains("p50 < 1us"), "{line}");
    assert!(summary.starts_with("before\n### "), "{summary}");
    assert!(summary.contains("| `p50 < 1us` | **missed** |"), "{summary}");
    let (code, stdout, _) = annotated("p99 < 1s");
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.trim_end().ends_with("VALID; thresholds met: 1"), "{stdout}");
    let (_, stdout, _) = annotated("p99.99 < 1s");
    assert!(stdout.contains("::warning title=prony "), "{stdout}");
}

#[test]
fn programs_read_json_without_annotations() {
    let more = ["--simulate", "7", "--github", "--json", "http://virtual/"];
    let ended = prony(&[&LOAD[..], &more[..]].concat());
    assert!(serde_json::from_str::<serde_json::Value>(&ended.stdout).is_ok(), "{ended:?}");
    assert!(ended.stderr.contains("::notice title=prony "), "{ended:?}");
}

#[test]
fn a_trend_marks_the_run_at_which_a_figure_changes() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let mut files = Vec::new();
    for i in 0..14 {
        let path = file(&format!("{i:02}.json"));
        let (seed, label) = (i.to_string(), format!("commit-{i}"));
        let latency = if i < 8 { "exp:1ms" } else { "exp:1300us" };
        let load = ["-r", "500", "-d", "4s", "--arrivals", "poisson", "--quiet", "http://virtual/"];
        let world = ["--simulate", &seed, "--simulate-latency", latency];
        let ended = prony(&[&load[..], &world, &["--label", &label, "-o", &path]].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        files.push(path);
    }
    let all: Vec<&str> = files.iter().map(String::as_str).collect();
    let page = file("trend.html");
    let ended = prony(&[&["report", "--trend", "-o", &page][..], &all].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains(" at commit-8 ("), "{ended:?}");
    let marked: Vec<&str> = ended.stdout.lines().filter(|l| l.contains('*')).collect();
    assert!(marked.len() == 1 && marked[0].contains("commit-8"), "{ended:?}");
    assert!(fs::read_to_string(&page).expect("a page").contains("p50 changes by +"));
    for (args, why) in [
        (&["report", "--trend", all[0]][..], "a trend needs two runs or more"),
        (&["report", "--trend", all[0], all[1], "-o", "x.svg"], "as .html or .json"),
        (&["report", "--github", all[0], all[1]], "annotations are about one run"),
    ] {
        let refused = prony(args);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
}

/// Threads that take half of each core until they are dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..cores {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                let turn = Duration::from_millis(10);
                while !ended.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < turn {
                        std::hint::spin_loop();
                    }
                    thread::sleep(turn);
                }
            });
        }
        Self(ended)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The example creates a repository, in which `git bisect run` finds the slow commit, also on a
/// machine with other work on each of its cores.
#[test]
fn git_bisect_finds_the_slow_commit_on_a_busy_machine() {
    if !have("git") || !have("make") {
        return;
    }
    let _waiting = waiting();
    let _busy = Busy::start();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/build-server");
    let out = Command::new("make")
        .args(["-C", folder, "bisect"])
        .env("PRONY", env!("CARGO_BIN_EXE_prony"))
        .output()
        .expect("make runs");
    let output = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert_eq!(out.status.code(), Some(0), "{output}");
    let (_, found) = output.split_once("is the first bad commit").expect("a commit");
    assert!(found.contains("Change 6"), "{output}");
}
