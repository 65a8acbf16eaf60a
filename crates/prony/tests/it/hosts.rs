//! One load on several hosts: shards by hand, and worker processes under a driver. The server's
//! counters are the truth.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prony_base::units::Span;
use prony_hosts::driver::{self, Job, OnLoss, Watchers};
use prony_hosts::local::Local;
use prony_hosts::protocol::{self, Order, PROTOCOL, PlanOrder, Reply};
use prony_io::{Control, Live};
use prony_plan::plan::Shard;
use prony_run::environment::Environment;
use prony_run::plan_file;
use prony_stats::summary::Summary;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::rig::{Report, Running, Serve, command, prony, served, sockets, wait_until, waiting};

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_nanos() as u64
}

/// The live child processes of this process.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let of_each =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let all: String = of_each.collect();
    all.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

pub(super) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("it is alive");
}

pub(super) fn is_alive(pid: u32) -> bool {
    // A zombie has ended.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The hosts of a merged report.
pub(super) fn hosts(report: &Report) -> Vec<Value> {
    report.0["run"]["hosts"]["hosts"].as_array().expect("hosts").clone()
}

#[test]
fn merged_shards_match_the_counters_of_the_server() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let at = format!("{:.3}", unix_ns() as f64 / 1e9 + 3.0);
    let url = server.url("/");
    let shards: Vec<Running> = (1..=3)
        .map(|i| {
            let (shard, part) = (format!("{i}/3"), file(&format!("part{i}.json")));
            let words = ["-r", "300", "-d", "2s", "-t", "2", "--quiet", "--accept-invalid"];
            let more = ["--shard", &shard, "--start-at", &at, "-o", &part, &url];
            Running::start(&[&words[..], &more].concat())
        })
        .collect();
    for shard in shards {
        let ended = shard.wait();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.contains("/3 of the plan, on "), "{}", ended.stdout);
    }
    let parts: Vec<String> = (1..=3).map(|i| file(&format!("part{i}.json"))).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let merged = prony(&[&["merge", "--json", "--accept-invalid"], &parts[..]].concat());
    assert_eq!(merged.code, 0, "{merged:?}");
    let report = merged.report();
    report.check_sums();
    // 300 per second for 2 s, from all hosts together.
    assert_eq!((report.count("started"), report.count("replies")), (600, 600));
    assert_eq!(served(&server.stop(), "replies"), 600);
    for host in hosts(&report) {
        assert_eq!((&host["replies"], &host["workers"]), (&200.into(), &2.into()), "{host}");
        assert!(host["start_late"].as_u64().expect("an agreed start") < 3_000_000_000, "{host}");
    }
    let missing = prony(&["merge", parts[0], parts[2]]);
    assert_eq!(missing.code, 2);
    assert_eq!(
        missing.stderr,
        "prony: 1 of 3 shards is missing: 2/3; add the reports, or merge without them by --partial\n"
    );
    let partial = prony(&["merge", "--partial", parts[0], parts[2]]);
    assert_eq!(partial.code, 98, "{partial:?}");
    assert!(partial.stdout.contains("2 of 3 hosts, 66.7 % of the planned load offered"));
    let again = prony(&["merge", parts[0], parts[0], parts[1]]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains(" are both shard 1/3: "), "{}", again.stderr);
}

#[test]
fn starts_in_the_past_and_wrong_shards_are_refused() {
    let url = "http://127.0.0.1:9/";
    for (words, why) in [
        (&["--start-at", "2001-01-01T00:00:00Z"][..], "--start-at: that instant passed "),
        (&["--start-at", "soon"], "write an instant such as 2026-"),
        (&["--shard", "0/8"], "shards are counted from 1: 1/8 to 8/8"),
        (&["--shard", "9/8"], "there are only 8 shards: 1/8 to 8/8"),
        (&["--shard", "1/9", "-c", "4"], "can be split into at most 4: "),
        (&["--hosts", "5", "-c", "4"], "can be split into at most 4: "),
        (&["--hosts", "2", "--shard", "1/2"], "--shard"),
        (&["--on-loss", "stop"], "--hosts"),
        (&["--hosts", "2", "--cluster", "h:1"], "--cluster needs --engine ray"),
        (&["--hosts", "2", "--insecure-cluster"], "--insecure-cluster needs --engine ray"),
        (&["--cluster", "h:1"], "--hosts"),
    ] {
        let ended = prony(&[words, &[url]].concat());
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{words:?}");
    }
}

