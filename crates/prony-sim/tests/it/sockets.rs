//! Steps of sessions on WebSockets, next to requests of HTTP: times by arithmetic, waits that are
//! too short, close codes, broken links.

use std::collections::BTreeMap;

use prony_base::fault::Fault;
use prony_base::units::{ConnId, Span};
use prony_base::websocket::{CloseCode, Frame, Opcode, accept_of};
use prony_plan::plan::{
    Burst, CallSpec, Expect, HttpVersion, OnFailure, Plan, SessionKind, Sessions, SocketStep, Stop,
    Think, Wait,
};
use prony_plan::schedule::Arrivals;
use prony_plan::script::{Awaited, Content};
use prony_plan::target::Endpoint;
use prony_server::serve::{Latency, Serve, Served, ServerBehavior, SocketBehavior};
use prony_sim::link::Link;
use prony_sim::rng::Rng;
use prony_sim::server::{Connections, Scripted, Server, ServerAction, ServerModel, Step};
use prony_sim::world::Setup;
use prony_sim::{Outcome, load};
use prony_tally::record::{NameTally, Tally};

use crate::faults::random_setup;
use crate::plans::{Seed, assert_invariants, closed, get, ms, open};
use crate::websocket::echo;

/// A step, the pause after it, and its data.
pub(crate) struct Made {
    name: &'static str,
    step: Option<SocketStep>,
    data: &'static str,
    think: Span,
}

pub(crate) fn made(name: &'static str, step: SocketStep, data: &'static str, think: u64) -> Made {
    Made { name, step: Some(step), data, think: ms(think) }
}

pub(crate) fn http(name: &'static str, think: u64) -> Made {
    Made { name, step: None, data: "", think: ms(think) }
}

pub(crate) fn opens() -> SocketStep {
    SocketStep::Open { subprotocols: Vec::new() }
}

pub(crate) fn wait(content: Content, within: Option<u64>) -> Wait {
    Wait { message: Awaited { content, equals: None }, within: within.map(ms) }
}

pub(crate) fn text(text: &str) -> Content {
    Content::Text(text.into())
}

pub(crate) fn sends(wait: Option<Wait>) -> SocketStep {
    SocketStep::Send { binary: false, wait }
}

/// A plan with one kind of session, which makes these steps.
pub(crate) fn unchecked(plan: Plan, steps: &[Made]) -> Plan {
    let calls = steps.iter().enumerate().map(|(i, made)| {
        let usual = |step: &SocketStep| step.usual_expect(HttpVersion::Http11);
        let ok = || Expect { statuses: vec![(200, 200)], ..Expect::default() };
        CallSpec {
            endpoint: u32::from(made.step.is_some()),
            body: made.data.into(),
            socket: made.step.clone().map(Box::new),
            name: Some(i as u32),
            expect: Some(Box::new(made.step.as_ref().map_or_else(ok, usual))),
            ..get("/")
        }
    });
    let think = |made: &Made| match made.think {
        Span::ZERO => Think::None,
        time => Think::Fixed(time),
    };
    let bursts = (0..).zip(steps).map(|(i, made)| Burst::of(vec![i], think(made))).collect();
    let kind = SessionKind { name: String::new(), weight: 1, bursts };
    let endpoint = Endpoint::Tcp { host: "server".into(), port: 80 };
    Plan {
        endpoints: vec![endpoint.clone(), endpoint],
        calls: calls.collect(),
        names: steps.iter().map(|made| made.name.to_owned()).collect(),
        sessions: Some(Sessions::plain(vec![kind])),
        ..plan
    }
}

