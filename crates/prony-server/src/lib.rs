//! The servers of prony as machines without sockets: [`serve`] is the target server, [`echo`] the
//! responder of round trips, and [`tls_server`] adds TLS to either.
//!
//! As pure as prony-core: no clock, no thread, no file, no randomness without a seed.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

pub mod echo;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod serve;
mod slots;
pub mod tls_server;
