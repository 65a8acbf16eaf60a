//! The open streams of a connection, by their IDs.

use std::collections::VecDeque;

use prony_base::http2::FRAME_SIZE;

use super::super::answer::Answer;
use super::super::events::Events;
use super::super::grpc::Call;
use super::super::reply::Content;
use super::super::request::Head;
use super::super::work::ENTRY;
use super::socket::StreamSocket;

/// Frames with less DATA than this are counted as useless, unless they end a body.
pub(super) const TINY: u64 = 64;

/// An open stream.
#[derive(Debug)]
pub(in super::super) struct Stream {
    pub(super) id: u32,
    /// The request, while its body is incomplete.
    pub(super) incoming: Option<Incoming>,
    pub(super) reply: Progress,
    /// Whether to send `100 Continue`.
    pub(super) owes_continue: bool,
    /// Whether it is in one of the queues of those that send in turn.
    pub(super) is_queued: bool,
    /// What the client may still be sent, in bytes. Negative after a lowered setting.
    pub(super) send_window: i64,
    /// What the client may still send, and what of it is used but not given back.
    pub(super) recv_window: i64,
    pub(super) recv_used: u32,
}

/// A request with an incomplete body.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) head: Head,
    /// Its length as announced, and the bytes so far.
    pub(super) length: Option<u64>,
    pub(super) received: u64,
    /// The bytes so far, if they are to be echoed.
    pub(super) echo: Option<Vec<u8>>,
}

/// How far the reply is.
#[derive(Debug)]
pub(super) enum Progress {
    /// The request is incomplete.
    None,
    /// The request is in service.
    InService(Answer),
    /// The reply is to be sent.
    Ready(Answer),
    /// Its head is sent.
    Body(Body),
    /// It is a stream of events.
    Events(Box<Events>),
    /// It is a call of gRPC, with messages in both directions.
    Call(Box<Call>),
    /// It is a connection of WebSocket.
    Socket(Box<StreamSocket>),
}

impl Progress {
    /// Whether there is a reply that is not sent, as far as requests are counted.
    pub(super) fn is_outstanding(&self) -> bool {
        match self {
            Self::None => false,
            Self::Socket(socket) => socket.owes_head(),
            _ => true,
        }
    }
}

/// The part of a body that is still to be sent.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) content: Content,
    /// The position of the next byte, and that after the last.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) status: u16,
    /// Whether the stream is reset at the end: the reply is truncated.
    pub(super) cut: bool,
}

/// A table of streams: open addressing, linear probing. It owns no memory before the first stream.
#[derive(Debug, Default)]
pub(in super::super) struct Streams {
    /// Slots of `slab` plus one, 0: free. The length is a power of two, at least twice the streams.
    index: Vec<u32>,
    /// Streams, and free slots (ID 0).
    slab: Vec<Stream>,
    free: Vec<u32>,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All streams, in no particular but a reproducible order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slab.iter_mut().filter(|stream| stream.id != 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slab.iter().filter(|stream| stream.id != 0)
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.find(id).is_some()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.find(id)?;
        Some(&mut self.slab[self.index[at] as usize - 1])
    }

    /// Add a stream whose ID is not in the table.
    pub(super) fn insert(&mut self, stream: Stream) -> &mut Stream {
        if self.index.len() < 2 * (self.len() + 1) {
            self.grow();
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.slab.len() as u32,
        };
        let at = self.vacancy(stream.id);
        self.index[at] = slot + 1;
        let slot = slot as usize;
        if slot == self.slab.len() {
            self.slab.push(stream);
        } else {
            self.slab[slot] = stream;
        }
        &mut self.slab[slot]
    }

