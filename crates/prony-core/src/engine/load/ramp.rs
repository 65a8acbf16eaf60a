//! Users of a closed loop who start one after the other.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::Plan;

/// When the users of a share start.
#[derive(Debug)]
pub(super) struct Ramp {
    /// For each user in the order of their starts: the start, after that of the load.
    starts: Vec<Span>,
    begun: Nanos,
    next: usize,
}

impl Ramp {
    /// The ramp of a share with this number of groups, each of `depth` users; `None`: all start at
    /// once.
    pub(super) fn new(plan: &Plan, groups: u32, depth: u32) -> Option<Self> {
        plan.ramp_up?;
        let (of, index) = (u64::from(plan.shard.of), u64::from(plan.shard.index));
        let all = plan.users_of_ramp() / u64::from(depth).max(1);
        // The first users of all groups come first, then the second ones, as without a ramp.
        let number = |user: u64| {
            let (round, group) = (user / u64::from(groups), user % u64::from(groups));
            round * all + group * of + index
        };
        let users = u64::from(groups) * u64::from(depth);
        let starts = (0..users).map(|user| plan.start_of_user(number(user))).collect();
        Some(Self { starts, begun: Nanos::ZERO, next: 0 })
    }

    /// The load starts.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.begun = now;
    }

    /// When the next user starts, if there is one.
    pub(super) fn next_start(&self) -> Option<Nanos> {
        self.starts.get(self.next).map(|&start| self.begun + start)
    }

    /// The next user starts, the how-manyeth is returned. `None`: nobody else starts.
    pub(super) fn take(&mut self) -> Option<u32> {
        let user = self.next;
        (user < self.starts.len()).then(|| {
            self.next += 1;
            user as u32
        })
    }

    /// Nobody else starts. Returns how many would have.
    pub(super) fn end(&mut self) -> u64 {
        let left = self.starts.len() - self.next;
        self.next = self.starts.len();
        left as u64
    }
}
