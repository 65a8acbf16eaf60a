//! Limits for an open loop that the meter cannot keep up with. They bound the work of one turn, so
//! that sockets, deadlines and signals are served at any rate, and the memory for waiting requests.
//!
//! Due arrivals start in batches, and the sockets are checked in between. Arrivals that find no
//! connection wait in the backlog. If the backlog is full, due arrivals are dropped: they fail
//! unsent with [`Fault::Dropped`], and are counted. Due arrivals that have not started use no
//! memory yet, but would need it, so they count against the limit too.

use super::Kind;
use super::cycle::pick;
use super::logged::Taken;
use super::sessions::Session;
use crate::engine::exchange::dynamic::Dynamic;
use crate::engine::exchange::{Exchange, NOBODY, New};
use crate::engine::{Engine, Stage};
use prony_base::fault::Fault;
use prony_base::units::{Nanos, RequestId, Span};
use prony_plan::schedule::Skipped;
use prony_proto::proto::Carrier;
use prony_tally::record::SessionEnd;

/// How many arrivals start between two checks of the sockets.
const BATCH: u32 = 256;
/// How long after the end of the load arrivals that were due before it still start.
const CATCH_UP: Span = Span::from_millis(500);
/// How long a run that has dropped requests waits for replies after the end of the load.
const OVERLOADED_DRAIN: Span = Span::from_secs(1);
/// How many arrivals are dropped one by one before the rest is counted together.
const ONE_BY_ONE: u32 = 1 << 16;
/// Arrivals that are counted together are in the same time step of this length, so that the time
/// series counts each in its interval.
const STEP: u64 = Span::from_millis(10).0;
/// Approximate memory of a waiting session besides its slot and its requests: the queue in which
/// they wait, its list of connections, its variables and cookies. In bytes.
const SESSION_EXTRA: usize = 512;
/// Memory of a waiting request: its slot in the slab and its entry in a queue. In bytes.
const EACH: usize = size_of::<Exchange>() + size_of::<(Nanos, RequestId)>();
/// Approximate memory of the path of a request of a log. In bytes.
const PATH: usize = 256;

/// The limits for waiting arrivals.
#[derive(Debug)]
pub(in crate::engine) struct Backlog {
    /// The most requests that wait for a connection.
    requests: usize,
    /// The most sessions that wait for a connection.
    sessions: usize,
    /// Due arrivals wait until the sockets have been checked.
    paused: bool,
    /// Something has been dropped.
    has_dropped: bool,
}

impl Backlog {
    pub(in crate::engine) fn new() -> Self {
        Self { requests: usize::MAX, sessions: usize::MAX, paused: false, has_dropped: false }
    }

    /// Whether no more than `waiting` requests may wait.
    pub(in crate::engine) fn is_full(&self, waiting: usize) -> bool {
        waiting >= self.requests
    }

    /// Whether due arrivals wait until the sockets have been checked.
    #[inline]
    pub(in crate::engine) fn is_paused(&self) -> bool {
        self.paused
    }
}

impl<P: Carrier> Engine<P> {
    /// Limit the memory for requests (or sessions) of an open loop that wait for a connection, in
    /// bytes. Without this call there is no limit. What does not fit is dropped: it fails with
    /// [`Fault::Dropped`].
    pub fn limit_backlog(&mut self, bytes: u64) {
        let fit = |each: usize| usize::try_from(bytes).unwrap_or(usize::MAX) / each;
        // The queue grows by doubling.
        let path = if self.plan.is_logged() { PATH } else { 0 };
        let fits = fit(EACH + path).max(1);
        self.backlog.requests = 1 << fits.ilog2();
        let bursts = self.plan.sessions.iter().flat_map(|s| &s.kinds).flat_map(|k| &k.bursts);
        let burst = bursts.map(|b| b.calls.len()).max().unwrap_or(1);
        let each = size_of::<Session>() + 2 * burst * EACH + SESSION_EXTRA;
        self.backlog.sessions = fit(each).max(1);
    }

    /// Start a batch of due arrivals.
    #[inline]
    pub(in crate::engine) fn start_arrivals(&mut self, now: Nanos) {
        if !self.backlog.paused && self.load.arrival_is_due(now) {
            self.start_due(now);
        }
    }

    /// Not inlined: usually nothing is due.
    #[inline(never)]
    fn start_due(&mut self, now: Nanos) {
        for _ in 0..BATCH {
            if !self.start_next(now) {
                return;
            }
        }
        let due = self.load.due_before(now + Span(1));
        // If the last arrival ends the load, a remainder after it would keep the run alive.
        let is_rest = || due == self.load.due_before(Nanos::MAX);
        if self.room() < due || (self.backlog.has_dropped && is_rest()) {
            self.drop_due(now);
        }
        if self.load.arrival_is_due(now) {
            self.backlog.paused = true;
            self.ask_for_turn();
        }
    }

