//! Clients that send much and read nothing, with every protocol: what the server keeps for them is
//! bounded, others are served, and nothing is left when they have gone.

use prony_base::http2::frame::{self, flag, kind};
use prony_base::websocket::{Frame, Opcode};

use super::hostile::{UPGRADE, headers, post, start_h2};
use super::*;
use crate::serve::{CONNECTION_BUDGET, SERVER_BUDGET};

/// By how much the bound may be exceeded until connections are closed: a portion of input for each
/// of a few connections.
const SLACK: usize = 16 << 20;

/// What a kind of client does.
struct Kind {
    name: &'static str,
    behavior: ServerBehavior,
    /// What it sends first, and then again and again, with the number of the round.
    start: Vec<u8>,
    again: Box<dyn Fn(u32) -> Vec<u8>>,
}

fn kind(
    name: &'static str,
    behavior: ServerBehavior,
    start: impl Into<Vec<u8>>,
    again: impl Fn(u32) -> Vec<u8> + 'static,
) -> Kind {
    Kind { name, behavior, start: start.into(), again: Box::new(again) }
}

fn ws(text: &str) -> ServerBehavior {
    ServerBehavior { ws: Some(text.parse().expect("a behavior")), ..ServerBehavior::default() }
}

fn slow() -> ServerBehavior {
    let latency = "fixed:1h".parse().expect("a latency");
    ServerBehavior { latency, ..ServerBehavior::default() }
}

/// `n` messages of that many bytes.
fn messages(n: usize, size: usize) -> Vec<u8> {
    let mut one = Vec::new();
    let frame = Frame { opcode: Opcode::Binary, is_final: true, mask: Some(0x0102_0304) };
    frame.write(&vec![7; size], &mut one);
    one.repeat(n)
}

/// A POST on a stream of HTTP/2 with a body.
fn upload(stream: u32, path: &str, kind_of: &[(&str, &str)], body: &[u8], ends: bool) -> Vec<u8> {
    let mut out = headers(stream, "POST", path, kind_of, false);
    for (i, piece) in body.chunks(16 << 10).enumerate() {
        let is_last = (i + 1) * (16 << 10) >= body.len();
        let flags = if is_last && ends { flag::END_STREAM } else { 0 };
        frame::head(&mut out, piece.len(), kind::DATA, flags, stream);
        out.extend_from_slice(piece);
    }
    out
}

const GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];
const CONNECT: [(&str, &str); 2] = [(":protocol", "websocket"), ("sec-websocket-version", "13")];

fn kinds_h1() -> Vec<Kind> {
    let sse = "gap=fixed:1us,count=1000000000".parse().expect("streams");
    let streams = ServerBehavior { sse: Some(sse), ..ServerBehavior::default() };
    let none = ServerBehavior::default;
    let workers = ServerBehavior { workers: std::num::NonZeroU32::new(1), ..slow() };
    vec![
        kind("constant replies", none(), "", |_| get("/").repeat(1_000).into()),
        kind("replies", none(), "", |_| get("/status/204").repeat(1_000).into()),
        kind("long replies", none(), "", |_| get("/bytes/100000").repeat(100).into()),
        kind("slow replies", slow(), "", |_| get("/").repeat(1_000).into()),
        kind("replies of one worker", workers, "", |_| get("/").repeat(1_000).into()),
        kind("delays", none(), "", |_| get("/delay/1h").repeat(1_000).into()),
        kind("echoes", none(), "", |_| post("/echo", &"x".repeat(100_000)).into()),
        kind("long echoes", none(), "", |_| post("/echo", &"x".repeat(10_000_000)).into()),
        kind("short echoes", none(), "", |_| post("/echo", "x").repeat(1_000).into()),
        kind(
            "bodies without end",
            none(),
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 16000000\r\n\r\n",
            |_| vec![b'x'; 250_000],
        ),
        kind("continues", none(), "", |_| {
            let head = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
            format!("{head}Content-Length: 1\r\n\r\nx").repeat(1_000).into()
        }),
        kind("streams", streams, "", |_| get("/").repeat(100).into()),
    ]
}

