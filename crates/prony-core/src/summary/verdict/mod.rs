//! Whether the figures of a run can be defended, and what held them where they are: a pure function
//! of the summary.

mod bound;
mod held;
mod stationary;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::Summary;
use super::confidence::Goal;
use crate::fault::{Fault, FaultClass};
use crate::plan::{Load, Think};
use crate::record::Tally;
use crate::record::hist::Hist;
use crate::units::Span;
pub use bound::{Bound, Queued, Waiting};
pub use stationary::{Change, Figure};

/// The one word on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Verdict {
    /// Nothing is known that stands against the figures.
    Valid,
    /// The meter itself was (part of) the bottleneck.
    ClientLimited,
    /// Half of the requests or more failed.
    TargetFailed,
    /// The user ended the run before its time.
    Interrupted,
    /// The target was not the same from begin to end.
    NotStationary,
    /// The sample cannot carry the percentile, or the closeness, that was asked for.
    TooShort,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The word: that of the first reason.
    pub verdict: Verdict,
    /// Why, each a fact, the weightiest first; empty where the run is valid.
    pub reasons: Vec<Limit>,
}

/// One reason for which figures cannot be defended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "kebab-case")]
pub enum Limit {
    /// A worker was busy for more than 90 % of the time.
    Busy {
        /// Index of the busiest worker.
        worker: usize,
        /// Its share of busy time, 0 to 1.
        share: f64,
    },
    /// Less than 99 % of the asked rate was achieved, because of the client.
    Rate {
        /// Requests per second asked.
        asked: f64,
        /// Requests per second sent.
        achieved: f64,
    },
    /// p99 of the send lag is over 100 us and over 10 % of the response time's median.
    Lag {
        /// p99 of the send lag.
        p99: Span,
        /// Median response time.
        response_p50: Span,
    },
    /// The meter ran out of something: faults of the class `Meter`.
    RanOut {
        /// Which.
        fault: Fault,
        /// How many requests failed of it.
        requests: u64,
    },
    /// A quota kept the process from running for more than 1 % of the run.
    Throttled {
        /// For how long, over all processors.
        time: Span,
        /// Its share of the run; over 1 where it was kept from several processors.
        share: f64,
    },
    /// The host took more than 5 % of the processor time that there was work for.
    Stolen {
        /// How much, over all processors that the process may use.
        time: Span,
        /// Its share, 0 to 1.
        share: f64,
    },
    /// A worker waited for a processor: on average for more than 10 % of the mean service time, or
    /// for more than 10 % of its own time while it was busy for the most of the rest.
    Waited {
        /// Index of the worker.
        worker: usize,
        /// The share of its time, 0 to 1.
        share: f64,
        /// How long it waited on average.
        wait: Span,
    },
    /// An event loop came back late, in more than 5 % of the cases and by more than 10 % of the
    /// median service time on average.
    Stalled {
        /// Index of the worker.
        worker: usize,
        /// The share of the moments at which it was late, 0 to 1.
        share: f64,
        /// How late it was then, on average.
        late: Span,
        /// The latest that it was.
        longest: Span,
    },
    /// The requests under way, counted from event to event, are not what their times add up to
    /// (Little's law): the meter has lost time, or has a defect.
    Audit {
        /// How many were under way on average, as they were counted.
        counted: f64,
        /// The same from their times.
        timed: f64,
    },
    /// Half or more of the requests that ended failed, or of the sessions that the plan asks for,
    /// and not by the meter's fault.
    Failed {
        /// The share of requests, 0 to 1.
        share: f64,
        /// The share of sessions, 0 to 1; `None` where the plan asks for none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<f64>,
        /// The most frequent cause.
        fault: Fault,
    },
    /// The target was away: the users of a closed loop waited to try again for more than 10 % of
    /// their time, as no connection could be opened.
    Gone {
        /// The share of their time, 0 to 1.
        share: f64,
        /// What most connections failed of.
        fault: Fault,
    },
    /// The user ended the run.
    Stopped,
    /// A figure drifted or stepped.
    Changed(Change),
    /// Response times hang together over a good part of the run, so that it is like a single one of
    /// them.
    Correlated {
        /// How many times stronger the slowest waves in them are than faster ones.
        redness: f64,
    },
    /// Too few samples lie beyond the percentile that was asked for.
    Short {
        /// The percentile, 0 to 100.
        percentile: f64,
        /// The samples that it needs.
        needs: u64,
        /// The samples that there are.
        samples: u64,
    },
    /// A figure is not known as closely as was asked for.
    Loose {
        /// The figure, and how closely.
        goal: Goal,
        /// How far the further end of its confidence interval is from it, as a share of it; `None`
        /// where it has none.
        reach: Option<f64>,
    },
}

