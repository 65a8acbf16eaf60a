//! What every part of prony knows: units, faults, randomness, the trait of machines, and the bytes
//! that both sides of a protocol share.
//!
//! Nothing here opens a socket, reads a clock or starts a thread.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

// The derive macro of `merge` names this crate from outside.
extern crate self as prony_base;

pub mod director;
pub mod fault;
pub mod feed;
pub mod frame;
pub mod grpc;
pub mod http2;
pub mod machine;
pub mod merge;
pub mod meter;
pub mod plain;
pub mod rng;
pub mod secret;
#[cfg(test)]
mod testing;
pub mod units;
pub mod websocket;
