//! The requests of one name.

use std::collections::BTreeMap;

use prony_stats::summary::interval_of_name;
use prony_tally::record::{NameTally, Tally};
use serde::Serialize;

use super::{Between, Times};

#[derive(Serialize)]
pub(super) struct Named<'a> {
    name: &'a str,
    started: u64,
    replies: u64,
    failed: u64,
    /// Requests that started per second.
    rate: f64,
    statuses: &'a BTreeMap<u16, u64>,
    response: Times,
    service: Times,
    /// Of the response time.
    ci95: NamedIntervals,
}

#[derive(Serialize)]
struct NamedIntervals {
    p50_ns: Between,
    p90_ns: Between,
    p99_ns: Between,
}

impl<'a> Named<'a> {
    pub(super) fn of(name: &'a str, t: &'a NameTally, all: &Tally) -> Self {
        let [p50_ns, p90_ns, p99_ns] = [0.5, 0.9, 0.99].map(|q| interval_of_name(all, t, q).into());
        Self {
            name,
            started: t.started,
            replies: t.replies,
            failed: t.failed,
            rate: all.per_second(t.started),
            statuses: &t.statuses,
            response: Times::of(&t.response),
            service: Times::of(&t.service),
            ci95: NamedIntervals { p50_ns, p90_ns, p99_ns },
        }
    }
}
