//! The slots of a machine for the peers that have connected to it.

use std::collections::VecDeque;

use prony_base::machine::Action;

/// The free slots of a machine that accepts connections. Detects its end, when no slot is taken
/// after a stop.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    free: Vec<u32>,
    taken: u64,
    stopping: bool,
    finished: bool,
}

impl Slots {
    /// A slot for a new peer in `all`, which grows if necessary; `None` if no more are accepted.
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

    /// Free a slot.
    pub(crate) fn give(&mut self, slot: u32, actions: &mut VecDeque<Action>) {
        self.free.push(slot);
        self.taken -= 1;
        self.finish_if_done(actions);
    }

    /// Whether the machine is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Accept no more peers. The caller must close the existing connections (or await their end),
    /// and then call [`finish_if_done`](Self::finish_if_done), as there may be none.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Emit [`Action::Finished`] once, if the machine has finished.
    pub(crate) fn finish_if_done(&mut self, actions: &mut VecDeque<Action>) {
        if self.stopping && self.taken == 0 && !self.finished {
            self.finished = true;
            actions.push_back(Action::Finished);
        }
    }
}
