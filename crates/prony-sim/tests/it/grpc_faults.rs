//! Scripted servers of gRPC: what they do wrong, one row each, and what the whole client counts.

use std::collections::{BTreeMap, VecDeque};

use prony_core::fault::Fault;
use prony_core::grpc::{Status, prefix};
use prony_core::http2::frame::{self, Code, flag, kind};
use prony_core::http2::{PREFACE, hpack};
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::plan::{CallSpec, Expect, GrpcCall, Load, Plan, Think};
use prony_core::units::{ConnId, Nanos, Span};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::world::Setup;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, closed, ms};

/// What a server sends for each call.
type Reply = fn(&mut Script);

/// The frames of one reply.
struct Script {
    stream: u32,
    out: Vec<u8>,
}

impl Script {
    fn headers(&mut self, ends: bool, fields: &[(&str, &str)]) -> &mut Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::encode_static(&mut block, name.as_bytes(), value.as_bytes());
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::header_block(&mut self.out, self.stream, flags, &block);
        self
    }

    /// The usual head.
    fn head(&mut self) -> &mut Self {
        self.headers(false, &[(":status", "200"), ("content-type", "application/grpc")])
    }

    fn data(&mut self, ends: bool, bytes: &[u8]) -> &mut Self {
        let flags = if ends { flag::END_STREAM } else { 0 };
        frame::head(&mut self.out, bytes.len(), kind::DATA, flags, self.stream);
        self.out.extend_from_slice(bytes);
        self
    }

    /// A message of 3 bytes with this flag and length in its prefix.
    fn message(&mut self, flag: u8, length: u32) -> &mut Self {
        let mut prefix = prefix(false, length);
        prefix[0] = flag;
        self.data(false, &[&prefix[..], b"abc"].concat())
    }

    fn status(&mut self, status: &str) -> &mut Self {
        self.headers(true, &[("grpc-status", status), ("grpc-message", "100 %25 %e2%82 %")])
    }
}

/// A server that sends the same reply to every call, when it has the whole request.
struct Server {
    reply: Reply,
    conns: BTreeMap<ConnId, Conn>,
    next: u32,
    actions: VecDeque<Action>,
    /// Streams that the client has reset, by code.
    resets: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct Conn {
    received: Vec<u8>,
    greeted: bool,
    out: Vec<u8>,
}

impl Server {
    fn new(reply: Reply) -> Self {
        let (conns, actions, resets) = Default::default();
        Self { reply, conns, next: 0, actions, resets }
    }

    /// Reads the frames that have arrived, and answers them.
    fn frames(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let mut at = 0;
        if !conn.greeted {
            if conn.received.len() < PREFACE.len() {
                return;
            }
            assert!(conn.received.starts_with(PREFACE));
            (conn.greeted, at) = (true, PREFACE.len());
            frame::settings(&mut conn.out, &[]);
        }
        while let Some(head) = frame::Head::read(&conn.received[at..]) {
            let end = at + frame::HEADER + head.length as usize;
            let Some(payload) = conn.received.get(at + frame::HEADER..end) else { break };
            at = end;
            let ends = matches!(head.kind, kind::HEADERS | kind::DATA);
            if ends && head.has(flag::END_STREAM) {
                let out = std::mem::take(&mut conn.out);
                let mut script = Script { stream: head.stream, out };
                (self.reply)(&mut script);
                conn.out = script.out;
            } else if head.kind == kind::SETTINGS && !head.has(flag::ACK) {
                frame::settings_ack(&mut conn.out);
            } else if head.kind == kind::RST_STREAM {
                let code = u32::from_be_bytes(payload.try_into().expect("four bytes"));
                *self.resets.entry(code).or_default() += 1;
            }
        }
        conn.received.drain(..at);
        if !conn.out.is_empty() {
            self.actions.push_back(Action::Transmit { id });
        }
    }
}

impl Machine for Server {
    fn on_connected(&mut self, _: ConnId, _: Nanos) {
        unreachable!("a server does not connect");
    }

    fn on_accepted(&mut self, _: u32, _: Nanos) -> Option<ConnId> {
        let id = ConnId { slot: self.next, generation: 0 };
        self.next += 1;
        self.conns.insert(id, Conn::default());
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], _: Nanos) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.received.extend_from_slice(data);
        }
        self.frames(id);
    }

    fn on_closed(&mut self, id: ConnId, _: Option<Fault>, _: Nanos) {
        if self.conns.remove(&id).is_some() {
            self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
        }
    }

    fn on_tick(&mut self, _: Nanos) {}

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let Some(conn) = self.conns.get_mut(&id) else { return true };
        let taken = if conn.out.is_empty() { 0 } else { send(&conn.out) };
        conn.out.drain(..taken);
        conn.out.is_empty()
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

fn plan(streams: bool) -> Plan {
    let call = CallSpec {
        method: "POST".into(),
        path: "/p.S/M".into(),
        authority: "server".into(),
        body: [&prefix(false, 2)[..], b"hi"].concat(),
        grpc: Some(Box::new(GrpcCall { streams, ..GrpcCall::default() })),
        ..CallSpec::default()
    };
    let mut plan = http2(closed(1, Think::None, ms(0)), 2, 3);
    plan.stop.requests = Some(40);
    plan.stop.duration = None;
    plan.calls = vec![call].into();
    plan.expect = Expect { statuses: vec![(0, 0)], ..Expect::default() };
    plan.timeout = Span::from_secs(1_000);
    assert!(matches!(plan.load, Load::Closed { .. }));
    plan
}

