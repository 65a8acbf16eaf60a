//! What happens on the network, told to the machines.

use prony_core::fault::Fault;
use prony_core::machine::{KernelStamp, Machine, StopRequest};
use prony_core::units::Nanos;

use super::{CLIENT, End, SERVER, State, What, World};
use crate::link::Piece;

impl World<'_, '_> {
    pub(super) fn happen(&mut self, what: What) {
        match what {
            What::Syn(c) => self.syn(c),
            What::Opened(c) => self.opened(c),
            What::Failed(c, fault) => self.failed(c, fault),
            What::Arrives(c, from) => self.arrives(c, from),
            What::Ack(c, end, n) => {
                self.conns[c].pipes[end].unacked -= n;
                self.writable(c, end);
            }
            What::Writable(c, end) => self.writable(c, end),
            What::Turn(m) => self.call(m, |machine, now| machine.on_turn(now)),
            What::Stop(how) => self.stop(how),
        }
        if let Some(c) = what.conn() {
            self.conns[c].pending -= 1;
            self.release(c);
        }
    }

    pub(super) fn tick(&mut self, m: usize) {
        let seat = &mut self.seats[m];
        // Whatever the machine answers is a new deadline, even the same time again.
        seat.deadline = None;
        seat.tick_at = None;
        self.call(m, |machine, now| machine.on_tick(now));
    }

    pub(super) fn stop(&mut self, how: StopRequest) {
        for m in 0..self.clients {
            if self.seats[m].finished.is_none() {
                self.call(m, |machine, now| machine.on_stop(how, now));
            }
        }
    }

    pub(super) fn syn(&mut self, c: usize) {
        if self.conns[c].ends[CLIENT].state != State::Opening {
            return;
        }
        let server = self.conns[c].ends[SERVER].machine;
        let back = self.setup.link.after_stalls(self.now + self.setup.link.delay(&mut self.dice));
        if self.seats[server].finished.is_some() {
            self.push(back, What::Failed(c, Fault::ConnectRefused));
            return;
        }
        self.conns[c].pipes[SERVER].not_before(back);
        self.push(back, What::Opened(c));
        self.seats[server].turns += 1;
        let endpoint = self.conns[c].endpoint;
        if let Some(id) = self.machines[server].on_accepted(endpoint, self.now) {
            self.conns[c].ends[SERVER] = End { machine: server, id, state: State::Open };
            self.name(server, id, c);
        } else {
            self.conns[c].ends[SERVER].state = State::Gone;
            self.send_end(c, SERVER, Piece::Fin);
        }
        self.settle(server);
    }

    pub(super) fn opened(&mut self, c: usize) {
        let End { machine, id, state } = self.conns[c].ends[CLIENT];
        if state == State::Opening {
            self.conns[c].ends[CLIENT].state = State::Open;
            self.ran.oracle.opened(c, self.now);
            self.call(machine, |m, now| m.on_connected(id, now));
        }
    }

    pub(super) fn failed(&mut self, c: usize, fault: Fault) {
        if self.conns[c].ends[CLIENT].state == State::Opening {
            self.tell_dead(c, CLIENT, fault);
        }
    }

    pub(super) fn arrives(&mut self, c: usize, from: usize) {
        let to = 1 - from;
        let piece = self.conns[c].pipes[from].pieces.pop_front().expect("one event per piece");
        match (piece, self.conns[c].ends[to].state) {
            (Piece::Bytes(data), State::Open) => self.deliver(c, from, data),
            (Piece::Bytes(mut data), state) => {
                data.clear();
                self.spare.push(data);
                if state == State::Gone {
                    self.send_reset(c, to);
                }
            }
            (Piece::Fin, State::Open) => self.tell_end(c, to),
            (Piece::Rst, State::Open) => self.tell_dead(c, to, Fault::Reset),
            (Piece::Rst, State::Opening) => self.tell_dead(c, to, Fault::ConnectReset),
            (Piece::Fin | Piece::Rst | Piece::Lost, _) => {}
        }
    }

    pub(super) fn deliver(&mut self, c: usize, from: usize, mut data: Vec<u8>) {
        let to = 1 - from;
        if self.dice.chance(self.setup.link.reset) {
            self.conns[c].was_reset = true;
            self.tell_dead(c, to, Fault::Reset);
            if self.conns[c].ends[from].state == State::Open {
                self.tell_dead(c, from, Fault::Reset);
            }
            return;
        }
        if from == SERVER && self.dice.chance(self.setup.link.half_close) {
            self.conns[c].pipes[from].cut();
            // A sender that waits for room gets rid of the rest, which is lost like what was under
            // way.
            self.push(self.now, What::Writable(c, from));
            self.tell_end(c, to);
            return;
        }
        if self.setup.link.window.is_some() {
            let at = self.now + self.setup.link.latency;
            self.push(at, What::Ack(c, from, data.len()));
        }
        self.note_bytes(&data);
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            self.ran.oracle.received(c, &data, self.now);
            if let Some(kernel) = self.setup.kernel {
                let at = Nanos(self.now.0.saturating_sub(kernel.to_user.0));
                self.machines[machine].on_stamp(id, KernelStamp::Received(Some(at)));
                if let Some(card) = kernel.card {
                    let at = at.0.saturating_sub(card.takes.0) + card.ahead;
                    self.machines[machine].on_stamp(id, KernelStamp::CardReceived(at));
                }
            }
        } else {
            self.ran.oracle.arrived(c, &data, self.now);
        }
        self.call(machine, |m, now| m.on_recv(id, &mut data, now));
        if to == CLIENT {
            for (number, at) in std::mem::take(&mut self.conns[c].pipes[CLIENT].on_card) {
                self.machines[machine].on_stamp(id, KernelStamp::CardSent { number, at });
            }
        }
        data.clear();
        self.spare.push(data);
    }

    pub(super) fn tell_end(&mut self, c: usize, to: usize) {
        let End { machine, id, .. } = self.conns[c].ends[to];
        if to == CLIENT {
            self.ran.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, None, now));
    }

    pub(super) fn tell_dead(&mut self, c: usize, to: usize, fault: Fault) {
        let conn = &mut self.conns[c];
        conn.ends[to].state = State::Dead;
        conn.pipes[to].cut();
        conn.pipes[1 - to].cut();
        let End { machine, id, .. } = conn.ends[to];
        self.note(fault as u64);
        if to == CLIENT {
            self.ran.oracle.ended(c);
        }
        self.call(machine, |m, now| m.on_closed(id, Some(fault), now));
    }

    pub(super) fn writable(&mut self, c: usize, end: usize) {
        if self.conns[c].pipes[end].blocked && self.conns[c].ends[end].state == State::Open {
            let m = self.conns[c].ends[end].machine;
            self.transmit(c, end);
            self.settle(m);
        }
    }

    /// Call a machine and carry out what it answers.
    pub(super) fn call(&mut self, m: usize, f: impl FnOnce(&mut dyn Machine, Nanos)) {
        if self.seats[m].finished.is_some() {
            return;
        }
        self.seats[m].turns += 1;
        f(&mut *self.machines[m], self.now);
        self.settle(m);
    }
}
