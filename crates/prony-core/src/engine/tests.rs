//! Tests of the engine with a manual driver and a protocol of single letters: a call is `?` (`1` is
//! the second call of a plan with two), a reply is `!`.

use super::*;
use prony_base::machine::{Action, CloseHow};
use prony_base::units::Span;
use prony_plan::plan::{CallSpec, Expect, Load, Stop, Think};
use prony_plan::schedule::{Arrivals, RatePlan};
use prony_plan::target::Endpoint;
use prony_proto::proto::{Call, Reply, Sink};

mod backlog;
mod clients;
mod directed;
mod exchange;
mod failures;
mod overdue;
mod pacing;
mod sessions;
mod streams;

pub(super) struct Letters;

impl Carrier for Letters {
    type Conn = ();

    fn capacity(&self, (): &(), in_flight: u32, limit: u32) -> u32 {
        limit.saturating_sub(in_flight)
    }

    fn submit(&mut self, (): &mut (), id: RequestId, call: Call<'_>, last: bool, out: &mut Out) {
        out.begin(id);
        out.bytes().push(match (last, call.index) {
            (true, _) => b'$',
            (false, 0) => b'?',
            (false, call) => b'0' + call as u8,
        });
    }

    fn receive(
        &mut self,
        (): &mut (),
        data: &[u8],
        _: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        for &byte in data {
            let Some((id, _)) = sink.oldest() else { return Err(Fault::Surplus) };
            match byte {
                b'!' | b'.' | b'x' => sink.done(
                    id,
                    &Reply {
                        status: 200,
                        head_bytes: 1,
                        framing_bytes: 0,
                        footer_bytes: 0,
                        body_bytes: u64::from(byte == b'x'),
                        interim: 0,
                        keeps_open: byte != b'.',
                        fault: None,
                    },
                ),
                b'~' => sink.began(id),
                _ => return Err(Fault::BadStatusLine),
            }
        }
        Ok(data.len())
    }

    fn end(&mut self, (): &mut (), _: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        if sink.oldest().is_some() { Err(Fault::ClosedEarly) } else { Ok(()) }
    }
}

pub(super) fn plan(load: Load, requests: u64) -> Plan {
    Plan::new(
        vec![Endpoint::Tcp { host: "h".into(), port: 1 }],
        vec![CallSpec {
            endpoint: 0,
            method: "GET".into(),
            path: "/".into(),
            authority: "h".into(),
            ..CallSpec::default()
        }],
        load,
        Stop { requests: Some(requests), sessions: None, duration: None },
    )
}

pub(super) fn closed(connections: u32, requests: u64) -> Plan {
    plan(Load::Closed { connections, think: Think::None }, requests)
}

pub(super) fn ms(n: u64) -> Nanos {
    Nanos(n * 1_000_000)
}

/// Polls all actions and transmits at once. Returns the other actions, and what was sent.
pub(super) fn turn(engine: &mut Engine<Letters>, now: Nanos) -> (Vec<Action>, String) {
    let (mut actions, mut sent) = (Vec::new(), Vec::new());
    while let Some(action) = engine.poll_action() {
        if let Action::Transmit { id } = action {
            let all = engine.take_output(id, now, &mut |bytes| {
                sent.extend_from_slice(bytes);
                bytes.len()
            });
            assert!(all);
        } else {
            actions.push(action);
        }
    }
    (actions, String::from_utf8(sent).unwrap())
}

pub(super) fn connect_of(actions: &[Action]) -> Vec<ConnId> {
    actions
        .iter()
        .filter_map(|a| if let Action::Connect { id, .. } = a { Some(*id) } else { None })
        .collect()
}