/// 40 calls over rough links, which split the bytes anywhere: all have this status and error.
#[track_caller]
fn row(streams: bool, reply: Reply, expected: Option<Status>, fault: Option<Fault>) -> Server {
    let plan = plan(streams);
    let mut last = None;
    for seed in 0..8 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 150);
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.rate = None;
        let mut server = Server::new(reply);
        let outcome = load(&plan, 1, &setup, &mut [&mut server]);
        assert_invariants(&outcome, "a scripted server");
        let t = outcome.main();
        let statuses: Vec<_> = expected.iter().map(|s| (u16::from(s.number()), 40)).collect();
        assert_eq!(t.statuses.into_iter().collect::<Vec<_>>(), statuses);
        match fault {
            None => assert_eq!((t.replies, t.failed), (40, 0)),
            Some(fault) => assert_eq!((t.failed, t.faults[fault as usize]), (40, 40), "{fault:?}"),
        }
        assert_eq!(t.connected, 2, "the connections go on");
        last = Some(server);
    }
    last.expect("a run")
}

#[test]
fn statuses_of_trailers_and_of_heads() {
    row(
        false,
        |s| {
            s.head().message(0, 3).status("0");
        },
        Some(Status::OK),
        None,
    );
    row(
        true,
        |s| {
            s.head().status("0");
        },
        Some(Status::OK),
        None,
    );
    let grpc = Some(Fault::GrpcStatus);
    row(
        false,
        |s| {
            s.head().message(0, 3).status("5");
        },
        Some(Status::NOT_FOUND),
        grpc,
    );
    let only: Reply = |s| {
        let fields =
            [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "14")];
        s.headers(true, &fields);
    };
    row(false, only, Some(Status::UNAVAILABLE), grpc);
    row(
        false,
        |s| {
            s.head().message(0, 3).status("17");
        },
        Some(Status::UNKNOWN),
        grpc,
    );
}

#[test]
fn replies_without_a_status() {
    let fault = Some(Fault::NoGrpcStatus);
    row(
        false,
        |s| {
            s.head().message(0, 3).data(true, b"");
        },
        Some(Status::UNKNOWN),
        fault,
    );
    let trailers: Reply = |s| {
        s.head().message(0, 3).headers(true, &[("x", "y")]);
    };
    row(false, trailers, Some(Status::UNKNOWN), fault);
}

#[test]
fn replies_of_http() {
    let grpc = Some(Fault::GrpcStatus);
    let of: [(Reply, Status); 3] = [
        (
            |s| {
                s.headers(true, &[(":status", "401")]);
            },
            Status::UNAUTHENTICATED,
        ),
        (
            |s| {
                s.headers(false, &[(":status", "503")]).data(true, b"busy");
            },
            Status::UNAVAILABLE,
        ),
        (
            |s| {
                let html = [(":status", "200"), ("content-type", "text/html")];
                s.headers(false, &html).data(true, b"hello");
            },
            Status::UNKNOWN,
        ),
    ];
    for (reply, status) in of {
        row(false, reply, Some(status), grpc);
    }
}

#[test]
fn malformed_messages() {
    let bad = Some(Fault::BadMessage);
    let internal = Some(Status::INTERNAL);
    row(
        false,
        |s| {
            s.head().status("0");
        },
        internal,
        bad,
    );
    row(
        false,
        |s| {
            s.head().message(0, 9).status("0");
        },
        internal,
        bad,
    );
    // What follows is not read: the stream is cancelled. The run ends with the last ones.
    let cancelled = |server: Server| {
        let resets = server.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
        assert!((34..=40).contains(&resets), "{resets}");
    };
    cancelled(row(
        false,
        |s| {
            s.head().message(0, 3).message(0, 3).status("0");
        },
        internal,
        bad,
    ));
    cancelled(row(
        false,
        |s| {
            s.head().message(1, 3).status("0");
        },
        internal,
        bad,
    ));
    cancelled(row(
        false,
        |s| {
            s.head().message(2, 3).status("0");
        },
        internal,
        bad,
    ));
    let huge: Reply = |s| {
        s.head().message(0, u32::MAX);
    };
    cancelled(row(true, huge, Some(Status::RESOURCE_EXHAUSTED), bad));
}

#[test]
fn resets_and_statuses() {
    let after: Reply = |s| {
        s.head().message(0, 3).status("0");
        frame::rst_stream(&mut s.out, s.stream, Code::NO_ERROR);
    };
    row(false, after, Some(Status::OK), None);
    let before: Reply = |s| {
        s.head().message(0, 3);
        frame::rst_stream(&mut s.out, s.stream, Code::INTERNAL_ERROR);
    };
    row(false, before, None, Some(Fault::StreamReset));
    let refused: Reply = |s| frame::rst_stream(&mut s.out, s.stream, Code::REFUSED_STREAM);
    row(false, refused, None, Some(Fault::Refused));
}

/// A call without a reply is cancelled at its timeout.
#[test]
fn the_timeout_cancels_a_call() {
    let mut plan = plan(false);
    plan.timeout = ms(20);
    let mut server = Server::new(|s| {
        s.head().message(0, 3);
    });
    let setup = Setup::new(Link::with_latency(Span::from_micros(100)), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a timeout");
    let t = outcome.main();
    assert_eq!((t.failed, t.fault(Fault::RequestTimeout)), (40, 40));
    // The run ends with the last ones.
    let resets = server.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
    assert!(t.connected == 2 && (34..=40).contains(&resets), "{resets}");
}
