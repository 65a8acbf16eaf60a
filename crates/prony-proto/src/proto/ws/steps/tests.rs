//! Steps on a socket against bytes of a scripted server, in any split.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::proto::ws::over_h1::{Conn, OverH1};
use crate::proto::{Call, Cancelled, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_base::websocket::{CloseCode, Event, Frame, Opcode, Reader, Role, accept_of};
use prony_plan::plan::{
    Burst, CallSpec, HttpVersion, Load, Plan, SessionKind, Sessions, SocketStep, Stop, Think, Wait,
};
use prony_plan::script::{Awaited, BODY_LIMIT, Content};
use prony_plan::target::Endpoint;

const OPEN: u32 = 0;
/// Sends, and waits for a message with `/ok`.
const ASK: u32 = 1;
/// Sends only.
const SAY: u32 = 2;
/// Waits for `bye`, for 1 s at most.
const WAIT: u32 = 3;
const CLOSE: u32 = 4;

fn plan() -> Plan {
    let wait = |content, within| Wait { message: Awaited { content, equals: None }, within };
    let ok = wait(Content::Json("/ok".into()), None);
    let bye = wait(Content::Text("bye".into()), Some(Span::from_secs(1)));
    let steps = [
        (SocketStep::Open { subprotocols: vec!["chat".into()] }, ""),
        (SocketStep::Send { binary: false, wait: Some(ok) }, "ask"),
        (SocketStep::Send { binary: true, wait: None }, "say"),
        (SocketStep::Wait(bye), ""),
        (SocketStep::Close { code: 1000 }, "done"),
    ];
    let calls = steps.map(|(step, body)| {
        let expect = step.usual_expect(HttpVersion::Http11);
        CallSpec {
            method: "GET".into(),
            path: "/".into(),
            authority: "h".into(),
            body: body.into(),
            expect: Some(Box::new(expect)),
            socket: Some(Box::new(step)),
            ..CallSpec::default()
        }
    });
    let bursts = (0..calls.len() as u32).map(|call| Burst::of(vec![call], Think::None)).collect();
    let endpoint = Endpoint::Tcp { host: "h".into(), port: 80 };
    let load = Load::Closed { connections: 1, think: Think::None };
    let stop = Stop { sessions: Some(1), ..Stop::default() };
    let kind = SessionKind { name: String::new(), weight: 1, bursts };
    let sessions = Some(Sessions::plain(vec![kind]));
    let plan = Plan { sessions, ..Plan::new(vec![endpoint], calls.to_vec(), load, stop) };
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// What a step was reported to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Sent(u32),
    Body(u32, Vec<u8>),
    Done(u32, u16, bool),
    Failed(u32, Fault),
    Closed(u16),
    Draining,
}

#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    /// The step that is made, and whether it was sent.
    current: Option<(RequestId, u32, bool)>,
}

impl Log {
    fn call_of(&self, id: RequestId) -> u32 {
        let (current, call, _) = self.current.expect("a step");
        assert_eq!(current, id);
        call
    }
}

impl Sink for Log {
    fn oldest(&self) -> Option<(RequestId, u32)> {
        self.current.map(|(id, call, _)| (id, call))
    }

    fn outstanding(&self) -> u32 {
        u32::from(self.current.is_some())
    }

    fn was_sent(&self, id: RequestId) -> bool {
        self.current.is_some_and(|(current, _, sent)| current == id && sent)
    }

    fn began(&mut self, id: RequestId) {
        self.call_of(id);
    }

    fn wants_body(&self, _: RequestId) -> bool {
        true
    }

    fn body(&mut self, id: RequestId, piece: &[u8]) {
        self.seen.push(Seen::Body(self.call_of(id), piece.to_vec()));
    }

    fn sent(&mut self, id: RequestId) {
        self.seen.push(Seen::Sent(self.call_of(id)));
        self.current.as_mut().expect("a step").2 = true;
    }

    fn closed(&mut self, code: u16) {
        self.seen.push(Seen::Closed(code));
    }

    fn draining(&mut self) {
        self.seen.push(Seen::Draining);
    }

    fn failed(&mut self, id: RequestId, fault: Fault) {
        self.seen.push(Seen::Failed(self.call_of(id), fault));
        self.current = None;
    }

