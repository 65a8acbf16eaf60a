//! Where requests come from (closed-loop users, open-loop schedule) and which connection each is
//! given to.

use super::conn::{Listed, NONE, State};
use super::flight::{Flight, NOBODY};
use super::pool::{Pool, relist};
use super::{Engine, Stage, Timer};
use crate::machine::{Action, CloseHow};
use crate::plan::{Load, Pick, Plan, Think};
use crate::proto::Protocol;
use crate::rng::{self, Stream};
use crate::schedule::Schedule;
use crate::units::{Nanos, Span};
use std::cmp::Reverse;

/// After a connect that failed a closed-loop user waits this long before the next try, twice as
/// long after each further one: a dead target is asked again and again, but does not turn the meter
/// into a busy loop.
const BACKOFF_FIRST: Span = Span::from_millis(1);
/// The longest such wait: 1 ms doubled so often.
const BACKOFF_DOUBLINGS: u8 = 7;

/// Where requests come from.
#[derive(Debug)]
pub(super) enum Source {
    Closed(Users),
    Open(Arrivals),
}

/// The closed loop's users.
#[derive(Debug)]
pub(super) struct Users {
    think: Think,
    lanes: u32,
    /// Users per lane.
    depth: u32,
    endpoints: u32,
    /// The slot of each lane's connection to each endpoint.
    lane_slots: Vec<u32>,
    /// Failed connects in a row, per lane.
    failures: Vec<u8>,
    /// Per lane: users who are ready but wait until half of the lane's window is free.
    parked: Vec<Vec<u32>>,
    /// Requests under way, per lane.
    under_way: Vec<u32>,
    /// Measured requests that may still start.
    quota: Option<u64>,
    /// Requests started by this share, warm-up included.
    started: u64,
    /// Users who may want something again.
    alive: u64,
    begun: bool,
}

/// The open loop's arrivals and connections.
#[derive(Debug)]
pub(super) struct Arrivals {
    schedule: Schedule,
    pools: Vec<Pool>,
    waiting: usize,
    cap: usize,
    cancelled: bool,
    by_count: bool,
    /// False until the first turn where the share has no arrival: it must get one turn to be over.
    begun: bool,
}

impl Source {
    pub(super) fn new(plan: &Plan) -> Self {
        match &plan.load {
            Load::Closed { connections, think } => {
                let lanes = plan.shard.share_of(u64::from(*connections)) as u32;
                let endpoints = plan.endpoints.len() as u32;
                Self::Closed(Users {
                    think: *think,
                    lanes,
                    depth: plan.pipeline,
                    endpoints,
                    lane_slots: vec![NONE; (lanes * endpoints) as usize],
                    failures: vec![0; lanes as usize],
                    parked: vec![Vec::new(); if refills(plan) { lanes as usize } else { 0 }],
                    under_way: vec![0; lanes as usize],
                    quota: plan.stop.requests.map(|n| plan.shard.share_of(n)),
                    started: 0,
                    alive: u64::from(lanes) * u64::from(plan.pipeline),
                    begun: false,
                })
            }
            Load::Open { connections, .. } => {
                let schedule = Schedule::new(plan);
                Self::Open(Arrivals {
                    begun: schedule.peek().is_some(),
                    schedule,
                    pools: plan.endpoints.iter().map(|_| Pool::default()).collect(),
                    waiting: 0,
                    cap: plan.shard.share_of(u64::from(*connections)) as usize,
                    cancelled: false,
                    by_count: plan.stop.requests.is_some(),
                })
            }
        }
    }

    /// When the load ends, where that is known.
    pub(super) fn end(&self, plan: &Plan) -> Option<Nanos> {
        match self {
            Self::Closed(_) => plan.stop.duration.map(|d| Nanos::ZERO + plan.warmup + d),
            Self::Open(a) => a.schedule.end(),
        }
    }

    /// How many connections there may be.
    pub(super) fn connections(&self) -> usize {
        match self {
            Self::Closed(u) => u.lane_slots.len(),
            Self::Open(a) => a.cap,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Closed(u) => u.begun,
            Self::Open(a) => a.begun,
        }
    }

