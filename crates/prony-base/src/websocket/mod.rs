//! The parts of WebSocket (RFC 6455) that client and server share: frames, the messages in them,
//! close codes, and the handshake. A [`Reader`] gets the bytes of a connection in any
//! pieces, and finds the same messages in all of them. It keeps no bytes: an incomplete head of a
//! frame, or an incomplete control frame, is left to its caller.

mod close;
#[cfg(test)]
mod compressed;
mod deflate;
mod frame;
mod handshake;
mod reader;
#[cfg(test)]
mod tests;
mod utf8;

pub use close::{Close, CloseCode};
pub use deflate::{Agreed, Deflater, OFFER};
pub use frame::{CONTROL_MAX, Frame, Head, Opcode, Role, mask};
pub use handshake::{Refusal, ReplyFields, RequestFields, accept_of, key_of};
pub use reader::{Event, Kind, MESSAGE_MAX, Reader};

use serde::{Deserialize, Serialize};

/// How a peer violates the protocol. The connection fails, with a close code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// A reserved bit is set that no extension has been agreed on for.
    ReservedBit,
    /// An opcode without a meaning.
    Opcode,
    /// A frame of the server is masked, or one of the client is not.
    Mask,
    /// A control frame in several parts.
    FragmentedControl,
    /// A control frame with more than 125 bytes.
    LongControl,
    /// A length in more bytes than it needs, or over 2^63 - 1.
    Length,
    /// A continuation without a message that it continues.
    NothingToContinue,
    /// A new message inside of another one.
    InsideMessage,
    /// A close frame with one byte, or with a code that no endpoint may send.
    CloseFrame,
    /// A compressed message that cannot be decompressed.
    Deflate,
    /// A text message, or the reason of a close, that is not UTF-8.
    Utf8,
    /// A message over the limit.
    TooLong,
}

impl Violation {
    /// The code with which the connection is closed.
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::Utf8 => CloseCode::INVALID_PAYLOAD,
            Self::TooLong => CloseCode::TOO_BIG,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}