    fn done(&mut self, id: RequestId, reply: &Reply) {
        assert!(self.was_sent(id), "the end of a step that was not sent");
        self.seen.push(Seen::Done(self.call_of(id), reply.status, reply.keeps_open));
        self.current = None;
    }
}

/// A client on one connection.
struct Client {
    steps: OverH1,
    conn: Conn,
    log: Log,
    stash: Vec<u8>,
    sent: Vec<u8>,
    steps_made: u32,
    now: Nanos,
}

impl Client {
    fn new() -> Self {
        Self {
            steps: OverH1::new(&plan()),
            conn: Conn::default(),
            log: Log::default(),
            stash: Vec::new(),
            sent: Vec::new(),
            steps_made: 0,
            now: Nanos(5),
        }
    }

    /// With an open socket.
    fn open() -> Self {
        let mut client = Self::new();
        client.make(OPEN);
        let head = client.handshake();
        client.receive(head.as_bytes(), 1_000);
        assert_eq!(client.take(), [Seen::Done(OPEN, 101, true)]);
        client.sent.clear();
        client
    }

    /// The right answer to its handshake.
    fn handshake(&self) -> String {
        let head = String::from_utf8(self.sent.clone()).expect("a head");
        let key = head.split("Sec-WebSocket-Key: ").nth(1).expect("a key");
        let accept = accept_of(&key.as_bytes()[..24]);
        let accept = std::str::from_utf8(&accept).expect("text");
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        )
    }

    /// Make a step; the kernel accepts its bytes.
    fn make(&mut self, call: u32) {
        let mut out = Out::default();
        let id = RequestId { slot: self.steps_made, generation: 1 };
        self.steps_made += 1;
        assert_eq!(self.log.current, None);
        self.log.current = Some((id, call, false));
        self.steps.submit(&mut self.conn, id, Call { index: call, filled: None }, false, &mut out);
        self.log.current = Some((id, call, !out.begins().is_empty()));
        self.sent.extend_from_slice(out.as_bytes());
        self.report();
    }

    fn report(&mut self) -> bool {
        self.steps.report_ends(&mut self.conn, self.now, &mut self.log)
    }

    /// Receive bytes in pieces of this size.
    fn receive(&mut self, bytes: &[u8], size: usize) -> Option<Fault> {
        for piece in bytes.chunks(size.max(1)) {
            self.stash.extend_from_slice(piece);
            match self.steps.receive(&mut self.conn, &self.stash, self.now, &mut self.log) {
                Ok(used) => drop(self.stash.drain(..used)),
                Err(fault) => return Some(fault),
            }
            let mut out = Out::default();
            self.steps.transmit(&mut self.conn, self.now, &mut out);
            self.sent.extend_from_slice(out.as_bytes());
        }
        None
    }

    fn close(&mut self) {
        let mut out = Vec::new();
        self.steps.close(&mut self.conn, &mut out);
        self.sent.extend_from_slice(&out);
    }

    fn take(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.log.seen)
    }

    /// The frames that it has sent since the last call, as a server reads them.
    fn take_sent(&mut self) -> Vec<String> {
        let bytes = std::mem::take(&mut self.sent);
        let mut reader = Reader::new(Role::Server, 1 << 20);
        let mut all = Vec::new();
        let used = reader.read(&bytes, |event| {
            all.push(match event {
                Event::Close(close) => format!("close {} {}", close.code.0, close.reason),
                Event::Piece(piece) => String::from_utf8_lossy(piece).into_owned(),
                Event::Ping(content) => format!("ping {}", content.len()),
                Event::Pong(content) => format!("pong {}", content.len()),
                Event::Start(kind) => format!("{kind:?}"),
                Event::End(_) => return,
            });
        });
        assert_eq!(used, Ok(bytes.len()));
        all
    }
}

fn text(content: &str) -> Vec<u8> {
    frame(Opcode::Text, content.as_bytes())
}

fn frame(opcode: Opcode, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { opcode, is_final: true, mask: None }.write(content, &mut out);
    out
}

fn closing(code: CloseCode) -> Vec<u8> {
    let mut out = Vec::new();
    code.write(None, &mut out);
    out
}

