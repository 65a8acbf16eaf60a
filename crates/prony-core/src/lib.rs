//! The pure part of prony: a [`plan::Plan`], a seed and a sequence of (input, time) determine its
//! outputs.
//!
//! Nothing here opens a socket, reads a clock, starts a thread or iterates over a hash map in
//! random order. A driver (prony-io on a real kernel, prony-sim in virtual time) does the I/O and
//! calls a [`machine::Machine`]: `engine::Engine` is the client; the servers are in prony-server.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

pub use prony_base::{
    director, fault, feed, frame, grpc, http2, machine, merge, meter, plain, rng, secret, units,
    websocket,
};
pub use prony_plan::{
    events, messages, plan, rate, schedule, script, target, threshold, tokenizer, vars,
};
pub use prony_proto::{layer, proto};
pub use prony_tally::record;

pub mod engine;
