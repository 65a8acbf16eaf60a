//! The connections that an open loop shares, by endpoint: which are idle, which have room, and who
//! waits for one.

use std::collections::{BTreeSet, VecDeque};

use super::NONE;
use crate::units::{Nanos, RequestId};

/// All connections of an open loop.
#[derive(Debug)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    /// Where each connection stands, by its slot.
    places: Vec<Place>,
    /// Requests for which no connection was free.
    waiting: usize,
    /// Of each endpoint that some wait for, the oldest one's intended start; in their order, so
    /// that no event has to look at all endpoints.
    oldest: BTreeSet<(Nanos, u32)>,
    /// Connections that idle.
    idle: usize,
    /// The most connections at once.
    cap: usize,
}

/// The connections of one endpoint. Lists are stacks: the connection that was used last is used
/// next, as HTTP clients do.
#[derive(Debug, Default)]
struct Pool {
    idle: Vec<u32>,
    roomy: Vec<u32>,
    /// Where in `roomy` the one stands whose turn it was last.
    turn: usize,
    /// Requests for which no connection was free, oldest first.
    waiting: VecDeque<(Nanos, RequestId)>,
}

/// Which list of its pool a connection stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    No,
    /// Nothing in flight.
    Idle,
    /// Something in flight, but room for more.
    Roomy,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    listed: Listed,
    position: u32,
}

impl Pools {
    pub(super) fn new(endpoints: usize, cap: usize) -> Self {
        let pools = (0..endpoints).map(|_| Pool::default()).collect();
        Self { pools, places: Vec::new(), waiting: 0, oldest: BTreeSet::new(), idle: 0, cap }
    }

    pub(super) fn cap(&self) -> usize {
        self.cap
    }

    /// Requests that wait.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// An idle connection, the last used first.
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

    /// A busy connection with room for one more: the one that got room first. In a pipeline of
    /// HTTP/1 it is the one whose replies are nearest.
    pub(super) fn roomy(&self, endpoint: u32) -> Option<u32> {
        self.pools[endpoint as usize].roomy.first().copied()
    }

    /// The same, each in its turn.
    pub(super) fn roomy_in_turn(&mut self, endpoint: u32) -> Option<u32> {
        let pool = &mut self.pools[endpoint as usize];
        pool.turn = (pool.turn + 1) % pool.roomy.len().max(1);
        pool.roomy.get(pool.turn).copied()
    }

    /// A request waits: the queue stays in the order of the intended starts, also where one comes
    /// back.
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

    /// The intended start of the oldest that waits, and its endpoint.
    #[inline]
    pub(super) fn oldest(&self) -> Option<(Nanos, u32)> {
        self.oldest.first().copied()
    }

    /// The oldest that waits for the endpoint waits no more.
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

    /// Nobody waits any more.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.waiting = 0;
        self.oldest.clear();
        self.pools.iter_mut().flat_map(|pool| pool.waiting.drain(..)).map(|(_, id)| id).collect()
    }

    /// All that wait.
    pub(super) fn all_waiting(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.pools.iter().flat_map(|pool| pool.waiting.iter().map(|(_, id)| *id))
    }

    /// Put the connection into the list where it belongs now.
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
            Listed::Roomy => Some(&mut self.roomy),
        }
    }
}
