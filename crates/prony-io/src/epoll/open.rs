//! How connections begin and end that are not simply there: connects, accepts, and closes that hear
//! the peer out.

use std::os::fd::{AsRawFd, RawFd};

use prony_core::fault::Fault;
use prony_core::machine::Machine;
use prony_core::units::{ConnId, Span};

use super::{
    ACCEPTED, Conn, EDGE, EDGE_BOTH, Epoll, FREE, Flow, LEVEL_SHARED, LINGERING, LISTENER, Pending,
    State, live, tag, tag_of,
};
use crate::driver::tries_next;
use crate::errno;
use crate::sock::{self, Boundaries, Connecting, Mode, Read};
use crate::stamps;

/// Connections taken from a listener before the others get their turn.
const ACCEPTS_IN_A_ROW: u32 = 64;
/// How long a listener rests when no descriptor was free.
const ACCEPT_PAUSE: Span = Span::from_millis(10);
/// A full unix listener: how often it is asked again, and for how long.
const RETRY_GAP: Span = Span::from_millis(1);
const RETRY_FOR: Span = Span::from_secs(5);
/// How long a server's closed connection may still hear its peer out.
const LINGER: Span = Span::from_secs(2);
/// Reads of a closed connection in a row.
const DISCARDS_IN_A_ROW: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Retried {
    /// Still no room at the listener.
    Full,
    /// Open or failed, and put among the pending.
    Decided,
}

impl Epoll {
    /// Begin to open a connection. What is decided at once is told to the machine later, from
    /// `catch_up`.
    pub(super) fn connect(&mut self, id: ConnId, endpoint: u32) {
        self.put(
            Conn { generation: id.generation, endpoint, state: State::Connecting, ..FREE },
            id,
        );
        self.try_address(id);
    }

    fn put(&mut self, conn: Conn, id: ConnId) {
        let slot = id.slot as usize;
        if slot >= self.conns.len() {
            self.conns.resize(slot + 1, FREE);
        }
        debug_assert_eq!(self.conns[slot].state, State::Free, "{id:?} is still in use");
        self.conns[slot] = conn;
    }

    /// Try the connection's current address, and the following ones where it is refused at once.
    fn try_address(&mut self, id: ConnId) {
        while let Some(c) = live(&mut self.conns, id) {
            let (endpoint, tried) = (c.endpoint, c.tried);
            let e = match self.begin_connect(id, endpoint, tried) {
                Ok(()) => return,
                Err(e) => e,
            };
            if let Err(fault) = self.next_address(id, e) {
                self.pending.push((id, Pending::Refused(fault)));
                return;
            }
        }
    }

