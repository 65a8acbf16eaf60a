//! Connections of WebSocket on streams of HTTP/2 (RFC 8441): extended CONNECT opens them.

use std::collections::VecDeque;

use prony_base::http2::FRAME_SIZE;
use prony_base::http2::frame::{self, Code, flag, kind};
use prony_base::rng::Stream as Draws;
use prony_base::units::{ConnId, Nanos, Span};
use prony_base::websocket::CloseCode;

use super::super::answer::Answer;
use super::super::cast::Held;
use super::super::out::{Counted, Out};
use super::super::socket::{Owed, Parked, Socket, close_frame};
use super::super::station::Ticket;
use super::super::work::ENTRY;
use super::super::{Draw, Serve, rng};
use super::Session;
use super::fields::SocketHead;
use super::socket::StreamSocket;
use super::streams::{Progress, TINY, allowed};

/// How many bytes of answers may wait on a stream before its window is not given back.
const LINE_BUDGET: usize = 256 << 10;

/// How many messages to all others a connection starts to send at once.
const CASTS_AT_ONCE: usize = 256;

impl Serve {
    /// Open a connection of WebSocket on a stream.
    pub(super) fn open_socket(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        head: &SocketHead,
        now: Nanos,
    ) {
        let number = self.served.requests;
        self.count_request(now);
        self.served.h2_requests += 1;
        let c = &mut self.conns[id.slot as usize];
        c.outstanding += 1;
        c.requests += 1;
        self.leave_after(session, id);
        let Some(open) = session.streams.get_mut(stream) else { return };
        let draw = rng::keyed(self.seed, Draws::Serve, number, Draw::Rst as u64);
        if self.behavior.rst.hits(draw) {
            open.reply = Progress::Ready(Answer::StreamReset);
            return session.queue(stream);
        }
        self.served.sockets += 1;
        let agreed = head.fields.deflate().filter(|_| self.behavior.ws_compress);
        let socket = StreamSocket::new(Socket::new(number, agreed), head.reply(agreed));
        open.reply = Progress::Socket(Box::new(socket));
        session.queue(stream);
        self.start_pushes((id, stream), number, now);
    }

    /// Bytes of a connection of WebSocket.
    pub(super) fn socket_data(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        (bytes, ends): (&[u8], bool),
        now: Nanos,
    ) {
        let Some(open) = session.streams.get_mut(stream) else { return };
        let Progress::Socket(line) = &mut open.reply else { return };
        if line.reads {
            let mut stash = std::mem::take(&mut line.stash);
            stash.extend_from_slice(bytes);
            let used = self.read_line(line, (id, stream), &stash, now);
            stash.drain(..used);
            line.stash = stash;
        }
        line.is_half_closed |= ends;
        if ends && line.reads {
            // It has gone without a close frame.
            line.end(None);
        }
        let (is_over, has_output) = (line.has_ended && ends, line.has_output());
        if is_over {
            session.streams.remove(stream);
        } else if has_output {
            session.queue(stream);
        }
    }

    /// Read frames. Returns how many bytes were used.
    fn read_line(
        &mut self,
        line: &mut StreamSocket,
        (id, stream): (ConnId, u32),
        data: &[u8],
        now: Nanos,
    ) -> usize {
        let mut socket = std::mem::replace(&mut line.socket, Socket::new(0, None));
        let (number, deflates) = (socket.number, socket.deflates);
        let result = socket.read(data, |owed| {
            let (answer, work) = match owed {
                Owed::Message { k, opcode, message } => {
                    let from = ((id, stream), number, deflates);
                    let answer = self.answer_to_message(from, k, opcode, message);
                    (answer, Some(self.service_time(number, k, now)))
                }
                Owed::Pong(pong) if line.replaces_pong(&pong) => (None, None),
                Owed::Pong(pong) => (Some(Answer::Bytes(pong, Counted::Nothing)), None),
                Owed::Close(frame) => {
                    line.end(Some(frame));
                    (None, None)
                }
            };
            let Some(answer) = answer else { return };
            let number = line.push(false, answer);
            let entry = u64::from(number) << 32 | u64::from(stream);
            let ticket = Ticket { id, entry };
            let is_done = match work {
                Some(work) => self.enter(ticket, work, now),
                None => self.station.pass(now, ticket, Span::ZERO),
            };
            if is_done {
                line.ready(entry);
            }
        });
        line.socket = socket;
        result.unwrap_or_else(|violation| {
            self.served.violations += 1;
            line.interrupts = true;
            line.end(Some(close_frame(violation.close_code())));
            data.len()
        })
    }
}