/// The same, if it can be run: all steps are on one socket.
fn plan(plan: Plan, steps: &[Made]) -> Plan {
    let plan = unchecked(plan, steps);
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// Sessions at 10 per second.
pub(crate) fn at_10(count: u64) -> Plan {
    let stop = Stop { sessions: Some(count), ..Stop::default() };
    Plan { stop, ..open(10.0, Arrivals::Fixed, 1) }
}

pub(crate) fn sessions(count: u64, steps: &[Made]) -> Plan {
    plan(at_10(count), steps)
}

/// A round trip takes 1 ms.
fn link() -> Link {
    Link::with_latency(Span::from_micros(500))
}

pub(crate) fn run(plan: &Plan, behavior: ServerBehavior) -> (Tally, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link(), 5), &mut [&mut serve]);
    assert_invariants(&outcome, "sockets");
    assert_eq!(serve.served().violations, 0);
    (outcome.main(), serve.served().clone())
}

/// The names with the number of successes, and with the response time, which is the same for all.
pub(crate) fn times<'a>(plan: &'a Plan, tally: &Tally) -> Vec<(&'a str, u64, Span)> {
    let one = |(name, t): (&'a String, &NameTally)| {
        let (min, max) = (t.response.min(), t.response.max());
        assert_eq!(min, max, "{name}");
        (name.as_str(), t.replies, min.unwrap_or(Span::ZERO))
    };
    plan.names.iter().zip(&tally.names).map(one).collect()
}

/// A service takes 2 ms, of a request and of a message. A connect and a handshake take 1 ms each.
#[test]
fn times_of_steps_are_those_of_arithmetic() {
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
    let plan = sessions(20, &steps);
    let (t, served) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.connects), (9 * 20, 0, 2 * 20), "{:?}", t.faults);
    let expected = [
        ("page", 4),
        ("open", 2),
        ("ask", 3),
        // It ends when it is sent.
        ("say", 0),
        ("hear", 3),
        // Its connection is open.
        ("page again", 3),
        ("say more", 0),
        // The message has arrived in the pause of 10 ms.
        ("heard", 0),
        ("close", 1),
    ];
    assert_eq!(times(&plan, &t), expected.map(|(name, time)| (name, 20, ms(time))));
    let statuses = [(101, 20), (200, 7 * 20), (1000, 20)];
    assert_eq!(t.statuses, BTreeMap::from(statuses));
    let tally = t.sessions.as_deref().expect("sessions");
    assert_eq!((tally.completed, tally.failed), (20, 0));
    let whole = Some(ms(4 + 10 + 2 + 3 + 5 + 3 + 7 + 3 + 10 + 1));
    assert_eq!((tally.lifetime.min(), tally.lifetime.max()), (whole, whole));
    assert_eq!((served.sockets, served.socket_messages_received), (20, 3 * 20));
}

