//! The state of a connection of WebSocket, and the frames of a server.

use prony_base::units::Nanos;
use prony_base::websocket::{
    Agreed, Close, CloseCode, Event, Frame, Kind, MESSAGE_MAX, Opcode, Reader, Role, Violation,
};

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
pub(super) fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 10);
    Frame { opcode, is_final: true, mask: None }.write(payload, &mut bytes);
    bytes
}

pub(super) fn close_frame(code: CloseCode) -> Vec<u8> {
    let mut bytes = Vec::new();
    code.write(None, &mut bytes);
    bytes
}

/// A connection that has read a longer message keeps no buffer for the next.
const KEPT: usize = 2 << 10;

fn answer_to(close: &Close<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    close.write_answer(None, &mut bytes);
    bytes
}
