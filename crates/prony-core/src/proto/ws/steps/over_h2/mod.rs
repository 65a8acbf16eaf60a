//! Steps over HTTP/2 (RFC 8441): a session's sockets are streams of its connection, next to those
//! of its requests.

mod line;
mod watch;

use super::calls::{StepCall, What, with_connects};
use super::socket::{Current, Needs, State, closed};
use crate::fault::Fault;
use crate::http2::frame::{HEADER, kind};
use crate::messages::Numbering;
use crate::plan::Plan;
use crate::proto::h2::{self, H2};
use crate::proto::ws::over_h2::{CLOSE_MAX, Finish, LINGER};
use crate::proto::{Call, Cancelled, Carrier, Out, OverStreams, Reply, Sink, StreamCounts};
use crate::script::Filled;
use crate::units::{Nanos, RequestId, Span};
use crate::websocket::{CloseCode, Frame, Opcode};
use line::Line;
use watch::Watch;

/// The carrier of one worker, for connections with HTTP/2.
#[derive(Debug)]
pub struct StepsOverH2 {
    h2: H2,
    /// The steps on sockets, by the number of their call, and the number of the name of each.
    calls: Vec<Option<StepCall>>,
    names: Vec<u32>,
    seed: u64,
    numbers: Numbering,
    /// The time of the last turn.
    now: Nanos,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Conn {
    h2: h2::Conn,
    /// Whether the peer has allowed extended CONNECT.
    is_allowed: bool,
    /// A session has few sockets.
    lines: Vec<Line>,
    /// Whether some of them may have become able to send.
    may_send: bool,
    /// Steps without a socket, and the code with which the peer has closed it.
    without: Vec<(RequestId, Option<CloseCode>)>,
    /// The codes with which the peer has closed sockets between two steps.
    closed: Vec<(u32, CloseCode)>,
}

impl Conn {
    /// The code with which the peer has closed the socket of this name, once.
    fn take_closed(&mut self, name: u32) -> Option<CloseCode> {
        let at = self.closed.iter().position(|(of, _)| *of == name)?;
        Some(self.closed.swap_remove(at).1)
    }
}

impl StepsOverH2 {
    /// The carrier for a plan's calls.
    ///
    /// # Panics
    /// When the plan is not valid.
    pub fn new(plan: &Plan) -> Self {
        let mut known = Vec::new();
        let names = plan.calls.iter().map(|call| {
            let at = known.iter().position(|name| *name == call.socket_name);
            at.unwrap_or_else(|| {
                known.push(call.socket_name.clone());
                known.len() - 1
            }) as u32
        });
        Self {
            names: names.collect(),
            h2: H2::new(&with_connects(plan)),
            calls: plan.calls.iter().map(StepCall::new).collect(),
            seed: plan.seed,
            numbers: Numbering::new(plan),
            now: Nanos::ZERO,
        }
    }

    /// Make a step on the socket of its name.
    fn make(&mut self, conn: &mut Conn, id: RequestId, call: Call<'_>) {
        let name = self.names[call.index as usize];
        let closed = conn.take_closed(name);
        let line = conn.lines.iter_mut().find(|line| line.name == Some(name));
        let (Some(line), Some(step)) = (line, &self.calls[call.index as usize]) else {
            conn.without.push((id, closed));
            return;
        };
        let own = call.filled.and_then(Filled::body);
        let needs = line.socket.needs(step, own);
        if needs.writes() {
            line.begin = Some((line.rest.len(), id));
            line.socket.write_step(step, own, self.seed, &mut line.rest);
            conn.may_send = true;
        }
        let equals = call.filled.and_then(Filled::awaited).map(<[u8]>::to_vec);
        line.socket.current = Some(Current { id, call: call.index, needs, equals, until: None });
    }

