//! The open loop's connections by endpoint: which are idle, which have room, and who waits for one.

use std::collections::VecDeque;

use super::conn::{Conn, Listed, NONE, Table};
use super::flight::Flight;

/// The connections of one endpoint. Lists are stacks: the connection that was used last is used
/// next, as HTTP clients do.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Vec<u32>,
    roomy: Vec<u32>,
    /// Arrivals for which no connection was free, oldest first.
    pub(super) waiting: VecDeque<Flight>,
}

impl Pool {
    fn list(&mut self, which: Listed) -> Option<&mut Vec<u32>> {
        match which {
            Listed::No => None,
            Listed::Idle => Some(&mut self.idle),
            Listed::Roomy => Some(&mut self.roomy),
        }
    }

    /// An idle connection, the last used first.
    pub(super) fn idle(&self) -> Option<u32> {
        self.idle.last().copied()
    }

    /// A busy connection with room for one more in its pipeline: the one that got room first, so
    /// that load spreads.
    pub(super) fn roomy(&self) -> Option<u32> {
        self.roomy.first().copied()
    }
}

/// Put the connection into the list where it belongs now.
pub(super) fn relist<C: Default>(
    pools: &mut [Pool],
    conns: &mut Table<C>,
    slot: u32,
    wanted: Listed,
) {
    let Conn { listed, position, endpoint, .. } = conns[slot];
    if listed == wanted {
        return;
    }
    let pool = &mut pools[endpoint as usize];
    if let Some(list) = pool.list(listed) {
        list.swap_remove(position as usize);
        if let Some(&moved) = list.get(position as usize) {
            conns[moved].position = position;
        }
    }
    let position = pool.list(wanted).map_or(NONE, |list| {
        list.push(slot);
        list.len() as u32 - 1
    });
    let conn = &mut conns[slot];
    conn.listed = wanted;
    conn.position = position;
}
