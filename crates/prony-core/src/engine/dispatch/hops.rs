//! Requests that follow redirects: they go to the server to which the redirect leads, at once.

use super::Kind;
use crate::engine::Engine;
use prony_base::units::{Nanos, RequestId};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// Where the request goes: to the endpoint of its call, or where a redirect leads.
    #[inline]
    pub(super) fn endpoint_of(&self, id: RequestId) -> u32 {
        let moved = self.dynamic.as_deref().and_then(|dynamic| dynamic.endpoint(id));
        moved.unwrap_or_else(|| self.calls.get(self.exchanges[id].call()).endpoint)
    }

    /// Apply what left a connection that stays open: requests that are sent again, or that follow a
    /// redirect. Those on a carrier that multiplexes are placed later.
    #[inline]
    pub(in crate::engine) fn again_beside(&mut self, slot: u32, now: Nanos) {
        if !self.outcome.again.is_empty() {
            self.requeue();
            self.hops_beside(slot, now);
        }
    }

    #[cold]
    fn hops_beside(&mut self, slot: u32, now: Nanos) {
        // A connection that has just become free is the first choice.
        let here = self.links.of(slot).0;
        let again = std::mem::take(&mut self.outcome.again);
        if again.iter().any(|&id| self.endpoint_of(id) == here) {
            self.list(slot);
        }
        self.outcome.again = again;
        if P::MULTIPLEXES {
            return;
        }
        let mut again = std::mem::take(&mut self.outcome.again);
        for id in again.drain(..) {
            self.place(id, now);
            self.make_room(slot);
        }
        self.outcome.again = again;
    }

    /// If all connections are taken, one that carries nothing makes room for one to another server.
    #[cold]
    pub(in crate::engine) fn make_room(&mut self, slot: u32) {
        let here = self.links.of(slot).0;
        if let Kind::Pools(pools) = &self.dispatch.kind
            && self.links.len() >= pools.limit()
            && self.links.is_open(slot)
            && self.links.in_flight(slot) == 0
            && pools.oldest().is_some_and(|(_, endpoint)| endpoint != here)
        {
            self.links.leave_to_others(slot);
        }
    }
}
