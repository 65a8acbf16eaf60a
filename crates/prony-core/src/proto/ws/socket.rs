//! One exchange of WebSocket: from its handshake to its close.

use super::pings::Pings;
use super::stamps::Part;
use crate::proto::Reply;
use crate::units::RequestId;
use crate::websocket::{CloseCode, MESSAGE_MAX, Reader, Role};

/// How far an exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) struct Socket {
    pub(super) id: RequestId,
    pub(super) call: u32,
    pub(super) step: Step,
    /// The number of the handshake in the whole run, and of the last frame after it.
    pub(super) number: u64,
    pub(super) frame: u64,
    pub(super) reader: Reader,
    /// The message, if it was made for this exchange.
    pub(super) own: Option<Vec<u8>>,
    /// Messages that are due, were sent, and have arrived.
    pub(super) owed: u64,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// Whether no further message becomes due.
    pub(super) ends: bool,
    /// The content of the last ping, and whether it has no answer.
    pub(super) ping: Vec<u8>,
    pub(super) owes_pong: bool,
    /// The bytes of frames that are no payload of messages.
    pub(super) framing_bytes: u64,
    /// The code of the close frame that is to be sent.
    pub(super) last_words: CloseCode,
    /// The stamps of what it sends and receives.
    pub(super) part: Option<Box<Part>>,
    pub(super) pings: Option<Box<Pings>>,
}

impl Default for Socket {
    fn default() -> Self {
        Self::new(RequestId { slot: u32::MAX, generation: 0 }, 0, 0)
    }
}

impl Socket {
    pub(super) fn new(id: RequestId, call: u32, number: u64) -> Self {
        Self {
            id,
            call,
            step: Step::New,
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
            framing_bytes: 0,
            last_words: CloseCode::GOING_AWAY,
            part: None,
            pings: None,
        }
    }

    /// The next `n` messages are due. `ends`: no further one follows.
    pub(super) fn due(&mut self, n: u64, ends: bool) {
        self.owed += n;
        self.ends |= ends;
    }

    /// The peer has sent a close frame with this code. Returns the code of the exchange.
    pub(super) fn closed_by_peer(&mut self, code: CloseCode) -> CloseCode {
        let (is_answer, has_code) = (self.step == Step::Closing, code != CloseCode::NONE);
        self.last_words = code;
        self.step = if is_answer { Step::Over } else { Step::Ended };
        // The answer to ours need not repeat its code.
        if is_answer && !has_code { CloseCode::NORMAL } else { code }
    }

    /// The reply of an exchange that has ended with this code, after the head of its handshake.
    pub(super) fn reply(&self, code: CloseCode, head: &Reply) -> Reply {
        Reply {
            status: code.0,
            head_bytes: head.head_bytes + self.framing_bytes,
            framing_bytes: self.framing_bytes,
            footer_bytes: 0,
            body_bytes: self.reader.payload_bytes(),
            ..*head
        }
    }
}