fn kinds_ws() -> Vec<Kind> {
    let mut all = Vec::new();
    for (n, size) in [(1, 2_000_000), (10, 20_000), (5_000, 1), (5_000, 0)] {
        for behavior in ["echo", "broadcast", "broadcast:swap=50%,duplicate=50%"] {
            all.push(kind("messages", ws(behavior), UPGRADE, move |_| messages(n, size)));
        }
    }
    let slow_echo = ServerBehavior { latency: slow().latency, ..ws("echo") };
    all.push(kind("slow messages", slow_echo, UPGRADE, |_| messages(5_000, 1)));
    all.push(kind("a message without end", ws("echo"), UPGRADE, |k| {
        let opcode = if k == 0 { Opcode::Binary } else { Opcode::Continuation };
        let frame = Frame { opcode, is_final: false, mask: Some(0) };
        let mut out = Vec::new();
        frame.write(&vec![7; 200_000], &mut out);
        out
    }));
    let push = ServerBehavior { size: 10_000, ..ws("push:100000") };
    all.push(kind("pushes", push, UPGRADE, |_| messages(100, 1)));
    all
}

fn kinds_h2() -> Vec<Kind> {
    let none = ServerBehavior::default;
    let stream = |k: u32| 2 * k + 1;
    let grpc = ServerBehavior { grpc: true, ..none() };
    let windows = start_h2(0);
    let socket = |behavior: &str, n: usize, size: usize| {
        let message = messages(n, size);
        kind("sockets", ws(behavior), start_h2(0), move |k| {
            let mut out = headers(stream(k), "CONNECT", "/", &CONNECT, false);
            for piece in message.chunks(16_000) {
                frame::head(&mut out, piece.len(), kind::DATA, 0, stream(k));
                out.extend_from_slice(piece);
            }
            out
        })
    };
    let duplex = "/grpc.testing.TestService/FullDuplexCall";
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    // A request for the list of services, and one for a response of no bytes.
    let listed = [&[0, 0, 0, 0, 2, 0x3a, 0][..]].concat().repeat(7_000);
    let wanted = [&[0, 0, 0, 0, 4, 0x12, 2, 8, 1][..]].concat().repeat(7_000);
    vec![
        kind("requests", none(), windows.clone(), move |k| {
            headers(stream(k), "GET", "/bytes/100000", &[], true)
        }),
        kind("echoes", none(), windows.clone(), move |k| {
            upload(stream(k), "/echo", &[], &[7; 60_000], true)
        }),
        kind("bodies without end", none(), windows.clone(), move |k| {
            upload(stream(k), "/echo", &[], &[7; 60_000], false)
        }),
        socket("echo", 1, 60_000),
        socket("echo", 8_000, 1),
        socket("broadcast", 8_000, 1),
        socket("push:10000", 8_000, 1),
        kind("calls", grpc.clone(), windows.clone(), move |k| {
            upload(stream(k), duplex, &GRPC, &wanted, false)
        }),
        kind("reflection", grpc, windows, move |k| {
            upload(stream(k), reflection, &GRPC, &listed, false)
        }),
    ]
}

/// 40 clients of a kind that send as long as the server reads and the connection is open.
fn check(kind: &Kind) {
    let what = kind.name;
    let mut rig = Rig::new(kind.behavior.clone());
    rig.drains = false;
    for _ in 0..40 {
        let link = rig.connect();
        rig.links[link].window = 0;
        rig.send(link, &kind.start);
    }
    for round in 0..40 {
        for link in 0..40 {
            if !rig.links[link].paused && rig.links[link].closed.is_none() {
                // As from a socket.
                for piece in (kind.again)(round).chunks(256 << 10) {
                    rig.send(link, piece);
                }
            }
        }
        for _ in 0..20 {
            rig.turn();
        }
        let holds = rig.serve.audit();
        assert!(holds <= SERVER_BUDGET + SLACK, "{what}: {holds} bytes in round {round}");
    }
    // A worker that is busy for an hour serves nobody else.
    if kind.behavior.workers.is_none() {
        rig.assert_serves_others(what);
    }
    for link in 0..rig.links.len() {
        if rig.links[link].closed.is_none() {
            rig.serve.on_closed(rig.links[link].id, Some(prony_base::fault::Fault::Reset), rig.now);
            rig.act();
        }
    }
    for _ in 0..2_000 {
        rig.turn();
    }
    assert_eq!((rig.serve.audit(), rig.served().open), (0, 0), "{what}: nothing is left");
}

#[test]
fn unread_answers_of_http1_are_bounded() {
    kinds_h1().iter().for_each(check);
}

#[test]
fn unread_answers_of_websocket_are_bounded() {
    kinds_ws().iter().for_each(check);
}

#[test]
fn unread_answers_of_http2_are_bounded() {
    kinds_h2().iter().for_each(check);
}