/// A worker is busy from this share of its time on.
const BUSY_MAX: f64 = 0.9;
/// The requests from which on there is a statement about the meter's time at all.
const STATEMENT_MIN: u64 = 20;
/// The least share of the asked rate that must be achieved.
const ACHIEVED_MIN: f64 = 0.99;
/// The send lag's p99 matters from here on ...
const LAG_MIN: Span = Span::from_micros(100);
/// ... and from this share of the median response time on.
const LAG_SHARE: f64 = 0.1;
/// From this share on most requests failed, and the times are those of a minority.
const FAILED_MIN: f64 = 0.5;
/// From this share of the users' time on a target was away for a part of the run ...
const GONE_MAX: f64 = 0.1;
/// ... and from this long on, all users together.
const GONE_MIN: Span = Span::from_millis(100);

impl Verdict {
    /// The word, as reports have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::ClientLimited => "CLIENT-LIMITED",
            Self::TargetFailed => "TARGET-FAILED",
            Self::Interrupted => "INTERRUPTED",
            Self::NotStationary => "NOT-STATIONARY",
            Self::TooShort => "TOO-SHORT",
        }
    }
}

impl Judgement {
    /// Whether nothing stands against the figures.
    pub fn is_valid(&self) -> bool {
        self.verdict == Verdict::Valid
    }
}

impl Limit {
    /// The verdict that the reason leads to.
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::Busy { .. }
            | Self::Rate { .. }
            | Self::Lag { .. }
            | Self::RanOut { .. }
            | Self::Throttled { .. }
            | Self::Stolen { .. }
            | Self::Waited { .. }
            | Self::Stalled { .. }
            | Self::Audit { .. } => Verdict::ClientLimited,
            Self::Failed { .. } | Self::Gone { .. } => Verdict::TargetFailed,
            Self::Stopped => Verdict::Interrupted,
            Self::Changed(_) | Self::Correlated { .. } => Verdict::NotStationary,
            Self::Short { .. } | Self::Loose { .. } => Verdict::TooShort,
        }
    }
}

impl Summary {
    /// Whether the figures can be defended, and why not. The meter's own limits come first: where
    /// it was short of means or time, nothing is said of the target. Nor is a target that failed
    /// asked whether it stayed the same.
    pub fn verdict(&self) -> Judgement {
        let mut reasons: Vec<Limit> =
            self.audit_limit().into_iter().chain(self.ran_out()).collect();
        // A handful of requests is all beginning and end, and says nothing about the rest.
        if self.started() >= STATEMENT_MIN {
            reasons.extend(self.busy_limit());
            reasons.extend(self.held_limits());
        }
        reasons.extend(self.rate_limit());
        reasons.extend(self.lag_limit());
        if reasons.is_empty() {
            reasons.extend(self.failed_limit().or_else(|| self.gone_limit()));
        }
        let judged_alone = reasons.is_empty();
        if self.run.interrupted && self.has_an_end() {
            reasons.push(Limit::Stopped);
        }
        if judged_alone {
            let changed = stationary::change(self).map(Limit::Changed);
            reasons.extend(changed.or_else(|| stationary::correlated(self)));
        }
        reasons.extend(self.short_limit());
        reasons.extend(self.loose_limits());
        let verdict = reasons.first().map_or(Verdict::Valid, Limit::verdict);
        Judgement { verdict, reasons }
    }

    /// Whether anything but the user was to end the run.
    fn has_an_end(&self) -> bool {
        let stop = &self.plan.stop;
        let endless = stop.requests == Some(u64::MAX);
        !(endless && stop.duration.is_none() && stop.sessions.is_none())
    }

    /// What the meter ran out of, in warm-up or measurement.
    fn ran_out(&self) -> impl Iterator<Item = Limit> {
        let tallies = || self.warmup.iter().chain([&self.main]);
        Fault::ALL.into_iter().filter(|f| f.is_meters_own()).filter_map(move |fault| {
            let count = |t: &Tally| t.fault(fault) + t.stray[fault as usize];
            let requests = tallies().map(count).sum();
            (requests > 0).then_some(Limit::RanOut { fault, requests })
        })
    }

