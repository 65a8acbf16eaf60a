//! The sessions of a director: the request that each makes, and what it came to.

use std::fmt;

use super::Exchange;
use prony_base::director::{Director, Received, Step, Written};
use prony_base::fault::Fault;
use prony_plan::script::Filled;
use prony_proto::proto::Reply;

/// The sessions of a director. Each has one request at a time.
pub(in crate::engine) struct Directed {
    director: Box<dyn Director>,
    /// By the slot of the session.
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    next: Written,
    filled: Filled,
    last: Received,
}

impl Directed {
    pub(super) fn new(director: Box<dyn Director>) -> Self {
        Self { director, places: Vec::new() }
    }

    pub(super) fn begin(&mut self, slot: u32, kind: u32, number: u64) {
        if self.places.len() <= slot as usize {
            self.places.resize_with(slot as usize + 1, Place::default);
        }
        self.places[slot as usize].last.clear();
        self.director.begin(slot, kind, number);
    }

    pub(super) fn step(&mut self, slot: u32) -> Step {
        let Place { next, filled, last } = &mut self.places[slot as usize];
        next.clear();
        let step = self.director.step(slot, last, next);
        last.clear();
        if let Step::Request { .. } = step {
            filled.set(&next.path, &next.headers, &next.body);
        }
        step
    }

    pub(super) fn leave(&mut self, slot: u32) {
        self.director.leave(slot);
    }

    pub(super) fn fill(&mut self, exchange: &Exchange) -> &Filled {
        let place = &mut self.places[exchange.user as usize];
        // Nothing of a reply on an earlier connection is kept.
        place.last.clear();
        &place.filled
    }

    pub(super) fn header(&mut self, exchange: &Exchange, name: &[u8], value: &[u8]) {
        self.places[exchange.user as usize].last.add_header(name, value);
    }

    pub(super) fn body(&mut self, exchange: &Exchange, piece: &[u8]) {
        self.places[exchange.user as usize].last.add_body(piece);
    }

    pub(super) fn replied(&mut self, exchange: &Exchange, reply: &Reply, fault: Option<Fault>) {
        let last = &mut self.places[exchange.user as usize].last;
        (last.status, last.fault) = (Some(reply.status), fault);
    }

    pub(super) fn failed(&mut self, slot: u32, fault: Fault) {
        if let Some(place) = self.places.get_mut(slot as usize) {
            place.last.clear();
            place.last.fault = Some(fault);
        }
    }
}

impl fmt::Debug for Directed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directed").field("places", &self.places).finish_non_exhaustive()
    }
}
