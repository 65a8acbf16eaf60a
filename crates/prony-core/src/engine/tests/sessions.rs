//! Tests of sessions with a minimal peer.

use super::*;
use prony_base::merge::Merge;
use prony_plan::plan::{Burst, Lost, OnFailure, SessionKind, Sessions};

fn burst(calls: &[u32], think: Think) -> Burst {
    Burst::of(calls.to_vec(), think)
}

/// `sessions` sessions of these bursts, one after another.
fn sequential(sessions: u64, bursts: Vec<Burst>) -> Plan {
    let mut plan = closed(1, 1);
    plan.stop = Stop { requests: None, sessions: Some(sessions), duration: None };
    plan.pipeline = 32;
    for _ in 1..5 {
        plan.calls.push(plan.calls[0].clone());
    }
    plan.sessions = Some(Sessions {
        connections: 4,
        ..Sessions::plain(vec![SessionKind { name: String::new(), weight: 1, bursts }])
    });
    plan
}

fn wanted(plan: &mut Plan) -> &mut Sessions {
    plan.sessions.as_mut().expect("it has sessions")
}

/// An engine that the test drives, with a text as its peer.
struct World {
    engine: Engine<Letters>,
    connecting: Vec<ConnId>,
    closed: Vec<(ConnId, CloseHow)>,
    sent: String,
    finished: bool,
}

impl World {
    fn new(plan: &Plan) -> Self {
        plan.check().expect("the plan is valid");
        let engine = Engine::new(plan, Letters);
        let closed = Vec::new();
        let mut world =
            Self { engine, connecting: Vec::new(), closed, sent: String::new(), finished: false };
        world.tick(0);
        world
    }

    fn poll(&mut self, now: u64) {
        let (actions, sent) = turn(&mut self.engine, ms(now));
        self.sent += &sent;
        self.connecting.extend(connect_of(&actions));
        for action in actions {
            match action {
                Action::Close { id, how } => self.closed.push((id, how)),
                Action::Finished => self.finished = true,
                _ => {}
            }
        }
    }

    fn tick(&mut self, now: u64) {
        self.engine.on_tick(ms(now));
        self.poll(now);
    }

    /// Opens the connection that was requested last.
    fn open(&mut self, now: u64) -> ConnId {
        let id = self.connecting.pop().expect("a connection is requested");
        self.engine.on_connected(id, ms(now));
        self.poll(now);
        id
    }

    fn hear(&mut self, id: ConnId, bytes: &str, now: u64) {
        self.engine.on_recv(id, &mut bytes.as_bytes().to_vec(), ms(now));
        self.poll(now);
    }

    fn lose(&mut self, id: ConnId, why: Option<Fault>, now: u64) {
        self.engine.on_closed(id, why, ms(now));
        self.poll(now);
    }

    /// What was sent since the last call.
    fn sent(&mut self) -> String {
        std::mem::take(&mut self.sent)
    }

    fn end(self) -> Tally {
        assert!(self.finished, "the run is over");
        self.engine.finish().1
    }
}

#[test]
fn a_session_runs_its_bursts_in_order_and_takes_its_round_trips() {
    let mut plan = sequential(2, vec![burst(&[0, 1, 2], Think::None), burst(&[3, 4], Think::None)]);
    wanted(&mut plan).kinds[0].bursts[0].lead = true;
    let mut w = World::new(&plan);
    for (n, from) in [(1, 0), (2, 13)] {
        let id = w.open(from + 3);
        assert_eq!(w.sent(), "?");
        w.hear(id, "!", from + 5);
        assert_eq!(w.sent(), "12", "requests after the first go in one write");
        w.hear(id, "!", from + 8);
        assert_eq!(w.sent(), "");
        w.hear(id, "!", from + 9);
        assert_eq!(w.sent(), "34", "no timer separates two bursts");
        w.hear(id, "!!", from + 13);
        // At the end of the run the driver closes the remaining connections.
        assert_eq!(w.closed.contains(&(id, CloseHow::Orderly)), n == 1);
    }
    let t = w.end();
    let s = t.sessions.as_ref().expect("sessions were counted");
    assert_eq!((s.started, s.completed, s.failed, s.unfinished), (2, 2, 0, 0));
    assert_eq!((s.lifetime.count(), s.lifetime.sum_ns()), (2, 26_000_000));
    assert_eq!((s.connections, &s.lengths), (2, &[(5, 2)].into()));
    assert_eq!((t.started, t.replies, t.end), (10, 10, ms(26)));
    // Each session: 5 ms for the first request, 3 and 4 for the two after it, 4 and 4.
    assert_eq!(t.times.response.sum_ns(), 40_000_000);
    // One connect each, of 3 ms, and the connections live as long as the sessions.
    assert_eq!(
        (t.connections.lifetimes.sum_ns(), t.connections.open_max, t.connections.opening_max),
        (26_000_000, 1, 1)
    );
}

