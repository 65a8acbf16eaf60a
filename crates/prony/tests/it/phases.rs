//! Plans with phases: loads one after the other and side by side.

use std::fs;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::json_schema;
use crate::rig::{Ended, Report, Running, Serve, alone, prony, reserved_port, served};

/// A folder with a plan file.
pub(super) fn plan(text: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("plan.toml");
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

/// The document, which must agree with its schema, and each of its reports with theirs.
pub(super) fn document(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    json_schema::check("phases-1.json", &document);
    for phase in document["phases"].as_array().expect("phases") {
        assert_eq!(phase["report"].is_null(), phase["not_started"].is_string(), "{phase}");
        if !phase["report"].is_null() {
            json_schema::check("report-1.json", &phase["report"]);
        }
    }
    document
}

/// The reports of the phases that have run.
pub(super) fn reports(document: &Value) -> Vec<Report> {
    let phases = document["phases"].as_array().expect("phases");
    let reports = phases.iter().map(|phase| &phase["report"]).filter(|report| !report.is_null());
    reports.map(|report| Report(report.clone())).collect()
}

pub(super) fn replies(reports: &[Report]) -> u64 {
    reports.iter().map(|report| report.count("replies")).sum()
}

const RAMP: &str = "
duration = '400ms'
on-failure = 'end'

[[phases]]
name = 'two users'
users = 2

[[phases]]
name = 'eight users'
users = 8

[[phases]]
name = 'spike'
rate = 200
arrivals = 'poisson'
sessions = 100

[[session]]
request = ['/', ['/a', '/b']]
";

#[test]
fn users_ramp_up_and_then_a_rate_spikes() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "2ms"]);
    let (_folder, path) = plan(&format!("url = '{}'\n{RAMP}", server.url("")));
    let ended = prony(&["run", &path, "--json", "--accept-invalid", "--seed", "5"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let progress: Vec<&str> = ended.stderr.lines().filter(|l| l.contains(" of 3: ")).collect();
    let lines = ["1 of 3: two users", "2 of 3: eight users", "3 of 3: spike"];
    assert_eq!(progress, lines.map(|line| format!("prony: phase {line}")));
    let document = document(&ended.stdout);
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    assert_eq!(served(&server.stop(), "replies"), replies(&reports));
    let [two, eight, spike] = &reports[..] else { panic!("{document}") };
    assert_eq!(spike.count("started"), 300, "100 sessions of three requests");
    assert_eq!(two.0["plan"]["load"]["closed"]["connections"], 2);
    assert!(eight.count("replies") > two.count("replies"), "four times as many users");
    let seeds: Vec<&Value> = reports.iter().map(|report| &report.0["plan"]["seed"]).collect();
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    assert_eq!(document["seed"], 5);
    let start = |report: &Report| report.0["run"]["started_unix"].as_f64().expect("a time");
    let length = start(spike) - start(two);
    assert!(length >= 0.79, "{length} s for two phases of 0.4 s");
}

#[test]
fn phases_run_side_by_side() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "1ms"]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\n[[phases]]\nname = 'users'\nconnections = 3\nduration = '1s'\n\
         [[phases]]\nname = 'spike'\nstart = 'with'\ndelay = '300ms'\nrate = 300\n\
         duration = '500ms'\n[[phases]]\nname = 'after'\nrequests = 50\n",
        server.url("/")
    ));
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a date");
    let ended = prony(&["run", &path, "--json", "--accept-invalid", "-t", "2"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let document = document(&ended.stdout);
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    assert_eq!(served(&server.stop(), "replies"), replies(&reports));
    let [users, spike, after] = &reports[..] else { panic!("{document}") };
    assert_eq!((spike.count("started"), after.count("started")), (150, 50));
    let threads = |report: &Report| report.0["workers"].as_array().map(Vec::len);
    let threads = [users, spike, after].map(threads);
    assert_eq!(threads, [Some(1), Some(1), Some(2)], "two threads are shared out");
    let start = |report: &Report| report.0["run"]["started_unix"].as_f64().expect("a time");
    let later = start(spike) - before.as_secs_f64();
    assert!(later >= 0.299, "{later} s for a delay of 0.3 s");
    assert!(start(after) - start(users) >= 0.99, "the longest of both must end first");
    assert_eq!(document["phases"][1]["start"], "with");
    assert_eq!(document["phases"][1]["delay_ns"], 300_000_000);
    let notes = spike.0["run"]["notes"].to_string();
    assert!(notes.contains("ran side by side with 1 other, on 1 thread of its own"), "{notes}");
}

#[test]
fn ctrl_c_drains_the_running_phase_and_starts_no_other() {
    let _alone = alone();
    let server = Serve::start(&["--latency", "300ms"]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\nrate = 100\n[[phases]]\nname = 'one'\nduration = '500ms'\n\
         [[phases]]\nname = 'two'\nduration = '1h'\n[[phases]]\nname = 'three'\n",
        server.url("/")
    ));
    let mut client = Running::start(&["run", &path, "--json"]);
    client.reported("prony: phase 2 of 3: two\n");
    thread::sleep(Duration::from_secs(1));
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(!ended.stderr.contains("three"), "{ended:?}");
    let document = document(&ended.stdout);
    assert_eq!(document["interrupted"], true);
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    let [one, two] = &reports[..] else { panic!("{document}") };
    assert_eq!(one.count("replies"), 50);
    assert_eq!(one.0["run"]["interrupted"], false);
    // On a busy machine, a more important reason may hide this one.
    assert!(["INTERRUPTED", "CLIENT-LIMITED"].contains(&two.verdict()), "{document}");
    assert_eq!(two.count("unfinished"), 0);
    assert!(two.count("replies") > 0);
    assert_eq!(served(&server.stop(), "replies"), replies(&reports));
    assert_eq!(document["phases"][2]["not_started"], "the user stopped the plan before");
}

