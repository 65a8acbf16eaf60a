//! Tests of requests that time out before the meter gets to them, because it was delayed.

use super::*;
use prony_plan::plan::{Burst, SessionKind, Sessions};

/// Twenty arrivals, one per millisecond, each with a timeout of 10 ms, on at most two connections.
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
fn a_delayed_meter_opens_no_connection_for_overdue_requests() {
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
fn overdue_requests_close_no_open_connection() {
    let mut e = Engine::new(&hurried(), Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(0));
    assert_eq!(turn(&mut e, ms(0)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(0));
    // Delayed until 19 ms: the arrivals of 1 to 9 ms are overdue, the ten others are not.
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
    // One waits for the second connection.
    assert_eq!((t.replies, t.unfinished, t.connects), (10, 1, 2));
}

/// The queue for connections empties at once, without a connection for each request.
#[test]
fn does_not_count_connections_that_the_driver_never_opened() {
    let mut e = Engine::new(&hurried(), Letters);
    for at in 0..6 {
        e.on_tick(ms(at));
    }
    // The driver was asked to open the first; the second connect is queued.
    assert!(matches!(e.poll_action(), Some(Action::Connect { .. })));
    e.on_tick(ms(100));
    let (actions, sent) = turn(&mut e, ms(100));
    assert_eq!((connect_of(&actions).len(), closes(&actions), sent.len()), (0, 0, 0));
    assert_eq!(actions, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.failed, t.overdue, t.connects), (20, 20, 15, 1));
}

/// Connections of an open loop are shared: a connect is not started again for each request that
/// times out waiting for it.
#[test]
fn a_slow_connect_serves_later_arrivals() {
    for each in [None, Some(1)] {
        let mut plan = hurried();
        plan.requests_per_connection = each;
        plan.connect_timeout = Span::from_millis(15);
        let mut e = Engine::new(&plan, Letters);
        e.on_tick(ms(0));
        let id = connect_of(&turn(&mut e, ms(0)).0)[0];
        for at in 1..=14 {
            e.on_tick(ms(at));
            // One more is allowed.
            assert_eq!(turn(&mut e, ms(at)).0.len(), usize::from(at == 1), "at {at} ms");
        }
        e.on_connected(id, ms(14));
        assert_eq!(turn(&mut e, ms(14)).1, if each.is_some() { "$" } else { "?" });
        e.on_stop(StopRequest::Now, ms(14));
        let (_, t) = e.finish();
        // The arrivals of 0 to 4 ms have timed out.
        assert_eq!((t.failed, t.sent, t.connects, t.connected), (5, 1, 2, 1));
    }
}

/// As [`hurried`], but each arrival is a session of two requests.
fn hurried_sessions(stop: Stop) -> Plan {
    let burst = Burst::of(vec![0, 0], Think::None);
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
    let sessions = t.sessions.expect("the plan has sessions");
    assert_eq!((sessions.started, sessions.failed), (20, 20));
    assert!(t.overdue >= 20, "{}", t.overdue);
}

/// They timed out before the end of the drain, so they are not cut off by it.
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
    let sessions = t.sessions.expect("the plan has sessions");
    assert_eq!((sessions.started, sessions.failed, sessions.unfinished), (20, 20, 0));
}
