//! What machines want, carried out.

use prony_core::machine::{Action, CloseHow, KernelStamp, Passed};
use prony_core::units::{ConnId, Span};

use super::{CLIENT, Conn, End, LIVELOCK, State, What, World};
use crate::link::{Fate, Piece, Pipe};

impl World<'_, '_> {
    /// Poll a machine until it wants nothing more, then ask when it wants to be called (rules 1 and
    /// 4).
    pub(super) fn settle(&mut self, m: usize) {
        let mut actions = 0;
        while self.seats[m].finished.is_none() {
            let Some(action) = self.machines[m].poll_action() else { break };
            actions += 1;
            assert!(actions < LIVELOCK, "livelock: machine {m} never stops to ask");
            match action {
                Action::Connect { id, endpoint } => self.connect(m, id, endpoint),
                Action::Transmit { id } => {
                    let (c, end) = self.named(m, id, "Transmit");
                    // What a machine wants to send on a dead connection is lost, as on a real one.
                    match self.conns[c].ends[end].state {
                        State::Open => self.transmit(c, end),
                        State::Dead => {}
                        state => panic!("Transmit on {id:?}, which is {state:?}"),
                    }
                }
                Action::Close { id, how } => {
                    let (c, end) = self.named(m, id, "Close");
                    self.close(c, end, how);
                }
                Action::Yield => {
                    let late = self.lateness_of(m);
                    self.push(self.now + late, What::Turn(m));
                }
                Action::Finished => self.finish(m),
            }
        }
        let seat = &mut self.seats[m];
        let deadline = if seat.finished.is_none() { self.machines[m].deadline() } else { None };
        if deadline != seat.deadline {
            seat.deadline = deadline;
            let tick_at = deadline.map(|d| d.max(self.now) + self.lateness_of(m));
            self.seats[m].tick_at = tick_at;
        }
    }

    /// By how much a machine is late this time.
    fn lateness_of(&mut self, m: usize) -> Span {
        let late = if m < self.clients { self.setup.late } else { Span::ZERO };
        self.dice.up_to(late)
    }

