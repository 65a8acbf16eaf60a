//! The virtual world: one clock, one heap of events, clients and servers that are [`Machine`]s, links between them.
//!
//! The world is a driver like any other and obeys the contract of [`prony_core::machine`] to the letter; where a machine
//! breaks it the world panics with the rule that was broken, so a seed that finds a bug says which. Everything that
//! happens follows from the setup and its seed: same seed, same outcome to the byte.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};

use crate::dice::Dice;
use crate::link::{Fate, Link, Piece, Pipe};
use crate::oracle::Oracle;

/// What the world is like.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network, the same for every connection.
    pub link: Link,
    /// The seed of all that is left to chance in it.
    pub seed: u64,
    /// What the user asks of all clients, and when.
    pub stops: Vec<(Nanos, StopRequest)>,
    /// A client's timer fires up to so much late (a busy or coarse machine).
    pub late: Span,
    /// Events after which the world is taken for hung and panics.
    pub steps: u64,
    /// Whether the oracle follows every request; costs time and memory.
    pub watch: bool,
}

/// What has happened.
#[derive(Debug)]
pub struct Ran {
    /// When each client was finished.
    pub finished: Vec<Nanos>,
    /// Calls of `on_*` that each client got.
    pub turns: Vec<u64>,
    /// Connections that clients still held when they were finished.
    pub left_open: u64,
    /// Connections that servers still held when nothing more could happen.
    pub dangling: u64,
    /// Events.
    pub steps: u64,
    /// A digest of every event, its time and its bytes, in order.
    pub trace: u64,
    /// What the world saw on the wires.
    pub oracle: Oracle,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Actions after one call, and events at one instant, beyond which nobody works any more: a livelock.
const LIVELOCK: u64 = 2_000_000;

struct World<'a, 'm> {
    setup: &'a Setup,
    dice: Dice,
    now: Nanos,
    heap: BinaryHeap<Reverse<Event>>,
    seq: u64,
    /// Clients first, then servers.
    machines: &'a mut [&'m mut dyn Machine],
    seats: Vec<Seat>,
    clients: usize,
    conns: Vec<Conn>,
    free: Vec<usize>,
    spare: Vec<Vec<u8>>,
    ran: Ran,
    instant: u64,
}

/// A machine's place in the world.
#[derive(Default)]
struct Seat {
    /// By slot of the id: its generation and the connection.
    names: Vec<Option<(u32, usize)>>,
    deadline: Option<Nanos>,
    tick_at: Option<Nanos>,
    finished: Option<Nanos>,
    turns: u64,
}

struct Conn {
    ends: [End; 2],
    /// By sending end.
    pipes: [Pipe; 2],
    /// Events in the heap that name this connection.
    pending: u32,
    endpoint: u32,
    was_reset: bool,
    /// Whether it is forgotten and its place free.
    free: bool,
}

#[derive(Clone, Copy)]
struct End {
    machine: usize,
    id: ConnId,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not there yet (the server's end before it was accepted).
    Absent,
    Opening,
    Open,
    /// The machine was told that all is over, and has not yet let go.
    Dead,
    /// The machine has let go.
    Gone,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Nanos,
    seq: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The connect reaches the server.
    Syn(usize),
    /// The client learns that it is connected.
    Opened(usize),
    /// The client learns that it is not.
    Failed(usize, Fault),
    /// The next piece from that end arrives at the other.
    Arrives(usize, usize),
    /// That end learns that so many of its bytes have arrived.
    Ack(usize, usize, usize),
    /// That end's socket has room again.
    Writable(usize, usize),
    Stop(StopRequest),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            link: Link::default(),
            seed: 0,
            stops: Vec::new(),
            late: Span::ZERO,
            steps: 200_000_000,
            watch: true,
        }
    }
}

impl Setup {
    /// A world with that network and seed.
    pub fn new(link: Link, seed: u64) -> Self {
        Self { link, seed, ..Self::default() }
    }

    /// Run the clients against the servers until every client is finished and what is then still under way has
    /// arrived. A connection to endpoint e goes to server e modulo their number.
    pub fn run(&self, clients: &mut [&mut dyn Machine], servers: &mut [&mut dyn Machine]) -> Ran {
        let count = clients.len();
        let mut machines: Vec<&mut dyn Machine> = Vec::new();
        for client in clients.iter_mut() {
            machines.push(&mut **client);
        }
        for server in servers.iter_mut() {
            machines.push(&mut **server);
        }
        World::new(self, &mut machines, count).run()
    }
}