    /// Remove a stream.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let mut hole = self.find(id)?;
        let slot = self.index[hole] - 1;
        let mask = self.index.len() - 1;
        // Move back what probing would otherwise no longer find.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = self.index[at].checked_sub(1) else { break };
            let home = self.home(self.slab[other as usize].id);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = other + 1;
                hole = at;
            }
        }
        self.index[hole] = 0;
        self.free.push(slot);
        Some(std::mem::replace(&mut self.slab[slot as usize], Stream::free()))
    }

    fn home(&self, id: u32) -> usize {
        // IDs of clients are odd and rise by two.
        (id >> 1) as usize & (self.index.len() - 1)
    }

    fn find(&self, id: u32) -> Option<usize> {
        if self.index.is_empty() || id == 0 {
            return None;
        }
        let mut at = self.home(id);
        loop {
            let slot = self.index[at].checked_sub(1)?;
            if self.slab[slot as usize].id == id {
                return Some(at);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    fn vacancy(&self, id: u32) -> usize {
        let mut at = self.home(id);
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        at
    }

    fn grow(&mut self) {
        let length = (2 * self.index.len()).max(8);
        self.index.clear();
        self.index.resize(length, 0);
        for slot in 0..self.slab.len() {
            let id = self.slab[slot].id;
            if id != 0 {
                let at = self.vacancy(id);
                self.index[at] = slot as u32 + 1;
            }
        }
    }
}

impl Stream {
    /// A stream with these windows.
    pub(super) fn new(id: u32, send_window: i64, recv_window: i64) -> Self {
        Self {
            id,
            incoming: None,
            reply: Progress::None,
            owes_continue: false,
            is_queued: false,
            send_window,
            recv_window,
            recv_used: 0,
        }
    }

    /// Roughly how much memory it uses.
    pub(super) fn footprint(&self) -> usize {
        let body = self.incoming.as_ref().and_then(|incoming| incoming.echo.as_ref());
        let reply = match &self.reply {
            Progress::None => 0,
            Progress::InService(answer) | Progress::Ready(answer) => answer.cost(),
            Progress::Body(body) => body.content.size(),
            Progress::Events(_) => 2 * ENTRY,
            Progress::Call(call) => call.footprint(),
            Progress::Socket(socket) => socket.footprint(),
        };
        ENTRY + body.map_or(0, Vec::capacity) + reply
    }

    /// Whether it can go on sending, but is not queued for that.
    pub(super) fn waits_for_window(&self) -> bool {
        let has_more = match &self.reply {
            Progress::Body(_) => true,
            Progress::Events(events) => events.has_more(),
            Progress::Call(call) => call.has_output(),
            Progress::Socket(socket) => socket.has_output(),
            Progress::None | Progress::InService(_) | Progress::Ready(_) => false,
        };
        !self.is_queued && self.send_window > 0 && has_more
    }

    /// Whether the client may send more of its request.
    pub(super) fn receives(&self) -> bool {
        let is_call = || matches!(&self.reply, Progress::Call(call) if !call.is_half_closed);
        let is_socket =
            || matches!(&self.reply, Progress::Socket(socket) if !socket.is_half_closed);
        self.incoming.is_some() || is_call() || is_socket()
    }

    fn free() -> Self {
        Self::new(0, 0, 0)
    }
}

/// Take from the windows what they allow of `left` bytes, at most a frame's. With nothing, the
/// stream waits for the client: for its own window, or for that of the connection.
#[inline]
pub(super) fn allowed(
    stream: &mut Stream,
    connection: &mut i64,
    starved: &mut VecDeque<u32>,
    left: u64,
) -> u64 {
    let window = stream.send_window.min(*connection).max(0) as u64;
    let n = left.min(window).min(u64::from(FRAME_SIZE));
    if n == 0 && left > 0 && stream.send_window > 0 {
        stream.is_queued = true;
        starved.push_back(stream.id);
    }
    stream.send_window -= n as i64;
    *connection -= n as i64;
    n
}

/// Which of the last 128 streams were opened, and which of them the server has reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    last: u32,
    opened: u128,
    reset: u128,
}

/// What is known of a stream that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// It was never opened.
    Idle,
    /// It was skipped: a later stream was opened before it.
    Skipped,
    /// It was closed.
    Closed,
    /// The server has reset it, or it is so long ago that this is possible.
    Reset,
}

