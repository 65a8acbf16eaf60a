//! Bounds of an open loop that the meter cannot keep up with: on the work of one turn, so that
//! sockets, deadlines and signals are served at any rate, and on the memory of what waits.
//!
//! Arrivals that are due start a few at a time, with a look at the sockets in between. Those that
//! find no connection wait in the backlog. Where it has no room for what is due, that is dropped:
//! it fails unsent, by [`Fault::Dropped`], and is counted. Arrivals that the meter has not come to
//! cost no memory, but they would need it, so they count against the room all the same.

use super::Kind;
use super::cycle::pick;
use super::sessions::Session;
use crate::engine::exchange::{Exchange, NOBODY, New};
use crate::engine::{Engine, Stage};
use crate::fault::Fault;
use crate::proto::Carrier;
use crate::record::SessionEnd;
use crate::schedule::Skipped;
use crate::units::{Nanos, RequestId, Span};

/// As many arrivals start between two looks at the sockets.
const FEW: u32 = 256;
/// For so long after the end of the load arrivals that were due before it still start.
const CATCH_UP: Span = Span::from_millis(500);
/// A run that has dropped something waits for replies for so long after the end of the load.
const OVERLOADED: Span = Span::from_secs(1);
/// As many are looked at one by one before the rest is counted together.
const ONE_BY_ONE: u32 = 1 << 16;
/// Arrivals that are counted together lie in one such step of time, so that the series over time
/// has each in its place.
const STEP: u64 = Span::from_millis(10).0;
/// What a waiting session takes beside its place and its requests, roughly: the ring in which they
/// wait, its list of connections, its variables and cookies.
const SESSION_EXTRA: usize = 512;
/// What a waiting request takes: its place in the slab and its place in a queue.
const EACH: usize = size_of::<Exchange>() + size_of::<(Nanos, RequestId)>();

/// What bounds the arrivals that wait.
#[derive(Debug)]
pub(in crate::engine) struct Backlog {
    /// The most requests that wait for a connection.
    requests: usize,
    /// The most sessions that do.
    sessions: usize,
    /// What is due waits until the sockets were looked at.
    rests: bool,
    /// Something was dropped.
    drops: bool,
}

impl Backlog {
    pub(in crate::engine) fn new() -> Self {
        Self { requests: usize::MAX, sessions: usize::MAX, rests: false, drops: false }
    }

    /// Whether no more than `waiting` requests may wait.
    pub(in crate::engine) fn is_full(&self, waiting: usize) -> bool {
        waiting >= self.requests
    }

    /// Whether what is due waits until the sockets were looked at.
    #[inline]
    pub(in crate::engine) fn rests(&self) -> bool {
        self.rests
    }
}

impl<P: Carrier> Engine<P> {
    /// Let the requests (or sessions) of an open loop that wait for a connection take at most so
    /// many bytes; without a call they take what they need. What does not fit is dropped: it fails
    /// by [`Fault::Dropped`].
    pub fn limit_backlog(&mut self, bytes: u64) {
        let fit = |each: usize| usize::try_from(bytes).unwrap_or(usize::MAX) / each;
        // The queue grows by doubling.
        let fits = fit(EACH).max(1);
        self.backlog.requests = 1 << fits.ilog2();
        let bursts = self.plan.sessions.iter().flat_map(|s| &s.kinds).flat_map(|k| &k.bursts);
        let burst = bursts.map(|b| b.calls.len()).max().unwrap_or(1);
        let each = size_of::<Session>() + 2 * burst * EACH + SESSION_EXTRA;
        self.backlog.sessions = fit(each).max(1);
    }

    /// Start the arrivals that are due, a few of them.
    #[inline]
    pub(in crate::engine) fn start_arrivals(&mut self, now: Nanos) {
        if !self.backlog.rests && self.load.arrival_is_due(now) {
            self.start_due(now);
        }
    }

    /// Apart, as mostly nothing is due.
    #[inline(never)]
    fn start_due(&mut self, now: Nanos) {
        for _ in 0..FEW {
            if !self.start_next(now) {
                return;
            }
        }
        let due = self.load.due_before(now + Span(1));
        // Where the last arrival ends the load, what is left behind it would keep the run alive.
        let is_rest = || due == self.load.due_before(Nanos::MAX);
        if self.room() < due || (self.backlog.drops && is_rest()) {
            self.drop_due(now);
        }
        if self.load.arrival_is_due(now) {
            self.backlog.rests = true;
            self.ask_for_turn();
        }
    }

