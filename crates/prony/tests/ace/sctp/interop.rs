//! The kernel's SCTP with prony's userspace SCTP over UDP, in both roles.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use prony_io::socket::Mode;
use prony_io::socket::sctp::{self, Style, Tuning};
use serde_json::Value;

use super::{echo, is_skipped, rtt};

/// The UDP ports of the kernel and of prony.
const KERNELS: &str = "9899";
const OURS: &str = "9900";

const STYLES: [&str; 2] = ["sctp", "sctp-seqpacket"];

/// All sizes, several associations, several messages in flight.
const MANY: [&str; 10] = ["-s", "1..64k", "-n", "170", "--reply-size", "9", "-c", "3", "-p", "2"];

/// A setting of the kernel's SCTP during a test; 0 = off.
struct Set(&'static str);

impl Set {
    fn to(name: &'static str, port: &str) -> Self {
        let set = Self(name);
        set.write(port);
        set
    }

    fn write(&self, port: &str) {
        let path = format!("/proc/sys/net/sctp/{}", self.0);
        fs::write(&path, port).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        self.write("0");
    }
}

/// The number of malformed packets, and of associations that the kernel aborted or that were
/// aborted. (Packets without an association are normal if a side is so slow that the other
/// retransmits.)
fn troubles() -> Vec<(String, u64)> {
    let text = fs::read_to_string("/proc/net/sctp/snmp").expect("the kernel's counters");
    let counters = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let is_wanted = matches!(name, "SctpChecksumErrors" | "SctpAborteds");
        is_wanted.then(|| Some((name.to_owned(), value.trim().parse().ok()?)))?
    });
    let counters: Vec<_> = counters.collect();
    assert_eq!(counters.len(), 2, "{text}");
    counters
}

/// Assert that all of `n` exchanges have replies, from the requested implementation.
fn assert_whole(report: &Value, n: u64, stack: &str) {
    let tally = &report["measurement"]["tally"];
    assert_eq!((&tally["replies"], &tally["failed"]), (&n.into(), &0.into()), "{report}");
    let sctp = &report["workers"][0]["transport"]["sctp"];
    assert_eq!(sctp["stack"], stack, "{sctp}");
}

#[test]
fn userspace_clients_communicate_with_kernel_servers() {
    if is_skipped() {
        return;
    }
    let _port = Set::to("udp_port", KERNELS);
    let before = troubles();
    for server in STYLES {
        let echo = echo(&["127.0.0.1:0", "--transport", server]);
        let target = format!("127.0.0.1:{}", echo.port);
        let ours = ["--sctp", "udp", "--warmup", "5"];
        let same = [&target, "--transport", server];
        assert_whole(&rtt(&[&same[..], &ours, &MANY].concat()), 170, "udp");
        // Here, the server closes first.
        for client in STYLES {
            let any = [&target, "--transport", client, "-n", "20"];
            assert_whole(&rtt(&[&any[..], &ours].concat()), 20, "udp");
        }
    }
    assert_eq!(troubles(), before);
}

#[test]
fn kernel_clients_communicate_with_userspace_servers() {
    if is_skipped() {
        return;
    }
    let _port = Set::to("udp_port", KERNELS);
    let mut echo =
        echo(&["127.0.0.1:45460", "--transport", "sctp", "--sctp", "udp", "--sctp-udp-port", OURS]);
    let _encap = Set::to("encap_port", OURS);
    let before = troubles();
    for client in STYLES {
        let short = ["127.0.0.1:45460", "--transport", client, "--warmup", "5"];
        assert_whole(&rtt(&[&short[..], &MANY].concat()), 170, "kernel");
        // Here, the server closes first.
        assert_whole(&rtt(&[&short[..], &["-n", "20"]].concat()), 20, "kernel");
    }
    assert_eq!(troubles(), before);
    // The duration ends the run, so the client aborts its association; the responder continues.
    let aborting = rtt(&["127.0.0.1:45460", "--transport", "sctp", "-d", "100ms"]);
    assert_eq!(aborting["measurement"]["tally"]["failed"], 0, "{aborting}");
    assert_whole(&rtt(&["127.0.0.1:45460", "--transport", "sctp", "-n", "20"]), 20, "kernel");
    assert!(echo.is_alive());
}

/// If a kernel server aborts, the exchange in flight fails.
#[test]
fn an_abort_by_the_kernel_is_an_error() {
    if is_skipped() {
        return;
    }
    let _port = Set::to("udp_port", KERNELS);
    let any = ([127, 0, 0, 1], 0).into();
    let fd = sctp::listen(Style::OneToOne, &[any], Mode::Blocking, &Tuning::default());
    let fd = fd.expect("a socket");
    let port = sctp::local_addrs(fd.as_raw_fd(), 0).expect("an address")[0].port();
    let server = thread::spawn(move || {
        let peer = socket2::Socket::from(fd).accept().expect("a client").0;
        let read = || {
            let mut buf = [std::mem::MaybeUninit::uninit(); 100];
            peer.recv(&mut buf).expect("a message")
        };
        assert_eq!(read(), 8, "the header");
        for _ in 0..5 {
            assert_eq!(read(), 20, "a length and 16 bytes");
            peer.send(&[0, 0]).expect("a reply");
        }
        assert_eq!(read(), 20);
        peer.set_linger(Some(Duration::ZERO)).expect("an abort");
    });
    let target = format!("127.0.0.1:{port}");
    let args = ["--transport", "sctp", "--sctp", "udp", "--warmup", "0", "-s", "16", "-n", "6"];
    let report = rtt(&[&[target.as_str()], &args[..]].concat());
    server.join().expect("messages as they should be");
    let tally = &report["measurement"]["tally"];
    assert_eq!((&tally["replies"], &tally["failed"]), (&5.into(), &1.into()), "{report}");
}

/// Directly over IP, both implementations would reply to the same packets.
#[test]
fn refuses_sctp_over_ip_if_the_kernel_has_sctp() {
    if is_skipped() {
        return;
    }
    let args = ["rtt", "127.0.0.1:9", "--transport", "sctp", "--sctp", "raw"];
    let ended = crate::program::run("prony", &args);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("reply to the same packets"), "{ended:?}");
}
