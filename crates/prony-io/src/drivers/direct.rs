//! The driver for ping-pong: one connection, one thing at a time to wait for, so the calls on the
//! socket wait themselves. An exchange is one write and one read, without a poll between them; with
//! `--precision spin` the read is asked again and again instead of waiting.
//!
//! The clock is read right before each write and right after each read that brought something, so
//! that nothing of the machine's own work lies between *sent* and *done*.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};

use super::config::Config;
use super::event_loop::{Backend, Common, Flow};
use super::give::{Given, give};
use super::network::tries_next;
use crate::net::socket::{self, Boundaries, Connecting, Mode, Read, waits};
use crate::net::{errno, timestamps};
use crate::time::clock::Clock;
use crate::time::pace::{Pace, Spun};
use crate::time::sleep::Precision;
use crate::time::stop::{PULSE, StopFlag};
use crate::time::timer::Ticks;

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
    common: Common,
    spins: bool,
    /// End waits, while a run lasts.
    ticks: Option<Ticks>,
    buffer: Box<[u8]>,
    /// The connection, where there is one.
    link: Option<Link>,
    /// Its socket, once there is one.
    fd: Option<OwnedFd>,
}

/// The one connection.
#[derive(Clone, Copy, Debug)]
struct Link {
    id: ConnId,
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

impl Direct {
    /// A driver for the calling thread.
    pub(crate) fn new(mut config: Config) -> Self {
        let spins = config.precision == Precision::Spin;
        let precision = if spins { Precision::Spin } else { Precision::Sleep };
        Self {
            common: Common::new(Pace::without_sleeps(precision), &mut config),
            spins,
            ticks: None,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            link: None,
            fd: None,
        }
    }

    /// Wait for what the peer says, and hand it to the machine.
    fn receive(&mut self, m: &mut dyn Machine, link: Link, at_most: Span) -> Flow {
        let mut spun = Spun::since(self.common.pace.now());
        let read = match self.spins {
            true => self.spin(at_most, &mut spun),
            false if self.common.yields => self.read(RecvFlags::DONTWAIT),
            false => self.wait(link, at_most),
        };
        // Right away: nothing of this program's own is to be part of the exchange.
        let now = self.common.pace.read_clock();
        if self.spins {
            spun.step(now);
            self.common.pace.has_spun(spun.time);
        }
        match read {
            Read::Data(n) => {
                if let Some(stamps) = &mut self.common.stamps {
                    // Those of a device that was slow to give them.
                    if let Some(fd) = self.fd.as_ref().filter(|_| link.awaits_stamps) {
                        stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(link.id, stamp));
                    }
                    stamps.tell_received(&mut |stamp| m.on_stamp(link.id, stamp));
                }
                m.on_recv(link.id, &mut self.buffer[..n], now);
            }
            Read::Empty => return Flow::Continue(()),
            Read::End if link.boundaries == Boundaries::Datagrams => return Flow::Continue(()),
            Read::End => {
                self.over();
                m.on_closed(link.id, None, now);
            }
            Read::Dead(e) => {
                self.over();
                m.on_closed(link.id, Some(errno::stream_fault(e)), now);
            }
        }
        self.act(m, None)
    }

    /// A read that waits. The kernel is told for how long only when that changes, which it does
    /// near a deadline alone: longer waits are ended by ticks.
    fn wait(&mut self, link: Link, at_most: Span) -> Read {
        let limit = (at_most < PULSE || self.ticks.is_none()).then_some(at_most);
        let changes = match (limit, link.patience) {
            (Some(now), Some(before)) => now < before || (now == PULSE && before < PULSE),
            (now, before) => now != before,
        };
        if changes {
            if let Some(fd) = &self.fd {
                waits::limit_reads(fd, limit);
            }
            if let Some(link) = &mut self.link {
                link.patience = limit;
            }
        }
        self.read(RecvFlags::empty())
    }

    fn read(&mut self, flags: RecvFlags) -> Read {
        let Some(fd) = &self.fd else { return Read::Empty };
        match &mut self.common.stamps {
            None => socket::read_with(fd, &mut self.buffer, flags),
            Some(stamps) => {
                stamps.read(fd.as_raw_fd(), &mut self.buffer, flags.bits() as libc::c_int)
            }
        }
    }

    /// Reads that do not wait, again and again.
    fn spin(&mut self, at_most: Span, spun: &mut Spun) -> Read {
        let end = self.common.pace.now() + at_most;
        loop {
            for _ in 0..SPINS {
                match self.read(RecvFlags::DONTWAIT) {
                    Read::Empty => std::hint::spin_loop(),
                    read => return read,
                }
            }
            let now = self.common.pace.read_clock();
            spun.step(now);
            if now >= end {
                return Read::Empty;
            }
        }
    }

