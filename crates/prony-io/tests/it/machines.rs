//! Machines for the tests: an echo server, a client that checks its echoes, and one that only keeps
//! time.

use std::collections::VecDeque;

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};

/// Sends back what it receives. Ends when stopped.
#[derive(Default)]
pub(crate) struct Echo {
    conns: Vec<Peer>,
    free: Vec<u32>,
    actions: VecDeque<Action>,
    pub(crate) accepted: u64,
    pub(crate) bytes: u64,
    pub(crate) faults: Vec<Fault>,
    /// Close in good order after so many bytes of a connection, whatever else it sends.
    pub(crate) close_after: Option<usize>,
    /// Before that close, send so much.
    pub(crate) farewell: usize,
}

#[derive(Default)]
struct Peer {
    generation: u32,
    out: Vec<u8>,
    seen: usize,
    ending: bool,
}

impl Echo {
    /// One that, after `n` bytes of a connection, says farewell with so many of its own.
    pub(crate) fn farewell(n: usize, farewell: usize) -> Self {
        Self { close_after: Some(n), farewell, ..Self::default() }
    }

    fn settle(&mut self, id: ConnId) {
        let p = &mut self.conns[id.slot as usize];
        if !p.out.is_empty() {
            self.actions.push_back(Action::Transmit { id });
        } else if p.ending {
            self.close(id, CloseHow::Orderly);
        }
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let p = &mut self.conns[id.slot as usize];
        *p = Peer { generation: p.generation.wrapping_add(1), ..Peer::default() };
        self.free.push(id.slot);
        self.actions.push_back(Action::Close { id, how });
    }

    fn peer(&mut self, id: ConnId) -> Option<&mut Peer> {
        let p = &mut self.conns[id.slot as usize];
        (p.generation == id.generation).then_some(p)
    }
}

impl Machine for Echo {
    fn on_connected(&mut self, id: ConnId, _: Nanos) {
        panic!("a server connects nowhere: {id:?}");
    }

