//! Limits: threads, connections, ports, memory, buffers.

use std::process::Command;
use std::time::Duration;

use super::{extras, numbers, ours, run};
use crate::program::{Serve, Which, have};
use crate::reserved::reserved_port;
use crate::server::Server;

/// Two threads share the work, and the sums equal those of one.
#[test]
fn d01_counts_do_not_depend_on_threads() {
    let count = |threads: &str| {
        let server = Server::start();
        let args = ["--num-conns=200", "--num-calls=3", "--rate=2000", "--output=r.json"];
        let run = run(server.port, &[&args[..], &["--threads", threads]].concat());
        let ended = run.run(Which::Ours);
        let names = ["connections", "requests", "replies", "req_size", "reply_size", "errors"];
        let seen = server.seen();
        assert_eq!((seen.len(), server.requests()), (200, 600));
        let json: serde_json::Value =
            serde_json::from_slice(&run.read("r.json")).expect("a report in JSON");
        (numbers(&ended, names), json["workers"].as_array().map(Vec::len))
    };
    let (one, two) = (count("1"), count("2"));
    assert_eq!(one.0, [200.0, 600.0, 600.0, 62.0, 62.0, 0.0]);
    assert_eq!(one.0, two.0);
    assert_eq!((one.1, two.1), (Some(1), Some(2)));
}

#[test]
fn d02_opens_more_than_1024_connections() {
    let server = Serve::start(&["--latency", "3s"]);
    let args = ["--num-conns=1200", "--rate=4000", "--hog", "--timeout=30"];
    let ended = run(server.port, &args).run(Which::Ours);
    let [concurrent, replies, descriptors] =
        numbers(&ended, ["concurrent", "replies", "fd_unavail"]);
    assert!(concurrent > 1_100.0, "{ended:?}");
    assert_eq!((replies, descriptors), (1_200.0, 0.0));
    assert!(!ended.stderr.contains("FD_SETSIZE"), "{ended:?}");
}

/// The original takes 2 ms for each burst of a session. Here the next burst is sent when the last
/// reply arrives: in virtual time, where nothing else takes time, sessions of bursts last exactly
/// their round trips (`sequential_sessions_take_only_their_round_trips`).
#[test]
fn d03_bursts_do_not_wait_for_a_timer() {
    let server = Serve::start(&[]);
    let args = ["--wsess=1,10000,0", "--burst-length=10"];
    let ended = run(server.port, &args).run(Which::Ours);
    assert_eq!(numbers(&ended, ["replies", "errors"]), [10_000.0, 0.0], "{ended:?}");
}

/// The original uses ports from 1023 upward, and skips every other group of 32.
#[test]
fn d04_uses_all_ports_from_1024_upward() {
    let server = Server::start();
    let ended = ours(&server, &["--hog", "--num-conns=300", "--rate=3000"]);
    assert_eq!(numbers(&ended, ["replies", "errors"]), [300.0, 0.0], "{ended:?}");
    let ports: Vec<u16> = server.seen().iter().map(|s| s.port).collect();
    assert!(ports.iter().all(|&p| p >= 1024), "{ports:?}");
    assert!(ports.iter().any(|p| p % 64 < 32) && ports.iter().any(|p| p % 64 >= 32), "{ports:?}");
}

#[test]
fn d36_memory_does_not_grow_with_the_run() {
    let server = Serve::start(&[]);
    let memory = |args: &[&str], replies: f64| {
        let ended = run(server.port, args).run(Which::Ours);
        assert_eq!(numbers(&ended, ["replies"]), [replies], "{ended:?}");
        ended.memory_kb
    };
    let few = memory(&["--wsess=200,10,0", "--burst-length=5"], 2e3);
    let many = memory(&["--wsess=5000,10,0", "--burst-length=5"], 5e4);
    assert!(few > 0 && many < few + 2_500, "{few} kB for 200 sessions, {many} kB for 5,000");
}

#[test]
fn d37_refused_connections_do_not_recurse() {
    let server = Server::start();
    let dead = format!("--port={}", reserved_port());
    let ended = ours(&server, &[&dead, "--num-conns=100000"]);
    assert_eq!(numbers(&ended, ["connrefused"]), [100_000.0], "{ended:?}");
}

#[test]
fn d38_waiting_uses_no_cpu() {
    let server = Server::start();
    let ended = ours(&server, &["--num-conns=10", "--rate=10"]);
    let [cpu] = numbers(&ended, ["cpu_percent"]);
    // Time in which others have the processor is not its own.
    assert!(cpu < 40.0, "{cpu} % of a core for 10 requests/s");
}

#[test]
fn d18_percentiles_follow_the_classic_report() {
    let server = Server::start();
    let args = ["--uri=/delay20", "--num-conns=40", "--rate=100"];
    let ended = ours(&server, &args);
    let text = extras(&ended);
    assert!(text.contains(" p50 ") && text.contains(" p75 "), "{ended:?}");
    let without = ours(&server, &[&args[..], &["--no-extras"]].concat());
    assert_eq!(without.report().after, [""; 0]);
}

/// The kernel's buffers, which grow, are used unless others are requested; the echo is unchanged.
#[test]
fn d39_buffers_are_limited_only_on_request() {
    if !have("ss") {
        return;
    }
    let server = Server::start();
    let small = ["--recv-buffer=8192", "--send-buffer=4096"];
    for (args, receive, send) in
        [(&[][..], 65_536..u64::MAX, 8_193..u64::MAX), (&small, 16_384..16_385, 8_192..8_193)]
    {
        let run = run(server.port, &[args, &["--uri=/hang", "--timeout=20"]].concat());
        let running = run.spawn(Which::Ours);
        let begun = std::time::Instant::now();
        let sizes = loop {
            if let Some(sizes) = buffers(server.port) {
                break sizes;
            }
            assert!(begun.elapsed() < Duration::from_secs(15), "no connection is seen");
        };
        drop(running);
        assert!(receive.contains(&sizes[0]) && send.contains(&sizes[1]), "{args:?}: {sizes:?}");
    }
    let ended = ours(&server, &[]);
    assert!(ended.stdout.contains("--send-buffer=4096 --recv-buffer=16384"), "{ended:?}");
}

/// The receive and send buffers of a connection to this port.
fn buffers(port: u16) -> Option<[u64; 2]> {
    let filter = format!("dport = :{port}");
    let out = Command::new("ss").args(["-tmnH", "state", "established", &filter]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let memory = text.split_once("skmem:(")?.1.split_once(')')?.0.to_owned();
    let size = |name: &str| memory.split(',').find_map(|f| f.strip_prefix(name)?.parse().ok());
    Some([size("rb")?, size("tb")?])
}
