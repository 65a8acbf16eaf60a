//! Between two hosts: over a slow link, and over two paths, one of which is cut.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::far::{ACTIVE, Far, GIVEN_UP};
use super::{is_skipped, rtt};
use crate::program;

/// Two links with a round trip of 1 ms. The kernel aborts an association after more than ten
/// consecutive timeouts, including those of heartbeats. With short timeouts on a slow machine this
/// can happen without a broken path, so the limit is raised.
fn two_paths() -> Far {
    Far::new(2, "500us").set("association_max_retrans", 50)
}

/// The first path is cut during the run. With timeouts of 20 ms on both sides, all exchanges
/// complete, and the slowest take a few timeouts.
#[test]
fn a_broken_path_costs_timeouts_but_no_exchanges() {
    if is_skipped() {
        return;
    }
    let far = two_paths();
    let rto = ["--rto-initial", "500", "--rto-min", "20", "--rto-max", "20"];
    let there = ["SOCK_SEQPACK_srv", "-p", "45454", "-a", "10.9.1.2,10.9.2.2"];
    let server = far.server(&[&there[..], &rto].concat());
    let near = ["-H", "10.9.1.2", "-p", "45454", "-i", "10.9.1.1,10.9.2.1", "-s", "7"];
    let count = ["-c", "4000", "-b", "10", "-M", "100000"];
    let ended = thread::scope(|scope| {
        // 4,100 exchanges of at least 1 ms take longer than the other path needs to become active.
        scope.spawn(|| {
            server.wait_for("Test for 4100 iterations");
            far.wait_for_paths();
            far.cut(1);
        });
        program::run("SOCK_SEQPACK_clt", &[&near[..], &count, &rto].concat())
    });
    ended.assert_whole(4000, 128);
    assert!(ended.field("minimum") >= 1000.0, "{ended:?}");
    // The kernel's clock has ticks of up to 10 ms, so a timeout of 20 ms may end after 10 ms.
    assert!(ended.field("maximum") >= 10_000.0, "the cut was not felt: {ended:?}");
}

/// The first path is cut until the kernel gives it up, then restored. All exchanges complete, and
/// the report has the failed path in both texts and in JSON, although it works again at the end.
/// With both drivers, direct and epoll.
#[test]
fn the_report_has_failed_paths() {
    if is_skipped() {
        return;
    }
    // The kernel tries a failed path again after this time.
    let far = two_paths().set("hb_interval", 300);
    // Long enough that six consecutive timeouts mean a failed path, even on a slow machine.
    let rto = ["--rto-initial", "500ms", "--rto-min", "100ms", "--rto-max", "100ms"];
    let short = ("sctp", "auto", "direct", None, ", 1 of 2 paths failed ");
    let whole = ("sctp-seqpacket", "epoll", "epoll", Some("-v"), "; 2 paths; 1 failed; ");
    for (over, asked, driver, verbose, words) in [short, whole] {
        let place = ["10.9.1.2,10.9.2.2:45455", "--transport", over];
        let server = far.server(&[&["echo"], &place[..], &rto].concat());
        let folder = tempfile::TempDir::new().expect("a folder");
        let json = folder.path().join("report.json");
        let sources = ["--source", "10.9.1.1", "--source", "10.9.2.1", "--driver", asked];
        let times = ["-d", "60s", "--timeout", "60s"];
        let out = ["--quiet", "--accept-invalid", "-o", json.to_str().expect("a name")];
        let args =
            [&["rtt"], &place[..], &rto, &sources, &times, &out, verbose.as_slice()].concat();
        let client = program::program("prony", &args).spawn().expect("a client");
        far.wait_for_paths();
        far.cut(1);
        far.wait_for(1, "given up", |state| state == GIVEN_UP);
        // The meter samples the paths 20 times per second.
        thread::sleep(Duration::from_secs(1));
        far.mend(1);
        far.wait_for(1, "active again", |state| state == ACTIVE);
        let text = interrupted(client);
        drop(server);
        let report: Value =
            serde_json::from_str(&fs::read_to_string(json).expect("a report")).expect("JSON");
        assert_eq!(report["run"]["driver"], driver);
        let tally = &report["measurement"]["tally"];
        assert_eq!((&report["errors"], &tally["unfinished"]), (&0.into(), &0.into()), "{text}");
        assert_eq!(tally["replies"], tally["started"], "{text}");
        let sctp = &report["workers"][0]["transport"]["sctp"];
        assert_eq!((&sctp["paths"], &sctp["paths_failed"]), (&2.into(), &1.into()), "{sctp}");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{text}");
    }
}

/// Interrupt it. Returns its output.
fn interrupted(client: Child) -> String {
    let id = Pid::from_raw(client.id() as i32).expect("a process");
    kill_process(id, Signal::INT).expect("still running");
    let ended = client.wait_with_output().expect("an end");
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    String::from_utf8(ended.stdout).expect("text")
}

/// Opening an association takes two round trips, here longer than any timeout at the end of a run.
#[test]
fn opens_associations_over_a_slow_link() {
    if is_skipped() {
        return;
    }
    let far = Far::new(1, "40ms");
    // A server's port is in use until its last association has ended.
    for (place, over) in [("10.9.1.2:45456", "sctp"), ("10.9.1.2:45457", "sctp-seqpacket")] {
        let place = [place, "--transport", over];
        let _server = far.server(&[&["echo"], &place[..]].concat());
        let report = rtt(&[&place[..], &["-n", "3", "--warmup", "1"]].concat());
        assert_eq!((&report["errors"], &report["requests"]), (&0.into(), &3.into()), "{report}");
        let shortest = report["measurement"]["times"]["service"]["min_ns"].as_u64();
        assert!(shortest >= Some(79_000_000), "{report}");
    }
}
