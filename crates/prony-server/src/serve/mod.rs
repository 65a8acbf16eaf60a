//! The target server: an HTTP/1.0, 1.1 and 2 server with a configurable behavior, which counts what
//! it does. HTTP/2 is recognized by its preface.
//!
//! Paths: `/bytes/N` (a body of N bytes), `/status/N` (that status), `/delay/T` (a service time of
//! T instead of the configured one), `/redirect/N` (N redirects, one after another), `/echo`
//! (returns the request's body); all others get the default reply. Pipelined requests are served
//! concurrently and answered in order.
//!
//! With `ServerBehavior::grpc` it answers calls of gRPC too.

mod answer;
mod behavior;
mod broadcast;
mod budget;
mod cast;
mod conn;
mod drive;
mod events;
mod grpc;
mod h2;
mod model;
mod out;
mod reply;
mod request;
mod send;
mod served;
mod socket;
mod station;
#[cfg(test)]
mod tests;
mod timers;
mod work;
mod ws;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_base::http2::PREFACE;
use prony_base::machine::{Action, CloseHow};
use prony_base::rng::{self, Stream};
use prony_base::units::{ConnId, Nanos, Span};
use prony_base::websocket::Deflater;

pub use behavior::{
    BehaviorError, BroadcastFaults, Change, CloseAfter, EventBehavior, Latency, ServerBehavior,
    Share, SocketBehavior, Stall, Stalls, StatusMix,
};
pub use budget::{CONNECTION_BUDGET, SERVER_BUDGET};
pub use grpc::DESCRIPTORS;
pub use request::HEAD_LIMIT;
pub use served::Served;

use crate::slots::Slots;
use answer::Answer;
use behavior::Draw;
use cast::Cast;
use conn::{Conn, Incoming};
use out::Out;
use reply::{After, Connection, Content, PIECE, Reply};
use request::{Event, Head, NOT_HTTP, Reader, Refusal, Route};
use station::{Station, Ticket};
use work::MESSAGE_WORK;

/// How long the server waits for a client to close if it was still sending when the server had sent
/// its last reply.
const LINGER: Span = Span::from_secs(1);

/// How many unused buffers of each kind are kept, and up to which capacity.
const BUFFERS: usize = 256;
const KEPT: usize = 128 << 10;

/// The target server.
#[derive(Debug)]
pub struct Serve {
    behavior: ServerBehavior,
    seed: u64,
    served: Served,
    arrivals: Option<Vec<Nanos>>,
    conns: Vec<Conn>,
    /// Free slots of `conns`.
    slots: Slots,
    station: Station,
    /// Timers of idle and lingering connections.
    timers: BinaryHeap<Reverse<(Nanos, ConnId)>>,
    /// The end of the freeze that was in effect at the latest call.
    held: Option<Nanos>,
    actions: VecDeque<Action>,
    /// Copies of the constant reply, each `plain_len` bytes. Empty if the replies are not constant.
    plain: Vec<u8>,
    plain_len: usize,
    /// The latest head that got the constant reply: an equal head needs no parsing.
    plain_head: Vec<u8>,
    /// The latest head of a reply of HTTP/2.
    h2_head: h2::HeadCache,
    call_blocks: h2::CallBlocks,
    /// The load that clients of gRPC have asked this server to report.
    load: Vec<u8>,
    /// When connections of HTTP/2 may send (`settings_delay`), and must have acknowledged that.
    alarms: BinaryHeap<Reverse<(Nanos, ConnId, h2::Alarm)>>,
    /// Connections of HTTP/2 that have something to send, when the freeze is over.
    frozen: Vec<ConnId>,
    /// When connections of WebSocket (on a stream, or 0) get the next message that is pushed.
    pushes: BinaryHeap<Reverse<(Nanos, ConnId, u32)>>,
    /// Messages of WebSocket that are to be sent to all others.
    casts: VecDeque<Cast>,
    /// The cost of those messages in bytes, whether their deliveries go on after the sockets were
    /// checked, and the publishers that wait for that.
    cast_bytes: usize,
    is_casting: bool,
    cast_waiters: Vec<ConnId>,
    deflater: Option<Box<Deflater>>,
    /// What all connections use of the server's budget, in bytes.
    used: usize,
    /// Roughly how many bytes of messages were read, written and compressed since the driver
    /// called.
    work: usize,
    /// Connections that are read again after the sockets were checked.
    waking: VecDeque<ConnId>,
    /// Unused buffers, to be reused.
    outs: Vec<Out>,
    stashes: Vec<Vec<u8>>,
}

