//! One client of the responder: the parser of its messages, and its unsent replies.

use std::collections::VecDeque;

use prony_base::frame::{self, HEADER, Header, Kind, LENGTH, OPENING};
use prony_base::units::ConnId;

use super::EchoBehavior;

/// How many unread replies a client may have before it is disconnected.
const OWED_MAX: usize = 1 << 16;
/// How many places for unread replies a free slot keeps.
const KEPT: usize = 1_024;
/// How many bytes one call sends before others have their turn.
const OUTPUT: usize = 256 << 10;
/// Replies up to this many bytes are sent together.
const BATCH: usize = 64 << 10;

/// A client, or a free slot.
#[derive(Debug, Default)]
pub(super) struct Peer {
    generation: u32,
    open: bool,
    /// Whether each reply must be sent by itself.
    bounded: bool,
    state: State,
    /// The received bytes of an opening, length or header.
    head: [u8; HEADER],
    have: usize,
    /// Exchanges that are still to come, in the short framing.
    left: u64,
    owed: VecDeque<Owed>,
    /// How many bytes of the first of them are sent.
    sent: usize,
    /// Whether the client has ended its stream.
    pub(super) ended: bool,
    /// Whether the driver was asked to take output, and whether the socket is full.
    pub(super) output_requested: bool,
    pub(super) blocked: bool,
}

/// A reply that is not yet sent.
#[derive(Clone, Copy, Debug)]
enum Owed {
    /// Two bytes.
    Short,
    /// A header and `length` bytes.
    Long { length: u32, sequence: u64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The framing is not known yet.
    #[default]
    Fresh,
    /// In the opening of the short framing.
    Opening,
    /// In a length.
    Length,
    /// In a header of the long framing.
    Header,
    /// In a message with `left` bytes to come; then this reply is owed.
    Payload { left: u32, reply: Reply },
    /// All announced exchanges are complete.
    Done,
}

/// The reply to the current message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Short,
    Long { length: u32, sequence: u64 },
}

/// The result of reading some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Messages that ended with them.
    pub(super) messages: u64,
    /// The client speaks another protocol, or exceeds a limit.
    pub(super) refused: bool,
}

impl Peer {
    pub(super) fn begin(&mut self, slot: u32, bounded: bool) -> ConnId {
        let generation = self.generation.wrapping_add(1);
        let owed = std::mem::take(&mut self.owed);
        *self = Self { generation, open: true, bounded, owed, ..Self::default() };
        ConnId { slot, generation }
    }

    pub(super) fn end(&mut self) {
        self.open = false;
        self.owed.clear();
        self.owed.shrink_to(KEPT);
    }

    pub(super) fn is(&self, id: ConnId) -> bool {
        self.open && self.generation == id.generation
    }

    pub(super) fn id(&self, slot: u32) -> Option<ConnId> {
        self.open.then_some(ConnId { slot, generation: self.generation })
    }

