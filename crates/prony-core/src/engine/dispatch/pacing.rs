//! Connects begin a few at a time, with a look at the sockets in between. Begun all at once, the
//! first of a thousand would be open long before the meter came to see it: its connect would seem
//! to take as long as the meter needs for all of them, and what comes in meanwhile would wait, too.

use std::collections::VecDeque;

use crate::engine::{Engine, Stage};
use crate::machine::{Action, CloseHow};
use crate::proto::Carrier;
use crate::units::{ConnId, Nanos, Span};

/// As many may begin between two looks at the sockets: a fraction of a millisecond's work.
const FEW: u32 = 16;
/// One more may begin for this number of requests that ended since the last look. A meter with much
/// else to do is away for longer anyway, and would else never come to open all connections.
const ENDED_EACH: u64 = 8;
/// Who begins so few in so long needs no look in between: what there was to see has been seen.
const LONG: Span = Span::from_millis(1);
/// The most that may begin between two looks.
const MOST: u32 = 256;

/// Connections that wait to be opened.
#[derive(Debug)]
pub(in crate::engine) struct Pacing {
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

impl Pacing {
    pub(in crate::engine) fn new() -> Self {
        Self { waiting: VecDeque::new(), room: FEW, since: Nanos::ZERO, yields: false, ended: 0 }
    }

    /// Whether a connect may begin now.
    fn may_begin(&mut self, now: Nanos) -> bool {
        if !self.yields && now.since(self.since) > LONG {
            (self.room, self.since) = (FEW, now);
        }
        let may = self.room > 0;
        self.room -= u32::from(may);
        may
    }

    /// The sockets have been looked at; `ended` requests have ended up to now.
    fn looked(&mut self, now: Nanos, ended: u64) {
        let more = (ended - self.ended) / ENDED_EACH;
        self.yields = false;
        self.since = now;
        self.ended = ended;
        self.room = FEW + more.min(u64::from(MOST - FEW)) as u32;
    }

    /// The next that may begin.
    fn next(&mut self) -> Option<(ConnId, u32)> {
        if self.room == 0 { None } else { self.waiting.pop_front() }
    }
}

impl<P: Carrier> Engine<P> {
    /// Have a connection opened, now or when its turn comes.
    pub(super) fn line_up(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        self.recorder.wants_connection(now);
        if self.pacing.may_begin(now) {
            self.agenda.ask(Action::Connect { id, endpoint });
        } else {
            self.pacing.waiting.push_back((id, endpoint));
            self.links.waits_for_turn(id.slot);
            self.ask_for_turn();
        }
    }

    /// The sockets have been looked at: the next ones may begin.
    pub(in crate::engine) fn next_turn(&mut self, now: Nanos) {
        self.pacing.looked(now, self.recorder.ended());
        while let Some((id, endpoint)) = self.pacing.next() {
            if self.links.live(id) {
                self.begin_connect(id, endpoint, now);
            }
        }
        if !self.pacing.waiting.is_empty() {
            self.ask_for_turn();
        }
        self.let_users_begin(now);
    }

    fn begin_connect(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        let pooled = self.dispatch.is_shared() && !self.carrier.opens();
        if pooled && self.links.in_flight(id.slot) == 0 {
            // All who wanted it have given up.
            self.release(id.slot, CloseHow::Orderly, now);
            return;
        }
        self.connect_begins(id.slot, now);
        self.pacing.room -= 1;
        self.agenda.ask(Action::Connect { id, endpoint });
    }

    /// The users of a closed loop begin, each when the meter comes to open their connection: before
    /// that they want nothing, so that no response time counts the meter's way to them.
    pub(in crate::engine) fn let_users_begin(&mut self, now: Nanos) {
        while self.pacing.room > 0 && self.stage == Stage::Running {
            if !self.begin_next_user(now) {
                return;
            }
        }
        if self.stage == Stage::Running && self.load.to_begin() > 0 {
            self.ask_for_turn();
        }
    }

    pub(in crate::engine) fn ask_for_turn(&mut self) {
        if !self.pacing.yields {
            self.pacing.yields = true;
            self.agenda.ask(Action::Yield);
        }
    }
}
