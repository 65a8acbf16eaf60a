//! The stamps in what connections send and receive: of broadcasts, and of messages whose replies
//! are known by them.

use std::collections::VecDeque;

use memchr::memmem;

use crate::proto::Sink;
use prony_base::units::{Nanos, RequestId};
use prony_plan::messages::{STAMP_LENGTH, Stamp, StampFinder};
use prony_plan::plan::{BroadcastPlan, Plan};

/// How messages are stamped.
#[derive(Debug)]
pub(super) struct Stamping {
    /// How many connections publish; `None`: each connection receives the replies to what it sends.
    publishers: Option<u32>,
    seed: u64,
    /// What is before and after the stamp in the message of each call.
    texts: Vec<(Vec<u8>, Vec<u8>)>,
    /// The message that was stamped last.
    message: Vec<u8>,
}

/// What a connection sends and receives.
#[derive(Debug)]
pub(super) struct Part {
    kind: Kind,
    /// Its number in the run, which is that of the publisher in its stamps.
    number: u32,
    /// How many messages it has sent.
    sent: u32,
    /// The intended times of those that are due.
    due: VecDeque<Nanos>,
    /// The numbers of those that were sent and have no reply.
    awaited: VecDeque<u32>,
    finder: StampFinder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It sends messages of a broadcast.
    Publisher,
    /// It receives messages of a broadcast.
    Subscriber,
    /// It receives the replies to what it sends.
    Caller,
}

/// The token of a message that replies to none.
const NO_TOKEN: u64 = u64::MAX;

impl Part {
    /// Whether it is a subscriber of a broadcast.
    pub(super) fn subscribes(&self) -> bool {
        self.kind == Kind::Subscriber
    }

    /// Messages are due since these times.
    pub(super) fn due(&mut self, times: &[Nanos]) {
        self.due.extend(times);
    }

    /// A piece of a message has arrived.
    pub(super) fn piece(&mut self, stamping: &Stamping, piece: &[u8]) {
        if self.kind != Kind::Publisher {
            self.finder.piece(stamping.seed, piece);
        }
    }

    /// A message is complete. Returns whether it is an awaited reply, and its token.
    pub(super) fn end(&mut self, id: RequestId, sink: &mut impl Sink) -> (bool, u64) {
        let stamp = self.finder.end();
        match self.kind {
            Kind::Publisher => (false, NO_TOKEN),
            Kind::Subscriber => {
                sink.delivered(id, stamp);
                (false, NO_TOKEN)
            }
            Kind::Caller => {
                let stamp = stamp.filter(|stamp| stamp.publisher == self.number);
                let number = stamp.map(|stamp| stamp.sequence);
                match self.awaited.iter().position(|awaited| Some(*awaited) == number) {
                    Some(place) => {
                        let sequence = self.awaited.remove(place).unwrap_or_default();
                        (true, token(self.number, sequence))
                    }
                    None => (false, NO_TOKEN),
                }
            }
        }
    }
}

impl Stamping {
    /// `None`: messages have no stamps.
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let broadcast = plan.broadcast();
        if broadcast.is_none() && !plan.matches_by_token() {
            return None;
        }
        Some(Self {
            publishers: broadcast.map(|broadcast| broadcast.publishers),
            seed: broadcast.map_or(plan.seed, |broadcast| broadcast.stamp_seed(plan.seed)),
            texts: plan.calls.iter().map(|call| around_stamp(&call.body)).collect(),
            message: Vec::new(),
        })
    }

    /// The part of the connection with this number.
    pub(super) fn part(&self, number: u64) -> Part {
        let kind = match self.publishers {
            None => Kind::Caller,
            Some(publishers) if number < publishers.into() => Kind::Publisher,
            Some(_) => Kind::Subscriber,
        };
        let (due, awaited) = (VecDeque::new(), VecDeque::new());
        let finder = StampFinder::default();
        Part { kind, number: number as u32, sent: 0, due, awaited, finder }
    }

    /// The next message of a connection, with the token by which the engine knows it. `own`: its
    /// text, if it was made for this connection.
    pub(super) fn stamp(
        &mut self,
        part: &mut Part,
        call: u32,
        own: Option<&[u8]>,
        now: Nanos,
    ) -> (u64, &[u8]) {
        let (number, sequence) = (part.number, part.sent);
        part.sent += 1;
        if part.kind == Kind::Caller {
            part.awaited.push_back(sequence);
        }
        let intended = part.due.pop_front().unwrap_or(now);
        let made;
        let (before, after) = match own {
            None => &self.texts[call as usize],
            Some(own) => {
                made = around_stamp(own);
                &made
            }
        };
        self.message.clear();
        self.message.reserve(before.len() + STAMP_LENGTH + after.len());
        self.message.extend_from_slice(before);
        let stamp = Stamp { publisher: number, sequence, intended, sent: now };
        stamp.write(self.seed, &mut self.message);
        self.message.extend_from_slice(after);
        (token(number, sequence), &self.message)
    }
}

fn token(number: u32, sequence: u32) -> u64 {
    u64::from(number) << 32 | u64::from(sequence)
}

/// What is before and after the stamp in a message with this text.
fn around_stamp(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match memmem::find(text, BroadcastPlan::PLACE) {
        Some(at) => (text[..at].to_vec(), text[at + BroadcastPlan::PLACE.len()..].to_vec()),
        None => (Vec::new(), [b" ", text].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_the_place_in_a_message_that_it_gives_them() {
        let parts = |before: &[u8], after: &[u8]| (before.to_vec(), after.to_vec());
        assert_eq!(around_stamp(b"hello"), parts(b"", b" hello"));
        assert_eq!(around_stamp(b"{{stamp}}"), parts(b"", b""));
        assert_eq!(around_stamp(b"{\"m\":\"{{stamp}}!\"}"), parts(b"{\"m\":\"", b"!\"}"));
    }
}
