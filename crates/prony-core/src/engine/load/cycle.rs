//! The closed loop goes round: a user wants a request, it ends, the user thinks and wants the next.

use super::Kind;
use crate::engine::agenda::Timer;
use crate::engine::exchange::New;
use crate::engine::{Engine, Stage};
use crate::plan::{Pick, Plan};
use crate::proto::Carrier;
use crate::rng::{self, Stream};
use crate::units::Nanos;

impl<P: Carrier> Engine<P> {
    /// The load begins.
    pub(in crate::engine) fn begin(&mut self, now: Nanos) {
        match &mut self.load.kind {
            Kind::Closed(users) => {
                users.begin();
                self.let_users_begin(now);
            }
            Kind::Open(arrivals) => {
                arrivals.begin();
                if self.carrier.opens() {
                    self.connect_beforehand(now);
                }
            }
            Kind::Sessions(sessions) => {
                sessions.begin();
                self.let_users_begin(now);
            }
        }
    }

    /// The next user who has not begun begins; whether there was one.
    pub(in crate::engine) fn begin_next_user(&mut self, now: Nanos) -> bool {
        match &mut self.load.kind {
            Kind::Closed(users) => match users.next_to_begin() {
                Some(user) => {
                    self.want_request(user, now, true, now);
                    true
                }
                None => false,
            },
            Kind::Open(_) => false,
            Kind::Sessions(sessions) => match sessions.next_to_begin() {
                Some(user) => {
                    self.let_have_session(user, now, now);
                    true
                }
                None => false,
            },
        }
    }

    /// A user has thought enough and wants the next request, or session, from `intended` on.
    pub(in crate::engine) fn start_user(&mut self, user: u32, intended: Nanos, now: Nanos) {
        match &self.load.kind {
            Kind::Closed(_) => self.want_request(user, intended, false, now),
            Kind::Open(_) => {}
            Kind::Sessions(_) => self.next_session(user, intended, now),
        }
    }

    fn want_request(&mut self, user: u32, intended: Nanos, is_first: bool, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else { return };
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let late = intended >= self.load_end || self.stage != Stage::Running;
        if let Some(own) = users.start(user, measured, late, is_first) {
            let call = pick_own(&self.plan, own);
            self.start(New { intended, call, user, nth: 0 }, now);
        }
    }

    /// Users of one lane want the next request, all at once, from now on. The same as
    /// [`Engine::start_user`] for each of them; what is the same for all is done once.
    fn start_crowd(&mut self, lane: u32, crowd: &[u32], now: Nanos) {
        let n = self.start_together(lane, crowd, now);
        for &user in &crowd[n..] {
            self.want_request(user, now, false, now);
        }
    }

    /// Start the first users of the crowd, if the lane has one connection that can carry them, and
    /// nothing has to be looked at one by one. Returns how many were started.
    fn start_together(&mut self, lane: u32, crowd: &[u32], now: Nanos) -> usize {
        let Kind::Closed(users) = &mut self.load.kind else { return 0 };
        if self.stage != Stage::Running || now >= self.load_end {
            return 0;
        }
        let Some(slot) = self.dispatch.crowd_slot(lane).filter(|&slot| self.links.carries(slot))
        else {
            return 0;
        };
        let measured = now >= Nanos::ZERO + self.plan.warmup;
        let (own, n) = users.start_together(lane, crowd.len(), measured);
        if n == 0 {
            return 0;
        }
        self.recorder.started_together(now, n as u64);
        self.outstanding += n as u64;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let (plan, intended) = (&self.plan, now);
        let new = (own..).zip(&crowd[..n]).map(|(number, &user)| {
            let call = pick_own(plan, number);
            New { intended, call, user, nth: 0 }
        });
        self.links.begin_on(slot, &mut self.exchanges, new);
        self.given(slot, n as u32, now);
        n
    }

    /// The users whose connect has failed try again after a while.
    pub(in crate::engine) fn connect_failed(&mut self, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else {
            self.restart_ended(now);
            return;
        };
        let Some(&first) = self.outcome.ended.first() else { return };
        let lane = users.lane(first);
        let n = self.outcome.ended.len();
        self.outstanding -= n as u64;
        users.ended(lane, n);
        for user in self.outcome.ended.drain(..) {
            self.agenda.wake(now + users.back_off(lane), Timer::User(user));
        }
        self.unpark(lane, now);
    }

    /// The users whose requests have ended think, then want the next.
    pub(in crate::engine) fn restart_ended(&mut self, now: Nanos) {
        if self.outcome.ended.is_empty() {
            return;
        }
        self.outstanding -= self.outcome.ended.len() as u64;
        let users = match &mut self.load.kind {
            Kind::Closed(users) => users,
            Kind::Open(_) => {
                self.outcome.ended.clear();
                return;
            }
            Kind::Sessions(_) => {
                self.session_goes_on(now);
                return;
            }
        };
        // They all belong to the one connection that was looked at, and so to one lane.
        let lane = users.lane(self.outcome.ended[0]);
        users.ended(lane, self.outcome.ended.len());
        let mut ended = std::mem::take(&mut self.outcome.ended);
        if users.parks() {
            users.park(lane, &mut ended);
            self.unpark(lane, now);
        } else if users.goes_straight_on() {
            self.start_crowd(lane, &ended, now);
        } else {
            for &user in &ended {
                self.agenda.wake(now + users.think(&self.plan, user), Timer::User(user));
            }
        }
        debug_assert!(self.outcome.ended.is_empty());
        ended.clear();
        self.outcome.ended = ended;
    }

    /// Users who wait for half of their lane's window start when it is free, or when nothing is
    /// under way.
    fn unpark(&mut self, lane: u32, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else { return };
        let Some(ready) = users.unpark(lane) else { return };
        self.start_crowd(lane, &ready, now);
        if let Kind::Closed(users) = &mut self.load.kind {
            users.keep(lane, ready);
        }
    }
}

/// Which call a share's request of that number makes. Each share goes round all calls. By the
/// number in the whole run, two shares of two calls would have one call each, and the faster one
/// would be made more often.
#[inline]
fn pick_own(plan: &Plan, own: u64) -> u32 {
    let shard = plan.shard;
    pick(plan, || match plan.pick {
        Pick::InTurn => own + u64::from(shard.index),
        Pick::Random => own * u64::from(shard.of) + u64::from(shard.index),
    })
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
