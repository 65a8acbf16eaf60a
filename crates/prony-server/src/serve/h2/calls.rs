//! Calls of gRPC on streams of HTTP/2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use prony_base::grpc::{Status, encode_message};
use prony_base::http2::FRAME_SIZE;
use prony_base::http2::frame::{self, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::rng::Stream as Draws;
use prony_base::units::{ConnId, Nanos};

use super::super::answer::Answer;
use super::super::grpc::{Call, CallHead, ECHO_INITIAL, ECHO_TRAILING, End, Failure, Next};
use super::super::out::{Counted, Out};
use super::super::station::Ticket;
use super::super::{Draw, Serve, rng};
use super::Session;
use super::streams::{Progress, Stream, TINY, allowed};

/// The header blocks of most calls.
#[derive(Debug)]
pub(in super::super) struct CallBlocks {
    head: Vec<u8>,
    trailers: Vec<u8>,
}

impl Default for CallBlocks {
    fn default() -> Self {
        let (mut head, mut trailers) = (Vec::new(), Vec::new());
        encode_static(&mut head, b":status", b"200");
        encode_static(&mut head, b"content-type", b"application/grpc");
        encode_static(&mut trailers, b"grpc-status", b"0");
        Self { head, trailers }
    }
}

impl Serve {
    /// Add a call on a stream that was opened.
    pub(super) fn open_call(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        head: Box<CallHead>,
        now: Nanos,
    ) {
        let number = self.served.requests;
        self.count_request(now);
        self.served.h2_requests += 1;
        self.served.calls += 1;
        let c = &mut self.conns[id.slot as usize];
        c.outstanding += 1;
        c.requests += 1;
        self.leave_after(session, id);
        let failure = head.method.is_served().then(|| self.draw_failure(number)).flatten();
        let Some(open) = session.streams.get_mut(stream) else { return };
        open.reply = Progress::Call(Box::new(Call::new(head, number, failure, now)));
    }

    /// The failure of a call, in the order in which they hide each other.
    fn draw_failure(&self, number: u64) -> Option<Failure> {
        let behavior = &self.behavior;
        let draw = |what| rng::keyed(self.seed, Draws::Serve, number, what as u64);
        if behavior.reset.hits(draw(Draw::Reset)) {
            return Some(Failure::Reset);
        }
        if behavior.rst.hits(draw(Draw::Rst)) {
            return Some(Failure::StreamReset);
        }
        if behavior.truncate.hits(draw(Draw::Truncate)) {
            return Some(Failure::Truncate);
        }
        let status = behavior.statuses.draw(draw(Draw::Status));
        (status >= 300).then(|| Failure::Status(Status::from_http(status)))
    }

    /// Bytes of a call's messages.
    pub(super) fn call_data(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        (bytes, ends): (&[u8], bool),
        now: Nanos,
    ) {
        let Some(open) = session.streams.get_mut(stream) else { return };
        let Progress::Call(call) = &mut open.reply else { return };
        let before = call.footprint();
        self.served.messages_received += call.take(bytes, self.behavior.max_body);
        session.moved += call.footprint().saturating_sub(before);
        self.work += call.take_unpacked();
        if let Some(load) = call.take_load() {
            self.load = load;
        }
        if ends {
            call.half_close();
        }
        self.run_call(session, id, stream, now);
    }

    /// Run the steps of a call until it needs something.
    pub(super) fn run_call(&mut self, session: &mut Session, id: ConnId, stream: u32, now: Nanos) {
        let ticket = Ticket { id, entry: u64::from(stream) };
        loop {
            let Some(open) = session.streams.get_mut(stream) else { return };
            let Progress::Call(call) = &mut open.reply else { return };
            let is_done = match call.next() {
                Next::Nothing => break,
                Next::Output => {
                    session.queue(stream);
                    break;
                }
                Next::Load => {
                    call.send_load(&self.load);
                    continue;
                }
                Next::Pause(time) => self.station.pass(now, ticket, time),
                Next::Service if call.method().is_served() => {
                    let work = self.service_time(call.number, call.services, now);
                    self.enter(ticket, work, now)
                }
                Next::Service => true,
            };
            if !(is_done && self.call_waited(session, stream, now)) {
                break;
            }
        }
        session.refill(stream);
    }

    /// A call's service or pause is over. Return whether it goes on.
    fn call_waited(&mut self, session: &mut Session, stream: u32, now: Nanos) -> bool {
        let Some(open) = session.streams.get_mut(stream) else { return false };
        let Progress::Call(call) = &mut open.reply else { return false };
        let answer = match call.waited(now) {
            Some(Failure::Reset) => Answer::Reset,
            Some(_) => Answer::StreamReset,
            None => return true,
        };
        open.reply = Progress::Ready(answer);
        session.queue(stream);
        false
    }

    /// Continue the calls of a connection that can go on.
    #[inline]
    pub(in super::super) fn resume_calls(&mut self, id: ConnId, now: Nanos) {
        if !self.behavior.grpc {
            return;
        }
        let session = self.conn(id).and_then(|c| c.h2.as_ref());
        if session.is_some_and(|session| !session.resumed.is_empty()) {
            self.resume_all(id, now);
        }
    }

    #[inline(never)]
    fn resume_all(&mut self, id: ConnId, now: Nanos) {
        let Some(mut session) = self.conn(id).and_then(|c| c.h2.take()) else { return };
        while let Some(stream) = session.resumed.pop() {
            let waits =
                |open: &mut Stream| matches!(&open.reply, Progress::Call(call) if call.is_waiting);
            let was_waiting = session.streams.get_mut(stream).is_some_and(waits);
            if !was_waiting || self.call_waited(&mut session, stream, now) {
                self.run_call(&mut session, id, stream, now);
            }
        }
        self.conns[id.slot as usize].h2 = Some(session);
    }
}

impl Session {
    /// End the calls that would never end.
    pub(super) fn stop_calls(&mut self) {
        for stream in self.streams.iter_mut() {
            if let Progress::Call(call) = &mut stream.reply
                && call.stop()
                && !call.is_waiting
            {
                self.resumed.push(stream.id);
            }
        }
    }

    /// Give back the window of a stream, unless its call has enough to do.
    fn refill(&mut self, id: u32) {
        let half = self.window / 2;
        if let Some(stream) = self.streams.get_mut(id)
            && let Progress::Call(call) = &stream.reply
            && !(call.is_full() || call.is_half_closed)
            && stream.recv_used > half
            && !self.owed.windows.contains(&id)
        {
            self.owed.windows.push(id);
        }
    }

    /// Write what comes next of a call, as far as the windows allow.
    pub(super) fn write_call(
        &mut self,
        id: u32,
        mut call: Box<Call>,
        out: &mut Out,
        blocks: &CallBlocks,
        now: Nanos,
    ) {
        let limit = out.bytes().len() + FRAME_SIZE as usize;
        while call.has_output() || call.next_output() {
            if out.bytes().len() >= limit {
                // The others have their turn.
                self.keep_call(id, call);
                return self.queue(id);
            }
            if call.outgoing.is_some() && !std::mem::replace(&mut call.has_head, true) {
                write_head(&call, id, out.bytes(), blocks);
            }
            self.worked += call.take_packed();
            let Some(outgoing) = &mut call.outgoing else {
                return self.end_call(id, &mut call, out, blocks);
            };
            let Some(stream) = self.streams.get_mut(id) else { return };
            let left = outgoing.left();
            let n = allowed(stream, &mut self.send_window, &mut self.starved, left);
            if n == 0 {
                return self.keep_call(id, call);
            }
            frame::head(out.bytes(), n as usize, kind::DATA, 0, id);
            outgoing.append(n as usize, out.bytes());
            if n < left {
                self.dribbles |= n < TINY && !self.calm.take(now);
                continue;
            }
            call.outgoing = None;
            if call.is_cut {
                return self.cut(id, Counted::Truncated, out);
            }
            self.messages_sent += 1;
        }
        if call.has_steps() {
            self.resumed.push(id);
        }
        self.keep_call(id, call);
    }

    fn keep_call(&mut self, id: u32, call: Box<Call>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.reply = Progress::Call(call);
        }
    }

    /// Write how a call ends.
    fn end_call(&mut self, id: u32, call: &mut Call, out: &mut Out, blocks: &CallBlocks) {
        let Some(end) = call.end.take() else { return };
        if call.is_cut {
            return self.cut(id, Counted::Truncated, out);
        }
        let is_plain = end.status == Status::OK && end.message.is_empty() && end.load.is_none();
        let (_, echo) = call.echo();
        if call.has_head && is_plain && echo.is_none() {
            frame::header_block(out.bytes(), id, flag::END_STREAM, &blocks.trailers);
        } else {
            let mut block = if call.has_head { Vec::new() } else { head_block(call, blocks) };
            write_trailers(&mut block, &end, echo);
            frame::header_block(out.bytes(), id, flag::END_STREAM, &block);
        }
        out.count(Counted::Call(end.status));
        self.calm.reply();
        self.streams.remove(id);
        if !call.is_half_closed {
            self.interrupt(id, out.bytes());
        }
    }
}