impl Session {
    fn line(&mut self, stream: u32) -> Option<&mut StreamSocket> {
        match &mut self.streams.get_mut(stream)?.reply {
            Progress::Socket(line) if line.reads => Some(line),
            _ => None,
        }
    }

    /// The open connection of WebSocket on a stream.
    pub(in super::super) fn socket(&mut self, stream: u32) -> Option<&mut Socket> {
        self.line(stream).map(|line| &mut line.socket)
    }

    /// The delivery that is held back on a stream.
    pub(in super::super) fn held(&mut self, stream: u32) -> Option<&mut Held> {
        self.line(stream).map(|line| &mut line.held)
    }

    /// The streams of the open connections of WebSocket, in order, with their numbers, and whether
    /// they compress messages.
    pub(in super::super) fn receivers(&self) -> Vec<(u32, u64, bool)> {
        let mut all: Vec<_> = self
            .streams
            .iter()
            .filter_map(|stream| match &stream.reply {
                Progress::Socket(line) if line.reads => {
                    Some((stream.id, line.socket.number, line.socket.deflates))
                }
                _ => None,
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// Send the frame of a message on a stream.
    pub(in super::super) fn push_frame(&mut self, stream: u32, frame: Vec<u8>) {
        if let Some(line) = self.line(stream) {
            let bytes = frame.len() + ENTRY;
            line.push(true, Answer::Bytes(frame, Counted::Message));
            self.moved += bytes;
            self.queue(stream);
        }
    }

    /// How many frames wait on a stream.
    pub(in super::super) fn waiting(&mut self, stream: u32) -> usize {
        self.line(stream).map_or(0, |line| line.waiting())
    }

    /// Push messages again on the streams on which fewer than `limit` wait.
    pub(in super::super) fn unpark_sockets(
        &mut self,
        limit: usize,
        resumed: &mut Vec<(u32, Parked)>,
    ) {
        if self.parked_sockets == 0 {
            return;
        }
        self.parked_sockets = 0;
        for stream in self.streams.iter_mut() {
            let Progress::Socket(line) = &mut stream.reply else { continue };
            if line.entries.len() < limit {
                resumed.extend(line.socket.unpark().map(|next| (stream.id, next)));
            } else {
                self.parked_sockets += usize::from(line.socket.is_parked());
            }
        }
    }

    /// Close all connections of WebSocket, as the server goes away.
    pub(super) fn stop_sockets(&mut self) {
        let (mut closed, mut over) = (Vec::new(), Vec::new());
        for stream in self.streams.iter_mut() {
            let Progress::Socket(line) = &mut stream.reply else { continue };
            if line.reads {
                line.end(Some(close_frame(CloseCode::GOING_AWAY)));
            }
            line.interrupts = true;
            if line.has_ended { over.push(stream.id) } else { closed.push(stream.id) }
        }
        closed.into_iter().for_each(|stream| self.queue(stream));
        for stream in over {
            self.streams.remove(stream);
            self.reset(stream, Code::NO_ERROR);
        }
    }

    /// Write what is ready of a connection, as far as the windows allow.
    pub(super) fn write_socket(
        &mut self,
        id: u32,
        mut line: Box<StreamSocket>,
        out: &mut Out,
        now: Nanos,
    ) {
        if let Some(block) = line.head.take() {
            frame::header_block(out.bytes(), id, 0, &block);
            out.count(Counted::Reply(200));
        }
        let limit = out.bytes().len() + FRAME_SIZE as usize;
        while self.next_frame(id, &mut line) {
            if out.bytes().len() >= limit {
                // The others have their turn.
                self.keep_line(id, line);
                return self.queue(id);
            }
            let Some(stream) = self.streams.get_mut(id) else { return };
            let Some((bytes, at, counted)) = &mut line.current else { return };
            let left = (bytes.len() - *at) as u64;
            let n = allowed(stream, &mut self.send_window, &mut self.starved, left);
            if n == 0 {
                return self.keep_line(id, line);
            }
            self.dribbles |= n < left.min(TINY) && !self.calm.take(now);
            let to = *at + n as usize;
            line.has_ended = line.ends && n == left && line.entries.is_empty();
            let flags = if line.has_ended { flag::END_STREAM } else { 0 };
            frame::head(out.bytes(), n as usize, kind::DATA, flags, id);
            out.bytes().extend_from_slice(&bytes[*at..to]);
            *at = to;
            if n == left {
                out.count(*counted);
                self.calm.reply();
                line.current = None;
            }
        }
        if line.ends && !line.has_ended && line.entries.is_empty() {
            line.has_ended = true;
            frame::head(out.bytes(), 0, kind::DATA, flag::END_STREAM, id);
        }
        match (line.has_ended, line.is_half_closed, line.interrupts) {
            (true, true, _) => _ = self.streams.remove(id),
            (true, false, true) => {
                self.streams.remove(id);
                self.interrupt(id, out.bytes());
            }
            _ => self.keep_line(id, line),
        }
    }

    /// Whether there is a frame to send: the one that was started, or the next that is ready.
    fn next_frame(&mut self, id: u32, line: &mut StreamSocket) -> bool {
        while line.current.is_none() && line.entries.front().is_some_and(|entry| entry.0) {
            let is_cast = matches!(line.entries.front(), Some((_, Answer::Cast(_))));
            if is_cast && (self.holds_casts || self.casts.len() >= CASTS_AT_ONCE) {
                self.cast_lines.push(id);
                return false;
            }
            line.first = line.first.wrapping_add(1);
            let answer = line.entries.pop_front().map(|entry| entry.1);
            line.queued -= answer.as_ref().map_or(0, Answer::cost);
            match answer {
                Some(Answer::Bytes(bytes, counted)) => line.current = Some((bytes, 0, counted)),
                Some(Answer::Cast(cast)) => self.casts.push(*cast),
                _ => {}
            }
        }
        line.current.is_some()
    }

    fn keep_line(&mut self, id: u32, line: Box<StreamSocket>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reply = Progress::Socket(line);
            self.refill_socket(id);
        }
    }

    /// Give back the window of a stream, unless too many answers wait on it.
    pub(super) fn refill_socket(&mut self, id: u32) {
        let half = self.window / 2;
        if let Some(stream) = self.streams.get_mut(id)
            && let Progress::Socket(line) = &stream.reply
            && line.queued <= LINE_BUDGET
            && !line.is_half_closed
            && stream.recv_used > half
            && !self.owed.windows.contains(&id)
        {
            self.owed.windows.push(id);
        }
    }

    /// Whether messages to all others wait until there are fewer.
    pub(super) fn waits_to_cast(&self) -> bool {
        !self.cast_lines.is_empty()
    }

    /// Let the streams send again whose messages to all others have waited.
    pub(in super::super) fn release_casts(&mut self) {
        for id in std::mem::take(&mut self.cast_lines) {
            self.queue(id);
        }
    }

    /// Close the connections of WebSocket on which more than `limit` bytes wait. Returns their
    /// number.
    pub(in super::super) fn drop_slow_sockets(&mut self, limit: usize) -> u64 {
        let mut dropped = Vec::new();
        for stream in self.streams.iter_mut() {
            let Progress::Socket(line) = &mut stream.reply else { continue };
            if line.reads && line.queued > limit {
                line.first = line.first.wrapping_add(line.entries.len() as u32);
                (line.entries, line.queued, line.held) = (VecDeque::new(), 0, None);
                line.interrupts = true;
                line.end(Some(close_frame(CloseCode::POLICY)));
                dropped.push(stream.id);
            }
        }
        let count = dropped.len() as u64;
        dropped.into_iter().for_each(|stream| self.queue(stream));
        count
    }
}
