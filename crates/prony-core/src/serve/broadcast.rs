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

/// A message that is to be sent to all connections but that of its publisher.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) publisher: ConnId,
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
                let c = &self.conns[slot];
                if id != cast.publisher && c.reads && c.ws.is_some() {
                    let deflates = c.ws.as_deref().is_some_and(|socket| socket.deflates);
                    let frame = frames[usize::from(deflates)].get_or_insert_with(|| {
                        self.message_frame(deflates, cast.opcode, &cast.message)
                    });
                    self.deliver(id, (&cast, frame), faults, now);
                    self.request_transmit(id);
                }
            }
        }
    }

    fn deliver(
        &mut self,
        id: ConnId,
        (cast, frame): (&Cast, &[u8]),
        faults: BroadcastFaults,
        now: Nanos,
    ) {
        let c = &mut self.conns[id.slot as usize];
        let receiver = c.ws.as_deref().map_or(0, |socket| socket.number);
        let seed = self.seed ^ receiver.rotate_left(32);
        let draw =
            |what: Draw| rng::keyed(seed, Stream::Serve, cast.number, cast.k << 8 | what as u64);
        if faults.lose.hits(draw(Draw::Lose)) {
            self.served.deliveries_lost += 1;
            return;
        }
        if c.held.is_none() && faults.swap.hits(draw(Draw::Swap)) {
            c.held = Some(Box::new((cast.number, frame.to_vec())));
            return;
        }
        let held = c.held.take_if(|held| held.0 == cast.number);
        let is_twice = faults.duplicate.hits(draw(Draw::Duplicate));
        self.served.deliveries_duplicated += u64::from(is_twice);
        self.served.deliveries_swapped += u64::from(held.is_some());
        let again = is_twice.then(|| frame.to_vec());
        let frames = [Some(frame.to_vec()), again, held.map(|held| held.1)];
        for frame in frames.into_iter().flatten() {
            self.pass(id, Answer::Bytes(frame, Counted::Message), now);
        }
    }

    /// Deliver what is held back, as the connection ends.
    pub(super) fn deliver_held(&mut self, id: ConnId, now: Nanos) {
        if let Some(held) = self.conns[id.slot as usize].held.take() {
            self.pass(id, Answer::Bytes(held.1, Counted::Message), now);
        }
    }
}
