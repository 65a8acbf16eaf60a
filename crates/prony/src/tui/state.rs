//! The content of the screen: the state of a running load, accumulated from snapshots. Independent
//! of terminals.

use std::collections::VecDeque;

use prony_base::merge::Merge;
use prony_base::units::{Nanos, Span};
use prony_hosts::view::HostView;
use prony_io::{Interval, Live};
use prony_plan::plan::Plan;
use prony_plan::schedule::{RateChange, RatePlan};
use prony_report::text;
use prony_tally::record::LagSoFar;

use super::rate_control::RateControl;

/// How long a notice is shown.
const NOTICE: Span = Span::from_secs(4);
/// The time window of current rates.
const WINDOW: Span = Span::from_secs(1);
/// The maximum number of intervals, more than the columns of the widest screen.
const HISTORY_MAX: usize = 600;

/// The content of the screen.
#[derive(Debug)]
pub(super) struct State {
    pub(super) plan: Plan,
    /// The target and the load, as text.
    pub(super) target: String,
    pub(super) load: String,
    /// The hosts, in a load on several.
    pub(super) hosts: Vec<HostView>,
    /// The latest snapshot.
    pub(super) live: Live,
    /// Snapshots of about the last second, oldest first.
    recent: VecDeque<Snapshot>,
    /// The intervals so far, oldest first, all with the same length.
    pub(super) history: VecDeque<Interval>,
    /// How the user stopped the run.
    pub(super) stopping: Option<Stopping>,
    /// What a stopped run waits for, as text.
    pub(super) ending: Option<String>,
    /// Whether the help is shown.
    pub(super) help: bool,
    /// The planned rate, if it can be changed; `plan` contains the changed rate.
    planned: Option<RatePlan>,
    pub(super) rate_control: RateControl,
    /// A message about a key, and how long to show it.
    notice: Option<(Nanos, &'static str)>,
}

/// How a stopped run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    /// After the requests in flight.
    Drain,
    /// At once.
    Now,
}

/// The counters at one time.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    at: Nanos,
    started: u64,
    replies: u64,
    failed: u64,
    lag: LagSoFar,
    /// The CPU time of each worker thread.
    work: Vec<Span>,
    /// The CPU time of the thread of the live view.
    own: Span,
}

/// The rates of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Started requests per second.
    pub(super) started: f64,
    /// Successful requests per second.
    pub(super) replies: f64,
    /// Failed requests per second.
    pub(super) failed: f64,
    /// The mean send lag; `None` if no request was sent.
    pub(super) lag: Option<Span>,
    /// The CPU use of the busiest worker, and of all workers: 1 is one core.
    pub(super) busiest: f64,
    pub(super) cpu: f64,
    /// The CPU use of the live view.
    pub(super) own: f64,
}

/// The remaining time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    /// An exact time.
    Time(Span),
    /// An estimate from the rate so far.
    About(Span),
    /// The run waits for the last replies.
    Drain,
    /// Unknown.
    Unknown,
}

