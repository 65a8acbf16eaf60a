//! WebSocket over HTTP/1.1, client side (RFC 6455). An exchange is a connection, from its handshake
//! to its close; its status is the close code. A handshake that is answered by anything but the
//! status 101 is an exchange of HTTP.

mod deflating;
mod handshake;
mod pings;
mod stamps;
#[cfg(test)]
mod tests;

use crate::fault::Fault;
use crate::plan::{Plan, WebSocketPlan};
use crate::proto::h1::{self, H1};
use crate::proto::{Call, Carrier, Out, Reply, Sink};
use crate::rng::{self, Stream};
use crate::script::Filled;
use crate::units::{Nanos, RequestId, Span};
use crate::websocket::{
    CloseCode, Event, Frame, MESSAGE_MAX, OFFER, Opcode, Reader, ReplyFields, Role, Violation,
    key_of,
};
use deflating::Deflating;
use handshake::Watch;
use pings::Pings;
use stamps::{Part, Stamping};

/// The carrier of one worker.
#[derive(Debug)]
pub struct Ws {
    h1: H1,
    /// The message of each call.
    messages: Vec<Vec<u8>>,
    protocols: Vec<String>,
    opcode: Opcode,
    /// Whether messages have a schedule.
    is_paced: bool,
    /// Whether what arrives is read as a stream, which something else ends.
    is_stream: bool,
    /// Whether each message has a reply that is awaited.
    awaits: bool,
    seed: u64,
    /// How many handshakes were sent.
    started: u64,
    shard: (u64, u64),
    /// A handshake without its message.
    head: Filled,
    /// How messages are stamped, if they are.
    stamping: Option<Box<Stamping>>,
    ping_every: Option<Span>,
    /// How messages are compressed, if they are.
    deflating: Option<Box<Deflating>>,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    step: Step,
    http: h1::Conn,
    fields: ReplyFields,
    /// How many bytes of the handshake's reply were used.
    head_bytes: u64,
    socket: Socket,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Nothing was sent.
    #[default]
    New,
    /// The handshake was sent.
    Handshake,
    /// The connection is open.
    Open,
    /// A close frame was sent, and the peer's is awaited.
    Closing,
    /// The exchange has ended, and a close frame is to be sent.
    Ended,
    /// Nothing follows.
    Over,
}

/// An exchange, and what is to be sent for it.
#[derive(Debug)]
struct Socket {
    id: RequestId,
    call: u32,
    /// The number of the handshake in the whole run, and of the last frame after it.
    number: u64,
    frame: u64,
    reader: Reader,
    /// The message, if it was made for this exchange.
    own: Option<Vec<u8>>,
    /// Messages that are due, were sent, and have arrived.
    owed: u64,
    sent: u64,
    arrived: u64,
    /// Whether no further message becomes due.
    ends: bool,
    /// The content of the last ping, and whether it has no answer.
    ping: Vec<u8>,
    owes_pong: bool,
    /// The reply so far.
    head_bytes: u64,
    framing_bytes: u64,
    interim: u32,
    /// The code of the close frame that is to be sent.
    last_words: CloseCode,
    /// The stamps of what it sends and receives.
    part: Option<Box<Part>>,
    pings: Option<Box<Pings>>,
}

impl Default for Socket {
    fn default() -> Self {
        Self::new(RequestId { slot: u32::MAX, generation: 0 }, 0, 0)
    }
}

impl Socket {
    fn new(id: RequestId, call: u32, number: u64) -> Self {
        Self {
            id,
            call,
            number,
            frame: 0,
            reader: Reader::new(Role::Client, MESSAGE_MAX),
            own: None,
            owed: 0,
            sent: 0,
            arrived: 0,
            ends: false,
            ping: Vec::new(),
            owes_pong: false,
            head_bytes: 0,
            framing_bytes: 0,
            interim: 0,
            last_words: CloseCode::GOING_AWAY,
            part: None,
            pings: None,
        }
    }
}

