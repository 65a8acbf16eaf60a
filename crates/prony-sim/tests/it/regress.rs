//! Defects that the virtual world found, each in the smallest world that shows it.

use prony_core::plan::{Stop, Think};
use prony_core::schedule::Arrivals;
use prony_core::units::Span;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::plant::{Law, Server, Station};
use prony_sim::world::Setup;

use crate::plans::{assert_conserved, at, closed, ms, open};

fn station() -> Server<Station> {
    Server::new(Station::new(Law::Fixed(ms(1)), 1))
}

/// A share without any arrival had nothing to wake up for and never was over.
#[test]
fn a_share_without_arrivals_is_over_at_once() {
    let plan = open(100.0, Arrivals::Fixed, 1);
    let outcome = load(&plan, 3, &Setup::default(), &mut [&mut station()]);
    assert_conserved(&outcome, "three shares of one request");
    assert_eq!(outcome.main().replies, 1);
    assert_eq!(outcome.ran.finished, [at(1), at(0), at(0)]);
}

/// The wait for room in a full socket was told as the meter's lateness.
#[test]
fn a_full_socket_is_no_lateness_of_the_meter() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 8);
    plan.pipeline = 8;
    if let prony_core::plan::Load::Open { connections, .. } = &mut plan.load {
        *connections = 1;
    }
    // Twenty bytes per 2 ms round trip; a request has some 40.
    let link = Link { window: Some(20), ..Link::with_latency(ms(1)) };
    let outcome = load(&plan, 1, &Setup::new(link, 1), &mut [&mut station()]);
    assert_conserved(&outcome, "a small window");
    let times = &outcome.main().times;
    assert_eq!((times.lag.count(), times.lag.sum_ns()), (8, 0));
    assert!(times.queue.max() >= Some(ms(5)), "{:?}", times.queue.max());
}

/// A connect that the end of the run kept from the driver was counted all the same.
#[test]
fn a_connect_that_nobody_was_asked_for_is_not_counted() {
    // The meter's only turn comes so late that it starts what is due and ends the run in one.
    let mut plan = open(1_000.0, Arrivals::Fixed, 2);
    plan.stop = Stop { requests: None, sessions: None, duration: Some(ms(1)) };
    plan.timeout = ms(1);
    // Else it would have failed by then.
    plan.timeout_from_send = true;
    let setup = Setup { late: ms(500), ..Setup::default() };
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_conserved(&outcome, "one turn");
    let tally = outcome.main();
    assert_eq!((tally.started, tally.unfinished, tally.connects), (1, 1, 0));
    assert!(outcome.ran.oracle.clients().is_empty(), "the driver was asked for a connection");
}

/// A meter that was away for longer than the timeout opened a connection for each request that was
/// due, or lost one that was open, only to find that its time was up.
#[test]
fn requests_that_are_overdue_take_no_connection() {
    let mut plan = open(1_000.0, Arrivals::Fixed, 400);
    plan.timeout = ms(20);
    let setup = Setup { late: ms(200), ..Setup::default() };
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_conserved(&outcome, "turns that come late");
    let tally = outcome.main();
    assert!(tally.overdue > 100, "{} of them", tally.overdue);
    assert!(tally.connects < tally.started - tally.overdue, "{} connects", tally.connects);
}

/// A connection that was asked for in the warm-up and opened after it was counted as opened in the
/// measurement, which had then more open connections than it had asked for.
#[test]
fn a_connection_belongs_to_the_section_that_asked_for_it() {
    let mut plan = closed(3, Think::None, ms(50));
    plan.warmup = ms(5);
    plan.stop = Stop { requests: Some(6), sessions: None, duration: None };
    let setup = Setup::new(Link::with_latency(ms(4)), 1);
    let outcome = load(&plan, 1, &setup, &mut [&mut station()]);
    assert_conserved(&outcome, "a slow connect");
    let (warm, main) = (outcome.warmup().unwrap(), outcome.main());
    assert_eq!((warm.connects, warm.connected), (3, 3));
    assert_eq!((main.connects, main.connected), (0, 0));
    assert_eq!(warm.times.connect.max(), Some(ms(8)));
    assert_eq!(main.times.connect.max(), None::<Span>);
}
