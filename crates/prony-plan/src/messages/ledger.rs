//! The messages of one stream that were sent, and the replies to them.

use std::collections::VecDeque;

use prony_base::units::{Nanos, Span};

/// What is known about the messages of one stream. Reused for stream after stream, so that nothing
/// is allocated once it has seen its longest queue.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The intended times of messages that wait to be written.
    unwritten: VecDeque<Nanos>,
    /// Messages whose reply has not arrived, oldest first.
    awaiting: VecDeque<Awaited>,
    /// When the last message of the reply arrived; `None`: none has.
    last: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    intended: Nanos,
    sent: Nanos,
    /// What the reply must have in common with it.
    token: u64,
}

/// A message that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its intended time.
    pub intended: Nanos,
    /// How late it was written.
    pub lag: Span,
}

/// The message to which a reply has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Its intended time.
    pub intended: Nanos,
    /// From its intended time to the reply.
    pub response: Span,
    /// From the time at which it was written to the reply.
    pub service: Span,
}

impl Ledger {
    /// Forget the last stream.
    pub fn clear(&mut self) {
        self.unwritten.clear();
        self.awaiting.clear();
        self.last = None;
    }

    /// A message is due since `intended`.
    pub fn due(&mut self, intended: Nanos) {
        self.unwritten.push_back(intended);
    }

    /// The oldest message that is due is written. A reply with the same token is awaited if
    /// `awaits`.
    pub fn written(&mut self, now: Nanos, token: u64, awaits: bool) -> Option<Written> {
        let intended = self.unwritten.pop_front()?;
        if awaits {
            self.awaiting.push_back(Awaited { intended, sent: now, token });
        }
        Some(Written { intended, lag: now.since(intended) })
    }

    /// Forget the messages that are due and not written. Returns how many there were.
    pub fn take_unwritten(&mut self) -> u64 {
        let all = self.unwritten.len() as u64;
        self.unwritten.clear();
        all
    }

    /// Whether no message of the reply has arrived.
    pub fn is_empty_handed(&self) -> bool {
        self.last.is_none()
    }

    /// A message of the reply has arrived. Returns when the one before it did.
    pub fn arrived(&mut self, now: Nanos) -> Option<Nanos> {
        self.last.replace(now)
    }

    /// The oldest message with this token has its reply; `None`: no such message is awaited.
    pub fn matched(&mut self, token: u64, now: Nanos) -> Option<Matched> {
        let is_it = |message: &Awaited| message.token == token;
        // Mostly it is the oldest one.
        let found = match self.awaiting.front() {
            Some(oldest) if is_it(oldest) => self.awaiting.pop_front(),
            _ => self.awaiting.remove(self.awaiting.iter().position(is_it)?),
        };
        let Awaited { intended, sent, .. } = found?;
        Some(Matched { intended, response: now.since(intended), service: now.since(sent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_belong_to_the_oldest_message_with_their_token() {
        let mut ledger = Ledger::default();
        for (at, token) in [(10, 1), (20, 2), (30, 1)] {
            ledger.due(Nanos(at));
            let written = ledger.written(Nanos(at + 5), token, true);
            assert_eq!(written, Some(Written { intended: Nanos(at), lag: Span(5) }));
        }
        assert_eq!(ledger.written(Nanos(40), 1, true), None);
        let of = |intended, response, service| {
            Some(Matched {
                intended: Nanos(intended),
                response: Span(response),
                service: Span(service),
            })
        };
        assert_eq!(ledger.matched(2, Nanos(50)), of(20, 30, 25));
        assert_eq!(ledger.matched(1, Nanos(50)), of(10, 40, 35));
        assert_eq!(ledger.matched(2, Nanos(50)), None);
        assert_eq!(ledger.matched(1, Nanos(60)), of(30, 30, 25));
        assert_eq!((ledger.arrived(Nanos(7)), ledger.arrived(Nanos(9))), (None, Some(Nanos(7))));
        ledger.due(Nanos(70));
        assert_eq!((ledger.take_unwritten(), ledger.take_unwritten()), (1, 0));
        ledger.due(Nanos(70));
        ledger.clear();
        assert_eq!((ledger.written(Nanos(70), 0, true), ledger.arrived(Nanos(80))), (None, None));
    }

    #[test]
    fn does_not_await_replies_that_are_not_matched() {
        let mut ledger = Ledger::default();
        ledger.due(Nanos(1));
        assert!(ledger.written(Nanos(1), 0, false).is_some());
        assert_eq!(ledger.matched(0, Nanos(2)), None);
    }
}
