//! Streams that are opened again after they have ended, or after their connection has broken: the
//! times by arithmetic, and what was missed.

use prony_base::fault::Fault;
use prony_base::units::Span;
use prony_plan::plan::{Expect, Plan, StreamFormat, StreamPlan, Think};
use prony_plan::schedule::Arrivals;
use prony_server::serve::{Serve, Served, ServerBehavior, Share};
use prony_sim::link::Link;
use prony_sim::load;
use prony_sim::server::{Scripted, Server, Step};
use prony_sim::world::Setup;
use prony_tally::record::hist::Hist;
use prony_tally::record::{Reconnects, StreamBodies, Tally};

use crate::http2::http2;
use crate::plans::{assert_invariants, closed, ms, open};

/// Streams of 25 events that are opened again.
fn stream() -> StreamPlan {
    StreamPlan { count: Some(25), reconnect: true, ..StreamPlan::new(StreamFormat::Sse) }
}

fn with(plan: Plan, stream: StreamPlan) -> Plan {
    let plan = Plan { stream: Some(Box::new(stream)), timeout: Span::from_secs(600), ..plan };
    plan.check().expect("a valid plan");
    plan
}

fn versions(plan: &Plan) -> [Plan; 2] {
    [plan.clone(), http2(plan.clone(), 1, 1_000)]
}

/// One way takes 500 us.
fn link() -> Link {
    Link::with_latency(Span::from_micros(500))
}

fn run(plan: &Plan, behavior: ServerBehavior) -> (Tally, Served) {
    let mut serve = Serve::new(behavior, 5);
    let outcome = load(plan, 1, &Setup::new(link(), 5), &mut [&mut serve]);
    assert_invariants(&outcome, "reconnects");
    assert_eq!(serve.served().violations, 0);
    (outcome.main(), serve.served().clone())
}

fn events(text: &str) -> ServerBehavior {
    ServerBehavior { sse: Some(text.parse().expect(text)), ..ServerBehavior::default() }
}

fn bodies(t: &Tally) -> StreamBodies {
    *t.stream_messages.as_deref().and_then(|m| m.bodies.as_deref()).expect("streams")
}

fn received(t: &Tally) -> u64 {
    t.stream_messages.as_deref().expect("messages").received
}

fn all(hist: &Hist) -> (u64, Option<Span>, Option<Span>) {
    (hist.count(), hist.min(), hist.max())
}

fn same(n: u64, time: Span) -> (u64, Option<Span>, Option<Span>) {
    (n, Some(time), Some(time))
}

/// The server ends a stream after 10 events each: the first after 20 ms, then one each 5 ms. It is
/// opened again after 250 ms, or after 3 s if the server does not say when. A round trip takes
/// 1 ms.
#[test]
fn streams_continue_after_the_time_that_the_server_gives() {
    for (retry, wait) in [(",retry=250ms", 250), (",retry=0ms", 0), ("", 3_000)] {
        let plan = with(open(0.1, Arrivals::Fixed, 5), stream());
        for (k, plan) in versions(&plan).iter().enumerate() {
            let (t, served) =
                run(plan, events(&format!("ttft=20ms,gap=5ms,count=1000,cut=10{retry}")));
            assert_eq!((t.started, t.replies, t.failed, t.retries), (5, 5, 0, 0), "{:?}", t.faults);
            assert_eq!((received(&t), served.requests), (5 * 25, 5 * 3));
            assert_eq!(t.statuses.get(&200), Some(&15));
            let reconnects =
                Reconnects { made: 10, resumed: 10, ended: 10, ..Reconnects::default() };
            assert_eq!(
                bodies(&t),
                StreamBodies {
                    begun: 5,
                    ended_by_count: 5,
                    reconnects: Some(reconnects),
                    ..StreamBodies::default()
                }
            );
            let times = &t.times;
            assert_eq!(all(&times.first_byte), same(5, ms(1)));
            // With HTTP/1.1, the bound of a stream has closed its connection: the next opens one.
            let connect = if k == 0 { 1 } else { 0 };
            let (first, least) = (&times.first_message, times.first_message.min());
            assert_eq!((first.count(), least), (5, Some(ms(connect + 1 + 20))));
            assert_eq!(all(&times.message_gap), same(5 * 22, ms(5)));
            assert_eq!(all(&times.reconnect), same(10, ms(wait + 1 + 20)));
            let whole = 1 + 20 + 9 * 5 + 2 * (wait + 1 + 20) + 9 * 5 + 4 * 5;
            assert_eq!(all(&times.service), same(5, ms(whole)));
            // The waits for a connection are those of the first.
            assert_eq!(times.lag.max(), Some(Span::ZERO));
        }
    }
}

