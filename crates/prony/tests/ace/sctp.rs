//! Tests with the kernel's SCTP, which most kernels have not loaded. `cargo xtask sctp` runs these
//! tests in a virtual machine that has it, where none may be skipped.

mod far;
mod interop;
mod paths;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use prony_io::socket::Mode;
use prony_io::socket::sctp::{self, Style, Tuning};
use serde_json::Value;

use crate::program::{self, Ended, Server};

/// Whether this kernel has SCTP.
pub(crate) fn kernel_has() -> bool {
    sctp::socket(Style::OneToOne, false, Mode::Blocking).is_ok()
}

/// Whether to skip a test. Prints a message.
fn is_skipped() -> bool {
    let has = kernel_has();
    let is_required = std::env::var_os("PRONY_TEST_SCTP").is_some();
    assert!(has || !is_required, "PRONY_TEST_SCTP is set, but this kernel has no SCTP");
    if !has {
        eprintln!(
            "skipped: no SCTP in this kernel; `cargo xtask sctp` runs it in a virtual machine"
        );
    }
    !has
}

fn client(name: &str, port: u16, further: &[&str]) -> Ended {
    let port = port.to_string();
    program::run(
        name,
        &[&["-H", "127.0.0.1", "-p", &port, "-c", "20", "-b", "2"], further].concat(),
    )
}

/// Both clients with both servers, at all sizes of the tests up to 65,536 bytes.
#[test]
fn clients_and_servers_of_both_styles_communicate() {
    if is_skipped() {
        return;
    }
    for server_name in ["SOCK_STREAM_srv", "SOCK_SEQPACK_srv"] {
        let mut server = Server::start(server_name, &[]);
        for name in ["SOCK_STREAM_clt", "SOCK_SEQPACK_clt"] {
            // All sizes within a style, some of them between the styles.
            let all = server_name.split('_').nth(1) == name.split('_').nth(1);
            for power in (0..=16_u32).step_by(if all { 1 } else { 8 }) {
                let ended = client(name, server.port, &["-s", &power.to_string()]);
                ended.assert_whole(20, 1 << power);
            }
        }
        server.wait_for("Test for 120 iterations");
        assert!(server.is_alive());
    }
}

#[test]
fn servers_print_their_addresses() {
    if is_skipped() {
        return;
    }
    let two = ["-a", "127.0.0.1,127.0.0.2"];
    let server = Server::start("SOCK_SEQPACK_srv", &two);
    let line = format!(
        "(P|T) Accepting connections, using IPPROTO_SCTP on port {} on interfaces 127.0.0.1 and \
         127.0.0.2",
        server.port
    );
    assert_eq!(server.said(), [line]);
    // The other pair checks additional addresses and uses the first one.
    let server = Server::start("SOCK_STREAM_srv", &two);
    let said = server.said();
    assert_eq!(
        said[0],
        "(P|T) Accepting connections on port 0 on interface 127.0.0.1 using IPPROTO_SCTP"
    );
    client("SOCK_STREAM_clt", server.port, &["-s", "3", "-i", "127.0.0.3"]).assert_whole(20, 8);
    let name = server.said().iter().any(|l| l.contains("client localhost connected from"));
    let address = server.said().iter().any(|l| l.contains("client 127.0.0.3 connected from"));
    assert!(name || address, "{:?}", server.said());
}

/// A server aborts during the run: the run fails with an error message.
#[test]
fn an_aborted_association_is_an_error() {
    if is_skipped() {
        return;
    }
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    for (name, style) in
        [("SOCK_STREAM_clt", Style::OneToOne), ("SOCK_SEQPACK_clt", Style::OneToMany)]
    {
        let fd = sctp::listen(style, &[any], Mode::Blocking, &Tuning::default()).expect("a socket");
        let port = sctp::local_addrs(fd.as_raw_fd(), 0).expect("an address")[0].port();
        let server = thread::spawn(move || {
            let peer = match style {
                Style::OneToOne => socket2::Socket::from(fd).accept().expect("a client").0,
                Style::OneToMany => {
                    let peer = sctp::accept_from_many(fd.as_raw_fd(), Mode::Blocking);
                    socket2::Socket::from(peer.expect("a client"))
                }
            };
            let read = || {
                let mut buf = [std::mem::MaybeUninit::uninit(); 100];
                peer.recv(&mut buf).expect("a message")
            };
            assert_eq!(read(), 8, "the header");
            // 100 exchanges for warm-up, with lengths as separate messages, and 5 measured ones.
            for i in 0..105 {
                let lengths = if i < 100 { vec![read(), read()] } else { vec![read()] };
                assert_eq!(lengths, if i < 100 { vec![4, 16] } else { vec![20] });
                peer.send(&[0, 0]).expect("a reply");
            }
            assert_eq!(read(), 20);
            peer.set_linger(Some(Duration::ZERO)).expect("an abort");
        });
        let port = port.to_string();
        let args = ["-H", "127.0.0.1", "-p", &port, "-s", "4", "-c", "50"];
        let ended = program::run(name, &args);
        server.join().expect("messages as the real client cuts them");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        // Depending on timing, the message reports the reset, or that the peer is gone.
        let has_count = ended.stderr.ends_with(" (after 5 of 50 iterations)\n");
        assert!(has_count && ended.stderr.starts_with("recv_n: "), "{ended:?}");
    }
}

