//! The engine's queue of actions for its driver, and its timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use prony_base::machine::Action;
use prony_base::units::{ConnId, Nanos};

/// No connection.
const NOTHING: ConnId = ConnId { slot: u32::MAX, generation: 0 };

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The load starts.
    Start,
    /// The connection in this slot may have timed out.
    Slot(u32),
    /// The user's think time is over.
    User(u32),
    /// The next user of a ramp starts.
    Join,
    /// The session's pause is over.
    Think(u32),
    /// The client of a closed loop gives up.
    Client(u32),
    /// Requests of the session that wait for a connection may have timed out.
    Session(u32),
    /// A message of the exchange in this slot may be due.
    Message(u32),
    /// The stream of the exchange in this slot may have lasted long enough.
    Stream(u32),
    /// The stream of the exchange in this slot is to be opened again.
    Reopen(u32),
    /// The close of the connection in this slot has waited long enough.
    Closing(u32),
    /// Connects that were held back may start.
    Connects,
    /// The load may end because its target cannot be reached.
    Contact,
}

/// Actions in order, and timers.
#[derive(Debug)]
pub(super) struct Agenda {
    /// A connection with bytes to send, which goes before all actions; `NOTHING` if there is none.
    /// In most turns it is the only action, so the queue is not needed.
    first: ConnId,
    actions: VecDeque<Action>,
    timers: BinaryHeap<Reverse<Entry>>,
}