    /// Append what a socket has to send, as far as windows allow it.
    fn write(&mut self, h2: &mut h2::Conn, line: &mut Line, now: Nanos, out: &mut Out) {
        if std::mem::take(&mut line.socket.owes_pong) && line.socket.state == State::Open {
            let mask = line.socket.mask(self.seed);
            let frame = Frame { opcode: Opcode::Pong, is_final: true, mask };
            frame.write(&line.socket.ping, &mut line.rest);
        }
        loop {
            let window = line.ended.or_else(|| h2.window_of(line.stream)).unwrap_or(0);
            let length = h2.room(window).min(line.rest.len());
            let is_last = length == line.rest.len();
            let ends = is_last && line.finish == Finish::End && !line.is_finished;
            if length == 0 && !ends {
                break;
            }
            match &mut line.begin {
                Some((at, _)) if *at >= length => *at -= length,
                begin => {
                    if let Some((_, id)) = begin.take() {
                        out.begin(id);
                    }
                }
            }
            let at = out.len();
            out.bytes().extend_from_slice(&[0; HEADER]);
            out.bytes().extend_from_slice(&line.rest[..length]);
            line.rest.drain(..length);
            if let Some(left) = &mut line.ended {
                *left -= length as i64;
            }
            h2.end_data(line.stream, at, ends, out.bytes());
            line.is_finished |= ends;
        }
        match (line.rest.is_empty(), line.waits) {
            (false, None) => line.waits = Some(now),
            (true, Some(since)) => {
                line.waits = None;
                if let Some(current) = &line.socket.current {
                    out.waited_for_window(current.id, now.since(since));
                }
            }
            _ => {}
        }
        if line.finish == Finish::Reset && !line.is_finished {
            self.h2.reset_tunnel(h2, line.stream, out);
            line.was_reset();
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
        let Conn { h2, lines, .. } = conn;
        let window = h2.window_of(stream);
        let place = lines.iter().position(|line| line.stream == stream);
        let line = place.map(|place| &mut lines[place]);
        let (fault, reply, calls) = (None, None, &mut self.calls[..]);
        let mut watch = Watch { sink: &mut *sink, line, calls, opens: false, fault, reply };
        let used = self.h2.receive(h2, data, now, &mut watch)?;
        let (opens, mut fault, reply) = (watch.opens, watch.fault, watch.reply);
        match kind {
            kind::SETTINGS => h2.check_tunnels(&mut conn.is_allowed)?,
            kind::GOAWAY => Self::forget_refused(conn, sink),
            _ => {}
        }
        let Some(place) = place else { return Ok(used) };
        let line = &mut conn.lines[place];
        if opens && let Some(head) = reply.or_else(|| conn.h2.reply_so_far(stream)) {
            fault = fault.or_else(|| Self::opened(line, &head, sink));
        }
        if reply.is_some() {
            line.ended = Some(window.unwrap_or(0));
            if matches!(line.socket.state, State::Open | State::Closing(_)) {
                // A socket that ends without a close frame.
                fault.get_or_insert(Fault::Truncated);
            }
        }
        if let Some(fault) = fault {
            line.fail(fault, self.seed, sink);
        }
        conn.closed.extend(line.settle(now, self.seed));
        if line.ended.is_none() && !conn.h2.has_stream(stream) {
            line.was_reset();
        }
        if conn.h2.was_cancelled_often() {
            sink.draining();
        }
        Ok(used)
    }

    /// The reply to the handshake has accepted it. Returns the fault, if its fields are wrong.
    fn opened(line: &mut Line, head: &Reply, sink: &mut impl Sink) -> Option<Fault> {
        if line.socket.fields.check_http2(false).is_err() {
            return Some(Fault::BadUpgrade);
        }
        line.socket.state = State::Open;
        let current = line.socket.current.take()?;
        sink.done(current.id, &Reply { fault: None, keeps_open: true, ..*head });
        None
    }

    /// Forget the sockets that a GOAWAY has refused.
    fn forget_refused(conn: &mut Conn, sink: &mut impl Sink) {
        for line in &mut conn.lines {
            if line.ended.is_some() || conn.h2.has_stream(line.stream) {
                continue;
            }
            match line.socket.current.take() {
                // It is sent again.
                Some(Current { needs: Needs::Answer, .. }) | None => {}
                Some(current) => sink.failed(current.id, Fault::StreamReset),
            }
            line.was_reset();
        }
    }
}

impl Carrier for StepsOverH2 {
    type Conn = Conn;

    const MULTIPLEXES: bool = true;

    const ENDS_ALONE: bool = true;

    /// A socket counts for the peer's limit of streams, and a step on it only for the plan's. A
    /// session makes one of them at a time, so that a peer without room does not keep it from
    /// using its sockets.
    fn capacity(&self, conn: &Conn, in_flight: u32, limit: u32) -> u32 {
        let sockets = conn.lines.iter().filter(|line| !line.is_handshake()).count() as u32;
        let room = self.h2.capacity(&conn.h2, in_flight + sockets, u32::MAX);
        let least = u32::from(in_flight == 0 && sockets > 0);
        room.max(least).min(limit.saturating_sub(in_flight))
    }