    fn begin_connect(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32> {
        let fd = self.network.socket(endpoint, tried, Mode::NonBlocking)?;
        let Some(c) = live(&mut self.conns, id) else { return Ok(()) };
        c.fd = fd;
        let Some(remote) = self.network.remote(endpoint, tried) else { return Ok(()) };
        c.unix = remote.is_unix();
        c.boundaries = remote.boundaries();
        match remote.connect(fd) {
            Ok(Connecting::Open) => {
                self.pending.push((id, Pending::Connected));
                let interest = if c.unix { EDGE } else { EDGE_BOTH };
                self.poller.add(fd, tag_of(id), interest)
            }
            Ok(Connecting::Underway) => self.poller.add(fd, tag_of(id), EDGE_BOTH),
            // The listener's queue is full. Nothing is under way: ask again in a while.
            Err(libc::EAGAIN) if c.unix => {
                let now = self.pace.read_clock();
                self.retries.push((id, now + RETRY_GAP, now + RETRY_FOR));
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Give up the current address; why the connection fails where there is no other to try.
    fn next_address(&mut self, id: ConnId, e: i32) -> Result<(), Fault> {
        let Some(c) = live(&mut self.conns, id) else { return Err(errno::connect_fault(e)) };
        if c.fd >= 0 {
            sock::close(c.fd);
            c.fd = -1;
        }
        let (endpoint, tried) = (c.endpoint, c.tried);
        c.tried += 1;
        let fault = self.network.connect_fault(endpoint, tried, e);
        let has_next = tries_next(fault) && self.network.remote(endpoint, tried + 1).is_some();
        if has_next { Ok(()) } else { Err(fault) }
    }

    /// A connect that was under way has failed.
    pub(super) fn connect_failed<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        id: ConnId,
        e: i32,
    ) -> Flow {
        match self.next_address(id, e) {
            Ok(()) => {
                self.try_address(id);
                Flow::Continue(())
            }
            Err(fault) => self.dead(m, id, fault),
        }
    }

    /// A connect has succeeded.
    pub(super) fn connected<M: Machine + ?Sized>(&mut self, m: &mut M, id: ConnId) -> Flow {
        let Some(c) = live(&mut self.conns, id).filter(|c| c.state == State::Connecting) else {
            return Flow::Continue(());
        };
        c.state = State::Open;
        if self.stamps.is_some() {
            // Where the kernel refuses, stamps are missing, and the report says so.
            let _ = stamps::enable(c.fd);
        }
        let (endpoint, tried, fd) = (c.endpoint, c.tried, c.fd);
        let is_association = c.boundaries == Boundaries::Packets && !c.unix;
        self.network.answered(endpoint, tried);
        if is_association {
            self.sampler.opened(fd);
        }
        let now = self.pace.read_clock();
        m.on_connected(id, now);
        self.act(m, Some((id, now)))
    }

    /// Ask full unix listeners again.
    pub(super) fn retry_connects(&mut self) {
        if self.retries.is_empty() {
            return;
        }
        let now = self.pace.read_clock();
        let mut i = 0;
        while i < self.retries.len() {
            let (id, again, give_up) = self.retries[i];
            if now < again || self.retry_connect(id, now >= give_up) == Retried::Full {
                self.retries[i].1 = if now < again { again } else { now + RETRY_GAP };
                i += 1;
            } else {
                self.retries.swap_remove(i);
            }
        }
    }

    fn retry_connect(&mut self, id: ConnId, give_up: bool) -> Retried {
        let Some(c) = live(&mut self.conns, id) else { return Retried::Decided };
        if give_up {
            self.pending.push((id, Pending::Refused(Fault::ConnectTimeout)));
            return Retried::Decided;
        }
        let Some(remote) = self.network.remote(c.endpoint, c.tried) else {
            return Retried::Decided;
        };
        let decided = match remote.connect(c.fd) {
            Err(libc::EAGAIN) => return Retried::Full,
            Ok(_) => self.poller.add(c.fd, tag_of(id), EDGE),
            Err(e) => Err(e),
        };
        let what = match decided {
            Ok(()) => Pending::Connected,
            Err(e) => Pending::Refused(errno::connect_fault(e)),
        };
        self.pending.push((id, what));
        Retried::Decided
    }

    /// Take what waits at a listener.
    pub(super) fn accept<M: Machine + ?Sized>(&mut self, m: &mut M, index: u32) -> Flow {
        let listener = self.listeners[index as usize].as_raw_fd();
        for _ in 0..ACCEPTS_IN_A_ROW {
            match sock::accept(listener) {
                Ok(Some(fd)) => self.accepted(m, index, fd)?,
                Ok(None) => break,
                Err(_) => {
                    // No descriptor or no memory is free. The event would come again at once, so
                    // look away for a while.
                    self.pause_listeners();
                    break;
                }
            }
        }
        Flow::Continue(())
    }

    fn accepted<M: Machine + ?Sized>(&mut self, m: &mut M, index: u32, fd: RawFd) -> Flow {
        if self.desk.as_ref().is_some_and(|desk| desk.take(fd, index)) {
            return Flow::Continue(());
        }
        let now = self.pace.read_clock();
        let Some(id) = m.on_accepted(index, now) else {
            sock::close(fd);
            return self.act(m, None);
        };
        let conn = Conn {
            fd,
            generation: id.generation,
            endpoint: ACCEPTED,
            state: State::Open,
            unix: sock::is_unix(fd),
            boundaries: sock::boundaries_of(fd),
            ..FREE
        };
        self.put(conn, id);
        let interest = if conn.unix { EDGE } else { EDGE_BOTH };
        if let Err(e) = self.poller.add(fd, tag_of(id), interest) {
            self.pending.push((id, Pending::Broken(errno::stream_fault(e))));
        }
        self.act(m, Some((id, now)))
    }

    fn pause_listeners(&mut self) {
        self.stats.accept_pauses += 1;
        let now = self.pace.read_clock();
        self.paused = Some(now + ACCEPT_PAUSE);
        for l in &self.listeners {
            self.poller.remove(l.as_raw_fd());
        }
    }

    /// Look at the listeners again when they have rested.
    pub(super) fn resume_listeners(&mut self) {
        if self.paused.is_none_or(|until| self.pace.now() < until) {
            return;
        }
        self.paused = None;
        for (i, l) in self.listeners.iter().enumerate() {
            if self.poller.add(l.as_raw_fd(), tag(LISTENER, i as u32), LEVEL_SHARED).is_err() {
                self.paused = Some(self.pace.now() + ACCEPT_PAUSE);
            }
        }
    }

    /// Close a served connection in good order: were it closed with bytes of the peer unread (or
    /// still to come), the kernel would reset it and throw away what the peer has not yet received.
    pub(super) fn linger(&mut self, fd: RawFd) {
        sock::shutdown_write(fd);
        let until = self.pace.now() + LINGER;
        if self.poller.modify(fd, tag(LINGERING, fd as u32), EDGE).is_err() {
            sock::close(fd);
            return;
        }
        self.lingering.insert(fd, until);
    }

    /// Discard what a peer still sends on a closed connection; the end of it ends the connection.
    pub(super) fn hear_out(&mut self, fd: RawFd) {
        if !self.lingering.contains_key(&fd) {
            return;
        }
        for _ in 0..DISCARDS_IN_A_ROW {
            match sock::read(fd, &mut self.buffer) {
                Read::Data(_) => {}
                Read::Empty => return,
                Read::End | Read::Dead(_) => break,
            }
        }
        // A peer that sends more than that without listening has had its time.
        self.lingering.remove(&fd);
        sock::close(fd);
    }

    /// Close what has been heard out for long enough.
    pub(super) fn end_lingering(&mut self) {
        let now = self.pace.now();
        self.lingering.retain(|&fd, &mut until| {
            let stays = now < until;
            if !stays {
                sock::close(fd);
            }
            stays
        });
    }
}
