//! Connections of WebSocket: the handshake, and messages that are echoed or pushed.

use std::cmp::Reverse;
use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Serve;
use super::behavior::{BehaviorError, Draw};
use super::broadcast::{BroadcastFaults, Cast};
use super::budget::{ENTRY, MESSAGE_WORK};
use super::conn::{Answer, Counted};
use super::latency::Latency;
use super::request::{Head, Refusal};
use super::station::Ticket;
use super::work::{PUSHED_AHEAD, PUSHED_TIGHT, STEPS, not_too_late};
use crate::rng::{self, Stream};
use crate::units::{ConnId, Nanos, Span};
use crate::websocket::{
    Agreed, Close, CloseCode, Event, Frame, Kind, MESSAGE_MAX, Opcode, Reader, RequestFields, Role,
    Violation,
};

/// What the server does on connections of WebSocket.
///
/// As text: `echo` returns each message, after the service time of a request. `broadcast` sends it
/// to all other connections; `broadcast:lose=1%,duplicate=1%,swap=1%` makes mistakes with these
/// shares of the deliveries. `push:50` (per
/// second) or `push:exp:20ms` (a distribution of the time between messages, as of [`Latency`])
/// sends messages that begin with their number, from 1; those of the client are read and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SocketBehavior {
    /// Return each message.
    Echo,
    /// Send each message to all other connections, with these faults.
    Broadcast(BroadcastFaults),
    /// Send messages, with these times between them.
    Push(Latency),
}

const FORM: &str = "echo, broadcast, broadcast:lose=1%,duplicate=1%,swap=1%, push:50 (messages per \
                    second) or push:exp:20ms";

impl FromStr for SocketBehavior {
    type Err = BehaviorError;

    fn from_str(text: &str) -> Result<Self, BehaviorError> {
        let fail = |why: &'static str| BehaviorError {
            what: "behavior of WebSocket",
            given: text.to_owned(),
            why: why.into(),
            form: FORM,
        };
        if text == "echo" {
            return Ok(Self::Echo);
        }
        if let Some(rest) = text.strip_prefix("broadcast") {
            return BroadcastFaults::parse(rest).map(Self::Broadcast).map_err(fail);
        }
        let Some(("push", times)) = text.split_once(':') else {
            return Err(fail("it is none of echo, broadcast and push"));
        };
        let gap = match times.trim_end_matches("/s").parse::<f64>() {
            Ok(rate) if (1e-3..=1e6).contains(&rate) => {
                Latency::Fixed(Span::from_secs_f64(1.0 / rate))
            }
            Ok(_) => return Err(fail("the rate must be 0.001 to 1,000,000 per second")),
            Err(_) => times.parse()?,
        };
        match gap {
            Latency::None | Latency::Fixed(Span::ZERO) => {
                Err(fail("there must be time between messages"))
            }
            gap => Ok(Self::Push(gap)),
        }
    }
}

impl fmt::Display for SocketBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => f.write_str("echo"),
            Self::Broadcast(faults) => write!(f, "broadcast{faults}"),
            Self::Push(gap) => write!(f, "push:{gap}"),
        }
    }
}

/// Messages that are pushed again: the number of the connection and of the next message, and when
/// the last one was due.
pub(super) type Parked = ((u64, u64), Nanos);

/// The state of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    reader: Reader,
    /// Whether messages are compressed.
    pub(super) deflates: bool,
    /// The message that is being read.
    message: Vec<u8>,
    kind: Kind,
    /// The number of the handshake's request.
    pub(super) number: u64,
    /// Complete messages.
    received: u64,
    /// Messages that were pushed.
    pushed: u64,
    /// When the last one was due, if the next one waits until the client reads.
    parked: Option<Nanos>,
}

/// What a connection owes its client.
pub(super) enum Owed<'a> {
    /// What follows from message `k`.
    Message { k: u64, opcode: Opcode, message: &'a [u8] },
    /// This frame.
    Pong(Vec<u8>),
    /// This frame, and the end of the connection.
    Close(Vec<u8>),
}

impl Socket {
    /// A connection that was opened by the request with this number.
    pub(super) fn new(number: u64, agreed: Option<Agreed>) -> Self {
        let mut reader = Reader::new(Role::Server, MESSAGE_MAX);
        if let Some(agreed) = agreed {
            reader.accept_compressed(agreed.client_alone);
        }
        Self {
            reader,
            deflates: agreed.is_some(),
            message: Vec::new(),
            kind: Kind::Text,
            number,
            received: 0,
            pushed: 0,
            parked: None,
        }
    }