#[test]
fn worker_processes_make_one_run() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let url = server.url("/");
    let words = ["-r", "400", "-d", "3s", "--hosts", "4", "--json", "--accept-invalid", &url];
    let ended = prony(&words);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("started"), report.count("replies")), (1_200, 1_200));
    assert_eq!(served(&server.stop(), "replies"), 1_200);
    let hosts = hosts(&report);
    assert_eq!(hosts.len(), 4);
    for host in hosts {
        assert_eq!(host["replies"], 300, "{host}");
        // All have the same clock, so the offset is within its bound.
        let (offset, bound) = (&host["clock"]["offset_ns"], &host["clock"]["bound"]);
        let (offset, bound) = (offset.as_i64().expect("known"), bound.as_i64().expect("known"));
        assert!(offset.abs() <= bound, "{host}");
        assert!(host["clock"]["drift_ns"].is_i64() && host["start_late"].is_u64(), "{host}");
    }
    assert!(ended.stderr.contains("4 of 4 hosts, "), "{}", ended.stderr);
}

#[test]
fn a_worker_that_refuses_starts_nothing() {
    let ended = prony(&["--hosts", "2", "-c", "4", "http://no-such-host.invalid/"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("does not resolve"), "{}", ended.stderr);
}

#[test]
fn an_engine_that_cannot_start_is_refused() {
    let words = ["--hosts", "2", "--engine", "ray", "http://127.0.0.1:9/"];
    let mut client = command(&words);
    let client = client.env("PRONY_PYTHON", "/nowhere/python3").output().expect("it starts");
    assert_eq!(client.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&client.stderr);
    let sentence = "prony: engine ray: /nowhere/python3 cannot be started: ";
    assert!(stderr.starts_with(sentence) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn a_job_for_kubernetes_carries_its_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = |text: &str| {
        let file = folder.path().join("plan.toml");
        fs::write(&file, text).expect("it can be written");
        file.to_str().expect("text").to_owned()
    };
    let job = |plan: &str, more: &[&str]| {
        prony(&[&["ray-job", plan, "--hosts", "3", "--image", "prony:1"], more].concat())
    };
    let good = plan("url = 'http://shop/'\nrate = 100\n\nduration = '2s'\n");
    let made = job(&good, &["--name", "shop"]);
    assert_eq!(made.code, 0, "{made:?}");
    for part in ["    rate = 100\n\n    duration = '2s'\n", "replicas: 3", "--hosts 3", "prony:1"] {
        assert!(made.stdout.contains(part), "{part}: {}", made.stdout);
    }
    let phases = plan("url = 'http://shop/'\n[[phases]]\nname = 'a'\n[[phases]]\nname = 'b'\n");
    assert!(job(&phases, &[]).stdout.contains("    [[phases]]\n    name = 'b'\n"));
    for (text, more, why) in [
        ("url = 'http://shop/'\nraet = 1\n", &[][..], "plan.toml:2:1: "),
        ("url = 'http://shop/'\nbody-file = 'x'\nmethod = 'PUT'\n", &[], "plan.toml:2"),
        ("url = 'http://shop/'\n", &["--name", "Shop"], "--name"),
        ("url = 'http://shop/'\n", &["--cpus", "0"], "--cpus"),
    ] {
        let ended = job(&plan(text), more);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{text}: {ended:?}");
        assert!(ended.stderr.contains(why), "{text}: {}", ended.stderr);
    }
}

/// A run of three workers, one of which gets a signal after some seconds.
fn hurt(how: Signal, words: &[&str]) -> (i32, Report, String) {
    let server = Serve::start(&[]);
    let (url, before) = (server.url("/"), sockets(server.pid()));
    let common = ["-r", "300", "--hosts", "3", "--json", "--no-progress", &url];
    let client = Running::start(&[&common, words].concat());
    let driver = client.pid();
    wait_until("three workers", || children(driver).len() == 3);
    // All of them start at the same moment, which the driver chooses when all are there.
    wait_until("their start", || sockets(server.pid()) > before);
    thread::sleep(Duration::from_secs(4));
    let workers = children(driver);
    signal(workers[1], how);
    let ended = client.wait();
    wait_until("no worker is left", || !workers.iter().any(|&pid| is_alive(pid)));
    let report = ended.report();
    report.check_sums();
    let seen = served(&server.stop(), "replies");
    assert!(report.count("replies") <= seen, "more replies than the server has sent");
    assert_eq!(
        report.0["verdict"]["reasons"]
            .as_array()
            .map(|all| { all.iter().filter(|reason| reason["kind"] == "partial").count() }),
        Some(1)
    );
    (ended.code, report, ended.stderr)
}

#[test]
fn a_killed_worker_is_named_and_its_share_is_not_moved() {
    let _waiting = waiting();
    let (code, report, stderr) = hurt(Signal::KILL, &["-d", "14s"]);
    assert_eq!(code, 98);
    assert!(stderr.contains(" was lost after "), "{stderr}");
    assert!(stderr.contains("its process was killed by signal 9"), "{stderr}");
    let hosts = hosts(&report);
    assert_eq!(hosts.len(), 3);
    let lost: Vec<&Value> = hosts.iter().filter(|host| host["lost"].is_object()).collect();
    let [lost] = lost[..] else { panic!("one is lost: {hosts:?}") };
    let offered = lost["lost"]["offered"].as_f64().expect("a share");
    assert!(offered > 0.05 && offered < 0.95, "{lost}");
    // Its reported seconds are kept, and the others have sent only their own shares.
    assert!(lost["replies"].as_u64().expect("a count") >= 100, "{lost}");
    for host in hosts.iter().filter(|host| !host["lost"].is_object()) {
        assert_eq!(host["replies"], 1_400, "{host}");
    }
    // 300 per second were planned; after the loss, two of three shares were offered.
    let rows = report.0["measurement"]["offered"].as_array().expect("rows").clone();
    let rows: Vec<(f64, u64)> = rows
        .iter()
        .map(|row| (row["planned"].as_f64().expect("a number"), row["offered"].as_u64().expect("")))
        .collect();
    assert_eq!(rows.len(), 14, "{rows:?}");
    assert!(rows.iter().all(|(planned, _)| (planned - 300.0).abs() < 1e-6), "{rows:?}");
    assert_eq!((rows[0].1, rows[12].1, rows[13].1), (300, 200, 200), "{rows:?}");
    let all: u64 = rows.iter().map(|&(_, offered)| offered).sum();
    assert_eq!(all, report.count("started"));
}

#[test]
fn a_silent_worker_is_lost_and_can_stop_the_run() {
    let _waiting = waiting();
    // It has no other end within the limit of the rig.
    let (code, report, stderr) = hurt(Signal::STOP, &["--on-loss", "stop", "-d", "1h"]);
    assert_eq!(code, 98, "{stderr}");
    assert!(stderr.contains("it was silent for "), "{stderr}");
    let lost = hosts(&report).iter().filter(|host| host["lost"].is_object()).count();
    assert_eq!((hosts(&report).len(), lost), (3, 1));
}

#[test]
fn workers_end_with_their_driver() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let url = server.url("/");
    let mut client = command(&["-r", "200", "-d", "1h", "--hosts", "3", "--quiet", &url]);
    let mut client = client.spawn().expect("the binary starts");
    let driver = client.id();
    wait_until("three workers", || children(driver).len() == 3);
    thread::sleep(Duration::from_secs(2));
    let workers = children(driver);
    client.kill().expect("it is alive");
    client.wait().expect("it has ended");
    let is_left = || workers.iter().filter(|&&pid| is_alive(pid)).count();
    wait_until("no orphan is left", || is_left() == 0);
}

#[test]
fn an_interruption_drains_all_workers() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "200ms"]);
    let (url, before) = (server.url("/"), sockets(server.pid()));
    let words = ["-r", "200", "-d", "1h", "--drain", "1h", "--hosts", "2", "--json", "--quiet"];
    let words = [&words[..], &[&url]].concat();
    let client = Running::start(&words);
    let driver = client.pid();
    wait_until("two workers", || children(driver).len() == 2);
    wait_until("connections of both", || sockets(server.pid()) >= before + 2);
    thread::sleep(Duration::from_secs(2));
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("unfinished"), report.count("failed")), (0, 0));
    assert!(report.count("replies") > 0, "{ended:?}");
    assert_eq!(served(&server.stop(), "replies"), report.count("replies"));
}

