//! Where a machine keeps those who have connected to it.

use std::collections::VecDeque;

use super::Action;

/// The free slots of a machine that others connect to, and its end once nobody has one.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    free: Vec<u32>,
    taken: u64,
    stopping: bool,
    finished: bool,
}

impl Slots {
    /// A slot for somebody new in `all`, which grows if it must; `None` where nobody is let in any
    /// more.
    pub(crate) fn take<C: Default>(&mut self, all: &mut Vec<C>) -> Option<u32> {
        if self.stopping {
            return None;
        }
        self.taken += 1;
        Some(self.free.pop().unwrap_or_else(|| {
            all.push(C::default());
            all.len() as u32 - 1
        }))
    }

    /// Somebody has gone.
    pub(crate) fn give(&mut self, slot: u32, actions: &mut VecDeque<Action>) {
        self.free.push(slot);
        self.taken -= 1;
        self.finish_if_done(actions);
    }

    /// Whether the machine is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Nobody is let in any more. Those who are there are to be ended (or waited for), and then
    /// [`finish_if_done`](Self::finish_if_done) is to be called: there may be nobody.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Say once that the machine has finished, if it has.
    pub(crate) fn finish_if_done(&mut self, actions: &mut VecDeque<Action>) {
        if self.stopping && self.taken == 0 && !self.finished {
            self.finished = true;
            actions.push_back(Action::Finished);
        }
    }
}
