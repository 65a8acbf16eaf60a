//! How sessions run: burst by burst, each request on a connection of the session's own, with pauses
//! in between.
//!
//! `Exchange::user` is the session's slot in [`Sessions::all`], `Exchange::nth` the number of the
//! request in the session. If the plan has anything dynamic, the session fills in the variable
//! parts of a call before it is encoded, and extracts values from replies (`exchange/script.rs`).

use super::Kind;
use super::sessions::{Arrivals, Session, Sessions};
use super::users::back_off;
use crate::engine::agenda::Timer;
use crate::engine::exchange::New;
use crate::engine::exchange::dynamic::Dynamic;
use crate::engine::{Engine, Stage};
use prony_base::director::Step;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{Nanos, Span};
use prony_proto::proto::Carrier;
use prony_tally::record::SessionEnd;

/// How long a user waits after a session without a request, and after a second pause of no time in
/// a row: else they would be a busy loop.
const EMPTY_REST: Span = Span::from_millis(1);

impl<P: Carrier> Engine<P> {
    /// Start a user's next session, intended for `intended`.
    pub(in crate::engine) fn next_session(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return };
        let Arrivals::Closed(closed) = &mut sessions.arrivals else { return };
        if closed.alive > 0 && measured && closed.left() == Some(0) {
            return closed.retire_one();
        }
        self.start_session_of(user, intended, now);
    }

    /// The same for a user who may use the quota that is reserved for users who have not started.
    pub(super) fn start_session_of(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let late = self.is_late(intended);
        let Some(sessions) = self.sessions() else { return };
        let Arrivals::Closed(closed) = &mut sessions.arrivals else { return };
        if closed.alive == 0 {
            return;
        }
        let used_up = closed.quota == Some(0) || sessions.requests == Some(0);
        if late || (measured && used_up) {
            return closed.retire_one();
        }
        if measured && let Some(quota) = &mut closed.quota {
            *quota -= 1;
        }
        let number = sessions.next_number();
        self.begin_session(number, user, intended, now);
    }

    pub(in crate::engine) fn begin_session(
        &mut self,
        number: u64,
        user: u32,
        intended: Nanos,
        now: Nanos,
    ) {
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return };
        if (measured && sessions.requests == Some(0)) || !sessions.has_row(number) {
            sessions.retire();
            return;
        }
        let slot = sessions.enter(number, user, intended);
        let kind = sessions.all[slot as usize].kind;
        self.dispatch.enter(slot, number);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.begin(slot, kind, number, now);
        }
        self.secure.new_session(slot);
        self.recorder.session_started(kind, intended);
        match self.dynamic.as_deref().is_some_and(Dynamic::decides) {
            true => self.begin_decided(slot, intended, now),
            false => self.burst(slot, intended, now),
        }
    }

    /// The next requests of the session, intended for `intended`.
    fn advance(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        match self.dynamic.as_deref().is_some_and(Dynamic::decides) {
            true => self.advance_decided(slot, intended, now),
            false => self.burst(slot, intended, now),
        }
    }

    /// Ask the director for steps of the session, until it has a request in flight, pauses or ends.
    /// What the director takes is a delay of the meter, so it does not move `intended`.
    pub(super) fn direct_session(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        let mut has_paused = false;
        loop {
            let Some(step) = self.dynamic.as_deref_mut().and_then(|d| d.step(slot)) else { return };
            match step {
                Step::Request { call } => {
                    let may_start = self.may_start(intended);
                    let Some(session) = self.session(slot) else { return };
                    if !may_start {
                        session.cut = true;
                        return self.end_session(slot, SessionEnd::Unfinished, now);
                    }
                    let new = New { intended, call, user: slot, nth: session.started };
                    session.started += 1;
                    session.open += 1;
                    return self.start(new, now);
                }
                Step::Pause(0) if !has_paused => has_paused = true,
                Step::Pause(_) if self.stage != Stage::Running => {
                    if let Some(sessions) = self.sessions() {
                        sessions.cut = true;
                    }
                    return self.end_session(slot, SessionEnd::Unfinished, now);
                }
                Step::Pause(ns) => {
                    let wake = match ns {
                        0 => now + EMPTY_REST,
                        _ => intended + Span(ns),
                    };
                    let Some(session) = self.session(slot) else { return };
                    session.wake = wake;
                    return self.agenda.wake(wake, Timer::Think(slot));
                }
                Step::Done | Step::Failed => {
                    let failed = self.session(slot).is_some_and(|session| session.failed);
                    let how = match failed || step == Step::Failed {
                        true => SessionEnd::Failed,
                        false => SessionEnd::Completed,
                    };
                    return self.end_session(slot, how, now);
                }
            }
        }
    }

    /// Start the requests of the burst that go out together: the first, those after it, or all.
    pub(super) fn burst(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        let Kind::Sessions(sessions) = &self.load.kind else { return };
        let session = &sessions.all[slot as usize];
        let burst = sessions.steps.bursts[session.burst as usize];
        let until = if burst.lead && session.next == 0 { 1 } else { burst.len };
        for next in session.next..until {
            if !self.may_start(intended) {
                let Some(session) = self.session(slot) else { return };
                session.cut = true;
                if session.open == 0 {
                    self.end_session(slot, SessionEnd::Unfinished, now);
                }
                return;
            }
            let Kind::Sessions(sessions) = &mut self.load.kind else { return };
            let session = &mut sessions.all[slot as usize];
            let call = sessions.steps.calls[(burst.first + next) as usize];
            if let Some(groups) = sessions.groups.as_mut().filter(|_| next == 0)
                && let Some(key) = groups.step_starts(slot, session.burst, intended)
            {
                self.recorder.group_started(key, intended);
            }
            let new = New { intended, call, user: slot, nth: session.started };
            session.next += 1;
            session.started += 1;
            session.open += 1;
            self.start(new, now);
        }
    }

    /// Whether a request intended for `intended` may start. If so, it counts against the plan's
    /// number of requests.
    fn may_start(&mut self, intended: Nanos) -> bool {
        let late = self.is_late(intended);
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let Some(sessions) = self.sessions() else { return false };
        sessions.cut |= late;
        match &mut sessions.requests {
            _ if late => false,
            Some(0) if measured => false,
            Some(left) if measured => {
                *left -= 1;
                true
            }
            _ => true,
        }
    }

    /// Whether the load ends before `intended`.
    fn is_late(&self, intended: Nanos) -> bool {
        intended >= self.load_end
    }

    /// Requests of one session have ended: continue or end the session.
    pub(in crate::engine) fn continue_session(&mut self, now: Nanos) {
        let ended = &mut self.outcome.ended;
        let (slot, n) = (ended[0], ended.len() as u32);
        debug_assert!(ended.iter().all(|&other| other == slot));
        ended.clear();
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        let gives_up = sessions.gives_up(slot);
        let session = &mut sessions.all[slot as usize];
        session.open -= n;
        let groups = sessions.groups.as_ref().filter(|_| session.open == 0);
        if let Some(key) = groups.and_then(|groups| groups.running(slot)) {
            self.recorder.step_ended(key, now);
        }
        if self.dynamic.as_deref().is_some_and(Dynamic::decides) {
            return self.continue_decided(slot, gives_up, now);
        }
        if gives_up {
            self.end_session(slot, SessionEnd::Failed, now);
            return;
        }
        if session.open > 0 {
            return;
        }
        if session.cut {
            self.end_session(slot, SessionEnd::Unfinished, now);
            return;
        }
        let burst = sessions.steps.bursts[session.burst as usize];
        if session.next < burst.len {
            self.burst(slot, now, now);
            return;
        }
        // Draw the pause of this burst, not of the next.
        let pause = sessions.pause(slot);
        let session = &mut sessions.all[slot as usize];
        session.next = 0;
        session.made += 1;
        session.round += 1;
        if session.round == burst.repeat {
            (session.round, session.burst) = (0, session.burst + 1);
        }
        let next = (session.burst < session.end).then_some(session.burst);
        let ended = sessions.groups.as_mut().and_then(|g| g.step_ended(slot, next, pause));
        if let Some(ended) = ended {
            self.recorder.group_ended(ended, now);
        }
        if session.burst == session.end {
            let failed = session.failed;
            let how = if failed { SessionEnd::Failed } else { SessionEnd::Completed };
            self.end_session(slot, how, now);
        } else if pause == Span::ZERO {
            self.burst(slot, now, now);
        } else if self.stage != Stage::Running {
            sessions.cut = true;
            self.end_session(slot, SessionEnd::Unfinished, now);
        } else {
            session.wake = now + pause;
            self.agenda.wake(session.wake, Timer::Think(slot));
        }
    }

    /// A session's pause is over.
    pub(in crate::engine) fn wake_session(&mut self, slot: u32, at: Nanos, now: Nanos) {
        let Some(session) = self.session(slot) else { return };
        if session.live && session.wake == at {
            session.wake = Nanos::MAX;
            self.advance(slot, at, now);
        }
    }

    /// End the session. Requests that it has not finished are given up, its connections are closed,
    /// and the next session may start.
    pub(in crate::engine) fn end_session(&mut self, slot: u32, how: SessionEnd, now: Nanos) {
        let close = match self.give_up_rest(slot, now) {
            0 => CloseHow::Orderly,
            _ => CloseHow::Reset,
        };
        while let Some(conn) = self.dispatch.newest_of(slot) {
            self.close_slot(conn, close, now);
        }
        self.end_group_of(slot, how, now);
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        let session = &sessions.all[slot as usize];
        let (number, user, refused) = (session.number, session.user, session.refused);
        let is_empty = session.started == 0;
        let (kind, replies, connected) = (session.kind, session.replies, session.connected);
        self.recorder.session_ended(how, kind, session.began, now, replies, connected);
        sessions.leave(slot);
        self.dispatch.leave(slot);
        if let Some(dynamic) = &mut self.dynamic {
            dynamic.leave(slot);
        }
        self.feed_waiting(now);
        let Some(sessions) = self.sessions() else { return };
        let mut rest = sessions.rest(number);
        let Arrivals::Closed(closed) = &mut sessions.arrivals else { return };
        let used_up = closed.left() == Some(0);
        let failures = &mut closed.failures[user as usize];
        if !refused {
            *failures = 0;
        }
        if used_up {
            // There is no next session to wait for.
            rest = Span::ZERO;
        } else if refused && closed.quota.is_none() {
            // A fixed number of sessions ends by itself. Any other load must not turn the meter
            // into a busy loop against a dead target.
            rest += back_off(failures);
        } else if is_empty {
            // A director may end sessions without a request.
            rest = rest.max(EMPTY_REST);
        }
        if rest == Span::ZERO {
            self.next_session(user, now, now);
        } else {
            self.agenda.wake(now + rest, Timer::User(user));
        }
    }

    /// Fail the unfinished requests of a session that ends. Returns how many.
    fn give_up_rest(&mut self, slot: u32, now: Nanos) -> usize {
        let Some(session) = self.session(slot).filter(|session| session.open > 0) else {
            return 0;
        };
        session.open = 0;
        for id in self.dispatch.take_pending(slot) {
            self.exchanges[id].waited_in_queue(now);
            self.fail(id, Fault::GivenUp, now);
        }
        for conn in self.dispatch.all_of(slot) {
            for id in self.take_all_of(conn) {
                self.fail(id, Fault::GivenUp, now);
            }
        }
        let given_up = self.outcome.ended.len();
        self.outstanding -= given_up as u64;
        self.outcome.ended.clear();
        given_up
    }

    /// End all pausing sessions: none of them could start anything.
    pub(in crate::engine) fn end_pausing_sessions(&mut self, now: Nanos) {
        let Some(sessions) = self.sessions() else { return };
        for slot in sessions.places() {
            let Some(sessions) = self.sessions() else { return };
            let session = &sessions.all[slot as usize];
            if session.live && session.wake != Nanos::MAX {
                sessions.cut = true;
                self.end_session(slot, SessionEnd::Unfinished, now);
            }
        }
    }

    /// The run is over: count the running sessions as unfinished.
    pub(in crate::engine) fn end_running_sessions(&mut self, now: Nanos) {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        for slot in sessions.places() {
            let ended = sessions
                .groups
                .as_mut()
                .and_then(|groups| groups.session_ended(slot, SessionEnd::Unfinished));
            if let Some(ended) = ended {
                self.recorder.group_ended(ended, now);
            }
            let session = &sessions.all[slot as usize];
            let (kind, replies, connected) = (session.kind, session.replies, session.connected);
            let end = SessionEnd::Unfinished;
            self.recorder.session_ended(end, kind, session.began, now, replies, connected);
            sessions.leave(slot);
            sessions.cut = true;
            self.dispatch.leave(slot);
            if let Some(dynamic) = &mut self.dynamic {
                dynamic.leave(slot);
            }
        }
    }

    /// The session in this slot ends, and with it the group in which it is.
    fn end_group_of(&mut self, slot: u32, how: SessionEnd, now: Nanos) {
        let groups = self.sessions().and_then(|sessions| sessions.groups.as_mut());
        let ended = groups.and_then(|groups| groups.session_ended(slot, how));
        if let Some(ended) = ended {
            self.recorder.group_ended(ended, now);
        }
    }

    #[inline]
    pub(super) fn sessions(&mut self) -> Option<&mut Sessions> {
        self.load.sessions()
    }

    #[inline]
    pub(super) fn session(&mut self, slot: u32) -> Option<&mut Session> {
        self.sessions().and_then(|s| s.all.get_mut(slot as usize))
    }
}
