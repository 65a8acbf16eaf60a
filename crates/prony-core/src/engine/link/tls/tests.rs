//! Tests of the engine over TLS, with a rustls server and a manual driver.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use crate::engine::Engine;
use crate::engine::tests::{closed, connect_of, ms};
use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine as _};
use prony_base::units::{ConnId, Nanos};
use prony_plan::plan::{
    Burst, Plan, Resume, SessionKind, Sessions, Stop, Think, TlsSpec, TlsVersion,
};
use prony_proto::layer::TlsContext;
use prony_proto::proto::h1::H1;
use prony_tally::record::Tally;

#[path = "../../../../../prony-proto/tests/identity/mod.rs"]
mod identity;

use identity::{Identity, identity};

const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An engine and the servers of its connections.
struct Rig {
    engine: Engine<H1>,
    config: Arc<ServerConfig>,
    servers: Vec<(ConnId, ServerConnection)>,
    /// What the servers have read of the current connection.
    read: Vec<u8>,
    /// Connections that were requested and are not open.
    asked: Vec<ConnId>,
    closed: Vec<CloseHow>,
    finished: bool,
}

impl Rig {
    fn new(plan: &Plan, config: ServerConfig) -> Self {
        let context = TlsContext::new(plan, Vec::new(), None).expect("a context");
        Self {
            engine: Engine::new(plan, H1::new(plan)).with_tls(Some(context)),
            config: Arc::new(config),
            servers: Vec::new(),
            read: Vec::new(),
            asked: Vec::new(),
            closed: Vec::new(),
            finished: false,
        }
    }

    /// Executes the engine's actions; its output goes to the servers.
    fn act(&mut self, now: Nanos) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Connect { .. } => self.asked.extend(connect_of(&[action])),
                Action::Close { how, .. } => self.closed.push(how),
                Action::Yield | Action::Pause { .. } | Action::Resume { .. } => {}
                Action::Finished => self.finished = true,
                Action::Transmit { id } => {
                    let mut sent = Vec::new();
                    self.engine.take_output(id, now, &mut |bytes| {
                        sent.extend_from_slice(bytes);
                        bytes.len()
                    });
                    let server = self.servers.iter_mut().find(|(of, _)| *of == id);
                    let (_, server) = server.expect("an open connection");
                    let mut rest = &sent[..];
                    while !rest.is_empty() {
                        server.read_tls(&mut rest).expect("room");
                        drop(server.process_new_packets());
                        // An error only means that there is no more.
                        drop(server.reader().read_to_end(&mut self.read));
                    }
                }
            }
        }
    }

    fn begin(&mut self, now: Nanos) {
        self.engine.on_tick(now);
        self.act(now);
    }

    /// Opens the requested connection.
    fn open(&mut self, now: Nanos) -> ConnId {
        let id = self.asked.remove(0);
        let server = ServerConnection::new(Arc::clone(&self.config)).expect("a server");
        self.servers.push((id, server));
        self.engine.on_connected(id, now);
        self.act(now);
        id
    }

    fn server(&mut self, id: ConnId) -> &mut ServerConnection {
        &mut self.servers.iter_mut().find(|(of, _)| *of == id).expect("a server").1
    }

    /// What the server has to send.
    fn output(&mut self, id: ConnId) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.server(id).wants_write() {
            self.server(id).write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    /// Lets the engine read bytes in pieces of that length.
    fn receive(&mut self, id: ConnId, bytes: &[u8], piece: usize, now: Nanos) {
        for part in bytes.to_vec().chunks_mut(piece) {
            self.engine.on_recv(id, part, now);
            self.act(now);
        }
    }

    /// Lets the engine read all that the server has to send.
    fn deliver(&mut self, id: ConnId, now: Nanos) {
        let bytes = self.output(id);
        self.receive(id, &bytes, usize::MAX, now);
    }

    /// The requests that the server has read.
    fn requests(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.read)).expect("text")
    }

    fn reply(&mut self, id: ConnId, text: &str) {
        self.server(id).writer().write_all(text.as_bytes()).expect("memory");
    }

    fn tally(self) -> Tally {
        self.engine.finish().1
    }
}

/// One user, `requests` requests, over TLS to `h`.
fn secured(requests: u64, spec: TlsSpec) -> Plan {
    let mut plan = closed(1, requests);
    let endpoint = plan.endpoints.remove(0).secured("h");
    plan.endpoints.push(endpoint);
    plan.tls = Some(Box::new(spec));
    plan
}

fn trusting(identity: &Identity) -> TlsSpec {
    TlsSpec { ca: Some(identity.pem.clone()), ..TlsSpec::default() }
}