/// Two kinds in turn; the second expects a status that does not come.
#[test]
fn counts_sessions_of_each_kind() {
    let mut plan = sequential(5, vec![]);
    let kind = |call| SessionKind {
        name: String::new(),
        weight: 1,
        bursts: vec![burst(&[call], Think::None)],
    };
    plan.sessions = Some(Sessions::plain(vec![kind(0), kind(1)]));
    plan.calls[1].expect =
        Some(Box::new(Expect { statuses: vec![(404, 404)], ..Expect::default() }));
    let mut w = World::new(&plan);
    for n in 0..5 {
        let id = w.open(10 * n);
        w.hear(id, "!", 10 * (n + 1));
    }
    let t = w.end();
    let s = t.sessions.as_ref().expect("sessions were counted");
    let of = |k: usize| {
        let kind = &s.kinds[k];
        (kind.started, kind.completed, kind.failed, kind.unfinished, kind.lifetime.sum_ns())
    };
    assert_eq!(s.kinds.len(), 2);
    assert_eq!([of(0), of(1)], [(3, 3, 0, 0, 30_000_000), (2, 0, 2, 0, 0)]);
    let mut both = t.clone();
    both.merge(&t);
    let kinds = &both.sessions.as_ref().expect("sessions").kinds;
    assert_eq!((kinds[0].completed, kinds[1].failed, kinds[0].lifetime.count()), (6, 4, 6));
    // A single kind is the whole.
    let mut w = World::new(&sequential(1, vec![burst(&[0], Think::None)]));
    let id = w.open(0);
    w.hear(id, "!", 1);
    assert!(w.end().sessions.expect("sessions were counted").kinds.is_empty());
}

#[test]
fn counts_a_pause_from_the_last_reply() {
    let think = Think::Fixed(Span::from_millis(10));
    let mut plan = sequential(1, vec![burst(&[0], think)]);
    wanted(&mut plan).kinds[0].bursts[0].repeat = 2;
    let mut w = World::new(&plan);
    let id = w.open(0);
    w.hear(id, "!", 4);
    assert_eq!((w.sent(), w.engine.deadline()), ("?".into(), Some(ms(14))));
    // The meter is late: the request was due at 14.
    w.tick(17);
    assert_eq!(w.sent(), "?");
    w.hear(id, "!", 20);
    let t = w.end();
    assert_eq!(t.times.response.sum_ns(), 4_000_000 + 6_000_000);
    assert_eq!(t.times.service.sum_ns(), 4_000_000 + 3_000_000);
    assert_eq!(t.times.lag.sum_ns(), 3_000_000);
    let s = t.sessions.expect("sessions");
    assert_eq!(s.lifetime.sum_ns(), 20_000_000, "no pause follows the last burst");
}

#[test]
fn users_pause_between_their_sessions() {
    let mut plan = sequential(2, vec![burst(&[0], Think::None)]);
    plan.load = Load::Closed { connections: 1, think: Think::Fixed(Span::from_millis(10)) };
    let mut w = World::new(&plan);
    let id = w.open(0);
    w.hear(id, "!", 4);
    assert_eq!((w.sent(), w.connecting.len()), ("?".into(), 0));
    assert_eq!(w.engine.deadline(), Some(ms(14)));
    w.tick(14);
    let id = w.open(14);
    w.hear(id, "!", 15);
    assert_eq!((w.sent(), w.end().sessions.expect("sessions").completed), ("?".into(), 2));
}

/// A change of the rate may bring sessions until the end, so the load is not over before.
#[test]
fn a_load_of_sessions_that_expects_changes_of_its_rate_lasts_to_its_end() {
    for expects in [false, true] {
        let mut plan = sequential(1, vec![burst(&[0], Think::None)]);
        let rate = RatePlan::constant(20.0);
        plan.load = Load::Open { rate, arrivals: Arrivals::Fixed, connections: 4 };
        let duration = Some(Span::from_millis(90));
        plan.stop = Stop { requests: None, sessions: None, duration };
        let mut w = World::new(&plan);
        if expects {
            w.engine.expect_rate_changes();
        }
        for now in 1..80 {
            w.tick(now);
            while !w.connecting.is_empty() {
                let id = w.open(now);
                w.hear(id, "!", now);
            }
        }
        assert_eq!(w.finished, !expects);
        w.tick(90);
        assert!(w.end().sessions.expect("sessions").completed > 0);
    }
}

