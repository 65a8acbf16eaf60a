//! WebSocket over HTTP/2 (RFC 8441): each exchange is a stream, which extended CONNECT opens.

mod line;
#[cfg(test)]
mod tests;
mod watch;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::socket::Step;
use super::talk::{Talk, handshakes};
use crate::fault::Fault;
use crate::http2::frame::{HEADER, kind};
use crate::plan::Plan;
use crate::proto::h2::{self, H2};
use crate::proto::{Call, Cancelled, Carrier, Out, OverStreams, Reply, Sink, StreamCounts};
use crate::script::Filled;
use crate::units::{Nanos, RequestId, Span};
use crate::websocket::CloseCode;
pub(super) use line::Finish;
use line::{Line, Lines};
use watch::{Found, Watch};

/// How long a stream waits for its peer to end it after its exchange has ended. Then it is reset.
pub(super) const LINGER: Span = Span::from_secs(1);
/// The most bytes of a close frame that prony sends.
pub(super) const CLOSE_MAX: usize = 8;

/// The part of a carrier that is for connections with HTTP/2.
#[derive(Debug)]
pub struct OverH2 {
    h2: H2,
    talk: Talk,
    /// A handshake without its message.
    head: Filled,
    /// For the slot of each exchange: its generation, and its stream.
    places: Vec<(u32, u32)>,
    /// Lines that are not used.
    #[expect(clippy::vec_box, reason = "they move between here and connections as they are")]
    spare: Vec<Box<Line>>,
    /// The time of the last turn.
    now: Nanos,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    h2: h2::Conn,
    /// Whether the peer has allowed extended CONNECT.
    is_allowed: bool,
    lines: Lines,
    /// The streams that have something to send, in turn.
    queue: VecDeque<u32>,
    /// Whether some of these may have become able to send.
    may_send: bool,
    /// When streams have a ping to send, or have lingered.
    alarms: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Conn {
    /// Let a stream send in turn.
    fn queue(&mut self, stream: u32) {
        let Some(line) = self.lines.get_mut(stream) else { return };
        if !std::mem::replace(&mut line.is_queued, true) {
            self.queue.push_back(stream);
        }
        self.may_send = true;
    }
}

impl OverH2 {
    pub(super) fn new(plan: &Plan) -> Self {
        let spec = plan.websocket.as_deref().cloned().unwrap_or_default();
        Self {
            h2: H2::new(&handshakes(plan, &spec, ("CONNECT", &[]))),
            talk: Talk::new(plan, &spec),
            head: Filled::default(),
            places: Vec::new(),
            spare: Vec::new(),
            now: Nanos::ZERO,
        }
    }

    /// The stream of an exchange that was submitted.
    fn stream(&self, id: RequestId) -> Option<u32> {
        let place = self.places.get(id.slot as usize).filter(|place| place.0 == id.generation);
        place.map(|place| place.1)
    }

