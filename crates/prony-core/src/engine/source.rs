//! Where requests come from: the users of a closed loop, the arrivals of an open one, or sessions.

use super::conn::NONE;
use super::flight::Flight;
use super::pool::Pool;
use super::session::Sessions;
use crate::plan::{Load, Lost, Plan, Think};
use crate::schedule::{Schedule, Skipped};
use crate::units::{Nanos, Span};

/// Where requests come from.
#[derive(Debug)]
pub(super) enum Source {
    Closed(Users),
    Open(Arrivals),
    Sessions(Box<Sessions>),
}

/// The closed loop's users.
#[derive(Debug)]
pub(super) struct Users {
    pub(super) think: Think,
    pub(super) lanes: u32,
    /// Users per lane.
    pub(super) depth: u32,
    pub(super) endpoints: u32,
    /// A lane has one connection, and its requests need no look one by one when they start.
    pub(super) crowds: bool,
    /// The slot of each lane's connection to each endpoint.
    pub(super) lane_slots: Vec<u32>,
    /// Failed connects in a row, per lane.
    pub(super) failures: Vec<u8>,
    /// Per lane: users who are ready but wait until half of the lane's window is free.
    pub(super) parked: Vec<Vec<u32>>,
    /// Requests under way, per lane.
    pub(super) under_way: Vec<u32>,
    /// Measured requests that may still start.
    pub(super) quota: Option<u64>,
    /// Requests started by this share, warm-up included.
    pub(super) started: u64,
    /// Users who may want something again.
    pub(super) alive: u64,
    pub(super) begun: bool,
    /// Users who have not begun: the meter has yet to come to them.
    pub(super) to_begin: u32,
}

impl Users {
    /// The next user begins. Lane by lane within each round, so that every connection is opened
    /// before any has its pipeline filled.
    pub(super) fn next_to_begin(&mut self) -> Option<u32> {
        let at = self.lanes * self.depth - self.to_begin;
        self.to_begin = self.to_begin.checked_sub(1)?;
        Some(at % self.lanes * self.depth + at / self.lanes)
    }

    /// How many measured requests those who have begun may still start: one is kept for each user
    /// who has not. `None`: any number.
    #[inline]
    pub(super) fn left(&self) -> Option<u64> {
        self.quota.map(|n| n.saturating_sub(u64::from(self.to_begin)))
    }
}

/// The open loop's arrivals and connections.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) schedule: Schedule,
    pub(super) pools: Vec<Pool>,
    pub(super) waiting: usize,
    pub(super) cap: usize,
    /// Time, or the user, has ended it.
    pub(super) cut: bool,
    pub(super) by_count: bool,
    /// False until the first turn where the share has no arrival: it must get one turn to be over.
    pub(super) begun: bool,
}

impl Source {
    pub(super) fn new(plan: &Plan) -> Self {
        if let Some(wanted) = &plan.sessions {
            return Self::Sessions(Box::new(Sessions::new(plan, wanted)));
        }
        match &plan.load {
            Load::Closed { connections, think } => {
                let lanes = plan.shard.share_of(u64::from(*connections)) as u32;
                let endpoints = plan.endpoints.len() as u32;
                Self::Closed(Users {
                    think: *think,
                    lanes,
                    depth: plan.pipeline,
                    endpoints,
                    crowds: endpoints == 1
                        && plan.requests_per_connection.is_none()
                        && plan.calls.iter().all(|call| call.name.is_none()),
                    lane_slots: vec![NONE; (lanes * endpoints) as usize],
                    failures: vec![0; lanes as usize],
                    parked: vec![Vec::new(); if refills(plan) { lanes as usize } else { 0 }],
                    under_way: vec![0; lanes as usize],
                    quota: plan.stop.requests.map(|n| plan.shard.share_of(n)),
                    started: 0,
                    alive: u64::from(lanes) * u64::from(plan.pipeline),
                    begun: false,
                    to_begin: 0,
                })
            }
            Load::Open { connections, .. } => {
                let schedule = Schedule::new(plan);
                Self::Open(Arrivals {
                    begun: schedule.peek().is_some() && plan.exchange.is_none(),
                    schedule,
                    pools: plan.endpoints.iter().map(|_| Pool::default()).collect(),
                    waiting: 0,
                    cap: plan.shard.share_of(u64::from(*connections)) as usize,
                    cut: false,
                    by_count: plan.stop.requests.is_some(),
                })
            }
        }
    }

    /// When the load ends, where that is known.
    pub(super) fn load_end(&self, plan: &Plan) -> Option<Nanos> {
        match self {
            Self::Closed(_) => plan.stop.duration.map(|d| Nanos::ZERO + plan.warmup + d),
            Self::Open(a) => a.schedule.end(),
            Self::Sessions(s) => s.load_end(plan),
        }
    }

