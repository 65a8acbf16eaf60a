//! Chooses the connection for each request: one of a group of users, of a pool, or of a session.
//! Keeps the queues for connections, and opens new ones. Knows nothing of bytes.

mod fruitless;
mod hops;
mod in_session;
mod open_loop;
mod pacing;
mod pools;
mod session_conns;
mod sockets;
#[cfg(test)]
mod tests;
mod user_groups;

use super::Engine;
use super::exchange::New;
use super::load::Load;
pub(super) use fruitless::Fruitless;
pub(super) use pacing::Pacing;
use pools::{Listed, Pools};
use prony_base::units::{Nanos, RequestId};
use prony_plan::plan::{self, Plan};
use prony_proto::proto::Carrier;
use session_conns::SessionConns;
use user_groups::UserGroups;

/// No slot, no position.
const NONE: u32 = u32::MAX;

/// Who owns which connections, and who waits for one.
#[derive(Debug)]
pub(super) struct Dispatch {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Groups(UserGroups),
    Pools(Pools),
    Sessions(SessionConns),
}

impl Dispatch {
    pub(super) fn new(plan: &Plan) -> Self {
        let kind = match (&plan.sessions, &plan.load) {
            (Some(sessions), plan::Load::Closed { .. }) => {
                Kind::Sessions(SessionConns::new(usize::MAX, sessions.connections))
            }
            (Some(sessions), plan::Load::Open { connections, .. }) => {
                let limit = plan.shard.share_of(u64::from(*connections)) as usize;
                Kind::Sessions(SessionConns::new(limit, sessions.connections))
            }
            (None, plan::Load::Closed { connections, .. }) => {
                Kind::Groups(UserGroups::new(plan, *connections))
            }
            (None, plan::Load::Open { connections, .. }) => {
                let limit = plan.shard.share_of(u64::from(*connections)) as usize;
                Kind::Pools(Pools::new(plan.endpoints.len(), limit))
            }
        };
        Self { kind }
    }

    /// Approximately how many connections there will be.
    pub(super) fn connections(&self, load: &Load) -> usize {
        match &self.kind {
            Kind::Groups(groups) => groups.connections(),
            Kind::Pools(pools) => pools.limit(),
            Kind::Sessions(sessions) => load.users().unwrap_or_else(|| sessions.limit()),
        }
    }

    /// Whether all requests share the connections.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Pools(_))
    }

    /// The group's connection, if it has one and requests may be given to it together.
    #[inline(always)]
    pub(super) fn batch_slot(&self, group: u32) -> Option<u32> {
        match &self.kind {
            Kind::Groups(groups) => groups.batch_slot(group),
            Kind::Pools(_) | Kind::Sessions(_) => None,
        }
    }

    /// The connection of a group of users to the first endpoint.
    pub(super) fn slot_of_group(&self, group: u32) -> Option<u32> {
        match &self.kind {
            Kind::Groups(groups) => groups.slot(group, 0),
            Kind::Pools(_) | Kind::Sessions(_) => None,
        }
    }

    /// How many requests, or sessions, wait for a connection.
    pub(super) fn waiting(&self) -> usize {
        match &self.kind {
            Kind::Groups(_) => 0,
            Kind::Pools(pools) => pools.waiting(),
            Kind::Sessions(sessions) => sessions.waiting(),
        }
    }

    /// All requests that wait for a connection, or for room on one.
    pub(super) fn all_waiting(&self) -> Box<dyn Iterator<Item = RequestId> + '_> {
        match &self.kind {
            Kind::Groups(_) => Box::new(std::iter::empty()),
            Kind::Pools(pools) => Box::new(pools.all_waiting()),
            Kind::Sessions(sessions) => Box::new(sessions.all_pending()),
        }
    }

    /// Empty all queues. Returns the requests that waited.
    pub(super) fn take_all_waiting(&mut self) -> Vec<RequestId> {
        match &mut self.kind {
            Kind::Groups(_) => Vec::new(),
            Kind::Pools(pools) => pools.take_all(),
            Kind::Sessions(sessions) => sessions.take_all_pending(),
        }
    }

    /// Session `number` starts in this slot.
    pub(super) fn enter(&mut self, place: u32, number: u64) {
        if let Kind::Sessions(sessions) = &mut self.kind {
            sessions.enter(place, number);
        }
    }

    /// The session has ended; it has no connection any more.
    pub(super) fn leave(&mut self, place: u32) {
        if let Kind::Sessions(sessions) = &mut self.kind {
            sessions.leave(place);
        }
    }

    /// The newest connection of a session.
    pub(super) fn newest_of(&self, place: u32) -> Option<u32> {
        match &self.kind {
            Kind::Sessions(sessions) => sessions.conns(place).last().copied(),
            Kind::Groups(_) | Kind::Pools(_) => None,
        }
    }

    /// All connections of a session.
    pub(super) fn all_of(&self, place: u32) -> Vec<u32> {
        match &self.kind {
            Kind::Sessions(sessions) => sessions.conns(place).to_vec(),
            Kind::Groups(_) | Kind::Pools(_) => Vec::new(),
        }
    }

    /// Take all waiting requests of a session.
    pub(super) fn take_pending(
        &mut self,
        place: u32,
    ) -> impl IntoIterator<Item = RequestId> + use<> {
        match &mut self.kind {
            Kind::Sessions(sessions) => sessions.take_pending(place),
            Kind::Groups(_) | Kind::Pools(_) => std::collections::VecDeque::new(),
        }
    }

    /// Empty the queue of sessions that wait for a connection. Returns those sessions.
    pub(super) fn take_waiting_sessions(&mut self) -> impl IntoIterator<Item = u32> + use<> {
        match &mut self.kind {
            Kind::Sessions(sessions) => sessions.take_waiting(),
            Kind::Groups(_) | Kind::Pools(_) => std::collections::VecDeque::new(),
        }
    }
}

