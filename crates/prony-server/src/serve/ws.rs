//! Connections of WebSocket: the handshake, and messages that are echoed or pushed.

use std::cmp::Reverse;
use std::io::Write as _;

use prony_base::rng::{self, Stream};
use prony_base::units::{ConnId, Nanos};
use prony_base::websocket::{Agreed, CloseCode, Frame, Opcode, RequestFields};

use super::Serve;
use super::answer::Answer;
use super::behavior::{Draw, Latency, SocketBehavior};
use super::cast::Cast;
use super::out::Counted;
use super::request::{Head, Refusal};
use super::socket::{Owed, Socket, close_frame, frame};
use super::station::Ticket;
use super::work::{ENTRY, MESSAGE_WORK, PUSHED_AHEAD, PUSHED_TIGHT, STEPS, not_too_late};

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
