//! What moves over a connection of the client: carriers in [`proto`], which make bytes of exchanges
//! and exchanges of bytes, and layers below them in [`layer`]: TLS, or a tunnel through a proxy.
//!
//! Nothing here opens a socket, reads a clock or starts a thread.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod layer;
pub mod proto;
