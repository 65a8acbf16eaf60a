//! The driver for ping-pong: one connection with one exchange in flight, so the calls on its socket
//! can block. An exchange is one write and one read, without a poll between them. With `--precision
//! spin` the driver repeats non-blocking reads instead.
//!
//! The clock is read immediately before each write and immediately after each read that returns
//! data, so that none of the machine's own work lies between *sent* and *done*.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use prony_base::machine::{CloseHow, Machine};
use prony_base::units::{ConnId, Nanos, Span};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};

use super::config::Config;
use super::event_loop::{Backend, Common, Flow};
use super::network::tries_next;
use super::write_out::{WriteOutcome, write_out};
use crate::net::socket::{self, Boundaries, Connecting, Mode, Read, waits};
use crate::net::{errno, timestamps};
use crate::time::clock::Clock;
use crate::time::pace::{Pace, Spun};
use crate::time::sleep::Precision;
use crate::time::stop::{PULSE, StopFlag};
use crate::time::timer::Ticks;

/// Size of the worker's receive buffer: room for the longest datagram.
const BUFFER: usize = 256 * 1024;
/// Consecutive reads while spinning before the clock is read again.
const SPINS: u32 = 32;
/// The interval of ticks. A wait that starts just after a tick ends with the next one, within a
/// pulse.
const TICK: Span = Span(PULSE.0 / 2);
/// The longest wait for a connect before the machine's deadline is checked.
const CONNECT_SLICE: Span = Span::from_millis(10);

/// The direct driver.
#[derive(Debug)]
pub struct Direct {
    common: Common,
    always_spins: bool,
    /// Interrupt waits during a run.
    ticks: Option<Ticks>,
    buffer: Box<[u8]>,
    /// The connection, if there is one.
    conn: Option<Connection>,
    /// Its socket, once it exists.
    fd: Option<OwnedFd>,
}

/// The one connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    id: ConnId,
    endpoint: u32,
    tried: u16,
    boundaries: Boundaries,
    unix: bool,
    state: State,
    /// The read timeout that is set on the socket; `None`: reads wait until a tick.
    read_timeout: Option<Span>,
    /// The kernel has not yet reported when the last write was sent.
    awaits_timestamps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its socket is not created yet.
    New,
    Connecting,
    Open,
    /// The last write did not fit into the socket's buffer.
    Blocked,
    /// The peer has closed its side, or the machine knows that the connection is dead.
    Dead,
}

impl Direct {
    /// A driver for the calling thread.
    pub(crate) fn new(mut config: Config) -> Self {
        let always_spins = config.precision == Precision::Spin;
        let precision = if always_spins { Precision::Spin } else { Precision::Sleep };
        Self {
            common: Common::new(Pace::without_sleeps(precision), &mut config),
            always_spins,
            ticks: None,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            conn: None,
            fd: None,
        }
    }

