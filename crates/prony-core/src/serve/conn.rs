//! One connection of the target server: what was asked on it, in order, and what is being sent.

use std::collections::VecDeque;

use super::reply::{After, PIECE, Reply, Rest};
use super::request::{Head, Reader};
use super::served::Served;
use crate::units::{ConnId, Nanos};

/// A connection, or a slot that waits for one.
#[derive(Debug, Default)]
pub(super) struct Conn {
    generation: u32,
    open: bool,
    /// Where reading stands, and the unfinished head or line that it left.
    pub(super) reader: Reader,
    pub(super) stash: Vec<u8>,
    /// The request whose body is being read.
    pub(super) incoming: Option<Incoming>,
    /// Whether what arrives is read; otherwise it is thrown away, as the connection is about to
    /// end.
    pub(super) reads: bool,
    /// Whether something was thrown away.
    pub(super) surplus: bool,
    /// Whether the client has ended its stream.
    pub(super) peer_done: bool,
    /// Requests so far that were no plain ones.
    pub(super) requests: u32,
    /// Requests not yet answered.
    pub(super) outstanding: u32,
    /// What is being sent; goes out before `plain`, and that before `queue`.
    pub(super) out: Option<Out>,
    /// What becomes of the connection when that is sent.
    pub(super) then: Then,
    /// Plain replies to send, and how many bytes of the first are sent.
    pub(super) plain: u32,
    pub(super) plain_at: u32,
    queue: VecDeque<Pending>,
    /// The number of the queue's first entry.
    first: u64,
    /// Whether the driver was asked to fetch, and whether it will come by itself as the socket took
    /// no more.
    pub(super) told: bool,
    pub(super) blocked: bool,
    /// Since when it is idle, or lingers; and whether a timer looks after it.
    pub(super) since: Nanos,
    pub(super) lingers: bool,
    pub(super) armed: bool,
}

/// A request whose body is not yet here.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) head: Head,
    /// Its body so far, where it is wanted back.
    pub(super) echo: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Pending {
    is_ready: bool,
    answer: Answer,
}

/// What a request is answered by.
#[derive(Debug)]
pub(super) enum Answer {
    /// The prepared reply.
    Plain,
    /// A reply.
    Reply(Reply),
    /// `100 Continue`, before the reply proper.
    Continue,
    /// A reset of the connection.
    Reset,
}

impl Answer {
    /// Whether requests after this one are read.
    pub(super) fn keeps_open(&self) -> bool {
        match self {
            Self::Plain | Self::Continue => true,
            Self::Reply(reply) => reply.after == After::Open,
            Self::Reset => false,
        }
    }
}

/// What becomes of a connection when all that is written is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Then {
    /// The next reply.
    #[default]
    GoOn,
    /// It is closed, or lingers.
    End(After),
    /// It is reset.
    Reset,
}

impl Conn {
    /// Take the slot into use.
    pub(super) fn open(&mut self, slot: u32, now: Nanos) -> ConnId {
        debug_assert!(!self.open && self.queue.is_empty() && self.out.is_none());
        self.open = true;
        self.reads = true;
        self.since = now;
        ConnId { slot, generation: self.generation }
    }

    /// Leave the slot to the next connection; gives the buffers back.
    pub(super) fn end(&mut self) -> (Option<Out>, Vec<u8>) {
        let buffers = (self.out.take(), std::mem::take(&mut self.stash));
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        let generation = self.generation.wrapping_add(1);
        *self = Self { generation, queue, ..Self::default() };
        buffers
    }

    pub(super) fn is(&self, id: ConnId) -> bool {
        self.open && self.generation == id.generation
    }

    pub(super) fn id(&self, slot: u32) -> Option<ConnId> {
        self.open.then_some(ConnId { slot, generation: self.generation })
    }

    /// Whether a part of a request was read.
    pub(super) fn is_inside_request(&self) -> bool {
        self.reads && (!self.reader.is_between() || !self.stash.is_empty())
    }

    /// Whether every request so far is answered.
    pub(super) fn is_answered(&self) -> bool {
        self.outstanding == 0 && self.queue.is_empty() && self.out.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_answered() && !self.is_inside_request()
    }

    /// Whether there is something to send.
    pub(super) fn has_ready(&self) -> bool {
        self.out.is_some() || self.plain > 0 || self.next_is_ready()
    }

    pub(super) fn next_is_ready(&self) -> bool {
        self.queue.front().is_some_and(|next| next.is_ready)
    }

    /// A request is answered by the prepared reply, at once.
    pub(super) fn push_plain(&mut self) {
        self.outstanding += 1;
        if self.queue.is_empty() {
            self.plain += 1;
        } else {
            self.queue.push_back(Pending { is_ready: true, answer: Answer::Plain });
        }
    }

    /// A request will be answered by this; returns the number for `ready`.
    pub(super) fn push(&mut self, answer: Answer) -> u64 {
        self.outstanding += u32::from(!matches!(answer, Answer::Continue));
        self.queue.push_back(Pending { is_ready: false, answer });
        self.first + self.queue.len() as u64 - 1
    }

    /// The request of that number is served.
    pub(super) fn ready(&mut self, entry: u64) {
        self.queue[(entry - self.first) as usize].is_ready = true;
    }

    /// Take the next answer, if its turn has come.
    pub(super) fn pop_ready(&mut self) -> Option<Answer> {
        if !self.next_is_ready() {
            return None;
        }
        self.first += 1;
        self.queue.pop_front().map(|next| next.answer)
    }
}

/// Replies that are written but not all sent. Kept by the connections that need one only.
#[derive(Debug, Default)]
pub(super) struct Out {
    bytes: Vec<u8>,
    sent: usize,
    /// Where replies end in `bytes`, and how each is counted.
    ends: VecDeque<(usize, Counted)>,
    /// The rest of the last one, if it is long.
    rest: Option<(Rest, Counted)>,
}

#[derive(Clone, Copy, Debug)]
enum Counted {
    Reply(u16),
    Truncated,
    Continue,
}

impl Out {
    /// Whether a further reply may be written.
    pub(super) fn has_room(&self) -> bool {
        self.rest.is_none() && self.bytes.len() < 4 * PIECE
    }

    pub(super) fn write(&mut self, reply: Reply) {
        let counted = if reply.cut { Counted::Truncated } else { Counted::Reply(reply.status) };
        match reply.begin(&mut self.bytes) {
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

    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So many bytes were sent: count the replies that end in them. Returns the number of requests
    /// that are answered.
    pub(super) fn sent(&mut self, n: usize, served: &mut Served) -> u32 {
        self.sent += n;
        let mut answered = 0;
        while let Some(&(_, counted)) = self.ends.front().filter(|(end, _)| *end <= self.sent) {
            self.ends.pop_front();
            match counted {
                Counted::Reply(status) => served.count_replies(status, 1),
                Counted::Truncated => served.count_truncated(),
                Counted::Continue => {
                    served.continues += 1;
                    continue;
                }
            }
            answered += 1;
        }
        answered
    }

    /// All is sent: write the next piece of a long reply. Whether there was one.
    pub(super) fn write_on(&mut self) -> bool {
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

    /// Forget all, to be used by another connection.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.ends.clear();
        self.rest = None;
    }
}
