//! A socket between its handshake and its close, and the step that is made on it.

use super::calls::{StepCall, What};
use super::inbox::Inbox;
use crate::fault::Fault;
use crate::plan::SocketStep;
use crate::proto::{Reply, Sink, h1};
use crate::rng::{self, Stream};
use crate::script::BODY_LIMIT;
use crate::units::{Nanos, RequestId};
use crate::websocket::{CloseCode, Event, Frame, Opcode, Reader, ReplyFields, Role, Violation};

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The handshake was sent, or is no longer awaited.
    Handshake,
    /// It is open.
    Open,
    /// Our close frame with this code was sent, and the peer's is awaited.
    Closing(CloseCode),
    /// The peer has closed with this code, and is to be sent a close frame.
    Ended(CloseCode),
    /// Nothing follows.
    Over,
}

/// The step that is made.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) id: RequestId,
    pub(super) call: u32,
    pub(super) needs: Needs,
    /// The text that the awaited message equals, if it was filled in.
    pub(super) equals: Option<Vec<u8>>,
    /// When the wait ends without the message.
    pub(super) until: Option<Nanos>,
}

/// What a step needs to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The answer to the handshake.
    Answer,
    /// That its message is sent.
    Send,
    /// That its message is sent, and then the awaited message.
    SendAndMessage,
    /// The awaited message, which may have arrived.
    Message,
    /// The awaited message, which has not arrived.
    NewMessage,
    /// The peer's close frame.
    Close,
    /// Nothing: it has failed.
    Failed(Fault),
    /// Nothing: the peer has closed.
    Closed(CloseCode),
}

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) http: h1::Conn,
    pub(super) fields: ReplyFields,
    /// How many bytes of the handshake's reply were used.
    pub(super) head_bytes: u64,
    pub(super) state: State,
    /// The number of the handshake in the whole run, and of the last frame after it.
    pub(super) number: u64,
    pub(super) frame: u64,
    reader: Reader,
    /// The code of the close frame that is to be sent if the socket is closed while it is open.
    last_words: CloseCode,
    /// The content of the last ping, and whether it has no answer.
    pub(super) ping: Vec<u8>,
    pub(super) owes_pong: bool,
    /// The message that is received.
    message: Vec<u8>,
    pub(super) inbox: Inbox,
    pub(super) current: Option<Current>,
    /// Whether its connection carries more than the socket, so that a close is not that of the
    /// connection.
    pub(super) is_stream: bool,
    /// If it is a stream: the code with which the peer has closed it while no step was made.
    pub(super) closed_between: Option<CloseCode>,
}

impl Needs {
    /// Whether the step has a frame to send.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Send | Self::SendAndMessage | Self::Close)
    }
}

impl Socket {
    pub(super) fn new(number: u64, state: State) -> Self {
        Self {
            http: h1::Conn::default(),
            fields: ReplyFields::default(),
            head_bytes: 0,
            state,
            number,
            frame: 0,
            reader: Reader::new(Role::Client, BODY_LIMIT as u64),
            last_words: CloseCode::GOING_AWAY,
            ping: Vec::new(),
            owes_pong: false,
            message: Vec::new(),
            inbox: Inbox::default(),
            current: None,
            is_stream: false,
            closed_between: None,
        }
    }

    /// What a step needs to end that is about to be made. `own`: the data in place of that of its
    /// call.
    pub(super) fn needs(&self, step: &StepCall, own: Option<&[u8]>) -> Needs {
        let is_text = || own.is_none_or(|own| std::str::from_utf8(own).is_ok());
        match (&step.what, self.state) {
            (_, State::Ended(code)) => Needs::Closed(code),
            (What::Open(_), _) | (_, State::Handshake | State::Closing(_) | State::Over) => {
                Needs::Failed(Fault::NoSocket)
            }
            (What::Wait, State::Open) => Needs::Message,
            (What::Send { binary: false }, State::Open) if !is_text() => {
                Needs::Failed(Fault::UnfitValue)
            }
            (What::Send { .. }, State::Open) if step.matcher.is_none() => Needs::Send,
            (What::Send { .. }, State::Open) => Needs::SendAndMessage,
            (What::Close(_), State::Open) => {
                let length = own.map_or(step.data.len(), <[u8]>::len);
                match length > SocketStep::REASON_MAX || !is_text() {
                    true => Needs::Failed(Fault::UnfitValue),
                    false => Needs::Close,
                }
            }
        }
    }