/// The reason why the handshake fails, if the client trusts `trusted`.
fn refusal(identity: Identity, trusted: &str) -> String {
    let spec = TlsSpec { ca: Some(trusted.into()), ..TlsSpec::default() };
    let mut rig = Rig::new(&secured(1, spec), identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    rig.deliver(id, ms(2));
    assert_eq!(rig.closed, [CloseHow::Orderly]);
    let reason = rig.server(id).process_new_packets().expect_err("an alert says why").to_string();
    assert!(reason.contains("alert"), "{reason}");
    let t = rig.tally();
    assert_eq!((t.failed, t.fault(Fault::TlsHandshake), t.connected), (1, 1, 1));
    let tls = t.tls.expect("the reason");
    assert_eq!((tls.done(), tls.reasons.len()), (0, 1));
    tls.reasons.into_keys().next().expect("the reason")
}

#[test]
fn records_the_handshake_as_a_separate_phase() {
    let identity = identity(|_| {});
    let mut rig = Rig::new(&secured(2, trusting(&identity)), identity.config);
    rig.begin(ms(1));
    let id = rig.open(ms(4));
    rig.deliver(id, ms(9));
    assert!(rig.requests().starts_with("GET / HTTP/1.1\r\n"));
    rig.reply(id, REPLY);
    rig.deliver(id, ms(11));
    rig.reply(id, REPLY);
    rig.deliver(id, ms(12));
    assert!(rig.finished);
    let t = rig.tally();
    let range = |h: &prony_tally::record::hist::Hist| (h.count(), h.min(), h.max());
    let span = |n| Some(ms(n).since(ms(0)));
    assert_eq!(range(&t.times.connect), (1, span(3), span(3)));
    assert_eq!(range(&t.times.handshake), (1, span(5), span(5)));
    assert_eq!(range(&t.times.service), (2, span(1), span(2)));
    assert_eq!(range(&t.times.response), (2, span(1), span(10)));
    assert_eq!(t.times.lag.max(), span(0), "the handshake is not send lag");
    let tls = t.tls.expect("a handshake");
    assert_eq!((tls.full, tls.resumed, tls.reasons.len()), (1, 0, 0));
    assert_eq!(tls.kinds.keys().next().expect("a kind"), "TLS 1.3 TLS_AES_128_GCM_SHA256");
}

/// Full and resumed handshakes of ten connections, one after another.
fn handshakes(mut plan: Plan, identity: Identity) -> (u64, u64, String) {
    plan.requests_per_connection = Some(1);
    let mut rig = Rig::new(&plan, identity.config);
    rig.begin(ms(0));
    for k in 0..10 {
        let id = rig.open(ms(10 * k + 1));
        for step in 2..5 {
            rig.deliver(id, ms(10 * k + step));
        }
        assert!(rig.requests().contains("Connection: close"));
        rig.reply(id, REPLY);
        rig.deliver(id, ms(10 * k + 6));
        let ended = rig.server(id).process_new_packets().expect("orderly");
        // The last one ends with the run.
        assert!(ended.peer_has_closed() || k == 9, "the client announces the end");
    }
    assert!(rig.finished);
    let t = rig.tally();
    assert_eq!((t.replies, t.connected), (10, 10));
    let tls = t.tls.expect("handshakes");
    (tls.full, tls.resumed, tls.kinds.into_keys().next().expect("a kind"))
}

#[test]
fn sessions_are_resumed_or_not() {
    for (version, name) in [(TlsVersion::Tls12, "TLS 1.2"), (TlsVersion::Tls13, "TLS 1.3")] {
        for (resume, counts) in
            [(Resume::On, (1, 9)), (Resume::Off, (10, 0)), (Resume::Session, (1, 9))]
        {
            let mut identity = identity(|_| {});
            identity.config.ticketer = rustls::crypto::ring::Ticketer::new().expect("a ticketer");
            let spec = TlsSpec { version: Some(version), resume, ..trusting(&identity) };
            let (full, resumed, kind) = handshakes(secured(10, spec), identity);
            assert_eq!((full, resumed), counts, "{name} {resume}");
            assert!(kind.starts_with(name), "{kind}");
        }
    }
}

#[test]
fn sessions_of_the_plan_do_not_resume_tls_sessions_of_others_if_asked() {
    for (resume, counts) in
        [(Resume::On, (1, 9)), (Resume::Off, (10, 0)), (Resume::Session, (5, 5))]
    {
        let identity = identity(|_| {});
        let mut plan = secured(10, TlsSpec { resume, ..trusting(&identity) });
        plan.stop = Stop { requests: None, sessions: Some(5), duration: None };
        let burst = Burst { repeat: 2, ..Burst::of(vec![0], Think::None) };
        plan.sessions = Some(Sessions::plain(vec![SessionKind {
            name: String::new(),
            weight: 1,
            bursts: vec![burst],
        }]));
        let (full, resumed, _) = handshakes(plan, identity);
        assert_eq!((full, resumed), counts, "{resume}");
    }
}

#[test]
fn reads_records_in_pieces_of_any_size() {
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let identity = identity(|_| {});
        let spec = TlsSpec { version: Some(version), ..trusting(&identity) };
        let mut plan = secured(3, spec);
        plan.calls[0].body = vec![b'x'; 50_000];
        let mut rig = Rig::new(&plan, identity.config);
        rig.begin(ms(0));
        let id = rig.open(ms(1));
        for _ in 0..4 {
            let bytes = rig.output(id);
            rig.receive(id, &bytes, 1, ms(2));
        }
        let body = "y".repeat(40_000);
        for _ in 0..3 {
            assert!(rig.requests().ends_with(&"x".repeat(50_000)), "{version}");
            rig.reply(id, &format!("HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n{body}"));
            let bytes = rig.output(id);
            rig.receive(id, &bytes, 1_000, ms(3));
        }
        let t = rig.tally();
        assert_eq!((t.replies, t.bytes_body, t.failed), (3, 120_000, 0), "{version}");
    }
}

