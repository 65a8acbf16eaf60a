//! Packets from unknown peers to a listener.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use prony_base::units::Nanos;

use super::hub::{Hub, PacketEffect};
use super::wire::{self, Header, kind};
use super::*;
use crate::net::socket::sctp::Rto;

/// A hub with its SCTP port, and an unknown peer's socket connected to it.
fn listener() -> (Hub, u16, UdpSocket) {
    let settings = Settings { via: Via::Udp, udp_port: 0, rto: Rto::default() };
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = bind(at, settings).expect("a free port");
    let (port, to) = (listener.local().port(), listener.udp_port().expect("UDP"));
    let peer = UdpSocket::bind(at).expect("a port");
    peer.connect((Ipv4Addr::LOCALHOST, to)).expect("an address");
    peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
    (Hub::listening(listener, 0), port, peer)
}

fn init(port: u16, tag: u32) -> Vec<u8> {
    // Tag, receive window, outbound and inbound streams, initial TSN.
    let mut value = tag.to_be_bytes().to_vec();
    value.extend_from_slice(&[0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]);
    wire::packet(Header { source: 7, destination: port, tag: 0 }, kind::INIT, 0, &value)
}

fn deliver(hub: &mut Hub, peer: &UdpSocket, packet: &[u8]) -> PacketEffect {
    let from = peer.local_addr().expect("an address");
    hub.receive(packet, from, Instant::now(), Nanos::ZERO)
}

fn reply(peer: &UdpSocket) -> Vec<u8> {
    let mut buf = [0; 2_000];
    let n = peer.recv(&mut buf).expect("a reply");
    buf[..n].to_vec()
}

/// Associations that send only an INIT are limited; further ones are rejected with an ABORT.
#[test]
fn rejects_associations_over_the_limit() {
    let (mut hub, port, peer) = listener();
    for tag in 1..=1_024 {
        assert!(
            matches!(deliver(&mut hub, &peer, &init(port, tag)), PacketEffect::Received(_)),
            "{tag}"
        );
    }
    assert_eq!(deliver(&mut hub, &peer, &init(port, 5_000)), PacketEffect::None);
    let rejected = reply(&peer);
    let header = Header { source: port, destination: 7, tag: 5_000 };
    assert_eq!(
        (Header::read(&rejected), wire::first(&rejected)),
        (Some(header), Some(kind::ABORT))
    );
    assert_eq!(hub.handles().len(), 1_024);
    // After one is removed, one more is accepted.
    hub.remove(0).expect("it exists");
    assert!(matches!(deliver(&mut hub, &peer, &init(port, 5_000)), PacketEffect::Received(_)));
}

/// A duplicated INIT opens only one association.
#[test]
fn duplicate_init_opens_no_second_association() {
    let (mut hub, port, peer) = listener();
    let first = deliver(&mut hub, &peer, &init(port, 77));
    assert_eq!(deliver(&mut hub, &peer, &init(port, 77)), first);
    assert_eq!(hub.handles().len(), 1);
}

#[test]
fn data_on_unknown_streams_aborts_the_association() {
    let (mut hub, port, peer) = listener();
    let PacketEffect::Received(handle) = deliver(&mut hub, &peer, &init(port, 77)) else {
        panic!()
    };
    hub.flush(handle, Instant::now()).expect("it exists");
    let accepted = reply(&peer);
    // The tag in the reply's value is the tag for our packets.
    let tag = u32::from_be_bytes(*accepted[16..].first_chunk().expect("a tag"));
    let header = Header { source: 7, destination: port, tag };
    let data = |stream: u8| {
        let value = [0, 0, 0, 9, 0, stream, 0, 0, 0, 0, 0, 0, b'x'];
        wire::packet(header, kind::DATA, 3, &value)
    };
    assert_eq!(deliver(&mut hub, &peer, &data(15)), PacketEffect::Received(handle));
    assert_eq!(deliver(&mut hub, &peer, &data(16)), PacketEffect::Violation(handle));
    hub.send_abort(handle);
    assert_eq!(wire::first(&reply(&peer)), Some(kind::ABORT));
}

/// Random packets of all lengths with valid checksums: no panic, and no association.
#[test]
fn random_packets_open_no_association() {
    let (mut hub, port, peer) = listener();
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
            // Known and unknown chunk types.
            packet[12] %= 20;
        }
        wire::sign(&mut packet);
        let effect = deliver(&mut hub, &peer, &packet);
        if let PacketEffect::Received(handle) = effect {
            hub.remove(handle).expect("it exists");
        }
    }
    assert!(hub.is_empty());
}
