//! How a run ends: no further request starts, what is in flight is awaited, and what is left then
//! counts as unfinished.

use super::{Engine, NOTHING};
use crate::machine::Action;
use crate::proto::Protocol;
use crate::units::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Running,
    /// No request starts; at the given time what is left counts as unfinished.
    Draining(Nanos),
    Over,
}

impl<P: Protocol> Engine<P> {
    pub(super) fn begin_drain(&mut self, at: Nanos) {
        if self.stage == Stage::Running {
            self.stage = Stage::Draining(at + self.plan.timeout);
            self.load_end = self.load_end.min(at);
            self.source.end(at);
            self.recorder.load_ended(at);
            self.cut_thinking(at);
        }
    }

    /// Everything that is still in flight counts as unfinished.
    pub(super) fn give_up(&mut self, now: Nanos) {
        self.drop_rest(now);
        let used: Vec<u32> = self.conns.used().collect();
        for slot in used {
            let mut flights = std::mem::take(&mut self.conns[slot].flights);
            for flight in flights.drain(..) {
                self.recorder.unfinished(flight.intended);
                self.outstanding -= 1;
            }
        }
        for flight in self.source.take_waiting() {
            self.recorder.unfinished(flight.intended);
            self.outstanding -= 1;
        }
        debug_assert_eq!(self.outstanding, 0);
        self.cut_all(now);
        self.over();
    }

    pub(super) fn over(&mut self) {
        if self.stage != Stage::Over {
            self.stage = Stage::Over;
            // What the driver has not yet been asked for it is never asked for.
            self.first = NOTHING;
            self.actions.clear();
            self.actions.push_back(Action::Finished);
        }
    }

    pub(super) fn check_over(&mut self) {
        if self.stage != Stage::Over && self.outstanding == 0 && self.source.is_done() {
            self.over();
        }
    }
}
