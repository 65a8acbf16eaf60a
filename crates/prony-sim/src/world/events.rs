//! Handles the events of the network, and calls the machines.

use prony_base::fault::Fault;
use prony_base::machine::{KernelStamp, Machine, StopRequest};
use prony_base::units::Nanos;

use super::{CLIENT, End, EndState, Event, SERVER, World};
use crate::link::Segment;

impl World<'_, '_> {
    pub(super) fn handle(&mut self, kind: Event) {
        match kind {
            Event::Syn(c) => self.syn(c),
            Event::Opened(c) => self.opened(c),
            Event::Failed(c, fault) => self.failed(c, fault),
            Event::Arrives(c, from) => self.arrives(c, from),
            Event::Ack(c, end, n) => {
                self.conns[c].pipes[end].unacked -= n;
                self.writable(c, end);
            }
            Event::Writable(c, end) => self.writable(c, end),
            Event::Turn(m) => self.call(m, |machine, now| machine.on_turn(now)),
            Event::Stop(how) => self.stop(how),
        }
        if let Some(c) = kind.conn() {
            self.conns[c].pending -= 1;
            self.release(c);
        }
    }

    pub(super) fn tick(&mut self, m: usize) {
        let state = &mut self.states[m];
        // The next deadline is a new one, even if the machine returns the same time again.
        state.deadline = None;
        state.tick_at = None;
        self.call(m, |machine, now| machine.on_tick(now));
    }

    pub(super) fn stop(&mut self, how: StopRequest) {
        for m in 0..self.clients {
            if self.states[m].finished.is_none() {
                self.call(m, |machine, now| machine.on_stop(how, now));
            }
        }
    }

    pub(super) fn syn(&mut self, c: usize) {
        if self.conns[c].ends[CLIENT].state != EndState::Opening {
            return;
        }
        let server = self.conns[c].ends[SERVER].machine;
        let back = self.setup.link.after_stalls(self.now + self.setup.link.delay(&mut self.rng));
        if self.states[server].finished.is_some() {
            self.push(back, Event::Failed(c, Fault::ConnectRefused));
            return;
        }
        self.conns[c].pipes[SERVER].not_before(back);
        self.push(back, Event::Opened(c));
        self.states[server].turns += 1;
        let endpoint = self.conns[c].endpoint;
        if let Some(id) = self.machines[server].on_accepted(endpoint, self.now) {
            self.conns[c].ends[SERVER] = End { machine: server, id, state: EndState::Open };
            self.assign(server, id, c);
        } else {
            self.conns[c].ends[SERVER].state = EndState::Closed;
            self.send_end(c, SERVER, Segment::Fin);
        }
        self.settle(server);
    }

    pub(super) fn opened(&mut self, c: usize) {
        let End { machine, id, state } = self.conns[c].ends[CLIENT];
        if state == EndState::Opening {
            self.conns[c].ends[CLIENT].state = EndState::Open;
            let at = self.conns[c].opened_in_pause.unwrap_or(self.now);
            self.outcome.oracle.opened(c, at, self.now);
            self.call(machine, |m, now| m.on_connected(id, now));
        }
    }

    pub(super) fn failed(&mut self, c: usize, fault: Fault) {
        if self.conns[c].ends[CLIENT].state == EndState::Opening {
            self.notify_failure(c, CLIENT, fault);
        }
    }

    pub(super) fn arrives(&mut self, c: usize, from: usize) {
        let to = 1 - from;
        let segment =
            self.conns[c].pipes[from].segments.pop_front().expect("one event per segment");
        let arrived = if to == CLIENT { self.conns[c].unread.pop_front() } else { None };
        match (segment, self.conns[c].ends[to].state) {
            (Segment::Bytes(data), EndState::Open) => self.deliver(c, from, data, arrived),
            (Segment::Bytes(mut data), state) => {
                data.clear();
                self.free_buffers.push(data);
                if state == EndState::Closed {
                    self.send_reset(c, to);
                }
            }
            (Segment::Fin, EndState::Open) => self.notify_end(c, to),
            (Segment::Rst, EndState::Open) => self.notify_failure(c, to, Fault::Reset),
            (Segment::Rst, EndState::Opening) => self.notify_failure(c, to, Fault::ConnectReset),
            (Segment::Fin | Segment::Rst | Segment::Lost, _) => {}
        }
    }

    /// Deliver bytes. `arrived`: when they reached the client's host, if the client was paused.
    pub(super) fn deliver(
        &mut self,
        c: usize,
        from: usize,
        mut data: Vec<u8>,
        arrived: Option<Nanos>,
    ) {
        let to = 1 - from;
        if self.rng.chance(self.setup.link.reset) {
            self.conns[c].was_reset = true;
            self.notify_failure(c, to, Fault::Reset);
            if self.conns[c].ends[from].state == EndState::Open {
                self.notify_failure(c, from, Fault::Reset);
            }
            return;
        }
        if from == SERVER && self.rng.chance(self.setup.link.half_close) {
            self.conns[c].pipes[from].cut();
            // Let a sender that waits for a writable socket send the rest, which is lost like the
            // bytes in flight.
            self.push(self.now, Event::Writable(c, from));
            self.notify_end(c, to);
            return;
        }
        if self.setup.link.window.is_some() {
            let at = self.now + self.setup.link.latency;
            self.push(at, Event::Ack(c, from, data.len()));
        }
        self.digest_bytes(&data);
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            let there = arrived.unwrap_or(self.now);
            self.outcome.oracle.received(c, &data, there, self.now);
            if let Some(kernel) = self.setup.kernel {
                let at = Nanos(self.now.0.saturating_sub(kernel.to_user.0));
                self.machines[machine].on_stamp(id, KernelStamp::Received(Some(at)));
                if let Some(card) = kernel.card {
                    let at = at.0.saturating_sub(card.takes.0) + card.ahead;
                    self.machines[machine].on_stamp(id, KernelStamp::CardReceived(at));
                }
            }
        } else {
            self.outcome.oracle.arrived(c, &data, self.now);
        }
        self.call(machine, |m, now| m.on_recv(id, &mut data, now));
        if to == CLIENT {
            for (number, at) in std::mem::take(&mut self.conns[c].pipes[CLIENT].card_stamps) {
                self.machines[machine].on_stamp(id, KernelStamp::CardSent { number, at });
            }
        }
        data.clear();
        self.free_buffers.push(data);
    }

    pub(super) fn notify_end(&mut self, c: usize, to: usize) {
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            self.outcome.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, None, now));
    }

    pub(super) fn notify_failure(&mut self, c: usize, to: usize, fault: Fault) {
        let conn = &mut self.conns[c];
        conn.ends[to].state = EndState::Dead;
        conn.pipes[to].cut();
        conn.pipes[1 - to].cut();
        let End { machine, id, .. } = conn.ends[to];
        self.digest(fault as u64);
        if to == CLIENT {
            self.outcome.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, Some(fault), now));
    }

    pub(super) fn writable(&mut self, c: usize, end: usize) {
        if self.conns[c].pipes[end].blocked && self.conns[c].ends[end].state == EndState::Open {
            let m = self.conns[c].ends[end].machine;
            self.transmit(c, end);
            self.settle(m);
        }
    }

    /// Call a machine, then execute its actions.
    pub(super) fn call(&mut self, m: usize, f: impl FnOnce(&mut dyn Machine, Nanos)) {
        if self.states[m].finished.is_some() {
            return;
        }
        self.poll(m);
        self.states[m].turns += 1;
        f(&mut *self.machines[m], self.now);
        self.settle(m);
    }
}
