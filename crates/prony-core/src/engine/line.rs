//! Connects begin a few at a time, with a look at the sockets in between. Begun all at once, the
//! first of a thousand would be open long before the meter came to see it: its connect would seem
//! to take as long as the meter needs for all of them, and what comes in meanwhile would wait, too.

use std::collections::VecDeque;

use super::source::Source;
use super::{Engine, Stage};
use crate::machine::{Action, CloseHow};
use crate::proto::Protocol;
use crate::units::{ConnId, Nanos, Span};

/// As many may begin between two looks at the sockets: a fraction of a millisecond's work.
const FEW: u32 = 16;
/// One more for so many requests that ended since the last look. A meter with much else to do is
/// away for longer anyway, and would else never come to open all connections.
const ENDED_EACH: u64 = 8;
/// Who begins so few in so long needs no look in between: what there was to see has been seen.
const LONG: Span = Span::from_millis(1);
/// Never more than so many.
const MOST: u32 = 256;

/// Connections that wait to be opened.
#[derive(Debug)]
pub(super) struct Line {
    waiting: VecDeque<(ConnId, u32)>,
    /// How many may begin before the next look at the sockets.
    room: u32,
    /// Since when.
    since: Nanos,
    /// The driver is asked for one.
    yields: bool,
    /// Requests that had ended by the last one.
    ended: u64,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), room: FEW, since: Nanos::ZERO, yields: false, ended: 0 }
    }
}

impl<P: Protocol> Engine<P> {
    /// Have a connection opened, now or when its turn comes.
    pub(super) fn line_up(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        self.recorder.wants_connection(now);
        let line = &mut self.line;
        if !line.yields && now.since(line.since) > LONG {
            (line.room, line.since) = (FEW, now);
        }
        if line.room > 0 {
            line.room -= 1;
            self.actions.push_back(Action::Connect { id, endpoint });
        } else {
            line.waiting.push_back((id, endpoint));
            self.conns[id.slot].in_line = true;
            self.ask_for_turn();
        }
    }

    /// The sockets have been looked at: the next ones may begin.
    pub(super) fn next_turn(&mut self, now: Nanos) {
        let ended = self.recorder.ended();
        let more = (ended - self.line.ended) / ENDED_EACH;
        self.line.yields = false;
        self.line.since = now;
        self.line.ended = ended;
        self.line.room = FEW + more.min(u64::from(MOST - FEW)) as u32;
        while self.line.room > 0
            && let Some((id, endpoint)) = self.line.waiting.pop_front()
        {
            if self.conns.live(id) {
                self.begin_connect(id, endpoint, now);
            }
        }
        if !self.line.waiting.is_empty() {
            self.ask_for_turn();
        }
        self.let_users_begin(now);
    }

    fn begin_connect(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        let pooled = matches!(self.source, Source::Open(_)) && !self.proto.greets();
        let conn = &mut self.conns[id.slot];
        if pooled && conn.flights.is_empty() {
            // All who wanted it have given up.
            self.release(id.slot, CloseHow::Orderly, now);
            return;
        }
        conn.in_line = false;
        conn.connect_began = now;
        for flight in &mut conn.flights {
            // Until here they waited for the meter, and not for the connection.
            flight.waits_until = flight.waits_until.max(now);
        }
        self.arm(id.slot, now + self.plan.connect_timeout);
        self.line.room -= 1;
        self.actions.push_back(Action::Connect { id, endpoint });
    }

    /// The users of a closed loop begin, each when the meter comes to open their connection: before
    /// that they want nothing, so that no response time counts the meter's way to them.
    pub(super) fn let_users_begin(&mut self, now: Nanos) {
        while self.line.room > 0 && self.stage == Stage::Running {
            let begins = match &mut self.source {
                Source::Closed(users) => match users.next_to_begin() {
                    Some(user) => {
                        self.begin_user(user, now, now);
                        true
                    }
                    None => false,
                },
                Source::Open(_) => false,
                Source::Sessions(_) => self.begin_guest(now),
            };
            if !begins {
                return;
            }
        }
        if self.stage == Stage::Running && self.source.to_begin() > 0 {
            self.ask_for_turn();
        }
    }

    pub(super) fn ask_for_turn(&mut self) {
        if !self.line.yields {
            self.line.yields = true;
            self.actions.push_back(Action::Yield);
        }
    }
}
