//! A well-behaved server: it replies to every request, after a service time with a known
//! distribution, so that arithmetic or queueing theory gives the response times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_base::units::{ConnId, Nanos, Span};

use super::{Connections, ServerAction, ServerModel};
use crate::oracle::wire::number_of;
use crate::rng::Rng;

/// The distribution of the service time of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// Constant.
    Fixed(Span),
    /// Exponential with this mean.
    Exponential(Span),
    /// Uniform between the two.
    Uniform(Span, Span),
    /// Pareto with this minimum and exponent, cut off at 1,000 times the minimum.
    Pareto(Span, f64),
    /// The second time with the given probability, else the first.
    Bimodal(Span, Span, f64),
}

/// A service station. It replies to every request with a content length, in order on each
/// connection.
///
/// If the number of servers is limited, requests wait in one queue, first come, first served: with
/// Poisson arrivals and exponential service times this is M/M/c. During a freeze all service stops;
/// it continues after the freeze.
#[derive(Debug)]
pub struct Station {
    service_time: ServiceTime,
    seed: u64,
    rng: Rng,
    by_number: bool,
    servers: Option<usize>,
    /// When each busy server becomes free; at most `servers` entries.
    busy: BinaryHeap<Reverse<Nanos>>,
    freezes: Vec<(Nanos, Span)>,
    slowdown: Vec<(Nanos, f64)>,
    body: (u64, u64),
    statuses: Vec<u16>,
    close_after: Option<u64>,
    /// Whether the last reply of a connection has `Connection: close`.
    announces_close: bool,
    /// Replies sent.
    pub served: u64,
    conns: Vec<Conn>,
}

/// The replies of one connection.
#[derive(Debug, Default)]
struct Conn {
    /// Replies sent.
    sent: u64,
    pending: VecDeque<PendingReply>,
    client_ended: bool,
    /// The last reply is sent; later requests get none.
    closed: bool,
}

#[derive(Debug)]
struct PendingReply {
    ready: bool,
    last: bool,
    head: bool,
}

impl ServiceTime {
    /// A random service time.
    pub fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => rng.exponential(mean),
            Self::Uniform(lo, hi) => lo + rng.up_to(hi - lo),
            Self::Pareto(least, exponent) => {
                let factor = (1.0 - rng.unit()).powf(-1.0 / exponent);
                Span((least.0 as f64 * factor.min(1_000.0)) as u64)
            }
            Self::Bimodal(fast, slow, share) => {
                if rng.chance(share) {
                    slow
                } else {
                    fast
                }
            }
        }
    }
}

impl Station {
    /// A station with an unlimited number of servers that replies 200 with 16 bytes.
    pub fn new(service_time: ServiceTime, seed: u64) -> Self {
        Self {
            service_time,
            seed,
            rng: Rng::new(seed, 0x22),
            by_number: false,
            servers: None,
            busy: BinaryHeap::new(),
            freezes: Vec::new(),
            slowdown: Vec::new(),
            body: (16, 16),
            statuses: vec![200],
            close_after: None,
            announces_close: true,
            served: 0,
            conns: Vec::new(),
        }
    }

    /// Limit the number of servers; requests wait in one queue.
    pub fn servers(self, servers: usize) -> Self {
        assert!(servers > 0);
        Self { servers: Some(servers), ..self }
    }

