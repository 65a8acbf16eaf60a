//! The state of all running sessions. `session_run.rs` advances them.

use std::ops::Range;

use super::groups::Groups;
use super::ramp::Ramp;
use prony_base::rng::{self, Stream};
use prony_base::units::{Nanos, Span};
use prony_plan::plan::{self, Deal, Load, Lost, OnFailure, Pick, Plan, Think};
use prony_plan::rate::RateChange;
use prony_plan::schedule::{Schedule, Skipped};

/// All sessions of a share. Slots of ended sessions are reused, so the number of concurrent
/// sessions bounds the memory.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) steps: Steps,
    /// The groups of steps, if the plan has some.
    pub(super) groups: Option<Box<Groups>>,
    pub(super) arrivals: Arrivals,
    /// The slots, those of ended sessions included.
    pub(super) all: Vec<Session>,
    free: Vec<u32>,
    lost: Lost,
    on_failure: OnFailure,
    retries: u32,
    /// Measured requests that may still start.
    pub(super) requests: Option<u64>,
    /// Sessions with this number or a larger one do not start: the tables have no rows for them.
    first_without_row: u64,
    /// A session did not start for this reason.
    out_of_rows: bool,
    /// The end of the load has stopped a session.
    pub(super) cut: bool,
    /// False until the first tick. A share without arrivals must get one tick to finish.
    begun: bool,
    pick: Pick,
    seed: u64,
    deal: Deal,
}

/// When sessions start.
#[derive(Debug)]
pub(super) enum Arrivals {
    /// A fixed number of users, each with one session after another.
    Closed(SessionUsers),
    /// By the plan's schedule.
    Open {
        schedule: Box<Schedule>,
        /// No more arrivals.
        cancelled: bool,
        /// Ended by time, or by the user.
        cut: bool,
        /// A number of sessions may end the load.
        by_count: bool,
    },
}

/// The users of a closed loop of sessions.
#[derive(Debug)]
pub(super) struct SessionUsers {
    pub(super) users: u32,
    pub(super) think: Think,
    /// Measured sessions that may still start.
    pub(super) quota: Option<u64>,
    /// Sessions started by this share, warm-up included.
    begun: u64,
    /// Users who may start another session.
    pub(super) alive: u64,
    /// Users who have not started yet.
    pub(super) not_started: u32,
    /// Consecutive sessions whose connections failed, per user.
    pub(super) failures: Vec<u8>,
    /// If users start one after the other: those who have not started.
    ramp: Option<Box<Ramp>>,
}

impl SessionUsers {
    /// How many measured sessions users who have already started may still start: one is reserved
    /// for each user who has not started. `None`: no limit.
    pub(super) fn left(&self) -> Option<u64> {
        self.quota.map(|n| n.saturating_sub(u64::from(self.not_started)))
    }

    /// Nobody starts another session.
    fn end(&mut self) {
        (self.alive, self.not_started, self.ramp) = (0, 0, None);
    }

    /// A user starts no other session, because the load is over. So do those who have not started.
    pub(super) fn retire_one(&mut self) {
        self.alive -= 1;
        if let Some(ramp) = &mut self.ramp {
            self.alive = self.alive.saturating_sub(ramp.end());
        }
    }

    /// The next user of a ramp starts: returns the user, and when the one after does.
    pub(super) fn next_of_ramp(&mut self) -> Option<(u32, Option<Nanos>)> {
        let ramp = self.ramp.as_deref_mut()?;
        Some((ramp.take()?, ramp.next_start()))
    }
}

/// One session, or a free slot.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) live: bool,
    /// Its number in the whole run.
    pub(super) number: u64,
    /// The index of its kind in the plan.
    pub(super) kind: u32,
    /// The user of the closed loop who runs the session.
    pub(super) user: u32,
    /// Its intended start.
    pub(super) began: Nanos,
    /// The current burst, and the one after the last.
    pub(super) burst: u32,
    pub(super) end: u32,
    /// How many repetitions of this burst it has made.
    pub(super) round: u32,
    /// How many bursts it has made, with repetitions.
    pub(super) made: u64,
    /// How many requests of this burst have started.
    pub(super) next: u32,
    /// Requests it has started.
    pub(super) started: u32,
    /// Requests that have started and not ended.
    pub(super) open: u32,
    /// A request has failed.
    pub(super) failed: bool,
    /// A connection could not be opened.
    pub(super) refused: bool,
    /// The end of the load has stopped it.
    pub(super) cut: bool,
    /// When its pause ends; `Nanos::MAX` if it does not pause.
    pub(super) wake: Nanos,
    /// Replies on connections that are closed.
    pub(super) replies: u64,
    /// Connections that it has opened.
    pub(super) connected: u64,
}