impl<'a, 'm> World<'a, 'm> {
    fn new(setup: &'a Setup, machines: &'a mut [&'m mut dyn Machine], clients: usize) -> Self {
        assert!(clients > 0 && clients < machines.len(), "a world needs clients and servers");
        let seats = machines.iter().map(|_| Seat::default()).collect();
        Self {
            setup,
            dice: Dice::new(setup.seed, 0x11),
            now: Nanos::ZERO,
            heap: BinaryHeap::new(),
            seq: 0,
            machines,
            seats,
            clients,
            conns: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            ran: Ran {
                finished: Vec::new(),
                turns: Vec::new(),
                left_open: 0,
                dangling: 0,
                steps: 0,
                trace: 0xcbf2_9ce4_8422_2325,
                oracle: Oracle::new(setup.watch),
            },
            instant: 0,
        }
    }

    fn run(mut self) -> Ran {
        for &(at, how) in &self.setup.stops {
            self.push(at, What::Stop(how));
        }
        for m in 0..self.machines.len() {
            self.settle(m);
        }
        while let Some((at, what)) = self.next() {
            self.advance(at);
            match what {
                Ok(what) => self.happen(what),
                Err(m) => self.tick(m),
            }
        }
        for (m, seat) in self.seats.iter().enumerate().take(self.clients) {
            let Some(at) = seat.finished else {
                panic!("client {m} is not finished, and nothing will ever happen again");
            };
            self.ran.finished.push(at);
            self.ran.turns.push(seat.turns);
        }
        self.ran.dangling = self.conns.iter().filter(|c| c.ends[SERVER].holds()).count() as u64;
        self.ran
    }

    /// The next thing that happens: an event, or the timer of a machine.
    fn next(&mut self) -> Option<(Nanos, Result<What, usize>)> {
        let over = self.seats[..self.clients].iter().all(|s| s.finished.is_some());
        if over && self.free.len() == self.conns.len() {
            return None;
        }
        let tick = (0..self.seats.len())
            .filter(|&m| self.seats[m].finished.is_none())
            .filter_map(|m| self.seats[m].tick_at.map(|at| (at, m)))
            .min();
        let event = self.heap.peek().map(|Reverse(e)| e.at);
        match (event, tick) {
            (None, None) => None,
            (Some(at), Some((t, m))) if t < at => Some((t, Err(m))),
            (None, Some((t, m))) => Some((t, Err(m))),
            (Some(at), _) => {
                let Reverse(e) = self.heap.pop().expect("it was just seen");
                Some((at, Ok(e.what)))
            }
        }
    }

    fn advance(&mut self, at: Nanos) {
        assert!(at >= self.now, "time goes backwards: {} after {}", at, self.now);
        self.instant = if at > self.now { 0 } else { self.instant + 1 };
        self.now = at;
        self.ran.steps += 1;
        assert!(self.instant < LIVELOCK, "livelock: time stands still at {at}");
        assert!(self.ran.steps <= self.setup.steps, "hung: {} events until {at}", self.ran.steps);
        self.note(at.0);
    }

    fn push(&mut self, at: Nanos, what: What) {
        self.seq += 1;
        if let Some(c) = what.conn() {
            self.conns[c].pending += 1;
        }
        self.heap.push(Reverse(Event { at, seq: self.seq, what }));
    }

    /// Add a word to the digest of all that has happened.
    fn note(&mut self, word: u64) {
        let mixed = (self.ran.trace ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.ran.trace = mixed ^ (mixed >> 29);
    }

    fn note_bytes(&mut self, data: &[u8]) {
        for chunk in data.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.note(u64::from_le_bytes(word));
        }
        self.note(data.len() as u64);
    }
}

/// What happens.
impl World<'_, '_> {
    fn happen(&mut self, what: What) {
        match what {
            What::Syn(c) => self.syn(c),
            What::Opened(c) => self.opened(c),
            What::Failed(c, fault) => self.failed(c, fault),
            What::Arrives(c, from) => self.arrives(c, from),
            What::Ack(c, end, n) => {
                self.conns[c].pipes[end].unacked -= n;
                self.writable(c, end);
            }
            What::Writable(c, end) => self.writable(c, end),
            What::Stop(how) => self.stop(how),
        }
        if let Some(c) = what.conn() {
            self.conns[c].pending -= 1;
            self.release(c);
        }
    }