    /// Freeze the station at these times (start and length), in ascending order, without overlaps.
    pub fn freezes(self, freezes: Vec<(Nanos, Span)>) -> Self {
        assert!(freezes.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{freezes:?}");
        Self { freezes, ..self }
    }

    /// Multiply the service times by these factors, each at its time, in ascending order. Between
    /// two times the factor is interpolated linearly; before the first and after the last it is
    /// constant.
    pub fn slowdown(self, slowdown: Vec<(Nanos, f64)>) -> Self {
        assert!(slowdown.windows(2).all(|w| w[0].0 <= w[1].0), "{slowdown:?}");
        Self { slowdown, ..self }
    }

    /// The factor of the service times at this time.
    fn factor(&self, now: Nanos) -> f64 {
        let next = self.slowdown.partition_point(|&(at, _)| at <= now);
        match (next.checked_sub(1).map(|i| self.slowdown[i]), self.slowdown.get(next)) {
            (None, None) => 1.0,
            (Some((_, factor)), None) | (None, Some(&(_, factor))) => factor,
            (Some((from, a)), Some(&(to, b))) => {
                a + (b - a) * now.since(from).0 as f64 / to.since(from).0 as f64
            }
        }
    }

    /// Reply with bodies of a random length, uniform between the two.
    pub fn body(self, least: u64, most: u64) -> Self {
        Self { body: (least, most), ..self }
    }

    /// Reply with these statuses in turn.
    pub fn statuses(self, statuses: Vec<u16>) -> Self {
        Self { statuses, ..self }
    }

    /// Close a connection after this number of replies; the last has `Connection: close`.
    pub fn close_after(self, replies: u64) -> Self {
        Self { close_after: Some(replies), ..self }
    }

    /// Close connections without `Connection: close` in the last reply.
    pub fn closes_silently(self) -> Self {
        Self { announces_close: false, ..self }
    }

    /// Let each service time depend on the request's number only, not on the order of the requests.
    pub fn by_number(self) -> Self {
        Self { by_number: true, ..self }
    }

    /// When work that starts at `at` is done.
    fn done(&self, at: Nanos, work: Span) -> Nanos {
        let (mut at, mut left) = (at, work);
        for &(from, span) in &self.freezes {
            let end = from + span;
            if end <= at {
                continue;
            }
            if at + left < from {
                break;
            }
            left = left - from.since(at);
            at = end;
        }
        at + left
    }

    fn serve(&mut self, now: Nanos, work: Span) -> Nanos {
        let Some(servers) = self.servers else { return self.done(now, work) };
        let mut start = now;
        if self.busy.len() == servers
            && let Some(Reverse(free)) = self.busy.pop()
        {
            start = start.max(free);
        }
        let done = self.done(start, work);
        self.busy.push(Reverse(done));
        done
    }

    fn reply(&mut self, index: u64, last: bool, head: bool, out: &mut Vec<u8>) {
        let status = self.statuses[index as usize % self.statuses.len()];
        let (least, most) = self.body;
        let size = match status {
            204 | 304 => 0,
            _ if least == most => least,
            _ => self.rng.between(least, most),
        };
        let close = if last && self.announces_close { "Connection: close\r\n" } else { "" };
        let conn = format!("HTTP/1.1 {status} Any\r\nContent-Length: {size}\r\n{close}\r\n");
        out.extend_from_slice(conn.as_bytes());
        if !head {
            out.resize(out.len() + size as usize, b'x');
        }
    }

    /// Send the replies that are ready, in order.
    fn flush(&mut self, id: ConnId, conns: &mut Connections) {
        let slot = id.slot as usize;
        let mut out = Vec::new();
        let mut close = false;
        if self.conns[slot].closed {
            return;
        }
        while self.conns[slot].pending.front().is_some_and(|o| o.ready) {
            let Some(pending) = self.conns[slot].pending.pop_front() else { break };
            let index = self.conns[slot].sent;
            self.conns[slot].sent += 1;
            self.served += 1;
            self.reply(index, pending.last, pending.head, &mut out);
            if pending.last {
                close = true;
                self.conns[slot].closed = true;
                break;
            }
        }
        if !out.is_empty() {
            conns.send(id, &out);
        }
        let conn = &self.conns[slot];
        if close || conn.client_ended && conn.pending.is_empty() {
            conns.close(id);
        }
    }
}

impl ServerModel for Station {
    fn opened(&mut self, id: ConnId, _: &mut Connections) {
        let slot = id.slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize_with(slot + 1, Conn::default);
        }
        self.conns[slot] = Conn::default();
    }

    fn request(&mut self, id: ConnId, index: u64, head: &[u8], conns: &mut Connections) {
        let work = if self.by_number {
            let number = number_of(head).expect("a numbered plan");
            self.service_time.draw(&mut Rng::new(self.seed, number.wrapping_mul(2) + 1))
        } else {
            self.service_time.draw(&mut self.rng)
        };
        let work = Span((work.0 as f64 * self.factor(conns.now())) as u64);
        let last = wants_close(head) || self.close_after == Some(index + 1);
        let pending = PendingReply { ready: false, last, head: head.starts_with(b"HEAD ") };
        self.conns[id.slot as usize].pending.push_back(pending);
        let done = self.serve(conns.now(), work);
        if done > conns.now() {
            conns.at(done, id, ServerAction::Timer(index));
        } else {
            self.timer(id, index, conns);
        }
    }

    fn timer(&mut self, id: ConnId, index: u64, conns: &mut Connections) {
        let conn = &mut self.conns[id.slot as usize];
        let place = index.wrapping_sub(conn.sent) as usize;
        if let Some(pending) = conn.pending.get_mut(place) {
            pending.ready = true;
        }
        self.flush(id, conns);
    }

    fn ended(&mut self, id: ConnId, conns: &mut Connections) {
        let conn = &mut self.conns[id.slot as usize];
        conn.client_ended = true;
        if conn.pending.is_empty() {
            conns.close(id);
        }
    }
}

/// Whether the client asks to close the connection after this request.
fn wants_close(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let asks = |what: &str| {
        text.lines().any(|l| l.strip_prefix("connection:").is_some_and(|v| v.contains(what)))
    };
    asks("close") || text.lines().next().is_some_and(|l| l.ends_with("/1.0")) && !asks("keep-alive")
}
