//! The echo protocol, client side: messages of known lengths, each with one reply.

use std::collections::VecDeque;

use crate::proto::{Anomaly, Call, Cancelled, Carrier, Out, Reply, Sink};
use prony_base::fault::Fault;
use prony_base::frame::{self, HEADER, Header, Kind};
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::plan::{Framing, Message, Plan};

/// How long the reply to a warm-up exchange may take before it is sent again, if messages may be
/// lost.
const AGAIN: Span = Span::from_millis(100);
/// How many answered messages of a connection are remembered, to distinguish duplicate from late
/// replies.
const ANSWERED_MAX: usize = 64;

/// The codec of one worker.
#[derive(Clone, Debug)]
pub struct Echo {
    framing: Framing,
    messages: Vec<Message>,
    warmup_exchanges: u32,
    /// The number of exchanges that the short framing announces.
    exchanges: u32,
    one_by_one: bool,
    is_lossy: bool,
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub struct Conn {
    opening: Step,
    /// When the opening exchange last made progress, and how often a warm-up exchange was sent
    /// again since.
    since: Nanos,
    again: u32,
    /// Warm-up exchanges that are answered, or lost.
    warmed_up: u32,
    /// The number of the next message.
    next: u64,
    /// Messages that are sent and not answered, oldest first.
    awaited: VecDeque<Awaited>,
    /// The highest number of an answered message.
    highest: u64,
    /// The messages that were answered last, oldest first.
    answered: VecDeque<u64>,
    /// The number of the first message after the opening exchange.
    first: u64,
    /// The reply that is coming in.
    coming: Option<Coming>,
    /// How many bytes of a short reply have arrived.
    have: u32,
}

/// A message that was sent and not answered.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    sequence: u64,
    /// The length of its reply.
    reply: u32,
    /// Its exchange; `None` for a warm-up exchange.
    id: Option<RequestId>,
}

/// A partly received reply.
#[derive(Clone, Copy, Debug)]
struct Coming {
    /// Which message it answers.
    sequence: u64,
    id: Option<RequestId>,
    length: u32,
    /// Bytes that are still to come.
    left: u32,
}

/// The state of the opening exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// Nothing was sent yet.
    #[default]
    Opening,
    /// The next warm-up exchange is due.
    Due,
    /// A warm-up exchange awaits its reply.
    Waits,
    Done,
}

impl Echo {
    /// The codec for a plan that has an exchange.
    ///
    /// # Panics
    /// If the plan has none.
    pub fn new(plan: &Plan) -> Self {
        let exchange = plan.exchange.as_deref().expect("the plan has an exchange");
        let transports = || plan.endpoints.iter().map(|endpoint| endpoint.transport());
        Self {
            framing: exchange.framing,
            messages: exchange.messages.clone(),
            warmup_exchanges: exchange.warmup_exchanges,
            // Modulo 2^32, as the old client counts; 0, the largest number, if it is unknown.
            exchanges: plan.exchanges().map_or(0, |n| n as u32),
            one_by_one: transports().any(|t| t.keeps_boundaries()),
            is_lossy: transports().any(|t| t.is_lossy()),
        }
    }

    /// Append a message. Returns the position of its payload.
    fn message(
        &self,
        conn: &mut Conn,
        id: Option<RequestId>,
        call: u32,
        out: &mut Vec<u8>,
    ) -> usize {
        let Message { request, reply } = self.messages[call as usize];
        match self.framing {
            Framing::Short => out.extend_from_slice(&request.to_be_bytes()),
            Framing::Long => {
                let sequence = conn.next;
                conn.next += 1;
                conn.awaited.push_back(Awaited { sequence, reply, id });
                let header = Header { kind: Kind::Request { reply }, length: request, sequence };
                out.extend_from_slice(&header.bytes());
            }
        }
        let payload = out.len();
        out.resize(payload + request as usize, 0);
        payload
    }

    fn short(&self, conn: &mut Conn, data: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        for i in 0..data.len() {
            let Some((id, _)) = sink.oldest() else {
                return if i == 0 { Err(Fault::Surplus) } else { Ok(i) };
            };
            conn.have += 1;
            if conn.have < frame::SHORT_REPLY {
                sink.began(id);
                continue;
            }
            conn.have = 0;
            if i + 1 < data.len() && sink.outstanding() <= 1 {
                // Its replies are longer than those of this framing, and so is this one.
                let fault = Some(Fault::Surplus);
                let reply = whole(0, frame::SHORT_REPLY);
                sink.done(id, &Reply { keeps_open: false, fault, ..reply });
                return Ok(data.len());
            }
            sink.done(id, &whole(0, frame::SHORT_REPLY));
        }
        Ok(data.len())
    }