    /// Whether it has not yet sent the complete start of its connection.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.state, State::Fresh | State::Opening)
    }

    /// Whether it is in the middle of a message.
    pub(super) fn is_inside(&self) -> bool {
        match self.state {
            State::Fresh | State::Done => false,
            State::Opening | State::Payload { .. } => true,
            // Fewer messages than announced are a normal end.
            State::Length | State::Header => self.have > 0,
        }
    }

    /// Whether all announced exchanges are complete and answered.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done && self.owed.is_empty()
    }

    /// How many replies are unread.
    pub(super) fn unread(&self) -> usize {
        self.owed.len()
    }

    /// Whether there is something to send.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Process received bytes.
    pub(super) fn take(&mut self, mut data: &[u8], limits: &EchoBehavior) -> Taken {
        let mut taken = Taken::default();
        while !taken.refused && !data.is_empty() {
            match self.state {
                State::Fresh => {
                    let long = data[0] == frame::MAGIC[0];
                    self.state = if long { State::Header } else { State::Opening };
                    // Any other first byte is another protocol.
                    taken.refused = data[0] > 1 && !long;
                }
                State::Opening => {
                    if let Some(bytes) = self.fill::<OPENING>(&mut data) {
                        self.left = frame::announced(bytes);
                        self.state = State::Length;
                    }
                }
                State::Length => {
                    if let Some(bytes) = self.fill::<LENGTH>(&mut data) {
                        let left = u32::from_be_bytes(bytes);
                        self.state = State::Payload { left, reply: Reply::Short };
                        taken.refused = left > limits.length_max;
                    }
                }
                State::Header => {
                    if let Some(bytes) = self.fill::<HEADER>(&mut data) {
                        taken.refused = !self.header(&bytes, limits);
                    }
                }
                State::Payload { left, reply } => {
                    let n = data.len().min(left as usize);
                    data = &data[n..];
                    self.state = State::Payload { left: left - n as u32, reply };
                }
                // Bytes after the last announced exchange are ignored.
                State::Done => break,
            }
            if let State::Payload { left: 0, reply } = self.state
                && !taken.refused
            {
                taken.messages += 1;
                taken.refused = self.owe(reply);
            }
        }
        taken
    }

    /// Read a header of the long framing. Returns whether it is valid.
    fn header(&mut self, bytes: &[u8], limits: &EchoBehavior) -> bool {
        let Some(Header { kind: Kind::Request { reply }, length, sequence }) = Header::read(bytes)
        else {
            return false;
        };
        let reply_is = Reply::Long { length: reply, sequence };
        self.state = State::Payload { left: length, reply: reply_is };
        length <= limits.length_max && reply <= limits.length_max
    }

    /// A complete message has arrived. Returns whether the client now has too many unread replies.
    fn owe(&mut self, reply: Reply) -> bool {
        match reply {
            Reply::Short => {
                self.owed.push_back(Owed::Short);
                self.left -= 1;
                self.state = if self.left == 0 { State::Done } else { State::Length };
            }
            Reply::Long { length, sequence } => {
                self.owed.push_back(Owed::Long { length, sequence });
                self.state = State::Header;
            }
        }
        self.owed.len() > OWED_MAX
    }

    /// Collect the next `N` bytes. Returns them once they are complete.
    fn fill<const N: usize>(&mut self, data: &mut &[u8]) -> Option<[u8; N]> {
        if self.have == 0
            && let Some((whole, rest)) = data.split_first_chunk::<N>()
        {
            *data = rest;
            return Some(*whole);
        }
        let n = data.len().min(N - self.have);
        self.head[self.have..self.have + n].copy_from_slice(&data[..n]);
        self.have += n;
        *data = &data[n..];
        if self.have < N {
            return None;
        }
        self.have = 0;
        self.head.first_chunk().copied()
    }

    /// Send the owed replies. Returns how many bytes were accepted, and whether these were all. If
    /// there are many, some are left for the next call.
    pub(super) fn send(
        &mut self,
        out: &mut Vec<u8>,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> (u64, bool) {
        if let Some(&owed) = self.owed.front()
            && self.owed.len() == 1
            && self.sent == 0
        {
            return self.send_only(owed, out, send);
        }
        let mut sum = 0;
        while let Some(&first) = self.owed.front() {
            out.clear();
            let mut ends = 0;
            for owed in &self.owed {
                if ends > 0 && (self.bounded || out.len() + owed.bytes() > BATCH) {
                    break;
                }
                owed.write(out);
                ends += 1;
            }
            let skip = self.sent;
            let taken = send(&out[skip..]);
            sum += taken as u64;
            let mut done = skip + taken;
            if done == out.len() {
                self.owed.drain(..ends);
                self.sent = 0;
                if sum >= OUTPUT as u64 {
                    return (sum, self.owed.is_empty());
                }
                continue;
            }
            let mut of = first;
            while done >= of.bytes() {
                done -= of.bytes();
                self.owed.pop_front();
                of = *self.owed.front().unwrap_or(&of);
            }
            self.sent = done;
            return (sum, false);
        }
        (sum, true)
    }
}

impl Peer {
    /// The same for a single unsent reply, the usual case in a ping-pong test.
    fn send_only(
        &mut self,
        owed: Owed,
        out: &mut Vec<u8>,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> (u64, bool) {
        out.clear();
        owed.write(out);
        let taken = send(out);
        let all = taken == out.len();
        if all {
            self.owed.clear();
        } else {
            self.sent = taken;
        }
        (taken as u64, all)
    }
}

impl Owed {
    fn bytes(self) -> usize {
        match self {
            Self::Short => frame::SHORT_REPLY as usize,
            Self::Long { length, .. } => HEADER + length as usize,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes();
        if let Self::Long { length, sequence } = self {
            let header = Header { kind: Kind::Reply, length, sequence };
            out.extend_from_slice(&header.bytes());
        }
        out.resize(end, 0);
    }
}
