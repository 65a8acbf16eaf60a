//! What the screen tells: a running load, as the latest glances at it add up. Knows nothing of
//! terminals.

use std::collections::VecDeque;

use prony_core::plan::Plan;
use prony_core::record::LagSoFar;
use prony_core::schedule::{RatePlan, Steer};
use prony_core::units::{Nanos, Span};
use prony_io::{Interval, Live};
use prony_report::text;

use super::wheel::Helm;

/// How long a notice stands.
const NOTICE: Span = Span::from_secs(4);
/// What rates of this moment are taken over.
const WINDOW: Span = Span::from_secs(1);
/// As many intervals as the widest screen has columns, and some.
const HISTORY_MAX: usize = 600;

/// All that the screen tells.
#[derive(Debug)]
pub(super) struct State {
    pub(super) plan: Plan,
    /// What is loaded, and how.
    pub(super) target: String,
    pub(super) load: String,
    /// The newest glance.
    pub(super) live: Live,
    /// Glances of the last second or so, oldest first.
    recent: VecDeque<Glance>,
    /// The intervals so far, oldest first, all of one length.
    pub(super) history: VecDeque<Interval>,
    /// How the user has asked the run to end.
    pub(super) stopping: Option<Stopping>,
    /// What a run that was stopped waits for.
    pub(super) ending: Option<String>,
    /// Whether the help is shown.
    pub(super) help: bool,
    /// The rate as it was planned, where it can be changed; that of `plan` has the changes.
    planned: Option<RatePlan>,
    pub(super) helm: Helm,
    /// What a key could not do, and until when that is told.
    notice: Option<(Nanos, &'static str)>,
}

/// How a run that was stopped ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopping {
    /// What is in flight is waited for.
    Drain,
    /// At once.
    Now,
}

/// The counters of one moment.
#[derive(Clone, Debug, Default)]
struct Glance {
    at: Nanos,
    started: u64,
    replies: u64,
    failed: u64,
    lag: LagSoFar,
    /// CPU time of the busiest worker's thread, and of all.
    work: Vec<Span>,
    /// CPU time of the thread that shows all this.
    own: Span,
}

/// The rates of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Requests wanted, per second.
    pub(super) started: f64,
    /// Requests answered as expected, per second.
    pub(super) replies: f64,
    /// Requests failed, per second.
    pub(super) failed: f64,
    /// The mean send lag; `None` where nothing was sent.
    pub(super) lag: Option<Span>,
    /// The share of its time that the busiest worker works, and that of all together: 1 = a core.
    pub(super) busiest: f64,
    pub(super) cpu: f64,
    /// The share of a core that showing takes.
    pub(super) own: f64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    /// So much time.
    Time(Span),
    /// So much time if it goes on as so far.
    About(Span),
    /// Nothing more starts: the last replies are waited for.
    Drain,
    /// Nobody knows.
    Unknown,
}

impl State {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            target: text::target_of(plan),
            load: text::load(plan),
            plan: plan.clone(),
            live: Live::default(),
            recent: VecDeque::new(),
            history: VecDeque::new(),
            stopping: None,
            ending: None,
            help: false,
            planned: plan.load.clone().steerable().cloned(),
            helm: Helm::default(),
            notice: None,
        }
    }

    /// The load stands so; `own` is the CPU time of the calling thread so far.
    pub(super) fn see(&mut self, live: &Live, own: Span) {
        let detail = live.detail.as_ref();
        self.recent.push_back(Glance {
            at: live.now,
            started: live.started,
            replies: live.replies,
            failed: live.failed,
            lag: detail.map(|d| d.lag).unwrap_or_default(),
            work: detail.map(|d| d.work.clone()).unwrap_or_default(),
            own,
        });
        // One glance that is as old as the window stays.
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

    /// A key was pressed; whether it is one that changes the rate. Where it cannot, that is told.
    pub(super) fn press(&mut self, key: u8) -> bool {
        let mut wheel = self.helm.wheel;
        if !wheel.press(key) {
            return false;
        }
        let now = self.live.now;
        let why = if !self.is_steerable() {
            "p + - need an open loop with fixed or Poisson arrivals"
        } else if now < Nanos::ZERO + self.plan.warmup {
            "p + - wait for the end of the warm-up, which keeps its rate"
        } else if self.stopping.is_some() {
            "the run is ending: nothing starts any more"
        } else {
            self.helm.wheel = wheel;
            return true;
        };
        self.notice = Some((now + NOTICE, why));
        true
    }

    /// The rate was changed so far.
    pub(super) fn steer(&mut self, steers: &[Steer]) {
        let begin = Nanos::ZERO + self.plan.warmup;
        if let (Some(planned), Some(rate)) = (&self.planned, self.plan.load.steerable()) {
            *rate = planned.steered(begin, steers);
        }
    }

    /// What a key could not do; else what the end of the run waits for.
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
        // A long run's intervals double: the older ones are joined in pairs, as the report's are.
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

    /// Join the intervals to such of that length, one of which begins at `grid`.
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

    /// The rate that the plan asks for now, if it asks for one.
    pub(super) fn asked(&self) -> Option<f64> {
        self.plan.target_rate(self.live.now)
    }

    /// How much of what ends the run by its number has started, and how much there is. Requests of
    /// a warm-up do not count towards it, and are not told apart while the run goes on.
    fn counted(&self) -> Option<(u64, u64)> {
        let stop = &self.plan.stop;
        let wanted = stop.requests.map(|n| (self.live.started, n));
        wanted
            .or_else(|| stop.sessions.map(|n| (self.live.sessions, n)))
            .filter(|_| self.plan.warmup.0 == 0)
    }

    /// The share of the run that is over, 0 to 1, where that can be told.
    pub(super) fn share(&self) -> Option<f64> {
        let by_time = self.plan.length().map(|whole| {
            let whole = (whole + self.plan.warmup).as_secs_f64();
            self.live.now.since(Nanos::ZERO).as_secs_f64() / whole
        });
        let by_count = self.counted().map(|(done, all)| done as f64 / all as f64);
        let shares = by_time.into_iter().chain(by_count);
        shares.reduce(f64::max).map(|share| share.clamp(0.0, 1.0))
    }

    /// What is left of the run.
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
