//! The round-trip latency tests of ACE.

pub mod histogram;
