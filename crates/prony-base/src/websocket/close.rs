//! Close frames.

use super::{Frame, Opcode, Violation};

/// A close code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(pub u16);

/// The content of a close frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// The code; [`CloseCode::NONE`] if the frame has none.
    pub code: CloseCode,
    /// The reason.
    pub reason: &'a str,
}

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// An endpoint goes away.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer has violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// The close frame had no code. Never sent.
    pub const NONE: Self = Self(1005);
    /// The peer has sent a text that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// The peer does what the endpoint does not allow.
    pub const POLICY: Self = Self(1008);
    /// The peer has sent a message that is too long.
    pub const TOO_BIG: Self = Self(1009);
    /// The server has too much to do.
    pub const TRY_AGAIN_LATER: Self = Self(1013);

    /// Whether an endpoint may send it: the registered codes other than 1005, 1006 and 1015, and
    /// those of libraries and applications (3000 to 4999).
    pub fn may_be_sent(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

impl<'a> Close<'a> {
    /// Read the payload of a close frame.
    ///
    /// # Errors
    /// One byte, a code that must not be sent, a reason that is not UTF-8.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Violation> {
        let (code, reason) = match payload {
            [] => return Ok(Self { code: CloseCode::NONE, reason: "" }),
            [_] => return Err(Violation::CloseFrame),
            [high, low, reason @ ..] => (CloseCode(u16::from_be_bytes([*high, *low])), reason),
        };
        if !code.may_be_sent() {
            return Err(Violation::CloseFrame);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| Violation::Utf8)?;
        Ok(Self { code, reason })
    }

    /// Append the frame that answers this one: with the same code, and without a reason.
    pub fn write_answer(&self, mask: Option<u32>, out: &mut Vec<u8>) {
        write_close((self.code != CloseCode::NONE).then_some(self.code), mask, out);
    }
}

impl CloseCode {
    /// Append a close frame with this code.
    ///
    /// # Panics
    /// If the code must not be sent.
    pub fn write(self, mask: Option<u32>, out: &mut Vec<u8>) {
        assert!(self.may_be_sent(), "{} must not be sent", self.0);
        write_close(Some(self), mask, out);
    }
}

fn write_close(code: Option<CloseCode>, mask: Option<u32>, out: &mut Vec<u8>) {
    let bytes = code.map(|code| code.0.to_be_bytes());
    let payload = bytes.as_ref().map_or(&[][..], |bytes| bytes);
    Frame { opcode: Opcode::Close, is_final: true, mask }.write(payload, out);
}
