//! Executes the actions of machines.

use std::collections::VecDeque;

use prony_base::machine::{Action, CloseHow, KernelStamp, Passed};
use prony_base::units::{ConnId, Span};

use super::{CLIENT, Conn, End, EndState, Event, LIVELOCK, World};
use crate::link::{ConnectResult, Pipe, Segment};

/// How many bytes at least a machine gives at once before it asks for another turn.
const TURN: usize = 64 << 10;

impl World<'_, '_> {
    /// Poll a machine until it has no more actions, then ask for its deadline (rules 1 and 4).
    pub(super) fn settle(&mut self, m: usize) {
        let mut actions = 0;
        while self.states[m].finished.is_none() {
            let Some(action) = self.machines[m].poll_action() else { break };
            actions += 1;
            assert!(actions < LIVELOCK, "livelock: machine {m} returns actions without end");
            match action {
                Action::Connect { id, endpoint } => self.connect(m, id, endpoint),
                Action::Transmit { id } => {
                    let (c, end) = self.connection(m, id, "Transmit");
                    // Output on a dead connection is lost.
                    match self.conns[c].ends[end].state {
                        EndState::Open => self.transmit(c, end),
                        EndState::Dead => {}
                        state => panic!("Transmit on {id:?}, which is {state:?}"),
                    }
                }
                Action::Close { id, how } => {
                    let (c, end) = self.connection(m, id, "Close");
                    self.close(c, end, how);
                }
                // What is sent meanwhile is as if it had been read before.
                Action::Pause { .. } | Action::Resume { .. } => {}
                Action::Yield => {
                    let late = self.lateness_of(m);
                    self.push(self.now + late, Event::Turn(m));
                }
                Action::Finished => self.finish(m),
            }
        }
        let state = &mut self.states[m];
        let deadline = if state.finished.is_none() { self.machines[m].deadline() } else { None };
        if deadline != state.deadline {
            state.deadline = deadline;
            let tick_at = deadline.map(|d| d.max(self.now) + self.lateness_of(m));
            self.states[m].tick_at = tick_at;
        }
    }

    /// A random lateness of a machine's next call.
    fn lateness_of(&mut self, m: usize) -> Span {
        let late = if m < self.clients { self.setup.timer_lateness } else { Span::ZERO };
        self.rng.up_to(late)
    }

    pub(super) fn connect(&mut self, m: usize, id: ConnId, endpoint: u32) {
        assert!(m < self.clients, "a server must not connect");
        let servers = self.machines.len() - self.clients;
        let server = self.clients + endpoint as usize % servers;
        let conn = Conn {
            ends: [
                End { machine: m, id, state: EndState::Opening },
                End { machine: server, id, state: EndState::Absent },
            ],
            pipes: [Pipe::default(), Pipe::default()],
            pending: 0,
            endpoint,
            was_reset: false,
            unread: VecDeque::new(),
            opened_in_pause: None,
            free: false,
        };
        let c = self.free.pop().unwrap_or(self.conns.len());
        if c == self.conns.len() {
            self.conns.push(conn);
        } else {
            self.conns[c] = conn;
        }
        self.assign(m, id, c);
        self.outcome.oracle.connecting(c, m, self.now);
        let link = &self.setup.link;
        let there = link.after_stalls(self.now + link.delay(&mut self.rng));
        match link.connect_result(endpoint, self.now, &mut self.rng) {
            ConnectResult::Opens => self.push(there, Event::Syn(c)),
            ConnectResult::NoReply => {}
            ConnectResult::FailsImmediately(fault) => self.push(self.now, Event::Failed(c, fault)),
            ConnectResult::FailsAfterRoundTrip(fault) => {
                let back = link.after_stalls(there + link.delay(&mut self.rng));
                self.push(back, Event::Failed(c, fault));
            }
        }
    }

    pub(super) fn transmit(&mut self, c: usize, end: usize) {
        let End { machine, id, .. } = self.conns[c].ends[end];
        let pipe = &mut self.conns[c].pipes[end];
        let lost = pipe.ended;
        let mut room = if lost { usize::MAX } else { pipe.budget(&self.setup.link, &mut self.rng) };
        let mut short = false;
        let mut taken = self.free_buffers.pop().unwrap_or_default();
        let mut writes = Vec::new();
        let stamped = end == CLIENT && self.setup.kernel.is_some();
        // A driver need not call this, and the result must not depend on it (rule 8).
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
        let more = !all && !short && (taken.len() >= TURN || end != CLIENT);
        assert!(all != short || more, "take_output of {id:?}: all {all}, last write short {short}");
        self.stamp_writes(c, id, machine, &writes);
        let pipe = &mut self.conns[c].pipes[end];
        pipe.blocked = short || more;
        if end == CLIENT {
            self.outcome.oracle.sent(c, &taken, self.now);
        }
        if lost {
            taken.clear();
        } else if self.setup.link.window.is_some() {
            pipe.unacked += taken.len();
        }
        let full = self.setup.link.window.is_some_and(|w| pipe.unacked >= w);
        if (short && !full) || more {
            let soon = self.now + Span(self.rng.between(1, 20_000));
            self.push(soon, Event::Writable(c, end));
        }
        self.send_bytes(c, end, taken);
    }

