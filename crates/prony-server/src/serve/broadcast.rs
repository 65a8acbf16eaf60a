//! Broadcasts of WebSocket: each message of a connection is sent to all others, unless the server
//! is to make mistakes.

use prony_base::machine::Action;
use prony_base::rng::{self, Stream};
use prony_base::units::{ConnId, Nanos};
use prony_base::websocket::CloseCode;

use super::Serve;
use super::answer::Answer;
use super::behavior::{BroadcastFaults, Draw, SocketBehavior};
use super::budget::CONNECTION_BUDGET;
use super::cast::{Cast, Held};
use super::out::Counted;

/// How many deliveries one call makes, and how many bytes it delivers, before others have their
/// turn.
const DELIVERIES: usize = 512;
const DELIVERED: usize = 1 << 20;

impl Serve {
    /// A message is to be sent to all others.
    pub(super) fn cast(&mut self, cast: Cast) {
        self.cast_bytes += cast.cost();
        self.casts.push_back(cast);
    }

    /// Start to send the messages that are ready for it to all others.
    pub(super) fn broadcast(&mut self, now: Nanos) {
        if !self.is_casting && !self.casts.is_empty() {
            self.go_on_casting(now);
        }
    }

    /// Send messages to all others, some deliveries at a time.
    pub(super) fn go_on_casting(&mut self, now: Nanos) {
        let Some(SocketBehavior::Broadcast(faults)) = self.behavior.ws else { return };
        let (mut deliveries, mut bytes) = (0, 0);
        self.is_casting = true;
        while let Some(mut cast) = self.casts.pop_front() {
            if cast.slot == 0 {
                cast.before = self.served.requests;
            }
            while cast.slot < self.conns.len() {
                if deliveries >= DELIVERIES || bytes >= DELIVERED {
                    self.casts.push_front(cast);
                    self.actions.push_back(Action::Yield);
                    return;
                }
                let slot = cast.slot;
                cast.slot += 1;
                let done = self.cast_to(slot, &mut cast, faults, now);
                deliveries += done;
                bytes += done * cast.cost();
            }
            self.cast_bytes -= cast.cost();
        }
        self.is_casting = false;
        for id in std::mem::take(&mut self.cast_waiters) {
            let Some(c) = self.conn(id) else { continue };
            c.waits_to_cast = false;
            if let Some(session) = &mut c.h2 {
                session.release_casts();
            }
            self.request_transmit(id);
        }
    }

    /// Deliver a message to the connections in a slot. Returns their number.
    fn cast_to(
        &mut self,
        slot: usize,
        cast: &mut Cast,
        faults: BroadcastFaults,
        now: Nanos,
    ) -> usize {
        let Some(id) = self.conns[slot].id(slot as u32) else { return 0 };
        let mut done = 0;
        for (stream, receiver, deflates) in self.receivers(slot) {
            if (id, stream) == cast.publisher || receiver >= cast.before {
                continue;
            }
            let i = usize::from(deflates);
            let frame = match cast.frames[i].take() {
                Some(frame) => frame,
                None => self.message_frame(deflates, cast.opcode, &cast.message),
            };
            self.deliver((id, stream), receiver, (cast, &frame), faults, now);
            cast.frames[i] = Some(frame);
            done += 1;
        }
        if done > 0 {
            self.drop_slow_reader(id, now);
            if self.conn(id).is_some() {
                self.account(id);
                self.request_transmit(id);
            }
        }
        done
    }

    /// Close a connection that does not read what it has subscribed to. Others go on.
    fn drop_slow_reader(&mut self, id: ConnId, now: Nanos) {
        let c = &mut self.conns[id.slot as usize];
        if let Some(session) = &mut c.h2 {
            self.served.overloads += session.drop_slow_sockets(CONNECTION_BUDGET);
        } else if c.backlog() > CONNECTION_BUDGET && !c.lingers {
            self.overload(id, CloseCode::POLICY, now);
        }
    }

    /// The open connections of WebSocket in a slot: the stream of HTTP/2 or 0, the number, and
    /// whether messages are compressed.
    fn receivers(&self, slot: usize) -> Vec<(u32, u64, bool)> {
        let c = &self.conns[slot];
        match (&c.h2, &c.ws) {
            (Some(session), _) => session.receivers(),
            (None, Some(socket)) if c.reads => vec![(0, socket.number, socket.deflates)],
            _ => Vec::new(),
        }
    }

    fn deliver(
        &mut self,
        (id, stream): (ConnId, u32),
        receiver: u64,
        (cast, frame): (&Cast, &[u8]),
        faults: BroadcastFaults,
        now: Nanos,
    ) {
        let seed = self.seed ^ receiver.rotate_left(32);
        let draw =
            |what: Draw| rng::keyed(seed, Stream::Serve, cast.number, cast.k << 8 | what as u64);
        if faults.lose.hits(draw(Draw::Lose)) {
            self.served.deliveries_lost += 1;
            return;
        }
        let Some(kept) = self.held_of(id, stream) else { return };
        if kept.is_none() && faults.swap.hits(draw(Draw::Swap)) {
            *kept = Some(Box::new((cast.number, frame.to_vec())));
            return;
        }
        let held = kept.take_if(|held| held.0 == cast.number);
        let is_twice = faults.duplicate.hits(draw(Draw::Duplicate));
        self.served.deliveries_duplicated += u64::from(is_twice);
        self.served.deliveries_swapped += u64::from(held.is_some());
        let again = is_twice.then(|| frame.to_vec());
        let frames = [Some(frame.to_vec()), again, held.map(|held| held.1)];
        for frame in frames.into_iter().flatten() {
            self.pass_frame((id, stream), frame, now);
        }
    }

    /// The delivery that is held back on a connection.
    fn held_of(&mut self, id: ConnId, stream: u32) -> Option<&mut Held> {
        let c = &mut self.conns[id.slot as usize];
        match &mut c.h2 {
            Some(session) => session.held(stream),
            None => Some(&mut c.held),
        }
    }

    /// Deliver what is held back, as the connection ends.
    pub(super) fn deliver_held(&mut self, id: ConnId, now: Nanos) {
        if let Some(held) = self.conns[id.slot as usize].held.take() {
            self.pass(id, Answer::Bytes(held.1, Counted::Message), now);
        }
    }
}
