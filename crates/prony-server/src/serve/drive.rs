//! The server as a machine: what its driver calls.

use std::cmp::Reverse;

use prony_base::fault::Fault;
use prony_base::machine::{Action, CloseHow, Machine, StopRequest};
use prony_base::units::{ConnId, Nanos};

use super::Serve;

impl Machine for Serve {
    fn on_connected(&mut self, id: ConnId, _now: Nanos) {
        debug_assert!(false, "a server opens no connections, but got {id:?}");
    }

    fn on_accepted(&mut self, _listener: u32, now: Nanos) -> Option<ConnId> {
        let slot = self.slots.take(&mut self.conns)?;
        let id = self.conns[slot as usize].open(slot, now);
        self.served.connections += 1;
        self.served.open += 1;
        self.served.open_max = self.served.open_max.max(self.served.open);
        self.settle(id, now);
        Some(id)
    }

    fn on_recv(&mut self, id: ConnId, data: &mut [u8], now: Nanos) {
        self.advance(now);
        self.work = 0;
        let Some(c) = self.conn(id) else {
            return;
        };
        let is_paused = c.is_paused;
        let mut stash = std::mem::take(&mut c.stash);
        self.served.bytes_in += data.len() as u64;
        if stash.is_empty() && !is_paused {
            let used = self.read_portions(id, data, now);
            if used < data.len() {
                if stash.capacity() == 0 {
                    stash = self.stashes.pop().unwrap_or_default();
                }
                stash.extend_from_slice(&data[used..]);
            }
        } else {
            stash.extend_from_slice(data);
            if !is_paused {
                let used = self.read_portions(id, &stash, now);
                stash.drain(..used);
            }
        }
        match self.conn(id).filter(|_| !stash.is_empty()) {
            Some(c) => c.stash = stash,
            None => self.keep_stash(stash),
        }
        if self.conn(id).is_none() {
            return;
        }
        self.account(id);
        self.request_transmit(id);
        self.make_room(now);
    }

    fn on_closed(&mut self, id: ConnId, why: Option<Fault>, now: Nanos) {
        self.advance(now);
        let Some(c) = self.conn(id) else {
            return;
        };
        if c.is_paused && why.is_none() {
            // What it has sent before is handled first.
            c.ended_in_pause = true;
            return;
        }
        self.peer_ended(id, why);
    }

    fn on_tick(&mut self, now: Nanos) {
        self.work = 0;
        self.advance(now);
        self.expire_timers(now);
        self.sound_alarms(now);
        self.push_messages(now);
        self.make_room(now);
    }

    fn on_turn(&mut self, now: Nanos) {
        self.work = 0;
        self.advance(now);
        self.resume(now);
        if self.is_casting {
            self.go_on_casting(now);
        }
        self.make_room(now);
    }

    /// `Drain` closes idle connections and answers outstanding requests before it closes the
    /// others; `Now` closes all at once.
    fn on_stop(&mut self, how: StopRequest, now: Nanos) {
        self.advance(now);
        self.slots.stop();
        for slot in 0..self.conns.len() {
            let c = &self.conns[slot];
            let Some(id) = c.id(slot as u32) else {
                continue;
            };
            if how == StopRequest::Drain && self.leave(id, now) {
                continue;
            }
            let c = &self.conns[slot];
            if how == StopRequest::Now || (c.is_answered() && !c.is_inside_request()) {
                self.close(id, CloseHow::Orderly);
            }
        }
        self.slots.finish_if_done(&mut self.actions);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn take_output(
        &mut self,
        id: ConnId,
        now: Nanos,
        send: &mut dyn FnMut(&[u8]) -> usize,
    ) -> bool {
        let all = self.send(id, now, send);
        self.resume_pushes(id, now);
        self.broadcast(now);
        if self.conn(id).is_some() {
            self.account(id);
        }
        self.make_room(now);
        all
    }

    fn deadline(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let alarm = self.alarms.peek().map(|Reverse((at, ..))| *at);
        let thaw = self.held.filter(|_| !self.frozen.is_empty());
        let push = self.pushes.peek().map(|Reverse((at, ..))| *at);
        let next =
            [self.station.deadline(), timer, alarm, thaw, push].into_iter().flatten().min()?;
        Some(self.held.map_or(next, |end| next.max(end)))
    }
}

impl Serve {
    /// The client has ended its side, or the connection is dead.
    pub(super) fn peer_ended(&mut self, id: ConnId, why: Option<Fault>) {
        let Some(c) = self.conn(id) else { return };
        self.served.cut_requests += match &c.h2 {
            Some(session) => session.incomplete(),
            None => u64::from(c.is_inside_request()),
        };
        let c = &mut self.conns[id.slot as usize];
        c.reads = false;
        c.peer_done = true;
        if why.is_some() || c.lingers || c.has_sent_all() {
            self.close(id, CloseHow::Orderly);
        }
    }
}
