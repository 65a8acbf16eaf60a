//! The readiness driver: edge-triggered epoll, one shared receive buffer, one read per event.
//!
//! A connection is registered once, for all events. Each event causes one read. A read that returns
//! less than the buffer's size has emptied the socket (epoll(7)), and data that arrives later
//! causes a new edge. The clock is read after each read; a write in direct response gets the same
//! time.

mod open;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine};
use prony_base::units::{ConnId, Nanos, Span};

use super::config::Config;
use super::dedicated::DedicatedThreads;
use super::dial::Dial;
use super::event_loop::{Backend, Common, Flow, TURN_MAX};
use super::poller::{self, Poller};
use super::slots::SlotTable;
use super::write_out::{WriteOutcome, write_out};
use crate::net::errno;
use crate::net::socket::{self, Boundaries, Read};
use crate::time::pace::{Pace, Poll};
use crate::time::stop::StopFlag;

/// Size of the worker's receive buffer.
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

/// Slots of tags that are not connections; the upper half of such a tag is an index.
const LISTENER: u32 = u32::MAX - 1;
const LINGERING: u32 = u32::MAX - 2;

/// `Conn::endpoint` of an accepted connection.
const ACCEPTED: u32 = u32::MAX;

/// The epoll driver.
#[derive(Debug)]
pub struct Epoll {
    poller: Poller,
    common: Common,
    conns: SlotTable<Conn>,
    buffer: Box<[u8]>,
    /// The next event of the last poll, and how many it has found.
    next_event: usize,
    events: usize,
    /// Events to report, reads and writes to continue, once the machine has no more actions.
    pending: Vec<(ConnId, Pending)>,
    /// The last batch of `pending`, kept for its memory.
    spare: Vec<(ConnId, Pending)>,
    /// Connects postponed because the queue of a unix listener was full: when to try again, and
    /// when to give up.
    retries: Vec<(ConnId, Nanos, Nanos)>,
    listeners: Vec<OwnedFd>,
    /// Takes accepted connections while a thread is free.
    dedicated: Option<Arc<DedicatedThreads>>,
    /// Listeners are paused until then.
    paused: Option<Nanos>,
    /// Closed connections of a server whose peers may still send, until then.
    lingering: HashMap<RawFd, (OwnedFd, Nanos)>,
}

/// One connection.
#[derive(Debug)]
struct Conn {
    /// `None`: not created yet, or creation failed.
    fd: Option<OwnedFd>,
    endpoint: u32,
    tried: u16,
    state: State,
    /// The last write did not fit: wait for the edge that reports room.
    blocked: bool,
    /// The peer has finished sending, or the connection is paused: it is not read.
    read_closed: bool,
    /// The machine wants no more input for now.
    paused: bool,
    unix: bool,
    boundaries: Boundaries,
    /// Batches sent, up to 2: more than one means a kept-alive connection.
    sends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    /// The machine knows that it is dead, and has yet to close it.
    Dead,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Connected,
    Refused(Fault),
    /// Continue to read; `to_end`: until the socket is empty.
    ReadOn {
        to_end: bool,
    },
    /// A write failed: read what arrived before, then report the fault.
    Broken(Fault),
    WriteOn,
}

impl Epoll {
    /// A driver for the calling thread. Measures for about 20 ms how late the kernel ends its
    /// sleeps.
    pub fn new(config: Config) -> io::Result<Self> {
        Self::build(config, false)
    }

    fn build(mut config: Config, old_kernel: bool) -> io::Result<Self> {
        let mut poller = Poller::new(old_kernel)?;
        let pace = Pace::new(config.precision, &mut poller);
        for (i, l) in config.listeners.iter().enumerate() {
            poller
                .add(l, tag(LISTENER, i as u32), LEVEL_SHARED)
                .map_err(io::Error::from_raw_os_error)?;
        }
        Ok(Self {
            poller,
            common: Common::new(pace, &mut config),
            conns: SlotTable::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            next_event: 0,
            events: 0,
            pending: Vec::new(),
            spare: Vec::new(),
            retries: Vec::new(),
            listeners: config.listeners,
            dedicated: config.dedicated,
            paused: None,
            lingering: HashMap::new(),
        })
    }

    /// Wait for events until the deadline or the next pulse. Returns their number.
    fn wait(&mut self, deadline: Option<Nanos>) -> usize {
        if !self.pending.is_empty() || self.common.yielded {
            return self.poller.poll(Span::ZERO);
        }
        let retry = self.retries.iter().map(|&(_, again, _)| again).min();
        let own = match (self.paused, retry) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.common.pace.wait(&mut self.poller, deadline, own)
    }

