//! The verdict on a run: whether its figures are valid, and what limited it. A pure function of the
//! summary. `docs/terms.md` defines the verdicts, `docs/verdict.md` explains the limits.

mod bottleneck;
mod measured;
mod pressure;
mod stationary;
#[cfg(test)]
mod tests;

use prony_base::fault::{Fault, FaultClass};
use prony_base::units::Span;
use prony_plan::plan::{Load, Think};
use prony_tally::record::hist::Hist;
use prony_tally::record::{StreamTime, Tally};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::confidence::Goal;
pub use bottleneck::{Bottleneck, Queued, Waiting};
pub use measured::LateSend;
use measured::STATEMENT_MIN;
pub use stationary::{Change, Figure};

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Verdict {
    /// No reason against the figures is known.
    Valid,
    /// The meter was the bottleneck, or part of it.
    ClientLimited,
    /// A part of the load was never offered.
    Partial,
    /// Half of the requests or more failed, or the target was unavailable.
    TargetFailed,
    /// The user stopped the run early.
    Interrupted,
    /// The target changed during the run.
    NotStationary,
    /// The sample is too small for the requested percentile or precision.
    TooShort,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgment {
    /// The verdict of the first reason.
    pub verdict: Verdict,
    /// The reasons, the most important first; empty if the run is valid.
    pub reasons: Vec<Reason>,
}

/// A reason for a verdict other than `VALID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// A worker was busy for more than 90 % of the time.
    CpuSaturated {
        /// Index of the busiest worker.
        worker: usize,
        /// The share of its wall time in which it was busy, 0 to 1.
        share: f64,
    },
    /// The sent rate was below 99 % of the target rate, because of the meter.
    RateMissed {
        /// The rate at which requests were due, per second.
        target: f64,
        /// The sent rate, per second.
        sent: f64,
    },
    /// The send lag is over 100 us and over 10 % of the median of the times that begin with the
    /// send: its p99, or the highest percentile that the sample supports.
    SendLag {
        /// What was sent late.
        #[serde(default)]
        sent: LateSend,
        /// The percentile, 0 to 100; `None`: the mean, as the sample is too small for any.
        #[serde(default = "p99")]
        percentile: Option<f64>,
        /// This percentile of the send lag.
        #[serde(alias = "p99")]
        lag: Span,
        /// The time that begins with the send; `None`: the response time of requests, or the time
        /// between two messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<StreamTime>,
        /// Its median; its mean if `percentile` is `None`, or if it is the time between messages.
        #[serde(alias = "response_p50")]
        typical: Span,
    },
    /// A resource of the meter was exhausted: faults of the class `Meter`.
    ResourceExhausted {
        /// The fault.
        fault: Fault,
        /// The number of requests that failed with it.
        requests: u64,
    },
    /// A quota throttled the process for more than 1 % of the run.
    CpuThrottled {
        /// The throttled time, over all processors.
        time: Span,
        /// Its share of the run; above 1 if several processors were throttled.
        share: f64,
    },
    /// The host took more than 5 % of the processor time for which there was work.
    CpuStolen {
        /// The stolen time, over all processors that the process may use.
        time: Span,
        /// Its share, 0 to 1.
        share: f64,
    },
    /// A worker waited in a run queue: on average for more than 10 % of the mean service time, or
    /// for more than 10 % of its own time while it was busy for most of the rest.
    RunQueueDelay {
        /// Index of the worker.
        worker: usize,
        /// The share of its time, 0 to 1.
        share: f64,
        /// The mean wait.
        wait: Span,
    },
    /// An event loop was late for more than 5 % of its checks, on average by more than 10 % of the
    /// median service time.
    EventLoopStall {
        /// Index of the worker.
        worker: usize,
        /// The share of its late checks, 0 to 1.
        share: f64,
        /// The mean delay of these.
        late: Span,
        /// The longest delay.
        longest: Span,
    },
    /// The two sides of Little's law differ: the meter has lost time, or has a defect.
    LittlesLawMismatch {
        /// The mean number of requests in flight, from counters and the times of events.
        counted: f64,
        /// The same, from the times of the requests.
        timed: f64,
    },
    /// One of several hosts was (part of) the bottleneck.
    OnHost {
        /// Its name.
        host: String,
        /// Why, by its own figures alone.
        reason: Box<Self>,
    },
    /// A part of the load was never offered: shards are missing, or hosts were lost.
    Partial {
        /// The share of the load that was offered, 0 to 1.
        offered: f64,
        /// The shards (from 0) without a report.
        missing: Vec<u32>,
        /// The number of shards of the plan.
        shards: u32,
        /// The hosts that were lost during the run.
        lost: Vec<String>,
    },
    /// More than 1 % of the lines of a log could not be read, so their requests were not sent.
    UnreadLines {
        /// Their number.
        unread: u64,
        /// All lines of the log that are neither empty nor comments.
        lines: u64,
    },
    /// Half or more of the requests that ended failed, or of the sessions of the plan, and not
    /// because of the meter.
    Failures {
        /// The share of requests, 0 to 1.
        share: f64,
        /// The share of sessions, 0 to 1; `None` if the plan has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<f64>,
        /// The most frequent cause.
        fault: Fault,
    },
    /// The target was unavailable: because no connection could be opened, the users of a closed
    /// loop spent more than 10 % of their time in waits before retries.
    TargetUnavailable {
        /// The share of their time, 0 to 1.
        share: f64,
        /// The most frequent fault of the connections.
        fault: Fault,
    },
    /// The user stopped the run early.
    Interrupted,
    /// A figure had a step change or a drift.
    LevelShift(Change),
    /// Response times are autocorrelated over so much of the run that it is worth a single
    /// independent sample.
    Autocorrelated {
        /// The power of the slowest cosines relative to faster ones.
        redness: f64,
    },
    /// Too few samples lie beyond the requested percentile.
    TooFewSamples {
        /// The percentile, 0 to 100.
        percentile: f64,
        /// The sample size that it needs.
        needs: u64,
        /// The sample size.
        samples: u64,
    },
    /// The confidence interval of a figure is wider than its goal.
    IntervalTooWide {
        /// The figure and the goal.
        goal: Goal,
        /// The distance to the further end of its confidence interval, as a share of the figure;
        /// `None` if it has no interval.
        reach: Option<f64>,
    },
}