    /// Nothing new may start.
    pub(super) fn retire(&mut self) {
        match self {
            Self::Closed(u) => u.alive = 0,
            Self::Open(a) => a.cancelled = true,
        }
    }

    /// Whether nothing new will start.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Closed(u) => u.begun && u.alive == 0,
            Self::Open(a) => a.cancelled || a.schedule.peek().is_none(),
        }
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        match self {
            Self::Closed(u) => u.quota == Some(0),
            Self::Open(a) => a.by_count && !a.cancelled && a.schedule.peek().is_none(),
        }
    }

    /// The next arrival, or the moment when the oldest waiting one runs out of time.
    #[inline]
    pub(super) fn next_event(&self, timeout: Span) -> Nanos {
        let Self::Open(a) = self else { return Nanos::MAX };
        let mut at = Nanos::MAX;
        if !a.cancelled
            && let Some(next) = a.schedule.peek()
        {
            at = next.at;
        }
        if a.waiting > 0 {
            let oldest = a.pools.iter().filter_map(|p| p.waiting.front()).map(|f| f.intended);
            at = at.min(oldest.min().map_or(Nanos::MAX, |t| t + timeout));
        }
        at
    }

    /// All arrivals that wait in the client's queue.
    pub(super) fn take_waiting(&mut self) -> Vec<Flight> {
        match self {
            Self::Closed(_) => Vec::new(),
            Self::Open(a) => {
                a.waiting = 0;
                a.pools.iter_mut().flat_map(|p| p.waiting.drain(..)).collect()
            }
        }
    }
}

/// Whether pipelines are refilled batch by batch: with a depth over one and no think time. A
/// request for each reply would make the server read, and the meter write, once per request;
/// `docs/terms.md` tells users.
fn refills(plan: &Plan) -> bool {
    let eager = matches!(plan.load, Load::Closed { think: Think::None, .. });
    eager && plan.pipeline > 1
}

impl<P: Protocol> Engine<P> {
    /// All closed-loop users start.
    pub(super) fn begin(&mut self, now: Nanos) {
        let users = match &mut self.source {
            Source::Closed(users) => users,
            Source::Open(arrivals) => {
                arrivals.begun = true;
                return;
            }
        };
        users.begun = true;
        // Lane by lane within each round, so that every connection is opened before any has its
        // pipeline filled.
        let (lanes, depth) = (users.lanes, users.depth);
        for round in 0..depth {
            for lane in 0..lanes {
                self.start_user(lane * depth + round, now, now);
            }
        }
    }

    /// A user wants the next request, from `intended` on.
    pub(super) fn start_user(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let Source::Closed(users) = &mut self.source else { return };
        if users.alive == 0 {
            return;
        }
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let late = self.load_end.is_some_and(|end| intended >= end);
        if late || self.stage != Stage::Running || (measured && users.quota == Some(0)) {
            users.alive -= 1;
            return;
        }
        if measured && let Some(quota) = &mut users.quota {
            *quota -= 1;
        }
        let shard = self.plan.shard;
        let own = users.started;
        users.started += 1;
        users.under_way[(user / users.depth) as usize] += 1;
        // Each share goes round all calls. By the number in the whole run, two shares of two calls
        // would have one call each, and the faster one would be made more often.
        let number = match self.plan.pick {
            Pick::InTurn => own + u64::from(shard.index),
            Pick::Random => own * u64::from(shard.of) + u64::from(shard.index),
        };
        self.start(Flight::new(intended, self.pick(number), user), now);
    }

    /// Which call the request of that number makes.
    fn pick(&self, number: u64) -> u32 {
        let n = self.plan.calls.len() as u64;
        let call = match self.plan.pick {
            _ if n == 1 => 0,
            Pick::InTurn => number % n,
            Pick::Random => {
                let bits = rng::keyed(self.plan.seed, Stream::Pick, number, 0);
                ((u128::from(bits) * u128::from(n)) >> 64) as u64
            }
        };
        call as u32
    }

