//! The shared connections of an open loop, by endpoint: which are idle, which have room, and which
//! requests wait for one.

use std::collections::{BTreeSet, VecDeque};

use super::NONE;
use prony_base::units::{Nanos, RequestId};

/// All connections of an open loop.
#[derive(Debug)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// The position of each connection in its list, by slot.
    places: Vec<Place>,
    /// How many requests wait because no connection was free.
    waiting: usize,
    /// For each endpoint with waiting requests: the intended start of the oldest one. Sorted, so
    /// that no event has to check all endpoints.
    oldest: BTreeSet<(Nanos, u32)>,
    /// How many connections are idle.
    idle: usize,
    /// The most connections at once.
    limit: usize,
}

/// The connections to one endpoint. Lists are stacks: the most recently used connection is used
/// next, as HTTP clients do.
#[derive(Debug, Default)]
struct Pool {
    idle: Vec<u32>,
    with_room: Vec<u32>,
    /// The position in `with_room` of the connection that was used last in rotation.
    turn: usize,
    /// Requests that wait because no connection was free, oldest first.
    waiting: VecDeque<(Nanos, RequestId)>,
}

/// Which list of its pool a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    No,
    /// Nothing in flight.
    Idle,
    /// Something in flight, but room for more.
    HasCapacity,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    listed: Listed,
    position: u32,
}

impl Pools {
    pub(super) fn new(endpoints: usize, limit: usize) -> Self {
        let pools = (0..endpoints).map(|_| Pool::default()).collect();
        Self { pools, places: Vec::new(), waiting: 0, oldest: BTreeSet::new(), idle: 0, limit }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// How many requests wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// An idle connection: the most recently used one.
    #[inline]
    pub(super) fn idle(&self, endpoint: u32) -> Option<u32> {
        self.pools[endpoint as usize].idle.last().copied()
    }

    /// An idle connection to any endpoint.
    pub(super) fn idle_anywhere(&self) -> Option<u32> {
        if self.idle == 0 {
            return None;
        }
        self.pools.iter().find_map(|pool| pool.idle.last().copied())
    }

    /// A busy connection with room for one more: the one that got room first. With pipelined
    /// HTTP/1, its replies are due first.
    pub(super) fn with_room(&self, endpoint: u32) -> Option<u32> {
        self.pools[endpoint as usize].with_room.first().copied()
    }

    /// A busy connection with room for one more, in rotation.
    pub(super) fn with_room_in_rotation(&mut self, endpoint: u32) -> Option<u32> {
        let pool = &mut self.pools[endpoint as usize];
        pool.turn = (pool.turn + 1) % pool.with_room.len().max(1);
        pool.with_room.get(pool.turn).copied()
    }

    /// Queue a request. The queue stays sorted by intended start, also if a request returns to it.
    pub(super) fn wait(&mut self, endpoint: u32, id: RequestId, intended: Nanos) {
        let waiting = &mut self.pools[endpoint as usize].waiting;
        let at = waiting.partition_point(|&(other, _)| other <= intended);
        if at == 0 {
            if let Some(&(second, _)) = waiting.front() {
                self.oldest.remove(&(second, endpoint));
            }
            self.oldest.insert((intended, endpoint));
        }
        waiting.insert(at, (intended, id));
        self.waiting += 1;
    }

    /// The intended start of the oldest waiting request, and its endpoint.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(Nanos, u32)> {
        self.oldest.first().copied()
    }

    /// Take the oldest request that waits for the endpoint.
    pub(super) fn take(&mut self, endpoint: u32) -> Option<RequestId> {
        let waiting = &mut self.pools[endpoint as usize].waiting;
        let (intended, id) = waiting.pop_front()?;
        self.oldest.remove(&(intended, endpoint));
        if let Some(&(next, _)) = waiting.front() {
            self.oldest.insert((next, endpoint));
        }
        self.waiting -= 1;
        Some(id)
    }

    /// Take all waiting requests.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.waiting = 0;
        self.oldest.clear();
        self.pools.iter_mut().flat_map(|pool| pool.waiting.drain(..)).map(|(_, id)| id).collect()
    }

    /// All waiting requests.
    pub(super) fn all_waiting(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.pools.iter().flat_map(|pool| pool.waiting.iter().map(|(_, id)| *id))
    }

    /// Move the connection into the list where it belongs now.
    pub(super) fn list(&mut self, slot: u32, endpoint: u32, wanted: Listed) {
        let at = slot as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, Place { listed: Listed::No, position: NONE });
        }
        let Place { listed, position } = self.places[at];
        if listed == wanted {
            return;
        }
        self.idle += usize::from(wanted == Listed::Idle);
        self.idle -= usize::from(listed == Listed::Idle);
        let pool = &mut self.pools[endpoint as usize];
        if let Some(list) = pool.list(listed) {
            list.swap_remove(position as usize);
            if let Some(&moved) = list.get(position as usize) {
                self.places[moved as usize].position = position;
            }
        }
        let position = pool.list(wanted).map_or(NONE, |list| {
            list.push(slot);
            list.len() as u32 - 1
        });
        self.places[at] = Place { listed: wanted, position };
    }
}

impl Pool {
    fn list(&mut self, which: Listed) -> Option<&mut Vec<u32>> {
        match which {
            Listed::No => None,
            Listed::Idle => Some(&mut self.idle),
            Listed::HasCapacity => Some(&mut self.with_room),
        }
    }
}