#[test]
fn a_second_interruption_stops_all_workers_at_once() {
    let _waiting = waiting();
    let server = Serve::start(&["--latency", "1h"]);
    let (url, before) = (server.url("/"), sockets(server.pid()));
    let words = ["-r", "100", "-d", "1h", "--drain", "1h", "--timeout", "1h", "--hosts", "2"];
    let client = Running::start(&[&words[..], &["--json", "--quiet", &url]].concat());
    let driver = client.pid();
    wait_until("two workers", || children(driver).len() == 2);
    let workers = children(driver);
    wait_until("connections of both", || sockets(server.pid()) >= before + 2);
    thread::sleep(Duration::from_secs(2));
    client.signal(Signal::INT);
    thread::sleep(Duration::from_secs(1));
    // It waits for replies that take an hour.
    assert!(workers.iter().all(|&pid| is_alive(pid)) && is_alive(driver));
    client.signal(Signal::INT);
    let ended = client.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    report.check_sums();
    assert_eq!((report.count("replies"), report.count("failed")), (0, 0));
    // Both workers had started requests, which are reported.
    let unfinished = report.count("unfinished");
    assert!(unfinished > 0, "{ended:?}");
    assert_eq!(unfinished, report.count("started"));
    let lost = hosts(&report).iter().filter(|host| host["lost"].is_object()).count();
    assert_eq!((hosts(&report).len(), lost), (2, 0));
    wait_until("no worker is left", || !workers.iter().any(|&pid| is_alive(pid)));
}

