//! Plans with phases on several hosts: each phase on workers of its own, under one driver. The
//! server's counters are the truth.

use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{children, hosts, is_alive, signal};
use crate::phases::{document, plan, replies, reports};
use crate::rig::{Report, Running, Serve, prony, served, wait_until, waiting};

fn start_of(report: &Report) -> f64 {
    report.0["run"]["hosts"]["start_at_unix"].as_f64().expect("an agreed start")
}

#[test]
fn each_phase_is_a_run_on_all_hosts() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let (folder, path) = plan(&format!(
        "url = '{}'\n[[phases]]\nname = 'rate'\nrate = 300\nduration = '2s'\n\
         thresholds = ['errors = 0']\n[[phases]]\nname = 'users'\nconnections = 6\n\
         requests = 1000\nthresholds = ['requests > 1000']\n",
        server.url("/")
    ));
    let json = folder.path().join("a.json").to_str().expect("UTF-8").to_owned();
    let html = folder.path().join("a.html").to_str().expect("UTF-8").to_owned();
    let ended =
        prony(&["run", &path, "--hosts", "3", "-o", &json, "-o", &html, "--accept-invalid"]);
    assert_eq!(ended.code, 99, "the second phase misses its threshold: {ended:?}");
    let document = document(&std::fs::read_to_string(&json).expect("a file"));
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    let [rate, users] = &reports[..] else { panic!("{document}") };
    assert_eq!((rate.count("started"), users.count("started")), (600, 1_000));
    assert_eq!(served(&server.stop(), "replies"), 1_600);
    for (report, of_each) in [(rate, 200), (users, 334)] {
        let hosts = hosts(report);
        assert_eq!(hosts.len(), 3);
        for host in hosts {
            let replies = host["replies"].as_u64().expect("a count");
            assert!(replies == of_each || replies + 1 == of_each, "{host}");
            let (offset, bound) = (&host["clock"]["offset_ns"], &host["clock"]["bound"]);
            let (offset, bound) = (offset.as_i64().expect("known"), bound.as_i64().expect("it"));
            assert!(offset.abs() <= bound, "one clock: {host}");
        }
    }
    assert!(start_of(users) - start_of(rate) > 2.0, "one after the other");
    for part in ["phase 1 of 2: rate", "rate: 1 s, 3 of 3 hosts, ", "phase 2 of 2: users"] {
        assert!(ended.stderr.contains(&format!("prony: {part}")), "{part}: {}", ended.stderr);
    }
    assert!(ended.stdout.contains("missed: requests > 1000 (1k)\n"), "{ended:?}");
    let page = std::fs::read_to_string(&html).expect("a file");
    assert!(page.contains("rate") && page.contains("users"));
    let again = prony(&["report", &json, "--accept-invalid"]);
    assert_eq!(again.stdout, ended.stdout, "a saved report shows the same");
}

#[test]
fn phases_side_by_side_start_together() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "1ms"]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\n[[phases]]\nname = 'base'\nrate = 100\nduration = '3s'\n\
         [[phases]]\nname = 'spike'\nstart = 'with'\ndelay = '1s'\nrate = 400\n\
         duration = '1s'\n[[phases]]\nname = 'after'\nrequests = 50\n",
        server.url("/")
    ));
    let words = ["run", &path, "--hosts", "2", "--json", "--accept-invalid", "-t", "4"];
    let ended = prony(&words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let document = document(&ended.stdout);
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    let [base, spike, after] = &reports[..] else { panic!("{document}") };
    assert_eq!([base, spike, after].map(|report| report.count("started")), [300, 400, 50]);
    assert_eq!(served(&server.stop(), "replies"), 750);
    let later = start_of(spike) - start_of(base);
    assert!((later - 1.0).abs() < 1e-3, "{later} s: one clock, a delay of 1 s");
    assert!(start_of(after) - start_of(base) >= 3.0, "after the longest of both");
    let threads = |report: &Report| report.0["workers"].as_array().map(Vec::len);
    assert_eq!([base, spike, after].map(threads), [Some(4), Some(4), Some(8)], "of two hosts");
    let notes = spike.0["run"]["notes"].to_string();
    assert!(notes.contains("side by side with 1 other, on workers of its own"), "{notes}");
    let late = |report: &Report| {
        let late = hosts(report).into_iter().map(|host| host["start_late"].as_u64());
        late.max().flatten().expect("an agreed start")
    };
    assert!(late(base).max(late(spike)) < 3_000_000_000);
}