/// A worker is saturated above this share of its time.
const BUSY_MAX: f64 = 0.9;
/// The sent rate must be at least this share of the target rate.
const SENT_MIN: f64 = 0.99;
/// Above this share of lines of a log that could not be read, its load is not that of the log.
const UNREAD_MAX: f64 = 0.01;
/// Above this share of failures, the times are those of a minority of the requests.
const FAILED_MIN: f64 = 0.5;
/// The target was unavailable if users waited for more than this share of their time ...
const UNAVAILABLE_MAX: f64 = 0.1;
/// ... and, all users together, for at least this time.
const UNAVAILABLE_MIN: Span = Span::from_millis(100);

/// The percentile in reports that do not name it.
fn p99() -> Option<f64> {
    Some(99.0)
}

impl Verdict {
    /// The verdict as printed in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::ClientLimited => "CLIENT-LIMITED",
            Self::Partial => "PARTIAL",
            Self::TargetFailed => "TARGET-FAILED",
            Self::Interrupted => "INTERRUPTED",
            Self::NotStationary => "NOT-STATIONARY",
            Self::TooShort => "TOO-SHORT",
        }
    }
}

impl Judgment {
    /// Whether the run is valid.
    pub fn is_valid(&self) -> bool {
        self.verdict == Verdict::Valid
    }
}

impl Reason {
    /// The verdict that follows from the reason.
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::CpuSaturated { .. }
            | Self::RateMissed { .. }
            | Self::SendLag { .. }
            | Self::ResourceExhausted { .. }
            | Self::CpuThrottled { .. }
            | Self::CpuStolen { .. }
            | Self::RunQueueDelay { .. }
            | Self::EventLoopStall { .. }
            | Self::LittlesLawMismatch { .. }
            | Self::OnHost { .. } => Verdict::ClientLimited,
            Self::Partial { .. } | Self::UnreadLines { .. } => Verdict::Partial,
            Self::Failures { .. } | Self::TargetUnavailable { .. } => Verdict::TargetFailed,
            Self::Interrupted => Verdict::Interrupted,
            Self::LevelShift(_) | Self::Autocorrelated { .. } => Verdict::NotStationary,
            Self::TooFewSamples { .. } | Self::IntervalTooWide { .. } => Verdict::TooShort,
        }
    }
}