    /// Append the frame of a step that has one.
    pub(super) fn write_step(
        &mut self,
        step: &StepCall,
        own: Option<&[u8]>,
        seed: u64,
        out: &mut Vec<u8>,
    ) {
        let (data, mask) = (own.unwrap_or(&step.data), self.mask(seed));
        match &step.what {
            What::Send { binary } => {
                let opcode = if *binary { Opcode::Binary } else { Opcode::Text };
                Frame { opcode, is_final: true, mask }.write(data, out);
                if step.matcher.is_some() {
                    // They cannot be the answer.
                    self.inbox.clear();
                }
            }
            What::Close(code) => {
                let payload = [&code.0.to_be_bytes()[..], data].concat();
                Frame { opcode: Opcode::Close, is_final: true, mask }.write(&payload, out);
                self.state = State::Closing(*code);
            }
            What::Open(_) | What::Wait => {}
        }
    }

    /// The wait of its step ends, if its time has passed.
    pub(super) fn time_out(&mut self, now: Nanos) {
        if let Some(current) = &mut self.current
            && current.until.is_some_and(|until| until <= now)
        {
            current.until = None;
            current.needs = Needs::Failed(Fault::WaitTimeout);
        }
    }

    /// Read frames. Returns how many bytes were used.
    ///
    /// # Errors
    /// A violation of the protocol.
    pub(super) fn frames(
        &mut self,
        calls: &mut [Option<StepCall>],
        data: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let Self { reader, message, inbox, current, ping, owes_pong, state, .. } = self;
        let mut close = None;
        let result = reader.read(data, |event| match event {
            Event::Start(_) => message.clear(),
            Event::Piece(piece) => message.extend_from_slice(piece),
            Event::End(_) if *state == State::Open => {
                arrived(message, current, inbox, calls, sink);
            }
            Event::End(_) | Event::Pong(_) => {}
            Event::Ping(payload) => {
                *owes_pong = true;
                ping.clear();
                ping.extend_from_slice(payload);
            }
            Event::Close(found) => close = Some(found.code),
        });
        if reader.is_between_messages() {
            message.clear();
            message.shrink_to(BODY_LIMIT / 16);
        }
        match result {
            Ok(used) => {
                if let Some(code) = close {
                    self.closed_by_peer(code, sink);
                }
                Ok(used)
            }
            Err(violation) => {
                self.last_words = violation.close_code();
                Err(match violation {
                    Violation::Utf8 => Fault::BadText,
                    Violation::TooLong => Fault::MessageTooLong,
                    _ => Fault::BadWebSocket,
                })
            }
        }
    }

    /// The peer has sent a close frame.
    fn closed_by_peer(&mut self, code: CloseCode, sink: &mut impl Sink) {
        let code = match self.state {
            // The answer to ours need not repeat its code.
            State::Closing(own) => {
                self.state = State::Over;
                if code == CloseCode::NONE { own } else { code }
            }
            _ => {
                self.state = State::Ended(code);
                code
            }
        };
        match self.current.take() {
            Some(current) if sink.was_sent(current.id) => {
                sink.done(current.id, &closed(code, self.is_stream));
            }
            Some(current) => {
                self.current = Some(Current { needs: Needs::Closed(code), ..current });
            }
            None if self.is_stream => self.closed_between = Some(code),
            None => {
                sink.closed(code.0);
                sink.draining();
            }
        }
    }