    /// The line of an exchange that has not ended.
    fn line<'c>(&self, conn: &'c mut Conn, id: RequestId) -> Option<&'c mut Line> {
        let stream = self.stream(id)?;
        conn.lines.get_mut(stream).filter(|line| line.socket.id == id && line.is_live)
    }

    /// Append the next frame of a stream.
    fn write(&mut self, conn: &mut Conn, stream: u32, now: Nanos, out: &mut Out) -> Wrote {
        let Some(line) = conn.lines.get_mut(stream) else { return Wrote::All };
        let window = line.ended.or_else(|| conn.h2.window_of(stream)).unwrap_or(0);
        let room = conn.h2.room(window);
        let at = out.len();
        out.bytes().extend_from_slice(&[0; HEADER]);
        let start = out.len();
        line.take_rest(room, out.bytes());
        while out.len() - start < room {
            if !self.talk.write_next(&mut line.socket, now, out) {
                if line.socket.step != Step::Ended {
                    break;
                }
                self.talk.write_close(&mut line.socket, out.bytes());
            }
        }
        let end = out.len().min(start + room);
        line.rest.extend_from_slice(&out.bytes()[end..]);
        out.bytes().truncate(end);
        let has_more = !line.rest.is_empty()
            || self.talk.owes(&line.socket)
            || line.socket.step == Step::Ended;
        let ends = line.finish == Finish::End && !line.is_finished && !has_more;
        line.is_finished |= ends;
        let length = end - start;
        if let Some(left) = &mut line.ended {
            *left -= length as i64;
        }
        match line.waits.take_if(|_| length > 0) {
            Some(since) if line.is_live => out.waited_for_window(line.socket.id, now.since(since)),
            _ => {}
        }
        if has_more && length == 0 {
            line.waits.get_or_insert(now);
        }
        line.is_queued = has_more;
        let resets = line.finish == Finish::Reset && (length == 0 || !has_more);
        let is_over = resets || (line.is_finished && line.ended.is_some());
        match length > 0 || ends {
            true => conn.h2.end_data(stream, at, ends, out.bytes()),
            false => out.bytes().truncate(at),
        }
        if resets {
            self.h2.reset_tunnel(&mut conn.h2, stream, out);
        }
        if is_over {
            self.spare.extend(conn.lines.remove(stream));
            return Wrote::All;
        }
        match (has_more, length > 0) {
            (false, _) => Wrote::All,
            (true, true) => Wrote::Some,
            (true, false) => Wrote::Nothing,
        }
    }

    /// Bytes of one frame on this stream. Returns how many were used.
    fn frame(
        &mut self,
        conn: &mut Conn,
        (stream, kind): (u32, u8),
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let (window, lingering) = (conn.h2.window_of(stream), conn.lines.lingering());
        let line = conn.lines.get_mut(stream);
        let has_line = line.is_some();
        let (found, reply) = (None, None);
        let talk = &self.talk;
        let mut watch = Watch { sink: &mut *sink, line, talk, now, lingering, found, reply };
        let used = self.h2.receive(&mut conn.h2, data, now, &mut watch)?;
        let (found, reply) = (watch.found, watch.reply);
        if kind == kind::SETTINGS {
            conn.h2.check_tunnels(&mut conn.is_allowed)?;
        }
        if kind == kind::GOAWAY {
            self.forget_refused(conn);
        }
        if has_line {
            if let Some(found) = found {
                let reply = reply.or_else(|| conn.h2.reply_so_far(stream));
                self.end_exchange(conn, stream, found, reply.as_ref(), sink);
            }
            // A reset ends both sides.
            let resets = kind == kind::RST_STREAM && used == data.len();
            self.settle(conn, stream, (reply.is_some(), resets), window);
            if conn.h2.was_cancelled_often() {
                sink.draining();
            }
        }
        Ok(used)
    }

    /// The exchange on a stream has ended.
    fn end_exchange(
        &mut self,
        conn: &mut Conn,
        stream: u32,
        found: Found,
        reply: Option<&Reply>,
        sink: &mut impl Sink,
    ) {
        let Some(line) = conn.lines.get_mut(stream) else { return };
        line.is_live = false;
        match (found, reply) {
            (Found::Closed(code), Some(reply)) => {
                // If this side has closed first, the peer's side ends first.
                if line.socket.step == Step::Ended {
                    line.finish = Finish::End;
                }
                sink.done(line.socket.id, &line.socket.reply(code, reply));
            }
            (Found::Closed(_), None) => sink.failed(line.socket.id, Fault::StreamReset),
            (Found::Fault(fault), _) => {
                line.abandon(conn.h2.has_stream(stream));
                sink.failed(line.socket.id, fault);
            }
        }
    }

    /// Do what follows from a frame on a stream. `has_ended`: the peer has ended its side, which
    /// had this window. `resets`: the frame was a reset.
    fn settle(
        &mut self,
        conn: &mut Conn,
        stream: u32,
        (has_ended, resets): (bool, bool),
        window: Option<i64>,
    ) {
        let Some(line) = conn.lines.get_mut(stream) else { return };
        if has_ended {
            line.ended = Some(window.unwrap_or(0));
            // After a refusal, the peer expects no more of the stream.
            line.finish = if line.is_accepted() { Finish::End } else { Finish::Reset };
        }
        let is_over = line.ended.is_some() && line.is_finished;
        if resets || is_over || (line.ended.is_none() && !conn.h2.has_stream(stream)) {
            self.spare.extend(conn.lines.remove(stream));
            return;
        }
        let owes = line.is_about_to_finish()
            || line.socket.step == Step::Ended
            || self.talk.owes(&line.socket);
        if let Some(pings) = line.socket.pings.as_deref()
            && !std::mem::replace(&mut line.has_alarm, true)
        {
            conn.alarms.push(Reverse((pings.next(), stream)));
        }
        if owes {
            conn.queue(stream);
        }
        self.note(conn, stream);
    }

    /// A stream may linger from now on.
    fn note(&self, conn: &mut Conn, stream: u32) {
        let until = self.now + LINGER;
        if conn.lines.note(stream, until) {
            conn.alarms.push(Reverse((until, stream)));
        }
    }

    /// Forget the streams that a GOAWAY has refused.
    fn forget_refused(&mut self, conn: &mut Conn) {
        let h2 = &conn.h2;
        let is_refused = |line: &&Line| line.ended.is_none() && !h2.has_stream(line.stream);
        let refused: Vec<u32> = conn.lines.iter().filter(is_refused).map(|l| l.stream).collect();
        for stream in refused {
            self.spare.extend(conn.lines.remove(stream));
        }
    }
}