    fn tick(&mut self, m: usize) {
        let seat = &mut self.seats[m];
        // Whatever the machine answers is a new deadline, even the same time again.
        seat.deadline = None;
        seat.tick_at = None;
        self.call(m, |machine, now| machine.on_tick(now));
    }

    fn stop(&mut self, how: StopRequest) {
        for m in 0..self.clients {
            if self.seats[m].finished.is_none() {
                self.call(m, |machine, now| machine.on_stop(how, now));
            }
        }
    }

    fn syn(&mut self, c: usize) {
        if self.conns[c].ends[CLIENT].state != State::Opening {
            return;
        }
        let server = self.conns[c].ends[SERVER].machine;
        let back = self.setup.link.after_stalls(self.now + self.setup.link.delay(&mut self.dice));
        if self.seats[server].finished.is_some() {
            self.push(back, What::Failed(c, Fault::ConnectRefused));
            return;
        }
        self.conns[c].pipes[SERVER].not_before(back);
        self.push(back, What::Opened(c));
        self.seats[server].turns += 1;
        let endpoint = self.conns[c].endpoint;
        if let Some(id) = self.machines[server].on_accepted(endpoint, self.now) {
            self.conns[c].ends[SERVER] = End { machine: server, id, state: State::Open };
            self.name(server, id, c);
        } else {
            self.conns[c].ends[SERVER].state = State::Gone;
            self.send_end(c, SERVER, Piece::Fin);
        }
        self.settle(server);
    }

    fn opened(&mut self, c: usize) {
        let End { machine, id, state } = self.conns[c].ends[CLIENT];
        if state == State::Opening {
            self.conns[c].ends[CLIENT].state = State::Open;
            self.ran.oracle.opened(c, self.now);
            self.call(machine, |m, now| m.on_connected(id, now));
        }
    }

    fn failed(&mut self, c: usize, fault: Fault) {
        if self.conns[c].ends[CLIENT].state == State::Opening {
            self.tell_dead(c, CLIENT, fault);
        }
    }

    fn arrives(&mut self, c: usize, from: usize) {
        let to = 1 - from;
        let piece = self.conns[c].pipes[from].pieces.pop_front().expect("one event per piece");
        match (piece, self.conns[c].ends[to].state) {
            (Piece::Bytes(data), State::Open) => self.deliver(c, from, data),
            (Piece::Bytes(data), state) => {
                self.spare.push(data);
                if state == State::Gone {
                    self.send_reset(c, to);
                }
            }
            (Piece::Fin, State::Open) => self.tell_end(c, to),
            (Piece::Rst, State::Open) => self.tell_dead(c, to, Fault::Reset),
            (Piece::Rst, State::Opening) => self.tell_dead(c, to, Fault::ConnectReset),
            (Piece::Fin | Piece::Rst | Piece::Lost, _) => {}
        }
    }

    fn deliver(&mut self, c: usize, from: usize, mut data: Vec<u8>) {
        let to = 1 - from;
        if self.dice.chance(self.setup.link.reset) {
            self.conns[c].was_reset = true;
            self.tell_dead(c, to, Fault::Reset);
            if self.conns[c].ends[from].state == State::Open {
                self.tell_dead(c, from, Fault::Reset);
            }
            return;
        }
        if from == SERVER && self.dice.chance(self.setup.link.half_close) {
            self.conns[c].pipes[from].cut();
            // A sender that waits for room gets rid of the rest, which is lost like what was under way.
            self.push(self.now, What::Writable(c, from));
            self.tell_end(c, to);
            return;
        }
        if self.setup.link.window.is_some() {
            let at = self.now + self.setup.link.latency;
            self.push(at, What::Ack(c, from, data.len()));
        }
        self.note_bytes(&data);
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            self.ran.oracle.received(c, &data, self.now);
        } else {
            self.ran.oracle.arrived(c, &data, self.now);
        }
        self.call(machine, |m, now| m.on_recv(id, &mut data, now));
        data.clear();
        self.spare.push(data);
    }

