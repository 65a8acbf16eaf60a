//! The target server: an HTTP/1.0 and 1.1 server that does to requests what a law says, and counts
//! what it did.
//!
//! Paths: `/bytes/N` (a body of N bytes), `/status/N` (that status), `/delay/T` (served in T
//! instead of the law's time), `/echo` (the request's body comes back), anything else: as the law
//! says. Pipelined requests are served at the same time and answered in their order.

mod conn;
mod law;
mod reply;
mod request;
mod send;
mod served;
mod station;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use law::{Change, CloseAfter, Latency, LawError, ServeLaw, Share, Stall, Stalls, StatusMix};
pub use request::HEAD_LIMIT;
pub use served::Served;

use crate::fault::Fault;
use crate::machine::{Action, CloseHow, Machine, Slots, StopRequest};
use crate::rng::{self, Stream};
use crate::units::{ConnId, Nanos, Span};
use conn::{Answer, Conn, Incoming, Out};
use reply::{After, Connection, Content, PIECE, Reply};
use request::{Event, Head, Reader, Refusal, Route};
use station::{Station, Ticket};

/// How long the server waits for a client to close that was still sending when the server was done
/// with it.
const LINGER: Span = Span::from_secs(1);

/// The target server.
#[derive(Debug)]
pub struct Serve {
    law: ServeLaw,
    seed: u64,
    served: Served,
    arrivals: Option<Vec<Nanos>>,
    conns: Vec<Conn>,
    /// Slots of `conns` that nobody uses.
    slots: Slots,
    station: Station,
    /// Idle and lingering connections, by when to look at them.
    timers: BinaryHeap<Reverse<(Nanos, ConnId)>>,
    /// The end of the freeze in which the last call lay.
    held: Option<Nanos>,
    actions: VecDeque<Action>,
    /// Replies of the plain kind, one after another; each `plain_len` bytes. Empty where the law
    /// knows no such.
    plain: Vec<u8>,
    plain_len: usize,
    /// The last head that was answered by a plain reply: an equal one needs no parsing.
    plain_head: Vec<u8>,
    /// Buffers that no connection needs now.
    outs: Vec<Out>,
    stashes: Vec<Vec<u8>>,
}

/// What a request's random draws are for.
#[derive(Clone, Copy)]
enum Draw {
    Latency = 0,
    Latency2 = 1,
    Status = 2,
    Reset = 3,
    Truncate = 4,
}

impl Serve {
    /// A server under that law. Request k (in the order of arrival) draws by `seed` and k alone.
    pub fn new(law: ServeLaw, seed: u64) -> Self {
        let mut serve = Self {
            seed,
            served: Served::default(),
            arrivals: None,
            conns: Vec::new(),
            slots: Slots::default(),
            station: Station::new(law.workers, law.stalls.clone()),
            timers: BinaryHeap::new(),
            held: None,
            actions: VecDeque::new(),
            plain: Vec::new(),
            plain_len: 0,
            plain_head: Vec::new(),
            outs: Vec::new(),
            stashes: Vec::new(),
            law,
        };
        serve.build_plain();
        serve
    }

