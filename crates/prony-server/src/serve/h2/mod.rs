//! HTTP/2 (RFC 9113). A connection has a [`Session`]: its streams are served like the requests of
//! HTTP/1.1, but their replies are sent as they become ready, in turn.

mod calls;
mod calm;
mod control;
mod events;
mod fields;
mod input;
mod output;
mod socket;
mod sockets;
mod streams;

use std::cmp::Reverse;
use std::collections::VecDeque;

use prony_base::http2::frame::{Code, Settings};
use prony_base::http2::hpack::Decoder;
use prony_base::http2::{PREFACE, STREAM_MAX, WINDOW, WINDOW_MAX};
use prony_base::units::{ConnId, Nanos, Span};

use super::Serve;
use super::cast::Cast;
use super::events::Events;
use super::grpc::CallHead;
use super::request::Head;
use calm::Calm;
use streams::{Progress, Recent, Stream, Streams};

pub(super) use calls::CallBlocks;
pub(super) use output::HeadCache;

/// What a connection may receive at once, in bytes, unless a stream may receive more.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How long a client may take to acknowledge the server's settings after they were sent.
const ACKNOWLEDGED_AFTER: Span = Span::from_secs(10);

/// After how many bytes a connection's use of memory is measured again.
const MEASURED: usize = 32 << 10;

/// The data of the PING between the two GOAWAY frames of `goaway_after`.
const GOAWAY_PING: [u8; 8] = *b"prony ga";

/// What happens to a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// `settings_delay` is over.
    Release,
    /// The settings must be acknowledged.
    Acknowledge,
}

/// Whether a connection speaks HTTP/2, from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// They are its preface.
    Http2,
    /// They may be the start of it.
    Unknown,
    /// They are not.
    Http1,
}

impl Opening {
    pub(super) fn of(data: &[u8]) -> Self {
        let n = data.len().min(PREFACE.len());
        match data[..n] == PREFACE[..n] {
            false => Self::Http1,
            true if n < PREFACE.len() => Self::Unknown,
            true => Self::Http2,
        }
    }
}

/// The HTTP/2 side of a connection.
#[derive(Debug)]
pub(super) struct Session {
    decoder: Decoder,
    /// Whether the client's first SETTINGS came, and what its settings are.
    has_settings: bool,
    peer: Settings,
    /// Whether the client has acknowledged ours. Until then, it may use the default window.
    is_acknowledged: bool,
    window: u32,
    /// The header block that is incomplete.
    block: Block,
    /// The latest request, and the block that it came from.
    memo: Memo,
    streams: Streams,
    recent: Recent,
    /// Streams that were accepted.
    accepted: u64,
    /// Later streams are ignored: the client knows from a GOAWAY, or never learns.
    accepts_to: u32,
    /// What the client may still be sent on all streams, in bytes.
    send_window: i64,
    /// What the client may still send, and what of it is used but not given back.
    recv_window: i64,
    recv_used: u32,
    /// The streams that have something to send, and those that wait for the connection's window.
    ready: VecDeque<u32>,
    starved: VecDeque<u32>,
    /// The calls of gRPC whose service or pause is over, or whose message is sent.
    resumed: Vec<u32>,
    /// Messages of gRPC that were sent and are not counted yet.
    messages_sent: u64,
    /// Events that were written and are not counted yet.
    events_sent: u64,
    /// The streams whose next event gets a timer again: the number of the request and the event,
    /// and when the event before it was due.
    unparked: Vec<(u32, (u64, u64), Nanos)>,
    /// How many connections of WebSocket get no pushed messages until the client reads.
    pub(super) parked_sockets: usize,
    /// Whether messages to all others have to wait, and the streams whose messages do.
    holds_casts: bool,
    cast_lines: Vec<u32>,
    /// How many bytes were compressed since that was last looked at.
    worked: usize,
    /// How many bytes were received, sent and made since its use of memory was last measured.
    pub(super) moved: usize,
    /// Messages of WebSocket that are to be sent to all others.
    casts: Vec<Cast>,
    owed: Owed,
    calm: Calm,
    /// Whether nothing may be sent yet (`settings_delay`).
    is_held: bool,
    /// Whether the connection is closed when its last stream is done.
    is_leaving: bool,
    /// Whether no GOAWAY announces that.
    is_silent: bool,
    /// Whether the client has broken the rules: only a GOAWAY is still sent.
    has_failed: bool,
    /// Whether its windows let through only tiny pieces, too often.
    dribbles: bool,
    /// Whether the PING of `goaway_after` is not answered yet.
    awaits_ping: bool,
    /// Whether everything is sent, and the connection lingers.
    pub(super) has_ended: bool,
    /// Whether it is in the list of those that send when the freeze is over.
    pub(super) waits_for_thaw: bool,
}

