//! The cycle of a closed loop: a user makes a request, it ends, the user thinks and makes the next.

use super::Kind;
use crate::engine::agenda::Timer;
use crate::engine::exchange::New;
use crate::engine::{Engine, Stage};
use prony_base::fault::Fault;
use prony_base::machine::CloseHow;
use prony_base::rng::{self, Stream};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Pick, Plan};
use prony_proto::proto::Carrier;

impl<P: Carrier> Engine<P> {
    /// The load starts.
    pub(in crate::engine) fn begin(&mut self, now: Nanos) {
        match &mut self.load.kind {
            Kind::Closed(users) => {
                if let Some((first, ends)) = users.begin_clients(now) {
                    for (at, user) in first {
                        self.agenda.wake(at, Timer::User(user));
                    }
                    for (at, group) in ends {
                        self.agenda.wake(at, Timer::Client(group));
                    }
                    return;
                }
                match users.begin_ramp(now) {
                    Some(first) => self.agenda.wake(first, Timer::Join),
                    None => {
                        users.begin();
                        self.start_users(now);
                    }
                }
            }
            Kind::Open(arrivals) => {
                arrivals.begin();
                if self.carrier.opens() {
                    self.connect_beforehand(now);
                }
            }
            Kind::Logged(_) => {}
            Kind::Sessions(sessions) => match sessions.begin(now) {
                Some(first) => self.agenda.wake(first, Timer::Join),
                None => self.start_users(now),
            },
        }
    }

    /// The next user of a ramp, who was to start at `at`, starts.
    pub(in crate::engine) fn join_user(&mut self, at: Nanos, now: Nanos) {
        let next = match &mut self.load.kind {
            Kind::Closed(users) => users.next_of_ramp(),
            Kind::Sessions(sessions) => sessions.next_of_ramp(),
            Kind::Open(_) | Kind::Logged(_) => None,
        };
        let Some((user, then)) = next else { return };
        if let Some(then) = then {
            self.agenda.wake(then, Timer::Join);
        }
        match &self.load.kind {
            Kind::Closed(_) => self.want_request(user, at, true, now),
            Kind::Sessions(_) => self.start_session_of(user, at, now),
            Kind::Open(_) | Kind::Logged(_) => {}
        }
    }

    /// Start the next user who has not started. Returns whether there was one.
    pub(in crate::engine) fn start_next_user(&mut self, now: Nanos) -> bool {
        match &mut self.load.kind {
            Kind::Closed(users) => match users.next_to_start() {
                Some(user) => {
                    self.want_request(user, now, true, now);
                    true
                }
                None => false,
            },
            Kind::Open(_) | Kind::Logged(_) => false,
            Kind::Sessions(sessions) => match sessions.next_to_start() {
                Some(user) => {
                    self.start_session_of(user, now, now);
                    true
                }
                None => false,
            },
        }
    }

