//! The closed loop: users who each want one request after another.

use std::cmp::Reverse;

use super::conn::NONE;
use super::flight::Flight;
use super::source::Source;
use super::start::pick;
use super::{Engine, Stage, Timer};
use crate::plan::{Load, Pick, Plan, Think};
use crate::proto::Protocol;
use crate::rng::{self, Stream};
use crate::units::{Nanos, Span};

/// After a connect that failed a closed-loop user waits this long before the next try, twice as
/// long after each further one: a dead target is asked again and again, but does not turn the meter
/// into a busy loop.
pub(super) const BACKOFF_FIRST: Span = Span::from_millis(1);
/// The longest such wait: 1 ms doubled so often.
pub(super) const BACKOFF_DOUBLINGS: u8 = 7;
const _: () = assert!(BACKOFF_FIRST.0 << BACKOFF_DOUBLINGS == Load::AWAY_MAX.0);

impl<P: Protocol> Engine<P> {
    /// The load begins.
    pub(super) fn begin(&mut self, now: Nanos) {
        let users = match &mut self.source {
            Source::Closed(users) => users,
            Source::Open(arrivals) => {
                arrivals.begun = true;
                if self.proto.greets() {
                    self.connect_beforehand(now);
                }
                return;
            }
            Source::Sessions(_) => {
                self.begin_guests(now);
                return;
            }
        };
        users.begun = true;
        users.to_begin = users.lanes * users.depth;
        self.let_users_begin(now);
    }

    /// A user wants the next request, from `intended` on.
    pub(super) fn start_user(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let users = match &mut self.source {
            Source::Closed(users) => users,
            Source::Open(_) => return,
            Source::Sessions(_) => {
                self.next_session(user, intended, now);
                return;
            }
        };
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        if users.alive > 0 && measured && users.left() == Some(0) {
            users.alive -= 1;
            return;
        }
        self.begin_user(user, intended, now);
    }

    /// The same for one who may have what is kept for those who have not begun.
    pub(super) fn begin_user(&mut self, user: u32, intended: Nanos, now: Nanos) {
        let Source::Closed(users) = &mut self.source else { return };
        if users.alive == 0 {
            return;
        }
        let measured = intended >= Nanos::ZERO + self.plan.warmup;
        let late = intended >= self.load_end;
        if late || self.stage != Stage::Running || (measured && users.quota == Some(0)) {
            users.alive -= 1;
            return;
        }
        if measured && let Some(quota) = &mut users.quota {
            *quota -= 1;
        }
        let own = users.started;
        users.started += 1;
        users.under_way[(user / users.depth) as usize] += 1;
        self.start(Flight::new(intended, pick_own(&self.plan, own), user), now);
    }

    /// Users of one lane want the next request, all at once, from now on. The same as
    /// [`Engine::start_user`] for each of them; what is the same for all is done once.
    fn start_crowd(&mut self, lane: u32, crowd: &[u32], now: Nanos) {
        let n = self.start_together(lane, crowd, now);
        for &user in &crowd[n..] {
            self.start_user(user, now, now);
        }
    }

    /// Start the first users of the crowd, if the lane has one connection that can carry them, and
    /// nothing has to be looked at one by one. Returns how many were started.
    fn start_together(&mut self, lane: u32, crowd: &[u32], now: Nanos) -> usize {
        let Source::Closed(users) = &mut self.source else { return 0 };
        if !users.crowds || self.stage != Stage::Running {
            return 0;
        }
        let slot = users.lane_slots[lane as usize];
        let late = now >= self.load_end;
        if slot == NONE || late || self.conns[slot].retired {
            return 0;
        }
        let mut n = crowd.len();
        if now >= Nanos::ZERO + self.plan.warmup
            && let Some(left) = users.left()
            && let Some(quota) = &mut users.quota
        {
            n = usize::try_from(left).map_or(n, |left| left.min(n));
            *quota -= n as u64;
        }
        if n == 0 {
            return 0;
        }
        let own = users.started;
        users.started += n as u64;
        users.under_way[lane as usize] += n as u32;
        self.recorder.started_together(now, n as u64);
        self.outstanding += n as u64;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
        let flights = &mut self.conns[slot].flights;
        for (number, &user) in (own..).zip(&crowd[..n]) {
            flights.push_back(Flight::new(now, pick_own(&self.plan, number), user));
        }
        self.given(slot, n as u32, now);
        n
    }

    /// A lane's connection has opened: its next failure is a first one again.
    pub(super) fn connect_succeeded(&mut self, slot: u32) {
        let lane = self.conns[slot].lane;
        match &mut self.source {
            Source::Closed(users) => users.failures[lane as usize] = 0,
            Source::Open(_) => {}
            Source::Sessions(_) => self.session_connected(lane, true),
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
        let users = match &mut self.source {
            Source::Closed(users) => users,
            Source::Open(_) => {
                self.freed.clear();
                return;
            }
            Source::Sessions(_) => {
                self.session_goes_on(now);
                return;
            }
        };
        // They all belong to the one connection that was looked at, and so to one lane.
        let lane = self.freed[0] / users.depth;
        users.under_way[lane as usize] -= self.freed.len() as u32;
        let mut freed = std::mem::take(&mut self.freed);
        if !users.parked.is_empty() {
            users.parked[lane as usize].append(&mut freed);
            self.unpark(lane, now);
        } else if users.think == Think::None || users.left() == Some(0) {
            self.start_crowd(lane, &freed, now);
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
        self.start_crowd(lane, &ready, now);
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
            let wait = users.think.draw(bits);
            self.timers.push(Reverse((now + wait, Timer::User(user))));
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
