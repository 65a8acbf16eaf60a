//! Sending of ready replies, in order.

use std::cmp::Reverse;

use prony_base::machine::CloseHow;
use prony_base::units::{ConnId, Nanos};

use super::answer::Answer;
use super::cast::CASTS;
use super::out::Then;
use super::reply::After;
use super::station::Ticket;
use super::work::OUTPUT;
use super::{LINGER, Serve};

impl Serve {
    /// Send the ready replies. Return whether the socket accepted all of them.
    pub(super) fn send(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let Some(c) = self.conn(id) else {
            return true;
        };
        (c.transmit_requested, c.blocked) = (false, true);
        if c.h2.is_some() {
            return self.send_h2(id, now, send);
        }
        let slot = id.slot as usize;
        let mut left = OUTPUT;
        loop {
            if !self.send_out(slot, &mut left, send) {
                return false;
            }
            if !self.after_output(id, now) {
                return true;
            }
            if !self.send_plain(slot, &mut left, send) {
                return false;
            }
            if !self.write(id, now) {
                break;
            }
        }
        self.conns[slot].blocked = false;
        self.settle(id, now);
        true
    }

    /// After all ready replies are sent: close the connection, or start its idle timer.
    pub(super) fn settle(&mut self, id: ConnId, now: Nanos) {
        let stopping = self.slots.is_stopping();
        let c = &mut self.conns[id.slot as usize];
        if !c.is_answered() && !c.is_stuck() {
            return;
        }
        if c.peer_done || (stopping && c.is_idle()) {
            self.close(id, CloseHow::Orderly);
            return;
        }
        c.since = now;
        self.arm(id);
    }

    /// After the output is sent: close or reset the connection if requested. Return whether it
    /// stays open.
    pub(super) fn after_output(&mut self, id: ConnId, now: Nanos) -> bool {
        let c = &mut self.conns[id.slot as usize];
        match c.then {
            Then::Continue => return true,
            Then::Reset => {
                c.outstanding -= 1;
                self.served.outstanding -= 1;
                self.served.resets += 1;
                self.close(id, CloseHow::Reset);
            }
            Then::Close => self.close(id, CloseHow::Orderly),
            Then::End(after) => {
                c.then = Then::Continue;
                if (after == After::Close && !c.surplus) || c.peer_done {
                    self.close(id, CloseHow::Orderly);
                } else {
                    c.lingers = true;
                    c.since = now;
                    // An idle timer may be armed already, but may expire too late.
                    c.armed = true;
                    self.timers.push(Reverse((now + LINGER, id)));
                }
            }
        }
        false
    }

    /// Send constant replies. Return whether all of them were accepted, and `left` more bytes may
    /// be sent.
    fn send_plain(
        &mut self,
        slot: usize,
        left_bytes: &mut usize,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let c = &mut self.conns[slot];
        while c.plain > 0 {
            if *left_bytes == 0 {
                return false;
            }
            let left = (c.plain as usize * self.plain_len) - c.plain_at as usize;
            let from = c.plain_at as usize;
            let to = (from + left).min(self.plain.len());
            let taken = send(&self.plain[from..to]);
            *left_bytes = left_bytes.saturating_sub(taken);
            self.served.bytes_out += taken as u64;
            let sent = (from + taken) / self.plain_len;
            c.plain_at = ((from + taken) % self.plain_len) as u32;
            c.plain -= sent as u32;
            c.outstanding -= sent as u32;
            self.served.count_replies(self.behavior.statuses.only().unwrap_or(200), sent as u64);
            if taken < to - from {
                return false;
            }
        }
        true
    }

    /// Send the output and all further pieces of a long reply. Return whether all was accepted, and
    /// `left` more bytes may be sent.
    pub(super) fn send_out(
        &mut self,
        slot: usize,
        left: &mut usize,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let c = &mut self.conns[slot];
        let Some(out) = &mut c.out else {
            return true;
        };
        loop {
            let taken = send(out.unsent());
            self.served.bytes_out += taken as u64;
            c.outstanding -= out.sent(taken, &mut self.served);
            *left = left.saturating_sub(taken);
            if !out.unsent().is_empty() {
                return false;
            }
            if !out.write_rest() {
                break;
            }
            if *left == 0 {
                return false;
            }
        }
        let is_at_end = c.then != Then::Continue;
        let all = is_at_end || *left > 0 || !c.has_ready();
        let out = c.out.take();
        self.keep_out(out);
        all
    }

    /// Encode ready replies, up to a limit. Return whether there is output to send.
    fn write(&mut self, id: ConnId, now: Nanos) -> bool {
        let c = &mut self.conns[id.slot as usize];
        if !c.next_is_ready() {
            return false;
        }
        let mut out = self.outs.pop().unwrap_or_default();
        let mut unparked = None;
        while c.then == Then::Continue && out.has_room() {
            if c.next_is_cast() && self.cast_bytes > CASTS {
                if !std::mem::replace(&mut c.waits_to_cast, true) {
                    self.cast_waiters.push(id);
                }
                break;
            }
            match c.pop_ready() {
                None => break,
                Some(Answer::Plain) => {
                    let status = self.behavior.statuses.only().unwrap_or(200);
                    out.write_plain(&self.plain[..self.plain_len], status);
                }
                Some(Answer::Reply(reply)) => {
                    if reply.after != After::Open {
                        c.then = Then::End(reply.after);
                    }
                    out.write(reply);
                }
                Some(Answer::Events(mut events)) => {
                    let over = events.write(&mut out, &mut self.served);
                    if !over {
                        let next = events.unpark();
                        let entry = c.put_back(events);
                        unparked = next.map(|next| (entry, next));
                        break;
                    }
                    if events.after != After::Open {
                        c.then = Then::End(events.after);
                    }
                }
                Some(Answer::Continue) => out.write_continue(),
                Some(Answer::Bytes(bytes, counted)) => {
                    out.bytes().extend_from_slice(&bytes);
                    out.count(counted);
                }
                Some(Answer::Cast(cast)) => {
                    self.cast_bytes += cast.cost();
                    self.casts.push_back(*cast);
                }
                Some(Answer::Close | Answer::Leave) => c.then = Then::Close,
                Some(Answer::Reset | Answer::StreamReset) => c.then = Then::Reset,
            }
        }
        let is_over = c.then != Then::Continue;
        // Without output, there are messages for others only.
        let is_output = !out.is_empty();
        if is_output {
            c.out = Some(out);
        } else {
            self.outs.push(out);
        }
        if let Some((entry, (next, at))) = unparked {
            self.follow_event(Some(next), Ticket { id, entry }, at, now);
        }
        is_output || is_over
    }
}
