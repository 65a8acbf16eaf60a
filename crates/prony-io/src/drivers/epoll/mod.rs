//! The readiness driver: edge-triggered epoll, one shared receive buffer, one read per event.
//!
//! A connection is registered once, for everything. An event is answered by one read; a read that
//! comes back shorter than the buffer has emptied the socket (epoll(7)), and whatever arrives after
//! it makes a new edge. The clock is read after each read; the write that answers it at once goes
//! out under the same time.

mod open;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use super::config::Config;
use super::desk::Desk;
use super::dial::Dial;
use super::event_loop::{Backend, Common, Flow};
use super::give::{Given, give};
use super::poller::{self, Poller};
use super::slots::SlotTable;
use crate::net::errno;
use crate::net::socket::{self, Boundaries, Read};
use crate::time::pace::{Pace, Poll};
use crate::time::stop::StopFlag;

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
    common: Common,
    conns: SlotTable<Conn>,
    buffer: Box<[u8]>,
    /// What must be told to the machine, or read on, once it has no more actions.
    pending: Vec<(ConnId, Pending)>,
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
    lingering: HashMap<RawFd, (OwnedFd, Nanos)>,
}

/// One connection.
#[derive(Debug)]
struct Conn {
    /// `None`: it could not be made, or not yet.
    fd: Option<OwnedFd>,
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
                .add(l, tag(LISTENER, i as u32), LEVEL_SHARED)
                .map_err(io::Error::from_raw_os_error)?;
        }
        Ok(Self {
            poller,
            common: Common::new(pace, &mut config),
            conns: SlotTable::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            pending: Vec::new(),
            spare: Vec::new(),
            retries: Vec::new(),
            listeners: config.listeners,
            desk: config.desk,
            paused: None,
            lingering: HashMap::new(),
        })
    }

    /// Wait for events until the deadline or the next pulse; how many there are.
    fn wait(&mut self, deadline: Option<Nanos>) -> usize {
        if !self.pending.is_empty() || self.common.yields {
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
                self.hear_out(id.generation as RawFd);
                return Flow::Continue(());
            }
            _ if tag == poller::TIMER => return Flow::Continue(()),
            _ => {}
        }
        // A connection that was closed earlier in this batch.
        let stamped = self.common.stamps.is_some();
        let Some(c) = self.conns.get_mut(id) else { return Flow::Continue(()) };
        match c.state {
            State::Open if stamped && flags & ERROR != 0 => {
                let boundaries = c.boundaries;
                self.tell_stamps(m, id);
                return self.event(m, tag, without_stamps(flags, boundaries));
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

    /// Read what is there and hand it to the machine; `to_end`: the kernel says that the stream
    /// ends, so read on.
    fn receive(&mut self, m: &mut dyn Machine, id: ConnId, to_end: bool) -> Flow {
        for _ in 0..READS_IN_A_ROW {
            let Some(c) = self.conns.get_mut(id).filter(|c| c.state == State::Open && !c.ended)
            else {
                return Flow::Continue(());
            };
            let (Some(fd), boundaries) = (&c.fd, c.boundaries) else { return Flow::Continue(()) };
            let read = match &mut self.common.stamps {
                None => socket::read(fd, &mut self.buffer),
                Some(stamps) => stamps.read(fd.as_raw_fd(), &mut self.buffer, 0),
            };
            match read {
                Read::Data(n) => {
                    let now = self.common.pace.read_clock();
                    if let Some(stamps) = &mut self.common.stamps {
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
                    if let Some(c) = self.conns.get_mut(id) {
                        c.ended = true;
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

    /// Tell the machine that the connection is dead, unless it let go of it meanwhile.
    fn dead(&mut self, m: &mut dyn Machine, id: ConnId, fault: Fault) -> Flow {
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        let now = self.common.pace.read_clock();
        m.on_closed(id, Some(fault), now);
        self.act(m, None)
    }

    /// Tell the machine what the kernel has noted of what was sent.
    #[cold]
    fn tell_stamps(&mut self, m: &mut dyn Machine, id: ConnId) {
        if let (Some(stamps), Some(c)) = (&mut self.common.stamps, self.conns.get_mut(id)) {
            let Some(fd) = &c.fd else { return };
            stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp));
        }
    }

    /// A unix socket reports room after every message that its peer takes, so it is watched for
    /// room only when it has none. The modification reports at once what is already there.
    fn watch_unix(&mut self, id: ConnId, interest: u32) {
        let Some(fd) = self.conns.get_mut(id).and_then(|c| c.fd.as_ref()) else { return };
        if let Err(e) = self.poller.modify(fd, tag_of(id), interest) {
            self.pending.push((id, Pending::Broken(errno::stream_fault(e))));
        }
    }

    /// What was put off while the machine had actions: connects decided at once, long reads, dead
    /// connections. What is put off meanwhile waits for the next turn, after a look at the other
    /// connections.
    fn catch_up(&mut self, m: &mut dyn Machine) -> Flow {
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
    fn let_go(&mut self) {
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

    fn keep_house(&mut self, _m: &mut dyn Machine) -> Flow {
        self.end_lingering();
        Flow::Continue(())
    }

    fn gather(&mut self, m: &mut dyn Machine) -> Flow {
        let n = self.wait(self.common.due());
        for i in 0..n {
            let (tag, flags) = self.poller.event(i);
            self.event(m, tag, flags)?;
            self.tick(m)?;
        }
        self.catch_up(m)
    }

    /// What is decided at once is told to the machine from `catch_up`.
    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, ..Conn::CONNECTING });
        self.dial(id);
    }

    /// As much as the kernel takes.
    #[inline]
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, fresh: Option<(ConnId, Nanos)>) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.blocked || c.state != State::Open {
            return;
        }
        let Some(fd) = &c.fd else { return };
        let now = self.common.time_of_send(id, fresh);
        let given = give(m, id, now, |piece| socket::write(fd, piece));
        c.sends = (c.sends + 1).min(2);
        if let Some(stamps) = &mut self.common.stamps {
            // Now, so that they wake nobody up.
            stamps.drain(fd.as_raw_fd(), &mut |stamp| m.on_stamp(id, stamp));
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

    fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(conn) = self.conns.remove(id) else { return };
        let Some(fd) = conn.fd else { return };
        if conn.state != State::Connecting && !conn.unix {
            self.common.sampler.closing(fd.as_raw_fd(), conn.sends > 1);
        }
        let served = conn.endpoint == ACCEPTED && conn.state == State::Open && !conn.ended;
        if served && how == CloseHow::Orderly {
            self.linger(fd);
        } else {
            socket::close_how(fd, how);
        }
    }

    fn end(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.let_go();
        self.common.pace.read_clock()
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // A machine that panics leaves its connections open.
        self.let_go();
    }
}

impl Conn {
    /// One that is yet to be opened.
    const CONNECTING: Self = Self {
        fd: None,
        endpoint: ACCEPTED,
        tried: 0,
        state: State::Connecting,
        blocked: false,
        ended: false,
        unix: false,
        boundaries: Boundaries::None,
        sends: 0,
    };
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
