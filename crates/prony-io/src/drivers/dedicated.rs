//! Dedicated threads for the first few clients of a server. Each thread serves one client at a
//! time: it blocks in the read and replies at once. A driver that watches many clients needs a
//! third system call per message, which a round-trip meter on the other side would measure, too.
//!
//! If no thread is free, the driver serves the client as usual. An idle client blocks only its own
//! thread.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos, Span};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};

use crate::drivers::write_out::{WriteOutcome, write_out};
use crate::net::errno;
use crate::net::socket::{self, Boundaries, Read, waits};
use crate::time::clock::Clock;
use crate::time::stop::PULSE;

/// Size of a thread's receive buffer.
const BUFFER: usize = 256 * 1024;
/// How long to read from a closed connection until the client closes its side.
const LINGER: Span = Span::from_secs(2);

type Flow = ControlFlow<()>;

/// Dedicated threads, and the accepted connections that wait for one.
#[derive(Debug, Default)]
pub struct DedicatedThreads {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Idle threads, minus the waiting connections.
    free: usize,
    /// Waiting connections with the index of their listener.
    queue: VecDeque<(OwnedFd, u32)>,
    /// Connections that a thread serves.
    served: Vec<Arc<OwnedFd>>,
    closed: bool,
}

impl DedicatedThreads {
    /// Serve one client after the other in the calling thread, until [`close`](Self::close).
    pub(crate) fn serve(&self, m: &mut dyn Machine) {
        let clock = Clock::starting_now();
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        while let Some((served, listener)) = self.next_client() {
            let now = clock.now();
            let Some(id) = m.on_accepted(listener, now) else { break };
            waits::set_blocking(&served.fd);
            let limit = None;
            let (blocked, ended, paused) = (false, false, false);
            let session = Session { served, id, clock, limit, blocked, ended, paused };
            session.run(m, &mut buffer);
        }
    }

    /// Accept no more clients, and disconnect the current ones.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for fd in &state.served {
            waits::end_reads(fd.as_fd());
        }
        state.queue.clear();
        self.changed.notify_all();
    }

    /// Offer an accepted connection. Returns it if no thread is free.
    pub(crate) fn offer(&self, fd: OwnedFd, listener: u32) -> Result<(), OwnedFd> {
        let mut state = self.lock();
        // Only reads from streams are known to return after a shutdown.
        if state.closed || state.free == 0 || !is_stream(&fd) {
            return Err(fd);
        }
        state.free -= 1;
        state.queue.push_back((fd, listener));
        self.changed.notify_one();
        Ok(())
    }

    /// Wait for the next client.
    fn next_client(&self) -> Option<(Served<'_>, u32)> {
        let mut state = self.lock();
        state.free += 1;
        loop {
            if state.closed {
                return None;
            }
            if let Some((fd, listener)) = state.queue.pop_front() {
                let fd = Arc::new(fd);
                state.served.push(Arc::clone(&fd));
                return Some((Served { dedicated: self, fd, how: CloseHow::Orderly }, listener));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_stream(fd: &OwnedFd) -> bool {
    socket::boundaries_of(fd.as_raw_fd()) == Boundaries::None
}

/// A connection that a thread serves. Closed when dropped.
struct Served<'a> {
    dedicated: &'a DedicatedThreads,
    fd: Arc<OwnedFd>,
    how: CloseHow,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.dedicated.lock().served.retain(|fd| !Arc::ptr_eq(fd, &self.fd));
        if self.how == CloseHow::Reset {
            socket::reset_on_close(&self.fd);
        }
    }
}

/// The state of a thread while it serves a client.
struct Session<'a> {
    served: Served<'a>,
    id: ConnId,
    clock: Clock,
    /// The read timeout that is set on the socket.
    limit: Option<Span>,
    /// The last write did not fit into the socket's buffer.
    blocked: bool,
    /// The client has finished sending.
    ended: bool,
    /// The machine wants no more input for now.
    paused: bool,
}

