//! What a client sends: frames, and the requests in them.

use prony_base::http2::control::Control;
use prony_base::http2::frame::{self, Code, HEADER, flag, kind};
use prony_base::http2::hpack::HpackError;
use prony_base::http2::{FRAME_SIZE, STREAM_MAX, WINDOW};
use prony_base::rng::Stream as Draws;
use prony_base::units::{ConnId, Nanos};

use super::super::Serve;
use super::super::answer::Answer;
use super::super::grpc::CallHead;
use super::super::reply::{After, Connection, Content, Reply};
use super::super::request::{HEAD_LIMIT, Head, Refusal, Route};
use super::super::station::Ticket;
use super::super::{Draw, rng};
use super::fields::{Fields, SocketHead, Wrong, refused};
use super::streams::{Incoming, Past, Progress, Stream};
use super::{Block, Session, Violation};

/// How many CONTINUATION frames a header block may have.
const CONTINUATIONS: u32 = 64;

/// How many resets may wait for a client that does not read, before more of them count as useless.
const WAITING_RESETS: usize = 10_000;

/// A connection error of type PROTOCOL_ERROR.
pub(super) fn protocol<T>(why: &'static str) -> Result<T, Violation> {
    Err(Violation::Connection(Code::PROTOCOL_ERROR, why))
}

impl Serve {
    /// Read frames from `data`; return the number of bytes consumed.
    pub(in super::super) fn read_h2(&mut self, id: ConnId, data: &[u8], now: Nanos) -> usize {
        let slot = id.slot as usize;
        let Some(mut session) = self.conns[slot].h2.take() else { return data.len() };
        let mut used = 0;
        while let Some(head) = frame::Head::read(&data[used..]) {
            let start = used + HEADER;
            let result = match data.get(start..start + head.length as usize) {
                _ if head.length > FRAME_SIZE => {
                    let why = "a frame over SETTINGS_MAX_FRAME_SIZE";
                    Err(Violation::Connection(Code::FRAME_SIZE_ERROR, why))
                }
                None => break,
                Some(payload) => {
                    used = start + payload.len();
                    self.frame(&mut session, id, head, payload, now)
                }
            };
            let result = match result {
                // An idle stream cannot be reset.
                Err(Violation::Stream(stream, code)) if session.is_idle_stream(stream) => {
                    Err(Violation::Connection(code, "a malformed frame on an idle stream"))
                }
                Err(Violation::Stream(stream, code)) => {
                    self.reset_stream(&mut session, id, stream, code);
                    session.calm(now)
                }
                other => other,
            };
            if let Err(Violation::Connection(code, why)) = result {
                self.served.violations += 1;
                self.served.cut_requests += session.incomplete();
                session.fail(code, why);
                self.conns[slot].reads = false;
                self.conns[slot].surplus |= used < data.len();
                used = data.len();
                break;
            }
        }
        session.moved += used;
        self.conns[slot].h2 = Some(session);
        used
    }