    /// Wait for data from the peer, and pass it to the machine.
    fn receive(&mut self, m: &mut dyn Machine, conn: Connection, at_most: Span) -> Flow {
        let mut spun = Spun::since(self.common.pace.now());
        let read = match self.always_spins {
            true => self.spin(at_most, &mut spun),
            false if self.common.yielded => self.read(RecvFlags::DONTWAIT),
            false => self.wait(conn, at_most),
        };
        // Read the clock first: our own work must not count as part of the exchange.
        let now = self.common.pace.read_clock();
        if self.always_spins {
            spun.step(now);
            self.common.pace.add_spun(spun.time);
        }
        match read {
            Read::Data(n) => {
                if let Some(stamps) = &mut self.common.timestamps {
                    // Timestamps that were not available right after the write.
                    if let Some(fd) = self.fd.as_ref().filter(|_| conn.awaits_timestamps) {
                        stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(conn.id, stamp));
                    }
                    stamps.report_received(&mut |stamp| m.on_stamp(conn.id, stamp));
                }
                m.on_recv(conn.id, &mut self.buffer[..n], now);
            }
            Read::Empty => return Flow::Continue(()),
            Read::End if conn.boundaries == Boundaries::Datagrams => return Flow::Continue(()),
            Read::End => {
                self.set_dead();
                m.on_closed(conn.id, None, now);
            }
            Read::Dead(e) => {
                self.set_dead();
                m.on_closed(conn.id, Some(errno::stream_fault(e)), now);
            }
        }
        self.act(m, None)
    }

    /// A blocking read. Its timeout is changed only near a deadline, because ticks end longer
    /// waits.
    fn wait(&mut self, conn: Connection, at_most: Span) -> Read {
        let limit = (at_most < PULSE || self.ticks.is_none()).then_some(at_most);
        let changes = match (limit, conn.read_timeout) {
            (Some(now), Some(before)) => now < before || (now == PULSE && before < PULSE),
            (now, before) => now != before,
        };
        if changes {
            if let Some(fd) = &self.fd {
                waits::limit_reads(fd, limit);
            }
            if let Some(conn) = &mut self.conn {
                conn.read_timeout = limit;
            }
        }
        self.read(RecvFlags::empty())
    }

    fn read(&mut self, flags: RecvFlags) -> Read {
        let Some(fd) = &self.fd else { return Read::Empty };
        match &mut self.common.timestamps {
            None => socket::read_with(fd, &mut self.buffer, flags),
            Some(stamps) => {
                stamps.read(fd.as_raw_fd(), &mut self.buffer, flags.bits() as libc::c_int)
            }
        }
    }

    /// Repeat non-blocking reads.
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

    /// Continue to connect.
    fn continue_connect(&mut self, m: &mut dyn Machine, conn: Connection, at_most: Span) -> Flow {
        let outcome = match (&self.fd, conn.state) {
            (_, State::New) => self.start_connect(),
            (Some(fd), _) if wait_for_connect(fd, at_most.min(CONNECT_SLICE)) => {
                match socket::pending_error(fd.as_raw_fd()) {
                    0 => Ok(Connecting::Open),
                    e => Err(e),
                }
            }
            _ => Ok(Connecting::InProgress),
        };
        let now = self.common.pace.read_clock();
        let Some(current) = self.conn.as_mut() else { return Flow::Continue(()) };
        match outcome {
            Ok(Connecting::InProgress) => return Flow::Continue(()),
            Ok(Connecting::Open) => {
                let Some(fd) = &self.fd else { return Flow::Continue(()) };
                waits::set_blocking(fd);
                waits::limit_writes(fd, Some(PULSE));
                if self.common.timestamps.is_some() {
                    // If the kernel refuses, timestamps are missing, and the report says so.
                    let _ = timestamps::enable(fd.as_raw_fd());
                }
                current.state = State::Open;
                self.common.network.accepted(conn.endpoint, conn.tried);
                if conn.boundaries == Boundaries::Packets && !conn.unix {
                    self.common.sampler.opened(fd.as_raw_fd());
                }
                m.on_connected(conn.id, now);
            }
            // The queue of the unix listener is full: try again later.
            Err(libc::EAGAIN) if current.unix => {
                self.fd = None;
                current.state = State::New;
                std::thread::sleep(Duration::from_millis(1));
                return Flow::Continue(());
            }
            Err(e) => {
                let fault = self.common.network.connect_fault(conn.endpoint, conn.tried, e);
                self.fd = None;
                current.tried += 1;
                current.state = State::New;
                let next = self.common.network.remote(conn.endpoint, conn.tried + 1).is_some();
                if next && tries_next(fault) {
                    return Flow::Continue(());
                }
                self.set_dead();
                m.on_closed(conn.id, Some(fault), now);
            }
        }
        self.act(m, None)
    }

    fn start_connect(&mut self) -> Result<Connecting, i32> {
        let Some(conn) = &mut self.conn else { return Ok(Connecting::InProgress) };
        let fd = self.common.network.socket(conn.endpoint, conn.tried, Mode::NonBlocking)?;
        let fd = self.fd.insert(fd);
        conn.state = State::Connecting;
        let remote =
            self.common.network.remote(conn.endpoint, conn.tried).ok_or(libc::EADDRNOTAVAIL)?;
        conn.boundaries = remote.boundaries();
        conn.unix = remote.is_unix();
        remote.connect(fd)
    }

    fn set_dead(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.state = State::Dead;
        }
    }

    fn close_all(&mut self) {
        if let Some(conn) = self.conn {
            self.close(conn.id, CloseHow::Orderly);
        }
    }
}

