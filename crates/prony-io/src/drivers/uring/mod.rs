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
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use super::config::Config;
use super::dial::Dial;
use super::event_loop::{Backend, Common, Flow};
use super::slots::SlotTable;
use crate::net::errno;
use crate::net::socket;
use crate::time::pace::{Pace, Poll};
use crate::time::stop::StopFlag;
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
    common: Common,
    conns: SlotTable<Conn>,
    pending: Vec<(ConnId, Pending)>,
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
}

/// A ring with its buffers, where the kernel gives one.
#[derive(Debug)]
pub struct Mounted {
    ring: Ring,
}

/// One connection.
#[derive(Debug)]
struct Conn {
    /// `None`: it could not be made, or not yet.
    fd: Option<OwnedFd>,
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
        // The ring has no error queue, and brings no control data along.
        config.timestamps = false;
        let listener_kinds = config.listeners.iter().map(|l| kind_of(l.as_raw_fd())).collect();
        let idle_listeners = (0..config.listeners.len()).map(|i| (i as u32, Nanos::ZERO)).collect();
        Self {
            ring,
            spare_slow: Vec::new(),
            common: Common::new(pace, &mut config),
            conns: SlotTable::new(),
            pending: Vec::new(),
            spare: Vec::new(),
            parting: HashMap::new(),
            flushing: 0,
            listeners: config.listeners,
            listener_kinds,
            idle_listeners,
        }
    }

    /// Hand over what is queued and wait for completions until the deadline or the next pulse.
    fn wait(&mut self, deadline: Option<Nanos>) {
        if !self.pending.is_empty() || self.has_flushing() || self.common.yields {
            self.ring.poll(Span::ZERO);
            return;
        }
        let own = self.idle_listeners.iter().map(|&(_, until)| until).min();
        self.common.pace.wait(&mut self.ring, deadline, own);
    }

    fn complete(&mut self, m: &mut dyn Machine, completed: Completed) -> Flow {
        let (op, id) = unpack(completed.what());
        let result = completed.result;
        match op {
            Op::Receive => self.received(m, id, completed),
            Op::Send => self.send_fell_short(id, result),
            Op::SlowSend => self.slow_send_ended(m, id, completed),
            Op::Connect => self.connect_ended(m, id, result),
            Op::Accept => self.accepted(m, id.slot, completed),
            Op::Knock => self.knocked(m, id.slot),
            Op::None => Flow::Continue(()),
        }
    }

    /// Something came of the standing receive: bytes, the stream's end, or an error.
    fn received(&mut self, m: &mut dyn Machine, id: ConnId, completed: Completed) -> Flow {
        let (result, stands) = (completed.result, completed.more);
        let buffer = completed.filled();
        let Some(c) = self.conns.get_mut(id) else {
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
                let now = self.common.pace.now();
                m.on_recv(id, self.ring.buffers().received(&buffer), now);
                self.ring.buffers().give_back(buffer);
                self.act(m, None)?;
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
                m.on_closed(id, None, self.common.pace.now());
                self.act(m, None)?;
                match self.conns.get_mut(id).and_then(|c| c.broken) {
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
    fn dead(&mut self, m: &mut dyn Machine, id: ConnId, fault: Fault) -> Flow {
        let now = self.common.pace.now();
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        m.on_closed(id, Some(fault), now);
        self.act(m, None)
    }

    /// What was put off while the machine had actions, or until buffers were free.
    fn catch_up(&mut self, m: &mut dyn Machine) -> Flow {
        if self.pending.is_empty() {
            return Flow::Continue(());
        }
        self.ring.buffers().publish();
        let mut batch = std::mem::take(&mut self.spare);
        std::mem::swap(&mut batch, &mut self.pending);
        for &(id, what) in &batch {
            match what {
                _ if !self.conns.contains(id) => {}
                Pending::Refused(fault) => self.dead(m, id, fault)?,
                Pending::Decided(result) => self.connect_ended(m, id, result)?,
                Pending::WriteOn => {
                    self.queue_send(m, id);
                    self.act(m, None)?;
                }
                Pending::Arm => self.arm(id),
            }
        }
        batch.clear();
        self.spare = batch;
        Flow::Continue(())
    }

    /// The run is over: stop what is under way and close everything.
    fn let_go(&mut self) {
        // One by one by their names, which the kernel looks up: to stop whatever there is, it would
        // search all for each, which takes seconds with ten thousand connections.
        // Where the kernel takes nothing more, none of them can be stopped. (This may be on the way
        // out of a panic for that very reason, so that another would end the process.)
        for (id, conn) in self.conns.iter().filter(|(_, c)| c.fd.is_some()) {
            if !open::cancel(&mut self.ring, conn, id) {
                break;
            }
        }
        self.ring.stop_all();
        while let Some(completed) = self.ring.next() {
            if unpack(completed.what()).0 == Op::Accept {
                // SAFETY: only accepts are named `Op::Accept`. The socket is known to nobody.
                drop(unsafe { completed.accepted() });
            } else {
                drop(self.ring.take_back(completed));
            }
        }
        for c in self.conns.take_all() {
            if let Some(fd) = c.fd
                && c.state == State::Open
                && !c.unix
            {
                self.common.sampler.closing(fd.as_raw_fd(), c.sends > 1);
            }
        }
        self.parting.clear();
        self.pending.clear();
    }
}

impl Backend for Uring {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn keep_house(&mut self, _m: &mut dyn Machine) -> Flow {
        self.end_partings();
        Flow::Continue(())
    }

    fn gather(&mut self, m: &mut dyn Machine) -> Flow {
        self.arm_listeners();
        self.wait(self.common.due());
        self.ring.next_batch();
        self.common.pace.read_clock();
        while let Some(completed) = self.ring.next() {
            self.complete(m, completed)?;
            self.tick(m)?;
        }
        self.catch_up(m)?;
        self.ring.buffers().publish();
        self.settle_partings();
        Flow::Continue(())
    }

    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, ..Conn::CONNECTING });
        self.dial(id);
    }

    /// Queued, at the time of the batch.
    #[inline]
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, _fresh: Option<(ConnId, Nanos)>) {
        self.queue_send(m, id);
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        self.let_go_of(id, how);
    }

    fn end(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.let_go();
        self.common.pace.read_clock()
    }
}

impl Drop for Uring {
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
}

fn kind_of(listener: RawFd) -> ListenerKind {
    match (socket::is_unix(listener), socket::is_sctp(listener)) {
        (true, _) => ListenerKind::Unix,
        (_, false) => ListenerKind::Stream,
        (_, true) if socket::is_one_to_many(listener) => ListenerKind::OneToMany,
        (_, true) => ListenerKind::Associations,
    }
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
