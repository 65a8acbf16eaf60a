//! Frames that concern a connection, or end a stream: their payloads, checked as RFC 9113, 6.3 to
//! 6.9, asks.

use super::frame::{Code, Head, flag, kind};
use super::{STREAM_MAX, WINDOW_MAX};

/// What a frame says that is no DATA, HEADERS, PUSH_PROMISE or CONTINUATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// SETTINGS, with their payload.
    Settings(&'a [u8]),
    /// The acknowledgement of SETTINGS.
    SettingsAck,
    /// A PING with its data.
    Ping([u8; 8]),
    /// The acknowledgement of a PING.
    PingAck([u8; 8]),
    /// GOAWAY: the last stream that is processed, why, and a text for people.
    Goaway(u32, Code, &'a [u8]),
    /// RST_STREAM.
    Reset(Code),
    /// WINDOW_UPDATE. An increment of 0 is an error, whose reach depends on the stream.
    WindowUpdate(u32),
    /// PRIORITY; of a stream that depends on itself an error of this stream.
    Priority {
        /// Whether the stream depends on itself.
        on_itself: bool,
    },
    /// A frame of an unknown type.
    Unknown,
}

/// A malformed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The code of the error.
    pub code: Code,
    /// Whether it is an error of the stream, and not of the connection.
    pub is_of_stream: bool,
    /// What is wrong.
    pub why: &'static str,
}

impl<'a> Control<'a> {
    /// Read a frame.
    ///
    /// # Errors
    /// Its payload has an invalid length, or it belongs on another stream.
    pub fn read(head: Head, payload: &'a [u8]) -> Result<Self, Malformed> {
        let is_of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        let is_of_stream = matches!(head.kind, kind::RST_STREAM | kind::PRIORITY);
        if is_of_connection && head.stream != 0 {
            return protocol("a frame of the connection on a stream");
        }
        if is_of_stream && head.stream == 0 {
            return protocol("a frame of a stream on the connection");
        }
        match head.kind {
            kind::SETTINGS if !head.has(flag::ACK) => Ok(Self::Settings(payload)),
            kind::SETTINGS if payload.is_empty() => Ok(Self::SettingsAck),
            kind::SETTINGS => size("SETTINGS acknowledged with a payload"),
            kind::PING => match payload.try_into() {
                Ok(data) if head.has(flag::ACK) => Ok(Self::PingAck(data)),
                Ok(data) => Ok(Self::Ping(data)),
                Err(_) => size("PING without 8 bytes"),
            },
            kind::GOAWAY => match payload.split_first_chunk::<8>() {
                Some((&[a, b, c, d, e, f, g, h], text)) => {
                    let last = u32::from_be_bytes([a, b, c, d]) & STREAM_MAX;
                    Ok(Self::Goaway(last, Code(u32::from_be_bytes([e, f, g, h])), text))
                }
                None => size("GOAWAY without 8 bytes"),
            },
            kind::RST_STREAM => match payload.try_into() {
                Ok(code) => Ok(Self::Reset(Code(u32::from_be_bytes(code)))),
                Err(_) => size("RST_STREAM without 4 bytes"),
            },
            kind::WINDOW_UPDATE => match payload.try_into() {
                Ok(bytes) => Ok(Self::WindowUpdate(u32::from_be_bytes(bytes) & WINDOW_MAX)),
                Err(_) => size("WINDOW_UPDATE without 4 bytes"),
            },
            kind::PRIORITY => match payload {
                &[a, b, c, d, _] => {
                    let parent = u32::from_be_bytes([a, b, c, d]) & STREAM_MAX;
                    Ok(Self::Priority { on_itself: parent == head.stream })
                }
                _ => Err(Malformed {
                    code: Code::FRAME_SIZE_ERROR,
                    is_of_stream: true,
                    why: "PRIORITY without 5 bytes",
                }),
            },
            _ => Ok(Self::Unknown),
        }
    }
}

fn protocol<T>(why: &'static str) -> Result<T, Malformed> {
    Err(Malformed { code: Code::PROTOCOL_ERROR, is_of_stream: false, why })
}

fn size<T>(why: &'static str) -> Result<T, Malformed> {
    Err(Malformed { code: Code::FRAME_SIZE_ERROR, is_of_stream: false, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Control<'_>, Malformed> {
        let length = payload.len() as u32;
        Control::read(Head { length, kind, flags, stream }, payload)
    }

    #[test]
    fn reads_well_formed_frames() {
        let eight = *b"12345678";
        for (kind, flags, stream, payload, expected) in [
            (kind::SETTINGS, 0, 0, &[1, 2][..], Control::Settings(&[1, 2])),
            (kind::SETTINGS, flag::ACK, 0, &[], Control::SettingsAck),
            (kind::PING, 0, 0, &eight, Control::Ping(eight)),
            (kind::PING, flag::ACK, 0, &eight, Control::PingAck(eight)),
            (
                kind::GOAWAY,
                0,
                0,
                &[0x80, 0, 0, 7, 0, 0, 0, 11, b'x'],
                Control::Goaway(7, Code::ENHANCE_YOUR_CALM, b"x"),
            ),
            (kind::RST_STREAM, 0, 1, &[0, 0, 0, 8], Control::Reset(Code::CANCEL)),
            (kind::WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 9], Control::WindowUpdate(9)),
            (kind::PRIORITY, 0, 3, &[0x80, 0, 0, 3, 0], Control::Priority { on_itself: true }),
            (kind::PRIORITY, 0, 3, &[0, 0, 0, 1, 0], Control::Priority { on_itself: false }),
            (99, 0, 3, &[], Control::Unknown),
        ] {
            assert_eq!(read(kind, flags, stream, payload), Ok(expected));
        }
    }

    #[test]
    fn rejects_malformed_frames() {
        let (size, protocol) = (Code::FRAME_SIZE_ERROR, Code::PROTOCOL_ERROR);
        for (kind, flags, stream, length, code, is_of_stream) in [
            (kind::SETTINGS, 0, 1, 0, protocol, false),
            (kind::SETTINGS, flag::ACK, 0, 1, size, false),
            (kind::PING, 0, 1, 8, protocol, false),
            (kind::PING, 0, 0, 9, size, false),
            (kind::GOAWAY, 0, 1, 8, protocol, false),
            (kind::GOAWAY, 0, 0, 7, size, false),
            (kind::RST_STREAM, 0, 0, 4, protocol, false),
            (kind::RST_STREAM, 0, 1, 5, size, false),
            (kind::WINDOW_UPDATE, 0, 1, 3, size, false),
            (kind::PRIORITY, 0, 0, 5, protocol, false),
            (kind::PRIORITY, 0, 1, 4, size, true),
        ] {
            let wrong = read(kind, flags, stream, &[0; 9][..length]).expect_err("malformed");
            assert_eq!((wrong.code, wrong.is_of_stream), (code, is_of_stream), "{}", wrong.why);
        }
    }
}
