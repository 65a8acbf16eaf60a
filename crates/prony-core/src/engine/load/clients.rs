//! Independent clients: groups of users of a closed loop, each with requests, a schedule and an end
//! of its own.

use prony_base::units::{Nanos, Span};
use prony_plan::plan::{Pace, Plan, Shard};
use prony_tally::record::ClientTally;

/// The clients of a share.
#[derive(Debug)]
pub(super) struct Clients {
    spec: prony_plan::plan::Clients,
    shard: Shard,
    each: Vec<Client>,
    /// The measurement.
    from: Nanos,
    until: Nanos,
}

/// A group of users.
#[derive(Clone, Copy, Debug)]
struct Client {
    start: Nanos,
    /// Measured requests that it may still start.
    left: u64,
    /// Requests that it has started.
    started: u64,
    /// How many times of its schedule are taken by users.
    taken: u64,
    /// Requests that ended within the measurement, and those among them that failed.
    ended: u64,
    failed: u64,
    tally: ClientTally,
}

impl Clients {
    /// The clients of a share with `groups` groups and `quota` requests.
    pub(super) fn new(plan: &Plan, groups: u32, quota: Option<u64>) -> Option<Self> {
        let spec = plan.clients.as_deref()?.clone();
        let groups = u64::from(groups);
        let part = |group| match quota {
            Some(quota) => quota / groups + u64::from(quota % groups > group),
            None => u64::MAX,
        };
        let client = |group| Client {
            start: Nanos::ZERO,
            left: part(group),
            started: 0,
            taken: 0,
            ended: 0,
            failed: 0,
            tally: ClientTally::default(),
        };
        let from = Nanos::ZERO + plan.warmup;
        Some(Self {
            spec,
            shard: plan.shard,
            each: (0..groups).map(client).collect(),
            from,
            until: plan.stop.duration.map_or(Nanos::MAX, |d| from + d),
        })
    }

    /// Whether anything happens at times of its own.
    pub(super) fn is_timed(&self) -> bool {
        self.is_paced() || self.spec.starts.is_some() || self.spec.lifetime.is_some()
    }

    /// Whether requests wait for their time.
    pub(super) fn is_paced(&self) -> bool {
        self.spec.pace != Pace::Free
    }

    /// The client starts, if all started at `now`. Returns its start, and when it gives up.
    pub(super) fn begin(&mut self, group: u32, now: Nanos) -> (Nanos, Option<Nanos>) {
        let number = group * self.shard.of + self.shard.index;
        let wait = self.spec.starts.map_or(Span::ZERO, |(n, period)| period * (number / n).into());
        let start = now + wait;
        self.each[group as usize].start = start;
        (start, self.spec.lifetime.map(|lifetime| start + lifetime))
    }

    /// A user of a client with a schedule is free: the time of the next request, which no other
    /// user takes. `None`: no request is left for this user.
    pub(super) fn take_time(&mut self, group: u32) -> Option<Nanos> {
        let client = &mut self.each[group as usize];
        if client.taken >= client.started.saturating_add(client.left) {
            return None;
        }
        let due = self.spec.pace.due(client.taken)?;
        client.taken += 1;
        Some(client.start + due)
    }

    /// Start up to `n` requests. Returns the client's number of the first one, and how many start.
    #[inline]
    pub(super) fn start(&mut self, group: u32, n: usize, measured: bool) -> (u64, usize) {
        let client = &mut self.each[group as usize];
        let n = usize::try_from(client.left).map_or(n, |left| left.min(n));
        if measured && client.left < u64::MAX {
            client.left -= n as u64;
        }
        let number = client.started;
        client.started += n as u64;
        (number, n)
    }

    /// `n` requests have ended.
    #[inline]
    pub(super) fn ended(&mut self, group: u32, n: usize, now: Nanos) {
        let client = &mut self.each[group as usize];
        if now >= self.from && now <= self.until {
            client.ended += n as u64;
        }
        client.tally.last = now;
    }

    /// A request has failed, and is about to end. Returns how many requests the client therefore
    /// does not start.
    pub(super) fn failed(&mut self, group: u32, timed_out: bool, now: Nanos) -> u64 {
        if now >= self.from && now <= self.until {
            self.each[group as usize].failed += 1;
        }
        if timed_out && self.spec.ends_on_timeout { self.give_up(group, true) } else { 0 }
    }

    /// The client starts no more requests. Returns how many it had left.
    pub(super) fn give_up(&mut self, group: u32, timed_out: bool) -> u64 {
        let client = &mut self.each[group as usize];
        let left = std::mem::take(&mut client.left);
        client.tally.gave_up.get_or_insert(timed_out);
        if left < u64::MAX {
            client.tally.abandoned += left;
            return left;
        }
        0
    }

    pub(super) fn has_given_up(&self, group: u32) -> bool {
        self.each[group as usize].tally.gave_up.is_some()
    }

    /// Its connection, with a connect that started at `began`, can carry requests.
    pub(super) fn ready(&mut self, group: u32, began: Nanos, now: Nanos) {
        let tally = &mut self.each[group as usize].tally;
        if tally.ready.is_none() {
            (tally.began, tally.ready) = (Some(began), Some(now));
        }
    }

    /// Bytes have arrived.
    pub(super) fn heard(&mut self, group: u32, now: Nanos) {
        self.each[group as usize].tally.first_byte.get_or_insert(now);
    }

    /// What they have done.
    pub(super) fn tallies(&self) -> impl Iterator<Item = ClientTally> + '_ {
        self.each
            .iter()
            .map(|client| ClientTally { replies: client.ended - client.failed, ..client.tally })
    }
}
