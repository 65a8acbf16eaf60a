//! The driver for ping-pong: one connection, one thing at a time to wait for, so the calls on the
//! socket wait themselves. An exchange is one write and one read, without a poll between them; with
//! `--precision spin` the read is asked again and again instead of waiting.
//!
//! The clock is read right before each write and right after each read that brought something, so
//! that nothing of the machine's own work lies between *sent* and *done*.

use std::ops::ControlFlow;
use std::os::fd::RawFd;

use prony_core::fault::Fault;
use prony_core::machine::{Action, CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use crate::clock::Clock;
use crate::control::{Control, PULSE, StopSeen};
use crate::driver::{Config, DriverStats, Network, Pulse, Sampler, tries_next};
use crate::errno;
use crate::give::{Given, give};
use crate::pace::Spun;
use crate::sleep::{self, Precision};
use crate::sock::{self, Boundaries, Connecting, Mode, Read, waits};
use crate::stamps::{self, Stamps};
use crate::ticks::Ticks;

/// The worker's receive buffer: room for the longest datagram.
const BUFFER: usize = 256 * 1024;
/// Reads in a row, while spinning, between two looks at the clock.
const SPINS: u32 = 32;
/// Between two ticks: a wait that a tick comes too early for ends with the next, within a pulse.
const TICK: Span = Span(PULSE.0 / 2);
/// The longest wait for a connect before the machine's deadlines are looked at.
const CONNECT_SLICE: Span = Span::from_millis(10);

/// The direct driver.
#[derive(Debug)]
pub struct Direct {
    network: Network,
    spins: bool,
    /// Whether ticks end waits.
    ticks: bool,
    buffer: Box<[u8]>,
    /// The connection, where there is one.
    link: Option<Link>,
    /// The machine has put something off until the sockets were looked at.
    yields: bool,
    sampler: Sampler,
    /// Reads the kernel's time stamps, where they are wanted.
    stamps: Option<Box<Stamps>>,
    wants_stamps: bool,
    stats: DriverStats,
    next_pulse: Nanos,
    /// When the last wait was to end at the latest.
    wait_ends: Nanos,
    stop_seen: StopSeen,
    now: Nanos,
}

/// The one connection.
#[derive(Clone, Copy, Debug)]
struct Link {
    id: ConnId,
    fd: RawFd,
    endpoint: u32,
    tried: u16,
    boundaries: Boundaries,
    unix: bool,
    state: State,
    /// How long reads wait, as the kernel was told; `None`: until a tick.
    patience: Option<Span>,
    /// The kernel has not told when the last write left.
    awaits_stamps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its socket is to be made.
    Asked,
    Connecting,
    Open,
    /// A write did not fit.
    Blocked,
    /// The peer has ended its stream, or the machine was told that it is dead.
    Over,
}

type Flow = ControlFlow<()>;

impl Direct {
    /// A driver for the calling thread.
    pub(crate) fn new(mut config: Config) -> Self {
        sleep::tighten_timer_slack();
        Self {
            network: Network::new(&mut config),
            spins: config.precision == Precision::Spin,
            ticks: false,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            link: None,
            yields: false,
            sampler: Sampler::new(config.tcp_info),
            stamps: None,
            wants_stamps: config.timestamps,
            stats: DriverStats::default(),
            next_pulse: Nanos::ZERO,
            wait_ends: Nanos::ZERO,
            stop_seen: StopSeen::default(),
            now: Nanos::ZERO,
        }
    }

    /// Run the machine until it is finished.
    ///
    /// # Panics
    /// Where the machine wants a second connection beside an open one.
    pub fn run<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        clock: Clock,
        control: &Control,
        pulse: Pulse<'_, M>,
    ) -> DriverStats {
        self.stamps = self.wants_stamps.then(|| Box::new(Stamps::new(clock)));
        // A read with stamps waits on where a signal ends a call.
        let may_tick = !self.spins && self.stamps.is_none();
        let ticks = if may_tick { Ticks::new(TICK) } else { None };
        self.ticks = ticks.is_some();
        self.now = clock.now();
        self.next_pulse = self.now + PULSE;
        let mut flow = self.act(m, clock);
        while flow.is_continue() {
            flow = self.turn(m, clock, control, pulse);
        }
        self.let_go();
        self.stats.end = clock.now();
        self.stats.transport = self.sampler.sum();
        self.stats.stamps = self.stamps.as_ref().map(|s| s.told());
        pulse(m, self.stats.end, self.stats.spin);
        self.stats
    }

    fn turn<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        clock: Clock,
        control: &Control,
        pulse: Pulse<'_, M>,
    ) -> Flow {
        self.stats.turns += 1;
        if self.now >= self.next_pulse {
            // It comes back between two waits, of which the last may have begun just before.
            let asked = self.next_pulse.max(self.wait_ends);
            self.stats.stalls.came(self.now.since(asked));
            self.next_pulse = self.now + PULSE;
            pulse(m, self.now, self.stats.spin);
            self.sampler.pulse();
        }
        if let Some(how) = self.stop_seen.asked(control, self.now) {
            m.on_stop(how, self.now);
            self.act(m, clock)?;
        }
        if std::mem::take(&mut self.yields) {
            m.on_turn(self.now);
            self.act(m, clock)?;
        }
        let mut deadline = m.deadline();
        if deadline.is_some_and(|at| at <= self.now) {
            m.on_tick(self.now);
            self.act(m, clock)?;
            deadline = m.deadline();
        }
        let at_most = deadline.map_or(PULSE, |at| at.since(self.now).min(PULSE));
        self.wait_ends = self.now + at_most;
        match self.link {
            Some(link) if link.state == State::Open => self.receive(m, link, at_most, clock),
            Some(link) if link.state == State::Blocked => {
                self.send(m, link, clock);
                self.act(m, clock)
            }
            Some(link) if link.state != State::Over => self.connect(m, link, at_most, clock),
            _ => {
                std::thread::sleep(std::time::Duration::from_nanos(at_most.as_nanos()));
                self.now = clock.now();
                Flow::Continue(())
            }
        }
    }

    /// Wait for what the peer says, and hand it to the machine.
    fn receive<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        link: Link,
        at_most: Span,
        clock: Clock,
    ) -> Flow {
        let mut spun = Spun::since(self.now);
        let read = if self.spins {
            self.spin(link, at_most, clock, &mut spun)
        } else {
            self.wait(link, at_most)
        };
        // Right away: nothing of this program's own is to be part of the exchange.
        self.now = clock.now();
        if self.spins {
            spun.step(self.now);
            self.stats.spin += spun.time;
        }
        match read {
            Read::Data(n) => {
                if let Some(stamps) = &mut self.stamps {
                    // Those of a device that was slow to give them.
                    if link.awaits_stamps {
                        stamps.drain(link.fd, &mut |stamp| m.on_stamp(link.id, stamp));
                    }
                    stamps.tell_received(&mut |stamp| m.on_stamp(link.id, stamp));
                }
                m.on_recv(link.id, &mut self.buffer[..n], self.now);
            }
            Read::Empty => return Flow::Continue(()),
            Read::End if link.boundaries == Boundaries::Datagrams => return Flow::Continue(()),
            Read::End => {
                self.over();
                m.on_closed(link.id, None, self.now);
            }
            Read::Dead(e) => {
                self.over();
                m.on_closed(link.id, Some(errno::stream_fault(e)), self.now);
            }
        }
        self.act(m, clock)
    }

    /// A read that waits. The kernel is told for how long only when that changes, which it does
    /// near a deadline alone: longer waits are ended by ticks.
    fn wait(&mut self, link: Link, at_most: Span) -> Read {
        let limit = (at_most < PULSE || !self.ticks).then_some(at_most);
        let changes = match (limit, link.patience) {
            (Some(now), Some(before)) => now < before || (now == PULSE && before < PULSE),
            (now, before) => now != before,
        };
        if changes {
            waits::limit_reads(link.fd, limit);
            if let Some(link) = &mut self.link {
                link.patience = limit;
            }
        }
        self.read(link, 0)
    }

    fn read(&mut self, link: Link, flags: libc::c_int) -> Read {
        match &mut self.stamps {
            None => sock::read_with(link.fd, &mut self.buffer, flags),
            Some(stamps) => stamps.read(link.fd, &mut self.buffer, flags),
        }
    }

    /// Reads that do not wait, again and again.
    fn spin(&mut self, link: Link, at_most: Span, clock: Clock, spun: &mut Spun) -> Read {
        let end = self.now + at_most;
        loop {
            for _ in 0..SPINS {
                match self.read(link, libc::MSG_DONTWAIT) {
                    Read::Empty => std::hint::spin_loop(),
                    read => return read,
                }
            }
            let now = clock.now();
            spun.step(now);
            if now >= end {
                return Read::Empty;
            }
        }
    }

    /// Carry out what the machine wants.
    fn act<M: Machine + ?Sized>(&mut self, m: &mut M, clock: Clock) -> Flow {
        while let Some(action) = m.poll_action() {
            match action {
                Action::Transmit { id } => {
                    if let Some(link) = self.link.filter(|l| l.id == id) {
                        self.send(m, link, clock);
                    }
                }
                Action::Connect { id, endpoint } => {
                    assert!(self.link.is_none(), "one connection at a time");
                    self.link = Some(Link {
                        id,
                        fd: -1,
                        endpoint,
                        tried: 0,
                        boundaries: Boundaries::None,
                        unix: false,
                        state: State::Asked,
                        patience: None,
                        awaits_stamps: false,
                    });
                }
                Action::Close { id, how } => self.close(id, how),
                // There is one socket, and each turn looks at it.
                Action::Yield => self.yields = true,
                Action::Finished => return Flow::Break(()),
            }
        }
        Flow::Continue(())
    }

    /// Give the kernel what there is to send.
    fn send<M: Machine + ?Sized>(&mut self, m: &mut M, link: Link, clock: Clock) {
        if !matches!(link.state, State::Open | State::Blocked) {
            return;
        }
        m.prepare_output(link.id);
        self.now = clock.now();
        let write = |fd, piece: &[u8]| sock::write_with(fd, piece, 0);
        let given = give(m, (link.id, link.fd), self.now, write);
        // The peer is at work meanwhile.
        let awaits_stamps = match &mut self.stamps {
            Some(stamps) => !stamps.drain(link.fd, &mut |stamp| m.on_stamp(link.id, stamp)),
            None => false,
        };
        if let Some(link) = self.link.as_mut().filter(|l| l.id == link.id) {
            // What a peer has said that takes no more is read first, and its end after it.
            link.state = match given {
                Given::All | Given::Dead(_) => State::Open,
                Given::Some | Given::Full => State::Blocked,
            };
            link.awaits_stamps = awaits_stamps;
        }
    }

    /// Take the connect a step on.
    fn connect<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        link: Link,
        at_most: Span,
        clock: Clock,
    ) -> Flow {
        let outcome = match link.state {
            State::Asked => self.begin_connect(),
            _ if is_decided(link.fd, at_most.min(CONNECT_SLICE)) => {
                match sock::pending_error(link.fd) {
                    0 => Ok(Connecting::Open),
                    e => Err(e),
                }
            }
            _ => Ok(Connecting::Underway),
        };
        self.now = clock.now();
        let Some(current) = self.link.as_mut() else { return Flow::Continue(()) };
        match outcome {
            Ok(Connecting::Underway) => return Flow::Continue(()),
            Ok(Connecting::Open) => {
                waits::begin(current.fd);
                waits::limit_writes(current.fd, Some(PULSE));
                if self.stamps.is_some() {
                    // Where the kernel refuses, stamps are missing, and the report says so.
                    let _ = stamps::enable(current.fd);
                }
                current.state = State::Open;
                self.network.answered(link.endpoint, link.tried);
                if link.boundaries == Boundaries::Packets && !link.unix {
                    self.sampler.opened(link.fd);
                }
                m.on_connected(link.id, self.now);
            }
            // A full unix listener: ask again in a while.
            Err(libc::EAGAIN) if current.unix => {
                sock::close(current.fd);
                (current.fd, current.state) = (-1, State::Asked);
                std::thread::sleep(std::time::Duration::from_millis(1));
                return Flow::Continue(());
            }
            Err(e) => {
                let fault = self.network.connect_fault(link.endpoint, link.tried, e);
                if current.fd >= 0 {
                    sock::close(current.fd);
                    current.fd = -1;
                }
                current.tried += 1;
                current.state = State::Asked;
                let next = self.network.remote(link.endpoint, link.tried + 1).is_some();
                if next && tries_next(fault) {
                    return Flow::Continue(());
                }
                self.refused(m, link.id, fault);
            }
        }
        self.act(m, clock)
    }

    fn refused<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId, fault: Fault) {
        self.over();
        m.on_closed(id, Some(fault), self.now);
    }

    fn begin_connect(&mut self) -> Result<Connecting, i32> {
        let Some(link) = &mut self.link else { return Ok(Connecting::Underway) };
        let fd = self.network.socket(link.endpoint, link.tried, Mode::NonBlocking)?;
        link.fd = fd;
        link.state = State::Connecting;
        let remote = self.network.remote(link.endpoint, link.tried).ok_or(libc::EADDRNOTAVAIL)?;
        link.boundaries = remote.boundaries();
        link.unix = remote.is_unix();
        remote.connect(fd)
    }

    fn over(&mut self) {
        if let Some(link) = &mut self.link {
            link.state = State::Over;
        }
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(link) = self.link.take_if(|l| l.id == id) else { return };
        if link.fd < 0 {
            return;
        }
        let was_open = !matches!(link.state, State::Asked | State::Connecting);
        if was_open && !link.unix {
            self.sampler.closing(link.fd, true);
        }
        sock::close_how(link.fd, how);
    }

    fn let_go(&mut self) {
        if let Some(link) = self.link {
            self.close(link.id, CloseHow::Orderly);
        }
    }
}

/// Wait for at most so long until a connect is decided.
fn is_decided(fd: RawFd, span: Span) -> bool {
    waits::until_ready(fd, libc::POLLOUT, span) != 0
}

impl Drop for Direct {
    fn drop(&mut self) {
        // A machine that panics leaves its connection open.
        self.let_go();
    }
}
