//! When requests are intended to start: a pure function of plan, seed and shard, never of the replies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::units::{Nanos, Span};

/// A rate over time: pieces one after another, each constant or a linear ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RatePlan {
    /// The pieces in order. Only the last may be without an end.
    pub pieces: Vec<RatePiece>,
}

/// One piece of a rate plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePiece {
    /// Arrivals per second at its start.
    pub from: f64,
    /// Arrivals per second at its end; equal to `from` where it is constant.
    pub to: f64,
    /// Its length; `None` = without an end (constant, and the last).
    pub length: Option<Span>,
}

/// The law by which arrivals fall around the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly: arrival k where the integral of the rate reaches k.
    Fixed,
    /// A Poisson process with that rate (time-dependent where the rate is).
    Poisson,
    /// Gaps drawn uniformly between the two; needs no rate.
    Uniform(Span, Span),
    /// These times since the start, ascending; needs no rate, ends by itself.
    Trace(Arc<[Span]>),
}

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

/// The arrivals of one share of an open-loop plan, in order, ending where the plan's stop rules end them.
///
/// The warm-up runs at the rate with which the plan begins (a trace: none; its times count from the end of the warm-up)
/// and precedes the plan.
#[derive(Clone, Debug)]
pub struct Schedule {
    _todo: (),
}

impl Schedule {
    /// The schedule of this share of the plan; a closed-loop plan has an empty one.
    pub fn new(plan: &Plan) -> Self {
        let _ = plan;
        todo!()
    }

    /// The next arrival, if any is left.
    pub fn peek(&self) -> Option<Arrival> {
        todo!()
    }

    /// Take the next arrival.
    pub fn pop(&mut self) -> Option<Arrival> {
        todo!()
    }

    /// When the load ends (the stop rule's or the plan's own end, warm-up included); `None` where only a request count
    /// ends it or it is not known beforehand.
    pub fn end(&self) -> Option<Nanos> {
        todo!()
    }
}

impl RatePlan {
    /// The asked rate at a moment after the plan's start, per second; 0 after its end.
    pub fn rate_at(&self, t: Span) -> f64 {
        let _ = t;
        todo!()
    }

    /// Its length; `None` where the last piece has no end.
    pub fn length(&self) -> Option<Span> {
        todo!()
    }

    /// How many arrivals it asks for in its first `t`.
    pub fn arrivals_until(&self, t: Span) -> f64 {
        let _ = t;
        todo!()
    }
}