/// A header block that is incomplete; `stream` is 0 if there is none.
#[derive(Debug, Default)]
struct Block {
    stream: u32,
    flags: u8,
    depends_on_itself: bool,
    bytes: Vec<u8>,
    frames: u32,
}

/// An equal block, decoded in the same state, has the same fields.
#[derive(Debug, Default)]
struct Memo {
    block: Vec<u8>,
    state: u64,
    has_body: bool,
    request: Option<(Head, Option<u64>)>,
    call: Option<Box<CallHead>>,
}

/// Frames that are to be sent as soon as possible.
#[derive(Debug, Default)]
struct Owed {
    settings: bool,
    acknowledgements: u32,
    pings: Vec<[u8; 8]>,
    /// The PING of `goaway_after`.
    goaway_ping: bool,
    resets: Vec<(u32, Code)>,
    /// WINDOW_UPDATE of the connection, and of streams.
    window: bool,
    windows: Vec<u32>,
    goaways: Vec<(u32, Code, &'static str)>,
}

impl Owed {
    fn is_empty(&self) -> bool {
        !(self.settings || self.window || self.goaway_ping)
            && self.acknowledgements == 0
            && self.pings.is_empty()
            && self.resets.is_empty()
            && self.windows.is_empty()
            && self.goaways.is_empty()
    }
}

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Violation {
    /// The connection is closed.
    Connection(Code, &'static str),
    /// The stream is reset.
    Stream(u32, Code),
}

impl Session {
    fn new(window: u32, is_held: bool, now: Nanos) -> Self {
        Self {
            decoder: Decoder::default(),
            has_settings: false,
            peer: Settings::default(),
            is_acknowledged: false,
            window,
            block: Block::default(),
            memo: Memo::default(),
            streams: Streams::default(),
            recent: Recent::default(),
            accepted: 0,
            accepts_to: STREAM_MAX,
            send_window: i64::from(WINDOW),
            recv_window: i64::from(WINDOW),
            recv_used: window.max(CONNECTION_WINDOW) - WINDOW,
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            resumed: Vec::new(),
            messages_sent: 0,
            events_sent: 0,
            unparked: Vec::new(),
            parked_sockets: 0,
            holds_casts: false,
            cast_lines: Vec::new(),
            worked: 0,
            moved: 0,
            casts: Vec::new(),
            owed: Owed { settings: true, window: true, ..Owed::default() },
            calm: Calm::new(now),
            is_held,
            is_leaving: false,
            is_silent: false,
            has_failed: false,
            dribbles: false,
            awaits_ping: false,
            has_ended: false,
            waits_for_thaw: false,
        }
    }

    /// Whether there is something to send or to finish.
    pub(super) fn wants_send(&self) -> bool {
        !self.is_held
            && !self.has_ended
            && (!self.owed.is_empty() || !self.ready.is_empty() || self.is_over())
    }

    /// Whether the connection has failed, and the client does not know why yet.
    pub(super) fn owes_reason(&self) -> bool {
        self.has_failed && !self.owed.goaways.is_empty()
    }

    /// The bytes that its streams use; `None` if too little has happened to look at all of them.
    pub(super) fn footprint(&mut self) -> Option<usize> {
        if self.moved < MEASURED + 16 * self.streams.len() {
            return None;
        }
        self.moved = 0;
        Some(self.block.bytes.len() + self.streams.iter().map(Stream::footprint).sum::<usize>())
    }

    /// Whether no stream is open, and no header block incomplete.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.block.stream == 0
    }

    /// Whether the stream of this entry is open. Those of WebSocket have several entries.
    pub(super) fn has_stream(&self, entry: u64) -> bool {
        self.streams.contains(entry as u32)
    }

    /// The requests that are incomplete.
    pub(super) fn incomplete(&self) -> u64 {
        let open = self.streams.iter().filter(|stream| stream.incoming.is_some()).count();
        open as u64 + u64::from(self.block.stream != 0)
    }

    /// Whether all that is left are bodies that wait for windows, and incomplete requests.
    pub(super) fn is_starved(&self) -> bool {
        let mut replies = self.streams.iter().map(|stream| &stream.reply);
        let waits = |reply: &Progress| match reply {
            Progress::None | Progress::Body(_) => true,
            Progress::InService(_) | Progress::Ready(_) => false,
            Progress::Events(events) => events.has_more(),
            Progress::Call(call) => !call.is_waiting,
            Progress::Socket(socket) => !socket.is_in_service(),
        };
        self.ready.is_empty() && self.owed.is_empty() && replies.all(waits)
    }

    /// Whether the connection is to be closed now.
    fn is_over(&self) -> bool {
        self.has_failed || (self.is_leaving && self.streams.is_empty())
    }

    /// Announce that no further streams are accepted, and close the connection after the last one.
    pub(super) fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.accepts_to = self.accepts_to.min(self.recent.last());
            self.owed.goaways.push((self.accepts_to, Code::NO_ERROR, ""));
        }
    }

    /// Close the connection after the last stream, without an announcement.
    fn leave_silently(&mut self) {
        if !self.is_leaving {
            (self.is_leaving, self.is_silent) = (true, true);
            self.accepts_to = self.accepts_to.min(self.recent.last());
        }
    }

    /// A request's service is done: its reply can be sent.
    pub(super) fn ready(&mut self, entry: u64) {
        let id = entry as u32;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if let Progress::Socket(socket) = &mut stream.reply {
            socket.ready(entry);
            return self.queue(id);
        }
        if matches!(stream.reply, Progress::Call(_)) {
            return self.resumed.push(id);
        }
        if matches!(stream.reply, Progress::Events(_)) {
            return self.queue(id);
        }
        stream.reply = match std::mem::replace(&mut stream.reply, Progress::None) {
            Progress::InService(answer) => Progress::Ready(answer),
            other => other,
        };
        self.queue(id);
    }

    /// The events of a stream.
    pub(super) fn events(&mut self, id: u64) -> Option<&mut Events> {
        let stream = self.streams.get_mut(u32::try_from(id).ok()?)?;
        if let Progress::Events(events) = &mut stream.reply { Some(events) } else { None }
    }

    /// Let a stream send in turn.
    fn queue(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id)
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Let the streams that wait for the connection's window send in turn.
    fn feed_starved(&mut self) {
        if self.send_window > 0 {
            self.ready.append(&mut self.starved);
        }
    }

    /// Send nothing more but a GOAWAY.
    fn fail(&mut self, code: Code, why: &'static str) {
        self.streams = Streams::default();
        self.block = Block::default();
        (self.ready, self.starved) = (VecDeque::new(), VecDeque::new());
        self.resumed = Vec::new();
        let settings = self.owed.settings;
        let last = self.recent.last().min(self.accepts_to);
        let goaways = vec![(last, code, why)];
        self.owed = Owed { settings, goaways, ..Owed::default() };
        (self.has_failed, self.is_held) = (true, false);
        // Measure at once.
        self.moved = usize::MAX / 2;
    }

    /// Take one from the allowance for frames that do nothing useful.
    fn calm(&mut self, now: Nanos) -> Result<(), Violation> {
        match self.calm.take(now) {
            true => Ok(()),
            false => Err(Violation::Connection(Code::ENHANCE_YOUR_CALM, "too many useless frames")),
        }
    }

    /// Apply the client's settings.
    fn apply(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let window = self.peer.window;
        let applied = self.peer.apply(payload, |_, _| {});
        applied.map_err(|code| Violation::Connection(code, "malformed SETTINGS"))?;
        let more = i64::from(self.peer.window) - i64::from(window);
        if more != 0 {
            let mut queued = Vec::new();
            for stream in self.streams.iter_mut() {
                stream.send_window += more;
                if stream.send_window > i64::from(WINDOW_MAX) {
                    let why = "a window over 2^31-1";
                    return Err(Violation::Connection(Code::FLOW_CONTROL_ERROR, why));
                }
                if stream.waits_for_window() {
                    queued.push(stream.id);
                }
            }
            queued.into_iter().for_each(|id| self.queue(id));
        }
        self.has_settings = true;
        self.owed.acknowledgements += 1;
        Ok(())
    }

    /// The client has acknowledged our settings: their window holds.
    fn acknowledged(&mut self) {
        if !std::mem::replace(&mut self.is_acknowledged, true) {
            let more = i64::from(self.window) - i64::from(WINDOW);
            self.streams.iter_mut().for_each(|stream| stream.recv_window += more);
        }
    }
}

