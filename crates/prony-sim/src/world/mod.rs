//! The virtual world: one clock, one heap of events, clients and servers that are [`Machine`]s,
//! links between them.
//!
//! The world is a driver like any other and obeys the contract of [`prony_core::machine`] to the
//! letter; where a machine breaks it the world panics with the rule that was broken, so a seed that
//! finds a bug says which. Everything that happens follows from the setup and its seed: same seed,
//! same outcome to the byte.

mod events;
mod held;
mod wants;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_core::fault::Fault;
use prony_core::machine::{Machine, StopRequest};
use prony_core::summary::Stalls;
use prony_core::units::{ConnId, Nanos, Span};

use crate::dice::Dice;
use crate::link::{Link, Pipe};
use crate::oracle::Oracle;
pub use held::Held;

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
    /// When the clients do not get to run.
    pub held: Option<Held>,
    /// Events after which the world is taken for hung and panics.
    pub steps: u64,
    /// What the kernels of the clients' machines take, and note the times of; `None`: nothing.
    pub kernel: Option<Kernel>,
    /// Whether the oracle follows every request; costs time and memory.
    pub watch: bool,
    /// Whether the clients keep service times over time ([`prony_core::record::Tally::served`]).
    pub keep_service: bool,
}

/// How long the kernel of a client's machine takes on the way out and in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// From the write to the packet scheduler.
    pub to_scheduler: Span,
    /// From there to the device, from where it is the card's.
    pub to_device: Span,
    /// From the arrival to the read.
    pub to_user: Span,
    /// The network card, if it notes times as well; without one, the device is the link's begin.
    pub card: Option<Card>,
}

/// A network card that notes times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// How long it takes between the device and the link, both ways.
    pub takes: Span,
    /// By how many nanoseconds its clock is ahead.
    pub ahead: u64,
    /// Whether it tells of what it has sent only after the next bytes have been read.
    pub is_slow: bool,
}

impl Kernel {
    /// What the card takes, one way.
    fn card_takes(&self) -> Span {
        self.card.map_or(Span::ZERO, |card| card.takes)
    }
}

/// What has happened.
#[derive(Debug)]
pub struct Ran {
    /// When each client was finished.
    pub finished: Vec<Nanos>,
    /// Calls of `on_*` that each client got.
    pub turns: Vec<u64>,
    /// What each client's event loop would tell of its stalls.
    pub stalls: Vec<Stalls>,
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

/// Actions after one call, and events at one instant, beyond which nobody works any more: a
/// livelock.
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
    /// The machine has looked at its sockets.
    Turn(usize),
    Stop(StopRequest),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            link: Link::default(),
            seed: 0,
            stops: Vec::new(),
            late: Span::ZERO,
            held: None,
            steps: 200_000_000,
            kernel: None,
            watch: true,
            keep_service: false,
        }
    }
}

impl Setup {
    /// A world with that network and seed.
    pub fn new(link: Link, seed: u64) -> Self {
        Self { link, seed, ..Self::default() }
    }

    /// Run the clients against the servers until every client is finished and what is then still
    /// under way has arrived. A connection to endpoint e goes to server e modulo their number.
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
                stalls: Vec::new(),
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
            if let Some(end) = self.held_until(at, what) {
                self.put_off(end, what);
                continue;
            }
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
            self.ran.stalls.push(self.setup.held.map(|h| h.stalls(at)).unwrap_or_default());
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
            Self::Turn(_) | Self::Stop(_) => None,
        }
    }
}
