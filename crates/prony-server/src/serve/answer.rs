//! The answer to a request, while it waits.

use super::cast::Cast;
use super::events::Events;
use super::out::Counted;
use super::reply::{After, Reply};
use super::work::ENTRY;

/// How many answers of one connection of WebSocket may wait before a pong replaces the one before
/// it.
pub(super) const ANSWERS_WAITING: usize = 1_000;

/// The answer to a request.
#[derive(Debug)]
pub(super) enum Answer {
    /// The constant reply.
    Plain,
    /// A reply.
    Reply(Reply),
    /// A reply whose body is a stream of events.
    Events(Box<Events>),
    /// `100 Continue`, before the final reply.
    Continue,
    /// These bytes of WebSocket: the reply to a handshake, or a frame.
    Bytes(Vec<u8>, Counted),
    /// A message of WebSocket, to be sent to all others.
    Cast(Box<Cast>),
    /// A close of the connection after them.
    Leave,
    /// A reset of the connection.
    Reset,
    /// A reset of the stream.
    StreamReset,
    /// A close of the connection, without a reply.
    Close,
}

impl Answer {
    /// Whether further requests are read after this one.
    pub(super) fn keeps_open(&self) -> bool {
        match self {
            Self::Plain | Self::Continue | Self::StreamReset | Self::Bytes(..) | Self::Cast(_) => {
                true
            }
            Self::Reply(reply) => reply.after == After::Open,
            Self::Events(events) => events.after == After::Open,
            Self::Reset | Self::Close | Self::Leave => false,
        }
    }

    /// Roughly how much memory it uses while it waits.
    pub(super) fn cost(&self) -> usize {
        ENTRY
            + match self {
                Self::Reply(Reply { content, .. }) => content.size(),
                Self::Bytes(bytes, _) => bytes.len(),
                Self::Cast(cast) => cast.message.len(),
                Self::Events(_) => 2 * ENTRY,
                _ => 0,
            }
    }

    /// If this is a pong, put that one in its place. A client that sends pings awaits the answer to
    /// the latest one.
    pub(super) fn replaces_pong(&mut self, pong: &[u8]) -> bool {
        let Self::Bytes(frame, Counted::Nothing) = self else { return false };
        frame.clear();
        frame.extend_from_slice(pong);
        true
    }
}