/// The server truncates each stream in the middle, the last event with it. The connection of
/// HTTP/1.1 is closed, and opening another takes 1 ms.
#[test]
fn streams_continue_after_a_broken_connection() {
    let stream = StreamPlan { count: Some(30), ..stream() };
    for (k, plan) in versions(&with(open(0.5, Arrivals::Fixed, 4), stream)).iter().enumerate() {
        let behavior = ServerBehavior {
            truncate: Share(1.0),
            ..events("ttft=20ms,gap=5ms,count=40,retry=100ms")
        };
        let (t, served) = run(plan, behavior);
        assert_eq!((t.replies, t.failed), (4, 0), "{:?}", t.faults);
        // 20 events of 40, one incomplete; 11 of 21; 6 of 11.
        assert_eq!((received(&t), served.requests), (4 * 30, 4 * 3));
        let reconnects = Reconnects { made: 8, resumed: 8, broken: 8, ..Reconnects::default() };
        assert_eq!(bodies(&t).reconnects, Some(reconnects));
        assert_eq!((bodies(&t).ended_by_count, bodies(&t).failed), (4, 0));
        // The end of the connection comes 5 ms after the last complete event.
        let connect = if k == 0 { 1 } else { 0 };
        assert_eq!(all(&t.times.reconnect), same(8, ms(100 + connect + 1 + 20)));
        assert_eq!(t.times.message_gap.max(), Some(ms(5)));
    }
}

/// The server has no more events: it answers 204, which ends the stream.
#[test]
fn a_reply_without_content_ends_a_stream() {
    for plan in
        versions(&with(open(1.0, Arrivals::Fixed, 1), StreamPlan { count: Some(99), ..stream() }))
    {
        let (t, _) = run(&plan, events("ttft=20ms,gap=5ms,count=25,cut=10,retry=50ms"));
        assert_eq!((t.replies, t.failed, received(&t)), (1, 0, 25), "{:?}", t.faults);
        assert_eq!((t.statuses.get(&200), t.statuses.get(&204)), (Some(&3), Some(&1)));
        let reconnects = Reconnects { made: 3, resumed: 2, ended: 3, ..Reconnects::default() };
        let expected = StreamBodies {
            begun: 1,
            ended_by_server: 1,
            reconnects: Some(reconnects),
            ..StreamBodies::default()
        };
        assert_eq!(bodies(&t), expected);
    }
}

/// The time of a stream counts from the send of its first request. A stream that would be opened
/// again after it has ended.
#[test]
fn the_time_of_a_stream_includes_its_reconnects() {
    // Its connection ends after 66 ms; the body of the next lasts from 337 ms to 382 ms, and that
    // of the third begins after 653 ms. A stream is not ended before its body has begun.
    for (time, last, by_time, reconnects) in
        [(300, 66, 0, 0), (320, 337, 1, 1), (350, 350, 1, 1), (600, 382, 0, 1), (640, 653, 1, 2)]
    {
        let stream = StreamPlan { count: None, time: Some(ms(time)), ..stream() };
        for plan in versions(&with(open(1.0, Arrivals::Fixed, 1), stream)) {
            let (t, _) = run(&plan, events("ttft=20ms,gap=5ms,count=1000,cut=10,retry=250ms"));
            assert_eq!((t.replies, t.failed), (1, 0), "{:?}", t.faults);
            assert_eq!(all(&t.times.service), same(1, ms(last)), "{time}");
            let bodies = bodies(&t);
            assert_eq!((bodies.ended_by_time, bodies.ended_by_server), (by_time, 1 - by_time));
            assert_eq!(bodies.reconnects.map_or(0, |counts| counts.made), reconnects, "{time}");
        }
    }
}

/// The timeout is that of the whole stream, also while it waits.
#[test]
fn streams_time_out_while_they_wait() {
    for plan in versions(&with(open(1.0, Arrivals::Fixed, 3), stream())) {
        let plan = Plan { timeout: ms(200), ..plan };
        let (t, _) = run(&plan, events("ttft=20ms,gap=5ms,count=1000,cut=10,retry=250ms"));
        assert_eq!((t.fault(Fault::RequestTimeout), t.failed), (3, 3));
        assert_eq!(all(&t.times.response), same(3, ms(200)));
        let bodies = bodies(&t);
        assert_eq!((bodies.failed, bodies.begun), (3, 3));
        let counts = Reconnects { ended: 3, ..Reconnects::default() };
        assert_eq!(bodies.reconnects, Some(counts));
    }
}

