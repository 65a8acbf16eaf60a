//! Unreachable rates with little memory: the run ends in time, and its report counts every arrival.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::rig::{self, Report, Running, Serve};

/// The memory limit of a run, in KiB.
const MEMORY: &str = "524288";

/// Starts prony with limited memory and `--json`.
fn start(args: &[&str]) -> Running {
    let shell = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &shell, env!("CARGO_BIN_EXE_prony")]).args(args);
    command.args(["--json", "--quiet", "--no-tui"]).stdin(Stdio::null());
    Running::of(command, args)
}

/// Checks that the report counts all due arrivals, and that the client is the limit.
fn check(report: &Report, due: f64, what: &str) {
    report.check_sums();
    assert_eq!(report.verdict(), "CLIENT-LIMITED", "{what}");
    let started = report.count("started") as f64;
    assert!((started / due - 1.0).abs() < 0.02, "{what}: {started} of {due}");
    assert!(report.errors("dropped") > 0, "{what}: nothing was dropped");
}

/// All arrival processes, with the number of arrivals in one second.
fn models(trace: &str, sessions: &str) -> Vec<(Vec<String>, f64)> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let trace = format!("--arrivals trace:{trace} -d 1s");
    let sessions = format!("--session {sessions} -r 100m/s -d 1s");
    vec![
        (words("-r 1m -d 1s"), 1e6),
        (words("-r 1g/s -d 1s"), 1e9),
        (words("-r 1g/s -n 1000m"), 1e9),
        (words("-r 10m..190m/s@1s"), 1e8),
        (words("-r 1g/s --arrivals poisson -d 1s"), 1e9),
        (words("--arrivals uniform:0:2ns -d 1s"), 1e9),
        (words(&trace), 2e6),
        (words(&sessions), 1e8),
    ]
}

#[test]
fn unreachable_rates_end_in_time_with_a_report() {
    let _alone = rig::alone();
    let folder = tempfile::tempdir().unwrap();
    let (trace, session) = (folder.path().join("trace"), folder.path().join("session"));
    let mut times = String::new();
    for i in 0..2_000_000 {
        writeln!(times, "{:.7}", f64::from(i) / 2e6).unwrap();
    }
    std::fs::write(&trace, times).unwrap();
    std::fs::write(&session, "/\n").unwrap();
    let server = Serve::start(&[]);
    let url = server.url("/");
    rig::side_by_side(rig::drivers(), |driver| {
        for (load, due) in models(trace.to_str().unwrap(), session.to_str().unwrap()) {
            let mut args: Vec<&str> = load.iter().map(String::as_str).collect();
            args.extend(["--driver", driver, &url]);
            // A run that makes each of 1,000,000,000 arrivals would reach the limit of the rig.
            let ended = start(&args).wait();
            let what = format!("{args:?}");
            assert_eq!(ended.code, 98, "{what}: {ended:?}");
            check(&ended.report(), due, &what);
        }
    });
}

#[test]
fn overloaded_clients_react_to_signals() {
    let _alone = rig::alone();
    let server = Serve::start(&[]);
    let url = server.url("/");
    rig::side_by_side(rig::drivers(), |driver| {
        for (rate, signal) in [("1m", Signal::INT), ("30m/s", Signal::TERM), ("1g/s", Signal::TERM)]
        {
            let args = ["-r", rate, "-d", "1h", "--driver", driver, &url];
            let run = start(&args);
            rig::wait_until("its connections", || rig::sockets(run.pid()) > 0);
            thread::sleep(Duration::from_millis(1_500));
            run.signal(signal);
            let ended = run.wait();
            let what = format!("{args:?}, {signal:?}");
            let report = ended.report();
            report.check_sums();
            assert_eq!(report.verdict(), "CLIENT-LIMITED", "{what}");
            assert!(report.errors("dropped") > 0, "{what}: nothing was dropped");
        }
    });
}