/// Neither worker alone can end the run: the driver does, by the figures of both.
#[test]
fn goals_and_thresholds_end_the_whole_run() {
    let _waiting = waiting();
    let server = Serve::start(&["--status", "200:50,503:50", "--latency", "exp:100ms"]);
    let url = server.url("/");
    let load = ["--hosts", "2", "-r", "500", "-d", "1h", "--accept-invalid", "--quiet", "--json"];
    let run = |words: &[&str]| {
        let start = Instant::now();
        let ended = prony(&[&load[..], words, &[&url]].concat());
        (ended, start.elapsed().as_secs_f64())
    };
    let (ended, took) = run(&["--threshold", "errors < 5%, abort after 3s"]);
    assert_eq!(ended.code, 99, "{ended:?}");
    assert!(took >= 3.0, "{took} s: {ended:?}");
    let notes = ended.report().0["run"]["notes"].to_string();
    assert!(notes.contains("'errors < 5%, abort after 3s' was missed beyond doubt"), "{notes}");

    let (ended, _) = run(&["--until", "p50 +- 20%"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.report();
    assert_eq!(report.0["run"]["until"]["reached"], true, "{}", report.0["run"]["until"]);
    assert_eq!(report.0["run"]["interrupted"], false);
    report.check_sums();
}

/// The plan of a load with this number of requests per second, for one second.
fn plan(url: &str, rate: u32) -> prony_plan::plan::Plan {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text = format!("url = '{url}'\nrate = {rate}\nduration = '2s'\nconnections = 20\n");
    fs::write(&file, text).expect("it can be written");
    let around = Environment {
        connections_max: 100,
        connections_why: String::new(),
        seed: 1,
        simulated: false,
    };
    plan_file::open(&file, &around).expect("a plan").plan
}

/// A run with workers that a shell starts, so that each can have a different clock.
pub(super) fn with_workers(
    script: &str,
    url: &str,
    hosts: u32,
) -> (Result<Summary, String>, Vec<String>) {
    watched(script, url, hosts, &mut |_| {})
}

/// The same with an observer of the live figures.
fn watched(
    script: &str,
    url: &str,
    hosts: u32,
    live: &mut dyn FnMut(&Live),
) -> (Result<Summary, String>, Vec<String>) {
    let script = script.replace("PRONY", env!("CARGO_BIN_EXE_prony"));
    let mut engine = Local::new("/bin/sh".into(), vec!["-c".into(), script]);
    let job = Job {
        plan: plan(url, 300),
        hosts,
        on_loss: OnLoss::Continue,
        command: Vec::new().into(),
        notes: Vec::new(),
        blocks: (false, false),
        adjustable_rate: false,
        beside: None,
    };
    let mut said = Vec::new();
    let mut say = |sentence: &str| said.push(sentence.to_owned());
    let watchers = Watchers { say: &mut say, status: &mut |_| {}, live, view: None };
    let result = driver::run(&job, &mut engine, &Control::new(), watchers);
    (result.map_err(|e| e.to_string()), said)
}

#[test]
fn offsets_of_clocks_are_measured_and_corrected() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    // Each worker's offset of -9,000 s to 9,000 s depends on its process number.
    let script = "n=$(( $$ % 7 - 3 )); exec PRONY worker --threads 1 --clock-offset $(( n * 3000000000000 ))";
    let (whole, said) = with_workers(script, &server.url("/"), 3);
    let whole = whole.expect("it was run");
    assert_eq!(said, [""; 0]);
    assert_eq!((whole.main.started, whole.main.replies), (600, 600));
    assert_eq!(served(&server.stop(), "replies"), 600);
    let hosts = whole.run.hosts.as_ref().expect("hosts");
    for host in &hosts.hosts {
        let clock = host.clock.expect("it was measured");
        let (third, bound) = (3_000_000_000_000_i64, clock.bound.0 as i64);
        let off = (clock.offset_ns + third / 2).rem_euclid(third) - third / 2;
        assert!(off.abs() <= bound, "{clock:?} is no multiple of 3,000 s");
        assert!(host.start_late.expect("an agreed start") < Span::from_secs(1_000), "{host:?}");
    }
    // Series are aligned by the agreed start, so no interval is off by an hour.
    assert!(whole.main.window() < Span::from_secs(1_000), "{}", whole.main.window());
}

/// With many workers, the driver can take longer to merge reports than a worker may be silent.
#[test]
fn workers_are_not_silent_while_the_driver_is_busy() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let mut calls = 0;
    let mut live = |_: &Live| {
        calls += 1;
        if calls == 1 {
            thread::sleep(driver::SILENCE + Duration::from_millis(500));
        }
    };
    let script = "exec PRONY worker --threads 1";
    let (whole, said) = watched(script, &server.url("/"), 2, &mut live);
    assert_eq!((said, calls > 0), (vec![], true));
    assert_eq!(whole.expect("it was run").main.replies, 600);
}

