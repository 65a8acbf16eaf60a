//! `prony echo` and `prony rtt` as users run them, and compatibility with the ACE tests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::rig::{Serve, command, drivers, have, kill, prony};

/// A running responder.
pub(crate) struct Echo {
    child: Child,
    /// Where it listens, as it says.
    places: Vec<String>,
    /// Its line with the address.
    reported: String,
}

impl Echo {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = command(&[&["echo"], args, &["--json"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stderr = child.stderr.as_mut().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let reported = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
        let place = |p: &str| p.rsplit(' ').next().unwrap_or_default().to_owned();
        Self { child, places: reported.split(", ").map(place).collect(), reported }
    }

    pub(crate) fn tcp() -> Self {
        Self::start(&["127.0.0.1:0"])
    }

    pub(crate) fn at(&self) -> &str {
        &self.places[0]
    }

    /// Stops the responder, and returns its counters.
    pub(crate) fn stop(mut self) -> Value {
        kill(&self.child, Signal::INT);
        let mut text = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Run with `--json`, successfully.
pub(crate) fn rtt(args: &[&str]) -> Value {
    let ended = prony(&[&["rtt"], args, &["--json", "--quiet", "--accept-invalid"]].concat());
    assert_eq!(ended.code, 0, "{args:?}: {ended:?}");
    serde_json::from_str(&ended.stdout).expect("JSON")
}

pub(crate) fn count(report: &Value, what: &str) -> u64 {
    report["measurement"]["tally"][what].as_u64().expect("a number")
}

#[test]
fn every_transport_counts_like_its_responder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| format!("unix:{}", folder.path().join(name).display());
    let cases = [
        ("tcp", "127.0.0.1:0".to_owned()),
        ("udp", "127.0.0.1:0".to_owned()),
        ("unix", path("stream")),
        ("unix-seqpacket", path("packets")),
    ];
    for (transport, at) in cases {
        let echo = Echo::start(&[&at, "--transport", transport]);
        let report = rtt(&[echo.at(), "--transport", transport, "-n", "500", "--size", "100"]);
        assert_eq!(count(&report, "started"), 500, "{transport}");
        assert_eq!(count(&report, "replies"), 500, "{transport}");
        assert_eq!(report["run"]["driver"], "direct", "{transport}");
        let done = echo.stop();
        if transport == "udp" {
            // On a busy machine, a warm-up exchange may have been sent again.
            assert!(done["datagrams"].as_u64() >= Some(600), "{done}");
        } else {
            assert_eq!(done["messages"], 600, "{transport}");
            assert_eq!(done["bytes_in"], 600 * 104 + 8, "{transport}");
            assert_eq!(done["broken"], 0, "{transport}");
        }
    }
}

/// The userspace SCTP: the counters of both sides agree, and the report names the implementation.
#[test]
fn sctp_over_udp() {
    let at = "127.0.0.1:0";
    let ours = ["--sctp", "udp", "--sctp-udp-port"];
    let echo = Echo::start(&[&[at, "--transport", "sctp,tcp"], &ours[..], &["0"]].concat());
    let reported = echo.reported.split("over UDP port ").nth(1).expect("it says where");
    let (udp, place) = reported.split_once(") ").expect("a port and a place");
    for (over, first) in [("sctp", false), ("sctp-seqpacket", true)] {
        let size = if first { "2" } else { "30" };
        let target = format!("{over}://{place}");
        let args = [target.as_str(), "-n", "200", "-s", "100", "--reply-size", size];
        let rto = ["--rto-initial", "30ms", "--rto-min", "20ms", "--rto-max", "40ms"];
        let report = rtt(&[&args[..], &ours, &[udp], &rto].concat());
        assert_eq!((count(&report, "replies"), count(&report, "failed")), (200, 0), "{over}");
        assert_eq!(report["run"]["driver"], "userspace, udp");
        let notes = report["run"]["notes"].to_string();
        assert!(notes.contains("sctp-proto") && notes.contains(udp), "{notes}");
        let sctp = &report["workers"][0]["transport"]["sctp"];
        assert_eq!((&sctp["stack"], &sctp["associations"]), (&"udp".into(), &1.into()));
        let timeouts = ["rto_initial_ms", "rto_min_ms", "rto_max_ms"].map(|s| sctp[s].as_u64());
        assert_eq!(timeouts, [30, 20, 40].map(Some));
    }
    let done = echo.stop();
    assert_eq!((&done["messages"], &done["broken"]), (&600.into(), &0.into()), "{done}");
}

/// Socket options have an effect, and the report shows the values that the kernel uses.
#[test]
fn applies_socket_options() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().expect("a client");
        let mut opening = [0; 8];
        stream.read_exact(&mut opening).expect("an opening");
        let mut message = [0; 5];
        while stream.read_exact(&mut message).is_ok() {
            stream.write_all(&[0; 2]).expect("a reply");
        }
        from.ip().to_string()
    });
    let args = ["--source", "127.0.0.9", "--nagle", "--tos", "16", "--send-buffer", "1"];
    let report = rtt(&[&[&at, "-n", "10", "--size", "1"], &args[..]].concat());
    assert_eq!(count(&report, "replies"), 10);
    assert_eq!(server.join().expect("the server"), "127.0.0.9");
    let notes = report["run"]["notes"].to_string();
    assert!(notes.contains("to its minimum"), "{notes}");

