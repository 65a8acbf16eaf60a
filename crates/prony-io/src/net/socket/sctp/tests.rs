//! Tests of the kernel's SCTP. Most kernels have not loaded it: `cargo xtask sctp` runs these tests
//! in a guest that has, and sets a variable that forbids skipping them.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{self as socket, Read, Written};
use super::*;

/// Returns true, after a note, if this kernel has no SCTP and the test must be skipped.
fn kernel_has_no_sctp() -> bool {
    let Err(e) = socket(Style::OneToOne, false, Mode::Blocking) else { return false };
    let is_required = std::env::var_os("PRONY_TEST_SCTP").is_some();
    assert!(!is_required, "PRONY_TEST_SCTP is set, but this kernel has no SCTP: {e}");
    eprintln!("skipped: this kernel has no SCTP ({e}); cargo xtask sctp runs the test in a guest");
    true
}

fn local(host: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, host), port).into()
}

/// A listening socket on 127.0.0.1 and further hosts, and its port.
fn listener(style: Style, further: &[u8]) -> (OwnedFd, u16) {
    let addrs: Vec<_> = [1].iter().chain(further).map(|&host| local(host, 0)).collect();
    let fd = listen(style, &addrs, Mode::Blocking, &Tuning::default()).expect("a listener");
    enable_senders(fd.as_raw_fd()).expect("names of senders");
    let port = local_addrs(fd.as_raw_fd(), 0).expect("addresses")[0].port();
    (fd, port)
}

fn connected(style: Style, addrs: &[SocketAddr]) -> OwnedFd {
    let fd = socket(style, false, Mode::Blocking).expect("a socket");
    set_nodelay(fd.as_raw_fd(), true).expect("no delay");
    match style {
        Style::OneToOne => drop(connect(fd.as_raw_fd(), addrs).expect("an association")),
        Style::OneToMany => {
            let limit = Duration::from_secs(5);
            connect_and_peel_off(fd.as_raw_fd(), addrs, Mode::Blocking, limit).expect("one");
        }
    }
    fd
}

fn accept(style: Style, listener: &OwnedFd) -> OwnedFd {
    match style {
        Style::OneToOne => {
            let (peer, _) = socket2::SockRef::from(&listener.as_fd()).accept().expect("a peer");
            peer.into()
        }
        Style::OneToMany => accept_from_many(listener.as_raw_fd(), Mode::Blocking).expect("a peer"),
    }
}

fn read_all(fd: &OwnedFd, want: usize) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), vec![0; 70_000]);
    while all.len() < want {
        match socket::read(fd, &mut buf) {
            Read::Data(n) => all.extend_from_slice(&buf[..n]),
            other => panic!("{other:?} after {} bytes", all.len()),
        }
    }
    all
}

fn write_all(fd: &OwnedFd, data: &[u8]) {
    assert_eq!(socket::write(fd, data), Written::Taken(data.len()));
}

/// Both styles, in all combinations, with messages of every power of two up to 65,536 bytes and
/// 65,537 bytes: each comes back unchanged.
#[test]
fn messages_are_echoed_in_all_combinations_of_styles() {
    if kernel_has_no_sctp() {
        return;
    }
    let styles = [Style::OneToOne, Style::OneToMany];
    for (server, client) in styles.into_iter().flat_map(|s| styles.map(|c| (s, c))) {
        let (listening, port) = listener(server, &[]);
        let echo = thread::spawn(move || {
            let peer = accept(server, &listening);
            let mut buf = vec![0; 70_000];
            while let Read::Data(n) = socket::read(&peer, &mut buf) {
                write_all(&peer, &buf[..n]);
            }
        });
        let fd = connected(client, &[local(1, port)]);
        for size in (0..=16).map(|s| 1_usize << s).chain([65_537]) {
            let message: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            write_all(&fd, &message);
            assert!(read_all(&fd, size) == message, "{size} bytes, {client:?} to {server:?}");
        }
        drop(fd);
        echo.join().expect("the peer ends without an error");
    }
}

/// One socket, several associations: each message is answered on its own association.
#[test]
fn one_socket_serves_many_associations() {
    if kernel_has_no_sctp() {
        return;
    }
    let (server, port) = listener(Style::OneToMany, &[]);
    let clients: Vec<_> = (0..3).map(|_| connected(Style::OneToMany, &[local(1, port)])).collect();
    for (i, client) in clients.iter().enumerate() {
        write_all(client, format!("from {i}").as_bytes());
    }
    let (mut opened, mut answered, mut buf) = (Vec::new(), 0, [0; 100]);
    while answered < 3 {
        match receive(server.as_raw_fd(), &mut buf).expect("a message") {
            Received::Opened(assoc) => opened.push(assoc),
            Received::Data { bytes, assoc, is_end } => {
                assert!(is_end && opened.contains(&assoc), "{assoc} of {opened:?}");
                send(server.as_raw_fd(), assoc, &buf[..bytes]).expect("an answer");
                answered += 1;
            }
            Received::Other => {}
        }
    }
    for (i, client) in clients.iter().enumerate() {
        let want = format!("from {i}");
        assert_eq!(read_all(client, want.len()), want.as_bytes());
    }
}