#[test]
fn programs_other_than_workers_are_refused() {
    let (refused, _) = with_workers("echo hello; cat > /dev/null", "http://127.0.0.1:9/", 2);
    let why = refused.unwrap_err();
    assert!(why.contains("sent a line that is not a line of protocol 1"), "{why}");
    let (refused, _) = with_workers("exit 5", "http://127.0.0.1:9/", 2);
    let why = refused.unwrap_err();
    assert!(why.ends_with("its process ended with exit code 5; nothing was sent"), "{why}");
}

/// A worker and its output.
struct Worker {
    child: Child,
    replies: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start() -> Self {
        let mut command = command(&["worker", "--threads", "1"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
        let replies = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, replies }
    }

    fn say(&mut self, order: &Order) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(protocol::line(order).as_bytes()).expect("it reads");
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("text");
        protocol::parse(&line).expect("a reply")
    }

    /// Send `hello` and the second half of a plan.
    fn prepared(url: &str) -> Self {
        let mut worker = Self::start();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        worker.say(&Order::Hello { protocol: PROTOCOL, version });
        assert!(matches!(worker.reply(), Reply::Hello { .. }));
        worker.say(&Order::Plan(Box::new(PlanOrder {
            plan: plan(url, 100),
            shard: Shard { index: 1, of: 2 },
            environment: Vec::new(),
            command: Vec::new().into(),
            notes: Vec::new(),
            adjustable_rate: true,
            blocks: false,
            service_blocks: false,
        })));
        assert_eq!(worker.reply(), Reply::Ready);
        worker
    }
}