impl<P: Carrier> Engine<P> {
    /// A request starts.
    pub(super) fn start(&mut self, new: New, now: Nanos) {
        self.recorder.started(new.intended);
        if let Some(name) = self.calls.name(new.call) {
            self.recorder.name_started(name, new.intended);
        }
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let endpoint = self.calls.get(new.call).endpoint;
        let id = self.exchanges.insert(new);
        self.place_at(endpoint, id, now);
    }

    /// Give a request that has left its connection to another one, or queue it.
    pub(super) fn place(&mut self, id: RequestId, now: Nanos) {
        self.place_at(self.endpoint_of(id), id, now);
    }

    /// Give the request to a connection to this endpoint, or queue it.
    #[inline]
    fn place_at(&mut self, endpoint: u32, id: RequestId, now: Nanos) {
        let exchange = &self.exchanges[id];
        let (user, (retried, _)) = (exchange.user(), exchange.resent());
        match &self.dispatch.kind {
            Kind::Groups(groups) => {
                let group = groups.group(user);
                match groups.slot(group, endpoint).filter(|&slot| self.usable(slot)) {
                    Some(slot) => self.give(slot, id, now),
                    None => {
                        let slot = self.connect(endpoint, group, now);
                        self.give(slot, id, now);
                    }
                }
            }
            Kind::Pools(_) if self.is_overdue(id, now) => self.expire_overdue(id, now),
            // It lost an idle connection, and could lose the next one the same way: open a new one.
            Kind::Pools(pools) if retried && self.links.len() < pools.limit() => {
                let slot = self.connect(endpoint, NONE, now);
                self.give(slot, id, now);
            }
            Kind::Pools(_) => match self.find(endpoint, now) {
                Some(slot) => self.give(slot, id, now),
                None => self.enqueue(endpoint, id, now),
            },
            Kind::Sessions(_) => self.place_in_session(id, now),
        }
    }

    /// Open a connection for a group of users, or a session.
    fn connect(&mut self, endpoint: u32, owner: u32, now: Nanos) -> u32 {
        let id = self.links.insert(endpoint, owner, now);
        if let Kind::Groups(groups) = &mut self.dispatch.kind {
            groups.add(owner, endpoint, id.slot);
        }
        self.links_max = self.links_max.max(self.links.len() as u64);
        if let Some(peak) = &self.peak {
            peak.opens();
        }
        self.queue_connect(id, endpoint, now);
        id.slot
    }

    /// Open the connections of an open loop before the first arrival. An opening exchange in the
    /// middle of the load would count as response time.
    pub(super) fn connect_beforehand(&mut self, now: Nanos) {
        let Kind::Pools(pools) = &self.dispatch.kind else { return };
        let (limit, endpoints) = (pools.limit(), self.plan.endpoints.len());
        for i in 0..limit {
            self.connect((i % endpoints) as u32, NONE, now);
        }
    }

    /// Remove the connection from its pool, group or session, before it is closed.
    pub(super) fn unlist(&mut self, slot: u32) {
        let (endpoint, owner) = self.links.of(slot);
        match &mut self.dispatch.kind {
            Kind::Pools(pools) => pools.list(slot, endpoint, Listed::No),
            Kind::Groups(groups) => groups.remove(owner, endpoint, slot),
            Kind::Sessions(sessions) => {
                sessions.remove(owner, slot);
                self.load.lost_connection(owner, self.links.served(slot));
            }
        }
    }

    /// The connection may have room: give it waiting requests for its endpoint, or of its session.
    #[inline]
    pub(super) fn pump_slot(&mut self, slot: u32, now: Nanos) {
        match &self.dispatch.kind {
            Kind::Groups(_) => {}
            Kind::Pools(_) => self.pump_queue(slot, now),
            Kind::Sessions(_) => self.feed(self.links.of(slot).1, now),
        }
    }

    /// The connection limit may allow another connection: open one for waiting requests.
    pub(super) fn pump_waiting(&mut self, now: Nanos) {
        match &self.dispatch.kind {
            Kind::Groups(_) => {}
            Kind::Pools(_) => self.open_for_queue(now),
            Kind::Sessions(_) => self.feed_waiting(now),
        }
    }
}