    /// Report the kernel's timestamps of the client's writes.
    fn stamp_writes(&mut self, c: usize, id: ConnId, m: usize, writes: &[usize]) {
        let Some(kernel) = self.setup.kernel else { return };
        let scheduled = self.now + kernel.to_scheduler;
        let sent = scheduled + kernel.to_device;
        for &n in writes {
            let pipe = &mut self.conns[c].pipes[CLIENT];
            pipe.stamped = pipe.stamped.wrapping_add(n as u32);
            let number = pipe.stamped.wrapping_sub(1);
            for (passed, at) in [(Passed::Scheduler, scheduled), (Passed::Device, sent)] {
                self.machines[m].on_stamp(id, KernelStamp::Sent { passed, number, at });
            }
            let Some(card) = kernel.card else { continue };
            let at = (sent + card.takes).0 + card.ahead;
            match card.is_slow {
                true => pipe.card_stamps.push((number, at)),
                false => self.machines[m].on_stamp(id, KernelStamp::CardSent { number, at }),
            }
        }
    }

    pub(super) fn send_bytes(&mut self, c: usize, end: usize, mut data: Vec<u8>) {
        let Some(most) = self.setup.link.segment else {
            if data.is_empty() {
                self.free_buffers.push(data);
            } else {
                self.send_segment(c, end, data.len(), Segment::Bytes(data));
            }
            return;
        };
        let mut rest = data.as_slice();
        while !rest.is_empty() {
            let n = (self.rng.between(1, most as u64) as usize).min(rest.len());
            let (head, tail) = rest.split_at(n);
            self.send_segment(c, end, n, Segment::Bytes(head.to_vec()));
            rest = tail;
        }
        data.clear();
        self.free_buffers.push(data);
    }

    pub(super) fn send_segment(&mut self, c: usize, end: usize, bytes: usize, segment: Segment) {
        let pipe = &mut self.conns[c].pipes[end];
        let (mut out, mut late) = (Span::ZERO, Span::ZERO);
        if let Some(kernel) = self.setup.kernel {
            // The time that the client's host takes to send, or to receive.
            match end {
                CLIENT => out = kernel.to_scheduler + kernel.to_device + kernel.card_takes(),
                _ => late = kernel.card_takes() + kernel.to_user,
            }
        }
        let at = pipe.arrival(&self.setup.link, &mut self.rng, self.now + out, bytes);
        pipe.segments.push_back(segment);
        self.push(at + late, Event::Arrives(c, end));
    }

    /// Send the end of the stream from `end`, or a reset.
    pub(super) fn send_end(&mut self, c: usize, end: usize, segment: Segment) {
        if !self.conns[c].pipes[end].ended {
            self.conns[c].pipes[end].ended = true;
            self.send_segment(c, end, 0, segment);
        }
    }

    /// Reset the connection, once.
    pub(super) fn send_reset(&mut self, c: usize, end: usize) {
        if !self.conns[c].was_reset {
            self.conns[c].was_reset = true;
            self.conns[c].pipes[end].ended = true;
            self.send_segment(c, end, 0, Segment::Rst);
        }
    }

    pub(super) fn close(&mut self, c: usize, end: usize, how: CloseHow) {
        let End { machine, id, state } = self.conns[c].ends[end];
        self.states[machine].names[id.slot as usize] = None;
        self.conns[c].ends[end].state = EndState::Closed;
        self.digest(u64::from(id.slot) << 2 | end as u64);
        if end == CLIENT {
            self.outcome.oracle.ended(c);
        }
        match (state, how) {
            (EndState::Open | EndState::Opening, CloseHow::Orderly) => {
                self.send_end(c, end, Segment::Fin);
            }
            (EndState::Open | EndState::Opening, CloseHow::Reset) => self.send_reset(c, end),
            _ => {}
        }
        self.release(c);
    }

    pub(super) fn finish(&mut self, m: usize) {
        self.states[m].finished = Some(self.now);
        let delay = std::mem::take(&mut self.states[m].delay);
        self.machines[m].on_sched_delay(delay);
        for slot in 0..self.states[m].names.len() {
            if let Some((_, c)) = self.states[m].names[slot] {
                let end = usize::from(m >= self.clients);
                self.outcome.client_connections_left += u64::from(end == CLIENT);
                self.close(c, end, CloseHow::Orderly);
            }
        }
    }

    /// Record the id that a machine assigns to a new connection (rule 2).
    pub(super) fn assign(&mut self, m: usize, id: ConnId, c: usize) {
        let names = &mut self.states[m].names;
        let slot = id.slot as usize;
        assert!(slot < 1 << 24, "slots must be small numbers: {id:?}");
        if names.len() <= slot {
            names.resize(slot + 1, None);
        }
        assert!(names[slot].is_none(), "{id:?} is assigned while its slot is in use");
        names[slot] = Some((id.generation, c));
    }

    /// The connection with this id, and which of its ends the machine has.
    pub(super) fn connection(&self, m: usize, id: ConnId, action: &str) -> (usize, usize) {
        match self.states[m].names.get(id.slot as usize) {
            Some(&Some((generation, c))) if generation == id.generation => {
                (c, usize::from(m >= self.clients))
            }
            _ => panic!("{action} of {id:?}, which does not exist"),
        }
    }

    /// Free the place of a connection that no machine holds and no event refers to.
    pub(super) fn release(&mut self, c: usize) {
        let conn = &mut self.conns[c];
        let held = conn.ends.iter().any(|e| e.is_held());
        if conn.pending == 0 && !held && !conn.free {
            conn.free = true;
            self.free.push(c);
        }
    }
}
