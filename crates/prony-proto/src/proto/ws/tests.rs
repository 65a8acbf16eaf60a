//! Handshakes and frames of a scripted server, in any split, and what the client sends for them.

use proptest::collection::vec;
use proptest::prelude::*;

use super::over_h1::{Conn, OverH1};
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId};
use prony_base::websocket::{Event, Frame, Kind, MESSAGE_MAX, Opcode, Reader, Role, accept_of};
use prony_plan::plan::{
    CallSpec, Load, MessagePlan, MessageReply, Plan, Stop, StreamFormat, StreamPlan, Think,
    WebSocketPlan,
};
use prony_plan::target::Endpoint;

const ID: RequestId = RequestId { slot: 3, generation: 1 };

/// What an exchange was reported to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Head(u16),
    Body(Vec<u8>),
    Chunk,
    Message,
    Done(Reply),
    Fault(Fault),
}

#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    wants_body: bool,
    has_begun: bool,
    is_over: bool,
}

impl Sink for Log {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        (!self.is_over).then_some((ID, 0))
    }

    fn outstanding(&self) -> u32 {
        u32::from(!self.is_over)
    }

    fn began(&mut self, id: RequestId) {
        assert_eq!(id, ID);
        self.has_begun = true;
    }

    fn head(&mut self, _: RequestId, status: u16, _: bool) {
        self.seen.push(Seen::Head(status));
    }

    fn wants_body(&self, _: RequestId) -> bool {
        self.wants_body
    }

    fn body(&mut self, _: RequestId, piece: &[u8]) {
        match self.seen.last_mut() {
            Some(Seen::Body(before)) => before.extend_from_slice(piece),
            _ => self.seen.push(Seen::Body(piece.to_vec())),
        }
    }

    fn chunk_ended(&mut self, _: RequestId) {
        self.seen.push(Seen::Chunk);
    }

    fn message(&mut self, _: RequestId, _: u64) {
        self.seen.push(Seen::Message);
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        assert_eq!(id, ID);
        self.is_over = true;
        self.seen.push(Seen::Done(*reply));
    }
}

