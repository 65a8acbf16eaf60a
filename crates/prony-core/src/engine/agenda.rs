//! What the engine asks of its driver next, and when it wants to be called again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::machine::Action;
use crate::units::{ConnId, Nanos};

/// No connection.
const NOTHING: ConnId = ConnId { slot: u32::MAX, generation: 0 };

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The load begins.
    Begin,
    /// The connection in that slot may have run out of time.
    Slot(u32),
    /// The user has thought enough.
    User(u32),
    /// The session has thought enough.
    Think(u32),
    /// Requests of the session that wait for a connection may have run out of time.
    Session(u32),
}

/// Actions in their order, and deadlines.
#[derive(Debug)]
pub(super) struct Agenda {
    /// A connection that has bytes to send and comes before all actions; its slot is no slot where
    /// there is none. Mostly there is one, and nothing else, so it spares the queue.
    first: ConnId,
    actions: VecDeque<Action>,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self {
            first: NOTHING,
            actions: VecDeque::with_capacity(64),
            timers: BinaryHeap::with_capacity(64),
        }
    }

    #[inline]
    pub(super) fn ask(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// The connection has bytes to send.
    #[inline]
    pub(super) fn ask_for_output(&mut self, id: ConnId) {
        if self.first == NOTHING && self.actions.is_empty() {
            self.first = id;
        } else {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// The connection that comes before all actions, if there is one.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<ConnId> {
        let first = std::mem::replace(&mut self.first, NOTHING);
        (first.slot != NOTHING.slot).then_some(first)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What the driver has not yet been asked for it is never asked for.
    pub(super) fn finish(&mut self) {
        self.first = NOTHING;
        self.actions.clear();
        self.actions.push_back(Action::Finished);
    }

    #[inline]
    pub(super) fn wake(&mut self, at: Nanos, timer: Timer) {
        self.timers.push(Reverse((at, timer)));
    }

    /// When the next deadline is; `Nanos::MAX`: never.
    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// The next deadline that has passed.
    #[inline]
    pub(super) fn due(&mut self, now: Nanos) -> Option<(Nanos, Timer)> {
        if self.deadline() > now {
            return None;
        }
        self.timers.pop().map(|Reverse(due)| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnId {
        ConnId { slot, generation: 3 }
    }

    #[test]
    fn output_that_is_asked_for_alone_comes_first_and_once() {
        let mut agenda = Agenda::new();
        agenda.ask_for_output(id(1));
        agenda.ask_for_output(id(2));
        agenda.ask(Action::Yield);
        assert_eq!((agenda.take_first(), agenda.take_first()), (Some(id(1)), None));
        assert_eq!(agenda.next(), Some(Action::Transmit { id: id(2) }));
        // Behind an action it has to wait for its turn.
        agenda.ask_for_output(id(3));
        assert_eq!(agenda.take_first(), None);
        assert_eq!(agenda.next(), Some(Action::Yield));
        assert_eq!(agenda.next(), Some(Action::Transmit { id: id(3) }));
        agenda.ask_for_output(id(4));
        agenda.finish();
        assert_eq!(agenda.take_first(), None);
        assert_eq!((agenda.next(), agenda.is_empty()), (Some(Action::Finished), true));
    }

    #[test]
    fn deadlines_come_in_their_order_when_they_have_passed() {
        let mut agenda = Agenda::new();
        assert_eq!(agenda.deadline(), Nanos::MAX);
        agenda.wake(Nanos(20), Timer::User(1));
        agenda.wake(Nanos(10), Timer::Slot(2));
        assert_eq!((agenda.deadline(), agenda.due(Nanos(9))), (Nanos(10), None));
        assert_eq!(agenda.due(Nanos(30)), Some((Nanos(10), Timer::Slot(2))));
        assert_eq!(agenda.due(Nanos(30)), Some((Nanos(20), Timer::User(1))));
        assert_eq!(agenda.due(Nanos(30)), None);
    }
}
