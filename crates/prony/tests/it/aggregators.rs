//! The contract of engines (`hosts.rs`) with a tree: aggregators, each with two workers.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{children, hosts, is_alive, signal};
use crate::rig::{Report, Running, Serve, command, prony, served, sockets, wait_until, waiting};

const GROUPS: [&str; 4] = ["--hosts", "5", "--hosts-per-aggregator", "2"];

/// The processes of a running driver: its three aggregators, and their five workers.
fn processes(driver: u32) -> (Vec<u32>, Vec<u32>) {
    let workers = || children(driver).into_iter().flat_map(children).collect::<Vec<u32>>();
    wait_until("three aggregators with five workers", || workers().len() == 5);
    (children(driver), workers())
}

/// A run of five workers, of which `hurt` hurts some after some seconds.
fn hurt(how: impl FnOnce(&[u32], &[u32]), words: &[&str]) -> (i32, Report, String, u64) {
    let server = Serve::start(&[]);
    let (url, before) = (server.url("/"), sockets(server.pid()));
    let common = ["-r", "500", "--json", "--no-progress", &url];
    let client = Running::start(&[&common, &GROUPS[..], words].concat());
    let (aggregators, workers) = processes(client.pid());
    // All of them start at the same moment, which the driver chooses when all are there.
    wait_until("their start", || sockets(server.pid()) > before);
    thread::sleep(Duration::from_secs(4));
    how(&aggregators, &workers);
    let ended = client.wait();
    let all: Vec<u32> = aggregators.into_iter().chain(workers).collect();
    wait_until("no process is left", || !all.iter().any(|&pid| is_alive(pid)));
    let report = ended.report();
    report.check_sums();
    let seen = served(&server.stop(), "replies");
    assert!(report.count("replies") <= seen, "more replies than the server has sent");
    (ended.code, report, ended.stderr, seen)
}

fn is_lost(host: &Value) -> bool {
    host["lost"].is_object()
}

#[test]
fn groups_of_workers_make_one_run() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let url = server.url("/");
    let words = ["-r", "500", "-d", "3s", "--warmup", "1s", "--json", "--accept-invalid", &url];
    let ended = prony(&[&words, &GROUPS[..]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("started"), report.count("replies")), (1_500, 1_500));
    assert_eq!(served(&server.stop(), "replies"), 2_000);
    let hosts = hosts(&report);
    assert_eq!(hosts.len(), 5);
    for host in hosts {
        assert_eq!(host["replies"], 300, "{host}");
        let (offset, bound) = (&host["clock"]["offset_ns"], &host["clock"]["bound"]);
        let (offset, bound) = (offset.as_i64().expect("known"), bound.as_i64().expect("known"));
        assert!(offset.abs() <= bound, "{host}");
        assert!(host["clock"]["drift_ns"].is_i64() && host["start_late"].is_u64(), "{host}");
    }
    assert!(ended.stderr.contains("5 of 5 hosts, "), "{}", ended.stderr);
    let refused = prony(&[&["-c", "5", "http://no-such-host.invalid/"], &GROUPS[..]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("does not resolve"), "{}", refused.stderr);
}

#[test]
fn a_killed_worker_of_a_group_is_named() {
    let _waiting = waiting();
    let (code, report, stderr, _) =
        hurt(|_, workers| signal(workers[2], Signal::KILL), &["-d", "14s"]);
    assert_eq!(code, 98, "{stderr}");
    assert!(stderr.contains("worker 3/5 on ") && stderr.contains("killed by signal 9"), "{stderr}");
    let hosts = hosts(&report);
    let lost: Vec<&Value> = hosts.iter().filter(|host| is_lost(host)).collect();
    let [lost] = lost[..] else { panic!("one is lost: {hosts:?}") };
    let offered = lost["lost"]["offered"].as_f64().expect("a share");
    assert!(offered > 0.05 && offered < 0.95, "{lost}");
    assert!(lost["replies"].as_u64().expect("a count") >= 100, "{lost}");
    for host in hosts.iter().filter(|host| !is_lost(host)) {
        assert_eq!(host["replies"], 1_400, "{host}");
    }
}