impl Serve {
    /// A server with this behavior. Request k, in order of arrival, draws by `seed` and k alone.
    pub fn new(behavior: ServerBehavior, seed: u64) -> Self {
        let mut serve = Self {
            seed,
            served: Served::default(),
            arrivals: None,
            conns: Vec::new(),
            slots: Slots::default(),
            station: Station::new(behavior.workers, behavior.stalls.clone()),
            timers: BinaryHeap::new(),
            held: None,
            actions: VecDeque::new(),
            plain: Vec::new(),
            plain_len: 0,
            plain_head: Vec::new(),
            h2_head: h2::HeadCache::default(),
            call_blocks: h2::CallBlocks::default(),
            load: Vec::new(),
            alarms: BinaryHeap::new(),
            frozen: Vec::new(),
            pushes: BinaryHeap::new(),
            casts: VecDeque::new(),
            cast_bytes: 0,
            is_casting: false,
            cast_waiters: Vec::new(),
            deflater: None,
            used: 0,
            work: 0,
            waking: VecDeque::new(),
            outs: Vec::new(),
            stashes: Vec::new(),
            behavior,
        };
        serve.build_plain();
        serve
    }

    /// The counters so far.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Record the arrival time of every request from now on.
    pub fn record_arrivals(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// The times recorded after `record_arrivals`, ascending: when the read with the request's last
    /// byte returned.
    pub fn arrivals(&self) -> &[Nanos] {
        self.arrivals.as_deref().unwrap_or_default()
    }

    /// If every default request gets the same reply at once, prepare copies of that reply.
    fn build_plain(&mut self) {
        let behavior = &self.behavior;
        let (Some(status), true) = (behavior.statuses.only(), behavior.size <= PIECE as u64) else {
            return;
        };
        let is_plain = behavior.latency == Latency::None
            && behavior.stalls.is_empty()
            && behavior.workers.is_none()
            && behavior.reset == Share::NEVER
            && behavior.truncate == Share::NEVER
            && behavior.close_after.is_none()
            && behavior.sse.is_none()
            && behavior.ws.is_none();
        if !is_plain {
            return;
        }
        let reply = Reply {
            status,
            content: Content::Pattern(behavior.size),
            is_head: false,
            chunked: behavior.chunked,
            connection: Connection::None,
            cut: false,
            after: After::Open,
        };
        let rest = reply.start(&mut self.plain);
        debug_assert!(rest.is_none(), "a plain body is one piece");
        self.plain_len = self.plain.len();
        for _ in 1..(4 * PIECE / self.plain_len).max(1) {
            self.plain.extend_from_within(..self.plain_len);
        }
    }

    fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id.slot as usize).filter(|c| c.is(id))
    }

    /// Ask the driver to fetch the connection's output, unless it was already asked.
    fn request_transmit(&mut self, id: ConnId) {
        let c = &mut self.conns[id.slot as usize];
        if !(c.transmit_requested || c.blocked) && c.has_ready() {
            if let (Some(session), true) = (&mut c.h2, self.held.is_some()) {
                if !std::mem::replace(&mut session.waits_for_thaw, true) {
                    self.frozen.push(id);
                }
                return;
            }
            c.transmit_requested = true;
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// Read requests from `data`; return the number of bytes consumed.
    fn read(&mut self, id: ConnId, data: &[u8], now: Nanos) -> usize {
        let mut used = 0;
        if self.conns[id.slot as usize].is_new {
            match h2::Opening::of(data) {
                h2::Opening::Unknown => return 0,
                h2::Opening::Http1 => {}
                h2::Opening::Http2 => {
                    used = PREFACE.len();
                    self.start_h2(id, now);
                }
            }
            self.conns[id.slot as usize].is_new = false;
        }
        let c = &self.conns[id.slot as usize];
        if c.h2.is_some() && c.reads {
            return used + self.read_h2(id, &data[used..], now);
        }
        loop {
            let c = &mut self.conns[id.slot as usize];
            if !c.reads {
                c.surplus |= used < data.len();
                return data.len();
            }
            if c.ws.is_some() {
                return used + self.read_socket(id, &data[used..], now);
            }
            let rest = &data[used..];
            if self.plain_len > 0
                && c.reader.is_between()
                && !self.plain_head.is_empty()
                && rest.starts_with(&self.plain_head)
                && !self.slots.is_stopping()
            {
                used += self.plain_head.len();
                c.reader = Reader::default();
                self.plain_request(id, now);
                continue;
            }
            let (n, event) = c.reader.next(rest, self.behavior.max_body);
            used += n;
            match event {
                Event::More => return used,
                Event::Head(head) => self.take_head(id, head, &rest[..n], now),
                Event::Body(piece) => {
                    if let Some(Incoming { echo: Some(echo), .. }) = &mut c.incoming {
                        echo.extend_from_slice(piece);
                    }
                }
                Event::End => {
                    let incoming = c.incoming.take().expect("a body has a head");
                    self.request(id, incoming.head, incoming.echo.unwrap_or_default(), now);
                }
                Event::Refused(refusal) => self.refuse(id, refusal, now),
            }
        }
    }

    /// The head of a request is complete.
    fn take_head(&mut self, id: ConnId, head: Head, bytes: &[u8], now: Nanos) {
        if self.plain_len > 0 && self.is_plain(&head) {
            self.plain_head.clear();
            self.plain_head.extend_from_slice(bytes);
            return self.plain_request(id, now);
        }
        if self.behavior.ws.is_some() && self.upgrades(id, head, bytes, now) {
            return;
        }
        if head.wants_continue {
            self.send_continue(id, now);
        }
        if head.has_body {
            let echo = self.keeps_body(&head).then(Vec::new);
            self.conns[id.slot as usize].incoming = Some(Incoming { head, echo });
        } else {
            self.request(id, head, Vec::new(), now);
        }
    }

    fn is_plain(&self, head: &Head) -> bool {
        head.route == Route::Default
            && !(head.is_head || head.is_http10 || head.has_body || self.slots.is_stopping())
            && head.keep_open
    }

    fn count_request(&mut self, now: Nanos) {
        self.served.requests += 1;
        self.served.outstanding += 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.push(now);
        }
    }

    fn plain_request(&mut self, id: ConnId, now: Nanos) {
        self.count_request(now);
        self.served.in_server_max = self.served.in_server_max.max(1);
        self.conns[id.slot as usize].push_plain();
    }

    /// Handle a complete request: decide its reply and start its service.
    fn request(&mut self, id: ConnId, head: Head, body: Vec<u8>, now: Nanos) {
        let number = self.served.requests;
        self.count_request(now);
        self.work += MESSAGE_WORK;
        let (answer, work) = self.decide(id, number, head, body, now);
        let c = &mut self.conns[id.slot as usize];
        c.reads = answer.keeps_open();
        let ticket = Ticket { id, entry: c.push(answer) };
        if self.enter(ticket, work, now) {
            self.ready(ticket, now, now);
        }
    }

    /// Start the service of a request. Return whether it is done at once.
    fn enter(&mut self, ticket: Ticket, work: Span, now: Nanos) -> bool {
        let at_once = self.station.arrive(now, ticket, work);
        let inside = self.station.inside() + u64::from(at_once);
        self.served.in_server_max = self.served.in_server_max.max(inside);
        self.served.frozen = self.station.frozen();
        at_once
    }

    fn decide(
        &mut self,
        id: ConnId,
        number: u64,
        head: Head,
        body: Vec<u8>,
        now: Nanos,
    ) -> (Answer, Span) {
        let behavior = &self.behavior;
        let draw = |what| rng::keyed(self.seed, Stream::Serve, number, what as u64);
        let (is_streamed, is_past_end) = self.streams(&head, number);
        let prompt = if is_streamed { Self::prompt(&head, &body) } else { Ok(None) };
        let work = match head.route {
            Route::Delay(t) => t,
            _ if is_streamed => self.event_time(number, 0, now),
            _ => self.service_time(number, 0, now),
        };
        let c = &mut self.conns[id.slot as usize];
        c.requests += 1;
        if behavior.reset.hits(draw(Draw::Reset)) {
            return (Answer::Reset, work);
        }
        let (status, content) = match head.route {
            Route::Default if is_past_end => (204, Content::Text("")),
            Route::Default | Route::Delay(_) | Route::Model(_) => {
                (behavior.statuses.draw(draw(Draw::Status)), Content::Pattern(behavior.size))
            }
            Route::Bytes(n) => (200, Content::Pattern(n)),
            Route::Status(status) => (status, Content::Pattern(behavior.size)),
            Route::Redirect(left) => (302, Content::Redirect(left)),
            Route::Echo => (200, Content::Echo(body)),
            Route::NotFound => (404, Content::Text("no such number\n")),
        };
        let (prompt, status, content) = match prompt {
            Ok(prompt) => (prompt, status, content),
            Err(why) => (None, 400, Content::Text(why)),
        };
        let cut = behavior.truncate.hits(draw(Draw::Truncate));
        let limit = behavior.close_after.filter(|limit| c.requests >= limit.requests);
        let says_close =
            !head.keep_open || self.slots.is_stopping() || limit.is_some_and(|limit| !limit.silent);
        let reply = Reply {
            status,
            content,
            is_head: head.is_head,
            chunked: behavior.chunked && !head.is_http10,
            connection: match (says_close, head.is_http10) {
                (true, _) => Connection::Close,
                (false, true) => Connection::KeepAlive,
                (false, false) => Connection::None,
            },
            cut,
            after: if says_close || cut || limit.is_some() { After::Close } else { After::Open },
        };
        match self.events(&head, number, prompt, &reply) {
            Some(events) => (Answer::Events(events), work),
            None => (Answer::Reply(reply), work),
        }
    }

    /// The time of service `k` of a request: a call of gRPC may have several.
    #[inline]
    fn service_time(&self, number: u64, k: u64, now: Nanos) -> Span {
        if matches!(self.behavior.latency, Latency::None) {
            return Span::ZERO;
        }
        let draw = |what| rng::keyed(self.seed, Stream::Serve, number, k << 8 | what as u64);
        let work = self.behavior.latency.draw(draw(Draw::Latency), draw(Draw::Latency2));
        match self.behavior.factor(self.station.since_first(now)) {
            1.0 => work,
            factor => Span::from_secs_f64(work.as_secs_f64() * factor),
        }
    }

    fn refuse(&mut self, id: ConnId, refusal: Refusal, now: Nanos) {
        self.served.bad_requests += 1;
        self.served.outstanding += 1;
        let reply = Reply {
            status: refusal.status,
            content: Content::Text(refusal.why),
            is_head: false,
            chunked: false,
            connection: Connection::Close,
            cut: false,
            after: After::Linger,
        };
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        c.incoming = None;
        let is_http = refusal != NOT_HTTP;
        self.pass(id, if is_http { Answer::Reply(reply) } else { Answer::Close }, now);
    }

    /// Answer `Expect: 100-continue`, after all earlier replies of the connection.
    fn send_continue(&mut self, id: ConnId, now: Nanos) {
        self.pass(id, Answer::Continue, now);
    }

    fn pass(&mut self, id: ConnId, answer: Answer, now: Nanos) {
        let ticket = Ticket { id, entry: self.conns[id.slot as usize].push(answer) };
        if self.station.pass(now, ticket, Span::ZERO) {
            self.ready(ticket, now, now);
        }
    }

    /// The service of a request was done at `at`: that of one of its events, if it has some.
    fn ready(&mut self, ticket: Ticket, at: Nanos, now: Nanos) {
        if self.behavior.sse.is_some() {
            self.event_is_due(ticket, at, now);
        }
        if let Some(c) = self.conn(ticket.id) {
            c.ready(ticket.entry);
        }
    }

    /// Answer the requests that are done by `now`, unless the server is frozen. If there are many,
    /// some are left for the next call.
    fn advance(&mut self, now: Nanos) {
        self.held = self.station.frozen_until(now);
        if self.held.is_some() {
            return;
        }
        let conns = &self.conns;
        if self.station.is_full() {
            self.station.sweep(|ticket| conns[ticket.id.slot as usize].wants(ticket));
        }
        for _ in 0..work::STEPS {
            let conns = &self.conns;
            let is_wanted = |ticket: Ticket| conns[ticket.id.slot as usize].wants(ticket);
            let Some((ticket, at)) = self.station.pop_done(now, is_wanted) else {
                break;
            };
            self.ready(ticket, at, now);
            self.resume_calls(ticket.id, now);
            if self.conn(ticket.id).is_some() {
                self.request_transmit(ticket.id);
            }
        }
        self.served.frozen = self.station.frozen();
        self.thaw();
    }

    /// Close a connection and count its unanswered requests.
    fn close(&mut self, id: ConnId, how: CloseHow) {
        let c = &mut self.conns[id.slot as usize];
        let left = u64::from(c.outstanding);
        self.served.unanswered += left;
        self.served.outstanding -= left;
        self.served.open -= 1;
        self.used -= c.charged;
        let (out, stash) = c.close();
        self.keep_out(out);
        self.keep_stash(stash);
        self.actions.push_back(Action::Close { id, how });
        self.slots.give(id.slot, &mut self.actions);
    }

    fn keep_out(&mut self, out: Option<Out>) {
        if let Some(mut out) = out.filter(|out| out.capacity() <= KEPT)
            && self.outs.len() < BUFFERS
        {
            out.clear();
            self.outs.push(out);
        }
    }

    fn keep_stash(&mut self, mut stash: Vec<u8>) {
        if stash.capacity() > 0 && stash.capacity() <= KEPT && self.stashes.len() < BUFFERS {
            stash.clear();
            self.stashes.push(stash);
        }
    }
}
