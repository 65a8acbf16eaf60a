//! How connections end: announced, suddenly, or by the client's own resets.

use prony_base::units::ConnId;
use prony_plan::plan::Http2Spec;
use prony_sim::server::{Connections, ServerModel};

use super::*;

/// The connections that end early.
const ENDED: u64 = 3;

/// GOAWAY in one or two steps, with or without an error, with four requests in flight: the two that
/// the server has accepted end there, the others on the next connection, with their intended start.
#[test]
fn goaways_move_what_the_server_has_not_accepted() {
    let steps: [(&str, Script); 3] = [
        ("in one step", |t| t.goaway(3, Code::NO_ERROR, "")),
        ("in two steps", |t| {
            t.goaway((1 << 31) - 1, Code::NO_ERROR, "").goaway(3, Code::NO_ERROR, "")
        }),
        ("with an error", |t| t.goaway(3, Code::ENHANCE_YOUR_CALM, "slow\r\ndown")),
    ];
    for (name, goaway) in steps {
        for setup in links() {
            let what = format!("{name}, seed {}", setup.seed);
            let (t, seen) = run(&plan(), &setup, &what, |turn| {
                if turn.conn >= ENDED {
                    turn.usual();
                    return;
                }
                match turn.event {
                    Event::Request(0..=2) => turn,
                    Event::Request(3) => goaway(turn).after(ms(100), 0),
                    // The next connection is open by now, however slow the link.
                    Event::Timer(0) => turn.on(1).ok().on(3).ok(),
                    _ => turn.usual(),
                };
            });
            assert_eq!((t.replies, t.failed), (REQUESTS, 0), "{what}: {:?}", t.faults);
            let http2 = t.http2.as_deref().expect("HTTP/2");
            assert_eq!((http2.moved, t.retries), (2 * ENDED, 2 * ENDED), "{what}");
            assert_eq!(seen.connections, ENDED + 1, "{what}");
            assert_eq!(http2.goaways.values().sum::<u64>() % ENDED, 0, "{what}");
            if name == "with an error" {
                assert_eq!(http2.goaways["ENHANCE_YOUR_CALM"], ENDED);
                assert_eq!(http2.goaway_texts["ENHANCE_YOUR_CALM"], "slow\\r\\ndown");
            }
            assert_eq!(goaways(&seen), [], "{what}: it was no error of the client's");
            for number in 0..ENDED {
                let at = |n, opened| {
                    let found = seen.life.iter().find(|life| (life.1, life.2) == (n, opened));
                    found.unwrap_or_else(|| panic!("{what}: {n} in {:?}", seen.life)).0
                };
                assert!(at(number + 1, true) < at(number, false), "{what}: {:?}", seen.life);
            }
        }
    }
}

/// A moved request counts from its intended start, not from the start of the second attempt.
#[test]
fn moved_requests_keep_their_intended_start() {
    let setup = Setup::new(Link::with_latency(ms(1)), 1);
    let (t, _) = run(&plan(), &setup, "late goaways", |turn| {
        match turn.event {
            Event::Request(3) if turn.conn == 0 => turn.after(ms(50), 0),
            Event::Timer(_) => turn.goaway(0, Code::NO_ERROR, ""),
            _ if turn.conn == 0 && turn.event != Event::Opened => turn,
            _ => turn.usual(),
        };
    });
    assert_eq!((t.replies, t.http2.as_deref().expect("HTTP/2").moved), (REQUESTS, 4));
    // Connect 2 ms, request 1 ms, 50 ms, goaway 1 ms, connect 2 ms, round trip 2 ms.
    assert_eq!(t.times.response.max(), Some(ms(58)));
    let slow = t.times.response.sum_ns() - u128::from((REQUESTS - 4) * ms(2).0);
    assert_eq!(slow, 4 * u128::from(ms(58).0));
}

/// A server that moves every request does not make the client open connections without end.
#[test]
fn requests_move_at_most_16_times() {
    let setup = links().next().expect("a fast link");
    let mut plan = plan();
    plan.stop.requests = Some(8);
    let (t, seen) = run(&plan, &setup, "goaways for ever", |turn| {
        match turn.event {
            Event::Request(_) => turn.goaway(0, Code::NO_ERROR, ""),
            _ => turn.usual(),
        };
    });
    assert_eq!((t.failed, t.fault(Fault::Refused)), (8, 8), "{:?}", t.faults);
    assert!(seen.connections <= 8 * 17, "{}", seen.connections);
    assert_eq!(t.http2.as_deref().expect("HTTP/2").moved, 8 * 17);
}

/// A connection that closes after a GOAWAY without the replies that it has announced.
#[test]
fn announced_replies_may_not_come() {
    for setup in links() {
        let (t, seen) = run(&plan(), &setup, "a broken promise", |turn| {
            match turn.event {
                Event::Request(0..=2) if turn.conn < ENDED => turn,
                Event::Request(3) if turn.conn < ENDED => {
                    turn.goaway(3, Code::NO_ERROR, "").close()
                }
                _ => turn.usual(),
            };
        });
        let lost = 2 * ENDED;
        assert_eq!((t.failed, t.fault(Fault::ClosedEarly)), (lost, lost), "{:?}", t.faults);
        assert_eq!(t.replies, REQUESTS - lost);
        assert_eq!(t.http2.as_deref().expect("HTTP/2").moved, lost);
        assert!(seen.connections > ENDED, "{}", seen.connections);
    }
}