    /// Read one reply of the long framing, or a part of it. Returns how many bytes were used.
    fn long(&self, conn: &mut Conn, data: &[u8], sink: &mut impl Sink) -> Result<usize, Fault> {
        let (mut coming, head) = match conn.coming {
            Some(coming) => (coming, 0),
            None if data.len() < HEADER => {
                if let Some((id, _)) = sink.oldest() {
                    sink.began(id);
                }
                return Ok(0);
            }
            None => {
                let header = Header::read(data).ok_or(Fault::BadFrame)?;
                let awaited = conn.awaited(&header).ok_or(Fault::BadFrame)?;
                if sink.oldest().is_none() || header.length != awaited.reply {
                    return Err(Fault::BadFrame);
                }
                let Awaited { sequence, reply: length, id } = awaited;
                (Coming { sequence, id, length, left: length }, HEADER)
            }
        };
        let n = (data.len() - head).min(coming.left as usize);
        coming.left -= n as u32;
        if coming.left > 0 {
            conn.coming = Some(coming);
            if let Some(id) = coming.id {
                sink.began(id);
            }
        } else {
            conn.coming = None;
            if let Some(id) = conn.answers(coming.sequence) {
                sink.done(id, &whole(HEADER, coming.length));
            }
        }
        Ok(head + n)
    }

    /// Read one datagram.
    fn datagram(&self, conn: &mut Conn, data: &[u8], sink: &mut impl Sink) {
        let header = if data.len() < HEADER { None } else { Header::read(data) };
        let is_whole = |h: &Header| h.length as usize == data.len() - HEADER;
        let Some(header) = header.filter(|h| h.kind == Kind::Reply && is_whole(h)) else {
            sink.odd(Anomaly::Unexpected);
            return;
        };
        let sequence = header.sequence;
        if let Some(awaited) = conn.awaited(&header) {
            if awaited.reply != header.length {
                sink.odd(Anomaly::Unexpected);
                return;
            }
            if sequence < conn.highest {
                sink.odd(Anomaly::Reordered);
            }
            if let Some(id) = conn.answers(sequence) {
                sink.done(id, &whole(HEADER, header.length));
            }
        } else if sequence < conn.first {
            // The reply to a warm-up exchange that arrived after the opening exchange.
        } else if conn.answered.contains(&sequence) {
            sink.odd(Anomaly::Duplicate);
        } else if sequence < conn.next {
            conn.remember(sequence);
            sink.odd(Anomaly::Late);
        } else {
            sink.odd(Anomaly::Unexpected);
        }
    }

    /// Read the reply to a warm-up exchange. Returns how many bytes were used: 0 if it is not such
    /// a reply, or not complete.
    fn warm_up_reply(&self, conn: &mut Conn, data: &[u8]) -> Result<usize, Fault> {
        let used = match self.framing {
            Framing::Short if data.len() < frame::SHORT_REPLY as usize => return Ok(0),
            Framing::Short => frame::SHORT_REPLY as usize,
            Framing::Long => {
                let header = if data.len() < HEADER { None } else { Header::read(data) };
                let found = header.and_then(|h| conn.awaited(&h).filter(|a| a.reply == h.length));
                let Some(awaited) = found else {
                    // An unexpected reply, or one that is no longer awaited.
                    let waits = self.is_lossy || data.len() < HEADER;
                    return if waits { Ok(0) } else { Err(Fault::BadFrame) };
                };
                let whole = HEADER + awaited.reply as usize;
                if data.len() < whole {
                    return Ok(0);
                }
                conn.answers(awaited.sequence);
                whole
            }
        };
        if conn.opening != Step::Waits || data.len() > used {
            return if self.is_lossy { Ok(0) } else { Err(Fault::BadFrame) };
        }
        conn.opening = Step::Due;
        conn.warmed_up += 1;
        Ok(used)
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
    /// The message that the reply answers.
    fn awaited(&self, header: &Header) -> Option<Awaited> {
        if header.kind != Kind::Reply {
            return None;
        }
        self.position(header.sequence).map(|i| self.awaited[i])
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        // Numbers ascend, and those of lost messages are removed.
        match self.awaited.front() {
            Some(first) if first.sequence == sequence => Some(0),
            _ => self.awaited.binary_search_by_key(&sequence, |a| a.sequence).ok(),
        }
    }

    /// A message is answered. Returns its exchange.
    fn answers(&mut self, sequence: u64) -> Option<RequestId> {
        let answered = self.awaited.remove(self.position(sequence)?)?;
        self.highest = self.highest.max(sequence);
        self.remember(sequence);
        answered.id
    }

    fn remember(&mut self, sequence: u64) {
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(sequence);
    }
}

impl Carrier for Echo {
    type Conn = Conn;

