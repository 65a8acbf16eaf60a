//! What a connection sends, encoded, and what is counted when it is sent.

use std::collections::VecDeque;

use prony_base::grpc::Status;

use super::reply::{After, PIECE, Reply, Rest};
use super::served::Served;

/// What happens to a connection when its output is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Then {
    /// Send the next reply.
    #[default]
    Continue,
    /// Close it, or linger.
    End(After),
    /// Close it, whatever the client is still sending.
    Close,
    /// Reset it.
    Reset,
}

/// Encoded replies that are not completely sent. Only connections that need one have it.
#[derive(Debug, Default)]
pub(super) struct Out {
    bytes: Vec<u8>,
    sent: usize,
    /// The end of each reply in `bytes`, and how it is counted.
    ends: VecDeque<(usize, Counted)>,
    /// The rest of the last reply, if it is long.
    rest: Option<(Rest, Counted)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Reply(u16),
    Truncated,
    Continue,
    /// A message of WebSocket.
    Message,
    /// Another frame of WebSocket.
    Nothing,
    StreamReset,
    /// A call of gRPC, with this status.
    Call(Status),
}

impl Out {
    /// Whether there is room for a further reply.
    pub(super) fn has_room(&self) -> bool {
        self.rest.is_none() && self.bytes.len() < 4 * PIECE
    }

    pub(super) fn write(&mut self, reply: Reply) {
        let counted = if reply.cut { Counted::Truncated } else { Counted::Reply(reply.status) };
        match reply.start(&mut self.bytes) {
            Some(rest) => self.rest = Some((rest, counted)),
            None => self.ends.push_back((self.bytes.len(), counted)),
        }
    }

    pub(super) fn write_plain(&mut self, reply: &[u8], status: u16) {
        self.bytes.extend_from_slice(reply);
        self.ends.push_back((self.bytes.len(), Counted::Reply(status)));
    }

    pub(super) fn write_continue(&mut self) {
        self.bytes.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        self.ends.push_back((self.bytes.len(), Counted::Continue));
    }

    /// The bytes that are not sent, and those that are in memory as a whole while they are sent.
    pub(super) fn size(&self) -> usize {
        self.unsent().len() + self.rest.as_ref().map_or(0, |(rest, _)| rest.size())
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The encoded bytes, to append to.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Count something when all bytes so far are sent.
    pub(super) fn count(&mut self, counted: Counted) {
        self.ends.push_back((self.bytes.len(), counted));
    }

    /// Whether there is neither something to send nor something to count.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.ends.is_empty() && self.rest.is_none()
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Record that `n` bytes were sent, and count the replies that end in them. Return the number
    /// of answered requests.
    pub(super) fn sent(&mut self, n: usize, served: &mut Served) -> u32 {
        self.sent += n;
        let mut answered = 0;
        while let Some(&(_, counted)) = self.ends.front().filter(|(end, _)| *end <= self.sent) {
            self.ends.pop_front();
            match counted {
                Counted::Reply(status) => served.count_replies(status, 1),
                Counted::Truncated => served.count_truncated(),
                Counted::Call(status) => served.count_call(status),
                Counted::StreamReset => served.count_stream_reset(),
                Counted::Continue => {
                    served.continues += 1;
                    continue;
                }
                Counted::Message => {
                    served.socket_messages_sent += 1;
                    continue;
                }
                Counted::Nothing => continue,
            }
            answered += 1;
        }
        answered
    }

    /// When all is sent, write the next piece of a long reply. Return whether there was one.
    pub(super) fn write_rest(&mut self) -> bool {
        debug_assert!(self.unsent().is_empty() && self.ends.is_empty());
        self.bytes.clear();
        self.sent = 0;
        let Some((mut rest, counted)) = self.rest.take() else {
            return false;
        };
        if rest.next(&mut self.bytes) {
            self.ends.push_back((self.bytes.len(), counted));
        } else {
            self.rest = Some((rest, counted));
        }
        true
    }

    /// Clear the buffer for use by another connection.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.ends.clear();
        self.rest = None;
    }
}