    /// If no message is pushed until the client reads: push messages again.
    pub(super) fn unpark(&mut self) -> Option<Parked> {
        self.parked.take().map(|at| ((self.number, self.pushed + 1), at))
    }

    /// Push no message until the client reads. The last one was due at `at`.
    pub(super) fn park(&mut self, at: Nanos) {
        self.parked = Some(at);
    }

    /// Whether no message is pushed until the client reads.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// The bytes of the message that is being read.
    pub(super) fn size(&self) -> usize {
        self.message.capacity()
    }

    /// The number of the next message that is pushed.
    pub(super) fn next_push(&mut self) -> u64 {
        self.pushed += 1;
        self.pushed
    }

    /// Read frames. Returns how many bytes were used.
    pub(super) fn read(
        &mut self,
        data: &[u8],
        mut each: impl FnMut(Owed<'_>),
    ) -> Result<usize, Violation> {
        let Self { reader, message, kind, received: k, .. } = self;
        let result = reader.read(data, |event| match event {
            Event::Start(start) => {
                message.clear();
                *kind = start;
            }
            Event::Piece(piece) => message.extend_from_slice(piece),
            Event::End(_) => {
                *k += 1;
                let opcode = if *kind == Kind::Text { Opcode::Text } else { Opcode::Binary };
                each(Owed::Message { k: *k, opcode, message });
            }
            Event::Ping(payload) => each(Owed::Pong(frame(Opcode::Pong, payload))),
            Event::Pong(_) => {}
            Event::Close(close) => each(Owed::Close(answer_to(&close))),
        });
        if reader.is_between_messages() && message.capacity() > KEPT {
            *message = Vec::new();
        }
        result
    }
}

/// The frame of a server.
fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    Frame { opcode, is_final: true, mask: None }.write(payload, &mut bytes);
    bytes
}

pub(super) fn close_frame(code: CloseCode) -> Vec<u8> {
    let mut bytes = Vec::new();
    code.write(None, &mut bytes);
    bytes
}

/// The head of a reply with the status 101, and how messages are compressed; or the request is
/// refused.
type Answered = Result<(Vec<u8>, Option<Agreed>), ()>;

/// The answer to the head of a request, if it asks for WebSocket: the head of a reply with the
/// status 101 and what is agreed on, or why it is refused.
fn upgrade(head: &[u8], compress: bool) -> Option<Answered> {
    let mut fields = RequestFields::default();
    let mut protocol = None;
    for line in head.split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        fields.field(name, value);
        if name.eq_ignore_ascii_case(b"sec-websocket-protocol") && protocol.is_none() {
            protocol = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).next();
        }
    }
    if !fields.is_upgrade() {
        return None;
    }
    let Ok(accept) = fields.check() else { return Some(Err(())) };
    let mut reply = b"HTTP/1.1 101 Switching Protocols\r\nServer: prony\r\nUpgrade: websocket\r\n\
                      Connection: Upgrade\r\nSec-WebSocket-Accept: "
        .to_vec();
    reply.extend_from_slice(&accept);
    if let Some(protocol) = protocol {
        reply.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        reply.extend_from_slice(protocol);
    }
    let agreed = fields.deflate().filter(|_| compress);
    if let Some(agreed) = agreed {
        reply.extend_from_slice(b"\r\nSec-WebSocket-Extensions: ");
        reply.extend_from_slice(agreed.reply().as_bytes());
    }
    reply.extend_from_slice(b"\r\n\r\n");
    Some(Ok((reply, agreed)))
}

impl Serve {
    /// If a request without a body asks for WebSocket, answer its handshake. Returns whether it
    /// does.
    pub(super) fn upgrades(&mut self, id: ConnId, head: Head, bytes: &[u8], now: Nanos) -> bool {
        if head.has_body || head.is_head || head.is_http10 || self.slots.is_stopping() {
            return false;
        }
        match upgrade(bytes, self.behavior.ws_compress) {
            None => return false,
            Some(Ok((reply, agreed))) => self.start_socket(id, reply, agreed, now),
            Some(Err(())) => {
                let why = "not a handshake of WebSocket, version 13\n";
                self.refuse(id, Refusal { status: 400, why }, now);
            }
        }
        true
    }

    /// A request has asked for WebSocket: the connection changes to it.
    fn start_socket(&mut self, id: ConnId, reply: Vec<u8>, agreed: Option<Agreed>, now: Nanos) {
        let number = self.served.requests;
        self.count_request(now);
        self.served.sockets += 1;
        let c = &mut self.conns[id.slot as usize];
        c.requests += 1;
        c.ws = Some(Box::new(Socket::new(number, agreed)));
        self.pass(id, Answer::Bytes(reply, Counted::Reply(101)), now);
        self.start_pushes((id, 0), number, now);
    }

