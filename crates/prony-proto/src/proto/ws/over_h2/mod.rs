//! Sockets over HTTP/2 (RFC 8441): streams, which extended CONNECT opens, next to those of
//! requests.

mod conn;
mod line;
#[cfg(test)]
mod tests;
mod watch;

use std::cmp::Reverse;

use super::frames::State;
use super::script::{Script, handshakes};
use super::socket::Current;
use super::steps::Needs;
use crate::proto::h2::H2;
use crate::proto::{Call, Cancelled, Carrier, Out, Sink, StreamCounts};
pub(in crate::proto) use conn::Conn;
use line::{Finish, Line};
use prony_base::fault::Fault;
use prony_base::http2::frame::{HEADER, kind};
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::Plan;
use prony_plan::script::Filled;
use watch::{Found, Watch};

/// How long a stream waits for its peer to end it after the last exchange on it has ended. Then it
/// is reset.
const LINGER: Span = Span::from_secs(1);
/// The most bytes of a close frame that prony sends.
const CLOSE_MAX: usize = 8;

/// The part of a carrier that is for connections with HTTP/2.
#[derive(Debug)]
pub struct OverH2 {
    pub(in crate::proto) h2: H2,
    script: Script,
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

impl OverH2 {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        Self {
            h2: H2::new(&handshakes(plan, "CONNECT", &[])),
            script: Script::new(plan, true),
            head: Filled::default(),
            places: Vec::new(),
            spare: Vec::new(),
            now: Nanos::ZERO,
        }
    }

