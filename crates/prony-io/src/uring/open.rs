//! How connections begin and end: connects, accepts, and closes that wait for what is still to be
//! sent, and for the peer.

use std::os::fd::{AsRawFd, IntoRawFd as _, RawFd};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use super::ring::Request;
use super::{ACCEPTED, Conn, FREE, Flow, ListenerKind, Op, Pending, State, Uring, live, pack};
use crate::driver::tries_next;
use crate::errno;
use crate::sock::{self, sctp};

/// How long a listener rests when no descriptor was free.
const ACCEPT_PAUSE: Span = Span::from_millis(10);
/// Associations taken from a listener before the others get their turn.
const ASSOCIATIONS_IN_A_ROW: u32 = 64;
/// How long a closed connection may take to send what it still has to.
const FLUSH: Span = Span::from_secs(10);
/// How long a server's closed connection may still hear its peer out.
const LINGER: Span = Span::from_secs(2);

/// The name of requests for whose completion nobody waits.
const NOBODY: u64 = 0;

/// A connection that the machine has let go of.
#[derive(Debug)]
pub(super) struct Parting {
    pub(super) conn: Conn,
    /// All is sent; what the peer still sends is discarded, up to its end.
    lingers: bool,
    until: Nanos,
}

impl Uring {
    /// Begin to open a connection.
    pub(super) fn connect(&mut self, id: ConnId, endpoint: u32) {
        let state = State::Connecting;
        self.put(Conn { generation: id.generation, endpoint, state, ..FREE }, id);
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

    /// Try the connection's current address, and the following ones where no socket can be had.
    fn try_address(&mut self, id: ConnId) {
        while let Some(c) = live(&mut self.conns, id) {
            let (endpoint, tried) = (c.endpoint, c.tried);
            let e = match self.socket(endpoint, tried) {
                Ok(fd) => {
                    self.begin_connect(id, fd);
                    return;
                }
                Err(e) => e,
            };
            if let Err(fault) = self.next_address(id, e) {
                self.pending.push((id, Pending::Refused(fault)));
                return;
            }
        }
    }

    /// A socket; where no descriptor is free, after the closes that are queued.
    fn socket(&mut self, endpoint: u32, tried: u16) -> Result<RawFd, i32> {
        match self.network.socket(endpoint, tried, sock::Mode::Blocking) {
            Err(libc::EMFILE | libc::ENFILE) => {
                self.ring.submit();
                self.network.socket(endpoint, tried, sock::Mode::Blocking)
            }
            other => other,
        }
    }

    fn begin_connect(&mut self, id: ConnId, fd: RawFd) {
        let Some(c) = live(&mut self.conns, id) else { return };
        c.fd = fd;
        let Some(remote) = self.network.remote(c.endpoint, c.tried) else { return };
        c.unix = remote.is_unix();
        if remote.sctp().is_some() {
            c.messages = true;
            // The ring knows no connect to several addresses.
            let result = remote.connect_sctp(fd, sock::Mode::Blocking).map_or_else(|e| -e, |_| 0);
            self.pending.push((id, Pending::Decided(result)));
            return;
        }
        self.ring.connect(fd, remote.bytes(), pack(Op::Connect, id));
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

    /// A connect is decided.
    pub(super) fn connect_ended<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        id: ConnId,
        result: i32,
    ) -> Flow {
        let Some(c) = live(&mut self.conns, id).filter(|c| c.state == State::Connecting) else {
            return Flow::Continue(());
        };
        if result < 0 {
            return match self.next_address(id, -result) {
                Ok(()) => {
                    self.try_address(id);
                    Flow::Continue(())
                }
                Err(fault) => self.dead(m, id, fault),
            };
        }
        c.state = State::Open;
        let (endpoint, tried, association) = (c.endpoint, c.tried, c.messages.then_some(c.fd));
        self.network.answered(endpoint, tried);
        if let Some(fd) = association {
            self.sampler.opened(fd);
        }
        self.arm(id);
        m.on_connected(id, self.pace.now());
        self.act(m)
    }

    /// Let the kernel receive for the connection from now on.
    pub(super) fn arm(&mut self, id: ConnId) {
        let Some(c) = live(&mut self.conns, id) else { return };
        if c.armed || c.ended || c.state != State::Open {
            return;
        }
        c.armed = true;
        self.ring.push(Request::receive(c.fd), pack(Op::Receive, id));
    }

    /// Let the kernel accept at the listeners that have rested.
    pub(super) fn arm_listeners(&mut self) {
        if self.idle_listeners.is_empty() {
            return;
        }
        let now = self.pace.now();
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
                self.ring.push(Request::until_readable(fd), pack(Op::Knock, id));
                continue;
            }
            self.ring.push(Request::accept(fd), pack(Op::Accept, id));
        }
    }

    /// A listener has brought a connection, or an error.
    pub(super) fn accepted<M: Machine + ?Sized>(
        &mut self,
        m: &mut M,
        index: u32,
        result: i32,
        stands: bool,
    ) -> Flow {
        let now = self.pace.now();
        if !stands {
            let short =
                matches!(-result, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM);
            self.stats.accept_pauses += u64::from(short);
            let until = if short { now + ACCEPT_PAUSE } else { now };
            self.idle_listeners.push((index, until));
        }
        if result < 0 {
            return Flow::Continue(());
        }
        self.take_in(m, index, result)
    }

    /// Take the associations that wait at a one-to-many socket.
    pub(super) fn knocked<M: Machine + ?Sized>(&mut self, m: &mut M, index: u32) -> Flow {
        let now = self.pace.now();
        for _ in 0..ASSOCIATIONS_IN_A_ROW {
            let listener = self.listeners[index as usize].as_raw_fd();
            match sctp::accept_from_many(listener, sock::Mode::Blocking) {
                Ok(fd) => self.take_in(m, index, fd.into_raw_fd())?,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.stats.accept_pauses += 1;
                    self.idle_listeners.push((index, now + ACCEPT_PAUSE));
                    return Flow::Continue(());
                }
            }
        }
        self.idle_listeners.push((index, now));
        Flow::Continue(())
    }

    /// A peer has connected.
    fn take_in<M: Machine + ?Sized>(&mut self, m: &mut M, index: u32, fd: RawFd) -> Flow {
        let (now, kind) = (self.pace.now(), self.listener_kinds[index as usize]);
        let Some(id) = m.on_accepted(index, now) else {
            sock::close(fd);
            return self.act(m);
        };
        let conn = Conn {
            fd,
            generation: id.generation,
            endpoint: ACCEPTED,
            state: State::Open,
            unix: kind == ListenerKind::Unix,
            messages: matches!(kind, ListenerKind::Associations | ListenerKind::OneToMany),
            ..FREE
        };
        self.put(conn, id);
        self.arm(id);
        self.act(m)
    }

    /// Let go of a connection: at once, or when what it still has to send is through.
    pub(super) fn close(&mut self, id: ConnId, how: CloseHow) {
        let Some(c) = live(&mut self.conns, id) else { return };
        let conn = std::mem::replace(c, FREE);
        if conn.fd < 0 {
            return; // its socket could not be made
        }
        if conn.state != State::Connecting && !conn.unix {
            self.sampler.closing(conn.fd, conn.sends > 1);
        }
        let healthy = conn.state == State::Open && conn.broken.is_none();
        let unsent = conn.slow || conn.sent_in == self.ring.batch();
        let served = conn.endpoint == ACCEPTED && !conn.ended;
        if how == CloseHow::Orderly && healthy && (unsent || served) {
            let until = self.pace.now() + FLUSH;
            let parting = Parting { conn, lingers: false, until };
            self.parting.insert(key(id), parting);
            self.flushing += 1;
        } else {
            self.release(conn, id, how);
        }
    }

    /// Stop what is under way on the connection, then close it.
    fn release(&mut self, conn: Conn, id: ConnId, how: CloseHow) {
        if how == CloseHow::Reset {
            sock::reset_on_close(conn.fd);
        }
        self.cancel(conn, id);
        self.ring.push(Request::close(conn.fd), NOBODY);
    }

    /// Stop what is under way on the connection.
    pub(super) fn cancel(&mut self, conn: Conn, id: ConnId) {
        let ops = [
            (conn.armed, Op::Receive),
            (conn.slow, Op::SlowSend),
            (conn.state == State::Connecting, Op::Connect),
        ];
        for (under_way, op) in ops {
            if under_way {
                self.ring.push(Request::cancel(pack(op, id)), NOBODY);
            }
        }
    }

    /// The connection of that name, whether the machine let go of it or not.
    pub(super) fn conn_or_parting(&mut self, id: ConnId) -> Option<&mut Conn> {
        match live(&mut self.conns, id) {
            Some(c) => Some(c),
            None => self.parting.get_mut(&key(id)).map(|p| &mut p.conn),
        }
    }

    /// Whether a closed connection waits to know that its last bytes were taken.
    pub(super) fn has_flushing(&self) -> bool {
        self.flushing > 0
    }

    /// Closed connections whose last bytes are taken: a client's is closed, a server's hears its
    /// peer out first. Were it closed with bytes of the peer unread (or still to come), the kernel
    /// would reset it and throw away what the peer has not yet received.
    pub(super) fn settle_partings(&mut self) {
        if self.flushing == 0 {
            return;
        }
        self.flushing = 0;
        let (batch, now) = (self.ring.batch(), self.pace.now());
        let mut over = Vec::new();
        for (&key, p) in &mut self.parting {
            if p.lingers || p.conn.slow {
                continue;
            }
            if p.conn.sent_in == batch {
                self.flushing += 1;
            } else if p.conn.endpoint == ACCEPTED && !p.conn.ended {
                sock::shutdown_write(p.conn.fd);
                p.lingers = true;
                p.until = now + LINGER;
            } else {
                over.push(key);
            }
        }
        for key in over {
            self.part(id_of(key));
        }
    }

    /// Something came for a closed connection.
    pub(super) fn parting_received(&mut self, id: ConnId, result: i32, stands: bool) {
        let Some(p) = self.parting.get_mut(&key(id)) else { return };
        p.conn.armed = stands;
        if stands && result > 0 {
            return;
        }
        // The end, an error, or a shortage of buffers, which is no reason to hear out any longer.
        p.conn.ended = true;
        if p.lingers {
            self.part(id);
        }
    }

    /// Close a connection that was let go of before.
    pub(super) fn part(&mut self, id: ConnId) {
        if let Some(p) = self.parting.remove(&key(id)) {
            self.release(p.conn, id, CloseHow::Orderly);
        }
    }

    /// Close what has been heard out, or tried to send, for long enough.
    pub(super) fn end_partings(&mut self) {
        let now = self.pace.now();
        let over: Vec<u64> =
            self.parting.iter().filter(|(_, p)| p.until <= now).map(|(&key, _)| key).collect();
        for key in over {
            self.part(id_of(key));
        }
    }
}

fn key(id: ConnId) -> u64 {
    pack(Op::None, id)
}

fn id_of(key: u64) -> ConnId {
    super::unpack(key).1
}
