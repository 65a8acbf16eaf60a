//! Which connection carries a request: those of lanes, of pools, or of sessions; the queues before
//! them, and when a new one is opened. Knows no bytes.

mod in_session;
mod lanes;
mod open_loop;
mod own;
mod pacing;
mod pools;
#[cfg(test)]
mod tests;

use super::Engine;
use super::exchange::New;
use super::load::Load;
use crate::plan::{self, Plan};
use crate::proto::Carrier;
use crate::units::{Nanos, RequestId};
use lanes::Lanes;
use own::Own;
pub(super) use pacing::Pacing;
use pools::{Listed, Pools};

/// No slot, no position.
const NONE: u32 = u32::MAX;

/// Who has which connections, and who waits for one.
#[derive(Debug)]
pub(super) struct Dispatch {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Lanes(Lanes),
    Pools(Pools),
    Own(Own),
}

impl Dispatch {
    pub(super) fn new(plan: &Plan) -> Self {
        let kind = match (&plan.sessions, &plan.load) {
            (Some(sessions), plan::Load::Closed { .. }) => {
                Kind::Own(Own::new(usize::MAX, sessions.connections))
            }
            (Some(sessions), plan::Load::Open { connections, .. }) => {
                let cap = plan.shard.share_of(u64::from(*connections)) as usize;
                Kind::Own(Own::new(cap, sessions.connections))
            }
            (None, plan::Load::Closed { connections, .. }) => {
                Kind::Lanes(Lanes::new(plan, *connections))
            }
            (None, plan::Load::Open { connections, .. }) => {
                let cap = plan.shard.share_of(u64::from(*connections)) as usize;
                Kind::Pools(Pools::new(plan.endpoints.len(), cap))
            }
        };
        Self { kind }
    }

    /// How many connections there will be, roughly.
    pub(super) fn connections(&self, load: &Load) -> usize {
        match &self.kind {
            Kind::Lanes(lanes) => lanes.connections(),
            Kind::Pools(pools) => pools.cap(),
            Kind::Own(own) => load.users().unwrap_or_else(|| own.cap()),
        }
    }

    /// Whether connections are shared by all who come.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Pools(_))
    }

    /// The lane's connection, where it has one, and requests may be given to it together.
    #[inline]
    pub(super) fn crowd_slot(&self, lane: u32) -> Option<u32> {
        match &self.kind {
            Kind::Lanes(lanes) => lanes.crowd_slot(lane),
            Kind::Pools(_) | Kind::Own(_) => None,
        }
    }

    /// How many requests, or sessions, wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        match &self.kind {
            Kind::Lanes(_) => 0,
            Kind::Pools(pools) => pools.waiting(),
            Kind::Own(own) => own.waiting(),
        }
    }

    /// All requests that wait for a connection, or for room on one.
    pub(super) fn all_waiting(&self) -> Box<dyn Iterator<Item = RequestId> + '_> {
        match &self.kind {
            Kind::Lanes(_) => Box::new(std::iter::empty()),
            Kind::Pools(pools) => Box::new(pools.all_waiting()),
            Kind::Own(own) => Box::new(own.all_pending()),
        }
    }

    /// They wait no more.
    pub(super) fn take_all_waiting(&mut self) -> Vec<RequestId> {
        match &mut self.kind {
            Kind::Lanes(_) => Vec::new(),
            Kind::Pools(pools) => pools.take_all(),
            Kind::Own(own) => own.take_all_pending(),
        }
    }

    /// The session of that number begins at that place.
    pub(super) fn enter(&mut self, place: u32, number: u64) {
        if let Kind::Own(own) = &mut self.kind {
            own.enter(place, number);
        }
    }

    /// It has ended; it has no connection any more.
    pub(super) fn leave(&mut self, place: u32) {
        if let Kind::Own(own) = &mut self.kind {
            own.leave(place);
        }
    }

    /// The newest connection of a session.
    pub(super) fn newest_of(&self, place: u32) -> Option<u32> {
        match &self.kind {
            Kind::Own(own) => own.conns(place).last().copied(),
            Kind::Lanes(_) | Kind::Pools(_) => None,
        }
    }

    /// All connections of a session.
    pub(super) fn all_of(&self, place: u32) -> Vec<u32> {
        match &self.kind {
            Kind::Own(own) => own.conns(place).to_vec(),
            Kind::Lanes(_) | Kind::Pools(_) => Vec::new(),
        }
    }

    /// The requests of a session that wait, which wait no more.
    pub(super) fn take_pending(
        &mut self,
        place: u32,
    ) -> impl IntoIterator<Item = RequestId> + use<> {
        match &mut self.kind {
            Kind::Own(own) => own.take_pending(place),
            Kind::Lanes(_) | Kind::Pools(_) => std::collections::VecDeque::new(),
        }
    }

    /// No session stands in line for a connection any more; those that did.
    pub(super) fn take_line(&mut self) -> impl IntoIterator<Item = u32> + use<> {
        match &mut self.kind {
            Kind::Own(own) => own.take_waiting(),
            Kind::Lanes(_) | Kind::Pools(_) => std::collections::VecDeque::new(),
        }
    }
}

