//! Threads of their own for the first few clients of a server: each waits for one client alone, in
//! the read itself, and answers at once. A driver that watches many needs a third call for every
//! message, which whoever measures round trips would measure, too.
//!
//! A client for whom no thread is free is watched by the driver like everybody, and one that says
//! nothing holds up nobody but its thread.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};

use crate::drivers::give::{Given, give};
use crate::net::errno;
use crate::net::socket::{self, Boundaries, Read, waits};
use crate::time::clock::Clock;
use crate::time::stop::PULSE;

/// A thread's receive buffer.
const BUFFER: usize = 256 * 1024;
/// How long a closed connection may still hear its client out.
const LINGER: Span = Span::from_secs(2);

type Flow = ControlFlow<()>;

/// Where accepted connections wait for a thread.
#[derive(Debug, Default)]
pub struct Desk {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that have nobody, less the connections that wait.
    free: usize,
    /// Connections that wait, and the index of their listener.
    queue: VecDeque<(OwnedFd, u32)>,
    /// The connections that have a thread.
    seated: Vec<Arc<OwnedFd>>,
    closed: bool,
}

impl Desk {
    /// Attend one client after the other in the calling thread until the desk is closed.
    pub(crate) fn attend(&self, m: &mut dyn Machine) {
        let clock = Clock::starting_now();
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        while let Some((seat, listener)) = self.next() {
            let now = clock.now();
            let Some(id) = m.on_accepted(listener, now) else { break };
            waits::begin(&seat.fd);
            let limit = None;
            let talk = Talk { seat, id, clock, limit, blocked: false, ended: false };
            talk.hold(m, &mut buffer);
        }
    }

    /// Nobody new is attended, and who is there is sent away.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for fd in &state.seated {
            waits::end_reads(fd.as_fd());
        }
        state.queue.clear();
        self.news.notify_all();
    }

    /// Take an accepted connection off a driver's hands; it comes back where nobody is free.
    pub(crate) fn take(&self, fd: OwnedFd, listener: u32) -> Result<(), OwnedFd> {
        let mut state = self.lock();
        // Reads of anything but a stream are not known to end when they are told to.
        if state.closed || state.free == 0 || !is_stream(&fd) {
            return Err(fd);
        }
        state.free -= 1;
        state.queue.push_back((fd, listener));
        self.news.notify_one();
        Ok(())
    }

    /// Wait for the next client.
    fn next(&self) -> Option<(Seat<'_>, u32)> {
        let mut state = self.lock();
        state.free += 1;
        loop {
            if state.closed {
                return None;
            }
            if let Some((fd, listener)) = state.queue.pop_front() {
                let fd = Arc::new(fd);
                state.seated.push(Arc::clone(&fd));
                return Some((Seat { desk: self, fd, how: CloseHow::Orderly }, listener));
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
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

/// A connection that has a thread; closed when dropped.
struct Seat<'a> {
    desk: &'a Desk,
    fd: Arc<OwnedFd>,
    how: CloseHow,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.desk.lock().seated.retain(|fd| !Arc::ptr_eq(fd, &self.fd));
        if self.how == CloseHow::Reset {
            socket::reset_on_close(&self.fd);
        }
    }
}

/// A thread and its client.
struct Talk<'a> {
    seat: Seat<'a>,
    id: ConnId,
    clock: Clock,
    /// How long reads may wait, as the kernel was told.
    limit: Option<Span>,
    /// A write did not fit.
    blocked: bool,
    /// The client says no more.
    ended: bool,
}