impl Backend for Direct {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn start(&mut self, _clock: Clock) {
        // A read with timestamps continues to wait after a signal.
        let may_tick = !self.always_spins && self.common.timestamps.is_none();
        self.ticks = if may_tick { Ticks::new(TICK) } else { None };
    }

    fn on_pulse(&mut self, _m: &mut dyn Machine) -> Flow {
        Flow::Continue(())
    }

    fn process_events(&mut self, m: &mut dyn Machine, _stop: &StopFlag) -> Flow {
        let now = self.common.pace.now();
        let at_most = match self.common.due() {
            _ if self.common.yielded => Span::ZERO,
            due => due.map_or(PULSE, |at| at.since(now).min(PULSE)),
        };
        self.common.pace.set_wait_end(now + at_most);
        match self.conn {
            Some(conn) if conn.state == State::Open => self.receive(m, conn, at_most),
            Some(conn) if conn.state == State::Blocked => {
                self.send(m, conn.id, None);
                self.act(m, None)
            }
            Some(conn) if conn.state != State::Dead => self.continue_connect(m, conn, at_most),
            _ => {
                std::thread::sleep(Duration::from_nanos(at_most.as_nanos()));
                self.common.pace.read_clock();
                Flow::Continue(())
            }
        }
    }

    /// # Panics
    /// If there is a connection already.
    fn connect(&mut self, id: ConnId, endpoint: u32) {
        assert!(self.conn.is_none(), "the direct driver runs one connection at a time");
        self.conn = Some(Connection {
            id,
            endpoint,
            tried: 0,
            boundaries: Boundaries::None,
            unix: false,
            state: State::New,
            read_timeout: None,
            awaits_timestamps: false,
        });
    }

    fn send(&mut self, m: &mut dyn Machine, id: ConnId, _fresh: Option<(ConnId, Nanos)>) {
        let is_open =
            |l: &&mut Connection| l.id == id && matches!(l.state, State::Open | State::Blocked);
        let Some(conn) = self.conn.as_mut().filter(is_open) else { return };
        let Some(fd) = &self.fd else { return };
        m.prepare_output(id);
        let now = self.common.pace.read_clock();
        let write = |piece: &[u8]| socket::write_with(fd, piece, SendFlags::empty());
        let outcome = write_out(m, id, now, write);
        // Read timestamps while the peer works on its reply.
        conn.awaits_timestamps = match &mut self.common.timestamps {
            Some(stamps) => !stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp)),
            None => false,
        };
        // If the connection is dead, first read what the peer sent before, then the error.
        conn.state = match outcome {
            WriteOutcome::Done | WriteOutcome::Dead(_) => State::Open,
            WriteOutcome::More | WriteOutcome::Full => State::Blocked,
        };
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(conn) = self.conn.take_if(|l| l.id == id) else { return };
        let Some(fd) = self.fd.take() else { return };
        let was_open = !matches!(conn.state, State::New | State::Connecting);
        if was_open && !conn.unix {
            self.common.sampler.closing(fd.as_raw_fd(), true);
        }
        socket::close_how(fd, how);
    }

    fn finish(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.close_all();
        self.ticks = None;
        self.common.pace.read_clock()
    }
}

/// Wait at most `span` for a connect to succeed or fail.
fn wait_for_connect(fd: &OwnedFd, span: Span) -> bool {
    !waits::until_ready(fd, PollFlags::OUT, span).is_empty()
}

impl Drop for Direct {
    fn drop(&mut self) {
        // A machine that panics leaves its connection open.
        self.close_all();
    }
}