    /// Take the connect a step on.
    fn take_connect_on(&mut self, m: &mut dyn Machine, link: Link, at_most: Span) -> Flow {
        let outcome = match (&self.fd, link.state) {
            (_, State::Asked) => self.begin_connect(),
            (Some(fd), _) if is_decided(fd, at_most.min(CONNECT_SLICE)) => {
                match socket::pending_error(fd.as_raw_fd()) {
                    0 => Ok(Connecting::Open),
                    e => Err(e),
                }
            }
            _ => Ok(Connecting::Underway),
        };
        let now = self.common.pace.read_clock();
        let Some(current) = self.link.as_mut() else { return Flow::Continue(()) };
        match outcome {
            Ok(Connecting::Underway) => return Flow::Continue(()),
            Ok(Connecting::Open) => {
                let Some(fd) = &self.fd else { return Flow::Continue(()) };
                waits::begin(fd);
                waits::limit_writes(fd, Some(PULSE));
                if self.common.stamps.is_some() {
                    // Where the kernel refuses, stamps are missing, and the report says so.
                    let _ = timestamps::enable(fd.as_raw_fd());
                }
                current.state = State::Open;
                self.common.network.answered(link.endpoint, link.tried);
                if link.boundaries == Boundaries::Packets && !link.unix {
                    self.common.sampler.opened(fd.as_raw_fd());
                }
                m.on_connected(link.id, now);
            }
            // A full unix listener: ask again in a while.
            Err(libc::EAGAIN) if current.unix => {
                self.fd = None;
                current.state = State::Asked;
                std::thread::sleep(Duration::from_millis(1));
                return Flow::Continue(());
            }
            Err(e) => {
                let fault = self.common.network.connect_fault(link.endpoint, link.tried, e);
                self.fd = None;
                current.tried += 1;
                current.state = State::Asked;
                let next = self.common.network.remote(link.endpoint, link.tried + 1).is_some();
                if next && tries_next(fault) {
                    return Flow::Continue(());
                }
                self.over();
                m.on_closed(link.id, Some(fault), now);
            }
        }
        self.act(m, None)
    }

    fn begin_connect(&mut self) -> Result<Connecting, i32> {
        let Some(link) = &mut self.link else { return Ok(Connecting::Underway) };
        let fd = self.common.network.socket(link.endpoint, link.tried, Mode::NonBlocking)?;
        let fd = self.fd.insert(fd);
        link.state = State::Connecting;
        let remote =
            self.common.network.remote(link.endpoint, link.tried).ok_or(libc::EADDRNOTAVAIL)?;
        link.boundaries = remote.boundaries();
        link.unix = remote.is_unix();
        remote.connect(fd)
    }

    fn over(&mut self) {
        if let Some(link) = &mut self.link {
            link.state = State::Over;
        }
    }

    fn let_go(&mut self) {
        if let Some(link) = self.link {
            self.close(link.id, CloseHow::Orderly);
        }
    }
}

impl Backend for Direct {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn begin(&mut self, _clock: Clock) {
        // A read with stamps waits on where a signal ends a call.
        let may_tick = !self.spins && self.common.stamps.is_none();
        self.ticks = if may_tick { Ticks::new(TICK) } else { None };
    }

    fn keep_house(&mut self, _m: &mut dyn Machine) -> Flow {
        Flow::Continue(())
    }

    fn gather(&mut self, m: &mut dyn Machine) -> Flow {
        let now = self.common.pace.now();
        let at_most = match self.common.due() {
            _ if self.common.yields => Span::ZERO,
            due => due.map_or(PULSE, |at| at.since(now).min(PULSE)),
        };
        self.common.pace.waits_until(now + at_most);
        match self.link {
            Some(link) if link.state == State::Open => self.receive(m, link, at_most),
            Some(link) if link.state == State::Blocked => {
                self.send(m, link.id, None);
                self.act(m, None)
            }
            Some(link) if link.state != State::Over => self.take_connect_on(m, link, at_most),
            _ => {
                std::thread::sleep(Duration::from_nanos(at_most.as_nanos()));
                self.common.pace.read_clock();
                Flow::Continue(())
            }
        }
    }

    /// # Panics
    /// Where there is one beside it.
    fn connect(&mut self, id: ConnId, endpoint: u32) {
        assert!(self.link.is_none(), "one connection at a time");
        self.link = Some(Link {
            id,
            endpoint,
            tried: 0,
            boundaries: Boundaries::None,
            unix: false,
            state: State::Asked,
            patience: None,
            awaits_stamps: false,
        });
    }

    fn send(&mut self, m: &mut dyn Machine, id: ConnId, _fresh: Option<(ConnId, Nanos)>) {
        let is_open = |l: &&mut Link| l.id == id && matches!(l.state, State::Open | State::Blocked);
        let Some(link) = self.link.as_mut().filter(is_open) else { return };
        let Some(fd) = &self.fd else { return };
        m.prepare_output(id);
        let now = self.common.pace.read_clock();
        let write = |piece: &[u8]| socket::write_with(fd, piece, SendFlags::empty());
        let given = give(m, id, now, write);
        // The peer is at work meanwhile.
        link.awaits_stamps = match &mut self.common.stamps {
            Some(stamps) => !stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp)),
            None => false,
        };
        // What a peer has said that takes no more is read first, and its end after it.
        link.state = match given {
            Given::All | Given::Dead(_) => State::Open,
            Given::Some | Given::Full => State::Blocked,
        };
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(link) = self.link.take_if(|l| l.id == id) else { return };
        let Some(fd) = self.fd.take() else { return };
        let was_open = !matches!(link.state, State::Asked | State::Connecting);
        if was_open && !link.unix {
            self.common.sampler.closing(fd.as_raw_fd(), true);
        }
        socket::close_how(fd, how);
    }

    fn end(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.let_go();
        self.ticks = None;
        self.common.pace.read_clock()
    }
}

/// Wait for at most so long until a connect is decided.
fn is_decided(fd: &OwnedFd, span: Span) -> bool {
    !waits::until_ready(fd, PollFlags::OUT, span).is_empty()
}

impl Drop for Direct {
    fn drop(&mut self) {
        // A machine that panics leaves its connection open.
        self.let_go();
    }
}