#[test]
fn each_step_ends_as_it_should() {
    let mut client = Client::open();
    client.make(SAY);
    assert_eq!(client.take(), [Seen::Done(SAY, 200, true)]);
    client.make(ASK);
    assert_eq!((client.take(), client.report()), (vec![], false));
    assert_eq!(client.take_sent(), ["Binary", "say", "Text", "ask"]);
    assert_eq!(client.receive(&text("{\"no\":1}"), 3), None);
    assert_eq!(client.take(), []);
    assert_eq!(client.receive(&text("{\"ok\":1}"), 3), None);
    let body = Seen::Body(ASK, b"{\"ok\":1}".to_vec());
    assert_eq!(client.take(), [body, Seen::Done(ASK, 200, true)]);
    client.make(CLOSE);
    assert_eq!((client.take(), client.take_sent()), (vec![], vec!["close 1000 done".to_owned()]));
    assert_eq!(client.steps.capacity(&client.conn, 0, 1), 0);
    // What comes before its answer is of no use.
    client.receive(&[text("late"), closing(CloseCode::NORMAL)].concat(), 100);
    assert_eq!(client.take(), [Seen::Done(CLOSE, 1000, false)]);
    client.close();
    assert!(client.sent.is_empty());
}

#[test]
fn a_wait_looks_at_messages_that_have_come_before_it() {
    let mut client = Client::open();
    client.receive(&[text("a"), text("bye 1"), text("bye 2")].concat(), 1_000);
    assert_eq!(client.take(), []);
    let bye = |text: &str| Seen::Body(WAIT, text.into());
    for n in ["bye 1", "bye 2"] {
        client.make(WAIT);
        assert_eq!(client.take(), [Seen::Sent(WAIT), bye(n), Seen::Done(WAIT, 200, true)]);
    }
    client.make(WAIT);
    assert_eq!(client.take(), [Seen::Sent(WAIT)]);
    assert_eq!(client.steps.deadline(&client.conn), Some(client.now + Span::from_secs(1)));
    client.receive(&[text("b"), text("bye 3")].concat(), 2);
    assert_eq!(client.take(), [bye("bye 3"), Seen::Done(WAIT, 200, true)]);
    assert_eq!(client.steps.deadline(&client.conn), None);
}

#[test]
fn messages_before_a_send_cannot_answer_it() {
    let mut client = Client::open();
    client.receive(&text("{\"ok\":0}"), 1_000);
    client.make(ASK);
    assert_eq!(client.take(), []);
    client.receive(&text("{\"ok\":1}"), 1_000);
    assert_eq!(client.take()[0], Seen::Body(ASK, b"{\"ok\":1}".to_vec()));
}

#[test]
fn a_wait_that_takes_too_long_fails_alone() {
    let mut client = Client::open();
    client.make(WAIT);
    client.take();
    let until = client.steps.deadline(&client.conn).expect("a deadline");
    client.now = until;
    assert_eq!(client.steps.on_deadline(&mut client.conn, until), Ok(()));
    assert!(client.report());
    assert_eq!(client.take(), [Seen::Failed(WAIT, Fault::WaitTimeout)]);
    // The socket stays open, and the message is not lost.
    client.receive(&text("bye"), 1_000);
    client.make(WAIT);
    assert_eq!(client.take().last(), Some(&Seen::Done(WAIT, 200, true)));
    client.make(WAIT);
    let id = RequestId { slot: client.steps_made - 1, generation: 1 };
    assert_eq!(client.steps.cancel(&mut client.conn, id), Cancelled::Exchange);
    client.close();
    assert_eq!(client.take_sent(), ["close 1001 "]);
}