#[test]
fn ctrl_c_ends_the_wait_for_a_phase() {
    let server = Serve::start(&[]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\nrequests = 10\n[[phases]]\nname = 'one'\n\
         [[phases]]\nname = 'two'\ndelay = '1h'\n",
        server.url("/")
    ));
    let mut client = Running::start(&["run", &path]);
    client.reported("prony: phase 2 of 2: two\n");
    client.signal(Signal::TERM);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let last = ended.stdout.lines().last().expect("a line");
    let wanted = "phases      Phase 'two' was not started: the user stopped the plan before.";
    assert_eq!(last.trim(), wanted);
}

/// The exit code of a plan in virtual time, whose first phase is always good.
fn simulated(phases: &str, more: &[&str]) -> Ended {
    let load = "url = 'http://virtual/'\nrate = 500\narrivals = 'poisson'\nduration = '20s'\n\
                [[phases]]\nname = 'good'\nthresholds = ['errors = 0']\n";
    let (_folder, path) = plan(&format!("{load}{phases}"));
    let world = ["run", &path, "--simulate", "7", "--simulate-latency", "exp:1ms"];
    prony(&[&world[..], more].concat())
}

#[test]
fn the_exit_code_is_that_of_the_gravest_phase() {
    let phase = |name: &str, keys: &str| format!("[[phases]]\nname = '{name}'\n{keys}\n");
    let missed = phase("missed", "thresholds = ['p50 < 1us']");
    let undecided = phase("undecided", "thresholds = ['p99.99 < 1s']");
    let short = phase("short", "connections = 1\nrequests = 20");
    let good = simulated(&phase("also good", ""), &[]);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.stdout.trim_end().lines().last().is_some_and(|line| line.contains("also good")));
    assert_eq!(simulated(&undecided, &[]).code, 97);
    assert_eq!(simulated(&undecided, &["--undecided", "pass"]).code, 0);
    let both = simulated(&format!("{missed}{undecided}"), &[]);
    assert_eq!(both.code, 99, "{both:?}");
    assert!(both.stdout.contains(" Phase 'missed' misses 'p50 < 1us'.\n"), "{both:?}");
    assert!(both.stdout.contains(" Phase 'undecided' leaves 'p99.99 < 1s' undecided.\n"));
    let invalid = simulated(&format!("{undecided}{short}"), &["--percentile", "p99.9"]);
    assert_eq!(invalid.code, 98, "{invalid:?}");
    assert!(invalid.stdout.contains(" Phase 'short' is not valid: TOO-SHORT: "), "{invalid:?}");
    let of_all = simulated(&phase("second", ""), &["--threshold", "p99 < 1us"]);
    assert_eq!(of_all.code, 99, "a threshold of the command line is for all phases");
    let nobody = reserved_port();
    let url = format!("http://127.0.0.1:{nobody}/");
    let (_folder, path) = plan(&format!("url = '{url}'\nrequests = 5\n{}", phase("none", "")));
    assert_eq!(prony(&["run", &path, "--quiet"]).code, 1, "nothing listens");
}

