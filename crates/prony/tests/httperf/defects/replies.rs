//! Replies of servers, and closed connections.

use std::process::Command;

use tempfile::TempDir;

use super::{extras, numbers, ours};
use crate::reserved::reserved_port;
use crate::server::Server;
use crate::text::Printed;

#[test]
fn d07_ignores_interim_replies() {
    let server = Server::start();
    for uri in ["--uri=/cont", "--uri=/early"] {
        for args in [&["--num-calls=3"][..], &["--num-calls=4", "--burst-length=2"]] {
            let ended = ours(&server, &[args, &[uri]].concat());
            let [calls, interim, good, content] =
                numbers(&ended, ["requests", "s1xx", "s2xx", "content"]);
            assert_eq!((interim, good, content), (0.0, calls, 10.0), "{uri}: {ended:?}");
        }
    }
}

#[test]
fn d08_malformed_replies_are_errors() {
    let server = Server::start();
    for path in ["/s999", "/s600", "/s99", "/surplus", "/garbage", "/binary", "/badchunk"] {
        let ended = ours(&server, &["--num-conns=3", "--num-calls=2", &format!("--uri={path}")]);
        let [connections, errors] = numbers(&ended, ["connections", "errors"]);
        assert!(errors >= 3.0 && connections >= 3.0, "{path}: {ended:?}");
        let sessions = ours(&server, &["--wsess=3,2,0", &format!("--uri={path}")]);
        let [good, all, errors] = numbers(&sessions, ["sess_good", "sess_all", "errors"]);
        assert_eq!(all, 3.0, "{path}: {sessions:?}");
        // The reply may be good and the bytes after it malformed.
        assert!(errors >= 3.0 && (good == 0.0 || path == "/surplus"), "{path}: {sessions:?}");
    }
}

#[test]
fn d09_reports_truncated_bodies() {
    let server = Server::start();
    let cut = ["--uri=/trunc", "--num-conns=2"];
    let ended = ours(&server, &cut);
    assert_eq!(numbers(&ended, ["requests", "replies", "s2xx"]), [2.0, 0.0, 0.0], "{ended:?}");
    assert_eq!(numbers(&ended, ["connreset", "errors"]), [0.0, 0.0], "{ended:?}");
    let reported = "bodies cut off (neither replies nor errors) 2";
    assert!(extras(&ended).contains(reported), "{ended:?}");
    // They are still failures.
    let strict = ours(&server, &[&cut[..], &["--fail-on-errors"]].concat());
    assert_eq!(strict.code, Some(1), "{strict:?}");
    // On request, they count as `connreset`.
    let as_reset = ours(&server, &[&cut[..], &["--truncated-as-connreset"]].concat());
    assert_eq!(numbers(&as_reset, ["replies", "connreset", "errors"]), [0.0, 2.0, 2.0]);
    assert!(extras(&as_reset).contains("bodies cut off (connreset) 2"), "{as_reset:?}");
    // Errors that the original counts as `connreset` always count as such.
    for path in ["--uri=/cut", "--uri=/cutchunk"] {
        let ended = ours(&server, &[path, "--num-conns=2"]);
        assert_eq!(numbers(&ended, ["connreset", "errors"]), [2.0, 2.0], "{path}: {ended:?}");
        assert!(extras(&ended).contains("heads and chunks cut off (connreset) 2"), "{ended:?}");
    }
}

#[test]
fn d10_an_announced_close_is_not_an_error() {
    let server = Server::start();
    let ended = ours(&server, &["--uri=/close", "--num-conns=3", "--num-calls=3"]);
    assert_eq!(numbers(&ended, ["replies", "errors"]), [9.0, 0.0], "{ended:?}");
    let sessions = ours(&server, &["--uri=/close", "--wsess=3,3,0"]);
    let good = numbers(&sessions, ["sess_good", "replies", "errors"]);
    assert_eq!(good, [3.0, 9.0, 0.0], "{sessions:?}");
    // An unannounced close: the next request may already be in flight.
    let silent = ours(&server, &["--uri=/leave", "--wsess=3,3,0"]);
    assert_eq!(numbers(&silent, ["sess_good", "replies"]), [3.0, 9.0], "{silent:?}");
}

#[test]
fn d11_a_refused_connection_has_no_connect_time() {
    let server = Server::start();
    let dead = format!("--port={}", reserved_port());
    let ended = ours(&server, &[&dead, "--num-conns=5"]);
    let [connect, refused, errors] = numbers(&ended, ["connect", "connrefused", "errors"]);
    assert_eq!((connect, refused, errors), (0.0, 5.0, 5.0), "{ended:?}");
}

/// In a network namespace with ten local ports.
#[test]
fn d12_an_unavailable_port_is_addrunavail() {
    let alone = |script: &str| Command::new("unshare").args(["-rn", "bash", "-c", script]).output();
    let prony = env!("CARGO_BIN_EXE_prony");
    let ten = "ip link set lo up && echo 40000 40009 > /proc/sys/net/ipv4/ip_local_port_range";
    if !alone(ten).is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: this machine allows no network namespaces, or has no `ip`");
        return;
    }
    let script = format!(
        "{ten}; {prony} serve 127.0.0.1:8080 --latency 500ms 2> up & trap 'kill %1' EXIT; \
         until grep -q listening up; do sleep 0.02; done; \
         {prony} httperf --server 127.0.0.1 --port 8080 --num-conns 30 --rate 500"
    );
    let folder = TempDir::new().expect("a folder");
    let out = Command::new("unshare")
        .args(["-rn", "bash", "-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("unshare");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let report = Printed::parse(&text).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let names = ["replies", "addrunavail", "fd_unavail", "other", "errors"];
    assert_eq!(names.map(|name| report.get(name)), [10.0, 20.0, 0.0, 0.0, 20.0], "{text}");
}

#[test]
fn d42_errors_alone_do_not_change_the_exit_code() {
    let server = Server::start();
    let args = ["--uri=/empty", "--num-conns=2"];
    assert_eq!(ours(&server, &args).code, Some(0));
    assert_eq!(ours(&server, &[&args[..], &["--fail-on-errors"]].concat()).code, Some(1));
    assert_eq!(ours(&server, &["--fail-on-errors"]).code, Some(0));
}
