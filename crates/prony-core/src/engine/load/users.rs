//! The users of a closed loop, each of whom makes one request after another.

use super::clients::Clients;
use super::ramp::Ramp;
use prony_base::rng::{self, Stream};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Load, Pace, Plan, Think};

/// After a failed connect, a user of a closed loop waits this long before the next attempt. The
/// delay doubles with each consecutive failure: the meter keeps trying a dead target without a busy
/// loop.
const BACKOFF_FIRST: Span = Span::from_millis(1);
/// How often the delay doubles at most.
const BACKOFF_DOUBLINGS: u8 = 7;
const _: () = assert!(BACKOFF_FIRST.0 << BACKOFF_DOUBLINGS == Load::AWAY_MAX.0);

/// The delay after a failure that follows `failures` others in a row; counts the failure.
pub(super) fn back_off(failures: &mut u8) -> Span {
    let wait = BACKOFF_FIRST * (1 << *failures);
    *failures = (*failures + 1).min(BACKOFF_DOUBLINGS);
    wait
}

/// The users of a share. `depth` users form a group, which shares its connections: user u belongs
/// to group u / depth.
#[derive(Debug)]
pub(super) struct Users {
    think: Think,
    /// The groups as independent clients, if they are.
    clients: Option<Box<Clients>>,
    groups: u32,
    /// Users per group.
    depth: u32,
    /// Consecutive failed connects, per group.
    failures: Vec<u8>,
    /// Per group: users who are ready but wait until half of the group's window is free. Empty if
    /// users do not wait for that.
    parked: Vec<Vec<u32>>,
    /// Requests that have started and not ended, per group. Empty as the list before it.
    in_flight: Vec<u32>,
    /// See [`Users::are_plain`].
    plain: bool,
    /// Measured requests that may still start.
    quota: Option<u64>,
    /// Requests started by this share, warm-up included.
    started: u64,
    /// Users who may start another request.
    alive: u64,
    begun: bool,
    /// Users who have not started yet, but for those of a ramp.
    not_started: u32,
    /// If they start one after the other: those who have not started.
    ramp: Option<Box<Ramp>>,
}

impl Users {
    pub(super) fn new(plan: &Plan, connections: u32, think: Think) -> Self {
        let groups = plan.shard.share_of(u64::from(connections)) as u32;
        // A broadcast opens each connection once, whatever share of the requests that is.
        let once = plan.broadcast().map(|_| u64::from(groups) * u64::from(plan.pipeline));
        let quota = plan.stop.requests.map(|n| once.unwrap_or_else(|| plan.deal().count(n)));
        let clients = Clients::new(plan, groups, quota).map(Box::new);
        let parking = if refills(plan) { groups as usize } else { 0 };
        Self {
            plain: think == Think::None && parking == 0 && clients.is_none(),
            think,
            clients,
            groups,
            depth: plan.pipeline,
            failures: vec![0; groups as usize],
            parked: vec![Vec::new(); parking],
            in_flight: vec![0; parking],
            quota,
            started: 0,
            alive: u64::from(groups) * u64::from(plan.pipeline),
            begun: false,
            not_started: 0,
            ramp: Ramp::new(plan, groups, plan.pipeline).map(Box::new),
        }
    }