#[test]
fn a_threshold_that_ends_a_phase_ends_the_plan() {
    let aborted = simulated(
        "[[phases]]\nname = 'bad'\nthresholds = ['p50 < 1us, abort']\n[[phases]]\nname = 'last'\n",
        &["--json"],
    );
    assert_eq!(aborted.code, 99, "{aborted:?}");
    let document = document(&aborted.stdout);
    let reports = reports(&document);
    assert_eq!(reports.len(), 2);
    assert!(reports[1].count("replies") < reports[0].count("replies") / 2);
    let why = document["phases"][2]["not_started"].as_str().expect("a reason");
    assert_eq!(why, "phase 'bad' has missed 'p50 < 1us, abort'");
}

#[test]
fn simulated_phases_have_exactly_the_counts_of_their_schedules() {
    let phases = "[[phases]]\nname = 'ramp'\nrate = '100..300@10s'\narrivals = 'fixed'\n\
                  [[phases]]\nname = 'beside'\nstart = 'with'\ndelay = '2s'\nrate = 50\n\
                  arrivals = 'fixed'\nduration = '4s'\n\
                  [[phases]]\nname = 'users'\nconnections = 4\nrequests = 1000\n";
    let run = |phases: &str| simulated(phases, &["--json", "--accept-invalid"]);
    let first = run(phases);
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(without_path(&first), without_path(&run(phases)), "the same seed, the same report");
    let all = reports(&document(&first.stdout));
    let counts: Vec<u64> = all[1..].iter().map(|report| report.count("started")).collect();
    assert_eq!(counts, [2_000, 200, 1_000]);
    all.iter().for_each(Report::check_sums);
    // A phase does not depend on those after it.
    let fewer = reports(&document(&run("").stdout));
    assert_eq!(fewer[0].0["measurement"], all[0].0["measurement"]);
}

/// The output without the name of the file.
fn without_path(ended: &Ended) -> Value {
    let mut document = document(&ended.stdout);
    document["command"].take();
    for phase in document["phases"].as_array_mut().expect("phases") {
        phase["report"]["run"]["command"].take();
    }
    document
}

#[test]
fn explained_phases_give_identical_simulations() {
    let (folder, path) = plan(&format!("url = 'http://virtual/'\n{RAMP}"));
    let world = ["--simulate", "9", "--simulate-latency", "exp:3ms"];
    let explained = prony(&[&["run", &path, "--explain"][..], &world].concat());
    assert_eq!(explained.code, 0, "{explained:?}");
    let again = folder.path().join("again.toml");
    fs::write(&again, &explained.stdout).expect("a file");
    let again = again.to_str().expect("UTF-8");
    let twice = prony(&["run", again, "--explain"]);
    assert_eq!(twice.stdout, explained.stdout);
    let run = |path: &str| {
        let more = ["--json", "--accept-invalid"];
        without_path(&prony(&[&["run", path][..], &world, &more].concat()))
    };
    assert_eq!(run(&path), run(again));
    let checked = prony(&["check", &path]);
    assert!(checked.stdout.contains("plan.toml: OK: 3 phases; two users: "), "{checked:?}");
}

