//! What the figures of a run mean: a [`summary::Summary`] of merged tallies with its verdict and
//! thresholds, the search for a [`capacity`], and the [`comparison`] of two versions.
//!
//! As pure as prony-core: no clock, no thread, no file, no randomness without a seed.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

pub mod capacity;
pub mod comparison;
pub mod summary;