/// A timer and its deadline as one number, in the order of deadlines: numbers are compared faster,
/// and most of the heap's work is to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    #[inline]
    fn new(Nanos(at): Nanos, timer: Timer) -> Self {
        let (kind, slot) = match timer {
            Timer::Start => (0, 0),
            Timer::Slot(slot) => (1, slot),
            Timer::User(user) => (2, user),
            Timer::Join => (3, 0),
            Timer::Think(session) => (4, session),
            Timer::Client(client) => (5, client),
            Timer::Session(session) => (6, session),
            Timer::Message(slot) => (7, slot),
            Timer::Stream(slot) => (8, slot),
            Timer::Reopen(slot) => (9, slot),
            Timer::Closing(slot) => (10, slot),
            Timer::Connects => (11, 0),
            Timer::Contact => (12, 0),
        };
        Self(u128::from(at) << 64 | kind << 32 | u128::from(slot))
    }

    #[inline]
    fn at(self) -> Nanos {
        Nanos((self.0 >> 64) as u64)
    }

    #[inline]
    fn timer(self) -> Timer {
        let slot = self.0 as u32;
        match (self.0 >> 32) as u32 {
            0 => Timer::Start,
            1 => Timer::Slot(slot),
            2 => Timer::User(slot),
            3 => Timer::Join,
            4 => Timer::Think(slot),
            5 => Timer::Client(slot),
            6 => Timer::Session(slot),
            7 => Timer::Message(slot),
            8 => Timer::Stream(slot),
            9 => Timer::Reopen(slot),
            10 => Timer::Closing(slot),
            11 => Timer::Connects,
            _ => Timer::Contact,
        }
    }
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
        if self.first.slot == NOTHING.slot && self.actions.is_empty() {
            self.first = id;
        } else {
            self.actions.push_back(Action::Transmit { id });
        }
    }

    /// Take the connection that goes before all actions, if there is one.
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

    /// Finish when the driver has taken the bytes that are ready, such as the answer to a peer that
    /// says goodbye. Discard all other actions.
    pub(super) fn finish(&mut self) {
        self.actions.retain(|action| matches!(action, Action::Transmit { .. }));
        self.actions.push_back(Action::Finished);
    }

    /// Discard all actions that the driver has not taken, and finish.
    pub(super) fn finish_at_once(&mut self) {
        self.first = NOTHING;
        self.actions.clear();
        self.actions.push_back(Action::Finished);
    }

    #[inline]
    pub(super) fn wake(&mut self, at: Nanos, timer: Timer) {
        self.timers.push(Reverse(Entry::new(at, timer)));
    }

    /// The next deadline; `Nanos::MAX` if there is none.
    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        self.timers.peek().map_or(Nanos::MAX, |Reverse(entry)| entry.at())
    }

    /// Take the next timer whose deadline has passed.
    #[inline]
    pub(super) fn due(&mut self, now: Nanos) -> Option<(Nanos, Timer)> {
        if self.deadline() > now {
            return None;
        }
        self.timers.pop().map(|Reverse(entry)| (entry.at(), entry.timer()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnId {
        ConnId { slot, generation: 3 }
    }

    #[test]
    fn a_single_transmit_skips_the_queue_once() {
        let mut agenda = Agenda::new();
        agenda.ask_for_output(id(1));
        agenda.ask_for_output(id(2));
        agenda.ask(Action::Yield);
        assert_eq!((agenda.take_first(), agenda.take_first()), (Some(id(1)), None));
        assert_eq!(agenda.next(), Some(Action::Transmit { id: id(2) }));
        // If another action waits, it is queued after it.
        agenda.ask_for_output(id(3));
        assert_eq!(agenda.take_first(), None);
        assert_eq!(agenda.next(), Some(Action::Yield));
        assert_eq!(agenda.next(), Some(Action::Transmit { id: id(3) }));
        agenda.ask_for_output(id(4));
        agenda.finish_at_once();
        assert_eq!(agenda.take_first(), None);
        assert_eq!((agenda.next(), agenda.is_empty()), (Some(Action::Finished), true));
    }

    #[test]
    fn what_is_ready_is_sent_before_the_end() {
        let mut agenda = Agenda::new();
        agenda.ask_for_output(id(1));
        agenda.ask(Action::Yield);
        agenda.ask(Action::Connect { id: id(2), endpoint: 0 });
        agenda.ask_for_output(id(3));
        agenda.finish();
        assert_eq!(agenda.take_first(), Some(id(1)));
        assert_eq!(agenda.next(), Some(Action::Transmit { id: id(3) }));
        assert_eq!((agenda.next(), agenda.is_empty()), (Some(Action::Finished), true));
    }

    #[test]
    fn timers_fire_in_order_of_their_deadlines() {
        let mut agenda = Agenda::new();
        assert_eq!(agenda.deadline(), Nanos::MAX);
        agenda.wake(Nanos(20), Timer::User(1));
        agenda.wake(Nanos(10), Timer::Slot(2));
        assert_eq!((agenda.deadline(), agenda.due(Nanos(9))), (Nanos(10), None));
        assert_eq!(agenda.due(Nanos(30)), Some((Nanos(10), Timer::Slot(2))));
        assert_eq!(agenda.due(Nanos(30)), Some((Nanos(20), Timer::User(1))));
        assert_eq!(agenda.due(Nanos(30)), None);
    }

    #[test]
    fn timers_with_one_deadline_fire_in_the_order_of_their_kinds() {
        let kinds = [
            Timer::Slot,
            Timer::User,
            Timer::Think,
            Timer::Client,
            Timer::Session,
            Timer::Message,
            Timer::Stream,
            Timer::Reopen,
            Timer::Closing,
        ];
        let mut all = vec![Timer::Start, Timer::Join];
        all.extend(kinds.iter().flat_map(|kind| [kind(0), kind(7), kind(u32::MAX)]));
        let mut agenda = Agenda::new();
        all.iter().rev().for_each(|timer| agenda.wake(Nanos(u64::MAX - 1), *timer));
        let fired: Vec<Timer> =
            std::iter::from_fn(|| agenda.due(Nanos::MAX)).map(|(_, timer)| timer).collect();
        let (start, join) = (Timer::Start, Timer::Join);
        assert_eq!((fired[0], fired[7], fired.len()), (start, join, all.len()));
        all.retain(|timer| ![start, join].contains(timer));
        assert_eq!([&fired[1..7], &fired[8..]].concat(), all);
    }
}
