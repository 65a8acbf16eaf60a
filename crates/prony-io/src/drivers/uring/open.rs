//! Opening and closing connections: connects, accepts, and closes that wait for remaining output
//! and for the peer.

use std::os::fd::{AsRawFd as _, OwnedFd};

use prony_base::fault::Fault;
use prony_base::machine::{CloseHow, Machine};
use prony_base::units::{ConnId, Nanos, Span};

use super::ring::{Completed, Request, Ring};
use super::{ACCEPTED, Conn, ListenerKind, Op, Pending, State, Uring, pack};
use crate::drivers::dial::{Dial, Dialed};
use crate::drivers::event_loop::{Backend as _, Flow};
use crate::net::socket::{self, sctp};

/// How long a listener pauses after no descriptor was free.
const ACCEPT_PAUSE: Span = Span::from_millis(10);
/// Associations accepted from a listener before others get their turn.
const ASSOCIATIONS_IN_A_ROW: u32 = 64;
/// The time limit for sending the rest of a closed connection's output.
const FLUSH: Span = Span::from_secs(10);
/// How long a server reads from a closed connection until the peer closes its side.
const LINGER: Span = Span::from_secs(2);

/// The ID of requests whose completion needs no action.
pub(super) const NO_ACTION: u64 = 0;

/// A connection that the machine has closed.
#[derive(Debug)]
pub(super) struct ClosingConn {
    pub(super) conn: Conn,
    /// All output is sent; what the peer sends is discarded until the end of its stream.
    lingers: bool,
    until: Nanos,
}

impl Dial for Uring {
    fn dialed(&mut self, id: ConnId) -> Option<Dialed<'_>> {
        let c = self.conns.get_mut(id)?;
        Some(Dialed { fd: &mut c.fd, endpoint: c.endpoint, tried: &mut c.tried })
    }

    fn try_address(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32> {
        let fd = self.socket(endpoint, tried)?;
        self.start_connect(id, fd);
        Ok(())
    }

    fn refused(&mut self, id: ConnId, fault: Fault) {
        self.pending.push((id, Pending::Refused(fault)));
    }
}

impl Uring {
    /// A new socket. If no descriptor is free, first submit the queued closes.
    fn socket(&mut self, endpoint: u32, tried: u16) -> Result<OwnedFd, i32> {
        match self.common.network.socket(endpoint, tried, socket::Mode::Blocking) {
            Err(libc::EMFILE | libc::ENFILE) => {
                self.ring.submit();
                self.common.network.socket(endpoint, tried, socket::Mode::Blocking)
            }
            other => other,
        }
    }

