//! The pure part of prony: given a [`plan::Plan`], a seed and a sequence of (input, time), its
//! outputs are fixed.
//!
//! Nothing here opens a socket, reads a clock, starts a thread or iterates a hash map in its random
//! order. A driver (prony-io on a real kernel, prony-sim in virtual time) owns the bytes' way to
//! the network and calls a [`machine::Machine`]; `engine::Engine` is the client side,
//! `serve::Serve` the target server, `echo::Echo` the responder of the round-trip tests;
//! `shield::Shield` puts either of the latter behind TLS.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

mod check;
pub mod echo;
pub mod engine;
pub mod fault;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod layer;
pub mod machine;
pub mod plan;
pub mod proto;
pub mod rate;
pub mod record;
pub mod rng;
pub mod schedule;
pub mod script;
pub mod secret;
pub mod serve;
pub mod shield;
pub mod summary;
pub mod target;
pub mod units;
pub mod vars;