impl Summary {
    /// The verdict and its reasons. Reasons of the meter come first; if there are any, nothing is
    /// said about the target. A target that failed is not tested for changes.
    pub fn verdict(&self) -> Judgment {
        let mut reasons = self.reasons_of_load();
        if reasons.is_empty() {
            reasons.extend(self.dominant_failures().or_else(|| self.target_unavailable()));
        }
        let tests_target = reasons.is_empty();
        if self.run.interrupted && self.plan_has_end() {
            reasons.push(Reason::Interrupted);
        }
        if tests_target {
            let changed = stationary::change(self).map(Reason::LevelShift);
            reasons.extend(changed.or_else(|| stationary::correlated(self)));
        }
        reasons.extend(self.too_few_samples());
        reasons.extend(self.wide_intervals());
        if reasons.is_empty() {
            reasons.extend(self.no_percentile());
        }
        let verdict = reasons.first().map_or(Verdict::Valid, Reason::verdict);
        Judgment { verdict, reasons }
    }

    /// Whether the run is valid, or has only few samples because its plan asked for no more:
    /// users who send two requests get their report, and no error.
    pub fn has_what_was_asked(&self, judgment: &Judgment) -> bool {
        let (t, run, stop) = (&self.main, &self.run, &self.plan.stop);
        let sessions = t.sessions.as_ref().map_or(0, |sessions| sessions.started);
        let is_whole = stop.requests.is_some_and(|n| t.started >= n)
            || stop.sessions.is_some_and(|n| sessions >= n)
            || run.replay.is_some();
        let is_short = matches!(judgment.reasons[..], [Reason::TooFewSamples { .. }]);
        judgment.is_valid() || (is_whole && is_short && run.percentile.is_none())
    }

    /// The reasons that concern the load: the meter was late or lost something, or a part of the
    /// load was not offered.
    pub(super) fn reasons_of_load(&self) -> Vec<Reason> {
        let mut reasons: Vec<Reason> =
            self.littles_law_mismatch().into_iter().chain(self.exhausted_resources()).collect();
        // In so short a run, startup and shutdown dominate.
        if self.run.hosts.is_some() {
            reasons.extend(self.host_limits());
        } else if self.measured() >= STATEMENT_MIN {
            reasons.extend(self.cpu_saturated());
            reasons.extend(self.cpu_pressure_reasons());
        }
        reasons.extend(self.rate_missed());
        reasons.extend(self.send_lag_too_long());
        reasons.extend(self.partial_limit());
        reasons.extend(self.unread_lines());
        reasons
    }

    /// Whether the plan itself ends the run.
    fn plan_has_end(&self) -> bool {
        let stop = &self.plan.stop;
        let endless = stop.requests == Some(u64::MAX);
        !(endless && stop.duration.is_none() && stop.sessions.is_none())
    }

    /// The exhausted resources of the meter, in warm-up or measurement.
    fn exhausted_resources(&self) -> impl Iterator<Item = Reason> {
        let tallies = || self.warmup.iter().chain([&self.main]);
        Fault::ALL.into_iter().filter(|f| f.is_meters_own()).filter_map(move |fault| {
            let count = |t: &Tally| t.fault(fault) + t.stray[fault as usize];
            let requests = tallies().map(count).sum();
            (requests > 0).then_some(Reason::ResourceExhausted { fault, requests })
        })
    }

    fn cpu_saturated(&self) -> Option<Reason> {
        let (worker, share) = self.busiest()?;
        (share > BUSY_MAX).then_some(Reason::CpuSaturated { worker, share })
    }

    fn rate_missed(&self) -> Option<Reason> {
        let sent = self.sent_rate()?;
        let target = self.main.per_second(self.main.started);
        (sent < target * SENT_MIN).then_some(Reason::RateMissed { target, sent })
    }

    /// The requests of a log that were not sent, as their lines could not be read.
    fn unread_lines(&self) -> Option<Reason> {
        let (unread, lines) = self.run.replay.as_ref()?.unread();
        let is_much = unread as f64 > UNREAD_MAX * lines as f64;
        is_much.then_some(Reason::UnreadLines { unread, lines })
    }

