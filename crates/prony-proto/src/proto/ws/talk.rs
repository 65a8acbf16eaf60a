//! Whole exchanges: from the handshake of a socket to its close, with messages that are sent at
//! their time.

use super::deflating::Deflating;
use super::frames::Frames;
use super::pings::Pings;
use super::stamps::{Part, Stamping};
use crate::proto::{Call, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_base::websocket::{CloseCode, Event, MESSAGE_MAX, Opcode};
use prony_plan::plan::{Plan, WebSocketPlan};
use prony_plan::script::Filled;

/// What all exchanges of one worker have in common.
#[derive(Debug)]
pub(super) struct Talk {
    /// The message of each call.
    messages: Vec<Vec<u8>>,
    opcode: Opcode,
    /// Whether messages have a schedule.
    is_paced: bool,
    /// Whether what arrives is read as a stream, which something else ends.
    is_stream: bool,
    /// Whether each message has a reply that is awaited.
    awaits: bool,
    /// How messages are stamped, if they are.
    stamping: Option<Box<Stamping>>,
    ping_every: Option<Span>,
    /// Whether texts of the server need not be UTF-8.
    any_text: bool,
    /// How messages are compressed, if they are.
    deflating: Option<Box<Deflating>>,
}

/// An exchange, and what is to be sent for it.
#[derive(Debug)]
pub(super) struct Whole {
    id: RequestId,
    call: u32,
    /// The message, if it was made for this exchange.
    own: Option<Vec<u8>>,
    /// Messages that are due, were sent, and have arrived.
    owed: u64,
    sent: u64,
    arrived: u64,
    /// Whether no further message becomes due.
    ends: bool,
    /// The bytes of frames that are no payload of messages.
    framing_bytes: u64,
    /// The stamps of what it sends and receives.
    pub(super) part: Option<Box<Part>>,
    pub(super) pings: Option<Box<Pings>>,
}

impl Whole {
    /// The next `n` messages are due. `ends`: no further one follows.
    pub(super) fn due(&mut self, n: u64, ends: bool) {
        self.owed += n;
        self.ends |= ends;
    }

    /// Its reply if it ends with this code, after a handshake whose reply had this head.
    pub(super) fn reply(&self, frames: &Frames, code: CloseCode, head: &Reply) -> Reply {
        Reply {
            status: code.0,
            head_bytes: head.head_bytes + self.framing_bytes,
            framing_bytes: self.framing_bytes,
            footer_bytes: 0,
            body_bytes: frames.reader.payload_bytes(),
            ..*head
        }
    }
}

impl Talk {
    pub(super) fn new(plan: &Plan, spec: &WebSocketPlan) -> Self {
        Self {
            messages: plan.calls.iter().map(|call| call.body.clone()).collect(),
            opcode: if spec.binary { Opcode::Binary } else { Opcode::Text },
            is_paced: plan.messages.is_some(),
            is_stream: plan.stream.is_some(),
            awaits: plan.awaits_echoes(),
            stamping: Stamping::new(plan).map(Box::new),
            ping_every: spec.ping_every,
            any_text: spec.no_utf8_check,
            deflating: spec.compress.then(|| Box::new(Deflating::new(plan))),
        }
    }

    /// A handshake is about to be sent. `at`: the seed of the plan, and its number.
    pub(super) fn begin(&self, at: (u64, u64), id: RequestId, call: &Call<'_>) -> (Frames, Whole) {
        let mut frames = Frames::new(at, MESSAGE_MAX);
        if self.any_text {
            frames.reader.accept_any_text();
        }
        let whole = Whole {
            id,
            call: call.index,
            own: call.filled.and_then(Filled::body).map(<[u8]>::to_vec),
            owed: 0,
            sent: 0,
            arrived: 0,
            ends: false,
            framing_bytes: 0,
            part: self.stamping.as_deref().map(|stamping| Box::new(stamping.part(at.1))),
            pings: None,
        };
        (frames, whole)
    }

    /// Whether messages are compressed.
    pub(super) fn deflates(&self) -> bool {
        self.deflating.is_some()
    }

    /// The socket is open, by a reply with this status.
    pub(super) fn opened(&self, whole: &mut Whole, status: u16, now: Nanos, sink: &mut impl Sink) {
        sink.began(whole.id);
        whole.ends |= !self.is_paced;
        whole.pings = self.ping_every.map(|every| Box::new(Pings::new(every, now)));
        if whole.part.as_deref().is_some_and(Part::subscribes) {
            sink.subscribed(whole.id);
        }
        if sink.wants_body(whole.id) {
            sink.head(whole.id, status, false);
        }
    }

    /// Whether the exchange on an open socket has everything that it waits for.
    fn is_complete(&self, whole: &Whole) -> bool {
        let is_answered = !self.awaits || whole.arrived >= whole.sent;
        whole.ends && whole.owed == 0 && is_answered && !self.is_stream
    }

    /// Whether there is something to write on an open socket, besides a pong.
    pub(super) fn owes(&self, whole: &Whole) -> bool {
        let has_ping = || whole.pings.as_deref().is_some_and(Pings::is_due);
        whole.owed > 0 || has_ping() || self.is_complete(whole)
    }

    /// Append the next frame that is due on an open socket, besides pongs. Returns whether there
    /// was one.
    pub(super) fn write_next(
        &mut self,
        frames: &mut Frames,
        whole: &mut Whole,
        now: Nanos,
        out: &mut Out,
    ) -> bool {
        if let Some(pings) = whole.pings.as_deref_mut().filter(|pings| pings.is_due()) {
            pings.write_next(&frames.next(Opcode::Ping), now, out);
            return true;
        }
        if whole.owed > 0 {
            whole.owed -= 1;
            self.write_message(frames, whole, now, out);
            return true;
        }
        let closes = self.is_complete(whole);
        if closes {
            frames.close(CloseCode::NORMAL, b"", out.bytes());
        }
        closes
    }

    fn write_message(&mut self, frames: &mut Frames, whole: &mut Whole, now: Nanos, out: &mut Out) {
        let (own, frame) = (whole.own.as_deref(), frames.next(self.opcode));
        match (whole.part.as_deref_mut(), self.stamping.as_deref_mut()) {
            (Some(part), Some(stamping)) => {
                let (token, stamped) = stamping.stamp(part, whole.call, own, now);
                out.wrote_message(whole.id, token);
                match self.deflating.as_deref_mut() {
                    None => frame.write(stamped, out.bytes()),
                    Some(deflating) => deflating.write(stamped, &frame, out.bytes()),
                }
            }
            _ => {
                out.wrote_message(whole.id, 0);
                let message = own.unwrap_or(&self.messages[whole.call as usize]);
                match self.deflating.as_deref_mut() {
                    None => frame.write(message, out.bytes()),
                    Some(deflating) if own.is_some() => {
                        deflating.write(message, &frame, out.bytes());
                    }
                    Some(deflating) => deflating.write_known(whole.call, &frame, out.bytes()),
                }
            }
        }
        whole.sent += 1;
    }

    /// Read frames. Returns how many bytes were used, and the code with which the socket is closed,
    /// if the peer has closed it.
    ///
    /// # Errors
    /// A violation of the protocol.
    pub(super) fn read(
        &self,
        frames: &mut Frames,
        whole: &mut Whole,
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, Option<CloseCode>), Fault> {
        let Whole { id, arrived, part, pings, .. } = whole;
        let mut part = part.as_deref_mut().zip(self.stamping.as_deref());
        let (id, wants, is_stream) = (*id, sink.wants_body(*id), self.is_stream);
        let before = frames.reader.payload_bytes();
        let (used, close) = frames.read(data, |event| match event {
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
            Event::Start(_) | Event::Ping(_) | Event::Close(_) => {}
        })?;
        whole.framing_bytes += used as u64 - (frames.reader.payload_bytes() - before);
        Ok((used, close))
    }
}
