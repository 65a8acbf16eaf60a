//! The planned load of each interval of a partial run, and what was offered of it.

use prony_stats::summary::{self, Summary};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Offered {
    start_ns: u64,
    length_ns: u64,
    planned: f64,
    offered: u64,
}

pub(super) fn offered(summary: &Summary) -> Vec<Offered> {
    let line = |row: summary::Offered| {
        let summary::Offered { at, length, planned, offered } = row;
        Offered { start_ns: at.0, length_ns: length.0, planned, offered }
    };
    summary.offered().into_iter().map(line).collect()
}
