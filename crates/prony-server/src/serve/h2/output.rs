//! What the server sends: replies in turn, and the frames that it owes.

use std::cmp::Reverse;

use prony_base::http2::frame::{self, Code, Settings, flag, kind};
use prony_base::http2::hpack::encode_static;
use prony_base::units::{ConnId, Nanos};

use super::super::Serve;
use super::super::answer::Answer;
use super::super::cast::CASTS;
use super::super::out::{Counted, Out, Then};
use super::super::reply::{After, Content, PIECE, Reply};
use super::super::station::Ticket;
use super::super::work::OUTPUT;
use super::calls::CallBlocks;
use super::streams::{Body, Progress, TINY, allowed};
use super::{ACKNOWLEDGED_AFTER, Alarm, GOAWAY_PING, Session};
use crate::serve::request::HEAD_LIMIT;

/// How much is written at once.
const LIMIT: usize = 4 * PIECE;

/// How many bytes are compressed at once.
const WORK: usize = 4 << 20;

/// The header block of the latest reply: an equal head needs no encoding.
#[derive(Debug, Default)]
pub(in super::super) struct HeadCache {
    of: Option<(u16, bool, Option<u64>)>,
    block: Vec<u8>,
}

impl HeadCache {
    /// The block of a reply's head. `length`: of its body, if it is announced.
    fn block(&mut self, status: u16, is_echo: bool, length: Option<u64>) -> &[u8] {
        if self.of != Some((status, is_echo, length)) {
            self.of = Some((status, is_echo, length));
            let out = &mut self.block;
            out.clear();
            encode_static(out, b":status", status.to_string().as_bytes());
            encode_static(out, b"server", b"prony");
            if !never_has_body(status) {
                let kind = if is_echo { "application/octet-stream" } else { "text/plain" };
                encode_static(out, b"content-type", kind.as_bytes());
                if let Some(length) = length {
                    encode_static(out, b"content-length", length.to_string().as_bytes());
                }
            }
        }
        &self.block
    }
}

fn never_has_body(status: u16) -> bool {
    matches!(status, 204 | 304)
}

impl Serve {
    /// Send what is ready. Return whether the socket accepted all of it.
    pub(in super::super) fn send_h2(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let slot = id.slot as usize;
        let mut left = OUTPUT;
        loop {
            let before = left;
            let all = self.send_out(slot, &mut left, send);
            if let Some(session) = &mut self.conns[slot].h2 {
                session.moved += before - left;
            }
            if !all {
                return false;
            }
            if !self.after_output(id, now) {
                return true;
            }
            if !self.fill(id, &mut left, now) {
                break;
            }
        }
        self.conns[slot].blocked = false;
        self.settle(id, now);
        true
    }

    /// Encode what is ready, up to a limit. Return whether there is something to send or to do.
    fn fill(&mut self, id: ConnId, left: &mut usize, now: Nanos) -> bool {
        let c = &mut self.conns[id.slot as usize];
        let Some(session) = &mut c.h2 else { return false };
        if !session.wants_send() {
            return false;
        }
        let mut out = self.outs.pop().unwrap_or_default();
        self.served.goaways += session.owed.goaways.len() as u64;
        if session.owed.settings {
            self.alarms.push(Reverse((now + ACKNOWLEDGED_AFTER, id, Alarm::Acknowledge)));
        }
        let opens_tunnels = self.behavior.ws.is_some();
        session.write_owed(out.bytes(), self.behavior.max_streams, opens_tunnels);
        session.holds_casts = self.cast_bytes > CASTS;
        let blocks = (&mut self.h2_head, &self.call_blocks);
        c.then = session.write_replies(&mut out, blocks, now);
        self.served.messages_sent += std::mem::take(&mut session.messages_sent);
        self.served.events += std::mem::take(&mut session.events_sent);
        let casts = std::mem::take(&mut session.casts);
        if session.waits_to_cast() && !std::mem::replace(&mut c.waits_to_cast, true) {
            self.cast_waiters.push(id);
        }
        if session.dribbles && !session.has_failed {
            self.served.violations += 1;
            session.fail(Code::ENHANCE_YOUR_CALM, "too many tiny windows");
            c.reads = false;
        }
        if c.then == Then::Continue && session.owed.is_empty() && session.is_over() {
            session.has_ended = true;
            c.reads = false;
            let is_quick = session.is_silent || self.slots.is_stopping() && !session.has_failed;
            c.then = Then::End(if is_quick { After::Close } else { After::Linger });
        }
        let unparked = std::mem::take(&mut session.unparked);
        *left = left.saturating_sub(std::mem::take(&mut session.worked));
        if out.unsent().is_empty() {
            self.outs.push(out);
        } else {
            c.out = Some(out);
        }
        casts.into_iter().for_each(|cast| self.cast(cast));
        for (stream, next, at) in unparked {
            let ticket = Ticket { id, entry: u64::from(stream) };
            self.follow_event(Some(next), ticket, at, now);
        }
        self.resume_calls(id, now);
        true
    }
}

