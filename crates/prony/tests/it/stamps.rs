//! `--timestamps`: kernel timestamps with servers of known latency, and with a client that is
//! stopped.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Report, Running, Serve, alone, descriptors, measure, prony, wait_until};

const PARTS: [&str; 6] =
    ["waiting", "to_scheduler", "to_device", "wire_and_peer", "to_user", "transfer"];

/// The phases of the report.
struct Phases(Value);

impl Phases {
    fn of(report: &Report) -> Self {
        let phases = &report.0["measurement"]["phases"];
        assert!(phases.is_object(), "{}", report.0["measurement"]);
        Self(phases.clone())
    }

    fn number(&self, name: &str) -> u64 {
        self.0[name].as_u64().expect("a count")
    }

    /// In milliseconds.
    fn mean(&self, part: &str) -> f64 {
        self.0["times"][part]["mean_ns"].as_f64().expect("a mean") / 1e6
    }

    fn least(&self, part: &str) -> f64 {
        self.0["times"][part]["min_ns"].as_f64().expect("a time") / 1e6
    }

    /// Checks that nearly all requests have timestamps, and that parts and shares add up.
    fn assert_adds_up(&self, replies: u64, what: &str) {
        let (stamped, unstamped) = (self.number("stamped"), self.number("unstamped"));
        assert_eq!(stamped + unstamped, replies, "{what}");
        assert!(unstamped * 50 <= replies, "{what}: {unstamped} of {replies} without");
        let (sum, whole): (f64, f64) =
            (PARTS.map(|p| self.mean(p)).iter().sum(), self.mean("whole"));
        assert!((sum - whole).abs() <= 0.01 * whole, "{what}: {sum} {whole}");
        let shares = PARTS.map(|p| self.0["shares"][p].as_f64().expect("a share"));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() <= 0.01, "{what}: {shares:?}");
        assert!(self.number("clock_error_ns") > 0, "{what}: no clock is known that well");
        assert!(self.number("clock_error_ns") < 1_000_000, "{what}");
    }
}

/// Over HTTP with every transport: the parts add up, and no reply is faster than the server's
/// latency.
#[test]
fn p09_splits_http_requests_into_parts_that_add_up() {
    let latency = ["--latency", "fixed:3ms"];
    let v4 = Serve::start(&latency);
    let v6 = Serve::at("[::1]:0", &latency);
    let tls = Serve::start(&[&latency[..], &["--tls"]].concat());
    for (server, args) in [
        (&v4, &["-c", "2", "-n", "200"][..]),
        (&v4, &["-c", "2", "-n", "200", "--pipeline", "4"]),
        (&v4, &["-c", "2", "-n", "100", "--no-reuse"]),
        (&v4, &["--rate", "300", "-d", "500ms", "--precision", "sleep"]),
        (&v4, &["--rate", "300", "-d", "500ms", "--arrivals", "poisson", "-c", "2", "-t", "2"]),
        (&v6, &["-c", "2", "-n", "200"]),
        (&v6, &["-c", "2", "-n", "200", "--pipeline", "4"]),
        (&tls, &["-k", "-c", "2", "-n", "200"]),
        (&tls, &["-k", "-c", "2", "-n", "200", "--pipeline", "4"]),
        (&tls, &["-k", "-c", "2", "-n", "100", "--no-reuse"]),
        (&tls, &["-k", "--tls", "1.2", "--rate", "300", "-d", "500ms"]),
        (&v4, &["--h2c", "-c", "2", "-n", "200", "--streams", "4"]),
        (&v4, &["--h2c", "--rate", "300", "-d", "500ms", "-c", "2"]),
        (&tls, &["--http2", "-k", "-c", "2", "-n", "200", "--streams", "4"]),
    ] {
        let url = server.url("/bytes/2000");
        let report = measure(&[args, &["--timestamps", &url]].concat());
        is_split(&report, 3.0, &format!("{url} {args:?}"));
        let is_h2 = args.iter().any(|arg| ["--h2c", "--http2"].contains(arg));
        let http2 = &report.0["measurement"]["tally"]["http2"]["connections"];
        assert_eq!(http2.as_u64().is_some_and(|n| n > 0), is_h2, "{url} {args:?}");
    }
}