#[test]
fn a_silent_worker_of_a_group_can_stop_the_run() {
    let _waiting = waiting();
    // It has no other end within the limit of the rig.
    let stop = ["--on-loss", "stop", "-d", "1h"];
    let (code, report, stderr, _) = hurt(|_, workers| signal(workers[0], Signal::STOP), &stop);
    assert_eq!(code, 98, "{stderr}");
    assert!(stderr.contains("worker 1/5 on ") && stderr.contains("silent for "), "{stderr}");
    assert_eq!(hosts(&report).iter().filter(|host| is_lost(host)).count(), 1);
}

/// What the aggregator had reported is kept: whole seconds of its workers.
#[test]
fn a_lost_aggregator_is_named() {
    let _waiting = waiting();
    for (how, cause) in
        [(Signal::KILL, "its process was killed by signal 9"), (Signal::STOP, "it was silent for ")]
    {
        let (code, report, stderr, _) =
            hurt(|aggregators, _| signal(aggregators[1], how), &["-d", "14s"]);
        assert_eq!(code, 98, "{stderr}");
        let named = "prony: the aggregator of workers 3 to 4 of 5 was lost after ";
        assert!(stderr.starts_with(named) && stderr.contains(cause), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let hosts = hosts(&report);
        let lost: Vec<bool> = hosts.iter().map(is_lost).collect();
        assert_eq!(lost, [false, false, true, true, false], "{hosts:?}");
        let replies: Vec<u64> =
            hosts.iter().map(|host| host["replies"].as_u64().expect("a count")).collect();
        assert_eq!([replies[0], replies[1], replies[4]], [1_400; 3], "{hosts:?}");
        // Those of both of its workers, at 100 per second and worker, and not of the whole run.
        assert!((1..2_800).contains(&replies[2]) && replies[3] == 0, "{replies:?}");
        let cause = hosts[3]["lost"]["cause"].as_str().expect("a cause");
        assert!(cause.starts_with("its aggregator was lost: it"), "{cause}");
        let notes = report.0["run"]["notes"].to_string();
        assert!(notes.contains("workers 3 to 4 of 5 were lost with their aggregator: "), "{notes}");
    }
}

#[test]
fn interruptions_and_deaths_of_the_driver_end_groups() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "200ms"]);
    let (url, before) = (server.url("/"), sockets(server.pid()));
    let words = ["-r", "200", "-d", "1h", "--drain", "1h", "--json", "--quiet", &url];
    let client = Running::start(&[&words, &GROUPS[..]].concat());
    let _ = processes(client.pid());
    wait_until("a connection of each", || sockets(server.pid()) >= before + 5);
    thread::sleep(Duration::from_secs(2));
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("unfinished"), report.count("failed")), (0, 0));
    assert!(report.count("replies") > 0);
    assert_eq!(served(&server.stop(), "replies"), report.count("replies"));

    let server = Serve::start(&[]);
    let url = server.url("/");
    let words = [&["-r", "200", "-d", "1h", "--quiet", &url], &GROUPS[..]].concat();
    let mut client = command(&words).spawn().expect("the binary starts");
    let (aggregators, workers) = processes(client.id());
    thread::sleep(Duration::from_secs(2));
    client.kill().expect("it is alive");
    client.wait().expect("it has ended");
    let all: Vec<u32> = aggregators.into_iter().chain(workers).collect();
    wait_until("no orphan is left", || !all.iter().any(|&pid| is_alive(pid)));
}

/// The driver decides on the merged blocks of the groups.
#[test]
fn goals_and_thresholds_end_a_run_of_groups() {
    let _waiting = waiting();
    let server = Serve::start(&["--status", "200:50,503:50", "--latency", "exp:100ms"]);
    let url = server.url("/");
    let load = ["-r", "500", "-d", "1h", "--accept-invalid", "--quiet", "--json", &url];
    let ended =
        prony(&[&load, &GROUPS[..], &["--threshold", "errors < 5%, abort after 3s"]].concat());
    assert_eq!(ended.code, 99, "{ended:?}");
    let notes = ended.report().0["run"]["notes"].to_string();
    assert!(notes.contains("'errors < 5%, abort after 3s' was missed beyond doubt"), "{notes}");
    let ended = prony(&[&load, &GROUPS[..], &["--until", "p50 +- 20%"]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.0["run"]["until"]["reached"], true, "{}", report.0["run"]["until"]);
    report.check_sums();
}
