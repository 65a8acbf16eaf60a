//! A plan as data, already valid: the target, the load, the requests with their templates and
//! checks; and what follows from it alone: the times at which requests are due, and what sessions
//! do with their replies.
//!
//! Nothing here opens a socket, reads a clock or starts a thread.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

mod check;
pub mod events;
pub mod messages;
pub mod plan;
pub mod rate;
pub mod schedule;
pub mod script;
pub mod target;
#[cfg(test)]
#[path = "../../prony-base/src/testing.rs"]
mod testing;
pub mod threshold;
pub mod tokenizer;
pub mod vars;