#[test]
fn a_missing_server_is_reported_as_by_the_original_programs() {
    if is_skipped() {
        return;
    }
    for name in ["SOCK_STREAM_clt", "SOCK_SEQPACK_clt"] {
        let ended = client(name, 45_999, &["-s", "2"]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.ends_with("connection failed: Connection refused\n"), "{ended:?}");
    }
}

/// The report of `prony rtt`.
fn rtt(args: &[&str]) -> Value {
    let json = ["--json", "--quiet", "--accept-invalid"];
    let ended = program::run("prony", &[&["rtt"], args, &json].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn echo(args: &[&str]) -> Server {
    Server::spawn(program::program("prony", &[&["echo"], args].concat()))
}

/// Both commands over both styles, on every driver. Reports must have the options.
#[test]
fn reports_of_round_trips_name_the_implementation() {
    if is_skipped() {
        return;
    }
    for over in ["sctp", "sctp-seqpacket"] {
        let server = echo(&["127.0.0.1,127.0.0.2:0", "--transport", over]);
        let target = format!("127.0.0.1,127.0.0.2:{}", server.port);
        // Kernels round to their tick, which is 4 ms or 10 ms.
        let rto = ["--rto-initial", "40ms", "--rto-min", "20ms", "--rto-max", "60ms"];
        let sources = ["--source", "127.0.0.3", "--source", "127.0.0.4"];
        let short = ["--transport", over, &target, "-n", "100", "--warmup", "5"];
        let report = rtt(&[&short[..], &rto, &sources, &["--reply-size", "9"]].concat());
        assert_eq!(report["errors"], 0, "{report}");
        assert_eq!(report["measurement"]["times"]["service"]["count"], 100);
        let sctp = &report["workers"][0]["transport"]["sctp"];
        let settings = ["rto_initial_ms", "rto_min_ms", "rto_max_ms", "paths", "associations"];
        assert_eq!(
            settings.map(|s| sctp[s].as_u64()),
            [40, 20, 60, 2, 1].map(Some),
            "{over}: {sctp}"
        );
        assert_eq!(sctp["stack"], "kernel");
        assert_eq!((&sctp["nodelay"], &sctp["sack_delay_ms"]), (&Value::Bool(true), &200.into()));
        // The server closes first, so the kernel may have deleted the association.
        let sctp = &rtt(&short)["workers"][0]["transport"]["sctp"];
        assert_eq!((&sctp["paths"], &sctp["associations"]), (&2.into(), &1.into()), "{sctp}");
        let on_uring = echo(&["127.0.0.1:0", "--transport", over, "--driver", "uring"]);
        let many = ["-c", "3", "-p", "4", "-n", "100", "-s", "1,70000", "--transport", over];
        for (driver, name, port) in
            [("epoll", "epoll", on_uring.port), ("uring", "io_uring", server.port)]
        {
            let target = format!("127.0.0.1:{port}");
            let report = rtt(&[&[target.as_str(), "--driver", driver], &many[..]].concat());
            let tally = &report["measurement"]["tally"];
            let counts = (&tally["replies"], &tally["failed"], &report["run"]["driver"]);
            assert_eq!(counts, (&100.into(), &0.into(), &name.into()), "{over}: {report}");
        }
    }
}

/// 14 sizes over each style, with pictures, which are copied out of the virtual machine.
#[test]
fn spectrum_over_sctp() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::TempDir::new().expect("a folder");
    fs::write(folder.path().join("run_spectrum.config"), "\"-c 30 -b 2\"\n").expect("a file");
    for service in ["stream", "seqpack"] {
        let args = ["--serve", "-p", "SCTP", "-s", service];
        let ended = program::run_in(folder.path(), "run_spectrum", &args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let calls = ended.stdout.lines().filter(|l| l.contains("_clt -t sctp -s "));
        assert_eq!(calls.count(), 14, "{ended:?}");
        let name = ended.stdout.lines().last().and_then(|l| l.rsplit(' ').next()).expect("a name");
        let png = fs::read(folder.path().join(name)).expect("a picture");
        assert!(png.starts_with(b"\x89PNG"));
        // Files in this directory are copied out of the virtual machine.
        if Path::new("/guest/run").exists() {
            fs::write(format!("/out/spectrum-{service}.png"), png).expect("room in the guest");
        }
    }
}
