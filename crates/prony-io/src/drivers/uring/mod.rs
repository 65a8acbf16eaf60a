//! The completion driver: io_uring with one multishot receive per connection into shared buffers.
//!
//! The machine's actions are queued while a batch of completions is processed, and submitted with
//! the wait for the next batch: one system call for both. The clock is read once per batch, after
//! that call returns. No byte of the batch arrived later, and none that it sends leaves earlier, so
//! a measured latency can be longer than the true one, never shorter.
//!
//! A send finishes when its submission returns, without a completion if all bytes were accepted.
//! The rest of a short send continues as a slow send from its own memory, with a completion when it
//! finishes; until then the connection sends nothing else.
//!
//! The files of connections that have sent often are registered, which saves the kernel a lookup
//! per send.

mod buffers;
mod open;
mod ring;
mod send;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine};
use prony_base::units::{ConnId, Nanos, Span};

use super::config::Config;
use super::dial::Dial;
use super::event_loop::{Backend, Common, Flow};
use super::slots::SlotTable;
use crate::net::errno;
use crate::net::socket;
use crate::time::pace::{Pace, Poll};
use crate::time::stop::StopFlag;
use buffers::Piece;
use open::ClosingConn;
use ring::{Completed, Request, Ring};

/// `Conn::endpoint` of an accepted connection.
const ACCEPTED: u32 = u32::MAX;

/// After how many completions of a batch to check whether to stop. (What a batch has sent must be
/// settled with the batch, so none can be left for the next turn.)
const STOP_INTERVAL: u32 = 16;

/// The io_uring driver.
#[derive(Debug)]
pub struct Uring {
    ring: Ring,
    /// Memory of finished slow sends, for reuse.
    spare_slow: Vec<Vec<u8>>,
    common: Common,
    conns: SlotTable<Conn>,
    pending: Vec<(ConnId, Pending)>,
    /// The last batch of `pending`, kept for its memory.
    spare: Vec<(ConnId, Pending)>,
    /// Connections that the machine has closed and that still have bytes to send or to receive.
    closing: HashMap<u64, ClosingConn>,
    /// How many of them to check at the end of the batch.
    flushing: usize,
    listeners: Vec<OwnedFd>,
    /// The kinds of the listeners.
    listener_kinds: Vec<ListenerKind>,
    /// Listeners without a pending accept, and until when they are paused.
    idle_listeners: Vec<(u32, Nanos)>,
}

/// A ring with its buffers.
#[derive(Debug)]
pub struct ReadyRing {
    ring: Ring,
}

/// One connection.
#[derive(Debug)]
struct Conn {
    /// `None`: not created yet, or creation failed.
    fd: Option<OwnedFd>,
    endpoint: u32,
    tried: u16,
    state: State,
    /// A multishot receive is active in the kernel.
    armed: bool,
    /// The peer has finished sending.
    read_closed: bool,
    /// The machine wants no more input for now.
    paused: bool,
    /// A slow send is in progress.
    slow: bool,
    unix: bool,
    /// Each piece of output is a message, and is sent by itself (SCTP).
    messages: bool,
    /// Batches sent, as far as they are counted: more than one means a kept-alive connection.
    sends: u8,
    /// Its file is registered, in the place with the number of its slot.
    registered: bool,
    /// A send has failed: report it after all data received before it.
    send_fault: Option<Fault>,
    /// The last immediate send: its batch, and where its bytes are.
    sent_in: u64,
    sent: Piece,
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
    Refused(Fault),
    /// The result of a blocking connect.
    ConnectDone(i32),
    WriteOn,
    /// Start the multishot receive again.
    Arm,
}

/// The operation of a completion: the upper four bits of its `user_data`; then the slot, then the
/// generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    /// No action on completion.
    None,
    Receive,
    Send,
    SlowSend,
    Connect,
    /// An accept; the slot is a listener's index.
    Accept,
    /// A listener is readable whose connections the ring cannot accept; the slot is its index.
    Readable,
}