/// A single connection is slowed down long before the server is full.
#[test]
fn one_connection_is_read_as_far_as_its_budget() {
    for (behavior, start, again) in [
        (ws("echo"), UPGRADE.into(), messages(1, 100_000)),
        (ws("echo"), UPGRADE.into(), messages(5_000, 1)),
        (slow(), Vec::new(), get("/").repeat(1_000).into_bytes()),
        (ServerBehavior::default(), Vec::new(), post("/echo", &"x".repeat(90_000)).into_bytes()),
    ] {
        let mut rig = Rig::new(behavior);
        rig.drains = false;
        rig.connect();
        rig.links[0].window = 0;
        rig.send(0, &start);
        let mut sent = 0;
        for _ in 0..5_000 {
            if !rig.links[0].paused && rig.links[0].unread.is_empty() {
                rig.send(0, &again);
                sent += again.len();
            }
            rig.turn();
        }
        assert!(rig.links[0].paused && sent < 100 << 20, "{sent} bytes");
        let holds = rig.serve.audit();
        assert!(holds < CONNECTION_BUDGET + (1 << 20), "{holds} bytes");
        assert!(holds > CONNECTION_BUDGET / 2 && rig.served().pauses >= 1, "{holds} bytes");
        assert_eq!((rig.served().overloads, rig.links[0].closed), (0, None));
    }
}

/// A client that has paused gets every answer, in order, although the server had stopped to read.
#[test]
fn paused_connections_go_on_where_they_were() {
    let mut rig = Rig::new(ws("echo"));
    rig.connect();
    rig.send(0, UPGRADE);
    let head = rig.bytes(0).len();
    rig.links[0].window = 0;
    let (mut sent, mut k) = (Vec::new(), 0_u32);
    while k < 100_000 {
        let mut bytes = Vec::new();
        for _ in 0..1_000 {
            k += 1;
            let frame = Frame { opcode: Opcode::Binary, is_final: true, mask: Some(0) };
            frame.write(&k.to_be_bytes(), &mut bytes);
            Frame { opcode: Opcode::Binary, is_final: true, mask: None }
                .write(&k.to_be_bytes(), &mut sent);
        }
        rig.send(0, &bytes);
    }
    assert!(rig.links[0].paused && rig.served().pauses > 0);
    rig.open_window(0, usize::MAX);
    assert!(rig.bytes(0)[head..] == sent, "all are echoed");
    rig.half_close(0);
    assert!(rig.links[0].closed.is_some());
    assert_eq!(rig.serve.audit(), 0);
}

/// Clients that leave requests behind, which are due in an hour.
#[test]
fn requests_of_clients_that_have_gone_are_forgotten() {
    let mut rig = Rig::new(slow());
    rig.drains = false;
    for _ in 0..300 {
        let link = rig.connect();
        rig.send(link, get("/").repeat(1_000));
        rig.serve.on_closed(rig.links[link].id, Some(prony_base::fault::Fault::Reset), rig.now);
        rig.act();
        rig.links.clear();
    }
    let left = rig.serve.station.inside();
    assert!(left < 50_000, "{left} of 300,000 requests");
    assert_eq!(rig.served().unanswered, 300_000);
}

/// A subscriber that does not read is closed with a reason, the others get everything.
#[test]
fn a_broadcast_goes_on_without_the_subscriber_that_does_not_read() {
    let mut rig = Rig::new(ws("broadcast"));
    for _ in 0..4 {
        let link = rig.connect();
        rig.send(link, UPGRADE);
    }
    rig.links[3].window = 1_000;
    for _ in 0..600 {
        rig.send(0, messages(1, 10_000));
    }
    assert_eq!(rig.served().overloads, 1);
    for link in [1, 2] {
        assert!(rig.received(link) > 600 * 10_000 && rig.links[link].closed.is_none());
    }
    rig.open_window(3, usize::MAX);
    let got = rig.bytes(3);
    assert_eq!(got[got.len() - 4..], [0x88, 2, 0x03, 0xf0], "1008");
    assert!(rig.links[3].closed.is_some());
}

/// One that reads the reason late, or never, does not stay.
#[test]
fn a_subscriber_that_never_reads_is_closed_after_a_while() {
    let mut rig = Rig::new(ws("broadcast"));
    for _ in 0..2 {
        let link = rig.connect();
        rig.send(link, UPGRADE);
    }
    rig.links[1].window = 0;
    for _ in 0..600 {
        rig.send(0, messages(1, 10_000));
    }
    rig.run_until(rig.now + Span::from_secs(5));
    assert!(rig.links[1].closed.is_some() && rig.links[0].closed.is_none());
}

