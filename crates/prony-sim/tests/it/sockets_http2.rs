//! Steps of sessions on WebSockets over HTTP/2: streams of the connection that carries the
//! session's requests, too.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_plan::plan::{CallSpec, HttpVersion, OnFailure, Plan, SocketStep};
use prony_plan::script::Content;
use prony_server::serve::{Latency, ServerBehavior};

use crate::plans::ms;
use crate::sockets::{
    assert_broken_links_break_nothing, assert_every_step_ends, at_10, http, made, named, opens,
    run, sends, sessions, text, times, unchecked, wait,
};
use crate::websocket::echo;

/// The plan over HTTP/2: all that goes to one server shares a session's connection.
fn over_http2(plan: Plan) -> Plan {
    let expect = |call: &CallSpec| match &call.socket {
        Some(step) if step.opens() => Some(Box::new(step.usual_expect(HttpVersion::Http2Only))),
        _ => call.expect.clone(),
    };
    let calls = plan.calls.iter().map(|call| CallSpec {
        endpoint: 0,
        expect: expect(call),
        ..call.clone()
    });
    let calls = calls.collect::<Vec<_>>().into();
    let endpoints = plan.endpoints[..1].to_vec();
    let plan = Plan { http: HttpVersion::Http2Only, pipeline: 10, endpoints, calls, ..plan };
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// The steps of `sockets::times_of_steps_are_those_of_arithmetic`. The connect takes 1 ms, and the
/// settings, which must allow extended CONNECT before anything is sent, take another. After that,
/// nothing connects.
#[test]
fn times_of_steps_over_http2_are_those_of_arithmetic() {
    let steps = [
        http("page", 10),
        made("open", opens(), "", 0),
        made("ask", sends(Some(wait(Content::Json("/ok".into()), None))), "{\"ok\":1}", 5),
        made("say", sends(None), "hello", 0),
        made("hear", SocketStep::Wait(wait(text("hello"), None)), "", 7),
        http("page again", 0),
        made("say more", sends(None), "more", 10),
        made("heard", SocketStep::Wait(wait(text("more"), Some(5))), "", 0),
        made("close", SocketStep::Close { code: 1000 }, "done", 0),
    ];
    let plan = over_http2(sessions(20, &steps));
    let (t, served) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.connects), (9 * 20, 0, 20), "{:?}", t.faults);
    let expected = [
        ("page", 5),
        ("open", 1),
        ("ask", 3),
        ("say", 0),
        ("hear", 3),
        ("page again", 3),
        ("say more", 0),
        ("heard", 0),
        ("close", 1),
    ];
    assert_eq!(times(&plan, &t), expected.map(|(name, time)| (name, 20, ms(time))));
    let statuses = [(200, 8 * 20), (1000, 20)];
    assert_eq!(t.statuses, BTreeMap::from(statuses));
    let tally = t.sessions.as_deref().expect("sessions");
    assert_eq!((tally.completed, tally.failed), (20, 0));
    let whole = Some(ms(5 + 10 + 1 + 3 + 5 + 3 + 7 + 3 + 10 + 1));
    assert_eq!((tally.lifetime.min(), tally.lifetime.max()), (whole, whole));
    assert_eq!((served.sockets, served.socket_messages_received), (20, 3 * 20));
    assert_eq!((served.connections, served.h2_connections, served.h2_requests), (20, 20, 60));
    assert_eq!((served.malformed, served.cancelled), (0, 0));
}

/// Two sockets and a request are three streams of one connection.
#[test]
fn a_session_holds_two_sockets_on_one_connection() {
    let waits = |word| SocketStep::Wait(wait(text(word), None));
    let steps = [
        made("open a", opens(), "", 0),
        made("open b", opens(), "", 0),
        made("to a", sends(None), "one", 2),
        made("to b", sends(None), "two", 0),
        made("from a", waits("one"), "", 0),
        made("from b", waits("two"), "", 0),
        http("page", 0),
        made("close a", SocketStep::Close { code: 1000 }, "", 0),
        made("ask b", sends(Some(wait(text("three"), None))), "three", 0),
    ];
    let names = [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "a"), (5, "b"), (7, "a"), (8, "b")];
    let plan = over_http2(named(unchecked(at_10(20), &steps), &names));
    let (t, served) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.connects), (9 * 20, 0, 20), "{:?}", t.faults);
    let expected = [
        ("open a", 3),
        ("open b", 1),
        ("to a", 0),
        ("to b", 0),
        ("from a", 1),
        ("from b", 2),
        ("page", 3),
        ("close a", 1),
        ("ask b", 3),
    ];
    assert_eq!(times(&plan, &t), expected.map(|(name, time)| (name, 20, ms(time))));
    assert_eq!((served.sockets, served.socket_messages_received), (40, 3 * 20));
    assert_eq!(served.h2_connections, 20);
}

/// A wait that is too short fails alone, and a message that comes later is there for the next.
#[test]
fn a_wait_that_is_too_short_leaves_the_socket_open() {
    let steps = [
        made("open", opens(), "", 0),
        made("ask", sends(Some(wait(text("hello"), Some(2)))), "hello", 0),
        made("late", SocketStep::Wait(wait(text("hello"), Some(20))), "", 0),
        made("close", SocketStep::Close { code: 1000 }, "", 0),
    ];
    let mut plan = over_http2(sessions(10, &steps));
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let (t, _) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.fault(Fault::WaitTimeout)), (30, 10, 10), "{:?}", t.faults);
    let late = &t.names[2].response;
    assert_eq!((late.min(), late.max()), (Some(ms(1)), Some(ms(1))));
}

/// A server without extended CONNECT fails what waits for its settings.
#[test]
fn servers_must_allow_sockets() {
    let steps = [made("open", opens(), "", 0), made("say", sends(None), "hello", 0)];
    let plan = over_http2(sessions(10, &steps));
    let (t, _) = run(&plan, ServerBehavior::default());
    let refused = t.fault(Fault::NoExtendedConnect);
    assert_eq!((t.replies, t.failed, refused), (0, 10, 10), "{:?}", t.faults);
}

#[test]
fn every_step_over_http2_ends_over_links_that_split_everything() {
    assert_every_step_ends(over_http2);
}

#[test]
fn broken_links_break_no_invariant_of_steps_over_http2() {
    assert_broken_links_break_nothing(over_http2);
}
