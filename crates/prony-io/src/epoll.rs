//! The readiness driver: edge-triggered epoll, one shared receive buffer, one read per event.
//!
//! A connection is registered once, for everything. An event is answered by one read; a read that
//! comes back shorter than the buffer has emptied the socket (epoll(7)), and whatever arrives after
//! it makes a new edge. The clock is read after each read; the write that answers it at once goes
//! out under the same time.

mod open;
pub(crate) mod poller;

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use crate::clock::Clock;
use crate::control::Control;
use crate::desk::Desk;
use crate::driver::{Config, DriverStats, Network, Pulse, Sampler};
use crate::errno;
use crate::give::{Given, give};
use crate::pace::{Pace, Poll};
use crate::sock::{self, Boundaries, Read};
use crate::stamps::Stamps;
use poller::Poller;

/// The worker's receive buffer.
const BUFFER: usize = 256 * 1024;
/// Full buffers read from one connection before the others get their turn.
const READS_IN_A_ROW: u32 = 4;

const EDGE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const EDGE_BOTH: u32 = EDGE | libc::EPOLLOUT as u32;
const LEVEL_SHARED: u32 = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;
const WRITABLE: u32 = libc::EPOLLOUT as u32;
const READABLE: u32 = (libc::EPOLLIN | ENDING as i32) as u32;
const ENDING: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
const ERROR: u32 = libc::EPOLLERR as u32;
const BROKEN: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// Slots that are no connections; the upper half of such a tag is an index.
const LISTENER: u32 = u32::MAX - 1;
const LINGERING: u32 = u32::MAX - 2;

/// `Conn::endpoint` of an accepted connection.
const ACCEPTED: u32 = u32::MAX;

/// The epoll driver.
#[derive(Debug)]
pub struct Epoll {
    poller: Poller,
    pace: Pace,
    network: Network,
    conns: Vec<Conn>,
    buffer: Box<[u8]>,
    /// What must be told to the machine, or read on, once it has no more actions.
    pending: Vec<(ConnId, Pending)>,
    /// The machine has put something off until the sockets were looked at.
    yields: bool,
    /// The last batch of `pending`, kept for its memory.
    spare: Vec<(ConnId, Pending)>,
    /// Connects that a full unix listener put off: when to ask again, and when no more.
    retries: Vec<(ConnId, Nanos, Nanos)>,
    listeners: Vec<OwnedFd>,
    /// Takes new clients, where it has somebody for them.
    desk: Option<Arc<Desk>>,
    /// Listeners rest until then.
    paused: Option<Nanos>,
    /// Closed connections of a server whose peers are still heard out, until then.
    lingering: HashMap<RawFd, Nanos>,
    sampler: Sampler,
    /// Reads the kernel's time stamps, where they are wanted.
    stamps: Option<Box<Stamps>>,
    wants_stamps: bool,
    stats: DriverStats,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
struct Conn {
    fd: RawFd,
    generation: u32,
    endpoint: u32,
    tried: u16,
    state: State,
    /// A write did not fit: the next comes after the edge that says there is room.
    blocked: bool,
    /// The peer has ended its stream.
    ended: bool,
    unix: bool,
    boundaries: Boundaries,
    /// Batches sent, up to 2: more than one means a kept-alive connection.
    sends: u8,
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
    Connected,
    Refused(Fault),
    /// Read on; `to_end`: until the socket has nothing more.
    ReadOn {
        to_end: bool,
    },
    /// A write found the connection dead: read what came before, then tell.
    Broken(Fault),
    WriteOn,
}

const FREE: Conn = Conn {
    fd: -1,
    generation: 0,
    endpoint: ACCEPTED,
    tried: 0,
    state: State::Free,
    blocked: false,
    ended: false,
    unix: false,
    boundaries: Boundaries::None,
    sends: 0,
};

type Flow = ControlFlow<()>;

impl Epoll {
    /// A driver for the calling thread: measures for about 20 ms how punctually its sleeps end.
    pub fn new(config: Config) -> io::Result<Self> {
        Self::build(config, false)
    }

