//! The open loop: arrivals, the connections that they share, and the queue before them.

use super::Engine;
use super::conn::{Listed, NONE, State};
use super::flight::Flight;
use super::pool::{Pool, relist};
use super::source::Source;
use crate::fault::Fault;
use crate::machine::CloseHow;
use crate::proto::Protocol;
use crate::rate::Steer;
use crate::units::Nanos;

impl<P: Protocol> Engine<P> {
    /// The rate may be changed while the run goes on; see
    /// [`Schedule::expect_steers`](crate::schedule::Schedule::expect_steers).
    pub fn expect_steers(&mut self) {
        match &mut self.source {
            Source::Open(arrivals) => arrivals.schedule.expect_steers(),
            Source::Sessions(sessions) => sessions.expect_steers(),
            Source::Closed(_) => {}
        }
    }

    /// Change the rate of an open loop from a moment on that has not come yet; see
    /// [`Schedule::steer`](crate::schedule::Schedule::steer). The deadline may be another
    /// afterwards.
    pub fn steer(&mut self, steer: Steer) {
        match &mut self.source {
            Source::Open(arrivals) => arrivals.schedule.steer(steer),
            Source::Sessions(sessions) => sessions.steer(steer),
            Source::Closed(_) => {}
        }
    }

    /// Whether the time of a request that is not sent is up.
    #[inline]
    pub(super) fn is_overdue(&self, flight: &Flight, now: Nanos) -> bool {
        self.flight_deadline(flight, false) <= now
    }

    /// An arrival has failed before it could be sent. A connection is of no use to it, and would be
    /// lost by it to those that are in time.
    #[cold]
    pub(super) fn expire_overdue(&mut self, flight: &Flight, now: Nanos) {
        if flight.is_fresh() {
            self.recorder.overdue(flight.intended);
        }
        self.fail(flight, Fault::RequestTimeout, false, now);
        self.restart_freed(now);
    }

    /// Arrivals that waited in the queue until their time was up have failed, unsent.
    pub(super) fn expire_waiting(&mut self, now: Nanos) {
        let timeout = self.unsent_timeout();
        loop {
            let Source::Open(arrivals) = &mut self.source else { return };
            if arrivals.waiting == 0 {
                break;
            }
            let mut late = None;
            for pool in &mut arrivals.pools {
                if pool.waiting.front().is_some_and(|f| f.intended + timeout <= now) {
                    late = pool.waiting.pop_front();
                    break;
                }
            }
            let Some(mut flight) = late else { break };
            arrivals.waiting -= 1;
            flight.waited_in_queue(now);
            self.fail(&flight, Fault::RequestTimeout, false, now);
        }
        self.restart_freed(now);
    }

    /// An open-loop connection that can take one more request now.
    pub(super) fn find(&mut self, endpoint: u32, now: Nanos) -> Option<u32> {
        let Source::Open(arrivals) = &self.source else { return None };
        let pool = &arrivals.pools[endpoint as usize];
        if let Some(slot) = pool.idle() {
            return Some(slot);
        }
        if self.conns.len() < arrivals.cap {
            return Some(self.connect(endpoint, NONE, now));
        }
        if let Some(slot) = pool.roomy() {
            return Some(slot);
        }
        // At the cap, but another endpoint holds a connection that it does not need now.
        let spare = arrivals.pools.iter().find_map(Pool::idle)?;
        self.part(spare, CloseHow::Orderly, now);
        Some(self.connect(endpoint, NONE, now))
    }

    pub(super) fn enqueue(&mut self, endpoint: u32, mut flight: Flight, now: Nanos) {
        let Source::Open(arrivals) = &mut self.source else { return };
        if arrivals.waiting >= self.backlog.requests {
            self.overflow(&flight, now);
            return;
        }
        arrivals.waiting += 1;
        // Whatever passed before is the meter's lateness, not the queue's.
        flight.waits_until = flight.waits_until.max(now);
        let waiting = &mut arrivals.pools[endpoint as usize].waiting;
        // A request that lost its connection has waited longest: the queue stays ordered by
        // intended start.
        let at = waiting.partition_point(|f| f.intended <= flight.intended);
        waiting.insert(at, flight);
    }

    /// Put an open-loop connection where it belongs: idle, with room, or neither.
    #[inline]
    pub(super) fn list(&mut self, slot: u32) {
        if let Source::Open(_) = &self.source {
            self.list_in_pool(slot);
        }
    }

    /// Apart, so that closed loops only ask; the same below.
    #[inline(never)]
    fn list_in_pool(&mut self, slot: u32) {
        let used_up = !self.usable(slot) || self.conns[slot].state != State::Open;
        let Source::Open(arrivals) = &mut self.source else { return };
        let conn = &self.conns[slot];
        let in_flight = conn.flights.len() as u32;
        let wanted = if used_up {
            Listed::No
        } else if in_flight == 0 {
            Listed::Idle
        } else if self.proto.room(&conn.proto, in_flight, self.depths.of(conn)) > 0 {
            Listed::Roomy
        } else {
            Listed::No
        };
        relist(&mut arrivals.pools, &mut self.conns, slot, wanted);
    }

    /// The connection may have room: arrivals that wait for its endpoint take it, or requests of
    /// its session.
    #[inline]
    pub(super) fn pump_slot(&mut self, slot: u32, now: Nanos) {
        match &self.source {
            Source::Closed(_) => {}
            Source::Open(_) => self.pump_arrivals(slot, now),
            Source::Sessions(_) => self.feed(self.conns[slot].lane, now),
        }
    }

    #[inline(never)]
    fn pump_arrivals(&mut self, slot: u32, now: Nanos) {
        self.expire_waiting(now);
        loop {
            let used_up = !self.usable(slot);
            let Source::Open(arrivals) = &mut self.source else { return };
            if arrivals.waiting == 0 {
                break;
            }
            let conn = &self.conns[slot];
            let in_flight = conn.flights.len() as u32;
            let room = self.proto.room(&conn.proto, in_flight, self.depths.of(conn));
            if room == 0 || used_up || conn.state != State::Open {
                break;
            }
            let Some(mut flight) = arrivals.pools[conn.endpoint as usize].waiting.pop_front()
            else {
                break;
            };
            arrivals.waiting -= 1;
            flight.waited_in_queue(now);
            self.give(slot, flight, now);
        }
        self.list(slot);
    }

    /// There may be a free place under the cap: arrivals that wait open a connection.
    pub(super) fn pump_waiting(&mut self, now: Nanos) {
        if let Source::Sessions(_) = &self.source {
            self.feed_waiting(now);
            return;
        }
        self.expire_waiting(now);
        loop {
            let Source::Open(arrivals) = &mut self.source else { return };
            if arrivals.waiting == 0 || self.conns.len() >= arrivals.cap {
                return;
            }
            let oldest = (0..arrivals.pools.len())
                .filter_map(|e| arrivals.pools[e].waiting.front().map(|f| (f.intended, e)))
                .min();
            let Some((_, endpoint)) = oldest else { return };
            let mut flight =
                arrivals.pools[endpoint].waiting.pop_front().expect("the oldest is there");
            arrivals.waiting -= 1;
            flight.waited_in_queue(now);
            let slot = self.connect(endpoint as u32, NONE, now);
            self.give(slot, flight, now);
        }
    }
}