    fn tell_end(&mut self, c: usize, to: usize) {
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            self.ran.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, None, now));
    }

    fn tell_dead(&mut self, c: usize, to: usize, fault: Fault) {
        let conn = &mut self.conns[c];
        conn.ends[to].state = State::Dead;
        conn.pipes[to].cut();
        conn.pipes[1 - to].cut();
        let End { machine, id, .. } = conn.ends[to];
        self.note(fault as u64);
        if to == CLIENT {
            self.ran.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, Some(fault), now));
    }

    fn writable(&mut self, c: usize, end: usize) {
        if self.conns[c].pipes[end].blocked && self.conns[c].ends[end].state == State::Open {
            let m = self.conns[c].ends[end].machine;
            self.transmit(c, end);
            self.settle(m);
        }
    }

    /// Call a machine and carry out what it answers.
    fn call(&mut self, m: usize, f: impl FnOnce(&mut dyn Machine, Nanos)) {
        if self.seats[m].finished.is_some() {
            return;
        }
        self.seats[m].turns += 1;
        f(&mut *self.machines[m], self.now);
        self.settle(m);
    }
}

/// What machines want.
impl World<'_, '_> {
    /// Poll a machine until it wants nothing more, then ask when it wants to be called (rules 1 and 4).
    fn settle(&mut self, m: usize) {
        let mut actions = 0;
        while self.seats[m].finished.is_none() {
            let Some(action) = self.machines[m].poll_action() else { break };
            actions += 1;
            assert!(actions < LIVELOCK, "livelock: machine {m} never stops to ask");
            match action {
                Action::Connect { id, endpoint } => self.connect(m, id, endpoint),
                Action::Transmit { id } => {
                    let (c, end) = self.named(m, id, "Transmit");
                    // What a machine wants to send on a dead connection is lost, as on a real one.
                    match self.conns[c].ends[end].state {
                        State::Open => self.transmit(c, end),
                        State::Dead => {}
                        state => panic!("Transmit on {id:?}, which is {state:?}"),
                    }
                }
                Action::Close { id, how } => {
                    let (c, end) = self.named(m, id, "Close");
                    self.close(c, end, how);
                }
                Action::Finished => self.finish(m),
            }
        }
        let seat = &mut self.seats[m];
        let deadline = if seat.finished.is_none() { self.machines[m].deadline() } else { None };
        if deadline != seat.deadline {
            seat.deadline = deadline;
            let late = if m < self.clients { self.setup.late } else { Span::ZERO };
            seat.tick_at = deadline.map(|d| d.max(self.now) + self.dice.up_to(late));
        }
    }