    fn build(mut config: Config, old_kernel: bool) -> io::Result<Self> {
        let mut poller = Poller::new(old_kernel)?;
        let pace = Pace::new(config.precision, &mut poller);
        for (i, l) in config.listeners.iter().enumerate() {
            poller
                .add(l.as_raw_fd(), tag(LISTENER, i as u32), LEVEL_SHARED)
                .map_err(io::Error::from_raw_os_error)?;
        }
        Ok(Self {
            poller,
            pace,
            network: Network::new(&mut config),
            conns: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            pending: Vec::new(),
            yields: false,
            spare: Vec::new(),
            retries: Vec::new(),
            listeners: config.listeners,
            desk: config.desk,
            paused: None,
            lingering: HashMap::new(),
            sampler: Sampler::new(config.tcp_info),
            stamps: None,
            wants_stamps: config.timestamps,
            stats: DriverStats::default(),
        })
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
        self.stamps = self.wants_stamps.then(|| Box::new(Stamps::new(clock)));
        let mut flow = self.act(m, None);
        while flow.is_continue() {
            flow = self.turn(m, control, pulse);
        }
        self.let_go();
        self.stats.end = self.pace.read_clock();
        self.stats.spin = self.pace.spun();
        self.stats.stalls = self.pace.stalls();
        self.stats.transport = self.sampler.sum();
        self.stats.stamps = self.stamps.as_ref().map(|s| s.told());
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
            self.end_lingering();
        }
        if let Some(how) = self.pace.stop_asked(control) {
            let now = self.pace.read_clock();
            m.on_stop(how, now);
            self.act(m, None)?;
        }
        self.tick(m)?;
        let n = self.wait(self.pace.when(m.deadline()));
        for i in 0..n {
            let (tag, flags) = self.poller.event(i);
            self.event(m, tag, flags)?;
            self.tick(m)?;
        }
        self.catch_up(m)?;
        self.go_on(m)
    }