/// Encoding requests early must have no visible effect.
#[test]
fn sends_prepared_requests_once_with_the_time_of_the_write() {
    let mut e = Engine::new(&closed(1, 3), Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    for (sent, done) in [(2, 5), (7, 9), (9, 20)] {
        assert_eq!(e.poll_action(), Some(Action::Transmit { id }));
        e.prepare_output(id);
        e.prepare_output(ConnId { slot: id.slot, generation: id.generation + 1 });
        // If nothing fits, nothing is lost.
        assert!(!e.take_output(id, ms(sent), &mut |bytes| {
            assert_eq!(bytes, b"?");
            0
        }));
        e.prepare_output(id);
        let mut heard = Vec::new();
        assert!(e.take_output(id, ms(sent), &mut |bytes| {
            heard.extend_from_slice(bytes);
            bytes.len()
        }));
        assert_eq!(heard, b"?");
        e.prepare_output(id);
        assert!(e.take_output(id, ms(sent), &mut |_| panic!("nothing is left")));
        assert_eq!(e.poll_action(), None);
        e.on_recv(id, &mut b"!".to_vec(), ms(done));
    }
    assert_eq!(turn(&mut e, ms(20)).0, [Action::Finished]);
    let t = e.finish().1;
    assert_eq!((t.started, t.sent, t.replies, t.bytes_sent), (3, 3, 3, 3));
    assert_eq!(t.times.service.sum_ns(), (3 + 2 + 11) * 1_000_000);
}

#[test]
fn counts_the_connect_of_a_closed_loop_in_the_response_time_only() {
    let mut e = Engine::new(&closed(1, 2), Letters);
    assert_eq!(e.deadline(), Some(Nanos::ZERO));
    e.on_tick(ms(1));
    let id = connect_of(&turn(&mut e, ms(1)).0)[0];
    e.on_connected(id, ms(4));
    assert_eq!(turn(&mut e, ms(4)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(6));
    assert_eq!(turn(&mut e, ms(6)).1, "?");
    e.on_recv(id, &mut b"!".to_vec(), ms(9));
    assert_eq!(turn(&mut e, ms(9)).0, [Action::Finished]);
    let (warm, t) = e.finish();
    assert!(warm.is_none());
    assert_eq!((t.started, t.sent, t.replies, t.failed, t.unfinished), (2, 2, 2, 0, 0));
    assert_eq!((t.connects, t.connected, t.end), (1, 1, ms(9)));
    assert_eq!(t.times.response.sum_ns(), 8_000_000);
    assert_eq!(t.times.service.sum_ns(), 5_000_000);
    assert_eq!(t.times.connect.sum_ns(), 3_000_000);
    assert_eq!((t.times.lag.count(), t.times.lag.sum_ns()), (2, 0));
}

/// Every share makes all calls equally often, however fast it is.
#[test]
fn each_share_of_a_closed_loop_makes_all_calls() {
    let mut whole = closed(2, 8);
    whole.calls.push(whole.calls[0].clone());
    for (share, round) in ["?1?1", "1?1?"].into_iter().enumerate() {
        let mut e = Engine::new(&whole.shard(share as u32, 2), Letters);
        e.on_tick(ms(0));
        let id = connect_of(&turn(&mut e, ms(0)).0)[0];
        e.on_connected(id, ms(1));
        let mut sent = turn(&mut e, ms(1)).1;
        for at in 2..5 {
            e.on_recv(id, &mut b"!".to_vec(), ms(at));
            sent += &turn(&mut e, ms(at)).1;
        }
        assert_eq!(sent, round, "share {share}");
    }
}

#[test]
fn records_a_wait_in_the_queue_that_ends_with_a_timeout() {
    let arrivals = Arrivals::Trace([Span::ZERO, Span::from_millis(1)].into());
    let load = Load::Open { rate: RatePlan::default(), arrivals, connections: 1 };
    let mut plan = plan(load, 2);
    plan.timeout = Span::from_millis(10);
    plan.connect_timeout = Span::from_millis(30);
    let mut e = Engine::new(&plan, Letters);
    for at in [0, 1, 10, 11, 12] {
        e.on_tick(ms(at));
        turn(&mut e, ms(at));
    }
    let (_, t) = e.finish();
    assert_eq!((t.failed, t.sent), (2, 0));
    assert_eq!(t.times.queue.count(), 1, "the second waited for the connection limit");
    assert!(t.times.queue.max() >= Some(Span::from_millis(9)), "{:?}", t.times.queue.max());
}

#[test]
fn resends_pipelined_calls_of_a_closed_connection() {
    let mut p = closed(1, 4);
    p.pipeline = 4;
    let mut e = Engine::new(&p, Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    assert_eq!(turn(&mut e, ms(1)).1, "????");
    // One reply announces the close: three calls were not processed.
    e.on_recv(id, &mut b".".to_vec(), ms(2));
    let (actions, _) = turn(&mut e, ms(2));
    assert!(actions.contains(&Action::Close { id, how: CloseHow::Orderly }));
    let id = connect_of(&actions)[0];
    e.on_connected(id, ms(3));
    assert_eq!(turn(&mut e, ms(3)).1, "?", "the connection accepts one");
    e.on_recv(id, &mut b"!".to_vec(), ms(4));
    assert_eq!(turn(&mut e, ms(4)).1, "?", "it may accept another");
    e.on_closed(id, None, ms(5));
    let id = connect_of(&turn(&mut e, ms(5)).0)[0];
    e.on_connected(id, ms(6));
    assert_eq!(turn(&mut e, ms(6)).1, "?");
    // A connection without a reply.
    e.on_closed(id, None, ms(7));
    assert_eq!(turn(&mut e, ms(7)).0.last(), Some(&Action::Finished));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.sent, t.replies, t.failed, t.retries), (4, 4, 2, 2, 4));
    assert_eq!(t.fault(Fault::ClosedEarly), 2);
    assert_eq!(t.times.lag.max(), Some(Span::ZERO), "a wait for room is not send lag");
}

#[test]
fn retries_a_dead_target_with_backoff() {
    let mut e = Engine::new(&closed(1, 3), Letters);
    e.on_tick(ms(0));
    let mut now = ms(0);
    for wait in [1, 2] {
        let id = connect_of(&turn(&mut e, now).0)[0];
        e.on_closed(id, Some(Fault::ConnectRefused), now);
        assert_eq!(connect_of(&turn(&mut e, now).0), []);
        let next = now + Span::from_millis(wait);
        assert!(e.deadline().is_some_and(|d| d <= next));
        now = next;
        e.on_tick(now);
    }
    let id = connect_of(&turn(&mut e, now).0)[0];
    e.on_closed(id, Some(Fault::ConnectRefused), now);
    e.on_tick(now + Span::from_secs(1));
    assert_eq!(turn(&mut e, now).0.last(), Some(&Action::Finished));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.failed, t.connects, t.connected), (3, 3, 3, 0));
    assert_eq!(t.times.response.count(), 0);
    assert_eq!(t.times.failed.count(), 3);
}