    #[inline]
    fn capacity(&self, _: &Conn, in_flight: u32, limit: u32) -> u32 {
        limit.saturating_sub(in_flight)
    }

    #[inline]
    fn submit(
        &mut self,
        conn: &mut Conn,
        id: RequestId,
        call: Call<'_>,
        _last: bool,
        out: &mut Out,
    ) {
        out.begin(id);
        self.message(conn, Some(id), call.index, out.bytes());
        if self.one_by_one {
            out.cut();
        }
    }

    #[inline]
    fn owes(&self, conn: &Conn) -> bool {
        matches!(conn.opening, Step::Opening | Step::Due)
    }

    #[inline]
    fn transmit(&mut self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if conn.opening != Step::Done {
            self.open(conn, now, out);
        }
    }

    fn receive(
        &mut self,
        conn: &mut Conn,
        data: &[u8],
        now: Nanos,
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        if conn.opening != Step::Done {
            let used = self.warm_up_reply(conn, data)?;
            if used > 0 {
                (conn.since, conn.again) = (now, 0);
            }
            // A datagram that is not awaited is ignored.
            return Ok(if self.is_lossy { data.len() } else { used });
        }
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

    fn end(&mut self, conn: &mut Conn, left: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match sink.oldest() {
            _ if conn.have > 0 || conn.coming.is_some() || !left.is_empty() => {
                Err(Fault::Truncated)
            }
            Some(_) => Err(Fault::ClosedEarly),
            None => Ok(()),
        }
    }

    fn cancel(&mut self, conn: &mut Conn, id: RequestId) -> Cancelled {
        if !self.is_lossy {
            return Cancelled::Connection;
        }
        conn.awaited.retain(|a| a.id != Some(id));
        Cancelled::Exchange
    }

    #[inline]
    fn deadline(&self, conn: &Conn) -> Option<Nanos> {
        let waits = self.is_lossy && conn.opening == Step::Waits;
        waits.then(|| conn.since + AGAIN * u64::from(conn.again + 1))
    }

    /// A warm-up exchange was lost, or its reply: send it again.
    fn on_deadline(&mut self, conn: &mut Conn, now: Nanos) -> Result<(), Fault> {
        if self.deadline(conn).is_some_and(|at| at <= now) {
            conn.again += 1;
            conn.awaited.clear();
            conn.opening = Step::Due;
        }
        Ok(())
    }

    #[inline]
    fn opens(&self) -> bool {
        true
    }

    #[inline]
    fn is_ready(&self, conn: &Conn) -> bool {
        conn.opening == Step::Done
    }

    #[inline]
    fn is_lossy(&self) -> bool {
        self.is_lossy
    }
}

impl Echo {
    /// Append the next output of the opening exchange.
    fn open(&self, conn: &mut Conn, now: Nanos, out: &mut Out) {
        if conn.opening == Step::Opening {
            (conn.since, conn.again) = (now, 0);
            if self.framing == Framing::Short {
                out.bytes().extend_from_slice(&frame::opening(self.exchanges));
                out.cut();
            }
            conn.opening = Step::Due;
        }
        if conn.opening != Step::Due {
            return;
        }
        if conn.warmed_up == self.warmup_exchanges {
            conn.opening = Step::Done;
            conn.first = conn.next;
            return;
        }
        conn.opening = Step::Waits;
        let before = out.len();
        let payload = self.message(conn, None, 0, out.bytes());
        if self.framing == Framing::Short {
            // Send length and payload apart, like the old client's warm-up exchanges.
            out.cut_at(payload.max(before));
        }
        out.cut();
    }
}