#[test]
fn fills_the_first_connection_before_opening_the_second() {
    let mut plan = sequential(1, vec![burst(&[0, 1, 2, 3, 4], Think::None)]);
    plan.pipeline = 2;
    wanted(&mut plan).connections = 2;
    let mut w = World::new(&plan);
    assert_eq!(w.connecting.len(), 2);
    let second = w.open(0);
    assert_eq!(w.sent(), "23");
    let first = w.open(0);
    assert_eq!(w.sent(), "?1");
    w.hear(second, "!", 1);
    assert_eq!(w.sent(), "4", "the fifth takes the first free room");
    w.hear(second, "!!", 2);
    w.hear(first, "!!", 3);
    let t = w.end();
    assert_eq!(
        (t.replies, t.connects, t.connections.open_max, t.connections.opening_max),
        (5, 2, 2, 2)
    );
    assert_eq!((t.times.queue.count(), t.times.queue.sum_ns()), (1, 1_000_000));
    assert_eq!(t.sessions.expect("sessions").connections, 2);
}

#[test]
fn a_failed_request_ends_its_session_or_marks_it() {
    for (rule, replies) in [(OnFailure::End, 1), (OnFailure::Continue, 3)] {
        let mut plan =
            sequential(1, vec![burst(&[0, 1, 2], Think::None), burst(&[3], Think::None)]);
        plan.calls[1].expect =
            Some(Box::new(Expect { statuses: vec![(404, 404)], ..Expect::default() }));
        wanted(&mut plan).on_failure = rule;
        let mut w = World::new(&plan);
        let id = w.open(0);
        w.hear(id, "!!", 5);
        if rule == OnFailure::Continue {
            w.hear(id, "!", 6);
            assert_eq!(w.sent(), "?123");
            w.hear(id, "!", 7);
        }
        let t = w.end();
        assert_eq!((t.replies, t.fault(Fault::UnexpectedStatus)), (replies, 1), "{rule:?}");
        assert_eq!(t.fault(Fault::GivenUp), u64::from(rule == OnFailure::End));
        let s = t.sessions.expect("sessions");
        assert_eq!((s.completed, s.failed), (0, 1));
        assert_eq!(s.failtime.sum_ns(), if replies == 1 { 5_000_000 } else { 7_000_000 });
        assert_eq!(s.lengths, [(replies + 1, 1)].into());
    }
}

#[test]
fn resends_requests_of_a_lost_connection_by_the_plans_rule() {
    // A POST and two GETs; the connection receives one reply and is lost.
    let cases = [
        (Lost::Idempotent, true, 1, 0),
        (Lost::Resend, true, 2, 2),
        (Lost::Fail, true, 0, 0),
        (Lost::Resend, false, 0, 0),
    ];
    for (lost, served, again, replies) in cases {
        let mut plan = sequential(1, vec![burst(&[0], Think::None), burst(&[1, 2], Think::None)]);
        plan.calls[1].method = "POST".into();
        wanted(&mut plan).lost = lost;
        if !served {
            wanted(&mut plan).kinds[0].bursts.remove(0);
        }
        wanted(&mut plan).on_failure = OnFailure::Continue;
        let mut w = World::new(&plan);
        let id = w.open(0);
        if served {
            w.hear(id, "!", 1);
        }
        w.sent();
        w.lose(id, Some(Fault::Reset), 2);
        assert_eq!(w.connecting.len(), usize::from(again > 0), "{lost:?}");
        if again > 0 {
            let id = w.open(3);
            // The lost connection accepted one: so does the next, until it receives a reply.
            for k in 0..again as u64 {
                assert_eq!(w.sent().len(), 1);
                w.hear(id, "!", 4 + k);
            }
        }
        let t = w.end();
        assert_eq!((t.retries, t.fault(Fault::Reset)), (again as u64, 2 - again as u64));
        assert_eq!(t.connections.fault(Fault::Reset), 1, "each connection once");
        let s = t.sessions.expect("sessions");
        assert_eq!(s.completed, u64::from(replies > 0), "{lost:?}");
    }
}

#[test]
fn retries_an_unexpected_reply_a_limited_number_of_times() {
    for (retries, bad) in [(0, 1), (2, 3), (2, 2)] {
        let mut plan = sequential(1, vec![burst(&[0], Think::None)]);
        plan.expect.length = Some(0);
        wanted(&mut plan).retries = retries;
        let mut w = World::new(&plan);
        let id = w.open(0);
        for k in 0..bad {
            w.hear(id, "x", 1 + k);
        }
        if bad <= u64::from(retries) {
            w.hear(id, "!", 10);
        }
        let tries = bad + u64::from(bad <= u64::from(retries));
        assert_eq!(w.sent().len() as u64, tries);
        let t = w.end();
        let good = u64::from(bad <= u64::from(retries));
        assert_eq!((t.replies, t.failed, t.sent), (good, 1 - good, 1));
        assert_eq!((t.retries, t.statuses[&200]), (tries - 1, tries));
        assert_eq!(t.sessions.expect("sessions").lengths, [(tries, 1)].into());
    }
}