    /// A connection is open. `stream`: that of HTTP/2, or 0.
    pub(super) fn start_pushes(&mut self, place: (ConnId, u32), number: u64, now: Nanos) {
        if let Some(SocketBehavior::Push(gap)) = self.behavior.ws {
            self.schedule_push(place, (number, 1), gap, now);
        }
    }

    /// Message `k` of a connection is due after a gap from `now`.
    fn schedule_push(
        &mut self,
        (id, stream): (ConnId, u32),
        (number, k): (u64, u64),
        gap: Latency,
        now: Nanos,
    ) {
        let draw = |what| rng::keyed(self.seed, Stream::Serve, number, k << 8 | what as u64);
        let gap = gap.draw(draw(Draw::Latency), draw(Draw::Latency2));
        self.pushes.push(Reverse((now + gap, id, stream)));
    }

    /// Send the messages that are due, unless the server is frozen.
    pub(super) fn push_messages(&mut self, now: Nanos) {
        let Some(SocketBehavior::Push(gap)) = self.behavior.ws else { return };
        for _ in 0..STEPS {
            let Some(&Reverse((at, id, stream))) = self.pushes.peek() else { return };
            if self.held.is_some() || at > now {
                return;
            }
            self.pushes.pop();
            let (size, limit) = (self.behavior.size as usize, self.push_limit());
            let Some(c) = self.conn(id).filter(|c| c.reads) else { continue };
            let is_ahead = c.waiting(stream) >= limit;
            let socket = match &mut c.h2 {
                None => c.ws.as_deref_mut(),
                Some(session) => session.socket(stream),
            };
            let Some(socket) = socket else { continue };
            if is_ahead {
                socket.park(at);
                if let Some(session) = &mut c.h2 {
                    session.parked_sockets += 1;
                }
                continue;
            }
            let (number, k, deflates) = (socket.number, socket.next_push(), socket.deflates);
            let mut message = Vec::with_capacity(size.max(20));
            write!(message, "{k}").expect("a Vec takes all");
            message.resize(size.max(message.len()), b' ');
            let bytes = self.message_frame(deflates, Opcode::Text, &message);
            self.pass_frame((id, stream), bytes, now);
            self.account(id);
            self.request_transmit(id);
            let at = not_too_late(at, now);
            self.schedule_push((id, stream), (number, k + 1), gap, at);
        }
    }

    /// How many messages may wait on a connection before no further one is pushed.
    fn push_limit(&self) -> usize {
        let limit = if self.is_tight() { PUSHED_TIGHT } else { PUSHED_AHEAD };
        (limit / (self.behavior.size as usize + ENTRY)).max(1)
    }

    /// Push messages again on a connection that has sent what waited.
    pub(super) fn resume_pushes(&mut self, id: ConnId, now: Nanos) {
        let Some(SocketBehavior::Push(gap)) = self.behavior.ws else { return };
        let limit = self.push_limit().div_ceil(2);
        let Some(c) = self.conn(id) else { return };
        let (mut resumed, queued) = (Vec::new(), c.queue_len());
        match (&mut c.h2, &mut c.ws) {
            (Some(session), _) => session.unpark_sockets(limit, &mut resumed),
            (None, Some(socket)) if queued < limit => {
                resumed.extend(socket.unpark().map(|next| (0, next)));
            }
            _ => {}
        }
        for (stream, (next, at)) in resumed {
            self.schedule_push((id, stream), next, gap, not_too_late(at, now));
        }
    }

    /// Send the frame of a message that is no answer.
    pub(super) fn pass_frame(&mut self, (id, stream): (ConnId, u32), frame: Vec<u8>, now: Nanos) {
        match self.conn(id).and_then(|c| c.h2.as_deref_mut()) {
            Some(session) => session.push_frame(stream, frame),
            None => self.pass(id, Answer::Bytes(frame, Counted::Message), now),
        }
    }

    /// Read frames. Returns how many bytes were used.
    pub(super) fn read_socket(&mut self, id: ConnId, data: &[u8], now: Nanos) -> usize {
        let slot = id.slot as usize;
        let Some(mut socket) = self.conns[slot].ws.take() else { return data.len() };
        let (number, deflates) = (socket.number, socket.deflates);
        let result = socket.read(data, |owed| self.socket_owes(id, owed, (number, deflates), now));
        self.conns[slot].ws = Some(socket);
        result.unwrap_or_else(|violation| {
            self.served.violations += 1;
            self.end_socket(id, close_frame(violation.close_code()), now);
            data.len()
        })
    }

