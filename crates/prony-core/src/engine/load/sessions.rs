//! Sessions under way: who is how far in which steps. How they go on is in `session_run.rs`.

use std::ops::Range;

use crate::plan::{self, Load, Lost, OnFailure, Pick, Plan, Shard, Think};
use crate::rate::Steer;
use crate::rng::{self, Stream};
use crate::schedule::{Schedule, Skipped};
use crate::units::{Nanos, Span};

/// All sessions of a share. Their number at a time bounds the memory: a place is used again by the
/// next session.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) steps: Steps,
    pub(super) arrivals: Arrivals,
    /// The places, those of ended sessions included.
    pub(super) all: Vec<Session>,
    free: Vec<u32>,
    lost: Lost,
    on_failure: OnFailure,
    retries: u32,
    /// Measured requests that may still start.
    pub(super) requests: Option<u64>,
    /// The end of the load's time has kept a session from going on.
    pub(super) cut: bool,
    /// False until the first turn where there is no arrival: it must get one turn to be over.
    begun: bool,
    pick: Pick,
    seed: u64,
    shard: Shard,
}

/// When sessions begin.
#[derive(Debug)]
pub(super) enum Arrivals {
    /// So many users, each with one session after another.
    Closed(Guests),
    /// As the plan's schedule says.
    Open {
        schedule: Box<Schedule>,
        /// Nothing more may arrive.
        cancelled: bool,
        /// Time, or the user, has ended the arrivals.
        cut: bool,
        /// A number of sessions may end the load.
        by_count: bool,
    },
}

/// The users of a closed loop of sessions.
#[derive(Debug)]
pub(super) struct Guests {
    pub(super) users: u32,
    pub(super) think: Think,
    /// Measured sessions that may still start.
    pub(super) quota: Option<u64>,
    /// Sessions begun by this share, warm-up included.
    begun: u64,
    /// Users who may want a session again.
    pub(super) alive: u64,
    /// Users who have not begun: the meter has yet to come to them.
    pub(super) to_begin: u32,
    /// Sessions in a row whose connections failed, per user.
    pub(super) failures: Vec<u8>,
}

impl Guests {
    /// How many measured sessions those who have begun may still start: one is kept for each user
    /// who has not. `None`: any number.
    pub(super) fn left(&self) -> Option<u64> {
        self.quota.map(|n| n.saturating_sub(u64::from(self.to_begin)))
    }
}

/// One session, or the place for one.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) live: bool,
    /// Its number in the whole run.
    pub(super) number: u64,
    /// The closed-loop user whose session it is.
    pub(super) user: u32,
    /// Its intended start.
    pub(super) began: Nanos,
    /// The burst that it is at, and the one where it ends.
    pub(super) burst: u32,
    pub(super) end: u32,
    /// How often it has made this burst.
    pub(super) round: u32,
    /// How many bursts it has made.
    pub(super) made: u64,
    /// How many requests of this burst have started.
    pub(super) next: u32,
    /// Requests started so far.
    pub(super) started: u32,
    /// Requests started and not ended.
    pub(super) open: u32,
    /// A request has failed.
    pub(super) failed: bool,
    /// A connection could not be opened.
    pub(super) refused: bool,
    /// The end of the run keeps it from going on.
    pub(super) cut: bool,
    /// When it has thought enough; `Nanos::MAX`: it does not think.
    pub(super) wake: Nanos,
    /// Replies on connections that are gone.
    pub(super) replies: u64,
    /// Connections that opened.
    pub(super) connected: u64,
}

/// What the sessions do: all kinds' bursts behind each other.
#[derive(Debug)]
pub(super) struct Steps {
    kinds: Vec<Range<u32>>,
    /// Sums of the kinds' weights.
    weights: Vec<u64>,
    pub(super) bursts: Vec<Burst>,
    pub(super) calls: Vec<u32>,
}

/// One burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Where its calls begin.
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

    /// The bursts of the session of that number.
    fn kind(&self, pick: Pick, seed: u64, number: u64) -> Range<u32> {
        let n = self.kinds.len();
        let kind = match pick {
            _ if n == 1 => 0,
            Pick::InTurn => (number % n as u64) as usize,
            Pick::Random => {
                let total = u128::from(self.weights[n - 1]);
                let bits = rng::keyed(seed, Stream::Pick, number, 0);
                let drawn = ((u128::from(bits) * total) >> 64) as u64;
                self.weights.partition_point(|&sum| sum <= drawn)
            }
        };
        self.kinds[kind].clone()
    }
}