#[test]
fn refuses_a_bad_certificate_with_the_reason() {
    let good = identity(|_| {});
    let unknown = identity(|p| {
        p.distinguished_name.push(rcgen::DnType::CommonName, "somebody else");
    });
    let reason = "the server's certificate has an unknown issuer; trust the issuer with --cacert \
                  FILE, or use -k";
    assert_eq!(refusal(unknown, &good.pem), reason);
    let expired = identity(|p| p.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let pem = expired.pem.clone();
    assert_eq!(refusal(expired, &pem), "the server's certificate has expired");
    let other = identity(|p| {
        p.subject_alt_names =
            vec![rcgen::SanType::DnsName("g.example".try_into().expect("a name"))];
    });
    let pem = other.pem.clone();
    let reason = refusal(other, &pem);
    assert_eq!(reason, "the server's certificate is for g.example, not h");
    let authority = identity(|p| p.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    // An authority that is trusted may be the server itself; another may not.
    let reason = refusal(authority, &good.pem);
    assert!(reason.contains("unknown issuer") || reason.contains("CA:TRUE"), "{reason}");
}

#[test]
fn recognizes_a_server_without_tls() {
    for (bytes, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "the server does not speak TLS on this port"),
        (b"\x16\x03\x03\xff\xff", "the server sent a record that is longer than TLS allows"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "handshake_failure"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "protocol_version"),
    ] {
        let identity = identity(|_| {});
        let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
        rig.begin(ms(0));
        let id = rig.open(ms(1));
        rig.receive(id, bytes, 3, ms(2));
        let t = rig.tally();
        assert_eq!(t.fault(Fault::TlsHandshake), 1);
        let tls = t.tls.expect("a reason");
        assert!(tls.reasons.keys().all(|r| r.contains(expected)), "{:?}", tls.reasons);
    }
}

#[test]
fn counts_a_close_during_the_handshake_as_a_failed_handshake() {
    for why in [None, Some(Fault::Reset)] {
        let identity = identity(|_| {});
        let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
        rig.begin(ms(0));
        let id = rig.open(ms(1));
        let bytes = rig.output(id);
        rig.receive(id, &bytes[..bytes.len() / 2], usize::MAX, ms(2));
        rig.engine.on_closed(id, why, ms(3));
        rig.act(ms(3));
        let t = rig.tally();
        assert_eq!((t.fault(Fault::TlsHandshake), t.failed), (1, 1));
        let tls = t.tls.expect("a reason");
        assert!(
            tls.reasons.keys().all(|r| r.ends_with("during the handshake")),
            "{:?}",
            tls.reasons
        );
    }
}

#[test]
fn an_endless_handshake_ends_with_the_connect_timeout() {
    let identity = identity(|_| {});
    let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    let bytes = rig.output(id);
    // One byte every 100 ms: there is always progress, but never enough.
    for k in 0..49 {
        rig.receive(id, &bytes[k..=k], 1, ms(100 * k as u64 + 2));
    }
    assert_eq!(rig.engine.deadline(), Some(ms(5_000)));
    rig.engine.on_tick(ms(5_000));
    rig.act(ms(5_000));
    let t = rig.tally();
    assert_eq!((t.fault(Fault::ConnectTimeout), t.connected), (1, 1));
    let tls = t.tls.expect("a reason");
    assert_eq!(tls.reasons["the handshake was not complete within the timeout"], 1);
}

#[test]
fn late_tickets_do_not_extend_a_timeout() {
    let identity = identity(|_| {});
    let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    rig.deliver(id, ms(2));
    // The request is sent. The tickets arrive just before its timeout, and no reply.
    let tickets = rig.output(id);
    assert!(tickets.len() > 100, "tickets");
    // The timer of the connect is still in the heap.
    assert_eq!(rig.engine.deadline(), Some(ms(5_000)));
    rig.engine.on_tick(ms(5_000));
    rig.receive(id, &tickets, usize::MAX, ms(29_999));
    assert_eq!(rig.engine.deadline(), Some(ms(30_000)));
    rig.engine.on_tick(ms(30_000));
    rig.act(ms(30_000));
    assert_eq!(rig.tally().fault(Fault::RequestTimeout), 1);
}

#[test]
fn only_close_notify_ends_a_body_that_ends_with_the_connection() {
    for (says_so, fault) in [(true, None), (false, Some(Fault::Truncated))] {
        let identity = identity(|_| {});
        let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
        rig.begin(ms(0));
        let id = rig.open(ms(1));
        rig.deliver(id, ms(2));
        rig.reply(id, "HTTP/1.1 200 OK\r\n\r\nall of it");
        if says_so {
            rig.server(id).send_close_notify();
        }
        rig.deliver(id, ms(3));
        rig.engine.on_closed(id, None, ms(4));
        rig.act(ms(4));
        let t = rig.tally();
        assert_eq!(t.replies, u64::from(says_so));
        assert_eq!(fault.map_or(0, |f| t.fault(f)), u64::from(!says_so));
    }
}

#[test]
fn a_complete_reply_needs_no_close_notify() {
    let identity = identity(|_| {});
    let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    rig.deliver(id, ms(2));
    rig.reply(id, REPLY);
    rig.deliver(id, ms(3));
    rig.engine.on_closed(id, None, ms(4));
    let t = rig.tally();
    assert_eq!((t.replies, t.failed), (1, 0));
}

#[test]
fn counts_garbage_on_an_open_connection_as_a_record_error() {
    let identity = identity(|_| {});
    let mut rig = Rig::new(&secured(1, trusting(&identity)), identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    rig.deliver(id, ms(2));
    let record = [&[0x17, 3, 3, 0, 40][..], &[7; 40]].concat();
    rig.receive(id, &record, usize::MAX, ms(3));
    let t = rig.tally();
    assert_eq!((t.fault(Fault::TlsRecord), t.failed), (1, 1));
    let tls = t.tls.expect("a reason");
    assert_eq!(tls.reasons["the server sent a record that cannot be decrypted"], 1);
}

#[test]
fn a_request_counts_as_sent_with_the_record_in_which_it_starts() {
    let identity = identity(|_| {});
    let mut plan = secured(4, trusting(&identity));
    plan.pipeline = 2;
    plan.calls[0].body = vec![b'x'; 20_000];
    let mut rig = Rig::new(&plan, identity.config);
    rig.begin(ms(0));
    let id = rig.open(ms(1));
    let mut bytes = rig.output(id);
    rig.engine.on_recv(id, &mut bytes, ms(2));
    // The kernel accepts 1,000 bytes at a time: the second request starts in the second record.
    let mut taken = Vec::new();
    let mut sent_at = Vec::new();
    for k in 0..60 {
        let mut room = 1_000;
        let before = rig.engine.recorder().progress();
        rig.engine.take_output(id, ms(10 + k), &mut |bytes| {
            let n = bytes.len().min(room);
            room -= n;
            taken.extend_from_slice(&bytes[..n]);
            n
        });
        assert_eq!(before, rig.engine.recorder().progress());
        sent_at.push(rig.engine.links[id.slot].carried.sent);
    }
    let first_of_second = sent_at.iter().position(|&n| n == 2).expect("both are sent");
    // The client's own messages go first. The first record holds 16 KiB, and 20,000 bytes of body
    // reach into the second.
    assert!((16..=18).contains(&first_of_second), "{first_of_second}");
    let mut rest = &taken[..];
    let server = rig.server(id);
    let mut text = Vec::new();
    while !rest.is_empty() {
        server.read_tls(&mut rest).expect("room");
        server.process_new_packets().expect("records");
        drop(server.reader().read_to_end(&mut text));
    }
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.matches("GET / HTTP/1.1").count(), 2);
    assert_eq!(text.matches('x').count(), 40_000);
}
