//! Tests of the pacing of connects.

use super::*;
use prony_plan::plan::{Burst, SessionKind, Sessions};

/// The connections that are requested now, and whether the engine wants the sockets checked.
fn asked(e: &mut Engine<Letters>, now: Nanos) -> (Vec<ConnId>, bool) {
    let (actions, _) = turn(e, now);
    (connect_of(&actions), actions.contains(&Action::Yield))
}

/// All users of a closed loop make one request each. A turn takes 5 ms, a connect 1 ms, a reply
/// another one. The recorded times are those of the peer, however long the meter takes for the
/// other connections.
#[test]
fn p17_no_recorded_time_includes_the_connects_of_others() {
    let mut plans = vec![closed(40, 40)];
    let burst = Burst::of(vec![0], Think::None);
    let kind = SessionKind { name: String::new(), weight: 1, bursts: vec![burst] };
    let mut sessions = closed(40, 1);
    sessions.stop = Stop { requests: None, sessions: Some(40), duration: None };
    sessions.sessions = Some(Sessions::plain(vec![kind]));
    plans.push(sessions);
    for plan in plans {
        let mut e = Engine::new(&plan, Letters);
        e.on_tick(ms(0));
        let mut begun = Vec::new();
        let mut now = ms(0);
        loop {
            let (ids, yields) = asked(&mut e, now);
            for &id in &ids {
                e.on_connected(id, now + Span::from_millis(1));
                turn(&mut e, now + Span::from_millis(1));
            }
            for &id in &ids {
                e.on_recv(id, &mut b"!".to_vec(), now + Span::from_millis(2));
                let (actions, sent) = turn(&mut e, now + Span::from_millis(2));
                assert_eq!(
                    (connect_of(&actions).len(), sent.as_str()),
                    (0, ""),
                    "it had its quota"
                );
            }
            begun.push(ids.len());
            if !yields {
                break;
            }
            now = now + Span::from_millis(5);
            e.on_turn(now);
        }
        // Turns with replies are followed by larger batches.
        assert_eq!(begun, [16, 18, 6]);
        let (_, t) = e.finish();
        assert_eq!((t.started, t.replies, t.connects), (40, 40, 40));
        assert_eq!(t.times.connect.max(), Some(Span::from_millis(1)));
        assert_eq!(t.times.response.max(), Some(Span::from_millis(2)));
        assert_eq!((t.times.service.max(), t.times.lag.sum_ns()), (Some(Span::from_millis(1)), 0));
        assert_eq!(t.end, ms(12));
    }
}

/// In an open loop the wait for other connects is send lag, and no part of the connect time.
#[test]
fn p08_arrivals_that_wait_for_other_connects_have_send_lag() {
    let arrivals = Arrivals::Trace([Span::ZERO; 20].into());
    let load = Load::Open { rate: RatePlan::default(), arrivals, connections: 100 };
    let mut e = Engine::new(&plan(load, 20), Letters);
    e.on_tick(ms(0));
    for (now, expected) in [(0, (16, true)), (30, (4, false))] {
        if now > 0 {
            e.on_turn(ms(now));
        }
        let (ids, yields) = asked(&mut e, ms(now));
        assert_eq!((ids.len(), yields), expected);
        for &id in &ids {
            e.on_connected(id, ms(now + 1));
            turn(&mut e, ms(now + 1));
        }
        for &id in &ids {
            e.on_recv(id, &mut b"!".to_vec(), ms(now + 2));
            turn(&mut e, ms(now + 2));
        }
    }
    let (_, t) = e.finish();
    assert_eq!((t.replies, t.connects), (20, 20));
    assert_eq!(t.times.lag.max(), Some(Span::from_millis(30)));
    assert_eq!(t.times.lag.sum_ns(), 4 * 30_000_000);
    assert_eq!(t.times.connect.max(), Some(Span::from_millis(1)));
    assert_eq!(t.times.response.max(), Some(Span::from_millis(32)));
}

/// Arrivals that time out before their connection is opened are overdue, and none is opened for
/// them.
#[test]
fn arrivals_that_time_out_before_their_connect_open_nothing() {
    let arrivals = Arrivals::Trace([Span::ZERO; 50].into());
    let load = Load::Open { rate: RatePlan::default(), arrivals, connections: 100 };
    let mut plan = plan(load, 50);
    plan.timeout = Span::from_millis(10);
    // Their connect would have timed out before, if it had started.
    plan.connect_timeout = Span::from_millis(5);
    let mut e = Engine::new(&plan, Letters);
    e.on_tick(ms(0));
    let (ids, _) = asked(&mut e, ms(0));
    for &id in &ids {
        e.on_connected(id, ms(1));
        turn(&mut e, ms(1));
        e.on_recv(id, &mut b"!".to_vec(), ms(2));
        turn(&mut e, ms(2));
    }
    e.on_tick(ms(6));
    assert_eq!(turn(&mut e, ms(6)).0, []);
    e.on_tick(ms(11));
    assert_eq!(turn(&mut e, ms(11)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.replies, t.failed, t.overdue, t.connects), (16, 34, 34, 16));
    assert_eq!(t.fault(Fault::RequestTimeout), 34);
}

/// A number of requests is shared by all users: those who start first leave enough for the others.
#[test]
fn users_who_start_first_leave_requests_for_the_others() {
    let mut plan = closed(20, 45);
    plan.pipeline = 2;
    let mut e = Engine::new(&plan, Letters);
    e.on_tick(ms(0));
    let (ids, _) = asked(&mut e, ms(0));
    assert_eq!(ids.len(), 16);
    let mut sent = String::new();
    for &id in &ids {
        e.on_connected(id, ms(1));
        sent += &turn(&mut e, ms(1)).1;
    }
    for &id in &ids {
        e.on_recv(id, &mut b"!".to_vec(), ms(2));
        sent += &turn(&mut e, ms(2)).1;
    }
    // Forty users, of whom twenty-four have not started: five requests are left for those who have.
    assert_eq!(sent, "?".repeat(16 + 5));
    e.on_turn(ms(3));
    let (more, _) = asked(&mut e, ms(3));
    assert_eq!(more.len(), 4);
    e.on_stop(StopRequest::Now, ms(3));
    assert_eq!(e.finish().1.started, 45);
}

/// After a stop, no user starts.
#[test]
fn users_who_have_not_started_at_the_stop_never_start() {
    let mut e = Engine::new(&closed(40, 1_000), Letters);
    e.on_tick(ms(0));
    let (ids, _) = asked(&mut e, ms(0));
    e.on_stop(StopRequest::Drain, ms(1));
    turn(&mut e, ms(1));
    e.on_turn(ms(2));
    assert_eq!(turn(&mut e, ms(2)).0, []);
    for &id in &ids {
        e.on_connected(id, ms(3));
        turn(&mut e, ms(3));
        e.on_recv(id, &mut b"!".to_vec(), ms(4));
        turn(&mut e, ms(4));
    }
    let (_, t) = e.finish();
    assert_eq!((t.started, t.replies, t.connects), (16, 16, 16));
}

/// A few connects in a long time never wait for a check of the sockets.
#[test]
fn rare_connects_start_at_once() {
    let times: Vec<_> = (0..100).map(Span::from_millis).collect();
    let load = Load::Open {
        rate: RatePlan::default(),
        arrivals: Arrivals::Trace(times.into()),
        connections: 100,
    };
    let mut e = Engine::new(&plan(load, 100), Letters);
    for at in 0..100 {
        e.on_tick(ms(at));
        let (ids, yields) = asked(&mut e, ms(at));
        assert_eq!((ids.len(), yields), (1, false), "at {at} ms");
    }
}
