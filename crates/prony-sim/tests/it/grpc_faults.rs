//! Scripted servers of gRPC: what they do wrong, one row each, and what the whole client counts.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::grpc::{Status, prefix};
use prony_base::http2::frame::Code;
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Expect, GrpcCall, Load, Plan, Think};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Event, FrameServer, Seen, Server, Turn};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{Seed, assert_invariants, closed, ms};

/// What a server sends for each call.
type Reply = fn(&mut Script<'_, '_>);

/// The frames of one reply.
struct Script<'a, 'b>(&'a mut Turn<'b>);

impl Script<'_, '_> {
    fn headers(&mut self, ends: bool, fields: &[(&str, &str)]) -> &mut Self {
        self.0.headers(ends, fields);
        self
    }

    /// The usual head.
    fn head(&mut self) -> &mut Self {
        self.headers(false, &[(":status", "200"), ("content-type", "application/grpc")])
    }

    fn data(&mut self, ends: bool, bytes: &[u8]) -> &mut Self {
        self.0.data(ends, bytes);
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

    fn reset(&mut self, code: Code) -> &mut Self {
        self.0.reset(code);
        self
    }
}

/// A load on a server that sends the same reply to every call, when it has the whole request.
fn run(plan: &Plan, setup: &Setup, reply: Reply) -> (Tally, Seen) {
    let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| match turn.event {
        Event::Request(_) => reply(&mut Script(turn)),
        _ => {
            turn.usual();
        }
    }));
    let outcome = load(plan, 1, setup, &mut [&mut server]);
    assert_invariants(&outcome, "a scripted server");
    (outcome.main(), server.model().seen().clone())
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
fn row(streams: bool, reply: Reply, expected: Option<Status>, fault: Option<Fault>) -> Seen {
    let plan = plan(streams);
    let mut last = None;
    for seed in 0..8 {
        let _case = Seed(seed);
        let mut rng = Rng::new(seed, 150);
        let mut setup = Setup::new(Link::rough(&mut rng), seed);
        setup.link.rate = None;
        let (t, seen) = run(&plan, &setup, reply);
        let statuses: Vec<_> = expected.iter().map(|s| (u16::from(s.number()), 40)).collect();
        assert_eq!(t.statuses.iter().map(|(s, n)| (*s, *n)).collect::<Vec<_>>(), statuses);
        match fault {
            None => assert_eq!((t.replies, t.failed), (40, 0)),
            Some(fault) => assert_eq!((t.failed, t.fault(fault)), (40, 40), "{fault:?}"),
        }
        assert_eq!(t.connected, 2, "the connections go on");
        // What the server says, as far as it can be decoded.
        for text in t.http2.as_deref().expect("HTTP/2").grpc_messages.values() {
            assert_eq!(text, "100 % \u{fffd} %");
        }
        last = Some(seen);
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
    let cancelled = |seen: Seen| {
        let resets = seen.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
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
        s.head().message(0, 3).status("0").reset(Code::NO_ERROR);
    };
    row(false, after, Some(Status::OK), None);
    let before: Reply = |s| {
        s.head().message(0, 3).reset(Code::INTERNAL_ERROR);
    };
    row(false, before, None, Some(Fault::StreamReset));
    let refused: Reply = |s| {
        s.reset(Code::REFUSED_STREAM);
    };
    row(false, refused, None, Some(Fault::Refused));
}

/// A call without a reply is cancelled at its timeout. If the server's deadline is sooner, its
/// status counts: the first of the two does.
#[test]
fn the_first_of_two_deadlines_counts() {
    let setup = Setup::new(Link::with_latency(Span::from_micros(100)), 1);
    let mut plan = plan(false);
    plan.timeout = ms(20);
    let (t, seen) = run(&plan, &setup, |s| {
        s.head().message(0, 3);
    });
    assert_eq!((t.failed, t.fault(Fault::RequestTimeout)), (40, 40));
    assert!(t.statuses.is_empty(), "{:?}", t.statuses);
    // The run ends with the last ones.
    let resets = seen.resets.get(&Code::CANCEL.0).copied().unwrap_or(0);
    assert!(t.connected == 2 && (34..=40).contains(&resets), "{resets}");
    let (t, seen) = run(&plan, &setup, |s| {
        let head = [(":status", "200"), ("content-type", "application/grpc")];
        s.headers(true, &[&head[..], &[("grpc-status", "4")]].concat());
    });
    let statuses = BTreeMap::from([(u16::from(Status::DEADLINE_EXCEEDED.number()), 40)]);
    assert_eq!((t.fault(Fault::GrpcStatus), t.fault(Fault::RequestTimeout)), (40, 0));
    assert_eq!((t.statuses, seen.resets), (statuses, BTreeMap::new()));
}