/// The same plan, in which these steps are made on sockets with these names.
pub(crate) fn named(plan: Plan, names: &[(usize, &'static str)]) -> Plan {
    let mut endpoints = plan.endpoints.clone();
    let mut known: Vec<&str> = Vec::new();
    let mut calls = plan.calls.to_vec();
    for &(step, name) in names {
        let at = known.iter().position(|other| *other == name).unwrap_or_else(|| {
            known.push(name);
            known.len() - 1
        });
        while endpoints.len() < at + 2 {
            endpoints.push(endpoints[0].clone());
        }
        calls[step].endpoint = at as u32 + 1;
        calls[step].socket_name = Some(name.into());
    }
    let plan = Plan { endpoints, calls: calls.into(), ..plan };
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// Two sockets at once, and requests of HTTP: an answer takes 3 ms from its message, on whatever
/// socket the session waits meanwhile.
#[test]
fn a_session_holds_two_sockets_at_once() {
    let waits = |word| SocketStep::Wait(wait(text(word), None));
    let steps = [
        made("open a", opens(), "", 0),
        made("open b", opens(), "", 0),
        made("to a", sends(None), "one", 2),
        made("to b", sends(None), "two", 0),
        // From 6 to 7 ms, as "one" was sent at 4; then to 9 ms, as "two" was sent at 6.
        made("from a", waits("one"), "", 0),
        made("from b", waits("two"), "", 0),
        made("ask b", sends(Some(wait(text("three"), None))), "three", 0),
        http("page", 0),
        made("close a", SocketStep::Close { code: 1000 }, "", 0),
        made("ask b again", sends(Some(wait(text("four"), None))), "four", 0),
        made("close b", SocketStep::Close { code: 1001 }, "", 0),
    ];
    let names = [0, 2, 4, 8].map(|step| (step, "a"));
    let names = [&names[..], &[1, 3, 5, 6, 9, 10].map(|step| (step, "b"))].concat();
    let plan = named(unchecked(at_10(20), &steps), &names);
    let (t, served) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.connects), (11 * 20, 0, 3 * 20), "{:?}", t.faults);
    let expected = [
        ("open a", 2),
        ("open b", 2),
        ("to a", 0),
        ("to b", 0),
        ("from a", 1),
        ("from b", 2),
        ("ask b", 3),
        ("page", 4),
        ("close a", 1),
        ("ask b again", 3),
        ("close b", 1),
    ];
    assert_eq!(times(&plan, &t), expected.map(|(name, time)| (name, 20, ms(time))));
    assert_eq!(t.statuses, BTreeMap::from([(101, 40), (200, 7 * 20), (1000, 20), (1001, 20)]));
    let tally = t.sessions.as_deref().expect("sessions");
    assert_eq!((tally.completed, tally.lifetime.max()), (20, Some(ms(21))));
    assert_eq!((served.sockets, served.socket_messages_received), (40, 4 * 20));
}

/// What arrives on one socket is no answer on the other.
#[test]
fn sockets_of_a_session_do_not_share_messages() {
    let steps = [
        made("open a", opens(), "", 0),
        made("open b", opens(), "", 0),
        made("to a", sends(None), "one", 10),
        made("never from b", SocketStep::Wait(wait(text("one"), Some(20))), "", 0),
        made("from a", SocketStep::Wait(wait(text("one"), Some(20))), "", 0),
    ];
    let plan = unchecked(at_10(10), &steps);
    let mut plan = named(plan, &[(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "a")]);
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let (t, _) = run(&plan, echo(Latency::Fixed(ms(2))));
    assert_eq!((t.replies, t.failed, t.fault(Fault::WaitTimeout)), (40, 10, 10));
    assert_eq!((t.names[3].failed, t.names[4].response.max()), (10, Some(Span::ZERO)));
}

/// The codes with which a server closes two sockets between steps are those of the next step of
/// each.
#[test]
fn each_socket_has_its_own_close_code() {
    let steps = [
        made("open a", opens(), "", 0),
        made("open b", opens(), "", 50),
        made("on b", SocketStep::Wait(wait(text("never"), None)), "", 0),
        made("on a", SocketStep::Wait(wait(text("never"), None)), "", 0),
        made("again on a", SocketStep::Wait(wait(text("never"), None)), "", 0),
    ];
    let plan = unchecked(at_10(10), &steps);
    let mut plan = named(plan, &[(0, "a"), (1, "b"), (2, "b"), (3, "a"), (4, "a")]);
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let t = run_closing(&plan, 1008, 10);
    assert_eq!((t.statuses[&1008], t.fault(Fault::UnexpectedStatus)), (20, 20));
    assert_eq!((t.fault(Fault::NoSocket), t.names[4].failed, t.connects), (10, 10, 20));
}

/// The same on two and three threads: each session has its own socket.
#[test]
fn sessions_do_not_share_their_sockets() {
    let id = |equals: &str| {
        let message = Awaited { content: Content::Json("/id".into()), equals: Some(equals.into()) };
        Some(Wait { message, within: Some(ms(50)) })
    };
    let steps = [
        made("open", opens(), "", 0),
        made("ask", sends(id("{{session}}")), "{\"id\":{{session}}}", 3),
        made("ask again", sends(id("{{session}}")), "{\"id\":{{session}}}", 0),
    ];
    let mut plan = sessions(200, &steps);
    let mut calls = plan.calls.to_vec();
    calls[1..].iter_mut().for_each(|call| call.template = true);
    plan.calls = calls.into();
    let plan = Plan { load: open(1_000.0, Arrivals::Fixed, 1).load, ..plan };
    assert_eq!(plan.check(), Ok(()));
    for shares in [1, 3] {
        let mut serve = Serve::new(echo(Latency::Exponential(ms(2))), 5);
        let setup = Setup::new(link(), 5);
        let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
        assert_invariants(&outcome, "own sockets");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.connects), (600, 0, 200), "{:?}", t.faults);
        assert_eq!((serve.served().sockets, serve.served().violations), (200, 0));
    }
}

