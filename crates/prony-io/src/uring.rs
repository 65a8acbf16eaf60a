//! The completion driver: io_uring with one standing receive per connection into shared buffers.
//!
//! All that the machine wants is queued while a batch of completions is worked through, and handed
//! over with the wait for the next batch: one system call for both. The clock is read once per
//! batch, after that call returned: no byte that the batch brings arrived later, and none that it
//! sends leaves earlier, so that a latency may come out longer than it was and never shorter.
//!
//! A send is decided when its submission returns, without a completion where all was taken. What
//! was not taken goes on as a slow send out of memory of its own, which completes when it is
//! through; until then the connection sends nothing else.

mod buffers;
mod open;
mod ring;
mod send;

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use prony_core::fault::Fault;
use prony_core::machine::{Action, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use crate::clock::Clock;
use crate::control::Control;
use crate::driver::{Config, DriverStats, Network, Pulse, Sampler};
use crate::errno;
use crate::pace::{Pace, Poll};
use crate::sock;
use buffers::Piece;
use open::Parting;
use ring::{Completed, Ring};

/// `Conn::endpoint` of an accepted connection.
const ACCEPTED: u32 = u32::MAX;

/// The io_uring driver.
#[derive(Debug)]
pub struct Uring {
    ring: Ring,
    /// Memory of slow sends that are through.
    spare_slow: Vec<Vec<u8>>,
    pace: Pace,
    network: Network,
    conns: Vec<Conn>,
    pending: Vec<(ConnId, Pending)>,
    /// The machine has put something off until the sockets were looked at.
    yields: bool,
    /// The last batch of `pending`, kept for its memory.
    spare: Vec<(ConnId, Pending)>,
    /// Connections that the machine let go of and that still have bytes to send or to hear.
    parting: HashMap<u64, Parting>,
    /// How many of them are to be looked at when the batch is over.
    flushing: usize,
    listeners: Vec<OwnedFd>,
    /// What they are.
    listener_kinds: Vec<ListenerKind>,
    /// Listeners that await nothing now, and until when they rest.
    idle_listeners: Vec<(u32, Nanos)>,
    sampler: Sampler,
    stats: DriverStats,
}

/// A ring with its buffers, where the kernel gives one.
#[derive(Debug)]
pub struct Mounted {
    ring: Ring,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
struct Conn {
    fd: RawFd,
    generation: u32,
    endpoint: u32,
    tried: u16,
    state: State,
    /// A receive stands in the kernel.
    armed: bool,
    /// The peer has ended its stream.
    ended: bool,
    /// A slow send is under way.
    slow: bool,
    unix: bool,
    /// Each piece that the machine gives is a message, and is sent by itself (SCTP).
    messages: bool,
    /// Batches sent, up to 2: more than one means a kept-alive connection.
    sends: u8,
    /// A send has failed: told when all that was received before it is.
    broken: Option<Fault>,
    /// The last send that is decided at its submission: in which batch, and where its bytes lie.
    sent_in: u64,
    sent: Piece,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No connection uses the slot.
    Free,
    Connecting,
    Open,
    /// The machine was told that it is dead; only its `Close` is awaited.
    Dead,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Refused(Fault),
    /// A connect that was waited for has come to this.
    Decided(i32),
    WriteOn,
    /// Let the kernel receive again.
    Arm,
}

/// What a completion is about: the upper four bits of its `user_data`; then the slot, then the
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    /// Nobody waits for it.
    None,
    Receive,
    Send,
    SlowSend,
    Connect,
    /// The slot is a listener's index.
    Accept,
    /// The same: somebody waits at it who cannot be accepted by the ring.
    Knock,
}

/// What a listener takes connections of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerKind {
    Stream,
    Unix,
    /// One-to-one sockets of SCTP.
    Associations,
    /// A one-to-many socket of SCTP, from which associations are branched off.
    OneToMany,
}

const FREE: Conn = Conn {
    fd: -1,
    generation: 0,
    endpoint: ACCEPTED,
    tried: 0,
    state: State::Free,
    armed: false,
    ended: false,
    slow: false,
    unix: false,
    messages: false,
    sends: 0,
    broken: None,
    sent_in: u64::MAX,
    sent: Piece::NONE,
};

type Flow = ControlFlow<()>;

impl Mounted {
    /// A ring for the calling thread. Fails where the kernel refuses io_uring or lacks what is
    /// needed.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new()? })
    }
}