    fn is_limited_by_peer(&self, conn: &Conn, limit: u32) -> bool {
        self.h2.is_limited_by_peer(&conn.h2, limit)
    }

    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        last: bool,
        out: &mut Out,
    ) {
        match &self.calls[call.index as usize] {
            None => self.h2.submit(&mut conn.h2, id, call, last, out),
            Some(StepCall { what: What::Open(_), .. }) => {
                let stream = self.h2.open_tunnel(&mut conn.h2, id, call, out);
                let (needs, equals) = (Needs::Answer, None);
                let opens = Current { id, call: call.index, needs, equals, until: None };
                let name = self.names[call.index as usize];
                conn.closed.retain(|(of, _)| *of != name);
                conn.lines.push(Line::new(stream, name, self.numbers.take(), opens));
            }
            Some(_) => self.make(conn, id, call),
        }
    }

    fn owes(&self, conn: &Conn) -> bool {
        self.h2.owes(&conn.h2) || (conn.may_send && conn.lines.iter().any(Line::has_output))
    }

    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        self.now = now;
        self.h2.transmit(&mut conn.h2, now, out);
        conn.may_send = false;
        for line in &mut conn.lines {
            self.write(&mut conn.h2, line, now, out);
        }
        conn.lines.retain(|line| !line.is_over());
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
        conn.lines.retain(|line| !line.is_over());
        conn.may_send = true;
        Ok(at)
    }

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        let mut steps = conn.lines.iter().filter(|line| !line.is_handshake());
        if let Some(current) = steps.find_map(|line| line.socket.current.as_ref()) {
            // The fault is that of the step.
            sink.began(current.id);
            return Err(Fault::Truncated);
        }
        self.h2.end(&mut conn.h2, left, sink)
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        conn.without.retain(|(other, _)| *other != id);
        let is_it = |line: &&mut Line| line.socket.current.as_ref().is_some_and(|c| c.id == id);
        let Some(line) = conn.lines.iter_mut().find(is_it) else {
            return self.h2.cancel(&mut conn.h2, id);
        };
        line.begin = line.begin.filter(|(_, begins)| *begins != id);
        let needs = line.socket.current.take().map(|current| current.needs);
        if matches!(needs, Some(Needs::Answer | Needs::Close)) {
            line.abandon(self.seed);
            self.h2.count_cancelled();
            conn.may_send = true;
        }
        Cancelled::Exchange
    }

    fn waits_for_window(&self, conn: &Conn, id: RequestId) -> Option<Nanos> {
        let is_it = |line: &&Line| line.socket.current.as_ref().is_some_and(|c| c.id == id);
        match conn.lines.iter().find(is_it) {
            Some(line) => line.waits,
            None => self.h2.waits_for_window(&conn.h2, id),
        }
    }

    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let waits = conn.lines.iter().filter_map(|line| line.socket.current.as_ref()?.until);
        let lingers = conn.lines.iter().filter_map(|line| line.lingers_until);
        self.h2.deadline(&conn.h2).into_iter().chain(waits).chain(lingers).min()
    }

    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        for line in &mut conn.lines {
            line.socket.time_out(now);
            if line.lingers_until.take_if(|until| *until <= now).is_some() {
                line.finish = Finish::Reset;
                conn.may_send = true;
            }
        }
        match self.h2.deadline(&conn.h2) {
            Some(at) if at <= now => self.h2.on_deadline(&mut conn.h2, now),
            _ => Ok(()),
        }
    }

    fn report_ends(&mut self, conn: &mut Conn, now: Nanos, sink: &mut impl Sink) -> bool {
        let mut any = !conn.without.is_empty();
        for (id, code) in conn.without.drain(..) {
            match code {
                None => sink.failed(id, Fault::NoSocket),
                Some(code) => {
                    sink.sent(id);
                    sink.done(id, &closed(code, true));
                }
            }
        }
        for line in conn.lines.iter_mut().filter(|line| line.has_sent()) {
            any |= line.socket.report_end(&mut self.calls, now, sink);
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
            if !has_room || !matches!(line.socket.state, State::Open | State::Ended(_)) {
                continue;
            }
            let at = out.len();
            out.extend_from_slice(&[0; HEADER]);
            line.socket.write_close(self.seed, out);
            h2.end_data(line.stream, at, true, out);
        }
        self.h2.close(&mut conn.h2, out);
    }

    fn boundary(&self, conn: &Conn, bytes: &[u8], at: usize) -> usize {
        self.h2.boundary(&conn.h2, bytes, at)
    }

    #[inline]
    fn set_lateness(&mut self, late: Span) {
        self.h2.set_lateness(late);
    }

    fn counts(&self) -> Option<&StreamCounts> {
        self.h2.counts()
    }
}

impl OverStreams for StepsOverH2 {
    fn negotiated(&mut self, is_h2: bool) {
        self.h2.negotiated(is_h2);
    }

    fn first_streams(&self) -> u32 {
        self.h2.first_streams()
    }
}
