//! The connections of a closed loop: each group of users has one to each endpoint.

use super::NONE;
use prony_plan::plan::Plan;

/// The connections of each group.
#[derive(Debug)]
pub(super) struct UserGroups {
    /// Users per group.
    depth: u32,
    endpoints: u32,
    /// The slot of each group's connection to each endpoint.
    slots: Vec<u32>,
    /// A group has one connection, and its requests need no individual treatment when they start.
    batches: bool,
}

impl UserGroups {
    pub(super) fn new(plan: &Plan, connections: u32) -> Self {
        let groups = plan.shard.share_of(u64::from(connections)) as u32;
        let endpoints = plan.endpoints.len() as u32;
        let batches = endpoints == 1
            && plan.requests_per_connection.is_none()
            && plan.calls.iter().all(|call| call.name.is_none());
        let slots = vec![NONE; groups as usize * endpoints as usize];
        Self { depth: plan.pipeline, endpoints, slots, batches }
    }

    pub(super) fn connections(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn group(&self, user: u32) -> u32 {
        user / self.depth
    }

    #[inline]
    fn at(&self, group: u32, endpoint: u32) -> usize {
        group as usize * self.endpoints as usize + endpoint as usize
    }

    /// The group's connection to the endpoint.
    #[inline]
    pub(super) fn slot(&self, group: u32, endpoint: u32) -> Option<u32> {
        let slot = self.slots[self.at(group, endpoint)];
        (slot != NONE).then_some(slot)
    }

    /// The group's connection, if it has one and requests may be given to it together.
    #[inline]
    pub(super) fn batch_slot(&self, group: u32) -> Option<u32> {
        if self.batches { self.slot(group, 0) } else { None }
    }

    pub(super) fn add(&mut self, group: u32, endpoint: u32, slot: u32) {
        let at = self.at(group, endpoint);
        self.slots[at] = slot;
    }

    /// The connection is about to be closed.
    pub(super) fn remove(&mut self, group: u32, endpoint: u32, slot: u32) {
        let at = self.at(group, endpoint);
        if self.slots[at] == slot {
            self.slots[at] = NONE;
        }
    }
}