impl Recent {
    /// The latest stream; 0: none.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// A client has opened a stream: its ID is odd and higher than the last one.
    pub(super) fn open(&mut self, id: u32) {
        let distance = id.saturating_sub(self.last).div_ceil(2);
        self.opened = self.opened.checked_shl(distance).unwrap_or(0) | 1;
        self.reset = self.reset.checked_shl(distance).unwrap_or(0);
        self.last = id;
    }

    /// The server has reset a stream.
    pub(super) fn reset(&mut self, id: u32) {
        if let Some(bit) = self.bit(id) {
            self.reset |= bit;
        }
    }

    /// What is known of a stream that is not open.
    pub(super) fn past(&self, id: u32) -> Past {
        if id > self.last || id.is_multiple_of(2) {
            return Past::Idle;
        }
        match self.bit(id) {
            None => Past::Reset,
            Some(bit) if self.opened & bit == 0 => Past::Skipped,
            Some(bit) if self.reset & bit == 0 => Past::Closed,
            Some(_) => Past::Reset,
        }
    }

    fn bit(&self, id: u32) -> Option<u128> {
        1_u128.checked_shl(self.last.checked_sub(id)? / 2)
    }
}

#[cfg(test)]
mod tests {
    use prony_base::rng::{self, Stream as Draws};

    use super::*;

    #[test]
    fn finds_the_streams_that_are_open() {
        let mut streams = Streams::default();
        assert!(!streams.contains(1) && streams.remove(1).is_none() && streams.is_empty());
        let mut open = std::collections::BTreeSet::new();
        let mut next = 1;
        for step in 0..20_000_u64 {
            let draw = rng::keyed(1, Draws::Serve, step, 0);
            // Long-lived streams among many short ones.
            if draw % 5 < 3 && open.len() < 300 {
                streams.insert(Stream::new(next, 0, 0));
                open.insert(next);
                next += 2 + 2 * u32::from(draw.is_multiple_of(7));
            } else if let Some(&id) = open.iter().nth((draw / 16) as usize % open.len().max(1)) {
                assert_eq!(streams.remove(id).map(|stream| stream.id), Some(id));
                open.remove(&id);
                assert!(!streams.contains(id));
            }
            assert_eq!(streams.len(), open.len());
            if step % 100 == 0 {
                assert!(open.iter().all(|&id| streams.get_mut(id).is_some_and(|s| s.id == id)));
                let mut all: Vec<_> = streams.iter().map(|stream| stream.id).collect();
                all.sort_unstable();
                assert!(all.iter().eq(&open), "step {step}");
            }
        }
        assert!(streams.index.len() <= 1_024 && streams.slab.len() <= 300, "bounded");
    }

    #[test]
    fn remembers_the_last_streams() {
        let mut recent = Recent::default();
        assert_eq!(recent.past(1), Past::Idle);
        for id in [1, 5, 7] {
            recent.open(id);
        }
        recent.reset(5);
        let past = |recent: &Recent, ids: [u32; 6]| ids.map(|id| recent.past(id));
        let expected =
            [Past::Closed, Past::Skipped, Past::Reset, Past::Closed, Past::Idle, Past::Idle];
        assert_eq!(past(&recent, [1, 3, 5, 7, 9, 2]), expected);
        recent.open(7 + 2 * 100);
        assert_eq!(past(&recent, [1, 3, 5, 7, 9, 207]), {
            let mut later = expected;
            later[4..].copy_from_slice(&[Past::Skipped, Past::Closed]);
            later
        });
        recent.open(7 + 2 * 130);
        assert_eq!([5, 7, 9].map(|id| recent.past(id)), [Past::Reset; 3], "too long ago");
        recent.open((1 << 31) - 1);
        assert_eq!(recent.past(267), Past::Reset);
    }
}