#[test]
fn associations_use_all_addresses_of_both_sides() {
    if kernel_has_no_sctp() {
        return;
    }
    for style in [Style::OneToOne, Style::OneToMany] {
        let (listening, port) = listener(style, &[2, 3]);
        let fd = listening.as_raw_fd();
        assert_eq!(local_addrs(fd, 0).expect("addresses").len(), 3);
        unbind(fd, &[local(3, port)]).expect("one less");
        let there = [local(1, port), local(2, port)];
        assert_eq!(local_addrs(fd, 0).expect("addresses"), there);

        let client = socket(style, false, Mode::Blocking).expect("a socket");
        let fd = client.as_raw_fd();
        bind(&client, &[local(4, 0), local(5, 0)]).expect("a free port");
        let own = local_addrs(fd, 0).expect("addresses")[0].port();
        let assoc = connect(fd, &there).expect("an association");
        let server = accept(style, &listening);

        assert_eq!(sorted(peer_addrs(fd, assoc)), there);
        assert_eq!(sorted(local_addrs(fd, assoc)), [local(4, own), local(5, own)]);
        assert_eq!(sorted(peer_addrs(server.as_raw_fd(), 0)), [local(4, own), local(5, own)]);
        let status = status(fd, assoc).expect("a status");
        assert_eq!((status.paths.len(), status.primary.addr), (2, there[0]));
        assert_eq!(status.primary.state, PathState::Active);
        assert_eq!(status.retransmitted, 0);
    }
}

fn sorted(list: io::Result<Vec<SocketAddr>>) -> Vec<SocketAddr> {
    let mut list = list.expect("addresses");
    list.sort();
    list
}

/// Options that were set are read back and apply to the association. The others have the kernel's
/// defaults: 3 s, 1 s, 60 s, and an acknowledgement after 200 ms or two packets (RFC 9260, 16).
#[test]
fn options_are_set_and_read_back() {
    if kernel_has_no_sctp() {
        return;
    }
    let (_listening, port) = listener(Style::OneToOne, &[]);
    let fd = socket(Style::OneToOne, false, Mode::Blocking).expect("a socket");
    let fd = fd.as_raw_fd();
    assert_eq!(rto(fd).expect("timeouts"), Rto { initial: 3_000, min: 1_000, max: 60_000 });
    assert_eq!(sack(fd).expect("a delay"), Sack { delay_ms: 200, packets: 2 });
    assert!(!nodelay(fd).expect("a flag"));
    set_nodelay(fd, true).expect("a flag");
    // Kernels round to their tick, which is 4 ms or 10 ms.
    let forty = Rto { initial: 40, min: 40, max: 40 };
    set_rto(fd, forty).expect("timeouts");
    set_opening(fd, Opening { out_streams: 3, ..Opening::default() }).expect("streams");
    connect(fd, &[local(1, port)]).expect("an association");
    assert!(nodelay(fd).expect("a flag"));
    assert_eq!(rto(fd).expect("timeouts"), forty);
    let status = status(fd, 0).expect("a status");
    assert_eq!((status.streams.1, status.primary.rto_ms), (3, 40));
    set_rto(fd, Rto { min: 20, ..Rto::default() }).expect("one of them");
    assert_eq!(rto(fd).expect("timeouts"), Rto { initial: 40, min: 20, max: 40 });
    assert!(set_rto(fd, Rto { min: 500, max: 40, initial: 0 }).is_err(), "min above max");
}

/// Without a listener, a connect is refused at once. An abort is an error, not the end of the
/// stream.
#[test]
fn refused_and_aborted_associations_are_errors() {
    if kernel_has_no_sctp() {
        return;
    }
    let (listening, port) = listener(Style::OneToOne, &[]);
    let client = connected(Style::OneToOne, &[local(1, port)]);
    let server = accept(Style::OneToOne, &listening);
    drop(listening);
    socket::close_how(server, prony_base::machine::CloseHow::Reset);
    assert_eq!(socket::read(&client, &mut [0; 10]), Read::Dead(libc::ECONNRESET));
    for style in [Style::OneToOne, Style::OneToMany] {
        let fd = socket(style, false, Mode::Blocking).expect("a socket");
        let start = Instant::now();
        let limit = Duration::from_secs(5);
        let refused = match style {
            Style::OneToOne => connect(fd.as_raw_fd(), &[local(1, port)]).map(drop),
            Style::OneToMany => {
                connect_and_peel_off(fd.as_raw_fd(), &[local(1, port)], Mode::Blocking, limit)
            }
        };
        let e = refused.expect_err("there is no listener");
        assert_eq!(e.raw_os_error(), Some(libc::ECONNREFUSED), "{style:?}");
        assert!(start.elapsed() < limit);
    }
}
