//! The echo protocol, client side: messages of known lengths, each answered by one.

use std::collections::VecDeque;

use crate::fault::Fault;
use crate::frame::{self, HEADER, Header, Kind};
use crate::plan::{Framing, Message, Plan};
use crate::proto::{Greeting, Odd, Protocol, Reply, ReplySink};

/// Answered messages of a connection that are remembered, to tell doubles from late replies.
const ANSWERED_MAX: usize = 64;

/// The codec of one worker.
#[derive(Clone, Debug)]
pub struct Echo {
    framing: Framing,
    messages: Vec<Message>,
    primers: u32,
    /// What the short framing announces.
    exchanges: u32,
    one_by_one: bool,
    is_lossy: bool,
}

/// What one connection remembers.
#[derive(Clone, Debug, Default)]
pub struct Conn {
    greeting: Step,
    /// Primers that are answered, or lost.
    primed: u32,
    /// The number of the next message.
    next: u64,
    /// Those sent and not answered, oldest first: number, and length of the reply.
    awaited: VecDeque<(u64, u32)>,
    /// The highest number that was answered.
    highest: u64,
    /// The last ones that were answered, oldest first.
    answered: VecDeque<u64>,
    /// The number of the first message after the greeting.
    first: u64,
    /// The reply that is coming in.
    coming: Option<Coming>,
    /// Bytes of a short reply that are here.
    have: u32,
}

/// A reply of which not all is here.
#[derive(Clone, Copy, Debug)]
struct Coming {
    /// Which of those awaited it answers.
    position: u32,
    length: u32,
    /// Bytes that are still to come.
    left: u32,
}

/// Where the greeting stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Nothing was sent yet.
    #[default]
    Opening,
    /// The next primer is to be sent.
    Due,
    /// A primer waits for its reply.
    Waits,
    Done,
}

impl Echo {
    /// The codec for a plan that has an exchange.
    ///
    /// # Panics
    /// Where the plan has none.
    pub fn new(plan: &Plan) -> Self {
        let exchange = plan.exchange.as_deref().expect("the plan says what is exchanged");
        let transports = || plan.endpoints.iter().map(|endpoint| endpoint.transport());
        Self {
            framing: exchange.framing,
            messages: exchange.messages.clone(),
            primers: exchange.primers,
            // Modulo 2^32, as the old client counts; where nobody knows, the most there can be.
            exchanges: plan.exchanges().map_or(0, |n| n as u32),
            one_by_one: transports().any(|t| t.keeps_boundaries()),
            is_lossy: transports().any(|t| t.is_lossy()),
        }
    }

    /// Append a message; `split`: where its payload begins.
    fn message(&self, conn: &mut Conn, call: u32, out: &mut Vec<u8>) -> usize {
        let Message { request, reply } = self.messages[call as usize];
        match self.framing {
            Framing::Short => out.extend_from_slice(&request.to_be_bytes()),
            Framing::Long => {
                let sequence = conn.next;
                conn.next += 1;
                conn.awaited.push_back((sequence, reply));
                let header = Header { kind: Kind::Request { reply }, length: request, sequence };
                out.extend_from_slice(&header.bytes());
            }
        }
        let payload = out.len();
        out.resize(payload + request as usize, 0);
        payload
    }