impl Ws {
    /// The carrier for a plan's calls.
    pub fn new(plan: &Plan) -> Self {
        let spec = plan.websocket.as_deref().cloned().unwrap_or_default();
        let is_binary = spec.binary;
        Self {
            h1: H1::new(&handshakes(plan, &spec)),
            messages: plan.calls.iter().map(|call| call.body.clone()).collect(),
            protocols: spec.subprotocols,
            opcode: if is_binary { Opcode::Binary } else { Opcode::Text },
            is_paced: plan.messages.is_some(),
            is_stream: plan.stream.is_some(),
            awaits: plan.awaits_echoes(),
            seed: plan.seed,
            started: 0,
            shard: (plan.shard.index.into(), plan.shard.of.into()),
            head: Filled::default(),
            stamping: Stamping::new(plan).map(Box::new),
            ping_every: spec.ping_every,
            deflating: spec.compress.then(|| Box::new(Deflating::new(plan))),
        }
    }

    /// Whether the exchange on an open connection has everything that it waits for.
    fn is_complete(&self, socket: &Socket) -> bool {
        let is_answered = !self.awaits || socket.arrived >= socket.sent;
        socket.ends && socket.owed == 0 && is_answered && !self.is_stream
    }

    /// The bytes with which the next frame is masked.
    fn mask(&self, socket: &mut Socket) -> u32 {
        socket.frame += 1;
        (rng::keyed(self.seed, Stream::Masks, socket.number, socket.frame) >> 32) as u32
    }

    fn key(&self, number: u64) -> [u8; 24] {
        let bits = |place| rng::keyed(self.seed, Stream::Masks, number, place);
        key_of([bits(u64::MAX), bits(u64::MAX - 1)])
    }

    /// Write the messages that are due.
    fn write_messages(&mut self, socket: &mut Socket, now: Nanos, out: &mut Out) {
        let (own, mut part) = (socket.own.take(), socket.part.take());
        let message = own.as_deref().unwrap_or(&self.messages[socket.call as usize]);
        for _ in 0..std::mem::take(&mut socket.owed) {
            let mask = Some(self.mask(socket));
            let frame = Frame { opcode: self.opcode, is_final: true, mask };
            match (part.as_deref_mut(), self.stamping.as_deref_mut()) {
                (Some(part), Some(stamping)) => {
                    let (token, stamped) = stamping.stamp(part, socket.call, own.as_deref(), now);
                    out.wrote_message(socket.id, token);
                    match self.deflating.as_deref_mut() {
                        None => frame.write(stamped, out.bytes()),
                        Some(deflating) => deflating.write(stamped, &frame, out.bytes()),
                    }
                }
                _ => {
                    out.wrote_message(socket.id, 0);
                    match self.deflating.as_deref_mut() {
                        None => frame.write(message, out.bytes()),
                        Some(deflating) if own.is_some() => {
                            deflating.write(message, &frame, out.bytes());
                        }
                        Some(deflating) => deflating.write_known(socket.call, &frame, out.bytes()),
                    }
                }
            }
            socket.sent += 1;
        }
        (socket.own, socket.part) = (own, part);
    }

    /// The connection is open.
    fn open(&self, conn: &mut Conn, reply: &Reply, now: Nanos, sink: &mut impl Sink) {
        conn.step = Step::Open;
        let socket = &mut conn.socket;
        (socket.head_bytes, socket.interim) = (reply.head_bytes, reply.interim);
        socket.ends |= !self.is_paced;
        socket.pings = self.ping_every.map(|every| Box::new(Pings::new(every, now)));
        if socket.part.as_deref().is_some_and(Part::subscribes) {
            sink.subscribed(socket.id);
        }
        if sink.wants_body(socket.id) {
            sink.head(socket.id, reply.status, false);
        }
    }