    /// The line of an exchange that has not ended.
    fn line<'c>(&self, conn: &'c mut Conn, id: RequestId) -> Option<&'c mut Line> {
        conn.lines.get_mut(self.stream(id)?).filter(|line| line.socket.exchange() == Some(id))
    }

    /// The stream of an exchange on a socket.
    fn stream(&self, id: RequestId) -> Option<u32> {
        let place = self.places.get(id.slot as usize).filter(|place| place.0 == id.generation);
        place.map(|place| place.1)
    }

    /// Note the stream of an exchange on a socket.
    fn is_on(&mut self, id: RequestId, stream: u32) {
        let slot = id.slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, (0, 0));
        }
        self.places[slot] = (id.generation, stream);
    }

    /// Send the handshake of a socket.
    fn open(&mut self, conn: &mut Conn, id: RequestId, call: Call<'_>, out: &mut Out) {
        let socket = self.script.begin(id, &call);
        conn.take_closed(self.script.name(call.index));
        let filled = call.filled.map(|filled| {
            self.head.copy_without_body(filled);
            &self.head
        });
        let stream = self.h2.open_tunnel(&mut conn.h2, id, Call { filled, ..call }, out);
        let line = match self.spare.pop() {
            None => Box::new(Line::new(stream, socket)),
            Some(mut line) => {
                line.start(stream, socket);
                line
            }
        };
        conn.lines.push(line);
        self.is_on(id, stream);
    }

    /// Make a step on the socket of its name.
    fn make(&mut self, conn: &mut Conn, id: RequestId, call: &Call<'_>) {
        let name = self.script.name(call.index);
        let closed = conn.take_closed(name);
        let Some(line) = conn.lines.iter_mut().find(|line| line.socket.name == Some(name)) else {
            let needs = closed.map_or(Needs::Failed(Fault::NoSocket), Needs::Closed);
            conn.without.push(Current::new(id, call.index, needs));
            return;
        };
        let stream = line.stream;
        if self.script.start_step(&mut line.socket, id, call) {
            line.begin = Some((line.rest.len(), id));
            self.script.write_step(&mut line.socket, call, &mut line.rest);
            conn.queue(stream);
        }
        self.is_on(id, stream);
    }

    /// Nothing follows on a stream.
    fn remove(&mut self, conn: &mut Conn, stream: u32) {
        let Some(mut line) = conn.lines.remove(stream) else { return };
        conn.without.extend(line.socket.give_up());
        self.spare.push(line);
    }

    /// Append the next frame of a stream.
    fn write(&mut self, conn: &mut Conn, stream: u32, now: Nanos, out: &mut Out) -> Wrote {
        let Some(line) = conn.lines.get_mut(stream) else { return Wrote::All };
        let window = line.ended.or_else(|| conn.h2.window_of(stream)).unwrap_or(0);
        let room = conn.h2.room(window);
        if let Some(id) = line.take_begin(room) {
            out.begin(id);
        }
        let at = out.len();
        out.bytes().extend_from_slice(&[0; HEADER]);
        let start = out.len();
        line.take_rest(room, out.bytes());
        while out.len() - start < room {
            if !self.script.write_next(&mut line.socket, now, out) {
                if line.socket.frames.state != State::Ended {
                    break;
                }
                line.socket.frames.write_last(out.bytes());
            }
        }
        let end = out.len().min(start + room);
        line.rest.extend_from_slice(&out.bytes()[end..]);
        out.bytes().truncate(end);
        let has_more = !line.rest.is_empty()
            || self.script.owes(&line.socket)
            || line.socket.frames.state == State::Ended;
        let ends = line.finish == Finish::End && !line.is_finished && !has_more;
        line.is_finished |= ends;
        let length = end - start;
        if let Some(left) = &mut line.ended {
            *left -= length as i64;
        }
        if length > 0
            && let (Some(since), Some(id)) = (line.waits.take(), line.socket.exchange())
        {
            out.waited_for_window(id, now.since(since));
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
            self.remove(conn, stream);
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
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let window = conn.h2.window_of(stream);
        let line = conn.lines.get_mut(stream);
        let (script, found) = (&mut self.script, Found::default());
        let mut watch = Watch { sink: &mut *sink, line, script, found };
        let used = self.h2.receive(&mut conn.h2, data, self.now, &mut watch)?;
        let found = watch.found;
        match kind {
            kind::SETTINGS => conn.h2.check_tunnels(&mut conn.is_allowed)?,
            kind::GOAWAY => self.forget_refused(conn, sink),
            _ => {}
        }
        if conn.lines.get(stream).is_some() {
            self.follow(conn, stream, (found, window), sink);
            // A reset ends both sides.
            let resets = kind == kind::RST_STREAM && used == data.len();
            self.settle(conn, stream, resets);
            if conn.h2.was_cancelled_often() {
                sink.draining();
            }
        }
        Ok(used)
    }

    /// Do what follows from a frame for the exchange on its stream, which had this window.
    fn follow(
        &mut self,
        conn: &mut Conn,
        stream: u32,
        (found, window): (Found, Option<i64>),
        sink: &mut impl Sink,
    ) {
        let Conn { h2, lines, closed, .. } = conn;
        let Some(line) = lines.get_mut(stream) else { return };
        let (mut fault, deflates) = (found.fault, self.script.deflates());
        let head = found.reply.or_else(|| h2.reply_so_far(stream));
        if found.opens && fault.is_none() {
            match (&head, line.fields.check_http2(deflates)) {
                (Some(head), Ok(_)) => {
                    let head = (head, &line.fields);
                    self.script.opened(&mut line.socket, head, self.now, sink);
                }
                _ => fault = Some(Fault::BadUpgrade),
            }
        }
        if let Some(code) = found.closed {
            let name = line.socket.name;
            if self.script.closed(&mut line.socket, code, head.as_ref(), sink) {
                closed.extend(name.map(|name| (name, code)));
            }
            // A step whose message was not sent ends with the code.
            line.begin = None;
            // If this side has closed first, the peer's side ends first.
            if line.socket.frames.state == State::Ended {
                line.finish = Finish::End;
            }
        }
        if found.reply.is_some() && line.socket.frames.reads() {
            // It ends without a close frame.
            fault.get_or_insert(Fault::Truncated);
        }
        if let Some(fault) = fault {
            line.abandon(h2.has_stream(stream));
            line.socket.fail(fault, sink);
        }
        if found.reply.is_some() {
            line.ended = Some(window.unwrap_or(0));
            // After a refusal, the peer expects no more of the stream.
            line.finish = if line.is_accepted() { Finish::End } else { Finish::Reset };
        }
    }

    /// Let a stream send what follows from a frame, or remove it. `resets`: the frame was a reset.
    fn settle(&mut self, conn: &mut Conn, stream: u32, resets: bool) {
        let Some(line) = conn.lines.get_mut(stream) else { return };
        let is_over = line.ended.is_some() && line.is_finished;
        if resets || is_over || (line.ended.is_none() && !conn.h2.has_stream(stream)) {
            self.remove(conn, stream);
            return;
        }
        let owes = line.is_about_to_finish()
            || line.socket.frames.state == State::Ended
            || self.script.owes(&line.socket);
        if !self.script.has_steps()
            && let Some(ping) = line.socket.deadline()
            && !std::mem::replace(&mut line.has_alarm, true)
        {
            conn.alarms.push(Reverse((ping, stream)));
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
    fn forget_refused(&mut self, conn: &mut Conn, sink: &mut impl Sink) {
        let h2 = &conn.h2;
        let is_refused = |line: &&Line| line.ended.is_none() && !h2.has_stream(line.stream);
        let refused: Vec<u32> = conn.lines.iter().filter(is_refused).map(|l| l.stream).collect();
        for stream in refused {
            if let Some(line) = conn.lines.get_mut(stream) {
                match line.socket.is_opening() {
                    // It is sent again.
                    true => _ = line.socket.give_up(),
                    false => line.socket.fail(Fault::StreamReset, sink),
                }
            }
            self.remove(conn, stream);
        }
    }
}

impl Carrier for OverH2 {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    fn ends_alone(&self) -> bool {
        self.script.has_steps()
    }

    /// A stream counts for the peer until both sides have ended it, and for the plan until its
    /// exchange has ended. So does a socket between steps, and a step on it only for the plan: a
    /// session makes one of them at a time, so that a peer without room does not keep it from using
    /// its sockets.
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        let (beside, least) = match self.script.has_steps() {
            false => (conn.lines.lingering(), 0),
            true => {
                let open = conn.lines.iter().filter(|line| !line.socket.is_handshake());
                let sockets = open.count() as u32;
                (sockets, u32::from(in_flight == 0 && sockets > 0))
            }
        };
        let room = self.h2.capacity(&conn.h2, in_flight + beside, u32::MAX);
        room.max(least).min(limit.saturating_sub(in_flight))
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
        self.h2.is_limited_by_peer(&conn.h2, limit)
    }

    fn set_lateness(&mut self, late: Span) {
        self.h2.set_lateness(late);
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        match self.script.opens(call.index) {
            None => self.h2.submit(&mut conn.h2, id, call, last, out),
            Some(true) => self.open(conn, id, call, out),
            Some(false) => self.make(conn, id, &call),
        }
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
            let used = self.frame(conn, (stream, kind), &data[at..at + length], sink)?;
            at += used;
            if used < length {
                break;
            }
        }
        conn.may_send |= !conn.queue.is_empty();
        Ok(at)
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        if self.script.has_steps() {
            let mut open = conn.lines.iter().filter(|line| !line.socket.is_handshake());
            if let Some(id) = open.find_map(|line| line.socket.exchange()) {
                // The fault is that of the step.
                sink.began(id);
                return Err(Fault::Truncated);
            }
        }
        self.h2.end(&mut conn.h2, left, sink)
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        conn.without.retain(|step| step.id != id);
        let was_often = conn.h2.was_cancelled_often();
        let Some(line) = self.line(conn, id) else { return self.h2.cancel(&mut conn.h2, id) };
        line.begin = line.begin.filter(|(_, begins)| *begins != id);
        if line.socket.cancel() {
            return Cancelled::Exchange;
        }
        if was_often {
            return Cancelled::Connection;
        }
        line.abandon(true);
        let stream = line.stream;
        self.h2.count_cancelled();
        self.note(conn, stream);
        conn.queue(stream);
        Cancelled::Exchange
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        let line = self.stream(id).and_then(|stream| conn.lines.get(stream));
        match line.filter(|line| line.socket.exchange() == Some(id)) {
            Some(line) => line.waits,
            None => self.h2.waits_for_window(&conn.h2, id),
        }
    }

    fn stop(&mut self, conn: &mut Conn, id: RequestId, sink: &mut impl Sink) {
        let Some(line) = self.line(conn, id) else {
            return self.h2.stop(&mut conn.h2, id, sink);
        };
        let stream = line.stream;
        if line.socket.is_handshake() {
            self.h2.stop(&mut conn.h2, id, sink);
            if !conn.h2.has_stream(stream) {
                self.remove(conn, stream);
            }
        } else if let Some(head) = conn.h2.reply_so_far(stream)
            && let Some(line) = conn.lines.get_mut(stream)
            && line.socket.stop(id, &head, sink)
        {
            self.note(conn, stream);
            conn.queue(stream);
        }
    }

    fn send_messages(&mut self, conn: &mut Conn, id: RequestId, n: u64, ends: bool) {
        let Some(line) = self.line(conn, id) else { return };
        line.socket.due(n, ends);
        let stream = line.stream;
        if line.socket.frames.state == State::Open {
            conn.queue(stream);
        }
    }

    fn messages_due(&mut self, conn: &mut Conn, id: RequestId, times: &[Nanos]) {
        if let Some(line) = self.line(conn, id) {
            line.socket.due_since(times);
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let alarm = conn.alarms.peek().map(|Reverse((at, _))| *at);
        let steps = match self.script.has_steps() {
            true => conn.lines.iter().filter_map(|line| line.socket.deadline()).min(),
            false => None,
        };
        self.h2.deadline(&conn.h2).into_iter().chain(alarm).chain(steps).min()
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        let has_steps = self.script.has_steps();
        if has_steps {
            conn.lines.iter_mut().for_each(|line| line.socket.on_deadline(now));
        }
        while let Some(&Reverse((at, stream))) = conn.alarms.peek()
            && at <= now
        {
            conn.alarms.pop();
            let Some(line) = conn.lines.get_mut(stream) else { continue };
            if line.socket.name.is_some() {
                line.socket.on_deadline(now);
                let Some(next) = line.socket.deadline() else { continue };
                conn.alarms.push(Reverse((next, stream)));
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

    fn report_ends(&mut self, conn: &mut Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        let mut any = !conn.without.is_empty();
        conn.without.drain(..).for_each(|step| self.script.report_over(&step, sink));
        if self.script.has_steps() {
            for line in conn.lines.iter_mut().filter(|line| line.has_sent()) {
                any |= self.script.report_end(&mut line.socket, now, sink);
            }
        }
        any
    }

    /// A client sends no handshake before it knows the peer's settings (RFC 8441, 3).
    fn opens(&self) -> bool {
        true
    }

    fn is_ready(&self, conn: &Conn) -> bool {
        conn.is_allowed
    }

    /// Append the close frames that are owed, as far as windows allow them, and the last frame.
    fn close(&mut self, conn: &mut Conn, out: &mut Vec<u8>) {
        let Conn { h2, lines, .. } = conn;
        for line in lines.iter_mut().filter(|line| line.rest.is_empty() && !line.is_finished) {
            let window = line.ended.or_else(|| h2.window_of(line.stream)).unwrap_or(0);
            let has_room = !h2.has_failed() && h2.room(window) >= CLOSE_MAX;
            if !has_room || !matches!(line.socket.frames.state, State::Open | State::Ended) {
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; HEADER]);
            line.socket.frames.write_last(out);
            h2.end_data(line.stream, at, true, out);
        }
        self.h2.close(&mut conn.h2, out);
    }

    fn boundary(&self, conn: &Conn, bytes: &[u8], at: usize) -> usize {
        self.h2.boundary(&conn.h2, bytes, at)
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.counts()
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