impl Uring {
    /// A driver for the calling thread, which must have made the ring: measures for about 20 ms how
    /// punctually its sleeps end.
    pub fn new(mounted: Mounted, mut config: Config) -> Self {
        let Mounted { mut ring } = mounted;
        let pace = Pace::new(config.precision, &mut ring);
        let listener_kinds = config.listeners.iter().map(|l| kind_of(l.as_raw_fd())).collect();
        let idle_listeners = (0..config.listeners.len()).map(|i| (i as u32, Nanos::ZERO)).collect();
        Self {
            ring,
            spare_slow: Vec::new(),
            pace,
            network: Network::new(&mut config),
            conns: Vec::new(),
            pending: Vec::new(),
            yields: false,
            spare: Vec::new(),
            parting: HashMap::new(),
            flushing: 0,
            listeners: config.listeners,
            listener_kinds,
            idle_listeners,
            sampler: Sampler::new(config.tcp_info),
            stats: DriverStats::default(),
        }
    }

    /// Run the machine until it is finished.
    pub fn run<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        clock: Clock,
        control: &Control,
        pulse: Pulse<'_, M>,
    ) -> DriverStats {
        self.pace.begin(clock);
        let mut flow = self.act(m);
        while flow.is_continue() {
            flow = self.turn(m, control, pulse);
        }
        self.let_go();
        self.stats.end = self.pace.read_clock();
        self.stats.spin = self.pace.spun();
        self.stats.stalls = self.pace.stalls();
        self.stats.transport = self.sampler.sum();
        pulse(m, self.stats.end, self.stats.spin);
        self.stats
    }

    fn turn<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        control: &Control,
        pulse: Pulse<'_, M>,
    ) -> Flow {
        self.stats.turns += 1;
        if self.pace.pulse_is_due() {
            pulse(m, self.pace.now(), self.pace.spun());
            self.sampler.pulse();
            self.end_partings();
        }
        if let Some(how) = self.pace.stop_asked(control) {
            let now = self.pace.read_clock();
            m.on_stop(how, now);
            self.act(m)?;
        }
        self.tick(m)?;
        self.arm_listeners();
        self.wait(self.pace.when(m.deadline()));
        self.ring.next_batch();
        self.pace.read_clock();
        while let Some(completed) = self.ring.next() {
            self.complete(m, completed)?;
            self.tick(m)?;
        }
        self.catch_up(m)?;
        self.ring.buffers().publish();
        self.settle_partings();
        self.go_on(m)
    }

    /// Hand over what is queued and wait for completions until the deadline or the next pulse.
    fn wait(&mut self, deadline: Option<Nanos>) {
        if !self.pending.is_empty() || self.has_flushing() || self.yields {
            self.ring.poll(Span::ZERO);
            return;
        }
        let own = self.idle_listeners.iter().map(|&(_, until)| until).min();
        self.pace.wait(&mut self.ring, deadline, own);
    }

    fn complete<M: Machine + ?Sized>(&mut self, m: &mut M, completed: Completed) -> Flow {
        let (op, id) = unpack(completed.what());
        let result = completed.result;
        match op {
            Op::Receive => self.received(m, id, completed),
            Op::Send => self.send_fell_short(id, result),
            Op::SlowSend => self.slow_send_ended(m, id, completed),
            Op::Connect => self.connect_ended(m, id, result),
            Op::Accept => self.accepted(m, id.slot, result, completed.more),
            Op::Knock => self.knocked(m, id.slot),
            Op::None => Flow::Continue(()),
        }
    }

    /// Something came of the standing receive: bytes, the stream's end, or an error.
    fn received<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        id: ConnId,
        completed: Completed,
    ) -> Flow {
        let (result, stands) = (completed.result, completed.more);
        let buffer = completed.filled();
        let Some(c) = live(&mut self.conns, id) else {
            if let Some(buffer) = buffer {
                self.ring.buffers().give_back(buffer);
            }
            self.parting_received(id, result, stands);
            return Flow::Continue(());
        };
        c.armed = stands;
        if c.state != State::Open || c.ended {
            if let Some(buffer) = buffer {
                self.ring.buffers().give_back(buffer);
            }
            return Flow::Continue(());
        }
        match (result, buffer) {
            (1.., Some(buffer)) => {
                let now = self.pace.now();
                m.on_recv(id, self.ring.buffers().received(&buffer), now);
                self.ring.buffers().give_back(buffer);
                self.act(m)?;
                if !stands {
                    self.pending.push((id, Pending::Arm));
                }
                Flow::Continue(())
            }
            (0, buffer) => {
                c.ended = true;
                if let Some(buffer) = buffer {
                    self.ring.buffers().give_back(buffer);
                }
                m.on_closed(id, None, self.pace.now());
                self.act(m)?;
                match self.live(id).and_then(|c| c.broken) {
                    Some(fault) => self.dead(m, id, fault),
                    None => Flow::Continue(()),
                }
            }
            (e, _) => match -e {
                // No buffer was free: those of this batch will be.
                libc::ENOBUFS | libc::EINTR | libc::EAGAIN | libc::ECANCELED => {
                    self.pending.push((id, Pending::Arm));
                    Flow::Continue(())
                }
                e => {
                    let fault = c.broken.unwrap_or_else(|| errno::stream_fault(e));
                    self.dead(m, id, fault)
                }
            },
        }
    }

    /// Tell the machine that the connection is dead, unless it let go of it meanwhile.
    fn dead<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, fault: Fault) -> Flow {
        let now = self.pace.now();
        let Some(c) = self.live(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        m.on_closed(id, Some(fault), now);
        self.act(m)
    }

    /// Go on with what the machine has put off until the sockets were looked at.
    #[inline]
    fn go_on<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        if !std::mem::take(&mut self.yields) {
            return Flow::Continue(());
        }
        let now = self.pace.read_clock();
        m.on_turn(now);
        self.act(m)
    }

    /// Tell the machine of a deadline that the last reading of the clock has passed.
    #[inline]
    fn tick<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        let now = self.pace.now();
        if self.pace.when(m.deadline()).is_some_and(|d| d <= now) {
            m.on_tick(now);
            return self.act(m);
        }
        Flow::Continue(())
    }

    /// Carry out what the machine wants.
    #[inline]
    fn act<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        while let Some(action) = m.poll_action() {
            match action {
                Action::Transmit { id } => self.send(m, id),
                Action::Connect { id, endpoint } => self.connect(id, endpoint),
                Action::Close { id, how } => self.close(id, how),
                Action::Yield => self.yields = true,
                Action::Finished => return Flow::Break(()),
            }
        }
        Flow::Continue(())
    }

    /// What was put off while the machine had actions, or until buffers were free.
    fn catch_up<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        if self.pending.is_empty() {
            return Flow::Continue(());
        }
        self.ring.buffers().publish();
        let mut batch = std::mem::take(&mut self.spare);
        std::mem::swap(&mut batch, &mut self.pending);
        for &(id, what) in &batch {
            match what {
                _ if self.live(id).is_none() => {}
                Pending::Refused(fault) => self.dead(m, id, fault)?,
                Pending::Decided(result) => self.connect_ended(m, id, result)?,
                Pending::WriteOn => {
                    self.send(m, id);
                    self.act(m)?;
                }
                Pending::Arm => self.arm(id),
            }
        }
        batch.clear();
        self.spare = batch;
        Flow::Continue(())
    }

    #[inline]
    fn live(&mut self, id: ConnId) -> Option<&mut Conn> {
        live(&mut self.conns, id)
    }

    /// The run is over: stop what is under way and close everything.
    fn let_go(&mut self) {
        // One by one by their names, which the kernel looks up: to stop whatever there is, it would
        // search all for each, which takes seconds with ten thousand connections.
        for slot in 0..self.conns.len() {
            let conn = self.conns[slot];
            if conn.state != State::Free && conn.fd >= 0 {
                self.cancel(conn, ConnId { slot: slot as u32, generation: conn.generation });
            }
        }
        self.ring.stop_all();
        while let Some(completed) = self.ring.next() {
            // Accepted, and known to nobody.
            if unpack(completed.what()).0 == Op::Accept && completed.result >= 0 {
                sock::close(completed.result);
            }
            drop(self.ring.take_back(completed));
        }
        for c in std::mem::take(&mut self.conns) {
            if c.state == State::Free || c.fd < 0 {
                continue;
            }
            if c.state == State::Open && !c.unix {
                self.sampler.closing(c.fd, c.sends > 1);
            }
            sock::close(c.fd);
        }
        for (_, parting) in self.parting.drain() {
            sock::close(parting.conn.fd);
        }
        self.pending.clear();
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // A machine that panics leaves its connections open.
        self.let_go();
    }
}