/// What sessions do: the bursts of all kinds of sessions, one kind after the other.
#[derive(Debug)]
pub(super) struct Steps {
    kinds: Vec<Range<u32>>,
    /// Cumulative weights of the kinds.
    weights: Vec<u64>,
    pub(super) bursts: Vec<Burst>,
    pub(super) calls: Vec<u32>,
}

/// One burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Index of its first call.
    pub(super) first: u32,
    pub(super) len: u32,
    pub(super) lead: bool,
    pub(super) think: Think,
    pub(super) repeat: u32,
}

impl Steps {
    fn new(wanted: &plan::Sessions) -> Self {
        let mut steps =
            Self { kinds: Vec::new(), weights: Vec::new(), bursts: Vec::new(), calls: Vec::new() };
        let mut weight = 0;
        for kind in &wanted.kinds {
            let begin = steps.bursts.len() as u32;
            for burst in &kind.bursts {
                let first = steps.calls.len() as u32;
                steps.calls.extend_from_slice(&burst.calls);
                let len = burst.calls.len() as u32;
                let &plan::Burst { lead, think, repeat, .. } = burst;
                steps.bursts.push(Burst { first, len, lead, think, repeat });
            }
            steps.kinds.push(begin..steps.bursts.len() as u32);
            weight += u64::from(kind.weight);
            steps.weights.push(weight);
        }
        steps
    }

    /// The number of the first burst of each kind, and that of all bursts.
    fn first_bursts(&self) -> Vec<u32> {
        let first = self.kinds.iter().map(|bursts| bursts.start);
        first.chain([self.bursts.len() as u32]).collect()
    }

