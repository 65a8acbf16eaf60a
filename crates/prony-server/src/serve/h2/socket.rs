//! A connection of WebSocket on a stream of HTTP/2: what it sends, in order.

use std::collections::VecDeque;

use super::super::answer::{ANSWERS_WAITING, Answer};
use super::super::cast::Held;
use super::super::out::Counted;
use super::super::socket::Socket;
use super::super::work::ENTRY;

/// A connection of WebSocket on a stream.
#[derive(Debug)]
pub(in super::super) struct StreamSocket {
    pub(super) socket: Socket,
    /// A delivery of a broadcast that is held back.
    pub(super) held: Held,
    /// Received bytes that are the start of a frame.
    pub(super) stash: Vec<u8>,
    /// The header block of the reply, until it is sent.
    pub(super) head: Option<Vec<u8>>,
    /// What it sends, in order, and whether it is ready.
    pub(super) entries: VecDeque<(bool, Answer)>,
    /// The number of the first of these, and what they cost in bytes.
    pub(super) first: u32,
    pub(super) queued: usize,
    /// The frame that is being sent, how much of it was sent, and how it is counted.
    pub(super) current: Option<(Vec<u8>, usize, Counted)>,
    /// Whether what the client sends is read.
    pub(super) reads: bool,
    /// Whether the client has ended its side.
    pub(super) is_half_closed: bool,
    /// Whether this side ends after all entries, and has ended.
    pub(super) ends: bool,
    pub(super) has_ended: bool,
    /// Whether the client is not awaited after that.
    pub(super) interrupts: bool,
}

impl StreamSocket {
    pub(super) fn new(socket: Socket, head: Vec<u8>) -> Self {
        Self {
            socket,
            held: None,
            stash: Vec::new(),
            head: Some(head),
            entries: VecDeque::new(),
            first: 0,
            queued: 0,
            current: None,
            reads: true,
            is_half_closed: false,
            ends: false,
            has_ended: false,
            interrupts: false,
        }
    }

    /// Whether the head of the reply is not sent.
    pub(super) fn owes_head(&self) -> bool {
        self.head.is_some()
    }

    /// Whether there is something to send now.
    pub(super) fn has_output(&self) -> bool {
        let is_next_ready = self.entries.front().is_some_and(|entry| entry.0);
        let ends = self.ends && !self.has_ended && self.entries.is_empty();
        self.head.is_some() || self.current.is_some() || is_next_ready || ends
    }

    /// Whether a message waits for its service.
    pub(super) fn is_in_service(&self) -> bool {
        self.entries.iter().any(|entry| !entry.0)
    }

    /// How many frames wait.
    pub(super) fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Add what is sent after the rest, when it is ready. Returns its number.
    pub(super) fn push(&mut self, is_ready: bool, answer: Answer) -> u32 {
        self.queued += answer.cost();
        self.entries.push_back((is_ready, answer));
        self.first.wrapping_add(self.entries.len() as u32 - 1)
    }

    /// As that of a connection without HTTP/2.
    pub(super) fn replaces_pong(&mut self, pong: &[u8]) -> bool {
        let is_full = self.entries.len() >= ANSWERS_WAITING;
        let Some((_, last)) = self.entries.back_mut().filter(|_| is_full) else { return false };
        let before = last.cost();
        let is_replaced = last.replaces_pong(pong);
        self.queued = self.queued - before + last.cost();
        is_replaced
    }

    /// Roughly how much memory it uses.
    pub(super) fn footprint(&self) -> usize {
        let current = self.current.as_ref().map_or(0, |(bytes, ..)| bytes.len());
        ENTRY + self.queued + current + self.socket.size() + self.stash.len()
    }

    /// The service of an entry is done.
    pub(super) fn ready(&mut self, entry: u64) {
        let place = ((entry >> 32) as u32).wrapping_sub(self.first);
        if let Some(entry) = self.entries.get_mut(place as usize) {
            entry.0 = true;
        }
    }

    /// End this side, after this frame if there is one.
    pub(super) fn end(&mut self, frame: Option<Vec<u8>>) {
        self.reads = false;
        self.ends = true;
        if let Some(held) = self.held.take() {
            self.push(true, Answer::Bytes(held.1, Counted::Message));
        }
        if let Some(frame) = frame {
            self.push(true, Answer::Bytes(frame, Counted::Nothing));
        }
    }
}