    fn start_connect(&mut self, id: ConnId, fd: OwnedFd) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let fd = c.fd.insert(fd);
        let Some(remote) = self.common.network.remote(c.endpoint, c.tried) else { return };
        c.unix = remote.is_unix();
        if remote.sctp().is_some() {
            c.messages = true;
            // The ring cannot connect to several addresses.
            let result = remote.connect_sctp(fd, socket::Mode::Blocking).map_or_else(|e| -e, |_| 0);
            self.pending.push((id, Pending::ConnectDone(result)));
            return;
        }
        self.ring.connect(fd.as_raw_fd(), remote.bytes(), pack(Op::Connect, id));
    }

    /// A connect has succeeded or failed.
    pub(super) fn connect_done(&mut self, m: &mut dyn Machine, id: ConnId, result: i32) -> Flow {
        let Some(c) = self.conns.get_mut(id).filter(|c| c.state == State::Connecting) else {
            return Flow::Continue(());
        };
        if result < 0 {
            return match self.next_address(id, -result) {
                Ok(()) => {
                    self.dial(id);
                    Flow::Continue(())
                }
                Err(fault) => self.dead(m, id, fault),
            };
        }
        c.state = State::Open;
        let association = c.fd.as_ref().filter(|_| c.messages).map(OwnedFd::as_raw_fd);
        let (endpoint, tried) = (c.endpoint, c.tried);
        self.common.network.accepted(endpoint, tried);
        if let Some(fd) = association {
            self.common.sampler.opened(fd);
        }
        self.arm(id);
        self.common.report_open_delay(m);
        m.on_connected(id, self.common.pace.now());
        self.act(m, None)
    }

    /// Start a multishot receive on the connection.
    pub(super) fn arm(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.armed || c.read_closed || c.paused || c.state != State::Open {
            return;
        }
        let Some(fd) = &c.fd else { return };
        c.armed = true;
        self.ring.push(Request::receive(fd.as_raw_fd()), pack(Op::Receive, id));
    }

    /// Start accepting again on the listeners after their pause.
    pub(super) fn arm_listeners(&mut self) {
        if self.idle_listeners.is_empty() {
            return;
        }
        let now = self.common.pace.now();
        let mut i = 0;
        while i < self.idle_listeners.len() {
            let (index, until) = self.idle_listeners[i];
            if now < until {
                i += 1;
                continue;
            }
            self.idle_listeners.swap_remove(i);
            let fd = self.listeners[index as usize].as_raw_fd();
            let id = ConnId { slot: index, generation: 0 };
            if self.listener_kinds[index as usize] == ListenerKind::OneToMany {
                self.ring.push(Request::until_readable(fd), pack(Op::Readable, id));
                continue;
            }
            self.ring.push(Request::accept(fd), pack(Op::Accept, id));
        }
    }

    /// A listener has a new connection, or an error.
    pub(super) fn accepted(
        &mut self,
        m: &mut dyn Machine,
        index: u32,
        completed: Completed,
    ) -> Flow {
        let (now, more, result) = (self.common.pace.now(), completed.more, completed.result);
        if !more {
            let no_resources =
                matches!(-result, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM);
            self.common.stats.accept_pauses += u64::from(no_resources);
            let until = if no_resources { now + ACCEPT_PAUSE } else { now };
            self.idle_listeners.push((index, until));
        }
        // SAFETY: only accepts are tagged `Op::Accept`, and this function handles only those.
        match unsafe { completed.accepted() } {
            Some(fd) => self.add_accepted(m, index, fd),
            None => Flow::Continue(()),
        }
    }

    /// Accept the associations that wait at a one-to-many socket.
    pub(super) fn accept_associations(&mut self, m: &mut dyn Machine, index: u32) -> Flow {
        let now = self.common.pace.now();
        for _ in 0..ASSOCIATIONS_IN_A_ROW {
            let listener = self.listeners[index as usize].as_raw_fd();
            match sctp::accept_from_many(listener, socket::Mode::Blocking) {
                Ok(fd) => self.add_accepted(m, index, fd)?,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.common.stats.accept_pauses += 1;
                    self.idle_listeners.push((index, now + ACCEPT_PAUSE));
                    return Flow::Continue(());
                }
            }
        }
        self.idle_listeners.push((index, now));
        Flow::Continue(())
    }

    /// Pass a new connection to the machine.
    fn add_accepted(&mut self, m: &mut dyn Machine, index: u32, fd: OwnedFd) -> Flow {
        let (now, kind) = (self.common.pace.now(), self.listener_kinds[index as usize]);
        let Some(id) = m.on_accepted(index, now) else {
            drop(fd);
            return self.act(m, None);
        };
        let conn = Conn {
            fd: Some(fd),
            endpoint: ACCEPTED,
            state: State::Open,
            unix: kind == ListenerKind::Unix,
            messages: matches!(kind, ListenerKind::Associations | ListenerKind::OneToMany),
            ..Conn::CONNECTING
        };
        self.conns.insert(id, conn);
        self.arm(id);
        self.act(m, None)
    }

    /// Close a connection: at once, or after its remaining output is sent.
    pub(super) fn close_conn(&mut self, id: ConnId, how: CloseHow) {
        let Some(mut conn) = self.conns.remove(id) else { return };
        // The next connection in this slot needs the place.
        if std::mem::take(&mut conn.registered) {
            self.ring.unregister_file(id.slot);
        }
        let Some(fd) = &conn.fd else { return };
        if conn.state != State::Connecting && !conn.unix {
            self.common.sampler.closing(fd.as_raw_fd(), conn.sends > 1);
        }
        let healthy = conn.state == State::Open && conn.send_fault.is_none();
        let unsent = conn.slow || conn.sent_in == self.ring.batch();
        let served = conn.endpoint == ACCEPTED && !conn.read_closed;
        if how == CloseHow::Orderly && healthy && (unsent || served) {
            let until = self.common.pace.now() + FLUSH;
            let closing = ClosingConn { conn, lingers: false, until };
            self.closing.insert(key(id), closing);
            self.flushing += 1;
        } else {
            self.release(conn, id, how);
        }
    }

    /// Cancel the connection's operations, then close it.
    fn release(&mut self, conn: Conn, id: ConnId, how: CloseHow) {
        cancel(&mut self.ring, &conn, id);
        let Some(fd) = conn.fd else { return };
        if how == CloseHow::Reset {
            socket::reset_on_close(&fd);
        }
        self.ring.push(Request::close(fd), NO_ACTION);
    }

    /// The connection with this ID, also if the machine has closed it.
    pub(super) fn conn_or_closing(&mut self, id: ConnId) -> Option<&mut Conn> {
        match self.conns.get_mut(id) {
            Some(c) => Some(c),
            None => self.closing.get_mut(&key(id)).map(|p| &mut p.conn),
        }
    }

    /// Whether a closed connection waits for its last bytes to be accepted.
    pub(super) fn has_flushing(&self) -> bool {
        self.flushing > 0
    }

    /// Continue with closed connections whose last bytes were accepted. A client's connection is
    /// closed. A server's is first read until the peer closes its side: if it were closed with
    /// unread data (or data still to arrive), the kernel would reset it and discard what the peer
    /// has not received yet.
    pub(super) fn settle_closing(&mut self) {
        if self.flushing == 0 {
            return;
        }
        self.flushing = 0;
        let (batch, now) = (self.ring.batch(), self.common.pace.now());
        let mut finished = Vec::new();
        for (&key, p) in &mut self.closing {
            if p.lingers || p.conn.slow {
                continue;
            }
            if p.conn.sent_in == batch {
                self.flushing += 1;
            } else if p.conn.endpoint == ACCEPTED && !p.conn.read_closed {
                if let Some(fd) = &p.conn.fd {
                    socket::shutdown_write(fd);
                }
                p.lingers = true;
                p.until = now + LINGER;
            } else {
                finished.push(key);
            }
        }
        for key in finished {
            self.finish_close(id_of(key));
        }
    }

    /// Handle data received on a closed connection.
    pub(super) fn closing_received(&mut self, id: ConnId, result: i32, more: bool) {
        let Some(p) = self.closing.get_mut(&key(id)) else { return };
        p.conn.armed = more;
        if more && result > 0 {
            return;
        }
        // The end of the stream, an error, or no free buffer: stop reading in each case.
        p.conn.read_closed = true;
        if p.lingers {
            self.finish_close(id);
        }
    }

    /// Finally close a connection that the machine has closed.
    pub(super) fn finish_close(&mut self, id: ConnId) {
        if let Some(p) = self.closing.remove(&key(id)) {
            self.release(p.conn, id, CloseHow::Orderly);
        }
    }

    /// Close connections after their time limit for output or for the peer.
    pub(super) fn close_expired(&mut self) {
        let now = self.common.pace.now();
        let finished: Vec<u64> =
            self.closing.iter().filter(|(_, p)| p.until <= now).map(|(&key, _)| key).collect();
        for key in finished {
            self.finish_close(id_of(key));
        }
    }
}

/// Cancel the connection's operations. Returns whether all cancel requests were queued. If not,
/// operations in flight keep their memory until they complete, or forever.
pub(super) fn cancel(ring: &mut Ring, conn: &Conn, id: ConnId) -> bool {
    let ops = [
        (conn.armed, Op::Receive),
        (conn.slow, Op::SlowSend),
        (conn.state == State::Connecting, Op::Connect),
    ];
    let mut in_flight = ops.into_iter().filter(|&(is, _)| is);
    in_flight.all(|(_, op)| ring.offer(Request::cancel(pack(op, id)), NO_ACTION))
}

fn key(id: ConnId) -> u64 {
    pack(Op::None, id)
}

fn id_of(key: u64) -> ConnId {
    super::unpack(key).1
}