#[test]
fn counts_timeouts_from_the_intended_start_and_as_latency() {
    let mut p = closed(1, 1);
    p.timeout = Span::from_millis(100);
    let mut e = Engine::new(&p, Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(10));
    turn(&mut e, ms(10));
    e.on_recv(id, &mut b"~".to_vec(), ms(50));
    assert_eq!(e.deadline(), Some(ms(100)));
    e.on_tick(ms(101));
    let (actions, _) = turn(&mut e, ms(101));
    assert_eq!(actions, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.replies, t.failed, t.fault(Fault::RequestTimeout)), (0, 1, 1));
    assert_eq!(t.times.response.max(), Some(Span::from_millis(101)));
    assert_eq!(t.times.service.max(), Some(Span::from_millis(91)));
}

#[test]
fn stamps_bytes_that_the_kernel_did_not_accept_when_they_are_sent() {
    let mut p = closed(1, 3);
    p.pipeline = 3;
    let mut e = Engine::new(&p, Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(0));
    assert_eq!(e.poll_action(), Some(Action::Transmit { id }));
    let mut room = 1;
    let mut send = |bytes: &[u8]| {
        let n = bytes.len().min(room);
        room -= n;
        n
    };
    assert!(!e.take_output(id, ms(0), &mut send));
    e.on_recv(id, &mut b"!".to_vec(), ms(2));
    assert!(e.take_output(id, ms(5), &mut |bytes| bytes.len()));
    turn(&mut e, ms(5));
    e.on_recv(id, &mut b"!!".to_vec(), ms(6));
    assert_eq!(turn(&mut e, ms(6)).0.last(), Some(&Action::Finished));
    let (_, t) = e.finish();
    assert_eq!((t.replies, t.bytes_sent), (3, 3));
    // 2 ms, and twice 6 ms of which 5 were spent waiting for room in the socket.
    assert_eq!(t.times.response.sum_ns(), 14_000_000);
    assert_eq!(t.times.service.sum_ns(), 4_000_000);
    assert_eq!(t.times.queue.sum_ns(), 10_000_000);
    assert_eq!(t.times.lag.sum_ns(), 0);
}

