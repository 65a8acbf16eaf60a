//! Broadcasts of WebSocket: each message of a connection is sent to all others, unless the server
//! is to make mistakes.

use std::fmt;

use super::behavior::Draw;
use super::conn::{Answer, Counted};
use super::ws::SocketBehavior;
use super::{Serve, Share};
use crate::rng::{self, Stream};
use crate::units::{ConnId, Nanos};
use crate::websocket::Opcode;

/// The mistakes of a server that broadcasts, as shares of its deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BroadcastFaults {
    /// Deliveries that are left out.
    pub lose: Share,
    /// Deliveries that are made twice.
    pub duplicate: Share,
    /// Deliveries that are held back until the next message of the same publisher has been
    /// delivered.
    pub swap: Share,
}

/// A delivery that is held back, and the number of its publisher.
pub(super) type Held = Option<Box<(u64, Vec<u8>)>>;

/// A message that is to be sent to all connections but that of its publisher.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) publisher: (ConnId, u32),
    /// The number of the handshake of its publisher, and its own number on that connection.
    pub(super) number: u64,
    pub(super) k: u64,
    pub(super) opcode: Opcode,
    pub(super) message: Vec<u8>,
}

impl BroadcastFaults {
    /// Parse what follows `broadcast`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const WHY: &str = "lose, duplicate and swap may follow a colon, each with a share";
        let mut faults = Self::default();
        if text.is_empty() {
            return Ok(faults);
        }
        for item in text.strip_prefix(':').ok_or(WHY)?.split(',') {
            let (name, share) = item.split_once('=').ok_or(WHY)?;
            let share = share.parse().map_err(|_| "a share is not between 0 and 1")?;
            match name.trim() {
                "lose" => faults.lose = share,
                "duplicate" => faults.duplicate = share,
                "swap" => faults.swap = share,
                _ => return Err(WHY),
            }
        }
        Ok(faults)
    }
}

impl fmt::Display for BroadcastFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("lose", self.lose), ("duplicate", self.duplicate), ("swap", self.swap)];
        let made = all.into_iter().filter(|(_, share)| *share != Share::NEVER);
        for (i, (name, share)) in made.enumerate() {
            write!(f, "{}{name}={share}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl Serve {
    /// Send the messages that are ready for it to all others.
    pub(super) fn broadcast(&mut self, now: Nanos) {
        let Some(SocketBehavior::Broadcast(faults)) = self.behavior.ws else { return };
        for cast in std::mem::take(&mut self.casts) {
            // Each form is made once.
            let mut frames = [None, None];
            for slot in 0..self.conns.len() {
                let Some(id) = self.conns[slot].id(slot as u32) else { continue };
                for (stream, receiver, deflates) in self.receivers(slot) {
                    if (id, stream) == cast.publisher {
                        continue;
                    }
                    let frame = frames[usize::from(deflates)].get_or_insert_with(|| {
                        self.message_frame(deflates, cast.opcode, &cast.message)
                    });
                    self.deliver((id, stream), receiver, (&cast, frame), faults, now);
                    self.request_transmit(id);
                }
            }
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