#[test]
fn a_late_order_starts_nothing() {
    let server = Serve::start(&[]);
    let mut worker = Worker::prepared(&server.url("/"));
    worker.say(&Order::Start { at_unix_ns: unix_ns() - 5_000_000, run_unix_ns: 1 });
    let reply = worker.reply();
    assert!(matches!(reply, Reply::Late { by_ns } if by_ns >= 5_000_000), "{reply:?}");
    drop(worker.child.stdin.take());
    assert!(worker.child.wait().expect("it ends").success());
    assert_eq!(served(&server.stop(), "replies"), 0);
}

#[test]
fn a_worker_ticks_changes_its_rate_and_ends_with_its_input() {
    let _waiting = waiting();
    let server = Serve::start(&[]);
    let mut worker = Worker::prepared(&server.url("/"));
    let at = unix_ns() + 500_000_000;
    worker.say(&Order::Start { at_unix_ns: at, run_unix_ns: at });
    assert_eq!(worker.reply(), Reply::Armed { at_unix_ns: at });
    // A pause for the second of the two seconds.
    worker.say(&Order::Rate { factor: 0.0, from_ns: 1_000_000_000 });
    let (mut ticks, mut intervals) = (0, 0);
    let report = loop {
        match worker.reply() {
            Reply::Tick(tick) => {
                ticks += 1;
                intervals += u64::from(tick.interval.is_some());
            }
            Reply::Final { report } => break report,
            other => panic!("{other:?}"),
        }
    };
    assert!(ticks >= 1 && intervals >= 1, "{ticks} ticks, {intervals} intervals");
    let main = &report["measurement"]["tally"];
    assert_eq!(main["started"], 50, "half of 100 a second for one second");
    assert_eq!(report["plan"]["shard"]["of"], 2);
    // It also replies to pings after the load.
    worker.say(&Order::Ping { id: 9 });
    assert!(matches!(worker.reply(), Reply::Pong { id: 9, .. }));
    drop(worker.child.stdin.take());
    assert!(worker.child.wait().expect("it ends").success());

    // At the end of its input, it ends at once, even during a load.
    let mut worker = Worker::prepared(&server.url("/"));
    let at = unix_ns() + 200_000_000;
    worker.say(&Order::Start { at_unix_ns: at, run_unix_ns: at });
    assert!(matches!(worker.reply(), Reply::Armed { .. }));
    thread::sleep(Duration::from_millis(600));
    drop(worker.child.stdin.take());
    let pid = worker.child.id();
    assert!(worker.child.wait().expect("it ends").success());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}