    fn connect(&mut self, m: usize, id: ConnId, endpoint: u32) {
        assert!(m < self.clients, "a server asks for a connection");
        let servers = self.machines.len() - self.clients;
        let server = self.clients + endpoint as usize % servers;
        let conn = Conn {
            ends: [
                End { machine: m, id, state: State::Opening },
                End { machine: server, id, state: State::Absent },
            ],
            pipes: [Pipe::default(), Pipe::default()],
            pending: 0,
            endpoint,
            was_reset: false,
            free: false,
        };
        let c = self.free.pop().unwrap_or(self.conns.len());
        if c == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[c] = conn;
        }
        self.name(m, id, c);
        self.ran.oracle.connecting(c, m, self.now);
        let link = &self.setup.link;
        let there = link.after_stalls(self.now + link.delay(&mut self.dice));
        match link.fate(&mut self.dice) {
            Fate::Opens => self.push(there, What::Syn(c)),
            Fate::Never => {}
            Fate::AtOnce(fault) => self.push(self.now, What::Failed(c, fault)),
            Fate::AfterRoundTrip(fault) => {
                let back = link.after_stalls(there + link.delay(&mut self.dice));
                self.push(back, What::Failed(c, fault));
            }
        }
    }

    fn transmit(&mut self, c: usize, end: usize) {
        let End { machine, id, .. } = self.conns[c].ends[end];
        let pipe = &mut self.conns[c].pipes[end];
        let lost = pipe.ended;
        let mut room =
            if lost { usize::MAX } else { pipe.budget(&self.setup.link, &mut self.dice) };
        let mut short = false;
        let mut taken = self.spare.pop().unwrap_or_default();
        let all = self.machines[machine].take_output(id, self.now, &mut |data| {
            let n = data.len().min(room);
            room -= n;
            short = n < data.len();
            taken.extend_from_slice(&data[..n]);
            n
        });
        assert!(all != short, "take_output of {id:?}: all = {all}, last write short = {short}");
        let pipe = &mut self.conns[c].pipes[end];
        pipe.blocked = short;
        if end == CLIENT {
            self.ran.oracle.sent(c, &taken, self.now);
        }
        if lost {
            taken.clear();
        } else if self.setup.link.window.is_some() {
            pipe.unacked += taken.len();
        }
        let full = self.setup.link.window.is_some_and(|w| pipe.unacked >= w);
        if short && !full {
            let soon = self.now + Span(self.dice.between(1, 20_000));
            self.push(soon, What::Writable(c, end));
        }
        self.put_on_line(c, end, taken);
    }

    fn put_on_line(&mut self, c: usize, end: usize, mut data: Vec<u8>) {
        let Some(most) = self.setup.link.segment else {
            if data.is_empty() {
                self.spare.push(data);
            } else {
                self.put(c, end, data.len(), Piece::Bytes(data));
            }
            return;
        };
        let mut rest = data.as_slice();
        while !rest.is_empty() {
            let n = (self.dice.between(1, most as u64) as usize).min(rest.len());
            let (head, tail) = rest.split_at(n);
            self.put(c, end, n, Piece::Bytes(head.to_vec()));
            rest = tail;
        }
        data.clear();
        self.spare.push(data);
    }

    fn put(&mut self, c: usize, end: usize, bytes: usize, piece: Piece) {
        let pipe = &mut self.conns[c].pipes[end];
        let at = pipe.arrival(&self.setup.link, &mut self.dice, self.now, bytes);
        pipe.pieces.push_back(piece);
        self.push(at, What::Arrives(c, end));
    }

    /// End the stream from `end`, or the whole connection.
    fn send_end(&mut self, c: usize, end: usize, piece: Piece) {
        if !self.conns[c].pipes[end].ended {
            self.conns[c].pipes[end].ended = true;
            self.put(c, end, 0, piece);
        }
    }

    /// Answer what comes in for a socket that is no more.
    fn send_reset(&mut self, c: usize, end: usize) {
        if !self.conns[c].was_reset {
            self.conns[c].was_reset = true;
            self.conns[c].pipes[end].ended = true;
            self.put(c, end, 0, Piece::Rst);
        }
    }

    fn close(&mut self, c: usize, end: usize, how: CloseHow) {
        let End { machine, id, state } = self.conns[c].ends[end];
        self.seats[machine].names[id.slot as usize] = None;
        self.conns[c].ends[end].state = State::Gone;
        self.note(u64::from(id.slot) << 2 | end as u64);
        if end == CLIENT {
            self.ran.oracle.ended(c);
        }
        match (state, how) {
            (State::Open | State::Opening, CloseHow::Orderly) => {
                self.send_end(c, end, Piece::Fin);
            }
            (State::Open | State::Opening, CloseHow::Reset) => self.send_reset(c, end),
            _ => {}
        }
        self.release(c);
    }

    fn finish(&mut self, m: usize) {
        self.seats[m].finished = Some(self.now);
        for slot in 0..self.seats[m].names.len() {
            if let Some((_, c)) = self.seats[m].names[slot] {
                let end = usize::from(m >= self.clients);
                self.ran.left_open += u64::from(end == CLIENT);
                self.close(c, end, CloseHow::Orderly);
            }
        }
    }

    /// A machine names a new connection (rule 2).
    fn name(&mut self, m: usize, id: ConnId, c: usize) {
        let names = &mut self.seats[m].names;
        let slot = id.slot as usize;
        assert!(slot < 1 << 24, "slots are to be small and dense: {id:?}");
        if names.len() <= slot {
            names.resize(slot + 1, None);
        }
        assert!(names[slot].is_none(), "{id:?} is given out while its slot is in use");
        names[slot] = Some((id.generation, c));
    }

    fn named(&self, m: usize, id: ConnId, what: &str) -> (usize, usize) {
        match self.seats[m].names.get(id.slot as usize) {
            Some(&Some((generation, c))) if generation == id.generation => {
                (c, usize::from(m >= self.clients))
            }
            _ => panic!("{what} names {id:?}, which does not exist"),
        }
    }

    /// Forget a connection that nobody holds and no event names.
    fn release(&mut self, c: usize) {
        let conn = &mut self.conns[c];
        let held = conn.ends.iter().any(|e| e.holds());
        if conn.pending == 0 && !held && !conn.free {
            conn.free = true;
            self.free.push(c);
        }
    }
}

impl End {
    fn holds(self) -> bool {
        matches!(self.state, State::Opening | State::Open | State::Dead)
    }
}

impl What {
    fn conn(self) -> Option<usize> {
        match self {
            Self::Syn(c)
            | Self::Opened(c)
            | Self::Failed(c, _)
            | Self::Arrives(c, _)
            | Self::Ack(c, ..)
            | Self::Writable(c, _) => Some(c),
            Self::Stop(_) => None,
        }
    }
}
