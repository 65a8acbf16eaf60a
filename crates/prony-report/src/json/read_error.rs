//! Why a saved report cannot be loaded.

use super::SCHEMA;
use super::place::place;

/// Why a text is not a saved report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not JSON, or does not have the fields of a report.
    #[error("this is not a JSON report of prony: {}", place(.0))]
    Shape(#[from] serde_json::Error),
    /// A later version saved it.
    #[error("this report has schema {0}, but this prony reads schema {SCHEMA}: use a newer one")]
    Schema(u64),
    /// Its histograms need too much memory.
    #[error("the histograms of this report need more than 1 GiB of memory, the most that is used")]
    Memory,
    /// Its counters contradict each other.
    #[error("this is not a valid report of prony: its counts contradict each other")]
    Counts,
    /// It is that of a plan with phases.
    #[error("this is the report of a plan with phases, which `prony report FILE` shows alone")]
    Phases,
}
