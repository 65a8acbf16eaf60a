//! One load on several hosts. A *driver* splits the plan, agrees on a start with *workers*, and
//! merges their reports. They exchange lines of JSON ([`protocol`]); an *engine*
//! ([`engine::Engine`]) starts the workers somewhere and carries the lines, and knows nothing else.
//!
//! All figures come from the workers' reports, which [`prony_run::merge`] makes one of. The driver
//! never looks at a time that a worker measured, except to say where a lost worker stopped.

pub mod carrier;
pub mod clocks;
pub mod driver;
pub mod engine;
pub mod local;
mod lost;
pub mod protocol;
pub mod worker;