    fn frame(
        &mut self,
        session: &mut Session,
        id: ConnId,
        head: frame::Head,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        if !session.has_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return protocol("the first frame is not SETTINGS");
        }
        let continued = session.block.stream;
        if continued != 0 && (head.kind, head.stream) != (kind::CONTINUATION, continued) {
            return protocol("a header block is incomplete");
        }
        match head.kind {
            kind::DATA => self.data(session, id, head, payload, now),
            kind::HEADERS => self.headers(session, id, head, payload, now),
            kind::CONTINUATION => self.continuation(session, id, head, payload, now),
            kind::PUSH_PROMISE => protocol("PUSH_PROMISE from a client"),
            _ => match Control::read(head, payload) {
                Ok(Control::Reset(_)) => self.rst_stream(session, id, head.stream, now),
                Ok(control) => session.control(head.stream, control, now),
                Err(wrong) if wrong.is_of_stream => Err(Violation::Stream(head.stream, wrong.code)),
                Err(wrong) => Err(Violation::Connection(wrong.code, wrong.why)),
            },
        }
    }

    fn headers(
        &mut self,
        session: &mut Session,
        id: ConnId,
        head: frame::Head,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        if head.stream.is_multiple_of(2) {
            return protocol("HEADERS on a stream that no client opens");
        }
        let Some(bytes) = frame::unpadded(head, payload) else {
            return protocol("HEADERS with more padding than payload");
        };
        let dependency = payload.get(usize::from(head.has(flag::PADDED))..);
        let depends_on_itself =
            head.has(flag::PRIORITY) && dependency.and_then(stream_id) == Some(head.stream);
        let mut block = Block {
            stream: head.stream,
            flags: head.flags,
            depends_on_itself,
            bytes: Vec::new(),
            frames: 0,
        };
        if head.has(flag::END_HEADERS) {
            return self.block(session, id, &block, bytes, now);
        }
        block.bytes.extend_from_slice(bytes);
        session.block = block;
        Ok(())
    }

    fn continuation(
        &mut self,
        session: &mut Session,
        id: ConnId,
        head: frame::Head,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        let block = &mut session.block;
        if block.stream == 0 {
            return protocol("CONTINUATION without HEADERS");
        }
        block.frames += 1;
        if block.frames > CONTINUATIONS || block.bytes.len() + payload.len() > HEAD_LIMIT {
            let why = "a header block of too many bytes or frames";
            return Err(Violation::Connection(Code::ENHANCE_YOUR_CALM, why));
        }
        block.bytes.extend_from_slice(payload);
        if !head.has(flag::END_HEADERS) {
            return Ok(());
        }
        let block = std::mem::take(&mut session.block);
        self.block(session, id, &block, &block.bytes, now)
    }

    /// Handle a complete header block.
    fn block(
        &mut self,
        session: &mut Session,
        id: ConnId,
        block: &Block,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        if session.streams.contains(block.stream) {
            return self.trailers(session, id, block, bytes, now);
        }
        let is_new = match session.recent.past(block.stream) {
            Past::Idle => true,
            // Sent before the client knew of the reset.
            Past::Reset => false,
            Past::Skipped => return protocol("a lower stream than before"),
            Past::Closed => {
                let why = "HEADERS on a closed stream";
                return Err(Violation::Connection(Code::STREAM_CLOSED, why));
            }
        };
        let ends = block.flags & flag::END_STREAM != 0;
        let serves = (self.behavior.grpc, self.behavior.ws.is_some());
        let request = session.request(bytes, !ends, self.behavior.max_body, serves)?;
        if !is_new {
            return session.calm(now);
        }
        session.recent.open(block.stream);
        if block.stream > session.accepts_to {
            self.served.ignored += 1;
            return Ok(());
        }
        let number = self.served.streams;
        self.served.streams += 1;
        let draw = rng::keyed(self.seed, Draws::Serve, number, Draw::Refuse as u64);
        let is_too_many = session.streams.len() >= self.behavior.max_streams as usize;
        if is_too_many || self.behavior.refuse.hits(draw) {
            self.served.refused += 1;
            session.reset(block.stream, Code::REFUSED_STREAM);
            // A refusal that was asked for is no fault of the client, if it reads it.
            let reads = session.owed.resets.len() <= WAITING_RESETS;
            return if is_too_many || !reads { session.calm(now) } else { Ok(()) };
        }
        session.accepted += 1;
        if self.behavior.goaway_after.is_some_and(|n| u64::from(n.get()) == session.accepted) {
            session.owed.goaways.push((STREAM_MAX, Code::NO_ERROR, ""));
            session.owed.goaway_ping = true;
        }
        if block.depends_on_itself || matches!(request, Err(Wrong::Malformed)) {
            self.served.malformed += 1;
            session.reset(block.stream, Code::PROTOCOL_ERROR);
            return session.calm(now);
        }
        self.open_stream(session, id, (block.stream, ends), request, now);
        Ok(())
    }

    /// Add a stream, and serve or refuse its request if that is complete.
    fn open_stream(
        &mut self,
        session: &mut Session,
        id: ConnId,
        (number, ends): (u32, bool),
        request: Result<Asked, Wrong>,
        now: Nanos,
    ) {
        let recv_window = if session.is_acknowledged { session.window } else { WINDOW };
        let (send, recv) = (i64::from(session.peer.window), i64::from(recv_window));
        let stream = session.streams.insert(Stream::new(number, send, recv));
        match request {
            Ok(Asked { call: Some(call), .. }) => {
                self.open_call(session, id, number, call, now);
                self.call_data(session, id, number, (&[], ends), now);
            }
            Ok(Asked { socket: Some(head), .. }) => {
                self.open_socket(session, id, number, &head, now);
            }
            Ok(Asked { head, length: None | Some(0), .. }) if ends => {
                self.stream_request(session, id, number, head, Vec::new(), now);
            }
            Ok(Asked { head, length, .. }) => {
                stream.owes_continue = head.wants_continue;
                let echo = self.keeps_body(&head).then(Vec::new);
                stream.incoming = Some(Incoming { head, length, received: 0, echo });
                if head.wants_continue {
                    session.queue(number);
                }
            }
            Err(Wrong::Refused(refusal)) => {
                // What comes of the body is discarded.
                stream.incoming = (!ends).then(Incoming::discarded);
                self.refuse_stream(session, id, number, refusal);
            }
            Err(Wrong::Malformed) => {}
        }
    }

    /// A header block on an open stream: trailers, which end the request.
    fn trailers(
        &mut self,
        session: &mut Session,
        id: ConnId,
        block: &Block,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        let mut fields = Fields::default();
        let decoded = session
            .decoder
            .decode(bytes, HEAD_LIMIT, |name, value| fields.take_trailer(name, value));
        if decoded == Err(HpackError::Invalid) {
            return compression();
        }
        let is_open = session.streams.get_mut(block.stream).is_some_and(|open| open.receives());
        let ends = block.flags & flag::END_STREAM != 0;
        if !is_open {
            return Err(Violation::Stream(block.stream, Code::STREAM_CLOSED));
        }
        if !ends || fields.is_malformed() || decoded.is_err() || block.depends_on_itself {
            return Err(Violation::Stream(block.stream, Code::PROTOCOL_ERROR));
        }
        self.end_body(session, id, block.stream, now)
    }

    fn data(
        &mut self,
        session: &mut Session,
        id: ConnId,
        head: frame::Head,
        payload: &[u8],
        now: Nanos,
    ) -> Result<(), Violation> {
        let Some(bytes) = frame::unpadded(head, payload) else {
            return protocol("DATA with more padding than payload");
        };
        session.take_window(head.length)?;
        let ends = head.has(flag::END_STREAM);
        if bytes.is_empty() && !ends {
            session.calm(now)?;
        }
        let Some(stream) = session.streams.get_mut(head.stream) else {
            return match session.recent.past(head.stream) {
                Past::Idle | Past::Skipped => protocol("DATA on a stream that is not open"),
                Past::Closed => Err(Violation::Stream(head.stream, Code::STREAM_CLOSED)),
                Past::Reset => session.calm(now),
            };
        };
        if !stream.receives() {
            return Err(Violation::Stream(head.stream, Code::STREAM_CLOSED));
        }
        stream.recv_window -= i64::from(head.length);
        if stream.recv_window < 0 {
            return Err(Violation::Stream(head.stream, Code::FLOW_CONTROL_ERROR));
        }
        let half = session.window / 2;
        let Some(incoming) = &mut stream.incoming else {
            if !matches!(stream.reply, Progress::Socket(_)) {
                stream.recv_used += head.length;
                self.call_data(session, id, head.stream, (bytes, ends), now);
                return Ok(());
            }
            stream.recv_used += head.length;
            self.socket_data(session, id, head.stream, (bytes, ends), now);
            session.refill_socket(head.stream);
            return Ok(());
        };
        incoming.received += bytes.len() as u64;
        if incoming.length.is_some_and(|length| incoming.received > length) {
            return Err(Violation::Stream(head.stream, Code::PROTOCOL_ERROR));
        }
        if incoming.received > self.behavior.max_body {
            let refusal = Refusal { status: 413, why: "body over the limit\n" };
            self.refuse_stream(session, id, head.stream, refusal);
            return Ok(());
        }
        if let Some(echo) = &mut incoming.echo {
            echo.extend_from_slice(bytes);
        }
        if ends {
            return self.end_body(session, id, head.stream, now);
        }
        if stream.give_back(head.length, half) {
            session.owed.windows.push(head.stream);
        }
        Ok(())
    }

    /// The body of a request is complete.
    fn end_body(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        now: Nanos,
    ) -> Result<(), Violation> {
        let Some(open) = session.streams.get_mut(stream) else { return Ok(()) };
        let Some(incoming) = open.incoming.take() else {
            self.call_data(session, id, stream, (&[], true), now);
            self.socket_data(session, id, stream, (&[], true), now);
            return Ok(());
        };
        if incoming.length.is_some_and(|length| incoming.received != length) {
            open.incoming = Some(incoming);
            return Err(Violation::Stream(stream, Code::PROTOCOL_ERROR));
        }
        let body = incoming.echo.unwrap_or_default();
        if matches!(open.reply, Progress::None) {
            self.stream_request(session, id, stream, incoming.head, body, now);
        }
        Ok(())
    }

    fn rst_stream(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        now: Nanos,
    ) -> Result<(), Violation> {
        if !session.streams.contains(stream) {
            return match session.recent.past(stream) {
                Past::Idle => protocol("RST_STREAM on an idle stream"),
                Past::Skipped | Past::Closed | Past::Reset => session.calm(now),
            };
        }
        self.drop_stream(session, id, stream);
        session.calm(now)
    }

    /// Reset a stream because of a violation of the protocol.
    fn reset_stream(&mut self, session: &mut Session, id: ConnId, stream: u32, code: Code) {
        if self.drop_stream(session, id, stream) {
            self.served.malformed += 1;
            self.served.cut_requests -= 1;
        }
        session.reset(stream, code);
    }

    /// Forget a stream that ends before its reply. Return whether its request was incomplete.
    fn drop_stream(&mut self, session: &mut Session, id: ConnId, stream: u32) -> bool {
        let Some(stream) = session.streams.remove(stream) else { return false };
        if stream.reply.is_outstanding() {
            self.conns[id.slot as usize].outstanding -= 1;
            self.served.outstanding -= 1;
            self.served.cancelled += 1;
        }
        let was_incomplete = stream.incoming.is_some();
        self.served.cut_requests += u64::from(was_incomplete);
        was_incomplete
    }

    /// Handle a complete request, like `Serve::request`.
    fn stream_request(
        &mut self,
        session: &mut Session,
        id: ConnId,
        stream: u32,
        head: Head,
        body: Vec<u8>,
        now: Nanos,
    ) {
        let number = self.served.requests;
        self.count_request(now);
        self.served.h2_requests += 1;
        let (mut answer, work) = self.decide(id, number, head, body, now);
        let c = &mut self.conns[id.slot as usize];
        c.outstanding += 1;
        self.leave_after(session, id);
        let draw = rng::keyed(self.seed, Draws::Serve, number, Draw::Rst as u64);
        if matches!(answer, Answer::Reply(_) | Answer::Events(_)) && self.behavior.rst.hits(draw) {
            answer = Answer::StreamReset;
        }
        if let Some(open) = session.streams.get_mut(stream) {
            open.reply = match answer {
                Answer::Events(events) => Progress::Events(events),
                answer => Progress::InService(answer),
            };
        }
        if session.events(u64::from(stream)).is_some() {
            // Its head does not wait for the first event.
            session.queue(stream);
        }
        let ticket = Ticket { id, entry: u64::from(stream) };
        if self.enter(ticket, work, now) {
            let is_stopping = self.slots.is_stopping();
            let events = session.events(ticket.entry);
            let next = events.and_then(|events| events.is_due(is_stopping, now));
            self.follow_event(next, ticket, now, now);
            session.ready(u64::from(stream));
        }
    }

    /// Close a connection that has had its last request.
    pub(super) fn leave_after(&self, session: &mut Session, id: ConnId) {
        let requests = self.conns[id.slot as usize].requests;
        if let Some(limit) = self.behavior.close_after.filter(|limit| requests >= limit.requests) {
            if limit.silent {
                session.leave_silently();
            } else {
                session.leave();
            }
        }
    }

    /// Answer a request that is not served.
    fn refuse_stream(&mut self, session: &mut Session, id: ConnId, stream: u32, refusal: Refusal) {
        let Some(open) = session.streams.get_mut(stream) else { return };
        if !matches!(open.reply, Progress::None) {
            return;
        }
        self.served.bad_requests += 1;
        self.served.outstanding += 1;
        self.conns[id.slot as usize].outstanding += 1;
        open.reply = Progress::Ready(Answer::Reply(Reply {
            status: refusal.status,
            content: Content::Text(refusal.why),
            is_head: false,
            chunked: false,
            connection: Connection::None,
            cut: false,
            after: After::Open,
        }));
        session.queue(stream);
    }
}