impl Session<'_> {
    /// Serve the client until the machine closes the connection.
    fn run(mut self, m: &mut dyn Machine, buffer: &mut [u8]) {
        let mut flow = self.act(m, self.clock.now());
        while flow.is_continue() {
            flow = self.turn(m, buffer);
        }
        if self.served.how == CloseHow::Orderly && !self.ended {
            self.drain(buffer);
        }
    }

    fn turn(&mut self, m: &mut dyn Machine, buffer: &mut [u8]) -> Flow {
        let deadline = m.deadline();
        if let Some(at) = deadline {
            let now = self.clock.now();
            if at <= now {
                m.on_tick(now);
                return self.act(m, now);
            }
        }
        if self.blocked || self.ended || self.paused {
            return self.wait_for_room(m, buffer);
        }
        self.limit_reads(deadline.map(|_| PULSE));
        self.receive(m, buffer, RecvFlags::empty())
    }

    /// Wait for data from the client, and pass it to the machine.
    fn receive(&mut self, m: &mut dyn Machine, buffer: &mut [u8], flags: RecvFlags) -> Flow {
        let read = socket::read_with(&self.served.fd, buffer, flags);
        let now = self.clock.now();
        match read {
            Read::Data(n) => m.on_recv(self.id, &mut buffer[..n], now),
            Read::Empty => return self.check_closed(m),
            Read::End => {
                self.check_closed(m)?;
                self.ended = true;
                m.on_closed(self.id, None, now);
            }
            Read::Dead(e) => {
                self.ended = true;
                m.on_closed(self.id, Some(errno::stream_fault(e)), now);
            }
        }
        self.act(m, now)
    }

    /// Keep reading while a write is blocked: the client may send everything before it reads
    /// anything.
    fn wait_for_room(&mut self, m: &mut dyn Machine, buffer: &mut [u8]) -> Flow {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::OUT, self.blocked);
        wanted.set(PollFlags::IN, !(self.ended || self.paused));
        let ready = waits::until_ready(&self.served.fd, wanted, PULSE);
        self.check_closed(m)?;
        if ready.intersects(!PollFlags::IN) && self.blocked {
            self.blocked = false;
            let now = self.clock.now();
            self.send(m, now);
            self.act(m, now)?;
        }
        if ready.contains(PollFlags::IN) && !(self.ended || self.paused) {
            return self.receive(m, buffer, RecvFlags::DONTWAIT);
        }
        Flow::Continue(())
    }

    /// If the threads are closed, stop the machine.
    #[cold]
    fn check_closed(&mut self, m: &mut dyn Machine) -> Flow {
        if !self.served.dedicated.is_closed() {
            return Flow::Continue(());
        }
        // The socket is also shut down for reading, so there is no more data to wait for.
        self.ended = true;
        let now = self.clock.now();
        m.on_stop(StopRequest::Now, now);
        self.act(m, now)?;
        Flow::Break(())
    }

    /// Execute the machine's actions.
    fn act(&mut self, m: &mut dyn Machine, now: Nanos) -> Flow {
        let mut flow = Flow::Continue(());
        while let Some(action) = m.poll_action() {
            match action {
                Action::Transmit { id } if id == self.id => self.send(m, now),
                Action::Transmit { .. } => {}
                Action::Close { id, how } => {
                    debug_assert_eq!(id, self.id, "the machine has one connection");
                    self.served.how = how;
                    flow = Flow::Break(());
                }
                Action::Pause { .. } => self.paused = true,
                Action::Resume { .. } => self.paused = false,
                Action::Connect { .. } | Action::Yield => {
                    debug_assert!(false, "a server opens no connections");
                }
                Action::Finished => flow = Flow::Break(()),
            }
        }
        flow
    }

    /// Write the machine's output, as far as it fits into the socket's buffer.
    fn send(&mut self, m: &mut dyn Machine, now: Nanos) {
        if self.blocked {
            return;
        }
        let write = |piece: &[u8]| socket::write_with(&self.served.fd, piece, SendFlags::DONTWAIT);
        // The next read reports a dead connection.
        let outcome = write_out(m, self.id, now, write);
        self.blocked = matches!(outcome, WriteOutcome::More | WriteOutcome::Full);
    }

    fn limit_reads(&mut self, limit: Option<Span>) {
        if self.limit != limit {
            waits::limit_reads(&self.served.fd, limit);
            self.limit = limit;
        }
    }

    /// Read until the client closes its side: if the connection were closed with unread data, the
    /// kernel would reset it and discard what the client has not received yet.
    fn drain(&mut self, buffer: &mut [u8]) {
        socket::shutdown_write(&self.served.fd);
        self.limit_reads(Some(PULSE));
        let until = self.clock.now() + LINGER;
        while let Read::Data(_) | Read::Empty =
            socket::read_with(&self.served.fd, buffer, RecvFlags::empty())
            && self.clock.now() < until
            && !self.served.dedicated.is_closed()
        {}
    }
}
