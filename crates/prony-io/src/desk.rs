//! Threads of their own for the first few clients of a server: each waits for one client alone, in
//! the read itself, and answers at once. A driver that watches many needs a third call for every
//! message, which whoever measures round trips would measure, too.
//!
//! A client for whom no thread is free is watched by the driver like everybody, and one that says
//! nothing holds up nobody but its thread.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use prony_core::machine::{Action, CloseHow, Machine, StopRequest};
use prony_core::units::{ConnId, Nanos, Span};

use crate::clock::Clock;
use crate::control::PULSE;
use crate::errno;
use crate::give::{Given, give};
use crate::sock::{self, Boundaries, Read, waits};

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
    queue: VecDeque<(RawFd, u32)>,
    /// The connections that have a thread.
    seated: Vec<RawFd>,
    closed: bool,
}

impl Desk {
    /// Attend one client after the other in the calling thread until the desk is closed; what is
    /// left of the machine then.
    pub(crate) fn attend<M: Machine>(&self, mut machine: M) -> M {
        let clock = Clock::starting_now();
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        while let Some((seat, listener)) = self.next() {
            let now = clock.now();
            let Some(id) = machine.on_accepted(listener, now) else { break };
            waits::begin(seat.fd);
            let limit = None;
            let talk = Talk { seat, id, clock, limit, blocked: false, ended: false };
            talk.hold(&mut machine, &mut buffer);
        }
        machine
    }

    /// Nobody new is attended, and who is there is sent away.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for &fd in &state.seated {
            waits::end_reads(fd);
        }
        for (fd, _) in state.queue.drain(..) {
            sock::close(fd);
        }
        self.news.notify_all();
    }

    /// Take an accepted connection off a driver's hands; whether it is taken.
    pub(crate) fn take(&self, fd: RawFd, listener: u32) -> bool {
        let mut state = self.lock();
        // Reads of anything but a stream are not known to end when they are told to.
        if state.closed || state.free == 0 || sock::boundaries_of(fd) != Boundaries::None {
            return false;
        }
        state.free -= 1;
        state.queue.push_back((fd, listener));
        self.news.notify_one();
        true
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
                state.seated.push(fd);
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

/// A connection that has a thread; closed when dropped.
struct Seat<'a> {
    desk: &'a Desk,
    fd: RawFd,
    how: CloseHow,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        // First, for the number may be another's as soon as it is closed.
        self.desk.lock().seated.retain(|&fd| fd != self.fd);
        sock::close_how(self.fd, self.how);
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
    fn hold<M: Machine>(mut self, m: &mut M, buffer: &mut [u8]) {
        let mut flow = self.act(m, self.clock.now());
        while flow.is_continue() {
            flow = self.turn(m, buffer);
        }
        if self.seat.how == CloseHow::Orderly && !self.ended {
            self.hear_out(buffer);
        }
    }

    fn turn<M: Machine>(&mut self, m: &mut M, buffer: &mut [u8]) -> Flow {
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
        self.receive(m, buffer, 0)
    }

    /// Wait for what the client says, and hand it to the machine.
    fn receive<M: Machine>(&mut self, m: &mut M, buffer: &mut [u8], flags: libc::c_int) -> Flow {
        let read = sock::read_with(self.seat.fd, buffer, flags);
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
    fn wait_for_room<M: Machine>(&mut self, m: &mut M, buffer: &mut [u8]) -> Flow {
        let mut wanted = 0;
        for (wants, event) in [(self.blocked, libc::POLLOUT), (!self.ended, libc::POLLIN)] {
            wanted |= if wants { event } else { 0 };
        }
        let ready = waits::until_ready(self.seat.fd, wanted, PULSE);
        self.look_up(m)?;
        if ready & !libc::POLLIN != 0 && self.blocked {
            self.blocked = false;
            let now = self.clock.now();
            self.send(m, now);
            self.act(m, now)?;
        }
        if ready & libc::POLLIN != 0 && !self.ended {
            return self.receive(m, buffer, libc::MSG_DONTWAIT);
        }
        Flow::Continue(())
    }

    /// Tell the machine that it is over, if it is.
    #[cold]
    fn look_up<M: Machine>(&mut self, m: &mut M) -> Flow {
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
    fn act<M: Machine>(&mut self, m: &mut M, now: Nanos) -> Flow {
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
    fn send<M: Machine>(&mut self, m: &mut M, now: Nanos) {
        if self.blocked {
            return;
        }
        let write = |fd, piece: &[u8]| sock::write_with(fd, piece, libc::MSG_DONTWAIT);
        // Of a connection that is dead the next read tells.
        let given = give(m, (self.id, self.seat.fd), now, write);
        self.blocked = matches!(given, Given::Some | Given::Full);
    }

    fn limit_reads(&mut self, limit: Option<Span>) {
        if self.limit != limit {
            waits::limit_reads(self.seat.fd, limit);
            self.limit = limit;
        }
    }

    /// Take what the client still sends: were the connection closed before, the kernel would reset
    /// it and throw away what the client has not yet received.
    fn hear_out(&mut self, buffer: &mut [u8]) {
        sock::shutdown_write(self.seat.fd);
        self.limit_reads(Some(PULSE));
        let until = self.clock.now() + LINGER;
        while let Read::Data(_) | Read::Empty = sock::read_with(self.seat.fd, buffer, 0)
            && self.clock.now() < until
            && !self.seat.desk.is_closed()
        {}
    }
}