    /// Read the reply to the handshake. Returns how many bytes were used.
    fn handshake(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let key = self.key(conn.socket.number);
        let mut watch = Watch {
            sink: &mut *sink,
            fields: &mut conn.fields,
            key: &key,
            protocols: &self.protocols,
            switch: None,
        };
        let used = self.h1.receive(&mut conn.http, data, now, &mut watch)?;
        let Some(reply) = watch.switch else {
            conn.head_bytes += used as u64;
            return Ok(used);
        };
        sink.began(conn.socket.id);
        conn.fields.check(self.deflating.is_some()).map_err(|_| Fault::BadUpgrade)?;
        if let Some(agreed) = conn.fields.deflate() {
            conn.socket.reader.accept_compressed(agreed.server_alone);
        }
        let used = (reply.head_bytes - conn.head_bytes) as usize;
        self.open(conn, &reply, now, sink);
        Ok(used + self.frames(conn, &data[used..], sink)?)
    }

    /// Read frames. Returns how many bytes were used.
    fn frames(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let Socket { id, reader, arrived, ping, owes_pong, part, pings, .. } = &mut conn.socket;
        let mut part = part.as_deref_mut().zip(self.stamping.as_deref());
        let (id, wants, is_stream) = (*id, sink.wants_body(*id), self.is_stream);
        let (mut close, before) = (None, reader.payload_bytes());
        let result = reader.read(data, |event| match event {
            Event::Start(_) => {}
            Event::Pong(content) => {
                if let Some(due) = pings.as_mut().and_then(|pings| pings.answered(content)) {
                    sink.ping_answered(due);
                }
            }
            Event::Piece(piece) => {
                if let Some((part, stamping)) = &mut part {
                    part.piece(stamping, piece);
                }
                if wants {
                    sink.body(id, piece);
                }
            }
            Event::End(_) => {
                let (is_reply, token) = match &mut part {
                    None => (true, 0),
                    Some((part, _)) => part.end(id, sink),
                };
                *arrived += u64::from(is_reply);
                match is_stream {
                    true => sink.chunk_ended(id),
                    false => sink.message(id, token),
                }
            }
            Event::Ping(payload) => {
                *owes_pong = true;
                ping.clear();
                ping.extend_from_slice(payload);
            }
            Event::Close(found) => close = Some(found.code),
        });
        let socket = &mut conn.socket;
        let used = match result {
            Ok(used) => used,
            Err(violation) => {
                socket.last_words = violation.close_code();
                return Err(match violation {
                    Violation::Utf8 => Fault::BadText,
                    Violation::TooLong => Fault::MessageTooLong,
                    _ => Fault::BadWebSocket,
                });
            }
        };
        socket.framing_bytes += used as u64 - (socket.reader.payload_bytes() - before);
        if let Some(code) = close {
            let (is_answer, has_code) = (conn.step == Step::Closing, code != CloseCode::NONE);
            // The answer to ours need not repeat its code.
            let status = if is_answer && !has_code { CloseCode::NORMAL } else { code };
            socket.last_words = code;
            conn.step = if is_answer { Step::Over } else { Step::Ended };
            socket.finish(status, sink);
        }
        Ok(used)
    }
}

impl Socket {
    /// The exchange has ended with this code.
    fn finish(&self, code: CloseCode, sink: &mut impl Sink) {
        let reply = Reply {
            status: code.0,
            head_bytes: self.head_bytes + self.framing_bytes,
            framing_bytes: self.framing_bytes,
            footer_bytes: 0,
            body_bytes: self.reader.payload_bytes(),
            interim: self.interim,
            keeps_open: false,
            fault: None,
        };
        sink.done(self.id, &reply);
    }
}

/// The handshakes of a plan as requests of HTTP/1.1.
fn handshakes(plan: &Plan, spec: &WebSocketPlan) -> Plan {
    let protocols = &spec.subprotocols;
    let mut handshakes = plan.clone();
    let fixed = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
    let version = ("Sec-WebSocket-Version", "13");
    let own = fixed.into_iter().chain([version]);
    let mut own: Vec<(String, String)> = own.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    if !protocols.is_empty() {
        own.push(("Sec-WebSocket-Protocol".to_owned(), protocols.join(", ")));
    }
    if spec.compress {
        own.push(("Sec-WebSocket-Extensions".to_owned(), OFFER.to_owned()));
    }
    let calls = plan.calls.iter().map(|call| {
        let headers: Vec<_> = call.headers.iter().chain(&own).cloned().collect();
        crate::plan::CallSpec { headers: headers.into(), body: Vec::new(), ..call.clone() }
    });
    handshakes.calls = calls.collect::<Vec<_>>().into();
    handshakes
}