impl Session {
    /// What a header block asks for.
    fn request(
        &mut self,
        block: &[u8],
        has_body: bool,
        max_body: u64,
        (serves_calls, serves_sockets): (bool, bool),
    ) -> Result<Result<Asked, Wrong>, Violation> {
        let before = self.decoder.state();
        if let Some((head, length)) = self.memo.request
            && (self.memo.state, self.memo.has_body) == (before, has_body)
            && self.memo.block == block
        {
            return Ok(Ok(Asked { head, length, call: self.memo.call.clone(), socket: None }));
        }
        let mut fields = Fields::new(serves_calls, serves_sockets);
        let decoded =
            self.decoder.decode(block, HEAD_LIMIT, |name, value| fields.take(name, value));
        match decoded {
            Err(HpackError::Invalid) => return compression(),
            Err(HpackError::TooLarge) => return Ok(Err(refused(431, "headers over 64 KiB\n"))),
            Ok(()) => {}
        }
        let (call, socket) = (fields.take_call(), fields.take_socket(has_body));
        let asked = fields.finish(has_body, max_body).and_then(|(head, length)| {
            let (call, socket) = (call?, socket?);
            Ok(Asked { head, length, call, socket })
        });
        if let (Ok(asked @ Asked { socket: None, .. }), true) =
            (&asked, self.decoder.state() == before)
        {
            self.memo.block.clear();
            self.memo.block.extend_from_slice(block);
            (self.memo.state, self.memo.has_body) = (before, has_body);
            self.memo.request = Some((asked.head, asked.length));
            self.memo.call.clone_from(&asked.call);
        }
        Ok(asked)
    }
}

/// What a header block asks for.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    head: Head,
    /// The length of the body as announced.
    length: Option<u64>,
    /// What it says of a call of gRPC, if it is one.
    call: Option<Box<CallHead>>,
    /// What it says of a connection of WebSocket, if it asks for one.
    socket: Option<Box<SocketHead>>,
}

impl Incoming {
    /// The body of a request that is refused.
    fn discarded() -> Self {
        let head = Head {
            route: Route::Default,
            is_head: false,
            is_http10: false,
            keep_open: true,
            wants_continue: false,
            has_body: true,
            last_event: None,
        };
        Self { head, length: None, received: 0, echo: None }
    }
}

impl Stream {
    /// Count received bytes that can be given back; return whether to do that now.
    fn give_back(&mut self, length: u32, half: u32) -> bool {
        let before = self.recv_used;
        self.recv_used += length;
        before <= half && self.recv_used > half
    }
}

fn compression<T>() -> Result<T, Violation> {
    let why = "a header block that cannot be decoded";
    Err(Violation::Connection(Code::COMPRESSION_ERROR, why))
}

/// The stream ID at the start of `bytes`.
fn stream_id(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?) & STREAM_MAX)
}