fn kind_of(listener: RawFd) -> ListenerKind {
    match (sock::is_unix(listener), sock::is_sctp(listener)) {
        (true, _) => ListenerKind::Unix,
        (_, false) => ListenerKind::Stream,
        (_, true) if sock::is_one_to_many(listener) => ListenerKind::OneToMany,
        (_, true) => ListenerKind::Associations,
    }
}

#[inline]
fn live(conns: &mut [Conn], id: ConnId) -> Option<&mut Conn> {
    conns
        .get_mut(id.slot as usize)
        .filter(|c| c.state != State::Free && c.generation == id.generation)
}

#[inline]
fn pack(op: Op, id: ConnId) -> u64 {
    debug_assert!(id.slot < 1 << 28);
    u64::from(op as u8) << 60 | u64::from(id.slot) << 32 | u64::from(id.generation)
}

#[inline]
fn unpack(what: u64) -> (Op, ConnId) {
    let op = match what >> 60 {
        1 => Op::Receive,
        2 => Op::Send,
        3 => Op::SlowSend,
        4 => Op::Connect,
        5 => Op::Accept,
        6 => Op::Knock,
        _ => Op::None,
    };
    (op, ConnId { slot: (what >> 32) as u32 & 0x0fff_ffff, generation: what as u32 })
}