pub(super) fn plan(messages: Option<MessageReply>, stream: bool) -> Plan {
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let call = CallSpec {
        method: "GET".into(),
        path: "/chat?room=1".into(),
        authority: "h".into(),
        headers: vec![("Origin".to_owned(), "http://h".to_owned())].into(),
        body: if messages.is_some() { b"hello".to_vec() } else { Vec::new() },
        ..CallSpec::default()
    };
    let load = Load::Closed { connections: 1, think: Think::None };
    let websocket = WebSocketPlan {
        subprotocols: vec!["chat".into(), "superchat".into()],
        ..WebSocketPlan::default()
    };
    let plan = Plan {
        messages: messages
            .map(|reply| Box::new(MessagePlan { reply, ..MessagePlan::fixed(1.0, Some(2), None) })),
        stream: stream.then(|| Box::new(StreamPlan::new(StreamFormat::Messages))),
        websocket: Some(Box::new(websocket)),
        requests_per_connection: Some(1),
        ..Plan::new(vec![endpoint], vec![call], load, Stop { requests: Some(1), ..Stop::default() })
    };
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// A client on one connection.
struct Client {
    ws: OverH1,
    conn: Conn,
    log: Log,
    stash: Vec<u8>,
    /// Everything after the handshake that it has sent.
    sent: Vec<u8>,
    messages_sent: usize,
    key: [u8; 24],
    head: String,
}

impl Client {
    fn new(plan: &Plan) -> Self {
        let (mut ws, mut conn, mut out) = (OverH1::new(plan), Conn::default(), Out::default());
        assert_eq!(ws.capacity(&conn, 0, 1), 1);
        ws.submit(&mut conn, ID, Call { index: 0, filled: None }, true, &mut out);
        assert_eq!(ws.capacity(&conn, 0, 1), 0, "a connection has one exchange");
        let head = String::from_utf8(out.as_bytes().to_vec()).expect("a head");
        let key = head.split("Sec-WebSocket-Key: ").nth(1).expect("a key");
        let key = key.as_bytes()[..24].try_into().expect("24 bytes");
        let log = Log { wants_body: plan.stream.is_some(), ..Log::default() };
        let (stash, sent) = (Vec::new(), Vec::new());
        Self { ws, conn, log, stash, sent, messages_sent: 0, key, head }
    }

    fn transmit(&mut self) {
        while self.ws.owes(&self.conn) {
            let mut out = Out::default();
            self.ws.transmit(&mut self.conn, Nanos::ZERO, &mut out);
            self.messages_sent += out.take_messages().count();
            self.sent.extend_from_slice(out.as_bytes());
        }
    }

    /// Receive bytes in pieces that end at `cuts`.
    fn receive(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut from = 0;
        for &to in cuts.iter().chain([&bytes.len()]) {
            let to = to.clamp(from, bytes.len());
            self.stash.extend_from_slice(&bytes[from..to]);
            from = to;
            let stash = std::mem::take(&mut self.stash);
            match self.ws.receive(&mut self.conn, &stash, Nanos::ZERO, &mut self.log) {
                Ok(used) => self.stash = stash[used..].to_vec(),
                Err(fault) => {
                    assert!(self.log.has_begun, "the fault has an exchange");
                    self.log.seen.push(Seen::Fault(fault));
                    self.ws.close(&mut self.conn, &mut self.sent);
                    return;
                }
            }
            if self.log.is_over {
                self.ws.close(&mut self.conn, &mut self.sent);
                return;
            }
            self.transmit();
        }
    }

    fn accept(&self, more: &str) -> Vec<u8> {
        let accept = String::from_utf8(accept_of(&self.key).to_vec()).expect("base64");
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, \
             Upgrade\r\nsec-websocket-accept: {accept}\r\n{more}\r\n"
        )
        .into_bytes()
    }

    /// What a server reads of what it has sent.
    fn sent_frames(&self) -> Vec<String> {
        let (mut reader, mut found) =
            (Reader::new(Role::Server, MESSAGE_MAX), Vec::<String>::new());
        let used = reader.read(&self.sent, |event| match event {
            Event::Start(kind) => {
                found.push(if kind == Kind::Text { "text " } else { "binary " }.into())
            }
            Event::Piece(piece) => {
                found.last_mut().expect("a message").push_str(&String::from_utf8_lossy(piece));
            }
            Event::End(_) => {}
            Event::Ping(_) => found.push("ping".into()),
            Event::Pong(bytes) => found.push(format!("pong {}", String::from_utf8_lossy(bytes))),
            Event::Close(close) => found.push(format!("close {}", close.code.0)),
        });
        assert_eq!(used, Ok(self.sent.len()));
        found
    }
}

/// Frames of a server.
fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame { opcode, is_final: true, mask: None }.write(payload, &mut bytes);
    bytes
}

fn close(code: u16) -> Vec<u8> {
    frame(Opcode::Close, &code.to_be_bytes())
}

