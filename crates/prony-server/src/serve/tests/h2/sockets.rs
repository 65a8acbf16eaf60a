//! Connections of WebSocket on streams (RFC 8441).

use prony_base::websocket::{
    CloseCode, Event, Frame as WsFrame, MESSAGE_MAX, Opcode, Reader, Role,
};

use super::*;
use crate::serve::{BroadcastFaults, Latency, SocketBehavior};

fn echo(latency: Latency) -> ServerBehavior {
    ServerBehavior { latency, ws: Some(SocketBehavior::Echo), ..ServerBehavior::default() }
}

impl Frames {
    /// Open a connection on a stream.
    fn connect(&mut self, stream: u32, more: &[(&str, &str)]) -> &mut Self {
        let own = [(":protocol", "websocket"), ("sec-websocket-version", "13")];
        self.request(stream, "CONNECT", "/chat", &[&own[..], more].concat());
        self
    }

    /// A frame of WebSocket in a DATA frame of its own.
    fn says(&mut self, stream: u32, opcode: Opcode, payload: &[u8], ends: bool) -> &mut Self {
        self.data(stream, &masked(opcode, payload), ends)
    }
}

/// A handshake over HTTP/1.1.
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn masked(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mask = Some(0x1234_5678);
    WsFrame { opcode, is_final: true, mask }.write(payload, &mut bytes);
    bytes
}

/// The frames of WebSocket in these bytes of a server.
fn heard(bytes: &[u8]) -> String {
    let (mut reader, mut found) = (Reader::new(Role::Client, MESSAGE_MAX), Vec::new());
    let used = reader.read(bytes, |event| match event {
        Event::Start(_) => found.push(String::new()),
        Event::Piece(piece) => {
            found.last_mut().expect("a message").push_str(&String::from_utf8_lossy(piece));
        }
        Event::End(_) | Event::Ping(_) => {}
        Event::Pong(bytes) => found.push(format!("pong {}", String::from_utf8_lossy(bytes))),
        Event::Close(close) => found.push(format!("close {}", close.code.0)),
    });
    assert_eq!(used, Ok(bytes.len()), "whole frames");
    found.join(", ")
}

impl Rig {
    /// What a stream has heard, and how it has ended.
    fn heard(&self, link: usize, stream: u32) -> String {
        let reply = self.reply(link, stream);
        let end = match (reply.ended, reply.reset) {
            (false, None) => String::new(),
            (true, None) => " END".into(),
            (ended, Some(code)) => format!("{} RST {}", if ended { " END" } else { "" }, code.0),
        };
        format!("{} {}{end}", reply.status(), heard(&reply.body))
    }
}

#[test]
fn extended_connect_is_announced_where_it_is_served() {
    for (behavior, expected) in [(echo(Latency::None), true), (ServerBehavior::default(), false)] {
        let mut frames = Frames::start();
        frames.connect(1, &[]);
        let rig = rig(behavior, &mut frames);
        let mut settings = frame::Settings::default();
        assert_eq!(settings.apply(&rig.frames(0)[0].payload, |_, _| {}), Ok(()));
        assert_eq!(settings.connect, expected);
        let reply = rig.reply(0, 1);
        match expected {
            true => assert_eq!((reply.status(), reply.ended), ("200", false)),
            false => assert_eq!(reply.reset, Some(Code::PROTOCOL_ERROR)),
        }
        assert_eq!(rig.served().malformed, u64::from(!expected));
    }
}

/// Two connections in turn, each with a service time for its messages, however the bytes are cut.
#[test]
fn conversations_do_not_depend_on_the_split() {
    let mut frames = Frames::start();
    frames.connect(1, &[("sec-websocket-protocol", "chat, other")]).connect(3, &[]).get(5, "/");
    let hello = masked(Opcode::Text, b"hello");
    frames.data(1, &hello[..4], false).says(3, Opcode::Ping, b"you", false);
    frames.data(1, &[&hello[4..], &hello].concat(), false).says(3, Opcode::Binary, b"", false);
    let bytes = frames.take();
    let run = |cut: usize| {
        let mut rig = Rig::new(echo(Latency::Fixed(ms(2))));
        rig.connect();
        bytes.chunks(cut).for_each(|piece| rig.send(0, piece));
        assert_eq!((rig.heard(0, 1), rig.heard(0, 3)), ("200 ".into(), "200 pong you".into()));
        rig.run_until(at(2));
        assert_eq!(rig.heard(0, 1), "200 hello, hello");
        assert_eq!(rig.heard(0, 3), "200 pong you, ");
        assert_eq!(rig.reply(0, 1).fields[1], ("sec-websocket-protocol".into(), "chat".into()));
        // One client ends its side at once, the other after the server.
        let mut last = Frames::default();
        let (normal, own) = (1000_u16.to_be_bytes(), 4321_u16.to_be_bytes());
        last.says(1, Opcode::Close, &normal, false).says(3, Opcode::Close, &own, true);
        rig.send(0, last.take());
        assert_eq!(rig.heard(0, 1), "200 hello, hello, close 1000 END");
        assert_eq!(rig.heard(0, 3), "200 pong you, , close 4321 END");
        last.data(1, b"", true).get(7, "/");
        rig.send(0, last.take());
        rig.run_until(at(9));
        assert_eq!(rig.statuses_h2(0, &[5, 7]), ["200", "200"]);
        rig.served().clone()
    };
    let whole = run(bytes.len());
    let counts = [whole.sockets, whole.socket_messages_received, whole.socket_messages_sent];
    assert_eq!((counts, whole.violations, whole.malformed), ([2, 3, 3], 0, 0));
    assert_eq!((whole.requests, whole.statuses[&200], whole.cancelled), (4, 4, 0));
    for cut in [1, 2, 3, 7, 11, 29, 64] {
        let served = run(cut);
        assert_eq!((served.sockets, served.statuses), (2, whole.statuses.clone()), "{cut}");
    }
}