impl Session {
    /// Write the frames that are owed.
    fn write_owed(&mut self, out: &mut Vec<u8>, max_streams: u32, opens_tunnels: bool) {
        if self.owed.is_empty() {
            return;
        }
        let owed = &mut self.owed;
        if std::mem::take(&mut owed.settings) {
            let list_size = HEAD_LIMIT as u32;
            let pairs = [
                (Settings::STREAMS, max_streams),
                (Settings::WINDOW, self.window),
                (Settings::LIST_SIZE, list_size),
                (Settings::CONNECT, 1),
            ];
            let known = if opens_tunnels { pairs.len() } else { pairs.len() - 1 };
            frame::settings(out, &pairs[..known]);
        }
        for _ in 0..std::mem::take(&mut owed.acknowledgements) {
            frame::settings_ack(out);
        }
        for data in owed.pings.drain(..) {
            frame::ping(out, data, true);
        }
        if std::mem::take(&mut owed.window) {
            frame::window_update(out, 0, self.recv_used);
            self.recv_window += i64::from(std::mem::take(&mut self.recv_used));
        }
        for id in owed.windows.drain(..) {
            if let Some(stream) = self.streams.get_mut(id)
                && stream.receives()
            {
                frame::window_update(out, id, stream.recv_used);
                stream.recv_window += i64::from(std::mem::take(&mut stream.recv_used));
            }
        }
        for (id, code) in owed.resets.drain(..) {
            frame::rst_stream(out, id, code);
        }
        for (last, code, why) in owed.goaways.drain(..) {
            frame::goaway(out, last, code, why.as_bytes());
        }
        if std::mem::take(&mut owed.goaway_ping) {
            frame::ping(out, GOAWAY_PING, false);
            self.awaits_ping = true;
        }
    }

    /// Write replies in turn. Return what happens to the connection when they are sent.
    fn write_replies(
        &mut self,
        out: &mut Out,
        (heads, blocks): (&mut HeadCache, &CallBlocks),
        now: Nanos,
    ) -> Then {
        while out.bytes().len() < LIMIT
            && self.worked < WORK
            && let Some(id) = self.ready.pop_front()
        {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if std::mem::take(&mut stream.owes_continue) {
                let mut block = Vec::new();
                encode_static(&mut block, b":status", b"100");
                frame::head(out.bytes(), block.len(), kind::HEADERS, flag::END_HEADERS, id);
                out.bytes().extend_from_slice(&block);
                out.count(Counted::Continue);
            }
            stream.is_queued = false;
            match std::mem::replace(&mut stream.reply, Progress::None) {
                Progress::Ready(Answer::Reset) => return Then::Reset,
                Progress::Ready(Answer::Reply(reply)) => match start(reply, id, out, heads) {
                    Started::Body(body) => self.write_body(id, body, out, now),
                    Started::Done => self.finish(id, out.bytes()),
                    Started::Cut => self.cut(id, Counted::Truncated, out),
                },
                Progress::Ready(_) => self.cut(id, Counted::StreamReset, out),
                Progress::Body(body) => self.write_body(id, body, out, now),
                Progress::Events(events) => self.write_events(id, events, out, now),
                Progress::Call(call) => self.write_call(id, call, out, blocks, now),
                Progress::Socket(socket) => self.write_socket(id, socket, out, now),
                other => stream.reply = other,
            }
        }
        Then::Continue
    }