impl Sessions {
    pub(super) fn new(plan: &Plan, wanted: &plan::Sessions) -> Self {
        let shard = plan.shard;
        let arrivals = match &plan.load {
            Load::Closed { connections, think } => {
                let users = shard.share_of(u64::from(*connections)) as u32;
                let guests = Guests {
                    users,
                    think: *think,
                    quota: plan.stop.sessions.map(|n| shard.share_of(n)),
                    begun: 0,
                    alive: u64::from(users),
                    to_begin: 0,
                    failures: vec![0; users as usize],
                };
                Arrivals::Closed(guests)
            }
            Load::Open { .. } => {
                let schedule = Box::new(Schedule::new(plan));
                let by_count = plan.stop.sessions.is_some();
                Arrivals::Open { schedule, cancelled: false, cut: false, by_count }
            }
        };
        let begun =
            matches!(&arrivals, Arrivals::Open { schedule, .. } if schedule.peek().is_some());
        Self {
            steps: Steps::new(wanted),
            arrivals,
            all: Vec::new(),
            free: Vec::new(),
            lost: wanted.lost,
            on_failure: wanted.on_failure,
            retries: wanted.retries,
            requests: plan.stop.requests.map(|n| shard.share_of(n)),
            cut: false,
            begun,
            pick: wanted.pick,
            seed: plan.seed,
            shard,
        }
    }

    /// When the load ends, where that is known.
    pub(super) fn load_end(&self, plan: &Plan) -> Option<Nanos> {
        match &self.arrivals {
            Arrivals::Closed(_) => plan.stop.duration.map(|d| Nanos::ZERO + plan.warmup + d),
            Arrivals::Open { schedule, .. } => schedule.end(),
        }
    }

    /// The users of a closed loop.
    pub(super) fn users(&self) -> Option<usize> {
        match &self.arrivals {
            Arrivals::Closed(guests) => Some(guests.users as usize),
            Arrivals::Open { .. } => None,
        }
    }

    /// The load begins.
    pub(super) fn begin(&mut self) {
        self.begun = true;
        if let Arrivals::Closed(guests) = &mut self.arrivals {
            guests.to_begin = guests.users;
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The next user of a closed loop who begins.
    pub(super) fn next_to_begin(&mut self) -> Option<u32> {
        let Arrivals::Closed(guests) = &mut self.arrivals else { return None };
        let user = guests.users - guests.to_begin;
        guests.to_begin = guests.to_begin.checked_sub(1)?;
        Some(user)
    }

    /// What becomes of the requests of a lost connection.
    pub(super) fn lost(&self) -> Lost {
        self.lost
    }

    /// How often a request is sent again whose reply is not as expected.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// A request of the session has failed.
    pub(super) fn missed(&mut self, slot: u32) {
        self.all[slot as usize].failed = true;
    }

    /// A connection of the session has opened, or failed to.
    pub(super) fn connected(&mut self, slot: u32, opened: bool) {
        let session = &mut self.all[slot as usize];
        session.connected += u64::from(opened);
        session.refused |= !opened;
    }

    /// A connection of the session is gone that brought `replies`.
    pub(super) fn replied(&mut self, slot: u32, replies: u64) {
        self.all[slot as usize].replies += replies;
    }

    /// Whether the session goes on.
    pub(super) fn is_live(&self, slot: u32) -> bool {
        self.all[slot as usize].live
    }

    /// Users who have not begun.
    pub(super) fn to_begin(&self) -> u32 {
        match &self.arrivals {
            Arrivals::Closed(guests) => guests.to_begin,
            Arrivals::Open { .. } => 0,
        }
    }

    /// No further session begins that is wanted from `at` on.
    pub(super) fn end(&mut self, at: Nanos) {
        match &mut self.arrivals {
            Arrivals::Closed(guests) => (guests.alive, guests.to_begin) = (0, 0),
            Arrivals::Open { schedule, cut, .. } => {
                *cut = true;
                schedule.cut(at);
            }
        }
    }

    /// No further session begins.
    pub(super) fn retire(&mut self) {
        match &mut self.arrivals {
            Arrivals::Closed(guests) => (guests.alive, guests.to_begin) = (0, 0),
            Arrivals::Open { cancelled, .. } => *cancelled = true,
        }
    }

    /// Whether no session is under way and none will begin.
    pub(super) fn is_done(&self) -> bool {
        self.begun && self.live() == 0 && self.are_all_begun()
    }

    /// Whether a count, and not the time, has ended the load.
    pub(super) fn ended_by_count(&self) -> bool {
        let counted = match &self.arrivals {
            Arrivals::Closed(guests) => guests.quota == Some(0),
            Arrivals::Open { schedule, cancelled, cut, by_count } => {
                *by_count && !cancelled && !cut && schedule.is_over()
            }
        };
        !self.cut && (counted || self.requests == Some(0))
    }

    pub(super) fn are_all_begun(&self) -> bool {
        if self.requests == Some(0) {
            return true;
        }
        match &self.arrivals {
            Arrivals::Closed(guests) => guests.alive == 0,
            Arrivals::Open { schedule, cancelled, .. } => *cancelled || schedule.is_over(),
        }
    }

    /// Sessions under way.
    fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Sessions may come to arrive at another rate.
    pub(super) fn expect_steers(&mut self) {
        if let Arrivals::Open { schedule, .. } = &mut self.arrivals {
            schedule.expect_steers();
        }
    }

    /// Sessions arrive at another rate.
    pub(super) fn steer(&mut self, steer: Steer) {
        if let Arrivals::Open { schedule, .. } = &mut self.arrivals {
            schedule.steer(steer);
        }
    }

    #[inline]
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        match &self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.peek().map(|a| a.at),
            _ => None,
        }
    }