    /// The load starts.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        self.not_started = self.groups * self.depth;
    }

    /// The load of users who start one after the other starts; returns when the first one does.
    /// `None`: all start at once.
    pub(super) fn begin_ramp(&mut self, now: Nanos) -> Option<Nanos> {
        let ramp = self.ramp.as_deref_mut()?;
        ramp.begin(now);
        self.begun = true;
        ramp.next_start()
    }

    /// The next user of a ramp starts: returns the user, and when the one after does.
    pub(super) fn next_of_ramp(&mut self) -> Option<(u32, Option<Nanos>)> {
        let ramp = self.ramp.as_deref_mut()?;
        let at = ramp.take()?;
        let user = at % self.groups * self.depth + at / self.groups;
        Some((user, ramp.next_start()))
    }

    /// No user of a ramp starts any more.
    fn end_ramp(&mut self) {
        if let Some(ramp) = &mut self.ramp {
            self.alive = self.alive.saturating_sub(ramp.end());
        }
    }

    /// The load of clients with times of their own starts. Returns the users with their first
    /// times, and the clients with the times at which they give up; `None` if all start at once.
    #[expect(clippy::type_complexity, reason = "two lists of timers, used once")]
    pub(super) fn begin_clients(
        &mut self,
        now: Nanos,
    ) -> Option<(Vec<(Nanos, u32)>, Vec<(Nanos, u32)>)> {
        let clients = self.clients.as_deref_mut().filter(|clients| clients.is_timed())?;
        self.begun = true;
        let (mut users, mut ends) = (Vec::new(), Vec::new());
        for group in 0..self.groups {
            let (start, end) = clients.begin(group, now);
            ends.extend(end.map(|at| (at, group)));
            for user in group * self.depth..(group + 1) * self.depth {
                let first = if clients.is_paced() { clients.take_time(group) } else { Some(start) };
                match first {
                    Some(at) => users.push((at, user)),
                    None => self.alive -= 1,
                }
            }
        }
        Some((users, ends))
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Users who have not started.
    pub(super) fn not_started(&self) -> u32 {
        self.not_started
    }

    /// The next user to start. The first users of all groups come first, then the second ones, so
    /// that every connection is opened before any has its pipeline filled.
    pub(super) fn next_to_start(&mut self) -> Option<u32> {
        let at = self.groups * self.depth - self.not_started;
        self.not_started = self.not_started.checked_sub(1)?;
        Some(at % self.groups * self.depth + at / self.groups)
    }

    /// Start no more requests.
    pub(super) fn end(&mut self) {
        self.end_ramp();
        (self.alive, self.not_started) = (0, 0);
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun && self.alive == 0
    }

    /// Whether the quota of requests is used up.
    pub(super) fn is_used_up(&self) -> bool {
        self.quota == Some(0)
    }

    /// How many measured requests users who have already started may still start: one is reserved
    /// for each user who has not started. `None`: no limit.
    #[inline]
    fn left(&self) -> Option<u64> {
        self.quota.map(|n| n.saturating_sub(u64::from(self.not_started)))
    }

    #[inline]
    pub(super) fn group(&self, user: u32) -> u32 {
        user / self.depth
    }

    /// Start a user's next request. Returns its number in this share, if it may start. `late`: the
    /// load is over. `is_first`: the user may use the quota that is reserved for users who have not
    /// started.
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
        let group = self.group(user);
        let left = if is_first { self.quota } else { self.left() };
        let number = match &mut self.clients {
            None if late || (measured && left == Some(0)) => None,
            None => Some(self.started),
            Some(_) if late => None,
            Some(clients) => {
                let (number, n) = clients.start(group, 1, measured);
                (n > 0).then_some(number)
            }
        };
        if number.is_none() {
            self.alive -= 1;
            if self.is_used_up() {
                self.end_ramp();
            }
            return None;
        }
        if measured && let Some(quota) = &mut self.quota {
            *quota -= 1;
        }
        self.started += 1;
        if let Some(in_flight) = self.in_flight.get_mut(group as usize) {
            *in_flight += 1;
        }
        number
    }

    /// Start the next requests of up to `n` users of a group. Returns the number of the first one
    /// in this share, and how many may start.
    #[inline(always)]
    pub(super) fn start_together(&mut self, group: u32, n: usize, measured: bool) -> (u64, usize) {
        let (mut n, mut number) = (n, self.started);
        if let Some(clients) = &mut self.clients {
            (number, n) = clients.start(group, n, measured);
            if measured && let Some(quota) = &mut self.quota {
                *quota -= n as u64;
            }
        } else if measured && let Some(quota) = &mut self.quota {
            // As in `left`.
            let left = quota.saturating_sub(u64::from(self.not_started));
            n = usize::try_from(left).map_or(n, |left| left.min(n));
            *quota -= n as u64;
        }
        self.started += n as u64;
        if let Some(in_flight) = self.in_flight.get_mut(group as usize) {
            *in_flight += n as u32;
        }
        (number, n)
    }

    /// Requests of users of one group have ended.
    #[inline]
    pub(super) fn ended(&mut self, group: u32, n: usize, now: Nanos) {
        if let Some(in_flight) = self.in_flight.get_mut(group as usize) {
            *in_flight -= n as u32;
        }
        if let Some(clients) = &mut self.clients {
            clients.ended(group, n, now);
        }
    }

    /// The groups as independent clients, if they are.
    pub(super) fn clients(&mut self) -> Option<&mut Clients> {
        self.clients.as_deref_mut()
    }

    /// Whether a user whose request has ended starts the next one at once, with nothing else to do:
    /// no think time, no window to wait for, and no clients with accounts of their own.
    #[inline]
    pub(super) fn are_plain(&self) -> bool {
        self.plain
    }

    /// Whether requests wait for a schedule of their client.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.clients.as_ref().is_some_and(|clients| clients.is_paced())
    }

    /// A user of a client with a schedule is free. Returns when the user's next request is due;
    /// `None`: never.
    pub(super) fn take_time(&mut self, group: u32) -> Option<Nanos> {
        let at = self.clients.as_deref_mut().and_then(|clients| clients.take_time(group));
        if at.is_none() {
            self.alive = self.alive.saturating_sub(1);
        }
        at
    }

    /// Whether the user belongs to a client that has given up.
    pub(super) fn has_given_up(&self, user: u32) -> bool {
        let group = self.group(user);
        self.clients.as_ref().is_some_and(|clients| clients.has_given_up(group))
    }

    /// These requests of a client will not start.
    pub(super) fn abandon(&mut self, n: u64) {
        if let Some(quota) = &mut self.quota {
            *quota = quota.saturating_sub(n);
        }
    }

    /// The group's connect has failed: an independent client gives up, and its users who are ready
    /// make no more requests. Returns whether it is one.
    pub(super) fn give_up_unconnected(&mut self, group: u32, users: usize) -> bool {
        let Some(clients) = &mut self.clients else { return false };
        let left = clients.give_up(group, false);
        self.abandon(left);
        self.alive -= users as u64;
        true
    }

    /// A measured request does not count: its user may make another one.
    pub(super) fn refund(&mut self) {
        if let Some(quota) = &mut self.quota {
            *quota += 1;
        }
    }

    /// The group's connection has opened: reset its delay.
    pub(super) fn connected(&mut self, group: u32) {
        self.failures[group as usize] = 0;
    }

    /// The group's connect has failed. Returns how long one of its users waits.
    pub(super) fn back_off(&mut self, group: u32) -> Span {
        back_off(&mut self.failures[group as usize])
    }

    /// Whether users whose requests have ended wait for half of the group's window.
    #[inline]
    pub(super) fn parks(&self) -> bool {
        !self.parked.is_empty()
    }

    /// These users wait for half of the group's window.
    pub(super) fn park(&mut self, group: u32, users: &mut Vec<u32>) {
        self.parked[group as usize].append(users);
    }

    /// Take the users who wait for half of the group's window, if it is free, or if nothing is in
    /// flight.
    pub(super) fn unpark(&mut self, group: u32) -> Option<Vec<u32>> {
        let parked = self.parked.get_mut(group as usize)?;
        if (parked.len() as u32) * 2 < self.depth && self.in_flight[group as usize] > 0 {
            return None;
        }
        Some(std::mem::take(parked))
    }

    /// Return the memory of such a list.
    pub(super) fn keep(&mut self, group: u32, mut list: Vec<u32>) {
        list.clear();
        self.parked[group as usize] = list;
    }

    /// Whether users start the next request at once: there is no think time, or no request is left.
    #[inline]
    pub(super) fn skips_think_time(&self) -> bool {
        self.think == Think::None || self.left() == Some(0)
    }

    /// Draw a user's think time.
    pub(super) fn think(&self, plan: &Plan, user: u32) -> Span {
        let everywhere = u64::from(user) * u64::from(plan.shard.of) + u64::from(plan.shard.index);
        // The number of the user's requests is not kept. The number of starts makes each draw
        // distinct.
        self.think.draw(rng::keyed(plan.seed, Stream::Think, everywhere, self.started))
    }
}

/// Whether pipelines are refilled in batches: with a depth over one and no think time. With one
/// request for each reply, the server would read, and the meter write, once per request.
/// `docs/terms.md` explains it to users.
fn refills(plan: &Plan) -> bool {
    let eager = matches!(plan.load, Load::Closed { think: Think::None, .. });
    let paced = plan.clients.as_ref().is_some_and(|clients| clients.pace != Pace::Free);
    eager && plan.pipeline > 1 && !paced
}
