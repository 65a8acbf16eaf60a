//! Requests whose time is up before the meter comes to them, because it had none for them itself.

use super::*;
use crate::plan::{Burst, SessionKind, Sessions};

/// One arrival a millisecond, twenty of them, of which each has 10 ms; at most two connections.
fn hurried() -> Plan {
    let arrivals = Arrivals::Trace((0..20).map(Span::from_millis).collect());
    let load = Load::Open { rate: RatePlan::default(), arrivals, connections: 2 };
    let mut plan = plan(load, 20);
    plan.timeout = Span::from_millis(10);
    plan
}

fn closes(actions: &[Action]) -> usize {
    actions.iter().filter(|a| matches!(a, Action::Close { .. })).count()
}

#[test]
fn a_meter_that_was_away_opens_no_connection_for_what_is_overdue() {
    let mut e = Engine::new(&hurried(), Letters);
    e.on_tick(ms(1_000));
    assert_eq!(turn(&mut e, ms(1_000)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.sent, t.failed, t.overdue), (20, 0, 20, 20));
    assert_eq!((t.fault(Fault::RequestTimeout), t.connects), (20, 0));
    assert_eq!(t.times.response.count(), 20);
    assert_eq!(t.times.response.min(), Some(Span::from_millis(981)));
}

#[test]
fn what_is_overdue_costs_no_connection_that_is_open() {
    let mut e = Engine::new(&hurried(), Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(0));
    assert_eq!(turn(&mut e, ms(0)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(0));
    // Away until 19 ms: those of 1 to 9 ms are overdue, the ten others are not.
    e.on_tick(ms(19));
    let (actions, sent) = turn(&mut e, ms(19));
    assert_eq!((sent.as_str(), closes(&actions)), ("?", 0));
    for _ in 0..10 {
        e.on_recv(id, &mut b"!".to_vec(), ms(19));
        turn(&mut e, ms(19));
    }
    e.on_stop(StopRequest::Now, ms(20));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.overdue, t.failed), (20, 9, 9));
    // One waits for the second connection that there may be.
    assert_eq!((t.replies, t.unfinished, t.connects), (10, 1, 2));
}

/// The queue before the connections empties all at once, not by a connection for each request.
#[test]
fn connections_that_are_let_go_of_before_the_driver_heard_of_them_are_none() {
    let mut e = Engine::new(&hurried(), Letters);
    for at in 0..6 {
        e.on_tick(ms(at));
    }
    // The driver was asked for the first, and the second stands in line.
    assert!(matches!(e.poll_action(), Some(Action::Connect { .. })));
    e.on_tick(ms(100));
    let (actions, sent) = turn(&mut e, ms(100));
    assert_eq!((connect_of(&actions).len(), closes(&actions), sent.len()), (0, 0, 0));
    assert_eq!(actions, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.failed, t.overdue, t.connects), (20, 20, 15, 1));
}

/// A connection is nobody's own in an open loop: it is not begun again for each request that gives
/// up waiting for it.
#[test]
fn a_connection_that_opens_slowly_carries_those_that_came_later() {
    for each in [None, Some(1)] {
        let mut plan = hurried();
        plan.requests_per_connection = each;
        plan.connect_timeout = Span::from_millis(15);
        let mut e = Engine::new(&plan, Letters);
        e.on_tick(ms(0));
        let id = connect_of(&turn(&mut e, ms(0)).0)[0];
        for at in 1..=14 {
            e.on_tick(ms(at));
            // One other that may be opened.
            assert_eq!(turn(&mut e, ms(at)).0.len(), usize::from(at == 1), "at {at} ms");
        }
        e.on_connected(id, ms(14));
        assert_eq!(turn(&mut e, ms(14)).1, if each.is_some() { "$" } else { "?" });
        e.on_stop(StopRequest::Now, ms(14));
        let (_, t) = e.finish();
        // Those of 0 to 4 ms have had their time.
        assert_eq!((t.failed, t.sent, t.connects, t.connected), (5, 1, 2, 1));
    }
}

/// As [`hurried`], but each arrival is a session of two requests.
fn hurried_sessions(stop: Stop) -> Plan {
    let burst = Burst { calls: vec![0, 0], lead: false, think: Think::None, repeat: 1 };
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    let sessions = Some(Sessions::plain(vec![kind]));
    Plan { stop, sessions, ..hurried() }
}

#[test]
fn a_session_that_is_overdue_opens_no_connection() {
    let stop = Stop { requests: None, sessions: Some(20), duration: None };
    let mut e = Engine::new(&hurried_sessions(stop), Letters);
    e.on_tick(ms(1_000));
    assert_eq!(turn(&mut e, ms(1_000)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.sent, t.connects), (0, 0));
    let sessions = t.sessions.expect("there are some");
    assert_eq!((sessions.started, sessions.failed), (20, 20));
    assert!(t.overdue >= 20, "{}", t.overdue);
}

/// Their time was up before the end of the drain: it cuts nothing off.
#[test]
fn sessions_that_are_overdue_at_the_end_of_the_drain_have_failed() {
    let duration = Some(Span::from_millis(20));
    let stop = Stop { requests: None, sessions: None, duration };
    let mut e = Engine::new(&hurried_sessions(stop), Letters);
    e.on_tick(ms(1_000));
    assert_eq!(turn(&mut e, ms(1_000)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.sent, t.failed, t.unfinished), (40, 0, 40, 0));
    assert_eq!(t.times.response.count(), t.fault(Fault::RequestTimeout));
    let sessions = t.sessions.expect("there are some");
    assert_eq!((sessions.started, sessions.failed, sessions.unfinished), (20, 20, 0));
}