impl Serve {
    /// A client has sent the preface of HTTP/2.
    pub(super) fn start_h2(&mut self, id: ConnId, now: Nanos) {
        let delay = self.behavior.settings_delay;
        let session = Session::new(self.behavior.window, delay.is_some(), now);
        self.conns[id.slot as usize].h2 = Some(Box::new(session));
        self.served.h2_connections += 1;
        if let Some(delay) = delay {
            self.alarms.push(Reverse((now + delay, id, Alarm::Release)));
        }
    }

    /// Let the connections send for which `settings_delay` is over, and close those that have not
    /// acknowledged the settings.
    pub(super) fn sound_alarms(&mut self, now: Nanos) {
        while self.held.is_none()
            && let Some(&Reverse((at, id, alarm))) = self.alarms.peek()
            && at <= now
        {
            self.alarms.pop();
            let Some(session) = self.conn(id).and_then(|c| c.h2.as_deref_mut()) else { continue };
            match alarm {
                Alarm::Release => session.is_held = false,
                Alarm::Acknowledge if session.is_acknowledged || session.has_failed => continue,
                Alarm::Acknowledge => {
                    self.violation(id, Code::SETTINGS_TIMEOUT, "SETTINGS are not acknowledged")
                }
            }
            self.request_transmit(id);
        }
    }