    /// Write the next piece of a body, as far as the windows allow.
    fn write_body(&mut self, id: u32, mut body: Body, out: &mut Out, now: Nanos) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let left = body.end - body.at;
        let n = allowed(stream, &mut self.send_window, &mut self.starved, left);
        if n == 0 && left > 0 {
            stream.reply = Progress::Body(body);
            return;
        }
        let is_last = n == left;
        let flags = if is_last && !body.cut { flag::END_STREAM } else { 0 };
        if n > 0 || flags != 0 {
            frame::head(out.bytes(), n as usize, kind::DATA, flags, id);
            body.content.append(body.at, n as usize, out.bytes());
        }
        body.at += n;
        if !is_last {
            stream.reply = Progress::Body(body);
            stream.is_queued = true;
            self.ready.push_back(id);
            if n < TINY && !self.calm.take(now) {
                self.dribbles = true;
            }
            return;
        }
        if body.cut {
            return self.cut(id, Counted::Truncated, out);
        }
        out.count(Counted::Reply(body.status));
        self.finish(id, out.bytes());
    }

    /// Reset a stream instead of a reply, or of its rest.
    pub(super) fn cut(&mut self, id: u32, counted: Counted, out: &mut Out) {
        self.streams.remove(id);
        self.recent.reset(id);
        frame::rst_stream(out.bytes(), id, Code::INTERNAL_ERROR);
        out.count(counted);
    }

    /// A reply is written: close its stream.
    pub(super) fn finish(&mut self, id: u32, out: &mut Vec<u8>) {
        self.calm.reply();
        let Some(stream) = self.streams.remove(id) else { return };
        if stream.incoming.is_some() {
            self.interrupt(id, out);
        }
    }

    /// The rest of a request is of no interest.
    pub(super) fn interrupt(&mut self, id: u32, out: &mut Vec<u8>) {
        frame::rst_stream(out, id, Code::NO_ERROR);
        self.recent.reset(id);
    }
}

/// What follows after the head of a reply.
enum Started {
    Body(Body),
    Done,
    /// It is truncated, and has no body.
    Cut,
}

/// Write the head of a reply.
fn start(reply: Reply, id: u32, out: &mut Out, heads: &mut HeadCache) -> Started {
    let length = reply.content.len();
    let has_body = !(never_has_body(reply.status) || reply.is_head || length == 0);
    if reply.cut && !has_body {
        return Started::Cut;
    }
    let is_echo = matches!(reply.content, Content::Echo(_));
    let block = heads.block(reply.status, is_echo, (!reply.chunked).then_some(length));
    let flags = flag::END_HEADERS | if has_body { 0 } else { flag::END_STREAM };
    let mut location = Vec::new();
    if let Content::Redirect(left) = reply.content {
        encode_static(&mut location, b"location", format!("/redirect/{left}").as_bytes());
    }
    frame::head(out.bytes(), block.len() + location.len(), kind::HEADERS, flags, id);
    out.bytes().extend_from_slice(block);
    out.bytes().extend_from_slice(&location);
    if !has_body {
        out.count(Counted::Reply(reply.status));
        return Started::Done;
    }
    Started::Body(Body {
        end: if reply.cut { length / 2 } else { length },
        content: reply.content,
        at: 0,
        status: reply.status,
        cut: reply.cut,
    })
}
