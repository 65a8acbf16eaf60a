//! How a run ends: no new request starts, the requests in flight may finish, and those that do not
//! count as unfinished. If the user ends it, schedules of messages end, too.

use super::Engine;
use prony_base::units::{Nanos, RequestId, Span};
use prony_proto::proto::Carrier;
use prony_tally::record::SessionEnd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// No request starts. Requests that have not ended at this time count as unfinished.
    Draining(Nanos),
    /// All requests have ended. Bytes that are ready are still sent.
    Ending,
    Over,
}

impl Stage {
    /// Whether nothing that happens counts any more.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Ending | Self::Over)
    }
}

impl<P: Carrier> Engine<P> {
    pub(super) fn begin_drain(&mut self, at: Nanos) {
        if self.stage == Stage::Running {
            // Independent clients stop at once.
            let drain = if self.plan.clients.is_some() { Span::ZERO } else { self.plan.timeout };
            self.stage = Stage::Draining(at + drain);
            self.load_end = self.load_end.min(at);
            self.load.end(at);
            self.recorder.load_ended(at);
            self.end_pausing_sessions(at);
        }
    }

    /// Count everything that is still in flight as unfinished.
    pub(super) fn give_up(&mut self, now: Nanos) {
        self.drop_rest(now);
        let used: Vec<u32> = self.links.used().collect();
        for slot in used {
            let rest = self.take_all_of(slot);
            self.leave_unfinished(&rest, now);
        }
        let waiting = self.dispatch.take_all_waiting();
        self.leave_unfinished(&waiting, now);
        // What is left waits to be opened again.
        let messages = self.exchanges.messages.as_deref();
        let between = messages.into_iter().flat_map(|messages| messages.between());
        let between: Vec<_> = between.filter(|&id| self.exchanges.get(id).is_some()).collect();
        self.leave_unfinished(&between, now);
        debug_assert_eq!(self.outstanding, 0);
        self.end_running_sessions(now);
        if !self.stage.is_over() {
            self.stage = Stage::Over;
            self.agenda.finish_at_once();
        }
    }

    fn leave_unfinished(&mut self, exchanges: &[RequestId], now: Nanos) {
        for &id in exchanges {
            self.recorder.unfinished(self.exchanges[id].intended());
            if let Some(messages) = self.exchanges.messages.as_deref_mut() {
                messages.schedule_ended(id, now, &mut self.recorder);
                messages.given_up(id, now, &mut self.recorder);
            }
            let dynamic = self.dynamic.as_deref_mut();
            if let Some(chain) = dynamic.and_then(|d| d.ended(id, SessionEnd::Unfinished)) {
                self.recorder.group_ended(chain, now);
            }
            self.exchanges.give_up(id);
            self.outstanding -= 1;
        }
    }

    pub(super) fn check_over(&mut self) {
        debug_assert!(self.outcome.is_applied(), "{:?}", self.outcome);
        if !self.stage.is_over() && self.outstanding == 0 && self.load.is_done() {
            self.stage = Stage::Ending;
            self.leave_contact();
            self.agenda.finish();
        }
    }
}