impl Talk<'_> {
    /// Until the machine closes the connection.
    fn hold(mut self, m: &mut dyn Machine, buffer: &mut [u8]) {
        let mut flow = self.act(m, self.clock.now());
        while flow.is_continue() {
            flow = self.turn(m, buffer);
        }
        if self.seat.how == CloseHow::Orderly && !self.ended {
            self.hear_out(buffer);
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
        if self.blocked || self.ended {
            return self.wait_for_room(m, buffer);
        }
        self.limit_reads(deadline.map(|_| PULSE));
        self.receive(m, buffer, RecvFlags::empty())
    }

    /// Wait for what the client says, and hand it to the machine.
    fn receive(&mut self, m: &mut dyn Machine, buffer: &mut [u8], flags: RecvFlags) -> Flow {
        let read = socket::read_with(&self.seat.fd, buffer, flags);
        let now = self.clock.now();
        match read {
            Read::Data(n) => m.on_recv(self.id, &mut buffer[..n], now),
            Read::Empty => return self.look_up(m),
            Read::End => {
                self.look_up(m)?;
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

    /// What does not fit must not keep the thread from reading: the client may well send all before
    /// it reads anything.
    fn wait_for_room(&mut self, m: &mut dyn Machine, buffer: &mut [u8]) -> Flow {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::OUT, self.blocked);
        wanted.set(PollFlags::IN, !self.ended);
        let ready = waits::until_ready(&self.seat.fd, wanted, PULSE);
        self.look_up(m)?;
        if ready.intersects(!PollFlags::IN) && self.blocked {
            self.blocked = false;
            let now = self.clock.now();
            self.send(m, now);
            self.act(m, now)?;
        }
        if ready.contains(PollFlags::IN) && !self.ended {
            return self.receive(m, buffer, RecvFlags::DONTWAIT);
        }
        Flow::Continue(())
    }

    /// Tell the machine that it is over, if it is.
    #[cold]
    fn look_up(&mut self, m: &mut dyn Machine) -> Flow {
        if !self.seat.desk.is_closed() {
            return Flow::Continue(());
        }
        // It is the others' as well, so there is nothing to wait for.
        self.ended = true;
        let now = self.clock.now();
        m.on_stop(StopRequest::Now, now);
        self.act(m, now)?;
        Flow::Break(())
    }

    /// Carry out what the machine wants.
    fn act(&mut self, m: &mut dyn Machine, now: Nanos) -> Flow {
        let mut flow = Flow::Continue(());
        while let Some(action) = m.poll_action() {
            match action {
                Action::Transmit { id } if id == self.id => self.send(m, now),
                Action::Transmit { .. } => {}
                Action::Close { id, how } => {
                    debug_assert_eq!(id, self.id, "the machine has no other");
                    self.seat.how = how;
                    flow = Flow::Break(());
                }
                Action::Connect { .. } | Action::Yield => {
                    debug_assert!(false, "a server connects to nobody");
                }
                Action::Finished => flow = Flow::Break(()),
            }
        }
        flow
    }

    /// Give the kernel what there is to send, as much as it takes at once.
    fn send(&mut self, m: &mut dyn Machine, now: Nanos) {
        if self.blocked {
            return;
        }
        let write = |piece: &[u8]| socket::write_with(&self.seat.fd, piece, SendFlags::DONTWAIT);
        // Of a connection that is dead the next read tells.
        let given = give(m, self.id, now, write);
        self.blocked = matches!(given, Given::Some | Given::Full);
    }

    fn limit_reads(&mut self, limit: Option<Span>) {
        if self.limit != limit {
            waits::limit_reads(&self.seat.fd, limit);
            self.limit = limit;
        }
    }

    /// Take what the client still sends: were the connection closed before, the kernel would reset
    /// it and throw away what the client has not yet received.
    fn hear_out(&mut self, buffer: &mut [u8]) {
        socket::shutdown_write(&self.seat.fd);
        self.limit_reads(Some(PULSE));
        let until = self.clock.now() + LINGER;
        while let Read::Data(_) | Read::Empty =
            socket::read_with(&self.seat.fd, buffer, RecvFlags::empty())
            && self.clock.now() < until
            && !self.seat.desk.is_closed()
        {}
    }
}