    fn on_accepted(&mut self, _: u32, _: Nanos) -> Option<ConnId> {
        self.accepted += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Peer::default());
            self.conns.len() as u32 - 1
        });
        Some(ConnId { slot, generation: self.conns[slot as usize].generation })
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], _: Nanos) {
        self.bytes += data.len() as u64;
        let (close_after, farewell) = (self.close_after, self.farewell);
        let p = self.peer(id).expect("no data after the close");
        p.seen += data.len();
        match close_after {
            None => p.out.extend_from_slice(data),
            Some(n) if p.seen >= n && !p.ending => {
                p.out.resize(farewell, b'x');
                p.ending = true;
            }
            Some(_) => return,
        }
        self.settle(id);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, _: Nanos) {
        self.faults.extend(why);
        let p = self.peer(id).expect("no event after the close");
        if why.is_some() {
            self.close(id, CloseHow::Reset);
        } else if !p.ending {
            p.ending = true;
            self.settle(id);
        }
    }

    fn on_tick(&mut self, _: Nanos) {
        panic!("no deadline was set");
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {
        self.actions.push_back(Action::Finished);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(&mut self, id: ConnId, _: Nanos, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let p = self.peer(id).expect("no output after the close");
        let n = send(&p.out);
        p.out.drain(..n);
        let (all, ending) = (p.out.is_empty(), p.ending);
        if all && ending {
            self.close(id, CloseHow::Orderly);
        }
        all
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// Sends messages and checks that each comes back. Ends when all connections have ended.
pub(crate) struct Client {
    plan: Exchange,
    lines: Vec<Line>,
    actions: VecDeque<Action>,
    open: usize,
    /// How each connection ended that did not end as planned.
    pub(crate) faults: Vec<Option<Fault>>,
    pub(crate) echoed: u64,
    pub(crate) connected: u64,
    now: Nanos,
    /// Give up then.
    give_up: Nanos,
}

/// What a [`Client`] does on each of its connections.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) connections: u32,
    pub(crate) messages: u32,
    pub(crate) size: usize,
    /// A new connection for each message.
    pub(crate) fresh: bool,
    pub(crate) close: CloseHow,
}

struct Line {
    generation: u32,
    sent: usize,
    seen: usize,
    messages: u32,
}

fn byte(slot: u32, message: u32, at: usize) -> u8 {
    (at as u32).wrapping_mul(31).wrapping_add(message * 7 + slot) as u8
}

impl Client {
    pub(crate) fn new(plan: Exchange) -> Self {
        let mut c = Self {
            plan,
            lines: Vec::new(),
            actions: VecDeque::new(),
            open: plan.connections as usize,
            faults: Vec::new(),
            echoed: 0,
            connected: 0,
            now: Nanos::ZERO,
            give_up: Nanos::ZERO + Span::from_secs(60),
        };
        for slot in 0..plan.connections {
            c.lines.push(Line { generation: 0, sent: 0, seen: 0, messages: 0 });
            c.connect(slot);
        }
        c
    }

    fn connect(&mut self, slot: u32) {
        let id = ConnId { slot, generation: self.lines[slot as usize].generation };
        self.actions.push_back(Action::Connect { id, endpoint: 0 });
    }

    fn line(&mut self, id: ConnId, now: Nanos) -> &mut Line {
        assert!(now >= self.now, "time went back from {} to {now}", self.now);
        self.now = now;
        let line = &mut self.lines[id.slot as usize];
        assert_eq!(line.generation, id.generation, "an event of a closed connection");
        line
    }

    fn leave(&mut self, id: ConnId, again: bool) {
        let how = self.plan.close;
        self.actions.push_back(Action::Close { id, how });
        let line = &mut self.lines[id.slot as usize];
        line.generation += 1;
        (line.sent, line.seen) = (0, 0);
        if again {
            self.connect(id.slot);
            return;
        }
        self.open -= 1;
        if self.open == 0 {
            self.actions.push_back(Action::Finished);
        }
    }
}

impl Machine for Client {
    fn on_connected(&mut self, id: ConnId, now: Nanos) {
        self.line(id, now);
        self.connected += 1;
        self.actions.push_back(Action::Transmit { id });
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let plan = self.plan;
        let line = self.line(id, now);
        for (i, &b) in data.iter().enumerate() {
            assert_eq!(b, byte(id.slot, line.messages, line.seen + i), "at {}", line.seen + i);
        }
        line.seen += data.len();
        assert!(line.seen <= plan.size, "more came back than was sent");
        if line.seen < plan.size {
            return;
        }
        line.messages += 1;
        (line.sent, line.seen) = (0, 0);
        let last = line.messages == plan.messages;
        self.echoed += 1;
        if last || plan.fresh {
            self.leave(id, !last);
        } else {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.line(id, now);
        self.faults.push(why);
        self.leave(id, false);
    }

    fn on_tick(&mut self, now: Nanos) {
        panic!("at {now} {} connections still wait", self.open);
    }

    fn on_stop(&mut self, _: StopRequest, _: Nanos) {
        self.actions.push_back(Action::Finished);
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
        let size = self.plan.size;
        let line = self.line(id, now);
        while line.sent < size {
            let n = (size - line.sent).min(100_000);
            let piece: Vec<u8> =
                (0..n).map(|i| byte(id.slot, line.messages, line.sent + i)).collect();
            let taken = send(&piece);
            line.sent += taken;
            if taken < n {
                return false;
            }
        }
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        Some(self.give_up)
    }
}

/// Wants to be called at certain moments and notes how late it was called.
pub(crate) struct Ticker {
    pub(crate) every: Option<Span>,
    pub(crate) until: Nanos,
    next: Nanos,
    pub(crate) late: Vec<Span>,
    pub(crate) stops: Vec<(StopRequest, Nanos)>,
    /// How often it wants the sockets looked at, and how often they were since it began.
    pub(crate) yields: u32,
    pub(crate) turns: u32,
    asks: bool,
    over: bool,
}

impl Ticker {
    pub(crate) fn new(every: Option<Span>, until: Span) -> Self {
        Self {
            every,
            until: Nanos::ZERO + until,
            next: every.map_or(Nanos::MAX, |e| Nanos::ZERO + e),
            late: Vec::new(),
            stops: Vec::new(),
            yields: 0,
            turns: 0,
            asks: true,
            over: false,
        }
    }
}

impl Machine for Ticker {
    fn on_connected(&mut self, _: ConnId, _: Nanos) {}
    fn on_recv(&mut self, _: ConnId, _: &mut [u8], _: Nanos) {}
    fn on_closed(&mut self, _: ConnId, _: Option<Fault>, _: Nanos) {}

    fn on_tick(&mut self, now: Nanos) {
        let due = self.next.min(self.until);
        assert!(now >= due, "{now} is before {due}");
        if now >= self.until {
            self.over = true;
            return;
        }
        self.late.push(now.since(due));
        while self.next <= now {
            self.next = self.next + self.every.expect("only then is there a tick before the end");
        }
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.stops.push((how, now));
        self.over = how == StopRequest::Now;
    }

    fn on_turn(&mut self, _: Nanos) {
        assert!(!self.asks && self.turns < self.yields, "nobody asked for that");
        self.turns += 1;
        self.asks = true;
        self.over = self.turns == self.yields;
    }

    fn poll_action(&mut self) -> Option<Action> {
        if std::mem::take(&mut self.asks) && self.turns < self.yields {
            return Some(Action::Yield);
        }
        std::mem::take(&mut self.over).then_some(Action::Finished)
    }

    fn take_output(&mut self, _: ConnId, _: Nanos, _: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        Some(self.next.min(self.until))
    }
}
