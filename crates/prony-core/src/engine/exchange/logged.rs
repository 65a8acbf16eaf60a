//! The paths and bodies of the requests of a log, which differ from request to request.

use super::Exchanges;
use prony_base::feed::Own;
use prony_base::units::RequestId;
use prony_plan::script::Filled;

/// What each exchange that has started and not ended has of its own. Its memory is used again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Paths {
    /// By the slot of the exchange.
    all: Vec<Own>,
    /// Scratch.
    filled: Filled,
}

impl Exchanges {
    /// The ID of the request that starts next.
    pub(in crate::engine) fn next_id(&self) -> RequestId {
        let slot = self.next_slot();
        let generation = self.all.get(slot as usize).map_or(0, |place| place.generation);
        RequestId { slot, generation }
    }
}

impl Paths {
    /// What the exchange in this slot has, to be replaced.
    pub(in crate::engine) fn of(&mut self, slot: u32) -> &mut Own {
        let slot = slot as usize;
        if self.all.len() <= slot {
            self.all.resize_with(slot + 1, Own::default);
        }
        &mut self.all[slot]
    }

    /// The content of a request.
    pub(super) fn fill(&mut self, id: RequestId) -> &Filled {
        let Own { path, body } = &self.all[id.slot as usize];
        match body.as_deref() {
            None => self.filled.set(path, b"", b""),
            Some(body) => {
                self.filled.set(path, b"", &body.bytes);
                if let Some(content_type) = &body.content_type {
                    self.filled.add_header("Content-Type", content_type.as_bytes());
                }
            }
        }
        &self.filled
    }
}