    /// A user's think time is over: start the next request, or session, intended for `intended`.
    pub(in crate::engine) fn start_user(&mut self, user: u32, intended: Nanos, now: Nanos) {
        match &self.load.kind {
            Kind::Closed(_) => self.want_request(user, intended, false, now),
            Kind::Open(_) | Kind::Logged(_) => {}
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

    /// Start the next request of several users of one group at once. Equivalent to
    /// [`Engine::start_user`] for each of them, but common work is done once.
    #[inline(always)]
    fn start_batch(&mut self, group: u32, batch: &[u32], now: Nanos) {
        let n = self.start_together(group, batch, now);
        for &user in &batch[n..] {
            self.want_request(user, now, false, now);
        }
    }

    /// Start as many users of the batch as possible together. The group must have one connection
    /// that can carry them, and no request may need individual treatment. Returns how many were
    /// started.
    #[inline(always)]
    fn start_together(&mut self, group: u32, batch: &[u32], now: Nanos) -> usize {
        let Kind::Closed(users) = &mut self.load.kind else { return 0 };
        if self.stage != Stage::Running || now >= self.load_end {
            return 0;
        }
        let Some(slot) = self.dispatch.batch_slot(group) else { return 0 };
        if !self.links.carries(slot) {
            return 0;
        }
        let measured = now >= Nanos::ZERO + self.plan.warmup;
        let (own, n) = users.start_together(group, batch.len(), measured);
        if n == 0 {
            return 0;
        }
        self.recorder.started_together(now, n as u64);
        self.outstanding += n as u64;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let (plan, intended) = (&self.plan, now);
        let new = (own..).zip(&batch[..n]).map(|(number, &user)| {
            let call = pick_own(plan, number);
            New { intended, call, user, nth: 0 }
        });
        self.links.begin_on(slot, &mut self.exchanges, new);
        self.given(slot, n as u32, now);
        n
    }

    /// Users whose connect has failed try again after a delay.
    pub(in crate::engine) fn connect_failed(&mut self, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else {
            self.restart_ended(now);
            return;
        };
        let Some(&first) = self.outcome.ended.first() else { return };
        let group = users.group(first);
        let n = self.outcome.ended.len();
        self.outstanding -= n as u64;
        users.ended(group, n, now);
        if users.give_up_unconnected(group, n) {
            self.outcome.ended.clear();
        }
        for user in self.outcome.ended.drain(..) {
            self.agenda.wake(now + users.back_off(group), Timer::User(user));
        }
        self.unpark(group, now);
    }

    /// Users whose requests have failed on a connection that came to nothing make the next request
    /// after a delay.
    #[cold]
    pub(in crate::engine) fn restart_later(&mut self, wait: Span, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else { return self.restart_ended(now) };
        let Some(&first) = self.outcome.ended.first() else { return };
        if users.is_paced() || !users.skips_think_time() {
            return self.restart_ended(now);
        }
        let group = users.group(first);
        self.outstanding -= self.outcome.ended.len() as u64;
        users.ended(group, self.outcome.ended.len(), now);
        for user in self.outcome.ended.drain(..) {
            self.agenda.wake(now + wait, Timer::User(user));
        }
        self.unpark(group, now);
    }

    /// Users whose requests have ended think, then make the next request.
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
            Kind::Logged(_) => return self.release_clients(now),
            Kind::Sessions(_) => {
                self.continue_session(now);
                return;
            }
        };
        // All of them belong to the connection of this event, and so to one group.
        let group = users.group(self.outcome.ended[0]);
        // Without the list itself, as it is the usual case.
        if let [user] = self.outcome.ended[..]
            && users.are_plain()
        {
            self.outcome.ended.clear();
            return self.start_batch(group, &[user], now);
        }
        users.ended(group, self.outcome.ended.len(), now);
        if users.is_paced() {
            return self.wait_for_times(group);
        }
        let at_once = !users.parks() && users.skips_think_time();
        let mut ended = std::mem::take(&mut self.outcome.ended);
        if at_once {
            self.start_batch(group, &ended, now);
        } else if users.parks() {
            users.park(group, &mut ended);
            self.unpark(group, now);
        } else {
            for &user in &ended {
                self.agenda.wake(now + users.think(&self.plan, user), Timer::User(user));
            }
        }
        debug_assert!(self.outcome.ended.is_empty());
        ended.clear();
        self.outcome.ended = ended;
    }

    /// Users of a client with a schedule, whose requests have ended, wait for the next times of it.
    /// A time that has passed is intended nevertheless.
    fn wait_for_times(&mut self, group: u32) {
        let Kind::Closed(users) = &mut self.load.kind else { return };
        for user in self.outcome.ended.drain(..) {
            if let Some(at) = users.take_time(group) {
                self.agenda.wake(at, Timer::User(user));
            }
        }
    }

    /// A client's time is over: its requests in flight fail, and it starts no more.
    pub(in crate::engine) fn expire_client(&mut self, group: u32, now: Nanos) {
        if self.load.client_expired(group)
            && let Some(slot) = self.dispatch.slot_of_group(group)
        {
            self.abandon(slot, Some(Fault::RequestTimeout), CloseHow::Reset, now);
        }
    }

    /// Start the users who wait for half of their group's window, if it is free, or if the group
    /// has no request in flight.
    fn unpark(&mut self, group: u32, now: Nanos) {
        let Kind::Closed(users) = &mut self.load.kind else { return };
        let Some(ready) = users.unpark(group) else { return };
        self.start_batch(group, &ready, now);
        if let Kind::Closed(users) = &mut self.load.kind {
            users.keep(group, ready);
        }
    }
}

/// Which of the plan's calls the share's own request number `own` makes. Each share cycles through
/// all calls. If the number in the whole run decided, two shares of a plan with two calls would
/// make one call each, and the faster share's call would be made more often.
#[inline]
fn pick_own(plan: &Plan, own: u64) -> u32 {
    let shard = plan.shard;
    pick(plan, || match plan.pick {
        // The number is the client's own.
        _ if plan.clients.is_some() => own,
        Pick::InTurn => own + u64::from(shard.index),
        Pick::Random => own * u64::from(shard.of) + u64::from(shard.index),
    })
}

/// Which of the plan's calls request `number` of the run makes.
#[inline]
pub(super) fn pick(plan: &Plan, number: impl FnOnce() -> u64) -> u32 {
    if plan.calls.len() == 1 { 0 } else { pick_one(plan, number()) }
}

/// The same for a plan with several calls. Not inlined: else each start would mix the bits of the
/// seed.
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
