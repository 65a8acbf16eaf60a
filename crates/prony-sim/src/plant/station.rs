//! The well-behaved server: every request is answered, by a law whose results arithmetic or theory
//! knows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_core::units::{ConnId, Nanos, Span};

use super::{Act, Plant, Yard};
use crate::dice::Dice;
use crate::oracle::wire::number_of;

/// How long the service of one request takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always the same.
    Fixed(Span),
    /// Exponential with that mean.
    Exponential(Span),
    /// Uniform between the two.
    Uniform(Span, Span),
    /// Pareto: at least the span, with that exponent, cut off at 1,000 times the span.
    Pareto(Span, f64),
    /// The first span, but with that probability the second.
    Bimodal(Span, Span, f64),
}

/// A station that answers every request with a content length, in order on each connection.
///
/// Service takes what the law says; with a limited number of servers, requests queue for them first
/// come, first served (with an exponential law: M/M/c under Poisson arrivals). In a freeze nothing
/// goes on: service that would end in it goes on after it.
#[derive(Debug)]
pub struct Station {
    law: Law,
    seed: u64,
    dice: Dice,
    by_number: bool,
    servers: Option<usize>,
    /// When each busy server will be free; never more than `servers`.
    busy: BinaryHeap<Reverse<Nanos>>,
    freezes: Vec<(Nanos, Span)>,
    slower: Vec<(Nanos, f64)>,
    body: (u64, u64),
    statuses: Vec<u16>,
    close_after: Option<u64>,
    /// Whether the last reply of a connection says that it is the last.
    announces: bool,
    /// Requests answered.
    pub served: u64,
    lines: Vec<Line>,
}

/// The replies that one connection is owed.
#[derive(Debug, Default)]
struct Line {
    /// How many it has got.
    sent: u64,
    owed: VecDeque<Owed>,
    leaving: bool,
    /// Its last reply is sent: what came behind it is not answered.
    over: bool,
}

#[derive(Debug)]
struct Owed {
    ready: bool,
    last: bool,
    head: bool,
}

impl Law {
    /// A draw.
    pub fn draw(self, dice: &mut Dice) -> Span {
        match self {
            Self::Fixed(span) => span,
            Self::Exponential(mean) => dice.exponential(mean),
            Self::Uniform(lo, hi) => lo + dice.up_to(hi - lo),
            Self::Pareto(least, exponent) => {
                let factor = (1.0 - dice.unit()).powf(-1.0 / exponent);
                Span((least.0 as f64 * factor.min(1_000.0)) as u64)
            }
            Self::Bimodal(fast, slow, share) => {
                if dice.chance(share) {
                    slow
                } else {
                    fast
                }
            }
        }
    }
}

impl Station {
    /// A station with as many servers as there are requests, answering 200 with 16 bytes.
    pub fn new(law: Law, seed: u64) -> Self {
        Self {
            law,
            seed,
            dice: Dice::new(seed, 0x22),
            by_number: false,
            servers: None,
            busy: BinaryHeap::new(),
            freezes: Vec::new(),
            slower: Vec::new(),
            body: (16, 16),
            statuses: vec![200],
            close_after: None,
            announces: true,
            served: 0,
            lines: Vec::new(),
        }
    }

    /// So many servers and one queue.
    pub fn servers(self, servers: usize) -> Self {
        assert!(servers > 0);
        Self { servers: Some(servers), ..self }
    }

