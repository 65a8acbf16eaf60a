//! Sending: at once out of an arena, or slowly out of memory of its own.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use prony_core::machine::Machine;
use prony_core::units::ConnId;

use super::ring::Completed;
use super::{Op, Pending, State, Uring, pack};
use crate::drivers::event_loop::{Backend as _, Flow};
use crate::net::errno;

/// Memory of slow sends that is kept for the next ones.
const SPARE: usize = 64;

impl Uring {
    /// Queue what the connection has to send.
    #[inline]
    pub(super) fn queue_send(&mut self, m: &mut dyn Machine, id: ConnId) {
        let (batch, now) = (self.ring.batch(), self.common.pace.now());
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.state != State::Open || c.slow || c.broken.is_some() {
            return; // the end of the slow send asks again
        }
        if c.messages {
            return self.send_message(m, id);
        }
        if c.sent_in == batch {
            // Whether the send before was taken whole is not known before its submission.
            self.pending.push((id, Pending::WriteOn));
            return;
        }
        let arena = self.ring.arena();
        let mut piece = arena.begin();
        let all = m.take_output(id, now, &mut |data| arena.append(&mut piece, data));
        if piece.len == 0 {
            if !all {
                self.pending.push((id, Pending::WriteOn));
            }
            return;
        }
        c.sends = (c.sends + 1).min(2);
        if all {
            (c.sent_in, c.sent) = (batch, piece);
            self.ring.send_at_once(number(c.fd.as_ref()), piece, pack(Op::Send, id));
        } else {
            // The machine has more: it is asked again when this is through.
            let mut bytes = self.spare_slow.pop().unwrap_or_default();
            bytes.extend_from_slice(arena.bytes(piece));
            arena.undo(piece);
            c.slow = true;
            self.send_slowly(id, bytes);
        }
    }

    /// Send one message out of memory of its own. The next is asked for when it is through, so that
    /// none is cut, and no two become one.
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
            (c.slow, c.sends) = (true, (c.sends + 1).min(2));
            self.send_slowly(id, bytes);
        } else if !all {
            self.pending.push((id, Pending::WriteOn));
        }
    }

    fn send_slowly(&mut self, id: ConnId, bytes: Vec<u8>) {
        let fd = self.conn_or_parting(id).map_or(-1, |c| number(c.fd.as_ref()));
        self.ring.send_slowly(fd, bytes, 0, pack(Op::SlowSend, id));
    }

    /// A send that was decided at its submission was not taken whole.
    pub(super) fn send_fell_short(&mut self, id: ConnId, result: i32) -> Flow {
        let Some(c) = self.conn_or_parting(id) else { return Flow::Continue(()) };
        let (piece, batch) = (c.sent, c.sent_in);
        let taken = match result {
            0.. => result as usize,
            e if e == -libc::EAGAIN || e == -libc::EINTR => 0,
            e => {
                self.send_failed(id, -e);
                return Flow::Continue(());
            }
        };
        c.slow = true;
        let mut bytes = self.spare_slow.pop().unwrap_or_default();
        bytes.extend_from_slice(&self.ring.bytes(batch, piece)[taken..]);
        self.send_slowly(id, bytes);
        Flow::Continue(())
    }

    /// A slow send has come to an end: go on with what the machine has.
    pub(super) fn slow_send_ended(
        &mut self,
        m: &mut dyn Machine,
        id: ConnId,
        completed: Completed,
    ) -> Flow {
        let (what, result) = (completed.what(), completed.result);
        let Some((bytes, mut sent)) = self.ring.take_back(completed) else {
            return Flow::Continue(());
        };
        let Some(fd) = self.conn_or_parting(id).map(|c| number(c.fd.as_ref())) else {
            self.keep(bytes);
            return Flow::Continue(());
        };
        let taken = if result == -libc::EINTR || result == -libc::EAGAIN { 0 } else { result };
        if let Ok(taken) = usize::try_from(taken) {
            sent += taken;
            if sent < bytes.len() {
                self.ring.send_slowly(fd, bytes, sent, what);
                return Flow::Continue(());
            }
        }
        self.keep(bytes);
        if let Some(c) = self.conn_or_parting(id) {
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

    /// The connection takes nothing more. The receive that stands will end too; the machine is told
    /// after all that it still brings.
    fn send_failed(&mut self, id: ConnId, e: i32) {
        let fault = errno::stream_fault(e);
        if let Some(c) = self.conns.get_mut(id) {
            c.broken = Some(fault);
            if c.ended {
                self.pending.push((id, Pending::Refused(fault)));
            }
        } else {
            self.part(id);
        }
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare_slow.len() < SPARE {
            bytes.clear();
            self.spare_slow.push(bytes);
        }
    }
}

/// The number of a socket, or what the kernel takes for none.
fn number(fd: Option<&OwnedFd>) -> RawFd {
    fd.map_or(-1, |fd| fd.as_raw_fd())
}