#[test]
fn a_close_of_the_peer_is_the_outcome_of_a_step() {
    let refused = CloseCode(1008);
    let mut client = Client::open();
    client.make(ASK);
    client.receive(&closing(refused), 1_000);
    assert_eq!(client.take(), [Seen::Done(ASK, 1008, false)]);
    client.sent.clear();
    client.close();
    assert_eq!(client.take_sent(), ["close 1008 "]);
    // Between two steps.
    let mut client = Client::open();
    client.receive(&closing(refused), 1_000);
    assert_eq!(client.take(), [Seen::Closed(1008), Seen::Draining]);
    client.make(CLOSE);
    assert_eq!(client.take(), [Seen::Sent(CLOSE), Seen::Done(CLOSE, 1008, false)]);
    // Without a code.
    let mut client = Client::open();
    client.make(ASK);
    client.receive(&frame(Opcode::Close, &[]), 1_000);
    assert_eq!(client.take(), [Seen::Done(ASK, 1005, false)]);
    let mut client = Client::open();
    client.make(CLOSE);
    client.receive(&frame(Opcode::Close, &[]), 1_000);
    assert_eq!(client.take(), [Seen::Done(CLOSE, 1000, false)]);
}

#[test]
fn a_connection_without_a_handshake_is_no_socket() {
    for call in [ASK, SAY, WAIT, CLOSE] {
        let mut client = Client::new();
        client.make(call);
        assert_eq!(client.take(), [Seen::Failed(call, Fault::NoSocket)]);
        assert!(client.sent.is_empty());
    }
}

#[test]
fn handshakes_that_open_nothing_are_replies_or_faults() {
    let mut client = Client::new();
    client.make(OPEN);
    client.receive(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", 5);
    assert_eq!(client.take().last(), Some(&Seen::Done(OPEN, 403, false)));
    let mut client = Client::new();
    client.make(OPEN);
    let wrong = client.handshake().replace("Accept: ", "Accept: A");
    assert_eq!(client.receive(wrong.as_bytes(), 1_000), Some(Fault::BadUpgrade));
}

#[test]
fn pings_are_answered_and_violations_reported() {
    let mut client = Client::open();
    client.receive(&frame(Opcode::Ping, b"xyz"), 1);
    assert_eq!(client.take_sent(), ["pong 3"]);
    client.make(ASK);
    client.sent.clear();
    assert_eq!(client.receive(&[0xF1, 0], 1), Some(Fault::BadWebSocket));
    client.close();
    assert_eq!(client.take_sent(), ["close 1002 "]);
    let mut client = Client::open();
    assert_eq!(client.receive(&frame(Opcode::Text, &[0xFF]), 9), Some(Fault::BadText));
    let long = vec![b'x'; BODY_LIMIT + 1];
    let mut client = Client::open();
    assert_eq!(client.receive(&frame(Opcode::Text, &long), 1 << 16), Some(Fault::MessageTooLong));
    let mut client = Client::open();
    client.make(ASK);
    let end = client.steps.end(&mut client.conn, &[], &mut client.log);
    assert_eq!(end, Err(Fault::Truncated));
}

proptest! {
    /// The same bytes have the same effect in any pieces, also together with the handshake.
    #[test]
    fn pieces_do_not_matter(sizes in vec(1usize..40, 1..30), lengths in vec(0usize..300, 0..20)) {
        let messages = lengths.iter().map(|n| text(&format!("{:n$}", "x")));
        let all: Vec<u8> = messages.chain([text("bye"), text("left")]).flatten().collect();
        let run = |sizes: &[usize]| {
            let mut client = Client::new();
            client.make(OPEN);
            let bytes = [client.handshake().into_bytes(), all.clone()].concat();
            let (mut at, mut sizes) = (0, sizes.iter().cycle());
            while at < bytes.len() {
                let size = sizes.next().map_or(1, |n| *n).min(bytes.len() - at);
                assert_eq!(client.receive(&bytes[at..at + size], size), None);
                at += size;
            }
            client.make(WAIT);
            client.take()
        };
        prop_assert_eq!(run(&sizes), run(&[usize::MAX]));
    }

    /// Nothing that a server sends makes it panic, and each step ends once at most.
    #[test]
    fn arbitrary_bytes_are_harmless(
        bytes in vec(any::<u8>(), 0..200),
        size in 1usize..50,
        call in 1u32..5,
    ) {
        let mut client = Client::open();
        client.make(call);
        let _ = client.receive(&bytes, size);
        let ends = |seen: &&Seen| matches!(seen, Seen::Done(..) | Seen::Failed(..));
        prop_assert!(client.log.seen.iter().filter(ends).count() <= 1);
        client.close();
    }
}
