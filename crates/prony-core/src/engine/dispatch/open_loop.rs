//! The connections that an open loop's requests share, and the queue before them.

use super::{Kind, Listed, NONE};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::plan::Placement;
use crate::proto::Carrier;
use crate::units::{Nanos, RequestId};

impl<P: Carrier> Engine<P> {
    /// Whether the time of a request that is not sent is up.
    #[inline]
    pub(in crate::engine) fn is_overdue(&self, id: RequestId, now: Nanos) -> bool {
        self.unsent_deadline(id) <= now
    }

    /// An arrival has failed before it could be sent. A connection is of no use to it, and would be
    /// lost by it to those that are in time.
    #[cold]
    pub(super) fn expire_overdue(&mut self, id: RequestId, now: Nanos) {
        let exchange = &self.exchanges[id];
        if exchange.is_fresh() {
            self.recorder.overdue(exchange.intended());
        }
        self.fail(id, Fault::RequestTimeout, now);
        self.restart_ended(now);
    }

    /// Requests that waited in the queue until their time was up have failed, unsent.
    pub(in crate::engine) fn expire_waiting(&mut self, now: Nanos) {
        if self.dispatch.waiting() == 0 {
            // Mostly nobody waits.
            self.restart_ended(now);
            return;
        }
        let timeout = self.unsent_timeout();
        while let Kind::Pools(pools) = &mut self.dispatch.kind {
            let late = pools.oldest().filter(|(intended, _)| *intended + timeout <= now);
            let Some(id) = late.and_then(|(_, endpoint)| pools.take(endpoint)) else { break };
            self.exchanges[id].waited_in_queue(now);
            self.fail(id, Fault::RequestTimeout, now);
        }
        self.restart_ended(now);
    }

    /// When the oldest request that waits runs out of time; `Nanos::MAX`: none waits.
    #[inline]
    pub(in crate::engine) fn queue_deadline(&self) -> Nanos {
        let Kind::Pools(pools) = &self.dispatch.kind else { return Nanos::MAX };
        let oldest = pools.oldest();
        oldest.map_or(Nanos::MAX, |(intended, _)| intended + self.unsent_timeout())
    }

    /// A connection that can take one more request now.
    pub(super) fn find(&mut self, endpoint: u32, now: Nanos) -> Option<u32> {
        let Kind::Pools(pools) = &mut self.dispatch.kind else { return None };
        if self.plan.placement == Placement::Fill
            && let Some(slot) = pools.roomy(endpoint)
        {
            return Some(slot);
        }
        if let Some(slot) = pools.idle(endpoint) {
            return Some(slot);
        }
        if self.links.len() < pools.cap() {
            return Some(self.connect(endpoint, NONE, now));
        }
        let roomy = match P::MULTIPLEXES {
            true => pools.roomy_in_turn(endpoint),
            false => pools.roomy(endpoint),
        };
        if roomy.is_some() {
            return roomy;
        }
        // At the cap, but another endpoint holds a connection that it does not need now.
        let spare = pools.idle_anywhere()?;
        self.part(spare, CloseHow::Orderly, now);
        Some(self.connect(endpoint, NONE, now))
    }

    pub(super) fn enqueue(&mut self, endpoint: u32, id: RequestId, now: Nanos) {
        let Kind::Pools(pools) = &mut self.dispatch.kind else { return };
        if self.backlog.is_full(pools.waiting()) {
            self.overflow(id, now);
            return;
        }
        // Whatever passed before is the meter's lateness, not the queue's.
        let exchange = &mut self.exchanges[id];
        exchange.waits_from(now);
        let intended = exchange.intended();
        pools.wait(endpoint, id, intended);
    }

    /// Put an open-loop connection where it belongs: idle, with room, or neither.
    #[inline]
    pub(in crate::engine) fn list(&mut self, slot: u32) {
        if let Kind::Pools(_) = &self.dispatch.kind {
            self.list_in_pool(slot);
        }
    }

    /// Apart, so that closed loops only ask; the same below.
    #[inline(never)]
    fn list_in_pool(&mut self, slot: u32) {
        let (in_flight, endpoint) = (self.links.in_flight(slot), self.links.of(slot).0);
        let wanted = if !self.usable(slot) || !self.links.is_open(slot) {
            Listed::No
        } else if in_flight == 0 {
            Listed::Idle
        } else if self.capacity(slot) > 0 {
            Listed::Roomy
        } else {
            Listed::No
        };
        if let Kind::Pools(pools) = &mut self.dispatch.kind {
            pools.list(slot, endpoint, wanted);
        }
    }

    #[inline(never)]
    pub(super) fn pump_queue(&mut self, slot: u32, now: Nanos) {
        self.expire_waiting(now);
        while self.dispatch.waiting() > 0 {
            let has_room = self.links.is_open(slot) && self.usable(slot) && self.capacity(slot) > 0;
            let endpoint = self.links.of(slot).0;
            let Kind::Pools(pools) = &mut self.dispatch.kind else { return };
            if !has_room {
                break;
            }
            let Some(id) = pools.take(endpoint) else { break };
            self.exchanges[id].waited_in_queue(now);
            self.give(slot, id, now);
        }
        self.list(slot);
    }

    /// There may be a free place under the cap: requests that wait open a connection.
    pub(super) fn open_for_queue(&mut self, now: Nanos) {
        self.expire_waiting(now);
        loop {
            let Kind::Pools(pools) = &mut self.dispatch.kind else { return };
            if pools.waiting() == 0 || self.links.len() >= pools.cap() {
                return;
            }
            let Some((_, endpoint)) = pools.oldest() else { return };
            let Some(id) = pools.take(endpoint) else { return };
            self.exchanges[id].waited_in_queue(now);
            let slot = self.connect(endpoint, NONE, now);
            self.give(slot, id, now);
        }
    }
}