    /// Start the next arrival if it is due; whether it was.
    fn start_next(&mut self, now: Nanos) -> bool {
        match &mut self.load.kind {
            Kind::Closed(_) => false,
            Kind::Open(arrivals) => {
                let Some(arrival) = arrivals.take_due(now) else { return false };
                let call = pick(&self.plan, || arrival.index);
                let intended = arrival.at;
                self.start(New { intended, call, user: NOBODY, nth: 0 }, now);
                true
            }
            Kind::Sessions(sessions) => {
                let Some((number, at)) = sessions.arrival(now) else { return false };
                if self.room() == 0 {
                    self.drop_together(Skipped { first: at, count: 1 }, now);
                } else {
                    self.begin_session(number, NOBODY, at, now);
                }
                true
            }
        }
    }

    /// The sockets have been looked at: what is due goes on.
    pub(in crate::engine) fn resume_arrivals(&mut self, now: Nanos) {
        if std::mem::take(&mut self.backlog.rests) {
            self.start_arrivals(now);
            self.settle_arrivals(now);
        }
    }

    /// For how many arrivals there is room in the backlog.
    fn room(&self) -> u64 {
        let most = match &self.load.kind {
            Kind::Closed(_) => return u64::MAX,
            Kind::Open(_) => self.backlog.requests,
            Kind::Sessions(_) => self.backlog.sessions,
        };
        most.saturating_sub(self.dispatch.waiting()) as u64
    }

    /// A request has found neither a connection nor room in the backlog.
    #[cold]
    pub(in crate::engine) fn overflow(&mut self, id: RequestId, now: Nanos) {
        self.backlog.drops = true;
        self.fail(id, Fault::Dropped, now);
        self.restart_ended(now);
    }

    /// Drop every arrival that is due.
    fn drop_due(&mut self, now: Nanos) {
        while let Some(first) = self.load.next_arrival().filter(|&first| first <= now) {
            let step = Nanos((first.0 / STEP + 1).saturating_mul(STEP));
            let Some(skipped) = self.load.skip_before(step.min(now + Span(1))) else { return };
            self.drop_together(skipped, now);
        }
    }

    fn drop_together(&mut self, skipped: Skipped, now: Nanos) {
        self.backlog.drops = true;
        let mut skipped = skipped;
        if let Some(sessions) = self.sessions() {
            if let Some(left) = &mut sessions.requests {
                // Each would have begun with a request.
                skipped.count = skipped.count.min(*left);
                *left -= skipped.count;
            }
            self.recorder.sessions_dropped(skipped.first, skipped.count, now);
        }
        self.recorder.dropped(skipped.first, skipped.count, now);
    }

    /// After the end of the load: arrivals that were due before it start as long as the meter can
    /// catch up with them in a moment. Where it cannot, or could not before, the rest is dropped,
    /// and with it what waits for a connection, and replies are awaited for a moment only: the
    /// figures are the meter's anyway.
    pub(in crate::engine) fn settle_arrivals(&mut self, now: Nanos) {
        if self.backlog.drops && self.load.has_no_more_arrivals() {
            // A number of requests has ended the load.
            self.begin_drain(now);
        }
        let Stage::Draining(until) = self.stage else { return };
        let end = self.load_end.min(now);
        if self.load.next_arrival().is_some() && (self.backlog.drops || now >= end + CATCH_UP) {
            self.drop_rest(now);
        }
        if self.backlog.drops && self.load.next_arrival().is_none() {
            self.drop_waiting(now);
            self.stage = Stage::Draining(until.min(end + OVERLOADED));
        }
    }

    /// The run ends: what the meter has not come to is counted.
    pub(in crate::engine) fn drop_rest(&mut self, now: Nanos) {
        for _ in 0..ONE_BY_ONE {
            if !self.start_next(now) {
                return;
            }
        }
        self.drop_due(now);
    }

    /// What waits for a connection is dropped.
    fn drop_waiting(&mut self, now: Nanos) {
        if let Kind::Sessions(_) = &self.load.kind {
            for slot in self.dispatch.take_line() {
                self.drop_session(slot, now);
            }
            return;
        }
        for id in self.dispatch.take_all_waiting() {
            self.exchanges[id].waited_in_queue(now);
            self.fail(id, Fault::Dropped, now);
        }
        self.restart_ended(now);
    }

    /// A session that waits for a connection gets none any more.
    fn drop_session(&mut self, slot: u32, now: Nanos) {
        for id in self.dispatch.take_pending(slot) {
            self.exchanges[id].waited_in_queue(now);
            self.fail(id, Fault::Dropped, now);
            if let Some(sessions) = self.sessions() {
                sessions.all[slot as usize].open -= 1;
            }
        }
        self.outstanding -= self.outcome.ended.len() as u64;
        self.outcome.ended.clear();
        self.end_session(slot, SessionEnd::Failed, now);
    }
}
