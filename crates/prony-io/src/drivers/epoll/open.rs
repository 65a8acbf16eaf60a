//! Opening and closing connections: connects, accepts, and closes that wait for the peer.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use prony_base::fault::Fault;
use prony_base::machine::Machine;
use prony_base::units::{ConnId, Span};

use super::{
    ACCEPTED, Conn, EDGE, EDGE_BOTH, Epoll, Flow, LEVEL_SHARED, LINGERING, LISTENER, Pending,
    State, tag, tag_of,
};
use crate::drivers::dial::{Dial, Dialed};
use crate::drivers::event_loop::Backend as _;
use crate::net::errno;
use crate::net::socket::{self, Boundaries, Connecting, Mode, Read};
use crate::net::timestamps;

/// Connections accepted from a listener before others get their turn.
const ACCEPTS_IN_A_ROW: u32 = 64;
/// How long a listener pauses after no descriptor was free.
const ACCEPT_PAUSE: Span = Span::from_millis(10);
/// How often, and for how long, to retry a connect to a unix listener with a full queue.
const RETRY_INTERVAL: Span = Span::from_millis(1);
const RETRY_FOR: Span = Span::from_secs(5);
/// How long a server reads from a closed connection until the peer closes its side.
const LINGER: Span = Span::from_secs(2);
/// Consecutive reads from a closed connection.
const DISCARDS_IN_A_ROW: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Retried {
    /// The listener's queue is still full.
    Full,
    /// The connect has succeeded or failed, and the event is pending.
    Done,
}

