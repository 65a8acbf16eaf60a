//! A connection of the target server: its requests in order, and its output.

use std::collections::VecDeque;

use prony_base::units::{ConnId, Nanos};

use super::answer::{ANSWERS_WAITING, Answer};
use super::cast::Held;
use super::events::Events;
use super::h2::Session;
use super::out::{Counted, Out, Then};
use super::reply::PIECE;
use super::request::{Head, Reader};
use super::socket::Socket;
use super::station::Ticket;

/// A connection, or a free slot.
#[derive(Debug, Default)]
pub(super) struct Conn {
    generation: u32,
    open: bool,
    /// Whether no byte was parsed yet, so that the protocol is not known.
    pub(super) is_new: bool,
    /// The streams, if it speaks HTTP/2.
    pub(super) h2: Option<Box<Session>>,
    /// The state of WebSocket, if it speaks that.
    pub(super) ws: Option<Box<Socket>>,
    /// A delivery of a broadcast that is held back, and the number of its publisher.
    pub(super) held: Held,
    /// The parser's state, and the incomplete head or line that it left.
    pub(super) reader: Reader,
    pub(super) stash: Vec<u8>,
    /// The request whose body is being read.
    pub(super) incoming: Option<Incoming>,
    /// Whether received bytes are parsed. They are discarded if the connection is about to be
    /// closed.
    pub(super) reads: bool,
    /// Whether bytes were discarded.
    pub(super) surplus: bool,
    /// Whether the client has closed its side.
    pub(super) peer_done: bool,
    /// Requests so far, without those that got the constant reply.
    pub(super) requests: u32,
    /// Requests not yet answered.
    pub(super) outstanding: u32,
    /// Encoded output; sent before `plain`, which is sent before `queue`.
    pub(super) out: Option<Out>,
    /// What happens to the connection when `out` is sent.
    pub(super) then: Then,
    /// The number of constant replies to send, and of bytes of the first that are already sent.
    pub(super) plain: u32,
    pub(super) plain_at: u32,
    queue: VecDeque<Pending>,
    /// The number of the queue's first entry.
    first: u64,
    /// Whether the driver was asked to fetch output.
    pub(super) transmit_requested: bool,
    /// Whether the socket was full, so that the driver fetches output when it is writable again.
    pub(super) blocked: bool,
    /// Since when it is idle, or lingers; and whether it has a timer.
    pub(super) since: Nanos,
    pub(super) lingers: bool,
    pub(super) armed: bool,
    /// Whether the driver does not read from it; whether that may end after the sockets were
    /// checked; and whether the client has ended its side meanwhile.
    pub(super) is_paused: bool,
    pub(super) is_waking: bool,
    pub(super) ended_in_pause: bool,
    /// Whether its next message waits until fewer are being sent to all others.
    pub(super) waits_to_cast: bool,
    /// The cost of the answers in `queue`, in bytes.
    pub(super) queued: usize,
    /// What it uses of the server's budget, in bytes.
    pub(super) charged: usize,
}

/// A request with an incomplete body.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) head: Head,
    /// Its body so far, if it is to be echoed.
    pub(super) echo: Option<Vec<u8>>,
}

/// Up to how many places of its queue an empty connection keeps, and a free slot.
const QUEUE_MAX: usize = 1_024;
const QUEUE_KEPT: usize = 16;

#[derive(Debug)]
struct Pending {
    is_ready: bool,
    answer: Answer,
}

impl Conn {
    /// Open a connection in this slot.
    pub(super) fn open(&mut self, slot: u32, now: Nanos) -> ConnId {
        debug_assert!(!self.open && self.queue.is_empty() && self.out.is_none());
        self.open = true;
        self.is_new = true;
        self.reads = true;
        self.since = now;
        ConnId { slot, generation: self.generation }
    }

    /// Free the slot and return its buffers.
    pub(super) fn close(&mut self) -> (Option<Out>, Vec<u8>) {
        let buffers = (self.out.take(), std::mem::take(&mut self.stash));
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        queue.shrink_to(QUEUE_KEPT);
        let generation = self.generation.wrapping_add(1);
        *self = Self { generation, queue, ..Self::default() };
        buffers
    }

    pub(super) fn is(&self, id: ConnId) -> bool {
        self.open && self.generation == id.generation
    }

    /// Whether this is still the connection of a request, and its stream is open.
    pub(super) fn wants(&self, ticket: Ticket) -> bool {
        self.is(ticket.id)
            && self.h2.as_ref().is_none_or(|session| session.has_stream(ticket.entry))
    }

    pub(super) fn id(&self, slot: u32) -> Option<ConnId> {
        self.open.then_some(ConnId { slot, generation: self.generation })
    }

    /// Whether a request was read in part.
    pub(super) fn is_inside_request(&self) -> bool {
        self.reads && (!self.reader.is_between() || !self.stash.is_empty())
    }

    /// Whether all requests so far are answered.
    pub(super) fn is_answered(&self) -> bool {
        self.outstanding == 0 && self.queue.is_empty() && self.out.is_none()
    }

    /// Whether the client has ended its side, and nothing can be sent before it opens windows.
    pub(super) fn is_stuck(&self) -> bool {
        let session = self.h2.as_ref().filter(|_| self.peer_done && self.out.is_none());
        session.is_some_and(|session| session.is_starved())
    }