    /// The counters so far.
    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Keep the arrival time of every request from now on.
    pub fn record_arrivals(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// The times kept by `record_arrivals`, ascending: when the read that brought the request's
    /// last byte returned.
    pub fn arrivals(&self) -> &[Nanos] {
        self.arrivals.as_deref().unwrap_or_default()
    }

    /// Where the law answers every default request at once and alike, prepare these replies.
    fn build_plain(&mut self) {
        let law = &self.law;
        let (Some(status), true) = (law.statuses.only(), law.size <= PIECE as u64) else {
            return;
        };
        let is_plain = law.latency == Latency::None
            && law.stalls.is_empty()
            && law.workers.is_none()
            && law.reset == Share::NEVER
            && law.truncate == Share::NEVER
            && law.close_after.is_none();
        if !is_plain {
            return;
        }
        let reply = Reply {
            status,
            content: Content::Pattern(law.size),
            is_head: false,
            chunked: law.chunked,
            connection: Connection::Unsaid,
            cut: false,
            after: After::Open,
        };
        let rest = reply.begin(&mut self.plain);
        debug_assert!(rest.is_none(), "a plain body is one piece");
        self.plain_len = self.plain.len();
        for _ in 1..(4 * PIECE / self.plain_len).max(1) {
            self.plain.extend_from_within(..self.plain_len);
        }
    }

    fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id.slot as usize).filter(|c| c.is(id))
    }

    /// Ask the driver to fetch the connection's bytes, once.
    fn tell(&mut self, id: ConnId) {
        let c = &mut self.conns[id.slot as usize];
        if !(c.told || c.blocked) && c.has_ready() {
            c.told = true;
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// Read what has arrived; returns how much of it is used up.
    fn read(&mut self, id: ConnId, data: &[u8], now: Nanos) -> usize {
        let mut used = 0;
        loop {
            let c = &mut self.conns[id.slot as usize];
            if !c.reads {
                c.surplus |= used < data.len();
                return data.len();
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
            let (n, event) = c.reader.next(rest, self.law.max_body);
            used += n;
            match event {
                Event::More => return used,
                Event::Head(head) => {
                    if self.plain_len > 0 && self.is_plain(&head) {
                        self.plain_head.clear();
                        self.plain_head.extend_from_slice(&rest[..n]);
                        self.plain_request(id, now);
                        continue;
                    }
                    if head.wants_continue {
                        self.go_on(id, now);
                    }
                    if head.has_body {
                        let echo = (head.route == Route::Echo).then(Vec::new);
                        self.conns[id.slot as usize].incoming = Some(Incoming { head, echo });
                    } else {
                        self.request(id, head, Vec::new(), now);
                    }
                }
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

    /// A whole request is here: decide what becomes of it, and let it be served.
    fn request(&mut self, id: ConnId, head: Head, body: Vec<u8>, now: Nanos) {
        let number = self.served.requests;
        self.count_request(now);
        let (answer, work) = self.decide(id, number, head, body, now);
        let c = &mut self.conns[id.slot as usize];
        c.reads = answer.keeps_open();
        let ticket = Ticket { id, entry: c.push(answer) };
        let at_once = self.station.arrive(now, ticket, work);
        let inside = self.station.inside() + u64::from(at_once);
        self.served.in_server_max = self.served.in_server_max.max(inside);
        self.served.frozen = self.station.frozen();
        if at_once {
            self.ready(ticket);
        }
    }

    fn decide(
        &mut self,
        id: ConnId,
        number: u64,
        head: Head,
        body: Vec<u8>,
        now: Nanos,
    ) -> (Answer, Span) {
        let law = &self.law;
        let draw = |what| rng::keyed(self.seed, Stream::Serve, number, what as u64);
        let work = match head.route {
            Route::Delay(t) => t,
            _ => {
                let work = law.latency.draw(draw(Draw::Latency), draw(Draw::Latency2));
                match law.factor(self.station.since_first(now)) {
                    1.0 => work,
                    factor => Span::from_secs_f64(work.as_secs_f64() * factor),
                }
            }
        };
        let c = &mut self.conns[id.slot as usize];
        c.requests += 1;
        if law.reset.hits(draw(Draw::Reset)) {
            return (Answer::Reset, work);
        }
        let (status, content) = match head.route {
            Route::Default | Route::Delay(_) => {
                (law.statuses.draw(draw(Draw::Status)), Content::Pattern(law.size))
            }
            Route::Bytes(n) => (200, Content::Pattern(n)),
            Route::Status(status) => (status, Content::Pattern(law.size)),
            Route::Echo => (200, Content::Echo(body)),
            Route::NotFound => (404, Content::Text("no such number\n")),
        };
        let cut = law.truncate.hits(draw(Draw::Truncate));
        let limit = law.close_after.filter(|limit| c.requests >= limit.requests);
        let says_close =
            !head.keep_open || self.slots.is_stopping() || limit.is_some_and(|limit| !limit.silent);
        let reply = Reply {
            status,
            content,
            is_head: head.is_head,
            chunked: law.chunked && !head.is_http10,
            connection: match (says_close, head.is_http10) {
                (true, _) => Connection::Close,
                (false, true) => Connection::KeepAlive,
                (false, false) => Connection::Unsaid,
            },
            cut,
            after: if says_close || cut || limit.is_some() { After::Close } else { After::Open },
        };
        (Answer::Reply(reply), work)
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
        self.pass(id, Answer::Reply(reply), now);
    }

    /// Answer `Expect: 100-continue`, after all that is to be answered before.
    fn go_on(&mut self, id: ConnId, now: Nanos) {
        self.pass(id, Answer::Continue, now);
    }

    fn pass(&mut self, id: ConnId, answer: Answer, now: Nanos) {
        let ticket = Ticket { id, entry: self.conns[id.slot as usize].push(answer) };
        if self.station.pass(now, ticket) {
            self.ready(ticket);
        }
    }

    fn ready(&mut self, ticket: Ticket) {
        if let Some(c) = self.conn(ticket.id) {
            c.ready(ticket.entry);
        }
    }

    /// Answer what is done by `now`, unless the server is frozen.
    fn advance(&mut self, now: Nanos) {
        self.held = self.station.frozen_until(now);
        if self.held.is_some() {
            return;
        }
        loop {
            let conns = &self.conns;
            let is_wanted = |id: ConnId| conns[id.slot as usize].is(id);
            let Some(ticket) = self.station.pop_done(now, is_wanted) else {
                break;
            };
            self.ready(ticket);
            if self.conn(ticket.id).is_some() {
                self.tell(ticket.id);
            }
        }
        self.served.frozen = self.station.frozen();
    }

    /// Close the connections whose time has come.
    fn look_after(&mut self, now: Nanos) {
        while self.held.is_none()
            && let Some(&Reverse((at, id))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(c) = self.conn(id) else {
                continue;
            };
            c.armed = false;
            let (lingers, since) = (c.lingers, c.since);
            if !(lingers || c.is_idle()) {
                continue;
            }
            match self.patience(lingers) {
                Some(patience) if since + patience <= now => {
                    self.served.idle_closes += u64::from(!lingers);
                    self.end(id, CloseHow::Orderly);
                }
                _ => self.arm(id),
            }
        }
    }

    /// How long a connection may linger, or be idle.
    fn patience(&self, lingers: bool) -> Option<Span> {
        if lingers { Some(LINGER) } else { self.law.idle_close }
    }

    fn arm(&mut self, id: ConnId) {
        let c = &self.conns[id.slot as usize];
        let (since, lingers, armed) = (c.since, c.lingers, c.armed);
        if let (Some(patience), false) = (self.patience(lingers), armed) {
            self.conns[id.slot as usize].armed = true;
            self.timers.push(Reverse((since + patience, id)));
        }
    }

    /// Let go of a connection, and count what it leaves unanswered.
    fn end(&mut self, id: ConnId, how: CloseHow) {
        let c = &mut self.conns[id.slot as usize];
        let left = u64::from(c.outstanding);
        self.served.unanswered += left;
        self.served.outstanding -= left;
        self.served.open -= 1;
        let (out, stash) = c.end();
        if let Some(mut out) = out {
            out.clear();
            self.outs.push(out);
        }
        self.keep_stash(stash);
        self.actions.push_back(Action::Close { id, how });
        self.slots.give(id.slot, &mut self.actions);
    }

    fn keep_stash(&mut self, mut stash: Vec<u8>) {
        if stash.capacity() > 0 {
            stash.clear();
            self.stashes.push(stash);
        }
    }
}

impl Machine for Serve {
    fn on_connected(&mut self, id: ConnId, _now: Nanos) {
        debug_assert!(false, "a server connects to nobody, so not by {id:?}");
    }

    fn on_accepted(&mut self, _listener: u32, now: Nanos) -> Option<ConnId> {
        let slot = self.slots.take(&mut self.conns)?;
        let id = self.conns[slot as usize].open(slot, now);
        self.served.connections += 1;
        self.served.open += 1;
        self.served.open_max = self.served.open_max.max(self.served.open);
        self.settle(id, now);
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.advance(now);
        let Some(c) = self.conn(id) else {
            return;
        };
        let mut stash = std::mem::take(&mut c.stash);
        self.served.bytes_in += data.len() as u64;
        if stash.is_empty() {
            let used = self.read(id, data, now);
            if used < data.len() {
                if stash.capacity() == 0 {
                    stash = self.stashes.pop().unwrap_or_default();
                }
                stash.extend_from_slice(&data[used..]);
            }
        } else {
            stash.extend_from_slice(data);
            let used = self.read(id, &stash, now);
            stash.drain(..used);
        }
        if stash.is_empty() {
            self.keep_stash(stash);
        } else {
            self.conns[id.slot as usize].stash = stash;
        }
        self.tell(id);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.advance(now);
        let Some(c) = self.conn(id) else {
            return;
        };
        if c.is_inside_request() {
            self.served.cut_requests += 1;
        }
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        c.peer_done = true;
        if why.is_some() || c.lingers || c.is_answered() {
            self.end(id, CloseHow::Orderly);
        }
    }

    fn on_tick(&mut self, now: Nanos) {
        self.advance(now);
        self.look_after(now);
    }

    /// `Drain` closes idle connections and answers what is outstanding, each connection's last
    /// reply being its last; `Now` drops all.
    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.advance(now);
        self.slots.stop();
        for slot in 0..self.conns.len() {
            let c = &self.conns[slot];
            let Some(id) = c.id(slot as u32) else {
                continue;
            };
            if how == StopRequest::Now || (c.is_answered() && !c.is_inside_request()) {
                self.end(id, CloseHow::Orderly);
            }
        }
        self.slots.finish_if_done(&mut self.actions);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        self.send(id, now, send)
    }

    fn deadline(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let next = [self.station.deadline(), timer].into_iter().flatten().min()?;
        Some(self.held.map_or(next, |end| next.max(end)))
    }
}
