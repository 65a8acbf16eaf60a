//! What a client says and hears on connections of WebSocket, whatever carries their frames.

use super::deflating::Deflating;
use super::pings::Pings;
use super::socket::{Socket, Step};
use super::stamps::{Part, Stamping};
use crate::fault::Fault;
use crate::messages::Numbering;
use crate::plan::{CallSpec, Plan, WebSocketPlan};
use crate::proto::{Call, Out, Sink};
use crate::rng::{self, Stream};
use crate::script::Filled;
use crate::units::{Nanos, RequestId, Span};
use crate::websocket::{CloseCode, Event, Frame, OFFER, Opcode, Violation, key_of};

/// What all connections of one worker have in common.
#[derive(Debug)]
pub(super) struct Talk {
    /// The message of each call.
    messages: Vec<Vec<u8>>,
    pub(super) protocols: Vec<String>,
    opcode: Opcode,
    /// Whether messages have a schedule.
    is_paced: bool,
    /// Whether what arrives is read as a stream, which something else ends.
    is_stream: bool,
    /// Whether each message has a reply that is awaited.
    awaits: bool,
    seed: u64,
    numbers: Numbering,
    /// How messages are stamped, if they are.
    stamping: Option<Box<Stamping>>,
    ping_every: Option<Span>,
    /// Whether texts of the server need not be UTF-8.
    any_text: bool,
    /// How messages are compressed, if they are.
    deflating: Option<Box<Deflating>>,
}

impl Talk {
    pub(super) fn new(plan: &Plan, spec: &WebSocketPlan) -> Self {
        Self {
            messages: plan.calls.iter().map(|call| call.body.clone()).collect(),
            protocols: spec.subprotocols.clone(),
            opcode: if spec.binary { Opcode::Binary } else { Opcode::Text },
            is_paced: plan.messages.is_some(),
            is_stream: plan.stream.is_some(),
            awaits: plan.awaits_echoes(),
            seed: plan.seed,
            numbers: Numbering::new(plan),
            stamping: Stamping::new(plan).map(Box::new),
            ping_every: spec.ping_every,
            any_text: spec.no_utf8_check,
            deflating: spec.compress.then(|| Box::new(Deflating::new(plan))),
        }
    }

    /// The handshake of a new exchange is about to be sent.
    pub(super) fn begin(&mut self, id: RequestId, call: &Call<'_>) -> Socket {
        let number = self.numbers.take();
        let own = call.filled.and_then(Filled::body).map(<[u8]>::to_vec);
        let part = self.stamping.as_deref().map(|stamping| Box::new(stamping.part(number)));
        let socket = Socket::new(id, call.index, number);
        let mut socket = Socket { step: Step::Handshake, own, part, ..socket };
        if self.any_text {
            socket.reader.accept_any_text();
        }
        socket
    }

    /// The key of the handshake with this number.
    pub(super) fn key(&self, number: u64) -> [u8; 24] {
        let bits = |place| rng::keyed(self.seed, Stream::Masks, number, place);
        key_of([bits(u64::MAX), bits(u64::MAX - 1)])
    }

    /// Whether messages are compressed.
    pub(super) fn deflates(&self) -> bool {
        self.deflating.is_some()
    }

    /// The connection is open, by a reply with this status.
    pub(super) fn opens(&self, socket: &mut Socket, status: u16, now: Nanos, sink: &mut impl Sink) {
        socket.step = Step::Open;
        socket.ends |= !self.is_paced;
        socket.pings = self.ping_every.map(|every| Box::new(Pings::new(every, now)));
        if socket.part.as_deref().is_some_and(Part::subscribes) {
            sink.subscribed(socket.id);
        }
        if sink.wants_body(socket.id) {
            sink.head(socket.id, status, false);
        }
    }

    /// Whether the exchange on an open connection has everything that it waits for.
    fn is_complete(&self, socket: &Socket) -> bool {
        let is_answered = !self.awaits || socket.arrived >= socket.sent;
        socket.ends && socket.owed == 0 && is_answered && !self.is_stream
    }

    /// Whether there is something to write.
    pub(super) fn owes(&self, socket: &Socket) -> bool {
        let has_ping = || socket.pings.as_deref().is_some_and(Pings::is_due);
        socket.step == Step::Open
            && (socket.owed > 0 || socket.owes_pong || has_ping() || self.is_complete(socket))
    }

