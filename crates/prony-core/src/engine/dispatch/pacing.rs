//! Connects start in batches, and the sockets are checked in between. If a thousand connects
//! started at once, the first connection would be open long before the meter could notice: its
//! connect time would include the start of all others, and events in the meantime would wait, too.

use std::collections::VecDeque;

use super::Fruitless;
use crate::engine::agenda::Timer;
use crate::engine::{Engine, Stage};
use prony_base::machine::{Action, CloseHow};
use prony_base::units::{ConnId, Nanos, Span};
use prony_plan::plan::Plan;
use prony_proto::proto::Carrier;

/// How many connects may start between two checks of the sockets: a fraction of a millisecond's
/// work.
const BATCH: u32 = 16;
/// One more may start for every `ENDED_EACH` requests that have ended since the last check. A busy
/// meter spends longer between two checks anyway, and would otherwise take too long to open all
/// connections.
const ENDED_EACH: u64 = 8;
/// If the last check is longer ago than this, connects may start without another one.
const IDLE_TIME: Span = Span::from_millis(1);
/// The most connects that may start between two checks.
const MAX_BATCH: u32 = 256;

/// Connections that wait to be opened.
#[derive(Debug)]
pub(in crate::engine) struct Pacing {
    waiting: VecDeque<(ConnId, u32)>,
    /// How many may start before the next check of the sockets.
    room: u32,
    /// When `room` was last set.
    since: Nanos,
    /// The driver has been asked for a check.
    yields: bool,
    /// How many requests had ended by the last check.
    ended: u64,
    /// Connects that wait because the connections before them came to nothing.
    pub(in crate::engine) fruitless: Fruitless,
}

impl Pacing {
    pub(in crate::engine) fn new(plan: &Plan) -> Self {
        Self {
            waiting: VecDeque::new(),
            room: BATCH,
            since: Nanos::ZERO,
            yields: false,
            ended: 0,
            fruitless: Fruitless::new(plan),
        }
    }

    /// A connect may start with the next check of the sockets.
    pub(super) fn wait(&mut self, id: ConnId, endpoint: u32) {
        self.waiting.push_back((id, endpoint));
    }

    /// Whether a connect may start now.
    fn may_start(&mut self, now: Nanos) -> bool {
        if !self.yields && now.since(self.since) > IDLE_TIME {
            (self.room, self.since) = (BATCH, now);
        }
        let may = self.room > 0;
        self.room -= u32::from(may);
        may
    }

    /// The sockets have been checked; `ended` requests have ended up to now.
    fn looked(&mut self, now: Nanos, ended: u64) {
        let more = (ended - self.ended) / ENDED_EACH;
        self.yields = false;
        self.since = now;
        self.ended = ended;
        self.room = BATCH + more.min(u64::from(MAX_BATCH - BATCH)) as u32;
    }

    /// The next connection that may be opened.
    fn next(&mut self) -> Option<(ConnId, u32)> {
        if self.room == 0 { None } else { self.waiting.pop_front() }
    }
}

impl<P: Carrier> Engine<P> {
    /// Open a connection, now or after other connects.
    pub(super) fn queue_connect(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        self.recorder.wants_connection(now);
        if let Some(until) = self.pacing.fruitless.hold(id, endpoint, now) {
            self.recorder.connect_held(now);
            self.links.connect_is_queued(id.slot);
            self.agenda.wake(until, Timer::Connects);
        } else if self.pacing.may_start(now) {
            self.agenda.ask(Action::Connect { id, endpoint });
        } else {
            self.pacing.wait(id, endpoint);
            self.links.connect_is_queued(id.slot);
            self.ask_for_turn();
        }
    }

    /// The sockets have been checked: start the next connects.
    pub(in crate::engine) fn next_turn(&mut self, now: Nanos) {
        self.pacing.looked(now, self.recorder.ended());
        while let Some((id, endpoint)) = self.pacing.next() {
            if self.links.live(id) {
                self.start_connect(id, endpoint, now);
            }
        }
        if !self.pacing.waiting.is_empty() {
            self.ask_for_turn();
        }
        self.start_users(now);
    }

    fn start_connect(&mut self, id: ConnId, endpoint: u32, now: Nanos) {
        let pooled = self.dispatch.is_shared() && !self.carrier.opens();
        if pooled && self.links.in_flight(id.slot) == 0 {
            // All requests that waited for it have given up.
            self.release(id.slot, CloseHow::Orderly, now);
            return;
        }
        self.connect_starts(id.slot, now);
        self.pacing.room -= 1;
        self.agenda.ask(Action::Connect { id, endpoint });
    }

    /// Start the users of a closed loop, each when their connection is opened. They request nothing
    /// before, so that no response time includes the wait for other connects.
    pub(in crate::engine) fn start_users(&mut self, now: Nanos) {
        while self.pacing.room > 0 && self.stage == Stage::Running {
            if !self.start_next_user(now) {
                return;
            }
        }
        if self.stage == Stage::Running && self.load.not_started() > 0 {
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