#[test]
fn every_format_has_every_phase_and_a_saved_report_gives_the_same() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let names = ["a.json", "a.html", "a.md", "a.xml", "a.svg", "a.png"];
    let files = names.map(file);
    let outputs: Vec<&str> = files.iter().flat_map(|file| ["-o", file]).collect();
    let ended = simulated("[[phases]]\nname = 'second & last'\nconnections = 3\n", &outputs);
    assert_eq!(ended.code, 0, "{ended:?}");
    let read = |file: &str| fs::read(file).expect("a file");
    let text = |file: &str| String::from_utf8(read(file)).expect("text");
    document(&text(&files[0]));
    for (file, name) in files[1..4].iter().zip(["second &amp; last", "second & last", "&amp;"]) {
        assert!(text(file).contains(name), "{file}");
    }
    assert!(read(&files[5]).starts_with(b"\x89PNG"));
    let again = names.map(|name| file(&format!("again-{name}")));
    let outputs: Vec<&str> = again.iter().flat_map(|file| ["-o", file]).collect();
    let shown = prony(&[&["report", &files[0]][..], &outputs].concat());
    assert_eq!((shown.code, &shown.stdout), (0, &ended.stdout), "{shown:?}");
    for (first, second) in files.iter().zip(&again) {
        assert!(read(first) == read(second), "{first}");
    }
}

#[test]
fn github_gets_annotations_of_every_phase() {
    let ended = simulated("[[phases]]\nname = 'bad'\nthresholds = ['p50 < 1us']\n", &["--github"]);
    let lines: Vec<&str> = ended.stdout.lines().filter(|l| l.starts_with("::")).collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("::notice title=prony good%3A http%3A//virtual/"), "{lines:?}");
    assert!(lines[1].starts_with("::error title=prony bad%3A http%3A//virtual/"), "{lines:?}");
}

#[test]
fn what_plans_with_phases_cannot_do_is_refused() {
    let text = "url = 'http://127.0.0.1:9/'\n[[phases]]\nname = 'a'\n\
                [[phases]]\nname = 'b'\nstart = 'with'\nthresholds = ['p99 < 1s, abort']\n";
    let (folder, path) = plan(text);
    let json = folder.path().join("a.json").to_str().expect("UTF-8").to_owned();
    let refused = |words: &[&str]| {
        let ended = prony(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{words:?}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        ended.stderr.replace(&path, "PLAN").replace(&json, "JSON")
    };
    let run = |more: &[&str]| refused(&[&["run", &path][..], more].concat());
    for (more, why) in [
        (&["--shard", "1/2"][..], "one driver starts each phase on all hosts; use --hosts"),
        (&["--hosts", "60"], "phase 'a': --shard `1/60`: this plan can be split into at most 50: "),
        (&["--hosts", "2", "--pin"], "pinned to the same cores"),
        (&["--hosts", "2", "--cluster", "h:1"], "--cluster needs --engine ray"),
        (&["--start-at", "4000000000"], "phases start one after the other"),
        (&["--raw", "x.csv"], "its lines would be those of several loads"),
        (&["--tui"], "the live view shows one load"),
        (&["--pin"], "pinned to the same cores"),
        (&["--simulate", "1"], "a load that may end early is simulated several times"),
        (&["-o", "x.csv"], "can be written as .html, .svg, .png, .json, .xml or .md"),
        (&["--format", "hgrm"], "can be printed as text, html, svg, json, junit or markdown"),
        (&["--threshold", "x: p99 < 1s"], "phase 'a': threshold 'x: p99 < 1s': "),
    ] {
        let stderr = run(more);
        assert!(stderr.contains(why), "{more:?}: {stderr}");
    }
    let compared = refused(&["compare", &path, "http://127.0.0.1:9/"]);
    assert!(compared.starts_with("prony: PLAN:2:1: `phases`: this command runs one load"));
    let saved = simulated("", &["-o", &json]);
    assert_eq!(saved.code, 0, "{saved:?}");
    for words in [&["report", &json, &json][..], &["merge", &json], &["compare", &json, &json]] {
        let stderr = refused(words);
        assert!(stderr.starts_with("prony: JSON: this is the report of a plan with phases"));
    }
    assert!(refused(&["report", "--trend", &json]).contains("a trend has one run for each file"));
}