#[test]
fn stop_now_counts_everything() {
    let mut e = Engine::new(&closed(5, 1_000), Letters);
    e.on_tick(ms(0));
    let ids = connect_of(&turn(&mut e, ms(0)).0);
    e.on_connected(ids[0], ms(1));
    turn(&mut e, ms(1));
    e.on_recv(ids[0], &mut b"!".to_vec(), ms(2));
    turn(&mut e, ms(2));
    e.on_stop(StopRequest::Now, ms(3));
    assert_eq!(turn(&mut e, ms(3)).0, [Action::Finished]);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.replies, t.failed, t.unfinished), (6, 1, 0, 5));
    assert_eq!(t.end, ms(3));
}

#[test]
fn drain_ends_with_the_timeout_of_the_last_request() {
    let mut e = Engine::new(&closed(2, 1_000), Letters);
    e.on_tick(ms(0));
    let ids = connect_of(&turn(&mut e, ms(0)).0);
    for &id in &ids {
        e.on_connected(id, ms(1));
    }
    turn(&mut e, ms(1));
    // The first user's second request.
    e.on_recv(ids[0], &mut b"!".to_vec(), ms(7));
    turn(&mut e, ms(7));
    assert_eq!(e.drain_end(), None);
    e.on_stop(StopRequest::Drain, ms(9));
    let timeout = closed(2, 1_000).timeout;
    assert_eq!(e.drain_end(), Some(ms(7) + timeout), "not the time of the stop plus the timeout");
    e.on_tick(ms(7) + timeout);
    turn(&mut e, ms(7) + timeout);
    assert_eq!(e.drain_end(), None);
    let (_, t) = e.finish();
    assert_eq!((t.started, t.replies, t.failed, t.unfinished), (3, 1, 2, 0));
}

#[test]
fn limits_requests_per_connection() {
    let mut p = closed(1, 4);
    p.requests_per_connection = Some(2);
    let mut e = Engine::new(&p, Letters);
    e.on_tick(ms(0));
    let mut wire = String::new();
    for round in 0..2 {
        let (actions, _) = turn(&mut e, ms(round));
        let id = connect_of(&actions)[0];
        e.on_connected(id, ms(round));
        for _ in 0..2 {
            wire += &turn(&mut e, ms(round)).1;
            e.on_recv(id, &mut b"!".to_vec(), ms(round));
        }
    }
    assert_eq!(wire, "?$?$");
    assert_eq!(turn(&mut e, ms(3)).0.last(), Some(&Action::Finished));
    assert_eq!(e.finish().1.connects, 2);
}

#[test]
fn refills_a_pipeline_when_half_of_it_is_free() {
    let mut p = closed(1, 100);
    p.pipeline = 8;
    let mut e = Engine::new(&p, Letters);
    e.on_tick(ms(0));
    let id = connect_of(&turn(&mut e, ms(0)).0)[0];
    e.on_connected(id, ms(1));
    assert_eq!(turn(&mut e, ms(1)).1, "????????");
    let steps = [(2, "!", ""), (3, "!!", ""), (4, "!", "????"), (5, "!!!!!!!", "???????")];
    for (at, replies, sent) in steps {
        e.on_recv(id, &mut replies.as_bytes().to_vec(), ms(at));
        assert_eq!(turn(&mut e, ms(at)).1, sent, "at {at} ms");
    }
    // They start when they are sent: no lag.
    e.on_stop(StopRequest::Now, ms(6));
    let (_, t) = e.finish();
    assert_eq!((t.started, t.replies, t.times.lag.max()), (19, 11, Some(Span::ZERO)));
}

#[test]
fn does_not_check_the_bodies_of_replies_to_head() {
    for (method, good) in [("HEAD", true), ("GET", false)] {
        let mut p = closed(1, 1);
        p.calls[0].method = method.into();
        p.expect.length = Some(5);
        p.expect.body = Some(b"x".to_vec());
        let mut e = Engine::new(&p, Letters);
        e.on_tick(ms(0));
        let id = connect_of(&turn(&mut e, ms(0)).0)[0];
        e.on_connected(id, ms(1));
        turn(&mut e, ms(1));
        e.on_recv(id, &mut b"!".to_vec(), ms(2));
        turn(&mut e, ms(2));
        let (_, t) = e.finish();
        assert_eq!((t.replies, t.fault(Fault::BodyMismatch)), (u64::from(good), u64::from(!good)));
    }
}