    /// How many sessions are due before that moment, of those that have not begun.
    pub(super) fn due_before(&self, limit: Nanos) -> u64 {
        match &self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.due_before(limit),
            _ => 0,
        }
    }

    /// Pass over the sessions that are due before that moment.
    pub(super) fn skip_before(&mut self, limit: Nanos) -> Option<Skipped> {
        match &mut self.arrivals {
            Arrivals::Open { schedule, cancelled: false, .. } => schedule.skip_before(limit),
            _ => None,
        }
    }

    /// The next session's number, where one is due.
    pub(super) fn arrival(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        self.next_arrival().filter(|&at| at <= now)?;
        let Arrivals::Open { schedule, .. } = &mut self.arrivals else { return None };
        schedule.pop().map(|a| (a.index, a.at))
    }

    /// The number of a user's next session; counted as begun.
    pub(super) fn next_number(&mut self) -> u64 {
        let Arrivals::Closed(guests) = &mut self.arrivals else { return 0 };
        guests.begun += 1;
        (guests.begun - 1) * u64::from(self.shard.of) + u64::from(self.shard.index)
    }

    /// A session begins; returns its place.
    pub(super) fn enter(&mut self, number: u64, user: u32, began: Nanos) -> u32 {
        let bursts = self.steps.kind(self.pick, self.seed, number);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.all.push(Session::vacant());
            self.all.len() as u32 - 1
        });
        let place = &mut self.all[slot as usize];
        debug_assert!(!place.live);
        *place = Session {
            live: true,
            number,
            user,
            began,
            burst: bursts.start,
            end: bursts.end,
            ..Session::vacant()
        };
        slot
    }

    /// A session has ended: its place is free.
    pub(super) fn leave(&mut self, slot: u32) {
        self.all[slot as usize].live = false;
        self.free.push(slot);
    }

    /// Whether the session wants nothing more because a request has failed.
    #[inline]
    pub(super) fn gives_up(&self, slot: u32) -> bool {
        self.all[slot as usize].failed && self.on_failure == OnFailure::End
    }

    /// The pause after the burst that the session has just made.
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

    /// The pause of a user after a session.
    pub(super) fn rest(&self, number: u64) -> Span {
        match &self.arrivals {
            Arrivals::Closed(Guests { think, .. }) if *think != Think::None => {
                think.draw(rng::keyed(self.seed, Stream::Think, number, 0))
            }
            _ => Span::ZERO,
        }
    }

    /// The places of all sessions under way.
    pub(super) fn places(&self) -> Vec<u32> {
        (0..self.all.len() as u32).filter(|&slot| self.all[slot as usize].live).collect()
    }
}

impl Session {
    fn vacant() -> Self {
        Self {
            live: false,
            number: 0,
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
