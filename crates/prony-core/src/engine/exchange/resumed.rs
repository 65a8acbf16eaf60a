//! The requests of streams that are opened again: each says which event was the last.

use prony_base::units::RequestId;
use prony_plan::script::Filled;

/// What fills in requests of a plan whose streams are opened again.
#[derive(Debug, Default)]
pub(in crate::engine) struct Resumed {
    /// The ID of the last event of each stream, by the slot of its exchange, with the exchange's
    /// generation.
    last: Vec<(u32, Vec<u8>)>,
    /// Scratch.
    filled: Filled,
}

impl Resumed {
    /// The exchange is sent again, after the event with this ID.
    pub(super) fn resume(&mut self, id: RequestId, last: &[u8]) {
        let slot = id.slot as usize;
        if self.last.len() <= slot {
            self.last.resize_with(slot + 1, Default::default);
        }
        let (generation, kept) = &mut self.last[slot];
        *generation = id.generation;
        kept.clear();
        kept.extend_from_slice(last);
    }

    /// The request, whose parts so far are `parts`.
    pub(super) fn fill(&mut self, id: RequestId, parts: Option<&Filled>) -> &Filled {
        match parts {
            Some(parts) => self.filled.copy(parts),
            None => self.filled.clear(),
        }
        // Another exchange may have been in the slot. (Whether a reply has begun is forgotten if
        // the connection is lost again.)
        let last = self.last.get(id.slot as usize).filter(|(of, _)| *of == id.generation);
        if let Some((_, last)) = last.filter(|(_, last)| !last.is_empty()) {
            self.filled.add_header("Last-Event-ID", last);
        }
        &self.filled
    }
}