    // These two may not be permitted on this machine; then there is an error message.
    let echo = Echo::tcp();
    for (option, said) in [
        (&["--realtime"][..], "cannot use the real-time scheduler"),
        (&["--busy-poll", "50us"], "--busy-poll cannot be used"),
    ] {
        let ended = prony(&[&["rtt", echo.at(), "-n", "10", "--accept-invalid"], option].concat());
        match ended.code {
            0 => assert_eq!(ended.stderr, "", "{option:?}"),
            code => assert!(code == 2 && ended.stderr.contains(said), "{option:?}: {ended:?}"),
        }
    }
}

/// An exchange takes one system call to send, one to receive, and no others: measured as the
/// difference of two runs with different numbers of exchanges.
#[test]
fn an_exchange_needs_two_system_calls() {
    if !have("strace") {
        return;
    }
    let echo = Echo::tcp();
    let Some(few) = system_calls(echo.at(), 500) else {
        eprintln!("skipped: strace may not trace here");
        return;
    };
    let many = system_calls(echo.at(), 2_500).expect("a count");
    let more = |name: &str| {
        let count = |of: &BTreeMap<String, u64>| of.get(name).copied().unwrap_or(0);
        count(&many).saturating_sub(count(&few))
    };
    assert_eq!(more("sendto"), 2_000, "{many:?}");
    // Each reply is read once. A late reply needs another wait, which is rare and happens in both
    // runs.
    let warmup = 100;
    for (of, exchanges) in [(&few, 500), (&many, 2_500)] {
        let more = of.get("recvfrom").copied().unwrap_or(0).checked_sub(exchanges + warmup);
        assert!(more.is_some_and(|more| more < 100), "{of:?}");
    }
    // The clock is a system call on some machines. Other calls grow with time, not with exchanges.
    let exchange = ["sendto", "recvfrom", "clock_gettime"];
    let others = many.keys().filter(|name| !exchange.contains(&name.as_str()));
    assert!(others.map(|name| more(name)).sum::<u64>() < 400, "{few:?} {many:?}");
}