    /// Whether a client that has ended its side gets nothing more.
    pub(super) fn has_sent_all(&self) -> bool {
        // It may still read why a connection of HTTP/2 has failed.
        let owes_reason = self.h2.as_ref().is_some_and(|session| session.owes_reason());
        !owes_reason && (self.is_answered() || self.is_stuck())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_answered()
            && !self.is_inside_request()
            && self.h2.as_ref().is_none_or(|session| session.is_idle())
    }

    /// Whether there is output to send.
    pub(super) fn has_ready(&self) -> bool {
        self.out.is_some()
            || self.plain > 0
            || self.next_is_ready()
            || self.h2.as_ref().is_some_and(|session| session.wants_send())
    }

    /// Whether the next answer is a message to all others.
    pub(super) fn next_is_cast(&self) -> bool {
        matches!(self.queue.front(), Some(Pending { answer: Answer::Cast(_), .. }))
    }

    pub(super) fn next_is_ready(&self) -> bool {
        self.queue.front().is_some_and(|next| next.is_ready)
    }

    /// Answer a request with the constant reply, at once.
    pub(super) fn push_plain(&mut self) {
        self.outstanding += 1;
        if self.queue.is_empty() {
            self.plain += 1;
        } else {
            self.queued += Answer::Plain.cost();
            self.queue.push_back(Pending { is_ready: true, answer: Answer::Plain });
        }
    }

    /// Queue the answer to a request; return its number, for `ready`.
    pub(super) fn push(&mut self, answer: Answer) -> u64 {
        let is_part = match answer {
            Answer::Bytes(_, counted) => !matches!(counted, Counted::Reply(_)),
            Answer::Continue | Answer::Leave | Answer::Cast(_) => true,
            _ => false,
        };
        self.outstanding += u32::from(!is_part);
        // The head of a stream does not wait for its first event.
        let is_ready = matches!(&answer, Answer::Events(events) if events.has_more());
        self.queued += answer.cost();
        self.queue.push_back(Pending { is_ready, answer });
        self.first + self.queue.len() as u64 - 1
    }

    /// If [`ANSWERS_WAITING`] answers wait, because the client does not read, and the last of them
    /// is a pong: put this one in its place. Return whether it was.
    pub(super) fn replaces_pong(&mut self, pong: &[u8]) -> bool {
        let is_full = self.queue.len() >= ANSWERS_WAITING;
        let Some(last) = self.queue.back_mut().filter(|_| is_full) else { return false };
        let before = last.answer.cost();
        let is_replaced = last.answer.replaces_pong(pong);
        self.queued = self.queued - before + last.answer.cost();
        is_replaced
    }

    /// Drop the answers that wait, but for those that are being sent. Returns whether few are left.
    pub(super) fn drop_answers(&mut self) -> bool {
        self.first += self.queue.len() as u64;
        (self.queue, self.queued) = (VecDeque::new(), 0);
        self.out.as_ref().is_none_or(|out| out.size() <= 64 * PIECE)
    }

    /// Mark the answer with this number as ready; with HTTP/2, that of this stream.
    pub(super) fn ready(&mut self, entry: u64) {
        if let Some(session) = &mut self.h2 {
            return session.ready(entry);
        }
        // It may have been dropped.
        let place = entry.checked_sub(self.first).and_then(|at| self.queue.get_mut(at as usize));
        if let Some(pending) = place {
            pending.is_ready = true;
        }
    }

    /// The events of the answer with this number, or of this stream.
    pub(super) fn events(&mut self, entry: u64) -> Option<&mut Events> {
        if let Some(session) = &mut self.h2 {
            return session.events(entry);
        }
        let pending = self.queue.get_mut(entry.checked_sub(self.first)? as usize)?;
        if let Answer::Events(events) = &mut pending.answer { Some(events) } else { None }
    }

    #[cfg(test)]
    pub(super) fn queue_cost(&self) -> usize {
        self.queue.iter().map(|pending| pending.answer.cost()).sum()
    }

    /// How many answers wait.
    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// How many answers wait on a stream of HTTP/2, or without it.
    pub(super) fn waiting(&mut self, stream: u32) -> usize {
        match &mut self.h2 {
            Some(session) => session.waiting(stream),
            None => self.queue.len(),
        }
    }

    /// Put an answer back of which a part was removed. Returns its number.
    pub(super) fn put_back(&mut self, events: Box<Events>) -> u64 {
        let is_ready = events.has_more();
        self.first -= 1;
        let answer = Answer::Events(events);
        self.queued += answer.cost();
        self.queue.push_front(Pending { is_ready, answer });
        self.first
    }

    /// Remove and return the next answer, if it is ready.
    pub(super) fn pop_ready(&mut self) -> Option<Answer> {
        if !self.next_is_ready() {
            return None;
        }
        self.first += 1;
        let answer = self.queue.pop_front()?.answer;
        self.queued -= answer.cost();
        if self.queue.is_empty() && self.queue.capacity() > QUEUE_MAX {
            self.queue = VecDeque::new();
        }
        Some(answer)
    }
}