    fn socket_owes(
        &mut self,
        id: ConnId,
        owed: Owed<'_>,
        (number, deflates): (u64, bool),
        now: Nanos,
    ) {
        match owed {
            Owed::Message { k, opcode, message } => {
                let from = ((id, 0), number, deflates);
                let Some(answer) = self.answer_to_message(from, k, opcode, message) else { return };
                let work = self.service_time(number, k, now);
                let ticket = Ticket { id, entry: self.conns[id.slot as usize].push(answer) };
                if self.enter(ticket, work, now) {
                    self.ready(ticket, now, now);
                }
            }
            Owed::Pong(pong) => {
                if !self.conns[id.slot as usize].replaces_pong(&pong) {
                    self.pass(id, Answer::Bytes(pong, Counted::Nothing), now);
                }
            }
            Owed::Close(frame) => self.end_socket(id, frame, now),
        }
    }

    /// What follows from message `k` on this connection (its place, its number, and whether it
    /// compresses), after its service.
    pub(super) fn answer_to_message(
        &mut self,
        (publisher, number, deflates): ((ConnId, u32), u64, bool),
        k: u64,
        opcode: Opcode,
        message: &[u8],
    ) -> Option<Answer> {
        self.served.socket_messages_received += 1;
        self.work += message.len() + MESSAGE_WORK;
        match self.behavior.ws {
            Some(SocketBehavior::Echo) => {
                let frame = self.message_frame(deflates, opcode, message);
                Some(Answer::Bytes(frame, Counted::Message))
            }
            Some(SocketBehavior::Broadcast(_)) => {
                let message = message.to_vec();
                Some(Answer::Cast(Box::new(Cast {
                    publisher,
                    number,
                    k,
                    opcode,
                    message,
                    slot: 0,
                    before: 0,
                    frames: [None, None],
                })))
            }
            _ => None,
        }
    }

    /// The frame of a message. `deflates`: it is compressed.
    pub(super) fn message_frame(
        &mut self,
        deflates: bool,
        opcode: Opcode,
        message: &[u8],
    ) -> Vec<u8> {
        if !deflates {
            return frame(opcode, message);
        }
        let payload = self.deflater.get_or_insert_default().compress(message);
        let mut bytes = Vec::with_capacity(payload.len() + 10);
        Frame { opcode, is_final: true, mask: None }.write_compressed(payload, &mut bytes);
        bytes
    }

    /// Send this close frame after what is owed, then close the connection.
    fn end_socket(&mut self, id: ConnId, frame: Vec<u8>, now: Nanos) {
        self.deliver_held(id, now);
        self.conns[id.slot as usize].reads = false;
        self.pass(id, Answer::Bytes(frame, Counted::Nothing), now);
        self.pass(id, Answer::Leave, now);
    }

    /// Close a connection of WebSocket, as the server goes away. Returns whether it is one.
    pub(super) fn leave_socket(&mut self, id: ConnId, now: Nanos) -> bool {
        let Some(c) = self.conn(id).filter(|c| c.ws.is_some()) else { return false };
        if c.reads {
            self.end_socket(id, close_frame(CloseCode::GOING_AWAY), now);
            self.request_transmit(id);
        }
        true
    }
}

/// A connection that has read a longer message keeps no buffer for the next.
const KEPT: usize = 2 << 10;

fn answer_to(close: &Close<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    close.write_answer(None, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviors_are_read_from_text() {
        let parse = |text: &str| text.parse::<SocketBehavior>().map_err(|error| error.to_string());
        assert_eq!(parse("echo"), Ok(SocketBehavior::Echo));
        let fixed = SocketBehavior::Push(Latency::Fixed(Span::from_millis(20)));
        assert_eq!((parse("push:50"), parse("push:50/s")), (Ok(fixed), Ok(fixed)));
        assert_eq!(parse("push:fixed:20ms"), Ok(fixed));
        assert_eq!(fixed.to_string(), "push:fixed:20ms");
        let random = SocketBehavior::Push(Latency::Exponential(Span::from_millis(20)));
        assert_eq!(parse("push:exp:20ms"), Ok(random));
        for text in ["broadcast", "broadcast:lose=0.01,duplicate=0.5,swap=1", "broadcast:swap=0.1"]
        {
            assert_eq!(parse(text).map(|parsed| parsed.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(parse("broadcast:lose=1%"), parse("broadcast:lose=0.01"));
        for bad in
            ["broadcasts", "broadcast:", "broadcast:lose", "broadcast:lose=2", "broadcast:a=1"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["", "push", "push:", "push:0", "push:none", "push:fixed:0s", "pull:5"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