#[test]
fn a_phase_that_cannot_start_keeps_those_beside_it_from_starting() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\n[[phases]]\nname = 'first'\nrequests = 40\nconnections = 4\n[[phases]]\n\
         name = 'long'\nrate = 100\nduration = '60s'\nconnections = 9\n[[phases]]\n\
         name = 'wide'\nstart = 'with'\nconnections = 2000\nrequests = 2000\n[[phases]]\n\
         name = 'last'\nrequests = 10\n",
        server.url("/")
    ));
    // No worker can open 1,000 connections.
    let limited = "ulimit -n 300; exec \"$0\" \"$@\"";
    let words = ["run", &path, "--hosts", "2", "--json", "--accept-invalid"];
    let mut client = Command::new("/bin/sh");
    let client = client.args(["-c", limited, env!("CARGO_BIN_EXE_prony")]).args(words);
    let client = client.output().expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&client.stdout), text(&client.stderr));
    assert_eq!(client.status.code(), Some(2), "{stderr}");
    let document = document(&stdout);
    let reports = reports(&document);
    assert_eq!((reports.len(), replies(&reports)), (1, 40), "what was measured is kept");
    assert_eq!(served(&server.stop(), "replies"), 40, "no other was started");
    let why =
        |i: usize| document["phases"][i]["not_started"].as_str().expect("a reason").to_owned();
    assert!(why(1).starts_with("phase 'wide': worker "), "{}", why(1));
    assert_eq!(why(1), format!("phase 'wide': {}", why(2)), "one reason for both");
    assert!(stderr.ends_with(&format!("prony: {}\n", why(1))), "{stderr}");
    assert!(why(3).starts_with("phase 'wide' could not run"), "{}", why(3));
}

/// A plan of three phases, of which the second loses a worker in its third second.
fn hurt(words: &[&str]) -> (i32, Value, String) {
    let server = Serve::start(&[]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\n[[phases]]\nname = 'one'\nrequests = 30\n[[phases]]\nname = 'two'\n\
         rate = 200\nduration = '5s'\n[[phases]]\nname = 'three'\nrequests = 60\n",
        server.url("/")
    ));
    let run = ["run", &path, "--hosts", "2", "--json"];
    let mut client = Running::start(&[&run, words].concat());
    let driver = client.pid();
    client.reported("prony: two: 2 s, 2 of 2 hosts, ");
    let workers = children(driver);
    signal(workers[1], Signal::KILL);
    let ended = client.wait();
    wait_until("no worker is left", || !workers.iter().any(|&pid| is_alive(pid)));
    let document = document(&ended.stdout);
    let reports = reports(&document);
    reports.iter().for_each(Report::check_sums);
    assert_eq!(reports[0].count("replies"), 30);
    let reasons = reports[1].0["verdict"]["reasons"].as_array().expect("reasons").iter();
    assert_eq!(reasons.filter(|reason| reason["kind"] == "partial").count(), 1, "{document}");
    let lost: Vec<Value> =
        hosts(&reports[1]).into_iter().filter(|host| host["lost"].is_object()).collect();
    let [lost] = &lost[..] else { panic!("one is lost: {document}") };
    assert!(lost["lost"]["cause"].as_str().expect("a cause").contains("killed by signal 9"));
    assert!(lost["replies"].as_u64().expect("a count") >= 100, "its seconds are kept: {lost}");
    assert!(replies(&reports) <= served(&server.stop(), "replies"));
    (ended.code, document, ended.stderr)
}

