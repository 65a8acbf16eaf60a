//! `prony record` under pressure: idle connections, large bodies, files that cannot be written.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::record::Recorder;
use crate::rig::{Running, Serve, sockets, wait_until, waiting};

/// The reply to a request on a connection of its own.
fn asked(recorder: &Recorder, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", recorder.port())).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    stream.write_all(request).expect("a client");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    reply
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// As many idle connections as there are places do not keep others out.
#[test]
fn idle_connections_make_room() {
    const IDLE: usize = 1_100;
    let _waiting = waiting();
    let limit = getrlimit(Resource::Nofile);
    let wanted = IDLE as u64 + 500;
    if limit.maximum.is_some_and(|most| most < wanted) {
        eprintln!("this needs {wanted} open files");
        return;
    }
    let more = limit.current.map(|now| now.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: more, ..limit }).expect("it is allowed");
    let server = Serve::start(&[]);
    let mut recorder = Recorder::start(&server.url(""), &[]);
    let connect = |_| TcpStream::connect(("127.0.0.1", recorder.port())).expect("a connection");
    let idle: Vec<TcpStream> = (0..IDLE).map(connect).collect();
    assert!(asked(&recorder, GET).starts_with("HTTP/1.1 200"));
    drop(idle);
    let ended = recorder.finish();
    assert!(ended.stderr.contains("x an idle connection, closed for another client"), "{ended:?}");
    assert!(ended.stderr.contains("the plan has 1 request in 1 session"), "{ended:?}");
}

/// Each file by itself, and for its owner alone.
#[test]
fn a_plan_is_written_even_if_the_archive_cannot() {
    let server = Serve::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).expect("a folder");
    let har = gone.join("other.har").display().to_string();
    let mut recorder = Recorder::start(&server.url(""), &["-o", &har]);
    assert!(asked(&recorder, GET).starts_with("HTTP/1.1 200"));
    fs::remove_dir_all(&gone).expect("a folder");
    let ended = recorder.stop();
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("other.har could not be written"), "{ended:?}");
    assert!(recorder.plan().contains("/a"));
    for name in ["plan.toml", "run.har"] {
        let mode = fs::metadata(recorder.file(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// A target that never accepts or never replies does not hold up the end.
#[test]
fn replies_that_never_come_do_not_hold_up_the_plan() {
    let server = Serve::start(&["--latency", "1h"]);
    let mut recorder = Recorder::start(&server.url(""), &[]);
    let url = format!("http://127.0.0.1:{}/", recorder.port());
    let load = ["-n", "3", "-c", "3", "--timeout", "1h", "--quiet", &url];
    let before = sockets(server.pid());
    let client = Running::start(&load);
    wait_until("the connections to the target", || sockets(server.pid()) >= before + 3);
    thread::sleep(Duration::from_secs(1));
    let ended = recorder.stop();
    assert!(ended.stderr.contains("3 x in flight when the recording ended"), "{ended:?}");
    client.signal(Signal::KILL);
}
