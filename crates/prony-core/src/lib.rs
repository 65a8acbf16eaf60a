//! The pure part of prony: a [`plan::Plan`], a seed and a sequence of (input, time) determine its
//! outputs.
//!
//! Nothing here opens a socket, reads a clock, starts a thread or iterates over a hash map in
//! random order. A driver (prony-io on a real kernel, prony-sim in virtual time) does the I/O and
//! calls a [`machine::Machine`]: `engine::Engine` is the client; the servers are in prony-server.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

// The derive macro of `merge` names this crate from outside.
extern crate self as prony_core;

mod check;
pub mod director;
pub mod engine;
pub mod events;
pub mod fault;
pub mod feed;
pub mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod http2;
pub mod layer;
pub mod machine;
pub mod merge;
pub mod messages;
pub mod meter;
pub mod plain;
pub mod plan;
pub mod proto;
pub mod rate;
pub mod record;
pub mod rng;
pub mod schedule;
pub mod script;
pub mod secret;
pub mod target;
pub mod threshold;
pub mod tokenizer;
pub mod units;
pub mod vars;
pub mod websocket;
