//! The connections of a closed loop: each lane of users has one to each endpoint.

use super::NONE;
use crate::plan::Plan;

/// Which connection each lane has.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Users per lane.
    depth: u32,
    endpoints: u32,
    /// The slot of each lane's connection to each endpoint.
    slots: Vec<u32>,
    /// A lane has one connection, and its requests need no look one by one when they start.
    crowds: bool,
}

impl Lanes {
    pub(super) fn new(plan: &Plan, connections: u32) -> Self {
        let lanes = plan.shard.share_of(u64::from(connections)) as u32;
        let endpoints = plan.endpoints.len() as u32;
        let crowds = endpoints == 1
            && plan.requests_per_connection.is_none()
            && plan.calls.iter().all(|call| call.name.is_none());
        let slots = vec![NONE; lanes as usize * endpoints as usize];
        Self { depth: plan.pipeline, endpoints, slots, crowds }
    }

    pub(super) fn connections(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn lane(&self, user: u32) -> u32 {
        user / self.depth
    }

    #[inline]
    fn at(&self, lane: u32, endpoint: u32) -> usize {
        lane as usize * self.endpoints as usize + endpoint as usize
    }

    /// The lane's connection to the endpoint.
    #[inline]
    pub(super) fn slot(&self, lane: u32, endpoint: u32) -> Option<u32> {
        let slot = self.slots[self.at(lane, endpoint)];
        (slot != NONE).then_some(slot)
    }

    /// The lane's connection, where it has one, and requests may be given to it together.
    #[inline]
    pub(super) fn crowd_slot(&self, lane: u32) -> Option<u32> {
        if self.crowds { self.slot(lane, 0) } else { None }
    }

    pub(super) fn has(&mut self, lane: u32, endpoint: u32, slot: u32) {
        let at = self.at(lane, endpoint);
        self.slots[at] = slot;
    }

    /// The connection is about to go.
    pub(super) fn has_no_more(&mut self, lane: u32, endpoint: u32, slot: u32) {
        let at = self.at(lane, endpoint);
        if self.slots[at] == slot {
            self.slots[at] = NONE;
        }
    }
}
