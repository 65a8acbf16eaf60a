//! The stages of the rate plan.

use prony_stats::summary::{self, StageFigures, Summary};
use serde::Serialize;

use super::{Between, ns};

/// A piece of the rate plan or a part of a ramp, and the figures of the whole intervals in it.
#[derive(Serialize)]
pub(super) struct Stage {
    start_ns: u64,
    length_ns: u64,
    from: f64,
    to: f64,
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct Measured {
    start_ns: u64,
    length_ns: u64,
    target_rate: f64,
    rate: f64,
    started: u64,
    replies: u64,
    failed: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    ci95: Intervals,
}

#[derive(Serialize)]
struct Intervals {
    rate: Between,
    p50_ns: Between,
    p99_ns: Between,
}

pub(super) fn stages(summary: &Summary) -> Vec<Stage> {
    summary.stages().into_iter().map(Stage::from).collect()
}

impl From<summary::Stage> for Stage {
    fn from(stage: summary::Stage) -> Self {
        let summary::Stage { at, length, from, to, figures } = stage;
        let measured = figures.map(Measured::from);
        Self { start_ns: at.0, length_ns: length.0, from, to, measured }
    }
}

impl From<StageFigures> for Measured {
    fn from(f: StageFigures) -> Self {
        Self {
            start_ns: f.at.0,
            length_ns: f.length.0,
            target_rate: f.target_rate,
            rate: f.rate,
            started: f.started,
            replies: f.replies,
            failed: f.failed,
            p50_ns: ns(f.p50),
            p99_ns: ns(f.p99),
            ci95: Intervals {
                rate: f.rate_interval.into(),
                p50_ns: f.p50_interval.into(),
                p99_ns: f.p99_interval.into(),
            },
        }
    }
}