    fn event(&mut self, m: &mut dyn Machine, tag: u64, flags: u32) -> Flow {
        let id = ConnId { slot: tag as u32, generation: (tag >> 32) as u32 };
        match id.slot {
            LISTENER => return self.accept(m, id.generation),
            LINGERING => {
                self.discard(id.generation as RawFd);
                return Flow::Continue(());
            }
            _ if tag == poller::TIMER => return Flow::Continue(()),
            _ => {}
        }
        // The connection may have been closed earlier in this batch.
        let stamped = self.common.timestamps.is_some();
        let Some(c) = self.conns.get_mut(id) else { return Flow::Continue(()) };
        match c.state {
            State::Open if stamped && flags & ERROR != 0 => {
                let boundaries = c.boundaries;
                self.report_timestamps(m, id);
                return self.event(m, tag, without_error_flag(flags, boundaries));
            }
            State::Connecting => {
                if flags & BROKEN != 0 {
                    let e = c.fd.as_ref().map_or(0, |fd| socket::pending_error(fd.as_raw_fd()));
                    return self.connect_failed(m, id, e);
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
                self.send(m, id, None);
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

    /// Read available data and pass it to the machine; `to_end`: the kernel reports the end of the
    /// stream, so read until then.
    #[inline(always)]
    fn receive(&mut self, m: &mut dyn Machine, id: ConnId, to_end: bool) -> Flow {
        for _ in 0..READS_IN_A_ROW {
            let Some(c) =
                self.conns.get_mut(id).filter(|c| c.state == State::Open && !c.read_closed)
            else {
                return self.unread(m, id, to_end);
            };
            let (Some(fd), boundaries) = (&c.fd, c.boundaries) else { return Flow::Continue(()) };
            let read = match &mut self.common.timestamps {
                None => socket::read(fd, &mut self.buffer),
                Some(stamps) => stamps.read(fd.as_raw_fd(), &mut self.buffer, 0),
            };
            match read {
                Read::Data(n) => {
                    let now = self.common.pace.read_clock();
                    if let Some(stamps) = &mut self.common.timestamps {
                        stamps.report_received(&mut |stamp| m.on_stamp(id, stamp));
                    }
                    m.on_recv(id, &mut self.buffer[..n], now);
                    self.act(m, Some((id, now)))?;
                    // A short read of a message does not mean that the socket is empty.
                    if n < BUFFER && !to_end && boundaries == Boundaries::None {
                        return Flow::Continue(());
                    }
                }
                Read::Empty => return Flow::Continue(()),
                Read::End if boundaries == Boundaries::Datagrams => {}
                Read::End => {
                    if let Some(c) = self.conns.get_mut(id) {
                        c.read_closed = true;
                    }
                    let now = self.common.pace.read_clock();
                    m.on_closed(id, None, now);
                    return self.act(m, Some((id, now)));
                }
                Read::Dead(e) => return self.dead(m, id, errno::stream_fault(e)),
            }
        }
        self.pending.push((id, Pending::ReadOn { to_end }));
        Flow::Continue(())
    }

    /// There is something to read on a connection that is not read. If it is paused, its end can
    /// still be found out when it is a failure.
    #[cold]
    fn unread(&mut self, m: &mut dyn Machine, id: ConnId, has_ended: bool) -> Flow {
        let is_paused = |c: &&mut Conn| c.state == State::Open && c.paused && has_ended;
        let Some(c) = self.conns.get_mut(id).filter(is_paused) else {
            return Flow::Continue(());
        };
        match c.fd.as_ref().map_or(0, |fd| socket::pending_error(fd.as_raw_fd())) {
            0 => Flow::Continue(()),
            e => self.dead(m, id, errno::stream_fault(e)),
        }
    }

    /// Report to the machine that the connection is dead, unless it has closed it.
    fn dead(&mut self, m: &mut dyn Machine, id: ConnId, fault: Fault) -> Flow {
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        let now = self.common.pace.read_clock();
        m.on_closed(id, Some(fault), now);
        self.act(m, None)
    }

    /// Pass transmit timestamps to the machine.
    #[cold]
    fn report_timestamps(&mut self, m: &mut dyn Machine, id: ConnId) {
        if let (Some(stamps), Some(c)) = (&mut self.common.timestamps, self.conns.get_mut(id)) {
            let Some(fd) = &c.fd else { return };
            stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp));
        }
    }

    /// A unix socket reports room whenever its peer reads a message, so it is watched for room only
    /// while a write is blocked. The modification reports current readiness at once.
    fn watch_unix(&mut self, id: ConnId, interest: u32) {
        let Some(fd) = self.conns.get_mut(id).and_then(|c| c.fd.as_ref()) else { return };
        if let Err(e) = self.poller.modify(fd, tag_of(id), interest) {
            self.pending.push((id, Pending::Broken(errno::stream_fault(e))));
        }
    }

    /// Handle what was postponed while the machine had actions: connects that succeeded or failed
    /// at once, long reads, dead connections. What is postponed meanwhile waits for the next
    /// iteration, after the other connections.
    fn catch_up(&mut self, m: &mut dyn Machine) -> Flow {
        self.resume_listeners();
        self.retry_connects();
        if self.pending.is_empty() {
            return Flow::Continue(());
        }
        let mut batch = std::mem::take(&mut self.spare);
        std::mem::swap(&mut batch, &mut self.pending);
        let end = self.common.pace.now() + TURN_MAX;
        for (i, &(id, what)) in batch.iter().enumerate() {
            self.catch_up_one(m, id, what)?;
            self.tick(m)?;
            if self.common.pace.now() > end {
                self.pending.splice(0..0, batch[i + 1..].iter().copied());
                break;
            }
        }
        batch.clear();
        self.spare = batch;
        Flow::Continue(())
    }

    fn catch_up_one(&mut self, m: &mut dyn Machine, id: ConnId, what: Pending) -> Flow {
        if !self.conns.contains(id) {
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
                self.send(m, id, None);
                self.act(m, None)
            }
        }
    }

    /// The run is over: close everything.
    fn close_all(&mut self) {
        for c in self.conns.take_all() {
            if let Some(fd) = c.fd
                && c.state == State::Open
                && !c.unix
            {
                self.common.sampler.closing(fd.as_raw_fd(), c.sends > 1);
            }
        }
        self.lingering.clear();
        self.pending.clear();
        self.retries.clear();
    }
}

impl Backend for Epoll {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn on_pulse(&mut self, _m: &mut dyn Machine) -> Flow {
        self.close_expired();
        Flow::Continue(())
    }

