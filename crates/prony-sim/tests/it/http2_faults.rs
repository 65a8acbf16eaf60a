//! Scripted servers of HTTP/2, one row for each thing that they do: what the client answers on the
//! wire, what it counts, and that the load goes on.

mod connections;
mod goaways;
mod hostile;
mod settings;
mod streams;
mod windows;

use prony_base::fault::Fault;
use prony_base::http2::frame::{Code, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::units::Span;
use prony_plan::plan::{Plan, Think};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::rng::Rng;
use prony_sim::server::{Event, FrameServer, Seen, Server, Turn};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{assert_invariants, closed, ms};

/// Users, each with a stream, on one connection.
const STREAMS: u32 = 4;
/// Requests of a load.
const REQUESTS: u64 = 60;

/// What a server does at an event.
type Script = for<'a, 'b> fn(&'a mut Turn<'b>) -> &'a mut Turn<'b>;

/// A closed loop on one connection.
fn plan() -> Plan {
    let mut plan = http2(closed(1, Think::None, ms(0)), 1, STREAMS);
    (plan.stop.requests, plan.stop.duration) = (Some(REQUESTS), None);
    // Nothing here depends on it, unless a test sets it.
    plan.timeout = Span::from_secs(1_000);
    plan
}

/// The same with bodies of this many bytes.
fn posts(bytes: usize) -> Plan {
    let mut plan = plan();
    let mut call = plan.calls[0].clone();
    (call.method, call.body) = ("POST".into(), vec![b'x'; bytes]);
    plan.calls = vec![call].into();
    plan
}

/// A fast link, and rough ones that split the bytes anywhere and accept only parts of writes.
fn links() -> impl Iterator<Item = Setup> {
    let rough = (0..8).map(|seed| {
        let mut setup = Setup::new(Link::rough(&mut Rng::new(seed, 160)), seed);
        setup.link.rate = None;
        setup
    });
    std::iter::once(Setup::new(Link::with_latency(Span::from_micros(50)), 1)).chain(rough)
}

/// A load on a server with this script, over this link.
fn run(plan: &Plan, setup: &Setup, what: &str, script: impl FnMut(&mut Turn<'_>)) -> (Tally, Seen) {
    let mut server = Server::new(FrameServer::new(script));
    let outcome = load(plan, 1, setup, &mut [&mut server]);
    assert_invariants(&outcome, what);
    let (t, seen) = (outcome.main(), server.model().seen().clone());
    assert_eq!(t.started, t.replies + t.failed, "{what}: {:?}", t.faults);
    (t, seen)
}

/// How often the client has sent a GOAWAY with this code, if any other than of an orderly end.
fn goaways(seen: &Seen) -> Vec<(Code, u64)> {
    let errors = seen.goaways.iter().filter(|(code, _)| **code != Code::NO_ERROR.0);
    errors.map(|(code, n)| (Code(*code), *n)).collect()
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        encode_static(&mut out, name.as_bytes(), value.as_bytes());
    }
    out
}

/// One read brings the end of a stream and a violation that ends the connection. Each request of it
/// fails once, and none is lost.
#[test]
fn a_reset_and_a_violation_may_arrive_together() {
    let mut plan = http2(closed(1, Think::None, ms(50)), 1, 4);
    plan.timeout = Span::from_secs(1);
    let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
    let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
        match turn.event {
            // It is in flight when the connection ends.
            Event::Request(2) => turn,
            // DATA belongs to a stream (RFC 9113, 6.1).
            Event::Request(3) => turn.reset(Code::INTERNAL_ERROR).frame(kind::DATA, 0, 0, b"abc"),
            _ => turn.usual(),
        };
    }));
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a reset before a violation");
    let t = outcome.main();
    assert!(t.connects > 3 && t.fault(Fault::RequestTimeout) == 0, "{:?}", t.faults);
    assert_eq!(t.started, t.replies + t.failed + t.unfinished);
}
