//! Loads whose target cannot be reached end by themselves; others never do.

use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::units::{Nanos, Span};
use prony_core::engine::{Contact, PATIENCE};
use prony_plan::plan::{Plan, Stop, Think};
use prony_plan::schedule::Arrivals;
use prony_plan::target::Endpoint;
use prony_sim::link::{ConnectFaults, Link};
use prony_sim::load;
use prony_sim::server::{Server, ServiceTime, Station};
use prony_sim::world::Setup;
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::plans::{assert_invariants, at, closed, get, ms, open};
use crate::websocket::{schedule, websocket};

const ALWAYS: Nanos = Nanos(u64::MAX);
/// How long the loads would last.
const TIME: Span = Span::from_secs(20);
/// From the start to the end of a load that gives up.
const MOST: Span = Span(PATIENCE.0 + 500_000_000);

/// A perfect link to servers that are down: endpoint, from, until.
fn down(times: &[(u32, Nanos, Nanos)]) -> Link {
    Link { down: times.to_vec(), ..Link::with_latency(Span::from_micros(50)) }
}

/// The load on this link: when it ended, whether by itself, and its figures.
fn run(plan: &Plan, shares: u32, link: Link) -> (Nanos, bool, Tally) {
    let contact = Arc::new(Contact::default());
    let setup = Setup { contact: Some(Arc::clone(&contact)), ..Setup::new(link, plan.seed) };
    let station = || Server::new(Station::new(ServiceTime::Fixed(ms(10)), 100));
    let (mut one, mut two) = (station(), station());
    let outcome = load(plan, shares, &setup, &mut [&mut one, &mut two]);
    assert_invariants(&outcome, "contact");
    let end = outcome.world.finished.iter().copied().max().expect("a client");
    (end, contact.has_ended(), outcome.main())
}

fn assert_gives_up(plan: &Plan, shares: u32, link: Link, what: &str) {
    let (end, has_ended, t) = run(plan, shares, link);
    assert!(has_ended, "{what}");
    assert!(at(0) + PATIENCE <= end && end <= at(0) + MOST, "{what}: {end:?}");
    assert_eq!((t.replies, t.started), (0, t.failed + t.unfinished), "{what}");
    assert!(t.failed > 1, "{what}: what was seen is kept");
}

fn assert_goes_on(plan: &Plan, shares: u32, link: Link, what: &str) -> Tally {
    let (end, has_ended, t) = run(plan, shares, link);
    assert!(!has_ended && end >= at(0) + TIME, "{what}: {end:?}");
    t
}

fn users(n: u32) -> Plan {
    closed(n, Think::None, TIME)
}

/// Each user visits both endpoints in turn.
fn two_endpoints(mut plan: Plan) -> Plan {
    plan.endpoints.push(Endpoint::Tcp { host: "other".into(), port: 80 });
    let mut other = get("/other");
    other.endpoint = 1;
    plan.calls = vec![get("/"), other].into();
    plan
}

#[test]
fn refused_loads_of_every_kind_end_after_two_seconds() {
    let all = || down(&[(0, at(0), ALWAYS)]);
    let arrivals = |rate: f64| open(rate, Arrivals::Poisson, (rate * 20.0) as u64);
    for shares in [1, 3] {
        assert_gives_up(&users(6), shares, all(), "closed loop");
        assert_gives_up(&arrivals(100.0), shares, all(), "open loop");
        assert_gives_up(&http2(users(6), 6, 4), shares, all(), "HTTP/2");
        let socket = websocket(users(6), Some(schedule(100.0, 2)), None);
        assert_gives_up(&socket, shares, all(), "WebSocket");
        let thinks = closed(6, Think::Fixed(ms(300)), TIME);
        assert_gives_up(&thinks, shares, all(), "think time");
    }
    let mut counted = users(6);
    counted.stop = Stop { requests: Some(1_000_000), ..Stop::default() };
    assert_gives_up(&counted, 2, all(), "by number");
    let both = || down(&[(0, at(0), ALWAYS), (1, at(0), ALWAYS)]);
    assert_gives_up(&two_endpoints(users(6)), 2, both(), "both of two");
}

#[test]
fn unreachable_and_reset_connections_count_as_well() {
    for connect in [
        ConnectFaults { unreachable: 1.0, ..ConnectFaults::default() },
        ConnectFaults { reset: 1.0, ..ConnectFaults::default() },
        ConnectFaults { reset: 0.3, refused: 0.7, ..ConnectFaults::default() },
    ] {
        let link = Link { connect, ..Link::with_latency(ms(20)) };
        assert_gives_up(&users(6), 2, link, &format!("{connect:?}"));
    }
}

#[test]
fn one_refused_host_of_two_ends_nothing() {
    for (shares, is_down) in [(1, 0), (3, 0), (1, 1), (3, 1)] {
        let plan = two_endpoints(users(6));
        let t = assert_goes_on(&plan, shares, down(&[(is_down, at(0), ALWAYS)]), "one of two");
        assert!(t.replies > 0 && t.fault(Fault::ConnectRefused) > 0);
    }
}

#[test]
fn a_server_that_comes_up_after_a_second_is_waited_for() {
    for shares in [1, 3] {
        let late = || down(&[(0, at(0), at(1_000))]);
        let t = assert_goes_on(&users(6), shares, late(), "up after 1 s");
        assert!(t.replies > 0 && t.fault(Fault::ConnectRefused) > 0);
        let plan = open(50.0, Arrivals::Fixed, 1_000);
        let (_, has_ended, t) = run(&plan, shares, late());
        assert!(!has_ended && t.replies > 900, "{}", t.replies);
    }
}

#[test]
fn a_refusal_in_the_middle_of_a_run_ends_nothing() {
    let mut plan = users(6);
    plan.warmup = ms(1_000);
    for (shares, from) in [(1, 500), (3, 500), (1, 5_000), (3, 5_000)] {
        // Each request has its own connection, so that all of them are refused from then on.
        let mut link = down(&[(0, at(from), ALWAYS)]);
        link.reset = 0.2;
        let t = assert_goes_on(&plan, shares, link, "in the middle");
        assert!(t.fault(Fault::ConnectRefused) > 0, "{shares} {from}");
    }
}

/// What does not fail at once may still open.
#[test]
fn silent_servers_end_nothing() {
    let connect = ConnectFaults { unanswered: 1.0, ..ConnectFaults::default() };
    let mut plan = users(4);
    plan.connect_timeout = ms(500);
    let silent = || Link { connect, ..Link::with_latency(ms(1)) };
    assert_goes_on(&plan, 2, silent(), "connect timeouts");
    // The other host is refused, and this one takes longer than the patience.
    plan.connect_timeout = Span::from_secs(30);
    let mut link = silent();
    link.down = vec![(0, at(0), ALWAYS)];
    assert_goes_on(&two_endpoints(plan), 1, link, "refused or silent");
}

#[test]
fn lacking_resources_of_the_meter_end_nothing() {
    let connect = ConnectFaults { no_ports: 1.0, ..ConnectFaults::default() };
    let link = Link { connect, ..Link::with_latency(ms(1)) };
    assert_goes_on(&users(4), 2, link, "no ports");
}

/// Without the option, nothing changes.
#[test]
fn nobody_gives_up_unasked() {
    let mut server = Server::new(Station::new(ServiceTime::Fixed(ms(10)), 100));
    let setup = Setup::new(down(&[(0, at(0), ALWAYS)]), 1);
    let outcome = load(&users(6), 2, &setup, &mut [&mut server]);
    assert!(outcome.world.finished.iter().all(|&end| end >= at(0) + TIME));
}