impl Carrier for OverH2 {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    /// A stream counts for the peer until both sides have ended it, and for the plan until its
    /// exchange has ended.
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        let open = in_flight + conn.lines.lingering();
        self.h2.capacity(&conn.h2, open, u32::MAX).min(limit.saturating_sub(in_flight))
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
        self.h2.is_limited_by_peer(&conn.h2, limit)
    }

    fn submit(&mut self, conn: &mut Conn, id: RequestId, call: Call<'_>, _: bool, out: &mut Out) {
        let socket = self.talk.begin(id, &call);
        let filled = match call.filled {
            None => None,
            Some(filled) => {
                self.head.copy_without_body(filled);
                Some(&self.head)
            }
        };
        let stream = self.h2.open_tunnel(&mut conn.h2, id, Call { filled, ..call }, out);
        let mut line = self.spare.pop().unwrap_or_default();
        line.start(stream, socket);
        conn.lines.push(line);
        let slot = id.slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, (0, 0));
        }
        self.places[slot] = (id.generation, stream);
    }

    fn owes(&self, conn: &Conn) -> bool {
        self.h2.owes(&conn.h2) || (conn.may_send && !conn.queue.is_empty())
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        self.now = now;
        self.h2.transmit(&mut conn.h2, now, out);
        conn.may_send = false;
        // One frame of each in turn, until no window allows more.
        let mut blocked = 0;
        while blocked < conn.queue.len()
            && let Some(stream) = conn.queue.pop_front()
        {
            match self.write(conn, stream, now, out) {
                Wrote::All => {}
                Wrote::Some => {
                    conn.queue.push_back(stream);
                    blocked = 0;
                }
                Wrote::Nothing => {
                    conn.queue.push_back(stream);
                    blocked += 1;
                }
            }
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        self.now = now;
        let mut at = 0;
        // One frame after the other, so that what follows one is done before the next.
        while at < data.len() {
            let (stream, length, kind) = conn.h2.next_frame(&data[at..]);
            let used = self.frame(conn, (stream, kind), &data[at..at + length], now, sink)?;
            at += used;
            if used < length {
                break;
            }
        }
        conn.may_send |= !conn.queue.is_empty();
        Ok(at)
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        self.h2.end(&mut conn.h2, left, sink)
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        if conn.h2.was_cancelled_often() {
            return Cancelled::Connection;
        }
        let Some(line) = self.line(conn, id) else { return Cancelled::Exchange };
        line.is_live = false;
        line.abandon(true);
        let stream = line.stream;
        self.h2.count_cancelled();
        self.note(conn, stream);
        conn.queue(stream);
        Cancelled::Exchange
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        let line = conn.lines.get(self.stream(id)?)?;
        line.waits.filter(|_| line.socket.id == id)
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        let Some(line) = self.line(conn, id) else { return };
        let (stream, step) = (line.stream, line.socket.step);
        if step == Step::Handshake {
            self.h2.stop(&mut conn.h2, id, sink);
            if !conn.h2.has_stream(stream) {
                self.spare.extend(conn.lines.remove(stream));
            }
        } else if step == Step::Open
            && let Some(head) = conn.h2.reply_so_far(stream)
            && let Some(line) = conn.lines.get_mut(stream)
        {
            line.is_live = false;
            line.socket.step = Step::Ended;
            line.socket.last_words = CloseCode::NORMAL;
            sink.done(id, &line.socket.reply(CloseCode::NORMAL, &head));
            self.note(conn, stream);
            conn.queue(stream);
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        let Some(line) = self.line(conn, id) else { return };
        line.socket.due(n, ends);
        let stream = line.stream;
        if line.socket.step == Step::Open {
            conn.queue(stream);
        }
    }

    fn messages_due(&mut self, conn: &mut Conn, id: RequestId, times: &[Nanos]) {
        if let Some(part) = self.line(conn, id).and_then(|line| line.socket.part.as_deref_mut()) {
            part.due(times);
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let alarm = conn.alarms.peek().map(|Reverse((at, _))| *at);
        self.h2.deadline(&conn.h2).into_iter().chain(alarm).min()
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        while let Some(&Reverse((at, stream))) = conn.alarms.peek()
            && at <= now
        {
            conn.alarms.pop();
            let Some(line) = conn.lines.get_mut(stream) else { continue };
            if line.is_live {
                let Some(pings) = line.socket.pings.as_deref_mut() else { continue };
                pings.advance(now);
                conn.alarms.push(Reverse((pings.next(), stream)));
            } else if line.lingers_until.is_some_and(|until| until <= now) {
                line.abandon(false);
            } else {
                continue;
            }
            conn.queue(stream);
        }
        match self.h2.deadline(&conn.h2) {
            Some(at) if at <= now => self.h2.on_deadline(&mut conn.h2, now),
            _ => Ok(()),
        }
    }

    /// Append the close frames that are owed, as far as windows allow them, and the last frame.
    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        let Conn { h2, lines, .. } = conn;
        for line in lines.iter_mut().filter(|line| line.rest.is_empty()) {
            let window = line.ended.or_else(|| h2.window_of(line.stream)).unwrap_or(0);
            let has_room = !h2.has_failed() && h2.room(window) >= CLOSE_MAX;
            if !has_room || !matches!(line.socket.step, Step::Open | Step::Ended) {
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; HEADER]);
            self.talk.write_close(&mut line.socket, out);
            h2.end_data(line.stream, at, true, out);
        }
        self.h2.close(&mut conn.h2, out);
    }

    /// A client sends no handshake before it knows the peer's settings (RFC 8441, 3).
    fn opens(&self) -> bool {
        true
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        conn.is_allowed
    }

    fn boundary(&self, conn: &Conn, bytes: &[u8], at: usize) -> usize {
        self.h2.boundary(&conn.h2, bytes, at)
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.counts()
    }
}

impl OverStreams for OverH2 {
    fn negotiated(&mut self, is_h2: bool) {
        self.h2.negotiated(is_h2);
    }

    fn first_streams(&self) -> u32 {
        self.h2.first_streams()
    }
}

/// What was written of what a stream has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    All,
    Some,
    /// It waits for a window.
    Nothing,
}