    /// Report the end of the step, if it needs nothing more from the peer. Returns whether it has
    /// ended.
    pub(super) fn report_end(
        &mut self,
        calls: &mut [Option<StepCall>],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(current) = &mut self.current else { return false };
        let id = current.id;
        match current.needs {
            Needs::Answer | Needs::Close | Needs::NewMessage => return false,
            Needs::Failed(fault) => sink.failed(id, fault),
            Needs::Closed(code) => {
                sink.sent(id);
                sink.done(id, &closed(code, self.is_stream));
            }
            Needs::Send | Needs::SendAndMessage if !sink.was_sent(id) => return false,
            Needs::Send => sink.done(id, &reply(0)),
            Needs::SendAndMessage | Needs::Message => {
                let within = calls[current.call as usize].as_ref().and_then(|call| call.within);
                current.until = within.map(|within| now + within);
                let had_come = current.needs == Needs::Message;
                current.needs = Needs::NewMessage;
                if had_come {
                    sink.sent(id);
                }
                return had_come && self.look(calls, sink);
            }
        }
        self.current = None;
        true
    }

    /// Look for the awaited message in those that have arrived. Returns whether it is there.
    fn look(&mut self, calls: &mut [Option<StepCall>], sink: &mut impl Sink) -> bool {
        let mut message = Vec::new();
        while self.current.is_some() && self.inbox.pop(&mut message) {
            arrived(&message, &mut self.current, &mut self.inbox, calls, sink);
        }
        self.current.is_none()
    }

    /// The bytes with which the next frame is masked.
    pub(super) fn mask(&mut self, seed: u64) -> Option<u32> {
        self.frame += 1;
        Some((rng::keyed(seed, Stream::Masks, self.number, self.frame) >> 32) as u32)
    }

    /// Append the close frame that is still owed, if one is.
    pub(super) fn write_close(&mut self, seed: u64, out: &mut Vec<u8>) {
        let code = match self.state {
            State::Open => self.last_words,
            State::Ended(code) => code,
            State::Handshake | State::Closing(_) | State::Over => return,
        };
        self.state = State::Over;
        let mask = self.mask(seed);
        match code {
            CloseCode::NONE => {
                Frame { opcode: Opcode::Close, is_final: true, mask }.write(&[], out);
            }
            code => code.write(mask, out),
        }
    }
}

/// A message is complete: it ends the step that waits for it, or is kept if none waits.
fn arrived(
    message: &[u8],
    current: &mut Option<Current>,
    inbox: &mut Inbox,
    calls: &mut [Option<StepCall>],
    sink: &mut impl Sink,
) {
    match current {
        Some(Current { id, call, needs: Needs::NewMessage, equals, .. }) => {
            let matcher = calls[*call as usize].as_mut().and_then(|call| call.matcher.as_mut());
            if matcher.is_some_and(|matcher| matcher.matches(message, equals.as_deref())) {
                if sink.wants_body(*id) {
                    sink.body(*id, message);
                }
                sink.done(*id, &reply(message.len()));
                *current = None;
            }
        }
        // It comes before the message that it could answer.
        Some(Current { needs: Needs::SendAndMessage, .. }) => {}
        _ => inbox.push(message),
    }
}

/// The reply of a step that ends with a message of this length.
fn reply(length: usize) -> Reply {
    Reply {
        status: SocketStep::MESSAGE,
        head_bytes: 0,
        framing_bytes: 0,
        footer_bytes: 0,
        body_bytes: length as u64,
        interim: 0,
        keeps_open: true,
        fault: None,
    }
}

/// The reply of a step that ends with the close of the socket. `keeps_open`: its connection carries
/// more than the socket.
pub(super) fn closed(code: CloseCode, keeps_open: bool) -> Reply {
    Reply { status: code.0, keeps_open, ..reply(0) }
}
