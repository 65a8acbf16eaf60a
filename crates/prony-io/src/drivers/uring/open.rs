//! How connections begin and end: connects, accepts, and closes that wait for what is still to be
//! sent, and for the peer.

use std::os::fd::{AsRawFd as _, OwnedFd};

use prony_core::fault::Fault;
use prony_core::machine::{CloseHow, Machine};
use prony_core::units::{ConnId, Nanos, Span};

use super::ring::{Completed, Request, Ring};
use super::{ACCEPTED, Conn, ListenerKind, Op, Pending, State, Uring, pack};
use crate::drivers::dial::{Dial, Dialled};
use crate::drivers::event_loop::{Backend as _, Flow};
use crate::net::socket::{self, sctp};

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

impl Dial for Uring {
    fn dialled(&mut self, id: ConnId) -> Option<Dialled<'_>> {
        let c = self.conns.get_mut(id)?;
        Some(Dialled { fd: &mut c.fd, endpoint: c.endpoint, tried: &mut c.tried })
    }

    fn try_address(&mut self, id: ConnId, endpoint: u32, tried: u16) -> Result<(), i32> {
        let fd = self.socket(endpoint, tried)?;
        self.begin_connect(id, fd);
        Ok(())
    }

    fn refused(&mut self, id: ConnId, fault: Fault) {
        self.pending.push((id, Pending::Refused(fault)));
    }
}

impl Uring {
    /// A socket; where no descriptor is free, after the closes that are queued.
    fn socket(&mut self, endpoint: u32, tried: u16) -> Result<OwnedFd, i32> {
        match self.common.network.socket(endpoint, tried, socket::Mode::Blocking) {
            Err(libc::EMFILE | libc::ENFILE) => {
                self.ring.submit();
                self.common.network.socket(endpoint, tried, socket::Mode::Blocking)
            }
            other => other,
        }
    }