    /// The connection uses too much memory: send nothing more but the reason.
    pub(super) fn calm_down(&mut self, id: ConnId) {
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        if let Some(session) = c.h2.as_deref_mut() {
            self.served.cut_requests += session.incomplete();
            session.fail(Code::ENHANCE_YOUR_CALM, "too much is unread, or too large");
        }
    }

    /// The client has broken the rules: close its connection.
    fn violation(&mut self, id: ConnId, code: Code, why: &'static str) {
        self.served.violations += 1;
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        if let Some(session) = c.h2.as_deref_mut() {
            self.served.cut_requests += session.incomplete();
            session.fail(code, why);
        }
    }

    /// Let the connections send that had something to send during a freeze.
    pub(super) fn thaw(&mut self) {
        while let Some(id) = self.frozen.pop() {
            if let Some(session) = self.conn(id).and_then(|c| c.h2.as_deref_mut()) {
                session.waits_for_thaw = false;
                self.request_transmit(id);
            }
        }
    }

    /// Close a connection of HTTP/2 in an orderly way, after the open streams. Returns whether it
    /// is one.
    pub(super) fn leave(&mut self, id: ConnId, now: Nanos) -> bool {
        let Some(session) = self.conn(id).and_then(|c| c.h2.as_deref_mut()) else {
            return self.leave_socket(id, now);
        };
        session.leave();
        session.stop_calls();
        session.stop_sockets();
        self.resume_calls(id, now);
        self.request_transmit(id);
        true
    }
}
