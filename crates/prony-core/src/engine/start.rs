//! A request begins: which call it makes and which connection it is given to.

use super::Engine;
use super::conn::{Listed, NONE, State};
use super::flight::Flight;
use super::pool::relist;
use super::source::Source;
use crate::plan::{Pick, Plan};
use crate::proto::Protocol;
use crate::rng::{self, Stream};
use crate::units::Nanos;

impl<P: Protocol> Engine<P> {
    pub(super) fn start(&mut self, flight: Flight, now: Nanos) {
        self.recorder.started(flight.intended);
        let name = self.calls.get(flight.call).name;
        if name != NONE {
            self.recorder.name_started(name, flight.intended);
        }
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        self.place(flight, now);
    }

    /// Give the request to a connection, or let it wait for one.
    pub(super) fn place(&mut self, flight: Flight, now: Nanos) {
        let endpoint = self.calls.get(flight.call).endpoint;
        match &self.source {
            Source::Closed(users) => {
                let lane = flight.user / users.depth;
                let slot = users.lane_slots[(lane * users.endpoints + endpoint) as usize];
                if slot != NONE && self.usable(slot) {
                    self.give(slot, flight, now);
                } else {
                    let slot = self.connect(endpoint, lane, now);
                    self.give(slot, flight, now);
                }
            }
            Source::Open(_) if self.is_overdue(&flight, now) => self.expire_overdue(&flight, now),
            // It lost an idle connection, and could lose the next one likewise.
            Source::Open(arrivals) if flight.retried && self.conns.len() < arrivals.cap => {
                let slot = self.connect(endpoint, NONE, now);
                self.give(slot, flight, now);
            }
            Source::Open(_) => match self.find(endpoint, now) {
                Some(slot) => self.give(slot, flight, now),
                None => self.enqueue(endpoint, flight, now),
            },
            Source::Sessions(_) => self.place_in_session(flight, now),
        }
    }

    pub(super) fn connect(&mut self, endpoint: u32, lane: u32, now: Nanos) -> u32 {
        let id = self.conns.insert(endpoint, lane, now);
        if let Source::Closed(users) = &mut self.source {
            users.lane_slots[(lane * users.endpoints + endpoint) as usize] = id.slot;
        }
        self.links_max = self.links_max.max(self.conns.len() as u64);
        self.line_up(id, endpoint, now);
        id.slot
    }

    pub(super) fn give(&mut self, slot: u32, mut flight: Flight, now: Nanos) {
        let conn = &mut self.conns[slot];
        if conn.state != State::Open || conn.tail.is_some() {
            // It waits for the connection or for room in its socket; whatever passed before the
            // meter came to it is the meter's lateness.
            flight.waits_until = flight.waits_until.max(now);
        }
        conn.flights.push_back(flight);
        self.given(slot, 1, flight.intended);
    }

    /// A connection was given so many requests, all of that intended start.
    #[inline]
    pub(super) fn given(&mut self, slot: u32, n: u32, intended: Nanos) {
        let conn = &mut self.conns[slot];
        conn.given += u64::from(n);
        let mut deadline = match self.plan.timeout_from_send {
            false => intended + self.plan.timeout,
            true => Nanos::MAX,
        };
        if conn.state != State::Open {
            deadline = deadline.min(conn.connect_began + self.plan.connect_timeout);
        }
        self.arm(slot, deadline);
        self.transmit(slot);
        self.list(slot);
    }

    /// The connection leaves its pool or lane: it is about to go.
    pub(super) fn unlist(&mut self, slot: u32) {
        match &mut self.source {
            Source::Open(arrivals) => {
                relist(&mut arrivals.pools, &mut self.conns, slot, Listed::No);
            }
            Source::Closed(users) => {
                let conn = &self.conns[slot];
                let at = (conn.lane * users.endpoints + conn.endpoint) as usize;
                if users.lane_slots[at] == slot {
                    users.lane_slots[at] = NONE;
                }
            }
            Source::Sessions(_) => self.forget_conn(slot),
        }
    }
}

/// Which call the request of that number makes.
#[inline]
pub(super) fn pick(plan: &Plan, number: impl FnOnce() -> u64) -> u32 {
    if plan.calls.len() == 1 { 0 } else { pick_one(plan, number()) }
}

/// The same where there are several. Apart: else each start mixes the bits of the seed.
#[inline(never)]
fn pick_one(plan: &Plan, number: u64) -> u32 {
    let n = plan.calls.len() as u64;
    let call = match plan.pick {
        Pick::InTurn => number % n,
        Pick::Random => {
            let bits = rng::keyed(plan.seed, Stream::Pick, number, 0);
            ((u128::from(bits) * u128::from(n)) >> 64) as u64
        }
    };
    call as u32
}
