//! What strangers may send to a listener.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use prony_core::units::Nanos;

use super::hub::{Fate, Hub};
use super::wire::{self, Header, kind};
use super::*;
use crate::net::socket::sctp::Rto;

/// A listener, and a stranger's socket connected to its own.
fn listener() -> (Hub, u16, UdpSocket) {
    let settings = Settings { via: Via::Udp, udp_port: 0, rto: Rto::default() };
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = bind(at, settings).expect("a free port");
    let (port, to) = (listener.local().port(), listener.udp_port().expect("UDP"));
    let stranger = UdpSocket::bind(at).expect("a port");
    stranger.connect((Ipv4Addr::LOCALHOST, to)).expect("an address");
    stranger.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
    (Hub::listening(listener, 0), port, stranger)
}

fn init(port: u16, tag: u32) -> Vec<u8> {
    // Tag, receive window, streams there and back, first number.
    let mut value = tag.to_be_bytes().to_vec();
    value.extend_from_slice(&[0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]);
    wire::packet(Header { source: 7, destination: port, tag: 0 }, kind::INIT, 0, &value)
}

fn heard(hub: &mut Hub, stranger: &UdpSocket, packet: &[u8]) -> Fate {
    let from = stranger.local_addr().expect("an address");
    hub.receive(packet, from, Instant::now(), Nanos::ZERO)
}

fn answer(stranger: &UdpSocket) -> Vec<u8> {
    let mut buf = [0; 2_000];
    let n = stranger.recv(&mut buf).expect("an answer");
    buf[..n].to_vec()
}

/// Who only knocks fills the house, but not the memory; further ones are told so.
#[test]
fn no_more_are_let_in_than_there_is_room_for() {
    let (mut hub, port, stranger) = listener();
    for tag in 1..=1_024 {
        assert!(matches!(heard(&mut hub, &stranger, &init(port, tag)), Fate::Heard(_)), "{tag}");
    }
    assert_eq!(heard(&mut hub, &stranger, &init(port, 5_000)), Fate::Nothing);
    let told = answer(&stranger);
    let header = Header { source: port, destination: 7, tag: 5_000 };
    assert_eq!((Header::read(&told), wire::first(&told)), (Some(header), Some(kind::ABORT)));
    assert_eq!(hub.handles().len(), 1_024);
    // With one gone there is room for one.
    hub.remove(0).expect("it is there");
    assert!(matches!(heard(&mut hub, &stranger, &init(port, 5_000)), Fate::Heard(_)));
}

/// A packet that came twice on the way opens one association.
#[test]
fn a_double_of_the_first_packet_is_the_same_association() {
    let (mut hub, port, stranger) = listener();
    let first = heard(&mut hub, &stranger, &init(port, 77));
    assert_eq!(heard(&mut hub, &stranger, &init(port, 77)), first);
    assert_eq!(hub.handles().len(), 1);
}

#[test]
fn streams_that_were_not_agreed_on_end_the_association() {
    let (mut hub, port, stranger) = listener();
    let Fate::Heard(handle) = heard(&mut hub, &stranger, &init(port, 77)) else { panic!() };
    hub.flush(handle, Instant::now()).expect("it is there");
    let agreed = answer(&stranger);
    // The tag of the answer's value is the one that we must use from here on.
    let tag = u32::from_be_bytes(*agreed[16..].first_chunk().expect("a tag"));
    let header = Header { source: 7, destination: port, tag };
    let data = |stream: u8| {
        let value = [0, 0, 0, 9, 0, stream, 0, 0, 0, 0, 0, 0, b'x'];
        wire::packet(header, kind::DATA, 3, &value)
    };
    assert_eq!(heard(&mut hub, &stranger, &data(15)), Fate::Heard(handle));
    assert_eq!(heard(&mut hub, &stranger, &data(16)), Fate::Violated(handle));
    hub.say_abort(handle);
    assert_eq!(wire::first(&answer(&stranger)), Some(kind::ABORT));
}

/// Rubbish of all lengths, with a good checksum and without: no panic, and nobody is let in.
#[test]
fn rubbish_is_nobody() {
    let (mut hub, port, stranger) = listener();
    let mut state = 1_u32;
    for round in 0..20_000_u32 {
        let n = round as usize % 90;
        let mut packet: Vec<u8> = Vec::with_capacity(n);
        for _ in 0..n {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            packet.push((state >> 24) as u8);
        }
        if let [_, _, _, _, a, b, c, d, ..] = packet.as_mut_slice()
            && round.is_multiple_of(2)
        {
            [*a, *b, *c, *d] = [0; 4];
        }
        if packet.len() > 12 {
            packet[2..4].copy_from_slice(&port.to_be_bytes());
            // Chunks that are known, and some that are not.
            packet[12] %= 20;
        }
        wire::sign(&mut packet);
        let fate = heard(&mut hub, &stranger, &packet);
        if let Fate::Heard(handle) = fate {
            hub.remove(handle).expect("it is there");
        }
    }
    assert!(hub.is_empty());
}
