//! The virtual world: one clock, one heap of events, clients and servers that are [`Machine`]s, and
//! the network between them.
//!
//! The world is a driver, and follows the contract of [`prony_base::machine`]. If a machine breaks
//! the contract, the world panics and says how. The setup and its seed determine everything: the
//! same seed gives the same outcome to the byte.

mod actions;
mod events;
mod pauses;

use std::collections::VecDeque;
use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::feed::Feeds;
use prony_base::machine::{Machine, StopRequest};
use prony_base::meter::Stalls;
use prony_base::units::{ConnId, Nanos, Span};
use prony_core::engine::{Contact, Taps};
use prony_plan::tokenizer::Tokenizers;

use crate::link::{Link, Pipe};
use crate::oracle::Oracle;
use crate::queue::Queue;
use crate::rng::Rng;
pub use pauses::Pauses;

/// The configuration of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network, the same for every connection.
    pub link: Link,
    /// The seed of all random choices.
    pub seed: u64,
    /// When the user stops all clients, and how.
    pub stops: Vec<(Nanos, StopRequest)>,
    /// How late a client's timer can fire; the lateness is uniform from zero.
    pub timer_lateness: Span,
    /// When the clients do not run.
    pub pauses: Option<Pauses>,
    /// The number of events after which the world panics, because it hangs.
    pub max_events: u64,
    /// The delays of the clients' kernels, which then also make timestamps; `None`: neither.
    pub kernel: Option<Kernel>,
    /// Whether the oracle follows every request, which costs time and memory.
    pub watch: bool,
    /// Whether the world calls `on_poll` of the clients.
    pub report_polls: bool,
    /// Whether the clients keep the timestamps of every success
    /// ([`prony_tally::record::Tally::kept`]).
    pub keep_requests: bool,
    /// Whether the clients keep the service times over time
    /// ([`prony_tally::record::Tally::service_series`]).
    pub keep_service: bool,
    /// What has the requests of a plan of a log.
    pub feeds: Option<Feeds>,
    /// Creates a tap for each client.
    pub taps: Option<Taps>,
    /// Finds the tokenizers of plans.
    pub tokenizers: Option<Tokenizers>,
    /// Ends the load of the clients if they cannot reach their servers.
    pub contact: Option<Arc<Contact>>,
}

/// The delays of the kernel of a client's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// From the write to the packet scheduler.
    pub to_scheduler: Span,
    /// From the packet scheduler to the network device.
    pub to_device: Span,
    /// From the arrival to the read.
    pub to_user: Span,
    /// The network card, if it makes timestamps too. Without one, the link starts at the device.
    pub card: Option<Card>,
}

/// A network card that makes timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The delay between the device and the link, in each direction.
    pub takes: Span,
    /// By how many nanoseconds its clock is ahead.
    pub ahead: u64,
    /// Whether its timestamp of a write arrives only after the next bytes have been read.
    pub is_slow: bool,
}

impl Kernel {
    /// The delay of the card, in one direction.
    fn card_takes(&self) -> Span {
        self.card.map_or(Span::ZERO, |card| card.takes)
    }
}

/// What happened in a world.
#[derive(Debug)]
pub struct WorldOutcome {
    /// When each client finished.
    pub finished: Vec<Nanos>,
    /// The number of `on_*` calls of each client.
    pub turns: Vec<u64>,
    /// The stalls that each client's event loop would have reported.
    pub stalls: Vec<Stalls>,
    /// Connections that clients had open when they finished.
    pub client_connections_left: u64,
    /// Connections that servers had open at the end.
    pub server_connections_left: u64,
    /// The number of events.
    pub events: u64,
    /// A digest of every event, with its time and its bytes, in order.
    pub digest: u64,
    /// What was observed on the network.
    pub oracle: Oracle,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// More actions after one call, or more events at one time, are a livelock.
const LIVELOCK: u64 = 2_000_000;

struct World<'a, 'm> {
    setup: &'a Setup,
    rng: Rng,
    now: Nanos,
    events: Queue<Event>,
    /// Clients first, then servers.
    machines: &'a mut [&'m mut dyn Machine],
    states: Vec<MachineState>,
    clients: usize,
    conns: Vec<Conn>,
    free: Vec<usize>,
    free_buffers: Vec<Vec<u8>>,
    outcome: WorldOutcome,
    instant: u64,
}

/// The world's state of one machine.
#[derive(Default)]
struct MachineState {
    /// For each slot of an id: the generation and the connection.
    names: Vec<Option<(u32, usize)>>,
    deadline: Option<Nanos>,
    tick_at: Option<Nanos>,
    finished: Option<Nanos>,
    turns: u64,
    /// When its sockets were last polled.
    polled: Option<Nanos>,
    /// When the first event of this pause was due.
    woken: Option<Nanos>,
    /// How long it waited for a processor at the end of its last poll.
    delay: Span,
}

struct Conn {
    ends: [End; 2],
    /// Indexed by the sending end.
    pipes: [Pipe; 2],
    /// Events in the heap that refer to this connection.
    pending: u32,
    endpoint: u32,
    was_reset: bool,
    /// When segments arrived while the client was paused, in order.
    unread: VecDeque<Nanos>,
    /// When the connection opened, if the client was paused then.
    opened_in_pause: Option<Nanos>,
    /// Whether the place can be used again.
    free: bool,
}