    pub(super) fn connect(&mut self, m: usize, id: ConnId, endpoint: u32) {
        assert!(m < self.clients, "a server asks for a connection");
        let servers = self.machines.len() - self.clients;
        let server = self.clients + endpoint as usize % servers;
        let conn = Conn {
            ends: [
                End { machine: m, id, state: State::Opening },
                End { machine: server, id, state: State::Absent },
            ],
            pipes: [Pipe::default(), Pipe::default()],
            pending: 0,
            endpoint,
            was_reset: false,
            free: false,
        };
        let c = self.free.pop().unwrap_or(self.conns.len());
        if c == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[c] = conn;
        }
        self.name(m, id, c);
        self.ran.oracle.connecting(c, m, self.now);
        let link = &self.setup.link;
        let there = link.after_stalls(self.now + link.delay(&mut self.dice));
        match link.fate(&mut self.dice) {
            Fate::Opens => self.push(there, What::Syn(c)),
            Fate::Never => {}
            Fate::AtOnce(fault) => self.push(self.now, What::Failed(c, fault)),
            Fate::AfterRoundTrip(fault) => {
                let back = link.after_stalls(there + link.delay(&mut self.dice));
                self.push(back, What::Failed(c, fault));
            }
        }
    }

    pub(super) fn transmit(&mut self, c: usize, end: usize) {
        let End { machine, id, .. } = self.conns[c].ends[end];
        let pipe = &mut self.conns[c].pipes[end];
        let lost = pipe.ended;
        let mut room =
            if lost { usize::MAX } else { pipe.budget(&self.setup.link, &mut self.dice) };
        let mut short = false;
        let mut taken = self.spare.pop().unwrap_or_default();
        let mut writes = Vec::new();
        let stamped = end == CLIENT && self.setup.kernel.is_some();
        // Drivers may, or may not; what comes of it must be the same.
        if c.is_multiple_of(2) {
            self.machines[machine].prepare_output(id);
        }
        let all = self.machines[machine].take_output(id, self.now, &mut |data| {
            let n = data.len().min(room);
            room -= n;
            short = n < data.len();
            taken.extend_from_slice(&data[..n]);
            if stamped && n > 0 {
                writes.push(n);
            }
            n
        });
        assert!(all != short, "take_output of {id:?}: all = {all}, last write short = {short}");
        self.note_writes(c, id, machine, &writes);
        let pipe = &mut self.conns[c].pipes[end];
        pipe.blocked = short;
        if end == CLIENT {
            self.ran.oracle.sent(c, &taken, self.now);
        }
        if lost {
            taken.clear();
        } else if self.setup.link.window.is_some() {
            pipe.unacked += taken.len();
        }
        let full = self.setup.link.window.is_some_and(|w| pipe.unacked >= w);
        if short && !full {
            let soon = self.now + Span(self.dice.between(1, 20_000));
            self.push(soon, What::Writable(c, end));
        }
        self.put_on_line(c, end, taken);
    }

    /// Tell a client what its kernel notes of what it has just written.
    fn note_writes(&mut self, c: usize, id: ConnId, m: usize, writes: &[usize]) {
        let Some(kernel) = self.setup.kernel else { return };
        let scheduled = self.now + kernel.to_scheduler;
        let sent = scheduled + kernel.to_device;
        for &n in writes {
            let pipe = &mut self.conns[c].pipes[CLIENT];
            pipe.noted = pipe.noted.wrapping_add(n as u32);
            let number = pipe.noted.wrapping_sub(1);
            for (passed, at) in [(Passed::Scheduler, scheduled), (Passed::Device, sent)] {
                self.machines[m].on_stamp(id, KernelStamp::Sent { passed, number, at });
            }
            let Some(card) = kernel.card else { continue };
            let at = (sent + card.takes).0 + card.ahead;
            match card.is_slow {
                true => pipe.on_card.push((number, at)),
                false => self.machines[m].on_stamp(id, KernelStamp::CardSent { number, at }),
            }
        }
    }

    pub(super) fn put_on_line(&mut self, c: usize, end: usize, mut data: Vec<u8>) {
        let Some(most) = self.setup.link.segment else {
            if data.is_empty() {
                self.spare.push(data);
            } else {
                self.put(c, end, data.len(), Piece::Bytes(data));
            }
            return;
        };
        let mut rest = data.as_slice();
        while !rest.is_empty() {
            let n = (self.dice.between(1, most as u64) as usize).min(rest.len());
            let (head, tail) = rest.split_at(n);
            self.put(c, end, n, Piece::Bytes(head.to_vec()));
            rest = tail;
        }
        data.clear();
        self.spare.push(data);
    }

    pub(super) fn put(&mut self, c: usize, end: usize, bytes: usize, piece: Piece) {
        let pipe = &mut self.conns[c].pipes[end];
        let (mut out, mut late) = (Span::ZERO, Span::ZERO);
        if let Some(kernel) = self.setup.kernel {
            // The way out of the client's machine, or the way in.
            match end {
                CLIENT => out = kernel.to_scheduler + kernel.to_device + kernel.card_takes(),
                _ => late = kernel.card_takes() + kernel.to_user,
            }
        }
        let at = pipe.arrival(&self.setup.link, &mut self.dice, self.now + out, bytes);
        pipe.pieces.push_back(piece);
        self.push(at + late, What::Arrives(c, end));
    }

    /// End the stream from `end`, or the whole connection.
    pub(super) fn send_end(&mut self, c: usize, end: usize, piece: Piece) {
        if !self.conns[c].pipes[end].ended {
            self.conns[c].pipes[end].ended = true;
            self.put(c, end, 0, piece);
        }
    }

    /// Answer what comes in for a socket that is no more.
    pub(super) fn send_reset(&mut self, c: usize, end: usize) {
        if !self.conns[c].was_reset {
            self.conns[c].was_reset = true;
            self.conns[c].pipes[end].ended = true;
            self.put(c, end, 0, Piece::Rst);
        }
    }

    pub(super) fn close(&mut self, c: usize, end: usize, how: CloseHow) {
        let End { machine, id, state } = self.conns[c].ends[end];
        self.seats[machine].names[id.slot as usize] = None;
        self.conns[c].ends[end].state = State::Gone;
        self.note(u64::from(id.slot) << 2 | end as u64);
        if end == CLIENT {
            self.ran.oracle.ended(c);
        }
        match (state, how) {
            (State::Open | State::Opening, CloseHow::Orderly) => {
                self.send_end(c, end, Piece::Fin);
            }
            (State::Open | State::Opening, CloseHow::Reset) => self.send_reset(c, end),
            _ => {}
        }
        self.release(c);
    }

    pub(super) fn finish(&mut self, m: usize) {
        self.seats[m].finished = Some(self.now);
        for slot in 0..self.seats[m].names.len() {
            if let Some((_, c)) = self.seats[m].names[slot] {
                let end = usize::from(m >= self.clients);
                self.ran.left_open += u64::from(end == CLIENT);
                self.close(c, end, CloseHow::Orderly);
            }
        }
    }

    /// A machine names a new connection (rule 2).
    pub(super) fn name(&mut self, m: usize, id: ConnId, c: usize) {
        let names = &mut self.seats[m].names;
        let slot = id.slot as usize;
        assert!(slot < 1 << 24, "slots are to be small and dense: {id:?}");
        if names.len() <= slot {
            names.resize(slot + 1, None);
        }
        assert!(names[slot].is_none(), "{id:?} is given out while its slot is in use");
        names[slot] = Some((id.generation, c));
    }

    pub(super) fn named(&self, m: usize, id: ConnId, what: &str) -> (usize, usize) {
        match self.seats[m].names.get(id.slot as usize) {
            Some(&Some((generation, c))) if generation == id.generation => {
                (c, usize::from(m >= self.clients))
            }
            _ => panic!("{what} names {id:?}, which does not exist"),
        }
    }

    /// Forget a connection that nobody holds and no event names.
    pub(super) fn release(&mut self, c: usize) {
        let conn = &mut self.conns[c];
        let held = conn.ends.iter().any(|e| e.holds());
        if conn.pending == 0 && !held && !conn.free {
            conn.free = true;
            self.free.push(c);
        }
    }
}