    /// Requests wanted, in warm-up and measurement.
    fn started(&self) -> u64 {
        self.warmup.iter().chain([&self.main]).map(|t| t.started).sum()
    }

    fn busy_limit(&self) -> Option<Limit> {
        let (worker, share) = self.busiest()?;
        (share > BUSY_MAX).then_some(Limit::Busy { worker, share })
    }

    fn rate_limit(&self) -> Option<Limit> {
        let achieved = self.sent_rate()?;
        let asked = self.main.per_second(self.main.started);
        (achieved < asked * ACHIEVED_MIN).then_some(Limit::Rate { asked, achieved })
    }

    fn lag_limit(&self) -> Option<Limit> {
        let times = &self.main.times;
        // Where the sample is too small for a p99, the highest quantile that it carries stands in
        // for it.
        let n = times.lag.count();
        let q = (1.0 - 10.0 / n as f64).min(0.99);
        let p99 = times.lag.estimate(q).filter(|_| q >= 0.5)?;
        let response_p50 = times.response.quantile(0.5)?;
        let over = p99 > LAG_MIN && p99.0 as f64 > LAG_SHARE * response_p50.0 as f64;
        over.then_some(Limit::Lag { p99, response_p50 })
    }

    /// Errors dominate. What the plan itself could not make is not the target's.
    fn failed_limit(&self) -> Option<Limit> {
        let t = &self.main;
        let targets = Fault::ALL.into_iter().filter(|f| {
            !matches!(f.class(), FaultClass::Meter | FaultClass::Script) && t.fault(*f) > 0
        });
        let failed: u64 = targets.clone().map(|f| t.fault(f)).sum();
        // A request that is given up is a consequence, and not a cause.
        let fault = targets.max_by_key(|&f| (f != Fault::GivenUp, t.fault(f)))?;
        let share = failed as f64 / (t.replies + failed) as f64;
        // A session that fails early has made few of its requests. Where the plan itself could not
        // make more than the target has failed, it is not the target's.
        let plans = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Script);
        let made = plans.map(|f| t.fault(f)).sum::<u64>() < failed;
        let asked_for = |_: &_| made && !self.run.connections_as_sessions;
        let of_sessions = t.sessions.as_ref().filter(asked_for);
        let sessions =
            of_sessions.map(|s| s.failed as f64 / (s.completed + s.failed).max(1) as f64);
        let most = share.max(sessions.unwrap_or_default());
        (most >= FAILED_MIN).then_some(Limit::Failed { share, sessions, fault })
    }

    /// Failures that cost time rather than requests: who cannot connect tries again ever more
    /// seldom, so that a target which is away for half of the run fails a handful of requests.
    fn gone_limit(&self) -> Option<Limit> {
        let t = &self.main;
        let &Load::Closed { connections, think: Think::None } = &self.plan.load else {
            return None;
        };
        let unconnected = Fault::ALL.into_iter().filter(|&f| {
            (f.class() == FaultClass::Connect || f == Fault::ConnectTimeout) && t.fault(f) > 0
        });
        let failed: u64 = unconnected.clone().map(|f| t.fault(f)).sum();
        let fault = unconnected.max_by_key(|&f| t.fault(f))?;
        let users = f64::from(connections) * f64::from(self.plan.pipeline);
        let all = users * t.window().as_secs_f64();
        let idle = (users - t.concurrency()).max(0.0) * t.window().as_secs_f64();
        // Users also wait where nothing has failed, as for a greeting: not that long, each.
        let away = idle.min((Load::AWAY_MAX * failed).as_secs_f64());
        let share = away / all;
        let gone = t.sessions.is_none() && away >= GONE_MIN.as_secs_f64();
        (gone && share > GONE_MAX).then_some(Limit::Gone { share, fault })
    }

    /// The goals that the figures do not reach, whatever was seen of them while the load ran.
    fn loose_limits(&self) -> Vec<Limit> {
        let goals = self.run.until.iter().flat_map(|until| &until.goals);
        let loose = goals.filter(|goal| !goal.is_reached(&self.main));
        let limit = |&goal: &Goal| Limit::Loose { goal, reach: goal.reach(&self.main).ok() };
        loose.map(limit).collect()
    }

    fn short_limit(&self) -> Option<Limit> {
        let percentile = self.run.percentile?;
        let samples = self.main.times.response.count();
        let needs = Hist::samples_needed(percentile / 100.0);
        (samples < needs).then_some(Limit::Short { percentile, needs, samples })
    }
}
