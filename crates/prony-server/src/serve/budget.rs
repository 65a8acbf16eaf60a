//! How much memory the server uses for its clients.
//!
//! A connection on which too many answers wait is not read (its client is slowed down by TCP, or by
//! the windows of HTTP/2). If all connections together use too much, those that use most are
//! closed.

use prony_base::machine::{Action, CloseHow};
use prony_base::units::{ConnId, Nanos};
use prony_base::websocket::CloseCode;

use super::answer::Answer;
use super::conn::Conn;
use super::out::{Counted, Out};
use super::reply::{After, Connection, Content, Reply};
use super::socket::close_frame;
use super::{LINGER, Serve};
use std::cmp::Reverse;

/// How many bytes of answers may wait on a connection before the server stops to read from it. What
/// was read in one piece is handled whole, so it may be exceeded by one request.
pub const CONNECTION_BUDGET: usize = 4 << 20;

/// The same while all connections together use more than half of [`SERVER_BUDGET`].
const TIGHT_BUDGET: usize = 64 << 10;

/// How many bytes all connections together may use for requests and answers. Beyond it, those that
/// use most are closed until a quarter is free.
pub const SERVER_BUDGET: usize = 128 << 20;

/// Received bytes are handled in portions of this size, and the budget is checked in between.
const PORTION: usize = 16 << 10;

/// How much work one call does for what it has received, in bytes as in [`Serve::work`].
const WORK: usize = 1 << 20;

impl Serve {
    /// Read from `data` in portions, unless the connection is over its budget. Return the number of
    /// bytes consumed.
    pub(super) fn read_portions(&mut self, id: ConnId, data: &[u8], now: Nanos) -> usize {
        if data.len() <= PORTION {
            return self.read(id, data, now);
        }
        let (mut used, mut end) = (0, 0);
        while end < data.len() && !self.is_over_budget(id) {
            end = (end + PORTION).min(data.len());
            used += self.read(id, &data[used..end], now);
            self.account(id);
            self.make_room(now);
            if self.conn(id).is_none() {
                return data.len();
            }
        }
        used
    }

    /// Read what was left when a connection was paused.
    fn read_stash(&mut self, id: ConnId, mut stash: Vec<u8>, now: Nanos) {
        let used = self.read_portions(id, &stash, now);
        stash.drain(..used);
        match self.conn(id).filter(|_| !stash.is_empty()) {
            Some(c) => c.stash = stash,
            None => self.keep_stash(stash),
        }
    }

    /// Whether no more of a connection is to be handled for now. If so, the driver is asked to read
    /// no more of it.
    fn is_over_budget(&mut self, id: ConnId) -> bool {
        let limit = self.connection_limit();
        let is_busy = self.work > WORK;
        let c = &mut self.conns[id.slot as usize];
        // With HTTP/2, what opens the windows comes on the same connection: it is slowed down by
        // the windows of its streams.
        let is_over = c.h2.is_none() && c.backlog() > limit;
        if !c.is_paused && (is_busy || is_over) {
            c.is_paused = true;
            self.served.pauses += 1;
            self.actions.push_back(Action::Pause { id });
            if is_busy {
                self.wake(id);
            }
        }
        self.conns[id.slot as usize].is_paused
    }

    /// Whether more than half of the server's budget is used.
    pub(super) fn is_tight(&self) -> bool {
        self.used > SERVER_BUDGET / 2
    }

    fn connection_limit(&self) -> usize {
        if self.is_tight() { TIGHT_BUDGET } else { CONNECTION_BUDGET }
    }

    /// A connection has received or sent something: account for what it holds, and stop to read
    /// from it or go on with that.
    #[inline]
    pub(super) fn account(&mut self, id: ConnId) {
        let c = &mut self.conns[id.slot as usize];
        if c.charged == 0 && c.holds_little() {
            return;
        }
        self.account_for(id);
    }

    fn account_for(&mut self, id: ConnId) {
        let Some(c) = self.conn(id) else { return };
        let Some(holds) = c.footprint() else { return };
        let before = std::mem::replace(&mut c.charged, holds);
        self.used = self.used - before + holds;
        if !self.is_over_budget(id) {
            return;
        }
        let limit = self.connection_limit();
        let c = &self.conns[id.slot as usize];
        if c.backlog() <= limit / 2 {
            self.wake(id);
        }
    }

    /// Handle more of a connection after the sockets were checked.
    fn wake(&mut self, id: ConnId) {
        let c = &mut self.conns[id.slot as usize];
        if std::mem::replace(&mut c.is_waking, true) {
            return;
        }
        if self.waking.is_empty() {
            self.actions.push_back(Action::Yield);
        }
        self.waking.push_back(id);
    }

    /// Go on with connections that were paused.
    pub(super) fn resume(&mut self, now: Nanos) {
        for _ in 0..self.waking.len() {
            if self.work > WORK {
                break;
            }
            let Some(id) = self.waking.pop_front() else { break };
            self.resume_one(id, now);
        }
        if !self.waking.is_empty() {
            self.actions.push_back(Action::Yield);
        }
    }

