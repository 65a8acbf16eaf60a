//! Scripted servers of HTTP/2, and what the whole client counts.

use prony_core::fault::Fault;
use prony_core::http2::frame::Code;
use prony_core::plan::Think;
use prony_core::units::Span;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Event, FrameServer, Server, Turn};
use prony_sim::world::Setup;

use crate::http2::http2;
use crate::plans::{assert_invariants, closed, ms};

/// The type of DATA frames.
const DATA: u8 = 0;

/// One read brings the end of a stream and a violation that ends the connection. Each request of it
/// fails once, and none is lost.
#[test]
fn a_reset_and_a_violation_may_arrive_together() {
    let mut plan = http2(closed(1, Think::None, ms(50)), 1, 4);
    plan.timeout = Span::from_secs(1);
    let mut server = Server::new(FrameServer::new(|turn: &mut Turn<'_>| {
        match turn.event {
            // It is in flight when the connection ends.
            Event::Request(2) => turn,
            // DATA belongs to a stream (RFC 9113, 6.1).
            Event::Request(3) => turn.reset(Code::INTERNAL_ERROR).frame(DATA, 0, 0, b"abc"),
            _ => turn.usual(),
        };
    }));
    let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a reset before a violation");
    let t = outcome.main();
    assert!(t.connects > 3 && t.fault(Fault::RequestTimeout) == 0, "{:?}", t.faults);
    assert_eq!(t.started, t.replies + t.failed + t.unfinished);
}
