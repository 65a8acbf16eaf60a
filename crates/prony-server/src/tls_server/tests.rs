//! Tests of the responder with TLS, with a rustls client and a manual driver.

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;

use prony_base::frame::{HEADER, Header, Kind};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;
use crate::echo::{Echo, EchoBehavior};

fn identity() -> (Identity, Arc<ClientConfig>) {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["h".into()]).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Identity::new(&cert.pem(), &key.serialize_pem()).unwrap(), Arc::new(client))
}

/// The responder, with one listener with TLS and one without, and what a client has received.
struct Rig {
    tls_server: TlsServer<Echo>,
    client: ClientConfig,
    /// How many bytes the kernel accepts at a time.
    room: usize,
    got: Vec<u8>,
    closed: Vec<CloseHow>,
}

const NOW: Nanos = Nanos(7);

impl Rig {
    fn new(room: usize) -> Self {
        let (identity, client) = identity();
        let echo = Echo::new(EchoBehavior::default(), vec![false, false]);
        let tls_server = TlsServer::new(echo, identity, vec![true, false]);
        let client = Arc::unwrap_or_clone(client);
        Self { tls_server, client, room, got: Vec::new(), closed: Vec::new() }
    }

    fn client(&self) -> ClientConnection {
        let name = ServerName::try_from("h").unwrap();
        ClientConnection::new(Arc::new(self.client.clone()), name).unwrap()
    }

    /// Acts like a driver whose socket accepts `room` bytes and is writable again at once.
    fn act(&mut self) {
        while let Some(action) = self.tls_server.poll_action() {
            match action {
                Action::Transmit { id } => {
                    for _ in 0..1_000_000 {
                        let (room, mut full) = (self.room, false);
                        let all = self.tls_server.take_output(id, NOW, &mut |bytes| {
                            let n = if full { 0 } else { bytes.len().min(room) };
                            full |= n < bytes.len();
                            self.got.extend_from_slice(&bytes[..n]);
                            n
                        });
                        if all {
                            break;
                        }
                    }
                }
                Action::Close { how, .. } => self.closed.push(how),
                other => panic!("{other:?}"),
            }
        }
    }

    fn hear(&mut self, id: ConnId, mut bytes: &[u8]) {
        // In two pieces, so that records are cut.
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().div_ceil(2));
            self.tls_server.on_recv(id, &mut piece.to_vec(), NOW);
            self.act();
            bytes = rest;
        }
    }

    /// Carry bytes back and forth until neither side has any. Returns the plaintext that the client
    /// reads.
    fn exchange(&mut self, id: ConnId, client: &mut ClientConnection) -> Vec<u8> {
        let mut read = Vec::new();
        loop {
            let mut up = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut up).unwrap();
            }
            let down = std::mem::take(&mut self.got);
            if up.is_empty() && down.is_empty() {
                return read;
            }
            self.hear(id, &up);
            let mut down = &down[..];
            while !down.is_empty() {
                client.read_tls(&mut down).unwrap();
                client.process_new_packets().unwrap();
                match client.reader().read_to_end(&mut read) {
                    Ok(_) => {}
                    Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
                }
            }
        }
    }
}

fn message(sequence: u64, length: u32, reply: u32) -> Vec<u8> {
    let kind = Kind::Request { reply };
    let mut bytes = Header { kind, length, sequence }.bytes().to_vec();
    bytes.resize(bytes.len() + length as usize, 0xab);
    bytes
}

#[test]
fn replies_however_many_bytes_the_kernel_accepts_at_a_time() {
    for room in [1, 100, 20_000, usize::MAX] {
        let mut rig = Rig::new(room);
        let mut client = rig.client();
        let id = rig.tls_server.on_accepted(0, NOW).unwrap();
        // Replies of several records, and several of them in one write.
        let lengths = [9, 40_000, 70_000, 3];
        for (sequence, &reply) in (0..).zip(&lengths) {
            client.writer().write_all(&message(sequence, 500, reply)).unwrap();
        }
        let mut read = &rig.exchange(id, &mut client)[..];
        for (sequence, &length) in (0..).zip(&lengths) {
            let header = Header::read(&read[..HEADER]).unwrap();
            assert_eq!((header.sequence, header.length), (sequence, length), "{room}");
            read = &read[HEADER + length as usize..];
        }
        assert_eq!(read, [0; 0]);
        assert_eq!(rig.tls_server.inner().echoed().messages, 4);
        assert_eq!(rig.tls_server.handshakes(), Some(Handshakes { done: 1, failed: 0 }));
        // The client closes, and the server announces its close, too, if there is room for that.
        client.send_close_notify();
        rig.exchange(id, &mut client);
        assert_eq!(client.process_new_packets().unwrap().peer_has_closed(), room > 50, "{room}");
        assert_eq!(rig.closed, [CloseHow::Orderly]);
        rig.tls_server.on_closed(id, None, NOW);
        assert_eq!(rig.tls_server.inner().echoed().broken, 0);
    }
}