impl<P: Carrier> Engine<P> {
    /// A request begins.
    pub(super) fn start(&mut self, new: New, now: Nanos) {
        self.recorder.started(new.intended);
        if let Some(name) = self.calls.name(new.call) {
            self.recorder.name_started(name, new.intended);
        }
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let id = self.exchanges.insert(new);
        self.place(id, now);
    }

    /// Give the request to a connection, or let it wait for one.
    pub(super) fn place(&mut self, id: RequestId, now: Nanos) {
        let exchange = &self.exchanges[id];
        let (call, user, (retried, _)) = (exchange.call(), exchange.user(), exchange.resent());
        let endpoint = self.calls.get(call).endpoint;
        match &self.dispatch.kind {
            Kind::Lanes(lanes) => {
                let lane = lanes.lane(user);
                match lanes.slot(lane, endpoint).filter(|&slot| self.usable(slot)) {
                    Some(slot) => self.give(slot, id, now),
                    None => {
                        let slot = self.connect(endpoint, lane, now);
                        self.give(slot, id, now);
                    }
                }
            }
            Kind::Pools(_) if self.is_overdue(id, now) => self.expire_overdue(id, now),
            // It lost an idle connection, and could lose the next one likewise.
            Kind::Pools(pools) if retried && self.links.len() < pools.cap() => {
                let slot = self.connect(endpoint, NONE, now);
                self.give(slot, id, now);
            }
            Kind::Pools(_) => match self.find(endpoint, now) {
                Some(slot) => self.give(slot, id, now),
                None => self.enqueue(endpoint, id, now),
            },
            Kind::Own(_) => self.place_in_session(id, now),
        }
    }

    /// Open a connection for that lane, or session.
    fn connect(&mut self, endpoint: u32, owner: u32, now: Nanos) -> u32 {
        let id = self.links.insert(endpoint, owner, now);
        if let Kind::Lanes(lanes) = &mut self.dispatch.kind {
            lanes.has(owner, endpoint, id.slot);
        }
        self.links_max = self.links_max.max(self.links.len() as u64);
        self.line_up(id, endpoint, now);
        id.slot
    }

    /// Connections of an open loop are made before the first arrival wants one: an opening exchange
    /// in the middle of the load would count as the load's own time.
    pub(super) fn connect_beforehand(&mut self, now: Nanos) {
        let Kind::Pools(pools) = &self.dispatch.kind else { return };
        let (cap, endpoints) = (pools.cap(), self.plan.endpoints.len());
        for i in 0..cap {
            self.connect((i % endpoints) as u32, NONE, now);
        }
    }

    /// The connection leaves its pool, lane or session: it is about to go.
    pub(super) fn unlist(&mut self, slot: u32) {
        let (endpoint, owner) = self.links.of(slot);
        match &mut self.dispatch.kind {
            Kind::Pools(pools) => pools.list(slot, endpoint, Listed::No),
            Kind::Lanes(lanes) => lanes.has_no_more(owner, endpoint, slot),
            Kind::Own(own) => {
                own.has_no_more(owner, slot);
                self.load.lost_connection(owner, self.links.served(slot));
            }
        }
    }

    /// The connection may have room: requests that wait for its endpoint take it, or those of its
    /// session.
    #[inline]
    pub(super) fn pump_slot(&mut self, slot: u32, now: Nanos) {
        match &self.dispatch.kind {
            Kind::Lanes(_) => {}
            Kind::Pools(_) => self.pump_queue(slot, now),
            Kind::Own(_) => self.feed(self.links.of(slot).1, now),
        }
    }

    /// There may be a free place under the cap: requests that wait open a connection.
    pub(super) fn pump_waiting(&mut self, now: Nanos) {
        match &self.dispatch.kind {
            Kind::Lanes(_) => {}
            Kind::Pools(_) => self.open_for_queue(now),
            Kind::Own(_) => self.feed_waiting(now),
        }
    }
}
