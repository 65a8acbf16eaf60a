//! The sockets of one connection, each on its stream.

use crate::proto::ws::frames::State;
use crate::proto::ws::socket::Socket;
use crate::proto::ws::steps::Needs;
use prony_base::units::{Nanos, RequestId};
use prony_base::websocket::ReplyFields;

/// The most memory that a stream keeps for bytes that no window has allowed.
const REST_KEPT: usize = 16 << 10;

/// A socket on its stream.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: u32,
    pub(super) socket: Socket,
    /// The last head of its reply: the status, and what the handshake needs of the fields.
    pub(super) status: u16,
    pub(super) fields: ReplyFields,
    /// Received bytes that are the start of a frame.
    pub(super) stash: Vec<u8>,
    /// Bytes to send that no window has allowed, and the step whose message starts there.
    pub(super) rest: Vec<u8>,
    pub(super) begin: Option<(usize, RequestId)>,
    /// How this side ends, after what it has to send.
    pub(super) finish: Finish,
    /// Whether this side has ended.
    pub(super) is_finished: bool,
    /// If the peer has ended its side: what was left of the window of the stream.
    pub(super) ended: Option<i64>,
    /// Whether it is in the queue of those that have something to send.
    pub(super) is_queued: bool,
    /// Whether it is counted as one that lingers, and until when it does.
    is_counted: bool,
    pub(super) lingers_until: Option<Nanos>,
    /// Whether an alarm is set for its pings.
    pub(super) has_alarm: bool,
    /// Since when it waits for a window.
    pub(super) waits: Option<Nanos>,
}

/// How this side of a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// Not yet.
    Open,
    /// In an orderly way.
    End,
    /// By a reset.
    Reset,
}

impl Line {
    pub(super) fn new(stream: u32, socket: Socket) -> Self {
        Self {
            stream,
            socket,
            status: 0,
            fields: ReplyFields::default(),
            stash: Vec::new(),
            rest: Vec::new(),
            begin: None,
            finish: Finish::Open,
            is_finished: false,
            ended: None,
            is_queued: false,
            is_counted: false,
            lingers_until: None,
            has_alarm: false,
            waits: None,
        }
    }

    /// Start with this socket, with the memory of the one before.
    pub(super) fn start(&mut self, stream: u32, socket: Socket) {
        let (mut stash, mut rest) =
            (std::mem::take(&mut self.stash), std::mem::take(&mut self.rest));
        stash.clear();
        rest.clear();
        *self = Self { stash, rest, ..Self::new(stream, socket) };
    }

    /// Whether the last head opens the socket.
    pub(super) fn is_accepted(&self) -> bool {
        (200..=299).contains(&self.status)
    }

    /// Whether this side ends as soon as everything is sent.
    pub(super) fn is_about_to_finish(&self) -> bool {
        self.finish != Finish::Open && !self.is_finished
    }

    /// The step whose message starts in the next `most` bytes of those that no window has allowed.
    pub(super) fn take_begin(&mut self, most: usize) -> Option<RequestId> {
        let n = self.rest.len().min(most);
        match &mut self.begin {
            Some((at, _)) if *at >= n => {
                *at -= n;
                None
            }
            begin => begin.take().map(|(_, id)| id),
        }
    }

    /// Take up to `most` of the bytes that no window has allowed.
    pub(super) fn take_rest(&mut self, most: usize, out: &mut Vec<u8>) {
        let n = self.rest.len().min(most);
        out.extend_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        if self.rest.is_empty() && self.rest.capacity() > REST_KEPT {
            self.rest = Vec::new();
        }
    }

    /// Whether the message of its step is completely sent, if it has one.
    pub(super) fn has_sent(&self) -> bool {
        let needs = self.socket.needs();
        self.rest.is_empty() || !matches!(needs, Some(Needs::Send | Needs::SendAndMessage))
    }

    /// End this side by a reset, after a close frame if `says_why` and that is possible.
    pub(super) fn abandon(&mut self, says_why: bool) {
        let state = &mut self.socket.frames.state;
        // A close frame cannot be inside of another one.
        let can_close = says_why && *state == State::Open && self.rest.is_empty();
        *state = if can_close { State::Ended } else { State::Over };
        self.finish = Finish::Reset;
        self.rest.clear();
        self.begin = None;
    }

    /// Whether no exchange uses it, while its stream counts for the peer.
    fn lingers(&self) -> bool {
        self.socket.name.is_none() && self.ended.is_none()
    }
}

/// All sockets of a connection.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// In the order of their streams, which rises.
    #[expect(clippy::vec_box, reason = "they move between here and the spare ones as they are")]
    all: Vec<Box<Line>>,
    /// How many linger.
    lingering: u32,
}

impl Lines {
    /// How many streams are open whose exchanges have ended.
    pub(super) fn lingering(&self) -> u32 {
        self.lingering
    }

    pub(super) fn push(&mut self, line: Box<Line>) {
        self.all.push(line);
    }

    fn find(&self, stream: u32) -> Option<usize> {
        self.all.binary_search_by_key(&stream, |line| line.stream).ok()
    }

    pub(super) fn get(&self, stream: u32) -> Option<&Line> {
        self.find(stream).map(|place| &*self.all[place])
    }

    pub(super) fn get_mut(&mut self, stream: u32) -> Option<&mut Line> {
        self.find(stream).map(|place| &mut *self.all[place])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Line> {
        self.all.iter().map(|line| &**line)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        self.all.iter_mut().map(|line| &mut **line)
    }

    /// Note whether the line lingers now, until the given time. Returns whether that is new.
    pub(super) fn note(&mut self, stream: u32, until: Nanos) -> bool {
        let Some(place) = self.find(stream) else { return false };
        let line = &mut self.all[place];
        let lingers = line.lingers();
        let was = std::mem::replace(&mut line.is_counted, lingers);
        self.lingering = self.lingering + u32::from(lingers) - u32::from(was);
        let is_new = lingers && !was;
        if is_new {
            line.lingers_until = Some(until);
        }
        is_new
    }

    pub(super) fn remove(&mut self, stream: u32) -> Option<Box<Line>> {
        let line = self.all.remove(self.find(stream)?);
        self.lingering -= u32::from(line.is_counted);
        Some(line)
    }
}