/// The number of calls of each system call in a run; `None` if it cannot be traced.
fn system_calls(at: &str, exchanges: u32) -> Option<BTreeMap<String, u64>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls");
    let prony = command(&["rtt", at, "-n", &exchanges.to_string(), "--accept-invalid"]);
    let traced = Command::new("strace")
        .args(["-f", "-q", "-c", "-U", "name,calls", "-o"])
        .arg(&file)
        .arg(prony.get_program())
        .args(prony.get_args())
        .output()
        .expect("strace starts");
    if !traced.status.success() {
        return None;
    }
    let text = std::fs::read_to_string(&file).expect("a table");
    let row = |line: &str| {
        let (name, calls) = line.trim().split_once(' ').filter(|(name, _)| *name != "total")?;
        Some((name.to_owned(), calls.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(row).collect())
}

#[test]
fn drivers_pipelines_and_open_loops() {
    let echo = Echo::tcp();
    for driver in drivers() {
        let report = rtt(&[
            echo.at(),
            "--driver",
            driver,
            "-c",
            "3",
            "-p",
            "4",
            "-n",
            "900",
            "--reply-size",
            "50",
        ]);
        assert_eq!((count(&report, "replies"), count(&report, "connected")), (900, 3), "{driver}");
    }
    let report = rtt(&[echo.at(), "--rate", "1k", "-d", "300ms", "--precision", "sleep"]);
    assert_eq!(count(&report, "started"), 300);
    assert_eq!(report["warmup"]["tally"]["started"], 100);
    let report = rtt(&[echo.at(), "-n", "200", "--precision", "spin", "-s", "1,64,4k"]);
    assert_eq!(count(&report, "replies"), 200);
    let names = report["measurement"]["names"].as_array().expect("one for each length");
    let each: Vec<_> = names.iter().map(|n| n["replies"].as_u64().unwrap_or(0)).collect();
    assert_eq!(each, [67, 67, 66]);
}

/// Over every transport with timestamps, with each driver that reads them: nearly every exchange
/// has them, and the parts add up.
#[test]
fn p09_splits_round_trips_by_kernel_timestamps() {
    let tcp = ["127.0.0.1:0", "--transport", "tcp"];
    let udp = ["127.0.0.1:0", "--transport", "udp"];
    for (listen, args) in [
        (tcp, &[][..]),
        (tcp, &["--precision", "spin"]),
        (tcp, &["--driver", "epoll", "-c", "2", "-p", "3"]),
        (tcp, &["--size", "9000"]),
        (udp, &["--transport", "udp"]),
        (udp, &["--transport", "udp", "--driver", "epoll", "-c", "2", "-p", "3"]),
    ] {
        let echo = Echo::start(&listen);
        let report = rtt(&[&[echo.at(), "-n", "400", "--timestamps"], args].concat());
        let phases = &report["measurement"]["phases"];
        let replies = count(&report, "replies");
        let stamped = phases["stamped"].as_u64().expect("a count");
        assert_eq!(stamped + phases["unstamped"].as_u64().expect("a count"), replies, "{args:?}");
        assert!(stamped * 50 >= replies * 49, "{args:?}: {stamped} of {replies}: {phases}");
        let mean = |part: &str| phases["times"][part]["mean_ns"].as_f64().expect("a mean");
        let parts =
            ["waiting", "to_scheduler", "to_device", "wire_and_peer", "to_user", "transfer"];
        let (sum, whole) = (parts.map(mean).iter().sum::<f64>(), mean("whole"));
        assert!((sum - whole).abs() <= 0.01 * whole, "{args:?}: {sum} {whole}");
        assert!(mean("wire_and_peer") > 0.0 && mean("to_user") > 0.0, "{args:?}: {phases}");
    }
}

/// A simulated latency of 100 us is measured as 100 us, and each exchange is counted.
#[test]
fn counts_a_million_round_trips() {
    let report = rtt(&["example.test", "--simulate", "1", "-n", "1m"]);
    let service = &report["measurement"]["times"]["service"];
    assert_eq!(service["count"], 1_000_000);
    assert_eq!((&service["min_ns"], &service["max_ns"]), (&100_000.into(), &100_000.into()));
}

/// The bytes of a recorded run of the old client: 100 warm-up exchanges and 2 of 4 bytes.
fn recorded(first: [u8; 8], payload: [u8; 4]) -> Vec<u8> {
    let mut bytes = first.to_vec();
    for _ in 0..102 {
        bytes.extend([0, 0, 0, 4]);
        bytes.extend(payload);
    }
    bytes
}

const LITTLE: [u8; 8] = [1, 0, 0, 0, 0x66, 0, 0, 0];
const BIG: [u8; 8] = [0, 7, 7, 7, 0, 0, 0, 0x66];

#[test]
fn serves_clients_of_the_ace_tests() {
    let echo = Echo::tcp();
    let mut silent = TcpStream::connect(echo.at()).expect("a connection");
    silent.write_all(&[1, 0]).expect("two bytes");
    for first in [LITTLE, BIG] {
        let mut stream = TcpStream::connect(echo.at()).expect("a connection");
        let bytes = recorded(first, [0xef, 0x46, 0x06, 0xfd]);
        let (head, rest) = bytes.split_at(13);
        stream.write_all(head).expect("some bytes");
        stream.write_all(rest).expect("the other bytes");
        let mut replies = Vec::new();
        // The responder closes after the last announced exchange.
        stream.read_to_end(&mut replies).expect("replies");
        assert_eq!(replies, [0; 204]);
    }
    // A client that disconnects early does not affect others.
    let mut dying = TcpStream::connect(echo.at()).expect("a connection");
    dying.write_all(&recorded(LITTLE, [0; 4])[..21]).expect("some bytes");
    dying.shutdown(Shutdown::Both).expect("an end");
    drop(dying);
    assert_eq!(count(&rtt(&[echo.at(), "-n", "50"]), "replies"), 50);
    let done = echo.stop();
    assert_eq!((&done["connections"], &done["refused"]), (&5.into(), &0.into()));
}

/// A server of the ACE tests receives exactly the bytes of an ACE client.
#[test]
fn sends_the_bytes_of_ace_clients_to_ace_servers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut heard = vec![0; 8];
        stream.read_exact(&mut heard).expect("an opening");
        for _ in 0..102 {
            let mut message = [0; 8];
            stream.read_exact(&mut message).expect("a message");
            heard.extend(message);
            // In two parts, which clients must join.
            stream.write_all(&[9]).expect("half a reply");
            stream.write_all(&[9]).expect("the other half");
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the end");
        heard.extend(rest);
        heard
    });
    let report = rtt(&[&at, "-n", "2", "--size", "4"]);
    assert_eq!(count(&report, "replies"), 2);
    assert_eq!(server.join().expect("the server"), recorded(LITTLE, [0; 4]));
}

