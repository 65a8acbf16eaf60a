//! Regression tests for defects found in the virtual world, each reduced to a small case.

use prony_base::units::Span;
use prony_plan::plan::{Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;

use crate::plans::{assert_invariants, at, closed, ms, open};

fn station() -> Server<Station> {
    Server::new(Station::new(ServiceTime::Fixed(ms(1)), 1))
}

/// A share without arrivals had no deadline, and never finished.
#[test]
fn a_share_without_arrivals_finishes_at_once() {
    let plan = open(100.0, Arrivals::Fixed, 1);
    let outcome = load(&plan, 3, &Setup::default(), &mut [&mut station()]);
    assert_invariants(&outcome, "three shares of one request");
    assert_eq!(outcome.main().replies, 1);
    assert_eq!(outcome.world.finished, [at(1), at(0), at(0)]);
}

/// The wait for a full socket was recorded as send lag.
#[test]
fn waits_for_a_full_socket_are_not_send_lag() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 8);
    plan.pipeline = 8;
    if let prony_plan::plan::Load::Open { connections, .. } = &mut plan.load {
        *connections = 1;
    }
    // 20 bytes per 2 ms round trip; a request has about 40.
    let link = Link { window: Some(20), ..Link::with_latency(ms(1)) };
    let outcome = load(&plan, 1, &Setup::new(link, 1), &mut [&mut station()]);
    assert_invariants(&outcome, "a small window");
    let times = &outcome.main().times;
    assert_eq!((times.lag.count(), times.lag.sum_ns()), (8, 0));
    assert!(times.queue.max() >= Some(ms(5)), "{:?}", times.queue.max());
}

/// A connect was counted although the run ended before the driver got it.
#[test]
fn connects_that_never_reach_the_driver_are_not_counted() {
    // The meter's only call is so late that it starts a request and ends the run in the same call.
    let mut plan = open(1_000.0, Arrivals::Fixed, 2);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(ms(1)) };
    plan.timeout = ms(1);
    // Otherwise the request would have timed out.
    plan.timeout_from_send = true;
    let setup = Setup { timer_lateness: ms(500), ..Setup::default() };
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_invariants(&outcome, "one turn");
    let tally = outcome.main();
    assert_eq!((tally.started, tally.unfinished, tally.connects), (1, 1, 0));
    assert!(outcome.world.oracle.clients().is_empty(), "the driver got a connect");
}

/// A meter that was late by more than the timeout opened a connection for each request that was
/// due, or closed an open one, although the request had timed out.
#[test]
fn overdue_requests_take_no_connection() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 400);
    plan.timeout = ms(20);
    let setup = Setup { timer_lateness: ms(200), ..Setup::default() };
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_invariants(&outcome, "late calls");
    let tally = outcome.main();
    assert!(tally.overdue > 100, "{} of them", tally.overdue);
    assert!(tally.connects < tally.started - tally.overdue, "{} connects", tally.connects);
}

/// A connection that was requested in the warm-up and opened after it was counted in the
/// measurement, which then had more open connections than connects.
#[test]
fn connections_count_where_they_were_requested() {
    let mut plan = closed(3, Think::None, ms(50));
    plan.warmup = ms(5);
    plan.stop = Stop { requests: Some(6), sessions: None, duration: None };
    let setup = Setup::new(Link::with_latency(ms(4)), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_invariants(&outcome, "a slow connect");
    let (warm, main) = (outcome.warmup().unwrap(), outcome.main());
    assert_eq!((warm.connects, warm.connected), (3, 3));
    assert_eq!((main.connects, main.connected), (0, 0));
    assert_eq!(warm.times.connect.max(), Some(ms(8)));
    assert_eq!(main.times.connect.max(), None::<Span>);
}