fn write_head(call: &Call, id: u32, out: &mut Vec<u8>, blocks: &CallBlocks) {
    if call.echo().0.is_none() && !call.may_compress() {
        frame::header_block(out, id, 0, &blocks.head);
    } else {
        frame::header_block(out, id, 0, &head_block(call, blocks));
    }
}

/// The block of the head of a call.
fn head_block(call: &Call, blocks: &CallBlocks) -> Vec<u8> {
    let mut block = blocks.head.clone();
    if call.outgoing.is_some() && call.may_compress() {
        encode_static(&mut block, b"grpc-encoding", b"gzip");
    }
    if call.names_encodings() {
        encode_static(&mut block, b"grpc-accept-encoding", b"identity,gzip");
    }
    if let (Some(echo), _) = call.echo() {
        encode_static(&mut block, ECHO_INITIAL.as_bytes(), echo);
    }
    block
}

fn write_trailers(block: &mut Vec<u8>, end: &End, echo: Option<&[u8]>) {
    encode_static(block, b"grpc-status", end.status.number().to_string().as_bytes());
    if !end.message.is_empty() {
        let mut text = Vec::new();
        encode_message(&end.message, &mut text);
        encode_static(block, b"grpc-message", &text);
    }
    if let Some(load) = &end.load {
        encode_static(block, b"endpoint-load-metrics-bin", STANDARD_NO_PAD.encode(load).as_bytes());
    }
    if let Some(echo) = echo {
        encode_static(block, ECHO_TRAILING.as_bytes(), echo);
    }
}
