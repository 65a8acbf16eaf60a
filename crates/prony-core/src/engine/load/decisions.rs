//! Sessions of plans that decide which steps they make: conditions, switches, repetitions until a
//! condition holds, and retries. Directors of sessions come through here, too.

use super::Kind;
use crate::engine::agenda::Timer;
use crate::engine::exchange::dynamic::Dynamic;
use crate::engine::exchange::script::Tried;
use crate::engine::{Engine, Stage};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::AtLimit;
use prony_plan::script::Repetition;
use prony_proto::proto::Carrier;
use prony_tally::record::SessionEnd;

impl<P: Carrier> Engine<P> {
    /// A session starts: at its first step that it does not skip.
    #[cold]
    pub(super) fn begin_decided(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        if self.arrive(slot, now) {
            self.advance_decided(slot, intended, now);
        } else {
            self.end_session(slot, SessionEnd::Completed, now);
        }
    }

    /// The next requests of the session, intended for `intended`.
    #[cold]
    pub(super) fn advance_decided(&mut self, slot: u32, intended: Nanos, now: Nanos) {
        let Kind::Sessions(sessions) = &self.load.kind else { return };
        let has_failed = sessions.all[slot as usize].failed;
        match self.dynamic.as_deref_mut().and_then(Dynamic::decisions) {
            Some(decisions) => {
                decisions.begin_try(slot, intended, has_failed);
                self.burst(slot, intended, now);
            }
            None => self.direct_session(slot, intended, now),
        }
    }

    /// Requests of a session have ended: continue or end it.
    #[cold]
    pub(super) fn continue_decided(&mut self, slot: u32, gives_up: bool, now: Nanos) {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        let session = &sessions.all[slot as usize];
        let is_over = session.open == 0;
        if is_over && !session.cut && self.tries_again(slot, now) {
            return;
        }
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        let session = &mut sessions.all[slot as usize];
        if gives_up {
            return self.end_session(slot, SessionEnd::Failed, now);
        }
        if !is_over {
            return;
        }
        if session.cut {
            return self.end_session(slot, SessionEnd::Unfinished, now);
        }
        if self.dynamic.as_deref().is_some_and(Dynamic::is_directed) {
            return self.direct_session(slot, now, now);
        }
        let burst = sessions.steps.bursts[session.burst as usize];
        if session.next < burst.len {
            return self.burst(slot, now, now);
        }
        let pause = sessions.pause(slot);
        let session = &mut sessions.all[slot as usize];
        session.next = 0;
        session.made += 1;
        session.round += 1;
        if !self.repeats(slot, burst.repeat, now) {
            let Kind::Sessions(sessions) = &mut self.load.kind else { return };
            if sessions.gives_up(slot) {
                return self.end_session(slot, SessionEnd::Failed, now);
            }
            if !self.arrive(slot, now) {
                self.leave_group(slot, None, Span::ZERO, now);
                let failed = self.session(slot).is_some_and(|session| session.failed);
                let how = if failed { SessionEnd::Failed } else { SessionEnd::Completed };
                return self.end_session(slot, how, now);
            }
        }
        let next = self.session(slot).map(|session| session.burst);
        self.leave_group(slot, next, pause, now);
        self.pause_session(slot, pause, now);
    }

    /// Move the session to the first step from its own on that it does not skip. Returns whether
    /// there is one.
    fn arrive(&mut self, slot: u32, now: Nanos) -> bool {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return false };
        let session = &mut sessions.all[slot as usize];
        let Some(decisions) = self.dynamic.as_deref_mut().and_then(Dynamic::decisions) else {
            return true;
        };
        let (burst, skipped) =
            decisions.arrive(slot, session.burst, session.end, (session.started, now));
        session.burst = burst;
        if skipped > 0 {
            self.recorder.steps_skipped(session.began, skipped);
        }
        burst < session.end
    }

    /// Whether the session repeats the burst that it has just made. If not, it moves to the one
    /// after it.
    fn repeats(&mut self, slot: u32, most: u32, now: Nanos) -> bool {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return false };
        let session = &mut sessions.all[slot as usize];
        let Some(decisions) = self.dynamic.as_deref_mut().and_then(Dynamic::decisions) else {
            return false;
        };
        let rounds = (session.round, most);
        let (repetition, next) =
            decisions.repeats(slot, session.burst, rounds, (session.started, now));
        match repetition {
            Repetition::Again => return true,
            Repetition::Over => {}
            Repetition::Limit(at_limit) => {
                session.failed |= at_limit == AtLimit::Fail;
                self.recorder.limit_reached(session.began);
            }
        }
        (session.round, session.burst) = (0, next);
        false
    }

    /// Whether the session makes the request that has just ended again.
    fn tries_again(&mut self, slot: u32, now: Nanos) -> bool {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return false };
        let bits = sessions.retry_bits(slot);
        let session = &mut sessions.all[slot as usize];
        let Some(decisions) = self.dynamic.as_deref_mut().and_then(Dynamic::decisions) else {
            return false;
        };
        match decisions.tried(slot, session.burst, bits) {
            Tried::Once => false,
            Tried::Again(wait, had_failed) => {
                session.failed = had_failed;
                session.next = 0;
                self.recorder.step_retried(session.began);
                if let Some(groups) = &mut sessions.groups {
                    groups.step_again(slot, wait);
                }
                self.pause_session(slot, wait, now);
                true
            }
            Tried::Recovered(first) => {
                self.recorder.step_recovered(session.began, now.since(first));
                false
            }
            Tried::Exhausted => {
                self.recorder.retries_exhausted(session.began);
                false
            }
        }
    }

    /// The session moves to the step `next` after a pause, or to its end. The group that it leaves
    /// ends.
    fn leave_group(&mut self, slot: u32, next: Option<u32>, pause: Span, now: Nanos) {
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        let ended = sessions.groups.as_mut().and_then(|g| g.step_ended(slot, next, pause));
        if let Some(ended) = ended {
            self.recorder.group_ended(ended, now);
        }
    }

    /// The session pauses before its next requests, if the pause is longer than 0. At the end of
    /// the load, a pause ends it.
    fn pause_session(&mut self, slot: u32, pause: Span, now: Nanos) {
        if pause == Span::ZERO {
            return self.advance_decided(slot, now, now);
        }
        let Kind::Sessions(sessions) = &mut self.load.kind else { return };
        if self.stage != Stage::Running {
            sessions.cut = true;
            return self.end_session(slot, SessionEnd::Unfinished, now);
        }
        let session = &mut sessions.all[slot as usize];
        session.wake = now + pause;
        self.agenda.wake(session.wake, Timer::Think(slot));
    }
}