/// The kind of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerKind {
    Stream,
    Unix,
    /// One-to-one SCTP.
    Associations,
    /// One-to-many SCTP, from which associations are peeled off.
    OneToMany,
}

impl ReadyRing {
    /// A ring for the calling thread. Fails if the kernel refuses io_uring or lacks a required
    /// feature.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new()? })
    }
}

impl Uring {
    /// A driver for the calling thread, which must have created the ring. Measures for about 20 ms
    /// how late the kernel ends its sleeps.
    pub fn new(ready: ReadyRing, mut config: Config) -> Self {
        let ReadyRing { mut ring } = ready;
        let pace = Pace::new(config.precision, &mut ring);
        // The ring cannot read error queues or control data.
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
            closing: HashMap::new(),
            flushing: 0,
            listeners: config.listeners,
            listener_kinds,
            idle_listeners,
        }
    }

    /// Submit what is queued and wait for completions until the deadline or the next pulse.
    fn wait(&mut self, deadline: Option<Nanos>) -> usize {
        if !self.pending.is_empty() || self.has_flushing() || self.common.yielded {
            return self.ring.poll(Span::ZERO);
        }
        let own = self.idle_listeners.iter().map(|&(_, until)| until).min();
        self.common.pace.wait(&mut self.ring, deadline, own)
    }

    fn complete(&mut self, m: &mut dyn Machine, completed: Completed) -> Flow {
        let (op, id) = unpack(completed.id());
        let result = completed.result;
        match op {
            Op::Receive => self.received(m, id, completed),
            Op::Send => self.short_send(id, result),
            Op::SlowSend => self.slow_send_done(m, id, completed),
            Op::Connect => self.connect_done(m, id, result),
            Op::Accept => self.accepted(m, id.slot, completed),
            Op::Readable => self.accept_associations(m, id.slot),
            Op::None => Flow::Continue(()),
        }
    }

    /// A completion of the multishot receive: bytes, the end of the stream, or an error.
    fn received(&mut self, m: &mut dyn Machine, id: ConnId, completed: Completed) -> Flow {
        let (result, more) = (completed.result, completed.more);
        let buffer = completed.filled();
        let Some(c) = self.conns.get_mut(id) else {
            if let Some(buffer) = buffer {
                self.ring.buffers().give_back(buffer);
            }
            self.closing_received(id, result, more);
            return Flow::Continue(());
        };
        c.armed = more;
        if c.state != State::Open || c.read_closed {
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
                if !more {
                    self.pending.push((id, Pending::Arm));
                }
                Flow::Continue(())
            }
            (0, buffer) => {
                c.read_closed = true;
                if let Some(buffer) = buffer {
                    self.ring.buffers().give_back(buffer);
                }
                m.on_closed(id, None, self.common.pace.now());
                self.act(m, None)?;
                match self.conns.get_mut(id).and_then(|c| c.send_fault) {
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
                    let fault = c.send_fault.unwrap_or_else(|| errno::stream_fault(e));
                    self.dead(m, id, fault)
                }
            },
        }
    }

    /// Report to the machine that the connection is dead, unless it has closed it.
    fn dead(&mut self, m: &mut dyn Machine, id: ConnId, fault: Fault) -> Flow {
        let now = self.common.pace.now();
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state != State::Dead) else {
            return Flow::Continue(());
        };
        c.state = State::Dead;
        m.on_closed(id, Some(fault), now);
        self.act(m, None)
    }

    /// Handle what was postponed while the machine had actions, or until buffers were free.
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
                Pending::ConnectDone(result) => self.connect_done(m, id, result)?,
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

    /// The run is over: cancel all operations and close everything.
    fn close_all(&mut self) {
        // Cancel them one by one by ID, which the kernel looks up. To cancel everything at once, it
        // would search all operations for each, which takes seconds with ten thousand connections.
        // Stop at the first failure: if the kernel accepts nothing more, none can be canceled. (A
        // panic for that reason may be unwinding, so a second panic would abort the process.)
        for (id, conn) in self.conns.iter().filter(|(_, c)| c.fd.is_some()) {
            if !open::cancel(&mut self.ring, conn, id) {
                break;
            }
        }
        self.ring.stop_all();
        while let Some(completed) = self.ring.next() {
            if unpack(completed.id()).0 == Op::Accept {
                // SAFETY: only accepts are tagged `Op::Accept`. Nothing else refers to the socket.
                drop(unsafe { completed.accepted() });
            } else {
                drop(self.ring.take_back(completed));
            }
        }
        self.ring.unregister_all();
        for c in self.conns.take_all() {
            if let Some(fd) = c.fd
                && c.state == State::Open
                && !c.unix
            {
                self.common.sampler.closing(fd.as_raw_fd(), c.sends > 1);
            }
        }
        self.closing.clear();
        self.pending.clear();
    }
}