    /// Half of the requests or sessions failed. Failures of the plan itself are not the target's.
    fn dominant_failures(&self) -> Option<Reason> {
        let t = &self.main;
        let targets = Fault::ALL.into_iter().filter(|f| {
            !matches!(f.class(), FaultClass::Meter | FaultClass::Script) && t.fault(*f) > 0
        });
        let failed: u64 = targets.clone().map(|f| t.fault(f)).sum();
        // A request that was given up is a consequence of another failure, not a cause.
        let fault = targets.max_by_key(|&f| (f != Fault::GivenUp, t.fault(f)))?;
        let share = failed as f64 / (t.replies + failed) as f64;
        // A session that fails early has made few of its requests, so the share of sessions counts
        // too, unless the plan itself failed in more requests than the target.
        let plans = Fault::ALL.into_iter().filter(|f| f.class() == FaultClass::Script);
        let made = plans.map(|f| t.fault(f)).sum::<u64>() < failed;
        let asked_for = |_: &_| made && !self.run.connections_as_sessions;
        let of_sessions = t.sessions.as_ref().filter(asked_for);
        let sessions =
            of_sessions.map(|s| s.failed as f64 / (s.completed + s.failed).max(1) as f64);
        let most = share.max(sessions.unwrap_or_default());
        (most >= FAILED_MIN).then_some(Reason::Failures { share, sessions, fault })
    }

    /// Failures that cost time rather than requests: retries back off exponentially, so a target
    /// that is unavailable for half of the run fails only a few requests.
    fn target_unavailable(&self) -> Option<Reason> {
        let t = &self.main;
        let &Load::Closed { connections, think: Think::None } = &self.plan.load else {
            return None;
        };
        // Independent clients do not try again.
        if self.plan.clients.is_some() {
            return None;
        }
        // Connections that end before any reply are as good as none, once they were held back.
        let held = t.connections.held;
        let of_none = |f| held > 0 && matches!(f, Fault::ClosedEarly | Fault::Reset);
        let of_connects = |f: Fault| f.class() == FaultClass::Connect || f == Fault::ConnectTimeout;
        let unconnected =
            Fault::ALL.into_iter().filter(|&f| (of_connects(f) || of_none(f)) && t.fault(f) > 0);
        let failed: u64 = unconnected.clone().filter(|f| of_connects(*f)).map(|f| t.fault(f)).sum();
        let failed = failed + held;
        let fault = unconnected.max_by_key(|&f| t.fault(f))?;
        let users =
            self.plan.shard.share_of(u64::from(connections)) as f64 * f64::from(self.plan.pipeline);
        let all = users * t.window().as_secs_f64();
        let idle = (users - t.concurrency()).max(0.0) * t.window().as_secs_f64();
        // Users also wait without failures, for example for a protocol handshake. The maximum
        // backoff bounds the time that failures explain.
        let away = idle.min((Load::AWAY_MAX * failed).as_secs_f64());
        let share = away / all;
        let gone = t.sessions.is_none() && away >= UNAVAILABLE_MIN.as_secs_f64();
        (gone && share > UNAVAILABLE_MAX).then_some(Reason::TargetUnavailable { share, fault })
    }

    /// The goals that the figures of the report miss, whatever was measured during the load.
    fn wide_intervals(&self) -> Vec<Reason> {
        let goals = self.run.until.iter().flat_map(|until| &until.goals);
        let missed = goals.filter(|goal| !goal.is_reached(&self.main));
        let limit =
            |&goal: &Goal| Reason::IntervalTooWide { goal, reach: goal.reach(&self.main).ok() };
        missed.map(limit).collect()
    }

    /// So little was measured that no percentile is known. A part of a load is judged as a whole.
    fn no_percentile(&self) -> Option<Reason> {
        let (t, run) = (&self.main, &self.run);
        if run.part.is_some() || run.interrupted || t.started == 0 {
            return None;
        }
        let in_streams = StreamTime::ALL.into_iter().filter_map(|kind| t.times_in_streams(kind));
        let counts = in_streams.chain([&t.times.response, &t.times.message_lag]).map(Hist::count);
        // The figures of a language model are those of its replies, however many tokens they have.
        let samples = match &t.tokens {
            Some(_) => t.replies,
            None => counts.fold(t.replies, u64::max),
        };
        let needs = Hist::samples_needed(0.5);
        (samples < needs).then_some(Reason::TooFewSamples { percentile: 50.0, needs, samples })
    }

    fn too_few_samples(&self) -> Option<Reason> {
        let percentile = self.run.percentile?;
        let samples = self.main.times.response.count();
        let needs = Hist::samples_needed(percentile / 100.0);
        (samples < needs).then_some(Reason::TooFewSamples { percentile, needs, samples })
    }
}
