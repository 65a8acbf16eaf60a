//! When requests are intended to start: a pure function of plan, seed and shard, never of the
//! replies.

mod law;
mod skip;
mod steer;

use crate::plan::{Load, Plan};
pub use crate::rate::{Arrivals, ArrivalsArg, RatePiece, RatePlan, Steer, parse_trace};
use crate::units::{Nanos, Span};
use law::Law;
pub use skip::Skipped;
use steer::Helm;

/// One intended start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the whole run, over all shards, warm-up included, from 0.
    pub index: u64,
    /// The intended start, since the epoch.
    pub at: Nanos,
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
}

/// The arrivals of one share of an open-loop plan, in order, ending where the plan's stop rules end
/// them.
///
/// The warm-up precedes the plan, at the rate with which the plan begins (uniform gaps: with the
/// same gaps; a trace: with nothing). The plan then begins afresh, so what is measured is the same
/// as without a warm-up, only later.
///
/// A share finds its own arrivals by arithmetic where the law has a formula (fixed, trace); where
/// it has draws (Poisson, uniform) it makes them all and passes over those of the others, at about
/// two nanoseconds each (docs/design/2026-11-23-arrivals-of-shards.md).
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Computed beforehand, so that `peek` costs nothing.
    next: Option<Arrival>,
    /// The number, over all shares, of the arrival that the current law gives next.
    index: u64,
    /// Which share this is, and of how many.
    share: (u64, u64),
    warmup: Law,
    measured: Law,
    /// The first arrival after the warm-up; `None` while the warm-up lasts.
    first_measured: Option<u64>,
    /// Where the warm-up ends and the plan begins.
    begin: Nanos,
    /// Measured arrivals over all shares, at most.
    count: u64,
    /// Every arrival is earlier.
    before: Nanos,
    /// What [`Schedule::end`] tells.
    end: Option<Nanos>,
    /// What changes the rate on the way.
    helm: Box<Helm>,
}

impl Schedule {
    /// The schedule of this share of the plan; a closed-loop plan has an empty one.
    pub fn new(plan: &Plan) -> Self {
        let begin = Nanos::ZERO + plan.warmup;
        let length = match &plan.load {
            Load::Open { rate, arrivals: Arrivals::Fixed | Arrivals::Poisson, .. } => rate.length(),
            _ => None,
        };
        let limit = match (length, plan.stop.duration) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // A trace that is over before the limit ends the load by its last arrival, as a count of
        // requests would.
        let ends_before = |limit| match &plan.load {
            Load::Open { arrivals: Arrivals::Trace(times), .. } => {
                times.last().is_none_or(|&last| last < limit)
            }
            _ => false,
        };
        let (warmup, measured) = match &plan.load {
            Load::Closed { .. } => (Law::Silent, Law::Silent),
            Load::Open { rate, arrivals, .. } => Law::of(rate, arrivals, plan.seed),
        };
        // What arrives is a session, where there are any.
        let count = match plan.sessions {
            None => plan.stop.requests,
            Some(_) => plan.stop.sessions,
        };
        let mut schedule = Self {
            next: None,
            index: 0,
            share: (u64::from(plan.shard.index), u64::from(plan.shard.of)),
            warmup,
            measured,
            first_measured: None,
            begin,
            count: count.unwrap_or(u64::MAX),
            before: limit.map_or(Nanos::MAX, |limit| begin + limit),
            end: limit.filter(|&limit| !ends_before(limit)).map(|limit| begin + limit),
            helm: Box::new(Helm::new(&plan.load)),
        };
        schedule.next = schedule.advance();
        schedule
    }

    /// The next arrival, if any is left.
    #[inline]
    pub fn peek(&self) -> Option<Arrival> {
        self.next
    }

    /// Take the next arrival.
    #[inline]
    pub fn pop(&mut self) -> Option<Arrival> {
        let taken = self.next?;
        self.next = self.advance();
        Some(taken)
    }

    /// When the load ends by the clock (the duration or the rate plan's own end, warm-up included);
    /// `None` where only a request count or a trace's last arrival ends it. A request count may end
    /// it earlier.
    pub fn end(&self) -> Option<Nanos> {
        self.end
    }

    fn advance(&mut self) -> Option<Arrival> {
        let (share, of) = self.share;
        if self.first_measured.is_none() {
            while let Some(at) = self.warmup.next(0)
                && Nanos::ZERO + at < self.begin
            {
                let index = self.index;
                self.index += 1;
                if index % of == share {
                    return Some(Arrival { index, at: Nanos::ZERO + at, warmup: true });
                }
            }
        }
        let (first_measured, others) = match self.first_measured {
            // `index` is the one behind the share's last.
            Some(first) => (first, of - 1),
            None => (self.index, (share + of - self.index % of) % of),
        };
        self.first_measured = Some(first_measured);
        let index = self.index + others;
        if index - first_measured >= self.count {
            self.helm.counted_out = true;
            return None;
        }
        self.index = index + 1;
        let at = self.measured.next(others)?;
        self.at(index, at)
    }

    /// A measured arrival, unless the schedule ends before it.
    #[inline]
    fn at(&self, index: u64, at: Span) -> Option<Arrival> {
        let at = self.begin + at;
        (at < self.before).then_some(Arrival { index, at, warmup: false })
    }
}

#[cfg(test)]
mod tests;