/// Check that the parts add up, and that the target's part has this length at least, in ms.
fn is_split(report: &Report, least: f64, what: &str) {
    assert_eq!(report.0["run"]["driver"], "epoll", "{what}");
    let phases = Phases::of(report);
    phases.assert_adds_up(report.count("replies"), what);
    assert!(phases.least("wire_and_peer") >= least, "{what}: {}", phases.0);
}

/// Requests of sessions have timestamps: in closed and open loops, single and in bursts.
#[test]
fn p09_splits_session_requests_into_parts_that_add_up() {
    let server = Serve::start(&["--latency", "fixed:3ms"]);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    for load in ["rate = 100", "users = 3"] {
        let text = format!(
            "url = \"{}\"\n{load}\nsessions = 40\nsession-connections = 2\n[[session]]\n\
             request = [\"/\", [\"/a\", \"/b\", \"/c\"], {{ path = \"/d\", think = \"2ms\" }}]\n",
            server.url("/")
        );
        fs::write(&file, text).expect("a plan");
        let report = measure(&["run", file.to_str().expect("UTF-8"), "--timestamps"]);
        assert_eq!(report.count("replies"), 200, "{load}");
        is_split(&report, 3.0, load);
    }
}

/// The time that a server takes is in the part of the server, in each exchange. (That nothing of it
/// is in the other parts is shown in virtual time.)
#[test]
fn p09_attributes_a_slow_server_to_the_server() {
    let server = Serve::start(&["--latency", "fixed:21ms"]);
    let url = server.url("/");
    let report = measure(&["-c", "2", "-n", "100", "--timestamps", &url]);
    is_split(&report, 21.0, "a slow server");
    let phases = Phases::of(&report);
    assert!(phases.mean("whole") >= phases.mean("wire_and_peer"), "{}", phases.0);
}

/// A client that is stopped repeatedly waits and reads late: by as much as it was stopped.
#[test]
fn p09_attributes_a_busy_client_to_the_client() {
    const RATE: f64 = 400.0;
    let _alone = alone();
    let server = Serve::start(&["--latency", "fixed:2ms"]);
    let url = server.url("/");
    let idle = server.descriptors_when_idle();
    let args = ["--rate", "400", "-d", "1h", "--timestamps", "--json", "--quiet"];
    let args = [&args[..], &["--accept-invalid", "--precision", "sleep", &url]].concat();
    let running = Running::start(&args);
    wait_until("a connection", || descriptors(server.pid()).is_some_and(|n| n > idle));
    thread::sleep(Duration::from_millis(100));
    // Arrivals that are due while it is stopped wait for the rest of the stop.
    let mut least = 0.0;
    for _ in 0..10 {
        running.signal(Signal::STOP);
        let begun = Instant::now();
        thread::sleep(Duration::from_millis(50));
        let stopped = begun.elapsed().as_secs_f64();
        running.signal(Signal::CONT);
        least += RATE * stopped * stopped / 2.0;
        thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended:?}");
    let report = ended.report();
    let busy = Phases::of(&report);
    busy.assert_adds_up(report.count("replies"), "stopped");
    // The first and the last arrival of a stop may be outside of it, and it takes the kernel a
    // moment to stop the process.
    let lost = busy.mean("waiting") / 1e3 * busy.number("stamped") as f64;
    assert!(lost > 0.8 * least, "{lost} s of waiting, and {least} s by the stops: {}", busy.0);
    assert!(busy.least("wire_and_peer") >= 2.0, "{}", busy.0);
}

#[test]
fn rejects_transports_without_timestamps_and_uses_epoll() {
    let server = Serve::start(&[]);
    let url = server.url("/");
    for (args, said) in [
        (&["rtt", "unix:/tmp/none", "--timestamps"][..], "over a unix socket; remove"),
        (&["--unix-socket", "/tmp/none", "--timestamps", &url], "over a unix socket; remove"),
        (&["spectrum", "127.0.0.1:9", "--timestamps"], "`prony rtt --timestamps` shows the parts"),
        (&["--simulate", "1", "--timestamps", &url], "--simulate"),
    ] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
    let report = measure(&["-c", "1", "-n", "5", "--driver", "uring", "--timestamps", &url]);
    assert_eq!(report.0["run"]["driver"], "epoll");
    let notes = report.0["run"]["notes"].to_string();
    assert!(notes.contains("the epoll driver was used instead"), "{notes}");
}