    /// Start the next arrival if it is due. Returns whether it was.
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
            Kind::Logged(logged) => {
                let Some(paths) = self.dynamic.as_deref_mut().and_then(Dynamic::paths) else {
                    return false;
                };
                let own = paths.of(self.exchanges.next_slot());
                match logged.take_due(now, own, self.backlog.requests, &self.exchanges) {
                    None => return false,
                    Some(Taken::Waits) => {}
                    Some(Taken::Starts { intended, call, owner }) => {
                        self.start(New { intended, call, user: owner, nth: 0 }, now);
                    }
                    Some(Taken::Dropped(first)) => {
                        self.drop_together(Skipped { first, count: 1 }, now);
                    }
                }
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

    /// The sockets have been checked: due arrivals may start again.
    pub(in crate::engine) fn resume_arrivals(&mut self, now: Nanos) {
        if std::mem::take(&mut self.backlog.paused) {
            self.start_arrivals(now);
            self.settle_arrivals(now);
        }
    }

    /// Start the next request of each client of a log whose last one has ended.
    pub(in crate::engine) fn release_clients(&mut self, now: Nanos) {
        let Kind::Logged(logged) = &mut self.load.kind else { return };
        logged.ended.append(&mut self.outcome.ended);
        if std::mem::replace(&mut logged.releases, true) {
            // A request that was started here has failed at once: the outer call continues.
            return;
        }
        while let Some(owner) = self.next_ended() {
            let Kind::Logged(logged) = &mut self.load.kind else { return };
            let Some(paths) = self.dynamic.as_deref_mut().and_then(Dynamic::paths) else { return };
            let own = paths.of(self.exchanges.next_slot());
            if let Some((intended, call)) = logged.release(owner, now, own, &self.exchanges) {
                self.start(New { intended, call, user: owner, nth: 0 }, now);
            }
        }
    }

    /// The next owner of a request of a log that has ended.
    fn next_ended(&mut self) -> Option<u32> {
        let Kind::Logged(logged) = &mut self.load.kind else { return None };
        let owner = logged.ended.pop();
        logged.releases = owner.is_some();
        owner
    }

    /// How many more arrivals fit into the backlog.
    fn room(&self) -> u64 {
        let most = match &self.load.kind {
            Kind::Closed(_) => return u64::MAX,
            Kind::Open(_) => self.backlog.requests,
            Kind::Logged(logged) => self.backlog.requests.saturating_sub(logged.held()),
            Kind::Sessions(_) => self.backlog.sessions,
        };
        most.saturating_sub(self.dispatch.waiting()) as u64
    }

    /// A request has found neither a connection nor room in the backlog.
    #[cold]
    pub(in crate::engine) fn overflow(&mut self, id: RequestId, now: Nanos) {
        self.backlog.has_dropped = true;
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
        self.backlog.has_dropped = true;
        let mut skipped = skipped;
        if let Some(sessions) = self.sessions() {
            if let Some(left) = &mut sessions.requests {
                // Each session would have started with one request.
                skipped.count = skipped.count.min(*left);
                *left -= skipped.count;
            }
            self.recorder.sessions_dropped(skipped.first, skipped.count, now);
        }
        self.recorder.dropped(skipped.first, skipped.count, now);
    }

    /// After the end of the load, arrivals that were due before it still start, as long as the
    /// meter can catch up quickly. If it cannot, or has dropped requests before, the remaining
    /// arrivals and the requests that wait for a connection are dropped, and the run waits for
    /// replies only briefly: the figures show the limits of the meter anyway.
    pub(in crate::engine) fn settle_arrivals(&mut self, now: Nanos) {
        if self.backlog.has_dropped && self.load.has_no_more_arrivals() {
            // The load was ended by a number of requests.
            self.begin_drain(now);
        }
        let Stage::Draining(until) = self.stage else { return };
        let end = self.load_end.min(now);
        if self.load.next_arrival().is_some() && (self.backlog.has_dropped || now >= end + CATCH_UP)
        {
            self.drop_rest(now);
        }
        if self.backlog.has_dropped && self.load.next_arrival().is_none() {
            self.drop_waiting(now);
            self.stage = Stage::Draining(until.min(end + OVERLOADED_DRAIN));
        }
    }

    /// The run ends: count the due arrivals that have not started.
    pub(in crate::engine) fn drop_rest(&mut self, now: Nanos) {
        for _ in 0..ONE_BY_ONE {
            if !self.start_next(now) {
                return;
            }
        }
        self.drop_due(now);
    }

    /// Drop everything that waits for a connection.
    fn drop_waiting(&mut self, now: Nanos) {
        if let Kind::Sessions(_) = &self.load.kind {
            for slot in self.dispatch.take_waiting_sessions() {
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

    /// Drop a session that waits for a connection.
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