impl State {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            target: text::target_of(plan),
            load: text::load(plan),
            plan: plan.clone(),
            hosts: Vec::new(),
            live: Live::default(),
            recent: VecDeque::new(),
            history: VecDeque::new(),
            stopping: None,
            ending: None,
            help: false,
            planned: plan.load.clone().adjustable_rate().cloned(),
            rate_control: RateControl::default(),
            notice: None,
        }
    }

    /// Adds a snapshot; `own` is the CPU time of the calling thread so far.
    pub(super) fn see(&mut self, live: &Live, own: Span) {
        let detail = live.detail.as_ref();
        self.recent.push_back(Snapshot {
            at: live.now,
            started: live.started,
            replies: live.replies,
            failed: live.failed,
            lag: detail.map(|d| d.lag).unwrap_or_default(),
            work: detail.map(|d| d.work.clone()).unwrap_or_default(),
            own,
        });
        // Keep one snapshot that is as old as the window.
        while self.recent.get(1).is_some_and(|g| g.at + WINDOW <= live.now) {
            self.recent.pop_front();
        }
        if let Some(last) = &live.last {
            self.remember(last);
        }
        self.live = live.clone();
    }

    /// Whether the keys can change the rate.
    pub(super) fn is_steerable(&self) -> bool {
        self.planned.is_some()
    }

    /// Processes a key. Returns whether it is one that changes the rate, which may show a message.
    pub(super) fn press(&mut self, key: u8) -> bool {
        let mut keys = self.rate_control.keys;
        if !keys.press(key) {
            return false;
        }
        let now = self.live.now;
        let why = if !self.is_steerable() {
            "p, + and - work only in an open loop whose arrivals have a rate"
        } else if now < Nanos::ZERO + self.plan.warmup {
            "p, + and - work only after the warm-up"
        } else if self.stopping.is_some() {
            "the run is stopping and starts no more requests"
        } else {
            self.rate_control.keys = keys;
            return true;
        };
        self.notice = Some((now + NOTICE, why));
        true
    }

    /// Applies the rate changes so far.
    pub(super) fn change_rate(&mut self, rate_changes: &[RateChange]) {
        let begin = Nanos::ZERO + self.plan.warmup;
        if let (Some(planned), Some(rate)) = (&self.planned, self.plan.load.adjustable_rate()) {
            *rate = planned.with_changes(begin, rate_changes);
        }
    }

    /// The message of a key, or what the stopped run waits for.
    pub(super) fn notice(&self) -> Option<&str> {
        let notice = self.notice.filter(|&(until, _)| self.live.now < until).map(|(_, why)| why);
        let drains = self.stopping == Some(Stopping::Drain);
        notice.or_else(|| self.ending.as_deref().filter(|_| drains))
    }

    fn remember(&mut self, last: &Interval) {
        let newest = self.history.back();
        if newest.is_some_and(|n| n.begin >= last.begin && n.length >= last.length) {
            return;
        }
        // The intervals of a long run double; merge the older ones in pairs, as the report does.
        while let Some(newest) = self.history.back()
            && newest.length < last.length
        {
            let length = newest.length * 2;
            self.join(last.begin, length);
        }
        self.history.retain(|i| i.begin < last.begin);
        self.history.push_back(last.clone());
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
    }

    /// Merges the intervals into intervals of this length, aligned to `grid`.
    fn join(&mut self, grid: Nanos, length: Span) {
        let mut joined: VecDeque<Interval> = VecDeque::with_capacity(HISTORY_MAX);
        for part in self.history.drain(..) {
            let before = grid.since(part.begin).0.div_ceil(length.0) * length.0;
            let begin = Nanos(grid.0.saturating_sub(before));
            match joined.back_mut() {
                Some(whole) if whole.begin == begin => whole.cell.merge(&part.cell),
                _ => joined.push_back(Interval { begin, length, cell: part.cell }),
            }
        }
        self.history = joined;
    }

    /// The rates of the last second.
    pub(super) fn rates(&self) -> Rates {
        let (Some(then), Some(now)) = (self.recent.front(), self.recent.back()) else {
            return Rates::default();
        };
        let seconds = now.at.since(then.at).as_secs_f64();
        if seconds <= 0.0 {
            return Rates::default();
        }
        let per_second = |a: u64, b: u64| b.saturating_sub(a) as f64 / seconds;
        let sent = now.lag.count.saturating_sub(then.lag.count);
        let work = |i: usize| {
            let before = then.work.get(i).copied().unwrap_or_default();
            (now.work[i] - before).as_secs_f64() / seconds
        };
        let busy: Vec<f64> = (0..now.work.len()).map(work).collect();
        Rates {
            started: per_second(then.started, now.started),
            replies: per_second(then.replies, now.replies),
            failed: per_second(then.failed, now.failed),
            lag: (sent > 0).then(|| Span((now.lag.sum_ns - then.lag.sum_ns) / sent)),
            busiest: busy.iter().copied().fold(0.0, f64::max),
            cpu: busy.iter().sum(),
            own: (now.own - then.own).as_secs_f64() / seconds,
        }
    }

    /// The current target rate of the plan, if it has one.
    pub(super) fn target_rate(&self) -> Option<f64> {
        self.plan.target_rate(self.live.now)
    }

    /// The progress of a run that ends after a number of requests or sessions: started and total.
    /// `None` with a warm-up, as its requests do not count and cannot be distinguished here.
    fn counted(&self) -> Option<(u64, u64)> {
        let stop = &self.plan.stop;
        let wanted = stop.requests.map(|n| (self.live.started, n));
        wanted
            .or_else(|| stop.sessions.map(|n| (self.live.sessions, n)))
            .filter(|_| self.plan.warmup.0 == 0)
    }

    /// The completed share of the run, 0 to 1, if it is known.
    pub(super) fn share(&self) -> Option<f64> {
        let by_time = self.plan.length().map(|whole| {
            let whole = (whole + self.plan.warmup).as_secs_f64();
            self.live.now.since(Nanos::ZERO).as_secs_f64() / whole
        });
        let by_count = self.counted().map(|(done, all)| done as f64 / all as f64);
        let shares = by_time.into_iter().chain(by_count);
        shares.reduce(f64::max).map(|share| share.clamp(0.0, 1.0))
    }

    /// The remaining time of the run.
    pub(super) fn left(&self) -> Left {
        let plan = &self.plan;
        let by_time =
            plan.length().map(|whole| (Nanos::ZERO + plan.warmup + whole).since(self.live.now));
        let share = self.share().unwrap_or(0.0);
        if self.stopping.is_some() || by_time == Some(Span::ZERO) || share >= 1.0 {
            return Left::Drain;
        }
        let gone = self.live.now.since(Nanos::ZERO).as_secs_f64();
        let by_count = self.counted().filter(|&(done, _)| done > 0).map(|(done, all)| {
            Span::from_secs_f64(gone / done as f64 * all.saturating_sub(done) as f64)
        });
        match (by_time, by_count) {
            (Some(left), Some(about)) if left <= about => Left::Time(left),
            (_, Some(about)) => Left::About(about),
            (Some(left), None) => Left::Time(left),
            (None, None) => Left::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