#[test]
fn a_lost_worker_makes_its_phase_partial_and_the_next_phase_has_new_workers() {
    let _waiting = waiting();
    let (code, document, stderr) = hurt(&[]);
    assert_eq!(code, 98, "{stderr}");
    assert!(stderr.contains("prony: two: worker "), "{stderr}");
    assert!(stderr.contains(" was lost after "), "{stderr}");
    let reports = reports(&document);
    assert_eq!((reports.len(), reports[2].count("replies")), (3, 60));
    assert_eq!(hosts(&reports[2]).len(), 2);
    let alive: Vec<Value> =
        hosts(&reports[1]).into_iter().filter(|host| !host["lost"].is_object()).collect();
    assert_eq!(alive[0]["replies"], 500, "the other had its own share");
}

#[test]
fn a_lost_worker_can_end_the_plan() {
    let _waiting = waiting();
    let (code, document, stderr) = hurt(&["--on-loss", "stop"]);
    assert_eq!(code, 98, "{stderr}");
    assert_eq!(reports(&document).len(), 2);
    assert_eq!(document["phases"][2]["not_started"], "phase 'two' has lost a worker");
    assert_eq!(document["interrupted"], false);
}

#[test]
fn ctrl_c_drains_all_workers_of_the_running_phases() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "200ms"]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\nrate = 100\n[[phases]]\nname = 'one'\nduration = '500ms'\n\
         [[phases]]\nname = 'two'\nduration = '60s'\n[[phases]]\nname = 'beside'\n\
         start = 'with'\nduration = '60s'\n[[phases]]\nname = 'late'\nstart = 'with'\n\
         delay = '1h'\n[[phases]]\nname = 'last'\n",
        server.url("/")
    ));
    let mut client = Running::start(&["run", &path, "--hosts", "2", "--json"]);
    client.reported("prony: two: 2 s, ");
    thread::sleep(Duration::from_millis(500));
    let workers = children(client.pid());
    assert_eq!(workers.len(), 6, "two of each phase");
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    wait_until("no worker is left", || !workers.iter().any(|&pid| is_alive(pid)));
    let document = document(&ended.stdout);
    assert_eq!(document["interrupted"], true);
    let reports = reports(&document);
    let [one, two, beside] = &reports[..] else { panic!("{document}") };
    for report in [one, two, beside] {
        report.check_sums();
        assert_eq!((report.count("unfinished"), report.count("failed")), (0, 0));
    }
    assert_eq!(one.count("replies"), 50);
    // A client that was too busy says so first.
    assert!(["INTERRUPTED", "CLIENT-LIMITED"].contains(&two.verdict()), "{document}");
    assert!(two.count("replies") > 100 && beside.count("replies") > 100);
    assert_eq!(served(&server.stop(), "replies"), replies(&reports));
    for phase in ["late", "last"] {
        let phases = document["phases"].as_array().expect("phases").iter();
        let phase = phases.clone().find(|one| one["name"] == phase).expect("it");
        assert_eq!(phase["not_started"], "the user stopped the plan before");
    }
}

#[test]
fn goals_and_thresholds_decide_on_the_sums_of_all_hosts() {
    let _waiting = waiting();
    let server = Serve::start(&["--status", "200:50,503:50"]);
    let (_folder, path) = plan(&format!(
        "url = '{}'\nrate = 500\nduration = '1h'\n[[phases]]\nname = 'bad'\n\
         thresholds = ['errors < 5%, abort after 2s']\n[[phases]]\nname = 'last'\n",
        server.url("/")
    ));
    let ended = prony(&["run", &path, "--hosts", "2", "--json", "--accept-invalid"]);
    assert_eq!(ended.code, 99, "{ended:?}");
    let document = document(&ended.stdout);
    let reports = reports(&document);
    let [bad] = &reports[..] else { panic!("{document}") };
    bad.check_sums();
    let why = &document["phases"][1]["not_started"];
    assert_eq!(why, "phase 'bad' has missed 'errors < 5%, abort after 2s'");
}
