//! The intended start times of requests: a pure function of plan, seed and share, independent of
//! the replies.

mod process;
mod rate_control;
mod skip;

use crate::plan::{Deal, Load, Plan};
pub use crate::rate::{Arrivals, ArrivalsArg, RateChange, RatePiece, RatePlan, parse_trace};
pub(crate) use process::ArrivalProcess;
use prony_base::units::{Nanos, Span};
use rate_control::RateControl;
pub use skip::Skipped;

/// One intended start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the whole run, counted from 0 over all shares, warm-up included.
    pub index: u64,
    /// The intended start, since the epoch.
    pub at: Nanos,
    /// Whether it is part of the warm-up.
    pub warmup: bool,
}

/// The arrivals of one share of an open-loop plan, in order, until a stop rule of the plan applies.
///
/// The warm-up runs before the plan, at the plan's initial rate (uniform inter-arrival times keep
/// their distribution; a trace has no warm-up arrivals). The plan then starts from its own
/// beginning, so the measured arrivals are the same as without a warm-up, only later.
///
/// Deterministic processes (fixed, trace) compute a share's arrivals directly. Random processes
/// (Poisson, gamma, uniform) draw the arrivals of all shares and skip those of the others, so that
/// the shares are the same schedule for every number of them
/// (docs/design/2026-11-23-arrivals-of-shards.md).
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Computed in advance, so that `peek` is free.
    next: Option<Arrival>,
    /// The number, over all shares, of the next arrival of the current process.
    index: u64,
    /// Which of them are this share's.
    deal: Deal,
    /// The distance between them, if it is always the same.
    step: Option<u64>,
    warmup: ArrivalProcess,
    measured: ArrivalProcess,
    /// The first arrival after the warm-up; `None` while the warm-up lasts.
    first_measured: Option<u64>,
    /// The end of the warm-up, and start of the plan.
    start: Nanos,
    /// The maximum number of measured arrivals over all shares.
    count: u64,
    /// All arrivals are before this time.
    before: Nanos,
    /// See [`Schedule::end`].
    end: Option<Nanos>,
    /// Changes of the rate during the run.
    rate_control: Box<RateControl>,
}

impl Schedule {
    /// The schedule of this share of the plan. It is empty for a closed-loop plan.
    pub fn new(plan: &Plan) -> Self {
        let start = Nanos::ZERO + plan.warmup;
        let length = match &plan.load {
            Load::Open { rate, arrivals, .. } if arrivals.has_rate() => rate.length(),
            _ => None,
        };
        let limit = match (length, plan.stop.duration) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // A trace shorter than the limit ends the load with its last arrival, as a request count
        // does.
        let ends_before = |limit| match &plan.load {
            Load::Open { arrivals: Arrivals::Trace(times), .. } => {
                times.last().is_none_or(|&last| last < limit)
            }
            _ => false,
        };
        let (warmup, measured) = match &plan.load {
            Load::Closed { .. } => (ArrivalProcess::None, ArrivalProcess::None),
            Load::Open { rate, arrivals, .. } => ArrivalProcess::pair(rate, arrivals, plan.seed),
        };
        // With sessions, an arrival starts a session instead of a request.
        let count = match plan.sessions {
            None => plan.stop.requests,
            Some(_) => plan.stop.sessions,
        };
        let mut schedule = Self {
            next: None,
            index: 0,
            deal: plan.deal(),
            step: plan.deal().step(),
            warmup,
            measured,
            first_measured: None,
            start,
            count: count.unwrap_or(u64::MAX),
            before: limit.map_or(Nanos::MAX, |limit| start + limit),
            end: limit.filter(|&limit| !ends_before(limit)).map(|limit| start + limit),
            rate_control: Box::new(RateControl::new(&plan.load)),
        };
        schedule.next = schedule.advance();
        schedule
    }

    /// Return the next arrival without removing it.
    #[inline]
    pub fn peek(&self) -> Option<Arrival> {
        self.next
    }

    /// Remove and return the next arrival.
    #[inline]
    pub fn pop(&mut self) -> Option<Arrival> {
        let taken = self.next?;
        self.next = self.advance();
        Some(taken)
    }

    /// The time at which the load ends: the duration, or the end of the rate plan, plus the
    /// warm-up. `None` if only a request count or the last arrival of a trace ends it. A request
    /// count may end it earlier.
    pub fn end(&self) -> Option<Nanos> {
        self.end
    }

    fn advance(&mut self) -> Option<Arrival> {
        if self.first_measured.is_none() {
            while let Some(at) = self.warmup.next(0)
                && Nanos::ZERO + at < self.start
            {
                let index = self.index;
                self.index += 1;
                if self.deal.has(index) {
                    return Some(Arrival { index, at: Nanos::ZERO + at, warmup: true });
                }
            }
        }
        let (first_measured, index) = match (self.first_measured, self.step) {
            // `index` is one past this share's last arrival.
            (Some(first), Some(step)) => (first, self.index + step - 1),
            (first, _) => (first.unwrap_or(self.index), self.deal.next_from(self.index)),
        };
        self.first_measured = Some(first_measured);
        // A share without connections has no arrivals.
        if index - first_measured >= self.count || index == u64::MAX {
            self.rate_control.reached_count = true;
            return None;
        }
        let others = index - self.index;
        self.index = index + 1;
        let at = self.measured.next(others)?;
        self.at(index, at)
    }

    /// The measured arrival at that time, or `None` if the schedule ends before it.
    #[inline]
    fn at(&self, index: u64, at: Span) -> Option<Arrival> {
        let at = self.start + at;
        (at < self.before).then_some(Arrival { index, at, warmup: false })
    }
}

#[cfg(test)]
mod tests;
