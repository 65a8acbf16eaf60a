//! The paths of the requests of a log, which differ from request to request.

use crate::script::Filled;
use crate::units::RequestId;

/// The path of each exchange that has started and not ended. Their memory is used again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Paths {
    /// By the slot of the exchange.
    all: Vec<Vec<u8>>,
    /// Scratch.
    filled: Filled,
}

impl Paths {
    /// The path of the exchange in this slot, to be replaced.
    pub(in crate::engine) fn of(&mut self, slot: u32) -> &mut Vec<u8> {
        let slot = slot as usize;
        if self.all.len() <= slot {
            self.all.resize_with(slot + 1, Vec::new);
        }
        &mut self.all[slot]
    }

    /// The content of a request.
    pub(super) fn fill(&mut self, id: RequestId) -> &Filled {
        self.filled.set(&self.all[id.slot as usize], b"", b"");
        &self.filled
    }
}