    /// Go on with what the machine has put off until the sockets were looked at.
    #[inline]
    fn go_on<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        if !std::mem::take(&mut self.yields) {
            return Flow::Continue(());
        }
        let now = self.pace.read_clock();
        m.on_turn(now);
        self.act(m, None)
    }

    /// Tell the machine of a deadline that the last reading of the clock has passed.
    #[inline]
    fn tick<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        let now = self.pace.now();
        if self.pace.when(m.deadline()).is_some_and(|d| d <= now) {
            m.on_tick(now);
            return self.act(m, None);
        }
        Flow::Continue(())
    }

    /// Wait for events until the deadline or the next pulse; how many there are.
    fn wait(&mut self, deadline: Option<Nanos>) -> usize {
        if !self.pending.is_empty() || self.yields {
            return self.poller.poll(Span::ZERO);
        }
        let retry = self.retries.iter().map(|&(_, again, _)| again).min();
        let own = match (self.paused, retry) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.pace.wait(&mut self.poller, deadline, own)
    }

    fn event<M: Machine + ?Sized>(&mut self, m: &mut M, tag: u64, flags: u32) -> Flow {
        let id = ConnId { slot: tag as u32, generation: (tag >> 32) as u32 };
        match id.slot {
            LISTENER => return self.accept(m, id.generation),
            LINGERING => {
                self.hear_out(id.generation as RawFd);
                return Flow::Continue(());
            }
            _ if tag == poller::TIMER => return Flow::Continue(()),
            _ => {}
        }
        // A connection that was closed earlier in this batch.
        let stamped = self.stamps.is_some();
        let Some(c) = self.live(id) else { return Flow::Continue(()) };
        match c.state {
            State::Open if stamped && flags & ERROR != 0 => {
                let boundaries = c.boundaries;
                self.tell_stamps(m, id);
                return self.event(m, tag, without_stamps(flags, boundaries));
            }
            State::Connecting => {
                if flags & BROKEN != 0 {
                    let fd = c.fd;
                    return self.connect_failed(m, id, sock::pending_error(fd));
                }
                if flags & WRITABLE == 0 {
                    return Flow::Continue(());
                }
                self.connected(m, id)?;
            }
            State::Open if c.blocked && flags & WRITABLE != 0 => {
                c.blocked = false;
                if c.unix {
                    self.watch_unix(id, EDGE);
                }
                let now = self.pace.read_clock();
                self.send(m, id, now);
                self.act(m, None)?;
            }
            _ => {}
        }
        if flags & READABLE != 0 {
            self.receive(m, id, flags & ENDING != 0)
        } else {
            Flow::Continue(())
        }
    }

    /// Read what is there and hand it to the machine; `to_end`: the kernel says that the stream
    /// ends, so read on.
    fn receive<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, to_end: bool) -> Flow {
        for _ in 0..READS_IN_A_ROW {
            let Some(c) = self.live(id).filter(|c| c.state == State::Open && !c.ended) else {
                return Flow::Continue(());
            };
            let (fd, boundaries) = (c.fd, c.boundaries);
            let read = match &mut self.stamps {
                None => sock::read(fd, &mut self.buffer),
                Some(stamps) => stamps.read(fd, &mut self.buffer, 0),
            };
            match read {
                Read::Data(n) => {
                    let now = self.pace.read_clock();
                    if let Some(stamps) = &mut self.stamps {
                        stamps.tell_received(&mut |stamp| m.on_stamp(id, stamp));
                    }
                    m.on_recv(id, &mut self.buffer[..n], now);
                    self.act(m, Some((id, now)))?;
                    // A message says nothing of what is behind it.
                    if n < BUFFER && !to_end && boundaries == Boundaries::None {
                        return Flow::Continue(());
                    }
                }
                Read::Empty => return Flow::Continue(()),
                Read::End if boundaries == Boundaries::Datagrams => {}
                Read::End => {
                    if let Some(c) = self.live(id) {
                        c.ended = true;
                    }
                    let now = self.pace.read_clock();
                    m.on_closed(id, None, now);
                    return self.act(m, Some((id, now)));
                }
                Read::Dead(e) => return self.dead(m, id, errno::stream_fault(e)),
            }
        }
        self.pending.push((id, Pending::ReadOn { to_end }));
        Flow::Continue(())
    }

    /// Tell the machine that the connection is dead, unless it let go of it meanwhile.
    fn dead<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, fault: Fault) -> Flow {
        let Some(c) = self.live(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        let now = self.pace.read_clock();
        m.on_closed(id, Some(fault), now);
        self.act(m, None)
    }

    /// Carry out what the machine wants. `fresh`: a connection, and the time read just now on its
    /// behalf.
    #[inline]
    fn act<M: Machine + ?Sized>(&mut self, m: &mut M, fresh: Option<(ConnId, Nanos)>) -> Flow {
        let mut fresh = fresh;
        while let Some(action) = m.poll_action() {
            match action {
                Action::Transmit { id } => {
                    let now = match fresh {
                        Some((same, now)) if same == id => now,
                        _ => self.pace.read_clock(),
                    };
                    self.send(m, id, now);
                }
                Action::Connect { id, endpoint } => self.connect(id, endpoint),
                Action::Close { id, how } => self.close(id, how),
                Action::Yield => self.yields = true,
                Action::Finished => return Flow::Break(()),
            }
            fresh = None;
        }
        Flow::Continue(())
    }

    /// Give the kernel what the connection has to send, as much as it takes.
    #[inline]
    fn send<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, now: Nanos) {
        let Some(c) = live(&mut self.conns, id) else { return };
        if c.blocked || c.state != State::Open {
            return;
        }
        let given = give(m, (id, c.fd), now, sock::write);
        c.sends = (c.sends + 1).min(2);
        if let Some(stamps) = &mut self.stamps {
            // Now, so that they wake nobody up.
            stamps.drain(c.fd, &mut |stamp| m.on_stamp(id, stamp));
        }
        match given {
            Given::All => {}
            Given::Some => self.pending.push((id, Pending::WriteOn)),
            Given::Full => {
                c.blocked = true;
                if c.unix {
                    self.watch_unix(id, EDGE_BOTH);
                }
            }
            Given::Dead(e) => self.pending.push((id, Pending::Broken(errno::stream_fault(e)))),
        }
    }

    /// Tell the machine what the kernel has noted of what was sent.
    #[cold]
    fn tell_stamps<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId) {
        if let (Some(stamps), Some(c)) = (&mut self.stamps, live(&mut self.conns, id)) {
            stamps.drain(c.fd, &mut |stamp| m.on_stamp(id, stamp));
        }
    }

    /// A unix socket reports room after every message that its peer takes, so it is watched for
    /// room only when it has none. The modification reports at once what is already there.
    fn watch_unix(&mut self, id: ConnId, interest: u32) {
        let Some(c) = live(&mut self.conns, id) else { return };
        if let Err(e) = self.poller.modify(c.fd, tag_of(id), interest) {
            self.pending.push((id, Pending::Broken(errno::stream_fault(e))));
        }
    }

    /// What was put off while the machine had actions: connects decided at once, long reads, dead
    /// connections. What is put off meanwhile waits for the next turn, after a look at the other
    /// connections.
    fn catch_up<M: Machine + ?Sized>(&mut self, m: &mut M) -> Flow {
        self.resume_listeners();
        self.retry_connects();
        if self.pending.is_empty() {
            return Flow::Continue(());
        }
        let mut batch = std::mem::take(&mut self.spare);
        std::mem::swap(&mut batch, &mut self.pending);
        for &(id, what) in &batch {
            self.catch_up_one(m, id, what)?;
            self.tick(m)?;
        }
        batch.clear();
        self.spare = batch;
        Flow::Continue(())
    }

    fn catch_up_one<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, what: Pending) -> Flow {
        if self.live(id).is_none() {
            return Flow::Continue(());
        }
        match what {
            Pending::Connected => self.connected(m, id),
            Pending::Refused(fault) => self.dead(m, id, fault),
            Pending::ReadOn { to_end } => self.receive(m, id, to_end),
            Pending::Broken(fault) => {
                self.receive(m, id, true)?;
                if let Some((same, Pending::ReadOn { .. })) = self.pending.last()
                    && *same == id
                {
                    self.pending.pop();
                    self.pending.push((id, what));
                    return Flow::Continue(());
                }
                self.dead(m, id, fault)
            }
            Pending::WriteOn => {
                let now = self.pace.read_clock();
                self.send(m, id, now);
                self.act(m, None)
            }
        }
    }

    /// The connection of that name, unless it was let go of.
    #[inline]
    fn live(&mut self, id: ConnId) -> Option<&mut Conn> {
        live(&mut self.conns, id)
    }

    /// Let go of a connection.
    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(c) = live(&mut self.conns, id) else { return };
        let conn = std::mem::replace(c, FREE);
        if conn.fd < 0 {
            return; // its socket could not be made
        }
        if conn.state != State::Connecting && !conn.unix {
            self.sampler.closing(conn.fd, conn.sends > 1);
        }
        let served = conn.endpoint == ACCEPTED && conn.state == State::Open && !conn.ended;
        if served && how == CloseHow::Orderly {
            self.linger(conn.fd);
        } else {
            sock::close_how(conn.fd, how);
        }
    }

    /// The run is over: close everything.
    fn let_go(&mut self) {
        for c in std::mem::take(&mut self.conns) {
            if c.state == State::Free || c.fd < 0 {
                continue;
            }
            if c.state == State::Open && !c.unix {
                self.sampler.closing(c.fd, c.sends > 1);
            }
            sock::close(c.fd);
        }
        for (fd, _) in self.lingering.drain() {
            sock::close(fd);
        }
        self.pending.clear();
        self.retries.clear();
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // A machine that panics leaves its connections open.
        self.let_go();
    }
}

#[inline]
fn live(conns: &mut [Conn], id: ConnId) -> Option<&mut Conn> {
    conns
        .get_mut(id.slot as usize)
        .filter(|c| c.state != State::Free && c.generation == id.generation)
}

/// What an event says besides that stamps wait in the error queue. The errors of a stream are told
/// by its end as well; that of a datagram must be looked for.
#[cold]
fn without_stamps(flags: u32, boundaries: Boundaries) -> u32 {
    let is_datagram = boundaries == Boundaries::Datagrams;
    flags & !ERROR | if is_datagram { libc::EPOLLIN as u32 } else { 0 }
}

fn tag(slot: u32, index: u32) -> u64 {
    u64::from(index) << 32 | u64::from(slot)
}

fn tag_of(id: ConnId) -> u64 {
    tag(id.slot, id.generation)
}