/// Deliveries to thousands of subscribers are made in turns, and each gets all messages in order.
#[test]
fn broadcasts_to_many_are_made_in_turns() {
    let mut rig = Rig::new(ws("broadcast"));
    for _ in 0..2_000 {
        let link = rig.connect();
        rig.send(link, UPGRADE);
    }
    let before = rig.received(1);
    rig.send(0, messages(50, 100));
    for link in 1..2_000 {
        assert_eq!(rig.received(link) - before, 50 * 102, "subscriber {link}");
    }
    assert_eq!(rig.served().overloads, 0);
}

/// The end of a stream that comes while a connection is paused takes effect after what came before.
#[test]
fn an_end_in_a_pause_comes_after_the_requests_before_it() {
    let mut rig = Rig::new(ServerBehavior { latency: "5ms".parse().unwrap(), ..slow() });
    rig.connect();
    let mut sent = 0;
    while !rig.links[0].paused {
        rig.send(0, get("/").repeat(5_000));
        sent += 5_000;
    }
    rig.half_close(0);
    assert_eq!(rig.links[0].closed, None);
    rig.run_until(at(1_000));
    assert_eq!((rig.served().requests, rig.served().replies), (sent, sent));
    assert!(rig.links[0].closed.is_some());
}

mod random {
    //! Any clients: each sends pieces of any kind, reads at any time, pauses and disappears.

    use proptest::prelude::*;

    use super::*;

    /// What one of the clients does.
    #[derive(Clone, Debug)]
    enum Act {
        Send(usize),
        Garbage(Vec<u8>),
        Read(usize),
        HalfClose,
        Reset,
        Wait(u16),
        Connect,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            8 => (0_usize..6).prop_map(Act::Send),
            1 => prop::collection::vec(any::<u8>(), 1..200).prop_map(Act::Garbage),
            3 => prop_oneof![Just(0), 1_usize..100_000, Just(usize::MAX)].prop_map(Act::Read),
            1 => Just(Act::HalfClose),
            1 => Just(Act::Reset),
            2 => (0_u16..2_000).prop_map(Act::Wait),
            1 => Just(Act::Connect),
        ]
    }

    fn behaviors() -> Vec<ServerBehavior> {
        let sse = "gap=fixed:1us,count=1000000".parse().expect("streams");
        let streams = ServerBehavior { sse: Some(sse), ..ServerBehavior::default() };
        vec![
            ServerBehavior::default(),
            ServerBehavior { grpc: true, ..slow() },
            ws("echo"),
            ws("broadcast:swap=10%"),
            ServerBehavior { size: 5_000, ..ws("push:1000000") },
            streams,
        ]
    }

    fn pieces(k: u32) -> [Vec<u8>; 6] {
        let stream = 2 * k + 1;
        [
            get("/").repeat(300).into(),
            post("/echo", &"x".repeat(40_000)).into(),
            UPGRADE.into(),
            messages(3_000, 2),
            [start_h2(1_000), headers(1, "GET", "/", &[], true)].concat(),
            upload(stream, "/echo", &CONNECT, &messages(100, 500), false),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn clients_are_bounded(
            behavior in 0_usize..6,
            acts in prop::collection::vec((0_usize..5, act()), 1..120),
        ) {
            let mut rig = Rig::new(behaviors()[behavior].clone());
            rig.drains = false;
            rig.connect();
            for (k, (link, act)) in acts.into_iter().enumerate() {
                let link = link % rig.links.len();
                let is_open = rig.links[link].closed.is_none();
                match act {
                    Act::Send(i) => rig.send(link, &pieces(k as u32)[i]),
                    Act::Garbage(bytes) => rig.send(link, bytes),
                    Act::Read(window) => rig.links[link].window = window,
                    Act::HalfClose if is_open && rig.links[link].unread.is_empty() => {
                        rig.half_close(link);
                    }
                    Act::Reset if is_open => {
                        let id = rig.links[link].id;
                        rig.serve.on_closed(id, Some(prony_base::fault::Fault::Reset), rig.now);
                        rig.act();
                    }
                    Act::Wait(ms) => rig.now = rig.now + Span::from_millis(ms.into()),
                    Act::Connect if rig.links.len() < 5 => _ = rig.connect(),
                    _ => {}
                }
                rig.turn();
                prop_assert!(rig.serve.audit() <= SERVER_BUDGET + SLACK);
            }
            rig.assert_serves_others("random clients");
            rig.stop(StopRequest::Drain);
            rig.stop(StopRequest::Now);
            prop_assert!(rig.finished);
            prop_assert_eq!((rig.serve.audit(), rig.served().open), (0, 0));
        }
    }
}