impl Dial for Epoll {
    fn dialed(&mut self, id: ConnId) -> Option<Dialed<'_>> {
        let c = self.conns.get_mut(id)?;
        Some(Dialed { fd: &mut c.fd, endpoint: c.endpoint, tried: &mut c.tried })
    }

    fn try_address(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32> {
        let fd = self.common.network.socket(endpoint, tried, Mode::NonBlocking)?;
        let Some(c) = self.conns.get_mut(id) else { return Ok(()) };
        let fd = c.fd.insert(fd);
        let Some(remote) = self.common.network.remote(endpoint, tried) else { return Ok(()) };
        c.unix = remote.is_unix();
        c.boundaries = remote.boundaries();
        match remote.connect(fd) {
            Ok(Connecting::Open) => {
                self.pending.push((id, Pending::Connected));
                let interest = if c.unix { EDGE } else { EDGE_BOTH };
                self.poller.add(fd, tag_of(id), interest)
            }
            Ok(Connecting::InProgress) => self.poller.add(fd, tag_of(id), EDGE_BOTH),
            // The listener's queue is full. The kernel does not continue the connect, so try again
            // later.
            Err(libc::EAGAIN) if c.unix => {
                let now = self.common.pace.read_clock();
                self.retries.push((id, now + RETRY_INTERVAL, now + RETRY_FOR));
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn refused(&mut self, id: ConnId, fault: Fault) {
        self.pending.push((id, Pending::Refused(fault)));
    }
}

impl Epoll {
    /// A connect in progress has failed.
    pub(super) fn connect_failed(&mut self, m: &mut dyn Machine, id: ConnId, e: i32) -> Flow {
        match self.next_address(id, e) {
            Ok(()) => {
                self.dial(id);
                Flow::Continue(())
            }
            Err(fault) => self.dead(m, id, fault),
        }
    }

    /// A connect has succeeded.
    pub(super) fn connected(&mut self, m: &mut dyn Machine, id: ConnId) -> Flow {
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state == State::Connecting) else {
            return Flow::Continue(());
        };
        let Some(fd) = c.fd.as_ref().map(OwnedFd::as_raw_fd) else { return Flow::Continue(()) };
        c.state = State::Open;
        if self.common.timestamps.is_some() {
            // If the kernel refuses, timestamps are missing, and the report says so.
            let _ = timestamps::enable(fd);
        }
        let (endpoint, tried) = (c.endpoint, c.tried);
        let is_association = c.boundaries == Boundaries::Packets && !c.unix;
        self.common.network.accepted(endpoint, tried);
        if is_association {
            self.common.sampler.opened(fd);
        }
        self.common.report_open_delay(m);
        let now = self.common.pace.read_clock();
        m.on_connected(id, now);
        self.act(m, Some((id, now)))
    }

    /// Retry connects to unix listeners with a full queue.
    pub(super) fn retry_connects(&mut self) {
        if self.retries.is_empty() {
            return;
        }
        let now = self.common.pace.read_clock();
        let mut i = 0;
        while i < self.retries.len() {
            let (id, again, give_up) = self.retries[i];
            if now < again || self.retry_connect(id, now >= give_up) == Retried::Full {
                self.retries[i].1 = if now < again { again } else { now + RETRY_INTERVAL };
                i += 1;
            } else {
                self.retries.swap_remove(i);
            }
        }
    }

    fn retry_connect(&mut self, id: ConnId, give_up: bool) -> Retried {
        let Some(c) = self.conns.get_mut(id) else { return Retried::Done };
        if give_up {
            self.pending.push((id, Pending::Refused(Fault::ConnectTimeout)));
            return Retried::Done;
        }
        let Some(remote) = self.common.network.remote(c.endpoint, c.tried) else {
            return Retried::Done;
        };
        let Some(fd) = &c.fd else { return Retried::Done };
        let result = match remote.connect(fd) {
            Err(libc::EAGAIN) => return Retried::Full,
            Ok(_) => self.poller.add(fd, tag_of(id), EDGE),
            Err(e) => Err(e),
        };
        let what = match result {
            Ok(()) => Pending::Connected,
            Err(e) => Pending::Refused(errno::connect_fault(e)),
        };
        self.pending.push((id, what));
        Retried::Done
    }

    /// Accept the connections that wait at a listener.
    pub(super) fn accept(&mut self, m: &mut dyn Machine, index: u32) -> Flow {
        for _ in 0..ACCEPTS_IN_A_ROW {
            match socket::accept(&self.listeners[index as usize]) {
                Ok(Some(fd)) => self.accepted(m, index, fd)?,
                Ok(None) => break,
                Err(_) => {
                    // No descriptor or no memory is free. The event would repeat at once, so pause.
                    self.pause_listeners();
                    break;
                }
            }
        }
        Flow::Continue(())
    }

    fn accepted(&mut self, m: &mut dyn Machine, index: u32, fd: OwnedFd) -> Flow {
        let taken = match &self.dedicated {
            Some(threads) => threads.offer(fd, index),
            None => Err(fd),
        };
        let Err(fd) = taken else { return Flow::Continue(()) };
        let now = self.common.pace.read_clock();
        let Some(id) = m.on_accepted(index, now) else {
            drop(fd);
            return self.act(m, None);
        };
        let conn = Conn {
            endpoint: ACCEPTED,
            state: State::Open,
            unix: socket::is_unix(fd.as_raw_fd()),
            boundaries: socket::boundaries_of(fd.as_raw_fd()),
            ..Conn::CONNECTING
        };
        let interest = if conn.unix { EDGE } else { EDGE_BOTH };
        let added = self.poller.add(&fd, tag_of(id), interest);
        self.conns.insert(id, Conn { fd: Some(fd), ..conn });
        if let Err(e) = added {
            self.pending.push((id, Pending::Broken(errno::stream_fault(e))));
        }
        self.act(m, Some((id, now)))
    }

    fn pause_listeners(&mut self) {
        self.common.stats.accept_pauses += 1;
        let now = self.common.pace.read_clock();
        self.paused = Some(now + ACCEPT_PAUSE);
        for l in &self.listeners {
            self.poller.remove(l);
        }
    }

    /// Watch the listeners again after their pause.
    pub(super) fn resume_listeners(&mut self) {
        if self.paused.is_none_or(|until| self.common.pace.now() < until) {
            return;
        }
        self.paused = None;
        for (i, l) in self.listeners.iter().enumerate() {
            if self.poller.add(l, tag(LISTENER, i as u32), LEVEL_SHARED).is_err() {
                self.paused = Some(self.common.pace.now() + ACCEPT_PAUSE);
            }
        }
    }

    /// Close a server's connection gracefully. If it were closed with unread data (or data still to
    /// arrive), the kernel would reset it and discard what the peer has not received yet.
    pub(super) fn linger(&mut self, fd: OwnedFd) {
        socket::shutdown_write(&fd);
        let until = self.common.pace.now() + LINGER;
        let number = fd.as_raw_fd();
        if self.poller.modify(&fd, tag(LINGERING, number as u32), EDGE).is_ok() {
            self.lingering.insert(number, (fd, until));
        }
    }

    /// Discard what the peer sends on a closed connection, until the end of the stream.
    pub(super) fn discard(&mut self, number: RawFd) {
        let Some((fd, _)) = self.lingering.get(&number) else { return };
        for _ in 0..DISCARDS_IN_A_ROW {
            match socket::read(fd, &mut self.buffer) {
                Read::Data(_) => {}
                Read::Empty => return,
                Read::End | Read::Dead(_) => break,
            }
        }
        // The peer sends too much without reading: close the connection.
        self.lingering.remove(&number);
    }

    /// Close lingering connections after their time limit.
    pub(super) fn close_expired(&mut self) {
        let now = self.common.pace.now();
        self.lingering.retain(|_, (_, until)| now < *until);
    }
}
