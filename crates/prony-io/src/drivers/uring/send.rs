//! Sending: immediate sends from an arena, and slow sends from their own memory.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use prony_base::machine::Machine;
use prony_base::units::ConnId;

use super::ring::{Completed, Socket};
use super::{Op, Pending, State, Uring, pack};
use crate::drivers::event_loop::{Backend as _, Flow};
use crate::net::errno;

/// How many buffers of slow sends are kept for reuse.
const SPARE: usize = 64;
/// The number of sends after which a connection's file is registered: connections that end sooner
/// are spared the system call.
const REGISTER_AFTER: u8 = 16;

impl Uring {
    /// Queue the connection's output.
    #[inline]
    pub(super) fn queue_send(&mut self, m: &mut dyn Machine, id: ConnId) {
        let (batch, now) = (self.ring.batch(), self.common.pace.now());
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.state != State::Open || c.slow || c.send_fault.is_some() {
            return; // the completion of the slow send continues
        }
        if c.messages {
            return self.send_message(m, id);
        }
        if c.sent_in == batch {
            // Whether the previous send was complete is known only after its submission.
            self.pending.push((id, Pending::WriteOn));
            return;
        }
        let arena = self.ring.arena();
        let mut piece = arena.start();
        let all = m.take_output(id, now, &mut |data| arena.append(&mut piece, data));
        if piece.len == 0 {
            if !all {
                self.pending.push((id, Pending::WriteOn));
            }
            return;
        }
        let is_busy = c.sends == REGISTER_AFTER - 1;
        c.sends = (c.sends + 1).min(REGISTER_AFTER);
        if all {
            (c.sent_in, c.sent) = (batch, piece);
            if is_busy && let Some(fd) = &c.fd {
                c.registered = self.ring.register_file(id.slot, fd.as_fd());
            }
            let socket = match c.registered {
                true => Socket::Registered(id.slot),
                false => Socket::Descriptor(number(c.fd.as_ref())),
            };
            self.ring.send_at_once(socket, piece, pack(Op::Send, id));
        } else {
            // The machine has more output: ask for it when this send has finished.
            let mut bytes = self.spare_slow.pop().unwrap_or_default();
            bytes.extend_from_slice(arena.bytes(piece));
            arena.undo(piece);
            c.slow = true;
            self.send_slowly(id, bytes);
        }
    }

    /// Send one message from its own memory. The next one follows when this is sent, so that
    /// messages are neither split nor merged.
    #[cold]
    fn send_message(&mut self, m: &mut dyn Machine, id: ConnId) {
        let mut bytes = self.spare_slow.pop().unwrap_or_default();
        let all = m.take_output(id, self.common.pace.now(), &mut |piece| {
            let is_first = bytes.is_empty();
            if is_first {
                bytes.extend_from_slice(piece);
            }
            if is_first { piece.len() } else { 0 }
        });
        let Some(c) = self.conns.get_mut(id) else { return };
        if !bytes.is_empty() {
            (c.slow, c.sends) = (true, (c.sends + 1).min(REGISTER_AFTER));
            self.send_slowly(id, bytes);
        } else if !all {
            self.pending.push((id, Pending::WriteOn));
        }
    }

    fn send_slowly(&mut self, id: ConnId, bytes: Vec<u8>) {
        let fd = self.conn_or_closing(id).map_or(-1, |c| number(c.fd.as_ref()));
        self.ring.send_slowly(fd, bytes, 0, pack(Op::SlowSend, id));
    }

    /// An immediate send was not accepted completely.
    pub(super) fn short_send(&mut self, id: ConnId, result: i32) -> Flow {
        let Some(c) = self.conn_or_closing(id) else { return Flow::Continue(()) };
        let (piece, batch) = (c.sent, c.sent_in);
        let accepted = match result {
            0.. => result as usize,
            e if e == -libc::EAGAIN || e == -libc::EINTR => 0,
            e => {
                self.send_failed(id, -e);
                return Flow::Continue(());
            }
        };
        if c.slow {
            // Two sends of the connection were cut short, though the rest of the first goes before
            // anything else: bytes between them would be missing.
            debug_assert!(false, "a send on {id:?} before the rest of another");
            return self.lost_order(id);
        }
        c.slow = true;
        let mut bytes = self.spare_slow.pop().unwrap_or_default();
        bytes.extend_from_slice(&self.ring.bytes(batch, piece)[accepted..]);
        self.send_slowly(id, bytes);
        Flow::Continue(())
    }

    /// A slow send has finished: continue with the machine's output.
    pub(super) fn slow_send_done(
        &mut self,
        m: &mut dyn Machine,
        id: ConnId,
        completed: Completed,
    ) -> Flow {
        let (user_data, result) = (completed.id(), completed.result);
        let Some((bytes, mut sent)) = self.ring.take_back(completed) else {
            return Flow::Continue(());
        };
        let Some(fd) = self.conn_or_closing(id).map(|c| number(c.fd.as_ref())) else {
            self.recycle(bytes);
            return Flow::Continue(());
        };
        let accepted = if result == -libc::EINTR || result == -libc::EAGAIN { 0 } else { result };
        if let Ok(accepted) = usize::try_from(accepted) {
            sent += accepted;
            if sent < bytes.len() {
                self.ring.send_slowly(fd, bytes, sent, user_data);
                return Flow::Continue(());
            }
        }
        self.recycle(bytes);
        if let Some(c) = self.conn_or_closing(id) {
            c.slow = false;
        }
        if result < 0 {
            self.send_failed(id, -result);
            return Flow::Continue(());
        }
        if self.conns.contains(id) {
            self.queue_send(m, id);
            return self.act(m, None);
        }
        self.flushing += 1;
        Flow::Continue(())
    }

    /// A send has failed. The active receive will end, too; report the fault to the machine after
    /// all data that was received before.
    fn send_failed(&mut self, id: ConnId, e: i32) {
        let fault = errno::stream_fault(e);
        if let Some(c) = self.conns.get_mut(id) {
            c.send_fault = Some(fault);
            if c.read_closed {
                self.pending.push((id, Pending::Refused(fault)));
            }
        } else {
            self.finish_close(id);
        }
    }

    /// The peer cannot make sense of what it gets: the connection has failed, whether or not its
    /// receive is active.
    #[cold]
    fn lost_order(&mut self, id: ConnId) -> Flow {
        let fault = errno::stream_fault(libc::ECONNRESET);
        match self.conns.get_mut(id) {
            Some(c) => {
                c.send_fault = Some(fault);
                self.pending.push((id, Pending::Refused(fault)));
            }
            None => self.finish_close(id),
        }
        Flow::Continue(())
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare_slow.len() < SPARE {
            bytes.clear();
            self.spare_slow.push(bytes);
        }
    }
}

/// The descriptor number of a socket, or -1.
fn number(fd: Option<&OwnedFd>) -> RawFd {
    fd.map_or(-1, |fd| fd.as_raw_fd())
}