impl Carrier for Ws {
    type Conn = Conn;

    /// As the connection takes one exchange, this decides only who is to blame for its loss, and
    /// that peers are sent last words.
    const MULTIPLEXES: bool = true;

    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        if conn.step == Step::New { limit.min(1).saturating_sub(in_flight) } else { 0 }
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        let number = self.started * self.shard.1 + self.shard.0;
        self.started += 1;
        let own = call.filled.and_then(Filled::body).map(<[u8]>::to_vec);
        let part = self.stamping.as_deref().map(|stamping| Box::new(stamping.part(number)));
        conn.socket = Socket { own, part, ..Socket::new(id, call.index, number) };
        conn.step = Step::Handshake;
        let filled = match call.filled {
            None => None,
            Some(filled) => {
                self.head.copy_without_body(filled);
                Some(&self.head)
            }
        };
        self.h1.submit(&mut conn.http, id, Call { filled, ..call }, last, out);
        let key = self.key(number);
        let out = out.bytes();
        // Before the empty line.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"Sec-WebSocket-Key: ");
        out.extend_from_slice(&key);
        out.extend_from_slice(b"\r\n\r\n");
    }

    fn owes(&self, conn: &Conn) -> bool {
        let socket = &conn.socket;
        let has_ping = || socket.pings.as_deref().is_some_and(Pings::is_due);
        conn.step == Step::Open
            && (socket.owed > 0 || socket.owes_pong || has_ping() || self.is_complete(socket))
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if conn.step != Step::Open {
            return;
        }
        let socket = &mut conn.socket;
        if std::mem::take(&mut socket.owes_pong) {
            let mask = Some(self.mask(socket));
            Frame { opcode: Opcode::Pong, is_final: true, mask }.write(&socket.ping, out.bytes());
        }
        if let Some(mut pings) = socket.pings.take() {
            pings.write(|| self.mask(socket), out);
            socket.pings = Some(pings);
        }
        self.write_messages(socket, now, out);
        if self.is_complete(socket) {
            let mask = Some(self.mask(socket));
            CloseCode::NORMAL.write(mask, out.bytes());
            conn.step = Step::Closing;
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        match conn.step {
            Step::New => Err(Fault::Surplus),
            Step::Handshake => self.handshake(conn, data, now, sink),
            Step::Open | Step::Closing => self.frames(conn, data, sink),
            Step::Ended | Step::Over => Ok(data.len()),
        }
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match conn.step {
            Step::New | Step::Handshake => self.h1.end(&mut conn.http, left, sink),
            Step::Open | Step::Closing => Err(Fault::Truncated),
            Step::Ended | Step::Over => Ok(()),
        }
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        match conn.step {
            Step::Handshake => self.h1.stop(&mut conn.http, id, sink),
            Step::Open if conn.socket.id == id => {
                conn.step = Step::Ended;
                conn.socket.last_words = CloseCode::NORMAL;
                conn.socket.finish(CloseCode::NORMAL, sink);
            }
            _ => {}
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        let socket = &mut conn.socket;
        if socket.id == id {
            socket.owed += n;
            socket.ends |= ends;
        }
    }

    fn messages_due(&mut self, conn: &mut Conn, times: &[Nanos]) {
        if let Some(part) = conn.socket.part.as_deref_mut() {
            part.due(times);
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let pings = conn.socket.pings.as_deref().filter(|_| conn.step == Step::Open);
        pings.map(Pings::next)
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        if let Some(pings) = &mut conn.socket.pings {
            pings.advance(now);
        }
        Ok(())
    }

    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        if !matches!(conn.step, Step::Open | Step::Ended) {
            return;
        }
        conn.step = Step::Over;
        let mask = Some(self.mask(&mut conn.socket));
        match conn.socket.last_words {
            CloseCode::NONE => {
                Frame { opcode: Opcode::Close, is_final: true, mask }.write(&[], out)
            }
            code => code.write(mask, out),
        }
    }
}