    fn begin_connect(&mut self, id: ConnId, fd: OwnedFd) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let fd = c.fd.insert(fd);
        let Some(remote) = self.common.network.remote(c.endpoint, c.tried) else { return };
        c.unix = remote.is_unix();
        if remote.sctp().is_some() {
            c.messages = true;
            // The ring knows no connect to several addresses.
            let result = remote.connect_sctp(fd, socket::Mode::Blocking).map_or_else(|e| -e, |_| 0);
            self.pending.push((id, Pending::Decided(result)));
            return;
        }
        self.ring.connect(fd.as_raw_fd(), remote.bytes(), pack(Op::Connect, id));
    }

    /// A connect is decided.
    pub(super) fn connect_ended(&mut self, m: &mut dyn Machine, id: ConnId, result: i32) -> Flow {
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
        self.common.network.answered(endpoint, tried);
        if let Some(fd) = association {
            self.common.sampler.opened(fd);
        }
        self.arm(id);
        m.on_connected(id, self.common.pace.now());
        self.act(m, None)
    }

    /// Let the kernel receive for the connection from now on.
    pub(super) fn arm(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.armed || c.ended || c.state != State::Open {
            return;
        }
        let Some(fd) = &c.fd else { return };
        c.armed = true;
        self.ring.push(Request::receive(fd.as_raw_fd()), pack(Op::Receive, id));
    }

    /// Let the kernel accept at the listeners that have rested.
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
                self.ring.push(Request::until_readable(fd), pack(Op::Knock, id));
                continue;
            }
            self.ring.push(Request::accept(fd), pack(Op::Accept, id));
        }
    }

    /// A listener has brought a connection, or an error.
    pub(super) fn accepted(
        &mut self,
        m: &mut dyn Machine,
        index: u32,
        completed: Completed,
    ) -> Flow {
        let (now, stands, result) = (self.common.pace.now(), completed.more, completed.result);
        if !stands {
            let short =
                matches!(-result, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM);
            self.common.stats.accept_pauses += u64::from(short);
            let until = if short { now + ACCEPT_PAUSE } else { now };
            self.idle_listeners.push((index, until));
        }
        // SAFETY: only accepts are named `Op::Accept`, by which it came here.
        match unsafe { completed.accepted() } {
            Some(fd) => self.take_in(m, index, fd),
            None => Flow::Continue(()),
        }
    }

    /// Take the associations that wait at a one-to-many socket.
    pub(super) fn knocked(&mut self, m: &mut dyn Machine, index: u32) -> Flow {
        let now = self.common.pace.now();
        for _ in 0..ASSOCIATIONS_IN_A_ROW {
            let listener = self.listeners[index as usize].as_raw_fd();
            match sctp::accept_from_many(listener, socket::Mode::Blocking) {
                Ok(fd) => self.take_in(m, index, fd)?,
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

    /// A peer has connected.
    fn take_in(&mut self, m: &mut dyn Machine, index: u32, fd: OwnedFd) -> Flow {
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

    /// Let go of a connection: at once, or when what it still has to send is through.
    pub(super) fn let_go_of(&mut self, id: ConnId, how: CloseHow) {
        let Some(conn) = self.conns.remove(id) else { return };
        let Some(fd) = &conn.fd else { return };
        if conn.state != State::Connecting && !conn.unix {
            self.common.sampler.closing(fd.as_raw_fd(), conn.sends > 1);
        }
        let healthy = conn.state == State::Open && conn.broken.is_none();
        let unsent = conn.slow || conn.sent_in == self.ring.batch();
        let served = conn.endpoint == ACCEPTED && !conn.ended;
        if how == CloseHow::Orderly && healthy && (unsent || served) {
            let until = self.common.pace.now() + FLUSH;
            let parting = Parting { conn, lingers: false, until };
            self.parting.insert(key(id), parting);
            self.flushing += 1;
        } else {
            self.release(conn, id, how);
        }
    }

    /// Stop what is under way on the connection, then close it.
    fn release(&mut self, conn: Conn, id: ConnId, how: CloseHow) {
        cancel(&mut self.ring, &conn, id);
        let Some(fd) = conn.fd else { return };
        if how == CloseHow::Reset {
            socket::reset_on_close(&fd);
        }
        self.ring.push(Request::close(fd), NOBODY);
    }

    /// The connection of that name, whether the machine let go of it or not.
    pub(super) fn conn_or_parting(&mut self, id: ConnId) -> Option<&mut Conn> {
        match self.conns.get_mut(id) {
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
        let (batch, now) = (self.ring.batch(), self.common.pace.now());
        let mut over = Vec::new();
        for (&key, p) in &mut self.parting {
            if p.lingers || p.conn.slow {
                continue;
            }
            if p.conn.sent_in == batch {
                self.flushing += 1;
            } else if p.conn.endpoint == ACCEPTED && !p.conn.ended {
                if let Some(fd) = &p.conn.fd {
                    socket::shutdown_write(fd);
                }
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
        let now = self.common.pace.now();
        let over: Vec<u64> =
            self.parting.iter().filter(|(_, p)| p.until <= now).map(|(&key, _)| key).collect();
        for key in over {
            self.part(id_of(key));
        }
    }
}

/// Stop what is under way on the connection; whether the kernel is asked for all of that. Where it
/// is not, all that is in flight keeps its memory until it completes, or for ever.
pub(super) fn cancel(ring: &mut Ring, conn: &Conn, id: ConnId) -> bool {
    let ops = [
        (conn.armed, Op::Receive),
        (conn.slow, Op::SlowSend),
        (conn.state == State::Connecting, Op::Connect),
    ];
    let mut under_way = ops.into_iter().filter(|&(is, _)| is);
    under_way.all(|(_, op)| ring.offer(Request::cancel(pack(op, id)), NOBODY))
}

fn key(id: ConnId) -> u64 {
    pack(Op::None, id)
}

fn id_of(key: u64) -> ConnId {
    super::unpack(key).1
}