    fn resume_one(&mut self, id: ConnId, now: Nanos) {
        let Some(c) = self.conn(id) else { return };
        (c.is_waking, c.is_paused) = (false, false);
        let stash = std::mem::take(&mut c.stash);
        if !self.is_over_budget(id) {
            self.read_stash(id, stash, now);
        } else {
            self.conns[id.slot as usize].stash = stash;
        }
        self.account_for(id);
        self.request_transmit(id);
        let Some(c) = self.conn(id).filter(|c| !c.is_paused) else { return };
        let has_ended = std::mem::take(&mut c.ended_in_pause);
        self.actions.push_back(Action::Resume { id });
        if has_ended {
            self.peer_ended(id, None);
        }
    }

    /// Close the connections that use most, if all together use too much.
    #[inline]
    pub(super) fn make_room(&mut self, now: Nanos) {
        if self.used > SERVER_BUDGET {
            self.close_largest(now);
        }
    }

    #[cold]
    fn close_largest(&mut self, now: Nanos) {
        let all = self.conns.iter().enumerate();
        let mut all: Vec<_> = all
            .filter(|(_, c)| c.charged > 0)
            .filter_map(|(slot, c)| Some((c.charged, c.id(slot as u32)?)))
            .collect();
        all.sort_unstable_by_key(|&(charged, id)| (Reverse(charged), id));
        for (_, id) in all {
            if self.used <= SERVER_BUDGET / 4 * 3 {
                break;
            }
            self.overload(id, CloseCode::TRY_AGAIN_LATER, now);
        }
    }

    /// Close a connection that uses too much, and say why if that is possible.
    pub(super) fn overload(&mut self, id: ConnId, code: CloseCode, now: Nanos) {
        self.served.overloads += 1;
        let c = &mut self.conns[id.slot as usize];
        if c.lingers {
            return self.close(id, CloseHow::Reset);
        }
        if c.h2.is_some() {
            self.calm_down(id);
        } else if c.ws.is_some() && c.drop_answers() {
            c.held = None;
            c.reads = false;
            self.pass(id, Answer::Bytes(close_frame(code), Counted::Nothing), now);
            self.pass(id, Answer::Leave, now);
        } else if c.is_answered() && c.incoming.is_some() {
            self.refuse_body(id, now);
        } else {
            return self.close(id, CloseHow::Reset);
        }
        let c = &mut self.conns[id.slot as usize];
        c.stash = Vec::new();
        // A client that does not read gets no reason.
        (c.lingers, c.since, c.armed) = (true, now, true);
        self.timers.push(Reverse((now + LINGER, id)));
        self.request_transmit(id);
        self.account_for(id);
    }

    fn refuse_body(&mut self, id: ConnId, now: Nanos) {
        self.served.bad_requests += 1;
        self.served.outstanding += 1;
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        c.incoming = None;
        let reply = Reply {
            status: 503,
            content: Content::Text("the server has no memory for this body\n"),
            is_head: false,
            chunked: false,
            connection: Connection::Close,
            cut: false,
            after: After::Linger,
        };
        self.pass(id, Answer::Reply(reply), now);
    }
}

impl Conn {
    /// Whether it certainly uses little memory, and has nothing to be accounted for.
    fn holds_little(&self) -> bool {
        self.queued == 0
            && self.plain < 1_024
            && self.out.is_none()
            && self.h2.is_none()
            && self.ws.is_none()
            && self.incoming.is_none()
            && self.stash.is_empty()
            && !self.is_paused
    }

    /// The bytes of answers that wait for the client, or for their service.
    pub(super) fn backlog(&self) -> usize {
        let out = self.out.as_ref().map_or(0, Out::size);
        // A constant reply costs nothing, but they shall not be without number either.
        self.queued + out + self.plain as usize * 64
    }

    /// The bytes that it uses; `None` if not enough has happened to look at its streams again.
    fn footprint(&mut self) -> Option<usize> {
        let out = self.out.as_ref().map_or(0, Out::size);
        if let Some(session) = &mut self.h2 {
            return session.footprint().map(|streams| streams + out + self.stash.len());
        }
        let body = self.incoming.as_ref().and_then(|incoming| incoming.echo.as_ref());
        let message = self.ws.as_ref().map_or(0, |socket| socket.size());
        Some(self.queued + out + self.stash.len() + body.map_or(0, Vec::capacity) + message)
    }
}

#[cfg(test)]
impl Serve {
    /// Check the accounts against what all connections hold, and return that.
    pub(super) fn audit(&mut self) -> usize {
        let charged: usize = self.conns.iter().map(|c| c.charged).sum();
        assert_eq!(charged, self.used);
        let mut sum = self.casts.iter().map(super::cast::Cast::cost).sum();
        assert_eq!(sum, self.cast_bytes);
        for c in &mut self.conns {
            assert_eq!(c.queue_cost(), c.queued);
            if let Some(session) = &mut c.h2 {
                session.moved = usize::MAX / 2;
            }
            sum += c.footprint().unwrap_or(0);
        }
        sum
    }
}