    fn process_events(&mut self, m: &mut dyn Machine, _stop: &StopFlag) -> Flow {
        if self.next_event == self.events {
            self.common.before_poll(m);
            self.common.left_events |= !self.pending.is_empty();
            let n = self.wait(self.common.due());
            self.common.after_poll(m, n);
            self.common.left_events = n == poller::EVENTS;
            (self.next_event, self.events) = (0, n);
        }
        let end = self.common.pace.now() + TURN_MAX;
        while self.next_event < self.events {
            let (tag, flags) = self.poller.event(self.next_event);
            self.next_event += 1;
            self.event(m, tag, flags)?;
            self.tick(m)?;
            if self.common.pace.now() > end {
                return Flow::Continue(());
            }
        }
        self.catch_up(m)
    }

    /// If the outcome is known at once, `catch_up` reports it to the machine.
    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, ..Conn::CONNECTING });
        self.dial(id);
    }

    /// Writes as much as the kernel takes.
    #[inline]
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.blocked || c.state != State::Open {
            return;
        }
        let Some(fd) = &c.fd else { return };
        let now = self.common.time_of_send(id, fresh);
        let outcome = write_out(m, id, now, |piece| socket::write(fd, piece));
        c.sends = (c.sends + 1).min(2);
        if let Some(stamps) = &mut self.common.timestamps {
            // Read them now, so that they do not cause an event.
            stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp));
        }
        match outcome {
            WriteOutcome::Done => {}
            WriteOutcome::More => self.pending.push((id, Pending::WriteOn)),
            WriteOutcome::Full => {
                c.blocked = true;
                if c.unix {
                    self.watch_unix(id, EDGE_BOTH);
                }
            }
            WriteOutcome::Dead(e) => {
                self.pending.push((id, Pending::Broken(errno::stream_fault(e))))
            }
        }
    }

    fn pause(&mut self, id: ConnId) {
        if let Some(c) = self.conns.get_mut(id).filter(|c| !c.read_closed) {
            (c.read_closed, c.paused) = (true, true);
        }
    }

    /// There may be something to read that was reported before.
    fn resume(&mut self, id: ConnId) {
        if let Some(c) = self.conns.get_mut(id).filter(|c| c.paused) {
            (c.read_closed, c.paused) = (false, false);
            self.pending.push((id, Pending::ReadOn { to_end: true }));
        }
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(conn) = self.conns.remove(id) else { return };
        let Some(fd) = conn.fd else { return };
        if conn.state != State::Connecting && !conn.unix {
            self.common.sampler.closing(fd.as_raw_fd(), conn.sends > 1);
        }
        let is_readable = !conn.read_closed || conn.paused;
        let served = conn.endpoint == ACCEPTED && conn.state == State::Open && is_readable;
        if served && how == CloseHow::Orderly {
            self.linger(fd);
        } else {
            socket::close_how(fd, how);
        }
    }

    fn finish(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.close_all();
        self.common.pace.read_clock()
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // A machine that panics leaves its connections open.
        self.close_all();
    }
}

impl Conn {
    /// A connection that is not open yet.
    const CONNECTING: Self = Self {
        fd: None,
        endpoint: ACCEPTED,
        tried: 0,
        state: State::Connecting,
        blocked: false,
        read_closed: false,
        paused: false,
        unix: false,
        boundaries: Boundaries::None,
        sends: 0,
    };
}

/// The flags of an event without the error flag, which also reports timestamps in the error queue.
/// A stream's error is also reported at its end; a datagram socket must be read to find its error.
#[cold]
fn without_error_flag(flags: u32, boundaries: Boundaries) -> u32 {
    let is_datagram = boundaries == Boundaries::Datagrams;
    flags & !ERROR | if is_datagram { libc::EPOLLIN as u32 } else { 0 }
}

fn tag(slot: u32, index: u32) -> u64 {
    u64::from(index) << 32 | u64::from(slot)
}

fn tag_of(id: ConnId) -> u64 {
    tag(id.slot, id.generation)
}
