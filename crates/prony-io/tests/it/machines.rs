//! Machines for the tests: an echo server, a client that checks its echoes, and one that only
//! handles deadlines.

use std::collections::VecDeque;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};

/// Sends back what it receives. Finishes when stopped.
#[derive(Default)]
pub(crate) struct Echo {
    conns: Vec<Peer>,
    free: Vec<u32>,
    actions: VecDeque<Action>,
    pub(crate) accepted: u64,
    pub(crate) bytes: u64,
    pub(crate) faults: Vec<Fault>,
    /// Close a connection without a reset after this many bytes, whatever else it sends.
    pub(crate) close_after: Option<usize>,
    /// How many bytes to send before that close.
    pub(crate) last_bytes: usize,
}

#[derive(Default)]
struct Peer {
    generation: u32,
    out: Vec<u8>,
    seen: usize,
    closing: bool,
}

impl Echo {
    /// A server that after `n` bytes on a connection sends `last` bytes and closes.
    pub(crate) fn closing_after(n: usize, last_bytes: usize) -> Self {
        Self { close_after: Some(n), last_bytes, ..Self::default() }
    }

    fn settle(&mut self, id: ConnId) {
        let p = &mut self.conns[id.slot as usize];
        if !p.out.is_empty() {
            self.actions.push_back(Action::Transmit { id });
        } else if p.closing {
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
        panic!("a server opens no connections: {id:?}");
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
        let (close_after, last_bytes) = (self.close_after, self.last_bytes);
        let p = self.peer(id).expect("no data after the close");
        p.seen += data.len();
        match close_after {
            None => p.out.extend_from_slice(data),
            Some(n) if p.seen >= n && !p.closing => {
                p.out.resize(last_bytes, b'x');
                p.closing = true;
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
        } else if !p.closing {
            p.closing = true;
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
        let (all, closing) = (p.out.is_empty(), p.closing);
        if all && closing {
            self.close(id, CloseHow::Orderly);
        }
        all
    }

    fn deadline(&self) -> Option<Nanos> {
        None
    }
}

/// Sends messages and checks that each comes back. Finishes when all connections have ended.
pub(crate) struct Client {
    plan: Exchange,
    conns: Vec<Conn>,
    actions: VecDeque<Action>,
    open: usize,
    /// The faults of the connections that did not end as planned.
    pub(crate) faults: Vec<Option<Fault>>,
    pub(crate) echoed: u64,
    pub(crate) connected: u64,
    now: Nanos,
    /// The deadline of the test.
    give_up: Nanos,
}

/// What a [`Client`] does on each of its connections.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) connections: u32,
    pub(crate) messages: u32,
    pub(crate) size: usize,
    /// Whether to open a new connection for each message.
    pub(crate) fresh: bool,
    pub(crate) close: CloseHow,
}

struct Conn {
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
            conns: Vec::new(),
            actions: VecDeque::new(),
            open: plan.connections as usize,
            faults: Vec::new(),
            echoed: 0,
            connected: 0,
            now: Nanos::ZERO,
            give_up: Nanos::ZERO + Span::from_secs(60),
        };
        for slot in 0..plan.connections {
            c.conns.push(Conn { generation: 0, sent: 0, seen: 0, messages: 0 });
            c.connect(slot);
        }
        c
    }

    fn connect(&mut self, slot: u32) {
        let id = ConnId { slot, generation: self.conns[slot as usize].generation };
        self.actions.push_back(Action::Connect { id, endpoint: 0 });
    }

    fn conn(&mut self, id: ConnId, now: Nanos) -> &mut Conn {
        assert!(now >= self.now, "time went backwards from {} to {now}", self.now);
        self.now = now;
        let conn = &mut self.conns[id.slot as usize];
        assert_eq!(conn.generation, id.generation, "an event of a closed connection");
        conn
    }

    fn close(&mut self, id: ConnId, reopen: bool) {
        let how = self.plan.close;
        self.actions.push_back(Action::Close { id, how });
        let conn = &mut self.conns[id.slot as usize];
        conn.generation += 1;
        (conn.sent, conn.seen) = (0, 0);
        if reopen {
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
        self.conn(id, now);
        self.connected += 1;
        self.actions.push_back(Action::Transmit { id });
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        let plan = self.plan;
        let conn = self.conn(id, now);
        for (i, &b) in data.iter().enumerate() {
            assert_eq!(b, byte(id.slot, conn.messages, conn.seen + i), "at {}", conn.seen + i);
        }
        conn.seen += data.len();
        assert!(conn.seen <= plan.size, "more came back than was sent");
        if conn.seen < plan.size {
            return;
        }
        conn.messages += 1;
        (conn.sent, conn.seen) = (0, 0);
        let last = conn.messages == plan.messages;
        self.echoed += 1;
        if last || plan.fresh {
            self.close(id, !last);
        } else {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.conn(id, now);
        self.faults.push(why);
        self.close(id, false);
    }

    fn on_tick(&mut self, now: Nanos) {
        panic!("{} connections are unfinished at {now}", self.open);
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
        let conn = self.conn(id, now);
        while conn.sent < size {
            let n = (size - conn.sent).min(100_000);
            let piece: Vec<u8> =
                (0..n).map(|i| byte(id.slot, conn.messages, conn.sent + i)).collect();
            let accepted = send(&piece);
            conn.sent += accepted;
            if accepted < n {
                return false;
            }
        }
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        Some(self.give_up)
    }
}

/// Sets deadlines and records how late its ticks are.
pub(crate) struct Ticker {
    pub(crate) every: Option<Span>,
    pub(crate) until: Nanos,
    next: Nanos,
    pub(crate) late: Vec<Span>,
    pub(crate) stops: Vec<(StopRequest, Nanos)>,
    /// How many times to yield, and how many turns followed.
    pub(crate) yielded: u32,
    pub(crate) turns: u32,
    wants_turn: bool,
    finished: bool,
}

impl Ticker {
    pub(crate) fn new(every: Option<Span>, until: Span) -> Self {
        Self {
            every,
            until: Nanos::ZERO + until,
            next: every.map_or(Nanos::MAX, |e| Nanos::ZERO + e),
            late: Vec::new(),
            stops: Vec::new(),
            yielded: 0,
            turns: 0,
            wants_turn: true,
            finished: false,
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
            self.finished = true;
            return;
        }
        self.late.push(now.since(due));
        while self.next <= now {
            self.next = self.next + self.every.expect("ticks before the end need an interval");
        }
    }

    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.stops.push((how, now));
        self.finished = how == StopRequest::Now;
    }

    fn on_turn(&mut self, _: Nanos) {
        assert!(!self.wants_turn && self.turns < self.yielded, "a turn without a yield");
        self.turns += 1;
        self.wants_turn = true;
        self.finished = self.turns == self.yielded;
    }

    fn poll_action(&mut self) -> Option<Action> {
        if std::mem::take(&mut self.wants_turn) && self.turns < self.yielded {
            return Some(Action::Yield);
        }
        std::mem::take(&mut self.finished).then_some(Action::Finished)
    }

    fn take_output(&mut self, _: ConnId, _: Nanos, _: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        true
    }

    fn deadline(&self) -> Option<Nanos> {
        Some(self.next.min(self.until))
    }
}