    /// Nothing goes on in these windows (start and length), which are ascending and disjoint.
    pub fn freezes(self, freezes: Vec<(Nanos, Span)>) -> Self {
        assert!(freezes.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{freezes:?}");
        Self { freezes, ..self }
    }

    /// Service takes so many times longer at these times, which ascend; in between the factor goes
    /// straight from one to the next, before the first and after the last it stays.
    pub fn slower(self, slower: Vec<(Nanos, f64)>) -> Self {
        assert!(slower.windows(2).all(|w| w[0].0 <= w[1].0), "{slower:?}");
        Self { slower, ..self }
    }

    /// How much longer service takes at that time.
    fn factor(&self, now: Nanos) -> f64 {
        let next = self.slower.partition_point(|&(at, _)| at <= now);
        match (next.checked_sub(1).map(|i| self.slower[i]), self.slower.get(next)) {
            (None, None) => 1.0,
            (Some((_, factor)), None) | (None, Some(&(_, factor))) => factor,
            (Some((from, a)), Some(&(to, b))) => {
                a + (b - a) * now.since(from).0 as f64 / to.since(from).0 as f64
            }
        }
    }

    /// Bodies of that length, uniform between the two.
    pub fn body(self, least: u64, most: u64) -> Self {
        Self { body: (least, most), ..self }
    }

    /// These statuses, in turn over the requests.
    pub fn statuses(self, statuses: Vec<u16>) -> Self {
        Self { statuses, ..self }
    }

    /// The connection is closed after so many replies, and the last one says so.
    pub fn close_after(self, replies: u64) -> Self {
        Self { close_after: Some(replies), ..self }
    }

    /// Connections are closed without a word in the last reply.
    pub fn silently(self) -> Self {
        Self { announces: false, ..self }
    }

    /// Each draw depends on the request's number alone, not on the order in which requests arrive.
    pub fn by_number(self) -> Self {
        Self { by_number: true, ..self }
    }

    /// When work that begins at `at` is done.
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
            _ => self.dice.between(least, most),
        };
        let close = if last && self.announces { "Connection: close\r\n" } else { "" };
        let line = format!("HTTP/1.1 {status} Any\r\nContent-Length: {size}\r\n{close}\r\n");
        out.extend_from_slice(line.as_bytes());
        if !head {
            out.resize(out.len() + size as usize, b'x');
        }
    }

    /// Send what is ready, in order.
    fn flush(&mut self, id: ConnId, yard: &mut Yard) {
        let slot = id.slot as usize;
        let mut out = Vec::new();
        let mut close = false;
        if self.lines[slot].over {
            return;
        }
        while self.lines[slot].owed.front().is_some_and(|o| o.ready) {
            let Some(owed) = self.lines[slot].owed.pop_front() else { break };
            let index = self.lines[slot].sent;
            self.lines[slot].sent += 1;
            self.served += 1;
            self.reply(index, owed.last, owed.head, &mut out);
            if owed.last {
                close = true;
                self.lines[slot].over = true;
                break;
            }
        }
        if !out.is_empty() {
            yard.send(id, &out);
        }
        let line = &self.lines[slot];
        if close || line.leaving && line.owed.is_empty() {
            yard.close(id);
        }
    }
}

impl Plant for Station {
    fn opened(&mut self, id: ConnId, _: &mut Yard) {
        let slot = id.slot as usize;
        if self.lines.len() <= slot {
            self.lines.resize_with(slot + 1, Line::default);
        }
        self.lines[slot] = Line::default();
    }

    fn request(&mut self, id: ConnId, index: u64, head: &[u8], yard: &mut Yard) {
        let work = if self.by_number {
            let number = number_of(head).expect("a numbered plan");
            self.law.draw(&mut Dice::new(self.seed, number.wrapping_mul(2) + 1))
        } else {
            self.law.draw(&mut self.dice)
        };
        let work = Span((work.0 as f64 * self.factor(yard.now())) as u64);
        let last = wants_close(head) || self.close_after == Some(index + 1);
        let owed = Owed { ready: false, last, head: head.starts_with(b"HEAD ") };
        self.lines[id.slot as usize].owed.push_back(owed);
        let done = self.serve(yard.now(), work);
        if done > yard.now() {
            yard.at(done, id, Act::Token(index));
        } else {
            self.token(id, index, yard);
        }
    }

    fn token(&mut self, id: ConnId, index: u64, yard: &mut Yard) {
        let line = &mut self.lines[id.slot as usize];
        let place = index.wrapping_sub(line.sent) as usize;
        if let Some(owed) = line.owed.get_mut(place) {
            owed.ready = true;
        }
        self.flush(id, yard);
    }

    fn ended(&mut self, id: ConnId, yard: &mut Yard) {
        let line = &mut self.lines[id.slot as usize];
        line.leaving = true;
        if line.owed.is_empty() {
            yard.close(id);
        }
    }
}

/// Whether the client will send no more on the connection.
fn wants_close(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let asks = |what: &str| {
        text.lines().any(|l| l.strip_prefix("connection:").is_some_and(|v| v.contains(what)))
    };
    asks("close") || text.lines().next().is_some_and(|l| l.ends_with("/1.0")) && !asks("keep-alive")
}