#[test]
fn sends_an_alert_to_clients_without_tls_and_closes() {
    let mut rig = Rig::new(usize::MAX);
    let id = rig.tls_server.on_accepted(0, NOW).unwrap();
    rig.hear(id, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(rig.got[0], 21, "an alert: {:?}", rig.got);
    assert_eq!(rig.closed, [CloseHow::Orderly]);
    assert_eq!(rig.tls_server.handshakes(), Some(Handshakes { done: 0, failed: 1 }));
}

#[test]
fn counts_clients_that_disconnect_during_the_handshake() {
    for why in [None, Some(Fault::Reset)] {
        let mut rig = Rig::new(usize::MAX);
        let mut client = rig.client();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let id = rig.tls_server.on_accepted(0, NOW).unwrap();
        rig.hear(id, &hello[..hello.len() / 2]);
        rig.tls_server.on_closed(id, why, NOW);
        rig.act();
        assert_eq!(rig.closed.len(), 1);
        assert_eq!(rig.tls_server.handshakes(), Some(Handshakes { done: 0, failed: 1 }));
    }
}

/// A client that does not trust the certificate rejects it, which ends the connection.
#[test]
fn counts_clients_that_reject_the_certificate() {
    let mut rig = Rig::new(usize::MAX);
    let stranger = Rig::new(1).client;
    let mut client = ClientConnection::new(Arc::new(stranger), ServerName::try_from("h").unwrap());
    let client = client.as_mut().unwrap();
    let id = rig.tls_server.on_accepted(0, NOW).unwrap();
    let mut up = Vec::new();
    client.write_tls(&mut up).unwrap();
    rig.hear(id, &up);
    let down = std::mem::take(&mut rig.got);
    client.read_tls(&mut &down[..]).unwrap();
    client.process_new_packets().unwrap_err();
    up.clear();
    client.write_tls(&mut up).unwrap();
    rig.hear(id, &up);
    assert_eq!(rig.closed, [CloseHow::Orderly]);
    assert_eq!(rig.tls_server.handshakes(), Some(Handshakes { done: 0, failed: 1 }));
}

/// A slot serves connections with and without TLS in turn.
#[test]
fn listeners_without_tls_stay_unencrypted() {
    let mut rig = Rig::new(usize::MAX);
    let first = rig.tls_server.on_accepted(0, NOW).unwrap();
    rig.tls_server.on_closed(first, Some(Fault::Reset), NOW);
    rig.act();
    let plain = rig.tls_server.on_accepted(1, NOW).unwrap();
    assert_eq!(plain.slot, first.slot);
    rig.hear(plain, &message(5, 10, 4));
    let header = Header::read(&rig.got[..HEADER]).unwrap();
    assert_eq!((header.sequence, header.length, rig.got.len()), (5, 4, HEADER + 4));
}

/// A client that does not read costs as little with TLS as without: the server stops to read from
/// it, and goes on when it reads.
#[test]
fn unread_answers_are_bounded_with_tls_too() {
    use crate::serve::{CONNECTION_BUDGET, Serve, ServerBehavior};

    let (identity, config) = identity();
    let serve = Serve::new(ServerBehavior::default(), 7);
    let mut server = TlsServer::new(serve, identity, vec![true]);
    let mut client = ClientConnection::new(config, ServerName::try_from("h").unwrap()).unwrap();
    let id = server.on_accepted(0, NOW).unwrap();
    let (mut paused, mut reads, mut room) = (false, false, usize::MAX);
    let (mut sent, mut read) = (0, Vec::new());
    let body = "x".repeat(16_000);
    let one = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 16000\r\n\r\n{body}");
    for round in 0..20_000 {
        let (mut up, mut down, mut yielded) = (Vec::new(), Vec::new(), false);
        if !paused && !client.is_handshaking() && room == 0 {
            client.writer().write_all(one.as_bytes()).unwrap();
            sent += 1;
        }
        while client.wants_write() {
            client.write_tls(&mut up).unwrap();
        }
        if !up.is_empty() {
            server.on_recv(id, &mut up, NOW);
        }
        let mut is_asked = room > 0 && round > 0;
        loop {
            if std::mem::take(&mut is_asked) {
                server.take_output(id, NOW, &mut |bytes| {
                    let n = bytes.len().min(room);
                    down.extend_from_slice(&bytes[..n]);
                    n
                });
            }
            match server.poll_action() {
                None if !std::mem::take(&mut yielded) => break,
                None => server.on_turn(NOW),
                Some(Action::Transmit { .. }) => is_asked = true,
                Some(Action::Pause { .. }) => paused = true,
                Some(Action::Resume { .. }) => paused = false,
                Some(Action::Yield) => yielded = true,
                Some(other) => panic!("{other:?}"),
            }
        }
        let mut down = &down[..];
        while !down.is_empty() {
            client.read_tls(&mut down).unwrap();
            client.process_new_packets().unwrap();
            drop(client.reader().read_to_end(&mut read));
        }
        // It reads nothing after the handshake, until it is slowed down.
        reads |= paused;
        room = if reads || round < 3 { usize::MAX } else { 0 };
        if paused {
            assert!(sent * 16_000 < CONNECTION_BUDGET + (1 << 20), "{sent} requests");
        }
        if server.inner().served().replies == sent as u64 && sent > 0 && !paused {
            break;
        }
    }
    let served = server.inner().served();
    assert!(served.pauses > 0 && sent * 16_000 > CONNECTION_BUDGET / 2, "{sent} {served:?}");
    assert_eq!((served.requests, served.replies), (sent as u64, sent as u64));
    assert_eq!(String::from_utf8_lossy(&read).matches(&body).count(), sent);
}