impl Backend for Uring {
    #[inline]
    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn on_pulse(&mut self, _m: &mut dyn Machine) -> Flow {
        self.close_expired();
        Flow::Continue(())
    }

    fn process_events(&mut self, m: &mut dyn Machine, stop: &StopFlag) -> Flow {
        self.arm_listeners();
        self.common.before_poll(m);
        self.common.left_events |= !self.pending.is_empty() || self.has_flushing();
        let n = self.wait(self.common.due());
        self.ring.next_batch();
        self.common.pace.read_clock();
        self.common.after_poll(m, n);
        // Before the machine is called, also for a timer: it could send on these connections, whose
        // rest goes first.
        for _ in 0..self.ring.put_first(|id| unpack(id).0 == Op::Send) {
            if let Some(completed) = self.ring.next() {
                self.short_send(unpack(completed.id()).1, completed.result)?;
            }
        }
        let mut handled = 0_u32;
        while let Some(completed) = self.ring.next() {
            self.complete(m, completed)?;
            self.tick(m)?;
            handled += 1;
            if handled.is_multiple_of(STOP_INTERVAL) && stop.stop_request().is_some() {
                self.common.pace.read_clock();
                self.check_stop(m, stop)?;
            }
        }
        self.catch_up(m)?;
        self.ring.buffers().publish();
        self.settle_closing();
        Flow::Continue(())
    }

    fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.conns.insert(id, Conn { endpoint, ..Conn::CONNECTING });
        self.dial(id);
    }

    /// Queues the output, with the time of the batch.
    #[inline]
    fn send(&mut self, m: &mut dyn Machine, id: ConnId, _fresh: Option<(ConnId, Nanos)>) {
        self.queue_send(m, id);
    }

    /// What the kernel has received already is still passed to the machine.
    fn pause(&mut self, id: ConnId) {
        if let Some(c) = self.conns.get_mut(id).filter(|c| !c.paused) {
            c.paused = true;
            if c.armed {
                self.ring.offer(Request::cancel(pack(Op::Receive, id)), open::NO_ACTION);
            }
        }
    }

    /// If its receive is still being canceled, it starts again after that.
    fn resume(&mut self, id: ConnId) {
        if let Some(c) = self.conns.get_mut(id) {
            c.paused = false;
            self.arm(id);
        }
    }

    fn close(&mut self, id: ConnId, how: CloseHow) {
        self.close_conn(id, how);
    }

    fn finish(&mut self, _m: &mut dyn Machine, _stop: &StopFlag) -> Nanos {
        self.close_all();
        self.common.pace.read_clock()
    }
}

impl Drop for Uring {
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
        armed: false,
        read_closed: false,
        paused: false,
        slow: false,
        unix: false,
        messages: false,
        sends: 0,
        registered: false,
        send_fault: None,
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
fn unpack(user_data: u64) -> (Op, ConnId) {
    let op = match user_data >> 60 {
        1 => Op::Receive,
        2 => Op::Send,
        3 => Op::SlowSend,
        4 => Op::Connect,
        5 => Op::Accept,
        6 => Op::Readable,
        _ => Op::None,
    };
    (op, ConnId { slot: (user_data >> 32) as u32 & 0x0fff_ffff, generation: user_data as u32 })
}
