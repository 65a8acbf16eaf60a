//! How many requests are sent on a connection before their replies arrive.
//!
//! Normally it is the plan's pipelining depth. But a server that closes each connection after k
//! replies does not process requests after the k-th, which then have to be sent again. So once
//! that has happened, no connection to the endpoint gets more than k requests before it has
//! received k replies. If it stays open then, it may have one request in flight, and one more for
//! each further reply.

use super::{Conn, State};
use crate::engine::Engine;
use prony_base::units::Nanos;
use prony_plan::plan::Plan;
use prony_proto::proto::Carrier;

/// The depths of all endpoints.
#[derive(Debug)]
pub(in crate::engine) struct Depths {
    /// The plan's depth.
    most: u32,
    /// For each endpoint: after how many replies a connection with requests in flight was last
    /// closed; 0: never. Empty as long as none was.
    closed_after: Vec<u64>,
    endpoints: usize,
}

impl Depths {
    pub(in crate::engine) fn new(plan: &Plan) -> Self {
        Self { most: plan.pipeline, closed_after: Vec::new(), endpoints: plan.endpoints.len() }
    }

    /// How many requests may be in flight on the connection now.
    #[inline]
    pub(in crate::engine) fn of<C>(&self, conn: &Conn<C>) -> u32 {
        if self.closed_after.is_empty() { self.most } else { self.after_a_close(conn) }
    }

    #[cold]
    fn after_a_close<C>(&self, conn: &Conn<C>) -> u32 {
        let (served, budget) = (conn.carried.served, self.closed_after[conn.endpoint as usize]);
        let depth = match served.checked_sub(budget) {
            _ if budget == 0 => u64::from(self.most),
            None => budget - served,
            Some(beyond) => beyond.saturating_add(1),
        };
        depth.min(u64::from(self.most)) as u32
    }

    /// A connection to the endpoint was closed after `served` replies, with requests in flight.
    #[cold]
    pub(in crate::engine) fn learn(&mut self, endpoint: u32, served: u64) {
        // A depth of one stays as it is.
        if self.most > 1 {
            self.closed_after.resize(self.endpoints, 0);
            self.closed_after[endpoint as usize] = served;
        }
    }
}

impl Depths {
    /// How many of the connection's exchanges may be submitted now.
    #[inline]
    pub(in crate::engine) fn to_submit<C>(&self, conn: &Conn<C>) -> u32 {
        let waiting = conn.carried.waiting;
        // No connection is given more exchanges than the plan's depth.
        if self.closed_after.is_empty() { waiting } else { waiting.min(self.left(conn)) }
    }

    #[cold]
    fn left<C>(&self, conn: &Conn<C>) -> u32 {
        self.after_a_close(conn).saturating_sub(conn.carried.submitted())
    }
}

impl<P: Carrier> Engine<P> {
    /// Replies have arrived: send requests that were held back.
    #[inline]
    pub(in crate::engine) fn send_held_back(&mut self, slot: u32, now: Nanos) {
        if !self.depths.closed_after.is_empty() {
            self.continue_sending(slot, now);
        }
    }

    #[cold]
    fn continue_sending(&mut self, slot: u32, now: Nanos) {
        let conn = &mut self.links[slot];
        let n = self.depths.to_submit(conn);
        if conn.state != State::Open || conn.tail.is_some() || n == 0 {
            return;
        }
        let mut next = conn.carried.next(&self.exchanges);
        for _ in 0..n {
            let Some(id) = next else { break };
            self.exchanges[id].waited_in_queue(now);
            next = self.exchanges.next(id);
        }
        self.transmit(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(endpoint: u32, served: u64) -> Conn<()> {
        let mut table = crate::engine::link::Links::<()>::new(1);
        let id = table.insert(endpoint, 0, Nanos::ZERO);
        table[id.slot].carried.served = served;
        std::mem::replace(&mut table[id.slot], Conn::vacant())
    }

    #[test]
    fn limits_depth_to_the_replies_before_a_close() {
        let mut depths = Depths { most: 8, closed_after: Vec::new(), endpoints: 2 };
        assert_eq!(depths.of(&conn(1, 0)), 8);
        depths.learn(1, 3);
        let after = |depths: &Depths, served| depths.of(&conn(1, served));
        assert_eq!([0, 1, 2, 3, 4, 9, 10, 99].map(|n| after(&depths, n)), [3, 2, 1, 1, 2, 7, 8, 8]);
        assert_eq!(depths.of(&conn(0, 0)), 8, "another endpoint");
        depths.learn(1, 100);
        assert_eq!([0, 92, 95, 100].map(|n| after(&depths, n)), [8, 8, 5, 1]);
        depths.learn(1, 1);
        assert_eq!([0, 1, 2].map(|n| after(&depths, n)), [1, 1, 2]);
    }

    #[test]
    fn keeps_depth_one() {
        let mut depths = Depths { most: 1, closed_after: Vec::new(), endpoints: 1 };
        depths.learn(0, 5);
        assert!(depths.closed_after.is_empty());
    }
}