    fn short(
        &self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault> {
        for i in 0..data.len() {
            if sink.awaited().is_none() {
                return if i == 0 { Err(Fault::Surplus) } else { Ok(i) };
            }
            conn.have += 1;
            if conn.have < frame::SHORT_REPLY {
                sink.began();
                continue;
            }
            conn.have = 0;
            if i + 1 < data.len() && sink.outstanding() <= 1 {
                // Its replies are longer than those of this framing: so is that one.
                let fault = Some(Fault::Surplus);
                sink.reply(Reply { keeps_open: false, fault, ..whole(0, frame::SHORT_REPLY) });
                return Ok(data.len());
            }
            sink.reply(whole(0, frame::SHORT_REPLY));
        }
        Ok(data.len())
    }

    /// One reply of the long framing, or a part of it; how much was used.
    fn long(
        &self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault> {
        let (mut coming, head) = match conn.coming {
            Some(coming) => (coming, 0),
            None if data.len() < HEADER => {
                sink.began();
                return Ok(0);
            }
            None => {
                let header = Header::read(data).ok_or(Fault::BadFrame)?;
                let (position, length) = conn.position(&header).ok_or(Fault::BadFrame)?;
                if sink.awaited().is_none() || header.length != length {
                    return Err(Fault::BadFrame);
                }
                (Coming { position, length, left: length }, HEADER)
            }
        };
        let n = (data.len() - head).min(coming.left as usize);
        coming.left -= n as u32;
        if coming.left > 0 {
            conn.coming = Some(coming);
            sink.began();
        } else {
            conn.coming = None;
            conn.answers(coming.position);
            sink.reply_to(coming.position, whole(HEADER, coming.length));
        }
        Ok(head + n)
    }

    /// One message that came alone: a datagram.
    fn datagram(&self, conn: &mut Conn, data: &[u8], sink: &mut impl ReplySink) {
        let header = if data.len() < HEADER { None } else { Header::read(data) };
        let is_whole = |h: &Header| h.length as usize == data.len() - HEADER;
        let Some(header) = header.filter(|h| h.kind == Kind::Reply && is_whole(h)) else {
            sink.odd(Odd::Foreign);
            return;
        };
        let sequence = header.sequence;
        if let Some((position, length)) = conn.position(&header) {
            if length != header.length {
                sink.odd(Odd::Foreign);
                return;
            }
            if sequence < conn.highest {
                sink.odd(Odd::Reordered);
            }
            conn.answers(position);
            sink.reply_to(position, whole(HEADER, length));
        } else if sequence < conn.first {
            // A primer's that came too late for the greeting.
        } else if conn.answered.contains(&sequence) {
            sink.odd(Odd::Duplicate);
        } else if sequence < conn.next {
            conn.remember(sequence);
            sink.odd(Odd::Late);
        } else {
            sink.odd(Odd::Foreign);
        }
    }
}

fn whole(head: usize, length: u32) -> Reply {
    Reply {
        status: 200,
        head_bytes: head as u64,
        framing_bytes: 0,
        footer_bytes: 0,
        body_bytes: u64::from(length),
        interim: 0,
        keeps_open: true,
        fault: None,
    }
}

impl Conn {
    /// Which of the awaited replies that is, and its length.
    fn position(&self, header: &Header) -> Option<(u32, u32)> {
        if header.kind != Kind::Reply {
            return None;
        }
        let sequence = |&(n, _): &(u64, u32)| n;
        // Numbers ascend, and those of lost messages are taken out.
        let found = match self.awaited.front() {
            Some(&(n, _)) if n == header.sequence => 0,
            _ => self.awaited.binary_search_by_key(&header.sequence, sequence).ok()?,
        };
        Some((found as u32, self.awaited[found].1))
    }

    fn answers(&mut self, position: u32) {
        let Some((sequence, _)) = self.awaited.remove(position as usize) else { return };
        self.highest = self.highest.max(sequence);
        self.remember(sequence);
    }

    fn remember(&mut self, sequence: u64) {
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(sequence);
    }
}

impl Protocol for Echo {
    type Conn = Conn;

    #[inline]
    fn room(&self, _: &Conn, in_flight: u32, limit: u32) -> u32 {
        limit.saturating_sub(in_flight)
    }

    #[inline]
    fn encode(&mut self, conn: &mut Conn, call: u32, _last: bool, out: &mut Vec<u8>) {
        self.message(conn, call, out);
    }

    fn decode(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<usize, Fault> {
        if self.is_lossy {
            self.datagram(conn, data, sink);
            return Ok(data.len());
        }
        if self.framing == Framing::Short {
            return self.short(conn, data, sink);
        }
        let mut at = 0;
        while at < data.len() {
            match self.long(conn, &data[at..], sink)? {
                0 => break,
                n => at += n,
            }
        }
        Ok(at)
    }

    fn end(
        &mut self,
        conn: &mut Conn,
        left: &[u8],
        sink: &mut impl ReplySink,
    ) -> Result<(), Fault> {
        match sink.awaited() {
            _ if conn.have > 0 || conn.coming.is_some() || !left.is_empty() => {
                Err(Fault::Truncated)
            }
            Some(_) => Err(Fault::ClosedEarly),
            None => Ok(()),
        }
    }

    #[inline]
    fn greets(&self) -> bool {
        true
    }

    fn greet(&mut self, conn: &mut Conn, out: &mut Vec<u8>, ends: &mut Vec<usize>) -> Greeting {
        if conn.greeting == Step::Opening {
            if self.framing == Framing::Short {
                out.extend_from_slice(&frame::opening(self.exchanges));
                ends.push(out.len());
            }
            conn.greeting = Step::Due;
        }
        if conn.primed == self.primers {
            conn.greeting = Step::Done;
            conn.first = conn.next;
        }
        match conn.greeting {
            Step::Done => Greeting::Done,
            Step::Opening | Step::Waits => Greeting::Waits,
            Step::Due => {
                conn.greeting = Step::Waits;
                let payload = self.message(conn, 0, out);
                if self.framing == Framing::Short {
                    // Length and payload apart, as the old client's primers go out.
                    ends.push(payload);
                }
                if ends.last() != Some(&out.len()) {
                    ends.push(out.len());
                }
                Greeting::Waits
            }
        }
    }

    fn greeted(&mut self, conn: &mut Conn, data: &[u8]) -> Result<usize, Fault> {
        let used = match self.framing {
            Framing::Short if data.len() < frame::SHORT_REPLY as usize => return Ok(0),
            Framing::Short => frame::SHORT_REPLY as usize,
            Framing::Long => {
                let header = if data.len() < HEADER { None } else { Header::read(data) };
                let found = header.and_then(|h| conn.position(&h).filter(|p| p.1 == h.length));
                let (position, whole) = match found {
                    Some((position, length)) => (position, HEADER + length as usize),
                    // Somebody else's, or one that was given up.
                    None if self.is_lossy || data.len() < HEADER => return Ok(0),
                    None => return Err(Fault::BadFrame),
                };
                if data.len() < whole {
                    return Ok(0);
                }
                conn.answers(position);
                whole
            }
        };
        if conn.greeting != Step::Waits || data.len() > used {
            return if self.is_lossy { Ok(0) } else { Err(Fault::BadFrame) };
        }
        conn.greeting = Step::Due;
        conn.primed += 1;
        Ok(used)
    }

    fn greets_again(&mut self, conn: &mut Conn) -> bool {
        if conn.greeting != Step::Waits {
            return false;
        }
        conn.awaited.clear();
        conn.greeting = Step::Due;
        true
    }

    #[inline]
    fn one_by_one(&self) -> bool {
        self.one_by_one
    }

    #[inline]
    fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    fn gave_up(&mut self, conn: &mut Conn, position: u32) {
        conn.awaited.remove(position as usize);
    }
}