/// A server that pushes `1`, `2`, ... each 20 ms from the handshake on.
#[test]
fn waits_end_with_their_message_or_their_time() {
    let starts = |n: u32| Content::Regex(format!("^{n}([^0-9]|$)"));
    let steps = [
        made("open", opens(), "", 0),
        made("third", SocketStep::Wait(wait(starts(3), None)), "", 30),
        made("fourth", SocketStep::Wait(wait(starts(4), None)), "", 0),
        made("never", SocketStep::Wait(wait(text("never"), Some(25))), "", 0),
        // The fifth has been looked at.
        made("sixth", SocketStep::Wait(wait(starts(6), None)), "", 0),
        made("close", SocketStep::Close { code: 1001 }, "", 0),
    ];
    let mut plan = sessions(10, &steps);
    plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    let gap = Latency::Fixed(ms(20));
    let behavior =
        ServerBehavior { ws: Some(SocketBehavior::Push(gap)), ..ServerBehavior::default() };
    let (t, _) = run(&plan, behavior);
    assert_eq!((t.replies - 50, t.failed, t.fault(Fault::WaitTimeout)), (0, 10, 10));
    // The handshake is read when 1.5 ms have passed; the third arrives after 62 ms.
    let expected = [
        ("open", 10, ms(2)),
        ("third", 10, ms(60)),
        ("fourth", 10, Span::ZERO),
        ("never", 0, ms(25)),
        // From 2 + 60 + 30 + 25 to 122 ms.
        ("sixth", 10, ms(5)),
        ("close", 10, ms(1)),
    ];
    assert_eq!(times(&plan, &t), expected);
    assert_eq!(t.statuses[&1001], 10);
    let tally = t.sessions.as_deref().expect("sessions");
    assert_eq!((tally.completed, tally.failed), (0, 10));
}

/// Closes each socket with a code, this long after its handshake.
struct Closes(CloseCode, Span);

impl ServerModel for Closes {
    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = String::from_utf8_lossy(head);
        let key = head.split("Sec-WebSocket-Key: ").nth(1).expect("a handshake");
        let accept = accept_of(&key.as_bytes()[..24]);
        let reply = [
            b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: ",
            &accept[..],
            b"\r\n\r\n",
        ];
        conns.send(id, &reply.concat());
        let mut close = Vec::new();
        self.0.write(None, &mut close);
        conns.at(conns.now() + self.1, id, ServerAction::Send(close));
    }
}

fn run_closing(plan: &Plan, code: u16, after: u64) -> Tally {
    let mut server = Server::new(Closes(CloseCode(code), ms(after)));
    let outcome = load(plan, 1, &Setup::new(link(), 5), &mut [&mut server]);
    assert_invariants(&outcome, "closing");
    outcome.main()
}

