//! The users of a closed loop, who each want one request after another.

use crate::plan::{Load, Plan, Think};
use crate::rng::{self, Stream};
use crate::units::Span;

/// After a connect that failed a closed-loop user waits this long before the next try, twice as
/// long after each further one: a dead target is asked again and again, but does not turn the meter
/// into a busy loop.
const BACKOFF_FIRST: Span = Span::from_millis(1);
/// The longest such wait: 1 ms doubled so often.
const BACKOFF_DOUBLINGS: u8 = 7;
const _: () = assert!(BACKOFF_FIRST.0 << BACKOFF_DOUBLINGS == Load::AWAY_MAX.0);

/// The wait after a failure that follows `failures` others in a row; counts it.
pub(super) fn back_off(failures: &mut u8) -> Span {
    let wait = BACKOFF_FIRST * (1 << *failures);
    *failures = (*failures + 1).min(BACKOFF_DOUBLINGS);
    wait
}

/// The users of a share. Those of one lane share its connections: user u belongs to lane
/// u / depth.
#[derive(Debug)]
pub(super) struct Users {
    think: Think,
    lanes: u32,
    /// Users per lane.
    depth: u32,
    /// Failed connects in a row, per lane.
    failures: Vec<u8>,
    /// Per lane: users who are ready but wait until half of the lane's window is free. Empty where
    /// nobody waits for that.
    parked: Vec<Vec<u32>>,
    /// Requests that have begun and not ended, per lane.
    under_way: Vec<u32>,
    /// Measured requests that may still start.
    quota: Option<u64>,
    /// Requests started by this share, warm-up included.
    started: u64,
    /// Users who may want something again.
    alive: u64,
    begun: bool,
    /// Users who have not begun: the meter has yet to come to them.
    to_begin: u32,
}

impl Users {
    pub(super) fn new(plan: &Plan, connections: u32, think: Think) -> Self {
        let lanes = plan.shard.share_of(u64::from(connections)) as u32;
        Self {
            think,
            lanes,
            depth: plan.pipeline,
            failures: vec![0; lanes as usize],
            parked: vec![Vec::new(); if refills(plan) { lanes as usize } else { 0 }],
            under_way: vec![0; lanes as usize],
            quota: plan.stop.requests.map(|n| plan.shard.share_of(n)),
            started: 0,
            alive: u64::from(lanes) * u64::from(plan.pipeline),
            begun: false,
            to_begin: 0,
        }
    }

    /// The load begins.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        self.to_begin = self.lanes * self.depth;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Users who have not begun.
    pub(super) fn to_begin(&self) -> u32 {
        self.to_begin
    }

    /// The next user begins. Lane by lane within each round, so that every connection is opened
    /// before any has its pipeline filled.
    pub(super) fn next_to_begin(&mut self) -> Option<u32> {
        let at = self.lanes * self.depth - self.to_begin;
        self.to_begin = self.to_begin.checked_sub(1)?;
        Some(at % self.lanes * self.depth + at / self.lanes)
    }

    /// Nobody wants anything more.
    pub(super) fn end(&mut self) {
        (self.alive, self.to_begin) = (0, 0);
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun && self.alive == 0
    }

    /// Whether all requests that were to start have.
    pub(super) fn is_used_up(&self) -> bool {
        self.quota == Some(0)
    }

    /// How many measured requests those who have begun may still start: one is kept for each user
    /// who has not. `None`: any number.
    #[inline]
    fn left(&self) -> Option<u64> {
        self.quota.map(|n| n.saturating_sub(u64::from(self.to_begin)))
    }

    #[inline]
    pub(super) fn lane(&self, user: u32) -> u32 {
        user / self.depth
    }

    /// A user wants the next request; its number in this share, if it may start. `late`: the load
    /// is over. `is_first`: the user may have what is kept for those who have not begun.
    #[inline]
    pub(super) fn start(
        &mut self,
        user: u32,
        measured: bool,
        late: bool,
        is_first: bool,
    ) -> Option<u64> {
        if self.alive == 0 {
            return None;
        }
        let left = if is_first { self.quota } else { self.left() };
        if late || (measured && left == Some(0)) {
            self.alive -= 1;
            return None;
        }
        if measured && let Some(quota) = &mut self.quota {
            *quota -= 1;
        }
        let number = self.started;
        self.started += 1;
        let lane = self.lane(user);
        self.under_way[lane as usize] += 1;
        Some(number)
    }

    /// Up to `n` users of a lane want the next request: how many may start, and the first one's
    /// number in this share.
    #[inline]
    pub(super) fn start_together(&mut self, lane: u32, n: usize, measured: bool) -> (u64, usize) {
        let mut n = n;
        if measured
            && let Some(left) = self.left()
            && let Some(quota) = &mut self.quota
        {
            n = usize::try_from(left).map_or(n, |left| left.min(n));
            *quota -= n as u64;
        }
        let number = self.started;
        self.started += n as u64;
        self.under_way[lane as usize] += n as u32;
        (number, n)
    }

    /// Requests of users of one lane have ended.
    #[inline]
    pub(super) fn ended(&mut self, lane: u32, n: usize) {
        self.under_way[lane as usize] -= n as u32;
    }

    /// A measured request does not count: its user may make another one.
    pub(super) fn refund(&mut self) {
        if let Some(quota) = &mut self.quota {
            *quota += 1;
        }
    }

    /// The lane's connection has opened: its next failure is a first one again.
    pub(super) fn connected(&mut self, lane: u32) {
        self.failures[lane as usize] = 0;
    }

    /// The lane's connect has failed: how long one of its users waits.
    pub(super) fn back_off(&mut self, lane: u32) -> Span {
        back_off(&mut self.failures[lane as usize])
    }

    /// Whether those whose requests have ended wait for half of the lane's window.
    #[inline]
    pub(super) fn parks(&self) -> bool {
        !self.parked.is_empty()
    }

    /// They wait for it.
    pub(super) fn park(&mut self, lane: u32, users: &mut Vec<u32>) {
        self.parked[lane as usize].append(users);
    }

    /// Those who wait for half of the lane's window, if it is free, or if nothing is under way.
    pub(super) fn unpark(&mut self, lane: u32) -> Option<Vec<u32>> {
        let parked = self.parked.get_mut(lane as usize)?;
        if (parked.len() as u32) * 2 < self.depth && self.under_way[lane as usize] > 0 {
            return None;
        }
        Some(std::mem::take(parked))
    }

    /// Give the memory of such a list back.
    pub(super) fn keep(&mut self, lane: u32, mut list: Vec<u32>) {
        list.clear();
        self.parked[lane as usize] = list;
    }

    /// Whether nobody thinks between two requests, or nobody needs to any more.
    #[inline]
    pub(super) fn goes_straight_on(&self) -> bool {
        self.think == Think::None || self.left() == Some(0)
    }

    /// How long a user thinks now.
    pub(super) fn think(&self, plan: &Plan, user: u32) -> Span {
        let everywhere = u64::from(user) * u64::from(plan.shard.of) + u64::from(plan.shard.index);
        // Which of the user's requests this is after is not kept; the number of starts tells
        // draws apart.
        self.think.draw(rng::keyed(plan.seed, Stream::Think, everywhere, self.started))
    }
}

/// Whether pipelines are refilled batch by batch: with a depth over one and no think time. A
/// request for each reply would make the server read, and the meter write, once per request;
/// `docs/terms.md` has it for users.
fn refills(plan: &Plan) -> bool {
    let eager = matches!(plan.load, Load::Closed { think: Think::None, .. });
    eager && plan.pipeline > 1
}