    /// How many connections there may be.
    pub(super) fn connections(&self) -> usize {
        match self {
            Self::Closed(u) => u.lane_slots.len(),
            Self::Open(a) => a.cap,
            Self::Sessions(s) => s.connections(),
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Closed(u) => u.begun,
            Self::Open(a) => a.begun,
            Self::Sessions(s) => s.begun,
        }
    }

    /// Users of a closed loop who have not begun.
    pub(super) fn to_begin(&self) -> u32 {
        match self {
            Self::Closed(u) => u.to_begin,
            Self::Open(_) => 0,
            Self::Sessions(s) => s.to_begin(),
        }
    }

    /// Nothing new may start that is wanted from `at` on.
    pub(super) fn end(&mut self, at: Nanos) {
        match self {
            Self::Closed(u) => (u.alive, u.to_begin) = (0, 0),
            Self::Open(a) => {
                a.cut = true;
                a.schedule.cut(at);
            }
            Self::Sessions(s) => s.end(at),
        }
    }

    /// When the next arrival is due.
    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        match self {
            Self::Closed(_) => None,
            Self::Open(a) => a.schedule.peek().map(|next| next.at),
            Self::Sessions(s) => s.next_arrival(),
        }
    }

    #[inline]
    pub(super) fn arrival_is_due(&self, now: Nanos) -> bool {
        self.next_arrival().is_some_and(|at| at <= now)
    }

    /// How many arrivals fall before that moment, of those that have not started.
    pub(super) fn due_before(&self, limit: Nanos) -> u64 {
        match self {
            Self::Closed(_) => 0,
            Self::Open(a) => a.schedule.due_before(limit),
            Self::Sessions(s) => s.due_before(limit),
        }
    }

    /// Whether no request, or session, will arrive any more in an open loop.
    pub(super) fn has_no_more_arrivals(&self) -> bool {
        match self {
            Self::Closed(_) => false,
            Self::Open(a) => a.schedule.is_over(),
            Self::Sessions(s) => s.are_all_begun(),
        }
    }

    /// Pass over arrivals before that moment; see [`Schedule::skip_before`].
    pub(super) fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        match self {
            Self::Closed(_) => None,
            Self::Open(a) => a.schedule.skip_before(limit),
            Self::Sessions(s) => s.skip_before(limit),
        }
    }

    /// Whether nothing new will start.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Closed(u) => u.begun && u.alive == 0,
            Self::Open(a) => a.schedule.is_over(),
            Self::Sessions(s) => s.is_done(),
        }
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        match self {
            Self::Closed(u) => u.quota == Some(0),
            Self::Open(a) => a.by_count && !a.cut && a.schedule.is_over(),
            Self::Sessions(s) => s.ended_by_count(),
        }
    }

    /// The next arrival (not where they rest), or the moment when the oldest waiting one runs out
    /// of time (`timeout`). Of sessions, whose requests have timers of their own, the arrival.
    #[inline]
    pub(super) fn next_event(&self, timeout: Span, rests: bool) -> Nanos {
        let arrival = if rests { None } else { self.next_arrival() };
        let mut at = arrival.unwrap_or(Nanos::MAX);
        let Self::Open(a) = self else { return at };
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
            Self::Sessions(s) => s.take_pending(),
        }
    }

    /// The requests that wait for a connection.
    pub(super) fn waiting(&self) -> Box<dyn Iterator<Item = &Flight> + '_> {
        match self {
            Self::Closed(_) => Box::new(std::iter::empty()),
            Self::Open(a) => Box::new(a.pools.iter().flat_map(|p| &p.waiting)),
            Self::Sessions(s) => Box::new(s.pending()),
        }
    }

    /// What becomes of the requests of a lost connection.
    pub(super) fn lost(&self) -> Lost {
        match self {
            Self::Closed(_) | Self::Open(_) => Lost::Idempotent,
            Self::Sessions(s) => s.lost,
        }
    }

    /// A request of this user, or session, has failed.
    #[inline]
    pub(super) fn missed(&mut self, user: u32) {
        if let Self::Sessions(s) = self {
            s.all[user as usize].failed = true;
        }
    }

    /// A request of a closed loop that was intended then does not count: its user, who is about to
    /// be freed, may make another one.
    #[cold]
    pub(super) fn refund(&mut self, intended: Nanos, warmup: Span) {
        if let Self::Closed(Users { quota: Some(quota), .. }) = self
            && intended >= Nanos::ZERO + warmup
        {
            *quota += 1;
        }
    }

    /// Whether the user, or session, wants nothing more because a request has failed.
    #[inline]
    pub(super) fn gives_up(&self, user: u32) -> bool {
        match self {
            Self::Closed(_) | Self::Open(_) => false,
            Self::Sessions(s) => s.gives_up(user),
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