/// The code with which a server closes a socket is the outcome of the step that is made on it, or
/// of the next one.
#[test]
fn close_codes_are_outcomes() {
    let steps = |think| {
        [
            made("open", opens(), "", think),
            made("wait", SocketStep::Wait(wait(text("never"), None)), "", 0),
            made("close", SocketStep::Close { code: 1000 }, "", 0),
        ]
    };
    // During the wait, and before it.
    for (think, time) in [(0, 10), (50, 0)] {
        let plan = sessions(10, &steps(think));
        let t = run_closing(&plan, 1008, 10);
        assert_eq!((t.statuses[&1008], t.fault(Fault::UnexpectedStatus)), (10, 10));
        assert_eq!((t.names[1].failed, t.names[2].started), (10, 0), "{think}");
        assert_eq!(t.times.failed.max(), Some(ms(time)), "{think}");
        assert_eq!(t.connects, 10);
        let mut on = plan;
        on.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
        let t = run_closing(&on, 1008, 10);
        assert_eq!((t.statuses[&1008], t.fault(Fault::NoSocket), t.failed), (10, 10, 20));
        assert_eq!(t.connects, 10, "no connection is opened for a step without a socket");
    }
    // The expected close.
    let steps =
        [made("open", opens(), "", 50), made("close", SocketStep::Close { code: 1000 }, "", 0)];
    let t = run_closing(&sessions(10, &steps), 1000, 10);
    assert_eq!((t.replies, t.failed, t.statuses[&1000]), (20, 0, 10));
}

/// Faults of requests next to sockets, and of handshakes, are those without sockets.
#[test]
fn nonsense_is_reported_as_it_is() {
    let nonsense = || vec![Step::Await(1), Step::Send(b"nonsense\r\n\r\n".to_vec())];
    let open = made("open", opens(), "", 0);
    for steps in [vec![http("page", 0), open], vec![made("open", opens(), "", 0)]] {
        let mut server = Server::new(Scripted::one(nonsense()));
        let plan = sessions(10, &steps);
        let outcome = load(&plan, 1, &Setup::new(link(), 5), &mut [&mut server]);
        assert_invariants(&outcome, "nonsense");
        let t = outcome.main();
        assert_eq!((t.failed, t.fault(Fault::BadStatusLine)), (10, 10), "{:?}", t.faults);
    }
}

pub(crate) fn random(rng: &mut Rng, seed: u64) -> Plan {
    let within = rng.chance(0.5).then(|| rng.between(1, 20));
    let think = |rng: &mut Rng| if rng.chance(0.5) { 0 } else { rng.between(1, 10) };
    let steps = [
        http("page", think(rng)),
        made("open", opens(), "", think(rng)),
        made("ask", sends(Some(wait(text("hello"), within))), "hello", think(rng)),
        made("say", sends(None), "more", think(rng)),
        http("page again", think(rng)),
        made("hear", SocketStep::Wait(wait(text("more"), within)), "", think(rng)),
        made("close", SocketStep::Close { code: 1000 }, "", think(rng)),
        made("open again", opens(), "", think(rng)),
        made("ask again", sends(Some(wait(text("x"), None))), "x", 0),
    ];
    let load = match rng.chance(0.5) {
        true => closed(rng.between(1, 8) as u32, Think::None, ms(rng.between(50, 400))),
        false => {
            let stop = Stop { sessions: Some(rng.between(1, 60)), ..Stop::default() };
            Plan { stop, ..open(rng.between(10, 500) as f64, Arrivals::Poisson, 1) }
        }
    };
    let timeout = Span::from_secs(if rng.chance(0.5) { 3 } else { 3_000 });
    let mut plan = plan(Plan { seed, timeout, ..load }, &steps);
    if rng.chance(0.5) {
        plan.sessions.as_mut().expect("sessions").on_failure = OnFailure::Continue;
    }
    plan
}