/// The end within a reply is not the end before it.
#[test]
fn closes_within_and_before_replies() {
    for setup in links() {
        let (t, _) = run(&plan(), &setup, "closes", |turn| {
            match turn.event {
                Event::Request(0..=2) if turn.conn < ENDED => turn,
                Event::Request(3) if turn.conn < ENDED => {
                    turn.headers(false, &[(":status", "200")]).data(false, b"ab").close()
                }
                _ => turn.usual(),
            };
        });
        assert_eq!(t.fault(Fault::Truncated), ENDED, "{:?}", t.faults);
        assert_eq!(t.fault(Fault::ClosedEarly), 3 * ENDED, "{:?}", t.faults);
        assert_eq!((t.failed, t.replies), (4 * ENDED, REQUESTS - 4 * ENDED));
    }
}

/// A client whose requests time out must not look like an attack, and not blame the server for
/// requests that are in time: after 1,000 resets a connection takes no new ones, and the others on
/// it end as usual.
#[test]
fn timeouts_leave_a_connection_after_1000_resets() {
    let mut plan = posts(1);
    plan.pipeline = 100;
    plan.timeout = ms(20);
    plan.stop.requests = Some(6_000);
    let setup = Setup::new(Link::with_latency(Span::from_micros(50)), 1);
    let (t, seen) = run(&plan, &setup, "timeouts", |turn| {
        match turn.event {
            // Every second one has a reply, in time.
            Event::Request(n) if n % 2 == 0 => turn.after(ms(15), 0),
            Event::Timer(_) => turn.ok(),
            Event::Request(_) => turn,
            _ => turn.usual(),
        };
    });
    assert_eq!(t.failed, t.fault(Fault::RequestTimeout), "{:?}", t.faults);
    assert!(t.failed > 2_000 && t.replies > 2_000, "{} {}", t.failed, t.replies);
    let http2 = t.http2.as_deref().expect("HTTP/2");
    assert_eq!(http2.cancelled, t.failed);
    // Those that were in flight when the connection was full may be reset, too.
    assert!((1_000..=1_100).contains(&seen.resets_most), "{}", seen.resets_most);
    let most = seen.connections * 1_100;
    assert!(t.failed <= most && seen.connections <= t.failed / 900 + 1, "{}", seen.connections);
    assert_eq!(goaways(&seen), []);
}

/// The same after malformed replies.
#[test]
fn bad_replies_leave_a_connection_after_1000_resets() {
    let mut plan = plan();
    plan.stop.requests = Some(5_000);
    let setup = links().next().expect("a fast link");
    let (t, seen) = run(&plan, &setup, "bad replies", |turn| {
        match turn.event {
            Event::Request(_) => turn.headers(true, &[("a", "b")]),
            _ => turn.usual(),
        };
    });
    assert_eq!((t.failed, t.fault(Fault::BadHeader)), (5_000, 5_000));
    assert!(seen.resets_most <= 1_000 + 4, "{}", seen.resets_most);
    assert!((4..=5).contains(&seen.connections), "{}", seen.connections);
}

/// A server that does not answer pings is gone; each request on the connection fails with that.
#[test]
fn pings_without_an_answer() {
    let mut plan = plan();
    plan.http2 = Some(Box::new(Http2Spec { keepalive: Some(ms(30)), ..Http2Spec::default() }));
    let setup = links().next().expect("a fast link");
    let mut server = Server::new(Deaf(FrameServer::new(|turn: &mut Turn<'_>| {
        match turn.event {
            Event::Request(_) if turn.conn == 0 => turn,
            _ => turn.usual(),
        };
    })));
    let outcome = load(&plan, 1, &setup, &mut [&mut server]);
    assert_invariants(&outcome, "a deaf server");
    let t = outcome.main();
    assert_eq!((t.failed, t.fault(Fault::NoPong)), (4, 4), "{:?}", t.faults);
    assert_eq!((t.replies, t.connects), (REQUESTS - 4, 2));
}

/// A server that reads nothing on its first connection after the first request.
struct Deaf<F>(FrameServer<F>);

impl<F: FnMut(&mut Turn<'_>)> ServerModel for Deaf<F> {
    fn opened(&mut self, id: ConnId, conns: &mut Connections) {
        self.0.opened(id, conns);
    }

    fn received(&mut self, id: ConnId, data: &[u8], conns: &mut Connections) -> bool {
        self.0.seen().requests >= 4 && conns.accepted == 1 || self.0.received(id, data, conns)
    }

    fn request(&mut self, _: ConnId, _: u64, _: &[u8], _: &mut Connections) {
        unreachable!("it reads the bytes itself");
    }

    fn timer(&mut self, id: ConnId, number: u64, conns: &mut Connections) {
        self.0.timer(id, number, conns);
    }

    fn ended(&mut self, id: ConnId, conns: &mut Connections) {
        self.0.ended(id, conns);
    }
}
