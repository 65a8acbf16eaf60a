//! The requests of streams that are opened again: each says which event was the last.

use super::Exchange;
use super::dynamic::Dynamic;
use crate::fault::Fault;
use crate::script::Filled;
use crate::units::{Nanos, RequestId};

/// What fills in requests of a plan whose streams are opened again.
#[derive(Debug)]
pub(in crate::engine) struct Resumed {
    /// What fills them in otherwise, if anything does.
    pub(super) usual: Option<Dynamic>,
    /// The ID of the last event of each stream, by the slot of its exchange, with the exchange's
    /// generation.
    last: Vec<(u32, Vec<u8>)>,
    /// Scratch.
    filled: Filled,
}

impl Resumed {
    pub(super) fn new(usual: Option<Dynamic>) -> Self {
        Self { usual, last: Vec::new(), filled: Filled::default() }
    }

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

    pub(super) fn fill(
        &mut self,
        id: RequestId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<&Filled, Fault> {
        self.filled = match &mut self.usual {
            Some(usual) if usual.fills(exchange.call) => usual.fill(id, exchange, now)?.clone(),
            _ => Filled::default(),
        };
        // Another exchange may have been in the slot. (Whether a reply has begun is forgotten if
        // the connection is lost again.)
        let last = self.last.get(id.slot as usize).filter(|(of, _)| *of == id.generation);
        if let Some((_, last)) = last.filter(|(_, last)| !last.is_empty()) {
            self.filled.add_header("Last-Event-ID", last);
        }
        Ok(&self.filled)
    }
}