pub(crate) fn run_random(
    seed: u64,
    change: impl FnOnce(Plan) -> Plan,
    setup: impl FnOnce(&mut Rng) -> Setup,
) -> (Outcome, Served) {
    let mut rng = Rng::new(seed, 170);
    let plan = change(random(&mut rng, seed));
    let setup = setup(&mut rng);
    let mut serve = Serve::new(echo(Latency::Exponential(ms(1))), seed);
    let shares = rng.between(1, u64::from(plan.shards_max().min(3))) as u32;
    let outcome = load(&plan, shares, &setup, &mut [&mut serve]);
    assert_invariants(&outcome, "random sockets");
    assert_eq!(serve.served().violations, 0);
    (outcome, serve.served().clone())
}

/// However bytes are split: every step ends, and both sides count the same.
#[test]
fn every_step_ends_over_links_that_split_everything() {
    assert_every_step_ends(|plan| plan);
}

pub(crate) fn assert_every_step_ends(change: fn(Plan) -> Plan) {
    let (mut asked, mut late) = (0, 0);
    for seed in 0..80 {
        let _case = Seed(seed);
        let (outcome, served) = run_random(seed, change, |rng| {
            let mut setup = Setup::new(Link::rough(rng), seed);
            setup.link.window = setup.link.window.map(|w| w.max(4_096));
            setup.link.rate = None;
            setup
        });
        let t = outcome.main();
        let short = t.fault(Fault::WaitTimeout);
        let after = t.fault(Fault::GivenUp);
        assert_eq!((t.failed, t.unfinished), (short + after, 0), "{:?}", t.faults);
        let opened: u64 = [1, 7].map(|name: usize| t.names[name].replies).iter().sum();
        assert_eq!(served.sockets, opened);
        let sent: u64 = [2, 3, 8].map(|name: usize| t.names[name].started).iter().sum();
        assert_eq!(served.socket_messages_received, sent);
        (asked, late) = (asked + sent, late + short);
    }
    assert!(asked > 1_000 && late > 10, "{asked} {late}");
}

/// Links that break: what is counted stays consistent.
#[test]
fn broken_links_break_no_invariant() {
    assert_broken_links_break_nothing(|plan| plan);
}

pub(crate) fn assert_broken_links_break_nothing(change: fn(Plan) -> Plan) {
    let (mut failed, mut without) = (0, 0);
    for seed in 0..150 {
        let _case = Seed(seed);
        let (outcome, _) = run_random(seed, change, |rng| random_setup(rng, seed));
        let t = outcome.main();
        (failed, without) = (failed + t.failed, without + t.fault(Fault::NoSocket));
    }
    assert!(failed > 50 && without > 5, "{failed} {without}");
}

/// A message that is lost between two steps is a fault of the connection, not a close.
#[test]
fn a_connection_that_breaks_leaves_no_socket() {
    struct Breaks;
    impl ServerModel for Breaks {
        fn request(&mut self, id: ConnId, n: u64, head: &[u8], conns: &mut Connections) {
            Closes(CloseCode::NORMAL, Span::from_secs(1_000)).request(id, n, head, conns);
            let mut frame = Vec::new();
            let head = Frame { opcode: Opcode::Text, is_final: true, mask: None };
            head.write(b"hi", &mut frame);
            conns.at(conns.now() + ms(5), id, ServerAction::Send(frame));
            conns.at(conns.now() + ms(10), id, ServerAction::Close);
        }
    }
    let waits = |content, within| SocketStep::Wait(wait(content, within));
    for (think, fault) in [(50, Fault::NoSocket), (0, Fault::Truncated)] {
        let steps = [
            made("open", opens(), "", 0),
            made("hi", waits(text("hi"), None), "", think),
            made("more", waits(text("more"), Some(1_000)), "", 0),
        ];
        let mut server = Server::new(Breaks);
        let plan = sessions(10, &steps);
        let outcome = load(&plan, 1, &Setup::new(link(), 5), &mut [&mut server]);
        assert_invariants(&outcome, "breaks");
        let t = outcome.main();
        assert_eq!((t.replies, t.failed, t.fault(fault)), (20, 10, 10), "{:?}", t.faults);
        assert_eq!(t.names[1].response.max(), Some(ms(5)));
    }
}