    /// The kind of session `number`.
    fn kind(&self, pick: Pick, seed: u64, number: u64) -> usize {
        let n = self.kinds.len();
        match pick {
            _ if n == 1 => 0,
            Pick::InTurn => (number % n as u64) as usize,
            Pick::Random => {
                let total = u128::from(self.weights[n - 1]);
                let bits = rng::keyed(seed, Stream::Pick, number, 0);
                let drawn = ((u128::from(bits) * total) >> 64) as u64;
                self.weights.partition_point(|&sum| sum <= drawn)
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(plan: &Plan, wanted: &plan::Sessions) -> Self {
        let deal = plan.deal();
        let arrivals = match &plan.load {
            Load::Closed { connections, think } => {
                let users = plan.shard.share_of(u64::from(*connections)) as u32;
                let closed = SessionUsers {
                    users,
                    think: *think,
                    quota: plan.stop.sessions.map(|n| deal.count(n)),
                    begun: 0,
                    alive: u64::from(users),
                    not_started: 0,
                    failures: vec![0; users as usize],
                    ramp: Ramp::new(plan, users, 1).map(Box::new),
                };
                Arrivals::Closed(closed)
            }
            Load::Open { .. } => {
                let schedule = Box::new(Schedule::new(plan));
                let by_count = plan.stop.sessions.is_some();
                Arrivals::Open { schedule, cancelled: false, cut: false, by_count }
            }
        };
        let begun =
            matches!(&arrivals, Arrivals::Open { schedule, .. } if schedule.peek().is_some());
        let steps = Steps::new(wanted);
        Self {
            groups: Groups::new(plan, &steps.first_bursts()),
            steps,
            arrivals,
            all: Vec::new(),
            free: Vec::new(),
            lost: wanted.lost,
            on_failure: wanted.on_failure,
            retries: wanted.retries,
            requests: plan.stop.requests.map(|n| deal.count(n)),
            first_without_row: plan.data.sessions_max(),
            out_of_rows: false,
            cut: false,
            begun,
            pick: wanted.pick,
            seed: plan.seed,
            deal,
        }
    }

    /// When the load ends, if that is known.
    pub(super) fn load_end(&self, plan: &Plan) -> Option<Nanos> {
        match &self.arrivals {
            Arrivals::Closed(_) => plan.stop.duration.map(|d| Nanos::ZERO + plan.warmup + d),
            Arrivals::Open { schedule, .. } => schedule.end(),
        }
    }

    /// The number of users of a closed loop.
    pub(super) fn users(&self) -> Option<usize> {
        match &self.arrivals {
            Arrivals::Closed(closed) => Some(closed.users as usize),
            Arrivals::Open { .. } => None,
        }
    }

    /// The load starts. Returns when the first user of a ramp does; `None`: all start at once.
    pub(super) fn begin(&mut self, now: Nanos) -> Option<Nanos> {
        self.begun = true;
        let Arrivals::Closed(closed) = &mut self.arrivals else { return None };
        if let Some(ramp) = &mut closed.ramp {
            ramp.begin(now);
            return ramp.next_start();
        }
        closed.not_started = closed.users;
        None
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The next user of a ramp starts: returns the user, and when the one after does.
    pub(super) fn next_of_ramp(&mut self) -> Option<(u32, Option<Nanos>)> {
        let Arrivals::Closed(closed) = &mut self.arrivals else { return None };
        closed.next_of_ramp()
    }

    /// The next user of a closed loop to start.
    pub(super) fn next_to_start(&mut self) -> Option<u32> {
        let Arrivals::Closed(closed) = &mut self.arrivals else { return None };
        let user = closed.users - closed.not_started;
        closed.not_started = closed.not_started.checked_sub(1)?;
        Some(user)
    }

    /// What to do with the requests of a lost connection.
    pub(super) fn lost(&self) -> Lost {
        self.lost
    }

    /// How often a request is sent again when its reply is not as expected.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// A request of the session has failed.
    pub(super) fn request_failed(&mut self, slot: u32) {
        self.all[slot as usize].failed = true;
        if let Some(groups) = &mut self.groups {
            groups.request_failed(slot);
        }
    }

    /// A connection of the session has opened or failed to open.
    pub(super) fn connected(&mut self, slot: u32, opened: bool) {
        let session = &mut self.all[slot as usize];
        session.connected += u64::from(opened);
        session.refused |= !opened;
    }

    /// A connection of the session is closed, after `replies` replies.
    pub(super) fn replied(&mut self, slot: u32, replies: u64) {
        self.all[slot as usize].replies += replies;
    }

    /// Whether the session still runs.
    pub(super) fn is_live(&self, slot: u32) -> bool {
        self.all[slot as usize].live
    }

    /// Users who have not started.
    pub(super) fn not_started(&self) -> u32 {
        match &self.arrivals {
            Arrivals::Closed(closed) => closed.not_started,
            Arrivals::Open { .. } => 0,
        }
    }

    /// Start no session that is intended for `at` or later.
    pub(super) fn end(&mut self, at: Nanos) {
        match &mut self.arrivals {
            Arrivals::Closed(closed) => closed.end(),
            Arrivals::Open { schedule, cut, .. } => {
                *cut = true;
                schedule.cut(at);
            }
        }
    }

    /// Start no more sessions.
    pub(super) fn retire(&mut self) {
        match &mut self.arrivals {
            Arrivals::Closed(closed) => closed.end(),
            Arrivals::Open { cancelled, .. } => *cancelled = true,
        }
    }

    /// Whether the tables have a row for this session. If not, the load ends.
    pub(super) fn has_row(&mut self, number: u64) -> bool {
        self.out_of_rows |= number >= self.first_without_row;
        !self.out_of_rows
    }

    /// Whether no session runs and none will start.
    pub(super) fn is_done(&self) -> bool {
        self.begun && self.live() == 0 && self.are_all_begun()
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        let counted = match &self.arrivals {
            Arrivals::Closed(closed) => closed.quota == Some(0),
            Arrivals::Open { schedule, cancelled, cut, by_count } => {
                *by_count && !cancelled && !cut && schedule.is_over()
            }
        };
        !self.cut && (counted || self.requests == Some(0) || self.out_of_rows)
    }

    pub(super) fn are_all_begun(&self) -> bool {
        if self.requests == Some(0) {
            return true;
        }
        match &self.arrivals {
            Arrivals::Closed(closed) => closed.alive == 0,
            Arrivals::Open { schedule, cancelled, .. } => *cancelled || schedule.is_over(),
        }
    }

    /// The number of running sessions.
    fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Prepare for changes of the arrival rate.
    pub(super) fn expect_rate_changes(&mut self) {
        if let Arrivals::Open { schedule, .. } = &mut self.arrivals {
            schedule.expect_rate_changes();
        }
    }

    /// Change the arrival rate of sessions.
    pub(super) fn change_rate(&mut self, change: RateChange) {
        if let Arrivals::Open { schedule, .. } = &mut self.arrivals {
            schedule.change_rate(change);
        }
    }

    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        match &self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.peek().map(|a| a.at),
            _ => None,
        }
    }

    /// How many sessions that have not started are due before `limit`.
    pub(super) fn due_before(&self, limit: Nanos) -> u64 {
        match &self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.due_before(limit),
            _ => 0,
        }
    }

    /// Skip the sessions that are due before `limit`.
    pub(super) fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        match &mut self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.skip_before(limit),
            _ => None,
        }
    }

    /// The number and intended start of the next session, if one is due.
    pub(super) fn arrival(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        self.next_arrival().filter(|&at| at <= now)?;
        let Arrivals::Open { schedule, .. } = &mut self.arrivals else { return None };
        schedule.pop().map(|a| (a.index, a.at))
    }

    /// The number of a user's next session, which then counts as started.
    pub(super) fn next_number(&mut self) -> u64 {
        let Arrivals::Closed(closed) = &mut self.arrivals else { return 0 };
        closed.begun += 1;
        self.deal.nth(closed.begun - 1)
    }

    /// A session starts; returns its slot.
    pub(super) fn enter(&mut self, number: u64, user: u32, began: Nanos) -> u32 {
        let kind = self.steps.kind(self.pick, self.seed, number);
        let bursts = self.steps.kinds[kind].clone();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.all.push(Session::vacant());
            self.all.len() as u32 - 1
        });
        let place = &mut self.all[slot as usize];
        debug_assert!(!place.live);
        *place = Session {
            live: true,
            number,
            kind: kind as u32,
            user,
            began,
            burst: bursts.start,
            end: bursts.end,
            ..Session::vacant()
        };
        slot
    }

    /// A session has ended: its slot is free.
    pub(super) fn leave(&mut self, slot: u32) {
        self.all[slot as usize].live = false;
        self.free.push(slot);
    }

    /// Whether the session stops because a request has failed.
    #[inline]
    pub(super) fn gives_up(&self, slot: u32) -> bool {
        self.all[slot as usize].failed && self.on_failure == OnFailure::End
    }

    /// The pause after the burst that the session has just finished.
    pub(super) fn pause(&self, slot: u32) -> Span {
        let session = &self.all[slot as usize];
        match self.steps.bursts[session.burst as usize].think {
            Think::None => Span::ZERO,
            think => {
                let bits = rng::keyed(self.seed, Stream::Pause, session.number, session.made);
                think.draw(bits)
            }
        }
    }

    /// Random bits for the wait before the session makes its last request again.
    pub(super) fn retry_bits(&self, slot: u32) -> u64 {
        let session = &self.all[slot as usize];
        rng::keyed(self.seed, Stream::Retry, session.number, session.started.into())
    }

    /// The pause of a user after a session.
    pub(super) fn rest(&self, number: u64) -> Span {
        match &self.arrivals {
            Arrivals::Closed(SessionUsers { think, .. }) if *think != Think::None => {
                think.draw(rng::keyed(self.seed, Stream::Think, number, 0))
            }
            _ => Span::ZERO,
        }
    }

    /// The slots of all running sessions.
    pub(super) fn places(&self) -> Vec<u32> {
        (0..self.all.len() as u32).filter(|&slot| self.all[slot as usize].live).collect()
    }
}

impl Session {
    fn vacant() -> Self {
        Self {
            live: false,
            number: 0,
            kind: 0,
            user: 0,
            began: Nanos::ZERO,
            burst: 0,
            end: 0,
            round: 0,
            made: 0,
            next: 0,
            started: 0,
            open: 0,
            failed: false,
            refused: false,
            cut: false,
            wake: Nanos::MAX,
            replies: 0,
            connected: 0,
        }
    }
}