#[test]
fn sessions_wait_in_order_for_a_connection_at_the_limit() {
    let times = [0, 1, 2].map(Span::from_millis);
    let mut plan = sequential(3, vec![burst(&[0], Think::None), burst(&[1], Think::None)]);
    plan.load = Load::Open {
        rate: RatePlan::default(),
        arrivals: Arrivals::Trace(times.into()),
        connections: 1,
    };
    let mut w = World::new(&plan);
    for at in [1, 2] {
        w.tick(at);
    }
    assert_eq!(w.connecting.len(), 1);
    for k in 0..3 {
        let id = w.open(10 * k + 3);
        w.hear(id, "!", 10 * k + 5);
        w.hear(id, "!", 10 * k + 9);
        assert_eq!(w.sent(), "?1");
    }
    let t = w.end();
    let s = t.sessions.expect("sessions");
    assert_eq!((s.completed, t.connections.open_max), (3, 1));
    // From the arrivals: 9, 19 - 1 and 29 - 2.
    assert_eq!(s.lifetime.sum_ns(), (9 + 18 + 27) * 1_000_000);
    // The second waited from 1 to 9, the third from 2 to 19.
    assert_eq!(t.times.queue.sum_ns(), (8 + 17) * 1_000_000);
    assert_eq!(t.times.lag.sum_ns(), 0);
}

#[test]
fn the_end_of_the_load_leaves_sessions_unfinished() {
    let think = Think::Fixed(Span::from_millis(10));
    let mut plan = sequential(1, vec![burst(&[0], think), burst(&[1], Think::None)]);
    plan.load = Load::Closed { connections: 2, think: Think::None };
    plan.stop = Stop { requests: None, sessions: None, duration: Some(Span::from_millis(8)) };
    let mut w = World::new(&plan);
    let (a, b) = (w.open(1), w.open(1));
    w.hear(a, "!", 2);
    w.tick(8);
    assert!(!w.finished, "one request is in flight");
    w.hear(b, "!", 9);
    let t = w.end();
    let s = t.sessions.expect("sessions");
    assert_eq!((s.started, s.completed, s.failed, s.unfinished), (2, 0, 0, 2));
    assert_eq!((t.started, t.replies, t.replies_in_drain), (2, 2, 1));
    assert_eq!(t.end, ms(8));
}

#[test]
fn a_count_of_requests_ends_running_sessions() {
    let mut plan = sequential(1, vec![burst(&[0, 1, 2], Think::None)]);
    plan.stop = Stop { requests: Some(5), sessions: None, duration: None };
    let mut w = World::new(&plan);
    let id = w.open(0);
    w.hear(id, "!!!", 1);
    let id = w.open(2);
    assert_eq!(w.sent(), "?12?1");
    w.hear(id, "!!", 3);
    let t = w.end();
    let s = t.sessions.expect("sessions");
    assert_eq!((t.started, s.started, s.completed, s.unfinished), (5, 2, 1, 1));
    assert_eq!(t.end, ms(3));
}

#[test]
fn counts_timeouts_from_the_send_if_the_plan_says_so() {
    let mut plan = sequential(1, vec![burst(&[0, 1, 2], Think::None)]);
    plan.timeout = Span::from_millis(10);
    plan.timeout_from_send = true;
    plan.connect_timeout = Span::from_secs(1);
    plan.pipeline = 1;
    wanted(&mut plan).connections = 1;
    let mut w = World::new(&plan);
    w.tick(50);
    let id = w.open(100);
    w.hear(id, "!", 109);
    w.tick(111);
    assert_eq!(w.sent(), "?1");
    assert!(!w.finished, "the second was sent at 109 only");
    w.tick(119);
    let t = w.end();
    assert_eq!((t.replies, t.fault(Fault::RequestTimeout), t.fault(Fault::GivenUp)), (1, 1, 1));
    assert_eq!(t.connections.fault(Fault::RequestTimeout), 1);
    assert_eq!(t.sessions.expect("sessions").failed, 1);
}

#[test]
fn counts_calls_by_name() {
    let mut plan = sequential(2, vec![burst(&[0, 1, 0], Think::None)]);
    plan.names = vec!["first".into(), "second".into()];
    (plan.calls[0].name, plan.calls[1].name) = (Some(1), Some(0));
    let mut w = World::new(&plan);
    for k in 0..2 {
        let id = w.open(0);
        w.hear(id, "!", 1);
        w.hear(id, "!!", 3 + k);
    }
    let t = w.end();
    let counts: Vec<_> = t.names.iter().map(|n| (n.started, n.replies, n.failed)).collect();
    assert_eq!(counts, [(2, 2, 0), (4, 4, 0)]);
    assert_eq!(
        t.names[0].response.sum_ns() + t.names[1].response.sum_ns(),
        7_000_000 + 5_000_000 - 3_000_000
    );
}