#[test]
fn the_handshake_is_a_request_of_http() {
    let client = Client::new(&plan(Some(MessageReply::Usual), false));
    let key = std::str::from_utf8(&client.key).expect("base64");
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /chat?room=1 HTTP/1.1\r\nHost: h\r\nUser-Agent: prony/{version}\r\nAccept: */*\r\n\
         Origin: http://h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: chat, superchat\r\n\
         Sec-WebSocket-Key: {key}\r\n\r\n"
    );
    assert_eq!(client.head, expected);
    assert_ne!(client.key, {
        let other = Plan { seed: 2, ..plan(None, false) };
        Client::new(&other).key
    });
}

/// Two messages are due before the connection is open; the server answers both, pings, and answers
/// the close.
fn conversation(client: &Client) -> Vec<u8> {
    [
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec(),
        client.accept("Sec-WebSocket-Protocol: superchat\r\n"),
        frame(Opcode::Text, b"hello"),
        frame(Opcode::Ping, b"are you there"),
        frame(Opcode::Pong, b"nobody asked"),
        frame(Opcode::Text, "zw\u{f6}lf".as_bytes()),
        close(1000),
    ]
    .concat()
}

#[test]
fn a_conversation_is_the_same_in_every_split() {
    let plan = plan(Some(MessageReply::Order), false);
    let run = |cuts: &[usize]| {
        let mut client = Client::new(&plan);
        let bytes = conversation(&client);
        let head = client.accept("Sec-WebSocket-Protocol: superchat\r\n").len() + 40;
        client.ws.send_messages(&mut client.conn, ID, 1, false);
        client.ws.send_messages(&mut client.conn, ID, 1, true);
        assert!(!client.ws.owes(&client.conn), "it is not open");
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
        // What a server sends after messages that it has not seen comes later.
        let (opening, rest) = bytes.split_at(head);
        let at = cuts.iter().filter(|&&cut| cut < head).copied().collect::<Vec<_>>();
        client.receive(opening, &at);
        let at: Vec<_> = cuts.iter().filter(|&&cut| cut > head).map(|cut| cut - head).collect();
        client.receive(rest, &at);
        assert_eq!(client.messages_sent, 2);
        let Some(Seen::Done(reply)) = client.log.seen.pop() else { panic!("{:?}", client.log) };
        assert_eq!((reply.status, reply.body_bytes, reply.interim), (1000, 11, 1));
        assert_eq!(reply.head_bytes + reply.body_bytes, bytes.len() as u64);
        assert_eq!(client.log.seen, [Seen::Message, Seen::Message]);
        (client.sent_frames(), client.sent)
    };
    let (frames, bytes) = run(&[]);
    // The pong follows the close frame of a client that reads everything at once.
    assert_eq!(frames[..2], ["text hello", "text hello"]);
    assert_eq!(frames.last().map(String::as_str), Some("close 1000"));
    assert_ne!(bytes[2..6], bytes[13..17], "each frame has a mask of its own");
    for cut in 1..400 {
        let (frames, _) = run(&[cut]);
        assert_eq!(frames[..2], ["text hello", "text hello"], "{cut}");
    }
    let all: Vec<usize> = (1..400).collect();
    let (frames, _) = run(&all);
    assert_eq!(frames, ["text hello", "text hello", "pong are you there", "close 1000"]);
}

/// A run with the same seed sends the same bytes; with another seed, the same messages with other
/// masks.
#[test]
fn keys_and_masks_follow_from_the_seed() {
    let run = |seed| {
        let plan = Plan { seed, ..plan(Some(MessageReply::Order), false) };
        let mut client = Client::new(&plan);
        client.ws.send_messages(&mut client.conn, ID, 2, true);
        let opening = client.accept("");
        client.receive(&opening, &[]);
        (client.key, client.sent_frames(), client.sent)
    };
    let (key, frames, bytes) = run(1);
    assert_eq!(frames, ["text hello", "text hello"]);
    // A head of two bytes, the mask, five bytes of text.
    assert_eq!(bytes.len(), 2 * (2 + 4 + 5));
    let masks = |bytes: &[u8]| [bytes[2..6].to_vec(), bytes[13..17].to_vec()];
    assert_eq!(run(1), (key, frames.clone(), bytes.clone()));
    let (other_key, other_frames, other_bytes) = run(2);
    assert_eq!(other_frames, frames);
    assert_ne!(other_key, key);
    let mut all = [masks(&bytes), masks(&other_bytes)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4, "{all:?}");
}

/// A server that pings without end: the client answers the latest ping of what it reads at once,
/// and keeps no other.
#[test]
fn a_flood_of_pings_has_one_pong() {
    let pings: Vec<u8> =
        (0..1_000).flat_map(|k| frame(Opcode::Ping, format!("ping {k}").as_bytes())).collect();
    let mut client = Client::new(&plan(Some(MessageReply::Order), false));
    let opening = client.accept("");
    client.receive(&opening, &[]);
    client.receive(&pings, &[]);
    assert_eq!(client.sent_frames(), ["pong ping 999"]);
    // A frame needs a head, a mask and its content.
    assert_eq!(client.sent.len(), 2 + 4 + "ping 999".len());
    // Each ping that comes alone has its pong.
    let mut client = Client::new(&plan(Some(MessageReply::Order), false));
    client.receive(&opening, &[]);
    client.receive(&pings[..(2 + "ping 0".len()) * 3], &[8, 16]);
    assert_eq!(client.sent_frames(), ["pong ping 0", "pong ping 1", "pong ping 2"]);
}

/// Texts of any bytes are messages, if the user wants that. A reason of a close is checked.
#[test]
fn texts_are_not_checked_if_the_user_does_not_want_it() {
    let mut plan = plan(Some(MessageReply::Order), false);
    let spec = plan.websocket.as_deref().cloned().expect("a plan of WebSocket");
    plan.websocket = Some(Box::new(WebSocketPlan { no_utf8_check: true, ..spec }));
    for step in [1, 1_000] {
        let mut client = Client::new(&plan);
        let bad = [frame(Opcode::Text, b"\xff\xfe"), frame(Opcode::Text, b"cut \xC3")].concat();
        let all = [client.accept(""), bad, frame(Opcode::Close, b"\x03\xe8\xff")].concat();
        let cuts: Vec<usize> = (1..all.len()).step_by(step).collect();
        client.receive(&all, &cuts);
        let expected = [Seen::Message, Seen::Message, Seen::Fault(Fault::BadText)];
        assert_eq!(client.log.seen, expected);
        assert_eq!(client.sent_frames(), ["close 1007"]);
    }
}

#[test]
fn other_replies_are_those_of_http() {
    for (reply, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Ok((200, 2))),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Ok((403, 0))),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Err(Fault::BadUpgrade)),
        ("HTTP/1.1 1o1 Switching Protocols\r\n\r\n", Err(Fault::BadStatusLine)),
    ] {
        for step in [1, 1_000] {
            let mut client = Client::new(&plan(None, false));
            let cuts: Vec<usize> = (1..reply.len()).step_by(step).collect();
            client.receive(reply.as_bytes(), &cuts);
            let seen = match client.log.seen.last() {
                Some(Seen::Done(reply)) => Ok((reply.status, reply.body_bytes)),
                Some(Seen::Fault(fault)) => Err(*fault),
                other => panic!("{other:?}"),
            };
            assert_eq!(seen, expected, "{reply}");
            assert!(client.sent.is_empty(), "nothing is sent on a connection that is not open");
        }
    }
}

#[test]
fn servers_that_open_the_connection_in_a_wrong_way_are_refused() {
    for more in [
        "Sec-WebSocket-Extensions: permessage-deflate\r\n",
        "Sec-WebSocket-Protocol: other\r\n",
        "Sec-WebSocket-Accept: c3BlYWsgZnJpZW5kIGFuZCBlbnRlcg==\r\n",
    ] {
        let mut client = Client::new(&plan(None, false));
        let reply = client.accept(more);
        client.receive(&reply, &[]);
        assert_eq!(client.log.seen, [Seen::Fault(Fault::BadUpgrade)], "{more}");
    }
}

/// Each violation has its fault, and its close code is the client's last frame.
#[test]
fn violations_end_the_connection_with_their_code() {
    let short = |bytes: &[u8]| bytes.to_vec();
    let too_long = short(&[0x82, 127, 0, 0, 0, 0, 0x01, 0, 0, 1]);
    for (bytes, fault, code) in [
        (short(&[0x81, 0x81, 0, 0, 0, 0, 0]), Fault::BadWebSocket, 1002),
        (short(&[0xC1, 1, 0x41]), Fault::BadWebSocket, 1002),
        (short(&[0x83, 0]), Fault::BadWebSocket, 1002),
        (short(&[0x09, 0]), Fault::BadWebSocket, 1002),
        (short(&[0x89, 126, 0, 126]), Fault::BadWebSocket, 1002),
        (short(&[0x80, 0]), Fault::BadWebSocket, 1002),
        (short(&[0x01, 0, 0x81, 0]), Fault::BadWebSocket, 1002),
        (short(&[0x82, 126, 0, 5]), Fault::BadWebSocket, 1002),
        (short(&[0x88, 1, 3]), Fault::BadWebSocket, 1002),
        (close(1005), Fault::BadWebSocket, 1002),
        (frame(Opcode::Text, b"\xff"), Fault::BadText, 1007),
        (frame(Opcode::Close, b"\x03\xe8\xff"), Fault::BadText, 1007),
        (too_long, Fault::MessageTooLong, 1009),
    ] {
        for step in [1, 1_000] {
            let mut client = Client::new(&plan(Some(MessageReply::Order), false));
            let all = [client.accept(""), bytes.clone()].concat();
            let cuts: Vec<usize> = (1..all.len()).step_by(step).collect();
            client.receive(&all, &cuts);
            assert_eq!(client.log.seen, [Seen::Fault(fault)], "{bytes:02x?}");
            assert_eq!(client.sent_frames(), [format!("close {code}")], "{bytes:02x?}");
        }
    }
}

/// A server that closes gets an answer with its code, and its code is the status.
#[test]
fn closes_by_the_server_are_answered() {
    for (bytes, status, answer) in [
        (close(1001), 1001, 1001),
        (close(4000), 4000, 4000),
        (frame(Opcode::Close, b""), 1005, 1005),
    ] {
        let mut client = Client::new(&plan(Some(MessageReply::Order), false));
        let all = [client.accept(""), frame(Opcode::Text, b"bye"), bytes].concat();
        client.receive(&all, &[]);
        let [Seen::Message, Seen::Done(reply)] = &client.log.seen[..] else {
            panic!("{:?}", client.log)
        };
        assert_eq!((reply.status, reply.keeps_open), (status, false));
        assert_eq!(client.sent_frames(), [format!("close {answer}")]);
    }
}

#[test]
fn streams_are_ended_from_outside() {
    let mut client = Client::new(&plan(None, true));
    let all = [client.accept(""), frame(Opcode::Text, b"one"), frame(Opcode::Binary, b"")].concat();
    client.receive(&all, &[]);
    assert!(!client.ws.owes(&client.conn), "it waits for more");
    client.ws.stop(&mut client.conn, ID, &mut client.log);
    client.ws.close(&mut client.conn, &mut client.sent);
    let done = client.log.seen.pop();
    assert!(matches!(done, Some(Seen::Done(reply)) if reply.status == 1000), "{done:?}");
    let expected = [Seen::Head(101), Seen::Body(b"one".to_vec()), Seen::Chunk, Seen::Chunk];
    assert_eq!(client.log.seen, expected);
    assert_eq!(client.sent_frames(), ["close 1000"]);
}

#[test]
fn connections_without_messages_are_closed_when_they_are_open() {
    let mut client = Client::new(&plan(None, false));
    client.receive(&client.accept(""), &[]);
    assert_eq!(client.sent_frames(), ["close 1000"]);
    // The answer need not have a code.
    client.receive(&frame(Opcode::Close, b""), &[]);
    let done = client.log.seen.pop();
    assert!(matches!(done, Some(Seen::Done(reply)) if reply.status == 1000), "{done:?}");
    assert_eq!(client.sent_frames(), ["close 1000"], "one close is enough");
}

#[test]
fn ends_without_a_close_are_cuts() {
    let mut client = Client::new(&plan(Some(MessageReply::Order), false));
    assert_eq!(client.ws.end(&mut client.conn, b"", &mut client.log), Err(Fault::ClosedEarly));
    let mut client = Client::new(&plan(Some(MessageReply::Order), false));
    client.receive(&client.accept(""), &[]);
    assert_eq!(client.ws.end(&mut client.conn, b"", &mut client.log), Err(Fault::Truncated));
}

proptest! {
    /// Whatever a server sends after its handshake, and in whatever pieces: the same is seen.
    #[test]
    fn anything_is_the_same_in_every_split(
        bytes in vec(prop_oneof![Just(0x81_u8), Just(0x01), 0_u8..8, any::<u8>()], 0..80),
        cuts in vec(0_usize..300, 0..12),
    ) {
        let plan = plan(Some(MessageReply::Order), false);
        let run = |cuts: &[usize]| {
            let mut client = Client::new(&plan);
            let all = [client.accept(""), bytes.clone()].concat();
            client.receive(&all, cuts);
            client.log.seen
        };
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(run(&[]), run(&cuts));
    }
}