#[test]
fn clients_may_leave_and_may_be_wrong() {
    let mut frames = Frames::start();
    for stream in [1, 3, 5, 7] {
        frames.connect(stream, &[]);
    }
    frames.data(1, b"", true).reset(3).data(5, b"\x81\x01x", false);
    frames.says(5, Opcode::Text, b"late", false).says(7, Opcode::Text, b"hi", false);
    frames.request(9, "CONNECT", "/", &[(":protocol", "websocket")]);
    frames.request(11, "CONNECT", "/", &[(":protocol", "other")]);
    let rig = rig(echo(Latency::None), &mut frames);
    assert_eq!(rig.heard(0, 1), "200  END", "nothing is left to say");
    assert_eq!(rig.heard(0, 5), "200 close 1002 END RST 0");
    assert_eq!(rig.heard(0, 7), "200 hi");
    assert_eq!((rig.reply(0, 9).status(), rig.reply(0, 11).status()), ("400", "501"));
    let served = rig.served();
    assert_eq!((served.sockets, served.violations, served.bad_requests), (4, 1, 2));
    assert!(rig.links[0].closed.is_none(), "the connection stays open");
}

/// A client that pings without end, and reads nothing: over either version of HTTP, the server
/// keeps the answers to the first pings, and to the latest one.
#[test]
fn clients_that_ping_and_do_not_read_are_answered_to_a_bound() {
    let mut frames = Frames::with_settings(&[(4, 0)]);
    // The stream's window is that of the server's settings only when they are acknowledged.
    frames.frame(kind::SETTINGS, flag::ACK, 0, b"").connect(1, &[]);
    let mut rig = rig(echo(Latency::None), &mut frames);
    let other = rig.connect();
    rig.send(other, UPGRADE);
    let head = rig.bytes(other).len();
    rig.links[other].window = 0;
    const PINGS: usize = 200_000;
    for k in 0..PINGS {
        let text = k.to_string();
        rig.send(other, masked(Opcode::Ping, text.as_bytes()));
        frames.says(1, Opcode::Ping, text.as_bytes(), false);
        rig.send(0, frames.take());
    }
    frames.window(1, 1 << 24).window(0, 1 << 24);
    rig.send(0, frames.take());
    rig.open_window(other, usize::MAX);
    assert_eq!((rig.reply(0, 1).reset, rig.links[other].closed), (None, None));
    for (version, heard) in
        [("2", heard(&rig.reply(0, 1).body)), ("1.1", heard(&rig.bytes(other)[head..]))]
    {
        let pongs: Vec<&str> = heard.split(", ").collect();
        let n = pongs.len();
        assert!((1_000..20_000).contains(&n), "HTTP/{version}: {n} pongs");
        assert_eq!(pongs[..3], ["pong 0", "pong 1", "pong 2"]);
        assert_eq!(*pongs.last().expect("pongs"), format!("pong {}", PINGS - 1));
    }
    // Both go on.
    rig.send(other, masked(Opcode::Text, b"hi"));
    assert!(heard(&rig.bytes(other)[head..]).ends_with(", hi"));
}

/// A message that is longer than the windows of both sides.
#[test]
fn messages_wait_for_windows() {
    let mut frames = Frames::with_settings(&[(4, 1_000)]);
    frames.connect(1, &[]);
    let behavior = ServerBehavior { window: 1_000, ..echo(Latency::None) };
    let mut rig = rig(behavior, &mut frames);
    let message = masked(Opcode::Text, &[b'x'; 3_000]);
    // The server gives back what it has read.
    for piece in message.chunks(600) {
        frames.data(1, piece, false);
        rig.send(0, frames.take());
    }
    let updates = rig.frames(0).into_iter().filter(|f| f.kind == kind::WINDOW_UPDATE);
    assert!(updates.filter(|f| f.stream == 1).count() >= 2);
    for received in [1_000, 2_000, 3_000] {
        assert_eq!(rig.reply(0, 1).body.len(), received);
        frames.window(1, 1_000);
        rig.send(0, frames.take());
    }
    assert_eq!(heard(&rig.reply(0, 1).body).len(), 3_000);
    assert_eq!(rig.served().socket_messages_sent, 1);
}

/// A broadcast reaches connections of both versions, and the server closes all when it stops.
#[test]
fn broadcasts_reach_both_versions_of_http() {
    let ws = Some(SocketBehavior::Broadcast(BroadcastFaults::default()));
    let mut frames = Frames::start();
    frames.connect(1, &[]).connect(3, &[]);
    let mut rig = rig(ServerBehavior { ws, ..ServerBehavior::default() }, &mut frames);
    let other = rig.connect();
    rig.send(other, UPGRADE);
    let head = rig.bytes(other).len();
    frames.says(1, Opcode::Text, b"to all", false);
    rig.send(0, frames.take());
    rig.send(other, masked(Opcode::Text, b"to streams"));
    assert_eq!(rig.heard(0, 1), "200 to streams");
    assert_eq!(rig.heard(0, 3), "200 to all, to streams");
    assert_eq!(heard(&rig.bytes(other)[head..]), "to all");
    rig.stop(StopRequest::Drain);
    assert_eq!(rig.heard(0, 3), "200 to all, to streams, close 1001 END RST 0");
    assert_eq!(
        heard(&rig.bytes(other)[head..]),
        format!("to all, close {}", CloseCode::GOING_AWAY.0)
    );
    rig.run_until(at(2_000));
    assert!(rig.finished && rig.links[0].closed.is_some());
    assert_eq!((rig.served().socket_messages_sent, rig.served().violations), (4, 0));
}
