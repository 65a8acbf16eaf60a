//! One load on several hosts. A *driver* splits the plan, agrees on a start with *workers*, and
//! merges their reports. They exchange lines of JSON ([`protocol`]); an *engine*
//! ([`engine::Engine`]) only starts the workers and carries the lines.
//!
//! All figures come from the workers' reports, which [`prony_run::merge`] merges. The driver does
//! not use times that a worker measured, except to report when a lost worker stopped.

pub mod aggregator;
pub mod carrier;
pub mod clocks;
pub mod driver;
pub mod engine;
mod group;
pub mod local;
mod lost;
pub mod protocol;
pub mod relay;
pub mod together;
pub mod tree;
pub mod view;
pub mod worker;