/// SCTP that is not the kernel's.
const SCTP: [&str; 4] = ["--transport", "sctp", "--sctp", "udp"];

/// Without SCTP in the kernel, prony never switches silently to another implementation, but names
/// the alternatives.
#[test]
fn reports_a_kernel_without_sctp() {
    use prony_io::socket::{Mode, sctp};
    if sctp::socket(sctp::Style::OneToOne, false, Mode::Blocking).is_ok() {
        eprintln!("left out: this kernel has SCTP");
        return;
    }
    for words in [
        &["rtt", "127.0.0.1:9", "--transport", "sctp"][..],
        &["rtt", "sctp://127.0.0.1:9"],
        &["echo", "127.0.0.1:9", "--transport", "sctp"],
    ] {
        let ended = prony(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        for way in ["modprobe sctp", "--sctp udp", "--sctp raw"] {
            assert!(ended.stderr.contains(way), "{way}: {ended:?}");
        }
    }
}

/// Invalid input gives a one-sentence error before anything is sent.
#[test]
fn rejects_invalid_input() {
    for (args, said) in [
        (&["rtt"][..], "TARGET"),
        (&["rtt", "http://127.0.0.1/"], "is a URL"),
        (&["rtt", "sctp://"], "has no host; write sctp://HOST"),
        (&["rtt", ""], "the address is empty"),
        (&["rtt", "127.0.0.1", "--transport", "unix"], "unix:PATH"),
        (&["rtt", "udp://h:1", "--transport", "tcp"], "is not the transport of udp://h:1"),
        (&["rtt", "unix:/tmp/x", "--transport", "tcp"], "needs HOST:PORT"),
        (&["rtt", "127.0.0.1", "--transport", "ipx"], "ipx"),
        (&["rtt", "127.0.0.1", "--size", "17m"], "at most"),
        (&["rtt", "127.0.0.1", "--transport", "udp", "--size", "65500"], "at most 65487 bytes"),
        (&["rtt", "127.0.0.1", "--sni", "a"], "--sni needs --transport tls"),
        (&["rtt", "127.0.0.1", "--size", "-5"], "--size: '-5' is not a size"),
        (&["rtt", "127.0.0.1", "--no-such"], "`prony rtt --help`"),
        (&["rtt", "127.0.0.1,127.0.0.2"], "connects to one address"),
        (&["rtt", "127.0.0.1", "--transport", "udp", "--nagle"], "--nagle needs"),
        (&["rtt", "127.0.0.1", "--rto-min", "9ms"], "--rto-min needs"),
        (&["rtt", "127.0.0.1", "--sctp-udp-port", "9"], "--sctp-udp-port needs"),
        (&[&["rtt", "127.0.0.1", "--sctp-udp-port", "0"], &SCTP[..]].concat(), "is not a port"),
        (&["rtt", "127.0.0.1", "--tos", "ef"], "write 0 to 255"),
        (&["rtt", "127.0.0.1", "--dscp", "64"], "write 0 to 63"),
        (&["rtt", "127.0.0.1", "--dscp", "ef", "--tos", "4"], "cannot be used with"),
        (&["rtt", "unix:/tmp/x", "--dscp", "ef"], "--dscp needs another transport"),
        (&["echo", "127.0.0.1,127.0.0.2:0"], "connects to one address"),
        (&["rtt", "127.0.0.1:0"], "port 0"),
        (&["echo", "203.0.113.1:1"], "cannot listen"),
        (&["echo", "127.0.0.1:0", "--transport", "tcp,tls"], "cannot share a port"),
        (&["echo", "unix:/tmp/x", "--transport", "tls"], "needs HOST:PORT"),
        (&["echo", "127.0.0.1:0", "--cert", "/nowhere"], "no transport uses TLS"),
        (&["echo", "127.0.0.1:0", "--transport", "tls", "--cert", "/nowhere"], "cannot be read"),
        (&["serve", "127.0.0.1:0", "--cert", "/nowhere"], "the server uses no TLS"),
        (
            &["rtt", "127.0.0.1:1", "--tos", "17"],
            "--tos cannot be used: the kernel sets 16 instead of 17",
        ),
        (&["rtt", "127.0.0.1:1", "--source", "203.0.113.1"], "must be an address of this machine"),
        (&["echo", "127.0.0.1:0", "--transport", "unix"], "needs a path"),
        (&["rtt", "127.0.0.1", "--sctp", "udp"], "needs --transport sctp"),
        (
            &["rtt", "127.0.0.1", "--transport", "sctp", "--sctp", "tcp"],
            "write one of kernel, udp, raw",
        ),
        (&["echo", "127.0.0.1:0", "--sctp", "udp"], "needs --transport sctp"),
        (&[&["rtt", "127.0.0.1"], &SCTP[..], &["--nagle"]].concat(), "--nagle"),
        (&[&["rtt", "127.0.0.1"], &SCTP[..], &["--driver", "uring"]].concat(), "--driver"),
        (&[&["rtt", "127.0.0.1,127.0.0.2"], &SCTP[..]].concat(), "one path"),
        (&[&["echo", "127.0.0.1,127.0.0.2:0"], &SCTP[..]].concat(), "supports only one"),
        (&[&["rtt", "127.0.0.1"], &SCTP[..], &["-s", "1m"]].concat(), "1048576 bytes is too long"),
        (&[&["rtt", "127.0.0.1"], &SCTP[..], &["--rto-max", "9ms"]].concat(), "--rto-min of 1000"),
    ] {
        let ended = prony(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
    let echo = Echo::tcp();
    let ended = prony(&["echo", echo.at()]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("another process uses it"), "{}", ended.stderr);
}

/// Peers with another protocol: each is reported, and none blocks the run.
#[test]
fn reports_peers_with_another_protocol() {
    let http = Serve::start(&[]);
    let http = http.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let place = |l: &TcpListener| l.local_addr().expect("an address").to_string();
    let (shell, longer, nobody) = (listen(), listen(), listen());
    let (ssh, long, free) = (place(&shell), place(&longer), place(&nobody));
    drop(nobody);
    let folder = tempfile::tempdir().expect("a folder");
    let streams = Echo::start(&[&format!("unix:{}", folder.path().join("s").display())]);
    // Like a responder, but its replies have three bytes.
    thread::spawn(move || {
        for stream in longer.incoming() {
            let mut stream = stream.expect("a client");
            let mut reported = [0; 132];
            let mut opened = stream.read_exact(&mut reported[..8]).is_ok();
            while opened && stream.read_exact(&mut reported).is_ok() {
                opened = stream.write_all(&[0; 3]).is_ok();
            }
        }
    });
    thread::spawn(move || {
        for stream in shell.incoming() {
            let mut stream = stream.expect("a client");
            thread::spawn(move || {
                stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n and more than a header").expect("bytes");
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    for (target, more, fault) in [
        (http.as_str(), &["--connect-timeout", "200ms"][..], "request-timeout"),
        (&ssh, &[], "bad-frame"),
        (&ssh, &["--reply-size", "9"], "bad-frame"),
        (&free, &[], "connect-refused"),
        (&free, &["--transport", "udp"], "connect-refused"),
        (&long, &["--warmup", "0"], "surplus"),
        (streams.at(), &["--transport", "unix-seqpacket"], "connect-refused"),
    ] {
        let args = [&["rtt", target, "-n", "3", "--quiet"], more].concat();
        let ended = prony(&args);
        assert_eq!(ended.code, 1, "{args:?}: {ended:?}");
        assert!(ended.stdout.contains(fault), "{args:?}: {}", ended.stdout);
        assert!(ended.stdout.contains("is there a responder (prony echo --transport"), "{args:?}");
    }
}

/// A responder that exits early: the report covers the time until then.
#[test]
fn reports_the_measurements_until_the_responder_exits() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        drop(listener);
        let mut buffer = [0; 8];
        stream.read_exact(&mut buffer).expect("an opening");
        for _ in 0..40 {
            stream.read_exact(&mut buffer).expect("a message");
            stream.write_all(&[0; 2]).expect("a reply");
        }
    });
    let ended = prony(&[
        "rtt",
        &at,
        "-n",
        "60",
        "--size",
        "4",
        "--warmup",
        "10",
        "--json",
        "--quiet",
        "--accept-invalid",
    ]);
    server.join().expect("the server");
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((count(&report, "replies"), count(&report, "failed")), (30, 30));
}

#[test]
fn round_trips_have_a_verdict() {
    let run = |args: &[&str]| {
        let ended = prony(&[&["rtt", "virtual:7", "--simulate", "1", "--json"], args].concat());
        let report: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        (ended.code, report["verdict"]["verdict"].as_str().expect("a word").to_owned())
    };
    assert_eq!(run(&["-n", "2k"]), (0, "VALID".to_owned()));
    let short = ["-n", "2k", "--percentile", "99.9"];
    assert_eq!(run(&short), (98, "TOO-SHORT".to_owned()));
    let accepted = run(&[&short[..], &["--accept-invalid"]].concat());
    assert_eq!(accepted, (0, "TOO-SHORT".to_owned()));
}
