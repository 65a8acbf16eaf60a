//! Servers whose connections come to nothing: each is accepted, and ends before any reply. The
//! meter does not turn into a busy loop, and servers that only recycle their connections are not
//! slowed down.

use prony_base::fault::Fault;
use prony_base::http2::frame::Code;
use prony_base::units::Span;
use prony_plan::plan::{Load, Plan, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Event, FrameServer, Scripted, Server, ServiceTime, Station, Step};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{assert_invariants, closed, ms, open};
use crate::websocket::{schedule, websocket};

const USERS: u32 = 4;
/// How long each load lasts.
const TIME: Span = Span::from_secs(4);
/// The longest wait before a connect: the most that a user can wait is this, the least half of it.
const WAIT: Span = Load::AWAY_MAX;

fn setup(seed: u64) -> Setup {
    Setup::new(Link::with_latency(Span::from_micros(50)), seed)
}

/// A closed loop of this time.
fn users(n: u32) -> Plan {
    let mut plan = closed(n, Think::None, ms(0));
    plan.stop = Stop { duration: Some(TIME), ..Stop::default() };
    plan
}

/// The load against a server that closes each connection at once.
fn accept_and_close(plan: &Plan) -> Tally {
    let mut server = Server::new(Scripted::one(vec![Step::Close]));
    let outcome = load(plan, 1, &setup(plan.seed), &mut [&mut server]);
    assert_invariants(&outcome, "accept and close");
    outcome.main()
}

/// The load against a server of HTTP/2 that says goodbye as soon as a connection is open.
fn goodbye_at_once(plan: &Plan) -> Tally {
    let mut server = Server::new(FrameServer::new(|turn| {
        if turn.event == Event::Opened {
            turn.settings(&[]).goaway(0, Code::NO_ERROR, "").close();
        }
    }));
    let outcome = load(plan, 1, &setup(plan.seed), &mut [&mut server]);
    assert_invariants(&outcome, "goodbye at once");
    outcome.main()
}

/// Each of `chains` connects again at least half of [`WAIT`] after the last time, once the waits
/// have reached that, and keeps trying.
fn assert_bounded(t: &Tally, chains: u64, what: &str) {
    let most = chains * (TIME.0 / (WAIT.0 / 2) + 12);
    let least = chains * (TIME.0 / WAIT.0 / 2);
    assert!(
        (least..=most).contains(&t.connects),
        "{what}: {} connects, {least} to {most}",
        t.connects
    );
    assert!(t.connections.held > 0, "{what}");
    assert_eq!(t.replies, 0, "{what}");
}

#[test]
fn users_of_a_server_that_closes_each_connection_wait_before_the_next() {
    let t = accept_and_close(&users(USERS));
    assert_bounded(&t, USERS.into(), "HTTP/1.1");
    assert_eq!(t.fault(Fault::ClosedEarly), t.failed);
    let socket = websocket(users(USERS), Some(schedule(100.0, 2)), None);
    assert_bounded(&accept_and_close(&socket), USERS.into(), "WebSocket");
    let t = accept_and_close(&http2(users(USERS), USERS, 1));
    assert_bounded(&t, USERS.into(), "HTTP/2");
}

#[test]
fn requests_that_a_server_of_http2_never_takes_wait_before_each_connect() {
    for streams in [1, 8] {
        let t = goodbye_at_once(&http2(users(2), 2, streams));
        // A request is sent again sixteen times, then its user makes the next one at once.
        assert_bounded(&t, 4, &format!("{streams} streams"));
    }
}

/// Intended times do not move, and nothing of an open loop is held back that was not sent before.
#[test]
fn arrivals_of_an_open_loop_keep_their_times() {
    let plan = open(500.0, Arrivals::Fixed, 1_000);
    let t = accept_and_close(&plan);
    assert_eq!((t.started, t.failed, t.connects), (1_000, 1_000, 1_000));
    assert_eq!(t.connections.held, 0);
    assert!(t.times.lag.max() <= Some(Span::from_millis(1)), "{:?}", t.times.lag.max());
}

#[test]
fn servers_that_recycle_their_connections_are_not_slowed_down() {
    let mut plan = users(USERS);
    plan.stop = Stop { requests: Some(2_000), ..Stop::default() };
    for after in [1, 2, 50] {
        let station =
            Station::new(ServiceTime::Fixed(Span::from_micros(100)), 1).close_after(after);
        let mut server = Server::new(station);
        let outcome = load(&plan, 1, &setup(1), &mut [&mut server]);
        let t = outcome.main();
        assert_eq!((t.replies, t.connections.held), (2_000, 0), "after {after}: {:?}", t.faults);
    }
    // GOAWAY after three requests, and now and then at once.
    let mut server = Server::new(FrameServer::new(|turn| match turn.event {
        Event::Opened if turn.conn % 2 == 1 => {
            turn.settings(&[]).goaway(0, Code::NO_ERROR, "").close();
        }
        Event::Request(2) => _ = turn.ok().goaway(5, Code::NO_ERROR, ""),
        _ => _ = turn.usual(),
    }));
    let mut plan = http2(users(1), 1, 1);
    plan.stop = Stop { requests: Some(300), duration: None, sessions: None };
    let outcome = load(&plan, 1, &setup(2), &mut [&mut server]);
    let t = outcome.main();
    assert_eq!((t.replies, t.failed, t.connections.held), (300, 0, 0), "{:?}", t.faults);
    assert!(t.connects >= 150, "{}", t.connects);
}

#[test]
fn waits_are_random_and_depend_on_the_seed_alone() {
    let run = |seed| {
        let mut plan = users(USERS);
        plan.seed = seed;
        let t = accept_and_close(&plan);
        (t.connects, t.times.failed.sum_ns())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
