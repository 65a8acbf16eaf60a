//! Sending: what is ready goes out in order, and then the connection goes on or ends.

use std::cmp::Reverse;

use super::conn::{Answer, Then};
use super::reply::After;
use super::{LINGER, Serve};
use crate::machine::CloseHow;
use crate::units::{ConnId, Nanos};

impl Serve {
    /// Send what is ready; whether all of it was taken.
    pub(super) fn send(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(c) = self.conn(id) else {
            return true;
        };
        (c.told, c.blocked) = (false, true);
        let slot = id.slot as usize;
        loop {
            if !self.send_out(slot, send) {
                return false;
            }
            if !self.go_on_after(id, now) {
                return true;
            }
            if !self.send_plain(slot, send) {
                return false;
            }
            if !self.write(id) {
                break;
            }
        }
        self.conns[slot].blocked = false;
        self.settle(id, now);
        true
    }

    /// All that was ready is sent: what now?
    pub(super) fn settle(&mut self, id: ConnId, now: Nanos) {
        let stopping = self.slots.is_stopping();
        let c = &mut self.conns[id.slot as usize];
        if !c.is_answered() {
            return;
        }
        if c.peer_done || (stopping && c.is_idle()) {
            self.end(id, CloseHow::Orderly);
            return;
        }
        c.since = now;
        self.arm(id);
    }

    /// All that was written is sent. Whether the connection goes on.
    fn go_on_after(&mut self, id: ConnId, now: Nanos) -> bool {
        let c = &mut self.conns[id.slot as usize];
        match c.then {
            Then::GoOn => return true,
            Then::Reset => {
                c.outstanding -= 1;
                self.served.outstanding -= 1;
                self.served.resets += 1;
                self.end(id, CloseHow::Reset);
            }
            Then::End(after) => {
                c.then = Then::GoOn;
                if (after == After::Close && !c.surplus) || c.peer_done {
                    self.end(id, CloseHow::Orderly);
                } else {
                    c.lingers = true;
                    c.since = now;
                    // Not left to an idle timer, which may come late.
                    c.armed = true;
                    self.timers.push(Reverse((now + LINGER, id)));
                }
            }
        }
        false
    }

    /// Send plain replies; whether there are none left.
    fn send_plain(&mut self, slot: usize, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let c = &mut self.conns[slot];
        while c.plain > 0 {
            let left = (c.plain as usize * self.plain_len) - c.plain_at as usize;
            let from = c.plain_at as usize;
            let to = (from + left).min(self.plain.len());
            let taken = send(&self.plain[from..to]);
            self.served.bytes_out += taken as u64;
            let sent = (from + taken) / self.plain_len;
            c.plain_at = ((from + taken) % self.plain_len) as u32;
            c.plain -= sent as u32;
            c.outstanding -= sent as u32;
            self.served.count_replies(self.law.statuses.only().unwrap_or(200), sent as u64);
            if taken < to - from {
                return false;
            }
        }
        true
    }

    /// Send what is written; whether all of it was taken. A reply with more to be written goes on.
    fn send_out(&mut self, slot: usize, send: &mut dyn FnMut(&[u8]) -> usize) -> bool {
        let c = &mut self.conns[slot];
        let Some(out) = &mut c.out else {
            return true;
        };
        loop {
            let taken = send(out.unsent());
            self.served.bytes_out += taken as u64;
            c.outstanding -= out.sent(taken, &mut self.served);
            if !out.unsent().is_empty() {
                return false;
            }
            if !out.write_on() {
                break;
            }
        }
        self.outs.extend(c.out.take());
        true
    }

    /// Write the replies that are ready, up to a bound. Whether there is something to send.
    fn write(&mut self, id: ConnId) -> bool {
        let c = &mut self.conns[id.slot as usize];
        if !c.next_is_ready() {
            return false;
        }
        let mut out = self.outs.pop().unwrap_or_default();
        while c.then == Then::GoOn && out.has_room() {
            match c.pop_ready() {
                None => break,
                Some(Answer::Plain) => {
                    let status = self.law.statuses.only().unwrap_or(200);
                    out.write_plain(&self.plain[..self.plain_len], status);
                }
                Some(Answer::Reply(reply)) => {
                    if reply.after != After::Open {
                        c.then = Then::End(reply.after);
                    }
                    out.write(reply);
                }
                Some(Answer::Continue) => out.write_continue(),
                Some(Answer::Reset) => c.then = Then::Reset,
            }
        }
        c.out = Some(out);
        true
    }
}
