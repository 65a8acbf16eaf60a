//! The frames of one socket, in both directions, from its handshake to its close.

use prony_base::fault::Fault;
use prony_base::rng::{self, Stream};
use prony_base::websocket::{CloseCode, Event, Frame, Opcode, Reader, Role, Violation, key_of};

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The handshake was sent.
    Handshake,
    /// It is open.
    Open,
    /// A close frame was sent, and the peer's is awaited.
    Closing,
    /// Nothing more is awaited from the peer, and a close frame is to be sent.
    Ended,
    /// Nothing follows.
    Over,
}

#[derive(Debug)]
pub(super) struct Frames {
    pub(super) state: State,
    seed: u64,
    /// The number of the handshake in the whole run, and of the last frame after it.
    number: u64,
    frame: u64,
    pub(super) reader: Reader,
    /// The content of the last ping, and whether it has no answer.
    ping: Vec<u8>,
    owes_pong: bool,
    /// The code of the close frame that was sent, or is to be sent.
    pub(super) last_words: CloseCode,
}

impl Frames {
    /// Those after the handshake of this number, of a plan with this seed. No message is longer
    /// than `message_max` bytes.
    pub(super) fn new((seed, number): (u64, u64), message_max: u64) -> Self {
        Self {
            state: State::Handshake,
            seed,
            number,
            frame: 0,
            reader: Reader::new(Role::Client, message_max),
            ping: Vec::new(),
            owes_pong: false,
            last_words: CloseCode::GOING_AWAY,
        }
    }

    /// The key of the handshake.
    pub(super) fn key(&self) -> [u8; 24] {
        let bits = |place| rng::keyed(self.seed, Stream::Masks, self.number, place);
        key_of([bits(u64::MAX), bits(u64::MAX - 1)])
    }

    /// Whether frames of the peer are read.
    pub(super) fn reads(&self) -> bool {
        matches!(self.state, State::Open | State::Closing)
    }

    /// Whether a pong is to be sent, if the socket is open.
    pub(super) fn owes_pong(&self) -> bool {
        self.owes_pong
    }

    /// The next frame that is sent, with a mask of its own.
    pub(super) fn next(&mut self, opcode: Opcode) -> Frame {
        self.frame += 1;
        let mask = rng::keyed(self.seed, Stream::Masks, self.number, self.frame) >> 32;
        Frame { opcode, is_final: true, mask: Some(mask as u32) }
    }

    /// Append the pong that is owed. Returns whether one is.
    pub(super) fn write_pong(&mut self, out: &mut Vec<u8>) -> bool {
        let owes = std::mem::take(&mut self.owes_pong);
        if owes {
            self.next(Opcode::Pong).write(&self.ping, out);
        }
        owes
    }

    /// Append a close frame, to which the peer answers.
    pub(super) fn close(&mut self, code: CloseCode, reason: &[u8], out: &mut Vec<u8>) {
        let frame = self.next(Opcode::Close);
        match reason {
            [] => code.write(frame.mask, out),
            _ => frame.write(&[&code.0.to_be_bytes()[..], reason].concat(), out),
        }
        (self.state, self.last_words) = (State::Closing, code);
    }

    /// Append the last close frame, if one is owed.
    pub(super) fn write_last(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.state, State::Open | State::Ended) {
            return;
        }
        self.state = State::Over;
        let frame = self.next(Opcode::Close);
        match self.last_words {
            CloseCode::NONE => frame.write(&[], out),
            code => code.write(frame.mask, out),
        }
    }

    /// Read frames, and pass on those of messages, and pongs. Returns how many bytes were used, and
    /// the code with which the socket is closed, if the peer has closed it.
    ///
    /// # Errors
    /// A violation of the protocol.
    pub(super) fn read(
        &mut self,
        data: &[u8],
        mut content: impl FnMut(Event<'_>),
    ) -> Result<(usize, Option<CloseCode>), Fault> {
        let Self { reader, ping, owes_pong, .. } = self;
        let mut close = None;
        let result = reader.read(data, |event| match event {
            Event::Ping(payload) => {
                *owes_pong = true;
                ping.clear();
                ping.extend_from_slice(payload);
            }
            Event::Close(found) => close = Some(found.code),
            event => content(event),
        });
        match result {
            Ok(used) => Ok((used, close.map(|code| self.closed_by_peer(code)))),
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

    /// The peer has sent a close frame with this code. Returns the code of the socket.
    fn closed_by_peer(&mut self, code: CloseCode) -> CloseCode {
        let own = std::mem::replace(&mut self.last_words, code);
        if self.state != State::Closing {
            self.state = State::Ended;
            return code;
        }
        self.state = State::Over;
        // The answer to ours need not repeat its code.
        if code == CloseCode::NONE { own } else { code }
    }
}