    fn start(&mut self, flight: Flight, now: Nanos) {
        self.recorder.started(flight.intended);
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        self.place(flight, now);
    }

    /// Give the request to a connection, or let it wait for one.
    pub(super) fn place(&mut self, flight: Flight, now: Nanos) {
        let endpoint = self.plan.calls[flight.call as usize].endpoint;
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
            Source::Open(_) => match self.find(endpoint, now) {
                Some(slot) => self.give(slot, flight, now),
                None => self.enqueue(endpoint, flight, now),
            },
        }
    }

    /// An open-loop connection that can take one more request now.
    fn find(&mut self, endpoint: u32, now: Nanos) -> Option<u32> {
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
        let id = self.conns.id(spare);
        self.unlist(spare);
        self.conns.remove(spare);
        self.actions.push_back(Action::Close { id, how: CloseHow::Orderly });
        Some(self.connect(endpoint, NONE, now))
    }

    fn enqueue(&mut self, endpoint: u32, mut flight: Flight, now: Nanos) {
        let Source::Open(arrivals) = &mut self.source else { return };
        arrivals.waiting += 1;
        // Whatever passed before is the meter's lateness, not the queue's.
        flight.waits_until = flight.waits_until.max(now);
        let waiting = &mut arrivals.pools[endpoint as usize].waiting;
        // A request that lost its connection has waited longest: the queue stays ordered by
        // intended start.
        let at = waiting.partition_point(|f| f.intended <= flight.intended);
        waiting.insert(at, flight);
    }

    fn connect(&mut self, endpoint: u32, lane: u32, now: Nanos) -> u32 {
        let id = self.conns.insert(endpoint, lane, now);
        if let Source::Closed(users) = &mut self.source {
            users.lane_slots[(lane * users.endpoints + endpoint) as usize] = id.slot;
        }
        self.recorder.connecting(now);
        self.actions.push_back(Action::Connect { id, endpoint });
        id.slot
    }

    fn give(&mut self, slot: u32, mut flight: Flight, now: Nanos) {
        let conn = &mut self.conns[slot];
        if conn.state != State::Open || conn.tail.is_some() {
            // It waits for the connection or for room in its socket; whatever passed before the
            // meter came to it is the meter's lateness.
            flight.waits_until = flight.waits_until.max(now);
        }
        conn.given += 1;
        let mut deadline = flight.intended + self.plan.timeout;
        if conn.state != State::Open {
            deadline = deadline.min(conn.connect_began + self.plan.connect_timeout);
        }
        conn.flights.push_back(flight);
        self.arm(slot, deadline);
        self.transmit(slot);
        self.list(slot);
    }

    /// Put an open-loop connection where it belongs: idle, with room, or neither.
    fn list(&mut self, slot: u32) {
        let Source::Open(arrivals) = &mut self.source else { return };
        let conn = &self.conns[slot];
        let in_flight = conn.flights.len() as u32;
        let used_up = conn.retired
            || self.plan.requests_per_connection.is_some_and(|n| conn.given >= n)
            || conn.state != State::Open;
        let wanted = if used_up {
            Listed::No
        } else if in_flight == 0 {
            Listed::Idle
        } else if self.proto.room(&conn.proto, in_flight, self.plan.pipeline) > 0 {
            Listed::Roomy
        } else {
            Listed::No
        };
        relist(&mut arrivals.pools, &mut self.conns, slot, wanted);
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
        }
    }

    /// The connection may have room: arrivals that wait for its endpoint take it.
    pub(super) fn pump_slot(&mut self, slot: u32, now: Nanos) {
        loop {
            let Source::Open(arrivals) = &mut self.source else { return };
            if arrivals.waiting == 0 {
                break;
            }
            let conn = &self.conns[slot];
            let room = self.proto.room(&conn.proto, conn.flights.len() as u32, self.plan.pipeline);
            let used_up =
                conn.retired || self.plan.requests_per_connection.is_some_and(|n| conn.given >= n);
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

    /// Start every arrival that is due.
    pub(super) fn start_arrivals(&mut self, now: Nanos) {
        loop {
            let Source::Open(arrivals) = &mut self.source else { return };
            let due = arrivals.schedule.peek().filter(|a| a.at <= now && !arrivals.cancelled);
            let Some(arrival) = due else { return };
            arrivals.schedule.pop();
            self.start(Flight::new(arrival.at, self.pick(arrival.index), NOBODY), now);
        }
    }

    /// Arrivals that waited in the queue until their time was up have failed, unsent.
    pub(super) fn expire_waiting(&mut self, now: Nanos) {
        let timeout = self.plan.timeout;
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
            self.fail(&flight, crate::fault::Fault::RequestTimeout, false, now);
        }
        self.restart_freed(now);
    }

    /// A lane's connection has opened: its next failure is a first one again.
    pub(super) fn connect_succeeded(&mut self, slot: u32) {
        if let Source::Closed(users) = &mut self.source {
            users.failures[self.conns[slot].lane as usize] = 0;
        }
    }

    /// The users whose connect has failed try again after a while.
    pub(super) fn connect_failed(&mut self, now: Nanos) {
        let Source::Closed(users) = &mut self.source else {
            self.restart_freed(now);
            return;
        };
        let Some(&first) = self.freed.first() else { return };
        let lane = first / users.depth;
        for &user in &self.freed {
            self.outstanding -= 1;
            users.under_way[lane as usize] -= 1;
            let failures = &mut users.failures[lane as usize];
            let wait = BACKOFF_FIRST * (1 << *failures);
            *failures = (*failures + 1).min(BACKOFF_DOUBLINGS);
            self.timers.push(Reverse((now + wait, Timer::User(user))));
        }
        self.freed.clear();
        self.unpark(lane, now);
    }

    /// The users whose requests have ended think, then want the next.
    pub(super) fn restart_freed(&mut self, now: Nanos) {
        if self.freed.is_empty() {
            return;
        }
        self.outstanding -= self.freed.len() as u64;
        let Source::Closed(users) = &mut self.source else {
            self.freed.clear();
            return;
        };
        // They all belong to the one connection that was looked at, and so to one lane.
        let lane = self.freed[0] / users.depth;
        users.under_way[lane as usize] -= self.freed.len() as u32;
        let mut freed = std::mem::take(&mut self.freed);
        if !users.parked.is_empty() {
            users.parked[lane as usize].append(&mut freed);
            self.unpark(lane, now);
        } else if users.think == Think::None || users.quota == Some(0) {
            for &user in &freed {
                self.start_user(user, now, now);
            }
        } else {
            self.think(&freed, now);
        }
        debug_assert!(self.freed.is_empty());
        freed.clear();
        self.freed = freed;
    }

    /// Users who wait for half of their lane's window start when it is free, or when nothing is
    /// under way.
    fn unpark(&mut self, lane: u32, now: Nanos) {
        let Source::Closed(users) = &mut self.source else { return };
        let Some(parked) = users.parked.get_mut(lane as usize) else { return };
        if (parked.len() as u32) * 2 < users.depth && users.under_way[lane as usize] > 0 {
            return;
        }
        let mut ready = std::mem::take(parked);
        for &user in &ready {
            self.start_user(user, now, now);
        }
        ready.clear();
        if let Source::Closed(users) = &mut self.source {
            users.parked[lane as usize] = ready;
        }
    }

    fn think(&mut self, freed: &[u32], now: Nanos) {
        let Source::Closed(users) = &self.source else { return };
        let shard = self.plan.shard;
        for &user in freed {
            let everywhere = u64::from(user) * u64::from(shard.of) + u64::from(shard.index);
            // Which of the user's requests this is after is not kept; the number of starts tells
            // draws apart.
            let bits = rng::keyed(self.plan.seed, Stream::Think, everywhere, users.started);
            let wait = rng::think(users.think, bits);
            self.timers.push(Reverse((now + wait, Timer::User(user))));
        }
    }
}