#[derive(Clone, Copy)]
struct End {
    machine: usize,
    id: ConnId,
    state: EndState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndState {
    /// The server's end, before the connection is accepted.
    Absent,
    Opening,
    Open,
    /// The connection has failed; the machine has not closed it yet.
    Dead,
    /// The machine has closed the connection.
    Closed,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The connect reaches the server.
    Syn(usize),
    /// The client's connection is open.
    Opened(usize),
    /// The client's connect has failed.
    Failed(usize, Fault),
    /// The next segment from this end arrives at the other end.
    Arrives(usize, usize),
    /// This number of bytes from this end is acknowledged.
    Ack(usize, usize, usize),
    /// The socket of this end is writable again.
    Writable(usize, usize),
    /// The machine's sockets have been polled.
    Turn(usize),
    Stop(StopRequest),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            link: Link::default(),
            seed: 0,
            stops: Vec::new(),
            timer_lateness: Span::ZERO,
            pauses: None,
            max_events: 200_000_000,
            kernel: None,
            watch: true,
            report_polls: true,
            keep_requests: false,
            keep_service: false,
            feeds: None,
            taps: None,
            tokenizers: None,
            contact: None,
        }
    }
}

impl Setup {
    /// A world with this network and seed.
    pub fn new(link: Link, seed: u64) -> Self {
        Self { link, seed, ..Self::default() }
    }

    /// Run the clients against the servers until every client has finished and everything in
    /// flight has arrived. A connection to endpoint e goes to server e modulo their number.
    pub fn run(
        &self,
        clients: &mut [&mut dyn Machine],
        servers: &mut [&mut dyn Machine],
    ) -> WorldOutcome {
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
        let states = machines.iter().map(|_| MachineState::default()).collect();
        Self {
            setup,
            rng: Rng::new(setup.seed, 0x11),
            now: Nanos::ZERO,
            events: Queue::default(),
            machines,
            states,
            clients,
            conns: Vec::new(),
            free: Vec::new(),
            free_buffers: Vec::new(),
            outcome: WorldOutcome {
                finished: Vec::new(),
                turns: Vec::new(),
                stalls: Vec::new(),
                client_connections_left: 0,
                server_connections_left: 0,
                events: 0,
                digest: 0xcbf2_9ce4_8422_2325,
                oracle: Oracle::new(setup.watch),
            },
            instant: 0,
        }
    }

    fn run(mut self) -> WorldOutcome {
        for &(at, how) in &self.setup.stops {
            self.push(at, Event::Stop(how));
        }
        for m in 0..self.machines.len() {
            self.settle(m);
        }
        while let Some((at, kind)) = self.next() {
            if let Some(end) = self.postponed_until(at, kind) {
                self.postpone(end, at, kind);
                continue;
            }
            self.advance(at);
            match kind {
                Ok(kind) => self.handle(kind),
                Err(m) => self.tick(m),
            }
        }
        for (m, state) in self.states.iter().enumerate().take(self.clients) {
            let Some(at) = state.finished else {
                panic!("client {m} has not finished, but there are no more events");
            };
            self.outcome.finished.push(at);
            self.outcome.turns.push(state.turns);
            self.outcome.stalls.push(self.setup.pauses.map(|h| h.stalls(at)).unwrap_or_default());
        }
        self.outcome.server_connections_left =
            self.conns.iter().filter(|c| c.ends[SERVER].is_held()).count() as u64;
        self.outcome
    }

    /// The next event, or the machine whose timer fires next.
    fn next(&mut self) -> Option<(Nanos, Result<Event, usize>)> {
        let over = self.states[..self.clients].iter().all(|s| s.finished.is_some());
        if over && self.free.len() == self.conns.len() {
            return None;
        }
        let tick = (0..self.states.len())
            .filter(|&m| self.states[m].finished.is_none())
            .filter_map(|m| self.states[m].tick_at.map(|at| (at, m)))
            .min();
        let event = self.events.next_at();
        match (event, tick) {
            (None, None) => None,
            (Some(at), Some((t, m))) if t < at => Some((t, Err(m))),
            (None, Some((t, m))) => Some((t, Err(m))),
            (Some(at), _) => {
                let (_, event) = self.events.pop().expect("it was just seen");
                Some((at, Ok(event)))
            }
        }
    }

    fn advance(&mut self, at: Nanos) {
        assert!(at >= self.now, "time went backwards: {} after {}", at, self.now);
        self.instant = if at > self.now { 0 } else { self.instant + 1 };
        self.now = at;
        self.outcome.events += 1;
        assert!(self.instant < LIVELOCK, "livelock: too many events at {at}");
        assert!(
            self.outcome.events <= self.setup.max_events,
            "the world hangs: {} events until {at}",
            self.outcome.events
        );
        self.digest(at.0);
    }

    fn push(&mut self, at: Nanos, kind: Event) {
        if let Some(c) = kind.conn() {
            self.conns[c].pending += 1;
        }
        self.events.push(at, kind);
    }

    /// Add a word to the digest of all events.
    fn digest(&mut self, word: u64) {
        let mixed = (self.outcome.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.outcome.digest = mixed ^ (mixed >> 29);
    }

    fn digest_bytes(&mut self, data: &[u8]) {
        for chunk in data.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.digest(u64::from_le_bytes(word));
        }
        self.digest(data.len() as u64);
    }
}

impl End {
    fn is_held(self) -> bool {
        matches!(self.state, EndState::Opening | EndState::Open | EndState::Dead)
    }
}

impl Event {
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
