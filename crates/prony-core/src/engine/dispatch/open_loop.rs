//! The connections that the requests of an open loop share, and the queue for them.

use super::{Kind, Listed, NONE};
use crate::engine::Engine;
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::Placement;
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// Whether a request that has not been sent has timed out.
    #[inline]
    pub(in crate::engine) fn is_overdue(&self, id: RequestId, now: Nanos) -> bool {
        self.unsent_deadline(id) <= now
    }

    /// An arrival has timed out before it could be sent. It gets no connection, as that would be
    /// lost to requests that are still in time.
    #[cold]
    pub(super) fn expire_overdue(&mut self, id: RequestId, now: Nanos) {
        let exchange = &self.exchanges[id];
        if exchange.is_fresh() {
            self.recorder.overdue(exchange.intended());
        }
        self.fail(id, Fault::RequestTimeout, now);
        self.restart_ended(now);
    }

    /// Fail the queued requests that have timed out unsent.
    pub(in crate::engine) fn expire_waiting(&mut self, now: Nanos) {
        if self.dispatch.waiting() == 0 {
            // Usually no request waits.
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

    /// When the oldest waiting request times out; `Nanos::MAX` if none waits.
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
            && let Some(slot) = pools.with_room(endpoint)
        {
            return Some(slot);
        }
        if let Some(slot) = pools.idle(endpoint) {
            return Some(slot);
        }
        if self.links.len() < pools.limit() {
            return Some(self.connect(endpoint, NONE, now));
        }
        let with_room = match P::MULTIPLEXES {
            true => pools.with_room_in_rotation(endpoint),
            false => pools.with_room(endpoint),
        };
        if with_room.is_some() {
            return with_room;
        }
        // The connection limit is reached, but another endpoint has a connection that is idle.
        let spare = pools.idle_anywhere()?;
        self.close_slot(spare, CloseHow::Orderly, now);
        Some(self.connect(endpoint, NONE, now))
    }

    pub(super) fn enqueue(&mut self, endpoint: u32, id: RequestId, now: Nanos) {
        let Kind::Pools(pools) = &mut self.dispatch.kind else { return };
        if self.backlog.is_full(pools.waiting()) {
            self.overflow(id, now);
            return;
        }
        // The time before now is send lag, not time in the queue.
        let exchange = &mut self.exchanges[id];
        exchange.waits_from(now);
        let intended = exchange.intended();
        pools.wait(endpoint, id, intended);
    }

    /// Put a connection of an open loop into the right list: idle, with room, or neither.
    #[inline]
    pub(in crate::engine) fn list(&mut self, slot: u32) {
        if let Kind::Pools(_) = &self.dispatch.kind {
            self.list_in_pool(slot);
        }
    }

    /// Not inlined, so that closed loops only pay for the check; the same below.
    #[inline(never)]
    fn list_in_pool(&mut self, slot: u32) {
        let (in_flight, endpoint) = (self.links.in_flight(slot), self.links.of(slot).0);
        let wanted = if !self.usable(slot) || !self.links.is_open(slot) {
            Listed::No
        } else if in_flight == 0 {
            Listed::Idle
        } else if self.capacity(slot) > 0 {
            Listed::HasCapacity
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
            let exchange = &mut self.exchanges[id];
            if P::MULTIPLEXES && self.links.is_limited_by_peer(slot, &self.carrier, &self.depths) {
                exchange.waited_for_stream(now);
            } else {
                exchange.waited_in_queue(now);
            }
            self.give(slot, id, now);
        }
        self.list(slot);
    }

    /// The connection limit may allow another connection: open one for waiting requests.
    pub(super) fn open_for_queue(&mut self, now: Nanos) {
        self.expire_waiting(now);
        loop {
            let Kind::Pools(pools) = &mut self.dispatch.kind else { return };
            if pools.waiting() == 0 || self.links.len() >= pools.limit() {
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
