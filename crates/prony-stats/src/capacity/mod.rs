//! The search for a capacity: the highest arrival rate, or number of connections, at which all
//! thresholds hold. A state machine without a clock. [`Search::step`] says which trial to run,
//! [`Search::feed`] takes what the trial has shown. `docs/capacity.md` describes the method, with
//! its sources.

mod grid;
mod likelihood;
mod observe;
mod posterior;
mod scalability;
mod search;
#[cfg(test)]
mod tests;

use prony_base::units::Span;
use prony_plan::threshold::Threshold;
use serde::Serialize;

use crate::summary::Verdict;
use crate::summary::confidence::Interval;
pub use observe::{Observed, refusal};
pub use scalability::Scalability;
pub use search::{Search, least_budget};

/// What the search varies: the level of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The arrival rate of an open loop, per second.
    #[default]
    Rate,
    /// The number of connections of a closed loop.
    Connections,
}

/// What is searched for, and within which bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the trials vary. All levels are rates, or all are numbers of connections.
    pub by: By,
    /// The highest level of a trial, at least 1.
    pub most: f64,
    /// The thresholds, at least one.
    pub thresholds: Vec<Threshold>,
    /// The level of the first trial.
    pub from: f64,
    /// The wall time of all trials together.
    pub budget: Span,
    /// Half the width of the 95 % interval at which the search ends, as a share of the capacity.
    pub precision: f64,
    /// The multiple of the capacity to measure after the search.
    pub beyond: Option<f64>,
    /// The seed of the order of the rates.
    pub seed: u64,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run a trial, and pass what it shows to [`Search::feed`].
    Run(Trial),
    /// The search is over.
    Done(Box<Answer>),
}

/// A load at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Arrivals per second, or a whole number of connections.
    pub rate: f64,
    /// The warm-up, which is not measured.
    #[serde(skip)]
    pub warmup: Span,
    /// The length of the measurement.
    #[serde(skip)]
    pub length: Span,
    /// Its purpose.
    pub purpose: Purpose,
    /// Its number, from 0.
    pub number: u64,
}

/// Why a trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To find two rates, a factor of two apart, with the capacity between them.
    Bracket,
    /// To estimate the capacity.
    Estimate,
    /// To see whether the target has recovered from an overload.
    Probe,
    /// To measure the throughput of a closed loop, for the Universal Scalability Law.
    Curve,
    /// To measure beyond the capacity.
    Beyond,
}

/// A figure with its 95 % confidence interval, as far as there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure: nanoseconds, a share of 1, or per second.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
}

/// The figures of one trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The trial.
    #[serde(flatten)]
    pub trial: Trial,
    /// The length of its measurement in seconds.
    pub seconds: f64,
    /// The requests that started.
    pub requests: u64,
    /// The median response time, in nanoseconds.
    pub p50: Estimate,
    /// The 99th percentile of the response time, in nanoseconds.
    pub p99: Estimate,
    /// The share of requests that failed.
    pub errors: Estimate,
    /// Completed requests per second.
    pub goodput: Estimate,
    /// For each threshold its excess: the share of requests beyond the limit over the share that is
    /// allowed, or a figure over its limit. `None` if it has none, or no end.
    pub excess: Vec<Option<f64>>,
    /// Whether each threshold holds; `None` where the trial does not show it.
    pub holds: Vec<Option<bool>>,
    /// Whether the target kept up with the arrivals.
    pub kept_up: bool,
    /// The verdict on the trial.
    pub verdict: Verdict,
    /// Whether the search uses it. It does not if the load generator or the connection limit was
    /// the limit, except if the thresholds held by far although the load generator was late.
    pub counts: bool,
    /// Why the load generator was the limit, or late, as a sentence.
    pub remark: Option<String>,
}

/// What stops the target beyond its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Requests queue in the target.
    Queueing,
    /// Requests fail.
    Errors,
    /// The network loses segments.
    Network,
    /// The figure passes its limit without any of these.
    Threshold,
}

/// What kept the search from higher rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The load generator.
    Meter,
    /// The connection limit.
    Connections,
    /// The budget.
    Budget,
}

/// Why there is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The budget ended before a trial showed anything.
    Budget,
}

/// What the search has found. Rates are arrivals per second, or numbers of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// The capacity.
    Capacity {
        /// Its estimate.
        rate: f64,
        /// Its 95 % interval, with the variance between trials.
        interval: Interval,
        /// The index of the threshold that is missed first.
        threshold: usize,
        /// What stops the target.
        stop: Stop,
        /// How much longer the search would take to reach the accuracy that was asked for, in
        /// seconds; `None` if it has reached it.
        more_seconds: Option<f64>,
    },
    /// The thresholds hold up to this rate, and the search could not show more.
    AtLeast {
        /// The rate; `None` if even the lowest rate was not valid.
        rate: Option<f64>,
        /// What is the limit.
        limit: Limit,
    },
    /// A threshold is missed at every rate that was tried.
    Nowhere {
        /// The lowest rate that was tried.
        rate: f64,
        /// The index of the threshold.
        threshold: usize,
    },
    /// The capacity changed during the search.
    Changed {
        /// The capacity at its start.
        first: f64,
        /// The capacity at its end.
        second: f64,
    },
    /// The target did not come back to its former latency after an overload.
    NotRecovered {
        /// The highest rate at which the thresholds held before.
        held: Option<f64>,
        /// The rate of the overload.
        overload: f64,
        /// The rate of the probes.
        probe: f64,
        /// The median response time at that rate before, in nanoseconds.
        before_ns: f64,
        /// And after, in nanoseconds; `None` without a reply.
        after_ns: Option<f64>,
        /// For how long the target was probed, in seconds.
        waited: f64,
    },
    /// There is no number.
    Undecided {
        /// Why.
        lack: Lack,
        /// The highest rate at which all thresholds held, if any.
        held: Option<f64>,
        /// The lowest rate above it at which one was missed, if any.
        missed: Option<f64>,
    },
    /// The user stopped the search, or a trial could not be run.
    Interrupted {
        /// The highest rate at which all thresholds held, if any.
        held: Option<f64>,
        /// The lowest rate above it at which one was missed, if any.
        missed: Option<f64>,
        /// The estimate so far, and its 95 % interval.
        estimate: Estimate,
    },
}

/// A recovery from an overload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// The rate of the overload.
    pub overload: f64,
    /// The rate of the probes.
    pub probe: f64,
    /// The time from the end of the overload to the first probe with the former latency, in
    /// seconds.
    pub seconds: f64,
}

/// What the trials say of the binding threshold at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The level.
    pub rate: f64,
    /// The excess there ([`Point::excess`]): 1 at the capacity.
    pub excess: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// What the trials varied.
    pub by: By,
    /// What was found.
    pub finding: Finding,
    /// The trials in their order, without the probes.
    pub points: Vec<Point>,
    /// The curve of the threshold that is missed first, by level; empty without an estimate.
    pub curve: Vec<Fitted>,
    /// The recoveries from overloads.
    pub recoveries: Vec<Recovery>,
    /// Of a search by connections: the throughput at the capacity, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Estimate>,
    /// Of a search by connections: how the throughput depends on their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scalability: Option<Scalability>,
    /// The time that the search took, in seconds.
    pub seconds: f64,
}

impl Answer {
    /// The point beyond the capacity, if it was measured.
    pub fn beyond(&self) -> Option<&Point> {
        self.points.iter().rfind(|p| p.trial.purpose == Purpose::Beyond)
    }
}