/// A timeout is no break of a connection: the stream is not opened again.
#[test]
fn streams_that_time_out_while_they_are_open_have_failed() {
    for plan in versions(&with(open(1.0, Arrivals::Fixed, 3), stream())) {
        let plan = Plan { timeout: ms(200), ..plan };
        let (t, served) = run(&plan, events("gap=30ms,count=1000"));
        assert_eq!((t.fault(Fault::RequestTimeout), t.failed), (3, 3));
        assert_eq!(all(&t.times.response), same(3, ms(200)));
        assert_eq!(bodies(&t).reconnects.unwrap_or_default(), Reconnects::default());
        assert_eq!(served.requests, 3);
    }
}

/// A stream is in flight while it waits, and the user of a closed loop has no other.
#[test]
fn streams_are_in_flight_while_they_wait() {
    let stream = StreamPlan { count: Some(1_000), ..stream() };
    let plan = with(closed(4, Think::None, ms(1_000)), stream);
    for (users, plan) in [4, 1_000].into_iter().zip(versions(&plan)) {
        let plan = Plan { timeout: ms(1_500), ..plan };
        let (t, _) = run(&plan, events("ttft=20ms,gap=5ms,count=1000,cut=10,retry=10s"));
        assert_eq!((t.started, t.fault(Fault::RequestTimeout)), (users, users), "{:?}", t.faults);
        assert!((t.concurrency() - users as f64).abs() < 1e-6, "{}", t.concurrency());
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// One stream of 8 events from a server whose connections have these bodies, and then end.
fn scripted(connections: &[&str]) -> Tally {
    let plan = with(open(1.0, Arrivals::Fixed, 1), StreamPlan { count: Some(8), ..stream() });
    let script = |body: &&str| {
        vec![Step::Await(1), Step::Send((HEAD.to_owned() + body).into_bytes()), Step::Close]
    };
    let mut server = Server::new(Scripted::new(connections.iter().map(script).collect()));
    let outcome = load(&plan, 1, &Setup::new(link(), 1), &mut [&mut server]);
    assert_invariants(&outcome, "a script");
    outcome.main()
}

/// A stream whose two connections have events of these numbers.
pub(crate) fn numbered(ids: [&[u64]; 2]) -> Tally {
    let event = |n: &u64| format!("id: {n}\ndata: {n}\n\n");
    let body = |ids: &[u64]| "retry: 10\n".to_owned() + &ids.iter().map(event).collect::<String>();
    scripted(&ids.map(body).each_ref().map(String::as_str))
}

#[test]
fn repeated_and_missed_events_are_counted() {
    for (ids, repeated, missed) in [
        ([&[1, 2, 3, 4][..], &[5, 6, 7, 8]], 0, 0),
        ([&[1, 2, 3, 4], &[3, 4, 5, 6]], 2, 0),
        ([&[1, 2, 3, 4], &[8, 9, 10, 11]], 0, 3),
    ] {
        let t = numbered(ids);
        assert_eq!((t.replies, received(&t)), (1, 8), "{:?}", t.faults);
        let counts = bodies(&t).reconnects.expect("a reconnect");
        assert_eq!((counts.made, counts.repeated, counts.missed), (1, repeated, missed), "{ids:?}");
    }
}

/// An event without its end is lost with the connection that has ended within it.
#[test]
fn an_event_that_the_end_of_a_connection_cuts_is_incomplete() {
    let rest = "data: 2\n\n".repeat(7);
    for (first, incomplete) in [("data: 1\n\ndata: 2\n", 1), ("data: 1\n\n", 0)] {
        let t = scripted(&[&("retry: 10\n".to_owned() + first), &rest]);
        assert_eq!((received(&t), bodies(&t).incomplete), (8, incomplete), "{first:?}");
    }
}

/// A reply to a reconnect that is no stream fails the request.
#[test]
fn a_reconnect_must_be_answered_with_a_stream() {
    let plan = with(open(1.0, Arrivals::Fixed, 1), stream());
    let plan = Plan { expect: Expect::default(), ..plan };
    let first = HEAD.to_owned() + "retry: 10\ndata: 1\n\n";
    for (reply, fault) in [
        ("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", Fault::UnexpectedStatus),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Fault::NotAStream),
    ] {
        let send = |text: &str| Step::Send(text.as_bytes().to_vec());
        let scripts = vec![
            vec![Step::Await(1), send(&first), Step::Close],
            vec![Step::Await(1), send(reply)],
        ];
        let mut server = Server::new(Scripted::new(scripts));
        let outcome = load(&plan, 1, &Setup::new(link(), 1), &mut [&mut server]);
        assert_invariants(&outcome, "a script");
        let t = outcome.main();
        assert_eq!((t.fault(fault), t.failed), (1, 1), "{:?}", t.faults);
        assert_eq!((bodies(&t).failed, bodies(&t).begun), (1, 1));
    }
}
