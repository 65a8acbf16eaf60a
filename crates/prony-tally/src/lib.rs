//! What a worker counts: the [`record::Recorder`], and the [`record::Tally`] that it makes.
//!
//! Nothing here opens a socket, reads a clock or starts a thread.

#![forbid(unsafe_code)]
#![warn(clippy::iter_over_hash_type)]

pub mod record;