    /// Append the next frame that is due. Returns whether there was one.
    pub(super) fn write_next(&mut self, socket: &mut Socket, now: Nanos, out: &mut Out) -> bool {
        if socket.step != Step::Open {
            return false;
        }
        if std::mem::take(&mut socket.owes_pong) {
            let mask = Some(self.mask(socket));
            Frame { opcode: Opcode::Pong, is_final: true, mask }.write(&socket.ping, out.bytes());
            return true;
        }
        if let Some(mut pings) = socket.pings.take_if(|pings| pings.is_due()) {
            pings.write_next(|| self.mask(socket), now, out);
            socket.pings = Some(pings);
            return true;
        }
        if socket.owed > 0 {
            socket.owed -= 1;
            self.write_message(socket, now, out);
            return true;
        }
        let closes = self.is_complete(socket);
        if closes {
            let mask = Some(self.mask(socket));
            CloseCode::NORMAL.write(mask, out.bytes());
            socket.step = Step::Closing;
        }
        closes
    }

    fn write_message(&mut self, socket: &mut Socket, now: Nanos, out: &mut Out) {
        let (own, mut part) = (socket.own.take(), socket.part.take());
        let message = own.as_deref().unwrap_or(&self.messages[socket.call as usize]);
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
        (socket.own, socket.part) = (own, part);
    }

    /// Append the close frame that is still owed, if one is.
    pub(super) fn write_close(&self, socket: &mut Socket, out: &mut Vec<u8>) {
        if !matches!(socket.step, Step::Open | Step::Ended) {
            return;
        }
        socket.step = Step::Over;
        let mask = Some(self.mask(socket));
        match socket.last_words {
            CloseCode::NONE => {
                Frame { opcode: Opcode::Close, is_final: true, mask }.write(&[], out);
            }
            code => code.write(mask, out),
        }
    }

    /// The bytes with which the next frame is masked.
    fn mask(&self, socket: &mut Socket) -> u32 {
        socket.frame += 1;
        (rng::keyed(self.seed, Stream::Masks, socket.number, socket.frame) >> 32) as u32
    }

    /// Read frames. Returns how many bytes were used, and the code with which the exchange has
    /// ended, if the peer has closed.
    ///
    /// # Errors
    /// A violation of the protocol.
    pub(super) fn read(
        &self,
        socket: &mut Socket,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, Option<CloseCode>), Fault> {
        let Socket { id, reader, arrived, ping, owes_pong, part, pings, .. } = socket;
        let mut part = part.as_deref_mut().zip(self.stamping.as_deref());
        let (id, wants, is_stream) = (*id, sink.wants_body(*id), self.is_stream);
        let (mut close, before) = (None, reader.payload_bytes());
        let result = reader.read(data, |event| match event {
            Event::Start(_) => {}
            Event::Pong(content) => {
                if let Some(times) = pings.as_mut().and_then(|pings| pings.answered(content)) {
                    sink.ping_answered(times);
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
        Ok((used, close.map(|code| socket.closed_by_peer(code))))
    }
}

/// The requests of a plan with the headers that a handshake adds: `fixed`, and those of the plan's
/// options.
pub(super) fn handshakes(
    plan: &Plan,
    spec: &WebSocketPlan,
    (method, fixed): (&'static str, &[(&str, &str)]),
) -> Plan {
    let protocols = &spec.subprotocols;
    let mut handshakes = plan.clone();
    let own = fixed.iter().copied().chain([("Sec-WebSocket-Version", "13")]);
    let mut own: Vec<(String, String)> = own.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    if !protocols.is_empty() {
        own.push(("Sec-WebSocket-Protocol".to_owned(), protocols.join(", ")));
    }
    if spec.compress {
        own.push(("Sec-WebSocket-Extensions".to_owned(), OFFER.to_owned()));
    }
    let calls = plan.calls.iter().map(|call| {
        let headers: Vec<_> = call.headers.iter().chain(&own).cloned().collect();
        let (method, body) = (method.into(), Vec::new());
        CallSpec { method, headers: headers.into(), body, ..call.clone() }
    });
    handshakes.calls = calls.collect::<Vec<_>>().into();
    handshakes
}
