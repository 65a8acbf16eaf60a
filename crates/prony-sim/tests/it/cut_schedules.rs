//! Schedules of messages that a server cuts short: what was not sent is counted, however well the
//! stream has ended.

use prony_base::fault::Fault;
use prony_base::http2::frame::Code;
use prony_base::units::{ConnId, Span};
use prony_base::websocket::accept_of;
use prony_plan::plan::{MessagePlan, Plan, StreamFormat, StreamPlan};
use prony_plan::schedule::Arrivals;
use prony_sim::Outcome;
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Connections, Event, FrameServer, Server, ServerAction, ServerModel, Turn};
use prony_sim::world::Setup;
use prony_stats::summary::{self, RunInfo};
use prony_tally::record::Tally;

use crate::http2::http2;
use crate::messages::with_messages;
use crate::plans::{assert_invariants, ms, open, summed};
use crate::websocket::{schedule, websocket};
use crate::websocket_http2::over_http2;

/// When servers end a stream: three messages of ten per second were due.
const CUT: Span = Span::from_millis(250);
/// A close frame of a server with the code 1000.
const CLOSE: [u8; 4] = [0x88, 2, 0x03, 0xe8];

fn outcome(plan: &Plan, model: impl ServerModel) -> Outcome {
    let setup = Setup::new(Link::with_latency(Span::ZERO), 1);
    let outcome = load(plan, 1, &setup, &mut [&mut Server::new(model)]);
    assert_invariants(&outcome, "a schedule that is cut");
    outcome
}

fn run(plan: &Plan, model: impl ServerModel) -> Tally {
    outcome(plan, model).main()
}

/// What was sent of the messages of a run, and what was not.
fn counts(t: &Tally) -> (u64, u64) {
    let counts = t.stream_messages.as_deref().expect("messages");
    (counts.sent, counts.unsent)
}

/// Answers each call at once, and ends it after a while as `ends` does.
fn calls(ends: fn(&mut Turn<'_>)) -> impl ServerModel {
    FrameServer::new(move |turn: &mut Turn<'_>| match turn.event {
        Event::Opened => {
            // Extended CONNECT is allowed.
            turn.settings(&[(8, 1)]);
        }
        Event::Head => {
            let fields = [(":status", "200"), ("content-type", "application/grpc")];
            turn.headers(false, &fields).after(CUT, 0);
        }
        Event::Timer(_) => ends(turn),
        _ => {}
    })
}

/// Two calls with twenty messages each.
fn twenty() -> Plan {
    let plan = http2(open(1.0, Arrivals::Fixed, 2), 1, 9);
    with_messages(plan, crate::messages::schedule(10.0, 20))
}

fn ok(turn: &mut Turn<'_>) {
    turn.headers(true, &[("grpc-status", "0")]);
}

/// These calls, which end with OK when three messages of each were sent.
pub(crate) fn cut() -> Tally {
    run(&twenty(), calls(ok))
}

#[test]
fn a_call_that_ends_with_ok() {
    let t = cut();
    assert_eq!((t.replies, t.failed, counts(&t)), (2, 0, (6, 34)), "{:?}", t.faults);
    let plan = twenty();
    let t = run(&plan, calls(|turn| _ = turn.reset(Code::CANCEL)));
    assert_eq!((t.fault(Fault::StreamReset), counts(&t)), (2, (6, 34)), "{:?}", t.faults);
    // All that was due, in a time: of 0, 100, ..., 1,900 ms.
    let by_time = MessagePlan::fixed(10.0, None, Some(ms(2_000)));
    let t = run(&with_messages(plan, by_time), calls(ok));
    assert_eq!(counts(&t), (6, 34));
}

/// A server of WebSocket over HTTP/1.1 that closes after a while.
#[derive(Default)]
struct Closes {
    opened: bool,
}

impl ServerModel for Closes {
    fn received(&mut self, _: ConnId, _: &[u8], _: &mut Connections) -> bool {
        self.opened
    }

    fn request(&mut self, id: ConnId, _: u64, head: &[u8], conns: &mut Connections) {
        let head = std::str::from_utf8(head).expect("text");
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        let accept = accept_of(key.expect("a key").trim().as_bytes());
        let reply = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            std::str::from_utf8(&accept).expect("base64")
        );
        conns.send(id, reply.as_bytes());
        self.opened = true;
        let at = conns.now() + CUT;
        conns.at(at, id, ServerAction::Send(CLOSE.to_vec()));
        conns.at(at + ms(1), id, ServerAction::Close);
    }
}

#[test]
fn a_websocket_that_is_closed_with_1000() {
    let plan = websocket(open(1.0, Arrivals::Fixed, 1), Some(schedule(10.0, 20)), None);
    let t = run(&plan, Closes::default());
    assert_eq!((t.replies, t.failed, counts(&t)), (1, 0, (3, 17)), "{:?}", t.faults);
    assert_eq!(t.statuses.get(&1000), Some(&1));
    let close = |turn: &mut Turn<'_>| {
        turn.data(true, &CLOSE);
    };
    let t = run(&over_http2(plan.clone(), 1, 9), calls(close));
    assert_eq!((t.replies, t.failed, counts(&t)), (1, 0, (3, 17)), "{:?}", t.faults);
    // A threshold decides about it, as a number and as a share.
    let mut plan = plan;
    let limits = ["messages.unsent = 0", "messages.unsent <= 17", "messages.unsent < 1%"];
    plan.thresholds = limits.map(|text| text.parse().expect(text)).into();
    let outcome = outcome(&plan, Closes::default());
    let checked = summed(&plan, RunInfo::default(), outcome).thresholds();
    let [missed, met] = [summary::Outcome::Missed, summary::Outcome::Met];
    let outcomes: Vec<_> = checked.iter().map(|checked| checked.outcome).collect();
    assert_eq!(outcomes, [missed, met, missed]);
}

/// A bound of the plan ends a stream as the plan wants it.
#[test]
fn a_bound_of_the_plan_leaves_nothing_unsent() {
    let stream = StreamPlan { count: Some(1), ..StreamPlan::new(StreamFormat::Messages) };
    let plan = websocket(open(1.0, Arrivals::Fixed, 1), Some(schedule(10.0, 20)), Some(stream));
    let text = |turn: &mut Turn<'_>| {
        turn.data(false, &[0x81, 1, b'a']);
    };
    let t = run(&over_http2(plan, 1, 9), calls(text));
    assert_eq!((t.failed, counts(&t)), (0, (3, 0)), "{:?}", t.faults);
}
